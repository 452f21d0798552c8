"""Checks that find errors in a run before any traffic is sent."""

import math
from typing import Any

from v6t.base.errors import EnvironmentLacking, UsageError
from v6t.base.ethernet import compute_max_frame_rate_fps
from v6t.benchmarks import registry
from v6t.benchmarks.base import Benchmark, Phase
from v6t.benchmarks.connections import make_phase_one_settings
from v6t.core.config.run_setup import RunSetup, make_tester
from v6t.core.modifiers.base import Modifier
from v6t.drivers.tester import Tester
from v6t.packets.direction import DIRECTIONS
from v6t.procedures.search import mlr
from v6t.profiles.model import Role
from v6t.trials.trial import CAPABILITIES, Capability


def check_ttl(setup: RunSetup) -> None:
    """Reject a TTL of test frames that expires within the device."""
    ttl = getattr(setup.technology.params, "ttl", None)
    if ttl is None:
        return
    hops = setup.technology.hops
    if not setup.tester.simulates:
        intent = setup.technology.make_dut_intent()
        hops += max(0, *(setup.driver.get_further_hops(intent, each) for each in DIRECTIONS))
    if ttl <= hops:
        problem = f"ttl {ttl} expires within this device, which takes {hops} hops"
        hint = f"set ttl to {hops + 1} or more"
        raise UsageError(problem, hint, params={"ttl": hops + 1}, code="out-of-range")


def check_benchmark_settings(setup: RunSetup) -> None:
    """Reject benchmarks and settings that cannot be used together."""
    p = setup.settings.procedure
    check_connections(setup)
    if setup.technology.exchange == "queries":
        _check_reference_device(setup, "answers queries")
    if setup.tester.negative_traffic_problem and _sends_negative_frames(setup):
        raise UsageError(*setup.tester.negative_traffic_problem, code="unsupported-by-tester")
    for benchmark in setup.benchmarks:
        if benchmark.runs_alone and len(setup.benchmarks) > 1:
            problem = f"{benchmark.name} cannot share a run with other benchmarks"
            raise UsageError(problem, "leave the others out of --measure", code="conflict")
        has_mix = any(isinstance(size, str) for size in setup.settings.frame_sizes)
        if benchmark.requires_single_size and has_mix:
            problem = f"{benchmark.name} cannot use a mix of frame sizes"
            hint = "give it a frame size, or leave it out of --measure"
            raise UsageError(problem, hint, code="invalid-frame-size-mix")
        benchmark.check(setup)
    if p.adaptive is not None and p.adaptive.most < p.adaptive.fewest:
        problem = "adaptive repetition: the most repetitions are below the fewest"
        raise UsageError(problem, code="empty-range")


def _sends_negative_frames(setup: RunSetup) -> bool:
    technology = setup.technology
    if technology.exchange != "frames":
        return False
    sizes = technology.make_sizes(setup.settings.frame_sizes[0])
    return any(
        each.role is Role.NEGATIVE
        for direction in DIRECTIONS
        for each in setup.add_modifier(technology.build_sized_traffic(direction, sizes)).classes
    )


def check_modifier(setup: RunSetup, modifier: Modifier) -> None:
    """Reject a modifier that is incompatible with this run."""
    technology = setup.technology
    if technology.exchange != "frames":
        problem = f"modifiers need test frames, but {technology.name} uses {technology.exchange}"
        raise UsageError(problem, "leave the modifier out", code="unsuitable-modifier")
    if not modifier.needs_driver or setup.tester.simulates:
        return
    if not setup.has_driver:
        problem = f"the modifier {modifier.name} needs a device driver that carries it out"
        hint = "name one with --dut or in the testbed file"
        raise UsageError(problem, hint, code="missing-driver")
    for benchmark in setup.benchmarks:
        if modifier.needs_stream and benchmark.phase in (Phase.CONNECTIONS, Phase.TABLE):
            problem = f"{modifier.name} needs a stream, which {benchmark.name} does not send"
            raise UsageError(problem, "leave one of them out", code="unsuitable-modifier")
    modifier.check_plan(setup.example_plan)


def check_libraries(setup: RunSetup) -> None:
    """Raise EnvironmentLacking if the search or a benchmark needs a library that is missing."""
    searches = setup.settings.procedure.search == "mlrsearch"
    lacking = [mlr.find_missing_library()] if searches else []
    for missing in (*lacking, *(b.find_missing_requirement() for b in setup.benchmarks)):
        if missing:
            raise EnvironmentLacking(*missing, code="missing-package")


def check_capabilities(setup: RunSetup, tester: Tester | None = None) -> None:
    """Reject benchmarks that this tester or installation cannot measure.

    Raises:
        EnvironmentLacking: the tester lacks an ability, or a library is missing.
    """
    run = setup.settings
    check_libraries(setup)
    if not run.connects and not any(b.list_capabilities(setup) for b in setup.benchmarks):
        return
    able = (tester or make_tester(setup)).capabilities
    if run.connects and "connections" not in able:
        problem = f"the {run.tester.kind} tester cannot learn connections, which {run.plugin} needs"
        hint = "use --tester embedded or sim"
        raise EnvironmentLacking(problem, hint, code="unsupported-by-tester")
    for benchmark in setup.benchmarks:
        check_tester_capabilities(setup, benchmark, able)


def check_tester_capabilities(
    setup: RunSetup, benchmark: Benchmark[Any, Any], available: frozenset[Capability]
) -> None:
    """Reject a benchmark that needs more than the capabilities ``available`` of the tester."""
    if lacking := sorted(benchmark.list_capabilities(setup) - available):
        needs = f"a tester that {' and '.join(CAPABILITIES[a] for a in lacking)}"
        kind = setup.settings.tester.kind
        problem = f"the {kind} tester cannot measure {benchmark.name}: it needs {needs}"
        hint = "leave it out of --measure, or choose another tester or other options of this one"
        raise EnvironmentLacking(problem, hint, code="unsupported-by-tester")


def check_connections(setup: RunSetup) -> None:
    """Reject benchmarks and settings that do not fit the technology's use of connections."""
    run, plugin = setup.settings, setup.technology
    unsuitable_use = "forbidden" if run.connects else "required"
    for benchmark in setup.benchmarks:
        if benchmark.exchange != plugin.exchange:
            reason = f"needs {benchmark.exchange}, but {run.plugin} uses {plugin.exchange}"
        elif benchmark.connection_use != unsuitable_use:
            continue
        elif run.connects:
            reason = "is not measured with connections"
        else:
            reason = f"measures stateful devices, but {run.plugin} is stateless"
        suitable = (
            b.name
            for b in registry.load_installed()
            if b.exchange == plugin.exchange and b.connection_use != unsuitable_use
        )
        hint = "one of " + ", ".join(suitable)
        if benchmark.exchange == plugin.exchange and not run.connects:
            hint += "; or choose a stateful technology such as nat44"
        raise UsageError(f"{benchmark.name} {reason}", hint, code="unsuitable-benchmark")
    if not run.connects:
        return
    c = run.procedure.connections
    combinations = plugin.combinations
    if any(b.fills_table for b in setup.benchmarks) and c.count > combinations:
        problem = f"phase 1 of {c.count} connections needs more than {combinations} four-tuples"
        hint = "widen the port ranges or the address counts, or lower connections.count"
        raise UsageError(problem, hint, code="not-enough-addresses")
    if c.entries is not None and c.entries > c.count:
        problem = f"the Responder cannot send in {c.entries} of {c.count} connections"
        raise UsageError(problem, "lower connections.entries", code="out-of-range")
    if c.entries == 1 and c.reading != "fixed":
        problem = "connections.reading needs more than one table entry"
        raise UsageError(problem, "set connections.reading to fixed", code="conflict")
    setup.tester.check_connections(*setup.connection_needs)
    _check_session_limit(setup)
    _check_table_flush(setup)
    _check_timeout(setup)


def _check_session_limit(setup: RunSetup) -> None:
    plugin = setup.technology
    plugin.params.check_client_limits()
    limit = plugin.params.max_sessions
    for benchmark in setup.benchmarks:
        needed = benchmark.find_min_connections(setup)
        if limit is not None and needed > limit:
            problem = f"{benchmark.name} opens {needed:,} connections; the device holds {limit:,}"
            hint = f"set session_limit to {needed} or more, or lower the number of connections"
            raise UsageError(problem, hint, params={"session_limit": needed}, code="out-of-range")


def _check_timeout(setup: RunSetup) -> None:
    """Reject a device whose connections time out before the shortest test ends.

    The rate of phase 1 is known if it is given; otherwise nothing is faster than the medium.
    """
    run, plugin = setup.settings, setup.technology
    limit_s = setup.timeout_s
    if limit_s is None or all(b.phase is Phase.TCP for b in setup.benchmarks):
        return
    c = run.procedure.connections
    sizes = plugin.make_sizes(run.frame_sizes[0])
    medium = compute_max_frame_rate_fps(run.line_rate_bps, sizes.longest)
    rate_cps = c.rate_cps or min(c.upper_cps or math.inf, medium)
    first = make_phase_one_settings(run.procedure).make_connections(c.count, rate_cps)
    needed_s = first.phase_one_s + first.wait_s + first.gap_s
    if any(b.phase == Phase.STREAMS for b in setup.benchmarks):
        needed_s += run.procedure.trial_duration_s + run.procedure.residual_wait_s
    if needed_s >= limit_s:
        least_s = math.floor(needed_s) + 1
        by_parameter = getattr(setup.intent.configuration, "udp_timeout_s", 0) == limit_s
        name = "udp_timeout_s" if by_parameter else "dut.options.timeout_s"
        needed = f"{c.count:,} of them and a trial take {needed_s:.1f} s"
        problem = f"connections expire after {limit_s:g} s, but {needed}"
        hint = f"set {name} to {least_s} or more, or use fewer connections"
        params = {"udp_timeout_s": least_s} if by_parameter else None
        raise UsageError(problem, hint, params=params, code="idle-timeout")


def _check_reference_device(setup: RunSetup, reason: str) -> None:
    """Reject the reference device of the lab for a technology that has none."""
    if not setup.tester.in_lab or setup.tester.simulates or setup.has_driver:
        return
    if not setup.driver.is_cable:
        name = setup.settings.plugin
        problem = f"no reference device exists for {name}, which {reason}"
        hint = "choose a device driver (--dut), or simulate with --tester sim"
        raise UsageError(problem, hint, technology=name, code="missing-reference")


def _check_table_flush(setup: RunSetup) -> None:
    """Reject benchmarks that need an empty table if the device cannot flush its table."""
    if setup.tester.simulates or setup.has_driver or setup.driver.is_cable:
        return
    _check_reference_device(setup, "is stateful")
    if "flush" not in setup.driver.hooks:
        problem = "no command is configured that empties the device's table before each trial"
        hint = "choose a device driver (--dut), or give the command dut.options.hooks.flush"
        raise UsageError(problem, hint, code="missing-driver")
