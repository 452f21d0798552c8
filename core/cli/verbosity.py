"""The flags ``-v`` and ``-q`` of every command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from v6t.base.errors import UsageError
from v6t.core import log

F = TypeVar("F", bound=Callable[..., Any])
_GIVEN = "v6t.verbosity"
"""In a context's ``meta``: one of the two flags was given."""


def verbosity_flags(command: F) -> F:
    """Add ``-v`` and ``-q``, which set up logging before the command starts."""
    verbose = click.option(
        "-v",
        "--verbose",
        count=True,
        expose_value=False,
        callback=_configure,
        help="Show the commands sent to devices and their answers; -vv shows more.",
    )
    quiet = click.option(
        "-q",
        "--quiet",
        is_flag=True,
        expose_value=False,
        callback=_configure,
        help="Print results, paths and errors only.",
    )
    return verbose(quiet(command))


def _configure(ctx: click.Context, param: click.Parameter, value: int) -> None:
    del param
    if not value or ctx.resilient_parsing:
        return
    if ctx.meta.get(_GIVEN):
        raise UsageError(
            "-v and -q exclude each other", "leave one of them out", code="conflicting-options"
        )
    ctx.meta[_GIVEN] = True
    log.configure(log.QUIET if value is True else value)
