"""Recordings of TRex and what is learned from them."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from v6t.drivers.trex.capture import read_recording
from v6t.drivers.trex.streams import read_stamps
from v6t.tests.expect import expect_error


def pcap(frames, *, order="<", cut=0, magic=0xA1B2C3D4):
    head = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, 1)
    records = [
        struct.pack(f"{order}IIII", 1, k, len(f) - cut, len(f)) + f[: len(f) - cut]
        for k, f in enumerate(frames)
    ]
    return head + b"".join(records)


def frame(seq, length=64):
    tail = struct.pack("<BBHIQ", 0xAB, 0, 3, seq & 0xFFFFFFFF, 77)
    return bytes(length - 16) + tail


def read(tmp_path, data):
    path = tmp_path / "r.pcap"
    path.write_bytes(data)
    return [frames for _, frames in read_recording(path)]


@pytest.mark.parametrize("order", ["<", ">"])
def test_equal_lengths_are_one_view_of_the_file(tmp_path, order):
    sent = [frame(k - 2) for k in range(100)]
    (found,) = read(tmp_path, pcap(sent, order=order))
    assert found.tobytes() == b"".join(sent)
    marked, numbers = read_stamps(found)
    assert marked.all()
    assert numbers.tolist() == list(range(100))


def test_mixed_lengths_come_together(tmp_path):
    sent = [frame(k, 64 if k % 3 else 80) for k in range(30)]
    found = read(tmp_path, pcap(sent))
    assert sorted(f.shape for f in found) == [(10, 80), (20, 64)]
    assert b"".join(f.tobytes() for f in found if f.shape[1] == 80) == b"".join(sent[::3])


def test_a_record_that_was_being_written_is_left_out(tmp_path):
    (found,) = read(tmp_path, pcap([frame(0), frame(1)])[:-5])
    assert len(found) == 1


@pytest.mark.parametrize("data", [b"", pcap([])])
def test_nothing_recorded(tmp_path, data):
    assert read(tmp_path, data) == []


@pytest.mark.parametrize("data", [b"x" * 100, pcap([frame(1)], cut=4)])
def test_what_cannot_be_learned_from_is_refused(tmp_path, data):
    with expect_error("tester-fault"):
        read(tmp_path, data)


def test_frames_of_others_have_no_number():
    other = np.zeros((1, 64), dtype=np.uint8)
    marked, _ = read_stamps(other)
    assert not marked.any()
    marked, _ = read_stamps(other[:, :10])
    assert not marked.any()
