"""Benchmarks in which a frame that comes too late is lost (TP-06, FLR-06)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from v6t.core.benchmarks.base import Benchmark
from v6t.procedures.trial import Ability
from v6t.profiles.errors import UsageError

if TYPE_CHECKING:
    from v6t.core.config.bound import BoundRun


class Deadline(Benchmark[Any, Any]):
    """The same benchmark with a deadline for every frame; never instead of it."""

    heeds = frozenset({"adaptive", "frame_timeout_ms"})
    abilities: ClassVar[frozenset[Ability]] = frozenset({"frame-timeout"})

    def timeout_s(self, bound: BoundRun) -> float:
        """The deadline [s]."""
        return (bound.settings.procedure.frame_timeout_ms or 0.0) / 1000

    def trial_s(self, bound: BoundRun) -> float:
        """Length of its trials [s]."""
        return bound.settings.procedure.trial_duration_s

    def check(self, bound: BoundRun) -> None:
        """Refuse a run without a deadline, and one that no frame can miss."""
        super().check(bound)
        p = bound.settings.procedure
        if p.frame_timeout_ms is None:
            raise UsageError(
                f"{self.name} needs a deadline", "give --frame-timeout in milliseconds"
            )
        longest = 1000 * (self.trial_s(bound) + p.residual_wait_s)
        if p.frame_timeout_ms >= longest:
            raise UsageError(
                f"a deadline of {p.frame_timeout_ms:g} ms never ends before the trial: "
                f"it must be below {longest:g} ms"
            )
