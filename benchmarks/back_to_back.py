"""Back-to-back frames (RFC 2544 section 26.4, RFC 9004)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import Benchmark
from v6t.benchmarks.point import Cost, Measured, MeasurementPoint, Point, cost_of
from v6t.benchmarks.presentations.bursts import BurstPresentation
from v6t.benchmarks.records.bursts import BurstRecord, burst_record, burst_rows
from v6t.procedures.back_to_back import BurstResult, BurstSpec, measure_back_to_back

if TYPE_CHECKING:
    from v6t.benchmarks.context import RunContext

RFC_BURSTS = 50


class BurstSettings(StrictModel):
    """Back-to-back frames (B2B-01 to B2B-03)."""

    repetitions: int = Field(default=50, ge=1, le=100_000)
    """Searches for the longest burst."""
    longest_s: float = Field(default=2.0, gt=0, le=3600)
    """Longest burst of the search, up to 30 s and more (RFC 9004 section 6.2) [s]."""
    resolution_frames: int = Field(default=64, ge=1)
    """Step size: stop when the bracket is this narrow [frames]."""
    residual_wait_s: float = Field(default=2.0, ge=0, le=3600)
    """At least 2 s, so that the buffer has drained (RFC 9004 section 6.2); longer after longer bursts."""
    verifications: int = Field(default=1, ge=0, le=100)
    """Times a burst that loses is offered again before it counts."""
    at: Literal["media", "tester"] = "media"
    """``media``: refuse where the tester cannot send at the medium's rate; ``tester``: send at the
    tester's own maximum and say so."""
    sending_time_tolerance: float | None = Field(default=None, gt=1, le=100)
    """For these short streams instead of the general one; None: the general one."""

    @model_validator(mode="before")
    @classmethod
    def _of_earlier_versions(cls, values: Any) -> Any:
        """Searches of earlier versions began with short bursts, and their run files said so."""
        if isinstance(values, dict):
            return {k: v for k, v in values.items() if k != "first_frames"}
        return values


class BackToBack(BurstPresentation, Benchmark[BurstRecord, BurstSettings]):
    """The longest burst at the smallest gap that the device forwards without loss."""

    summary = "The longest burst without loss, and the buffer it stands for."
    order = 50
    searches = True
    connections = "also"
    section = "back_to_back"
    model = BurstSettings
    quick = BurstSettings(
        repetitions=2,
        longest_s=0.4,
        resolution_frames=2048,
        residual_wait_s=0.15,
        at="tester",
        # bursts of milliseconds: one hiccup of a shared machine is longer than all of them
        sending_time_tolerance=3.0,
    )
    heeds = frozenset({"rate_from"})

    def caveats(self, bound: RunContext) -> Iterator[str]:
        """Slow bursts, few repetitions."""
        b = self.own(bound)
        if unprovable := self._unprovable(bound):
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

        if any(isinstance(size, str) for size in bound.settings.frame_sizes):
            yield (
                "back-to-back: bursts of several frame sizes at the rate that the medium carries of "
                "their mean, not of one size (RFC 9004 section 3)"
            )

    def cost(self, point: Point) -> Cost:
        """If half of the bursts lose and are verified, each as long as half the longest."""
        spec = self._spec(point, point.media_fps / 2)
        trials = spec.repetitions * (spec.steps + spec.steps * spec.verifications // 2)
        # a throughput that reaches the bursts' rate leaves nothing to measure (B2B-02)
        if point.known_fps >= point.limit_fps:
            return Cost(0, 0.0)
        return cost_of(spec.conditions, trials, spec.longest_s / 2).or_only(Cost(0, 0.0))

    def run(self, point: MeasurementPoint) -> Measured:
        """Search the longest burst, unless the tester cannot send frames back to back (B2B-03)."""
        spec = self._spec(point, point.throughput()[0])
        refused = None
        if point.limit_reason == "tester" and self.own(point.bound).at == "media":
            refused = (
                f"the tester sends {point.tester_capacity.rate_fps:,.0f} fps, the medium carries "
                f"{point.media_fps:,.0f}: bursts would not be back to back "
                "(back_to_back.at: tester measures them all the same)"
            )
        refused = refused or self._unprovable(point.bound)
        result = (
            BurstResult(spec, ())
            if refused
            else measure_back_to_back(spec, point.measure, point.watch)
        )
        record = burst_record(result, refused=refused, conditions=point.said)
        return Measured(record, burst_rows(result))

    def _tolerance(self, bound: RunContext) -> float:
        general = bound.settings.procedure.sending_time_tolerance
        return self.own(bound).sending_time_tolerance or general

    def _unprovable(self, bound: RunContext) -> str | None:
        """Why no burst is long enough for what the tester knows of its sending time."""
        longest_s, error_s = self.own(bound).longest_s, bound.tester.sending_error_s
        slack_s = longest_s * (self._tolerance(bound) - 1)
        if slack_s >= error_s:
            return None
        return (
            f"a burst of {longest_s:g} s may take {1e6 * slack_s:.0f} µs longer, but the tester "
            f"knows its sending time to {1e6 * error_s:.0f} µs only "
            "(back_to_back.sending_time_tolerance, back_to_back.longest_s)"
        )

    def _spec(self, point: Point, throughput_fps: float) -> BurstSpec:
        b = self.own(point.bound)
        tolerance = self._tolerance(point.bound)
        error_s = point.bound.tester.sending_error_s
        return BurstSpec(
            conditions=point.conditions(
                residual_wait_s=b.residual_wait_s, sending_time_tolerance=tolerance
            ),
            rate_fps=point.limit_fps,
            rate_reason=point.limit_reason,
            throughput_fps=throughput_fps,
            longest_s=b.longest_s,
            resolution_frames=b.resolution_frames,
            repetitions=b.repetitions,
            verifications=b.verifications,
            shortest_frames=max(1, math.ceil(error_s * point.limit_fps / (tolerance - 1))),
        )
