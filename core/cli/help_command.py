"""``v6t help``."""

from __future__ import annotations

import click
from v6t.core.cli.verbosity import verbosity_flags


@click.command(short_help="print the help of a command")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@verbosity_flags
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Print the help of COMMAND, for example `v6t help dut plan`, or the list of commands."""
    parent = ctx.find_root()
    found: click.Command = parent.command
    for word in words:
        if not isinstance(found, click.Group):
            break
        _, inner, _ = found.resolve_command(parent, [word])
        if inner is None:
            break
        parent = click.Context(inner, info_name=word, parent=parent)
        found = inner
    click.echo(found.get_help(parent))
