"""A reference device for single frames: it answers on both links, with errors of its own."""

from __future__ import annotations

import select
from multiprocessing.connection import Connection
from typing import Any, Literal, Protocol

from v6t.drivers.lab.channel import Worker
from v6t.drivers.lab.namespaces import LEFT, RIGHT
from v6t.drivers.lab.ring import RxRing
from v6t.drivers.lab.setup import LabDevice

SLOTS = 1024
SideName = Literal["left", "right"]


class Whole(Protocol):
    """What a device sends because of a frame. Picklable."""

    def receive(self, side: SideName, frame: bytes) -> list[tuple[SideName, bytes]]:
        """Frames, and the side each leaves on."""


class WholeDut:
    """The process."""

    def __init__(self, frame_octets: int, whole: Whole, turned: bool) -> None:
        """Open both interfaces.

        Args:
            frame_octets: longest frame, without FCS.
            whole: its brain.
            turned: its left is the lab's right.
        """
        left, right = (RIGHT, LEFT) if turned else (LEFT, RIGHT)
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


class WholeDevice(LabDevice):
    """Stands between the lab's cables."""

    def __init__(self, whole: Whole, octets: int, *, turned: bool = False) -> None:
        """Remember; nothing is started yet.

        Args:
            whole: its brain.
            octets: longest frame, without FCS.
            turned: its left is the lab's right.
        """
        self._turned = turned
        self._whole = whole
        self._octets = octets
        self._worker: Worker | None = None

    def start_in(self, pid: int) -> None:
        """Start the process in the network namespace of another."""
        self._worker = Worker(
            "reference device",
            {
                "kind": "whole",
                "namespace": pid,
                "frame_octets": self._octets,
                "whole": self._whole,
                "turned": self._turned,
            },
        )
        self._worker.answer()

    def check(self) -> None:
        """See the base class."""
        self.report()

    def report(self) -> dict[str, Any]:
        """Frames taken and sent."""
        return self._worker.ask("report") if self._worker else {}

    def describe(self) -> dict[str, Any]:
        """Facts for the record."""
        return {"kind": "reference", "what": "the technology's whole device, a frame at a time"}

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None
