"""Headers of any frame and their errors, compared with scapy."""

import numpy as np
import pytest
from scapy.layers import inet6
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPerror, IPOption_Router_Alert, TCPerror
from scapy.layers.l2 import ARP, GRE, Dot1AD, Dot1Q, Ether
from scapy.packet import Raw
from v6t.base.errors import TesterError
from v6t.packets import walker
from v6t.packets.checksum import fold, write_ipv4_checksum

from .oracle import verify

ETHER = Ether(src="02:00:00:00:00:02", dst="02:00:00:00:00:01")
FOUR = IP(src="192.0.2.1", dst="198.51.100.2", id=7)
SIX = inet6.IPv6(src="2001:db8::1", dst="2001:db8:1::2")
PORTS = UDP(sport=1024, dport=53000)
OPTIONS = IP(src="192.0.2.1", dst="192.0.2.2", options=[IPOption_Router_Alert()])
DATA = Raw(bytes(range(1, 56)))
STACKS = {
    "udp": (ETHER / FOUR / PORTS, "Ethernet IPv4 UDP"),
    "udp6": (ETHER / SIX / PORTS, "Ethernet IPv6 UDP"),
    "tcp": (ETHER / FOUR / TCP(), "Ethernet IPv4 TCP"),
    "tcp6": (ETHER / Dot1Q(vlan=5) / SIX / TCP(options=[("MSS", 1400)]), "Ethernet IPv6 TCP"),
    "icmp": (ETHER / FOUR / ICMP(), "Ethernet IPv4 ICMP"),
    "icmp6": (ETHER / SIX / inet6.ICMPv6EchoRequest(), "Ethernet IPv6 ICMPv6"),
    "4in6": (ETHER / SIX / FOUR / PORTS, "Ethernet IPv6 IPv4 UDP"),
    "6in4": (ETHER / Dot1AD(vlan=5) / Dot1Q(vlan=6) / FOUR / SIX / PORTS,
             "Ethernet IPv4 IPv6 UDP"),
    "gre": (ETHER / FOUR / GRE(proto=0x88B5), "Ethernet IPv4 GRE"),
    "gre sum": (ETHER / FOUR / GRE(proto=0x88B5, chksum_present=1), "Ethernet IPv4 GRE"),
    "gre in": (ETHER / SIX / GRE(key_present=1, key=3) / FOUR / TCP(),
               "Ethernet IPv6 GRE IPv4 TCP"),
    "options": (ETHER / SIX / inet6.IPv6ExtHdrDestOpt() / PORTS, "Ethernet IPv6 UDP"),
    "options4": (ETHER / OPTIONS / PORTS, "Ethernet IPv4 UDP"),
    "ethernet in": (ETHER / FOUR / GRE(proto=0x6558) / ETHER / SIX / PORTS,
                    "Ethernet IPv4 GRE Ethernet IPv6 UDP"),
}  # fmt: skip
TRANSPORTS = [name for name, (_, names) in STACKS.items() if "GRE" not in names.split()[-1]]
UDP_STACKS = ("udp", "udp6", "4in6", "options4")


def array(*packets):
    return np.array([np.frombuffer(bytes(packet), np.uint8) for packet in packets])


@pytest.mark.parametrize("name", STACKS)
def test_walk_finds_headers_at_offsets_of_scapy(name):
    packet, names = STACKS[name]
    headers = walker.walk(bytes(packet / DATA))
    assert " ".join(h.name for h in headers) == names
    assert headers[-1].end == len(bytes(packet))


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("octets", [55, 56])
def test_find_problems_valid_frames_have_none(name, octets):
    assert walker.find_problems(bytes(STACKS[name][0] / Raw(bytes(range(1, octets + 1))))) == []


@pytest.mark.parametrize("name", STACKS)
def test_find_problems_every_covered_octet_counts(name):
    frame = bytearray(bytes(STACKS[name][0] / DATA))
    headers, free = walker.walk(bytes(frame)), set()
    for number, header in enumerate(headers):
        if header.name in ("Ethernet", "GRE"):
            free |= set(range(header.start, header.end))
        elif header.name == "IPv6":
            free |= {*range(header.start, header.start + 4), header.start + 6, header.start + 7}
            free |= set(range(header.start + 40, header.end))
            if headers[number + 1].name in ("IPv4", "GRE"):
                free |= set(range(header.start + 8, header.start + 40))
    if headers[-1].name == "GRE" and name != "gre sum":
        free |= set(range(headers[-1].end, len(frame)))
    missed = set()
    for at in range(14, len(frame)):
        frame[at] ^= 0x10
        if not walker.find_problems(bytes(frame)):
            missed.add(at)
        frame[at] ^= 0x10
    assert missed <= free


@pytest.mark.parametrize(
    "frame", [b"", bytes(ETHER / ARP(hwsrc=ETHER.src, psrc="192.0.2.1", pdst="192.0.2.2"))]
)
def test_find_problems_frame_without_ip_has_one(frame):
    assert len(walker.find_problems(frame)) == 1


def test_find_problems_padding_and_missing_udp_checksum_of_ipv4_are_allowed():
    short = bytes(ETHER / FOUR / PORTS / Raw(b"1234"))
    assert walker.find_problems(short.ljust(60, b"\0")) == []
    assert len(walker.find_problems(short.ljust(61, b"\0"))) == 1
    assert walker.find_problems(bytes(ETHER / FOUR / UDP(chksum=0) / DATA)) == []
    assert len(walker.find_problems(bytes(ETHER / SIX / UDP(chksum=0) / DATA))) == 1


@pytest.mark.parametrize(("packet", "networks"), [
    (ETHER / FOUR / TCP(), [(4, 14)]),
    (ETHER / Dot1Q(vlan=5) / SIX / FOUR / PORTS, [(6, 18), (4, 58)]),
    (ETHER / SIX / inet6.IPv6ExtHdrFragment() / PORTS, [(6, 14)]),
    (ETHER / IP(src="192.0.2.1", dst="192.0.2.2", frag=10, proto=17) / Raw(bytes(20)), [(4, 14)]),
    (Ether(src=ETHER.src, dst=ETHER.dst, type=0x86DD) / Raw(bytes(39)), []),
    (Ether(src=ETHER.src, dst=ETHER.dst, type=0x8100) / Raw(b"\0"), []),
], ids=["tcp", "vlan 4in6", "ipv6 fragment", "ipv4 fragment", "cut", "cut tag"])  # fmt: skip
def test_locate_headers_finds_networks(packet, networks):
    assert list(walker.locate_headers(bytes(packet)).networks) == networks


def test_locate_endpoints_frame_without_ports_is_rejected():
    # IPv6 hop-by-hop options, ESP and SCTP
    others = [ETHER / IP(src="192.0.2.1", proto=number) / DATA for number in (0, 50, 132)]
    for packet in (ETHER, ETHER / FOUR / GRE(proto=0x88B5) / DATA, *others):
        with pytest.raises(TesterError) as caught:
            walker.locate_endpoints(bytes(packet))
        assert caught.value.code == "invalid-traffic-model"


SIX_ROW = "20010db8" + "0" * 23 + "120010db80001" + "0" * 19 + "2"


@pytest.mark.parametrize(("packet", "row"), [
    (FOUR / PORTS, "c0000201c63364020400cf08"), (SIX / PORTS, SIX_ROW + "0400cf08"),
    (FOUR / ICMP(id=0x1234, seq=9), "c0000201c633640212341234"),
    (SIX / FOUR / PORTS, "c0000201c63364020400cf08"),
], ids=["udp", "udp6", "icmp", "4in6"])  # fmt: skip
def test_row_has_addresses_and_ports(packet, row):
    frames = array(ETHER / packet / DATA)
    layout = walker.locate_endpoints(frames[0])
    octets = frames[0, layout.row]
    assert octets.tobytes().hex() == row
    half = (len(octets) - 4) // 2
    swapped = octets[half:-4].tolist() + octets[:half].tolist()
    assert octets[layout.swapped_row][:-4].tolist() == swapped


def test_tunnel_row_has_outer_before_inner_addresses():
    frames = array(ETHER / SIX / FOUR / PORTS / DATA)
    octets = frames[0, walker.locate_endpoints(frames[0]).tunnel_row].tobytes().hex()
    source, destination = SIX_ROW[:32], SIX_ROW[32:]
    assert octets == source + "c0000201" + destination + "c63364020400cf08"


@pytest.mark.parametrize("name", TRANSPORTS)
@pytest.mark.parametrize("length", [0, 1, 17, 18, 999])
def test_write_checksum_equals_scapys(name, length):
    rng = np.random.default_rng(length)
    frames = array(*[STACKS[name][0] / Raw(rng.bytes(length)) for _ in range(4)])
    layout, written = walker.locate_endpoints(frames[0]), frames.copy()
    written[:, layout.checksum : layout.checksum + 2] = 0x5A
    layout.write_checksum(written)
    assert (written == frames).all()
    if name != "icmp":
        assert (fold(layout.sum_transport(frames)) == 0xFFFF).all()


@pytest.mark.parametrize("name", UDP_STACKS)
def test_write_checksum_zero_is_written_as_ffff(name):
    frames = np.repeat(array(STACKS[name][0] / Raw(b"ab")), 65536, axis=0)
    frames[:, -2:] = np.arange(65536, dtype=">u2").view(np.uint8).reshape(-1, 2)
    layout = walker.locate_endpoints(frames[0])
    layout.write_checksum(frames)
    field = frames[:, layout.checksum : layout.checksum + 2].view(">u2")[:, 0]
    assert (field > 0).all() and (field == 0xFFFF).any()
    assert verify(frames).all()


def test_write_checksum_padding_behind_a_datagram_is_not_summed():
    frame = bytes(ETHER / FOUR / PORTS / Raw(b"abc")) + b"\xff\xee\xdd"
    frames = array(frame)
    walker.locate_endpoints(frame).write_checksum(frames)
    assert frames[0].tobytes() == frame


def test_write_checksum_of_strided_rows_changes_no_other_octets():
    ring = np.zeros((5, 256), np.uint8)
    frames = ring[:, 10:60]
    frames[:] = array(ETHER / FOUR / PORTS / Raw(b"12345678"))
    layout = walker.locate_endpoints(frames[0])
    layout.write_checksum(frames)
    write_ipv4_checksum(frames, layout.networks[0].start)
    assert verify(frames).all()
    assert not ring[:, :10].any() and not ring[:, 60:].any()


def test_group_by_headers_random_flips_equals_walking_each_frame():
    rng = np.random.default_rng(1)
    for packet, _ in STACKS.values():
        frames = np.repeat(array(packet / DATA), 400, axis=0)
        at = rng.integers(12, min(100, frames.shape[1]), 400)
        frames[np.arange(400), at] ^= (1 << rng.integers(0, 8, 400)).astype(np.uint8)
        grouped = []
        for rows, headers in walker.group_by_headers(frames):
            grouped += rows.tolist()
            assert all(walker.walk(frames[row].tobytes()) == headers for row in rows)
        assert sorted(grouped) == list(range(400))


@pytest.mark.parametrize(("packet", "names"), [
    (FOUR / ICMP(type=3, code=3) / IPerror(bytes(FOUR / TCP())), "IPv4 TCP"),
    (FOUR / ICMP(type=3, code=3) / IPerror(bytes(FOUR / TCP())[:28]), "IPv4"),
    (SIX / inet6.ICMPv6DestUnreach() / inet6.IPerror6(bytes(SIX / TCP())), "IPv6 TCP"),
    (FOUR / ICMP() / FOUR / TCPerror(), ""),
], ids=["icmp", "cut", "icmpv6", "echo"])  # fmt: skip
def test_walk_with_quote_finds_the_quoted_headers(packet, names):
    frame = bytes(ETHER / packet)
    headers, quoted = walker.walk(frame), walker.walk_with_quote(frame)
    assert quoted[: len(headers)] == headers
    assert " ".join(h.name for h in quoted[len(headers) :]) == names
