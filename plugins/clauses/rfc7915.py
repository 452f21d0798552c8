"""What all clauses of RFC 7915 have in common."""

from __future__ import annotations

from collections.abc import Callable

from v6t.plugins.clauses.base import Clause, Exchange, Level
from v6t.plugins.clauses.base import clause as placed

RFC = "RFC 7915"


def clause(
    section: str,
    name: str,
    level: Level,
    title: str,
    exchange: Callable[[], Exchange],
    *,
    rare: bool = False,
) -> Clause:
    """A clause of this RFC."""
    return placed(RFC, section, name, level, title, exchange, rare=rare)
