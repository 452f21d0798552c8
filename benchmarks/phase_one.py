"""Connections that trials need first (RFC 9693): at which rate they are made, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from v6t.benchmarks.point import Cost, MeasurementPoint, Point
from v6t.procedures.stateful.connection_rate import BENCHMARK as CONNECTION_RATE
from v6t.procedures.stateful.connection_rate import ConnectionRateSpec
from v6t.procedures.stateful.phases import PhaseOneSettings, Prepared
from v6t.trials.codec import connections_to_json
from v6t.trials.connections import Connections
from v6t.trials.order_statistics import percentile

if TYPE_CHECKING:
    from v6t.benchmarks.context import MeasuredTechnology
    from v6t.benchmarks.settings import ProcedureSettings

_EMPTYING_S = 12e-6
"""For each connection that stood: nftables on Linux 6.18 with 100,000 of them, and the tester's tables
[s]. Of plans only."""


def phase_one_settings(p: ProcedureSettings) -> PhaseOneSettings:
    """How connections come about."""
    c = p.connections
    return PhaseOneSettings(
        wait_s=c.wait_ms / 1000,
        gap_s=c.gap_ms / 1000,
        alpha=c.alpha if c.validate_connections else None,
        entries=c.entries,
        keep=c.keep,
    )


def upper_bound(point: Point) -> tuple[float, str]:
    """Highest connection rate that makes sense, and why."""
    upper_cps = point.procedure.connections.upper_cps
    if upper_cps is not None and upper_cps < point.limit_fps:
        return upper_cps, "given"
    return point.limit_fps, point.limit_reason


def assumed_most(point: Point) -> float:
    """The device's highest rate before anything is known of it: half of what is likely offered."""
    return min(upper_bound(point)[0], point.likely_cps) / 2


def assumed_rate(point: Point) -> float:
    """R before anything is known of the device."""
    c = point.procedure.connections
    return c.rate_cps or assumed_most(point) * c.rate_share


def rate(point: MeasurementPoint) -> tuple[float, str]:
    """R of phase 2, and where it comes from (ST-09)."""
    c = point.procedure.connections
    return share_of(point, CONNECTION_RATE, "connection rate", c.rate_share, c.rate_cps)


def share_of(
    point: MeasurementPoint, benchmark: str, words: str, share: float, given_cps: float | None
) -> tuple[float, str]:
    """A rate that is given, or a share of P1 of one that was found; and where it comes from.

    Args:
        point: where it was found.
        benchmark: that found it.
        words: what it is called.
        share: of it.
        given_cps: takes its place [connections per second].
    """
    if given_cps is not None:
        return given_cps, "given"
    rates = point.found.get(benchmark, ())
    rate = percentile(rates, 1) if rates else 0.0
    return rate * share, f"{share:.0%} of P1 of the {words}"


def rate_search(
    point: Point, phase_one: PhaseOneSettings, benchmark: str = CONNECTION_RATE
) -> ConnectionRateSpec:
    """The search for the highest rate at which connections come about."""
    p, c = point.procedure, point.procedure.connections
    upper, reason = upper_bound(point)
    return ConnectionRateSpec(
        conditions=point.conditions(),
        connections=c.count,
        upper_bound_cps=upper,
        upper_bound_reason=reason,
        resolution_cps=c.resolution_cps or p.resolution_ratio * upper,
        repetitions=p.repetitions,
        phase_one=phase_one,
        benchmark=benchmark,
    )


def search_cost(point: Point, spec: ConnectionRateSpec) -> Cost:
    """All searches, at half of the highest rate offered."""
    connections = spec.phase_one.connections(spec.connections, assumed_most(point))
    return filling_cost(point, spec.conditions.pause_s, [connections]) * (
        spec.repetitions * spec.steps
    )


def prepared(point: MeasurementPoint, flows: int | None = None) -> MeasurementPoint | None:
    """The point at which every trial gets its connections first; None: no connection rate passed.

    Args:
        point: as it is without.
        flows: so many connections, which frames take in turn both ways; None: as the run has it.
    """
    c = point.procedure.connections
    rate_cps, source = rate(point)
    if not rate_cps:
        return None
    connections = phase_one_settings(point.procedure).connections(flows or c.count, rate_cps)
    connections = replace(connections, reading="linear" if flows else c.reading, alpha=None)
    if flows:
        connections = replace(connections, entries=None)
    measure = Prepared(point.measure, connections, c.retakes)
    conditions = {
        **connections_to_json(connections),
        "rate_source": source,
        "delay_s": connections.phase_one_s + connections.wait_s + connections.gap_s,
        **setup_of(point.bound.technology),
    }
    return replace(
        point, measure=measure, find=measure.finder(point.find), also={"connections": conditions}
    )


def with_phase_one(point: Point, cost: Cost) -> Cost:
    """The cost of trials that get connections first; kept ones are made once."""
    c = point.procedure.connections
    settings = replace(phase_one_settings(point.procedure), alpha=None)
    connections = settings.connections(c.count, assumed_rate(point))
    own_s, beyond_s = connections.total_s + c.gap_ms / 1000, emptying_s(point, c.count)
    if c.keep:
        once_s = own_s + beyond_s
        return cost + Cost(0, once_s, beyond_s=once_s, once_s=once_s)
    return cost.with_each(own_s, beyond_s)


def filling_cost(point: Point, pause_s: float, connections: Iterable[Connections]) -> Cost:
    """Trials that are phase 1 and nothing else, each after the table was emptied."""
    fillings = list(connections)
    beyond_s = sum(emptying_s(point, one.count) for one in fillings)
    own_s = sum(pause_s + one.total_s for one in fillings)
    return Cost(len(fillings), own_s + beyond_s, beyond_s=beyond_s)


def emptying_s(point: Point, connections: int) -> float:
    """What it takes to empty the device's table, and the tester's own, of so many [s]."""
    return 0.0 if point.bound.tester.simulates else _EMPTYING_S * connections


def setup_of(plugin: MeasuredTechnology) -> dict[str, Any]:
    """Ranges of the connections and which device is stateful, for the report (ST-14, DD-04)."""
    technology: Any = plugin
    names = ("initiator_ports", "responder_ports", "initiator_count", "responder_count")
    dumped: Mapping[str, Any] = technology.params.model_dump(mode="json")
    return {
        **{name: dumped[name] for name in names if name in dumped},
        "combinations": technology.combinations,
        "initiator_endpoints": technology.endpoints,
        "usual_timeout_s": technology.usual_timeout_s,
        "mapping": technology.mapping,
        "devices": [{"name": r.name, "stateful": r.stateful} for r in technology.roles],
    }
