"""Groups of commands whose errors name the unknown command and the nearest known one."""

from __future__ import annotations

import click
from v6t.base.errors import UsageError
from v6t.base.text import suggest_names


class CommandGroup(click.Group):
    """A group of commands that suggests a known name for an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command.

        Raises:
            UsageError: no command has this name.
        """
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            raise UsageError(
                f"unknown command '{args[0]}'",
                suggest_names(args[0], known),
                code="unknown-command",
            )
        return super().resolve_command(ctx, args)
