"""AF_PACKET rings (TPACKET_V2) as NumPy arrays: a batch of frames per system call.

Slots have a fixed size, so headers and frames of many slots are strided views of one mapping.
"""

import errno
import mmap
import select
import socket
import struct
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection

import numpy as np
from numpy.typing import NDArray
from v6t.drivers.placement import MAX_RING_FRAMES, RING_BLOCK_OCTETS, RING_OCTETS
from v6t.packets.arrays import I64, U8, sort_unique

_SOL_PACKET, _TPACKET_V2, _PROMISCUOUS, _ETH_P_ALL = 263, 1, 1, 3
_ADD_MEMBERSHIP, _RX_RING, _STATISTICS, _VERSION = 1, 5, 6, 10
_TX_RING, _QDISC_BYPASS, _IGNORE_OUTGOING = 13, 20, 23

_RX_OFFSET = 66  # Octets of header, address and padding before the frame in a receive slot
_TX_OFFSET = 32  # Octets of the aligned header before the frame in a transmit slot

_USER, _VLAN_VALID = 1, 0x10
_AVAILABLE, _SEND_REQUEST, _SENDING, _WRONG_FORMAT = 0, 1, 2, 4


class _Ring:
    """Packet socket with a mapped ring, and views of its slot headers."""

    def __init__(
        self, interface: str, kind: int, frame_octets: int, slots: int | None = None
    ) -> None:
        self.interface = interface
        # a power of two that holds a frame and the kernel's header before it
        self.slot = max(256, 1 << (_RX_OFFSET + frame_octets + 3).bit_length())
        self.slots = slots or min(MAX_RING_FRAMES, RING_OCTETS // self.slot)
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(_SOL_PACKET, _VERSION, _TPACKET_V2)
        block = max(min(RING_BLOCK_OCTETS, self.slots * self.slot), mmap.PAGESIZE, self.slot)
        self.slots = self.slots * self.slot // block * (block // self.slot)
        request = struct.pack("IIII", block, self.slots * self.slot // block, self.slot, self.slots)
        self.socket.setsockopt(_SOL_PACKET, kind, request)
        self._map = mmap.mmap(self.socket.fileno(), self.slots * self.slot)
        octets = np.frombuffer(self._map, dtype=np.uint8).reshape(self.slots, self.slot)
        self._octets: U8 = octets
        self._header = octets[:, :32].view(np.uint32)
        self._status = self._header[:, 0]
        self._head = 0

    def close(self) -> None:
        self.socket.close()


class RxRing(_Ring):
    """Receive ring of an interface, without frames that are sent from it."""

    def __init__(self, interface: str, frame_octets: int, slots: int | None = None) -> None:
        super().__init__(interface, _RX_RING, frame_octets, slots)
        self.socket.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
        request = struct.pack("IHH8s", socket.if_nametoindex(interface), _PROMISCUOUS, 0, b"")
        self.socket.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, request)
        self.socket.bind((interface, _ETH_P_ALL))
        self._taken = 0

    def take(self, limit: int = 4096) -> list[tuple[U8, I64]]:
        """Return the arrived frames, oldest first, in groups of equal length.

        Each group is ``(n, length)`` octets and ``(n,)`` arrival times [ns, CLOCK_REALTIME]. The
        octets may lie in the ring: they are gone with the next :meth:`release`.
        """
        status = self._status[self._head : self._head + limit]
        ready = (status & _USER) != 0
        count = len(ready) if ready.all() else int(ready.argmin())
        self._taken = count
        if not count:
            return []
        rows = self._octets[self._head : self._head + count]
        header = self._header[self._head : self._head + count]
        tagged = (status[:count] & _VLAN_VALID) != 0
        times = header[:, 4].astype(np.int64) * 1_000_000_000 + header[:, 5]
        kinds = header[:, 1].astype(np.int64) * 2 + tagged
        is_uniform = (kinds == kinds[0]).all()
        groups = []
        for kind in kinds[:1] if is_uniform else sort_unique(kinds):
            chosen = slice(None) if is_uniform else kinds == kind
            frames = self._read_frames(rows[chosen], int(kind) // 2, bool(kind % 2))
            groups.append((frames, times[chosen]))
        return groups

    def _read_frames(self, rows: U8, length: int, tagged: bool) -> U8:
        """Return the frames in slots, with the VLAN tag that the kernel took out."""
        length = min(length, self.slot - _RX_OFFSET)
        frames = rows[:, _RX_OFFSET : _RX_OFFSET + length]
        if not tagged:
            return frames
        # the kernel took the VLAN tag out of the frame and put it into the header
        whole = np.empty((len(frames), length + 4), dtype=np.uint8)
        whole[:, :12] = frames[:, :12]
        whole[:, 12:14] = (0x81, 0x00)
        tci = rows[:, 24:26].copy().view(np.uint16)[:, 0]
        whole[:, 14] = tci >> 8
        whole[:, 15] = tci & 0xFF
        whole[:, 16:] = frames[:, 12:]
        return whole

    def release(self) -> None:
        """Give the slots of the last :meth:`take` back to the kernel."""
        self._status[self._head : self._head + self._taken] = 0
        self._head = (self._head + self._taken) % self.slots
        self._taken = 0

    def send(self, frame: bytes) -> None:
        """Send a frame from the interface without a ring."""
        self.socket.send(frame)

    def count_drops(self) -> int:
        """Count frames dropped since the last call because the ring was full."""
        return int(struct.unpack("II", self.socket.getsockopt(_SOL_PACKET, _STATISTICS, 8))[1])


class TxRing(_Ring):
    """Transmit ring whose frames go directly to the driver, past queueing disciplines and taps."""

    def __init__(self, interface: str, frame_octets: int, *, bypass: bool = True) -> None:
        super().__init__(interface, _TX_RING, frame_octets)
        self.socket.setsockopt(_SOL_PACKET, _QDISC_BYPASS, int(bypass))
        self.socket.bind((interface, 0))
        self.refused = 0

    def get_free_slots(self, limit: int) -> U8:
        """Return the frame space ``(n, octets)`` of at most ``limit`` consecutive free slots.

        Write frames into it and call :meth:`commit`. Waits while the ring is full.
        """
        while True:
            status = self._status[self._head : self._head + limit]
            wrong = status == _WRONG_FORMAT
            if wrong.any():
                self.refused += int(wrong.sum())
                status[wrong] = _AVAILABLE
            free = status == _AVAILABLE
            count = len(free) if free.all() else int(free.argmin())
            if count:
                return self._octets[self._head : self._head + count, _TX_OFFSET:]
            self._start_sending()

    def commit(self, count: int, lengths: int | NDArray[np.integer]) -> None:
        """Send the first ``count`` slots that :meth:`get_free_slots` gave; returns when they have left."""
        chosen = slice(self._head, self._head + count)
        self._header[chosen, 1] = lengths
        self._status[chosen] = _SEND_REQUEST
        self._head = (self._head + count) % self.slots
        self._start_sending()

    def send(self, frames: U8) -> None:
        """Send equally long frames ``(n, length)``."""
        done = 0
        while done < len(frames):
            room = self.get_free_slots(len(frames) - done)
            count = len(room)
            room[:, : frames.shape[1]] = frames[done : done + count]
            self.commit(count, frames.shape[1])
            done += count

    def count_unsent(self) -> int:
        """Count committed frames that have not left, and those that the kernel refused."""
        waiting = (self._status == _SEND_REQUEST) | (self._status == _SENDING)
        wrong = self._status == _WRONG_FORMAT
        return int(waiting.sum() + wrong.sum()) + self.refused

    def _start_sending(self) -> None:
        try:
            self.socket.send(b"")
        except OSError as exc:
            # ENOBUFS: the driver is full; the slots stay requested and the next call retries
            if exc.errno not in (errno.EAGAIN, errno.ENOBUFS):
                raise


def poll_rings(rings: Iterable[RxRing], *more: int) -> select.poll:
    """Make a poll object for the arrival of frames and for further file descriptors."""
    poll = select.poll()
    for ring in rings:
        poll.register(ring.socket, select.POLLIN | select.POLLERR)
    for number in more:
        poll.register(number, select.POLLIN)
    return poll


def serve_rings(
    pipe: Connection, rings: Iterable[RxRing], drain: Callable[[], object], wait_ms: int = 500
) -> None:
    """Drain rings until a request waits in the pipe; ``drain`` returns false if no frame came."""
    poll = poll_rings(rings, pipe.fileno())
    while not pipe.poll(0):
        if not drain():
            poll.poll(wait_ms)
