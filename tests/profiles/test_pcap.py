from __future__ import annotations

import struct

import pytest
from scapy.utils import RawPcapReader, RawPcapWriter
from v6t.base.errors import UsageError
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import expand_set
from v6t.profiles.exports import write_pcap
from v6t.profiles.model import Traffic
from v6t.tests.expect import expect_error
from v6t.tests.profiles.pcap_reader import read_pcap

from .test_template import rebuilt
from .traffics import background, mape

FRAMES = [bytes([k]) * (60 + k) for k in range(9)]


def test_scapy_reads_what_was_written(tmp_path):
    path = tmp_path / "out.pcap"
    assert write_pcap(path, iter(FRAMES), 3.0) == 9
    with RawPcapReader(str(path)) as reader:
        assert reader.nano
        assert reader.linktype == 1
        records = list(reader)
    assert [data for data, _ in records] == FRAMES
    assert [meta.wirelen for _, meta in records] == [len(f) for f in FRAMES]
    stamps = [meta.sec * 10**9 + meta.usec for _, meta in records]
    assert stamps == [round(k * 10**9 / 3) for k in range(9)]
    assert [p.name for p in tmp_path.iterdir()] == ["out.pcap"]


def test_stamps_do_not_drift(tmp_path):
    path = tmp_path / "out.pcap"
    write_pcap(path, (b"x" * 60 for _ in range(30_001)), 14_880_952.38)
    with RawPcapReader(str(path)) as reader:
        *_, (_, last) = reader
    assert last.sec == 0
    assert last.usec == round(30_000 * 1e9 / 14_880_952.38)


def test_frames_of_a_stream_set(tmp_path):
    streams = compile_traffic(Traffic("forward", (mape(), background())))
    path = tmp_path / "out.pcap"
    write_pcap(path, expand_set(streams, 0, 100), 1000.0)
    with RawPcapReader(str(path)) as reader:
        captured = [data for data, _ in reader]
    assert captured == list(expand_set(streams, 0, 100))
    assert [rebuilt(f) for f in captured] == captured


def test_what_was_written_is_read(tmp_path):
    path = tmp_path / "out.pcap"
    write_pcap(path, FRAMES, 4.0)
    got = list(read_pcap(path))
    assert [frame for _, frame in got] == FRAMES
    assert [when for when, _ in got] == pytest.approx([k / 4 for k in range(9)])
    assert write_pcap(path, [], 4.0, overwrite=True) == 0
    assert list(read_pcap(path)) == []


@pytest.mark.parametrize("endianness", ["<", ">"])
@pytest.mark.parametrize("nano", [False, True])
def test_captures_of_others_are_read(tmp_path, nano, endianness):
    path = tmp_path / "other.pcap"
    with RawPcapWriter(str(path), linktype=1, nano=nano, endianness=endianness) as out:
        out.write_header(None)
        for k, frame in enumerate(FRAMES):
            out.write_packet(frame, sec=k, usec=500_000 * (1000 if nano else 1))
    got = list(read_pcap(path))
    assert [frame for _, frame in got] == FRAMES
    assert [when for when, _ in got] == pytest.approx([k + 0.5 for k in range(9)])


def test_existing_files_are_kept(tmp_path):
    path = tmp_path / "out.pcap"
    path.write_bytes(b"mine")
    with expect_error("file-exists"):
        write_pcap(path, FRAMES, 1.0)
    assert path.read_bytes() == b"mine"
    write_pcap(path, FRAMES, 1.0, overwrite=True)
    assert len(list(read_pcap(path))) == 9


def test_what_fails_half_way_leaves_nothing(tmp_path):
    def failing():
        yield FRAMES[0]
        raise UsageError("no more", code="duplicate")

    path = tmp_path / "out.pcap"
    with expect_error("duplicate"):
        write_pcap(path, failing(), 1.0)
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"mine")
    with expect_error("duplicate"):
        write_pcap(path, failing(), 1.0, overwrite=True)
    assert path.read_bytes() == b"mine"


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 100, bytes(24)])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    with expect_error("wrong-kind-of-file"):
        list(read_pcap(path))


def test_the_next_generation_format_is_refused(tmp_path):
    path = tmp_path / "other.pcapng"
    block = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    path.write_bytes(block)
    with RawPcapReader(str(path)) as reader:
        assert type(reader).__name__ == "RawPcapNgReader"
    with expect_error("wrong-kind-of-file"):
        list(read_pcap(path))


@pytest.mark.parametrize("kept", [1, 15, 16, 17, 75])
def test_captures_that_break_off_are_noticed(tmp_path, kept):
    path = tmp_path / "out.pcap"
    write_pcap(path, FRAMES[:2], 1.0)
    whole = path.read_bytes()
    second = 24 + 16 + len(FRAMES[0])
    assert struct.unpack_from("<I", whole, second + 8) == (61,)
    path.write_bytes(whole[: second + kept])
    got = read_pcap(path)
    assert next(got)[1] == FRAMES[0]
    with expect_error("damaged-file"):
        next(got)
