"""What all procedures share: the conditions of a point, trials that are repeated when invalid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from v6t.procedures.trial import (
    DelayRequest,
    Event,
    Measure,
    Mode,
    Segment,
    Starts,
    Trial,
    TrialResult,
)
from v6t.procedures.validity import Verdict, assess_trial


@dataclass(frozen=True)
class Conditions:
    """What holds for every trial of one point.

    Attributes:
        ipv6_frame_size, ipv4_frame_size: octets with FCS.
        mode: directions under load.
        residual_wait_s, pause_s: see :class:`~v6t.procedures.trial.Trial`.
        loss_tolerance, sending_time_tolerance: see :func:`~v6t.procedures.validity.assess_trial`.
        invalid_retries: times an invalid trial is measured again before it counts as failed.
        frame_timeout_s: frames that take longer are lost (TP-06, FLR-06); None: off.
        variant: begins the keys of trials whose traffic is a variant of the run's own.
        starts: see :class:`~v6t.procedures.trial.Trial`.
    """

    ipv6_frame_size: int
    ipv4_frame_size: int
    mode: Mode
    residual_wait_s: float
    pause_s: float
    loss_tolerance: float = 0.0
    sending_time_tolerance: float = 1.00001
    invalid_retries: int = 2
    frame_timeout_s: float | None = None
    variant: str = ""
    starts: Starts | None = None

    def point(self, benchmark: str) -> str:
        """Start of the keys of a benchmark's trials."""
        return f"{self.variant}{benchmark}/{self.ipv6_frame_size}/{self.mode}"


@dataclass(frozen=True)
class Attempt:
    """One trial as judged."""

    trial: Trial
    verdict: Verdict


@dataclass(frozen=True)
class Outcome:
    """A trial and its repetitions for the tester's sake.

    Attributes:
        attempts: all of them; only the last can be valid.
        result: what the last one counted.
    """

    attempts: tuple[Attempt, ...]
    result: TrialResult

    @property
    def verdict(self) -> Verdict:
        """Judgement of the last attempt."""
        return self.attempts[-1].verdict

    @property
    def trial(self) -> Trial:
        """The last attempt's trial."""
        return self.attempts[-1].trial


@dataclass(frozen=True)
class Progress:
    """What is about to happen or has just happened, for whoever watches.

    Attributes:
        point: see :meth:`Conditions.point`.
        repetition: from 1; repetitions: how many there will be.
        step: from 1; steps: expected in this repetition.
        low_fps, high_fps: bracket before the trial; equal where nothing is searched.
        rate_fps: rate under test.
        verdict: None before the trial.
    """

    point: str
    repetition: int
    repetitions: int
    step: int
    steps: int
    low_fps: float
    high_fps: float
    rate_fps: float
    verdict: Verdict | None = None


Watch = Callable[[Progress], None]


def attempt(
    conditions: Conditions,
    measure: Measure,
    *,
    benchmark: str,
    step: str,
    rate_fps: float,
    duration_s: float,
    pause_s: float | None = None,
    delays: DelayRequest | None = None,
    then: Segment | None = None,
    event: Event | None = None,
    check: Callable[[Trial, TrialResult], str | None] | None = None,
) -> Outcome:
    """Run one trial, again while the tester falters.

    Args:
        conditions: of the point.
        measure: the door.
        benchmark: who asks.
        step: the rest of the key, for example ``r01/s03``.
        rate_fps: per direction.
        duration_s: of the stream, or of its first segment.
        pause_s: instead of the conditions' pause.
        delays: see :class:`~v6t.procedures.trial.Trial`.
        then: see there.
        event: see there.
        check: finds a further fault of the tester in a result, or None.
    """
    attempts: list[Attempt] = []
    for again in range(1, conditions.invalid_retries + 2):
        trial = Trial(
            benchmark=benchmark,
            key=f"{conditions.point(benchmark)}/{step}/a{again}",
            ipv6_frame_size=conditions.ipv6_frame_size,
            ipv4_frame_size=conditions.ipv4_frame_size,
            mode=conditions.mode,
            rate_fps=rate_fps,
            duration_s=duration_s,
            residual_wait_s=conditions.residual_wait_s,
            pause_s=conditions.pause_s if pause_s is None else pause_s,
            delays=delays,
            frame_timeout_s=conditions.frame_timeout_s,
            then=then,
            event=event,
            starts=conditions.starts,
        )
        result = measure(trial)
        verdict = assess_trial(
            trial,
            result,
            loss_tolerance=conditions.loss_tolerance,
            sending_time_tolerance=conditions.sending_time_tolerance,
        )
        fault = check(trial, result) if check is not None and verdict.valid else None
        if fault is not None:
            verdict = replace(verdict, passed=False, valid=False, reasons=(fault,))
        attempts.append(Attempt(trial, verdict))
        if verdict.valid:
            break
    return Outcome(tuple(attempts), result)
