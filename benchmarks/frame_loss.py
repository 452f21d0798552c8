"""Frame loss rate (RFC 8219 section 7.4), and the same with a deadline for every frame."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import Benchmark
from v6t.benchmarks.deadline import Deadline
from v6t.benchmarks.point import Cost, Measured, MeasurementPoint, Point, cost_of
from v6t.benchmarks.presentations.loss import FrameLossPresentation, LossTimeoutPresentation
from v6t.benchmarks.records.loss import FrameLossRecord, frame_loss_record, frame_loss_rows
from v6t.procedures.frame_loss import LARGEST_STEP, FrameLossSpec, measure_frame_loss
from v6t.trials.conditions import Conditions

if TYPE_CHECKING:
    from v6t.benchmarks.context import RunContext


FREE_OF_LOSS = 2
"""Successive rates without loss end the descent (RFC 2544 section 26.3)."""


class FrameLossSettings(StrictModel):
    """Frame loss rate (FLR-02, FLR-03)."""

    step: float = Field(default=LARGEST_STEP, gt=0, le=LARGEST_STEP)
    """Step as a share of the maximum rate."""
    rates_fps: tuple[float, ...] | None = None
    """These rates instead of the RFC's descent: the procedure of the papers."""
    duration_s: float | None = Field(default=None, ge=0.001, le=86_400)
    """Length of each stream [s]; None: that of the throughput trials."""
    repetitions: int | None = Field(default=None, ge=1, le=100_000)
    """None: as for throughput."""


class FrameLoss(FrameLossPresentation, Benchmark[FrameLossRecord, FrameLossSettings]):
    """Lost shares of the frames at falling rates."""

    summary = "The share of frames that is lost at rates from the maximum down."
    order = 30
    searches = True
    connections = "also"
    section = "frame_loss"
    model = FrameLossSettings
    quick = FrameLossSettings(duration_s=0.4, repetitions=1)
    heeds = frozenset({"adaptive"})
    incremental = True

    def conditions(self, point: Point) -> Conditions:
        """Of its trials."""
        return point.conditions()

    def check(self, bound: RunContext) -> None:
        """Refuse a list of rates that are none."""
        super().check(bound)
        rates = self.own(bound).rates_fps
        if rates is not None and (not rates or min(rates) <= 0):
            raise UsageError(
                "frame_loss.rates_fps must be a non-empty list of positive rates",
                "write for example [1e5, 2e5, 3e5]",
                code="not-a-number",
            )

    def cost(self, point: Point) -> Cost:
        """If no two successive rates are free of loss; by the throughput, where that is known."""
        spec = self._spec(point)
        repetitions = spec.adaptive.most if spec.adaptive else spec.repetitions
        each = cost_of(spec.conditions, repetitions, spec.duration_s)
        if spec.rates_fps is not None:
            return each * len(spec.rates)
        if point.known_fps:
            lossy = sum(rate > point.known_fps for rate in spec.rates)
            return each * min(lossy + FREE_OF_LOSS, len(spec.rates))
        return (each * len(spec.rates)).or_only(each * min(FREE_OF_LOSS, len(spec.rates)))

    def run(self, point: MeasurementPoint) -> Measured:
        """The RFC's descent from what medium and tester carry, or the papers' list of rates."""
        result = measure_frame_loss(self._spec(point), point.measure, point.watch)
        record = frame_loss_record(result, media_fps=point.media_fps, conditions=point.said)
        return Measured(record, frame_loss_rows(result))

    def _spec(self, point: Point) -> FrameLossSpec:
        f, p, at = self.own(point.bound), point.procedure, self.conditions(point)
        maximum_fps = max(f.rates_fps) if f.rates_fps else point.limit_fps
        return FrameLossSpec(
            conditions=replace(at, search_limit_fps=maximum_fps),
            maximum_fps=maximum_fps,
            maximum_reason="given" if f.rates_fps else point.limit_reason,
            duration_s=(f.duration_s or p.trial_duration_s) + at.extra_duration_s,
            repetitions=f.repetitions or p.repetitions,
            step=f.step,
            rates_fps=f.rates_fps,
            adaptive=point.adaptive,
        )


class FrameLossFrameTimeout(Deadline, LossTimeoutPresentation, FrameLoss):
    """A frame that takes longer than a deadline is lost (FLR-06)."""

    summary = "The share of frames that is lost or comes too late, at falling rates."
    order = 40

    def trial_s(self, bound: RunContext) -> float:
        """Length of its streams [s]."""
        return self.own(bound).duration_s or super().trial_s(bound)

    def conditions(self, point: Point) -> Conditions:
        """With a deadline for every frame."""
        return replace(point.conditions(), frame_timeout_s=self.timeout_s(point.bound))
