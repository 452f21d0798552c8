"""Delays at the throughput rate: what latency, PDV and IPDV share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from v6t.procedures.delay_figures import COMPUTE_FIGURES, Figures, find_tag_conflict
from v6t.procedures.trial_runner import PointSpec, Repeated, TrialRunner, Watch
from v6t.trials.delays import Distribution
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import DelayRequest, Trial, list_directions
from v6t.trials.verdict import Attempt, Verdict


@dataclass(frozen=True)
class TimingSpec(PointSpec):
    """One point of a benchmark about delays.

    Attributes:
        benchmark: ``latency``, ``pdv`` or ``ipdv``.
        rate_fps: rate per direction; the throughput of the same point (LAT-01, PDV-01).
        rate_source: where the rate comes from, in words.
        duration_s: length of the stream [s].
        request: what the tester times.
        repetitions: the RFC asks for 20; never adaptive (TP-09).
        shares: of the rate, in falling order, at which all repetitions are made where the tester cannot
            carry out the first or most of them at the rate itself; none: nowhere else.
    """

    rate_fps: float
    rate_source: str
    duration_s: float
    request: DelayRequest
    repetitions: int
    shares: tuple[float, ...] = ()
    benchmark: str = "latency"

    def __post_init__(self) -> None:
        """Check the tagged frames of latency.

        Raises:
            ValueError: the tags do not fit the stream.
        """
        if self.benchmark == "latency":
            tags, first_tag_s = self.request.tags, self.request.first_tag_s
            conflict = find_tag_conflict(tags, first_tag_s, self.duration_s, self.rate_fps)
            if conflict:
                raise ValueError(conflict)


@dataclass(frozen=True)
class DelayFigures:
    """Figures of one direction or class in one trial.

    Attributes:
        figures: see the benchmark's function, [ns].
        frames: frames (or pairs) with a value.
        lost: those without: lost frames, or pairs with a lost member.
        clamped: negative delays counted as 0.
        expected: frames the trial sent of it, tagged or not.
        share: of the connections, those that tags could come from; or of the load, the stream that
            tags are.
        of_load: the latter.
    """

    figures: Figures
    frames: int
    lost: int
    clamped: int
    expected: int
    share: float = 1.0
    of_load: bool = False


@dataclass(frozen=True)
class TimingRepetition:
    """One trial.

    Attributes:
        directions: figures of all classes together, by direction.
        classes: figures by direction and class.
        valid: the tester did its part; else there are no figures.
    """

    number: int
    directions: Mapping[str, DelayFigures]
    classes: Mapping[str, Mapping[str, DelayFigures]]
    attempts: tuple[Attempt, ...]
    valid: bool


@dataclass(frozen=True)
class TimingResult(Repeated[TimingSpec, TimingRepetition]):
    """All repetitions of one point."""

    share_of_rate: float = 1.0
    """of the rate that was asked for, at which all repetitions were made"""

    @property
    def rate_fps(self) -> float:
        """Of every repetition, per direction."""
        return self.spec.rate_fps * self.share_of_rate

    @property
    def sampled(self) -> bool:
        """Whether a trial timed fewer frames than requested (PDV-03)."""
        return self.share < 1

    @property
    def share(self) -> float:
        """Smallest share of a direction's frames that was timed or known to be lost.

        Of tags, the smallest share of the connections that they could come from, or of the load.
        """
        timed = [t for r in self.repetitions for t in r.directions.values() if t.expected]
        if self.spec.request.tags:
            return min((t.share for t in timed), default=1.0)
        return min(((t.frames + t.lost) / t.expected for t in timed), default=1.0)

    @property
    def of_load(self) -> bool:
        """Timed frames are a stream of their own beside the load."""
        return any(t.of_load for r in self.repetitions for t in r.directions.values())


def measure_timing(spec: TimingSpec, measure: Measure, watch: Watch | None = None) -> TimingResult:
    """Repeat the trial and compute the figures of the benchmark [ns]."""
    at = spec.conditions

    def assess(trial: Trial, result: TrialResult) -> Verdict:
        verdict = at.assess(trial, result)
        fault = _find_timing_fault(trial, result) if verdict.valid else None
        if fault is None:
            return verdict
        return replace(verdict, passed=False, valid=False, reasons=(fault,))

    each = {
        number: TrialRunner(at, spec.key_prefix, measure, watch, number, spec.repetitions)
        for number in range(1, spec.repetitions + 1)
    }
    shares = (1.0, *spec.shares)
    share, done = shares[0], list[TimingRepetition]()
    for share in shares:
        rate_fps = spec.rate_fps * share
        step = "" if share == 1 else f"at{100 * share:.0f}percent"
        done, carried = [], list[bool]()
        for number, attempts in each.items():
            trial = at.make_trial(spec.benchmark, rate_fps, spec.duration_s, delays=spec.request)
            outcome = attempts.run(trial, step, assess=assess)
            done.append(_repetition(spec, number, tuple(attempts.all), outcome.result))
            if not outcome.result.is_disturbed:
                carried.append(outcome.verdict.valid)
            if share != shares[-1] and _is_rate_too_high(carried, spec.repetitions):
                break
        else:
            break
    attempts = tuple(attempt for repetition in done for attempt in repetition.attempts)
    return TimingResult(spec, tuple(done), attempts, share)


def _is_rate_too_high(carried: Sequence[bool], repetitions: int) -> bool:
    """Whether the tester cannot do it: not the first time, or not half of the repetitions."""
    return carried[:1] == [False] or 2 * carried.count(False) > repetitions


def _find_timing_fault(trial: Trial, result: TrialResult) -> str | None:
    """Delays the tester should have brought and did not: its fault, not the device's."""
    request = trial.delays
    for way in list_directions(trial.mode):
        counted = result.directions[way]
        if request is None or counted.delays is None or (request.ipdv and counted.ipdv is None):
            return f"{way}: the tester brought no delays"
        timed = sum(d.frames + d.lost for d in counted.delays.values())
        only_these = all(c.role != "negative" for c in counted.classes.values())
        if request.tags and (timed > request.tags or (only_these and timed < request.tags)):
            return f"{way}: the tester tagged {timed} frames, not {request.tags}"
        if not timed and counted.count_frames("required"):
            return f"{way}: the tester timed no frame"
    return None


def _repetition(
    spec: TimingSpec, number: int, attempts: tuple[Attempt, ...], result: TrialResult
) -> TimingRepetition:
    if not attempts[-1].verdict.valid:
        return TimingRepetition(number, {}, {}, attempts, False)
    directions: dict[str, DelayFigures] = {}
    classes: dict[str, dict[str, DelayFigures]] = {}
    for way in list_directions(spec.conditions.mode):
        counted = result.directions[way]
        times = (counted.ipdv if spec.request.ipdv else counted.delays) or {}
        whole = Distribution.merge(times.values())
        classes[way] = {}
        for name, part in times.items():
            known = counted.classes.get(name)  # port counters tell no classes apart
            required = part.frames + part.lost if known is None else known.required
            expected = max(0, required - bool(spec.request.ipdv))
            classes[way][name] = _make_figures(spec.benchmark, part, expected)
        expected = sum(t.expected for t in classes[way].values())
        if not counted.classes.keys() >= times.keys():
            expected = counted.count_frames("required")
        share = 1.0 if counted.timed_share is None else counted.timed_share
        directions[way] = replace(
            _make_figures(spec.benchmark, whole, expected),
            share=share,
            of_load=counted.timed_of == "load",
        )
    return TimingRepetition(number, directions, classes, attempts, True)


def _make_figures(benchmark: str, part: Distribution, expected: int) -> DelayFigures:
    figures = COMPUTE_FIGURES[benchmark](part)
    return DelayFigures(figures, part.frames, part.lost, part.clamped, expected)
