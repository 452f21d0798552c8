"""A port on which a role of name resolution sends and receives: rings, neighbours, losses of its own."""

from __future__ import annotations

import select
from abc import ABC, abstractmethod
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from v6t.drivers.embedded.receiver import interface_drops
from v6t.drivers.lab.ring import RxRing, TxRing
from v6t.drivers.neighbours import Hosts
from v6t.profiles.dns.envelope import Layout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from v6t.profiles.arrays import U8


class Played(ABC):
    """A host on one interface; who asks for its address is answered."""

    def __init__(
        self, interface: str, frame_octets: int, hosts: Mapping[str, Any] | None, layout: Layout
    ) -> None:
        """Open both rings.

        Args:
            interface: where to listen and to send.
            frame_octets: longest frame, without FCS.
            hosts: who is played there.
            layout: of frames with DNS messages.
        """
        self._rx = RxRing(interface, frame_octets)
        self._tx = TxRing(interface, frame_octets)
        self._hosts = None if hosts is None else Hosts(**hosts)
        self._layout = layout
        self._control = 0
        self._dropped_before = 0

    def idle(self, pipe: Connection) -> None:
        """Take frames until a request waits."""
        poll = select.poll()
        poll.register(pipe.fileno(), select.POLLIN)
        poll.register(self._rx.socket, select.POLLIN | select.POLLERR)
        while not pipe.poll(0):
            self._rest(poll, self._drain())

    def _rest(self, poll: select.poll, taken: int) -> None:
        """Between two looks at the ring."""
        if not taken:
            poll.poll(200)

    def introduce(self) -> None:
        """Have the hosts ask for the device, so that it learns them."""
        for frame in () if self._hosts is None else self._hosts.introductions():
            self._rx.send(frame)

    def _begin(self) -> None:
        """A trial: what was lost before is not its own."""
        self._drain()
        self._control = 0
        self._rx.drops()
        self._dropped_before = interface_drops(self._rx.interface)

    def _health(self) -> dict[str, int]:
        """Frames that were lost on the tester's own side, and those that are no DNS."""
        return {
            "ring_drops": self._rx.drops(),
            "interface_drops": interface_drops(self._rx.interface) - self._dropped_before,
            "unsent": self._tx.unsent(),
            "control": self._control,
        }

    def _drain(self) -> int:
        """Take what is there: how many frames."""
        taken = 0
        for frames, times in self._rx.take():
            taken += len(frames)
            ours = self._layout.is_udp(frames)
            if not ours.all():
                self._others(frames[~ours])
            if ours.any():
                self._took(frames[ours], times[ours])
        self._rx.release()
        return taken

    @abstractmethod
    def _took(self, frames: U8, times: NDArray[np.int64]) -> None:
        """Equally long frames with a datagram, and when they arrived [ns]."""

    def _others(self, frames: U8) -> None:
        self._control += len(frames)
        for answer in () if self._hosts is None else self._hosts.answers_to(frames):
            self._rx.send(answer)
