"""``make man``: a manual page for every command, by click-man."""

import sys
from importlib.metadata import version
from pathlib import Path

import click
from click_man.core import write_man_pages
from v6t.core.cli.main import cli


def main(directory: Path) -> None:
    """Write the pages, for example ``v6t-run.1``."""
    directory.mkdir(parents=True, exist_ok=True)
    _load(cli, "v6t", None)
    write_man_pages("v6t", cli, version=version("v6t"), target_dir=str(directory))


def _load(command: click.Command, name: str, parent: click.Context | None) -> None:
    """Load the subcommands and options that v6t imports when they are used; click-man does not."""
    context = click.Context(command, info_name=name, parent=parent)
    command.params = command.get_params(context)
    if isinstance(command, click.Group):
        names = command.list_commands(context)
        command.commands = {n: c for n in names if (c := command.get_command(context, n))}
        for inner_name, inner in command.commands.items():
            _load(inner, inner_name, context)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
