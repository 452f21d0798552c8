"""What leaves an interface, as the kernel sees it: the time of every frame that its driver was given."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import numpy as np
from v6t.drivers.lab.ring import RxRing

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SOL_PACKET, _IGNORE_OUTGOING = 263, 23
_PACKET_TYPE = 32 + 10
"""Of the address behind the aligned header of a slot: ``sll_pkttype``."""


class Tap(RxRing):
    """Departures from an interface; arrivals are passed over."""

    def __init__(self, interface: str, frame_octets: int, slots: int | None = None) -> None:
        """Open and bind; see :class:`~v6t.drivers.lab.ring.RxRing`.

        Args:
            interface: to listen at.
            frame_octets: longest frame, without FCS.
            slots: of the ring.
        """
        super().__init__(interface, frame_octets, slots)
        self.socket.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 0)

    def departures_ns(self) -> NDArray[np.int64]:
        """Times of the frames that have left since the last call [ns, CLOCK_REALTIME]."""
        departures = [np.empty(0, dtype=np.int64)]
        while self.take():
            slots = slice(self._head, self._head + self._taken)
            header = self._header[slots]
            times = header[:, 4].astype(np.int64) * 1_000_000_000 + header[:, 5]
            departures.append(times[self._octets[slots, _PACKET_TYPE] == socket.PACKET_OUTGOING])
            self.release()
        return np.concatenate(departures)
