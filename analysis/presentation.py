"""Presentation of a benchmark: table, figures, quantities, warnings and clauses."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from pydantic import ValidationError
from v6t.analysis.blocks import Drawing
from v6t.analysis.figures.plots import MedianSummary, draw_points
from v6t.analysis.record import Record
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import ABSENT, SIZES_HEADING, Column, Table, format_count, make_table
from v6t.base.entry_points import describe_culprit

R = TypeVar("R", bound=Record)
T = TypeVar("T")
FOLLOWS, DEVIATES, UNKNOWN = "follows", "deviates", "not known"
AXIS_LABELS = {
    "frames per second": "frames per second per direction",
    "connections per second": "connections per second",
}
"""Labels of axes by the unit of a record."""
LOWER_BOUND = "at least"  # the figure of a headline of which only the lower bound was found


@dataclass(frozen=True)
class Card:
    """A headline number with its unit and description."""

    number: str
    unit: str
    what: str


class Percentiles(NamedTuple):
    """Median and percentiles of a quantity; None if undefined."""

    median: float | None
    p1: float | None
    p99: float | None


@dataclass(frozen=True)
class Quantity:
    """A quantity of a record, the source of comparisons, trends, summaries and cards.

    Attributes:
        values: of the repetitions; None where a lost frame decides. Empty: it is not compared.
        headline: name in a summary of a campaign: the name of the benchmark where that is enough,
            :data:`LOWER_BOUND` for a lower bound; empty: it is left out there.
    """

    name: str  # in comparisons and trends; empty: it is not compared
    unit: str
    values: Sequence[float | None]
    more_is_better: bool = True
    resolution: float = 0.0  # by how much a true value may lie above a measured one
    limited: bool = False  # whether the tester or the medium, not the device, decided
    at: str = ""  # load at which it was measured; empty where the figure is a load
    share: bool = False  # whether it is a share already: then differences say more than factors
    headline: str = ""
    summary: MedianSummary | None = None  # median and percentiles there
    load_covered: bool = True  # whether the self-test covers the load at which it was measured
    card: Card | None = None  # on the first page of a report; None: not there

    @property
    def is_comparable(self) -> bool:
        """Whether runs are compared by it."""
        return bool(self.name and self.values)

    @property
    def defined_values(self) -> list[float]:
        """Values of the repetitions that have one."""
        return [v for v in self.values if v is not None]


class TableRow(NamedTuple):
    """A row of a table: part of a record, with variant and direction (None: as the whole record)."""

    record: Any
    value: Any
    direction: str | None = None
    case: str = ""


@dataclass(frozen=True)
class Ruling:
    """A ruling on a clause: its source, what it asks, what the run did, and the verdict."""

    source: str
    asked: str
    done: str
    verdict: str


def judge(source: str, asked: str, done: str, follows: bool | Sequence[bool] | None) -> Ruling:
    """Judge whether a run follows a clause.

    Args:
        follows: whether the run follows it, or each of its trials does; None or empty: not known.
    """
    if isinstance(follows, Sequence):
        follows = all(follows) if follows else None
    return Ruling(
        source, asked, done, UNKNOWN if follows is None else FOLLOWS if follows else DEVIATES
    )


MAX_CURVES = 7  # lines in one figure; more are drawn in further figures


def split_into_figures(rows: Sequence[tuple[tuple[str, ...], R]]) -> Iterator[list[R]]:
    """Divide records into figures; a label replaces the direction of each record."""
    lines: dict[str, list[R]] = {}
    for labels, record in rows:
        label = " ".join([*labels, record.direction])
        lines.setdefault(label, []).append(record.model_copy(update={"direction": label}))
    for some in split_batches(list(lines), MAX_CURVES):
        yield [record for label in some for record in lines[label]]


def split_batches(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield slices of at most ``size`` values."""
    return (values[first : first + size] for first in range(0, len(values), size))


class Presentation(Generic[R]):
    """Display of the results of one benchmark; its methods get measured records."""

    name: ClassVar[str]  # as for `--measure`
    record: ClassVar[type[Record]] = Record  # the model of its records
    metrics: ClassVar[Mapping[str, str]] = {}
    """metrics of ``published.json`` that it measures, each with the name of its result"""

    columns: ClassVar[Sequence[Column[Any]]] = ()
    """of its table; none: every single value of the record"""

    def list_rows(self, records: Sequence[R]) -> Iterable[Any]:
        """Yield the rows of the main table: records, or a :class:`TableRow` for each direction."""
        for record in records:
            directions: Mapping[str, Any] | None = getattr(record, "directions", None)
            if directions is None:
                yield record
            else:
                yield from (
                    TableRow(record, value, direction) for direction, value in directions.items()
                )

    def list_notes(self, records: Sequence[R]) -> Iterable[str]:
        """Yield the notes below the main table."""
        return ()

    def make_main_table(self, records: Sequence[R]) -> Table:
        """Make the main table, in the form of its RFC."""
        title, rows = records[0].title, list(self.list_rows(records))
        if self.columns:
            return make_table(title, rows, self.columns, self.list_notes(records))
        plain = [_list_values(r) for r in records]
        keys = dict.fromkeys(key for values in plain for key in values)
        columns: list[Column[tuple[R, dict[str, str | float]]]] = [
            Column(SIZES_HEADING, lambda row: row[0].sizes, text=True),
            Column("direction", lambda row: row[0].direction, text=True),
            *(
                Column(key.replace("_", " "), lambda row, key=key: str(row[1].get(key, ABSENT)))
                for key in keys
            ),
            Column("repetitions", lambda row: str(row[0].repetitions)),
        ]
        return make_table(title, list(zip(records, plain, strict=True)), columns)

    def make_tables(self, records: Sequence[R]) -> Iterator[Table]:
        """Yield the tables of the benchmark."""
        yield self.make_main_table(records)

    def make_brief_tables(self, records: Sequence[R]) -> Iterator[Table]:
        """Yield short tables for the end of a run."""
        yield from self.make_tables(records)

    def draw_figures(self, data: RunData, records: Sequence[R]) -> Iterator[Drawing]:
        """Yield figures of the report of a run."""
        yield from ()

    def draw_lead(self, data: RunData, records: Sequence[R]) -> Iterator[Drawing]:
        """Yield figures for the first section of the report."""
        yield from ()

    def draw_traces(self, data: RunData, records: Sequence[R]) -> Iterator[Drawing]:
        """Yield figures of single trials for the end of the report."""
        yield from ()

    def draw_overlays(
        self, rows: Sequence[tuple[tuple[str, ...], R]], name: str, line_rate_bps: float
    ) -> Iterator[Drawing]:
        """Yield figures of the records of several runs, each with the values in which its run differs."""
        rates = [
            (", ".join([*labels, record.sizes, record.direction]), record)
            for labels, record in rows
            if record.as_rate_record
        ]
        if len(rates) > 1:
            unit = AXIS_LABELS[rates[0][1].unit or ""]
            caption = f"{rates[0][1].title}: median, bars from P1 to P99, {unit}."
            yield Drawing(draw_points(rates, unit, f"{name}-points"), caption, caption)

    def define_quantity(self, records: Sequence[R]) -> str:
        """Return a sentence that defines the quantity; empty if its name suffices."""
        return ""

    def list_quantities(self, record: R) -> Iterator[Quantity]:
        """Yield the quantities of a record, the source of comparisons, summaries, trends and cards."""
        yield from ()

    def list_reported(self, record: R) -> Iterator[Quantity]:
        """Yield the quantities that the RFC requires in reports."""
        return (result for result in self.list_quantities(record) if result.is_comparable)

    def list_loopback_values(self, record: R) -> Mapping[str, float | None]:
        """Return the values of the tester alone, without a device, by headline."""
        return {}

    def format_value(self, value: float | None) -> str:
        """Format a figure for a table."""
        return format_count(value)

    def find_warnings(self, record: R) -> Iterator[tuple[str, str]]:
        """Yield warnings about a record: a code and a sentence each."""
        yield from ()

    def check_clauses(self, data: RunData, records: Sequence[R]) -> Iterator[Ruling]:
        """Compare the run with the clauses of its RFCs; ``records`` may be empty."""
        yield from ()

    def accepts(self, record: Record) -> bool:
        """Check whether a record was measured and has the model of this benchmark."""
        return record.measured and isinstance(record, self.record)


class UnknownPresentation(Presentation[Record]):
    """Display of records whose benchmark is not installed."""

    name = ""

    def find_warnings(self, record: Record) -> Iterator[tuple[str, str]]:
        """Warn that the meaning of the values is unknown."""
        yield (
            "unknown-benchmark",
            f"the benchmark '{record.benchmark}' is not installed, or of another version: what stands "
            "here are all single values of the record, settings and offered rates among them",
        )


class Presentations:
    """Presentations of all benchmarks by name.

    Errors in a presentation of another distribution go to ``failures``, with its name, file and line.
    """

    def __init__(self, known: Iterable[Presentation[Any]]) -> None:
        self.failures: list[str] = []
        self.known = {p.name: _guard_methods(p, self.failures) for p in known}
        self._unknown = UnknownPresentation()

    def has_presentation(self, record: Record) -> bool:
        """Check whether the benchmark of a record is installed."""
        return self.find(record) is not self._unknown

    def find(self, record: Record) -> Presentation[Any]:
        """Return the presentation of a record."""
        presentation = self.known.get(record.benchmark, self._unknown)
        return (
            presentation if presentation.accepts(record) or not record.measured else self._unknown
        )

    def group_records(
        self, records: Sequence[Record]
    ) -> Iterator[tuple[Presentation[Any], list[Any]]]:
        """Yield the records of each benchmark in the order of their first one, also without a number."""
        groups: dict[tuple[str, Presentation[Any]], list[Any]] = {}
        for record in records:
            groups.setdefault((record.benchmark, self.find(record)), []).append(record)
        yield from ((presentation, group) for (_, presentation), group in groups.items())

    def group_measured(
        self, records: Sequence[Record]
    ) -> Iterator[tuple[Presentation[Any], list[Any]]]:
        """Yield the measured records of each benchmark."""
        groups = ((p, [r for r in group if r.measured]) for p, group in self.group_records(records))
        yield from ((presentation, group) for presentation, group in groups if group)

    def read_record(self, values: Mapping[str, Any]) -> Record:
        """Read a record of ``results.json`` of any version.

        Raises:
            ValidationError: a field that all records share is missing.
        """
        known = self.known.get(str(values.get("benchmark")))
        if known is not None and not values.get("not_measured"):
            try:
                return known.record.model_validate(values)
            except ValidationError:  # of another version: shown as it stands
                pass
        return Record.model_validate(values)


def _guard_methods(presentation: Presentation[Any], failures: list[str]) -> Presentation[Any]:
    """Make a presentation fall back to the default methods where its own ones fail."""
    for name, default in inspect.getmembers(Presentation, inspect.isfunction):
        method = getattr(presentation, name)
        guarded = partial(_call_method, method, partial(default, presentation), failures)
        setattr(presentation, name, guarded)
    return presentation


def _call_method(
    method: Callable[..., Any], default: Callable[..., Any], failures: list[str], *arguments: Any
) -> Any:
    try:
        value = method(*arguments)
    except Exception as exc:
        if not _note_failure(exc, failures):
            raise
        return default(*arguments)
    if isinstance(value, Iterator):
        return _iterate_values(value, partial(default, *arguments), failures)
    return value


def _iterate_values(
    values: Iterator[Any], default: Callable[[], Iterator[Any]], failures: list[str]
) -> Iterator[Any]:
    try:
        yield from values
    except Exception as exc:
        if not _note_failure(exc, failures):
            raise
        yield from default()


def _note_failure(exc: Exception, failures: list[str]) -> bool:
    """Add the message about a failure of another distribution; return False for errors of v6t."""
    message = describe_culprit(exc)
    if message is not None and message not in failures:
        failures.append(message)
    return message is not None


def _list_values(record: Record) -> dict[str, str | float]:
    return {
        k: v
        for k, v in record.to_json().items()
        if k not in Record.model_fields and isinstance(v, (str, int, float))
    }
