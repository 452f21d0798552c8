"""Recordings of TRex: delays, losses, two rates and flows that begin in turn."""

import struct
from dataclasses import replace

import numpy as np
import pytest
from v6t.drivers.trex import bursts as trex_bursts
from v6t.drivers.trex import capture, counting
from v6t.drivers.trex import streams as trex_streams
from v6t.drivers.trex.bursts import OfferedLoad, make_bursts
from v6t.drivers.trex.capture import CaptureReader
from v6t.drivers.trex.streams import FIRST_SEQUENCE, with_stamps
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


@pytest.fixture
def read(tmp_path):
    """Provide a function that reads the frames of a recording, grouped by length."""

    def read_frames(data):
        path = tmp_path / "r.pcap"
        path.write_bytes(data)
        return [frames for _, frames in capture.read_recording(path)]

    return read_frames


@pytest.mark.parametrize("order", ["<", ">"])
def test_equal_lengths_are_one_view_of_the_file(read, order):
    sent = [make_frame(k - 2) for k in range(100)]
    (frames,) = read(make_pcap(sent, order=order))
    assert frames.tobytes() == b"".join(sent)
    assert trex_streams.read_numbers(frames).tolist() == list(range(100))


def test_mixed_lengths_come_together(read):
    sent = [make_frame(k, 64 if k % 3 else 80) for k in range(30)]
    long, short = sorted(read(make_pcap(sent)), key=len)
    assert (long.shape, short.shape) == ((10, 80), (20, 64))
    assert long.tobytes() == b"".join(sent[::3])


@pytest.mark.parametrize(
    ("data", "frames"),
    [
        (b"", []),
        (make_pcap([]), []),
        # a record that was being written
        (make_pcap([make_frame(0), make_frame(1)])[:-5], [1]),
    ],
)
def test_recording_may_be_empty_or_end_early(read, data, frames):
    assert [len(group) for group in read(data)] == frames


@pytest.mark.parametrize("data", [b"x" * 100, make_pcap([make_frame(1)], cut=4)])
def test_unusable_recording_is_rejected(read, data):
    with expect_error("tester-fault"):
        read(data)


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
    expected = {7: 20 + rng.exponential(80, 5000), 9: 35 + rng.exponential(300, 4000)}
    reader, names = CaptureReader(), {7: "a", 9: "b"}
    for number, delays_us in expected.items():
        times_s, frames = make_recording(number, delays_us, spread_s, number)
        for part in range(0, len(frames), 1500):
            reader.add(times_s[part : part + 1500], frames[part : part + 1500])
    reader.add(np.zeros(3), np.zeros((3, 104), dtype=np.uint8))  # not ours
    assert set(reader.samples) == {7, 9}
    least = {names[number]: delays_us.min() for number, delays_us in expected.items()}
    measured = counting.measure_delays(reader, names, least)
    for number, delays in expected.items():
        own = measured[names[number]]
        delays_us = np.repeat(own.values_ns, own.counts) / 1000
        assert np.abs(np.sort(delays) - np.sort(delays_us)).max() < 2
    assert set(counting.measure_delays(reader, names, {"a": 1.0})) == {"a"}
    assert counting.measure_delays(CaptureReader(), {7: "a"}, least) == {}


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
    bursts = make_bursts(STREAMS["forward"], trial, stamp=True, stamp_all=False, interval=apart)
    load = OfferedLoad(STREAMS["forward"], bursts, 0, (1,))
    assert load.frames == trial.frames
    assert sum(b.frames for b in load.stamped_bursts) == pytest.approx(stamped, rel=0.02)
    sending_s = duration_s - delays.first_tag_s
    assert sum(b.pps for b in load.stamped_bursts) == pytest.approx(stamped / sending_s, rel=0.02)


@pytest.mark.parametrize("lost", [0, 3])
def test_unrecorded_received_frames_are_not_lost(lost):
    trial = make_trial(1000.0, 1.0, delays=DelayRequest())
    bursts = make_bursts(STREAMS["forward"], trial, stamp=True, stamp_all=False, interval=4)
    load = OfferedLoad(STREAMS["forward"], [b for b in bursts if b.index == 0], 0, (1,))
    (stamped,) = load.stamped_bursts
    received = stamped.frames - lost
    reader = CaptureReader()
    reader.add(*make_recording(77, np.linspace(50, 900, received - 2), 1.0, 1))
    group = str(stamped.pg_id)
    flow = {"rx_pkts": {"1": received}, "tx_pkts": {"0": stamped.frames}}
    latency = {"latency": {"total_min": 50}, "err_cntrs": {}}
    stats = parse_trial({"groups": {"flow_stats": {group: flow}, "latency": {group: latency}}})
    timed = counting.add_sampled_delays(counting.DirectionCounts({}, 0), load, stats, reader)
    for tags in (True, False):
        (delays,) = counting.make_distributions(timed, [load], tags=tags).values()
        assert (delays.frames, delays.lost) == (received - 2, lost)
        assert delays.minimum_ns == 50_000


PLUGIN, _STREAMS = compile_plugin(n="10", m="9")
STAMPED = with_stamps(_STREAMS["forward"])
HZ = 2e9


def make_recovery_trial(**more):
    return Trial("system-recovery", "t", 104, 64, "forward", 1000.0, 2.0, **more)


def make_recovery_load():
    segment = Segment(500.0, 4.0)
    trial = make_recovery_trial(second_segment=segment)
    return OfferedLoad(*trex_bursts.add_second_rate(STAMPED, trial, segment), 0, (1,))


def test_second_rate_continues_numbers_of_first():
    load = make_recovery_load()
    assert load.frames == 4000
    assert [b.frames for b in load.bursts] == [1800, 200, 1800, 200]
    assert [b.pps for b in load.bursts] == [900, 100, 450, 50]
    # the first frames of both classes are five frames apart
    starts_us = [0.0, 5 / 1000 * 1e6, 2e6, 2e6 + 5 / 500 * 1e6]
    assert [b.isg for b in load.bursts] == pytest.approx(starts_us)
    assert len({b.pg_id for b in load.bursts}) == 4
    streams = load.streams.streams
    assert [s.name for s in streams] == ["fg", "bg", "fg", "bg"]
    # higher numbers belong to the other direction
    numbers = {s.stream_id for s in streams}
    assert len(numbers) == 4 and max(numbers) < trex_bursts.GROUPS_PER_DIRECTION
    for stream, burst, second in zip(STAMPED.streams, load.bursts, streams[2:], strict=False):
        expected = Expander(start_at_frame(stream, burst.frames)).frames(0, 20)
        assert (Expander(second).frames(0, 20) == expected).all()


def make_frames(numbers, stream_id, began_s, pps):
    """Make stamped frames in order of arrival, with arrival times."""
    seq = np.asarray(numbers)
    left = ((began_s + seq / pps) * HZ).astype(np.uint64)
    frames = np.zeros((len(seq), 80), np.uint8)
    marks = (seq + FIRST_SEQUENCE) % (1 << 32)
    trailer.stamp(frames, None, seq=marks, stream_id=stream_id, nonce=0, time_ns=left)
    return began_s + seq / pps + 0.001, frames


def read_arrivals(load, lost=None):
    """Read all frames but the lost ones of each burst; return the reader, and the bursts by stream ID."""
    reader = CaptureReader()
    for number, burst in enumerate(load.bursts):
        arrived = sorted({*range(burst.frames)} - {*(lost or {}).get(number, ())})
        if arrived:
            reader.add(*make_frames(arrived, 40 + number, 100 + burst.isg / 1e6, burst.pps))
    return reader, {n: b for n, b in enumerate(load.bursts, 40) if n in reader.samples}


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
    load = make_recovery_load()
    reader, by_number = read_arrivals(load, lost)
    assert counting.find_losses(reader, load, by_number) == {
        "first_lost_s": first_s and pytest.approx(first_s, abs=1e-6),
        "last_lost_s": last_s and pytest.approx(last_s, abs=1e-6),
        "longest_gap_s": gap_s,
    }


def test_incomplete_recording_is_a_tester_fault():
    reader, _ = read_arrivals(make_recovery_load(), {0: range(100)})
    assert reader.frames == 3900
    count = ClassCount("foreground", 4000, 4000, 3890, surplus=7, late=3)

    def find_fault(count):
        return counting.find_recording_fault(reader, DirectionResult({"fg": count}, 6.0), "forward")

    assert find_fault(count) == []
    (fault,) = find_fault(replace(count, surplus=8))
    assert "3900 of 3901" in fault


def test_a_queue_of_the_device_does_not_stretch_the_clock():
    """Delays grow during an overload; frames before and after it give the frequency."""
    reader = CaptureReader()
    left_s = np.arange(40_000) / 10_000
    queue_s = np.clip(left_s - 0.2, 0, 1) * 0.1 * (left_s < 2)
    for first in range(0, 40_000, 9_000):
        part = slice(first, min(40_000, first + 9_000))
        times_s, frames = make_frames(range(part.start, part.stop), 0, 5.0, 10_000)
        reader.add(times_s + queue_s[part], frames)
    assert counting.estimate_tick_rate(reader.stamps) == pytest.approx(HZ, rel=1e-9)
    stamps = reader.stamps
    columns = (stamps.arrived_s, stamps.departed_ticks, stamps.sequence)
    for part in (slice(0, None, 8000), slice(500)):  # five frames, frames of 0.05 s
        some = capture.StampColumns(*(column[part] for column in columns))
        assert counting.estimate_tick_rate(some) is None


def test_complete_loss_lasts_whole_trial():
    load, reader = make_recovery_load(), CaptureReader()
    losses = counting.find_losses(reader, load, {})
    assert (losses["first_lost_s"], losses["longest_gap_s"]) == (0.0, None)
    assert counting.measure_rate_change_error_s(reader, {}, load, HZ) is None
    reader.add(np.zeros(3), np.zeros((3, 64), np.uint8))  # not test frames
    assert (reader.frames, reader.samples) == (0, {})
    assert counting.find_losses(reader, load, {})["first_lost_s"] == 0.0


def test_equal_bursts_are_distinguished_by_time():
    load = make_recovery_load()
    reader, by_number = read_arrivals(load)
    mixed = {40: by_number[42], 41: by_number[43], 42: by_number[40], 43: by_number[41]}
    assert counting.match_bursts_by_time(reader, mixed, load, HZ) == by_number


@pytest.mark.parametrize("late_s", [0.0, 0.25])
def test_how_late_the_second_rate_was(late_s):
    load, reader = make_recovery_load(), CaptureReader()
    by_number = dict(enumerate(load.bursts))
    for number, burst in by_number.items():
        began_s = 7 + burst.isg / 1e6 + (late_s if number > 1 else 0)
        reader.add(*make_frames(range(burst.frames), number, began_s, burst.pps))
    error_s = counting.measure_rate_change_error_s(reader, by_number, load, HZ)
    assert error_s == pytest.approx(late_s, abs=0.006)


def list_flows(count, rate, duration, interval_s):
    traffic = entropy.limit_flows(
        PLUGIN.build_traffic("forward", PLUGIN.make_frame_pair(104), 1), count
    )
    streams = with_stamps(convert_to_rows(compile_traffic(traffic), 0))
    starts = FlowStarts(count, interval_s)
    trial = replace(make_recovery_trial(flow_starts=starts), rate_fps=rate, duration_s=duration)
    load = OfferedLoad(*trex_bursts.make_sequential_flows(streams, trial, starts), 0, (1,))
    return streams, trial, load


@pytest.mark.parametrize(
    ("count", "rate", "duration", "interval_s"),
    [(1, 1000.0, 1.0, 1.0), (7, 1000.0, 2.0, 0.1), (40, 777.0, 3.0, 0.05), (5, 100.0, 2.0, 1.0)],
)
def test_each_flow_starts_in_turn(count, rate, duration, interval_s):
    streams, trial, load = list_flows(count, rate, duration, interval_s)
    weights = [s.weight for s in streams.streams]
    classes, index = list_classes_with_index(weights, 0, trial.frames)
    due_s = np.arange(trial.frames) / rate
    sends = due_s >= (index % count) * interval_s
    for number, stream in enumerate(streams.streams):
        own = sends & (classes == number)
        bursts = [b for b in load.bursts if load.find_stream(b).name == stream.name]
        assert sum(b.frames for b in bursts) == own.sum()
        for flow, burst in enumerate(bursts):
            first = np.flatnonzero(own & (index % count == flow))[0]
            assert burst.isg / 1e6 == pytest.approx(due_s[first])


def test_flows_are_distinguished_by_class_and_number():
    streams, _, load = list_flows(16, 1000.0, 2.0, 0.05)
    assert load.has_identified_frames
    assert {n: len(bursts) for n, bursts in load.marked_classes.items()} == {0: 15, 1: 15}
    assert len(load.stamped_bursts) == 2
    for burst in load.marked_bursts:
        stream = load.find_stream(burst)
        frames = Expander(stream).frames(0, 3)
        assert (trailer.read(frames).stream_id == stream.stream_id).all()
        flow = (stream.stream_id - trex_streams.MARK_IDS) % trex_streams.MARKS_PER_CLASS
        own = streams.streams[trex_streams.find_class_number(stream)]
        plain = stream.source().frames(0, 1)
        assert (plain[0, :-16] == Expander(own).frames(flow, 1)[0, :-16]).all()
    assert {capture.make_class_filter(n) for n in load.marked_classes} == {
        f"ether[len - 16] = 171 and ether[len - 15] = 0 and ether[len - 13] & 240 = {high}"
        for high in (128, 144)
    }


def test_flows_that_cannot_begin_in_turn_are_refused():
    streams, trial, _ = list_flows(5, 100.0, 2.0, 1.0)
    with expect_error("beyond-trex"):
        trex_bursts.make_sequential_flows(streams, trial, FlowStarts(4, 1.0))
    with expect_error("too-many-for-trex", mentions="4,096"):
        trex_bursts.make_sequential_flows(streams, trial, FlowStarts(5000, 1.0))
    many = replace(streams, streams=streams.streams[:1] * 9)
    with expect_error("too-many-for-trex", mentions="8 traffic classes"):
        trex_bursts.make_sequential_flows(many, trial, FlowStarts(5, 1.0))
