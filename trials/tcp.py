"""TCP connections of a trial and their outcomes (RFC 8219, section 8; RFC 3511).

A SYN without an answer within ``timeout_s`` is sent again ``retransmissions`` times, each time after
twice the wait (RFC 6298, section 5.5). Nothing else is retransmitted. By default nothing is
retransmitted, so each segment that the device loses is a connection that is not established.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Closing = Literal["rst", "fin"]
"""Segment that ends connections: a reset, or a FIN of either side."""


@dataclass(frozen=True)
class Tcp:
    """How TCP connections are opened, tested and closed.

    Attributes:
        object_octets: size of the object that each connection requests by HTTP once all are open.
        timeout_s: longest time to the answer to a SYN or a request [s].
        retransmissions: retransmissions of a SYN without an answer.
        closing: how connections are closed.
        aging_s: longest wait for the device to delete closed connections [s]; 0: the driver flushes
            the device's table.
    """

    object_octets: int = 64
    timeout_s: float = 1.0
    retransmissions: int = 0
    closing: Closing = "rst"
    aging_s: float = 0.0

    @property
    def max_wait_s(self) -> float:
        """Longest time from a SYN to its last timeout [s]."""
        return float(self.timeout_s * (2 ** (self.retransmissions + 1) - 1))


@dataclass(frozen=True)
class TcpCounts:
    """TCP connections by outcome; None: unknown.

    Attributes:
        attempted: connections with at least one SYN sent.
        established: connections open on both sides: the client's acknowledgement reached the server
            in time.
        half_open: connections open on the client's side only.
        reset_refused, icmp_refused: connections refused by a reset or an ICMP error.
        timed_out: connections without an answer in time.
        retransmitted: SYNs sent again.
        reset_later: open connections that were reset by the device.
        wrong: segments that a correct device does not send.
        requested, answered: objects requested, and objects received completely and correctly.
        closed: connections closed on both sides.
        fastest_s, slowest_s, mean_s, sum_s: time from the first SYN at the client to the last
            acknowledgement at the server (appendix B of RFC 3511) [s].
        sessions_after: the device's own count after all were closed.
        expiry_s: time until the device had deleted them [s]; None also if it took too long.
    """

    attempted: int
    established: int
    half_open: int = 0
    reset_refused: int = 0
    icmp_refused: int = 0
    timed_out: int = 0
    retransmitted: int = 0
    reset_later: int = 0
    wrong: int = 0
    requested: int = 0
    answered: int = 0
    closed: int = 0
    fastest_s: float | None = None
    slowest_s: float | None = None
    mean_s: float | None = None
    sum_s: float | None = None
    sessions_after: int | None = None
    expiry_s: float | None = None

    @property
    def classified(self) -> int:
        """Connections with a known outcome; equal to ``attempted`` in a valid trial."""
        refused = self.reset_refused + self.icmp_refused
        return self.established + self.half_open + refused + self.timed_out

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
