"""The reference device: a technology's own reference translation behind two rings."""

from __future__ import annotations

import select
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.drivers.lab.faults import Faults
from v6t.drivers.lab.ring import RxRing, TxRing
from v6t.packets.arrays import sort_unique

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.drivers.tester import Oracle
    from v6t.packets.direction import Direction

BATCH = 1024


@dataclass
class _Way:
    direction: Direction
    rx: RxRing
    tx: TxRing
    forwarded: int = 0
    dropped: int = 0


class ReferenceDut:
    """Forwards between two interfaces as its oracle says.

    Args:
        left: interface towards the tester's left port.
        right: interface towards the right port.
        frame_octets: longest frame on either side, without FCS.
        oracle: the reference translation.
        faults: how to misbehave.
    """

    def __init__(
        self, left: str, right: str, frame_octets: int, oracle: Oracle, faults: Faults | None = None
    ) -> None:
        self._oracle = oracle
        self._faults = faults or Faults()
        self._ways = [
            _Way("forward", RxRing(left, frame_octets), TxRing(right, frame_octets)),
            _Way("reverse", RxRing(right, frame_octets), TxRing(left, frame_octets)),
        ]

    def idle(self, pipe: Connection) -> None:
        """Forward until a request waits."""
        poll = select.poll()
        poll.register(pipe.fileno(), select.POLLIN)
        for way in self._ways:
            poll.register(way.rx.socket, select.POLLIN | select.POLLERR)
        while not pipe.poll(0):
            busy = [self._pass(way) for way in self._ways]
            if not any(busy):
                poll.poll(500)

    def report(self) -> dict[str, Any]:
        """Frames forwarded, dropped by the rules, and lost for want of ring slots."""
        return {
            way.direction: {
                "forwarded": way.forwarded,
                "dropped": way.dropped,
                "ring_drops": way.rx.drops(),
            }
            for way in self._ways
        }

    def _pass(self, way: _Way) -> bool:
        groups = way.rx.take(BATCH)
        for frames, _ in groups:
            if self._faults.slow_ns:
                time.sleep(len(frames) * self._faults.slow_ns / 1e9)
            answer = self._oracle.expect(way.direction, frames)
            for length in sort_unique(answer.length):
                chosen = answer.length == length
                if length <= 0:
                    way.dropped += int(np.count_nonzero(chosen))
                    continue
                rows = answer.frames[:, :length]
                rows = rows if chosen.all() else rows[chosen]
                way.tx.send(self._spoil(way, rows))
                way.forwarded += len(rows)
        way.rx.release()
        return bool(groups)

    def _spoil(self, way: _Way, rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
        faults = self._faults
        number = np.arange(way.forwarded + 1, way.forwarded + len(rows) + 1)
        if 0 <= faults.corrupt_octet < rows.shape[1]:
            rows = rows.copy()
            rows[:, faults.corrupt_octet] ^= 0xFF
        if faults.duplicate_every:
            rows = np.repeat(rows, 1 + (number % faults.duplicate_every == 0), axis=0)
        elif faults.drop_every:
            rows = rows[number % faults.drop_every != 0]
        return rows
