"""The Responder's table at four million connections: seconds and octets of learning and replay.

``python -m v6t.tests.bench.bench_tuples [CONNECTIONS]``: the first connections of ``nat44`` leave a
NAT that keeps their ports; what is printed is the time of this process alone, without any lab.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from v6t.drivers.oracle.replay import Cycle, Order, Replay
from v6t.drivers.oracle.state_table import ROW, MemoryFile, StateTable
from v6t.profiles.expand import Expander
from v6t.tests.packets.oracle import verify

from .common import streams

CONNECTIONS = 4_000_000
BATCH = 1 << 16


@contextmanager
def timed(what: str, count: int) -> Iterator[None]:
    """Print how long the block took, and how many a second that is."""
    began = time.perf_counter()
    yield
    took = time.perf_counter() - began
    print(f"  {what:<52} {took:>8.2f} s  {count / took:>12,.0f}/s")


def through(count: int, work: Callable[[int, int], object]) -> None:
    """In batches."""
    for first in range(0, count, BATCH):
        work(first, min(BATCH, count - first))


def main() -> None:
    """Print the figures; nothing is asserted."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else CONNECTIONS
    _, forward = streams("forward", "nat44", 64)
    _, reverse = streams("reverse", "nat44", 64)
    expander = Expander(forward.streams[0])
    public = np.array([198, 19, 0, 1], dtype=np.uint8)
    memory = MemoryFile(count * ROW[4])
    table = StateTable(memory.path, count)
    print(f"{count:,} connections of nat44, {ROW[4]} octets each: {count * ROW[4]:,} octets")

    learning = 0.0

    def learn(first: int, size: int) -> None:
        nonlocal learning
        frames = expander.frames(first, size)
        frames[:, 26:30] = public
        numbers = np.arange(first, first + size)
        began = time.perf_counter()
        table.learn(numbers, frames[:, 26:38])
        learning += time.perf_counter() - began

    with timed("phase 1: enumerate, translate, learn", count):
        through(count, learn)
    print(f"  {'of this: learn':<52} {learning:>8.2f} s  {count / learning:>12,.0f}/s")
    with timed("count what was learned", count):
        learned = table.learned()
    with timed("look for four-tuples that were used twice", count):
        repeated, _ = table.repeated()
    with timed("count public endpoints", count):
        endpoints = table.endpoints()
    print(f"  {learned:,} learned, {repeated:,} repeated, {endpoints:,} public endpoints")
    out = np.empty((BATCH, expander.length), dtype=np.uint8)
    cycle = Cycle(forward.streams[0], count)
    with timed("phase 2, Initiator: its connections again", count):
        through(count, lambda first, size: cycle.frames(first, size, out[:size]))
    for reading in ("linear", "pseudorandom"):
        replay = Replay(reverse.streams[0], table, Order(count, reading))
        with timed(f"phase 2, Responder: replay, {reading}", count):
            through(count, lambda first, size, r=replay: r.frames(first, size, out[:size]))
        wrong = np.count_nonzero(~verify(replay.frames(0, BATCH)))
        print(f"  {wrong} of the first {BATCH:,} frames have wrong checksums")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"  most memory of the process: {most:,} octets, the table's pages included")
    memory.close()


if __name__ == "__main__":
    main()
