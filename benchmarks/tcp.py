"""The TCP benchmarks of RFC 8219 section 8: establishment rate and concurrent connections (RFC 3511)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeVar

from pydantic import Field
from v6t.analysis.record import Record
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import Phase
from v6t.benchmarks.connection_rate import OfConnections
from v6t.benchmarks.phase_one import (
    assumed_most,
    filling_cost,
    phase_one_settings,
    rate_search,
    search_cost,
    setup_of,
    share_of,
)
from v6t.benchmarks.point import Cost, Measured, MeasurementPoint, Point
from v6t.benchmarks.presentations.tcp import TcpCapacityPresentation, TcpRatePresentation
from v6t.benchmarks.records.tcp import (
    TcpCapacityRecord,
    TcpRateRecord,
    iteration_rows,
    iterations,
    tcp_capacity_record,
    tcp_rate_record,
)
from v6t.benchmarks.settings import MOST_CONNECTIONS, Flag
from v6t.benchmarks.tcp_point import opening_key
from v6t.procedures.stateful.capacity import CapacitySpec
from v6t.procedures.stateful.connection_rate import ConnectionRateSpec, measure_connection_rate
from v6t.procedures.stateful.phases import PhaseOneSettings
from v6t.procedures.stateful.tcp_capacity import (
    BENCHMARK as CAPACITY,
)
from v6t.procedures.stateful.tcp_capacity import (
    SECOND_TRY,
    TcpCapacitySpec,
    measure_tcp_capacity,
)
from v6t.profiles.tcp.http import MOST_OCTETS
from v6t.trials.tcp import Closing, Tcp
from v6t.trials.trial import Capability

if TYPE_CHECKING:
    from v6t.benchmarks.context import RunContext

RATE = "tcp-rate"
_STEPS_PER_FAILURE = 2

R = TypeVar("R", bound=Record)
S = TypeVar("S", bound=StrictModel)


class TcpSettings(StrictModel):
    """Connections of TCP (RFC 8219 section 8, RFC 3511 sections 5.2 and 5.3)."""

    object_octets: Annotated[int, Flag("--object-size")] = Field(default=64, ge=1, le=MOST_OCTETS)
    """Size of the object that every connection asks for [octets]."""
    timeout_s: float = Field(default=1.0, gt=0, le=60)
    """A SYN and a request must be answered within [s]."""
    retransmissions: int = Field(default=0, ge=0, le=6)
    """Times a SYN that was not answered is sent again, each after twice the wait."""
    closing: Closing = "rst"
    """How connections end: by a reset (RFC 3511 sections 5.2.3, 5.3.3) or by FIN."""
    rate_cps: float | None = Field(default=None, gt=0)
    """Connection attempt rate of the capacity; None: from the measured maximum."""
    rate_share: float = Field(default=0.5, gt=0, le=1)
    """That rate as a share of P1 of the measured maximum."""

    @property
    def for_trials(self) -> Tcp:
        """What trials are told."""
        return Tcp(self.object_octets, self.timeout_s, self.retransmissions, self.closing)


class OfTcp(OfConnections[R, S]):
    """A benchmark with connections of TCP."""

    phase = Phase.TCP
    searches = True
    further: ClassVar[Mapping[str, type[StrictModel]]] = {"tcp": TcpSettings}
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"connections", "tcp"})

    def tcp(self, bound: RunContext) -> TcpSettings:
        """How connections are made."""
        settings: TcpSettings = self.shared(bound, "tcp")
        return settings

    def follows(self, bound: RunContext) -> tuple[str, ...]:
        """Nothing with UDP."""
        del bound
        return ()

    def check(self, bound: RunContext) -> None:
        """Refuse a run without a device: the tester alone keeps no connections."""
        if bound.driver.absent:
            raise UsageError(
                f"without a device {self.name} would measure the tester",
                "`v6t selftest` measures the tester alone",
                code="missing-device",
            )
        for _ in self._on_tester(bound):
            pass

    def caveats(self, bound: RunContext) -> Iterator[str]:
        """Connections that nobody tried, second tries, and the tester's way."""
        yield from super().caveats(bound)
        yield from self._on_tester(bound)
        tries = self.tcp(bound).retransmissions
        if tries:
            yield f"a SYN that is lost is sent again up to {tries} times: connections count that took longer"

    def _on_tester(self, bound: RunContext) -> Iterator[str]:
        """What the tester has to say of such connections.

        Raises:
            UsageError: it cannot make them.
        """
        return bound.tester.conversations(
            bound.technology,
            self.most_connections(bound),
            self.tcp(bound).for_trials,
            phase_one_settings(bound.settings.procedure).alpha,
        )

    def _phase_one(self, point: Point) -> PhaseOneSettings:
        tcp = self.tcp(point.bound).for_trials
        return replace(phase_one_settings(point.procedure), wait_s=tcp.max_wait_s, tcp=tcp)


class TcpRate(TcpRatePresentation, OfTcp[TcpRateRecord, TcpSettings]):
    """The highest rate at which every connection of TCP is established and brings its object."""

    summary = (
        "The highest rate at which every TCP connection is established (RFC 3511 section 5.3)."
    )
    order = 10
    quick = None

    def cost(self, point: Point) -> Cost:
        """All searches, at half of the highest rate offered."""
        return search_cost(point, self._spec(point))

    def run(self, point: MeasurementPoint) -> Measured:
        """Search, as often as asked."""
        result = measure_connection_rate(self._spec(point), point.measure, point.watch)
        record = tcp_rate_record(
            result,
            point.find,
            tcp=self.tcp(point.bound).for_trials,
            setup=setup_of(point.bound.technology),
            conditions=point.said,
            capacity_cps=point.tester_capacity.rate_fps,
            selftest_margin=point.procedure.selftest_margin,
            selftest=[opening_key(key) for key in point.tester_capacity.keys],
        )
        rows = iteration_rows(record.iterations, point.conditions())
        return Measured(record, rows, [r.rate_cps for r in result.repetitions])

    def _spec(self, point: Point) -> ConnectionRateSpec:
        return rate_search(point, self._phase_one(point), RATE)


class TcpCapacitySettings(StrictModel):
    """Search for the concurrent TCP connection capacity (RFC 3511 section 5.2)."""

    first: int = Field(default=1_000_000, ge=1, le=MOST_CONNECTIONS)
    """Connections the search begins with."""
    most: int | None = Field(default=None, ge=1, le=MOST_CONNECTIONS)
    """Never more connections than these; None: as many as there are four-tuples."""
    error: int = Field(default=1, ge=1)
    """Error of the search [connections]."""
    beyond: float = Field(default=0.1, ge=0, le=10)
    """Share of the capacity that is attempted beyond it, to see what becomes of it."""
    aging_s: float = Field(default=150.0, ge=0, le=86_400)
    """Longest wait for the device to forget connections that ended [s]; 0: none."""


class TcpCapacity(TcpCapacityPresentation, OfTcp[TcpCapacityRecord, TcpCapacitySettings]):
    """How many connections of TCP are open at a time."""

    summary = "How many TCP connections the device holds open at a time (RFC 3511 section 5.2)."
    order = 20
    fills_table = False
    section = "tcp_capacity"
    model = TcpCapacitySettings
    quick = TcpCapacitySettings(first=10_000, most=500_000, error=2000, aging_s=15.0)

    def follows(self, bound: RunContext) -> tuple[str, ...]:
        """The establishment rate, unless the attempt rate is given."""
        return () if self.tcp(bound).rate_cps is not None else (RATE,)

    def most_connections(self, bound: RunContext) -> int:
        """As many as the search may ask for."""
        most, there = self.own(bound).most, bound.technology.combinations
        return there if most is None else min(there, most)

    def least_connections(self, bound: RunContext) -> int:
        """The search begins with so many; where the table ends is its result."""
        return self.own(bound).first

    def check(self, bound: RunContext) -> None:
        """Refuse more connections than there can be."""
        super().check(bound)
        first, most = self.own(bound).first, self.most_connections(bound)
        if first > most:
            raise UsageError(
                f"the search begins with {first} connections, but may not ask for more than {most}",
                "lower tcp_capacity.first, raise tcp_capacity.most, or widen the ranges of ports "
                "and addresses",
                code="empty-range",
            )

    def cost(self, point: Point) -> Cost:
        """As if the capacity was just below the most connections there are four-tuples for."""
        tcp = self.tcp(point.bound)
        spec = self._spec(point, tcp.rate_cps or tcp.rate_share * assumed_most(point))
        search = spec.search
        counts = [search.first]
        while counts[-1] < search.most:
            counts.append(min(2 * counts[-1], search.most))
        width = max(1, counts[-1] - (counts[-2] if len(counts) > 1 else 0))
        counts += [search.most] * math.ceil(math.log2(max(1.0, width / search.error)))
        connections = [search.phase_one.connections(n, search.upper_bound_cps) for n in counts]
        aging = replace(spec.tcp, aging_s=spec.aging_s)
        last = [replace(connections[-1], tcp=aging)] * 2
        pause_s = search.conditions.pause_s
        # every other number is tried a second time
        return filling_cost(point, pause_s, connections) * _STEPS_PER_FAILURE + filling_cost(
            point, pause_s, last
        )

    def run(self, point: MeasurementPoint) -> Measured:
        """Search, then fill beyond the end."""
        rate_cps, source = self._rate(point)
        if not rate_cps:
            return self.nothing(point, "no TCP connection rate passed", point.said)
        result = measure_tcp_capacity(self._spec(point, rate_cps), point.measure, point.watch)
        record = tcp_capacity_record(
            result,
            point.find,
            rate_source=source,
            setup=setup_of(point.bound.technology),
            conditions=point.said,
        )
        attempts = [*result.search.attempts, *result.after]
        rows = iteration_rows(iterations(attempts, point.find), point.conditions())
        return Measured(record, rows)

    def _rate(self, point: MeasurementPoint) -> tuple[float, str]:
        """The attempt rate, and where it comes from."""
        tcp = self.tcp(point.bound)
        return share_of(point, RATE, "TCP connection rate", tcp.rate_share, tcp.rate_cps)

    def _spec(self, point: Point, rate_cps: float) -> TcpCapacitySpec:
        own = self.own(point.bound)
        most = self.most_connections(point.bound)
        search = CapacitySpec(
            conditions=point.conditions(),
            first=min(own.first, most),
            most=most,
            upper_bound_cps=rate_cps,
            upper_bound_reason="given",
            resolution_cps=rate_cps * SECOND_TRY,
            beta=SECOND_TRY,
            gamma=SECOND_TRY,
            error=own.error,
            phase_one=self._phase_one(point),
            benchmark=CAPACITY,
            fixed=True,
        )
        return TcpCapacitySpec(search, own.beyond, own.aging_s)
