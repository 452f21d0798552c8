"""Columns, quantities and clauses that several benchmarks share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from v6t.analysis.presentation import Card, Quantity, Ruling, TableRow, judge
from v6t.analysis.record import MedianInterval, Record
from v6t.analysis.sheet import (
    ABSENT,
    SIZES_HEADING,
    Column,
    format_count,
    format_number,
    format_offered_rate,
    mark_limited,
)
from v6t.benchmarks.base import RFC_REPETITIONS
from v6t.benchmarks.point import Point
from v6t.trials.verdict import Attempt


def _get_record(row: Any) -> Record:
    record: Record = row.record if isinstance(row, TableRow) else row
    return record


def _label_direction(row: Any) -> str:
    record, direction = _get_record(row), row.direction if isinstance(row, TableRow) else None
    return record.direction if direction is None else record.describe_direction(direction)


POINT_COLUMNS: tuple[Column[Any], ...] = (
    Column(SIZES_HEADING, lambda row: _get_record(row).sizes),
    Column("direction", _label_direction, text=True),
)
"""First columns of every table; a row is a record or a :class:`TableRow`."""
COUNTING_METHOD_COLUMN: Column[Any] = Column(
    "counted\nby", lambda row: _get_record(row).counted_by or ABSENT, wide=True, optional=True
)
"""How the tester distinguished test frames from others."""
OFFERED_RATE_COLUMN: Column[Any] = Column(
    "offered fps\nper direction",
    lambda row: format_offered_rate(_get_record(row), _get_record(row).offered_rates[0]),
)
REPETITIONS_COLUMN: Column[Any] = Column("repetitions", lambda r: str(_get_record(r).repetitions))
WIDE_REPETITIONS_COLUMN = replace(REPETITIONS_COLUMN, wide=True)


def get_row_value(row: Any) -> Any:
    """Return the part of the record that a table row shows."""
    return row.value if isinstance(row, TableRow) else row


def make_rate_columns(heading: str) -> tuple[Column[Any], Column[Any], Column[Any]]:
    """Make columns of a rate: its marked median and both percentiles."""
    return (
        Column(
            heading,
            lambda r: mark_limited(format_count(get_row_value(r).median), get_row_value(r).limited),
        ),
        Column("P1", lambda row: get_row_value(row).p1),
        Column("P99", lambda row: get_row_value(row).p99),
    )


INTERVAL_COLUMN: Column[Any] = Column(
    "95 % interval\nof the median",
    lambda row: format_interval(get_row_value(row).median_interval),
    wide=True,
)
DISPERSION_COLUMN: Column[Any] = Column(
    "dispersion\n%", lambda row: get_row_value(row).dispersion, ".2f", wide=True
)


def make_rate_quantity(
    rates: Any,
    name: str = "rate",
    unit: str = "fps",
    *,
    resolution: float = 0.0,
    headline: str = "",
    card: tuple[str, str] | None = None,
) -> Quantity:
    """Make the quantity of a rate; ``card``: unit and description on a report's first page."""
    limit = " - limited by the tester or the medium" if rates.limited else ""
    number = mark_limited(format_count(rates.median), rates.limited)
    return Quantity(
        name,
        unit,
        rates.repetition_values,
        resolution=resolution,
        limited=rates.limited,
        headline=headline,
        summary=rates,
        card=card and Card(number, card[0], card[1] + limit),
    )


def format_interval(
    bounds: MedianInterval | None, show: Callable[[float | None], str] = format_count
) -> str:
    """Format the confidence interval of a median; a dash stands for too few values."""
    if bounds is None or bounds.low is None or bounds.high is None:
        return "-"
    return f"{show(bounds.low)} to {show(bounds.high)}"


def format_match_share(value: float | None) -> str:
    """Format the share of compared frames that equal the reference translation."""
    return format_number(value, ".2%", ABSENT)


def check_repetitions(name: str, records: Sequence[Record]) -> Ruling:
    """Check that a benchmark was repeated 20 times."""
    least = min((r.repetitions for r in records), default=None)
    return judge(f"RFC 8219 section 7, {name}", f"at least {RFC_REPETITIONS} repetitions",
                 "none yet" if least is None else str(least),
                 None if least is None else least >= RFC_REPETITIONS)  # fmt: skip


def compare_minimum(
    minimum: float, values: Iterable[float], unit: str = "s"
) -> tuple[str, bool | None]:
    """Return the smallest value with its unit, and whether it is large enough."""
    least = min(values, default=None)
    if least is None:
        return "no trials recorded", None
    return f"{least:g} {unit}", least >= minimum


# meaning of the columns that all CSV files of benchmarks begin with
FIRST_CSV_COLUMNS: Mapping[str, str] = {
    "No": "number of the repetition, trial or stretch, from 1",
    "Size": "frame size on the IPv6 side with FCS, or mix of sizes [octets]",
    "Dir": "direction: `f` forward, `r` reverse, `b` both, `c` connections",
}
RATE_MEANING = "rate of the row [frames per second per direction]"
DIRECTION_MEANING = "direction of the frames counted in this row: `forward` or `reverse`"
DURATION_MEANING = "duration of the trial [s]"


def describe_search_columns(unit: str, rate: str = "rate") -> dict[str, str]:
    """Describe the CSV columns of a search; ``rate`` is the heading of the result."""
    return {
        "Initial Rate": f"upper bound of the search, its first rate [{unit}]",
        "Error": f"width of the interval that the search left open [{unit}]",
        "Date": "start of the first trial, ISO 8601, UTC",
        "Iterations": "trials of the search",
        rate: f"highest rate that passed [{unit}]",
    }


SEARCH_COLUMNS = describe_search_columns("frames per second per direction")


def describe_attempts(point: Point, attempts: Sequence[Attempt]) -> tuple[str, int]:
    """Return the start time and the number of trials of a search, for a CSV row."""
    started = point.find(attempts[0].trial.key).started if attempts else ""
    return started, len(attempts)
