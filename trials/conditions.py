"""Conditions of a point: the settings that all of its trials share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from v6t.trials.queries import Queries
from v6t.trials.result import TrialResult
from v6t.trials.trial import FlowStarts, Mode, Trial, format_mix, make_sizes_key
from v6t.trials.verdict import Verdict, assess_trial


@dataclass(frozen=True)
class Conditions:
    """Settings of every trial of one point.

    Attributes:
        ipv6_frame_size, ipv4_frame_size, mode, residual_wait_s, pause_s, frame_timeout_s,
            flow_starts, search_limit_fps, queries, mix: see :class:`~v6t.trials.trial.Trial`.
        loss_tolerance, sending_time_tolerance: see :func:`~v6t.trials.verdict.assess_trial`.
        invalid_retries: how often an invalid trial is repeated before it counts as failed.
        variant: prefix of the trials' keys if their traffic is a variant of the run's own.
    """

    ipv6_frame_size: float
    ipv4_frame_size: float
    mode: Mode
    residual_wait_s: float
    pause_s: float
    loss_tolerance: float = 0.0
    sending_time_tolerance: float = 1.00001
    invalid_retries: int = 2
    frame_timeout_s: float | None = None
    variant: str = ""
    flow_starts: FlowStarts | None = None
    search_limit_fps: float | None = None
    queries: Queries | None = None
    mix: str | None = None

    @property
    def size_label(self) -> float | str:
        """Frame size, or mix of sizes, for tables."""
        return self.ipv6_frame_size if self.mix is None else format_mix(self.mix)

    @property
    def extra_duration_s(self) -> float:
        """Time until the last flow has started, by which trials are longer [s]."""
        return self.flow_starts.last_start_s if self.flow_starts else 0.0

    def make_key_prefix(self, benchmark: str) -> str:
        """Return the common start of the keys of a benchmark's trials."""
        size = make_sizes_key(self.ipv6_frame_size, self.mix)
        return f"{self.variant}{benchmark}/{size}/{self.mode}"

    def make_trial(
        self, benchmark: str, rate_fps: float, duration_s: float, **settings: Any
    ) -> Trial:
        """Make a trial under these conditions, with an empty key.

        Args:
            benchmark: name of the procedure.
            rate_fps: frames per second per direction.
            duration_s: length of the stream, or of its first segment [s].
            settings: further attributes of the trial.
        """
        shared: dict[str, Any] = {
            "ipv6_frame_size": self.ipv6_frame_size,
            "ipv4_frame_size": self.ipv4_frame_size,
            "mix": self.mix,
            "mode": self.mode,
            "residual_wait_s": self.residual_wait_s,
            "pause_s": self.pause_s,
            "frame_timeout_s": self.frame_timeout_s,
            "flow_starts": self.flow_starts,
            "queries": self.queries,
            "search_limit_fps": self.search_limit_fps,
            **settings,
        }
        return Trial(benchmark, "", rate_fps=rate_fps, duration_s=duration_s, **shared)

    def assess(self, trial: Trial, result: TrialResult) -> Verdict:
        """Return the verdict on a trial, with the tolerances of these conditions."""
        return assess_trial(
            trial,
            result,
            loss_tolerance=self.loss_tolerance,
            sending_time_tolerance=self.sending_time_tolerance,
        )
