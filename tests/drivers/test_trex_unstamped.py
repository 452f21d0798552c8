"""Streams told by marks of their own: what they count, compare and leave to TRex's stamps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.runs.bench import compile_point
from v6t.drivers.trex import counting
from v6t.drivers.trex.bursts import OfferedLoad, make_bursts
from v6t.drivers.trex.capture import CaptureReader, compare_frames, make_batches, make_class_filter
from v6t.drivers.trex.kind import Trex
from v6t.drivers.trex.stats import TrialStats
from v6t.drivers.trex.streams import MARKED_CLASSES, mark_streams
from v6t.profiles.expand import Expander
from v6t.profiles.model import Role
from v6t.profiles.streams import StreamSet
from v6t.trials.trial import Trial


def compiled(plugin="mape-br", size=104, params=None):
    run = resolve(flags=Flags(plugin=plugin, tester="sim", params=params or {}))
    made = bind(run).technology
    return made, compile_point(made, made.make_frame_pair(size), run.seed)


@pytest.mark.parametrize("size", [104, 600, 1518])
@pytest.mark.parametrize("way", ["forward", "reverse"])
@pytest.mark.parametrize("plugin", ["mape-br", "ipv6-router", "nat64"])
def test_what_their_programs_send_is_what_is_compared(plugin, way, size):
    _, both = compiled(plugin, size)
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
    _, both = compiled("mape-br")
    own = both["reverse"].streams[0]
    two = StreamSet("reverse", (own, replace(own, stream_id=65, role=Role.NEGATIVE, name="bad")))
    streams = mark_streams(two)
    trial = Trial(
        "throughput", "t", 104, 64, "reverse", 1000.0, 1.0, 0.1, 0.1, search_limit_fps=1e8
    )
    burst = make_bursts(streams, trial, stamp=True, samples=200)
    assert all(b.pg_id is None and not b.tags for b in burst)
    sent = OfferedLoad(streams, burst, 1, (0,), 7)
    assert sent.is_identified and not sent.stamped_bursts
    assert set(sent.marked_classes) == {0, 1}
    assert "ether[len - 15] = 7 " in make_class_filter(
        1, 7
    )  # late frames of others are not counted
    assert [request["nonce"] for request in sent.make_requests()] == [7, 7]
    captures = [
        {"kind": "marked", "port": 0, "class": 0, "matched": 499},
        {"kind": "marked", "port": 0, "class": 1, "matched": 3},
        {"kind": "marked", "port": 1, "class": 1, "matched": 77},
    ]
    ports = {"0": {"ipackets": 505}, "1": {"opackets": 1000}}
    counted = counting.count_by_trailer(
        TrialStats.model_validate({"ports": ports, "captures": captures}), [sent]
    )
    good, bad = counted.classes[own.name], counted.classes["bad"]
    assert (good.sent, good.received, bad.role, bad.received) == (500, 499, "negative", 3)
    assert counted.control == 3


def test_more_classes_than_marks_tell_and_lengths_that_differ_are_left_to_stamps():
    _, both = compiled("mape-br")
    own = both["forward"].streams[0]
    many = [replace(own, stream_id=n, name=f"c{n}") for n in range(MARKED_CLASSES + 1)]
    assert mark_streams(StreamSet("forward", tuple(many))) is None
    assert len(mark_streams(StreamSet("forward", tuple(many[:-1]))).streams) == MARKED_CLASSES
    _, long = compiled("mape-br", 1518)
    _, longer = compiled("mape-br", 1280)
    mixed = StreamSet("forward", (long["forward"].streams[0], longer["forward"].streams[0]))
    assert mark_streams(mixed) is None


@pytest.mark.parametrize(
    ("options", "marks"),
    [
        ({"lab": True}, True),
        ({"lab": True, "marks": False}, False),
        ({"interfaces": ["eth1", "eth2"]}, True),
        ({"interfaces": ["eth1", "eth2"], "marks": False}, False),
        ({"interfaces": ["eth1", "eth2"], "marks": True}, True),
        ({"lab": True, "marks": True}, True),
        ({"interfaces": ["03:00.0", "03:00.1"]}, False),
        ({"interfaces": ["03:00.0", "03:00.1"], "marks": True}, True),
        ({}, False),
    ],
)
def test_the_user_is_told_what_marks_do_not_see(options, marks):
    said = " ".join(Trex(options).list_warnings())
    assert ("duplicate" in said) == marks
    # what marks cannot tell, or what is timed, is counted by ports beyond TRex's stamps
    assert "its ports" in said


def test_the_user_is_told_what_several_cores_do_not_see():
    nics = {"interfaces": ["03:00.0", "03:00.1"]}
    hides = "may be counted as a test frame, hide a lost one"
    assert any(hides in said for said in Trex({**nics, "cores": 2}).list_warnings())
    assert not any(hides in said for said in Trex({**nics, "counting": "ports"}).list_warnings())


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
        ({"start": "always", "interfaces": ["03:00.0", "03:00.1"]}, set(), 1000.0, "trailer"),
        ({}, {"every-frame", "ipdv"}, 2.6e6, "trailer"),
        ({"counting": "ports"}, set(), 1.0, "ports"),
        ({"interfaces": ["03:00.0", "03:00.1"], "cores": 2}, {"tags"}, 1.0, "ports"),
        ({"marks": True}, set(), 5e6, f"marks{FOUND}"),
        ({"marks": True}, {"tags"}, 1e6, f"trailer{FOUND}"),
        ({}, {"connections"}, 1e6, "marks or trailer"),
        ({"lab": True}, set(), 10_000.0, "trailer"),
        ({"lab": True, "core_list": [0, 0, 1]}, set(), 20_000.0, "marks"),
        ({"lab": True, "core_list": [0, 1, 2]}, set(), 20_000.0, "trailer"),
        ({"interfaces": ["eth1", "eth2"]}, set(), 5e6, f"marks or {PORTS}{FOUND}"),
    ],
)
def test_how_frames_will_be_counted_is_known_beforehand(options, needs, most_fps, said):
    assert Trex(options).describe_counting(frozenset(needs), "bidirectional", most_fps) == said


def test_stamps_and_marks_and_both_are_called_so():
    _, both = compiled("mape-br")
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
