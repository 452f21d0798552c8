"""Tables on a terminal: less important columns are left out where it is narrow, and no cell is cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from v6t.analysis.sheet import Column, Sheet
from v6t.base.text import escape_controls

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SENTENCE = 40
"""Cells above this length are sentences and may be wrapped."""
GAP = 2
PERCENTILES = ("P1", "P99")
LONG_TABLE = 100
"""Rows above which a table without wrapped cells is printed line by line: rich takes 1 ms for each row."""


def print_table(console: Console, sheet: Sheet) -> None:
    """Print a table that fits the console; one line for each cell where none does."""
    fitting = fit(sheet, console.width)
    if sheet.cards or fitting is None:
        _print_rows(console, sheet.narrow())
    elif len(fitting.rows) > LONG_TABLE and _has_plain_lines(fitting, console.width):
        _print_lines(console, fitting)
    else:
        console.print(_table(fitting, console.width))
    for note in sheet.notes:  # a pipe's reader wants each line whole
        console.print(
            escape_controls(note), highlight=False, markup=False, soft_wrap=not console.is_terminal
        )


def fit(sheet: Sheet, width: int) -> Sheet | None:
    """Leave out columns until a table fits: wide ones, then percentiles from the right.

    Returns:
        None if the rest is too wide even with its texts wrapped between words.
    """
    table = sheet.narrow()
    while sum(_widths(table)) > width:
        places = [i for i, c in enumerate(table.columns) if c.name in PERCENTILES]
        if not places:
            return table if sum(_widths(table, wrapped=True)) <= width else None
        table = _without(table, places[-2:])
    return table


def _without(table: Sheet, places: Sequence[int]) -> Sheet:
    kept = [i for i in range(len(table.columns)) if i not in places]
    return Sheet(
        table.title,
        tuple(table.columns[i] for i in kept),
        tuple(tuple(row[i] for i in kept) for row in table.rows),
        table.notes,
        table.cards,
    )


def _has_plain_lines(sheet: Sheet, width: int) -> bool:
    is_narrow = sum(_widths(sheet, capped=False)) <= width
    return is_narrow and not any("\n" in column.name for column in sheet.columns)


def _print_lines(console: Console, sheet: Sheet) -> None:
    from rich.text import Text

    widths = list(_widths(sheet, capped=False))
    names = (column.name for column in sheet.columns)
    for text, style in ((sheet.title, "bold"), (_align(sheet, widths, names), "dim")):
        console.print(Text(escape_controls(text), style=style))
    console.out("\n".join(_align(sheet, widths, row) for row in sheet.rows), highlight=False)


def _align(sheet: Sheet, widths: Sequence[int], cells: Iterable[str]) -> str:
    """Return the cells of a row in columns."""
    return "".join(
        " " * GAP + cell.ljust(width - GAP) if column.text else cell.rjust(width)
        for cell, width, column in zip(
            map(escape_controls, cells), widths, sheet.columns, strict=True
        )
    )


def _widths(table: Sheet, *, wrapped: bool = False, capped: bool = True) -> Iterator[int]:
    """Yield the width of each column.

    Args:
        wrapped: count only the longest word of texts.
        capped: count at most a sentence of texts, which wraps.
    """
    for place, column in enumerate(table.columns):
        parts = [column.name, *(row[place] for row in table.rows)]
        lines = [line for part in parts for line in part.split("\n")]
        if wrapped and column.text:
            lines = [word for line in lines for word in line.split()]
        longest = max(map(len, lines), default=0)
        is_whole = wrapped or not capped or not column.text
        yield GAP + (longest if is_whole else min(SENTENCE, longest))


def _table(sheet: Sheet, width: int) -> Table:
    """Make a table in which text of users is not taken as markup."""
    from rich.markup import escape
    from rich.table import Table

    title = f"[bold]{escape(escape_controls(sheet.title))}[/bold]"
    table = Table(
        title=title, title_justify="left", title_style="", box=None, padding=(0, 0, 0, GAP)
    )
    whole = sum(_widths(sheet)) <= width
    for place, column in enumerate(sheet.columns):
        justify: Any = "left" if column.text else "right"
        long = max((len(row[place]) for row in sheet.rows), default=0) > SENTENCE
        no_wrap = not column.text or (whole and not long)
        name = escape(escape_controls(column.name))
        table.add_column(name, justify=justify, no_wrap=no_wrap, header_style="dim")
    for row in sheet.rows:
        table.add_row(*(escape(escape_controls(cell)) for cell in row))
    return table


def _print_rows(console: Console, sheet: Sheet) -> None:
    """Print what each row is about, then a line for each number."""
    from rich.table import Table
    from rich.text import Text

    console.print(Text(escape_controls(sheet.title), style="bold"))
    named = _leading(sheet.columns)
    names = [" ".join(escape_controls(column.name).split()) for column in sheet.columns]
    width = max(map(len, names[named:]), default=0)
    for row in sheet.rows:
        head = ", ".join(
            cell if column.text else f"{cell} {name}"
            for cell, name, column in zip(row[:named], names, sheet.columns, strict=False)
        )
        console.print(Text(escape_controls(head), style="bold"))
        grid = Table.grid(padding=(0, GAP))
        grid.add_column(width=width + GAP, no_wrap=True)
        grid.add_column()
        for name, cell in zip(names[named:], row[named:], strict=True):
            grid.add_row(f"  {name}", Text(escape_controls(cell)))
        console.print(grid)


def _leading(columns: tuple[Column[Any], ...]) -> int:
    """Count the columns that say what a row is about: its texts (one, if all are), or size and direction."""
    first, texts = int(not columns[0].text), 0
    for column in columns[first:]:
        if not column.text:
            break
        texts += 1
    return 1 if texts == len(columns) else first + (min(texts, 1) if first else texts)
