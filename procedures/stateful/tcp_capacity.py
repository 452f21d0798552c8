"""Concurrent TCP connection capacity (RFC 8219 section 8.1, RFC 3511 section 5.2)."""

import math
from dataclasses import dataclass, replace

from v6t.procedures.stateful.capacity import CapacityResult, CapacitySpec, measure_capacity
from v6t.procedures.stateful.phases import attempt_connections
from v6t.procedures.trial_runner import TrialRunner, Watch
from v6t.trials.connections import Closing, Tcp
from v6t.trials.result import Measure
from v6t.trials.verdict import Attempt

BENCHMARK = "tcp-capacity"
RETRY_FACTOR = 0.5  # rate of a repeated trial over the attempt rate


@dataclass(frozen=True)
class TcpCapacitySpec:
    """Specification of the TCP capacity and of the trials after it."""

    search: CapacitySpec  # with ``phase_one.tcp``, at a fixed rate
    beyond: float = 0.1  # excess connections, as a share of the capacity
    aging_s: float = 0.0  # longest wait for the device to remove closed connections

    @property
    def tcp(self) -> Tcp:
        """Settings of the TCP connections."""
        if self.search.phase_one.tcp is None:
            raise ValueError("the search needs settings of TCP")
        return self.search.phase_one.tcp


@dataclass(frozen=True)
class TcpCapacityResult:
    """Result of the search and the trials after it."""

    search: CapacityResult  # the capacity
    tcp: Tcp  # settings of the connections
    overfull: Attempt | None  # trial beyond the capacity; None: the table has no limit
    after: tuple[Attempt, ...]  # `overfull`, and the trials that close connections


def measure_tcp_capacity(
    spec: TcpCapacitySpec, measure: Measure, watch: Watch | None = None
) -> TcpCapacityResult:
    """Search the capacity, exceed it, and close connections by reset and FIN."""
    result = measure_capacity(spec.search, measure, watch)
    trials = TrialRunner(spec.search, measure, watch, 1, 1)

    def close_connections(count: int, closing: Closing, name: str) -> Attempt:
        """Open connections, close them all in one manner, and wait for the device to remove them."""
        connections = spec.search.phase_one.make_connections(count, spec.search.upper_bound_cps)
        tcp = replace(spec.tcp, closing=closing, aging_s=spec.aging_s)
        connections = replace(connections, tcp=tcp)
        outcome = attempt_connections(
            trials, spec.search.conditions, connections, benchmark=BENCHMARK, step=name
        )
        return outcome.attempts[-1]

    capacity, overfull, after = result.capacity, None, []
    if capacity:
        if result.first_failed is not None and capacity < spec.search.most:
            count = min(spec.search.most, capacity + max(1, math.ceil(spec.beyond * capacity)))
            overfull = close_connections(count, "rst", "overfull")
            after.append(overfull)
        else:
            after.append(close_connections(capacity, "rst", "rst"))
        after.append(close_connections(capacity, "fin", "fin"))
    return TcpCapacityResult(result, spec.tcp, overfull, tuple(after))
