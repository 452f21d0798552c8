"""Presets: how long and how often, and what a result may be called."""

from __future__ import annotations

from typing import Any

from v6t.core.config.settings import Preset, ProcedureSettings, ResolvedRun
from v6t.core.runs import specs
from v6t.procedures.search import mlr

RFC_REPETITIONS = 20
RFC_DURATION_S = 60.0
RFC_BURSTS = 50

PROCEDURES: dict[Preset, dict[str, Any]] = {
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
        "latency": {"duration_s": 1.0, "first_tag_s": 0.3, "tags": 500},
        "delay_variation": {"duration_s": 0.6},
        "frame_loss": {"duration_s": 0.4, "repetitions": 1},
        "back_to_back": {
            "repetitions": 2,
            "first_frames": 4096,
            "longest_s": 0.4,
            "resolution_frames": 2048,
            "residual_wait_s": 0.15,
            "at": "tester",
            # bursts of milliseconds: one hiccup of a shared machine is longer than all of them
            "sending_time_tolerance": 3.0,
        },
        "connections": {
            "count": 100_000,
            "wait_ms": 150.0,
            "keep": True,
            "capacity": {"first": 10_000, "most": 500_000, "error": 2000, "beta": 0.5},
        },
        "system_recovery": {"overload_s": 1.0, "afterwards_s": 1.0, "repetitions": 2},
        "flows": {"counts": (1, 16), "interval_s": 0.02},
        "reset": {"duration_s": 3.0, "at_s": 1.0, "repetitions": 2},
    },
    "rfc": {
        "trial_duration_s": RFC_DURATION_S,
        "residual_wait_s": 2.0,
        "pause_s": 10.0,
        "repetitions": RFC_REPETITIONS,
        "resolution_fps": 1000.0,
        "sending_time_tolerance": 1.00001,
        "invalid_retries": 2,
        "selftest": "cached",
    },
}

MODES: tuple[str, ...] = ("bidirectional", "forward", "reverse")


def is_demonstration(run: ResolvedRun) -> bool:
    """Whether the numbers only show that things work."""
    p = run.procedure
    return max(p.trial_duration_s, p.final_duration_s or 0.0) < RFC_DURATION_S


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
    if _only_background(run):
        said.append(
            "0 % foreground: native IPv6 through the device, the reference of a series of "
            "mixtures; nothing of the technology itself is measured"
        )
    said += _of_technology(run)
    said += _by_benchmark(run)
    if run.connects:
        said += _of_connections(run)
    if procedure.repetitions < RFC_REPETITIONS and not _only_adaptive(run):
        said.append(
            f"{procedure.repetitions} repetition{'s' * (procedure.repetitions > 1)}, not the "
            f"{RFC_REPETITIONS} that RFC 8219 asks for"
        )
    if procedure.loss_tolerance:
        said.append(f"loss tolerance {procedure.loss_tolerance:.4%} in each direction, not zero")
    if procedure.sending_time_tolerance > 1.001:
        said.append(
            f"sending may take {procedure.sending_time_tolerance:g} times the trial "
            "(GEN-23: 1.00001)"
        )
    if not run.loops_back:
        said.append("the tester's own ceiling is not measured in this run; see `v6t selftest`")
    if run.tester.kind == "embedded":
        said.append("tester and device share this machine's cores: the numbers describe both")
    return said


def _by_benchmark(run: ResolvedRun) -> list[str]:
    """What the settings of the benchmarks change against their RFCs."""
    p = run.procedure
    asked = specs.measured(run)
    said = []
    if p.search == "fast":
        said.append(
            "fast search: short trials look for the rate, a full one has confirmed it in each "
            "repetition; every repetition searches anew"
        )
    if p.search == "mlrsearch":
        said.append(mlr.LABEL)
    if p.adaptive is not None:
        said.append(
            f"adaptive repetition: {p.adaptive.fewest} to {p.adaptive.most}, until the median's "
            f"{p.adaptive.confidence:.0%} confidence interval is within {p.adaptive.width:.1%}"
        )
    if specs.LATENCY in asked and (p.latency.duration_s < 120 or p.latency.first_tag_s < 60):
        said.append(
            f"latency streams of {p.latency.duration_s:g} s with tags from "
            f"{p.latency.first_tag_s:g} s on, not 120 s and 60 s"
        )
    varied = [name for name in (specs.PDV, specs.IPDV) if name in asked]
    if varied and p.delay_variation.duration_s < RFC_DURATION_S:
        said.append(
            f"{' and '.join(varied)} over streams of {p.delay_variation.duration_s:g} s, "
            f"not {RFC_DURATION_S:g} s"
        )
    if specs.BACK_TO_BACK in asked and (p.back_to_back.sending_time_tolerance or 1) > 1.001:
        said.append(
            f"bursts may take {p.back_to_back.sending_time_tolerance:g} times as long as "
            "frames back to back would"
        )
    if specs.BACK_TO_BACK in asked and p.back_to_back.repetitions < RFC_BURSTS:
        said.append(
            f"back-to-back: {p.back_to_back.repetitions} repetitions, not the {RFC_BURSTS} of "
            "RFC 2544 section 26.4"
        )
    return said


def _of_connections(run: ResolvedRun) -> list[str]:
    """What the settings change against RFC 9693."""
    c = run.procedure.connections
    asked = specs.measured(run)
    said = []
    if c.keep and set(asked) & set(specs.PHASE_TWO):
        said.append(
            "connections of one trial serve the next while they are whole: phase 1 is not "
            "repeated for each"
        )
    if not c.validate_connections and set(asked) & {specs.CONNECTION_RATE, specs.CAPACITY}:
        said.append("connections are not validated: the device may have forgotten them (ST-07)")
    return said


def _only_background(run: ResolvedRun) -> bool:
    from v6t.core.config.resolve import technology

    return technology(run).params.only_background


def _of_technology(run: ResolvedRun) -> list[str]:
    """What the technology itself has to say of its numbers (DD-03, DD-04)."""
    from v6t.core.config.resolve import technology

    return list(technology(run).cautions)


def _only_adaptive(run: ResolvedRun) -> bool:
    return run.procedure.adaptive is not None and set(run.benchmarks) <= {
        specs.THROUGHPUT,
        specs.WITH_TIMEOUT,
        specs.FRAME_LOSS,
        specs.LOSS_WITH_TIMEOUT,
        specs.FLOWS,
        specs.RSS_PROBE,
    }
