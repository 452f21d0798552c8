"""Critical load of devices whose loss is random, by PLRsearch's method."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import Benchmark
from v6t.benchmarks.point import Cost, Measured, MeasurementPoint, Point
from v6t.benchmarks.presentations.soak import CriticalLoadPresentation
from v6t.benchmarks.records.soak import (
    CriticalLoadRecord,
    critical_load_record,
    critical_load_rows,
)
from v6t.benchmarks.settings import Flag
from v6t.procedures.critical_load import CriticalLoadSpec, measure_critical_load

if TYPE_CHECKING:
    from v6t.benchmarks.context import RunContext

LEAST = 1000
"""The smallest load is that part of the largest."""


class CriticalLoadSettings(StrictModel):
    """Critical load (PLRsearch)."""

    target: Annotated[float, Flag("--critical-loss")] = Field(default=1e-7, gt=0, lt=0.5)
    """Share of the frames that is lost at the critical load, on average."""
    search_s: float = Field(default=1800.0, ge=0.1, le=86_400)
    """Length of all trials together [s]."""
    first_s: float = Field(default=5.1, ge=0.01, le=3600)
    """Length of the first trial [s]."""
    longer_s: float = Field(default=0.1, ge=0, le=60)
    """Each trial is longer by so much than the one before [s]."""


class CriticalLoad(CriticalLoadPresentation, Benchmark[CriticalLoadRecord, CriticalLoadSettings]):
    """The load at which a share of the frames is lost on average."""

    summary = (
        "The load at which a device with random loss loses a given share on average (PLRsearch)."
    )
    order = 120
    searches = True
    connections = "also"
    section = "critical_load"
    model = CriticalLoadSettings
    quick = CriticalLoadSettings(target=1e-3, search_s=8.0, first_s=0.3, longer_s=0.01)
    in_all = False

    def caveats(self, bound: RunContext) -> Iterator[str]:
        """It is easily taken for a throughput."""
        own = self.own(bound)
        yield (
            f"critical-load is the rate at which {100 * own.target:g} % are lost on average: no RFC 8219 "
            "throughput"
        )
        if own.search_s < 1800:
            yield f"critical-load: {own.search_s:g} s of trials, not the 1,800 s of FD.io CSIT"

    def cost(self, point: Point) -> Cost:
        """All trials, whatever comes out."""
        spec = self._spec(point)
        at, durations = spec.conditions, spec.durations_s
        return Cost(
            len(durations), sum(durations) + len(durations) * (at.pause_s + at.residual_wait_s)
        )

    def run(self, point: MeasurementPoint) -> Measured:
        """Search for as long as asked."""
        # it brings numpy, which what only lists the benchmarks does without
        from v6t.analysis.posterior import Inference

        result = measure_critical_load(self._spec(point), point.measure, Inference(), point.watch)
        record = critical_load_record(
            result,
            bound=(point.limit_fps, point.limit_reason),
            capacity_fps=point.tester_capacity.rate_fps,
            conditions=point.said,
        )
        if record is None:
            return self.nothing(point, "the tester faltered in all trials but one", point.said)
        return Measured(record, critical_load_rows(result))

    def _spec(self, point: Point) -> CriticalLoadSpec:
        own = self.own(point.bound)
        return CriticalLoadSpec(
            conditions=point.conditions(search_limit_fps=point.limit_fps),
            least_fps=point.limit_fps / LEAST,
            most_fps=point.limit_fps,
            target=own.target,
            search_s=own.search_s,
            first_s=own.first_s,
            longer_s=own.longer_s,
        )
