"""Recordings of TRex: delays of stamped frames, and learned connections."""

import struct

import numpy as np
import pytest
from v6t.drivers.trex import counting, timing
from v6t.drivers.trex.bursts import OfferedLoad, make_bursts
from v6t.drivers.trex.capture import CaptureReader, read_recording
from v6t.drivers.trex.streams import read_numbers
from v6t.packets import trailer
from v6t.tests.expect import expect_error
from v6t.trials.trial import DelayRequest

from .faketrex import parse_trial
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


def test_foreign_frames_have_no_number():
    reader = CaptureReader.read([(np.zeros(1), np.zeros((1, 64), dtype=np.uint8))])
    assert (reader.frames, reader.samples) == (0, {})


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


def expand_delays(distribution):
    return np.repeat(distribution.values_ns, distribution.counts) / 1000


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
        error_us = np.sort(meant[number]) - np.sort(expand_delays(told[name]))
        assert np.abs(error_us).max() < 2
    assert set(timing.measure_delays(found, {7: "a", 9: "b"}, {"a": 1.0})) == {"a"}
    assert timing.measure_delays(CaptureReader(), {7: "a"}, least) == {}


TAGS = DelayRequest(tags=600, first_tag_s=6.0)


@pytest.mark.parametrize(
    ("duration_s", "delays", "apart", "stamped"),
    [
        (12.0, TAGS, 4, 600),
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
