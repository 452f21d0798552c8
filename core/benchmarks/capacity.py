"""Connection tracking table capacity (RFC 9693 section 4.9)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from v6t.analysis.presentations.connections import CapacityPresentation
from v6t.analysis.records.state_table import CapacityRecord, capacity_record, capacity_rows
from v6t.core.benchmarks.base import Phase
from v6t.core.benchmarks.connection_rate import OfConnections
from v6t.core.benchmarks.phase_one import phase_one_s, phase_one_settings, setup_of, upper_bound
from v6t.core.benchmarks.point import Cost, Measured, MeasurementPoint, Point
from v6t.procedures.search.binary import halvings
from v6t.procedures.stateful.capacity import CapacitySpec, measure_capacity
from v6t.profiles.errors import UsageError

if TYPE_CHECKING:
    from v6t.core.config.bound import BoundRun

TRIALS_PER_COUNT = 2
"""Trials of a search for each number of connections but the first, usually."""


class Capacity(CapacityPresentation, OfConnections[CapacityRecord]):
    """How many connections a table holds."""

    summary = "How many connections the device's table holds."
    phase = Phase.TABLE
    order = 20
    fills_table = False

    def most_connections(self, bound: BoundRun) -> int:
        """As many as the search may ask for."""
        return _most(bound)

    def check(self, bound: BoundRun) -> None:
        """Refuse shares in the wrong order, and more connections than there can be."""
        c = bound.settings.procedure.connections.capacity
        if c.beta > c.gamma:
            raise UsageError(
                f"beta = {c.beta:g} is larger than gamma = {c.gamma:g}",
                "a table that is too small must be slower than one that is large enough",
            )
        most = _most(bound)
        if c.first > most:
            raise UsageError(
                f"the capacity search begins with {c.first} connections, but may not ask for more "
                f"than {most}",
                "lower connections.capacity.first, raise connections.capacity.most, or widen the "
                "ranges of ports and addresses",
            )

    def cost(self, point: Point) -> Cost:
        """As if the capacity was just below the most connections there are four-tuples for."""
        spec = self._spec(point)
        rate_cps = spec.upper_bound_cps / 2
        counts = [spec.first]
        while counts[-1] < spec.most:
            counts.append(min(2 * counts[-1], spec.most))
        width = max(1, counts[-1] - (counts[-2] if len(counts) > 1 else 0))
        counts += [spec.most] * math.ceil(math.log2(max(1.0, width / spec.error)))
        first = halvings(spec.upper_bound_cps, min(spec.resolution_cps, rate_cps)) + 1
        each = [
            spec.conditions.pause_s + phase_one_s(spec.phase_one.connections(n, rate_cps))
            for n in counts
        ]
        trials = first + TRIALS_PER_COUNT * (len(counts) - 1)
        return Cost(trials, first * each[0] + TRIALS_PER_COUNT * sum(each[1:]))

    def run(self, point: MeasurementPoint) -> Measured:
        """One search, up to as many connections as there are four-tuples."""
        result = measure_capacity(self._spec(point), point.measure, point.watch)
        setup = setup_of(point.bound.technology)
        record = capacity_record(result, setup=setup, conditions=point.said)
        return Measured(record, capacity_rows(result))

    def _spec(self, point: Point) -> CapacitySpec:
        p, c = point.procedure, point.procedure.connections
        upper, reason = upper_bound(point)
        most = _most(point.bound)
        return CapacitySpec(
            conditions=point.conditions(),
            first=min(c.capacity.first, most),
            most=most,
            upper_bound_cps=upper,
            upper_bound_reason=reason,
            resolution_cps=c.capacity.resolution_cps
            or c.resolution_cps
            or p.resolution_ratio * upper,
            beta=c.capacity.beta,
            gamma=c.capacity.gamma,
            error=c.capacity.error,
            phase_one=phase_one_settings(p),
        )


def _most(bound: BoundRun) -> int:
    """Connections a search may ask for."""
    given = bound.settings.procedure.connections.capacity.most
    there = bound.technology.combinations
    return there if given is None else min(there, given)
