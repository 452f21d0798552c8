"""Streams without stamps on TRex: marks, lists, counts and limits."""

import base64
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from v6t.drivers.oracle.connection_oracle import find_foreground
from v6t.drivers.oracle.replay import Replay
from v6t.drivers.oracle.state_table import MemoryFile, StateTable
from v6t.drivers.trex import connections, counting
from v6t.drivers.trex import streams as trex_streams
from v6t.drivers.trex.bursts import OfferedLoad, make_bursts
from v6t.drivers.trex.capture import (
    CaptureReader,
    compare_frames,
    make_batches,
    make_class_filter,
    make_mark_sample_filter,
    select_current_frames,
)
from v6t.drivers.trex.client.stl import unpack_lists
from v6t.drivers.trex.connections import cycle_through, find_connections, make_blocks
from v6t.drivers.trex.kind import Trex
from v6t.drivers.trex.streams import (
    MARKED_CLASSES,
    is_marked,
    mark_streams,
    with_checksum_fixes,
    with_mark,
)
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


def read_captured(frames, distance):
    return CaptureReader.read([(np.zeros(len(frames)), frames)], distance)


@pytest.mark.parametrize("size", [84, 128, 511, 512, 513, 516, 520, 524, 525, 528, 540, 1518])
def test_mark_identifies_stream_and_number_at_any_length(size):
    own = replace(
        find_foreground(compile_plugin("nat44", size)[1]["reverse"]),
        stream_id=trex_streams.MARK_IDS + 300,
    )
    made = with_checksum_fixes(with_mark(own))
    program = [i for i in made.trex["vm"]["instructions"] if i["type"] == "write_flow_var"]
    assert max(i["pkt_offset"] + 4 for i in program) <= MAX_OFFSET
    frames = Expander(made).frames(70_000, 20)
    assert verify(frames).all()
    stream = trex_streams.MARK_IDS + 300
    reader = read_captured(frames, trex_streams.compute_number_distance(frames.shape[1]))
    assert (list(reader.samples), reader.frames) == ([stream], 20)
    number = reader.select_columns([stream]).sequence
    assert number.tolist() == list(range(70_000, 70_020))
    # TRex's receiver reserves numbers below 128
    assert (trailer.read(frames).stream_id >= 128).all()
    # the same frames, built from the connection's values
    again = Expander(own).frames(0, 20)
    trex_streams.write_numbers(again, number, own.checksum)
    marks = trailer.read(frames)
    trailer.stamp(again, own.checksum, seq=marks.seq, stream_id=own.stream_id, nonce=0, time_ns=0)
    assert (again == frames).all()


@pytest.mark.parametrize(("frames", "wanted"), [(100, 200), (1000, 10), (70_000, 3), (1 << 25, 1)])
def test_samples_are_evenly_spread(frames, wanted):
    pattern = make_mark_sample_filter(frames, wanted, 12)
    terms = re.findall(r"ether\[len - (\d+)\] & (\d+) = 0", pattern)
    mask = sum(int(m) << 8 * (int(at) - 9) for at, m in terms)
    kept = len(range(0, frames, mask + 1))
    assert mask & (mask + 1) == 0
    assert min(frames, wanted) <= kept <= 2 * wanted


def test_truncated_and_foreign_frames_are_not_read():
    cut = np.zeros(3), np.zeros((3, 10), np.uint8)
    assert not list(select_current_frames([cut], 0))
    assert not read_captured(np.zeros((3, 80), np.uint8), 12).samples


def test_stamped_frame_among_marked_ones_has_the_number_of_its_stamp():
    stamp = np.zeros((1, 80), np.uint8)
    trailer.stamp(stamp, None, seq=np.array([5]), stream_id=9, nonce=0, time_ns=1)
    assert read_captured(stamp, 12).select_columns([9]).sequence.tolist() == [7]


@pytest.fixture
def table(monkeypatch):
    monkeypatch.setattr(connections, "MAX_ROWS", 64)
    file = MemoryFile(COUNT * 12)
    found = StateTable(file.path, COUNT)
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 256, (COUNT, 12), dtype=np.uint8)
    found.learn(np.arange(COUNT), rows)
    yield found
    file.close()


def list_blocks(table, stamps=3, size=84):
    own = find_foreground(compile_plugin("nat44", size)[1]["reverse"])
    order = np.random.default_rng(1).permutation(COUNT).astype(np.int32)
    replay = lambda at, blocks, mine: Replay(own, table, partial(cycle_through, mine))  # noqa: E731
    return make_blocks(own, order, replay, 64, stamps), order


def build_block_frames(block):
    """Build the frames of a block as the server does from the worker's request."""
    program = block.render().trex
    vm = unpack_lists(program["vm"])
    stream = replace(block, trex={**program, "vm": vm})
    return Expander(stream)


@pytest.mark.parametrize("size", [84, 1518])
def test_blocks_in_turn_send_the_connections_in_their_order(table, size):
    made, order = list_blocks(table, size=size)
    number = len(made)
    assert number == 16
    stamped_ = [b for b in made if b.is_timed]
    assert [made.index(b) for b in stamped_] == [0, 5, 10]
    for at, block in enumerate(made):
        assert block.connections.tolist() == order[at::number].tolist()
        rows = len(block.connections)
        sent = build_block_frames(block).frames(0, 2 * rows)  # the list repeats once
        wanted = block.source().frames(0, 2 * rows)
        end = sent.shape[1] - trailer.LENGTH
        far = sent.shape[1] - trex_streams.compute_number_distance(sent.shape[1])
        same = [i for i in range(end) if not far <= i < far + 4 and i not in (40, 41)]
        assert (sent[:, same] == wanted[:, same]).all()
        assert verify(sent).all()
        if not block.is_timed:
            told = block.locate(sent)
            assert told.tolist() == block.connections.tolist() * 2


def test_validation_frames_identify_their_connections(table):
    made, _ = list_blocks(table, stamps=1)
    seen = []
    for block in made:
        rows = len(block.connections)
        frames = build_block_frames(block).frames(0, rows)
        if block.is_timed:  # TRex writes its stamp last
            blank = frames.copy()
            blank[:, -16:] = 0
            seq = (np.arange(rows) + (1 << 32) - 2) % (1 << 32)
            trailer.stamp(blank, None, seq=seq, stream_id=77, nonce=1, time_ns=9)
            frames = blank
        reader = read_captured(frames, trex_streams.compute_number_distance(frames.shape[1]))
        (number,) = reader.samples
        told = find_connections(made, number)[reader.select_columns([number]).sequence]
        assert told.tolist() == block.connections.tolist()
        seen += told.tolist()
    assert sorted(seen) == list(range(COUNT))
    assert not len(find_connections(made, trex_streams.MARK_IDS + len(made)))
    assert not len(find_connections(made[1:], 77))  # no stamped block


def make_marked_set(table):
    return StreamSet("reverse", list_blocks(table)[0])


def make_trial(**more):
    return Trial("t", "t", 84, 84, "reverse", 1600.0, 10.0, **more)


def test_tags_and_stamps_stay_with_the_blocks_that_have_identifiers(table):
    streams_ = make_marked_set(table)
    marked = [is_marked(s) for s in streams_.streams]
    for asked in (None, DelayRequest(tags=30), DelayRequest(tags=0)):
        found = make_bursts(streams_, make_trial(delays=asked), stamp=True)
        assert sum(b.frames for b in found) == 16_000
        assert all((b.pg_id is None) == marked[b.index] for b in found)
        assert sum(b.frames for b in found if b.is_tagged) == (asked.tags if asked else 0)
        sent = OfferedLoad(streams_, found, 1, (0,))
        assert sent.has_identified_frames
        assert len(sent.marked_bursts) == 13


def make_answer(sent, received, opackets):
    stamped, capture = sent.stamped_bursts, {"kind": "marked", "class": 0, "frames": []}
    flows = {
        str(b.pg_id): {"tx_pkts": {"1": b.frames}, "rx_pkts": {"0": b.frames}} for b in stamped
    }
    marked = received - sum(b.frames for b in stamped)
    return {
        "ports": {"0": {"ipackets": received + 7}, "1": {"opackets": opackets}},
        "groups": {"flow_stats": flows},
        "captures": [
            {**capture, "port": 0, "matched": marked},
            {**capture, "port": 3, "matched": 99},
        ],
    }


@pytest.mark.parametrize(("received", "surplus"), [(16_000, 0), (15_990, 0), (16_004, 4)])
def test_marked_and_stamped_frames_are_one_class(table, received, surplus):
    streams_ = make_marked_set(table)
    sent = OfferedLoad(streams_, make_bursts(streams_, make_trial(), stamp=True), 1, (0,))
    counted = counting.count_by_trailer(parse_trial(make_answer(sent, received, 16_000)), [sent])
    (one,) = counted.classes.values()
    assert (one.required, one.sent) == (16_000, 16_000)
    assert (one.received, one.surplus) == (received - surplus, surplus)
    assert counted.control == 7


def test_packed_lists_are_the_values(table):
    values = [1, 258, 65_535]
    packed = base64.b64encode(b"".join(v.to_bytes(2, "big") for v in values)).decode()
    listed_ = {"type": "flow_var", "size": 2, "packed": packed, "value_list": None}
    plain = {"type": "write_flow_var"}
    assert unpack_lists({"instructions": [listed_, plain], "cache": 1}) == {
        "instructions": [{"type": "flow_var", "size": 2, "value_list": values}, plain],
        "cache": 1,
    }


def test_other_streams_keep_their_shares_where_connections_are_in_blocks(monkeypatch):
    monkeypatch.setattr(connections, "MAX_ROWS", 4)
    plugin, compiled = compile_plugin("nat44", 84)
    own = find_foreground(compiled["reverse"])
    others = [replace(own, stream_id=n, weight=n, role=Role.BACKGROUND) for n in (1, 2)]
    learned = connections.LearnedConnections(recordings=None)
    learned.load(compiled, plugin, loopback=True)
    asked = Connections(12, 100.0)
    learned.make_table(asked)
    made = learned.make_phase_two(StreamSet("reverse", (own, *others)), None, asked).streams
    assert [s.weight for s in made] == [own.weight] * 3 + [3, 6]
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
    ("tester", "count", "said"),
    [
        ("embedded", "16000000", "16,000,000 connections take up to 1.8 GiB of memory, this"),
        ("trex", "16000000", "688,128 of 16,000,000 connections"),
        ("trex", "268000000", "at most 16,777,216 rows; 268,000,000 connections are more"),
    ],
)
def test_cost_of_many_connections_is_announced(tester, count, said):
    result = v6t(
        *("run", "--plugin", "nat44", "--tester", tester, "--dut", "nftables", "--dry-run"),
        *(("--set-tester", "lab=true") if tester == "trex" else ()),
        *("--measure", "throughput,latency", "--mode", "reverse"),
        *(w for name, value in WIDE.items() for w in ("--set", f"{name}={value}")),
        *("--set-procedure", f"connections.count={count}"),
    )
    assert said in " ".join((result.out + result.err).split())
    assert result.status == (2 if "are more" in said else 0)


@pytest.mark.parametrize("size", [104, 600, 1518])
@pytest.mark.parametrize("way", ["forward", "reverse"])
@pytest.mark.parametrize("plugin", ["mape-br", "ipv6-router", "nat64"])
def test_compared_frames_equal_sent_frames(plugin, way, size):
    _, both = compile_plugin(plugin, size)
    streams = mark_streams(both[way])
    frames = [
        (0.0, row.tobytes()) for s in streams.streams for row in Expander(s).frames(70_000, 40)
    ]
    load = OfferedLoad(streams, [], 0, (1,))
    found = compare_frames(CaptureReader.read(make_batches(frames)), [load])
    assert (found.checked, found.matched) == (len(frames), len(frames))
    spoilt = [(0.0, f[:30] + bytes([f[30] ^ 1]) + f[31:]) for _, f in frames]
    found = compare_frames(CaptureReader.read(make_batches(spoilt)), [load])
    assert found.matched == 0


def test_a_trial_is_counted_class_by_class():
    _, both = compile_plugin("mape-br")
    own = both["reverse"].streams[0]
    two = StreamSet("reverse", (own, replace(own, stream_id=65, role=Role.NEGATIVE, name="bad")))
    streams = mark_streams(two)
    trial = Trial(
        "throughput", "t", 104, 64, "reverse", 1000.0, 1.0, 0.1, 0.1, search_limit_fps=1e8
    )
    burst = make_bursts(streams, trial, stamp=True, samples=200)
    assert all(b.pg_id is None and not b.is_tagged for b in burst)
    sent = OfferedLoad(streams, burst, 1, (0,), 7)
    assert sent.has_identified_frames and not sent.stamped_bursts
    assert set(sent.marked_classes) == {0, 1}
    assert "ether[len - 15] = 7 " in make_class_filter(
        1, 7
    )  # late frames of other trials are not counted
    assert [request["nonce"] for request in sent.make_requests()] == [7, 7]
    captures = [
        {"kind": "marked", "port": 0, "class": 0, "matched": 499},
        {"kind": "marked", "port": 0, "class": 1, "matched": 3},
        {"kind": "marked", "port": 1, "class": 1, "matched": 77},
    ]
    ports = {"0": {"ipackets": 505}, "1": {"opackets": 1000}}
    counted = counting.count_by_trailer(parse_trial({"ports": ports, "captures": captures}), [sent])
    good, bad = counted.classes[own.name], counted.classes["bad"]
    assert (good.sent, good.received, bad.role, bad.received) == (500, 499, "negative", 3)
    assert counted.control == 3


def test_too_many_classes_or_lengths_are_not_marked():
    _, both = compile_plugin("mape-br")
    own = both["forward"].streams[0]
    many = [replace(own, stream_id=n, name=f"c{n}") for n in range(MARKED_CLASSES + 1)]
    assert mark_streams(StreamSet("forward", tuple(many))) is None
    assert len(mark_streams(StreamSet("forward", tuple(many[:-1]))).streams) == MARKED_CLASSES
    _, long = compile_plugin("mape-br", 1518)
    _, longer = compile_plugin("mape-br", 1280)
    mixed = StreamSet("forward", (long["forward"].streams[0], longer["forward"].streams[0]))
    assert mark_streams(mixed) is None


NICS = {"interfaces": ["03:00.0", "03:00.1"]}
FOUND = ", or ports where the server has several cores"
PORTS = "trailer up to 2,500,000 fps, by ports beyond"


@pytest.mark.parametrize(
    ("options", "needs", "most_fps", "said"),
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
def test_counting_method_is_described_in_advance(options, needs, most_fps, said):
    assert Trex(options).describe_counting(frozenset(needs), "bidirectional", most_fps) == said


def test_counting_by_stamps_and_marks_is_named():
    _, both = compile_plugin("mape-br")
    marked = mark_streams(both["forward"])
    trial = Trial("throughput", "t", 104, 64, "forward", 1000.0, 1.0)
    own = both["forward"]
    stamps, marks, plain = (
        OfferedLoad(streams, make_bursts(streams, trial, stamp=stamp), 0, (1,))
        for streams, stamp in ((own, True), (marked, True), (own, False))
    )
    assert counting.describe_counting([stamps]) == "trailer"
    assert counting.describe_counting([marks]) == "marks"
    assert counting.describe_counting([stamps, marks]) == "trailer and marks"
    assert counting.describe_counting([stamps, plain]) == "ports"
