import pytest
from scapy.utils import RawPcapReader
from v6t.base.errors import UsageError
from v6t.profiles.exports import write_pcap
from v6t.tests.expect import expect_error

FRAMES = [bytes([k]) * (60 + k) for k in range(9)]


def read_pcap(path):
    """Return time stamps in nanoseconds and frames."""
    with RawPcapReader(str(path)) as reader:
        assert reader.nano
        assert reader.linktype == 1
        records = list(reader)
    assert [meta.wirelen for _, meta in records] == [len(data) for data, _ in records]
    return [meta.sec * 10**9 + meta.usec for _, meta in records], [data for data, _ in records]


def test_capture_has_frames_and_stamps(tmp_path):
    path = tmp_path / "out.pcap"
    assert write_pcap(path, iter(FRAMES), 3.0) == 9
    assert read_pcap(path) == ([round(k * 10**9 / 3) for k in range(9)], FRAMES)
    assert [p.name for p in tmp_path.iterdir()] == ["out.pcap"]
    assert write_pcap(path, [b"a" * 60, None, b"c" * 60], 4.0, overwrite=True) == 2
    assert read_pcap(path) == ([0, 500_000_000], [b"a" * 60, b"c" * 60])
    assert write_pcap(path, [], 4.0, overwrite=True) == 0
    assert path.stat().st_size == 24
    write_pcap(path, (b"x" * 60 for _ in range(30_001)), 14_880_952.38, overwrite=True)
    assert read_pcap(path)[0][-1] == round(30_000 * 1e9 / 14_880_952.38)


@pytest.mark.parametrize("content", [None, b"mine"])
def test_failure_half_way_leaves_no_capture(tmp_path, content):
    def fail():
        yield FRAMES[0]
        raise UsageError("no more", code="duplicate")

    path = tmp_path / "out.pcap"
    if content:
        path.write_bytes(content)
    with expect_error("duplicate"):
        write_pcap(path, fail(), 1.0, overwrite=True)
    assert [p.read_bytes() for p in tmp_path.iterdir()] == ([content] if content else [])
