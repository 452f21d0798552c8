"""Benchmarks in which a frame that comes too late is lost (TP-06, FLR-06)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import Benchmark
from v6t.benchmarks.settings import Flag
from v6t.trials.trial import Capability

if TYPE_CHECKING:
    from v6t.benchmarks.context import RunContext


class FrameTimeoutSettings(StrictModel):
    """Deadline of every frame (TP-06, FLR-06)."""

    deadline_ms: Annotated[float | None, Flag("--frame-timeout")] = Field(default=None, gt=0)
    """Frames that take longer are lost [ms]."""


class Deadline(Benchmark[Any, Any]):
    """The same benchmark with a deadline for every frame; never instead of it."""

    heeds = frozenset({"adaptive"})
    in_all = False
    further: ClassVar[Mapping[str, type[StrictModel]]] = {"frame_timeout": FrameTimeoutSettings}
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"frame-timeout"})

    def deadline_ms(self, bound: RunContext) -> float | None:
        """The deadline, if one is given."""
        settings: FrameTimeoutSettings = self.shared(bound, "frame_timeout")
        return settings.deadline_ms

    def timeout_s(self, bound: RunContext) -> float:
        """The deadline [s]."""
        return (self.deadline_ms(bound) or 0.0) / 1000

    def trial_s(self, bound: RunContext) -> float:
        """Length of its trials [s]."""
        return bound.settings.procedure.trial_duration_s

    def check(self, bound: RunContext) -> None:
        """Refuse a run without a deadline, and one that no frame can miss."""
        super().check(bound)
        deadline_ms = self.deadline_ms(bound)
        if deadline_ms is None:
            raise UsageError(
                f"{self.name} needs a deadline",
                "give --frame-timeout in milliseconds",
                code="missing-setting",
            )
        longest = 1000 * (self.trial_s(bound) + bound.settings.procedure.residual_wait_s)
        if deadline_ms >= longest:
            raise UsageError(
                f"a deadline of {deadline_ms:g} ms never ends before the trial: "
                f"it must be below {longest:g} ms",
                code="trial-too-short",
            )
