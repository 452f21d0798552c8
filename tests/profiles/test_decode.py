"""Headers of any frame and what is wrong with them, against scapy."""

from __future__ import annotations

import re

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6, IPv6ExtHdrDestOpt
from scapy.layers.l2 import ARP, GRE, Dot1AD, Dot1Q, Ether
from scapy.packet import Raw
from v6t.packets import decode

ETHER = Ether(src="02:00:00:00:00:02", dst="02:00:00:00:00:01")
FOUR = IP(src="192.0.2.1", dst="198.51.100.2", id=7)
SIX = IPv6(src="2001:db8::1", dst="2001:db8:1::2")
PORTS = UDP(sport=1024, dport=53000)
DATA = Raw(bytes(range(1, 56)))
STACKS = {
    "udp": (ETHER / FOUR / PORTS, "Ethernet IPv4 UDP"),
    "udp6": (ETHER / SIX / PORTS, "Ethernet IPv6 UDP"),
    "tcp": (ETHER / FOUR / TCP(), "Ethernet IPv4 TCP"),
    "tcp6": (ETHER / Dot1Q(vlan=5) / SIX / TCP(options=[("MSS", 1400)]), "Ethernet IPv6 TCP"),
    "icmp": (ETHER / FOUR / ICMP(), "Ethernet IPv4 ICMP"),
    "icmp6": (ETHER / SIX / ICMPv6EchoRequest(), "Ethernet IPv6 ICMPv6"),
    "4in6": (ETHER / SIX / FOUR / PORTS, "Ethernet IPv6 IPv4 UDP"),
    "6in4": (ETHER / Dot1AD(vlan=5) / Dot1Q(vlan=6) / FOUR / SIX / PORTS,
             "Ethernet IPv4 IPv6 UDP"),
    "gre": (ETHER / FOUR / GRE(proto=0x88B5), "Ethernet IPv4 GRE"),
    "gre sum": (ETHER / FOUR / GRE(proto=0x88B5, chksum_present=1), "Ethernet IPv4 GRE"),
    "gre in": (ETHER / SIX / GRE(key_present=1, key=3) / FOUR / TCP(),
               "Ethernet IPv6 GRE IPv4 TCP"),
    "options": (ETHER / SIX / IPv6ExtHdrDestOpt() / PORTS, "Ethernet IPv6 UDP"),
    "ethernet in": (ETHER / FOUR / GRE(proto=0x6558) / ETHER / SIX / PORTS,
                    "Ethernet IPv4 GRE Ethernet IPv6 UDP"),
}  # fmt: skip


@pytest.mark.parametrize("name", STACKS)
def test_all_headers_are_found_where_scapy_put_them(name):
    packet, names = STACKS[name]
    found = decode.headers(bytes(packet / DATA))
    assert " ".join(h.name for h in found) == names
    assert found[-1].end == len(bytes(packet))
    assert decode.problems(bytes(packet / DATA)) == []
    assert decode.problems(bytes(packet / Raw(bytes(range(1, 57))))) == []


@pytest.mark.parametrize("name", STACKS)
def test_whatever_octet_behind_the_ethernet_header_is_changed_is_found(name):
    """But for those no checksum covers: Ethernet, GRE, IPv6's own header and addresses of tunnels."""
    packet, _ = STACKS[name]
    frame = bytearray(bytes(packet / DATA))
    headers = decode.headers(bytes(frame))
    free = set()
    for header in headers:
        if header.name in ("Ethernet", "GRE"):
            free |= set(range(header.start, header.end))
        elif header.name == "IPv6":
            free |= set(range(header.start, header.start + 4)) | {header.start + 7}
            free |= set(range(header.start + 40, header.end))
            if headers[headers.index(header) + 1].name in ("IPv4", "GRE"):
                free |= set(range(header.start + 8, header.start + 40))
    last = headers[-1]
    if last.name == "GRE" and name != "gre sum":
        free |= set(range(last.end, len(frame)))
    missed = []
    for at in range(14, len(frame)):
        frame[at] ^= 0x10
        if not decode.problems(bytes(frame)):
            missed.append(at)
        frame[at] ^= 0x10
    # a protocol field changed to something unknown leaves nothing above to look at
    protocols = {h.start + 6 for h in headers if h.name == "IPv6"}
    assert set(missed) <= free | protocols


def test_what_holds_no_packet_says_so():
    arp = bytes(ETHER / ARP(hwsrc="02:00:00:00:00:02", psrc="192.0.2.1", pdst="192.0.2.2"))
    assert len(decode.problems(arp)) == 1
    assert decode.problems(b"") == decode.problems(arp)


def test_short_frames_may_be_padded_and_long_ones_not():
    short = bytes(ETHER / FOUR / PORTS / Raw(b"1234"))
    assert len(short) < 60
    assert decode.problems(short + bytes(60 - len(short))) == []
    (problem,) = decode.problems(short + bytes(61 - len(short)))
    assert re.fullmatch("IPv4: .*-15", problem)


def test_a_missing_udp_checksum_is_allowed_over_ipv4_only():
    assert decode.problems(bytes(ETHER / FOUR / UDP(chksum=0) / DATA)) == []
    (problem,) = decode.problems(bytes(ETHER / SIX / UDP(chksum=0) / DATA))
    assert problem.startswith("UDP: ")
