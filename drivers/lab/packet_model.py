"""A packet-level model of a device between the lab's cables: it answers single frames on both links."""

from __future__ import annotations

import select
import time
from multiprocessing.connection import Connection
from typing import Any, Literal, Protocol

from v6t.drivers.lab.ring import RxRing
from v6t.drivers.lab.setup import WorkerDevice

SLOTS = 1024
SideName = Literal["left", "right"]


class PacketModel(Protocol):
    """What a device sends for each frame. Picklable."""

    def receive(self, side: SideName, frame: bytes, now_s: float) -> list[tuple[SideName, bytes]]:
        """Return the frames that leave because of one frame, with the link of each."""

    def flush(self) -> None:
        """Forget the connections."""

    def reset(self) -> None:
        """Configure the device again."""


class PacketModelDut:
    """The process of a model.

    Args:
        left, right: the interfaces.
        frame_octets: longest frame, without FCS.
        model: of the device.
    """

    def __init__(self, left: str, right: str, frame_octets: int, model: PacketModel) -> None:
        self._model = model
        self._rings: dict[SideName, RxRing] = {
            "left": RxRing(left, frame_octets, SLOTS),
            "right": RxRing(right, frame_octets, SLOTS),
        }
        self._frames = dict.fromkeys(("taken", "sent"), 0)

    def idle(self, pipe: Connection) -> None:
        """Forward frames until a request arrives."""
        poll = select.poll()
        poll.register(pipe.fileno(), select.POLLIN)
        for ring in self._rings.values():
            poll.register(ring.socket, select.POLLIN | select.POLLERR)
        while not pipe.poll(0):
            poll.poll(500)
            for side, ring in self._rings.items():
                self._pass(side, ring)

    def report(self) -> dict[str, int]:
        """Return the numbers of frames received and sent."""
        return self._frames

    def flush(self) -> None:
        """Empty the model's connection table."""
        self._model.flush()

    def reset(self) -> None:
        """Configure the model again."""
        self._model.reset()

    def _pass(self, side: SideName, ring: RxRing) -> None:
        for rows, _ in ring.take():
            for row in rows:
                self._frames["taken"] += 1
                for out, frame in self._model.receive(side, row.tobytes(), time.monotonic()):
                    self._rings[out].send(frame)
                    self._frames["sent"] += 1
        ring.release()


class PacketModelDevice(WorkerDevice):
    """A model in the place of a device.

    Args:
        model: of the device.
        octets: longest frame, without FCS.
        swapped: the model's left is the lab's right.
    """

    def __init__(self, model: PacketModel, octets: int, *, swapped: bool = False) -> None:
        super().__init__(PacketModelDut, octets, swapped, model=model)

    def flush(self) -> None:
        """Empty the model's connection table."""
        self._ask("flush")

    def reset(self) -> None:
        """Configure the model again."""
        self._ask("reset")

    def _ask(self, request: str) -> None:
        if self._worker is not None:
            self._worker.ask(request)

    def describe(self) -> dict[str, Any]:
        return {"kind": "reference", "what": "the packet-level model of the technology"}
