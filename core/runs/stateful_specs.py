"""From a run's settings to what the procedures about connections are asked to do."""

from __future__ import annotations

from typing import Any

from v6t.core.config.settings import ResolvedRun
from v6t.core.runs.specs import conditions
from v6t.procedures.stateful.capacity import CapacitySpec
from v6t.procedures.stateful.connection_rate import ConnectionRateSpec
from v6t.procedures.stateful.phases import Filling
from v6t.procedures.stateful.teardown import TeardownSpec
from v6t.profiles.model import FramePair


def filling(run: ResolvedRun) -> Filling:
    """How connections come about."""
    c = run.procedure.connections
    return Filling(
        wait_s=c.wait_ms / 1000,
        gap_s=c.gap_ms / 1000,
        alpha=c.alpha if c.validate_connections else None,
        entries=c.entries,
        keep=c.keep,
    )


def rate_spec(
    run: ResolvedRun, sizes: FramePair, media_fps: float, ceiling_cps: float
) -> ConnectionRateSpec:
    """The connection rate, bounded by medium and tester."""
    p, c = run.procedure, run.procedure.connections
    upper, reason = upper_bound(run, media_fps, ceiling_cps)
    return ConnectionRateSpec(
        conditions=conditions(run, sizes, "forward"),
        connections=c.count,
        upper_bound_cps=upper,
        upper_bound_reason=reason,
        resolution_cps=c.resolution_cps or p.resolution_ratio * upper,
        repetitions=p.repetitions,
        filling=filling(run),
    )


def teardown_spec(run: ResolvedRun, sizes: FramePair, rate_cps: float, source: str) -> TeardownSpec:
    """The tear-down rate of all connections."""
    p, c = run.procedure, run.procedure.connections
    return TeardownSpec(
        conditions=conditions(run, sizes, "forward"),
        connections=c.count,
        rate_cps=rate_cps,
        rate_source=source,
        repetitions=c.teardown_repetitions or p.repetitions,
        filling=filling(run),
        retakes=c.retakes,
    )


def capacity_spec(
    run: ResolvedRun, plugin: Any, sizes: FramePair, media_fps: float, ceiling_cps: float
) -> CapacitySpec:
    """The capacity, up to as many connections as there are four-tuples."""
    p, c = run.procedure, run.procedure.connections
    upper, reason = upper_bound(run, media_fps, ceiling_cps)
    most = most_connections(run, plugin)
    resolution = c.capacity.resolution_cps or c.resolution_cps or p.resolution_ratio * upper
    return CapacitySpec(
        conditions=conditions(run, sizes, "forward"),
        first=min(c.capacity.first, most),
        most=most,
        upper_bound_cps=upper,
        upper_bound_reason=reason,
        resolution_cps=resolution,
        beta=c.capacity.beta,
        gamma=c.capacity.gamma,
        error=c.capacity.error,
        filling=filling(run),
    )


def most_connections(run: ResolvedRun, plugin: Any) -> int:
    """Connections a capacity search may ask for."""
    given = run.procedure.connections.capacity.most
    found = int(plugin.combinations)
    return found if given is None else min(found, given)


def upper_bound(run: ResolvedRun, media_fps: float, ceiling_cps: float) -> tuple[float, str]:
    """Highest connection rate that makes sense, and why."""
    given = run.procedure.connections.upper_cps
    upper = min(media_fps, ceiling_cps)
    if given is not None and given < upper:
        return given, "given"
    return upper, "media" if media_fps <= ceiling_cps else "tester"
