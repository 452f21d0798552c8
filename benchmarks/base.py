"""Base classes of benchmarks: settings, requirements, measurement and results."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import Field
from v6t.analysis.presentation import Presentation
from v6t.analysis.record import (
    CsvRow,
    FrameSizes,
    Number,
    Record,
    RecordModel,
    find_counting_method,
)
from v6t.base.errors import UsageError
from v6t.base.ethernet import compute_max_frame_rate_fps
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.point import Measurement, NotMeasured, Point, RunContext, TechnologyClass
from v6t.procedures.stateful.connection_rate import BENCHMARK as CONNECTION_RATE
from v6t.procedures.tester_rate import compute_usable_rate
from v6t.procedures.throughput import BENCHMARK as THROUGHPUT
from v6t.profiles.mixes import sizes_to_json
from v6t.profiles.model import Exchange
from v6t.trials.conditions import Conditions
from v6t.trials.trial import Capability

R = TypeVar("R", bound=Record)
S = TypeVar("S", bound=StrictModel)

RFC_TRIAL_S = 60.0  # RFC 2544 section 24; shorter trials are demonstrations
RFC_REPETITIONS = 20  # RFC 8219 section 7


class Phase(IntEnum):
    """Position of a benchmark in the measurements of a frame size."""

    CONNECTIONS = 0  # once, before anything that needs connections
    STREAMS = 1  # in each mode, with the run's own traffic
    TABLE = 2  # once, when the table of connections may be lost
    VARIANTS = 3  # in each mode, with variants of the traffic
    QUERIES = 4  # once: names are resolved, no frame is forwarded
    TCP = 5  # once in a run: TCP segments do not follow the frame sizes

    @property
    def directed(self) -> bool:
        """Whether its benchmarks are measured in each mode, not once for a frame size."""
        return self in (Phase.STREAMS, Phase.VARIANTS)

    @property
    def sized(self) -> bool:
        """Whether its benchmarks are measured at each frame size."""
        return self is not Phase.TCP


class Benchmark(Presentation[R], Generic[R, S]):
    """A benchmark: its settings, requirements, measurement and results."""

    summary: ClassVar[str]  # first line of the class docstring; the second paragraph is the method
    phase: ClassVar[Phase] = Phase.STREAMS
    order: ClassVar[int] = 500  # position in the order of its phase
    # whether the technology must, may or must not track connections
    connection_use: ClassVar[Literal["required", "optional", "forbidden"]] = "forbidden"
    section: ClassVar[str | None] = None  # key below `procedure`: its name with underscores
    settings_model: type[S] | None = None  # its settings; the defaults are the preset `rfc`
    quick_settings: S | None = None  # its settings in the preset `quick`
    shared_settings: ClassVar[Mapping[str, type[StrictModel]]] = {}  # shared models, by section
    # settings of `procedure` that not all benchmarks use, as "rate_from" or "connections.count"
    used_settings: ClassVar[frozenset[str]] = frozenset()
    capabilities: ClassVar[frozenset[Capability]] = frozenset()  # required of the tester
    exchange: ClassVar[Exchange] = "frames"  # what its technologies exchange: frames or queries
    fills_table: ClassVar[bool] = True  # trials open all connections of the run, if it has any
    can_stagger_flows: ClassVar[bool] = False  # flows may start in turn (RFC 8219 section 10.2.2)
    requires_single_size: ClassVar[bool] = False  # rejects a mix of frame sizes
    reconfigures: ClassVar[bool] = False  # trials change the device under traffic
    runs_alone: ClassVar[bool] = False  # must be the only benchmark of a run
    is_search: ClassVar[bool] = False  # may offer rates too high, so invalid trials are repeated
    included_in_all: ClassVar[bool] = True  # `--measure all` includes it
    csv_file: ClassVar[str]  # name of its CSV file; default: its name with `.csv`
    csv_columns: ClassVar[Mapping[str, str]] = {}  # each column's meaning, unit in brackets
    csv_model: ClassVar[type[RecordModel] | None] = None  # model whose fields are the first columns
    # by name of a further CSV file
    extra_csv_columns: ClassVar[Mapping[str, Mapping[str, str]]] = {}

    @property
    def heading(self) -> str:
        """Title of its records, without deviations from the RFC."""
        return self.record.heading

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        defined = vars(cls)
        if "name" in defined and "summary" not in defined:
            cls.summary = (cls.__doc__ or "").partition("\n")[0]
        if "name" in defined and "csv_file" not in defined:
            cls.csv_file = f"{cls.name}.csv"
        if "name" in defined and "settings_model" in defined and "section" not in defined:
            cls.section = cls.name.replace("-", "_")

    @classmethod
    def list_sections(cls) -> dict[str, type[StrictModel]]:
        """Return the models of all its settings by their key below ``procedure``."""
        if not cls.section or not cls.settings_model:
            return {**cls.shared_settings}
        return {cls.section: cls.settings_model, **cls.shared_settings}

    def find_missing_requirement(self) -> tuple[str, str] | None:
        """Return which Python package is missing and how to install it, or None."""
        return None

    def suggest_parameters(self, plugin: TechnologyClass) -> Mapping[str, Any]:
        """Return parameters of the technology for users who set none."""
        return {}

    def find_trial_s(self, context: RunContext) -> float | None:
        """Return the length of its trials [s]; None if its own settings give that of its streams."""
        p = context.settings.procedure
        if "trial_duration_s" not in self.used_settings:
            return None
        return max(p.trial_duration_s, p.final_duration_s or 0.0)

    def get_settings(self, context: RunContext) -> S:
        """Return the settings of this benchmark in a run."""
        settings: S = self.get_shared_settings(context, self.section or "")
        return settings

    def get_shared_settings(self, context: RunContext, key: str) -> Any:
        """Return the settings below a key of ``procedure`` in a run."""
        return getattr(context.settings.procedure, key)

    def list_capabilities(self, context: RunContext) -> frozenset[Capability]:
        """List the capabilities that the tester must have in this run."""
        return self.capabilities

    def list_parts(self, context: RunContext) -> Sequence[Benchmark[Any, Any]]:
        """List the benchmarks that this benchmark includes."""
        return ()

    def find_max_connections(self, context: RunContext) -> int:
        """Return the number of connections of its largest trial."""
        return context.settings.procedure.connections.count if self.fills_table else 0

    def find_min_connections(self, context: RunContext) -> int:
        """Return the smallest number of connections that the device must hold."""
        return self.find_max_connections(context)

    def find_repetitions(self, context: RunContext) -> int:
        """Return the number of repetitions: its own if it gives one in place of the run's."""
        p, field = context.settings.procedure, "repetitions"
        own = self.settings_model.model_fields.get(field) if self.settings_model else None
        given = getattr(self.get_settings(context), field) if own and own.default is None else None
        return given or p.repetitions

    def list_prerequisites(self, context: RunContext) -> tuple[str, ...]:
        """List the benchmarks that must come before it at the same point."""
        p = context.settings.procedure
        names = []
        if context.settings.connects and p.connections.rate_cps is None and self.fills_table:
            names.append(CONNECTION_RATE)
        if "rate_from" in self.used_settings and not self.has_own_rate(context):
            names.append(THROUGHPUT)
        return tuple(names)

    def has_own_rate(self, context: RunContext) -> bool:
        """Check whether its settings give a rate in place of the measured throughput."""
        return False

    def make_conditions(self, point: Point) -> Conditions:
        """Make the conditions for the trials of a point."""
        return point.make_conditions()

    def check(self, context: RunContext) -> None:
        """Check the settings; raise UsageError for the first fault."""

    def list_deviations(self, context: RunContext) -> Iterator[str]:
        """Yield warnings about deviations from the RFC, for the results."""
        yield from ()

    def list_setting_warnings(self, context: RunContext) -> Iterator[str]:
        """Yield warnings about settings that are probably mistakes."""
        yield from ()

    def measure(self, point: Point) -> Measurement:
        """Measure a point, and add to its record the rate that the self-test covers."""
        try:
            return self._finish(point, self.run(point))
        except NotMeasured as exc:
            return self.skip(point, str(exc))

    def skip(self, point: Point, reason: str) -> Measurement:
        """Make the record of a point without a result."""
        record = Record(
            benchmark=self.name,
            direction=point.mode,
            frame_sizes=FrameSizes(**sizes_to_json(point.sizes)),
            not_measured=reason,
            repetitions=0,
            trials=[],
            invalid_trials=[],
            conditions=point.run_conditions,
        )
        return self._finish(point, Measurement(record))

    def _finish(self, point: Point, measured: Measurement) -> Measurement:
        """Add the usable rate, the counting method and, if configured, the means to a record."""
        record = measured.record
        changes: dict[str, Any] = {}
        if record.offered_rates and self.phase is Phase.STREAMS:
            margin = point.procedure.selftest_margin
            changes = {"usable_fps": compute_usable_rate(point.tester_capacity.rate_fps, margin)}
        results = point.runner.results
        measured_results = [results[key] for key in record.trials if key in results]
        if counting := find_counting_method(measured_results):
            changes["counted_by"] = counting
        record = record.model_copy(update=changes)
        if point.procedure.means:
            record = record.with_means()
        return replace(measured, record=record)

    @abstractmethod
    def run(self, point: Point) -> Measurement:
        """Measure a point, or raise NotMeasured.

        Equal trial results must give an equal record, since `v6t resume` replays the journal.
        """

    def make_rows(
        self, conditions: Conditions, rows: Iterable[tuple[int, Sequence[Any]]], direction: str = ""
    ) -> list[CsvRow]:
        """Make rows of the CSV file from their numbers and the values of its columns."""
        columns = (*(self.csv_model.model_fields if self.csv_model else ()), *self.csv_columns)
        size, direction = conditions.size_label, direction or conditions.mode
        return [
            {"No": number, "Size": size, "Dir": direction[0],
             **dict(zip(columns, values, strict=True))}
            for number, values in rows
        ]  # fmt: skip


def list_media_rates(context: RunContext) -> Iterator[tuple[str, float, int]]:
    """Yield each frame size of a run, its larger frame, and the rate that the medium carries [fps]."""
    for size in context.settings.frame_sizes:
        sizes = context.technology.make_sizes(size)
        media_fps = compute_max_frame_rate_fps(context.settings.line_rate_bps, sizes.longest)
        yield sizes.label if sizes.mix else f"{size}", sizes.longest, media_fps


def check_given_rate(context: RunContext, get_rate_fps: Callable[[float], float | None]) -> None:
    """Raise UsageError for a configured rate that the medium does not carry.

    Args:
        get_rate_fps: returns the rate for a frame of this length [octets]; None: no rate is given.
    """
    for size, longest, media in list_media_rates(context):
        rate_fps = get_rate_fps(longest)
        if rate_fps is not None and rate_fps > media:
            raise UsageError(
                f"{rate_fps:,.0f} fps of {size} octets are more than the {media:,} fps that "
                "the medium carries",
                code="above-line-rate",
            )


class StreamRecord(Record):
    """Record of a benchmark at one rate."""

    rate: Number = Field(description="offered rate [frames per second per direction]")
    rate_source: str = Field("", description="origin of that rate")

    @property
    def offered_rates(self) -> Sequence[float]:
        return [self.rate]


class ShareSettings(StrictModel):
    """Settings of the rate, usually a share of the throughput."""

    share: float = Field(0.9, gt=0, le=1, description="Rate, as a share of the throughput.")
    rate_fps: float | None = Field(None, gt=0, description="Rate in place of the share [fps].")


Q = TypeVar("Q", bound=ShareSettings)


class RateShareBenchmark(Benchmark[R, Q]):
    """Benchmark at a share of the throughput."""

    no_rate_reason: ClassVar[str]  # reason why a point without a throughput is not measured
    used_settings = frozenset({"rate_from"})

    def has_own_rate(self, context: RunContext) -> bool:
        return self.get_settings(context).rate_fps is not None

    def check(self, context: RunContext) -> None:
        check_given_rate(context, lambda _: self.get_settings(context).rate_fps)

    def find_rate(self, point: Point) -> tuple[float, str]:
        """Return the rate per direction [fps] and its origin, or raise NotMeasured."""
        settings = self.get_settings(point.context)
        if settings.rate_fps is not None:
            return settings.rate_fps, "given"
        rate_fps, source = point.require_throughput(self.no_rate_reason)
        return settings.share * rate_fps, f"{settings.share:g} of the {source}"
