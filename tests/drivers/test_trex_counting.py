"""TRex: results, delays, loss times and tester faults from recorded counters and captures (v3.08); bursts and filters."""

import copy
import json
import shutil
import struct
import subprocess
from dataclasses import asdict, replace
from functools import reduce
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from scapy.contrib import lldp
from scapy.contrib.ospf import OSPF_Hdr, OSPF_Hello
from scapy.layers import inet6
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import ARP, LLC, STP, Dot1Q, Dot3, Ether
from scapy.layers.rip import RIP
from scapy.layers.vrrp import VRRPv3
from scapy.utils import rdpcap, wrpcap
from v6t.base.errors import BeyondTester
from v6t.drivers.trex import bursts as trex_bursts
from v6t.drivers.trex import capture, counting
from v6t.drivers.trex import streams as trex_streams
from v6t.drivers.trex.bursts import Burst, OfferedLoad, check_stamps, make_bursts, select_part
from v6t.drivers.trex.capture import CaptureReader
from v6t.drivers.trex.client.stats import GroupStats, TrialStats
from v6t.drivers.trex.options import TrexOptions
from v6t.drivers.trex.streams import with_cache, with_stamps
from v6t.drivers.trex.tester import TrexTester
from v6t.packets import trailer
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.walker import find_problems, locate_headers
from v6t.profiles import entropy
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.compiler.instructions import declare_range
from v6t.profiles.compiler.schedule import list_classes_with_index
from v6t.profiles.expand import Expander
from v6t.profiles.exports import from_stl_json
from v6t.profiles.rows import convert_to_rows
from v6t.profiles.streams import StreamSet, start_at_frame
from v6t.tests.expect import expect_error
from v6t.tests.packets.oracle import verify
from v6t.tests.plugins.foreign import ALL, Echo, Gre, OverTcp
from v6t.tests.profiles.test_protocols import compile_streams as compile_foreign
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.trial import DelayRequest, DeviceEvent, FlowStarts, Segment, Trial
from v6t.trials.verdict import assess_trial

from .faketrex import parse_trial, read_steady_ports, stamp_frames
from .lab_testers import compile_plugin

RECORDED = json.loads((Path(__file__).parent / "recorded/trex_trial.json").read_text())
PLUGIN, _STREAMS = compile_plugin(n="10", m="9")
STREAMS = {d: from_stl_json(json.dumps(s)) for d, s in RECORDED["streams"].items()}
ONE_STREAM = StreamSet("forward", STREAMS["forward"].streams[:1])


def make_trial(rate, duration, **more):
    return Trial("throughput", "t", 104, 64, "bidirectional", rate, duration, **more)


PORTS = {"forward": (0, (1,)), "reverse": (1, (0,))}


def make_load(direction, bursts, **more):
    return OfferedLoad(STREAMS[direction], bursts, *PORTS[direction], **more)


def make_stamped_bursts(rate, duration, direction="forward", **more):
    return make_bursts(STREAMS[direction], make_trial(rate, duration, **more), stamp=True)


SENT = {
    d: make_load(d, make_stamped_bursts(2000.0, 1.0, d), find_oracle=lambda _: PLUGIN)
    for d in STREAMS
}


@pytest.fixture
def raw():
    return copy.deepcopy(RECORDED["answer"])


def count_frames(raw, direction="forward", timeout_s=None):
    return counting.count_by_trailer(parse_trial(raw), [SENT[direction]], timeout_s)


def find_faults(raw):
    return counting.find_faults(parse_trial(raw), list(SENT.values()), 85.0)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_recorded_answer_has_exact_counts(raw, direction):
    count = count_frames(raw, direction)
    classes = {n: (c.required, c.sent, c.received) for n, c in count.classes.items()}
    assert classes == {"fg": (1800, 1800, 1800), "bg": (200, 200, 200)}
    assert count.control == 0
    assert {n: d.frames for n, d in count.delays.items()} == {"fg": 1800, "bg": 200}
    assert find_faults(raw) == []
    # the recorded request has the bursts that are computed now
    recorded = RECORDED["request"]["bursts"][str(SENT[direction].tx_port)]
    assert [asdict(b) for b in SENT[direction].bursts] == recorded


def read_stamps(frames):
    return CaptureReader(capture.make_batches(frames))


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_recorded_frames_equal_translated_expander_frames(raw, direction):
    captured = [f for c in parse_trial(raw).captures for f in c.decode_frames()]
    frames = [(time_s, octets) for time_s, octets, at in captured if at in PORTS[direction][1]]
    compared = capture.compare_frames(read_stamps(frames), [SENT[direction]])
    assert compared.checked == compared.matched > 10
    frames[3] = (frames[3][0], frames[3][1][:40] + b"\xff" + frames[3][1][41:])
    wrong = capture.compare_frames(read_stamps(frames), [SENT[direction]])
    assert wrong.matched == compared.matched - 1
    assert wrong.mismatch["received"] == frames[3][1].hex()


def test_loopback_returns_negative_traffic():
    plugin, frames = OverTcp(), []
    streams = compile_traffic(plugin.build_traffic("forward", plugin.make_frame_pair(128)))
    for number, stream in enumerate(streams.streams, 40):
        rows = Expander(stream).compute_frames(0, 20)
        stamp_frames(rows, number, 0, checksum=stream.checksum)
        frames += [(0.0, row.tobytes()) for row in rows]
    looped = OfferedLoad(streams, [], 0, (1,))
    through = replace(looped, find_oracle=lambda stream: plugin)
    # without a device, nothing is changed or dropped
    for load, checked, matched in ((looped, 20, 20), (through, 40, 0)):
        compared = capture.compare_frames(read_stamps(frames), [load])
        assert (compared.checked, compared.matched) == (checked, matched)


@pytest.mark.parametrize(("place", "change", "says"), [
    (("ports", "0"), {"opackets": 1999}, "forward: TRex sent 1999 frames instead"),
    (("ports", "0"), {"oerrors": 3}, "3 errors at TRex's transmit port"),
    (("ports", "1"), {"ierrors": 4}, "receive port 1 dropped 4 frames"),
    (("global",), {"queue_full": 5}, "transmit queue was full 5 times"),
    ((), {"dropped_frames": 6}, "dropped 6 frames before its transmit queue"),
    ((), {"port_faults": ["7 frames left late"]}, "7 frames left late"),
    ((), {"cpu": [3.0, 99.0]}, "99% busy"),
    ((), {"ended": False}, "was stopped"),
    ((), {"events": ["link of port 1 went down"] * 2}, "link of port 1 went down"),
])  # fmt: skip
def test_each_tester_fault_is_named_once(raw, place, change, says):
    reduce(dict.get, place, raw).update(change)
    (fault,) = find_faults(raw)
    assert says in fault


def test_drops_at_port_of_idle_pair_are_a_fault(raw):
    raw["ports"]["3"] = {"ierrors": 2}
    loads = [replace(SENT["forward"], rx_ports=(1, 3))]
    faults = counting.find_faults(parse_trial(raw), loads, 85.0)
    assert faults == ["TRex's receive port 3 dropped 2 frames (ierrors)"]


def test_duplicates_and_reordering_are_counted(raw):
    # three of seven duplicates replace lost frames
    raw["groups"]["flow_stats"]["0"]["rx_pkts"]["1"] += 4
    errors = raw["groups"]["latency"]["0"]["err_cntrs"]
    errors["dup"], errors["out_of_order"] = 7, 2
    count = count_frames(raw).classes["fg"]
    assert (count.received, count.surplus, count.out_of_order) == (1797, 7, 2)
    raw["ports"]["1"]["ipackets"] += 18
    assert count_frames(raw).control == 14
    del raw["groups"]["latency"]["0"]["err_cntrs"]
    count = count_frames(raw).classes["fg"]
    assert (count.surplus, count.out_of_order) == (4, 0)


def test_neighbor_filter_uses_higher_octets_of_number():
    """The lowest octet changes within a run of consecutive frames."""
    assert capture.make_neighbors_filter(1 << 20, 1 << 8) == (
        "ether[len - 16] = 171 and ether[len - 11] & 255 = 0 and ether[len - 10] & 15 = 0"
    )


def test_histogram_is_exact_below_two_milliseconds():
    group = parse_trial(RECORDED["answer"]).groups[0]
    delays = counting.decode_histogram(group.histogram)
    assert delays.frames == 1800
    assert (delays.minimum_ns, delays.percentile_ns(50)) == (157_000, 696_000)
    assert group.min_delay_us == 157
    assert delays.maximum_ns == (13_088_000 + 13_095_000) / 2
    assert all(ns % 1000 == 0 for ns in delays.values_ns if ns < 2_048_000)


@pytest.mark.parametrize("text", ["", "AAAA", "HISTFAAAAAB4nA==", "no base64!", "HISTFAAAAgp4nE1R"])
def test_invalid_histogram_is_rejected(text):
    with expect_error("tester-fault"):
        counting.decode_histogram(text)


def with_trex_mark(stream):
    """Return the stream as TRex sends it, with its mark: bit 0 of the TOS octet, and 0xFFFF in a field."""
    packet = bytearray(stream.packet)
    l3 = locate_headers(packet).networks[0].start
    if packet[l3] >> 4 == 6:
        packet[l3 + 1] |= 0x10
        packet[l3 + 2 : l3 + 4] = b"\xff\xff"
    else:
        packet[l3 + 1] |= 1
        packet[l3 + 4 : l3 + 6] = b"\xff\xff"
        rows = np.frombuffer(packet, np.uint8)[None, :].copy()
        write_ipv4_checksum(rows, l3)
        packet = rows[0]
    return stream.with_packet(bytes(packet))


@pytest.mark.parametrize("plugin", ["mape-br", "siit", "ipv4-router", "ipv6-router", "nat44"])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("rows", [0, 400])
def test_marked_fields_are_restored_in_every_frame(plugin, direction, rows):
    plain = compile_plugin(plugin)[1][direction]
    ready = with_stamps(convert_to_rows(plain, rows))
    for before, after in zip(plain.streams, ready.streams, strict=True):
        frames = Expander(before).compute_frames(0, 400)
        assert np.array_equal(Expander(after).compute_frames(0, 400), frames)
        assert np.array_equal(Expander(with_trex_mark(after)).compute_frames(0, 400), frames)
        assert not np.array_equal(Expander(with_trex_mark(before)).compute_frames(0, 400), frames)
        assert verify(frames).all()
        assert [i["type"] for i in after.trex["vm"]["instructions"]].count("fix_checksum_hw") == 1
    assert with_stamps(ready) == ready  # a second call changes nothing


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_full_program_keeps_marks(direction):
    full = [declare_range(f"v{k}", 8, "inc", 0, 9) for k in range(8)]
    for stream in compile_plugin()[1][direction].streams:
        own = stream.with_program(full)
        (stamped,) = with_stamps(StreamSet(direction, (own,))).streams
        assert stamped.packet == with_trex_mark(own).packet == with_trex_mark(stamped).packet
        assert verify(Expander(stamped).compute_frames(0, 3)).all()


@pytest.mark.parametrize("rate", [1e8 - 1 / 3, 100_806_451.0, 71_582_788.25, 71_582_790.0])
def test_long_fast_trial_is_divided_into_bursts(rate):
    trial = make_trial(rate, 60.0)
    bursts = make_bursts(ONE_STREAM, trial, stamp=False)
    assert sum(b.frames for b in bursts) == trial.frames
    assert all(b.frames % b.times == 0 and b.frames // b.times < 1 << 32 for b in bursts)
    end_us = 0.0
    for burst in bursts:  # consecutive, without a gap
        assert burst.isg == pytest.approx(end_us)
        assert burst.times == 1 or burst.gap_us == pytest.approx(1e6 / burst.pps)
        end_us = burst.isg + burst.frames * 1e6 / burst.pps
    assert end_us == pytest.approx(60e6)
    with expect_error("trial-too-long", mentions="4,294,967,295"):
        make_stamped_bursts(2.4e6, 4000.0)


FAST, SEVERAL_CORES = {"search_limit_fps": 5e6}, {"stamp_all": False}
ALL_FRAMES, LATE_TAGS = DelayRequest(), DelayRequest(tags=600, first_tag_s=6.0)


@pytest.mark.parametrize(("rate", "duration", "trial", "options", "stamped"), [
    (2.6e6, 1.0, {}, {}, []),
    # above 5 million frames per second in total, only tagged frames are stamped
    (2.6e6, 1.0, {"delays": DelayRequest(tags=500)}, {}, [(450, 0), (50, 1)]),
    (5e6, 1.0, {"delays": ALL_FRAMES}, {}, [(2_250_000, 0), (250_000, 1)]),
    (2e6, 0.5, FAST, {"samples": 200}, [(200, 0), (200, 1)]),
    # fewer frames than samples, of which every second is stamped
    (3e6, 1e-5, FAST, {"samples": 200}, [(13, 0), (1, 1)]),
    (2e6, 0.5, FAST, {"samples": 200, "stamp": False}, []),
    (1e4, 12.0, {"delays": LATE_TAGS}, {"interval": 4, **SEVERAL_CORES}, [(540, 0), (60, 1)]),
    (1e4, 1.0, {"delays": ALL_FRAMES}, {"interval": 2, **SEVERAL_CORES}, [(4500, 0), (500, 1)]),
    (1e4, 1.0, {"delays": ALL_FRAMES}, {"interval": 4, **SEVERAL_CORES}, [(2250, 0), (250, 1)]),
    (1e4, 1.0, {"delays": ALL_FRAMES}, {"interval": 200, **SEVERAL_CORES}, [(45, 0), (5, 1)]),
])  # fmt: skip
def test_stamped_frames_are_part_of_the_load(rate, duration, trial, options, stamped):
    trial = make_trial(rate, duration, **trial)
    bursts = make_bursts(STREAMS["forward"], trial, **{"stamp": True, **options})
    load = make_load("forward", bursts)
    assert load.frames == trial.frames
    assert [(b.frames, b.pg_id) for b in load.stamped_bursts] == stamped
    assert load.stamped_bursts == tuple(b for b in load.bursts if b.is_tagged)
    sending_s = duration - (trial.delays.first_tag_s if trial.delays else 0.0)
    for burst in load.stamped_bursts:
        assert burst.pps * sending_s == pytest.approx(burst.frames, abs=1.0)


@pytest.mark.parametrize(("limit_fps", "every"), [(2.5e6, True), (2.6e6, False), (None, True)])
@pytest.mark.parametrize("rate", [1000.0, 2e6, 2.5e6])
def test_all_trials_of_a_search_use_same_counting(rate, limit_fps, every):
    """The upper limit of the search decides, not the trial's own rate."""
    trial = make_trial(rate, 0.5, search_limit_fps=limit_fps)
    for stamp in (True, False):
        bursts = make_bursts(STREAMS["forward"], trial, stamp=stamp)
        assert {b.pg_id is not None for b in bursts} == {every and stamp}


@pytest.mark.parametrize("needs", [
    {"frame_timeout_s": 0.1}, {"delays": DelayRequest(ipdv=True)},
    {"second_segment": Segment(1e6, 1.0)}, {"device_event": DeviceEvent("software-reset", 0.5)},
])  # fmt: skip
def test_trial_that_needs_all_stamps_is_rejected_above_limit(needs):
    trial = make_trial(2.5e6, 1.0, **needs)
    check_stamps(trial)
    check_stamps(replace(trial, rate_fps=5e6, mode="forward"))
    for beyond in ({"rate_fps": 2.6e6}, {"rate_fps": 1e6, "search_limit_fps": 2.6e6}):
        with expect_error("unsupported-by-tester", kind=BeyondTester):
            check_stamps(replace(trial, **beyond))


def test_enumeration_continues_at_next_port_pair():
    streams = compile_plugin("nat44", 84)[1]["forward"]
    second = select_part(streams, make_trial(1000.0, 1.0), 1, 2, core=1)
    frames = second.streams[0].source().compute_frames(0, 500)
    assert (frames == Expander(streams.streams[0]).compute_frames(500, 500)).all()


def test_port_counts_exclude_control_frames_and_delays_are_those_of_tags(raw):
    raw["ports"]["1"]["ipackets"] = 1990
    raw["captures"].append({"kind": "control", "port": 1, "matched": 4})
    foreground, background = SENT["forward"].bursts
    bursts = [replace(foreground, pg_id=None), replace(background, is_tagged=True)]
    load = make_load("forward", bursts)
    counted = counting.count_by_ports(parse_trial(raw), [load])
    count = counted.classes["test frames"]
    assert (count.required, count.sent, count.received, counted.control) == (2000, 2000, 1986, 4)
    assert count.out_of_order is None
    assert set(counted.delays) == {"bg"}
    delays = counting.make_distributions(counted, [load], tags=False)
    assert {n: d.frames + d.lost for n, d in delays.items()} == {"bg": 200}


def compute_departures_us(burst):
    """Return the send times of a burst: equal groups, each followed by a gap."""
    within = np.arange(burst.frames // burst.times) * 1e6 / burst.pps
    length = within[-1] + burst.gap_us
    return np.concatenate([burst.isg + k * length + within for k in range(burst.times)])


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize(("rate", "duration", "first_s", "tags"), [
    (135.0, 120.0, 60.0, 5000), (1000.0, 2.0, 1.0, 500), (10_000.0, 12.0, 6.0, 5000),
    (98_540.0, 2.0, 1.0, 997), (1000.0, 1.0, 0.0, 1000), (777.7, 3.1, 1.3, 1), (2e6, 0.1, 0.05, 50),
])  # fmt: skip
def test_tags_do_not_change_departure_times(direction, rate, duration, first_s, tags):
    request = DelayRequest(tags=tags, first_tag_s=first_s)
    bursts = make_stamped_bursts(rate, duration, direction, delays=request)
    plain = make_stamped_bursts(rate, duration, direction)
    frames = [sum(b.frames for b in sent) for sent in (bursts, plain)]
    assert frames == [make_trial(rate, duration).frames] * 2
    assert sum(b.pps for b in plain) == pytest.approx(rate)
    assert sum(b.frames for b in bursts if b.is_tagged) == tags
    assert len({b.pg_id for b in bursts}) == len(bursts)
    for whole in plain:
        parts = [b for b in bursts if b.index == whole.index]
        times_us = np.sort(np.concatenate([compute_departures_us(b) for b in parts]))
        assert np.allclose(times_us, compute_departures_us(whole), rtol=0, atol=1e-3)
        for tagged_us in [compute_departures_us(b) for b in parts if b.is_tagged]:
            assert tagged_us[0] >= whole.isg + 1e6 * first_s - 1e-3
            assert np.allclose(np.diff(tagged_us, n=2), 0, atol=1e-3)


def test_number_of_tags_and_stamped_classes_is_limited():
    with expect_error("trial-too-short"):
        make_stamped_bursts(10.0, 2.0, "reverse", delays=DelayRequest(tags=500))
    (stream,) = ONE_STREAM.streams
    many = [replace(stream, stream_id=64 + k) for k in range(22)]
    tester = TrexTester(TrexOptions(), PLUGIN.links)
    with expect_error("too-many-for-trex", mentions="21"):
        tester.load({"forward": StreamSet("forward", tuple(many))}, PLUGIN)
    trial = make_trial(2200.0, 1.0, delays=DelayRequest(tags=22, first_tag_s=0.5))
    bursts = make_bursts(StreamSet("forward", tuple(many[:21])), trial, stamp=True)
    assert len(bursts) == len({b.pg_id for b in bursts}) == 63


def test_arrived_frames_without_a_delay_are_a_fault(raw):
    assert [*counting.find_timing_faults(parse_trial(raw), [SENT["forward"]])] == []
    raw["groups"]["flow_stats"]["0"]["rx_pkts"]["1"] += 1
    (fault,) = counting.find_timing_faults(parse_trial(raw), [SENT["forward"]])
    assert "2000 of 2001" in fault and "--hdrh" not in fault


def test_frames_over_the_timeout_are_late(raw):
    limit_ns = count_frames(raw).delays["fg"].percentile_ns(90)
    count = count_frames(raw, timeout_s=limit_ns / 1e9).classes["fg"]
    assert 0 < count.late <= 180
    assert count.received + count.late == 1800


def test_cache_is_option_of_program():
    cached = with_cache(STREAMS["forward"], 2000)
    assert [s.trex["vm"]["cache"] for s in cached.streams] == [2000, 2000]
    assert with_cache(STREAMS["forward"], 0) is STREAMS["forward"]


@pytest.mark.parametrize("frames", [100, 29_999, 60_000, 10**6])
def test_consecutive_frames_are_captured_in_complete_runs(frames):
    load = OfferedLoad(ONE_STREAM, [Burst(0, 1.0, frames, 0.0, 0)], 0, (1,))
    reader = CaptureReader()
    pairs = counting.make_ipdv(reader, load, CLOCK_HZ)["fg"].lost
    assert pairs <= 2 * counting.IPDV_FRAMES + 512
    assert pairs == frames - 1 or pairs > counting.IPDV_FRAMES // 2
    reader.add(*make_burst(range(10), 0, 5.0, 100.0))
    ipdv = counting.make_ipdv(reader, load, CLOCK_HZ)["fg"]
    assert (ipdv.values_ns, ipdv.counts, ipdv.lost) == ((0,), (9,), pairs - 9)


def make_pcap(frames, *, order="<", cut=0, magic=0xA1B2C3D4):
    data = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, 1)
    for k, frame in enumerate(frames):
        stored = len(frame) - cut
        data += struct.pack(f"{order}IIII", 1, k, stored, len(frame)) + frame[:stored]
    return data


def make_frame(seq, length=64):
    return bytes(length - 16) + struct.pack("<BBHIQ", 0xAB, 0, 3, seq & 0xFFFFFFFF, 77)


EQUAL = [make_frame(k - 2) for k in range(100)]
MIXED = [make_frame(k, 80 if k % 3 else 64) for k in range(30)]
LONG = [frame for frame in MIXED if len(frame) == 80]


@pytest.mark.parametrize(("data", "groups"), [
    (make_pcap(EQUAL), [EQUAL]), (make_pcap(EQUAL, order=">"), [EQUAL]),
    (make_pcap(MIXED), [MIXED[::3], LONG]),
    (b"", []), (make_pcap([]), []),
    # the last record is incomplete
    (make_pcap(EQUAL[:2])[:-5], [EQUAL[:1]]),
], ids=["little-endian", "big-endian", "mixed", "empty", "without frames", "cut"])  # fmt: skip
def test_frames_of_recording_are_grouped_by_length(tmp_path, data, groups):
    (tmp_path / "r.pcap").write_bytes(data)
    batches = capture.read_recording(tmp_path / "r.pcap")
    assert [[row.tobytes() for row in frames] for _, frames in batches] == groups


@pytest.mark.parametrize("data", [b"x" * 100, make_pcap([make_frame(1)], cut=4)])
def test_unusable_recording_is_rejected(tmp_path, data):
    (tmp_path / "r.pcap").write_bytes(data)
    with expect_error("tester-fault"):
        capture.read_recording(tmp_path / "r.pcap")


CLOCK_HZ = 2.600517e9


def make_frames(numbers, stream_id, departed_s):
    """Make frames that TRex stamps when they leave."""
    frames = np.zeros((len(departed_s), 80), np.uint8)
    ticks = np.rint(np.asarray(departed_s) * CLOCK_HZ).astype(np.int64)
    stamp_frames(frames, stream_id, ticks, numbers)
    return frames


def make_recording(stream_id, delays_us, spread_s):
    """Make frames with these delays that leave at random times, and their arrival times [s]."""
    random = np.random.default_rng(stream_id).uniform(0, spread_s, len(delays_us))
    departed_s = 81_234.5 + np.sort(random)
    frames = make_frames(range(len(delays_us)), stream_id, departed_s)
    return np.round(departed_s + delays_us / 1e6, 6), frames


@pytest.mark.parametrize("spread_s", [0.5, 60.0])
def test_delays_are_exact_to_two_microseconds_at_any_frequency(spread_s):
    rng = np.random.default_rng(4)
    expected = {7: 20 + rng.exponential(80, 5000), 9: 35 + rng.exponential(300, 4000)}
    reader, names = CaptureReader(), {7: "a", 9: "b"}
    for number, delays_us in expected.items():
        times_s, frames = make_recording(number, delays_us, spread_s)
        for part in range(0, len(frames), 1500):
            reader.add(times_s[part : part + 1500], frames[part : part + 1500])
    least = {names[number]: delays_us.min() for number, delays_us in expected.items()}
    measured = counting.measure_delays(reader, names, least)
    for number, delays in expected.items():
        distribution = measured[names[number]]
        delays_us = np.repeat(distribution.values_ns, distribution.counts) / 1000
        assert np.abs(np.sort(delays) - np.sort(delays_us)).max() < 2
    assert set(counting.measure_delays(reader, names, {"a": 1.0})) == {"a"}
    assert counting.measure_delays(CaptureReader(), {7: "a"}, least) == {}


@pytest.mark.parametrize("lost", [0, 3])
def test_unrecorded_received_frames_are_not_lost(lost):
    trial = make_trial(1000.0, 1.0, delays=DelayRequest())
    bursts = make_bursts(STREAMS["forward"], trial, stamp=True, stamp_all=False, interval=4)
    load = OfferedLoad(STREAMS["forward"], [b for b in bursts if b.index == 0], 0, (1,))
    (stamped,) = load.stamped_bursts
    received = stamped.frames - lost
    reader = CaptureReader()
    reader.add(*make_recording(77, np.linspace(50, 900, received - 2), 1.0))
    group = GroupStats({0: stamped.frames}, {1: received}, min_delay_us=50)
    stats = TrialStats(groups={stamped.pg_id: group})
    timed = counting.add_sampled_delays(counting.DirectionCounts({}, 0), load, stats, reader)
    for tags in (True, False):
        (delays,) = counting.make_distributions(timed, [load], tags=tags).values()
        assert (delays.frames, delays.lost) == (received - 2, lost)
        assert delays.minimum_ns == 50_000


STAMPED = with_stamps(_STREAMS["forward"])


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
    # the first frames of the classes are five frames apart
    starts_us = [0.0, 5 / 1000 * 1e6, 2e6, 2e6 + 5 / 500 * 1e6]
    assert [b.isg for b in load.bursts] == pytest.approx(starts_us)
    assert len({b.pg_id for b in load.bursts}) == 4
    streams = load.streams.streams
    assert [s.name for s in streams] == ["fg", "bg", "fg", "bg"]
    # higher stream IDs belong to the other direction
    numbers = {s.stream_id for s in streams}
    assert len(numbers) == 4 and max(numbers) < trex_bursts.GROUPS_PER_DIRECTION
    for stream, burst, second in zip(STAMPED.streams, load.bursts, streams[2:], strict=False):
        expected = Expander(start_at_frame(stream, burst.frames)).compute_frames(0, 20)
        assert (Expander(second).compute_frames(0, 20) == expected).all()


def make_burst(numbers, stream_id, began_s, pps):
    """Make the arrival times and the frames of a burst with a constant delay."""
    departed_s = began_s + np.asarray(numbers) / pps
    return departed_s + 0.001, make_frames(numbers, stream_id, departed_s)


def read_arrivals(load, lost=None, late_s=0.0):
    """Read all frames that are not lost; return the reader, and the bursts by stream ID.

    Args:
        lost: numbers of lost frames, by burst.
        late_s: delay of the second rate.
    """
    reader = CaptureReader()
    for number, burst in enumerate(load.bursts):
        began_s = 100 + burst.isg / 1e6 + (late_s if number > 1 else 0.0)
        if arrived := sorted({*range(burst.frames)} - {*(lost or {}).get(number, ())}):
            reader.add(*make_burst(arrived, 40 + number, began_s, burst.pps))
    return reader, {n: b for n, b in enumerate(load.bursts, 40) if n in reader.samples}


@pytest.mark.parametrize(("lost", "first_s", "last_s", "gap_s"), [
    ({}, None, None, pytest.approx(1 / 450, abs=1 / 450)),
    ({0: range(900, 1000), 2: [45]}, 1.0, 2.0 + 45 / 450, pytest.approx(0.01, abs=0.01)),
    ({0: range(900, 1350), 1: range(90, 160)}, 0.905, 1.595, pytest.approx(0.5, abs=0.02)),
    ({2: range(1800)}, 2.0, 2.0 + 1799 / 450, pytest.approx(0.02, abs=0.01)),
    (dict.fromkeys(range(4), range(1800)), 0.0, 2.0 + 1799 / 450, None),
])  # fmt: skip
def test_times_of_lost_frames_are_found(lost, first_s, last_s, gap_s):
    load = make_recovery_load()
    reader, by_number = read_arrivals(load, lost)
    ends = [pytest.approx(end_s, abs=1e-6) for end_s in (first_s, last_s)]
    expected = {"first_lost_s": ends[0], "last_lost_s": ends[1], "longest_gap_s": gap_s}
    assert counting.find_losses(reader, load, by_number) == expected


def test_incomplete_recording_is_a_tester_fault():
    reader, _ = read_arrivals(make_recovery_load(), {0: range(100)})
    reader.add(np.zeros(3), np.zeros((3, 64), np.uint8))  # not test frames
    assert reader.frames == 3900
    count = ClassCount("foreground", 4000, 4000, 3890, surplus=7, late=3)

    def find_fault(count):
        return counting.find_recording_fault(reader, DirectionResult({"fg": count}, 6.0), "forward")

    assert find_fault(count) == []
    (fault,) = find_fault(replace(count, surplus=8))
    assert "3900 of 3901" in fault


def test_queueing_delay_does_not_change_clock_frequency():
    """Delays grow during an overload, so the frequency is computed from frames before and after it."""
    left_s = np.arange(40_000) / 10_000
    queue_s = np.clip(left_s - 0.2, 0, 1) * 0.1 * (left_s < 2)
    times_s, frames = make_burst(range(40_000), 0, 5.0, 10_000)
    stamps = CaptureReader([(times_s + queue_s, frames)]).stamps
    assert counting.estimate_tick_rate(stamps) == pytest.approx(CLOCK_HZ, rel=1e-9)
    for part in (slice(0, None, 8000), slice(500)):  # too few frames, too short a time
        some = capture.StampColumns(*(column[part] for column in stamps))
        assert counting.estimate_tick_rate(some) is None


def test_equal_bursts_are_distinguished_by_time():
    load = make_recovery_load()
    reader, by_number = read_arrivals(load)
    mixed = {40: by_number[42], 41: by_number[43], 42: by_number[40], 43: by_number[41]}
    assert counting.match_bursts_by_time(reader, mixed, load, CLOCK_HZ) == by_number


@pytest.mark.parametrize("late_s", [0.0, 0.25, -1.2])
def test_delay_of_second_rate_is_measured(late_s):
    load = make_recovery_load()
    reader, by_number = read_arrivals(load, late_s=late_s)
    by_number = counting.match_bursts_by_time(reader, by_number, load, CLOCK_HZ)
    error_s = counting.measure_rate_change_error_s(reader, by_number, load, CLOCK_HZ)
    assert error_s == pytest.approx(late_s, abs=0.006)
    assert counting.measure_rate_change_error_s(CaptureReader(), {}, load, CLOCK_HZ) is None


def list_flows(count, rate, duration, interval_s):
    all_flows = PLUGIN.build_traffic("forward", PLUGIN.make_frame_pair(104), 1)
    traffic = entropy.limit_flows(all_flows, count)
    streams = with_stamps(convert_to_rows(compile_traffic(traffic), 0))
    starts = FlowStarts(count, interval_s)
    trial = replace(make_recovery_trial(flow_starts=starts), rate_fps=rate, duration_s=duration)
    load = OfferedLoad(*trex_bursts.make_sequential_flows(streams, trial, starts), 0, (1,))
    return streams, trial, load


@pytest.mark.parametrize(("count", "rate", "duration", "interval_s"), [
    (1, 1000.0, 1.0, 1.0), (7, 1000.0, 2.0, 0.1), (40, 777.0, 3.0, 0.05), (5, 100.0, 2.0, 1.0),
])  # fmt: skip
def test_each_flow_starts_in_turn(count, rate, duration, interval_s):
    streams, trial, load = list_flows(count, rate, duration, interval_s)
    classes, index = list_classes_with_index([s.weight for s in streams.streams], 0, trial.frames)
    due_s = np.arange(trial.frames) / rate
    sends = due_s >= (index % count) * interval_s
    for number, stream in enumerate(streams.streams):
        is_sent = sends & (classes == number)
        bursts = [b for b in load.bursts if load.find_stream(b).name == stream.name]
        assert sum(b.frames for b in bursts) == is_sent.sum()
        for flow, burst in enumerate(bursts):
            first = np.flatnonzero(is_sent & (index % count == flow))[0]
            assert burst.isg / 1e6 == pytest.approx(due_s[first])


def test_flows_are_distinguished_by_class_and_number():
    streams, _, load = list_flows(16, 1000.0, 2.0, 0.05)
    assert load.has_identified_frames
    assert {n: len(bursts) for n, bursts in load.marked_classes.items()} == {0: 15, 1: 15}
    assert len(load.stamped_bursts) == 2
    for burst in load.marked_bursts:
        stream = load.find_stream(burst)
        frames = Expander(stream).compute_frames(0, 3)
        assert (trailer.read(frames).stream_id == stream.stream_id).all()
        flow = (stream.stream_id - trex_streams.MARK_IDS) % trex_streams.MARKS_PER_CLASS
        class_stream = streams.streams[
            (stream.stream_id - trex_streams.MARK_IDS) // trex_streams.MARKS_PER_CLASS
        ]
        plain = stream.source().compute_frames(0, 1)
        assert (plain[0, :-16] == Expander(class_stream).compute_frames(flow, 1)[0, :-16]).all()
    mark = "ether[len - 16] = 171 and ether[len - 15] = 0 and ether[len - 13] & 240 ="
    filters = {capture.make_class_filter(n) for n in load.marked_classes}
    assert filters == {f"{mark} 128", f"{mark} 144"}


def test_flows_that_cannot_start_in_turn_are_rejected():
    streams, trial, _ = list_flows(5, 100.0, 2.0, 1.0)
    with expect_error("beyond-trex"):
        trex_bursts.make_sequential_flows(streams, trial, FlowStarts(4, 1.0))
    with expect_error("too-many-for-trex", mentions="4,096"):
        trex_bursts.make_sequential_flows(streams, trial, FlowStarts(5000, 1.0))
    many = replace(streams, streams=streams.streams[:1] * 9)
    with expect_error("too-many-for-trex", mentions="8 traffic classes"):
        trex_bursts.make_sequential_flows(many, trial, FlowStarts(5, 1.0))


@pytest.mark.parametrize(("frames", "masks"), [
    (1, []), (400, [1]), (5000, [15]), (10**6, [255, 15]), (6 * 10**8, [255, 255, 31]),
])  # fmt: skip
@pytest.mark.parametrize(("distance", "head", "octets"), [
    (0, "ether[len - 16] = 171 and ether[len - 13] & 128 = 0", (12, 11, 10)),
    (12, "ether[len - 16] = 171 and ether[len - 13] & 128 != 0 and ether[len - 15] = 0", (9, 10, 11)),
])  # fmt: skip
def test_sampling_filter_masks_lowest_bits_of_number(distance, head, octets, frames, masks):
    terms = [f"ether[len - {at}] & {mask} = 0" for at, mask in zip(octets, masks, strict=False)]
    assert capture.make_sample_filter(frames, 200, distance) == " and ".join([head, *terms])


MAC, TESTER = "02:00:00:00:00:11", "02:00:00:00:00:01"
IGMP = IP(dst="224.0.0.22", proto=2) / bytes.fromhex("1600f9fdef000002")
CONTROL_FRAMES = {
    "ARP request": Ether(src=MAC, dst="ff:ff:ff:ff:ff:ff") / ARP(pdst="192.0.2.2"),
    "ARP probe of one host": Ether(src=MAC, dst=TESTER) / ARP(pdst="192.0.2.2"),
    "ND solicitation": Ether(src=MAC, dst="33:33:ff:00:00:02") / inet6.IPv6() / inet6.ICMPv6ND_NS(),
    "ND probe of one host": Ether(src=MAC, dst=TESTER) / inet6.IPv6() / inet6.ICMPv6ND_NS(),
    "ND advertisement": Ether(src=MAC, dst=TESTER) / inet6.IPv6() / inet6.ICMPv6ND_NA(),
    "RA": Ether(src=MAC, dst="33:33:00:00:00:01") / inet6.IPv6(dst="ff02::1") / inet6.ICMPv6ND_RA(),
    "MLD": Ether(src=MAC, dst="33:33:00:00:00:16") / inet6.IPv6(dst="ff02::16")
    / inet6.IPv6ExtHdrHopByHop(options=[inet6.RouterAlert()]) / inet6.ICMPv6MLReport2(),
    "IGMP": Ether(src=MAC, dst="01:00:5e:00:00:16") / IGMP,
    "LLDP": Ether(src=MAC, dst="01:80:c2:00:00:0e", type=0x88CC)
    / lldp.LLDPDUChassisID(subtype=4, id=MAC) / lldp.LLDPDUPortID(subtype=7, id="1")
    / lldp.LLDPDUTimeToLive(ttl=120) / lldp.LLDPDUEndOfLLDPDU(),
    "spanning tree": Dot3(src=MAC, dst="01:80:c2:00:00:00") / LLC() / STP(),
    "OSPF": Ether(src=MAC, dst="01:00:5e:00:00:05") / IP(dst="224.0.0.5") / OSPF_Hdr() / OSPF_Hello(),
    "VRRP": Ether(src="00:00:5e:00:01:01", dst="01:00:5e:00:00:12") / IP(dst="224.0.0.18") / VRRPv3(),
    "RIP": Ether(src=MAC, dst="01:00:5e:00:00:09") / IP(dst="224.0.0.9")
    / UDP(sport=520, dport=520) / RIP(),
    "ICMP error": Ether(src=MAC, dst=TESTER) / IP() / ICMP(type=3),
    "ARP in a VLAN": Ether(src=MAC, dst=TESTER) / Dot1Q(vlan=7) / ARP(),
    "IGMP in a VLAN": Ether(src=MAC, dst="01:00:5e:00:00:16") / Dot1Q(vlan=7) / IGMP,
}  # fmt: skip


def count_matching(directory, frames):
    """Count the frames that pass libpcap's filter of control frames."""
    path, pattern = directory / "frames.pcap", capture.make_control_filter(STREAMS.values())
    wrpcap(str(path), [Ether(bytes(frame)) for frame in frames])
    command = ["tcpdump", "-n", "-r", "-", "-w", "-", "-U", pattern]
    with path.open("rb") as file:
        result = subprocess.run(command, stdin=file, capture_output=True, check=True)
    return len(rdpcap(BytesIO(result.stdout)))


needs_tcpdump = pytest.mark.skipif(shutil.which("tcpdump") is None, reason="needs tcpdump")


@needs_tcpdump
@pytest.mark.parametrize("name", CONTROL_FRAMES)
def test_control_frames_of_devices_match_filter(name, tmp_path):
    assert count_matching(tmp_path, [CONTROL_FRAMES[name]]) == 1


@needs_tcpdump
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_test_frames_do_not_match_control_filter(direction, tmp_path):
    streams = STREAMS[direction].streams
    frames = [row for s in streams for row in Expander(s).compute_frames(0, 50)]
    assert count_matching(tmp_path, frames) == 0


def test_captured_stamps_are_counted(raw):
    load, stamps = SENT["forward"], {"kind": "marked", "class": counting.STAMPS_CLASS}
    assert counting.count_captured_stamps(parse_trial(raw), [load]) == {}
    raw["captures"] = [
        {**stamps, "port": 1, "matched": 500}, {**stamps, "port": 0, "matched": 7},
        {"kind": "marked", "class": 0, "port": 1, "matched": 11},
        {"kind": "control", "class": 0, "port": 1, "matched": 13},
    ]  # fmt: skip
    for bursts, received in ((load.bursts, 2000), (load.bursts[:1], 1800)):
        counts = counting.count_captured_stamps(parse_trial(raw), [replace(load, bursts=bursts)])
        assert counts == {"received": received, "captured": 500}


@pytest.mark.parametrize("plugin", [p for p in ALL if p is not Echo])
def test_stamped_streams_fix_their_checksum(plugin):
    for stream in with_stamps(compile_foreign(plugin)).streams:
        program = [i["type"] for i in stream.program]
        assert ("fix_checksum_hw" in program) == (stream.checksum is not None)
        assert program.count("fix_checksum_hw") <= 1
        assert not find_problems(Expander(stream).compute_frames(0, 1)[0].tobytes())


def test_stamp_under_a_checksum_beyond_trex_is_rejected():
    with expect_error("beyond-trex", mentions="fg"):
        with_stamps(compile_foreign(Echo))


def test_echoes_are_control_frames_unless_they_are_test_frames():
    assert "icmp or icmp6" in capture.make_control_filter([compile_foreign(Gre)])
    assert "icmp[0] != 8" in capture.make_control_filter(
        [compile_foreign(Gre), compile_foreign(Echo)]
    )


def measure(frames, begin_s, end_s, duration_s, *times_s):
    """Measure the sending time from counter readings before the start and at these times."""
    readings = read_steady_ports([-0.2, *times_s], {0: (begin_s, end_s)}, {0: frames})
    return counting.measure_sending_time(readings, 0, frames, duration_s)


NEAR_A_MINUTE = (0.0, 0.0004, 59.9999, 60.0002, 60.0004, 60.0008)
NEAR_20_MS = (0.0, 0.0005, 0.0101, 0.0204)


@pytest.mark.parametrize(("frames", "duration_s", "begin_s", "end_s", "times", "tolerance", "outcome"), [
    # exact to ten millionths
    (6_000_000, 60.0, 0.0, 60.0, NEAR_A_MINUTE, 1.00001, "valid"),
    (6_000_000, 60.0, 0.0, 60.0003, NEAR_A_MINUTE, 1.00001, "valid"),
    (6_000_000, 60.0, 0.0, 60.0007, NEAR_A_MINUTE, 1.00001, "unproven"),
    (10**6, 60.0, 0.0, 60.0206, (0.0, 0.0005, 60.0104, 60.0207), 1.00001, "late"),
    # a burst that is sent at 2 % of its rate
    (4096, 0.000406, 0.0, 0.0203, NEAR_20_MS, 1.00001, "late"),
    (4096, 0.000406, 0.0, 0.0203, NEAR_20_MS, 3.0, "late"),
    # between two rare readings, the last frames may have been sent in time or late
    (10**6, 60.0, 0.0, 60.0, (0.0, 30.0, 60.02), 1.00001, "unproven"),
    (10**6, 60.0, 0.0, 60.0, (0.0, 30.0, 60.02), 1.02, "valid"),
    # TRex's scheduler may wake up before the start time
    (1000, 1.0, -0.02, 1.0, (-0.0205, -0.01, 1.0001), 1.01, "unproven"),
])  # fmt: skip
def test_late_or_unproven_sending_is_invalid(
    frames, duration_s, begin_s, end_s, times, tolerance, outcome
):
    sending = measure(frames, begin_s, end_s, duration_s, *times)
    assert sending.time_s - sending.error_s <= end_s - begin_s <= sending.max_s + 1e-9
    count = ClassCount("foreground", frames, frames, frames)
    trial = Trial("throughput", "k", 104, 64, "forward", frames / duration_s, duration_s)
    counted = DirectionResult({"fg": count}, sending.time_s, sending_time_error_s=sending.error_s)
    result = TrialResult({"forward": counted})
    verdict = assess_trial(trial, result, sending_time_tolerance=tolerance)
    assert verdict.valid == (outcome == "valid")
    are_unproven = ["not proven" in reason for reason in verdict.reasons]
    assert are_unproven == {"valid": [], "late": [False], "unproven": [True]}[outcome]


def test_sending_time_begins_with_first_frame():
    assert measure(1000, 0.05, 1.05, 1.0, 0.0, 0.049, 0.051, 1.0, 1.0501).max_s < 1.005
    assert measure(1000, 0.05, 1.05, 1.0, 1.0501).max_s > 1.25
    early = measure(1000, -0.02, 1.0, 1.0, -0.0205, -0.01, 1.0001)
    assert early.max_s == pytest.approx(1.02165)


def test_sending_time_of_unsent_frames_is_none():
    assert measure(1000, 0.0, 1.0, 1.0, 0.5) is None
