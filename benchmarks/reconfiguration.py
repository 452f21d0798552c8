"""Reconfiguration: what traffic loses while something beside it is added, changed and removed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.benchmarks.point import Cost, Measured, MeasurementPoint, Point, cost_of
from v6t.benchmarks.presentations.reconfiguration import ReconfigurationPresentation
from v6t.benchmarks.records.reconfiguration import (
    ReconfigurationRecord,
    reconfiguration_record,
    reconfiguration_rows,
)
from v6t.benchmarks.share import AtShare, ShareSettings
from v6t.procedures.reconfiguration import ReconfigurationSpec, measure_reconfiguration
from v6t.trials.device_events import CONFIGURATION_CHANGES

if TYPE_CHECKING:
    from v6t.benchmarks.context import RunContext


class ReconfigurationSettings(ShareSettings):
    """Reconfiguration under traffic."""

    duration_s: float = Field(default=20.0, ge=0.1, le=3600)
    """Length of each stream [s]."""
    at_s: float = Field(default=5.0, gt=0, le=3600)
    """The device is changed so long after its beginning [s]."""
    repetitions: int = Field(default=5, ge=1, le=1000)
    """Times each change is made."""


class Reconfiguration(
    ReconfigurationPresentation, AtShare[ReconfigurationRecord, ReconfigurationSettings]
):
    """Lost frames and blocked time by kind of change."""

    summary = (
        "What traffic loses while a rule, route or domain beside it is added, changed, removed."
    )
    order = 130
    connections = "also"
    section = "reconfiguration"
    model = ReconfigurationSettings
    quick = ReconfigurationSettings(duration_s=2.0, at_s=0.7, repetitions=2)
    reconfigures = True
    in_all = False

    def check(self, bound: RunContext) -> None:
        """Refuse a change outside the stream, and a device that nobody can change."""
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
        """What is changed, and what is not."""
        del bound
        yield (
            "reconfiguration: what is added, changed and removed has nothing to do with the test "
            "traffic"
        )

    def cost(self, point: Point) -> Cost:
        """A stream for each change and one without."""
        spec = self._spec(point, point.media_fps, "assumed")
        return cost_of(
            spec.conditions, spec.repetitions * len(CONFIGURATION_CHANGES), spec.duration_s
        )

    def run(self, point: MeasurementPoint) -> Measured:
        """One change after the other."""
        rate_fps, source = self.rate(point)
        if not rate_fps:
            why = "no rate passed, so there is no rate to change the device at"
            return self.nothing(point, why, point.said)
        spec = self._spec(point, rate_fps, source)
        result = measure_reconfiguration(spec, point.measure, point.watch)
        record = reconfiguration_record(result, what=self._what(point.bound), conditions=point.said)
        return Measured(record, reconfiguration_rows(result))

    def _what(self, bound: RunContext) -> str:
        if bound.tester.simulates:
            return "simulated"
        return bound.describe_live_change()

    def _spec(self, point: Point, rate_fps: float, source: str) -> ReconfigurationSpec:
        own = self.own(point.bound)
        return ReconfigurationSpec(
            conditions=point.conditions(),
            rate_fps=rate_fps,
            rate_source=source,
            duration_s=own.duration_s,
            at_s=own.at_s,
            repetitions=own.repetitions,
        )
