"""What can be known to be impossible about connections before any traffic: one sentence each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from v6t.base.errors import UsageError
from v6t.base.ethernet import max_frame_rate_fps
from v6t.benchmarks import registry
from v6t.benchmarks.base import Benchmark, Phase
from v6t.benchmarks.connections import phase_one_settings

if TYPE_CHECKING:
    from v6t.core.config.bound import BoundRun


def check_connections(bound: BoundRun, benchmarks: Sequence[Benchmark[Any, Any]]) -> None:
    """Refuse what cannot work with or without connections.

    Raises:
        UsageError: the first thing that cannot.
    """
    run, plugin = bound.settings, bound.technology
    for benchmark in benchmarks:
        if benchmark.exchange != plugin.exchange:
            fit = [b.name for b in registry.installed() if b.exchange == plugin.exchange]
            raise UsageError(
                f"{benchmark.name} needs {benchmark.exchange}, but {run.plugin} uses {plugin.exchange}",
                "one of " + ", ".join(fit),
                code="unsuitable-benchmark",
            )
        if not run.connects and benchmark.connections == "only":
            raise UsageError(
                f"{benchmark.name} measures stateful devices, but {run.plugin} is stateless",
                "leave it out of --measure, or choose a stateful technology such as nat44",
                code="unsuitable-benchmark",
            )
        if run.connects and benchmark.connections == "never":
            others = [b.name for b in registry.installed() if b.connections != "never"]
            raise UsageError(
                f"{benchmark.name} is not measured with connections",
                "one of " + ", ".join(others),
                code="unsuitable-benchmark",
            )
    if not run.connects:
        return
    c = run.procedure.connections
    combinations = plugin.combinations
    if any(b.fills_table for b in benchmarks) and c.count > combinations:
        raise UsageError(
            f"phase 1 of {c.count} connections needs as many four-tuples, but the ranges give "
            f"{combinations}",
            "widen initiator_ports, responder_ports or the address counts, or lower "
            "connections.count",
            code="not-enough-addresses",
        )
    if c.entries is not None and c.entries > c.count:
        raise UsageError(
            f"the Responder cannot send in {c.entries} of {c.count} connections",
            "lower connections.entries",
            code="out-of-range",
        )
    if c.entries == 1 and c.reading != "fixed":
        raise UsageError(
            "connections.reading needs more than one table entry",
            "set connections.reading to fixed",
            code="conflict",
        )
    for _ in on_tester(bound, benchmarks):
        pass
    _check_limits(bound, benchmarks)
    _check_device(bound)
    _check_timeout(bound, benchmarks)


def on_tester(bound: BoundRun, benchmarks: Sequence[Benchmark[Any, Any]]) -> Iterator[str]:
    """Check what so many connections take on this tester.

    Raises:
        UsageError: it cannot have them.
    """
    most = max((b.most_connections(bound) for b in benchmarks), default=0)
    needs = frozenset(n for b in benchmarks if b.fills_table for n in b.needs(bound))
    yield from bound.tester.connections(most, needs)


def _check_limits(bound: BoundRun, benchmarks: Sequence[Benchmark[Any, Any]]) -> None:
    """Refuse limits of the device that are smaller than what the benchmarks open.

    Raises:
        UsageError: the first limit that is too small.
    """
    plugin = bound.technology
    plugin.params.check_limits()
    limit = plugin.params.most_sessions
    for benchmark in benchmarks:
        needed = benchmark.least_connections(bound)
        if limit is not None and needed > limit:
            raise UsageError(
                f"{benchmark.name} opens {needed:,} connections, but the device holds {limit:,} "
                "sessions (session_limit)",
                f"set session_limit to {needed} or more, or lower the number of connections",
                params={"session_limit": needed},
                code="out-of-range",
            )


def _check_timeout(bound: BoundRun, benchmarks: Sequence[Benchmark[Any, Any]]) -> None:
    """Refuse a device that forgets connections sooner than the shortest test can end.

    The rate of phase 1 is known if it is given; otherwise nothing is faster than the medium.
    """
    run, plugin = bound.settings, bound.technology
    limit_s = bound.timeout_s
    if limit_s is None or all(b.phase is Phase.TCP for b in benchmarks):
        return
    c = run.procedure.connections
    sizes = plugin.sizes_of(run.frame_sizes[0])
    medium = max_frame_rate_fps(run.line_rate_bps, sizes.longest)
    rate_cps = c.rate_cps or min(c.upper_cps or math.inf, medium)
    first = phase_one_settings(run.procedure).connections(c.count, rate_cps)
    needed_s = first.phase_one_s + first.wait_s + first.gap_s
    if any(b.phase == Phase.STREAMS for b in benchmarks):
        needed_s += run.procedure.trial_duration_s + run.procedure.residual_wait_s
    if needed_s >= limit_s:
        least_s = math.floor(needed_s) + 1
        by_parameter = getattr(bound.intent.configuration, "udp_timeout_s", 0) == limit_s
        name = "udp_timeout_s" if by_parameter else "dut.options.timeout_s"
        raise UsageError(
            f"the device forgets idle connections after {limit_s:g} s, but {c.count:,} connections "
            f"and a trial take at least {needed_s:.1f} s",
            f"set {name} to {least_s} or more, or use fewer connections",
            params={"udp_timeout_s": least_s} if by_parameter else None,
            code="idle-timeout",
        )


def _check_device(bound: BoundRun) -> None:
    """Refuse a table that cannot be emptied."""
    if bound.tester.simulates or bound.driven or bound.driver.absent:
        return
    if bound.tester.in_lab:
        raise UsageError(
            f"no reference device exists for {bound.settings.plugin}, which keeps connections",
            "choose a device driver (--dut), or simulate with --tester sim",
            technology=bound.settings.plugin,
            code="missing-reference",
        )
    if "flush" not in bound.driver.hooks:
        raise UsageError(
            "no command is configured that empties the device's table before each trial",
            "choose a device driver (--dut), or give the command dut.options.hooks.flush",
            code="missing-driver",
        )
