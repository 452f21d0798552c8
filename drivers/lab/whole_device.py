"""A reference device for single frames: it answers on both links, with errors of its own."""

from __future__ import annotations

import select
from multiprocessing.connection import Connection
from typing import Any, Literal, Protocol

from v6t.drivers.lab.ring import RxRing
from v6t.drivers.lab.setup import WorkerDevice

SLOTS = 1024
SideName = Literal["left", "right"]


class Whole(Protocol):
    """What a device sends because of a frame. Picklable."""

    def receive(self, side: SideName, frame: bytes) -> list[tuple[SideName, bytes]]:
        """Frames, and the side each leaves on."""


class WholeDut:
    """The process."""

    def __init__(self, left: str, right: str, frame_octets: int, whole: Whole) -> None:
        """Open both interfaces.

        Args:
            left, right: the interfaces.
            frame_octets: longest frame, without FCS.
            whole: its brain.
        """
        self._whole = whole
        self._rings: dict[SideName, RxRing] = {
            "left": RxRing(left, frame_octets, SLOTS),
            "right": RxRing(right, frame_octets, SLOTS),
        }
        self._frames = dict.fromkeys(("taken", "sent"), 0)

    def idle(self, pipe: Connection) -> None:
        """Answer until a request waits."""
        poll = select.poll()
        poll.register(pipe.fileno(), select.POLLIN)
        for ring in self._rings.values():
            poll.register(ring.socket, select.POLLIN | select.POLLERR)
        while not pipe.poll(0):
            poll.poll(500)
            for side, ring in self._rings.items():
                self._pass(side, ring)

    def report(self) -> dict[str, int]:
        """Frames taken and sent."""
        return self._frames

    def _pass(self, side: SideName, ring: RxRing) -> None:
        for rows, _ in ring.take():
            for row in rows:
                self._frames["taken"] += 1
                for out, frame in self._whole.receive(side, row.tobytes()):
                    self._rings[out].send(frame)
                    self._frames["sent"] += 1
        ring.release()


class WholeDevice(WorkerDevice):
    """Stands between the lab's cables."""

    def __init__(self, whole: Whole, octets: int, *, swapped: bool = False) -> None:
        """Remember; nothing is started yet.

        Args:
            whole: its brain.
            octets: longest frame, without FCS.
            swapped: its left is the lab's right.
        """
        super().__init__(octets, swapped, kind="whole", whole=whole)

    def describe(self) -> dict[str, Any]:
        """Facts for the record."""
        return {"kind": "reference", "what": "the technology's whole device, a frame at a time"}
