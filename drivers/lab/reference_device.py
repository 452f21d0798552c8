"""The reference device: a technology's own reference translation behind two rings."""

import time
from collections import Counter
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from v6t.drivers.lab.faults import Faults
from v6t.drivers.lab.ring import RxRing, TxRing, serve_rings
from v6t.drivers.tester import Oracle
from v6t.packets.arrays import U8, sort_unique
from v6t.packets.direction import DIRECTIONS, Direction

BATCH = 1024  # Frames that are translated at a time


class ReferenceDut:
    """Worker that forwards between two interfaces by reference translation, with planted faults."""

    def __init__(
        self, left: str, right: str, frame_octets: int, oracle: Oracle, faults: Faults | None = None
    ) -> None:
        self._oracle = oracle
        self._faults = faults or Faults()
        arrives: dict[Direction, str] = {"forward": left, "reverse": right}
        leaves: dict[Direction, str] = {"forward": right, "reverse": left}
        self._rx = {direction: RxRing(name, frame_octets) for direction, name in arrives.items()}
        self._tx = {direction: TxRing(name, frame_octets) for direction, name in leaves.items()}
        self._counts: dict[Direction, Counter[str]] = {d: Counter() for d in DIRECTIONS}

    def idle(self, pipe: Connection) -> None:
        serve_rings(pipe, self._rx.values(), lambda: sum(map(self._forward, DIRECTIONS)))

    def report(self) -> dict[str, Any]:
        """Return the frames that were forwarded, dropped by translation, and lost in full rings."""
        return {
            direction: {
                **{name: self._counts[direction][name] for name in ("forwarded", "dropped")},
                "ring_drops": ring.count_drops(),
            }
            for direction, ring in self._rx.items()
        }

    def _forward(self, direction: Direction) -> bool:
        """Translate the arrived frames of a direction; return whether there were any."""
        counts, ring = self._counts[direction], self._rx[direction]
        groups = ring.take(BATCH)
        for frames, _ in groups:
            if self._faults.slow_ns:
                time.sleep(len(frames) * self._faults.slow_ns / 1e9)
            answer = self._oracle.expect(direction, frames)
            for length in sort_unique(answer.length):
                chosen = answer.length == length
                if length <= 0:
                    counts["dropped"] += int(np.count_nonzero(chosen))
                    continue
                rows = answer.frames[:, :length]
                rows = rows if chosen.all() else rows[chosen]
                self._tx[direction].send(self._apply_faults(rows, counts["forwarded"]))
                counts["forwarded"] += len(rows)
        ring.release()
        return bool(groups)

    def _apply_faults(self, rows: U8, forwarded: int) -> U8:
        faults = self._faults
        number = np.arange(forwarded + 1, forwarded + len(rows) + 1)
        if 0 <= faults.corrupt_octet < rows.shape[1]:
            rows = rows.copy()
            rows[:, faults.corrupt_octet] ^= 0xFF
        if faults.duplicate_every:
            rows = np.repeat(rows, 1 + (number % faults.duplicate_every == 0), axis=0)
        elif faults.drop_every:
            rows = rows[number % faults.drop_every != 0]
        return rows
