"""Sending times of TRex from port counters, and late frames of an earlier trial."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from v6t.drivers.embedded.receiver import Receiver
from v6t.drivers.embedded.receiver import ReceiverConnections as Known
from v6t.drivers.embedded.tester import EmbeddedTester
from v6t.drivers.embedded.timing import TimedTrial
from v6t.drivers.oracle.connection_oracle import ConnectionTable
from v6t.drivers.oracle.two_phase import TwoPhaseTester
from v6t.drivers.trex import bursts as trex_bursts
from v6t.drivers.trex import capture, connections
from v6t.drivers.trex.attachment import Attachment
from v6t.drivers.trex.client.stats import CounterReading, PortFacts, ServerFacts
from v6t.drivers.trex.client.stl import StlWorker, unpack_lists, with_nonce
from v6t.drivers.trex.counting import measure_sending_time
from v6t.drivers.trex.options import TrexOptions
from v6t.drivers.trex.streams import is_marked
from v6t.drivers.trex.tester import TrexTester
from v6t.packets import trailer
from v6t.procedures.stateful.phases import judge_connections
from v6t.profiles.expand import Expander
from v6t.trials.connections import Connections
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.trial import DelayRequest, Trial
from v6t.trials.verdict import assess_trial

from .faketrex import parse_trial
from .lab_testers import compile_plugin
from .test_trex_recording import make_pcap

WIDTH_S = 5e-5


def make_readings(sent_at, *times):
    """Make readings of port 0 before the start and at these times; ``sent_at`` counts the frames."""
    return [CounterReading(at, {0: sent_at(at)}, at + WIDTH_S) for at in (-0.2, *times)]


def send_evenly(frames, begin_s, end_s):
    def sent(at):
        return max(
            0, min(frames, int(frames * (at - begin_s) / (end_s - begin_s)) + (at > begin_s))
        )

    return sent


def judge_sending(took, frames, duration_s, tolerance=1.00001):
    count = ClassCount("foreground", frames, frames, frames)
    trial = Trial("throughput", "k", 104, 64, "forward", frames / duration_s, duration_s)
    counted = DirectionResult({"fg": count}, took.time_s, sending_time_error_s=took.error_s)
    return assess_trial(trial, TrialResult({"forward": counted}), sending_time_tolerance=tolerance)


@pytest.mark.parametrize(("late_s", "valid"), [(0.0, True), (0.0003, True), (0.0007, False)])
def test_a_minute_is_right_within_ten_millionths(late_s, valid):
    sent = send_evenly(6_000_000, 0.0, 60.0 + late_s)
    took = measure_sending_time(
        make_readings(sent, 0.0, 0.0004, 59.9999, 60.0002, 60.0004, 60.0008), 0, 6_000_000, 60.0
    )
    assert took.time_s - took.error_s <= 60.0 + late_s <= took.max_s + 1e-9
    assert judge_sending(took, 6_000_000, 60.0).valid is valid


def test_late_sending_within_20_ms_is_detected():
    """Use 60 s with 20 ms of delay, and a burst at 2 % of the line rate."""
    late = measure_sending_time(
        make_readings(send_evenly(10**6, 0, 60.0206), 0.0, 0.0005, 60.0, 60.0207), 0, 10**6, 60.0
    )
    assert "sending took 60.0" in judge_sending(late, 10**6, 60.0).reasons[0]
    burst = measure_sending_time(
        make_readings(send_evenly(4096, 0.0, 0.0203), 0.0, 0.0005, 0.0101, 0.0204),
        0,
        4096,
        0.000406,
    )
    for tolerance in (1.00001, 3.0):
        found = judge_sending(burst, 4096, 0.000406, tolerance)
        assert not found.valid
        assert "sending took" in found.reasons[0]


def test_sending_time_between_rare_readings_is_not_proven():
    """The frames may or may not have been sent in time."""
    took = measure_sending_time(
        make_readings(send_evenly(10**6, 0, 60.0), 0.0, 30.0, 60.02), 0, 10**6, 60.0
    )
    assert took.time_s - took.error_s == pytest.approx(60.0)
    found = judge_sending(took, 10**6, 60.0)
    assert not found.valid
    assert "not proven" in found.reasons[0]
    assert judge_sending(took, 10**6, 60.0, 1.02).valid


def test_wait_for_first_frame_is_not_sending_time():
    sent = send_evenly(1000, 0.05, 1.05)
    waited = measure_sending_time(make_readings(sent, 0.0, 0.049, 0.051, 1.0, 1.0501), 0, 1000, 1.0)
    assert waited.max_s < 1.005
    unseen = measure_sending_time(make_readings(sent, 1.0501), 0, 1000, 1.0)
    assert unseen.max_s > 1.25


def test_early_start_counts_as_sending_time():
    """TRex's scheduler may wake up before the start time."""
    early = measure_sending_time(
        make_readings(send_evenly(1000, -0.02, 1.0), -0.0205, -0.01, 1.0001), 0, 1000, 1.0
    )
    assert early.max_s == pytest.approx(1.0217, abs=1e-3)
    assert not judge_sending(early, 1000, 1.0, 1.01).valid


def test_frames_that_never_left_have_no_time():
    assert measure_sending_time(make_readings(send_evenly(1000, 0, 1.0), 0.5), 0, 1000, 1.0) is None


COUNT, RATE = 1000, 2000.0
TOLERANCE = 1.005
# Interval between two readings [s].
LOOK_S = 0.0004
PLUGIN, STREAMS = compile_plugin("nat44", 84)


class Server:
    """Fake TRex with a cable between its ports: all requested frames come back.

    Attributes:
        late_s: additional sending time by port.
        macs: destination and source addresses of the received streams, by port.
        left: frames of an earlier phase that are left from each burst, by direction.
        copies: frames that the device repeats, per burst of the Initiator.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tester: TrexTester
        self.late_s = {0: 0.0, 1: 0.0}
        self.macs: dict[int, set[str]] = {}
        self.left = {"forward": 0, "reverse": 0}
        self.copies = 0

    def start(self, **options):
        self.tester = TrexTester(TrexOptions(sample=0, **options), PLUGIN.links, loopback=True)
        self.tester.attachment.facts = ServerFacts(
            ports=[PortFacts(n, "net_memif", is_virtual=True) for n in (0, 1)]
        )
        self.tester.load(STREAMS, PLUGIN)

    def ask(self, op, /, *, watch=None, deadline_s=0.0, **asked):
        return getattr(self, op)(**asked)

    def make_directory(self):
        return str(self.directory)

    def load(self, *, port, streams, **_):
        self.macs.setdefault(port, set()).update(
            base64.b64decode(s["packet"]["binary"])[:12].hex() for s in streams
        )

    def remove_file(self, path):
        Path(path).unlink()

    def run_trial(self, *, bursts, due_s, receive, captures, **_):
        ports = {str(p): {"opackets": 0, "ipackets": 0, "oerrors": 0, "ierrors": 0} for p in (0, 1)}
        flows, collected = {}, []
        for name, sent in bursts.items():
            out, back = int(name), 1 - int(name)
            frames = sum(burst["frames"] for burst in sent)
            ports[name]["opackets"] = ports[str(back)]["ipackets"] = frames
            streams = self.tester._installed[out]
            for burst in sent:
                if burst["pg_id"] is not None:
                    received = burst["frames"] + (self.copies if out == 0 else 0)
                    one = {"tx_pkts": {name: burst["frames"]}, "rx_pkts": {str(back): received}}
                    flows[str(burst["pg_id"])] = one
            for asked in (one for one in captures if one["port"] == back):
                of = [b for b in sent if self.tells(streams, b, asked["kind"])]
                matched, came = sum(b["frames"] for b in of), []
                if asked["kind"] != "marked":
                    came = [f for b in of for f in self.make_received(streams, b)]
                if asked["kind"] == "recording":
                    Path(asked["path"]).write_bytes(make_pcap(came[: asked["limit"]]))
                    came = []
                shown = [[0.0, base64.b64encode(f).decode()] for f in came]
                collected.append({**asked, "matched": matched, "frames": shown})
        raw = {"ports": ports, "groups": {"flow_stats": flows}, "captures": collected}
        readings = self.counter_readings(bursts, due_s)
        return parse_trial({**raw, "counter_readings": readings, "began_ago_s": due_s})

    @staticmethod
    def tells(streams, burst, kind):
        """Check whether a kind of capture matches the frames of a burst."""
        marked = is_marked(streams.streams[burst["index"]])
        return {"marked": marked, "sample": burst["pg_id"] is not None, "control": False}.get(
            kind, True
        )

    def counter_readings(self, bursts, due_s):
        """Return dense readings at start and end; ports send evenly, but too long."""
        frames = {int(p): sum(b["frames"] for b in sent) for p, sent in bursts.items()}
        takes = {p: due_s * (1 - 1 / n) + self.late_s[p] for p, n in frames.items()}
        ends = [takes[p] + k * LOOK_S for p in frames for k in (-1, 1)]
        found = []
        for at in sorted([-0.2, 0.0, LOOK_S, *ends]):
            sent = {
                p: 0 if at <= 0 else min(n, 1 + int((n - 1) * at / takes[p] + 1e-9))
                for p, n in frames.items()
            }
            found.append((at, {str(p): n for p, n in sent.items()}, at + LOOK_S / 10))
        return found

    def make_received(self, streams, burst):
        """Return the leftovers, frames and copies of a burst."""
        own, left = self.frames(streams, burst), self.left[streams.direction]
        copies = own[: self.copies] if streams.direction == "forward" else []
        return [*(make_leftover(f) for f in own[len(own) - left :]), *own, *copies]

    def frames(self, streams, burst):
        """Return the frames with TRex's stamp or the program's mark."""
        stream = streams.streams[burst["index"]]
        program = dict((stream.render() if isinstance(stream, connections.Block) else stream).trex)
        if "vm" in program:
            program["vm"] = unpack_lists(program["vm"])
        if burst.get("nonce") is not None:
            program["packet"] = with_nonce(program["packet"], burst["nonce"])
        made = Expander(replace(stream, trex=program)).frames(0, burst["frames"])
        if burst["pg_id"] is not None:
            made[:, -16:] = 0
            seq = (np.arange(len(made)) + (1 << 32) - 2) % (1 << 32)
            trailer.stamp(
                made, stream.checksum, seq=seq, stream_id=burst["pg_id"], nonce=1, time_ns=9
            )
        return [f.tobytes() for f in made]


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Provide a server with a table of twenty blocks, of which a validation stamps one."""
    monkeypatch.setattr(connections, "MAX_ROWS", 50)
    server = Server(tmp_path)
    monkeypatch.setattr(Attachment, "ask", server.ask)
    server.start()
    yield server
    server.tester.close()


def make_trial(asked, **changes):
    return Trial(
        "t", "t", 84, 84, "bidirectional", RATE, asked.phase_one_s, 0.1, 0.0,
        connections=asked, **changes,
    )  # fmt: skip


def establish_connections(server):
    connections = Connections(COUNT, RATE, 0.1, 0.0, alpha=1.0, purpose="establish")
    prepared = TwoPhaseTester(server.tester, None)
    return prepared, make_trial(connections), prepared.measure(make_trial(connections))


@pytest.mark.parametrize(
    ("late_s", "valid"), [(0.0, True), (0.001, True), (0.0035, False), (0.0201, False)]
)
def test_phase_one_and_the_validation_are_proven_or_invalid(server, late_s, valid):
    for port, what in ((0, "phase 1 took"), (1, "the validation took")):
        server.late_s = {0: 0.0, 1: 0.0, port: late_s}
        _, asked, result = establish_connections(server)
        found = result.connections
        assert result.faults == ()
        assert (found.sent, found.learned, found.validated) == (COUNT, COUNT, COUNT)
        took = (found.sending_time_s, found.validation_time_s)[port]
        # never too low, and as exact as the readings
        assert 0.5 + late_s <= took <= 0.5 + late_s + 3 * LOOK_S
        verdict = judge_connections(asked, result, sending_time_tolerance=TOLERANCE)
        assert verdict.valid is valid
        assert valid or [r[: len(what)] for r in verdict.reasons] == [what]


def test_connections_use_addresses_of_server_ports(server):
    sides = {
        side: {"tester_mac": f"02:00:00:00:0{n}:02", "dut_mac": f"02:00:00:00:0{n}:01"}
        for n, side in enumerate(("left", "right"))
    }
    server.start(**sides)
    prepared, _, _ = establish_connections(server)
    prepared.measure(make_trial(Connections(COUNT, RATE, 0.1, 0.0, reuse=True)))
    assert server.macs == {0: {"020000000001020000000002"}, 1: {"020000000101020000000102"}}


@pytest.mark.parametrize("way", ["forward", "reverse"])
@pytest.mark.parametrize(("late_s", "valid"), [(0.001, True), (0.0035, False), (0.0201, False)])
def test_phase_two_is_proven_or_invalid(server, way, late_s, valid):
    prepared, _, _ = establish_connections(server)
    server.late_s[["forward", "reverse"].index(way)] = late_s
    trial = make_trial(Connections(COUNT, RATE, 0.1, 0.0, reuse=True))
    result = prepared.measure(trial)
    assert result.faults == ()
    counted = result.directions[way]
    assert counted.count_frames("sent") == counted.count_frames("received") == COUNT
    assert 0.5 + late_s <= counted.max_sending_time_s <= 0.5 + late_s + 3 * LOOK_S
    verdict = assess_trial(trial, result, sending_time_tolerance=TOLERANCE)
    assert verdict.valid is valid
    assert valid or (len(verdict.reasons) == 1 and f"{way}: sending took" in verdict.reasons[0])


@pytest.mark.parametrize("most_fps", [2 * RATE, RATE])
def test_some_frames_of_connections_are_compared_at_any_rate(server, monkeypatch, most_fps):
    """Compare all received frames, or those that TRex can stamp."""
    prepared, _, _ = establish_connections(server)
    monkeypatch.setattr(trex_bursts, "MAX_STAMPED_FPS", most_fps)
    server.tester._options = TrexOptions(sample=30)
    result = prepared.measure(make_trial(Connections(COUNT, RATE, 0.1, 0.0, reuse=True)))
    assert result.tester["counting"] == ("ports" if most_fps < 2 * RATE else "trailer")
    for counted in result.directions.values():
        assert counted.count_frames("sent") == counted.count_frames("received") == COUNT
        assert counted.checked == counted.matched >= 30


@pytest.mark.parametrize(("rows", "share"), [(50, None), (20, 21 * 20 / COUNT)])
def test_share_of_timed_connections_is_reported(server, monkeypatch, rows, share):
    monkeypatch.setattr(connections, "MAX_ROWS", rows)
    prepared, _, _ = establish_connections(server)
    asked = Connections(COUNT, RATE, 0.1, 0.0, reuse=True)
    for delays in (DelayRequest(tags=100), DelayRequest(tags=0)):
        result = prepared.measure(make_trial(asked, delays=delays))
        # the Initiator's field engine program enumerates all connections
        told = {direction: counted.timed_share for direction, counted in result.directions.items()}
        assert told == {"forward": None, "reverse": share}
    result = prepared.measure(make_trial(asked))
    assert {counted.timed_share for counted in result.directions.values()} == {None}


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


def judge_phase_one(server):
    _, trial, result = establish_connections(server)
    return result, judge_connections(trial, result, sending_time_tolerance=TOLERANCE)


def test_phase_one_with_leftovers_is_invalid_but_learns_correctly(server):
    judge_phase_one(server)
    expected = server.tester._connections._table.rows.copy()
    server.left = {"forward": 200, "reverse": 0}
    result, verdict = judge_phase_one(server)
    found = result.connections
    assert (found.learned, found.surplus, found.duplicate_tuples) == (COUNT, 0, 0)
    assert (verdict.valid, verdict.passed) == (False, False)
    (reason,) = verdict.reasons
    assert reason.startswith("200 frames ")
    assert (server.tester._connections._table.rows == expected).all()


def test_phase_one_with_more_leftovers_than_the_recording_spares_is_invalid(server, monkeypatch):
    monkeypatch.setattr(capture, "SPARE_FRAMES", 100)
    server.left = {"forward": 150, "reverse": 0}
    result, verdict = judge_phase_one(server)
    # the ring had no room for the last 50 frames
    assert (result.connections.learned, result.connections.surplus) == (COUNT - 50, 0)
    assert not verdict.valid
    assert any(reason.startswith("150 frames ") for reason in verdict.reasons)


def test_validation_with_leftovers_is_invalid(server):
    server.left = {"forward": 0, "reverse": 3}
    result, verdict = judge_phase_one(server)
    assert result.connections.validated == COUNT
    assert result.directions["reverse"].classes["fg"].surplus == 0
    assert not verdict.valid
    # per block: one of twenty is stamped, the others are marked
    (reason,) = verdict.reasons
    assert reason.startswith("60 frames ")


def test_phase_one_with_more_copies_than_the_recording_spares_counts_them_all(server, monkeypatch):
    monkeypatch.setattr(capture, "SPARE_FRAMES", 100)
    server.copies = 300
    result, verdict = judge_phase_one(server)
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
    monkeypatch.setattr("v6t.drivers.embedded.port.RxRing", lambda interface, octets: ring)
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
