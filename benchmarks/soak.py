"""Soak: hours at a share of the throughput, and loss over their time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from v6t.benchmarks.point import Cost, Measured, MeasurementPoint, Point, cost_of
from v6t.benchmarks.presentations.soak import SoakPresentation
from v6t.benchmarks.records.soak import SoakRecord, soak_record, soak_rows
from v6t.benchmarks.settings import Flag
from v6t.benchmarks.share import AtShare, ShareSettings
from v6t.procedures.soak import SoakSpec, measure_soak

if TYPE_CHECKING:
    from v6t.benchmarks.context import RunContext


class SoakSettings(ShareSettings):
    """Soak test: hours at one rate."""

    duration_s: Annotated[float, Flag("--soak")] = Field(default=7200.0, ge=0.01, le=2_592_000)
    """Length of all stretches of a soak test together: `4h`, `30min` [s]."""
    stretch_s: float = Field(default=60.0, ge=0.01, le=3600)
    """Length of a stretch; an interrupted run measures no more than one of them again [s]."""


class Soak(SoakPresentation, AtShare[SoakRecord, SoakSettings]):
    """Loss over hours, interval by interval."""

    summary = "Loss over hours at a share of the throughput, and when it came."
    order = 110
    connections = "also"
    section = "soak"
    model = SoakSettings
    quick = SoakSettings(duration_s=3.0, stretch_s=1.0)
    in_all = False

    def caveats(self, bound: RunContext) -> Iterator[str]:
        """What lies between stretches."""
        wait_s = bound.settings.procedure.residual_wait_s
        yield (
            f"soak: stretches of {self.own(bound).stretch_s:g} s with a wait of {wait_s:g} s for late "
            "frames after each, in which nothing is sent"
        )

    def cost(self, point: Point) -> Cost:
        """All stretches."""
        spec = self._spec(point, point.media_fps, "assumed")
        return cost_of(spec.conditions, 1, spec.stretch_s) + cost_of(
            point.conditions(pause_s=0.0), spec.stretches - 1, spec.stretch_s
        )

    def run(self, point: MeasurementPoint) -> Measured:
        """One stretch after the other at the same rate."""
        rate_fps, source = self.rate(point)
        if not rate_fps:
            return self.nothing(point, "no rate passed, so there is no rate to soak at", point.said)
        result = measure_soak(self._spec(point, rate_fps, source), point.measure, point.watch)
        return Measured(soak_record(result, conditions=point.said), soak_rows(result))

    def _spec(self, point: Point, rate_fps: float, source: str) -> SoakSpec:
        own = self.own(point.bound)
        return SoakSpec(
            conditions=point.conditions(),
            rate_fps=rate_fps,
            rate_source=source,
            stretches=max(1, math.ceil(own.duration_s / own.stretch_s - 1e-9)),
            stretch_s=own.stretch_s,
        )
