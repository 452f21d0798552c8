"""Throughput (RFC 8219 section 7.1, RFC 2544 section 26.1): TP-01 to TP-05.

Follows the procedure with the rules the siitperf and Mapperf papers added: the result is the
highest passed rate, a trial in which the tester faltered is repeated and never counts as loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from v6t.procedures.search import SearchResult, Step, binary_search, halvings
from v6t.procedures.trial import Measure, Mode, Trial
from v6t.procedures.validity import Verdict, judge_trial

BENCHMARK = "throughput"


@dataclass(frozen=True)
class ThroughputSpec:
    """One point: frame sizes, directions, and how to search.

    Attributes:
        ipv6_frame_size, ipv4_frame_size: octets with FCS.
        mode: directions under load.
        upper_bound_fps: highest rate offered per direction [fps].
        upper_bound_reason: ``media`` or ``tester``, whichever is smaller.
        resolution_fps: error of the search [fps].
        duration_s, residual_wait_s, pause_s: see :class:`~v6t.procedures.trial.Trial`.
        repetitions: searches; the RFC asks for 20 (GEN-17).
        loss_tolerance, sending_time_tolerance: see :func:`~v6t.procedures.validity.judge_trial`.
        invalid_retries: times an invalid trial is measured again before it counts as failed.
        confirmations: times the found rate must pass again (TP-04); a rate that does not is
            lowered to the next one that passed.
    """

    ipv6_frame_size: int
    ipv4_frame_size: int
    mode: Mode
    upper_bound_fps: float
    upper_bound_reason: str
    resolution_fps: float
    duration_s: float
    residual_wait_s: float
    pause_s: float
    repetitions: int
    loss_tolerance: float = 0.0
    sending_time_tolerance: float = 1.00001
    invalid_retries: int = 2
    confirmations: int = 0

    @property
    def point(self) -> str:
        """Start of the keys of all its trials."""
        return f"{BENCHMARK}/{self.ipv6_frame_size}/{self.mode}"

    @property
    def steps(self) -> int:
        """Trials of one search when every one is valid, confirmations left out."""
        return halvings(self.upper_bound_fps, self.resolution_fps) + 1


@dataclass(frozen=True)
class Attempt:
    """One trial as judged."""

    trial: Trial
    verdict: Verdict


@dataclass(frozen=True)
class Repetition:
    """One search.

    Attributes:
        number: from 1.
        search: the steps and the rate found.
        rate_fps: the rate reported, after confirmations [fps per direction].
        attempts: every trial, invalid ones included.
    """

    number: int
    search: SearchResult
    rate_fps: float
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True)
class ThroughputResult:
    """All repetitions of one point."""

    spec: ThroughputSpec
    repetitions: tuple[Repetition, ...]


@dataclass(frozen=True)
class Progress:
    """What is about to happen or has just happened, for whoever watches.

    Attributes:
        point: see :attr:`ThroughputSpec.point`.
        repetition: from 1; repetitions: how many there will be.
        step: from 1; steps: expected in this search.
        low_fps, high_fps: bracket before the trial.
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


def measure_throughput(
    spec: ThroughputSpec, measure: Measure, watch: Watch | None = None
) -> ThroughputResult:
    """Repeat the search; deterministic given the trial results, so a journal can replay it."""
    repetitions = tuple(
        _repetition(spec, number, measure, watch) for number in range(1, spec.repetitions + 1)
    )
    return ThroughputResult(spec, repetitions)


def _repetition(
    spec: ThroughputSpec, number: int, measure: Measure, watch: Watch | None
) -> Repetition:
    attempts: list[Attempt] = []
    bracket = [0.0, spec.upper_bound_fps]
    done = 0

    def try_rate(rate_fps: float, step: str) -> Verdict:
        nonlocal done
        progress = Progress(
            spec.point, number, spec.repetitions, done + 1, max(spec.steps, done + 1),
            bracket[0], bracket[1], rate_fps,
        )  # fmt: skip
        if watch:
            watch(progress)
        verdict = _attempt(spec, f"r{number:02d}/{step}", rate_fps, measure, attempts)
        done += 1
        if watch:
            watch(replace(progress, verdict=verdict))
        return verdict

    def narrow(step: Step) -> None:
        bracket[:] = step.low_fps, step.high_fps

    search = binary_search(
        try_rate,
        upper_fps=spec.upper_bound_fps,
        resolution_fps=spec.resolution_fps,
        on_step=narrow,
    )
    rate_fps = _confirm(spec, search, try_rate)
    return Repetition(number, search, rate_fps, tuple(attempts))


def _attempt(
    spec: ThroughputSpec, step: str, rate_fps: float, measure: Measure, attempts: list[Attempt]
) -> Verdict:
    """Measure one rate, again while the tester falters."""
    for again in range(1, spec.invalid_retries + 2):
        trial = Trial(
            benchmark=BENCHMARK,
            key=f"{spec.point}/{step}/a{again}",
            ipv6_frame_size=spec.ipv6_frame_size,
            ipv4_frame_size=spec.ipv4_frame_size,
            mode=spec.mode,
            rate_fps=rate_fps,
            duration_s=spec.duration_s,
            residual_wait_s=spec.residual_wait_s,
            pause_s=spec.pause_s,
        )
        verdict = judge_trial(
            trial,
            measure(trial),
            loss_tolerance=spec.loss_tolerance,
            sending_time_tolerance=spec.sending_time_tolerance,
        )
        attempts.append(Attempt(trial, verdict))
        if verdict.valid:
            break
    return verdict


def _confirm(
    spec: ThroughputSpec, search: SearchResult, try_rate: Callable[[float, str], Verdict]
) -> float:
    """The highest passed rate that passes again as often as asked (TP-04)."""
    passed = sorted({s.rate_fps for s in search.steps if s.verdict.passed}, reverse=True)
    if not spec.confirmations:
        return search.rate_fps
    for place, rate_fps in enumerate(passed):
        names = (f"c{place:02d}-{n}" for n in range(1, spec.confirmations + 1))
        if all(try_rate(rate_fps, name).passed for name in names):
            return rate_fps
    return 0.0
