"""What can be known to be impossible about connections before any traffic: one sentence each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from v6t.core.benchmarks import registry
from v6t.core.benchmarks.base import Benchmark, Phase
from v6t.core.benchmarks.phase_one import filling
from v6t.core.config.settings import ResolvedRun
from v6t.core.runs import chained
from v6t.core.runs.device import CHAIN, driver_of, intent_of
from v6t.profiles.errors import UsageError
from v6t.profiles.wire import max_frame_rate_fps

if TYPE_CHECKING:
    from v6t.core.config.bound import BoundRun
    from v6t.plugins.base import Technology


def check_connections(bound: BoundRun, asked: Sequence[Benchmark[Any]]) -> None:
    """Refuse what cannot work with or without connections.

    Raises:
        UsageError: the first thing that cannot.
    """
    run, plugin = bound.settings, bound.technology
    for benchmark in asked:
        if not run.connects and benchmark.connections == "only":
            raise UsageError(
                f"{benchmark.name} is for stateful devices, and {run.plugin} keeps no connections",
                "leave it out of --measure, or choose a stateful technology such as nat44",
            )
        if run.connects and benchmark.connections == "never":
            others = [b.name for b in registry.installed() if b.connections != "never"]
            raise UsageError(
                f"{benchmark.name} is not measured with connections", "one of " + ", ".join(others)
            )
    if not run.connects:
        return
    c = run.procedure.connections
    combinations = plugin.combinations
    if any(b.fills_table for b in asked) and c.count > combinations:
        raise UsageError(
            f"phase 1 of {c.count} connections needs as many four-tuples, but the ranges give "
            f"{combinations}",
            "widen initiator_ports, responder_ports or the address counts, or lower "
            "connections.count",
        )
    if c.entries is not None and c.entries > c.count:
        raise UsageError(
            f"the Responder cannot send in {c.entries} of {c.count} connections",
            "lower connections.entries",
        )
    if c.entries == 1 and c.reading != "fixed":
        raise UsageError(
            "one table entry has no order to be read in", "set connections.reading to fixed"
        )
    _check_device(run)
    _check_timeout(bound, asked)


def _check_timeout(bound: BoundRun, asked: Sequence[Benchmark[Any]]) -> None:
    """A device that is known to forget connections sooner than the shortest test can end.

    The rate of phase 1 is known if it is given; otherwise nothing is faster than the medium.
    """
    run, plugin = bound.settings, bound.technology
    limit_s = _timeout_s(run, plugin)
    if limit_s is None:
        return
    c = run.procedure.connections
    sizes = plugin.frame_pair(run.frame_sizes[0])
    medium = max_frame_rate_fps(run.line_rate_bps, sizes.ipv6)
    rate_cps = c.rate_cps or min(c.upper_cps or math.inf, medium)
    first = filling(run.procedure).connections(c.count, rate_cps)
    needed_s = first.filling_s + first.wait_s + first.gap_s
    if any(b.phase == Phase.STREAMS for b in asked):
        needed_s += run.procedure.trial_duration_s + run.procedure.residual_wait_s
    if needed_s >= limit_s:
        raise UsageError(
            f"the device forgets idle connections after {limit_s:g} s, but {c.count:,} connections "
            f"and a trial take at least {needed_s:.1f} s",
            "raise the device's timeout (dut.options.timeout_s), or use fewer connections",
        )


def _timeout_s(run: ResolvedRun, plugin: Technology) -> float | None:
    """Lifetime of connections where it is known before anything is opened [s]."""
    if run.tester.kind == "sim":
        from v6t.drivers.sim.table import SimTable
        from v6t.drivers.sim.tester import SimOptions

        return SimTable(SimOptions.from_mapping(run.tester.options)).timeout_s
    driver = driver_of(run)
    if driver is not None and driver.name == CHAIN:
        return chained.timeout_s(driver, plugin)
    return None if driver is None else driver.timeout_s(intent_of(run))


def _check_device(run: ResolvedRun) -> None:
    """A table that nobody can empty."""
    if run.tester.kind == "sim" or run.dut.driver != "reference":
        return
    hooks: Any = run.dut.options.get("hooks", {})
    if "flush" in hooks and run.tester.kind != "embedded":
        return
    if run.tester.kind == "embedded":
        raise UsageError(
            f"there is no reference device for {run.plugin}: it would have to keep connections",
            "choose a device driver (--dut), or simulate with --tester sim",
        )
    raise UsageError(
        "nothing empties the device's table before each trial",
        "choose a device driver (--dut), or give the command dut.options.hooks.flush",
    )
