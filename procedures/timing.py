"""Measurement of delays at one rate, for latency, PDV and IPDV."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from v6t.procedures.delay_figures import COMPUTE_FIGURES, Figures, find_tag_conflict
from v6t.procedures.trial_runner import PointSpec, RepeatedResult, TrialRunner, Watch, repeat
from v6t.trials.delays import Distribution
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import DelayRequest, Trial, list_directions
from v6t.trials.verdict import Attempt, Verdict


@dataclass(frozen=True)
class TimingSpec(PointSpec):
    """Specification of a delay benchmark at a point; its repetitions are never adaptive."""

    rate_fps: float  # per direction; usually the throughput of the same point
    rate_source: str  # origin of the rate
    duration_s: float  # length of the stream [s]
    request: DelayRequest  # delays that the tester measures
    repetitions: int  # the RFC requires 20
    shares: tuple[float, ...] = ()  # of the rate, falling, tried if most trials are invalid
    benchmark: str = "latency"  # ``latency``, ``pdv`` or ``ipdv``

    def __post_init__(self) -> None:
        """Check that the tagged frames of latency fit the stream."""
        if self.benchmark == "latency":
            tags, first_tag_s = self.request.tags, self.request.first_tag_s
            if conflict := find_tag_conflict(tags, first_tag_s, self.duration_s, self.rate_fps):
                raise ValueError(conflict)


@dataclass(frozen=True)
class DelayFigures:
    """Figures of one direction or class in one trial."""

    figures: Figures  # values by name [ns]
    frames: int  # frames, or pairs, with a value
    lost: int  # lost frames, or pairs with a lost frame
    clamped: int  # negative delays counted as 0
    expected: int  # frames that the trial sent, tagged or not
    share: float = 1.0  # timed share of the connections; of the load for a separate stream
    separate_stream: bool = False  # tagged frames are a separate stream


@dataclass(frozen=True)
class TimingRepetition:
    """Delay figures of one trial."""

    number: int  # from 1
    directions: Mapping[str, DelayFigures]  # all classes together
    classes: Mapping[str, Mapping[str, DelayFigures]]  # by direction and class
    valid: bool  # False: the tester failed, and there are no figures
    disturbed: bool  # other programs took the tester's CPU time


@dataclass(frozen=True)
class TimingResult(RepeatedResult[TimingSpec, TimingRepetition]):
    """All repetitions of one point."""

    share_of_rate: float = 1.0  # rate of all repetitions over the specified rate

    @property
    def rate_fps(self) -> float:
        """Rate of every repetition, per direction [fps]."""
        return self.spec.rate_fps * self.share_of_rate

    @property
    def sampled(self) -> bool:
        """Whether a trial timed fewer frames than requested."""
        return self.share < 1

    @property
    def share(self) -> float:
        """Smallest share of a direction's frames that was timed or known to be lost.

        With tags: the smallest share of the connections, or of the load, that can be tagged.
        """
        timed = [t for r in self.repetitions for t in r.directions.values() if t.expected]
        if self.spec.request.tags:
            return min((t.share for t in timed), default=1.0)
        return min(((t.frames + t.lost) / t.expected for t in timed), default=1.0)


def measure_timing(spec: TimingSpec, measure: Measure, watch: Watch | None = None) -> TimingResult:
    """Repeat the trial and compute the figures of the benchmark [ns]."""
    shares, attempts = (1.0, *spec.shares), tuple[Attempt, ...]()
    for share in shares:
        is_last = share == shares[-1]
        done = repeat(
            spec,
            spec.repetitions,
            measure,
            watch,
            partial(_send_stream, spec, share),
            is_enough=None if is_last else partial(_is_rate_too_high, spec.repetitions),
        )
        attempts += done.attempts
        if is_last or not _is_rate_too_high(spec.repetitions, done.repetitions):
            break
    return TimingResult(spec, done.repetitions, attempts, share)


def _is_rate_too_high(repetitions: int, done: Sequence[TimingRepetition]) -> bool:
    """Check whether too many repetitions are invalid at this rate."""
    carried = [r.valid for r in done if not r.disturbed]
    return carried[:1] == [False] or 2 * carried.count(False) > repetitions


def _send_stream(spec: TimingSpec, share: float, trials: TrialRunner) -> TimingRepetition:
    """Run one repetition at a share of the rate."""
    step = "" if share == 1 else f"at{100 * share:.0f}percent"
    trial = spec.conditions.make_trial(
        spec.benchmark, spec.rate_fps * share, spec.duration_s, delays=spec.request
    )

    def assess(trial: Trial, result: TrialResult) -> Verdict:
        """Judge a trial; missing delays make it invalid."""
        verdict = spec.conditions.assess(trial, result)
        fault = _find_timing_fault(trial, result) if verdict.valid else None
        if fault is None:
            return verdict
        return replace(verdict, passed=False, valid=False, reasons=(fault,))

    outcome = trials.run(trial, step, assess=assess)
    figures = _compute_figures(spec, outcome.result) if outcome.verdict.valid else ({}, {})
    disturbed = outcome.result.is_disturbed
    return TimingRepetition(trials.number, *figures, outcome.verdict.valid, disturbed)


def _find_timing_fault(trial: Trial, result: TrialResult) -> str | None:
    """Return the delays that the tester failed to report, as a fault, or None."""
    request = trial.delays
    for direction in list_directions(trial.mode):
        counted = result.directions[direction]
        if request is None or counted.delays is None or (request.ipdv and counted.ipdv is None):
            return f"{direction}: the tester returned no delays"
        timed = sum(d.frames + d.lost for d in counted.delays.values())
        only_these = all(c.role != "negative" for c in counted.classes.values())
        if request.tags and (timed > request.tags or (only_these and timed < request.tags)):
            return f"{direction}: the tester tagged {timed} frames, not {request.tags}"
        if not timed and counted.count_frames("required"):
            return f"{direction}: the tester did not time any frame"
    return None


def _compute_figures(
    spec: TimingSpec, result: TrialResult
) -> tuple[dict[str, DelayFigures], dict[str, dict[str, DelayFigures]]]:
    """Compute the figures by direction, and by direction and class."""
    directions: dict[str, DelayFigures] = {}
    classes: dict[str, dict[str, DelayFigures]] = {}
    for direction in list_directions(spec.conditions.mode):
        counted = result.directions[direction]
        times = (counted.ipdv if spec.request.ipdv else counted.delays) or {}
        merged = Distribution.merge(times.values())
        classes[direction] = {}
        for name, part in times.items():
            known = counted.classes.get(name)  # port counters do not distinguish classes
            required = part.frames + part.lost if known is None else known.required
            expected = max(0, required - bool(spec.request.ipdv))
            classes[direction][name] = _make_figures(spec.benchmark, part, expected)
        expected = sum(t.expected for t in classes[direction].values())
        if not counted.classes.keys() >= times.keys():
            expected = counted.count_frames("required")
        directions[direction] = replace(
            _make_figures(spec.benchmark, merged, expected),
            share=1.0 if counted.timed_share is None else counted.timed_share,
            separate_stream=counted.timed_of == "load",
        )
    return directions, classes


def _make_figures(benchmark: str, part: Distribution, expected: int) -> DelayFigures:
    figures = COMPUTE_FIGURES[benchmark](part)
    return DelayFigures(figures, part.frames, part.lost, part.clamped, expected)
