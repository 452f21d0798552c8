"""Tables on a terminal: whole, or row by row where it is too narrow for them; nothing is cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from v6t.analysis.sheet import Column, Sheet
from v6t.base.plain_text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


_LONG = 40
"""Cells above this length are sentences and may be broken."""


def print_table(console: Console, sheet: Sheet) -> None:
    """Without the columns of wide media; below one another where the rest does not fit."""
    narrow = sheet.narrow()
    if sheet.cards or sum(width + 3 for width in _widths(narrow)) + 1 > console.width:
        _print_rows(console, narrow)
    else:
        console.print(_table(narrow))
    for note in sheet.notes:  # a terminal would break them anywhere, in figures, too
        whole = not console.is_terminal
        console.print(visible(note), highlight=False, markup=False, soft_wrap=whole)


def _widths(sheet: Sheet) -> Iterator[int]:
    """Return the least width of each column."""
    for place, column in enumerate(sheet.columns):
        cells = [row[place] for row in sheet.rows]
        lengths = [len(line) for line in (*column.name.split("\n"), *cells)]
        yield min(_LONG, max(lengths, default=0))


def _table(sheet: Sheet) -> Table:
    """Make a table in which text of users is no markup."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(visible(sheet.title)), title_justify="left")
    for place, column in enumerate(sheet.columns):
        justify: Any = "right" if not column.text else "left"
        long = max((len(row[place]) for row in sheet.rows), default=0) > _LONG
        table.add_column(escape(visible(column.name)), justify=justify, no_wrap=not long)
    for row in sheet.rows:
        table.add_row(*(escape(visible(cell)) for cell in row))
    return table


def _print_rows(console: Console, sheet: Sheet) -> None:
    """Each row by itself: what it is of, then a line for each number."""
    from rich.table import Table
    from rich.text import Text

    console.print(Text(visible(sheet.title), style="italic"))
    named = _leading(sheet.columns)
    names = [" ".join(visible(column.name).split()) for column in sheet.columns]
    width = max(map(len, names[named:]), default=0)
    for row in sheet.rows:
        head = ", ".join(
            f"{cell} {name}" if not column.text else cell
            for cell, name, column in zip(row[:named], names, sheet.columns, strict=False)
        )
        console.print(Text(visible(head), style="bold"))
        grid = Table.grid(padding=(0, 2))
        grid.add_column(width=width + 2, no_wrap=True)
        grid.add_column(overflow="fold")
        for name, cell in zip(names[named:], row[named:], strict=True):
            grid.add_row(f"  {name}", Text(visible(cell)))
        console.print(grid)


def _leading(columns: tuple[Column, ...]) -> int:
    """How many columns say what a row is of: its texts (one, if all are), or size and direction."""
    first, texts = int(not columns[0].text), 0
    for column in columns[first:]:
        if not column.text:
            break
        texts += 1
    return 1 if texts == len(columns) else first + (min(texts, 1) if first else texts)
