"""Presets: durations and repetitions of a demonstration and of the RFCs."""

from __future__ import annotations

from typing import Any

from v6t.benchmarks import registry
from v6t.benchmarks.base import RFC_DURATION_S
from v6t.core.config.settings import Preset, ResolvedRun

PRESETS = ("quick", "rfc")
MODES = ("bidirectional", "forward", "reverse")
RFC_REPETITIONS = 20

_COMMON: dict[Preset, dict[str, Any]] = {
    "quick": {
        "trial_duration_s": 0.7,
        "residual_wait_s": 0.15,
        "pause_s": 0.05,
        "repetitions": 2,
        "resolution_ratio": 1 / 16,
        "sending_time_tolerance": 1.02,
        "invalid_retries": 1,
        # the lowest of the few repetitions, so that the streams meet a device that keeps up
        "rate_from": "p1",
        "connections": {"count": 100_000, "wait_ms": 150.0, "keep": True},
    },
    "rfc": {
        "trial_duration_s": RFC_DURATION_S,
        "residual_wait_s": 2.0,
        "pause_s": 10.0,
        "repetitions": RFC_REPETITIONS,
        "resolution_fps": 1000.0,
        # also of the rate searches on the way to a capacity
        "connections": {"resolution_cps": 1000.0},
        "sending_time_tolerance": 1.00001,
        "invalid_retries": 2,
        "selftest": "cached",
        # reading its load is work for the device that is measured
        "watch_device": False,
    },
}


def procedure_of(preset: Preset) -> dict[str, Any]:
    """Return the settings of a preset, with those of every installed benchmark."""
    return {**_COMMON[preset], **(registry.make_quick_preset() if preset == "quick" else {})}


def is_demonstration(run: ResolvedRun) -> bool:
    """Return whether trials are shorter than the RFC's, so that the numbers are no results."""
    p = run.procedure
    return max(p.trial_duration_s, p.final_duration_s or 0.0) < RFC_DURATION_S
