"""What trials with connections cost, before anything is measured."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from v6t.core.config.settings import ResolvedRun
from v6t.core.runs import specs, stateful_specs
from v6t.procedures.estimate import Cost
from v6t.procedures.stateful.estimate import (
    capacity_cost,
    connection_rate_cost,
    phase_one_s,
    teardown_cost,
)

if TYPE_CHECKING:
    from v6t.profiles.model import FramePair


def connection_costs(
    run: ResolvedRun, plugin: Any, sizes: FramePair, media_fps: float
) -> list[tuple[str, Cost]]:
    """Of the benchmarks that are about connections, once per frame size."""
    asked = specs.measured(run)
    found = []
    if specs.CONNECTION_RATE in asked:
        spec = stateful_specs.rate_spec(run, sizes, media_fps, media_fps)
        found.append((specs.CONNECTION_RATE, connection_rate_cost(spec)))
    if specs.TEARDOWN in asked:
        rate_cps = _rate(run, media_fps)
        torn = stateful_specs.teardown_spec(run, sizes, rate_cps, "assumed")
        found.append((specs.TEARDOWN, teardown_cost(torn)))
    if specs.CAPACITY in asked:
        searched = stateful_specs.capacity_spec(run, plugin, sizes, media_fps, media_fps)
        found.append((specs.CAPACITY, capacity_cost(searched)))
    return found


def with_phase_one(run: ResolvedRun, cost: Cost, media_fps: float) -> Cost:
    """The cost of trials that get connections first; kept ones are made once."""
    if not run.connects:
        return cost
    c = run.procedure.connections
    filling = replace(stateful_specs.filling(run), alpha=None)
    each = phase_one_s(filling.connections(c.count, _rate(run, media_fps))) + c.gap_ms / 1000
    return Cost(cost.trials, cost.seconds + each * (1 if c.keep else cost.trials))


def _rate(run: ResolvedRun, media_fps: float) -> float:
    c = run.procedure.connections
    upper, _ = stateful_specs.upper_bound(run, media_fps, media_fps)
    return c.rate_cps or upper / 2 * c.rate_share
