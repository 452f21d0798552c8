import struct

import numpy as np
import pytest
from v6t.packets import trailer
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.model import Variable
from v6t.tests.packets.oracle import verify
from v6t.tests.profiles.test_template import STACKS, rebuild
from v6t.tests.profiles.traffics import FOUR_IN_SIX, UDP6, make_traffic


def compute_frames(layers, size, count=50):
    traffic = make_traffic(Variable("v", 16), bind=(), layers=layers, frame_size=size)
    expander = Expander(compile_traffic(traffic).streams[0])
    return expander.compute_frames(0, count), expander.checksum


@pytest.mark.parametrize("size", [108, 109, 300, 1517, 1518])
@pytest.mark.parametrize("name", ["4in6", "ipv6", "ipv4", "vlan"])
def test_stamped_trailers_are_read_back(name, size):
    before, checksum = compute_frames(STACKS[name], size)
    ring = np.full((50, 2048), 0x55, np.uint8)
    frames = ring[:, 32 : 28 + size]
    frames[:] = before
    seq = np.arange(50, dtype=np.uint32) * 99_999_999
    times = np.arange(50, dtype=np.uint64) * np.uint64(1 << 57) + np.uint64(12345)
    trailer.stamp(frames, checksum, seq=seq, stream_id=127, nonce=255, time_ns=times)
    marks = trailer.read(frames)
    assert marks.magic_ok.all() and (marks.seq == seq).all()
    assert (marks.time_ns == times).all()
    assert set(marks.stream_id.tolist()) == {127}
    assert set(marks.nonce.tolist()) == {255}
    # only the last 16 octets and the UDP checksum change
    changed = np.flatnonzero((frames != before).any(axis=0))
    field = {checksum.field, checksum.field + 1}
    assert set(changed.tolist()) <= field | set(range(size - 4 - 16, size - 4))
    assert (ring[:, :32] == 0x55).all() and (ring[:, 28 + size :] == 0x55).all()
    assert verify(frames).all()
    assert [rebuild(f.tobytes()) for f in frames[::7]] == [f.tobytes() for f in frames[::7]]


def test_trailer_has_the_layout_of_trex_latency_header():
    frames, checksum = compute_frames(UDP6, 128, 2)
    seq, time_ns = np.array([5, 0xFFFFFFFF]), 0x0102030405060708
    trailer.stamp(frames, checksum, seq=seq, stream_id=3, nonce=0x7E, time_ns=time_ns)
    assert frames[0, -16:].tobytes() == struct.pack("<BBHIQ", 0xAB, 0x7E, 3, 5, time_ns)
    assert frames[1, -12:-8].tobytes() == b"\xff" * 4


def test_rows_have_separate_trailers():
    frames, checksum = compute_frames(FOUR_IN_SIX, 104, 5)
    ids, nonces = np.array([0, 1, 64, 126, 127]), np.array([0, 1, 2, 254, 255], dtype=np.uint8)
    trailer.stamp(frames, checksum, seq=np.arange(5), stream_id=ids, nonce=nonces, time_ns=9)
    marks = trailer.read(frames)
    assert (marks.stream_id.tolist(), marks.nonce.tolist()) == (ids.tolist(), nonces.tolist())
    assert marks.time_ns.tolist() == [9] * 5
    assert verify(frames).all()


def test_checksums_stay_valid_for_any_sum():
    for size in (84, 85):
        frames, checksum = compute_frames(UDP6, size, 1 << 16)
        trailer.stamp(frames, checksum, seq=np.arange(1 << 16), stream_id=0, nonce=0, time_ns=0)
        assert verify(frames).all()
        field = frames[:, checksum.field : checksum.field + 2].view(">u2")
        assert (field == 0xFFFF).any()


def test_frames_without_udp_are_stamped():
    frames = np.zeros((3, 60), np.uint8)
    trailer.stamp(frames, None, seq=np.arange(3), stream_id=1, nonce=2, time_ns=3)
    assert not frames[:, :-16].any()
    assert trailer.read(frames).seq.tolist() == [0, 1, 2]


def test_frames_without_the_magic_octet_are_not_test_frames():
    frames = np.zeros((3, 60), np.uint8)
    frames[1, -16] = trailer.MAGIC
    frames[2, -15] = trailer.MAGIC
    assert trailer.read(frames).magic_ok.tolist() == [False, True, False]
