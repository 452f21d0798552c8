"""The sending time of TRex, computed from readings of port counters."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from v6t.core.config.resolve import resolve
from v6t.core.config.run_setup import make_setup
from v6t.core.runs.bench import compile_directions
from v6t.drivers.oracle.two_phase import TwoPhaseTester
from v6t.drivers.trex import bursts as trex_bursts
from v6t.drivers.trex import connections
from v6t.drivers.trex.attachment import Attachment
from v6t.drivers.trex.client.stats import CounterReading, PortFacts, ServerFacts
from v6t.drivers.trex.client.stl import unpack_lists, with_nonce
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
PLUGIN = make_setup(resolve(plugin="nat44", tester="sim")).technology


class Server:
    """Fake TRex with a cable between its ports: all requested frames come back.

    Attributes:
        late_s: additional sending time by port.
        macs: destination and source addresses of the received streams, by port.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tester: TrexTester
        self.late_s = {0: 0.0, 1: 0.0}
        self.macs: dict[int, set[str]] = {}

    def start(self, **options):
        self.tester = TrexTester(TrexOptions(sample=0, **options), PLUGIN.links, loopback=True)
        self.tester.attachment.facts = ServerFacts(
            ports=[PortFacts(n, "net_memif", is_virtual=True) for n in (0, 1)]
        )
        self.tester.load(compile_directions(PLUGIN, PLUGIN.make_frame_pair(84), 1), PLUGIN)

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
                    one = {"tx_pkts": {name: burst["frames"]}, "rx_pkts": {back: burst["frames"]}}
                    flows[str(burst["pg_id"])] = {
                        k: {str(p): n for p, n in v.items()} for k, v in one.items()
                    }
            for asked in (one for one in captures if one["port"] == back):
                of = [b for b in sent if self.tells(streams, b, asked["kind"])]
                matched, came = sum(b["frames"] for b in of), []
                if asked["kind"] != "marked":
                    came = [f for b in of for f in self.frames(streams, b)]
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
