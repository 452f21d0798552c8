"""Outage times: recovery and reset (RFC 2544 sections 26.5, 26.6), and reconfiguration."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import Field, computed_field
from v6t.analysis.presentation import Quantity, Ruling, TableRow, judge
from v6t.analysis.record import Number, Record, RepetitionSeries, ValueSeries
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import Column, format_seconds
from v6t.analysis.statistics import drop_infinite
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import (
    RFC_TRIAL_S,
    Benchmark,
    RateShareBenchmark,
    S,
    ShareSettings,
    StreamRecord,
)
from v6t.benchmarks.common import (
    DIRECTION_MEANING,
    OFFERED_RATE_COLUMN,
    POINT_COLUMNS,
    REPETITIONS_COLUMN,
    compare_minimum,
)
from v6t.benchmarks.point import Measurement, Point, RunContext
from v6t.benchmarks.settings import RepetitionCount, TrialLength
from v6t.procedures.reconfiguration import ReconfigurationSpec, measure_reconfiguration
from v6t.procedures.recovery import RecoveryResult, RecoverySpec, measure_recovery
from v6t.procedures.reset import ResetResult, ResetSpec, measure_reset
from v6t.trials.trial import CONFIGURATION_CHANGES, NO_CHANGE, RESET_HOOKS, list_directions


class OutageTimes(ValueSeries):
    """Time in which frames of one direction were lost, by repetition; null: until the end."""

    overloaded: int = Field(0, description="repetitions with loss before the rate was halved")
    by_silence: Sequence[Number | None] = ()
    """longest time without a frame, each repetition; resets only [s]"""

    @computed_field
    @property
    def average(self) -> Number | None:
        """Mean of all repetitions [s]; None if one did not recover."""
        known = [t for t in self.values if t is not None]
        return sum(known) / len(known) if known and len(known) == len(self.values) else None


class OutageRecord(Record):
    """Record of times without forwarding, by direction."""

    unit: Literal["s"] = Field(description="unit of times")
    directions: Mapping[str, OutageTimes] = Field(description="times of each direction")

    def list_series(self) -> Iterator[tuple[str, RepetitionSeries, str]]:
        for direction, times in self.directions.items():
            yield f"{direction} ", times, "s"


K = TypeVar("K", bound=OutageRecord)


class RecoveryRecord(OutageRecord):
    """Record of the time to recover from an overload (RFC 2544 section 26.5)."""

    heading = "System recovery"
    throughput: Number | None = Field(None, description="measured throughput [fps per direction]")
    overload: Number = Field(description="overload rate [frames per second per direction]")
    overload_limited: bool = Field(False, description="the limit is below 110 % of the throughput")
    afterwards: Number | None = Field(None, description="rate after it [fps per direction]")
    overload_s: Number | None = Field(None, description="length of the overload [s]")
    afterwards_s: Number | None = Field(None, description="time at the rate after it [s]")
    resolution_s: Number | None = Field(None, description="time between two frames [s]")

    @property
    def offered_rates(self) -> Sequence[float]:
        return [self.overload]


class ResetRecord(OutageRecord):
    """Record of the time without forwarding in a reset (RFC 6201), by lost frames."""

    heading = "Reset"
    hook: str = Field(description="hook that resets the device")
    state_survived: list[bool] | None = Field(None, description="whether connections survived")
    rate: Number = Field(description="offered rate [frames per second per direction]")
    duration_s: Number | None = Field(None, description="length of the trials [s]")
    at_s: Number | None = Field(None, description="time of the reset [s]")

    def describe(self) -> str:
        return f"{self.heading} ({self.hook}), frame-loss method"

    @property
    def offered_rates(self) -> Sequence[float]:
        return [self.rate]


def _find_longest(times_s: Sequence[float | None]) -> float | None:
    """Return the longest known time [s], or None if all are unknown."""
    return max((t for t in times_s if t is not None), default=None)


def _check_event_time(section: str, event: str, at_s: float, duration_s: float) -> None:
    if at_s >= duration_s:
        problem = f"{event} at {at_s:g} s is not within a stream of {duration_s:g} s"
        raise UsageError(problem, f"raise {section}.duration_s", code="trial-too-short")


def _count_valid(repetitions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fields of a record for repetitions, which are empty if the tester failed."""
    valid = sum(map(bool, repetitions))
    why = None if valid else "the tester failed in every repetition"
    return {"repetitions": valid, "not_measured": why}


class ResetSettings(StrictModel):
    """Settings of the reset benchmark."""

    hook: str = Field("software-reset", description="Hook that resets the device.")
    duration_s: float = Field(120.0, ge=0.001, le=86_400, description="Length of the stream [s].")
    at_s: float = Field(20.0, gt=0, le=86_400, description="Time of the reset in the stream [s].")
    repetitions: int = Field(5, ge=1, le=100_000, description="Number of resets.")


class OutageBenchmark(Benchmark[K, S]):
    """Benchmark of the time in which frames of each direction are lost."""

    connection_use = "optional"
    used_settings = frozenset({"rate_from"})
    format_value = staticmethod(format_seconds)
    columns = (
        *POINT_COLUMNS,
        OFFERED_RATE_COLUMN,
        Column("average s", lambda line: line.value.average, ",.4f"),
        Column("median", lambda line: line.value.median, ",.4f"),
        Column("min", lambda line: line.value.min, ",.4f"),
        Column("max", lambda line: line.value.max, ",.4f"),
        REPETITIONS_COLUMN,
    )

    def list_quantities(self, record: K) -> Iterator[Quantity]:
        for direction, series in record.directions.items():
            name = f"recovery {direction}"
            yield Quantity(name, "s", series.values, False, headline=direction, summary=series)


class Reset(OutageBenchmark[ResetRecord, ResetSettings]):
    """Time without forwarding while the device is reset.

    RFC 6201 section 4. A command resets the device during traffic at the throughput; the result
    is the number of lost frames over their rate.
    """

    name = "reset"
    record = ResetRecord
    order = 100
    settings_model = ResetSettings
    quick_settings = ResetSettings(duration_s=3.0, at_s=1.0, repetitions=2)
    capabilities = frozenset({"loss-times"})
    columns = (
        *OutageBenchmark.columns[:-1],
        Column("longest\nsilence s", lambda line: _find_longest(line.value.by_silence), ",.4f"),
        REPETITIONS_COLUMN,
    )

    def check(self, context: RunContext) -> None:
        r = self.get_settings(context)
        if r.hook not in RESET_HOOKS:
            hint = f"one of {', '.join(RESET_HOOKS)}"
            raise UsageError(f"unknown reset '{r.hook}'", hint, code="unknown-name")
        _check_event_time("reset", "a reset", r.at_s, r.duration_s)
        if not context.tester.simulates and r.hook not in context.driver.hooks:
            problem = f"the device has no hook '{r.hook}'"
            hint = "give its command in the testbed file: dut.options.hooks"
            raise UsageError(problem, hint, code="unsupported-by-device")

    def run(self, point: Point) -> Measurement:
        rate_fps, _ = point.require_throughput("no rate passed, so the reset rate is unknown")
        spec = point.specify(ResetSpec, self.get_settings(point.context), rate_fps=rate_fps)
        result = measure_reset(spec, point.measure, point.watch)
        return Measurement(self.make_record(result, point.run_conditions))

    def make_record(self, result: ResetResult, conditions: Mapping[str, Any]) -> ResetRecord:
        """Make the record of a point from the result of the procedure."""
        mode = result.spec.conditions.mode
        directions: dict[str, dict[str, Any]] = {}
        for direction in list_directions(mode):
            seen = [outages[direction] for outages in result.repetitions if direction in outages]
            directions[direction] = {
                "values": [drop_infinite(outage.by_loss_s) for outage in seen],
                "by_silence": [outage.by_silence_s for outage in seen],
            }
        survived = None
        if "connections" in conditions and mode == "reverse":
            # frames from outside alone do not create connections on a stateful device
            survived = [time is not None for time in directions["reverse"]["values"]]
        return ResetRecord.from_result(
            result,
            conditions,
            **_count_valid(result.repetitions),
            state_survived=survived,
            directions=directions,
        )

    def find_warnings(self, record: ResetRecord) -> Iterator[tuple[str, str]]:
        if survived := record.state_survived:
            some = f"{sum(survived)} of {len(survived)} resets"
            text = f"the connections survived {some} (frames from outside alone create none)"
            yield "state-survived", text

    def check_clauses(self, data: RunData, records: Sequence[ResetRecord]) -> Iterator[Ruling]:
        trials = [t.request for t in data.list_valid_trials(records)]
        under = [0 < (a["event"] or {"at_s": 0})["at_s"] < a["duration_s"] for a in trials]
        hooks = ", ".join(sorted({a["event"]["hook"] for a in trials if a["event"]}))
        yield judge("RFC 6201 section 4", "the device is reset under traffic",
                    f"{hooks or 'no reset'}, in {sum(under)} of {len(under)} trials",
                    under)  # fmt: skip
        yield judge("RFC 6201 section 1.4", "several trials are averaged",
                    *compare_minimum(2, (r.repetitions for r in records), "trials"))  # fmt: skip


class RecoverySettings(StrictModel):
    """Settings of the system recovery benchmark."""

    overload_s: TrialLength = Field(60.0, description="Length of the overload [s].")
    afterwards_s: TrialLength = Field(60.0, description="Time at the lower rate [s].")
    repetitions: RepetitionCount | None = Field(None, description="None: as for throughput.")


class SystemRecovery(OutageBenchmark[RecoveryRecord, RecoverySettings]):
    """Time until no more frames are lost after an overload.

    RFC 2544 section 26.5. Traffic at 110 % of the throughput, then at half of that; the result
    is the time from the change to the last lost frame.
    """

    name = "system-recovery"
    record = RecoveryRecord
    order = 90
    settings_model = RecoverySettings
    quick_settings = RecoverySettings(overload_s=1.0, afterwards_s=1.0, repetitions=2)
    capabilities = frozenset({"two-rates", "loss-times"})
    can_stagger_flows = True

    def run(self, point: Point) -> Measurement:
        reason = "no rate passed, so the overload rate is unknown"
        throughput_fps, _ = point.require_throughput(reason)
        settings = self.get_settings(point.context)
        spec = point.specify(
            RecoverySpec,
            settings,
            throughput_fps=throughput_fps,
            limit_fps=point.limit_fps,
            overload_s=settings.overload_s + point.make_conditions().extra_duration_s,
        )
        result = measure_recovery(spec, point.measure, point.watch)
        return Measurement(self.make_record(result, point.run_conditions))

    def make_record(self, result: RecoveryResult, conditions: Mapping[str, Any]) -> RecoveryRecord:
        """Make the record of a point from the result of the procedure."""
        directions = {}
        for direction in list_directions(result.spec.conditions.mode):
            valid = [r for r in result.repetitions if direction in r.recovery_s]
            directions[direction] = {
                "values": [drop_infinite(r.recovery_s[direction]) for r in valid],
                "overloaded": sum(r.overloaded[direction] for r in valid),
            }
        return RecoveryRecord.from_result(
            result,
            conditions,
            **_count_valid([r.recovery_s for r in result.repetitions]),
            overload_limited=result.spec.is_limited,
            directions=directions,
        )

    def find_warnings(self, record: RecoveryRecord) -> Iterator[tuple[str, str]]:
        if record.overload_limited:
            text = "the tester or the medium carries less than 110 % of the throughput"
            yield "limited-overload", text
        for direction, times in record.directions.items():
            if lossless := len(times.values) - times.overloaded:
                some = f"{lossless} of {len(times.values)} overloads"
                text = f"{some} lost no frame at the higher rate: their 0 s is not a recovery time"
                yield "no-overload", f"{direction}: {text}"

    def check_clauses(self, data: RunData, records: Sequence[RecoveryRecord]) -> Iterator[Ruling]:
        trials = [t.request for t in data.list_valid_trials(records)]
        yield judge("RFC 2544 section 26.5", "an overload of 60 s",
                    *compare_minimum(RFC_TRIAL_S, (a["duration_s"] for a in trials)))  # fmt: skip
        halves = [math.isclose(a["then"]["rate_fps"] * 2, a["rate_fps"]) for a in trials]
        yield judge("RFC 2544 section 26.5", "then half of its rate",
                    f"half in {sum(halves)} of {len(halves)} trials",
                    halves)  # fmt: skip
        loaded = [
            math.isclose(t.request["rate_fps"], 1.1 * r.throughput)
            for r in records
            for t in data.list_valid_trials([r])
            if r.throughput
        ]
        yield judge("RFC 2544 section 26.5", "an overload of 110 % of the throughput",
                    f"reached in {sum(loaded)} of {len(loaded)} trials",
                    loaded)  # fmt: skip


class BlockedTimes(ValueSeries):
    """Blocked times of a direction with one kind of change: lost frames over the rate [s]."""

    lost: list[int] = Field(description="lost frames of each stream")
    frames: list[int] = Field(description="frames of each stream")
    silence: list[Number | None] = Field(description="longest time without a frame in a stream [s]")


class ReconfigurationRecord(StreamRecord):
    """Record of the loss during changes of the configuration that do not concern the traffic."""

    heading = "Reconfiguration under traffic, effective blocked time"
    unit: Literal["s"] = Field(description="unit of blocked times")
    what: str = Field(description="what was added, changed and removed")
    duration_s: Number = Field(description="length of each stream [s]")
    at_s: Number = Field(description="time of the change [s]")
    changes: dict[str, dict[str, BlockedTimes]]
    """blocked times by change (`nothing`, `add`, `change`, `remove`) and direction"""

    @property
    def times(self) -> Iterator[tuple[str, str, BlockedTimes]]:
        """Change, direction and times of all streams, in order."""
        for change in CONFIGURATION_CHANGES:
            for direction, times in self.changes.get(change, {}).items():
                yield change, direction, times

    def list_series(self) -> Iterator[tuple[str, RepetitionSeries, str]]:
        for change, direction, times in self.times:
            yield f"{change} {direction} ", times, "s"


# fields of a stream that have another name in BlockedTimes
_RENAMED_FIELDS = {"blocked_s": "values", "silence_s": "silence"}


class ReconfigurationSettings(ShareSettings):
    """Settings of the reconfiguration benchmark."""

    duration_s: float = Field(20.0, ge=0.1, le=3600, description="Length of each stream [s].")
    at_s: float = Field(5.0, gt=0, le=3600, description="Time of the change in the stream [s].")
    repetitions: int = Field(5, ge=1, le=1000, description="Number of times each change is made.")


class Reconfiguration(RateShareBenchmark[ReconfigurationRecord, ReconfigurationSettings]):
    """Traffic loss while another rule, route or domain is added, changed or removed.

    No RFC. Effective blocked time of FD.io CSIT: lost frames over their rate. A stream without
    a change comes first.
    """

    name = "reconfiguration"
    csv_columns: ClassVar = {
        "change": "change of the configuration: `nothing`, `add`, `change` or `remove`",
        "direction": DIRECTION_MEANING,
        "frames": "frames to send [frames]",
        "lost": "frames that did not return in time [frames]",
        "blocked_s": "effective blocked time: lost frames divided by the rate [s]",
        "silence_s": "longest time between two received frames [s]",
    }
    record: ClassVar[type[ReconfigurationRecord]] = ReconfigurationRecord
    order = 130
    connection_use = "optional"
    settings_model = ReconfigurationSettings
    quick_settings = ReconfigurationSettings(duration_s=2.0, at_s=0.7, repetitions=2)
    reconfigures = True
    included_in_all = False
    no_rate_reason = "no rate passed, so the rate of the change is unknown"
    format_value = staticmethod(format_seconds)

    def check(self, context: RunContext) -> None:
        super().check(context)
        settings = self.get_settings(context)
        _check_event_time("reconfiguration", "a change", settings.at_s, settings.duration_s)
        if context.tester.simulates:
            return
        if not context.has_driver:
            problem = "reconfiguration needs a device driver that changes the device under traffic"
            hint = "name one with --dut or in the testbed file"
            raise UsageError(problem, hint, code="missing-driver")
        context.describe_live_change()

    def list_deviations(self, context: RunContext) -> Iterator[str]:
        yield (
            "reconfiguration: the objects that are added, changed and removed are unrelated to "
            "the test traffic"
        )

    def run(self, point: Point) -> Measurement:
        rate_fps, source = self.find_rate(point)
        settings, context = self.get_settings(point.context), point.context
        spec = point.specify(ReconfigurationSpec, settings, rate_fps=rate_fps, rate_source=source)
        result = measure_reconfiguration(spec, point.measure, point.watch)
        rows, changes = [], dict[str, dict[str, dict[str, list[Any]]]]()
        for stream in chain.from_iterable(result.repetitions):
            for direction, blocked in stream.directions.items():
                rows.append((stream.number, (stream.change, direction, *asdict(blocked).values())))
                by_direction = changes.setdefault(stream.change, {})
                values = by_direction.setdefault(direction, defaultdict(list))
                for name, value in asdict(blocked).items():
                    values[_RENAMED_FIELDS.get(name, name)].append(value)
        record = ReconfigurationRecord.from_result(
            result,
            point.run_conditions,
            not_measured=None if changes else "the tester failed in every stream",
            what="simulated" if context.tester.simulates else context.describe_live_change(),
            changes=changes,
        )
        return Measurement(record, self.make_rows(spec.conditions, rows))

    columns = (
        *POINT_COLUMNS,
        Column("done", lambda line: line.value[0], text=True),
        OFFERED_RATE_COLUMN,
        Column("blocked s\nmedian", lambda line: line.value[1].median, ",.4f"),
        Column("min", lambda line: line.value[1].min, ",.4f"),
        Column("max", lambda line: line.value[1].max, ",.4f"),
        Column("lost frames\nmost", lambda line: max(line.value[1].lost)),
        Column("longest\nsilence s", lambda line: _find_longest(line.value[1].silence), ",.4f"),
        Column("times", lambda line: str(len(line.value[1].values))),
    )

    def list_rows(self, records: Sequence[ReconfigurationRecord]) -> list[TableRow]:
        return [
            TableRow(r, (change, times), direction)
            for r in records
            for change, direction, times in r.times
        ]

    def list_notes(self, records: Sequence[ReconfigurationRecord]) -> list[str]:
        return [f"changed: {records[0].what}"]

    def define_quantity(self, records: Sequence[ReconfigurationRecord]) -> str:
        return (
            "Blocked time: lost frames of a stream divided by its rate, while an unrelated "
            "setting of the device was changed (FD.io CSIT's measure)."
        )

    def list_quantities(self, record: ReconfigurationRecord) -> Iterator[Quantity]:
        for change, direction, series in record.times:
            name, rate = f"blocked, {change}, {direction}", f"{record.rate:,.0f} fps"
            headline = f"blocked s, {change} {direction}"
            yield Quantity(
                name, "s", series.values, False, load=rate, headline=headline, summary=series
            )

    def find_warnings(self, record: ReconfigurationRecord) -> Iterator[tuple[str, str]]:
        for direction, series in record.changes.get(NO_CHANGE, {}).items():
            if any(series.lost):
                lost = f"up to {max(series.lost):,} frames were lost {direction} without any change"
                yield "loss-without-change", f"{lost}: the device loses frames at this rate anyway"
