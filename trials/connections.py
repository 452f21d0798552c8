"""What trials ask about connections of a stateful device, and what became of them (RFC 9693).

Phase 1: the Initiator sends one frame of each connection, every four-tuple exactly once; the
Responder learns what the device made of it. Phase 2 sends only in these connections: the
Initiator its own four-tuples, the Responder those of its table the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from v6t.trials.tcp import Tcp, TcpFound

Purpose = Literal["prepare", "establish", "tear-down"]
"""``prepare``: phase 2 follows; ``establish``: phase 1 (and validation) is all; ``tear-down``:
phase 1, then the device empties its table and the time is taken."""

Reading = Literal["pseudorandom", "linear", "fixed"]
"""Order in which the Responder reads its table in phase 2 (ST-05)."""


@dataclass(frozen=True)
class Connections:
    """Phase 1 of a trial. The device's table is emptied before it (ST-11).

    Attributes:
        count: connections, N.
        rate_cps: new connections per second, R.
        wait_s: wait for late frames after phase 1, T [s].
        gap_s: further wait before phase 2 begins [s]; with N/R and T it is the delay D (ST-03).
        alpha: every connection is tried from outside at this share of R (ST-07); None: it is not.
        entries: connections phase 2 uses in reverse, M; None: all.
        reading: see :data:`Reading`.
        keep: connections of an earlier trial serve again while they are whole.
        purpose: see :data:`Purpose`.
        tcp: connections are those of TCP; None: a frame of UDP opens each.
    """

    count: int
    rate_cps: float
    wait_s: float = 0.5
    gap_s: float = 0.0
    alpha: float | None = None
    entries: int | None = None
    reading: Reading = "pseudorandom"
    keep: bool = False
    purpose: Purpose = "prepare"
    tcp: Tcp | None = None

    @property
    def filling_s(self) -> float:
        """Length of phase 1, without waits [s]."""
        return self.count / self.rate_cps

    @property
    def validation_s(self) -> float:
        """Length of the validation, without waits [s]."""
        return self.filling_s / self.alpha if self.alpha else 0.0

    @property
    def lasting_s(self) -> float:
        """Phase 1 with its waits, and the validation if there is one; of TCP the closing, too [s]."""
        tried_s = 0.0 if self.alpha is None else self.validation_s + self.wait_s
        closed_s = 0.0 if self.tcp is None else self.filling_s + self.tcp.aging_s
        return self.filling_s + self.wait_s + tried_s + closed_s


@dataclass(frozen=True)
class PhaseOneResult:
    """What became of phase 1.

    Attributes:
        required: connections asked for.
        sent: frames that left the Initiator.
        learned: connections the Responder learned.
        surplus: frames it received beyond one of each connection.
        repeated: connections whose four-tuple outside is that of another one.
        sending_time_s: from the first frame to the end of the last frame's slot [s].
        validation_sent, validated: frames sent from outside, one in each connection, and those
            of them that reached the Initiator; None: not validated.
        validation_time_s: sending time of the validation [s].
        inside, outside: distinct pairs of address and port of the initiators, before and behind
            the device; None: unknown. The second is the number of BIB entries a device with
            endpoint-independent mapping needs at least (ST-15).
        sessions_before, sessions: the device's own count after it was emptied and after phase 1;
            None: it does not tell.
        by_endpoint: it counts the clients' pairs of address and port, not connections.
        gap_s: from the end of phase 1 to the first frame that follows [s].
        age_s: age of the first connection at the end of the trial [s].
        emptied_s, idle_emptied_s: time the device took to empty its table with all connections,
            and an empty one [s]; None: not measured.
        kept: they were there already.
        device: what the device says of its table (ST-14): its idle ``timeout_s``, and sizes by its
            own names; None: nothing.
        example: two connections with one four-tuple, or another thing to be shown.
        tcp: every connection by what became of it, where they are of TCP.
    """

    required: int
    sent: int
    learned: int
    surplus: int = 0
    repeated: int = 0
    sending_time_s: float = 0.0
    validation_sent: int | None = None
    validated: int | None = None
    validation_time_s: float | None = None
    inside: int | None = None
    outside: int | None = None
    sessions_before: int | None = None
    sessions: int | None = None
    by_endpoint: bool = False
    gap_s: float | None = None
    age_s: float | None = None
    emptied_s: float | None = None
    idle_emptied_s: float | None = None
    kept: bool = False
    device: Mapping[str, float] | None = None
    example: Mapping[str, Any] | None = None
    tcp: TcpFound | None = None

    @property
    def filled(self) -> bool:
        """Every connection was learned, each with a four-tuple of its own (ST-08)."""
        return self.learned == self.required and not self.repeated

    @property
    def countable(self) -> int:
        """What the device's own count is where it kept all that the Responder learned."""
        return self.outside if self.by_endpoint and self.outside is not None else self.learned

    @property
    def short(self) -> bool:
        """The device itself says that some are gone."""
        return self.sessions is not None and self.sessions < self.countable

    @property
    def counts_apart(self) -> str:
        """Both counts in words."""
        learned = f"{self.countable} public endpoints" if self.by_endpoint else str(self.countable)
        what = "sessions" if self.by_endpoint else "connections"
        return f"the device counts {self.sessions} {what}, the Responder learned {learned}"

    @property
    def established(self) -> int:
        """Connections that are known to work both ways, or to be forwarded if not validated."""
        return self.learned if self.validated is None else min(self.learned, self.validated)
