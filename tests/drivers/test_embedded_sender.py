"""Stamps and counts of the sender and receiver of the embedded tester."""

import time

import numpy as np
import pytest
from v6t.core.config.resolve import resolve_setup
from v6t.core.runs.bench import compile_directions
from v6t.drivers.embedded import receiver, sender
from v6t.drivers.embedded.sender import BATCH, TIMED_BATCH, Pace, Sender
from v6t.packets import trailer
from v6t.plugins.mape_br import MapEBorderRelay
from v6t.profiles.compiler.compile import compile_traffic
from v6t.tests.packets.oracle import verify
from v6t.trials.trial import Trial


class Ring:
    """Send ring that records committed frames with their times."""

    refused = 0

    def __init__(self, _interface, octets):
        self.room_of = lambda count: np.zeros((count, octets), dtype=np.uint8)
        self.batches, self.left_ns = [], []

    def room(self, most):
        self._room = self.room_of(most)
        return self._room

    def commit(self, count, _lengths):
        self.left_ns.append(time.time_ns())
        self.batches.append(self._room[:count].copy())

    def unsent(self):
        return 0


@pytest.fixture
def sending(monkeypatch):
    monkeypatch.setattr(sender, "TxRing", Ring)
    plugin = MapEBorderRelay()
    streams = compile_traffic(plugin.build_traffic("forward", plugin.make_frame_pair(128), 1))
    made = Sender("none", 124)
    made.load(streams)

    def send(rate_fps, *, timed):
        trial = Trial("latency", "k", 128, 88, "forward", rate_fps, 1500 / rate_fps)
        start = time.monotonic()
        answer = made.send(pace=Pace.from_trial(trial), start=start, nonce=3, timed=timed)
        return made._ring, sum(answer["sent"].values())

    return send


@pytest.mark.parametrize(("timed", "most"), [(True, TIMED_BATCH), (False, BATCH)])
def test_a_batch_of_timed_frames_is_small(sending, timed, most):
    """All 1500 frames are due at once, so batches have their maximum size."""
    ring, sent = sending(1e9, timed=timed)
    assert sent == 1500
    assert max(len(b) for b in ring.batches) == most


def test_every_timed_frame_is_stamped_before_departure(sending):
    ring, _ = sending(1e9, timed=True)
    stamps = []
    for batch, left in zip(ring.batches, ring.left_ns, strict=True):
        marks = trailer.read(batch)
        assert marks.magic_ok.all()
        assert verify(batch).all()
        assert (marks.time_ns <= left).all()
        stamps += marks.time_ns.astype(np.int64).tolist()
    assert stamps == sorted(stamps)
    assert len(set(stamps)) > 0.9 * len(stamps)


MILLION, BATCH_FRAMES = 1_000_000, 5000


def test_lost_frame_among_a_million_is_identified():
    tool = resolve_setup(plugin="ipv6-router").technology
    (stream,) = compile_directions(tool, tool.make_frame_pair(84), 1)["forward"].streams
    tally = receiver.StreamTally(stream, MILLION, 1000, np.zeros(MILLION, dtype=bool))
    came = np.delete(np.arange(MILLION, dtype=np.uint32), 987_654)
    came = np.append(came, came[-1])  # one is duplicated
    for first in range(0, len(came), BATCH_FRAMES):
        numbers = came[first : first + BATCH_FRAMES]
        mine, frames = np.ones(len(numbers), dtype=bool), np.zeros((len(numbers), 66), np.uint8)
        tally.add(frames, numbers, mine, np.zeros(len(numbers), np.int64), None)
    assert tally.list_lost().tolist() == [987_654]
    received = int(np.count_nonzero(tally.seen))
    assert (received, tally.total - received) == (MILLION - 1, 1)
