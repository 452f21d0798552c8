"""``v6t help``."""

from __future__ import annotations

import click
from v6t.core.cli.options import Command


@click.command(cls=Command)
@click.argument("names", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Print the help of COMMAND, for example `v6t help dut plan`, or the list of commands."""
    parent = ctx.find_root()
    for name in names:
        if not isinstance(parent.command, click.Group):
            break
        _, inner, _ = parent.command.resolve_command(parent, [name])
        if inner is None:
            break
        parent = click.Context(inner, info_name=name, parent=parent)
    click.echo(parent.command.get_help(parent))
