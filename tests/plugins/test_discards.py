"""Every reference device discards what RFC 1812, RFC 7915 and RFC 4291 tell it to discard."""

from __future__ import annotations

import numpy as np
import pytest
from scapy.utils import checksum as scapy_checksum
from v6t.audit.ip_packet import Drop, read_packet
from v6t.core.config.plugins import load_plugin, names
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.direction import DIRECTIONS
from v6t.plugins.reference_device import is_forwardable
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.model import Role

pytestmark = pytest.mark.slow


def is_readable(octets):
    """Return whether the packet-level device reads a packet that it may forward."""
    try:
        read_packet(octets)
    except Drop:
        return False
    return True


L3 = 14
SIX = ("::", "::1", "ff02::1", "fe80::1", "febf::9")
FOUR = ("0.0.0.0", "0.1.2.3", "127.0.0.1", "169.254.1.1", "224.0.0.1", "239.255.1.1", "240.0.0.1")  # noqa: S104


def octet(at, value, *, summed=True):
    """A header with another octet, its checksum right or as it was."""

    def change(packet, version):
        packet[at] = value(packet[at]) if callable(value) else value
        if version == 4 and summed:
            write_ipv4_checksum(packet[None, :], 0)

    return change


def addressed(at, octets):
    def change(packet, version):
        packet[at : at + len(octets)] = list(octets)
        if version == 4:
            write_ipv4_checksum(packet[None, :], 0)

    return change


BROKEN = {
    4: {
        "a wrong checksum": octet(10, lambda v: v ^ 1, summed=False),
        "a header of 16 octets": octet(0, 0x44),
        "a total length below the header": octet(3, lambda v: 0),
        "a total length beyond the packet": octet(2, lambda v: v ^ 0x40),
        "options without room": octet(0, 0x4F, summed=False),
        "version 5": octet(0, 0x55),
        "TTL 0": octet(8, 0),
        "TTL 1": octet(8, 1),
        **{f"from {a}": addressed(12, bytes(map(int, a.split(".")))) for a in FOUR},
        **{f"to {a}": addressed(16, bytes(map(int, a.split(".")))) for a in FOUR},
        "to everybody": addressed(16, b"\xff" * 4),
        "from everybody": addressed(12, b"\xff" * 4),
    },
    6: {
        "a payload length beyond the packet": octet(4, lambda v: v ^ 0x40),
        "version 7": octet(0, 0x70),
        "hop limit 0": octet(7, 0),
        "hop limit 1": octet(7, 1),
        **{f"from {a}": addressed(8, inet_octets) for a, inet_octets in [
            ("::", bytes(16)), ("::1", bytes(15) + b"\1"), ("ff02::1", b"\xff\2" + bytes(13) + b"\1"),
            ("fe80::1", b"\xfe\x80" + bytes(13) + b"\1"), ("febf::9", b"\xfe\xbf" + bytes(13) + b"\t"),
        ]},
        **{f"to {a}": addressed(24, inet_octets) for a, inet_octets in [
            ("::", bytes(16)), ("::1", bytes(15) + b"\1"), ("ff02::1", b"\xff\2" + bytes(13) + b"\1"),
            ("fe80::1", b"\xfe\x80" + bytes(13) + b"\1"),
        ]},
    },
}  # fmt: skip


def forwarded_frames():
    """Two frames that each technology's device forwards, of each direction and class."""
    for name in names():
        plugin = load_plugin(name)()
        if plugin.exchange == "queries":
            continue  # nothing is forwarded: names are asked and answered
        for direction in DIRECTIONS:
            traffic = plugin.traffic(direction, plugin.frame_pair(128), 1)
            for stream in compile_traffic(traffic).streams:
                if stream.role is Role.NEGATIVE:
                    continue
                frames = Expander(stream).frames(0, 2)
                if (plugin.expect(direction, frames).reason == 0).all():
                    yield name, plugin, direction, frames


def test_what_may_not_be_forwarded_is_dropped_by_every_reference_device():
    tried = set()
    for name, plugin, direction, frames in forwarded_frames():
        version = int(frames[0, L3]) >> 4
        tunnel = frames[0, L3 + (6 if version == 6 else 9)] in (4, 41)
        for what, change in BROKEN[version].items():
            if tunnel and what.startswith(("hop limit", "TTL")):
                continue  # a tunnel ends here: who receives a packet does not forward it
            spoilt = frames.copy()
            change(spoilt[0, L3:], version)
            assert (spoilt[0] != frames[0]).any()
            answer = plugin.expect(direction, spoilt)
            assert answer.reason[0], (name, direction, what)
            assert answer.length[0] == 0
            assert answer.reason[1] == 0  # its neighbour is forwarded as before
            tried.add((name, version))
    assert {v for _, v in tried} == {4, 6}
    assert len({n for n, _ in tried}) > 10


def test_inside_a_tunnel_as_well():
    tried = set()
    for name, plugin, direction, frames in forwarded_frames():
        inner = L3 + 40
        if plugin.stateful or frames[0, L3] >> 4 != 6 or frames[0, L3 + 6] != 4:
            continue  # without a connection a tunnel's packets are IPv6 like others
        for what, change in BROKEN[4].items():
            spoilt = frames.copy()
            change(spoilt[0, inner:], 4)
            answer = plugin.expect(direction, spoilt)
            assert answer.reason[0], (name, direction, what)
            assert answer.reason[1] == 0
        tried.add(name)
    assert {"mape-br", "lwaftr"} <= tried


@pytest.mark.parametrize("version", [4, 6])
def test_the_same_as_scapy_says_of_random_headers(version):
    rng = np.random.default_rng(version)
    packets = rng.integers(0, 256, (3000, 68), dtype=np.uint8)
    packets[:, 0] = version << 4 | rng.integers(4, 9, 3000) if version == 4 else 0x60
    packets[:, 2 if version == 4 else 4] = 0
    packets[:, 3 if version == 4 else 5] = rng.integers(10, 80, 3000)
    if version == 4:
        for packet in packets[::2]:
            octets = 4 * int(packet[0] & 15)
            packet[10:12] = 0
            total = scapy_checksum(packet[:octets].tobytes())
            packet[10:12] = total >> 8, total & 255
    else:
        packets[::3, 8] = 0xFE
    wanted = [is_readable(packet.tobytes()) for packet in packets]
    assert is_forwardable(packets, version).tolist() == wanted
    assert 100 < sum(wanted) < 2900
