"""The self-test as a command: capacities of every frame size and mode of a run (SELF-01, SELF-02)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from v6t.base.ethernet import max_frame_rate_fps
from v6t.core.config.bound import BoundRun
from v6t.core.runs.bench import Bench, streams_of
from v6t.core.runs.stateful import for_loopback
from v6t.core.runs.tester_capacity import capacity_spec, remember
from v6t.procedures.tester_rate import min_plausible_fps, plausible_capacity, usable_fps
from v6t.profiles.mixes import sizes_to_json
from v6t.trials.trial import Mode


def measure_capacities(bound: BoundRun, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """One row per frame size and mode; rates per direction."""
    run, plugin = bound.settings, bound.technology
    bench = Bench(bound, loopback=True)
    # of a stateful technology its streams alone are measured
    measure = for_loopback(bound, bench.measure) if plugin.exchange == "queries" else bench.measure
    rows = []
    try:
        for size in run.frame_sizes:
            sizes = plugin.sizes_of(size)
            streams = streams_of(bound, sizes)
            bench.load(streams)
            media = max_frame_rate_fps(run.line_rate_bps, sizes.longest)
            rates: dict[Mode, float] = {}
            for mode in run.modes:
                say(f"{sizes.label} octets, {mode}")
                spec = capacity_spec(run, sizes, mode, media)
                least_fps = min_plausible_fps(mode, rates)
                capacity = plausible_capacity(spec, measure, least_fps, say)
                rates[mode] = capacity.rate_fps
                remember(bound, spec, streams, capacity)
                rows.append(
                    {
                        "frame_sizes": sizes_to_json(sizes),
                        "mode": mode,
                        "convention": "per_direction",
                        "capacity_fps": capacity.rate_fps,
                        "usable_fps": usable_fps(capacity.rate_fps, run.procedure.selftest_margin),
                        "media_fps": media,
                        "bounded_by": "line_rate" if capacity.rate_fps >= media else "tester",
                        "trials": len(capacity.keys),
                        "first_fault_above": capacity.faults[0] if capacity.faults else None,
                    }
                )
    finally:
        bench.close()
    return rows
