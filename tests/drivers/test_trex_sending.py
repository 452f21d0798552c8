"""Sending times of TRex from port counters, and late frames of an earlier trial."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from v6t.drivers.oracle.two_phase import TwoPhaseTester
from v6t.drivers.trex import bursts as trex_bursts
from v6t.drivers.trex import capture, connections
from v6t.drivers.trex.attachment import Attachment
from v6t.drivers.trex.client.stats import CounterReading, PortFacts, ServerFacts
from v6t.drivers.trex.client.stl import StlWorker, unpack_lists, with_nonce
from v6t.drivers.trex.counting import measure_sending_time
from v6t.drivers.trex.options import TrexOptions
from v6t.drivers.trex.streams import FIRST_SEQUENCE, is_marked
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
from .test_trex_counting import make_pcap

WIDTH_S = 5e-5


def measure(frames, begin_s, end_s, duration_s, *times):
    """Measure the time of evenly sent frames, from readings of port 0 before the start and at these times."""

    def count_sent(at):
        share = (at - begin_s) / (end_s - begin_s)
        return max(0, min(frames, int(frames * share) + (at > begin_s)))

    readings = [CounterReading(at, {0: count_sent(at)}, at + WIDTH_S) for at in (-0.2, *times)]
    return measure_sending_time(readings, 0, frames, duration_s)


def judge_sending(sending, frames, duration_s, tolerance=1.00001):
    count = ClassCount("foreground", frames, frames, frames)
    trial = Trial("throughput", "k", 104, 64, "forward", frames / duration_s, duration_s)
    counted = DirectionResult({"fg": count}, sending.time_s, sending_time_error_s=sending.error_s)
    return assess_trial(trial, TrialResult({"forward": counted}), sending_time_tolerance=tolerance)


@pytest.mark.parametrize(("late_s", "valid"), [(0.0, True), (0.0003, True), (0.0007, False)])
def test_a_minute_is_right_within_ten_millionths(late_s, valid):
    times = (0.0, 0.0004, 59.9999, 60.0002, 60.0004, 60.0008)
    sending = measure(6_000_000, 0.0, 60.0 + late_s, 60.0, *times)
    assert sending.time_s - sending.error_s <= 60.0 + late_s <= sending.max_s + 1e-9
    assert judge_sending(sending, 6_000_000, 60.0).valid is valid


@pytest.mark.parametrize(
    ("frames", "duration_s", "end_s", "tolerance"),
    [
        (10**6, 60.0, 60.0206, 1.00001),
        # a burst at 2 % of the line rate
        (4096, 0.000406, 0.0203, 1.00001),
        (4096, 0.000406, 0.0203, 3.0),
    ],
)
def test_late_sending_within_20_ms_is_detected(frames, duration_s, end_s, tolerance):
    times = (0.0, 0.0005, end_s - 0.0102, end_s + 0.0001)
    sending = measure(frames, 0.0, end_s, duration_s, *times)
    verdict = judge_sending(sending, frames, duration_s, tolerance)
    assert not verdict.valid
    assert f"sending took {end_s:.1f}" in verdict.reasons[0]


def test_sending_time_between_rare_readings_is_not_proven():
    """The frames may or may not have been sent in time."""
    sending = measure(10**6, 0.0, 60.0, 60.0, 0.0, 30.0, 60.02)
    assert sending.time_s - sending.error_s == pytest.approx(60.0)
    verdict = judge_sending(sending, 10**6, 60.0)
    assert not verdict.valid
    assert "not proven" in verdict.reasons[0]
    assert judge_sending(sending, 10**6, 60.0, 1.02).valid


def test_wait_for_first_frame_is_not_sending_time():
    assert measure(1000, 0.05, 1.05, 1.0, 0.0, 0.049, 0.051, 1.0, 1.0501).max_s < 1.005
    assert measure(1000, 0.05, 1.05, 1.0, 1.0501).max_s > 1.25


def test_early_start_counts_as_sending_time():
    """TRex's scheduler may wake up before the start time."""
    early = measure(1000, -0.02, 1.0, 1.0, -0.0205, -0.01, 1.0001)
    assert early.max_s == pytest.approx(1.0217, abs=1e-3)
    assert not judge_sending(early, 1000, 1.0, 1.01).valid


def test_frames_that_never_left_have_no_time():
    assert measure(1000, 0.0, 1.0, 1.0, 0.5) is None


COUNT, RATE = 1000, 2000.0
TOLERANCE = 1.005
# Interval between two readings [s].
LOOK_S = 0.0004
PLUGIN, STREAMS = compile_plugin("nat44", 84)


class Server:
    """Fake TRex with a cable between its ports: all requested frames come back.

    Attributes:
        macs: destination and source addresses of the received streams, by port.
        left: frames of an earlier phase that are left from each burst, by direction.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tester: TrexTester
        self.late_s = {0: 0.0, 1: 0.0}  # additional sending time by port
        self.macs: dict[int, set[str]] = {}
        self.left = {"forward": 0, "reverse": 0}
        self.copies = 0  # frames that the device repeats, per burst of the Initiator

    def start(self, **options):
        self.tester = TrexTester(TrexOptions(sample=0, **options), PLUGIN.links, loopback=True)
        self.tester.attachment.facts = ServerFacts(
            ports=[PortFacts(n, "net_memif", is_virtual=True) for n in (0, 1)]
        )
        self.tester.load(STREAMS, PLUGIN)

    def ask(self, op, /, *, watch=None, deadline_s=0.0, **arguments):
        return getattr(self, op)(**arguments)

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
                    flow = {"tx_pkts": {name: burst["frames"]}, "rx_pkts": {str(back): received}}
                    flows[str(burst["pg_id"])] = flow
            for request in (one for one in captures if one["ports"] == [back]):
                matching = [b for b in sent if is_captured(streams, b, request["kind"])]
                captured = []
                if request["kind"] != "marked":
                    captured = [f for b in matching for f in self.make_received(streams, b)]
                if request["kind"] == "recording":
                    Path(request["path"]).write_bytes(make_pcap(captured[: request["limit"]]))
                    captured = []
                matched = sum(b["frames"] for b in matching)
                encoded = [[0.0, base64.b64encode(f).decode()] for f in captured]
                collected.append({**request, "matched": matched, "frames": encoded})
        raw = {"ports": ports, "groups": {"flow_stats": flows}, "captures": collected}
        readings = self.make_counter_readings(bursts, due_s)
        return parse_trial({**raw, "counter_readings": readings, "began_ago_s": due_s})

    def make_counter_readings(self, bursts, due_s):
        """Return dense readings at start and end; ports send evenly, but too long."""
        frames = {int(p): sum(b["frames"] for b in sent) for p, sent in bursts.items()}
        takes = {p: due_s * (1 - 1 / n) + self.late_s[p] for p, n in frames.items()}
        ends = [takes[p] + k * LOOK_S for p in frames for k in (-1, 1)]

        def count_sent(port, at):
            count = 1 + int((frames[port] - 1) * at / takes[port] + 1e-9)
            return 0 if at <= 0 else min(frames[port], count)

        times = sorted([-0.2, 0.0, LOOK_S, *ends])
        return [(at, {str(p): count_sent(p, at) for p in frames}, at + LOOK_S / 10) for at in times]

    def make_received(self, streams, burst):
        """Return the leftovers, frames and copies of a burst."""
        frames, left = make_frames(streams, burst), self.left[streams.direction]
        copies = frames[: self.copies] if streams.direction == "forward" else []
        return [*(make_leftover(f) for f in frames[len(frames) - left :]), *frames, *copies]


def is_captured(streams, burst, kind):
    """Check whether a kind of capture matches the frames of a burst."""
    marked, stamped = is_marked(streams.streams[burst["index"]]), burst["pg_id"] is not None
    return {"marked": marked, "sample": stamped, "control": False}.get(kind, True)


def make_frames(streams, burst):
    """Return the frames of a burst with TRex's stamp or the program's mark."""
    stream = streams.streams[burst["index"]]
    program = dict((stream.render() if isinstance(stream, connections.Block) else stream).trex)
    if "vm" in program:
        program["vm"] = unpack_lists(program["vm"])
    if burst.get("nonce") is not None:
        program["packet"] = with_nonce(program["packet"], burst["nonce"])
    rows = Expander(replace(stream, trex=program)).frames(0, burst["frames"])
    if burst["pg_id"] is not None:
        rows[:, -16:] = 0
        seq = (np.arange(len(rows)) + FIRST_SEQUENCE) % (1 << 32)
        trailer.stamp(rows, stream.checksum, seq=seq, stream_id=burst["pg_id"], nonce=1, time_ns=9)
    return [row.tobytes() for row in rows]


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Provide a server with a table of twenty blocks, of which a validation stamps one."""
    monkeypatch.setattr(connections, "MAX_ROWS", 50)
    server = Server(tmp_path)
    monkeypatch.setattr(Attachment, "ask", server.ask)
    server.start()
    yield server
    server.tester.close()


def make_trial(connections, **changes):
    return Trial(
        "t", "t", 84, 84, "bidirectional", RATE, connections.phase_one_s, 0.1, 0.0,
        connections=connections, **changes,
    )  # fmt: skip


REUSE = Connections(COUNT, RATE, 0.1, 0.0, reuse=True)


def establish_connections(server):
    """Run phase 1; return the tester, the result and its verdict."""
    trial = make_trial(Connections(COUNT, RATE, 0.1, 0.0, alpha=1.0, purpose="establish"))
    tester = TwoPhaseTester(server.tester, None)
    result = tester.measure(trial)
    return tester, result, judge_connections(trial, result, sending_time_tolerance=TOLERANCE)


@pytest.mark.parametrize(
    ("late_s", "valid"), [(0.0, True), (0.001, True), (0.0035, False), (0.0201, False)]
)
def test_phase_one_and_the_validation_are_proven_or_invalid(server, late_s, valid):
    for port, phase in ((0, "phase 1 took"), (1, "the validation took")):
        server.late_s = {0: 0.0, 1: 0.0, port: late_s}
        _, result, verdict = establish_connections(server)
        counted = result.connections
        assert result.faults == ()
        assert (counted.sent, counted.learned, counted.validated) == (COUNT, COUNT, COUNT)
        time_s = (counted.sending_time_s, counted.validation_time_s)[port]
        # never too low, and as exact as the readings
        assert 0.5 + late_s <= time_s <= 0.5 + late_s + 3 * LOOK_S
        assert verdict.valid is valid
        assert [reason.startswith(phase) for reason in verdict.reasons] == [True] * (not valid)


def test_connections_use_addresses_of_server_ports(server):
    sides = {
        side: {"tester_mac": f"02:00:00:00:0{n}:02", "dut_mac": f"02:00:00:00:0{n}:01"}
        for n, side in enumerate(("left", "right"))
    }
    server.start(**sides)
    tester, *_ = establish_connections(server)
    tester.measure(make_trial(REUSE))
    assert server.macs == {0: {"020000000001020000000002"}, 1: {"020000000101020000000102"}}


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize(("late_s", "valid"), [(0.001, True), (0.0035, False), (0.0201, False)])
def test_phase_two_is_proven_or_invalid(server, direction, late_s, valid):
    tester, *_ = establish_connections(server)
    server.late_s[["forward", "reverse"].index(direction)] = late_s
    trial = make_trial(REUSE)
    result = tester.measure(trial)
    assert result.faults == ()
    counted = result.directions[direction]
    assert counted.count_frames("sent") == counted.count_frames("received") == COUNT
    assert 0.5 + late_s <= counted.max_sending_time_s <= 0.5 + late_s + 3 * LOOK_S
    verdict = assess_trial(trial, result, sending_time_tolerance=TOLERANCE)
    assert verdict.valid is valid
    assert [f"{direction}: sending took" in r for r in verdict.reasons] == [True] * (not valid)


@pytest.mark.parametrize(("most_fps", "left"), [(2 * RATE, 0), (RATE, 0), (2 * RATE, 20)])
def test_some_frames_of_connections_are_compared_at_any_rate(server, monkeypatch, most_fps, left):
    """Compare all received frames, or those that TRex can stamp, but none of an earlier trial."""
    tester, *_ = establish_connections(server)
    monkeypatch.setattr(trex_bursts, "MAX_STAMPED_FPS", most_fps)
    server.tester._options = TrexOptions(sample=30)
    server.left = {"forward": left, "reverse": left}
    result = tester.measure(make_trial(REUSE))
    assert result.tester["counting"] == ("ports" if most_fps < 2 * RATE else "trailer")
    for counted in result.directions.values():
        assert counted.count_frames("sent") == counted.count_frames("received") == COUNT
        assert counted.checked == counted.matched >= 30


@pytest.mark.parametrize(("rows", "share"), [(50, None), (20, 21 * 20 / COUNT)])
def test_share_of_timed_connections_is_reported(server, monkeypatch, rows, share):
    monkeypatch.setattr(connections, "MAX_ROWS", rows)
    tester, *_ = establish_connections(server)
    # the Initiator's field engine program enumerates all connections
    for delays in (DelayRequest(tags=100), DelayRequest(tags=0), None):
        directions = tester.measure(make_trial(REUSE, delays=delays)).directions
        shares = {direction: counted.timed_share for direction, counted in directions.items()}
        assert shares == {"forward": None, "reverse": share if delays else None}


NONCE = -15  # Octet of the trial in the trailer


def make_leftover(frame):
    """Return the frame with an earlier trial's trailer and another UDP source port."""
    octets = bytearray(frame)
    octets[NONCE] ^= 0xF0
    octets[-8:] = (5).to_bytes(8, "little")  # when it left
    octets[34:36] = b"\x99\x99"
    return bytes(octets)


@pytest.mark.parametrize(
    ("left", "copies", "learned", "surplus", "reasons"),
    [
        ({"forward": 90}, 0, COUNT, 0, ["90 frames"]),
        # the recording has no room for the last 50 frames
        ({"forward": 150}, 0, COUNT - 50, 0, ["150 frames", "TRex recorded"]),
        # per block: one of twenty is stamped, the others are marked
        ({"reverse": 3}, 0, COUNT, 0, ["60 frames"]),
        # a device's copies are counted, also those that the recording has no room for
        ({}, 300, COUNT, 300, ["surplus of"]),
    ],
)
def test_leftover_frames_make_phase_one_invalid_but_are_not_learned(
    server, monkeypatch, left, copies, learned, surplus, reasons
):
    establish_connections(server)
    expected = server.tester._connections._table.rows.copy()
    monkeypatch.setattr(capture, "SPARE_FRAMES", 100)
    server.left, server.copies = {"forward": 0, "reverse": 0, **left}, copies
    _, result, verdict = establish_connections(server)
    counted = result.connections
    assert (counted.learned, counted.surplus, counted.duplicate_tuples) == (learned, surplus, 0)
    assert (verdict.valid, verdict.passed) == (not left, False)
    assert [" ".join(reason.split()[:2]) for reason in verdict.reasons] == reasons
    if "reverse" in left:
        assert counted.validated == COUNT
        assert result.directions["reverse"].classes["fg"].surplus == 0
    if learned == COUNT:
        assert (server.tester._connections._table.rows == expected).all()


@pytest.mark.parametrize(("nonce", "octet"), [(7, 7), (None, 0)])
def test_worker_writes_the_nonce_of_the_trial_into_marked_frames(nonce, octet):
    worker = StlWorker()
    worker.api = SimpleNamespace(STLStream=SimpleNamespace(from_json=lambda stream: stream))
    blank = base64.b64encode(bytes(64)).decode()
    worker.load(0, [{"name": "fg", "packet": {"binary": blank}}])
    burst = {"index": 0, "frames": 1, "pps": 1.0, "isg": 0.0, "pg_id": None, "times": 1}
    for _ in range(2):
        stream = worker.make_stream(0, {**burst, "gap_us": 0.0, "nonce": nonce}, 0)
        packet = base64.b64decode(stream["packet"]["binary"])
        assert (packet[NONCE], sum(packet)) == (octet, octet)
