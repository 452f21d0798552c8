"""``v6t completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class
from v6t.core.cli.options import Command


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print shell completion code; for example: eval "$(v6t completion bash)".

    Use zsh the same way; in fish: v6t completion fish | source.
    """
    if completion := get_completion_class(shell):
        click.echo(completion(ctx.find_root().command, {}, "v6t", "_V6T_COMPLETE").source())
