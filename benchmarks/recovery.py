"""System recovery (RFC 8219 section 7.6)."""

from __future__ import annotations

from pydantic import Field
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import Benchmark
from v6t.benchmarks.point import Cost, Measured, MeasurementPoint, Point, cost_of
from v6t.benchmarks.presentations.outages import RecoveryPresentation
from v6t.benchmarks.records.outages import OutageRecord, recovery_record
from v6t.procedures.recovery import RecoverySpec, measure_recovery


class RecoverySettings(StrictModel):
    """System recovery (REC-01)."""

    overload_s: float = Field(default=60.0, ge=0.001, le=86_400)
    """Length of the overload [s]."""
    afterwards_s: float = Field(default=60.0, ge=0.001, le=86_400)
    """Length of the lower rate after it [s]."""
    repetitions: int | None = Field(default=None, ge=1, le=100_000)
    """None: as for throughput."""


class SystemRecovery(RecoveryPresentation, Benchmark[OutageRecord, RecoverySettings]):
    """How long a device loses frames after an overload."""

    summary = "How long frames are still lost after an overload has ended."
    order = 90
    connections = "also"
    section = "system_recovery"
    model = RecoverySettings
    quick = RecoverySettings(overload_s=1.0, afterwards_s=1.0, repetitions=2)
    heeds = frozenset({"rate_from"})
    capabilities = frozenset({"two-rates", "loss-times"})
    incremental = True

    def cost(self, point: Point) -> Cost:
        """Overload and what follows, each repetition."""
        spec = self._spec(point, point.media_fps)
        return cost_of(spec.conditions, spec.repetitions, spec.overload_s + spec.afterwards_s)

    def run(self, point: MeasurementPoint) -> Measured:
        """Overload, then half of it."""
        throughput_fps, _ = point.throughput()
        if not throughput_fps:
            why = "no rate passed, so there is nothing to overload"
            return self.nothing(point, why, point.said)
        spec = self._spec(point, throughput_fps)
        result = measure_recovery(spec, point.measure, point.watch)
        record = recovery_record(result, conditions=point.said)
        return Measured(record)

    def _spec(self, point: Point, throughput_fps: float) -> RecoverySpec:
        r, at = self.own(point.bound), point.conditions()
        return RecoverySpec(
            conditions=at,
            throughput_fps=throughput_fps,
            limit_fps=point.limit_fps,
            overload_s=r.overload_s + at.extra_duration_s,
            afterwards_s=r.afterwards_s,
            repetitions=r.repetitions or point.procedure.repetitions,
        )
