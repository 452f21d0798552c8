"""Connection tracking table capacity (RFC 9693 section 4.9)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import Phase
from v6t.benchmarks.connection_rate import OfConnections
from v6t.benchmarks.phase_one import (
    assumed_most,
    filling_cost,
    phase_one_settings,
    setup_of,
    upper_bound,
)
from v6t.benchmarks.point import Cost, Measured, MeasurementPoint, Point
from v6t.benchmarks.presentations.connections import CapacityPresentation
from v6t.benchmarks.records.state_table import CapacityRecord, capacity_record, capacity_rows
from v6t.benchmarks.settings import MOST_CONNECTIONS
from v6t.procedures.search.binary import halvings
from v6t.procedures.stateful.capacity import CapacitySpec, measure_capacity

if TYPE_CHECKING:
    from v6t.benchmarks.context import RunContext

TRIALS_PER_COUNT = 2
"""Trials of a search for each number of connections but the first, usually."""


class CapacitySettings(StrictModel):
    """Search for the connection table's capacity (ST-12); defaults of the RFC's example."""

    first: int = Field(default=1_000_000, ge=1, le=MOST_CONNECTIONS)
    """C0, connections of the first search."""
    most: int | None = Field(default=None, ge=1, le=MOST_CONNECTIONS)
    """Never more connections than these; None: as many as there are four-tuples."""
    beta: float = Field(default=0.1, gt=0, le=1)
    """Below this share of the last rate the table is too small."""
    gamma: float = Field(default=0.5, gt=0, le=1)
    """At this share of the rate and above it is large enough."""
    error: int = Field(default=1, ge=1)
    """E, error of the search [connections]."""
    resolution_cps: float | None = Field(default=None, gt=0)
    """Error of the rate searches on the way; None: as for the connection rate."""


class Capacity(CapacityPresentation, OfConnections[CapacityRecord, CapacitySettings]):
    """How many connections a table holds."""

    summary = "How many connections the device's table holds."
    phase = Phase.TABLE
    order = 20
    searches = True
    fills_table = False
    one_size = True
    section = "capacity"
    model = CapacitySettings
    quick = CapacitySettings(first=10_000, most=500_000, error=2000, beta=0.5)

    def most_connections(self, bound: RunContext) -> int:
        """As many as the search may ask for."""
        most, there = self.own(bound).most, bound.technology.combinations
        return there if most is None else min(there, most)

    def least_connections(self, bound: RunContext) -> int:
        """The search begins with so many; where the table ends is its result."""
        return self.own(bound).first

    def check(self, bound: RunContext) -> None:
        """Refuse shares in the wrong order, and more connections than there can be."""
        c = self.own(bound)
        if c.beta > c.gamma:
            raise UsageError(
                f"beta = {c.beta:g} is larger than gamma = {c.gamma:g}",
                "a table that is too small must be slower than one that is large enough",
                code="out-of-range",
            )
        most = self.most_connections(bound)
        if c.first > most:
            raise UsageError(
                f"the capacity search begins with {c.first} connections, but may not ask for more "
                f"than {most}",
                "lower capacity.first, raise capacity.most, or widen the "
                "ranges of ports and addresses",
                code="empty-range",
            )

    def cost(self, point: Point) -> Cost:
        """As if the capacity was just below the most connections there are four-tuples for."""
        spec = self._spec(point)
        rate_cps = assumed_most(point)
        counts = [spec.first]
        while counts[-1] < spec.most:
            counts.append(min(2 * counts[-1], spec.most))
        width = max(1, counts[-1] - (counts[-2] if len(counts) > 1 else 0))
        counts += [spec.most] * math.ceil(math.log2(max(1.0, width / spec.error)))
        first = halvings(spec.upper_bound_cps, min(spec.resolution_cps, rate_cps)) + 1
        smallest, *more = [spec.phase_one.connections(n, rate_cps) for n in counts]
        pause_s = spec.conditions.pause_s
        return (
            filling_cost(point, pause_s, [smallest]) * first
            + filling_cost(point, pause_s, more) * TRIALS_PER_COUNT
        )

    def run(self, point: MeasurementPoint) -> Measured:
        """One search, up to as many connections as there are four-tuples."""
        result = measure_capacity(self._spec(point), point.measure, point.watch)
        setup = setup_of(point.bound.technology)
        record = capacity_record(result, setup=setup, conditions=point.said)
        return Measured(record, capacity_rows(result))

    def _spec(self, point: Point) -> CapacitySpec:
        p, own = point.procedure, self.own(point.bound)
        upper, reason = upper_bound(point)
        most = self.most_connections(point.bound)
        return CapacitySpec(
            conditions=point.conditions(),
            first=min(own.first, most),
            most=most,
            upper_bound_cps=upper,
            upper_bound_reason=reason,
            resolution_cps=own.resolution_cps
            or p.connections.resolution_cps
            or p.resolution_ratio * upper,
            beta=own.beta,
            gamma=own.gamma,
            error=own.error,
            phase_one=phase_one_settings(p),
        )
