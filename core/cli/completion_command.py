"""``v6t completion``."""

from __future__ import annotations

import click
from v6t.base.errors import UsageError
from v6t.core.cli.verbosity import verbosity_flags


@click.command(short_help="print shell completion code")
@click.argument("shell")
@verbosity_flags
def command(shell: str) -> None:
    """Print completion code: eval "$(v6t completion bash)", likewise zsh; fish: ... | source."""
    from click.shell_completion import get_completion_class
    from v6t.core.cli.main import cli

    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"unknown shell '{shell}'", "bash, zsh or fish", code="unknown-name")
    click.echo(kind(cli, {}, "v6t", "_V6T_COMPLETE").source())
