"""Connections of a trial through a stateful device (RFC 9693).

Phase 1: the Initiator sends one frame of each connection, with each four-tuple exactly once, and the
Responder learns the four-tuple that leaves the device. Phase 2 sends only in these connections: the
Initiator with its own four-tuples, the Responder with those of its state table in reverse.

Connections of TCP follow RFC 8219, section 8, and RFC 3511. A SYN without an answer within ``timeout_s``
is sent again ``retransmissions`` times, each time after twice the wait (RFC 6298, section 5.5). Nothing
else is retransmitted. By default nothing is retransmitted, so each segment that the device loses is a
connection that is not established.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Purpose = Literal["prepare", "establish", "tear-down"]
"""``prepare``: phase 2 follows; ``establish``: the trial is phase 1 and its validation;
``tear-down``: after phase 1 the device empties its table, and the time is measured."""

ReadingOrder = Literal["pseudorandom", "linear", "fixed"]
"""Order in which the Responder reads its state table in phase 2."""

Closing = Literal["rst", "fin"]  # segment that ends connections: a reset, or a FIN of either side


@dataclass(frozen=True)
class Tcp:
    """How TCP connections are opened, tested and closed."""

    object_octets: int = 64
    """size of the object that each connection requests by HTTP once all are open."""
    timeout_s: float = 1.0  #: longest time to the answer to a SYN or a request [s]
    retransmissions: int = 0  #: retransmissions of a SYN without an answer
    closing: Closing = "rst"  #: how connections are closed
    aging_s: float = 0.0
    """longest wait for the device to delete closed connections [s]; 0: the driver flushes the device's
    table."""

    @property
    def max_wait_s(self) -> float:
        """Longest time from a SYN to its last timeout [s]."""
        return float(self.timeout_s * (2 ** (self.retransmissions + 1) - 1))


@dataclass(frozen=True)
class TcpCounts:
    """TCP connections by outcome; None: unknown."""

    attempted: int  #: connections with at least one SYN sent
    established: int
    """connections open on both sides: the client's acknowledgement reached the server in time."""
    half_open: int = 0  #: connections open on the client's side only
    reset_refused: int = 0  #: connections refused by a reset
    icmp_refused: int = 0  #: connections refused by an ICMP error
    timed_out: int = 0  #: connections without an answer in time
    retransmitted: int = 0  #: SYNs sent again
    reset_later: int = 0  #: open connections that were reset by the device
    wrong: int = 0  #: segments that a correct device does not send
    requested: int = 0  #: objects requested
    answered: int = 0  #: objects received completely and correctly
    closed: int = 0  #: connections closed on both sides
    fastest_s: float | None = None
    slowest_s: float | None = None
    mean_s: float | None = None
    sum_s: float | None = None
    """time from the first SYN at the client to the last acknowledgement at the server (appendix B of RFC
    3511) [s]."""
    sessions_after: int | None = None  #: the device's own count after all were closed
    expiry_s: float | None = None
    """time until the device had deleted them [s]; None also if it took too long."""

    @property
    def failures(self) -> str:
        """Outcomes of the connections that were not established."""
        named = {
            "timed out": self.timed_out,
            "refused by a reset": self.reset_refused,
            "refused by an ICMP error": self.icmp_refused,
            "open on the client's side only": self.half_open,
        }
        return ", ".join(f"{count:,} {outcome}" for outcome, count in named.items() if count)


@dataclass(frozen=True)
class Connections:
    """Phase 1 of a trial; the device's table is emptied before it."""

    count: int  #: number of connections, N
    rate_cps: float  #: new connections per second, R
    wait_s: float = 0.5  #: wait for late frames after phase 1, T [s]
    gap_s: float = 0.0  #: further wait before phase 2 [s]; with N/R and T it is the delay D
    alpha: float | None = None  #: rate of the validation as a share of R; None: no validation
    entries: int | None = None  #: connections that phase 2 uses in reverse, M; None: all
    reading: ReadingOrder = "pseudorandom"  #: order in which the Responder reads its table
    reuse: bool = False  #: use the connections of an earlier trial again while all of them exist
    purpose: Purpose = "prepare"  #: what follows phase 1
    tcp: Tcp | None = None
    """settings of TCP connections; None: one UDP frame opens each connection."""

    @property
    def phase_one_s(self) -> float:
        """Length of phase 1 without waits [s]."""
        return self.count / self.rate_cps

    @property
    def validation_s(self) -> float:
        """Length of the validation without waits [s]."""
        return self.phase_one_s / self.alpha if self.alpha else 0.0

    @property
    def total_s(self) -> float:
        """Length of phase 1, validation and TCP closing, with waits [s]."""
        validation_s = 0.0 if self.alpha is None else self.validation_s + self.wait_s
        closing_s = 0.0 if self.tcp is None else self.phase_one_s + self.tcp.aging_s
        return self.phase_one_s + self.wait_s + validation_s + closing_s


@dataclass(frozen=True)
class PhaseOneResult:
    """Result of phase 1."""

    required: int  #: number of connections to establish
    sent: int  #: frames that left the Initiator
    learned: int  #: connections that the Responder learned
    surplus: int = 0  #: frames that the Responder received beyond the first of each connection
    duplicate_tuples: int = 0  #: connections that share their outside four-tuple with another one
    sending_time_s: float = 0.0
    """time from the first frame to the end of the last frame's slot [s]."""
    validation_sent: int | None = None
    validated: int | None = None
    """frames sent from outside, one in each connection, and those that reached the Initiator; None: no
    validation."""
    validation_time_s: float | None = None
    """time from its first frame to the end of the last frame's slot [s]."""
    inside_endpoints: int | None = None
    outside_endpoints: int | None = None
    """distinct pairs of address and port of the initiators before and behind the device; None: unknown. A
    device with endpoint-independent mapping has at least as many BIB entries as outside endpoints."""
    sessions_before: int | None = None
    sessions: int | None = None
    """the device's own count after it was emptied and after phase 1; None: unknown."""
    by_endpoint: bool = False
    """the device counts clients' pairs of address and port, not connections."""
    gap_s: float | None = None  #: time from the end of phase 1 to the next frame [s]
    age_s: float | None = None  #: age of the first connection at the end of the trial [s]
    flush_s: float | None = None
    idle_flush_s: float | None = None
    """time the device took to empty a full and an empty table [s]; None: not measured."""
    reused: bool = False  #: the connections are those of an earlier trial
    device: Mapping[str, float] | None = None
    """the device's idle ``timeout_s`` and table sizes by its own names; None: unknown."""
    example: Mapping[str, Any] | None = None
    """an example of a fault, such as two connections with one four-tuple."""
    tcp: TcpCounts | None = None  #: outcomes of TCP connections; None: UDP

    @property
    def is_complete(self) -> bool:
        """Every connection was learned with a four-tuple that no other one has."""
        return self.learned == self.required and not self.duplicate_tuples

    @property
    def expected_sessions(self) -> int:
        """The device's own count if it holds all that the Responder learned."""
        if self.by_endpoint and self.outside_endpoints is not None:
            return self.outside_endpoints
        return self.learned

    @property
    def has_lost_sessions(self) -> bool:
        """The device counts fewer sessions than the Responder learned."""
        return self.sessions is not None and self.sessions < self.expected_sessions

    @property
    def count_difference(self) -> str:
        """Text with the counts of the device and of the Responder."""
        endpoints = " public endpoints" if self.by_endpoint else ""
        kind = "sessions" if self.by_endpoint else "connections"
        return (
            f"the device counts {self.sessions} {kind}, "
            f"the Responder learned {self.expected_sessions}{endpoints}"
        )

    @property
    def established(self) -> int:
        """Connections that work in both directions, or forward only if not validated."""
        return self.learned if self.validated is None else min(self.learned, self.validated)
