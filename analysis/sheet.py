"""Tables of results, independent of the medium, formats of their numbers and meanings of their terms."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from typing import Any, Generic, TypeVar

from v6t.analysis.record import Record
from v6t.base.ethernet import compute_max_frame_rate_fps

T = TypeVar("T")
UNDEFINED, ABSENT = "undefined", "-"
_FAMILIES_LABEL = "IPv6/IPv4\n"  # begins headings of columns with a value for each IP version
SIZES_HEADING = f"{_FAMILIES_LABEL}octets"  # heading of the column of frame sizes on both links
INVALID = "invalid"  # text of a cell whose trials are all invalid


@dataclass(frozen=True)
class Column(Generic[T]):
    """A column of a table."""

    name: str  # heading, with line breaks where narrow media may break it
    value: Callable[[T], str | float | None] = str  # returns the text or number of a row
    form: str = ",.0f"  # format of numbers, as for `format`
    absent: str = UNDEFINED  # text in place of None
    text: bool = False  # whether cells are aligned to the left, as text
    wide: bool = False  # whether narrow media omit the column
    optional: bool = False  # whether the column is omitted if no row has a value

    def format_cell(self, row: T) -> str:
        """Return the text of the column in a row."""
        value = self.value(row)
        return value if isinstance(value, str) else format_number(value, self.form, self.absent)


@dataclass(frozen=True)
class Table:
    """A table of formatted cells."""

    title: str
    columns: tuple[Column[Any], ...]
    rows: tuple[tuple[str, ...], ...]  # texts of the cells
    notes: tuple[str, ...] = ()  # sentences below the table
    cards: bool = False  # whether terminals print each row as a list of named cells

    def narrow(self) -> Table:
        """Return the table without the columns that narrow media omit."""
        return self.drop_columns([i for i, column in enumerate(self.columns) if column.wide])

    def drop_columns(self, indices: Sequence[int]) -> Table:
        """Return the table without the columns of these indices."""
        kept = [i for i in range(len(self.columns)) if i not in indices]
        rows = tuple(tuple(row[i] for i in kept) for row in self.rows)
        return replace(self, columns=tuple(self.columns[i] for i in kept), rows=rows)


def make_text_columns(*names: str) -> tuple[Column[Any], ...]:
    """Make columns of left-aligned text."""
    return tuple(Column(name, text=True) for name in names)


def make_text_table(
    title: str,
    columns: Sequence[Column[Any] | str],
    rows: Iterable[Sequence[str]],
    notes: Iterable[str] = (),
) -> Table:
    """Make a table of formatted cells; a column given as a name holds numbers."""
    typed = [Column(c) if isinstance(c, str) else c for c in columns]
    return _make_table(title, typed, [list(row) for row in rows], notes)


def _make_table(
    title: str, columns: Sequence[Column[Any]], rows: list[list[str]], notes: Iterable[str]
) -> Table:
    """Make a table without empty optional columns, and with one frame size where both are equal."""
    kept = {
        place: column
        for place, column in enumerate(columns)
        if not (column.optional and all(row[place] in ("", ABSENT) for row in rows))
    }
    for place, column in kept.items():
        both = column.name.startswith(_FAMILIES_LABEL)
        if both and all(_is_one_size(row[place]) for row in rows):
            heading = "frame\noctets" if column.name == SIZES_HEADING else column.name
            kept[place] = replace(column, name=heading.removeprefix(_FAMILIES_LABEL))
            for row in rows:
                row[place] = row[place].partition("/")[0]
    cells = tuple(tuple(row[place] for place in kept) for row in rows)
    return Table(title, tuple(kept.values()), cells, tuple(notes))


def make_table(
    title: str, rows: Iterable[T], columns: Sequence[Column[T]], notes: Iterable[str] = ()
) -> Table:
    """Make a table by formatting the rows with the columns."""
    cells = [[c.format_cell(row) for c in columns] for row in rows]
    return _make_table(title, columns, cells, notes)


def _is_one_size(label: str) -> bool:
    """Check whether a label stands for frames of the same size on both links."""
    first, _, second = label.partition("/")
    return not second or first == second


def compute_medium_fps(record: Record, line_rate_bps: float) -> float:
    """Return the frame rate of the medium for the larger one of both frames [fps]."""
    sizes = record.frame_sizes
    return float(compute_max_frame_rate_fps(line_rate_bps, max(sizes.ipv6, sizes.ipv4)))


def format_number(value: float | None, form: str, absent: str = UNDEFINED) -> str:
    """Format a number as :func:`format` does, or return the text for an absent one."""
    return absent if value is None else format(value, form)


format_count = partial(format_number, form=",.0f")  # formats rates and numbers of frames
format_seconds = partial(format_number, form=",.4f")  # formats times [s]
format_percent = partial(format_number, form=".2f")  # formats dispersions and shares [%]


def pluralize(count: int, noun: str) -> str:
    """Format a number with its noun: 1 run, 2 runs, 1 quantity, 2 quantities."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1] + 'ies' if noun.endswith('y') else noun + 's'}"


def format_milliseconds(value: float | None) -> str:
    """Format a delay in milliseconds."""
    if value is None:
        return UNDEFINED
    digits = 4 if abs(value) < 10 else 2
    # a negative difference that rounds to nothing has no sign
    return f"{round(value, digits) + 0.0:,.{digits}f}"


def format_three_digits(value: float | None) -> str:
    """Format a number to three significant digits, with no decimals for values of 100 or more."""
    if value is None:
        return UNDEFINED
    rounded = float(f"{value:.2e}") if abs(value) < 100 else value
    exponent = math.floor(math.log10(abs(rounded))) if rounded else 0
    # a millionth of a millisecond is the finest resolution of a tester's clock
    return f"{rounded:,.{min(6, max(0, 2 - exponent))}f}" if rounded else "0"


# meanings of the asterisk at a result and at an offered rate
LIMITED_EXPLANATION = "limited by the tester or the medium: the device may be faster"
NOT_COVERED_EXPLANATION = (
    "at an offered rate: above the rates of the tester's self-test, the tester itself may cause loss and "
    "delay"
)


def mark_limited(number: str, limited: bool) -> str:
    """Return a number, with an asterisk if the tester or the medium limits it."""
    return f"{number} *" if limited else number


def format_offered_rate(record: Record, rate: float) -> str:
    """Return an offered rate, marked if the tester's self-test does not cover it."""
    return mark_limited(format_count(rate), rate in record.above_usable)


def explain_marks(records: Iterable[Record]) -> list[str]:
    """Explain the asterisks in tables of these records."""
    measured = [record for record in records if record.measured]
    meanings = (
        (LIMITED_EXPLANATION, any(record.limited for record in measured)),
        (NOT_COVERED_EXPLANATION, any(record.above_usable for record in measured)),
    )
    return [f"* {meaning}" for meaning, is_used in meanings if is_used]


@cache
def read_terms() -> Mapping[str, Mapping[str, str]]:
    """Read the meanings of terms by group: ``tables``, ``common`` (not in legends) and ``titles``."""
    text = files("v6t.analysis").joinpath("data/terms.json").read_text(encoding="utf-8")
    meanings: dict[str, dict[str, str]] = json.loads(text)
    return meanings


def find_terms(headings: Iterable[str], group: str = "tables") -> list[tuple[str, str]]:
    """Return the terms of a group that occur in headings, with their meanings."""
    words = {word.strip(",()+<") for heading in headings for word in heading.split()}
    text = " ".join(" ".join(heading.split()) for heading in headings)
    return [
        (term, meaning)
        for term, meaning in read_terms()[group].items()
        if term in words or (" " in term and term in text)
    ]
