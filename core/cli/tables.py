"""The tables of :mod:`v6t.analysis.tables.rfc` on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from v6t.analysis.remarks import remarks
from v6t.analysis.sheet import Record, Sheet
from v6t.analysis.tables.rfc import sheets

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["drawn", "remarks", "tables"]


_LONG = 40
"""Cells above this length are sentences and may be broken."""


def tables(records: Sequence[Record]) -> list[Table]:
    """Tables of the benchmarks that were measured, in the order of their first record."""
    return [drawn(sheet.narrow()) for sheet in sheets(records)]


def drawn(sheet: Sheet) -> Table:
    """A table for a terminal; what users wrote is no markup."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(sheet.title), title_justify="left")
    for place, column in enumerate(sheet.columns):
        justify: Any = "right" if column.number else "left"
        long = max((len(row[place]) for row in sheet.rows), default=0) > _LONG
        table.add_column(escape(column.name), justify=justify, no_wrap=not long)
    for row in sheet.rows:
        table.add_row(*map(escape, row))
    return table
