"""The known device: forwards frames unchanged with a given behaviour and reports the true effects.

The kernel supplies the true times: a frame arrives when the receive ring stamps it, and departs when
a tap on the other interface stamps it. The true delay is therefore known exactly, although this
process is scheduled like any other and cannot keep it exactly.
"""

from __future__ import annotations

import heapq
import select
import socket
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.drivers.lab.namespaces import LEFT, RIGHT
from v6t.drivers.lab.ring import RxRing, TxRing
from v6t.drivers.lab.setup import LabDevice
from v6t.drivers.lab.workers import Worker
from v6t.packets import trailer
from v6t.tools.accuracy.known_behaviour import Behaviour, Known

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8

BATCH = 512
TAPPED = 1 << 16
"""Slots of the ring that records departure times."""
SPIN_NS = 300_000
"""Wait without sleeping for departures nearer than this, because kernel timers are tens of us late."""


_SOL_PACKET, _IGNORE_OUTGOING = 263, 23
_PACKET_TYPE = 32 + 10
"""Offset of ``sll_pkttype`` in a slot, in the address behind the aligned header."""


class Tap(RxRing):
    """Captures the departure times of frames at an interface."""

    def __init__(self, interface: str, frame_octets: int, slots: int | None = None) -> None:
        """Open and bind; see :class:`~v6t.drivers.lab.ring.RxRing`.

        Args:
            interface: interface to listen at.
            frame_octets: longest frame, without FCS.
            slots: number of slots in the ring.
        """
        super().__init__(interface, frame_octets, slots)
        self.socket.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 0)

    def departures_ns(self) -> NDArray[np.int64]:
        """Return times of the frames that left since the last call [ns, CLOCK_REALTIME]."""
        departures = [np.empty(0, dtype=np.int64)]
        while self.take():
            slots = slice(self._head, self._head + self._taken)
            header = self._header[slots]
            times = header[:, 4].astype(np.int64) * 1_000_000_000 + header[:, 5]
            departures.append(times[self._octets[slots, _PACKET_TYPE] == socket.PACKET_OUTGOING])
            self.release()
        return np.concatenate(departures)


@dataclass(frozen=True)
class Truth:
    """What the device did to the frames of a trial, from left to right.

    Attributes:
        arrived_ns: ``(n,)`` kernel's time of the arrival of every test frame, CLOCK_REALTIME.
        stayed_ns: ``(m,)`` departure less arrival, in order of departure; empty if not recorded.
        sent: ``(m,)`` numbers of those frames in the order of their arrival, from 0.
        lost, doubled, reordered: frames dropped, duplicated and reordered on purpose.
        missed: frames lost because a buffer was full.
    """

    arrived_ns: NDArray[np.int64]
    stayed_ns: NDArray[np.int64]
    sent: NDArray[np.int64]
    lost: int
    doubled: int
    reordered: int
    missed: int


class KnownDut:
    """Device process: shapes frames from left to right and forwards others at once."""

    def __init__(self, left: str, right: str, frame_octets: int) -> None:
        """Open the rings.

        Args:
            left: interface towards the tester's left port.
            right: interface towards the tester's right port.
            frame_octets: longest frame on either side, without FCS.
        """
        self._rx = RxRing(left, frame_octets)
        self._tx = TxRing(right, frame_octets, bypass=False)
        self._back = (RxRing(right, frame_octets), TxRing(left, frame_octets))
        self._octets, self._right = frame_octets, right
        self._tap: Tap | None = None
        self.behave(Known())

    def behave(self, known: Known, seed: int = 0) -> None:
        """Start a behaviour and discard earlier records."""
        self._known, self._behaviour = known, Behaviour(known, seed)
        self._arrived: list[NDArray[np.int64]] = []
        self._sent: list[NDArray[np.int64]] = []
        self._waiting: list[tuple[int, int, int, U8]] = []
        self._held: tuple[int, U8] | None = None
        self._count = self._taken = 0
        self._rx.drops()
        if known.timeless and self._tap is not None:
            self._tap.close()
            self._tap = None
        if not known.timeless and self._tap is None:
            self._tap = Tap(self._right, self._octets, TAPPED)
        if self._tap is not None:
            self._tap.departures_ns()
            self._tap.drops()

    def truth(self) -> Truth:
        """Return what was done since the last :meth:`behave`, then forward without changes."""
        arrived = np.concatenate([np.empty(0, dtype=np.int64), *self._arrived])
        sent = np.concatenate([np.empty(0, dtype=np.int64), *self._sent])
        stayed = np.empty(0, dtype=np.int64)
        missed = self._rx.drops() + self._tx.unsent()
        if self._tap is not None:
            left = self._tap.departures_ns()
            if self._tap.drops() or len(left) != len(sent):
                missed += max(1, abs(len(left) - len(sent)))
            else:
                stayed = left - arrived[sent]
        done, self._known = self._behaviour, Known()
        return Truth(arrived, stayed, sent, done.lost, done.doubled, done.reordered, missed)

    def idle(self, pipe: Connection) -> None:
        """Forward frames until a request arrives."""
        poll = select.poll()
        poll.register(pipe.fileno(), select.POLLIN)
        for ring in (self._rx, self._back[0]):
            poll.register(ring.socket, select.POLLIN | select.POLLERR)
        looks = 0
        while True:
            looks += 1
            if looks % 64 == 0 and pipe.poll(0):
                return
            busy = self._take()
            if self._waiting:
                busy = self._let_go() or busy
            if busy:
                continue
            self._return()
            if self._known.awake:
                continue
            wait_ns = self._waiting[0][0] - time.time_ns() if self._waiting else 1_000_000_000
            if wait_ns > SPIN_NS:
                # poll waits for whole milliseconds; spin for the rest
                poll.poll(max(0, (wait_ns - SPIN_NS) // 1_000_000))
                if pipe.poll(0):
                    return

    def _take(self) -> bool:
        groups = self._rx.take(BATCH)
        for frames, times in groups:
            if frames.shape[1] < trailer.LENGTH or frames[0, -trailer.LENGTH] != trailer.MAGIC:
                self._tx.send(frames)  # not a test frame
                continue
            self._arrived.append(times.copy())
            rows, leave, behind = self._behaviour.leaving(times)
            numbers = rows + self._taken
            self._taken += len(times)
            if self._known.waits:
                for number, when, row in zip(numbers.tolist(), leave.tolist(), rows, strict=True):
                    self._count += 1
                    heapq.heappush(
                        self._waiting, (when, self._count, number, frames[row : row + 1].copy())
                    )
            elif self._known.reorder_every:
                self._swap(frames[rows], numbers, behind)
            else:
                self._send(frames if len(rows) == len(frames) else frames[rows], numbers)
        self._rx.release()
        return bool(groups)

    def _swap(self, frames: U8, numbers: NDArray[np.int64], behind: NDArray[np.bool_]) -> None:
        """Send frames, each marked one after its successor, even across batches."""
        if self._held is not None:
            number, frame = self._held
            frames = np.concatenate([frame, frames])
            numbers = np.concatenate([[number], numbers])
            behind = np.concatenate([[True], behind])
            self._held = None
        if behind[-1]:
            self._held = int(numbers[-1]), frames[-1:].copy()
            frames, numbers, behind = frames[:-1], numbers[:-1], behind[:-1]
        order = np.argsort(np.arange(len(frames)) * 2 + 3 * behind, kind="stable")
        if len(order):
            self._send(frames[order], numbers[order])

    def _let_go(self) -> bool:
        waiting, now = self._waiting, time.time_ns()
        if waiting[0][0] > now:
            return False
        due = [heapq.heappop(waiting)]
        while waiting and waiting[0][0] <= now and len(due) < BATCH:
            due.append(heapq.heappop(waiting))
        for one in due:
            self._send(one[3], np.array([one[2]]))
        return True

    def _return(self) -> None:
        """Forward from the right to the left."""
        rx, tx = self._back
        for frames, _ in rx.take(BATCH):
            tx.send(frames)
        rx.release()

    def _send(self, frames: U8, numbers: NDArray[np.int64]) -> None:
        self._tx.send(frames)
        self._sent.append(numbers)


class KnownDevice(LabDevice):
    """The known device between the lab's cables."""

    def __init__(self, octets: int) -> None:
        """Create the device without starting its process.

        Args:
            octets: longest frame, without FCS.
        """
        self._octets = octets
        self._worker: Worker | None = None

    def start_in_namespace(self, pid: int) -> None:
        """Start the process in the network namespace of another."""
        self._worker = Worker(
            *("known device", KnownDut),
            namespace=pid,
            frame_octets=self._octets,
            left=LEFT,
            right=RIGHT,
        )
        self._worker.answer()

    def behave(self, known: Known, seed: int = 0) -> None:
        """Start a behaviour and discard earlier records."""
        self._started().ask("behave", known=known, seed=seed)

    def truth(self) -> Truth:
        """Return what was done since the last :meth:`behave`."""
        truth: Truth = self._started().ask("truth")
        return truth

    def check(self) -> None:
        """Do nothing, because a query would disturb the timing."""

    def report(self) -> dict[str, Any]:
        """Return nothing, because the counters are part of the truth."""
        return {}

    def describe(self) -> dict[str, Any]:
        """Return facts for the manifest."""
        return {"kind": "known", "what": "forwards as it is told and records what it did"}

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _started(self) -> Worker:
        if self._worker is None:
            raise ValueError("the known device is not started")
        return self._worker
