"""Back-to-back frames (RFC 2544 section 26.4, RFC 9004)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field
from v6t.analysis.presentation import Card, Quantity, Ruling, judge
from v6t.analysis.record import AnnotatedSeries, Number, RangedSeries, Record
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import Column, Table, format_count, format_offered_rate, make_table
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import Benchmark
from v6t.benchmarks.common import (
    COUNTING_METHOD_COLUMN,
    POINT_COLUMNS,
    REPETITIONS_COLUMN,
    compare_minimum,
)
from v6t.benchmarks.point import Measurement, Point, RunContext
from v6t.procedures.back_to_back import (
    CORRECTED_BUFFER_FORMULA,
    BurstResult,
    BurstSpec,
    compute_deviation,
    measure_back_to_back,
)


class BurstRecord(RangedSeries, AnnotatedSeries, Record):
    """Longest burst without loss (RFC 9004)."""

    heading = "Back-to-back frames"
    unit_name = "frames"

    unit: Literal["frames"] = Field(description="unit of bursts")
    burst_rate: Number = Field(description="rate within bursts [frames per second per direction]")
    burst_rate_reason: str = Field("", description="`media` or `tester`")
    throughput: Number | None = Field(None, description="measured throughput [fps per direction]")
    invalid_repetitions: int = Field(0, description="repetitions in which the tester failed")
    average: Number | None = Field(description="mean longest burst without loss (RFC 9004)")
    deviation: Number | None = Field(description="standard deviation (RFC 9004, 6.4) [frames]")
    values: list[Number] = Field(description="each repetition's burst")
    hit_longest: int = Field(0, description="repetitions that lost no frame up to `longest_frames`")
    longest_frames: int | None = Field(None, description="longest burst of the search")
    resolution_frames: int = Field(description="step size of the search [frames]")
    algorithm: str = Field("", description="the search algorithm (RFC 9004 section 6.2)")
    verifications: int | None = Field(None, description="repeats of a burst that lost frames")
    shortest_frames: int | None = Field(None, description="shortest burst that can be verified")
    longest_s: Number | None = Field(None, description="time to send the longest burst [s]")
    loss_tolerance: Number | None = Field(None, description="accepted loss ratio of a burst")
    implied_buffer_s: Number | None = Field(description="average burst / burst rate [s]")
    corrected_buffer_s: Number | None = Field(description="corrected buffer time (RFC 9004) [s]")
    formula: str = Field("", description="formula of the corrected buffer time (RFC 9004)")
    residual_wait_s: Number | None = Field(None, description="wait for late frames [s]")

    def describe(self) -> str:
        slower = " at the tester's maximum rate" * (self.burst_rate_reason == "tester")
        return f"{self.heading}{slower}"

    @property
    def repetition_values(self) -> Sequence[float | None]:
        return self.values

    @property
    def offered_rates(self) -> Sequence[float]:
        return [self.burst_rate]


def _explain_missing_burst(result: BurstResult) -> str | None:
    if result.bursts:
        return None
    if any(r.attempts[-1].verdict.valid for r in result.repetitions):
        return (
            f"even the shortest burst lost frames ({result.spec.shortest_frames:,}): the tester "
            "cannot prove that shorter bursts left back to back"
        )
    return "the tester could not send the bursts as required in any repetition"


def _convert_s_to_ms(time_s: float | None) -> float | None:
    return time_s and 1000 * time_s


RFC_BURSTS = 50  # repetitions that RFC 9004 requires


class BurstSettings(StrictModel):
    """Settings of back-to-back frames."""

    repetitions: int = Field(50, ge=1, le=100_000, description="Searches for the longest burst.")
    longest_s: float = Field(2.0, gt=0, le=3600, description="Time to send the longest burst [s].")
    resolution_frames: int = Field(64, ge=1, description="Step size of the search [frames].")
    residual_wait_s: float = Field(default=2.0, ge=0, le=3600)
    """Wait for the buffer to drain, at least 2 s (RFC 9004 section 6.2); longer after longer bursts [s]."""
    verifications: int = Field(1, ge=0, le=100, description="Repeats of a burst that lost frames.")
    at: Literal["media", "tester"] = Field("media", description="Source of the burst rate.")
    sending_time_tolerance: float | None = Field(default=None, gt=1, le=100)
    """For the short streams of this benchmark; None: as for all others."""


class BackToBack(Benchmark[BurstRecord, BurstSettings]):
    """Longest burst without loss, and the size of the buffer that it indicates.

    RFC 9004 section 6.2. Each repetition is a binary search for the longest burst at the
    medium's rate that passes. The result is their average, and the buffer time that follows
    from it.
    """

    name = "back-to-back"
    csv_columns: ClassVar = {
        "burst_rate": "rate of the bursts [frames per second per direction]",
        "frames": "longest burst without loss; empty: none was valid [frames]",
        "hit_longest": "the longest burst that was allowed passed",
        "trials": "bursts sent",
    }
    record = BurstRecord
    order = 50
    is_search = True
    connection_use = "optional"
    settings_model = BurstSettings
    quick_settings = BurstSettings(
        repetitions=2,
        longest_s=0.4,
        resolution_frames=2048,
        residual_wait_s=0.15,
        at="tester",
        # bursts of milliseconds: one hiccup of a shared machine is longer than all of them
        sending_time_tolerance=3.0,
    )
    used_settings = frozenset({"rate_from", "loss_tolerance"})

    def list_deviations(self, context: RunContext) -> Iterator[str]:
        b = self.get_settings(context)
        if unprovable := self._explain_unverifiable_bursts(context):
            yield f"back-to-back is not measured: {unprovable}"
        if (b.sending_time_tolerance or 1) > 1.001:
            yield (
                f"bursts may take {b.sending_time_tolerance:g} times as long as frames back to "
                "back would"
            )
        if b.repetitions < RFC_BURSTS:
            yield (
                f"back-to-back: {b.repetitions} repetitions, not the {RFC_BURSTS} of RFC 2544 "
                "section 26.4"
            )
        if any(isinstance(size, str) for size in context.settings.frame_sizes):
            yield (
                "back-to-back: bursts of several frame sizes at the medium's rate for their mean "
                "size, not of one size (RFC 9004 section 3)"
            )

    def run(self, point: Point) -> Measurement:
        """Search for the longest burst if the tester can send frames back to back."""
        spec = self._specify(point, point.find_throughput()[0])
        refused = None
        if point.limit_reason == "tester" and self.get_settings(point.context).at == "media":
            refused = (
                f"the tester sends {point.tester_capacity.rate_fps:,.0f} fps, the medium carries "
                f"{point.media_fps:,.0f}: bursts would not be back to back "
                "(back_to_back.at: tester measures them anyway)"
            )
        refused = refused or self._explain_unverifiable_bursts(point.context)
        result = (
            BurstResult(spec) if refused else measure_back_to_back(spec, point.measure, point.watch)
        )
        return self.make_measurement(result, refused, point.run_conditions)

    def make_measurement(
        self, result: BurstResult, refused: str | None, conditions: Mapping[str, Any]
    ) -> Measurement:
        """Make the record of a point and a row for each repetition."""
        spec, buffer_time = result.spec, result.buffer_time
        bursts = [float(frames) for frames in result.bursts]
        record = BurstRecord.from_result(
            result,
            conditions,
            burst_rate=spec.rate_fps,
            burst_rate_reason=spec.rate_reason,
            not_measured=refused or spec.refusal_reason or _explain_missing_burst(result),
            repetitions=len(bursts),
            invalid_repetitions=sum(not r.valid for r in result.repetitions),
            average=result.average_frames,
            deviation=compute_deviation(bursts),
            values=bursts,
            hit_longest=sum(r.hit_longest for r in result.repetitions),
            longest_frames=spec.max_frames,
            algorithm=spec.search,
            shortest_frames=spec.min_frames,
            implied_buffer_s=buffer_time and buffer_time.implied_s,
            corrected_buffer_s=buffer_time and buffer_time.corrected_s,
            formula=CORRECTED_BUFFER_FORMULA,
        )
        rows = (
            (r.number, (spec.rate_fps, r.frames if r.valid else "", r.hit_longest, len(r.attempts)))
            for r in result.repetitions
        )
        return Measurement(record, self.make_rows(spec.conditions, rows))

    def _get_sending_tolerance(self, context: RunContext) -> float:
        general = context.settings.procedure.sending_time_tolerance
        return self.get_settings(context).sending_time_tolerance or general

    def _explain_unverifiable_bursts(self, context: RunContext) -> str | None:
        longest_s, error_s = self.get_settings(context).longest_s, context.tester.sending_error_s
        slack_s = longest_s * (self._get_sending_tolerance(context) - 1)
        if slack_s >= error_s:
            return None
        return (
            f"a burst of {longest_s:g} s may take {1e6 * slack_s:.0f} µs longer, but the tester "
            f"measures its sending time to {1e6 * error_s:.0f} µs only "
            "(back_to_back.sending_time_tolerance, back_to_back.longest_s)"
        )

    def _specify(self, point: Point, throughput_fps: float) -> BurstSpec:
        b = self.get_settings(point.context)
        tolerance = self._get_sending_tolerance(point.context)
        error_s = point.context.tester.sending_error_s
        return point.specify(
            BurstSpec,
            b,
            conditions=point.make_conditions(
                residual_wait_s=b.residual_wait_s, sending_time_tolerance=tolerance
            ),
            rate_fps=point.limit_fps,
            rate_reason=point.limit_reason,
            throughput_fps=throughput_fps,
            shortest_frames=max(1, math.ceil(error_s * point.limit_fps / (tolerance - 1))),
        )

    columns = (
        *POINT_COLUMNS,
        Column("average\nframes", lambda r: r.average, ",.1f"),
        Column("min", lambda r: r.min),
        Column("max", lambda r: r.max),
        Column("deviation", lambda r: r.deviation, ",.1f"),
        REPETITIONS_COLUMN,
        Column("burst rate\nfps", lambda r: format_offered_rate(r, r.burst_rate), wide=True),
        Column("implied\nbuffer ms", lambda r: _convert_s_to_ms(r.implied_buffer_s), ".3f"),
        Column("corrected\nbuffer ms", lambda r: _convert_s_to_ms(r.corrected_buffer_s), ".3f"),
        Column("step\nframes", lambda r: r.resolution_frames),
        Column("longest\nsearched", lambda r: r.longest_frames, wide=True),
        COUNTING_METHOD_COLUMN,
    )

    def make_tables(self, records: Sequence[BurstRecord]) -> Iterator[Table]:
        yield self.make_main_table(records)
        title = "Search of the longest burst (ETSI GS NFV-TST 009 clause 12.3)"
        yield make_table(title, records, _SEARCH_COLUMNS)

    def list_quantities(self, record: BurstRecord) -> Iterator[Quantity]:
        what = f"{record.title}, {record.point}, average of {record.repetitions}"
        yield Quantity(
            "burst",
            "frames",
            record.values,
            resolution=float(record.resolution_frames),
            limited=bool(record.hit_longest),
            headline=self.name,
            summary=record,
            load_covered=not record.above_usable,
            card=Card(format_count(record.average), "frames", what),
        )

    def find_warnings(self, record: BurstRecord) -> Iterator[tuple[str, str]]:
        if record.invalid_repetitions:
            text = "repetitions are left out: the tester could not send their bursts as required"
            yield "invalid-repetitions", f"{record.invalid_repetitions} {text}"
        if record.hit_longest:
            yield (
                "longest-burst",
                "no burst lost frames, up to the longest of the search: the result is not the "
                "device's limit; repeat with a longer back_to_back.longest_s (RFC 9004 section "
                "6.2)",
            )

    def check_clauses(self, data: RunData, records: Sequence[BurstRecord]) -> Iterator[Ruling]:
        yield judge("RFC 9004 section 6.3", "average of at least 50 searches",
                    *compare_minimum(50, (len(r.values) for r in records), "searches"))  # fmt: skip
        waits = (t.request["residual_wait_s"] for t in data.list_valid_trials(records))
        yield judge("RFC 9004 section 6.2", "2 s for a burst to drain",
                    *compare_minimum(2.0, waits))  # fmt: skip
        complete = [r.algorithm != "" and r.verifications is not None for r in records]
        yield judge("RFC 9004 section 6.2", "the search of TST009, and its parameters",
                    ", ".join(dict.fromkeys(r.algorithm or "not kept" for r in records)) or "none yet",
                    complete)  # fmt: skip
        slower = any(r.burst_rate_reason == "tester" for r in records)
        yield judge("RFC 9004 section 6.1", "bursts at the medium's rate",
                    "at the tester's own maximum" if slower else "at the medium's rate",
                    not slower if records else None)  # fmt: skip


_SEARCH_COLUMNS: Sequence[Column[BurstRecord]] = (
    *POINT_COLUMNS,
    Column("search", lambda r: r.algorithm, text=True),
    Column("shortest\nframes", lambda r: r.shortest_frames),
    Column("longest\nframes", lambda r: r.longest_frames),
    Column("longest\ns", lambda r: r.longest_s, "g"),
    Column("step\nframes", lambda r: r.resolution_frames),
    Column("verifications", lambda r: str(r.verifications)),
    Column("loss\ntolerance", lambda r: r.loss_tolerance, "g"),
    REPETITIONS_COLUMN,
    Column("wait\ns", lambda r: r.residual_wait_s, "g"),
    Column("throughput\nfps", lambda r: r.throughput),
)
