"""Presentation of a benchmark: table, figures, quantities, warnings and clauses."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

from pydantic import ValidationError
from v6t.analysis.blocks import Drawing
from v6t.analysis.figures.plots import MedianSummary, draw_points
from v6t.analysis.record import CPS, FPS, Record
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import ABSENT, SIZES_HEADING, Column, Table, format_count, make_table
from v6t.base.entry_points import describe_culprit

R = TypeVar("R", bound=Record)
T = TypeVar("T")
RecordGroups: TypeAlias = "Iterator[tuple[Presentation[Any], list[Any]]]"  # by benchmark
FOLLOWS, DEVIATES, UNKNOWN = "follows", "deviates", "not known"
# labels of axes by the unit of a record
AXIS_LABELS: Mapping[str, str] = {
    FPS: "frames per second per direction",
    CPS: "connections per second",
}
LOWER_BOUND = "at least"  # name of a headline figure that is only a lower bound


class Card(NamedTuple):
    """A number in large type on the first page of a report."""

    number: str  # formatted value
    unit: str
    what: str  # what was measured


class Percentiles(NamedTuple):
    """Median, 1st and 99th percentile of a quantity; None if undefined."""

    median: float | None
    p1: float | None
    p99: float | None


@dataclass(frozen=True)
class Quantity:
    """A quantity of a record, the source of comparisons, trends, summaries and cards."""

    name: str  # name in comparisons and trends; empty: these omit the quantity
    unit: str
    values: Sequence[float | None]
    """Values of the repetitions; None where undefined, such as the delay of a lost frame."""
    more_is_better: bool = True  # whether a larger value is an improvement
    resolution: float = 0.0  # by how much a true value may lie above a measured one
    limited: bool = False  # whether the tester or the medium, not the device, limits the value
    load: str = ""  # load of the measurement; empty where the quantity is itself a load
    is_share: bool = False  # whether runs are compared by differences instead of factors
    headline: str = ""
    """Name in the summary of a campaign: the name of the benchmark where that is enough,
    :data:`LOWER_BOUND` for a lower bound; empty: the summary omits the quantity."""
    summary: MedianSummary | None = None  # median and percentiles in the summary of a campaign
    label: str = ""  # name in medians.csv of a quantity without name and headline
    load_covered: bool = True  # whether the tester's self-test covers the load
    card: Card | None = None  # number on the first page of a report

    @property
    def is_comparable(self) -> bool:
        """Whether comparisons and trends include the quantity."""
        return bool(self.name and self.values)

    @property
    def defined_values(self) -> list[float]:
        """Values without undefined ones."""
        return [v for v in self.values if v is not None]


class TableRow(NamedTuple):
    """A row of a table: a record with one of its values."""

    record: Any  # record of the benchmark
    value: Any  # value of one direction or variant
    direction: str | None = None  # direction of the value; None: that of the record
    case: str = ""  # variant of the benchmark that the value belongs to


class Ruling(NamedTuple):
    """A verdict on whether a run follows a clause of an RFC."""

    source: str  # RFC and section
    requirement: str  # what the clause requires
    practice: str  # what the run did
    verdict: str  # `follows`, `deviates` or `not known`


def judge(
    source: str, requirement: str, practice: str, follows: bool | Sequence[bool] | None
) -> Ruling:
    """Make the ruling on a clause.

    Args:
        follows: whether the run, or each of its trials, follows the clause; None or empty: not known.
    """
    if isinstance(follows, Sequence):
        follows = all(follows) if follows else None
    verdict = UNKNOWN if follows is None else FOLLOWS if follows else DEVIATES
    return Ruling(source, requirement, practice, verdict)


MAX_CURVES = 7  # curves in one figure; further ones are drawn in further figures


def split_into_figures(rows: Sequence[tuple[tuple[str, ...], R]]) -> Iterator[list[R]]:
    """Yield the records of each figure, with the label of their curve in place of the direction."""
    lines: dict[str, list[R]] = {}
    for labels, record in rows:
        label = " ".join([*labels, record.direction])
        lines.setdefault(label, []).append(record.model_copy(update={"direction": label}))
    for batch in split_batches(list(lines), MAX_CURVES):
        yield [record for label in batch for record in lines[label]]


def split_batches(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield slices of at most ``size`` values."""
    return (values[first : first + size] for first in range(0, len(values), size))


class Presentation(Generic[R]):
    """Display of the results of one benchmark; its methods get measured records."""

    name: ClassVar[str]  # name of the benchmark, as for `--measure`
    record: ClassVar[type[Record]] = Record  # class of the benchmark's records
    metrics: ClassVar[Mapping[str, str]] = {}  # quantities by their names in `published.json`
    columns: ClassVar[Sequence[Column[Any]]] = ()  # columns of the main table; empty: all values

    def list_rows(self, records: Sequence[R]) -> Iterable[Any]:
        """Yield the rows of the main table: records, or a :class:`TableRow` for each direction."""
        for record in records:
            directions: Mapping[str, Any] | None = getattr(record, "directions", None)
            if directions is None:
                yield record
            else:
                yield from (TableRow(record, value, name) for name, value in directions.items())

    def list_notes(self, records: Sequence[R]) -> Iterable[str]:
        """Yield the notes below the main table."""
        return ()

    def make_main_table(self, records: Sequence[R]) -> Table:
        """Make the main table, in the form that the RFC requires."""
        title, rows = records[0].title, list(self.list_rows(records))
        if self.columns:
            return make_table(title, rows, self.columns, self.list_notes(records))
        plain = [_list_values(r) for r in records]
        columns: list[Column[tuple[R, dict[str, str | float]]]] = [
            Column(SIZES_HEADING, lambda row: row[0].sizes, text=True),
            Column("direction", lambda row: row[0].direction, text=True),
            *(
                Column(key.replace("_", " "), lambda row, key=key: str(row[1].get(key, ABSENT)))
                for key in dict.fromkeys(key for values in plain for key in values)
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
        """Yield the figures of the benchmark's section in the report of a run."""
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
        """Yield figures of records of several runs, labelled with the values in which the runs differ."""
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
        """Return values of the record that show the tester itself where there is no device, by headline."""
        return {}

    def format_value(self, value: float | None) -> str:
        """Format a figure for a table."""
        return format_count(value)

    def find_warnings(self, record: R) -> Iterator[tuple[str, str]]:
        """Yield the code and the sentence of each warning about a record."""
        yield from ()

    def check_clauses(self, data: RunData, records: Sequence[R]) -> Iterator[Ruling]:
        """Yield rulings on the clauses about the benchmark; ``records`` may be empty."""
        yield from ()

    def accepts(self, record: Record) -> bool:
        """Check whether a record was measured and has the model of this benchmark."""
        return record.measured and isinstance(record, self.record)


class UnknownPresentation(Presentation[Record]):
    """Display of records whose benchmark is not installed."""

    name = ""  # no benchmark

    def find_warnings(self, record: Record) -> Iterator[tuple[str, str]]:
        """Warn that the meaning of the values is unknown."""
        yield (
            "unknown-benchmark",
            f"the benchmark '{record.benchmark}' is not installed, or of another version: the "
            "table has all single values of the record, including settings and offered rates",
        )


class Presentations:
    """Presentations of all benchmarks by name.

    Errors in presentations of other distributions are added to ``failures`` with file and line.
    """

    def __init__(self, known: Iterable[Presentation[Any]]) -> None:
        self.failures: list[str] = []
        self.known = {p.name: _guard_methods(p, self.failures) for p in known}
        self._unknown = UnknownPresentation()

    def has_presentation(self, record: Record) -> bool:
        """Check whether the benchmark of a record is installed."""
        return self.find(record) is not self._unknown

    def find(self, record: Record) -> Presentation[Any]:
        """Return the presentation of a record; one that lists all values if none is installed."""
        presentation = self.known.get(record.benchmark, self._unknown)
        is_suitable = presentation.accepts(record) or not record.measured
        return presentation if is_suitable else self._unknown

    def group_records(self, records: Sequence[Record]) -> RecordGroups:
        """Yield the records of each benchmark, also those without a result, in order of appearance."""
        groups: dict[tuple[str, Presentation[Any]], list[Any]] = {}
        for record in records:
            groups.setdefault((record.benchmark, self.find(record)), []).append(record)
        yield from ((presentation, group) for (_, presentation), group in groups.items())

    def group_measured(self, records: Sequence[Record]) -> RecordGroups:
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
            except ValidationError:  # record of another version: shown unchanged
                pass
        return Record.model_validate(values)


def _guard_methods(presentation: Presentation[Any], failures: list[str]) -> Presentation[Any]:
    """Make the methods of a presentation fall back to the default ones after errors."""
    for name, default in inspect.getmembers(Presentation, inspect.isfunction):
        method = getattr(presentation, name)
        guarded = partial(_call_method, method, partial(default, presentation), failures)
        setattr(presentation, name, guarded)
    return presentation


def _call_method(
    method: Callable[..., Any], default: Callable[..., Any], failures: list[str], *arguments: Any
) -> Any:
    """Call a method, or the default one if it fails."""
    try:
        value = method(*arguments)
    except Exception as exc:
        if not _add_failure(exc, failures):
            raise
        return default(*arguments)
    if isinstance(value, Iterator):
        return _iterate_values(value, partial(default, *arguments), failures)
    return value


def _iterate_values(
    values: Iterator[Any], default: Callable[[], Iterator[Any]], failures: list[str]
) -> Iterator[Any]:
    """Yield values, followed by those of the default method if their iterator fails."""
    try:
        yield from values
    except Exception as exc:
        if not _add_failure(exc, failures):
            raise
        yield from default()


def _add_failure(exc: Exception, failures: list[str]) -> bool:
    """Add the message about an error in another distribution; return False for errors of v6t."""
    message = describe_culprit(exc)
    if message is not None and message not in failures:
        failures.append(message)
    return message is not None


def _list_values(record: Record) -> dict[str, str | float]:
    """Return the texts and numbers of a record that not all records have, by field."""
    return {
        k: v
        for k, v in record.to_json().items()
        if k not in Record.model_fields and isinstance(v, (str, int, float))
    }
