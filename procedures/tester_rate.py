"""Capacity of the tester: the highest rate that it sends and receives without loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from v6t.trials.result import Measure
from v6t.trials.trial import Mode, Trial, make_sizes_key
from v6t.trials.verdict import Verdict, assess_trial

BENCHMARK = "selftest"

CONFIRMING_SHARE = 0.9  # ratio of each confirming rate to the one before it
MAX_CONFIRMATIONS = 12  # the last confirming rate is below a third of the rate of the short trials


@dataclass(frozen=True)
class TrialRules:
    """Length, wait and tolerances of the trials behind a result."""

    duration_s: float  # length of the trial [s]
    residual_wait_s: float  # wait for late frames [s]
    sending_time_tolerance: float  # longest sending time over the length
    max_frames: int | None = None  # limit by the connections; shortens longer trials

    def compute_duration_s(self, rate_fps: float) -> float:
        """Return the length of a trial at a rate [s]."""
        if self.max_frames is None or not rate_fps:
            return self.duration_s
        return min(self.duration_s, self.max_frames / rate_fps)

    def is_as_strict_as(self, other: TrialRules) -> bool:
        """Check whether these rules are at least as strict as other rules."""
        return (
            self.duration_s >= other.duration_s
            and self.residual_wait_s <= other.residual_wait_s
            and self.sending_time_tolerance <= other.sending_time_tolerance
        )


@dataclass(frozen=True)
class SelfTestSpec:
    """Specification of the search for the tester's capacity."""

    ipv6_frame_size: float  # octets with FCS
    ipv4_frame_size: float  # octets with FCS
    mode: Mode  # directions under load
    media_fps: float  # rate of the medium, never exceeded
    start_fps: float = 20_000.0  # first rate offered
    growth: float = 2.0  # factor of the rate while trials pass
    refinements: int = 2  # halvings of the bracket after the growth
    duration_s: float = 0.4  # length of a short trial [s]
    residual_wait_s: float = 0.1  # wait for late frames [s]
    pause_s: float = 0.0  # pause before each trial [s]
    sending_time_tolerance: float = 1.02  # longest sending time over the length
    attempts: int = 2  # short trials of a failing rate
    variant: str = ""  # prefix of the trial keys
    rules: TrialRules | None = None  # of the trial that confirms the rate; None: no such trial
    mix: str | None = None  # mix of frame sizes, as in a trial

    @property
    def key_prefix(self) -> str:
        """Start of the keys of all trials."""
        sizes = make_sizes_key(self.ipv6_frame_size, self.mix)
        return f"{self.variant}{BENCHMARK}/{sizes}/{self.mode}"

    @property
    def probe_rules(self) -> TrialRules:
        """Rules of the short trials."""
        return TrialRules(self.duration_s, self.residual_wait_s, self.sending_time_tolerance)

    @property
    def confirmation_s(self) -> float:
        """Length of the confirming trial; 0 if none is needed [s]."""
        if self.rules is None or self.probe_rules.is_as_strict_as(self.rules):
            return 0.0
        return self.rules.duration_s + self.rules.residual_wait_s


@dataclass(frozen=True)
class TesterCapacity:
    """Highest lossless rate of the tester, and the trials behind it."""

    mode: Mode
    rate_fps: float  # per direction; 0.0: no rate passed
    keys: tuple[str, ...]  # keys of all trials
    faults: tuple[str, ...]  # why the last failing trial failed


MAX_REMEASUREMENTS = 2  # repetitions of a self-test with an implausible result
DOUBTFUL_RATIO = 1.5  # a capacity is doubtful if the tester carries this multiple of it
PLAUSIBLE_DIVISOR = 4  # least plausible rate with both directions: that of one over this


def find_plausible_rate(mode: Mode, rates_fps: Mapping[Mode, float]) -> float:
    """Return the lowest plausible rate per direction in a mode, from the rates of other modes.

    One direction alone is less work than both, so a lower rate shows that the machine was disturbed.
    """
    if mode != "bidirectional":
        return rates_fps.get("bidirectional", 0.0)
    others = (fps for other, fps in rates_fps.items() if other != mode)
    return min(others, default=0.0) / PLAUSIBLE_DIVISOR


def can_carry_more(spec: SelfTestSpec, capacity_fps: float, measure: Measure) -> bool:
    """Check with one short trial whether the tester carries far more than the measured capacity."""
    rate_fps = min(spec.media_fps, DOUBTFUL_RATIO * capacity_fps)
    if rate_fps <= capacity_fps:
        return False
    trial = _make_trial(spec, f"u{rate_fps:.0f}", rate_fps, spec.probe_rules)
    return _judge_trial(trial, measure, spec.probe_rules).passed


def measure_plausible_capacity(
    spec: SelfTestSpec, measure: Measure, least_fps: float, on_message: Callable[[str], None]
) -> TesterCapacity:
    """Measure the tester's capacity, again while the rate is below the plausible minimum.

    Args:
        least_fps: see :func:`find_plausible_rate`.
        on_message: receives messages about repetitions and long trials.
    """
    capacity = measure_tester_capacity(spec, measure, on_message=on_message)
    for repetition in range(1, MAX_REMEASUREMENTS + 1):
        if capacity.rate_fps >= least_fps:
            break
        on_message(
            f"{spec.mode}: the self-test found {capacity.rate_fps:,.0f} fps, less than the "
            f"{least_fps:,.0f} that another mode shows the tester to carry: it is repeated"
        )
        other = measure_tester_capacity(spec, measure, repetition, on_message)
        better = max(capacity, other, key=lambda capacity: capacity.rate_fps)
        capacity = replace(better, keys=capacity.keys + other.keys)
    return capacity


def measure_tester_capacity(
    spec: SelfTestSpec,
    measure: Measure,
    repetition: int = 0,
    on_message: Callable[[str], None] | None = None,
) -> TesterCapacity:
    """Search for the capacity of the tester; 0.0 if no rate passes.

    A tester that measures its sending time roughly has no valid short trials. Then the search uses trials
    under the rules of the results, each once; a disturbed trial makes the capacity too low, not too high.

    Args:
        repetition: number of the repetition, for the keys of the trials; 0: the first measurement.
    """
    name = f"a{repetition + 1}-t" if repetition else "t"
    keys: list[str] = []
    faults: list[str] = []
    valid: list[bool] = []

    def passes_once(rate_fps: float, rules: TrialRules) -> bool:
        """Run one trial and record its key and faults."""
        trial = _make_trial(spec, f"{name}{len(keys) + 1:02d}", rate_fps, rules)
        keys.append(trial.key)
        verdict = _judge_trial(trial, measure, rules)
        valid.append(verdict.valid)
        if not verdict.passed:
            faults[:] = verdict.reasons
        return verdict.passed

    def passes(rate_fps: float) -> bool:
        return any(passes_once(rate_fps, spec.probe_rules) for _ in range(spec.attempts))

    capacity_fps = _search_capacity(spec, passes)
    rules = spec.rules
    if rules is not None and rules.duration_s > spec.duration_s and not any(valid):
        if on_message is not None:
            on_message(
                f"{spec.mode}: no short trial measures the sending time precisely: trials of "
                f"{spec.confirmation_s:g} s search for the rate"
            )
        capacity_fps = _search_capacity(spec, lambda rate_fps: passes_once(rate_fps, rules))
    elif rules is not None and not spec.probe_rules.is_as_strict_as(rules):
        rates = [capacity_fps * CONFIRMING_SHARE**n for n in range(MAX_CONFIRMATIONS)]
        capacity_fps = next((rate for rate in rates if rate and passes_once(rate, rules)), 0.0)
    if capacity_fps >= spec.media_fps:
        faults.clear()
    return TesterCapacity(spec.mode, capacity_fps, tuple(keys), tuple(faults))


def _make_trial(spec: SelfTestSpec, name: str, rate_fps: float, rules: TrialRules) -> Trial:
    return Trial(
        benchmark=BENCHMARK,
        key=f"{spec.key_prefix}/{name}",
        ipv6_frame_size=spec.ipv6_frame_size,
        ipv4_frame_size=spec.ipv4_frame_size,
        mix=spec.mix,
        mode=spec.mode,
        rate_fps=rate_fps,
        duration_s=rules.compute_duration_s(rate_fps),
        residual_wait_s=rules.residual_wait_s,
        pause_s=spec.pause_s,
    )


def _judge_trial(trial: Trial, measure: Measure, rules: TrialRules) -> Verdict:
    result = measure(trial)
    directions = {}  # without a device, negative traffic is not dropped: it counts as background
    for direction, counted in result.directions.items():
        classes = {
            name: replace(count, role="background") if count.role == "negative" else count
            for name, count in counted.classes.items()
        }
        directions[direction] = replace(counted, classes=classes)
    result, limit = replace(result, directions=directions), rules.sending_time_tolerance
    return assess_trial(trial, result, sending_time_tolerance=limit)


def _search_capacity(spec: SelfTestSpec, passes: Callable[[float], bool]) -> float:
    """Return the highest passing rate: grow or shrink the first rate, then halve the bracket."""
    rate = min(spec.start_fps, spec.media_fps)
    low, high = 0.0, rate
    if not passes(rate):
        for _ in range(3):
            rate /= spec.growth
            high = rate * spec.growth
            if passes(rate):
                low = rate
                break
    else:
        low = rate
        while low < spec.media_fps:
            high = min(low * spec.growth, spec.media_fps)
            if not passes(high):
                break
            low = high
        else:
            return low
    for _ in range(spec.refinements if low else 0):
        middle = (low + high) / 2
        if passes(middle):
            low = middle
        else:
            high = middle
    return low


def compute_usable_rate(capacity_fps: float, margin: float) -> float:
    """Return the highest rate at which the tester does not limit a result."""
    return capacity_fps * (1 - margin)
