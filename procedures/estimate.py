"""How long a measurement takes, told before it starts (GEN-30).

All figures hold when no trial is invalid. A binary search is counted as if the device does not
carry the upper bound; a fast or MLR search by what they usually need; loss and bursts at most.
"""

from __future__ import annotations

from dataclasses import dataclass

from v6t.procedures.back_to_back import BurstSpec
from v6t.procedures.conditions import Conditions
from v6t.procedures.frame_loss import FrameLossSpec
from v6t.procedures.recovery import RecoverySpec
from v6t.procedures.reset import ResetSpec
from v6t.procedures.throughput import PROBE_PAUSE_S, ThroughputSpec
from v6t.procedures.timing import TimingSpec

USUAL_PROBES, USUAL_FULL = 7, 2
"""Short and full trials of one fast or MLR search on devices that are neither very noisy nor odd;
see the search benchmark in the documentation."""


@dataclass(frozen=True)
class Cost:
    """Trials and seconds, pauses and waits included."""

    trials: int
    seconds: float


def throughput_cost(spec: ThroughputSpec) -> Cost:
    """Of all repetitions; of the most there can be if they are adaptive."""
    at = spec.conditions
    repetitions = spec.adaptive.most if spec.adaptive else spec.repetitions
    full = _trial_s(at, spec.duration_s)
    trials = spec.steps
    seconds = trials * full
    if spec.search != "binary":
        probe = spec.duration_s / 20 + min(at.pause_s, PROBE_PAUSE_S) + at.residual_wait_s
        trials = USUAL_PROBES + USUAL_FULL
        seconds = USUAL_PROBES * probe + USUAL_FULL * full
    trials += spec.confirmations
    seconds += spec.confirmations * full
    if (spec.final_duration_s or 0.0) > spec.duration_s:
        trials += 1
        seconds += _trial_s(at, spec.final_duration_s or 0.0)
    return Cost(repetitions * trials, repetitions * seconds)


def timing_cost(spec: TimingSpec) -> Cost:
    """Latency, PDV or IPDV; latency once in loopback, too."""
    trials = spec.repetitions + bool(spec.request.tags)
    return Cost(trials, trials * _trial_s(spec.conditions, spec.duration_s))


def frame_loss_cost(spec: FrameLossSpec) -> Cost:
    """If no two successive rates are free of loss."""
    repetitions = spec.adaptive.most if spec.adaptive else spec.repetitions
    trials = repetitions * len(spec.rates)
    return Cost(trials, trials * _trial_s(spec.conditions, spec.duration_s))


def burst_cost(spec: BurstSpec) -> Cost:
    """If half of the bursts lose and are verified, each as long as half the longest."""
    trials = spec.repetitions * (spec.steps + spec.steps * spec.verifications // 2)
    return Cost(trials, trials * _trial_s(spec.conditions, spec.longest_s / 2))


def recovery_cost(spec: RecoverySpec) -> Cost:
    """Overload and what follows, each repetition."""
    each = _trial_s(spec.conditions, spec.overload_s + spec.afterwards_s)
    return Cost(spec.repetitions, spec.repetitions * each)


def reset_cost(spec: ResetSpec) -> Cost:
    """One stream per reset."""
    return Cost(spec.repetitions, spec.repetitions * _trial_s(spec.conditions, spec.duration_s))


def _trial_s(at: Conditions, duration_s: float) -> float:
    return at.pause_s + duration_s + at.residual_wait_s
