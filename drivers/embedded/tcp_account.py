"""Every connection of TCP by what became of it, in memory that client and server share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.drivers.oracle.state_table import MemoryFile
from v6t.trials.tcp import TcpCounts

if TYPE_CHECKING:
    from numpy.typing import NDArray

SENT, OPEN, ASKED, ANSWERED, ENDING, ENDED, REFUSED, UNREACHABLE = (1 << n for n in range(8))
"""What a side knows of a connection: it sent the SYN, it is open, an object was asked for, and came; the
end was begun, and is complete; a reset, or an ICMP error, came in place of an answer."""
RESET = 1 << 8
"""It was reset after it was open."""
STANDING = 1 << 9
"""It was open on both sides, in time, when the waiting for that ended: what comes later changes nothing."""
DECIDED = OPEN | REFUSED | UNREACHABLE
_OCTETS = 2 * 2 + 2 * 8


@dataclass(frozen=True)
class Account:
    """Four arrays, each written by one side only.

    Attributes:
        client, server: ``(n,)`` what each side knows.
        begun, opened: when the first SYN left, and when the last acknowledgement of the opening came [ns].
    """

    client: NDArray[np.uint16]
    server: NDArray[np.uint16]
    begun: NDArray[np.int64]
    opened: NDArray[np.int64]

    @staticmethod
    def file(count: int) -> MemoryFile:
        """Memory for so many connections."""
        return MemoryFile(count * _OCTETS)

    @classmethod
    def at(cls, path: str, count: int) -> Account:
        """The arrays in a file."""
        found: list[Any] = []
        first = 0
        for kind in ("<i8", "<i8", "<u2", "<u2"):
            found.append(np.memmap(path, kind, "r+", offset=first, shape=(count,)))
            first += count * np.dtype(kind).itemsize
        begun, opened, client, server = found
        return cls(client, server, begun, opened)

    def close_opening(self, waited_s: float) -> None:
        """The client's part: nothing is waited for any more.

        Args:
            waited_s: longest time from the first SYN to the last acknowledgement of the opening.
        """
        both = (self.client & self.server & OPEN) != 0
        both &= self.opened - self.begun <= 1e9 * waited_s
        self.client[both] |= STANDING

    def established(self) -> NDArray[np.bool_]:
        """Connections that were open on both sides at the end of the opening."""
        found: NDArray[np.bool_] = (self.client & STANDING) != 0
        return found

    def counted(self, *, retransmitted: int, wrong: int) -> TcpCounts:
        """All of them; the arguments are what no connection shows."""
        attempted = (self.client & SENT) != 0
        here, both = (self.client & OPEN) != 0, self.established()
        refused = ~here & ((self.client & REFUSED) != 0)
        unreachable = ~here & ~refused & ((self.client & UNREACHABLE) != 0)
        ended = ((self.client & ENDING) != 0) & ((self.server & ENDED) != 0)
        taken_s = (self.opened[both] - self.begun[both]) / 1e9
        some = len(taken_s) > 0
        count = np.count_nonzero
        silent = attempted & ~here & ~refused & ~unreachable
        return TcpCounts(
            attempted=int(count(attempted)),
            established=int(count(both)),
            half_open=int(count(here & ~both)),
            reset_refused=int(count(refused)),
            icmp_refused=int(count(unreachable)),
            timed_out=int(count(silent)),
            retransmitted=retransmitted,
            reset_later=int(count((self.client & RESET) != 0)),
            wrong=wrong,
            requested=int(count((self.client & ASKED) != 0)),
            answered=int(count((self.client & ANSWERED) != 0)),
            closed=int(count(both & ended)),
            fastest_s=float(taken_s.min()) if some else None,
            slowest_s=float(taken_s.max()) if some else None,
            mean_s=float(taken_s.mean()) if some else None,
            sum_s=float(taken_s.sum()) if some else None,
        )
