"""Maximum connection establishment rate (RFC 9693 section 4.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from v6t.analysis.record import Record
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import Benchmark, Phase
from v6t.benchmarks.phase_one import (
    phase_one_settings,
    rate_search,
    search_cost,
    setup_of,
)
from v6t.benchmarks.point import Cost, Measured, MeasurementPoint, Point
from v6t.benchmarks.presentations.connections import ConnectionRatePresentation
from v6t.benchmarks.records.connections import (
    ConnectionRateRecord,
    connection_rate_record,
    connection_rate_rows,
)
from v6t.procedures.stateful.connection_rate import ConnectionRateSpec, measure_connection_rate

if TYPE_CHECKING:
    from v6t.benchmarks.context import RunContext


C = TypeVar("C", bound=Record)
S = TypeVar("S", bound=StrictModel)


class OfConnections(Benchmark[C, S]):
    """Benchmarks that say nothing where connections may be gone."""

    connections = "only"

    def caveats(self, bound: RunContext) -> Iterator[str]:
        """Connections that nobody tried."""
        if not bound.settings.procedure.connections.validate_connections:
            yield "connections are not validated: the device may have forgotten them"


class ConnectionRate(ConnectionRatePresentation, OfConnections[ConnectionRateRecord, StrictModel]):
    """The highest rate at which every new connection is forwarded and stands."""

    summary = "The highest rate at which every new connection stands."
    phase = Phase.CONNECTIONS
    order = 10
    searches = True

    def cost(self, point: Point) -> Cost:
        """All searches, at half of the highest rate offered."""
        return search_cost(point, self._spec(point))

    def run(self, point: MeasurementPoint) -> Measured:
        """Search, as often as asked."""
        result = measure_connection_rate(self._spec(point), point.measure, point.watch)
        record = connection_rate_record(
            result,
            point.find,
            setup=setup_of(point.bound.technology),
            conditions=point.said,
            capacity_cps=point.tester_capacity.rate_fps,
            selftest_margin=point.procedure.selftest_margin,
        )
        rows = connection_rate_rows(result, lambda key: point.find(key).started)
        return Measured(record, rows, [r.rate_cps for r in result.repetitions])

    def _spec(self, point: Point) -> ConnectionRateSpec:
        return rate_search(point, phase_one_settings(point.procedure))
