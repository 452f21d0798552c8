"""Frames of an earlier trial that arrive in a later one, on the embedded tester."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.runs.bench import compile_point
from v6t.drivers.embedded import port
from v6t.drivers.embedded.connections import ConnectionTable
from v6t.drivers.embedded.connections import ReceiverConnections as Known
from v6t.drivers.embedded.receiver import Receiver
from v6t.drivers.embedded.tester import EmbeddedTester
from v6t.drivers.embedded.timing import TimedTrial
from v6t.packets import trailer
from v6t.profiles.expand import Expander
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.trial import Trial

COUNT = 100
PLUGIN = bind(resolve(flags=Flags(plugin="nat44", tester="sim"))).technology
STREAMS = compile_point(PLUGIN, PLUGIN.make_frame_pair(84), 1)
TRIAL = Trial("t", "t", 84, 84, "forward", 1000.0, 0.1, 0.1, 0.0)


class Ring(SimpleNamespace):
    """A receive ring with frames in it."""

    def take(self):
        groups = [(f, np.zeros(len(f), np.int64)) for f in self.frames]
        self.frames = []
        return groups

    def release(self):
        pass

    def drops(self):
        return 0


def sent(numbers, nonce, port=None):
    """Frames of phase 1 with these numbers in a trial."""
    (stream,) = STREAMS["forward"].streams
    rows = np.concatenate([Expander(stream).frames(n, 1) for n in numbers])
    trailer.stamp(
        rows, stream.checksum, seq=np.array(numbers), stream_id=stream.stream_id,
        nonce=nonce, time_ns=0,
    )  # fmt: skip
    if port is not None:
        rows[:, 34:36] = port
    return rows


@pytest.fixture
def learned(monkeypatch):
    """Receive frames in phase 1 of trial 5: the report, and the rows that were learned."""
    ring = Ring(interface="none", frames=[])
    monkeypatch.setattr(port, "RxRing", lambda interface, octets: ring)
    make_connection_oracle = ConnectionTable()

    def learn(*frames):
        known = Known()
        made = Receiver("none", 2000)
        made.load(STREAMS["forward"], None, "forward", known)
        at = make_connection_oracle.make(COUNT)
        timed = TimedTrial(TRIAL, (1,))
        made.arm(required={"fg": COUNT}, nonce=5, timed=timed, table=at, learn=True)
        ring.frames = list(frames)
        return made.report(), known._table.rows.copy()

    yield learn
    make_connection_oracle.close()


def test_leftovers_in_phase_one_are_neither_counted_nor_learned(learned):
    _, expected = learned(sent(range(COUNT), 5))
    report, rows = learned(sent(range(60, COUNT), 4, port=0x99), sent(range(COUNT), 5))
    found = report["classes"]["fg"]
    assert (found["received"], found["surplus"], report["health"]["stale"]) == (COUNT, 0, 40)
    assert (rows == expected).all()


def test_frames_with_impossible_numbers_are_not_stale(learned):
    report, _ = learned(sent([COUNT, COUNT + 1], 5))
    assert (report["health"]["stale"], report["health"]["misnumbered"]) == (0, 2)


@pytest.mark.parametrize(("stale", "count"), [(0, 0), (40, 1)])
def test_phase_with_leftovers_is_invalid(monkeypatch, stale, count):
    classes = {"fg": ClassCount("foreground", COUNT, COUNT, COUNT)}
    counted = DirectionResult(classes, 0.1)
    for way, words in (("forward", "phase 1"), ("reverse", "the validation")):
        result = TrialResult({way: counted}, tester={way: {"stale": stale}})
        tester = EmbeddedTester(PLUGIN.links, None)
        monkeypatch.setattr(tester, "_exchange", lambda *_, made=result, **__: (made, 0.0, {}))
        faults = tester._run_phase(TRIAL, way, None).faults
        assert faults == (f"{stale} frames of an earlier trial arrived in {words}",) * count
