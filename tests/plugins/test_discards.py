"""Every reference device drops the packets that RFC 1812, RFC 7915 and RFC 4291 require it to drop."""

from functools import cache
from ipaddress import ip_address

import numpy as np
import pytest
from scapy.utils import checksum as scapy_checksum
from v6t.audit.ip_packet import Drop, read_packet
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.direction import DIRECTIONS
from v6t.plugins.reference_device import select_forwardable
from v6t.profiles.expand import Expander
from v6t.profiles.model import Role

from .support import BUILT_IN, compile_streams, make

pytestmark = pytest.mark.slow

L3 = 14
HOP = "hop limit"
FOUR = ("0.0.0.0", "0.1.2.3", "127.0.0.1", "169.254.1.1", "224.0.0.1", "239.255.1.1", "240.0.0.1",  # noqa: S104
        "255.255.255.255")  # fmt: skip
SIX = ("::", "::1", "ff02::1", "fe80::1", "febf::9")
FAULTS = {
    4: [
        ("a wrong checksum", 10, None, 1),
        ("a header of 16 octets", 0, b"\x44", 0),
        ("a total length below the header", 3, b"\x00", 0),
        ("a total length beyond the packet", 2, b"\x40", 0),
        ("options without room", 0, b"\x4f", 1),
        ("version 5", 0, b"\x55", 0),
        (HOP, 8, b"\x00", 0),
        (HOP, 8, b"\x01", 0),
        *((f"from {a}", 12, ip_address(a).packed, 0) for a in FOUR),
        *((f"to {a}", 16, ip_address(a).packed, 0) for a in FOUR),
    ],
    6: [
        ("a payload length beyond the packet", 4, b"\x40", 0),
        ("version 7", 0, b"\x70", 0),
        (HOP, 7, b"\x00", 0),
        (HOP, 7, b"\x01", 0),
        *((f"from {a}", 8, ip_address(a).packed, 0) for a in SIX),
        *((f"to {a}", 24, ip_address(a).packed, 0) for a in SIX[:4]),
    ],
}  # fmt: skip
"""Name, offset and octets of a fault (None flips the lowest bit), and whether the checksum is kept."""


def plant(packet, version, at, octets, keep_checksum):
    packet[at : at + len(octets or b"1")] = list(octets or [packet[at] ^ 1])
    if version == 4 and not keep_checksum:
        write_ipv4_checksum(packet[None, :], 0)


@cache
def list_forwarded_frames():
    """Return two frames of each direction and class that each technology forwards."""
    results = []
    for name in BUILT_IN:
        plugin = make(name)
        for direction in DIRECTIONS if plugin.exchange == "frames" else ():
            for stream in compile_streams(plugin, direction, 128):
                frames = Expander(stream).compute_frames(0, 2)
                forwards = not plugin.expect(direction, frames).reason.any()
                if stream.role is not Role.NEGATIVE and forwards:
                    results.append((name, plugin, direction, frames))
    return results


def assert_dropped(plugin, direction, frames, start, fault):
    name, *place = fault
    version, faulty = int(frames[0, start]) >> 4, frames.copy()
    plant(faulty[0, start:], version, *place)
    assert (faulty[0] != frames[0]).any()
    answer = plugin.expect(direction, faulty)
    assert answer.reason[0], (plugin.name, direction, name)
    assert answer.length[0] == 0
    assert answer.reason[1] == 0  # the intact frame is still forwarded


def test_packet_that_may_not_be_forwarded_is_dropped():
    tested, tunnels = set(), set()
    for name, plugin, direction, frames in list_forwarded_frames():
        version = int(frames[0, L3]) >> 4
        tunnelled = frames[0, L3 + (6 if version == 6 else 9)] in (4, 41)
        for fault in FAULTS[version]:
            if not (tunnelled and fault[0] == HOP):  # a tunnel endpoint ignores the outer hop limit
                assert_dropped(plugin, direction, frames, L3, fault)
        tested.add((name, version))
        if (version, frames[0, L3 + 6]) == (6, 4) and not plugin.stateful:
            for fault in FAULTS[4]:
                assert_dropped(plugin, direction, frames, L3 + 40, fault)
            tunnels.add(name)
    assert {v for _, v in tested} == {4, 6}
    assert len({n for n, _ in tested}) > 10
    assert {"mape-br", "lwaftr"} <= tunnels


def is_readable(octets):
    """Return whether the packet-level device accepts a packet for forwarding."""
    try:
        read_packet(octets)
    except Drop:
        return False
    return True


@pytest.mark.parametrize("version", [4, 6])
def test_random_header_is_accepted_if_packet_level_device_accepts_it(version):
    rng = np.random.default_rng(version)
    packets = rng.integers(0, 256, (3000, 68), dtype=np.uint8)
    packets[:, 0] = version << 4 | rng.integers(4, 9, 3000) if version == 4 else 0x60
    packets[:, 2 if version == 4 else 4] = 0
    packets[:, 3 if version == 4 else 5] = rng.integers(10, 80, 3000)
    if version == 4:
        for packet in packets[::2]:
            packet[10:12] = 0
            total = scapy_checksum(packet[: 4 * int(packet[0] & 15)].tobytes())
            packet[10:12] = total >> 8, total & 255
    else:
        packets[::3, 8] = 0xFE
    expected = [is_readable(packet.tobytes()) for packet in packets]
    assert select_forwardable(packets, version).tolist() == expected
    assert 100 < sum(expected) < 2900
