"""Presets: how long and how often, and what a result may be called."""

from __future__ import annotations

from typing import Any

from v6t.core.settings import Preset, ProcedureSettings, ResolvedRun

RFC_REPETITIONS = 20
RFC_DURATION_S = 60.0

PROCEDURES: dict[Preset, dict[str, Any]] = {
    "quick": {
        "trial_duration_s": 1.0,
        "residual_wait_s": 0.15,
        "pause_s": 0.05,
        "repetitions": 2,
        "resolution_ratio": 1 / 16,
        "sending_time_tolerance": 1.02,
        "invalid_retries": 1,
    },
    "rfc": {
        "trial_duration_s": RFC_DURATION_S,
        "residual_wait_s": 2.0,
        "pause_s": 10.0,
        "repetitions": RFC_REPETITIONS,
        "resolution_fps": 1000.0,
        "sending_time_tolerance": 1.00001,
        "invalid_retries": 2,
    },
}

MODES: tuple[str, ...] = ("bidirectional", "forward", "reverse")


def is_demonstration(run: ResolvedRun) -> bool:
    """Whether the numbers only show that things work."""
    return run.procedure.trial_duration_s < RFC_DURATION_S


def caveats(run: ResolvedRun) -> list[str]:
    """What must be said beside every number of this run."""
    procedure: ProcedureSettings = run.procedure
    said = []
    if run.tester.kind == "sim":
        said.append("SIMULATED: no frame was sent; the device is a model")
    if is_demonstration(run):
        said.append(
            f"DEMONSTRATION: trials of {procedure.trial_duration_s:g} s, not the "
            f"{RFC_DURATION_S:g} s of RFC 2544 section 24; these are no RFC 8219 results"
        )
    if procedure.repetitions < RFC_REPETITIONS:
        said.append(
            f"{procedure.repetitions} repetitions, not the {RFC_REPETITIONS} that RFC 8219 asks for"
        )
    if procedure.loss_tolerance:
        said.append(f"loss tolerance {procedure.loss_tolerance:.4%} in each direction, not zero")
    if procedure.sending_time_tolerance > 1.001:
        said.append(
            f"sending may take {procedure.sending_time_tolerance:g} times the trial "
            "(GEN-23: 1.00001)"
        )
    if run.tester.kind == "embedded":
        said.append("tester and device share this machine's cores: the numbers describe both")
    return said
