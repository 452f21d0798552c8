"""How long a measurement takes, told before it starts (GEN-30)."""

from __future__ import annotations

from v6t.procedures.throughput import ThroughputSpec


def trials(spec: ThroughputSpec) -> int:
    """Trials of all repetitions when none is invalid and no device carries the upper bound."""
    return spec.repetitions * (spec.steps + spec.confirmations)


def trial_s(spec: ThroughputSpec) -> float:
    """Seconds of one trial: pause, stream, residual wait."""
    return spec.pause_s + spec.duration_s + spec.residual_wait_s


def duration_s(spec: ThroughputSpec) -> float:
    """Seconds of the whole point."""
    return trials(spec) * trial_s(spec)
