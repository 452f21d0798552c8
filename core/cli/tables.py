"""Tables on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from v6t.analysis.sheet import Sheet
from v6t.profiles.plain_text import visible

if TYPE_CHECKING:
    from rich.table import Table


_LONG = 40
"""Cells above this length are sentences and may be broken."""


def drawn(sheet: Sheet) -> Table:
    """A table for a terminal; what users wrote is no markup."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(visible(sheet.title)), title_justify="left")
    if sheet.notes:
        table.caption = escape(visible("\n".join(sheet.notes)))
        table.caption_justify = "left"
    for place, column in enumerate(sheet.columns):
        justify: Any = "right" if column.number else "left"
        long = max((len(row[place]) for row in sheet.rows), default=0) > _LONG
        table.add_column(escape(visible(column.name)), justify=justify, no_wrap=not long)
    for row in sheet.rows:
        table.add_row(*(escape(visible(cell)) for cell in row))
    return table
