"""Streams without stamps on TRex: marks, lists, counts and limits."""

from contextlib import closing
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from v6t.drivers.oracle.connection_oracle import find_foreground
from v6t.drivers.oracle.replay import Replay
from v6t.drivers.oracle.state_table import MemoryFile, StateTable
from v6t.drivers.trex import capture, connections, counting
from v6t.drivers.trex import streams as trex_streams
from v6t.drivers.trex.bursts import OfferedLoad, make_bursts
from v6t.drivers.trex.client.stl import unpack_lists
from v6t.drivers.trex.connections import cycle_through, find_connections, make_blocks
from v6t.drivers.trex.kind import Trex
from v6t.drivers.trex.streams import is_marked, mark_streams
from v6t.packets import trailer
from v6t.profiles.compiler.instructions import MAX_OFFSET
from v6t.profiles.expand import Expander
from v6t.profiles.model import Role
from v6t.profiles.streams import StreamSet
from v6t.tests.core.support import v6t
from v6t.tests.expect import expect_error
from v6t.tests.packets.oracle import verify
from v6t.trials.connections import Connections
from v6t.trials.trial import DelayRequest, Trial

from .faketrex import parse_trial
from .lab_testers import compile_plugin

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
    frames = Expander(marked).frames(70_000, 20)
    assert verify(frames).all()
    reader = read_captured(frames)
    assert (list(reader.samples), reader.frames) == ([stream_id], 20)
    numbers = reader.select_columns([stream_id]).sequence
    assert numbers.tolist() == list(range(70_000, 70_020))
    marks = trailer.read(frames)
    # TRex's receiver reserves numbers below 128
    assert (marks.stream_id >= 128).all()
    # the same frames, built from the connection's values
    rebuilt = Expander(own).frames(0, 20)
    trex_streams.write_numbers(rebuilt, numbers, own.checksum)
    trailer.stamp(rebuilt, own.checksum, seq=marks.seq, stream_id=stream_id, nonce=0, time_ns=0)
    assert (rebuilt == frames).all()


def test_truncated_and_foreign_frames_are_not_read():
    cut, foreign = ((np.zeros(3), np.zeros((3, octets), np.uint8)) for octets in (10, 80))
    assert not list(capture.select_current_frames([cut], 0))
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


def list_blocks(table, stamps=3, size=84):
    """Return the blocks of the connections, and the order in which these are sent."""
    stream = find_reverse_stream(size)
    order = np.random.default_rng(1).permutation(COUNT).astype(np.int32)

    def replay(at, blocks, connections):
        return Replay(stream, table, partial(cycle_through, connections))

    return make_blocks(stream, order, replay, 64, stamps), order


def build_block_frames(block, count):
    """Build the frames of a block as the server does from the worker's request."""
    program = block.render().trex
    stream = replace(block, trex={**program, "vm": unpack_lists(program["vm"])})
    return Expander(stream).frames(0, count)


@pytest.mark.parametrize("size", [84, 1518])
def test_blocks_in_turn_send_the_connections_in_their_order(table, size):
    blocks, order = list_blocks(table, size=size)
    assert len(blocks) == 16
    assert [number for number, block in enumerate(blocks) if block.is_timed] == [0, 5, 10]
    for number, block in enumerate(blocks):
        assert block.connections.tolist() == order[number::16].tolist()
        count = 2 * len(block.connections)  # the list repeats once
        sent, expected = build_block_frames(block, count), block.source().frames(0, count)
        end = sent.shape[1] - trailer.LENGTH
        far = sent.shape[1] - trex_streams.compute_number_distance(sent.shape[1])
        same = [i for i in range(end) if not far <= i < far + 4 and i not in (40, 41)]
        assert (sent[:, same] == expected[:, same]).all()
        assert verify(sent).all()
        if not block.is_timed:
            assert block.locate(sent).tolist() == block.connections.tolist() * 2


def test_validation_frames_identify_their_connections(table):
    blocks, _ = list_blocks(table, stamps=1)
    identified = []
    for block in blocks:
        frames = build_block_frames(block, len(block.connections))
        if block.is_timed:  # TRex writes its stamp last
            frames = frames.copy()
            frames[:, -16:] = 0
            seq = (np.arange(len(frames)) + trex_streams.FIRST_SEQUENCE) % (1 << 32)
            trailer.stamp(frames, None, seq=seq, stream_id=77, nonce=1, time_ns=9)
        reader = read_captured(frames)
        (number,) = reader.samples
        found = find_connections(blocks, number)[reader.select_columns([number]).sequence]
        assert found.tolist() == block.connections.tolist()
        identified += found.tolist()
    assert sorted(identified) == list(range(COUNT))
    assert not len(find_connections(blocks, trex_streams.MARK_IDS + len(blocks)))
    assert not len(find_connections(blocks[1:], 77))  # no stamped block


def make_trial(**more):
    return Trial("t", "t", 84, 84, "reverse", 1600.0, 10.0, **more)


def test_tags_and_stamps_stay_with_the_blocks_that_have_identifiers(table):
    streams = StreamSet("reverse", list_blocks(table)[0])
    marked = [is_marked(s) for s in streams.streams]
    for delays, tags in ((None, 0), (DelayRequest(tags=30), 30), (DelayRequest(tags=0), 0)):
        bursts = make_bursts(streams, make_trial(delays=delays), stamp=True)
        assert sum(b.frames for b in bursts) == 16_000
        assert all((b.pg_id is None) == marked[b.index] for b in bursts)
        assert sum(b.frames for b in bursts if b.is_tagged) == tags
        load = OfferedLoad(streams, bursts, 1, (0,))
        assert load.has_identified_frames
        assert len(load.marked_bursts) == 13


@pytest.mark.parametrize(("received", "surplus"), [(16_000, 0), (15_990, 0), (16_004, 4)])
def test_marked_and_stamped_frames_are_one_class(table, received, surplus):
    streams = StreamSet("reverse", list_blocks(table)[0])
    load = OfferedLoad(streams, make_bursts(streams, make_trial(), stamp=True), 1, (0,))
    flows = {
        str(b.pg_id): {"tx_pkts": {"1": b.frames}, "rx_pkts": {"0": b.frames}}
        for b in load.stamped_bursts
    }
    marked = received - sum(b.frames for b in load.stamped_bursts)
    answer = {
        "ports": {"0": {"ipackets": received + 7}, "1": {"opackets": 16_000}},
        "groups": {"flow_stats": flows},
        "captures": [
            {"kind": "marked", "class": 0, "port": port, "matched": matched}
            for port, matched in ((0, marked), (3, 99))
        ],
    }
    counted = counting.count_by_trailer(parse_trial(answer), [load])
    (count,) = counted.classes.values()
    assert (count.required, count.sent) == (16_000, 16_000)
    assert (count.received, count.surplus) == (received - surplus, surplus)
    assert counted.control == 7


def test_other_streams_keep_their_shares_where_connections_are_in_blocks(monkeypatch):
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


@pytest.mark.parametrize(
    ("most", "needs", "code"),
    [
        (1 << 28, (), "too-many-for-trex"),
        ((1 << 24) + 1, (), "too-many-for-trex"),
        (100, ("two-rates", "loss-times"), "unsupported-by-tester"),
        (100, ("flow-starts",), "unsupported-by-tester"),
        (4_000_000, ("frame-timeout",), "too-many-for-trex"),
        (100_000, ("every-frame", "ipdv"), "too-many-for-trex"),
    ],
)
def test_too_many_connections_are_rejected(most, needs, code):
    with expect_error(code):
        connections.check_connections(most, frozenset(needs))


def test_large_connection_counts_need_memory():
    connections.check_connections(1 << 24, frozenset({"tags", "every-frame"}))
    connections.check_connections(688_128, frozenset({"frame-timeout"}))
    assert list(connections.describe_costs(500_000, frozenset({"tags"}))) == []
    delays, memory = connections.describe_costs(4_000_000, frozenset({"tags"}))
    assert "688,128 of 4,000,000" in delays
    assert "GiB of " in memory
    assert len(list(connections.describe_costs(4_000_000, frozenset()))) == 1


# More than 268 million four-tuples.
WIDE = {
    **{"initiator_ports.min": "1024", "initiator_ports.max": "65535"},
    **{"responder_ports.min": "1", "responder_ports.max": "5000"},
}


@pytest.mark.parametrize(
    ("tester", "count", "text", "status"),
    [
        ("embedded", "16000000", "16,000,000 connections take up to 1.8 GiB of memory, this", 0),
        ("trex", "16000000", "688,128 of 16,000,000 connections", 0),
        ("trex", "268000000", "at most 16,777,216 rows; 268,000,000 connections are more", 2),
    ],
)
def test_cost_of_many_connections_is_announced(tester, count, text, status):
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
    frames = [f.tobytes() for s in streams.streams for f in Expander(s).frames(70_000, 40)]
    corrupted = [f[:30] + bytes([f[30] ^ 1]) + f[31:] for f in frames]
    for captured, matched in ((frames, len(frames)), (corrupted, 0)):
        reader = capture.CaptureReader(capture.make_batches([(0.0, frame) for frame in captured]))
        compared = capture.compare_frames(reader, [load])
        assert compared.matched == matched
        assert compared.checked == len(frames) or not matched


def test_a_trial_is_counted_class_by_class():
    own = compile_plugin()[1]["reverse"].streams[0]
    negative = replace(own, stream_id=65, role=Role.NEGATIVE, name="bad")
    streams = mark_streams(StreamSet("reverse", (own, negative)))
    trial = Trial(
        "throughput", "t", 104, 64, "reverse", 1000.0, 1.0, 0.1, 0.1, search_limit_fps=1e8
    )
    bursts = make_bursts(streams, trial, stamp=True, samples=200)
    assert all(b.pg_id is None and not b.is_tagged for b in bursts)
    load = OfferedLoad(streams, bursts, 1, (0,), 7)
    assert load.has_identified_frames and not load.stamped_bursts
    assert set(load.marked_classes) == {0, 1}
    # late frames of other trials are not counted
    assert "ether[len - 15] = 7 " in capture.make_class_filter(1, 7)
    assert [request["nonce"] for request in load.make_requests()] == [7, 7]
    captures = [
        {"kind": "marked", "port": port, "class": number, "matched": matched}
        for port, number, matched in ((0, 0, 499), (0, 1, 3), (1, 1, 77))
    ]
    ports = {"0": {"ipackets": 505}, "1": {"opackets": 1000}}
    counted = counting.count_by_trailer(parse_trial({"ports": ports, "captures": captures}), [load])
    good, bad = counted.classes[own.name], counted.classes["bad"]
    assert (good.sent, good.received, bad.role, bad.received) == (500, 499, "negative", 3)
    assert counted.control == 3


def test_too_many_classes_or_lengths_are_not_marked():
    (own, *_), (long, *_), (longer, *_) = (
        compile_plugin("mape-br", size)[1]["forward"].streams for size in (104, 1280, 1518)
    )
    many = [replace(own, stream_id=n, name=f"c{n}") for n in range(5)]
    assert mark_streams(StreamSet("forward", tuple(many))) is None
    assert len(mark_streams(StreamSet("forward", tuple(many[:-1]))).streams) == 4
    assert mark_streams(StreamSet("forward", (longer, long))) is None


NICS = {"interfaces": ["03:00.0", "03:00.1"]}
FOUND = ", or ports where the server has several cores"
PORTS = "trailer up to 2,500,000 fps, by ports beyond"


@pytest.mark.parametrize(
    ("options", "needs", "most_fps", "text"),
    [
        ({}, set(), 2.5e6, f"trailer{FOUND}"),
        ({}, set(), 2.6e6, f"{PORTS}{FOUND}"),
        ({}, {"tags"}, 2.6e6, f"{PORTS}{FOUND}"),
        ({"server": "203.0.113.1"}, {"tags"}, 1000.0, f"trailer{FOUND}"),
        ({"counting": "trailer"}, set(), 1000.0, "trailer"),
        ({**NICS, "start": "always"}, set(), 1000.0, "trailer"),
        ({}, {"every-frame", "ipdv"}, 2.6e6, "trailer"),
        ({"counting": "ports"}, set(), 1.0, "ports"),
        ({**NICS, "cores": 2}, {"tags"}, 1.0, f"trailer{FOUND}"),
        ({**NICS, "cores": 2, "start": "always"}, {"tags"}, 1.0, "ports"),
        ({"marks": True}, set(), 5e6, f"marks{FOUND}"),
        ({"marks": True}, {"tags"}, 1e6, f"trailer{FOUND}"),
        ({}, {"connections"}, 1e6, "marks or trailer"),
        ({"lab": True}, set(), 10_000.0, "trailer"),
        ({"lab": True}, set(), 20_000.0, "marks or trailer"),
        ({"lab": True, "core_list": [0, 0, 1]}, set(), 20_000.0, "marks"),
        ({"lab": True, "core_list": [0, 1, 2]}, set(), 20_000.0, "trailer"),
        ({"interfaces": ["eth1", "eth2"]}, set(), 5e6, f"marks or {PORTS}{FOUND}"),
    ],
)
def test_counting_method_is_described_in_advance(options, needs, most_fps, text):
    assert Trex(options).describe_counting(frozenset(needs), "bidirectional", most_fps) == text


def test_counting_by_stamps_and_marks_is_named():
    plain = compile_plugin()[1]["forward"]
    trial = Trial("throughput", "t", 104, 64, "forward", 1000.0, 1.0)
    stamped, marked, unmarked = (
        OfferedLoad(streams, make_bursts(streams, trial, stamp=stamp), 0, (1,))
        for streams, stamp in ((plain, True), (mark_streams(plain), True), (plain, False))
    )
    assert counting.describe_counting([stamped]) == "trailer"
    assert counting.describe_counting([marked]) == "marks"
    assert counting.describe_counting([stamped, marked]) == "trailer and marks"
    assert counting.describe_counting([stamped, unmarked]) == "ports"
