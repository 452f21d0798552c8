"""Latency, PDV and IPDV (RFC 8219 sections 7.2 and 7.3): delays at the throughput rate."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import Field
from v6t.analysis.blocks import Drawing
from v6t.analysis.figures import delays
from v6t.analysis.presentation import Card, Quantity, Ruling, TableRow, judge
from v6t.analysis.record import Number, RecordModel, RepeatedFigure, RepetitionSeries
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import Column, Table, format_count, format_milliseconds, format_three_digits
from v6t.base.errors import UsageError
from v6t.base.ethernet import compute_frame_rate_fps
from v6t.base.strict_model import StrictModel
from v6t.benchmarks import common
from v6t.benchmarks.base import (
    RFC_TRIAL_S,
    Benchmark,
    StreamRecord,
    check_given_rate,
    list_media_rates,
)
from v6t.benchmarks.point import Measurement, NotMeasured, Point, RunContext
from v6t.benchmarks.settings import Flag
from v6t.procedures.delay_figures import find_tag_conflict
from v6t.procedures.timing import (
    DelayFigures,
    TimingRepetition,
    TimingResult,
    TimingSpec,
    measure_timing,
)
from v6t.trials.delays import Distribution
from v6t.trials.trial import RFC_MIN_TAGS, DelayRequest, list_directions

DELAY_DEFINITION = (
    "one way, {stamps}; this is longer than store and forward latency, from the last bit in to the "
    "first bit out (RFC 1242 section 3.8), by the frame's own time on the wire and by the tester's "
    "share, which is measured in loopback and not subtracted"
)

UNKNOWN_STAMPS_TEXT = (
    "between the two time stamps of a frame, whose position the tester does not specify"
)


class DelayFigure(RepeatedFigure):
    """A delay, or difference of delays, of each repetition [ms]."""

    unit_name = "ms"


class DelayStatistics(RecordModel):
    """Delay figures of one direction, or of one class of its frames."""

    timed: list[int] = Field(description="frames (IPDV: pairs) that were timed, each repetition")
    lost: list[int] = Field(description="frames that were not received, each repetition")
    clamped: Sequence[int] = Field((), description="negative delays counted as 0, each repetition")

    @property
    def figures(self) -> dict[str, RepeatedFigure]:
        return {name: value for name, value in self if isinstance(value, RepeatedFigure)}


class LatencyStatistics(DelayStatistics):
    """Latencies of one direction or class."""

    tl: DelayFigure = Field(description="typical latency: median of the tagged frames [ms]")
    wcl: DelayFigure = Field(description="worst case latency, their 99.9th percentile [ms]")
    min: DelayFigure = Field(description="shortest delay [ms]")
    max: DelayFigure = Field(description="longest delay [ms]")
    classes: Mapping[str, LatencyStatistics] = Field({}, description="figures of each class")


class PdvStatistics(DelayStatistics):
    """Packet delay variation of one direction or class."""

    pdv: DelayFigure = Field(description="D99.9 - Dmin [ms]")
    min: DelayFigure = Field(description="Dmin, shortest delay [ms]")
    p99_9: DelayFigure = Field(description="D99.9, 99.9th percentile of the delays [ms]")
    max: DelayFigure = Field(description="Dmax, longest delay [ms]")
    classes: Mapping[str, PdvStatistics] = Field({}, description="figures of each class of frames")


class IpdvStatistics(DelayStatistics):
    """Inter packet delay variation of one direction or class."""

    min: DelayFigure = Field(description="smallest difference of consecutive delays [ms]")
    med: DelayFigure = Field(description="median of the differences [ms]")
    max: DelayFigure = Field(description="largest difference [ms]")
    classes: Mapping[str, IpdvStatistics] = Field({}, description="figures of each class of frames")


class DelayRecord(StreamRecord):
    """Delays, or their variation, at one rate: medians of the repetitions with P1 and P99.

    A figure that a lost frame decides is null, "undefined".
    """

    keys: ClassVar[tuple[str, ...]] = ()  # names of the figures
    timed_unit: ClassVar[str] = "frames"  # what is timed, in reports: frames or pairs

    unit: Literal["ms"] = Field(description="unit of all figures")
    convention: Literal["per_direction"] = Field(description="the rate is per direction")
    share_of_rate: Number = Field(1.0, description="measured rate over the required one")
    duration_s: Number = Field(description="length of the stream [s]")
    definition: str = Field("", description="definition of the delay")
    sampled: bool = Field(description="whether only a part of the load was timed")
    share: Number | None = Field(description="timed share of the frames, connections or load")
    directions: Mapping[str, DelayStatistics] = Field(description="the figures of each direction")
    loopback: Mapping[str, Mapping[str, Number | None]] | None = None
    """figures of the tester without a device, at this rate; null: not measured [ms]"""
    below_rfc_tags: bool = Field(False, description="fewer tagged frames than the 500 of RFC 8219")
    tester_error: str = Field("", description="documented error of the tester's delays")

    def describe(self) -> str:
        if not self.sampled:
            return self.heading
        return f"sampled {self.heading} (not all {self.timed_unit}: {self.share:.2%})"

    @property
    def rate_origin(self) -> str:
        return self.rate_source

    @property
    def is_rate_lowered(self) -> bool:
        return self.share_of_rate < 1

    def list_series(self) -> Iterator[tuple[str, RepetitionSeries, str]]:
        for direction, figures in self.directions.items():
            for name, figure in figures.figures.items():
                yield f"{direction} {name.upper()} ", figure, self.unit


class LatencyRecord(DelayRecord):
    """Typical and worst case latency (RFC 8219 section 7.2)."""

    heading = "Latency"
    keys = ("tl", "wcl", "min", "max")
    directions: Mapping[str, LatencyStatistics] = Field(description="latencies of each direction")
    tags: int | None = Field(None, description="tagged frames")
    first_tag_s: Number | None = Field(None, description="time of the first tag [s]")
    of_load: bool = Field(False, description="whether the tagged frames are a separate stream")

    def describe(self) -> str:
        if not self.sampled:
            return self.heading
        if self.of_load:
            return f"Latency of a stamped stream ({self.share:.2%} of the load)"
        return f"Latency of a subset ({self.share:.2%} of the connections)"

    @property
    def round_trip_ms(self) -> float | None:
        delays = [figures.tl.median for figures in self.directions.values()]
        known = [delay for delay in delays if delay is not None]
        return sum(known) if len(delays) == len(known) == 2 else None


class PdvRecord(DelayRecord):
    """Packet delay variation (RFC 8219 section 7.3.1)."""

    heading = "PDV"
    keys = ("pdv", "min", "p99_9", "max")
    directions: Mapping[str, PdvStatistics] = Field(description="PDV of each direction")


class IpdvRecord(DelayRecord):
    """Inter packet delay variation (RFC 8219 section 7.3.2)."""

    heading, timed_unit = "IPDV", "pairs"
    keys = ("min", "med", "max")
    directions: Mapping[str, IpdvStatistics] = Field(description="IPDV of each direction")


def _summarize_direction(
    kind: type[DelayRecord], valid: Sequence[TimingRepetition], direction: str
) -> dict[str, Any]:
    """Return the fields of a direction's statistics."""
    timed = [r.classes[direction] for r in valid]
    names = sorted({name for t in timed for name in t})
    classes = {n: _summarize_figures(kind, [t[n] for t in timed if n in t]) for n in names}
    totals = [r.directions[direction] for r in valid]
    return {**_summarize_figures(kind, totals), "classes": classes}


def _summarize_figures(kind: type[DelayRecord], timed: Sequence[DelayFigures]) -> dict[str, Any]:
    """Return the fields of the statistics of a direction or class."""
    return {
        **{name: {"values": [_to_ms(t.figures[name]) for t in timed]} for name in kind.keys},
        "timed": [t.frames for t in timed],
        "lost": [t.lost for t in timed],
        "clamped": [t.clamped for t in timed],
    }


def _to_ms(value_ns: float) -> float | None:
    return value_ns / 1e6 if math.isfinite(value_ns) else None


class DelaySettings(StrictModel):
    """Settings of the streams of a delay benchmark."""

    rate_fps: Annotated[float | None, Flag("--rate")] = Field(default=None, gt=0)
    """Rate of latency, PDV and IPDV [fps]; None: the measured throughput."""
    rate_bps: float | None = Field(default=None, gt=0)
    """The same rate in bit/s, with preamble and gap, on the link with the larger frames."""
    duration_s: float = Field(60.0, ge=0.001, le=86_400, description="Length of the stream [s].")

    def get_rate_fps(self, octets: float) -> float | None:
        """Return the configured rate for a larger frame of ``octets``, or None if none is set."""
        if self.rate_bps is None:
            return self.rate_fps
        return compute_frame_rate_fps(self.rate_bps, octets)


class LatencySettings(DelaySettings):
    """Settings of the latency."""

    duration_s: float = Field(120.0, ge=0.001, le=86_400, description="Length of the stream [s].")
    tags: Annotated[int, Flag("--tags")] = Field(default=50_000, ge=1, le=10_000_000)
    """Tagged frames in each direction of a stream."""
    first_tag_s: float = Field(60.0, ge=0, le=86_400, description="Time of the first tag [s].")


class DelayVariationSettings(DelaySettings):
    """Settings of PDV and IPDV."""


FALLBACK_SHARES = (0.75, 0.5, 0.25)  # rates over the throughput, if the tester fails at it

D = TypeVar("D", bound=DelaySettings)


class DelayColumn(NamedTuple):
    """Names of a delay figure in tables and summaries, which omit figures without a name."""

    key: str  # name of the figure in a record
    column: str  # heading of the table column
    has_spread: bool = False  # whether percentiles and interval have columns
    compared: str = ""  # name in comparisons and trends
    headline: str = ""  # name in summaries of campaigns
    card: str = ""  # name on the first page of a report


def _describe_columns(**figures: str) -> dict[str, str]:
    """Describe the columns of a CSV file of delays, with the benchmark's own figures [ms]."""
    return {
        "direction": common.DIRECTION_MEANING,
        "rate": common.RATE_MEANING,
        "duration_s": common.DURATION_MEANING,
        **{name: f"{text} [ms]" for name, text in figures.items()},
        "frames": "frames, or pairs of frames, with a delay",
        "lost": "of those to be timed, frames or pairs lost",
        "clamped": "negative delays counted as 0",
    }


def _make_columns(column: DelayColumn) -> Iterator[Column[TableRow]]:
    def get_figure(line: TableRow) -> RepeatedFigure:
        figure: RepeatedFigure = line.value.figures[column.key]
        return figure

    yield Column(f"{column.column}\nms", lambda line: format_milliseconds(get_figure(line).median))
    if column.has_spread:
        yield Column("P1", lambda line: format_milliseconds(get_figure(line).p1))
        yield Column("P99", lambda line: format_milliseconds(get_figure(line).p99))
        yield Column(
            "95 % interval",
            lambda line: common.format_interval(
                get_figure(line).median_interval, format_milliseconds
            ),
            wide=True,
        )


class DelayBenchmark(Benchmark[DelayRecord, D]):
    """Benchmark of delays at one rate, without adaptive repetition."""

    record: ClassVar[type[DelayRecord]] = DelayRecord
    clause_source: ClassVar[str] = "RFC 8219 section 7.3"
    distribution: ClassVar[Literal["delays", "ipdv"]] = "delays"
    caption: ClassVar[str] = (
        "One-way delays, {}, all repetitions together: histogram, and share of frames that take "
        "longer. Timed frames: {}. Lost frames count as infinitely late."
    )
    figure_columns: ClassVar[Sequence[DelayColumn]]
    connection_use = "optional"
    used_settings = frozenset({"rate_from"})
    can_stagger_flows = True
    format_value = staticmethod(format_three_digits)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.columns = (
            *common.POINT_COLUMNS,
            replace(common.OFFERED_RATE_COLUMN, name="fps per\ndirection"),
            *(c for s in vars(cls).get("figure_columns", ()) for c in _make_columns(s)),
            Column("lost", lambda line: _sum_counts(line.value.lost)),
            Column("timed", lambda line: _sum_counts(line.value.timed), wide=True),
            common.WIDE_REPETITIONS_COLUMN,
            common.COUNTING_METHOD_COLUMN,
        )

    def make_request(self, settings: D, extra_s: float) -> DelayRequest:
        """Return the frames to time in a stream that is longer by ``extra_s``."""
        return DelayRequest(ipdv="ipdv" in self.capabilities)

    def _specify(self, point: Point, rate_fps: float, source: str) -> TimingSpec:
        settings, at = self.get_settings(point.context), point.make_conditions()
        return point.specify(
            TimingSpec,
            settings,
            rate_fps=rate_fps,
            rate_source=source,
            duration_s=settings.duration_s + at.extra_duration_s,
            request=self.make_request(settings, at.extra_duration_s),
            benchmark=self.name,
        )

    def has_own_rate(self, context: RunContext) -> bool:
        return self.get_settings(context).get_rate_fps(1) is not None

    def check(self, context: RunContext) -> None:
        if context.settings.procedure.adaptive is not None:
            raise UsageError(
                f"adaptive repetition is for throughput and frame loss, not for {self.name}: "
                "RFC 8219 requires at least 20 repetitions there",
                f"measure {self.name} in a separate run",
                code="conflict",
            )
        s = self.get_settings(context)
        if s.rate_fps is not None and s.rate_bps is not None:
            raise UsageError(
                f"the rate of {self.name} is given in fps and in bit/s",
                "leave out one",
                path=(self.section or "", "rate_fps"),
                related=[(self.section or "", "rate_bps")],
                code="conflict",
            )
        check_given_rate(context, s.get_rate_fps)

    def run(self, point: Point) -> Measurement:
        """Send a stream per repetition at the given rate, or at the throughput."""
        fixed_fps = self.get_settings(point.context).get_rate_fps(point.sizes.longest)
        if fixed_fps is not None:
            rate_fps, source = fixed_fps, "given"
        else:
            reason = "no rate passed, so the rate of the measurement is unknown"
            rate_fps, source = point.require_throughput(reason)
        try:
            spec = self._specify(point, rate_fps, source)
        except ValueError as exc:
            raise NotMeasured(str(exc)) from exc
        if fixed_fps is None:
            shares = []
            for share in FALLBACK_SHARES:
                with contextlib.suppress(ValueError):  # such a trial is impossible
                    self._specify(point, rate_fps * share, source)
                    shares.append(share)
            spec = replace(spec, shares=tuple(shares))
        result = measure_timing(spec, point.measure, point.watch)
        loopback, rate_fps, measure = None, result.rate_fps, point.runner.loopback
        if measure and spec.request.tags and rate_fps <= point.tester_capacity.rate_fps:
            loopback = measure_timing(
                replace(spec, rate_fps=rate_fps, repetitions=point.count_repetitions(1), shares=()),
                lambda trial: measure(replace(trial, key=f"loopback-{trial.key}")),
            )
        tester = point.context.tester
        return self.make_measurement(
            result, point.run_conditions, loopback, tester.stamps, tester.delay_error
        )

    def make_measurement(
        self,
        result: TimingResult,
        conditions: Mapping[str, Any],
        loopback: TimingResult | None,
        stamps: str = "",
        tester_error: str = "",
    ) -> Measurement:
        """Make the record of a point, and a row for each repetition and direction.

        Args:
            loopback: delays of the tester without a device at the same rate.
            stamps: when the tester stamps a frame, and how finely.
        """
        spec, kind = result.spec, self.record
        tags, mode = spec.request.tags, spec.conditions.mode
        valid = [r for r in result.repetitions if r.valid]
        baseline = next((r for r in loopback.repetitions if r.valid), None) if loopback else None
        of_tags: dict[str, Any] = {} if not tags else {
            "tags": tags, "first_tag_s": spec.request.first_tag_s, "below_rfc_tags": tags < RFC_MIN_TAGS
        }  # fmt: skip
        if tags and any(t.separate_stream for r in valid for t in r.directions.values()):
            of_tags["of_load"] = True
        record = kind.from_result(
            result,
            conditions,
            rate=result.rate_fps,
            share_of_rate=result.share_of_rate,
            repetitions=len(valid),
            definition=DELAY_DEFINITION.format(stamps=stamps or UNKNOWN_STAMPS_TEXT),
            sampled=result.sampled,
            share=result.share,
            directions={d: _summarize_direction(kind, valid, d) for d in list_directions(mode)},
            loopback=baseline
            and {
                direction: {name: _to_ms(ns) for name, ns in timed.figures.items()}
                for direction, timed in baseline.directions.items()
            },
            tester_error=tester_error,
            **of_tags,
        )
        rows = (
            (r.number, (direction, result.rate_fps, spec.duration_s,
                        *(_to_ms(d.figures[name]) for name in kind.keys), d.frames, d.lost, d.clamped))
            for r in result.repetitions
            for direction, d in r.directions.items()
        )  # fmt: skip
        return Measurement(record, self.make_rows(spec.conditions, rows))

    def list_notes(self, records: Sequence[DelayRecord]) -> Iterable[str]:
        notes = [
            f"{r.point}: at {r.share_of_rate:.0%} of the {r.rate_source}, not at the full rate as "
            "RFC 8219 section 7 requires: the tester could not complete trials there"
            for r in records
            if r.is_rate_lowered
        ]
        return dict.fromkeys([*notes, *(r.tester_error for r in records if r.tester_error)])

    def make_main_table(self, records: Sequence[DelayRecord]) -> Table:
        table = super().make_main_table(records)
        return replace(table, title=f"{table.title}, milliseconds")

    def draw_figures(self, data: RunData, records: Sequence[DelayRecord]) -> Iterator[Drawing]:
        for record in records:
            if distributions := _merge_distributions(data, record, self.distribution):
                frames = ", ".join(f"{name} {d.frames:,}" for name, d in distributions.items())
                name = f"{self.name}-{record.frame_sizes.key}-{record.direction}"
                caption = self.caption.format(record.point, frames)
                draw = (
                    delays.draw_delays if self.distribution == "delays" else delays.draw_variation
                )
                yield Drawing(draw(distributions, name), caption, caption)

    def define_quantity(self, records: Sequence[DelayRecord]) -> str:
        return next((f"Delay: {r.definition}." for r in records if r.definition), "")

    def list_quantities(self, record: DelayRecord) -> Iterator[Quantity]:
        for direction, figures in record.directions.items():
            both = f", {direction}" if direction != record.direction else ""
            for s in self.figure_columns:
                figure = figures.figures[s.key]
                what = f"{s.card}, {record.point}{both}, median of {record.repetitions}"
                yield Quantity(
                    s.compared and f"{s.compared} {direction}",
                    "ms",
                    figure.values,
                    more_is_better=False,
                    limited=bool(record.above_usable),
                    load=f"{record.rate:,.0f} fps",
                    headline=s.headline and f"{s.headline} {direction}",
                    label=f"{s.column} {direction}",
                    summary=figure,
                    load_covered=not record.above_usable,
                    card=Card(format_milliseconds(figure.median), "ms", what) if s.card else None,
                )

    def list_loopback_values(self, record: DelayRecord) -> Mapping[str, float | None]:
        """List the headline figures of the trial in loopback at the same rate."""
        first = next(s for s in self.figure_columns if s.headline)
        loopback = record.loopback or {}
        return {f"{first.headline} {d}": figures.get(first.key) for d, figures in loopback.items()}

    def find_warnings(self, record: DelayRecord) -> Iterator[tuple[str, str]]:
        for direction, figures in record.directions.items():
            for key in (s.key for s in self.figure_columns if s.has_spread):
                yield from (
                    ("repetitions", f"{direction} {key.upper()}: {n}")
                    for n in figures.figures[key].notes
                )
            if sum(figures.clamped):
                negative = sum(figures.clamped)
                yield "negative-delays", f"{direction}: {negative} negative delays counted as 0"

    def check_clauses(self, data: RunData, records: Sequence[DelayRecord]) -> Iterator[Ruling]:
        yield from self.check_streams(data, records)
        throughputs = {  # median and P1 by point
            (r.sizes, r.direction): (record.median, record.p1)
            for r in data.records
            if r.throughput_fps is not None and (record := r.as_rate_record)
        }
        offered = [(r, t.request["rate_fps"]) for r in records for t in data.list_valid_trials([r])]
        right = [fps in throughputs.get((r.sizes, r.direction), ()) for r, fps in offered]
        yield judge(f"RFC 8219 section 7, {self.name}", "at the throughput of the same point",
                    f"{sum(right)} of {len(right)} streams at the throughput found in this run",
                    right)  # fmt: skip
        yield common.check_repetitions(self.name, records)

    def check_streams(self, data: RunData, records: Sequence[DelayRecord]) -> Iterator[Ruling]:
        """Check the length of the streams and which frames are timed."""
        lengths = (t.request["duration_s"] for t in data.list_valid_trials(records))
        words, enough = common.compare_minimum(RFC_TRIAL_S, lengths)
        sampled = any(r.sampled for r in records)
        timed = "a sample of the frames" if sampled else "every frame"
        yield judge(self.clause_source, "60 s, every frame timed", f"{words}, {timed}",
                    enough and not sampled)  # fmt: skip


class Latency(DelayBenchmark[LatencySettings]):
    """Typical and worst case latency of tagged frames at the throughput.

    RFC 8219 section 7.2. One stream for each repetition at the throughput of the same point, or
    at a given rate. Some of its frames are tagged and timed.
    """

    name = "latency"
    csv_columns: ClassVar = _describe_columns(
        tl="typical latency: median of the tagged frames; empty: undefined",
        wcl="worst case latency: 99.9th percentile of the tagged frames; empty: undefined",
        min="shortest delay",
        max="longest delay; empty: undefined",
    )
    record = LatencyRecord
    metrics: ClassVar = {"typical latency": "TL", "worst-case latency": "WCL"}
    order = 60
    settings_model = LatencySettings
    quick_settings = LatencySettings(duration_s=1.0, first_tag_s=0.3, tags=500)
    capabilities = frozenset({"tags"})

    def make_request(self, settings: LatencySettings, extra_s: float) -> DelayRequest:
        return DelayRequest(settings.tags, settings.first_tag_s + extra_s)

    def check(self, context: RunContext) -> None:
        """Check that the tags fit a stream at the rate of the medium."""
        super().check(context)
        s = self.get_settings(context)
        for size, longest, media in list_media_rates(context):
            fixed_fps = s.get_rate_fps(longest)
            rate = media if fixed_fps is None else min(fixed_fps, media)
            if problem := find_tag_conflict(s.tags, s.first_tag_s, s.duration_s, rate):
                problem = f"latency at {size} octets: {problem}"
                hint = "fewer --tags, a longer latency.duration_s or an earlier latency.first_tag_s"
                raise UsageError(problem, hint, code="trial-too-short")

    def list_deviations(self, context: RunContext) -> Iterator[str]:
        s = self.get_settings(context)
        if s.duration_s < 120 or s.first_tag_s < 60:
            yield (
                f"latency streams of {s.duration_s:g} s with tags from {s.first_tag_s:g} s on, "
                "not 120 s and 60 s"
            )
        if s.tags < RFC_MIN_TAGS:
            yield (
                f"latency by {s.tags} tagged frames, not at least {RFC_MIN_TAGS} (RFC 8219 section 7.2): "
                "the worst case, their 99.9th percentile, is the longest delay of all"
            )

    def find_warnings(self, record: DelayRecord) -> Iterator[tuple[str, str]]:
        if record.below_rfc_tags:
            yield "few-tags", "fewer tagged frames than the 500 of RFC 8219"
        yield from super().find_warnings(record)

    def check_streams(self, data: RunData, records: Sequence[DelayRecord]) -> Iterator[Ruling]:
        trials = [t.request for t in data.list_valid_trials(records)]
        yield judge("RFC 8219 section 7.2", "streams of 120 s",
                    *common.compare_minimum(120.0, (a["duration_s"] for a in trials)))  # fmt: skip
        yield judge("RFC 8219 section 7.2", "tags from 60 s on",
                    *common.compare_minimum(60.0, (a["delays"]["first_tag_s"] for a in trials)))  # fmt: skip
        counts = [
            sum(both)
            for r in records
            for f in r.directions.values()
            for both in zip(f.timed, f.lost, strict=True)
        ]
        yield judge("RFC 8219 section 7.2", "at least 500 tagged frames in each stream",
                    *common.compare_minimum(500, counts, "tags"))  # fmt: skip
        if any(r.sampled for r in records):
            shares = [r.share for r in records if r.sampled and r.share is not None]
            yield judge("RFC 8219 section 7.2", "tags among all the traffic",
                        f"among {min(shares, default=0.0):.2%} of the connections, or of the load",
                        False)  # fmt: skip
        tagged = [f for r in records for f in r.directions.values()]
        undefined = sum(None in f.figures[key].values for f in tagged for key in ("tl", "wcl"))
        yield judge("RFC 8219 section 7.2", "median, and 99.9th percentile of the tags",
                    f"TL and WCL by nearest rank; undefined in {undefined} of "
                    f"{2 * len(tagged)} figures, their tags were lost"
                    if undefined else "TL and WCL by nearest rank",
                    not undefined if tagged else None)  # fmt: skip

    figure_columns = (
        DelayColumn(
            "tl", "TL", has_spread=True, compared="TL", headline="TL", card="Typical latency"
        ),
        DelayColumn("wcl", "WCL", has_spread=True, compared="WCL", headline="WCL"),
    )


class DelayVariationBenchmark(DelayBenchmark[DelayVariationSettings]):
    """Delay benchmark that times every frame."""

    section = "delay_variation"
    settings_model = DelayVariationSettings
    quick_settings = DelayVariationSettings(duration_s=0.6)

    def list_deviations(self, context: RunContext) -> Iterator[str]:
        length_s = self.get_settings(context).duration_s
        if length_s < RFC_TRIAL_S:
            yield f"{self.name} over streams of {length_s:g} s, not {RFC_TRIAL_S:g} s"


class Pdv(DelayVariationBenchmark):
    """Packet delay variation: 99.9th percentile of the delays less the smallest delay.

    RFC 8219 section 7.3.1. One stream for each repetition at the throughput, all of whose
    frames are timed.
    """

    name = "pdv"
    csv_columns: ClassVar = _describe_columns(
        pdv="packet delay variation: D99.9 - Dmin; empty: undefined",
        min="Dmin, shortest delay",
        p99_9="D99.9, 99.9th percentile of the delays; empty: undefined",
        max="Dmax, longest delay; empty: undefined",
    )
    record = PdvRecord
    metrics: ClassVar = {"PDV": "PDV"}
    clause_source = "RFC 8219 section 7.3.1"
    order = 70
    capabilities = frozenset({"every-frame"})

    figure_columns = (
        DelayColumn("pdv", "PDV", has_spread=True, compared="PDV", headline="PDV", card="PDV"),
        DelayColumn("min", "Dmin"),
        DelayColumn("p99_9", "D99.9"),
        DelayColumn("max", "Dmax"),
    )


class Ipdv(DelayVariationBenchmark):
    """Inter packet delay variation: difference of the delays of successive frames.

    RFC 8219 section 7.3.2. One stream for each repetition at the throughput; delays of
    consecutive frames are subtracted.
    """

    name = "ipdv"
    csv_columns: ClassVar = _describe_columns(
        min="smallest difference of consecutive delays",
        med="median of the differences",
        max="largest difference",
    )
    record = IpdvRecord
    clause_source = "RFC 8219 section 7.3.2"
    order = 80
    capabilities = frozenset({"every-frame", "ipdv"})

    distribution = "ipdv"
    caption = "Differences of consecutive delays, {}; pairs: {}."
    figure_columns = (
        DelayColumn("min", "min"),
        DelayColumn("med", "median", headline="median"),
        DelayColumn("max", "max", compared="IPDV max"),
    )

    def list_reported(self, record: DelayRecord) -> Iterator[Quantity]:
        """Yield the three values of the RFC separately (RFC 8219 section 10.2.1)."""
        for direction, figures in record.directions.items():
            for s in self.figure_columns:
                values = figures.figures[s.key].values
                name, load = f"IPDV {s.column} {direction}", f"{record.rate:,.0f} fps"
                yield Quantity(name, "ms", values, more_is_better=False, load=load)


def _merge_distributions(
    data: RunData, record: DelayRecord, values: Literal["delays", "ipdv"]
) -> dict[str, Distribution]:
    by_direction: dict[str, list[Distribution]] = {}
    for trial in data.list_valid_trials([record]):
        for direction, counted in trial.result.directions.items():
            by_direction.setdefault(direction, []).extend((getattr(counted, values) or {}).values())
    whole = {direction: Distribution.merge(parts) for direction, parts in by_direction.items()}
    return {direction: one for direction, one in whole.items() if one.values_ns}


def _sum_counts(numbers: Sequence[int]) -> str:
    return format_count(sum(numbers) if numbers else None)
