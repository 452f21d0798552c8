"""What the embedded tester's receiver counts, without frames."""

from __future__ import annotations

import numpy as np
from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.runs.bench import compile_point
from v6t.drivers.embedded import receiver

MILLION, BATCH = 1_000_000, 5000


def test_one_of_a_million_that_is_gone_is_told_by_its_number():
    tool = bind(resolve(flags=Flags("ipv6-router"))).technology
    (stream,) = compile_point(tool, tool.make_frame_pair(84), 1)["forward"].streams
    tally = receiver.StreamTally(stream, MILLION, 1000, np.zeros(MILLION, dtype=bool))
    came = np.delete(np.arange(MILLION, dtype=np.uint32), 987_654)
    came = np.append(came, came[-1])  # and one comes twice
    for first in range(0, len(came), BATCH):
        numbers = came[first : first + BATCH]
        mine, frames = np.ones(len(numbers), dtype=bool), np.zeros((len(numbers), 66), np.uint8)
        tally.add(frames, numbers, mine, np.zeros(len(numbers), np.int64), None)
    assert tally.list_lost().tolist() == [987_654]
    received = int(np.count_nonzero(tally.seen))
    assert (received, tally.total - received) == (MILLION - 1, 1)
