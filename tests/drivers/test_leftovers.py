"""Late frames of an earlier trial are never counted, learned or compared."""

import base64
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from v6t.core.config.resolve import resolve_setup
from v6t.core.runs.bench import compile_directions
from v6t.drivers.embedded import port
from v6t.drivers.embedded.receiver import Receiver
from v6t.drivers.embedded.receiver import ReceiverConnections as Known
from v6t.drivers.embedded.tester import EmbeddedTester
from v6t.drivers.embedded.timing import TimedTrial
from v6t.drivers.oracle.connection_oracle import ConnectionTable
from v6t.drivers.oracle.two_phase import TwoPhaseTester
from v6t.drivers.trex import capture, connections
from v6t.drivers.trex.attachment import Attachment
from v6t.drivers.trex.client.stl import StlWorker
from v6t.drivers.trex.options import TrexOptions
from v6t.packets import trailer
from v6t.procedures.stateful.phases import judge_connections
from v6t.profiles.expand import Expander
from v6t.trials.connections import Connections
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.trial import Trial

from .test_trex_sending import COUNT, RATE, TOLERANCE, Server, make_trial

# Octets of the UDP source port in a frame of NAT44.
PORT = slice(34, 36)
# Octets of the trailer: the trial, and the time at which the frame left.
NONCE, SENT = -15, slice(-8, None)


def make_leftover(frame, port=b"\x99\x99"):
    """Return the frame with an earlier trial's trailer and another port."""
    octets = bytearray(frame)
    octets[NONCE] ^= 0xF0
    octets[SENT] = (5).to_bytes(8, "little")
    octets[PORT] = port
    return bytes(octets)


class LeftoverServer(Server):
    """Server whose send rings first emit the last frames of an earlier phase.

    Attributes:
        left: frames left from each burst, by direction.
        copies: frames that the device repeats, per burst of the Initiator.
    """

    def __init__(self, directory):
        super().__init__(directory)
        self.left = {"forward": 0, "reverse": 0}
        self.copies = 0

    def run_trial(self, **asked):
        answer = super().run_trial(**asked)
        groups = {
            number: replace(group, received={1: group.received[1] + self.copies})
            if 0 in group.sent
            else group
            for number, group in answer.groups.items()
        }
        return replace(answer, groups=groups)

    def frames(self, streams, burst):
        own = super().frames(streams, burst)
        left = self.left[streams.direction]
        copies = own[: self.copies] if streams.direction == "forward" else []
        return [*(make_leftover(f) for f in own[len(own) - left :]), *own, *copies]


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "MAX_ROWS", 50)
    made = LeftoverServer(tmp_path)
    monkeypatch.setattr(Attachment, "ask", made.ask)
    made.start()
    yield made
    made.tester.close()


def establish_connections(server):
    asked = Connections(COUNT, RATE, 0.1, 0.0, alpha=1.0, purpose="establish")
    result = TwoPhaseTester(server.tester, None).measure(make_trial(asked))
    return result, judge_connections(make_trial(asked), result, sending_time_tolerance=TOLERANCE)


def test_phase_one_with_leftovers_is_invalid_but_learns_correctly(server):
    establish_connections(server)
    expected = server.tester._connections._table.rows.copy()
    server.left = {"forward": 200, "reverse": 0}
    result, verdict = establish_connections(server)
    found = result.connections
    assert (found.learned, found.surplus, found.duplicate_tuples) == (COUNT, 0, 0)
    assert (verdict.valid, verdict.passed) == (False, False)
    (reason,) = verdict.reasons
    assert reason.startswith("200 frames ")
    assert (server.tester._connections._table.rows == expected).all()


def test_phase_one_with_more_leftovers_than_the_recording_spares_is_invalid(server, monkeypatch):
    monkeypatch.setattr(capture, "SPARE_FRAMES", 100)
    server.left = {"forward": 150, "reverse": 0}
    result, verdict = establish_connections(server)
    # the ring had no room for the last 50 frames
    assert (result.connections.learned, result.connections.surplus) == (COUNT - 50, 0)
    assert not verdict.valid
    assert any(reason.startswith("150 frames ") for reason in verdict.reasons)


def test_validation_with_leftovers_is_invalid(server):
    server.left = {"forward": 0, "reverse": 3}
    result, verdict = establish_connections(server)
    assert result.connections.validated == COUNT
    assert result.directions["reverse"].classes["fg"].surplus == 0
    assert not verdict.valid
    # per block: one of twenty is stamped, the others are marked
    (reason,) = verdict.reasons
    assert reason.startswith("60 frames ")


def test_phase_one_with_more_copies_than_the_recording_spares_counts_them_all(server, monkeypatch):
    monkeypatch.setattr(capture, "SPARE_FRAMES", 100)
    server.copies = 300
    result, verdict = establish_connections(server)
    assert (result.connections.learned, result.connections.surplus) == (COUNT, 300)
    assert (verdict.valid, verdict.passed) == (True, False)


def test_phase_two_ignores_leftover_frames(server):
    server.tester._options = TrexOptions(sample=30)
    establish_connections(server)
    server.left = {"forward": 20, "reverse": 20}
    asked = Connections(COUNT, RATE, 0.1, 0.0, reuse=True)
    result = TwoPhaseTester(server.tester, None).measure(make_trial(asked))
    for counted in result.directions.values():
        assert counted.count_frames("received") == COUNT
        assert counted.checked == counted.matched >= 30


def test_captured_frames_of_another_trial_are_left_out(server):
    establish_connections(server)
    sent = server.tester._installed[1]
    stamped, marked = sent.streams[0], sent.streams[1]
    burst = {"index": 0, "pg_id": stamped.stream_id, "frames": 4, "nonce": None}
    one = server.frames(sent, burst)
    other = server.frames(sent, {**burst, "index": 1, "pg_id": None, "nonce": 9})
    assert marked.stream_id >= 1 << 15
    came = [(0.0, make_leftover(f)) for f in (*one, *other)] + [(1.0, f) for f in (*one, *other)]
    found = [
        (time, row.tobytes())
        for (times, rows), _ in capture.select_current_frames(capture.make_batches(came), 9)
        for time, row in zip(times, rows, strict=True)
    ]
    assert found == came[8:]


@pytest.mark.parametrize(("nonce", "octet"), [(7, 7), (None, 0)])
def test_worker_writes_the_nonce_of_the_trial_into_marked_frames(nonce, octet):
    worker = StlWorker()
    worker.api = SimpleNamespace(STLStream=SimpleNamespace(from_json=lambda stream: stream))
    blank = base64.b64encode(bytes(64)).decode()
    worker.load(0, [{"name": "fg", "packet": {"binary": blank}}])
    burst = {"index": 0, "frames": 1, "pps": 1.0, "isg": 0.0, "pg_id": None, "times": 1}
    for _ in range(2):
        made = worker.make_stream(0, {**burst, "gap_us": 0.0, "nonce": nonce}, 0)
        packet = base64.b64decode(made["packet"]["binary"])
        assert (packet[NONCE], sum(packet)) == (octet, octet)


FRAMES = 100
PLUGIN = resolve_setup(plugin="nat44", tester="sim").technology
STREAMS = compile_directions(PLUGIN, PLUGIN.make_frame_pair(84), 1)
TRIAL = Trial("t", "t", 84, 84, "forward", 1000.0, 0.1, 0.1, 0.0)


class Ring(SimpleNamespace):
    """Receive ring filled with frames."""

    def take(self):
        groups = [(f, np.zeros(len(f), np.int64)) for f in self.frames]
        self.frames = []
        return groups

    def release(self):
        pass

    def drops(self):
        return 0


def make_phase_one_frames(numbers, nonce, port=None):
    """Return phase 1 frames with these sequence numbers."""
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
    """Provide a function that receives frames in phase 1 of trial 5; returns report and rows."""
    ring = Ring(interface="none", frames=[])
    monkeypatch.setattr(port, "RxRing", lambda interface, octets: ring)
    connecting = ConnectionTable()

    def learn(*frames):
        known = Known()
        made = Receiver("none", 2000)
        made.load(STREAMS["forward"], None, "forward", known)
        at = connecting.make(FRAMES)
        timed = TimedTrial(TRIAL, (1,))
        made.arm(required={"fg": FRAMES}, nonce=5, timed=timed, table=at, learn=True)
        ring.frames = list(frames)
        return made.report(), known._table.rows.copy()

    yield learn
    connecting.close()


def test_leftovers_in_phase_one_are_neither_counted_nor_learned(learned):
    _, expected = learned(make_phase_one_frames(range(FRAMES), 5))
    report, rows = learned(
        make_phase_one_frames(range(60, FRAMES), 4, port=0x99),
        make_phase_one_frames(range(FRAMES), 5),
    )
    found = report["classes"]["fg"]
    assert (found["received"], found["surplus"], report["health"]["stale"]) == (FRAMES, 0, 40)
    assert (rows == expected).all()


def test_frames_with_impossible_numbers_are_not_stale(learned):
    report, _ = learned(make_phase_one_frames([FRAMES, FRAMES + 1], 5))
    assert (report["health"]["stale"], report["health"]["misnumbered"]) == (0, 2)


@pytest.mark.parametrize(("stale", "count"), [(0, 0), (40, 1)])
def test_phase_with_leftovers_is_invalid(monkeypatch, stale, count):
    classes = {"fg": ClassCount("foreground", FRAMES, FRAMES, FRAMES)}
    counted = DirectionResult(classes, 0.1)
    for way, words in (("forward", "phase 1"), ("reverse", "the validation")):
        result = TrialResult({way: counted}, tester={way: {"stale": stale}})
        tester = EmbeddedTester(PLUGIN.links, None)
        monkeypatch.setattr(tester, "_exchange", lambda *_, made=result, **__: (made, 0.0, {}))
        faults = tester._run_phase(TRIAL, way, None).faults
        assert faults == (f"{stale} frames of an earlier trial arrived in {words}",) * count
