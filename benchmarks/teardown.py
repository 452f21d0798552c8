"""Connection tear-down rate (RFC 9693 section 4.8)."""

from __future__ import annotations

from pydantic import Field
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import Benchmark, Phase
from v6t.benchmarks.phase_one import (
    assumed_rate,
    filling_cost,
    phase_one_settings,
    rate,
    setup_of,
)
from v6t.benchmarks.point import Cost, Measured, MeasurementPoint, Point
from v6t.benchmarks.presentations.connections import TeardownPresentation
from v6t.benchmarks.records.state_table import TeardownRecord, teardown_record, teardown_rows
from v6t.procedures.stateful.teardown import TeardownSpec, measure_teardown


class TeardownSettings(StrictModel):
    """Tear-down rate (RFC 9693 section 4.8)."""

    repetitions: int | None = Field(default=None, ge=1, le=100_000)
    """Fillings; none: as for throughput."""


class Teardown(TeardownPresentation, Benchmark[TeardownRecord, TeardownSettings]):
    """How fast a full table is emptied."""

    summary = "How fast the device empties a full table of connections."
    phase = Phase.TABLE
    order = 10
    connections = "only"
    one_size = True
    section = "teardown"
    model = TeardownSettings

    def cost(self, point: Point) -> Cost:
        """Filling the table, and emptying it."""
        spec = self._spec(point, assumed_rate(point), "assumed")
        connections = spec.phase_one.connections(spec.connections, spec.rate_cps)
        return filling_cost(point, spec.conditions.pause_s, [connections]) * spec.repetitions

    def run(self, point: MeasurementPoint) -> Measured:
        """Fill and empty, as often as asked."""
        rate_cps, source = rate(point)
        if not rate_cps:
            return self.nothing(point, "no connection rate passed", point.said)
        spec = self._spec(point, rate_cps, source)
        result = measure_teardown(spec, point.measure, point.watch)
        record = teardown_record(
            result,
            method=point.emptying(),
            setup=setup_of(point.bound.technology),
            conditions=point.said,
        )
        return Measured(record, teardown_rows(result))

    def _spec(self, point: Point, rate_cps: float, source: str) -> TeardownSpec:
        p, c = point.procedure, point.procedure.connections
        return TeardownSpec(
            conditions=point.conditions(),
            connections=c.count,
            rate_cps=rate_cps,
            rate_source=source,
            repetitions=self.own(point.bound).repetitions or p.repetitions,
            phase_one=phase_one_settings(p),
            retakes=c.retakes,
        )
