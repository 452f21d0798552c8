"""The known device: forwards frames with given impairments and records what really happened to them.

The kernel supplies the times: the receive ring stamps the arrival of a frame, and a tap on the other
interface stamps its departure. The actual delay is therefore known exactly, although this process is
scheduled like any other and cannot keep the requested delay exactly.
"""

from __future__ import annotations

import heapq
import socket
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.drivers.lab.ring import RxRing, TxRing, poll_rings
from v6t.drivers.lab.setup import WorkerDevice
from v6t.packets import trailer
from v6t.tools.accuracy.impairments import Impairer, Impairments

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8

BATCH = 512
TAP_SLOTS = 1 << 16
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

    def read_departures_ns(self) -> NDArray[np.int64]:
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
    """What happened to the frames of a trial, from left to right."""

    arrivals_ns: NDArray[np.int64]
    """``(n,)`` arrival of each test frame by the kernel's clock, CLOCK_REALTIME."""
    delays_ns: NDArray[np.int64]
    """``(m,)`` departure minus arrival, in order of departure; empty if not recorded."""
    numbers: NDArray[np.int64]
    """``(m,)`` numbers of those frames in the order of their arrival, from 0."""
    lost: int  # frames impaired on purpose
    duplicated: int  # frames impaired on purpose
    reordered: int  # frames impaired on purpose
    missed: int  # frames lost because a buffer was full


class KnownDeviceProcess:
    """Impairs test frames from left to right and forwards all other frames at once."""

    def __init__(self, left: str, right: str, frame_octets: int) -> None:
        """Open the rings.

        Args:
            left: interface towards the tester's left port.
            right: interface towards the tester's right port.
            frame_octets: longest frame on either side, without FCS.
        """
        self._rx = RxRing(left, frame_octets)
        self._tx = TxRing(right, frame_octets, bypass=False)
        self._reverse_rx = RxRing(right, frame_octets)
        self._reverse_tx = TxRing(left, frame_octets)
        self._frame_octets, self._right = frame_octets, right
        self._tap: Tap | None = None
        self.start_trial(Impairments())

    def start_trial(self, impairments: Impairments, seed: int = 0) -> None:
        """Use these settings from the next frame on, and discard earlier records."""
        self._impairments, self._impairer = impairments, Impairer(impairments, seed)
        self._arrivals: list[NDArray[np.int64]] = []
        self._sent: list[NDArray[np.int64]] = []
        # heap of departure time, counter, number and frame
        self._waiting: list[tuple[int, int, int, U8]] = []
        self._swapped: tuple[int, U8] | None = None
        self._waited = self._received = 0
        self._rx.count_drops()
        if self._tap is not None and not impairments.record_departures:
            self._tap.close()
            self._tap = None
        if self._tap is None and impairments.record_departures:
            self._tap = Tap(self._right, self._frame_octets, TAP_SLOTS)
        if self._tap is not None:
            self._tap.read_departures_ns()
            self._tap.count_drops()

    def end_trial(self) -> Truth:
        """Return what happened since :meth:`start_trial`, and stop impairing frames."""
        arrivals = np.concatenate([np.empty(0, dtype=np.int64), *self._arrivals])
        numbers = np.concatenate([np.empty(0, dtype=np.int64), *self._sent])
        delays = np.empty(0, dtype=np.int64)
        missed = self._rx.count_drops() + self._tx.count_unsent()
        if self._tap is not None:
            departures = self._tap.read_departures_ns()
            if self._tap.count_drops() or len(departures) != len(numbers):
                missed += max(1, abs(len(departures) - len(numbers)))
            else:
                delays = departures - arrivals[numbers]
        impairer, self._impairments = self._impairer, Impairments()
        return Truth(
            arrivals,
            delays,
            numbers,
            impairer.lost,
            impairer.duplicated,
            impairer.reordered,
            missed,
        )

    def idle(self, pipe: Connection) -> None:
        """Forward frames until a request arrives."""
        poll = poll_rings([self._rx, self._reverse_rx], pipe.fileno())
        rounds = 0
        while True:
            rounds += 1
            if rounds % 64 == 0 and pipe.poll(0):
                return
            busy = self._receive()
            if self._waiting:
                busy = self._send_due() or busy
            if busy:
                continue
            self._forward_reverse()
            if self._impairments.busy_poll:
                continue
            wait_ns = self._waiting[0][0] - time.time_ns() if self._waiting else 1_000_000_000
            if wait_ns > SPIN_NS:
                # poll waits for whole milliseconds; spin for the rest
                poll.poll(max(0, (wait_ns - SPIN_NS) // 1_000_000))
                if pipe.poll(0):
                    return

    def _receive(self) -> bool:
        """Take frames from the ring; send, drop or hold each. Return whether there were any."""
        groups = self._rx.take(BATCH)
        for frames, times in groups:
            if frames.shape[1] < trailer.LENGTH or frames[0, -trailer.LENGTH] != trailer.MAGIC:
                self._tx.send(frames)  # not a test frame
                continue
            self._arrivals.append(times.copy())
            rows, departures, swapped = self._impairer.schedule(times)
            numbers = rows + self._received
            self._received += len(times)
            if self._impairments.delays_frames:
                for number, departure, row in zip(
                    numbers.tolist(), departures.tolist(), rows, strict=True
                ):
                    self._waited += 1
                    heapq.heappush(
                        self._waiting,
                        (departure, self._waited, number, frames[row : row + 1].copy()),
                    )
            elif self._impairments.reorder_every:
                self._send_swapped(frames[rows], numbers, swapped)
            else:
                self._send(frames if len(rows) == len(frames) else frames[rows], numbers)
        self._rx.release()
        return bool(groups)

    def _send_swapped(
        self, frames: U8, numbers: NDArray[np.int64], swapped: NDArray[np.bool_]
    ) -> None:
        """Send frames, each swapped one after its successor, which may be in the next batch."""
        if self._swapped is not None:
            number, frame = self._swapped
            frames = np.concatenate([frame, frames])
            numbers = np.concatenate([[number], numbers])
            swapped = np.concatenate([[True], swapped])
            self._swapped = None
        if swapped[-1]:
            self._swapped = int(numbers[-1]), frames[-1:].copy()
            frames, numbers, swapped = frames[:-1], numbers[:-1], swapped[:-1]
        order = np.argsort(np.arange(len(frames)) * 2 + 3 * swapped, kind="stable")
        if len(order):
            self._send(frames[order], numbers[order])

    def _send_due(self) -> bool:
        """Send the waiting frames whose time has come; return whether there were any."""
        waiting, now = self._waiting, time.time_ns()
        sent = 0
        while waiting and waiting[0][0] <= now and sent < BATCH:
            _, _, number, frame = heapq.heappop(waiting)
            self._send(frame, np.array([number]))
            sent += 1
        return sent > 0

    def _forward_reverse(self) -> None:
        """Forward from the right to the left."""
        for frames, _ in self._reverse_rx.take(BATCH):
            self._reverse_tx.send(frames)
        self._reverse_rx.release()

    def _send(self, frames: U8, numbers: NDArray[np.int64]) -> None:
        self._tx.send(frames)
        self._sent.append(numbers)


class KnownDevice(WorkerDevice):
    """The known device between the lab's cables."""

    role = "known device"

    def __init__(self, frame_octets: int) -> None:
        """Create the device without starting its process.

        Args:
            frame_octets: longest frame, without FCS.
        """
        super().__init__(KnownDeviceProcess, frame_octets)

    def start_trial(self, impairments: Impairments, seed: int = 0) -> None:
        """Use these settings from the next frame on, and discard earlier records."""
        self._ask("start_trial", impairments=impairments, seed=seed)

    def end_trial(self) -> Truth:
        """Return what happened since :meth:`start_trial`, and stop impairing frames."""
        truth: Truth = self._ask("end_trial")
        return truth

    def check(self) -> None:
        """Do nothing, because a query would disturb the timing."""

    def report(self) -> dict[str, Any]:
        """Return nothing, because the counters are part of the truth."""
        return {}

    def describe(self) -> dict[str, Any]:
        """Return facts for the manifest."""
        return {"kind": "known", "what": "impairs frames as requested and records what it did"}
