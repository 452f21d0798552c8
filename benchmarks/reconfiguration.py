"""Reconfiguration under traffic: blocked time by what was done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any, ClassVar, Literal

from pydantic import Field
from v6t.analysis.presentation import Line, Result
from v6t.analysis.record import Number, Series, Values
from v6t.analysis.sheet import Column, count, offered, seconds
from v6t.base.errors import UsageError
from v6t.benchmarks.common import POINT, ROW_DIRECTION, row_head
from v6t.benchmarks.context import RunContext
from v6t.benchmarks.point import Measured, Point
from v6t.benchmarks.share import AtShare, ShareSettings, StreamRecord
from v6t.procedures.reconfiguration import ReconfigurationSpec, measure_reconfiguration
from v6t.trials.device_events import CONFIGURATION_CHANGES, NO_CHANGE


class BlockedTimes(Values):
    """Effective blocked time of one direction with one kind of change: lost frames over rate [s]."""

    lost: list[int]
    """lost frames of each stream"""
    frames: list[int]
    """frames of each stream"""
    silence: list[Number | None]
    """longest time without a frame of each stream; null: not known [s]"""

    @property
    def longest_silence_s(self) -> float | None:
        """Longest time without a frame in any stream [s]; None if it is not known."""
        return max((s for s in self.silence if s is not None), default=None)


class ReconfigurationRecord(StreamRecord):
    """What traffic lost while something beside it was changed."""

    heading = "Reconfiguration under traffic, effective blocked time"
    unit: Literal["s"]
    """of blocked times"""
    what: str
    """what was added, changed and removed"""
    duration_s: Number
    """length of each stream [s]"""
    at_s: Number
    """when the device was changed [s]"""
    changes: dict[str, dict[str, BlockedTimes]]
    """blocked times by what was done (`nothing`, `add`, `change`, `remove`), then by direction"""

    @property
    def ordered(self) -> Iterator[tuple[str, str, BlockedTimes]]:
        """What was done, in which direction, and the times, in the order of the streams."""
        for change in CONFIGURATION_CHANGES:
            yield from ((change, way, t) for way, t in self.changes.get(change, {}).items())

    def series(self) -> Iterator[tuple[str, Series, str]]:
        yield from ((f"{change} {way} ", times, "s") for change, way, times in self.ordered)


_FIELDS = {"blocked_s": "values", "silence_s": "silence"}
"""Fields of :class:`BlockedTimes` that have another name in a stream."""


class ReconfigurationSettings(ShareSettings):
    """Reconfiguration under traffic."""

    duration_s: float = Field(default=20.0, ge=0.1, le=3600)
    """Length of each stream [s]."""
    at_s: float = Field(default=5.0, gt=0, le=3600)
    """The device is changed so long after its beginning [s]."""
    repetitions: int = Field(default=5, ge=1, le=1000)
    """Times each change is made."""


class Reconfiguration(AtShare[ReconfigurationRecord, ReconfigurationSettings]):
    """What traffic loses while a rule, route or domain beside it is added, changed, removed."""

    name = "reconfiguration"
    csv_columns: ClassVar = {
        "change": "change of the configuration: `nothing`, `add`, `change` or `remove`",
        "direction": ROW_DIRECTION,
        "frames": "frames to send [frames]",
        "lost": "frames that did not return in time [frames]",
        "blocked_s": "effective blocked time: lost frames divided by the rate [s]",
        "silence_s": "longest time between two received frames [s]",
    }
    record: ClassVar[type[ReconfigurationRecord]] = ReconfigurationRecord
    order = 130
    connections = "also"
    model = ReconfigurationSettings
    quick = ReconfigurationSettings(duration_s=2.0, at_s=0.7, repetitions=2)
    reconfigures = True
    in_all = False

    def check(self, bound: RunContext) -> None:
        own = self.own(bound)
        if own.at_s >= own.duration_s:
            raise UsageError(
                f"a change at {own.at_s:g} s is not within a stream of {own.duration_s:g} s",
                "raise reconfiguration.duration_s",
                code="trial-too-short",
            )
        if bound.tester.simulates:
            return
        if not bound.driven:
            raise UsageError(
                "reconfiguration needs a device driver that changes the device under traffic",
                "name one with --dut or in the testbed file",
                code="missing-driver",
            )
        bound.describe_live_change()

    def caveats(self, bound: RunContext) -> Iterator[str]:
        yield (
            "reconfiguration: what is added, changed and removed has nothing to do with the test "
            "traffic"
        )

    def run(self, point: Point) -> Measured:
        rate_fps, source = self.rate(point)
        if not rate_fps:
            return self.nothing(
                point, "no rate passed, so there is no rate to change the device at"
            )
        own, bound = self.own(point.bound), point.bound
        spec = point.specify(ReconfigurationSpec, own, rate_fps=rate_fps, rate_source=source)
        result = measure_reconfiguration(spec, point.measure, point.watch)
        rows, changes = [], dict[str, dict[str, dict[str, list[Any]]]]()
        for stream in chain.from_iterable(result.repetitions):
            for way, blocked in stream.directions.items():
                head = {**row_head(spec.conditions, stream.number), "change": stream.change}
                rows.append({**head, "direction": way, **asdict(blocked)})
                values = changes.setdefault(stream.change, {}).setdefault(way, defaultdict(list))
                for name, value in asdict(blocked).items():
                    values[_FIELDS.get(name, name)].append(value)
        record = ReconfigurationRecord.of(
            result,
            point.said,
            not_measured=None if changes else "the tester faltered in every stream",
            what="simulated" if bound.tester.simulates else bound.describe_live_change(),
            changes=changes,
        )
        return Measured(record, rows)

    columns = (
        *POINT,
        Column("done", lambda line: line.value[0], text=True),
        Column("offered fps\nper direction", lambda line: offered(line.record, line.record.rate)),
        Column("blocked s\nmedian", lambda line: seconds(line.value[1].median)),
        Column("min", lambda line: seconds(line.value[1].min)),
        Column("max", lambda line: seconds(line.value[1].max)),
        Column("lost frames\nmost", lambda line: count(max(line.value[1].lost))),
        Column("longest\nsilence s", lambda line: seconds(line.value[1].longest_silence_s)),
        Column("times", lambda line: str(len(line.value[1].values))),
    )

    def rows(self, records: Sequence[ReconfigurationRecord]) -> list[Line]:
        return [Line(r, (change, times), way) for r in records for change, way, times in r.ordered]

    def notes(self, records: Sequence[ReconfigurationRecord]) -> list[str]:
        return [f"changed: {records[0].what}"]

    def definition(self, records: Sequence[ReconfigurationRecord]) -> str:
        return (
            "Blocked time: frames that were lost in a stream over its rate, while something else of "
            "the device was changed (FD.io CSIT's measure)."
        )

    def results(self, record: ReconfigurationRecord) -> Iterator[Result]:
        for change, way, series in record.ordered:
            yield Result(
                f"blocked, {change}, {way}",
                "s",
                series.values,
                more_is_better=False,
                at=f"{record.rate:,.0f} fps",
                headline=f"blocked s, {change} {way}",
                summary=series,
            )

    def shown(self, value: float | None) -> str:
        return seconds(value)

    def warnings(self, record: ReconfigurationRecord) -> Iterator[tuple[str, str]]:
        for way, series in record.changes.get(NO_CHANGE, {}).items():
            if any(series.lost):
                yield (
                    "loss-without-change",
                    f"up to {max(series.lost):,} frames were lost {way} without any change: the rate is one "
                    "at which the device loses by itself",
                )
