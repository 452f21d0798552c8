"""Recordings of TRex: delays, losses, two rates and flows that begin in turn."""

import struct
from dataclasses import replace

import numpy as np
import pytest
from v6t.drivers.trex import capture, counting, timing
from v6t.drivers.trex import streams as trex_streams
from v6t.drivers.trex.bursts import (
    GROUPS_PER_DIRECTION,
    Burst,
    OfferedLoad,
    add_second_rate,
    make_bursts,
    make_sequential_flows,
)
from v6t.drivers.trex.capture import CaptureReader, read_recording
from v6t.drivers.trex.streams import FIRST_SEQUENCE, read_numbers, with_mark, with_stamps
from v6t.packets import trailer
from v6t.profiles import entropy
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.compiler.schedule import list_classes_with_index
from v6t.profiles.expand import Expander
from v6t.profiles.rows import convert_to_rows
from v6t.profiles.streams import start_at_frame
from v6t.tests.expect import expect_error
from v6t.trials.result import ClassCount, DirectionResult
from v6t.trials.trial import DelayRequest, FlowStarts, Segment, Trial

from .faketrex import parse_trial
from .lab_testers import compile_plugin
from .test_trex_counting import STREAMS, make_trial


def make_pcap(frames, *, order="<", cut=0, magic=0xA1B2C3D4):
    head = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, 1)
    records = [
        struct.pack(f"{order}IIII", 1, k, len(f) - cut, len(f)) + f[: len(f) - cut]
        for k, f in enumerate(frames)
    ]
    return head + b"".join(records)


def make_frame(seq, length=64):
    tail = struct.pack("<BBHIQ", 0xAB, 0, 3, seq & 0xFFFFFFFF, 77)
    return bytes(length - 16) + tail


def read(tmp_path, data):
    path = tmp_path / "r.pcap"
    path.write_bytes(data)
    return [frames for _, frames in read_recording(path)]


@pytest.mark.parametrize("order", ["<", ">"])
def test_equal_lengths_are_one_view_of_the_file(tmp_path, order):
    sent = [make_frame(k - 2) for k in range(100)]
    (found,) = read(tmp_path, make_pcap(sent, order=order))
    assert found.tobytes() == b"".join(sent)
    assert read_numbers(found).tolist() == list(range(100))


def test_mixed_lengths_come_together(tmp_path):
    sent = [make_frame(k, 64 if k % 3 else 80) for k in range(30)]
    found = read(tmp_path, make_pcap(sent))
    assert sorted(f.shape for f in found) == [(10, 80), (20, 64)]
    assert b"".join(f.tobytes() for f in found if f.shape[1] == 80) == b"".join(sent[::3])


def test_a_record_that_was_being_written_is_left_out(tmp_path):
    (found,) = read(tmp_path, make_pcap([make_frame(0), make_frame(1)])[:-5])
    assert len(found) == 1


@pytest.mark.parametrize("data", [b"", make_pcap([])])
def test_empty_recording_has_no_frames(tmp_path, data):
    assert read(tmp_path, data) == []


@pytest.mark.parametrize("data", [b"x" * 100, make_pcap([make_frame(1)], cut=4)])
def test_unusable_recording_is_rejected(tmp_path, data):
    with expect_error("tester-fault"):
        read(tmp_path, data)


HERTZ = 2.600517e9


def make_recording(number, delays_us, spread_s, seed):
    """Make frames of one stream ID; the same clock stamps and records."""
    rng = np.random.default_rng(seed)
    left_s = 81_234.5 + np.sort(rng.uniform(0, spread_s, len(delays_us)))
    frames = np.zeros((len(delays_us), 104), dtype=np.uint8)
    trailer.stamp(
        frames, None, seq=np.arange(len(delays_us)), stream_id=number, nonce=0,
        time_ns=np.rint(left_s * HERTZ).astype(np.int64),
    )  # fmt: skip
    return np.round(left_s + delays_us / 1e6, 6), frames


@pytest.mark.parametrize("spread_s", [0.5, 60.0])
def test_delays_are_right_to_two_microseconds_whatever_the_frequency(spread_s):
    rng = np.random.default_rng(4)
    meant = {7: 20 + rng.exponential(80, 5000), 9: 35 + rng.exponential(300, 4000)}
    found = CaptureReader()
    for number, delays_us in meant.items():
        times_s, frames = make_recording(number, delays_us, spread_s, number)
        for part in range(0, len(frames), 1500):
            found.add(times_s[part : part + 1500], frames[part : part + 1500])
    found.add(np.zeros(3), np.zeros((3, 104), dtype=np.uint8))  # not ours
    assert set(found.samples) == {7, 9}
    least = {"a": meant[7].min(), "b": meant[9].min()}
    told = timing.measure_delays(found, {7: "a", 9: "b"}, least)
    for name, number in (("a", 7), ("b", 9)):
        delays_us = np.repeat(told[name].values_ns, told[name].counts) / 1000
        error_us = np.sort(meant[number]) - np.sort(delays_us)
        assert np.abs(error_us).max() < 2
    assert set(timing.measure_delays(found, {7: "a", 9: "b"}, {"a": 1.0})) == {"a"}
    assert timing.measure_delays(CaptureReader(), {7: "a"}, least) == {}


@pytest.mark.parametrize(
    ("duration_s", "delays", "apart", "stamped"),
    [
        (12.0, DelayRequest(tags=600, first_tag_s=6.0), 4, 600),
        (1.0, DelayRequest(), 2, 5000),
        (1.0, DelayRequest(), 4, 2500),
        (1.0, DelayRequest(), 200, 50),
    ],
)
def test_stamped_bursts_are_part_of_the_load(duration_s, delays, apart, stamped):
    trial = make_trial(10_000.0, duration_s, delays=delays)
    found = make_bursts(STREAMS["forward"], trial, stamp=True, stamp_all=False, interval=apart)
    load = OfferedLoad(STREAMS["forward"], found, 0, (1,))
    assert load.frames == trial.frames
    assert sum(b.frames for b in load.stamped_bursts) == pytest.approx(stamped, rel=0.02)
    sending_s = duration_s - delays.first_tag_s
    assert sum(b.pps for b in load.stamped_bursts) == pytest.approx(stamped / sending_s, rel=0.02)


@pytest.mark.parametrize("lost", [0, 3])
def test_unrecorded_received_frames_are_not_lost(lost):
    trial = make_trial(1000.0, 1.0, delays=DelayRequest())
    found = make_bursts(STREAMS["forward"], trial, stamp=True, stamp_all=False, interval=4)
    mine = [b for b in found if b.index == 0]
    one = OfferedLoad(STREAMS["forward"], mine, 0, (1,))
    (stamped,) = one.stamped_bursts
    came = stamped.frames - lost
    rows = make_recording(77, np.linspace(50, 900, came - 2), 1.0, 1)
    reader = CaptureReader()
    reader.add(*rows)
    group = str(stamped.pg_id)
    raw = {
        "groups": {
            "flow_stats": {group: {"rx_pkts": {"1": came}, "tx_pkts": {"0": stamped.frames}}},
            "latency": {group: {"latency": {"total_min": 50}, "err_cntrs": {}}},
        }
    }
    timed = timing.add_sampled_delays(
        counting.DirectionCounts({}, 0), one, parse_trial(raw), reader
    )
    for tags in (True, False):
        (delays,) = counting.make_distributions(timed, [one], tags=tags).values()
        assert (delays.frames, delays.lost) == (came - 2, lost)
        assert delays.minimum_ns == 50_000


PLUGIN, _STREAMS = compile_plugin(n="10", m="9")
STAMPED = with_stamps(_STREAMS["forward"])
HZ = 2e9


def make_recovery_trial(**more):
    return Trial("system-recovery", "t", 104, 64, "forward", 1000.0, 2.0, **more)


def make_recovery_load():
    segment = Segment(500.0, 4.0)
    streams, found = add_second_rate(STAMPED, make_recovery_trial(second_segment=segment), segment)
    return OfferedLoad(streams, found, 0, (1,))


def test_second_rate_continues_numbers_of_first():
    sent = make_recovery_load()
    assert sent.frames == 4000
    assert [b.frames for b in sent.bursts] == [1800, 200, 1800, 200]
    assert [b.pps for b in sent.bursts] == [900, 100, 450, 50]
    first, second = sent.bursts[:2], sent.bursts[2:]
    for before, after, place in zip(first, second, (0, 5), strict=True):
        assert after.isg == pytest.approx(2e6 + place / 500 * 1e6)
        assert before.isg == pytest.approx(place / 1000 * 1e6)
    assert len({b.pg_id for b in sent.bursts}) == 4
    assert [s.name for s in sent.streams.streams] == ["fg", "bg", "fg", "bg"]
    # 64 to 127 belong to the other direction
    numbers = [s.stream_id for s in sent.streams.streams]
    assert len(set(numbers)) == 4 and max(numbers) < GROUPS_PER_DIRECTION
    for number, stream in enumerate(STAMPED.streams):
        frames = sent.bursts[number].frames
        wanted = Expander(start_at_frame(stream, frames)).frames(0, 20)
        assert (Expander(sent.streams.streams[2 + number]).frames(0, 20) == wanted).all()


def make_frames(numbers, stream_id, began_s, pps):
    """Make stamped frames in order of arrival, with arrival times."""
    seq = np.asarray(numbers)
    left = ((began_s + seq / pps) * HZ).astype(np.uint64)
    frames = np.zeros((len(seq), 80), np.uint8)
    marks = (seq + FIRST_SEQUENCE) % (1 << 32)
    trailer.stamp(frames, None, seq=marks, stream_id=stream_id, nonce=0, time_ns=left)
    return began_s + seq / pps + 0.001, frames


def read_arrivals(sent, lost=()):
    """Make all frames except the lost ones by stream ID, and the burst of each ID."""
    found = CaptureReader()
    by_number = {}
    for number, burst in enumerate(sent.bursts):
        kept = [k for k in range(burst.frames) if (number, k) not in lost]
        by_number[40 + number] = burst
        if kept:
            found.add(*make_frames(kept, 40 + number, 100 + burst.isg / 1e6, burst.pps))
    return found, by_number


QUIET_S = pytest.approx(1 / 450, abs=1 / 450)


@pytest.mark.parametrize(
    ("lost", "first_s", "last_s", "gap_s"),
    [
        ({}, None, None, QUIET_S),
        ({0: range(900, 1000), 2: [45]}, 1.0, 2.0 + 45 / 450, pytest.approx(0.01, abs=0.01)),
        ({0: range(900, 1350), 1: range(90, 160)}, 0.905, 1.595, pytest.approx(0.5, abs=0.02)),
        ({2: range(1800)}, 2.0, 2.0 + 1799 / 450, pytest.approx(0.02, abs=0.01)),
    ],
)
def test_times_of_lost_frames_are_found(lost, first_s, last_s, gap_s):
    sent = make_recovery_load()
    found, by_number = read_arrivals(
        sent, {(number, k) for number, frames in lost.items() for k in frames}
    )
    by_number = {number: b for number, b in by_number.items() if number in found.samples}
    assert timing.find_losses(found, sent, by_number) == {
        "first_lost_s": first_s and pytest.approx(first_s, abs=1e-6),
        "last_lost_s": last_s and pytest.approx(last_s, abs=1e-6),
        "longest_gap_s": gap_s,
    }


def test_incomplete_recording_is_a_tester_fault():
    sent = make_recovery_load()
    lost = {(0, k) for k in range(100)}
    found, _ = read_arrivals(sent, lost)
    counted = ClassCount("foreground", 4000, 4000, 3890, surplus=7, late=3)
    assert found.frames == 3900
    assert (
        timing.find_recording_fault(found, DirectionResult({"fg": counted}, 6.0), "forward") == []
    )
    more = replace(counted, surplus=8)
    (fault,) = timing.find_recording_fault(found, DirectionResult({"fg": more}, 6.0), "forward")
    assert "3900 of 3901" in fault


def test_a_queue_of_the_device_does_not_stretch_the_clock():
    """Delays grow during an overload; frames before and after it give the frequency."""
    found = CaptureReader()
    left_s = np.arange(40_000) / 10_000
    queue_s = np.clip(left_s - 0.2, 0, 1) * 0.1 * (left_s < 2)
    for first in range(0, 40_000, 9_000):
        part = slice(first, min(40_000, first + 9_000))
        times_s, frames = make_frames(range(part.start, part.stop), 0, 5.0, 10_000)
        found.add(times_s + queue_s[part], frames)
    assert timing.estimate_tick_rate(found.stamps) == pytest.approx(HZ, rel=1e-9)
    assert timing.estimate_tick_rate(CaptureReader().stamps) is None


def test_complete_loss_lasts_whole_trial():
    sent = make_recovery_load()
    found = CaptureReader()
    told = timing.find_losses(found, sent, {})
    assert (told["first_lost_s"], told["longest_gap_s"]) == (0.0, None)
    assert timing.measure_rate_change_error_s(found, {}, sent, HZ) is None


def test_equal_bursts_are_distinguished_by_time():
    sent = make_recovery_load()
    found, by_number = read_arrivals(sent)
    mixed = {40: by_number[42], 41: by_number[43], 42: by_number[40], 43: by_number[41]}
    assert timing.match_bursts_by_time(found, mixed, sent, HZ) == by_number


@pytest.mark.parametrize("late_s", [0.0, 0.25])
def test_how_late_the_second_rate_was(late_s):
    sent = make_recovery_load()
    found = CaptureReader()
    by_number = {}
    for number, burst in enumerate(sent.bursts):
        by_number[number] = burst
        began_s = 7 + burst.isg / 1e6 + (late_s if number > 1 else 0)
        found.add(*make_frames(range(burst.frames), number, began_s, burst.pps))
    error_s = timing.measure_rate_change_error_s(found, by_number, sent, HZ)
    assert error_s == pytest.approx(late_s, abs=0.006)


def test_marked_frames_are_identified_by_marks():
    own = replace(STAMPED.streams[0], stream_id=trex_streams.MARK_IDS + 3)
    made = Expander(with_mark(own)).frames(0, 50)
    found = CaptureReader(trex_streams.compute_number_distance(made.shape[1]))
    found.add(np.arange(49) / 10, np.delete(made, 20, axis=0))
    columns = found.select_columns([trex_streams.MARK_IDS + 3])
    assert columns.sequence.tolist() == [n for n in range(50) if n != 20]


def test_other_frames_are_not_test_frames():
    found = CaptureReader()
    found.add(np.zeros(3), np.zeros((3, 64), np.uint8))
    assert (found.frames, found.samples) == (0, {})
    burst = Burst(0, 10.0, 5, 0.0, 0)
    assert (
        timing.find_losses(found, OfferedLoad(STAMPED, [burst], 0, (1,)), {})["first_lost_s"] == 0.0
    )


def list_flows(count, rate, duration, interval_s):
    traffic = entropy.limit_flows(
        PLUGIN.build_traffic("forward", PLUGIN.make_frame_pair(104), 1), count
    )
    streams = with_stamps(convert_to_rows(compile_traffic(traffic), 0))
    asked = replace(
        make_recovery_trial(flow_starts=FlowStarts(count, interval_s)),
        rate_fps=rate,
        duration_s=duration,
    )
    made, found = make_sequential_flows(streams, asked, asked.flow_starts)
    return streams, asked, OfferedLoad(made, found, 0, (1,))


@pytest.mark.parametrize(
    ("count", "rate", "duration", "interval_s"),
    [(1, 1000.0, 1.0, 1.0), (7, 1000.0, 2.0, 0.1), (40, 777.0, 3.0, 0.05), (5, 100.0, 2.0, 1.0)],
)
def test_each_flow_starts_in_turn(count, rate, duration, interval_s):
    streams, asked, sent = list_flows(count, rate, duration, interval_s)
    weights = [s.weight for s in streams.streams]
    classes, index = list_classes_with_index(weights, 0, asked.frames)
    due_s = np.arange(asked.frames) / rate
    sends = due_s >= (index % count) * interval_s
    by_name = {}
    for burst in sent.bursts:
        name = sent.streams.streams[burst.index].name
        by_name.setdefault(name, []).append(burst)
    for number, stream in enumerate(streams.streams):
        mine = sends & (classes == number)
        assert sum(b.frames for b in by_name[stream.name]) == mine.sum()
        for flow, burst in enumerate(by_name[stream.name]):
            first = np.flatnonzero(mine & (index % count == flow))[0]
            assert burst.isg / 1e6 == pytest.approx(due_s[first])


def test_flows_are_distinguished_by_class_and_number():
    streams, _, sent = list_flows(16, 1000.0, 2.0, 0.05)
    assert sent.has_identified_frames
    assert set(sent.marked_classes) == {0, 1}
    assert [len(bursts_) for bursts_ in sent.marked_classes.values()] == [15, 15]
    assert len(sent.stamped_bursts) == 2
    for burst in sent.marked_bursts:
        stream = sent.streams.streams[burst.index]
        frames = Expander(stream).frames(0, 3)
        assert (trailer.read(frames).stream_id == stream.stream_id).all()
        flow = (stream.stream_id - trex_streams.MARK_IDS) % trex_streams.MARKS_PER_CLASS
        own = streams.streams[trex_streams.find_class_number(stream)]
        plain = stream.source().frames(0, 1)
        assert (plain[0, :-16] == Expander(own).frames(flow, 1)[0, :-16]).all()
    patterns = {capture.make_class_filter(n) for n in sent.marked_classes}
    assert patterns == {
        f"ether[len - 16] = 171 and ether[len - 15] = 0 and ether[len - 13] & 240 = {high}"
        for high in (128, 144)
    }


def test_flows_that_cannot_begin_in_turn_are_refused():
    streams, asked, _ = list_flows(5, 100.0, 2.0, 1.0)
    with expect_error("beyond-trex"):
        make_sequential_flows(streams, asked, FlowStarts(4, 1.0))
    with expect_error("too-many-for-trex", mentions="4,096"):
        make_sequential_flows(streams, asked, FlowStarts(5000, 1.0))
