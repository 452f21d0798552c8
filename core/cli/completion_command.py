"""``v6t completion``."""

from __future__ import annotations

import click
from v6t.core.cli.options import Command


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print shell completion code; for example: eval "$(v6t completion bash)".

    Use zsh the same way; in fish: v6t completion fish | source.
    """
    from click.shell_completion import BashComplete, FishComplete, ZshComplete

    kind = {"bash": BashComplete, "fish": FishComplete, "zsh": ZshComplete}[shell]
    click.echo(kind(ctx.find_root().command, {}, "v6t", "_V6T_COMPLETE").source())
