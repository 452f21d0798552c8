"""From a run's settings to what each procedure is asked to do at one point."""

from __future__ import annotations

from dataclasses import replace

from v6t.core.config.settings import ResolvedRun
from v6t.procedures.back_to_back import BurstSpec
from v6t.procedures.conditions import Conditions
from v6t.procedures.frame_loss import FrameLossSpec
from v6t.procedures.ipdv import ipdv_spec
from v6t.procedures.latency import latency_spec
from v6t.procedures.pdv import pdv_spec
from v6t.procedures.recovery import RecoverySpec
from v6t.procedures.repetition import Adaptive
from v6t.procedures.reset import ResetSpec
from v6t.procedures.tester_rate import CeilingSpec
from v6t.procedures.throughput import ThroughputSpec
from v6t.procedures.timing import TimingSpec
from v6t.procedures.trial import Mode
from v6t.profiles.model import FramePair

THROUGHPUT, WITH_TIMEOUT = "throughput", "throughput-frame-timeout"
FRAME_LOSS, LOSS_WITH_TIMEOUT = "frame-loss", "frame-loss-frame-timeout"
BACK_TO_BACK, LATENCY, PDV, IPDV = "back-to-back", "latency", "pdv", "ipdv"
RECOVERY, RESET = "system-recovery", "reset"
RSS_PROBE, FLOWS = "rss-probe", "flows"
CONNECTION_RATE, TEARDOWN, CAPACITY = "connection-rate", "teardown", "capacity"

BENCHMARKS = (
    *(CONNECTION_RATE, THROUGHPUT, WITH_TIMEOUT, FRAME_LOSS, LOSS_WITH_TIMEOUT, BACK_TO_BACK),
    *(LATENCY, PDV, IPDV),
    *(RECOVERY, RESET, TEARDOWN, CAPACITY, FLOWS, RSS_PROBE),
)
"""Names on the command line, in the order they are measured."""

TIMED = (LATENCY, PDV, IPDV)
OF_CONNECTIONS = (CONNECTION_RATE, TEARDOWN, CAPACITY)
"""Benchmarks of stateful devices that are about connections, in no direction."""
PHASE_TWO = (THROUGHPUT, WITH_TIMEOUT, FRAME_LOSS, LOSS_WITH_TIMEOUT, *TIMED, RESET)
"""Benchmarks whose frames belong to connections where the device is stateful."""

NEEDS_THROUGHPUT = (BACK_TO_BACK, *TIMED, RECOVERY, RESET)
"""Benchmarks that are defined at, or from, the throughput of the same point."""


def measured(run: ResolvedRun) -> tuple[str, ...]:
    """Benchmarks of a run in order, with throughput where another one needs it."""
    wanted = set(run.benchmarks)
    given = run.procedure.rate_fps is not None
    for name in NEEDS_THROUGHPUT:
        if name in wanted and not (given and name in TIMED):
            wanted.add(THROUGHPUT)
    if run.connects and run.procedure.connections.rate_cps is None and wanted != {CAPACITY}:
        wanted.add(CONNECTION_RATE)
    return tuple(name for name in BENCHMARKS if name in wanted)


def conditions(run: ResolvedRun, sizes: FramePair, mode: Mode) -> Conditions:
    """What holds for every trial of a point."""
    p = run.procedure
    return Conditions(
        ipv6_frame_size=sizes.ipv6,
        ipv4_frame_size=sizes.ipv4,
        mode=mode,
        residual_wait_s=p.residual_wait_s,
        pause_s=p.pause_s,
        loss_tolerance=p.loss_tolerance,
        sending_time_tolerance=p.sending_time_tolerance,
        invalid_retries=p.invalid_retries,
    )


def ceiling_spec(run: ResolvedRun, sizes: FramePair, mode: Mode, media_fps: float) -> CeilingSpec:
    """How the tester's own ceiling is looked for under a preset."""
    careful = run.preset == "rfc"
    return CeilingSpec(
        ipv6_frame_size=sizes.ipv6,
        ipv4_frame_size=sizes.ipv4,
        mode=mode,
        media_fps=media_fps,
        duration_s=min(5.0 if careful else 0.3, run.procedure.trial_duration_s),
        refinements=4 if careful else 2,
        residual_wait_s=min(0.2, run.procedure.residual_wait_s),
        sending_time_tolerance=max(1.02, run.procedure.sending_time_tolerance),
    )


def throughput_spec(
    run: ResolvedRun, sizes: FramePair, mode: Mode, media_fps: float, ceiling_fps: float
) -> ThroughputSpec:
    """The search, bounded by the medium and by the tester."""
    p = run.procedure
    upper = min(media_fps, ceiling_fps)
    return ThroughputSpec(
        conditions=conditions(run, sizes, mode),
        upper_bound_fps=upper,
        upper_bound_reason="media" if media_fps <= ceiling_fps else "tester",
        resolution_fps=p.resolution_fps or p.resolution_ratio * upper,
        duration_s=p.trial_duration_s,
        repetitions=p.repetitions,
        confirmations=p.confirmations,
        final_duration_s=p.final_duration_s,
        search=p.search,
        adaptive=_adaptive(run),
    )


def _adaptive(run: ResolvedRun) -> Adaptive | None:
    a = run.procedure.adaptive
    return None if a is None else Adaptive(a.fewest, a.most, a.width, a.confidence)


def deadline(at: Conditions, run: ResolvedRun) -> Conditions:
    """The same conditions with a deadline for every frame (TP-06, FLR-06)."""
    return replace(at, frame_timeout_s=(run.procedure.frame_timeout_ms or 0.0) / 1000)


def timing_spec(
    run: ResolvedRun, benchmark: str, at: Conditions, rate_fps: float, rate_source: str
) -> TimingSpec:
    """Latency, PDV or IPDV.

    Raises:
        ValueError: the tags do not fit the stream.
    """
    p = run.procedure
    if benchmark == LATENCY:
        return latency_spec(
            at,
            rate_fps=rate_fps,
            rate_source=rate_source,
            duration_s=p.latency.duration_s,
            tags=p.latency.tags,
            first_tag_s=p.latency.first_tag_s,
            repetitions=p.repetitions,
        )
    make = pdv_spec if benchmark == PDV else ipdv_spec
    return make(
        at,
        rate_fps=rate_fps,
        rate_source=rate_source,
        duration_s=p.delay_variation.duration_s,
        repetitions=p.repetitions,
    )


def frame_loss_spec(
    run: ResolvedRun, at: Conditions, media_fps: float, ceiling_fps: float
) -> FrameLossSpec:
    """The RFC's descent from what medium and tester carry, or the papers' list of rates."""
    f = run.procedure.frame_loss
    maximum = min(media_fps, ceiling_fps)
    reason = "media" if media_fps <= ceiling_fps else "tester"
    return FrameLossSpec(
        conditions=at,
        maximum_fps=max(f.rates_fps) if f.rates_fps else maximum,
        maximum_reason="given" if f.rates_fps else reason,
        duration_s=f.duration_s or run.procedure.trial_duration_s,
        repetitions=f.repetitions or run.procedure.repetitions,
        step=f.step,
        rates_fps=f.rates_fps,
        adaptive=_adaptive(run),
    )


def burst_spec(
    run: ResolvedRun, at: Conditions, media_fps: float, ceiling_fps: float, throughput_fps: float
) -> BurstSpec:
    """Bursts at the medium's rate, or at the tester's own."""
    b = run.procedure.back_to_back
    tolerance = b.sending_time_tolerance or at.sending_time_tolerance
    return BurstSpec(
        conditions=replace(at, residual_wait_s=b.residual_wait_s, sending_time_tolerance=tolerance),
        rate_fps=min(media_fps, ceiling_fps),
        rate_reason="media" if media_fps <= ceiling_fps else "tester",
        throughput_fps=throughput_fps,
        first_frames=b.first_frames,
        longest_s=b.longest_s,
        resolution_frames=b.resolution_frames,
        repetitions=b.repetitions,
        verifications=b.verifications,
    )


def recovery_spec(
    run: ResolvedRun, at: Conditions, limit_fps: float, throughput_fps: float
) -> RecoverySpec:
    """Overload, then half of it."""
    r = run.procedure.system_recovery
    return RecoverySpec(
        conditions=at,
        throughput_fps=throughput_fps,
        limit_fps=limit_fps,
        overload_s=r.overload_s,
        afterwards_s=r.afterwards_s,
        repetitions=r.repetitions or run.procedure.repetitions,
    )


def reset_spec(run: ResolvedRun, at: Conditions, rate_fps: float) -> ResetSpec:
    """A reset in the middle of a stream.

    Raises:
        ValueError: the reset lies outside the stream, or an unknown hook.
    """
    r = run.procedure.reset
    return ResetSpec(
        conditions=at,
        hook=r.hook,
        rate_fps=rate_fps,
        duration_s=r.duration_s,
        at_s=r.at_s,
        repetitions=r.repetitions,
    )
