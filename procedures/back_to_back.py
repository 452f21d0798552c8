"""Back-to-back frames (RFC 8219 section 7.5, RFC 2544 section 26.4, RFC 9004)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from v6t.procedures.trial_runner import PointSpec, RepeatedResult, TrialRunner, Watch, repeat
from v6t.trials.result import Measure
from v6t.trials.verdict import Attempt

BENCHMARK = "back-to-back"
CORRECTED_BUFFER_FORMULA = (
    "corrected = implied * (1 - throughput / burst rate), implied = average burst / burst rate"
)

LONG_BURST_S = 2.0  # longer bursts need a longer time to drain the buffer (RFC 9004 section 6.2)


@dataclass(frozen=True)
class BurstSpec(PointSpec):
    """Specification of the search for the longest burst at a point.

    The residual wait of the conditions lets the buffer drain, at least 2 s (RFC 9004 section 6.2).
    """

    is_search = True
    benchmark = BENCHMARK
    rate_fps: float  # per direction, within a burst; the limit of the medium or the tester
    rate_reason: str  # ``media`` or ``tester``
    throughput_fps: float  # measured at this point, per direction
    longest_s: float  # time to send the longest burst [s]
    resolution_frames: int  # error of the search [frames]
    repetitions: int  # the RFC requires 50
    verifications: int = 1  # repetitions that confirm the loss of a burst
    shortest_frames: int = 1  # shortest burst whose sending rate the tester can verify

    @property
    def max_frames(self) -> int:
        """Longest burst that is offered."""
        return max(1, math.floor(self.rate_fps * self.longest_s))

    @property
    def min_frames(self) -> int:
        """Shortest burst that is offered."""
        return min(self.shortest_frames, self.max_frames)

    @property
    def search(self) -> str:
        """Name of the search of ETSI GS NFV-TST 009 clause 12.3 (RFC 9004 section 6.2)."""
        return "binary search" + (" with loss verification" if self.verifications else "")

    @property
    def refusal_reason(self) -> str | None:
        """Reason why bursts cannot be measured (RFC 9004 section 6.1); None if they can."""
        if self.throughput_fps >= self.rate_fps:
            return (
                "the throughput reaches the burst rate, so that no burst fills the device's buffer"
            )
        return None

    @property
    def steps(self) -> int:
        """Largest number of trials of a search without verifications."""
        return max(1, math.ceil(math.log2(max(1.0, self.max_frames / self.resolution_frames))))


@dataclass(frozen=True)
class BurstRepetition:
    """Result of one search."""

    number: int  # from 1
    frames: int  # longest burst without loss; 0: every burst lost frames
    hit_longest: bool  # no burst lost frames, so longer bursts are needed (RFC 9004 section 6.2)
    attempts: tuple[Attempt, ...]
    valid: bool = True  # False: a tester fault decided, so ``frames`` has no meaning


@dataclass(frozen=True)
class BufferTime:
    """Implied and corrected buffer time (RFC 9004 section 6.4)."""

    implied_s: float  # average burst / burst rate [s]
    corrected_s: float  # corrected for frames forwarded while the buffer fills [s]


@dataclass(frozen=True)
class BurstResult(RepeatedResult[BurstSpec, BurstRepetition]):
    """All repetitions of one point; none if bursts cannot be measured."""

    @property
    def bursts(self) -> tuple[int, ...]:
        """Longest burst of each valid repetition [frames]."""
        return tuple(r.frames for r in self.repetitions if r.valid)

    @property
    def average_frames(self) -> float | None:
        """Mean of the longest bursts [frames]; None if nothing was measured."""
        return sum(self.bursts) / len(self.bursts) if self.bursts else None

    @property
    def buffer_time(self) -> BufferTime | None:
        """Implied and corrected buffer time; None if nothing was measured."""
        average = self.average_frames
        if average is None:
            return None
        return compute_buffer_time(average, self.spec.rate_fps, self.spec.throughput_fps)


def compute_buffer_time(
    average_frames: float, rate_fps: float, throughput_fps: float
) -> BufferTime:
    """Compute the buffer times of an average burst (RFC 9004 section 6.4)."""
    implied = average_frames / rate_fps
    return BufferTime(implied, implied * (1 - min(1.0, throughput_fps / rate_fps)))


def compute_deviation(bursts: Sequence[float]) -> float | None:
    """Compute the sample standard deviation (RFC 9004 section 6.4), or None for less than two values."""
    if len(bursts) < 2:
        return None
    mean = sum(bursts) / len(bursts)
    return math.sqrt(sum((b - mean) ** 2 for b in bursts) / (len(bursts) - 1))


def measure_back_to_back(
    spec: BurstSpec, measure: Measure, watch: Watch | None = None
) -> BurstResult:
    """Repeat the search for the longest burst without loss."""
    if spec.refusal_reason:
        return BurstResult(spec)
    done = repeat(spec, spec.repetitions, measure, watch, lambda trials: _search(spec, trials))
    return BurstResult(spec, done.repetitions, done.attempts)


def _search(spec: BurstSpec, trials: TrialRunner) -> BurstRepetition:
    """Search for the longest burst without loss, once."""
    low, high = 0, spec.max_frames + 1
    valid = True
    while high - low > max(spec.resolution_frames, 1):
        middle = max((low + high) // 2, spec.min_frames)
        # the shortest verifiable burst lost frames, and shorter ones prove nothing
        passed = None if middle >= high else _passes(spec, trials, middle)
        if passed is None:
            valid = False
            break
        low, high = (middle, high) if passed else (low, middle)
    hit = valid and high > spec.max_frames
    return BurstRepetition(trials.number, low, hit, tuple(trials.all), valid=valid)


def _passes(spec: BurstSpec, trials: TrialRunner, frames: int) -> bool | None:
    """Check whether a burst is forwarded without loss; verify a failure.

    Returns:
        None if no attempt passed and one was invalid.
    """
    sending_s, wait_s = frames / spec.rate_fps, spec.conditions.residual_wait_s
    if sending_s > LONG_BURST_S:
        wait_s = max(wait_s, sending_s)
    trial = spec.conditions.make_trial(BENCHMARK, spec.rate_fps, sending_s, residual_wait_s=wait_s)
    failure: bool | None = False
    for _ in range(1 + spec.verifications):
        verdict = trials.run(trial, f"b{trials.step + 1:03d}", steps=spec.steps).verdict
        if verdict.passed:
            return True
        failure = failure if verdict.valid else None
    return failure
