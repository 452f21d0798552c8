"""Marked streams and learned connections on TRex: blocks, counting, sending times, stale frames and limits."""

import base64
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from v6t.drivers.oracle.connection_oracle import find_foreground
from v6t.drivers.oracle.replay import Replay
from v6t.drivers.oracle.state_table import MemoryFile, StateTable
from v6t.drivers.oracle.two_phase import TwoPhaseTester
from v6t.drivers.trex import bursts as trex_bursts
from v6t.drivers.trex import capture, connections, counting
from v6t.drivers.trex import streams as trex_streams
from v6t.drivers.trex.attachment import Attachment
from v6t.drivers.trex.bursts import OfferedLoad, make_bursts
from v6t.drivers.trex.client import stats
from v6t.drivers.trex.client.stl import unpack_lists, with_nonce
from v6t.drivers.trex.connections import cycle_through, find_connections, make_blocks
from v6t.drivers.trex.kind import Trex
from v6t.drivers.trex.options import TrexOptions
from v6t.drivers.trex.streams import is_marked, mark_streams
from v6t.drivers.trex.tester import TrexTester
from v6t.packets import trailer
from v6t.procedures.stateful.phases import judge_connections
from v6t.profiles.compiler.instructions import MAX_OFFSET
from v6t.profiles.expand import Expander
from v6t.profiles.model import Role
from v6t.profiles.streams import StreamSet
from v6t.tests.core.support import v6t
from v6t.tests.expect import expect_error
from v6t.tests.packets.oracle import verify
from v6t.trials.connections import Connections
from v6t.trials.trial import DelayRequest, Trial
from v6t.trials.verdict import assess_trial

from .faketrex import read_steady_ports, stamp_frames
from .lab_testers import compile_plugin
from .test_trex_counting import make_pcap

COUNT = 1000


def read_captured(frames):
    distance = trex_streams.compute_number_distance(frames.shape[1])
    return capture.CaptureReader([(np.zeros(len(frames)), frames)], distance)


def find_reverse_stream(size=84):
    return find_foreground(compile_plugin("nat44", size)[1]["reverse"])


@pytest.mark.parametrize("size", [84, 128, 511, 512, 513, 516, 520, 524, 525, 528, 540, 1518])
def test_mark_identifies_stream_and_number_at_any_length(size):
    stream_id = trex_streams.MARK_IDS + 300
    own = replace(find_reverse_stream(size), stream_id=stream_id)
    marked = trex_streams.with_checksum_fixes(trex_streams.with_mark(own))
    program = [i for i in marked.trex["vm"]["instructions"] if i["type"] == "write_flow_var"]
    assert max(i["pkt_offset"] + 4 for i in program) <= MAX_OFFSET
    frames = Expander(marked).compute_frames(70_000, 20)
    assert verify(frames).all()
    reader = read_captured(frames)
    assert (list(reader.samples), reader.frames) == ([stream_id], 20)
    numbers = reader.select_columns([stream_id]).sequence
    assert numbers.tolist() == list(range(70_000, 70_020))
    marks = trailer.read(frames)
    # TRex's receiver reserves numbers below 128
    assert (marks.stream_id >= 128).all()
    # the same frames, built from the values of the connections
    rebuilt = Expander(own).compute_frames(0, 20)
    trex_streams.write_numbers(rebuilt, numbers, own.checksum)
    trailer.stamp(rebuilt, own.checksum, seq=marks.seq, stream_id=stream_id, nonce=0, time_ns=0)
    assert (rebuilt == frames).all()


def test_truncated_and_foreign_frames_are_not_read():
    truncated, foreign = ((np.zeros(3), np.zeros((3, octets), np.uint8)) for octets in (10, 80))
    assert not list(capture.select_current_frames([truncated], 0))
    (((times_s, _), stale),) = capture.select_current_frames([foreign], 0)
    assert (len(times_s), stale) == (0, 3)


@pytest.fixture
def table(monkeypatch):
    monkeypatch.setattr(connections, "MAX_ROWS", 64)
    rows = np.random.default_rng(3).integers(0, 256, (COUNT, 12), dtype=np.uint8)
    with closing(MemoryFile(COUNT * 12)) as file:
        table = StateTable(file.path, COUNT)
        table.learn(np.arange(COUNT), rows)
        yield table


def build_frames(stream, count, group=None, nonce=None):
    """Build frames like TRex from the worker's request, with TRex's stamp in a latency group."""
    program = dict((stream.render() if isinstance(stream, connections.Block) else stream).trex)
    if "vm" in program:
        program["vm"] = unpack_lists(program["vm"])
    if nonce is not None:
        program["packet"] = with_nonce(program["packet"], nonce)
    frames = Expander(replace(stream, trex=program)).compute_frames(0, count)
    if group is not None:
        frames = frames.copy()
        stamp_frames(frames, group, 9, checksum=stream.checksum)
    return frames


def list_blocks(table, stamps=3, size=84):
    """Return the blocks of the connections, and the order in which the connections are sent."""
    stream = find_reverse_stream(size)
    order = np.random.default_rng(1).permutation(COUNT).astype(np.int32)

    def replay(at, blocks, connections):
        return Replay(stream, table, partial(cycle_through, connections))

    return make_blocks(stream, order, replay, 64, stamps), order


@pytest.mark.parametrize("size", [84, 1518])
def test_alternating_blocks_send_connections_in_order(table, size):
    blocks, order = list_blocks(table, size=size)
    assert len(blocks) == 16
    assert [number for number, block in enumerate(blocks) if block.is_timed] == [0, 5, 10]
    for index, block in enumerate(blocks):
        assert block.connections.tolist() == order[index::16].tolist()
        count = 2 * len(block.connections)  # the list of connections is sent twice
        sent, expected = build_frames(block, count), block.source().compute_frames(0, count)
        end = sent.shape[1] - trailer.LENGTH
        number = sent.shape[1] - trex_streams.compute_number_distance(sent.shape[1])
        same = [i for i in range(end) if not number <= i < number + 4 and i not in (40, 41)]
        assert (sent[:, same] == expected[:, same]).all()
        assert verify(sent).all()
        if not block.is_timed:
            assert block.locate(sent).tolist() == block.connections.tolist() * 2


def test_validation_frames_identify_their_connections(table):
    blocks, _ = list_blocks(table, stamps=1)
    identified = []
    for block in blocks:
        group = 77 if block.is_timed else None
        reader = read_captured(build_frames(block, len(block.connections), group))
        (number,) = reader.samples
        found = find_connections(blocks, number)[reader.select_columns([number]).sequence]
        assert found.tolist() == block.connections.tolist()
        identified += found.tolist()
    assert sorted(identified) == list(range(COUNT))
    assert not len(find_connections(blocks, trex_streams.MARK_IDS + len(blocks)))
    assert not len(find_connections(blocks[1:], 77))  # without a stamped block


def make_reverse_trial(**more):
    return Trial("t", "t", 84, 84, "reverse", 1600.0, 10.0, **more)


def test_tags_and_stamps_use_blocks_with_identifiers(table):
    streams = StreamSet("reverse", list_blocks(table)[0])
    marked = [is_marked(s) for s in streams.streams]
    for delays, tags in ((None, 0), (DelayRequest(tags=30), 30), (DelayRequest(tags=0), 0)):
        bursts = make_bursts(streams, make_reverse_trial(delays=delays), stamp=True)
        assert sum(b.frames for b in bursts) == 16_000
        assert all((b.pg_id is None) == marked[b.index] for b in bursts)
        assert sum(b.frames for b in bursts if b.is_tagged) == tags
        load = OfferedLoad(streams, bursts, 1, (0,))
        assert load.has_identified_frames
        assert len(load.marked_bursts) == 13


@pytest.mark.parametrize(("received", "surplus"), [(16_000, 0), (15_990, 0), (16_004, 4)])
def test_marked_and_stamped_frames_are_one_class(table, received, surplus):
    streams = StreamSet("reverse", list_blocks(table)[0])
    load = OfferedLoad(streams, make_bursts(streams, make_reverse_trial(), stamp=True), 1, (0,))
    groups = {b.pg_id: stats.GroupStats({1: b.frames}, {0: b.frames}) for b in load.stamped_bursts}
    captured = received - sum(b.frames for b in load.stamped_bursts)
    trial = stats.TrialStats(
        {0: stats.PortStats(0, received + 7, 0, 0), 1: stats.PortStats(16_000, 0, 0, 0)},
        groups,
        [stats.Capture("marked", [0], captured), stats.Capture("marked", [3], 99)],
    )
    counted = counting.count_by_trailer(trial, [load])
    (count,) = counted.classes.values()
    assert (count.required, count.sent) == (16_000, 16_000)
    assert (count.received, count.surplus) == (received - surplus, surplus)
    assert counted.control == 7


def test_other_streams_keep_their_shares_next_to_blocks(monkeypatch):
    monkeypatch.setattr(connections, "MAX_ROWS", 4)
    plugin, compiled = compile_plugin("nat44", 84)
    own = find_foreground(compiled["reverse"])
    others = [replace(own, stream_id=n, weight=n, role=Role.BACKGROUND) for n in (1, 2)]
    learned = connections.LearnedConnections(recordings=None)
    learned.load(compiled, plugin, loopback=True)
    request = Connections(12, 100.0)
    learned.make_table(request)
    streams = learned.make_phase_two(StreamSet("reverse", (own, *others)), None, request).streams
    assert [s.weight for s in streams] == [own.weight] * 3 + [3, 6]
    learned.close()


@pytest.mark.parametrize(("most", "needs", "code"), [
    ((1 << 24) + 1, (), "too-many-for-trex"),
    (100, ("two-rates", "loss-times"), "unsupported-by-tester"),
    (100, ("flow-starts",), "unsupported-by-tester"),
    (4_000_000, ("frame-timeout",), "too-many-for-trex"),
    (100_000, ("every-frame", "ipdv"), "too-many-for-trex"),
])  # fmt: skip
def test_too_many_connections_are_rejected(most, needs, code):
    with expect_error(code):
        connections.check_connections(most, frozenset(needs))


def test_large_connection_counts_need_memory():
    connections.check_connections(1 << 24, frozenset({"tags", "every-frame"}))
    connections.check_connections(688_128, frozenset({"frame-timeout"}))
    assert list(connections.describe_costs(500_000, frozenset({"tags"}))) == []
    delays, memory = connections.describe_costs(4_000_000, frozenset({"tags"}))
    assert "688,128 of 4,000,000" in delays and "GiB of " in memory
    assert len(list(connections.describe_costs(4_000_000, frozenset()))) == 1


# More than 268 million four-tuples.
WIDE = {"initiator_ports.min": "1024", "initiator_ports.max": "65535",
        "responder_ports.min": "1", "responder_ports.max": "5000"}  # fmt: skip


@pytest.mark.parametrize(("tester", "count", "text", "status"), [
    ("embedded", "16000000", "16,000,000 connections take up to 1.8 GiB of memory, this", 0),
    ("trex", "16000000", "688,128 of 16,000,000 connections", 0),
    ("trex", "268000000", "at most 16,777,216 rows; 268,000,000 connections are more", 2),
])  # fmt: skip
def test_cost_of_many_connections_is_shown_by_dry_run(tester, count, text, status):
    result = v6t(
        *("run", "--plugin", "nat44", "--tester", tester, "--dut", "nftables", "--dry-run"),
        *(("--set-tester", "lab=true") if tester == "trex" else ()),
        *("--measure", "throughput,latency", "--mode", "reverse"),
        *(w for name, value in WIDE.items() for w in ("--set", f"{name}={value}")),
        *("--set-procedure", f"connections.count={count}"),
    )
    assert text in " ".join((result.out + result.err).split())
    assert result.status == status


@pytest.mark.parametrize("size", [104, 600, 1518])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("plugin", ["mape-br", "ipv6-router", "nat64"])
def test_compared_frames_equal_sent_frames(plugin, direction, size):
    streams = mark_streams(compile_plugin(plugin, size)[1][direction])
    load = OfferedLoad(streams, [], 0, (1,))
    frames = [f.tobytes() for s in streams.streams for f in Expander(s).compute_frames(70_000, 40)]
    corrupted = [f[:30] + bytes([f[30] ^ 1]) + f[31:] for f in frames]
    for captured, matched in ((frames, len(frames)), (corrupted, 0)):
        reader = capture.CaptureReader(capture.make_batches([(0.0, frame) for frame in captured]))
        compared = capture.compare_frames(reader, [load])
        assert compared.matched == matched
        assert compared.checked == len(frames) or not matched


def test_marked_trial_is_counted_by_class():
    own = compile_plugin()[1]["reverse"].streams[0]
    negative = replace(own, stream_id=65, role=Role.NEGATIVE, name="bad")
    streams = mark_streams(StreamSet("reverse", (own, negative)))
    trial = Trial("throughput", "t", 104, 64, "reverse", 1000.0, 1.0, search_limit_fps=1e8)
    bursts = make_bursts(streams, trial, stamp=True, samples=200)
    load = OfferedLoad(streams, bursts, 1, (0,), 7)
    assert load.has_identified_frames and not load.stamped_bursts
    counts = ((0, 499, 0), (0, 3, 1), (1, 77, 1))
    captures = [stats.Capture("marked", [port], n, number) for port, n, number in counts]
    ports = {0: stats.PortStats(0, 505, 0, 0), 1: stats.PortStats(1000, 0, 0, 0)}
    counted = counting.count_by_trailer(stats.TrialStats(ports, captures=captures), [load])
    good, bad = counted.classes[own.name], counted.classes["bad"]
    assert (good.sent, good.received, bad.role, bad.received) == (500, 499, "negative", 3)
    assert good.out_of_order is bad.out_of_order is None  # marks show no order
    assert counted.control == 3


def test_too_many_classes_or_lengths_are_not_marked():
    compiled = [compile_plugin("mape-br", size)[1]["forward"] for size in (104, 1280, 1518)]
    own, long, longer = (streams.streams[0] for streams in compiled)
    many = [replace(own, stream_id=n, name=f"c{n}") for n in range(5)]
    assert mark_streams(StreamSet("forward", tuple(many))) is None
    assert len(mark_streams(StreamSet("forward", tuple(many[:-1]))).streams) == 4
    assert mark_streams(StreamSet("forward", (longer, long))) is None


NICS = {"interfaces": ["03:00.0", "03:00.1"]}
IF_SEVERAL_CORES = ", or ports where the server has several cores"
PORTS = "trailer up to 2,500,000 fps, by ports beyond"


@pytest.mark.parametrize(("options", "needs", "most_fps", "text"), [
    ({}, set(), 2.5e6, f"trailer{IF_SEVERAL_CORES}"),
    ({}, set(), 2.6e6, f"{PORTS}{IF_SEVERAL_CORES}"),
    ({"server": "203.0.113.1"}, {"tags"}, 1000.0, f"trailer{IF_SEVERAL_CORES}"),
    ({"counting": "trailer"}, set(), 1000.0, "trailer"),
    ({**NICS, "start": "always"}, set(), 1000.0, "trailer"),
    ({}, {"every-frame", "ipdv"}, 2.6e6, "trailer"),
    ({"counting": "ports"}, set(), 1.0, "ports"),
    ({**NICS, "cores": 2}, {"tags"}, 1.0, f"trailer{IF_SEVERAL_CORES}"),
    ({**NICS, "cores": 2, "start": "always"}, {"tags"}, 1.0, "ports"),
    ({"marks": True}, set(), 5e6, f"marks{IF_SEVERAL_CORES}"),
    ({"marks": True}, {"tags"}, 1e6, f"trailer{IF_SEVERAL_CORES}"),
    ({}, {"connections"}, 1e6, "marks or trailer"),
    ({"lab": True}, set(), 10_000.0, "trailer"),
    ({"lab": True}, set(), 20_000.0, "marks or trailer"),
    ({"lab": True, "core_list": [0, 0, 1]}, set(), 20_000.0, "marks"),
    ({"lab": True, "core_list": [0, 1, 2]}, set(), 20_000.0, "trailer"),
    ({"interfaces": ["eth1", "eth2"]}, set(), 5e6, f"marks or {PORTS}{IF_SEVERAL_CORES}"),
])  # fmt: skip
def test_counting_method_is_described_in_advance(options, needs, most_fps, text):
    assert Trex(options).describe_counting(frozenset(needs), "bidirectional", most_fps) == text


RATE = 2000.0
TOLERANCE = 1.005
# Interval between two counter readings [s].
READING_INTERVAL_S = 0.0004
PLUGIN, STREAMS = compile_plugin("nat44", 84)


class FakeServer:
    """Fake TRex server with a cable between its ports, which receives all requested frames.

    Attributes:
        macs: Destination and source addresses of the loaded streams, by port.
        stale: Number of frames of an earlier phase that arrive with each burst, by direction.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tester: TrexTester
        self.late_s = {0: 0.0, 1: 0.0}  # additional sending time by port
        self.macs: dict[int, set[str]] = {}
        self.stale = {"forward": 0, "reverse": 0}
        self.copies = 0  # number of frames that the device duplicates, per burst of the Initiator

    def start(self, **options):
        self.tester = TrexTester(TrexOptions(sample=0, **options), PLUGIN.links, loopback=True)
        ports = [stats.PortFacts(n, "net_memif", is_virtual=True) for n in (0, 1)]
        self.tester.attachment.facts = stats.ServerFacts(ports=ports)
        self.tester.load(STREAMS, PLUGIN)

    def ask(self, op, /, *, watch=None, deadline_s=0.0, **arguments):
        return getattr(self, op)(**arguments)

    def make_directory(self):
        return str(self.directory)

    def load(self, *, port, streams, **_):
        packets = [base64.b64decode(s["packet"]["binary"]) for s in streams]
        self.macs.setdefault(port, set()).update(packet[:12].hex() for packet in packets)

    def remove_file(self, path):
        Path(path).unlink()

    def run_trial(self, *, bursts, due_s, captures, **_):
        sent = {int(port): sum(b["frames"] for b in own) for port, own in bursts.items()}
        ports = {p: stats.PortStats(sent.get(p, 0), sent.get(1 - p, 0), 0, 0) for p in (0, 1)}
        stamped = [(int(p), b) for p in bursts for b in bursts[p] if b["pg_id"] is not None]
        groups = {
            b["pg_id"]: stats.GroupStats(
                {p: b["frames"]}, {1 - p: b["frames"] + (1 - p) * self.copies}
            )
            for p, b in stamped
        }
        # readings at start and end of sending, which takes ``late_s`` longer
        sending_s = {p: (0.0, due_s + self.late_s[p]) for p in sent}
        last_s = [end_s * (1 - 1 / sent[p]) for p, (_, end_s) in sending_s.items()]
        times_s = [end_s + k * READING_INTERVAL_S for end_s in last_s for k in (-1, 1)]
        times_s = sorted([-0.2, 0.0, READING_INTERVAL_S, *times_s])
        readings = read_steady_ports(times_s, sending_s, sent, READING_INTERVAL_S / 10)
        captured = [self.capture(request, bursts) for request in captures]
        return stats.TrialStats(ports, groups, captured, readings, began_ago_s=due_s)

    def capture(self, request, bursts):
        """Capture the frames that arrive at the port of a request."""
        (port,), kind = request["ports"], request["kind"]
        streams = self.tester._installed[1 - port]
        matching = [b for b in bursts[str(1 - port)] if is_captured(streams, b, kind)]
        received = [] if kind == "marked" else [
            frame for burst in matching for frame in self.make_received(streams, burst)
        ]  # fmt: skip
        if kind == "recording":
            Path(request["path"]).write_bytes(make_pcap(received[: request["limit"]]))
            received = []
        encoded = [(0.0, base64.b64encode(frame).decode(), port) for frame in received]
        return stats.Capture(
            kind, [port], sum(b["frames"] for b in matching), request["class"], encoded
        )

    def make_received(self, streams, burst):
        """Return the stale frames, the frames and the duplicates of a burst."""
        stream, stale = streams.streams[burst["index"]], self.stale[streams.direction]
        rows = build_frames(stream, burst["frames"], burst["pg_id"], burst.get("nonce"))
        frames = [row.tobytes() for row in rows]
        copies = frames[: self.copies] if streams.direction == "forward" else []
        return [*(make_stale_frame(f) for f in frames[len(frames) - stale :]), *frames, *copies]


def is_captured(streams, burst, kind):
    """Check whether a kind of capture matches the frames of a burst."""
    marked, stamped = is_marked(streams.streams[burst["index"]]), burst["pg_id"] is not None
    return {"marked": marked, "sample": stamped, "control": False}.get(kind, True)


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Provide a fake server; the table has twenty blocks, of which a validation stamps one."""
    monkeypatch.setattr(connections, "MAX_ROWS", 50)
    server = FakeServer(tmp_path)
    monkeypatch.setattr(Attachment, "ask", server.ask)
    server.start()
    yield server
    server.tester.close()


def make_trial(connections, **changes):
    return Trial("t", "t", 84, 84, "bidirectional", RATE, connections.phase_one_s, 0.1, 0.0,
                 connections=connections, **changes)  # fmt: skip


REUSE = Connections(COUNT, RATE, 0.1, 0.0, reuse=True)


def establish_connections(server):
    """Run phase 1; return the tester, the result and its verdict."""
    trial = make_trial(Connections(COUNT, RATE, 0.1, 0.0, alpha=1.0, purpose="establish"))
    tester = TwoPhaseTester(server.tester, None)
    result = tester.measure(trial)
    return tester, result, judge_connections(trial, result, sending_time_tolerance=TOLERANCE)


@pytest.mark.parametrize(("late_s", "valid"),
                         [(0.0, True), (0.001, True), (0.0035, False), (0.0201, False)])  # fmt: skip
def test_phase_one_and_the_validation_are_proven_or_invalid(server, late_s, valid):
    for port, phase in ((0, "phase 1 took"), (1, "the validation took")):
        server.late_s = {0: 0.0, 1: 0.0, port: late_s}
        _, result, verdict = establish_connections(server)
        counted = result.connections
        assert result.faults == ()
        assert (counted.sent, counted.learned, counted.validated) == (COUNT, COUNT, COUNT)
        time_s = (counted.sending_time_s, counted.validation_time_s)[port]
        # never too short, and as exact as the counter readings
        assert 0.5 + late_s <= time_s <= 0.5 + late_s + 3 * READING_INTERVAL_S
        assert verdict.valid is valid
        assert [reason.startswith(phase) for reason in verdict.reasons] == [True] * (not valid)


def test_connections_use_addresses_of_server_ports(server):
    starts = ("02:00:00:00:00", "02:00:00:00:01")
    left, right = ({"tester_mac": f"{start}:02", "dut_mac": f"{start}:01"} for start in starts)
    server.start(left=left, right=right)
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
    assert 0.5 + late_s <= counted.max_sending_time_s <= 0.5 + late_s + 3 * READING_INTERVAL_S
    verdict = assess_trial(trial, result, sending_time_tolerance=TOLERANCE)
    assert verdict.valid is valid
    assert [f"{direction}: sending took" in r for r in verdict.reasons] == [True] * (not valid)


@pytest.mark.parametrize(("most_fps", "stale"), [(2 * RATE, 0), (RATE, 0), (2 * RATE, 20)])
def test_some_frames_of_connections_are_compared_at_any_rate(server, monkeypatch, most_fps, stale):
    """All received frames, or those that TRex stamps, are compared, but no stale frames."""
    tester, *_ = establish_connections(server)
    monkeypatch.setattr(trex_bursts, "MAX_STAMPED_FPS", most_fps)
    server.tester._options = TrexOptions(sample=30)
    server.stale = {"forward": stale, "reverse": stale}
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
        result = tester.measure(make_trial(REUSE, delays=delays))
        assert result.tester["counting"] == ("trailer" if share is None else "trailer and marks")
        shares = {name: counted.timed_share for name, counted in result.directions.items()}
        assert shares == {"forward": None, "reverse": share if delays else None}


def make_stale_frame(frame):
    """Return the frame with the trailer of an earlier trial and another UDP source port."""
    octets = bytearray(frame)
    octets[-15] ^= 0xF0  # nonce of the trial
    octets[-8:] = (5).to_bytes(8, "little")  # departure time
    octets[34:36] = b"\x99\x99"
    return bytes(octets)


@pytest.mark.parametrize(("stale", "copies", "learned", "surplus", "reasons"), [
    ({"forward": 90}, 0, COUNT, 0, ["90 frames"]),
    # the recording has no room for the last 50 frames
    ({"forward": 150}, 0, COUNT - 50, 0, ["150 frames", "TRex recorded"]),
    # three per block; one of twenty blocks is stamped, the others are marked
    ({"reverse": 3}, 0, COUNT, 0, ["60 frames"]),
    # duplicates of the device are counted, even without room in the recording
    ({}, 300, COUNT, 300, ["surplus of"]),
])  # fmt: skip
def test_stale_frames_make_phase_one_invalid_but_are_not_learned(
    server, monkeypatch, stale, copies, learned, surplus, reasons
):
    establish_connections(server)
    expected = server.tester._connections._table.rows.copy()
    monkeypatch.setattr(capture, "SPARE_FRAMES", 100)
    server.stale, server.copies = {"forward": 0, "reverse": 0, **stale}, copies
    _, result, verdict = establish_connections(server)
    counted = result.connections
    assert (counted.learned, counted.surplus, counted.duplicate_tuples) == (learned, surplus, 0)
    assert (verdict.valid, verdict.passed) == (not stale, False)
    assert [" ".join(reason.split()[:2]) for reason in verdict.reasons] == reasons
    if "reverse" in stale:
        assert counted.validated == COUNT
        assert result.directions["reverse"].classes["fg"].surplus == 0
    if learned == COUNT:
        assert (server.tester._connections._table.rows == expected).all()
