"""What can be known to be impossible before any traffic: one sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from v6t.base.errors import EnvironmentLacking, UsageError
from v6t.benchmarks import registry
from v6t.benchmarks.base import Phase
from v6t.core.config.connection_checks import check_connections
from v6t.packets.direction import DIRECTIONS
from v6t.procedures.search import mlr
from v6t.profiles.model import Role
from v6t.trials.trial import CAPABILITIES

if TYPE_CHECKING:
    from v6t.core.config.bound import BoundRun
    from v6t.core.modifiers.base import Modifier
    from v6t.drivers.tester import Tester


def check_ttl(bound: BoundRun) -> None:
    """Refuse a TTL of test frames that ends within the device.

    Raises:
        UsageError: with the smallest one that leaves it.
    """
    ttl = getattr(bound.technology.params, "ttl", None)
    if ttl is None:
        return
    hops = bound.technology.hops
    if not bound.tester.simulates:
        intent = bound.technology.dut_intent()
        hops += max(0, *(bound.driver.further_hops(intent, each) for each in DIRECTIONS))
    if ttl <= hops:
        raise UsageError(
            f"ttl {ttl} ends within this device, which takes {hops} hops",
            f"set ttl to {hops + 1} or more",
            params={"ttl": hops + 1},
            code="out-of-range",
        )


def check_measures(bound: BoundRun, *, single_frames: bool = False) -> None:
    """Refuse settings of benchmarks that cannot work.

    Args:
        bound: the run.
        single_frames: no benchmark is measured, so all settings work.

    Raises:
        UsageError: the first that cannot.
    """
    if single_frames:
        return
    p = bound.settings.procedure
    benchmarks = [registry.load(name) for name in bound.settings.benchmarks]
    check_connections(bound, benchmarks)
    if bound.tester.no_negative and _sends_negative(bound):
        raise UsageError(*bound.tester.no_negative, code="unsupported-by-tester")
    for benchmark in benchmarks:
        if benchmark.alone and len(benchmarks) > 1:
            raise UsageError(
                f"{benchmark.name} cannot share a run with other benchmarks",
                "leave the others out of --measure",
                code="conflict",
            )
        if benchmark.one_size and any(isinstance(size, str) for size in bound.settings.frame_sizes):
            raise UsageError(
                f"{benchmark.name} cannot use a mix of frame sizes",
                "give it a frame size, or leave it out of --measure",
                code="invalid-frame-size-mix",
            )
        benchmark.check(bound)
    if p.adaptive is not None and p.adaptive.most < p.adaptive.fewest:
        raise UsageError(
            "adaptive repetition: the most repetitions are below the fewest", code="empty-range"
        )


def _sends_negative(bound: BoundRun) -> bool:
    """Whether some frames must be dropped by the device."""
    technology = bound.technology
    if technology.exchange != "frames":
        return False
    sizes = technology.sizes_of(bound.settings.frame_sizes[0])
    return any(
        each.role is Role.NEGATIVE
        for direction in DIRECTIONS
        for each in bound.modified(technology.sized_traffic(direction, sizes)).classes
    )


def check_modifier(bound: BoundRun, modifier: Modifier) -> None:
    """Refuse a modifier that cannot go on beside this run.

    Raises:
        UsageError: saying why.
    """
    if bound.technology.exchange != "frames":
        raise UsageError(
            f"modifiers need test frames, but {bound.technology.name} uses "
            f"{bound.technology.exchange}",
            "leave the modifier out",
            code="unsuitable-modifier",
        )
    if not modifier.driven or bound.tester.simulates:
        return
    if not bound.driven:
        raise UsageError(
            f"the modifier {modifier.name} needs a device driver that carries it out",
            "name one with --dut or in the testbed file",
            code="missing-driver",
        )
    for benchmark in map(registry.load, bound.settings.benchmarks if modifier.in_streams else ()):
        if benchmark.phase in (Phase.CONNECTIONS, Phase.TABLE):
            raise UsageError(
                f"the modifier {modifier.name} needs a stream, which {benchmark.name} does not send",
                "leave one of them out",
                code="unsuitable-modifier",
            )
    modifier.suits(bound.driver.plan(bound.intent, bound.driver.example(bound.intent)))


def check_capabilities(bound: BoundRun, tester: Tester) -> None:
    """Refuse benchmarks this tester or installation cannot measure.

    Args:
        bound: the run.
        tester: made for it; open or not: some know only then what they can.

    Raises:
        EnvironmentLacking: the tester lacks an ability, or a library is missing.
    """
    run = bound.settings
    if run.procedure.search == "mlrsearch" and not mlr.is_available():
        raise EnvironmentLacking(
            f"the search 'mlrsearch' needs {mlr.describe_requirement()}",
            "pip install 'v6t[mlrsearch]', or --search binary",
            code="missing-package",
        )
    benchmarks = [registry.load(name) for name in run.benchmarks]
    for missing in filter(None, (benchmark.lacks() for benchmark in benchmarks)):
        raise EnvironmentLacking(*missing, code="unsupported-by-tester")
    if not run.connects and not any(b.needs(bound) for b in benchmarks):
        return
    able = tester.capabilities
    if run.connects and "connections" not in able:
        raise EnvironmentLacking(
            f"the {run.tester.kind} tester cannot learn connections, which {run.plugin} needs",
            "use --tester embedded or sim",
            code="unsupported-by-tester",
        )
    for benchmark in benchmarks:
        lacking = sorted(benchmark.needs(bound) - able)
        if lacking:
            raise EnvironmentLacking(
                f"the {run.tester.kind} tester cannot measure {benchmark.name}: it needs a tester that "
                f"{' and '.join(CAPABILITIES[a] for a in lacking)}",
                "leave it out of --measure, or choose another tester or other options of this one",
                code="unsupported-by-tester",
            )
