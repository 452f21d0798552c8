"""Reset (RFC 8219 section 7.7, RFC 6201)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import Benchmark
from v6t.benchmarks.point import Cost, Measured, MeasurementPoint, Point, cost_of
from v6t.benchmarks.presentations.outages import ResetPresentation
from v6t.benchmarks.records.outages import OutageRecord, reset_record
from v6t.procedures.reset import ResetSpec, measure_reset
from v6t.trials.device_events import RESET_HOOKS

if TYPE_CHECKING:
    from v6t.benchmarks.context import RunContext


class ResetSettings(StrictModel):
    """Reset (RST-01, RST-02)."""

    hook: str = "software-reset"
    """Name of the hook (`dut.options.hooks`) that resets the device."""
    duration_s: float = Field(default=120.0, ge=0.001, le=86_400)
    """Length of the stream [s]."""
    at_s: float = Field(default=20.0, gt=0, le=86_400)
    """The reset is so long after its beginning [s]."""
    repetitions: int = Field(default=5, ge=1, le=100_000)
    """Resets."""


class Reset(ResetPresentation, Benchmark[OutageRecord, ResetSettings]):
    """How long a device forwards nothing while it is reset."""

    summary = "How long nothing is forwarded while the device is reset."
    order = 100
    connections = "also"
    section = "reset"
    model = ResetSettings
    quick = ResetSettings(duration_s=3.0, at_s=1.0, repetitions=2)
    heeds = frozenset({"rate_from"})
    capabilities = frozenset({"loss-times"})

    def check(self, bound: RunContext) -> None:
        """Refuse a reset that nobody can carry out, or outside the stream."""
        r = self.own(bound)
        if r.hook not in RESET_HOOKS:
            raise UsageError(
                f"unknown reset '{r.hook}'",
                "one of " + ", ".join(RESET_HOOKS),
                code="unknown-name",
            )
        if r.at_s >= r.duration_s:
            raise UsageError(
                f"a reset at {r.at_s:g} s is not within a stream of {r.duration_s:g} s",
                "raise reset.duration_s",
                code="trial-too-short",
            )
        if not bound.tester.simulates and r.hook not in bound.driver.hooks:
            raise UsageError(
                f"the device has no hook '{r.hook}'",
                "give its command in the testbed file: dut.options.hooks",
                code="unknown-name",
            )

    def cost(self, point: Point) -> Cost:
        """One stream per reset."""
        spec = self._spec(point, point.media_fps)
        return cost_of(spec.conditions, spec.repetitions, spec.duration_s)

    def run(self, point: MeasurementPoint) -> Measured:
        """A reset in the middle of each stream at the throughput."""
        throughput_fps, _ = point.throughput()
        if not throughput_fps:
            why = "no rate passed, so there is no rate to reset at"
            return self.nothing(point, why, point.said)
        result = measure_reset(self._spec(point, throughput_fps), point.measure, point.watch)
        record = reset_record(result, conditions=point.said)
        return Measured(record)

    def _spec(self, point: Point, rate_fps: float) -> ResetSpec:
        r = self.own(point.bound)
        return ResetSpec(
            conditions=point.conditions(),
            hook=r.hook,
            rate_fps=rate_fps,
            duration_s=r.duration_s,
            at_s=r.at_s,
            repetitions=r.repetitions,
        )
