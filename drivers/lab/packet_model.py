"""A packet-level model of a device between the lab's cables: it answers single frames on both links."""

import time
from multiprocessing.connection import Connection
from typing import Any, Protocol

from v6t.drivers.lab.ring import RxRing, serve_rings
from v6t.drivers.lab.setup import WorkerDevice
from v6t.drivers.placement import PROBE_RING_FRAMES
from v6t.drivers.prober import FrameOnSide
from v6t.intent.device import Port


class PacketModel(Protocol):
    """Packet-level model of a device; picklable."""

    def receive(self, side: Port, frame: bytes, now_s: float) -> list[FrameOnSide]:
        """Return the frames that the device sends for a frame, with the link of each."""

    def flush(self) -> None:
        """Forget the connections."""

    def reset(self) -> None:
        """Return to the initial state."""


class PacketModelDut:
    """Worker that runs a model between two interfaces."""

    def __init__(self, left: str, right: str, frame_octets: int, model: PacketModel) -> None:
        names: dict[Port, str] = {"left": left, "right": right}
        self._rings = {s: RxRing(n, frame_octets, PROBE_RING_FRAMES) for s, n in names.items()}
        self._model = model
        self._frames = {"taken": 0, "sent": 0}
        self.flush, self.reset = model.flush, model.reset

    def idle(self, pipe: Connection) -> None:
        serve_rings(pipe, self._rings.values(), self._forward)

    def report(self) -> dict[str, int]:
        return self._frames

    def _forward(self) -> bool:
        """Pass the arrived frames to the model; return whether there were any."""
        before = self._frames["taken"]
        for side, ring in self._rings.items():
            for row in (row for rows, _ in ring.take() for row in rows):
                self._frames["taken"] += 1
                for out, frame in self._model.receive(side, row.tobytes(), time.monotonic()):
                    self._rings[out].send(frame)
                    self._frames["sent"] += 1
            ring.release()
        return self._frames["taken"] > before


class PacketModelDevice(WorkerDevice):
    """Device of the lab that is a packet-level model; swapped: its left is the lab's right."""

    def __init__(self, model: PacketModel, octets: int, *, swapped: bool = False) -> None:
        super().__init__(PacketModelDut, octets, swapped=swapped, model=model)

    def flush(self) -> None:
        self._ask("flush")

    def reset(self) -> None:
        self._ask("reset")

    def describe(self) -> dict[str, Any]:
        return {"kind": "reference", "what": "the packet-level model of the technology"}
