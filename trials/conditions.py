"""Conditions of a point: the settings that all of its trials share."""

from dataclasses import dataclass, fields
from typing import Any

from v6t.trials.result import TrialResult
from v6t.trials.trial import FlowStarts, Mode, Queries, Trial, format_mix, make_sizes_key
from v6t.trials.verdict import Verdict, assess_trial


@dataclass(frozen=True)
class Conditions:
    """Conditions common to all trials of a point, including :class:`~v6t.trials.trial.Trial` attributes."""

    ipv6_frame_size: float
    ipv4_frame_size: float
    mode: Mode
    residual_wait_s: float
    pause_s: float
    loss_tolerance: float = 0.0  # see :func:`~v6t.trials.verdict.assess_trial`
    sending_time_tolerance: float = 1.00001  # see :func:`~v6t.trials.verdict.assess_trial`
    invalid_retries: int = 2  # how often an invalid trial is repeated before it counts as failed
    frame_timeout_s: float | None = None
    variant: str = ""  # prefix of the trials' keys if their traffic is a variant of the run's own
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
        """Make a trial under these conditions, with an empty key and further attributes."""
        shared = {f.name: getattr(self, f.name) for f in fields(self) if f.name in _TRIAL_FIELDS}
        settings = {**shared, "rate_fps": rate_fps, "duration_s": duration_s, **settings}
        return Trial(benchmark, "", **settings)

    def assess(self, trial: Trial, result: TrialResult) -> Verdict:
        """Return the verdict on a trial, with the tolerances of these conditions."""
        return assess_trial(
            trial,
            result,
            loss_tolerance=self.loss_tolerance,
            sending_time_tolerance=self.sending_time_tolerance,
        )


_TRIAL_FIELDS = {field.name for field in fields(Trial)}
