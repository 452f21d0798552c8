"""What trials ask about connections of TCP, and what became of each (RFC 8219 section 8, RFC 3511).

The rule of retransmission: a SYN that is not answered within ``timeout_s`` is sent again
``retransmissions`` times, each time after twice the wait (RFC 6298 section 5.5); nothing else is sent
again. With none, which is the default, every segment that the device loses is a connection that was not
established, and no rate is found too high because a second try went right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Closing = Literal["rst", "fin"]
"""How connections end: by a reset, or by both sides' FIN."""


@dataclass(frozen=True)
class Tcp:
    """How connections of TCP are made, tried and closed.

    Attributes:
        object_octets: of the object that every connection asks for by HTTP once all are open.
        timeout_s: an answer to a SYN or a request has so long [s].
        retransmissions: of a SYN that is not answered.
        closing: how they end.
        aging_s: after the end, how long is waited at most for the device to forget them by itself [s];
            0: its driver empties its table.
    """

    object_octets: int = 64
    timeout_s: float = 1.0
    retransmissions: int = 0
    closing: Closing = "rst"
    aging_s: float = 0.0

    @property
    def waited_s(self) -> float:
        """From the last SYN to the end of all waiting [s]."""
        return float(self.timeout_s * (2 ** (self.retransmissions + 1) - 1))


@dataclass(frozen=True)
class TcpFound:
    """Every connection, by what became of it.

    Attributes:
        attempted: SYNs sent, each connection counted once.
        established: opened on both sides: the server has had the client's acknowledgement in time.
        half_open: opened on the client's side only.
        reset_refused, icmp_refused: refused by a reset, or by an ICMP error.
        timed_out: not answered in time.
        retransmitted: SYNs sent again.
        reset_later: reset by somebody else after they were open.
        wrong: segments that are none a right device sends, by what was wrong with them.
        requested, answered: objects asked for, and objects received whole and right.
        closed: ended as they should have, on both sides.
        fastest_s, slowest_s, mean_s, sum_s: time from the first SYN at the client to the last
            acknowledgement at the server (RFC 3511, its appendix B) [s]; None: none was established.
        sessions_after: the device's own count after all were closed; None: it does not tell.
        aged_s: time until it had forgotten them [s]; None: not waited for, or not within the wait.
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
    aged_s: float | None = None

    @property
    def accounted(self) -> int:
        """Connections whose end is known: all that were attempted."""
        refused = self.reset_refused + self.icmp_refused
        return self.established + self.half_open + refused + self.timed_out

    @property
    def refusals(self) -> str:
        """How those ended that were not established, in words."""
        named = {
            "timed out": self.timed_out,
            "refused by a reset": self.reset_refused,
            "refused by an ICMP error": self.icmp_refused,
            "open on the client's side only": self.half_open,
        }
        return ", ".join(f"{count:,} {how}" for how, count in named.items() if count)
