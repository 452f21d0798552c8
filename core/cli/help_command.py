"""``v6t help``."""

from __future__ import annotations

import click
from v6t.core.cli.options import Command


@click.command(cls=Command)
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Print the help of COMMAND, for example `v6t help dut plan`, or the list of commands."""
    parent = ctx.find_root()
    for word in words:
        if not isinstance(parent.command, click.Group):
            break
        _, inner, _ = parent.command.resolve_command(parent, [word])
        if inner is None:
            break
        parent = click.Context(inner, info_name=word, parent=parent)
    click.echo(parent.command.get_help(parent))
