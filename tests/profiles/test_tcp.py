"""TCP segments of many connections, parsed by scapy: lengths, checksums, options and tunnels."""

import numpy as np
import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, ICMPv6EchoRequest, IPv6
from scapy.layers.l2 import Dot1Q, Ether
from v6t.plugins.tunnels import select_with_ports
from v6t.profiles.tcp.http import (
    MAX_OBJECT_OCTETS,
    MAX_SEGMENTS,
    REQUEST,
    SEGMENT_OCTETS,
    build_response,
    split_into_segments,
)
from v6t.profiles.tcp.segments import (
    ACK,
    HEADER_OCTETS,
    OPENING_OCTETS,
    PSH,
    RST,
    SYN,
    TcpLayout,
    compute_client_isns,
    compute_server_isns,
    read_quoted_segments,
)

from .test_template import rebuild

FOUR = IP(src="198.18.0.2", dst="198.19.0.2")
SIX = IPv6(src="2001:2::2", dst="2001:2:1::2")
HEADS = {"IPv4": FOUR, "IPv6": SIX, "IPv4 in IPv6": SIX / FOUR, "VLAN": FOUR}


def make_udp_frame(name):
    """Return a UDP test frame, whose headers the segments use."""
    ethernet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    if name == "VLAN":
        ethernet = ethernet / Dot1Q(vlan=7)
    packet = ethernet / HEADS[name] / UDP(sport=1024, dport=7) / (b"x" * 40)
    return np.frombuffer(bytes(packet), np.uint8)


def make_segments(name, count, flags=ACK, data=b"", *, is_reversed=False):
    """Return the layout and segments of connections 0, 1, 2 ... from ports 1024, 1025, 1026 ..."""
    frame = make_udp_frame(name)[None, :]
    layout, numbers = TcpLayout(frame[0]), np.arange(count)
    read = layout.read_reversed_endpoints if is_reversed else layout.read_endpoints
    endpoints = np.repeat(read(frame), count, axis=0)
    if not is_reversed:
        endpoints[:, -4:-2] = [[4, n] for n in numbers]
    rows = np.zeros((count, layout.count_frame_octets(flags, len(data))), np.uint8)
    isns = compute_client_isns(numbers), compute_server_isns(numbers)
    content = np.frombuffer(data, np.uint8) if data else None
    layout.write(rows, endpoints, flags, *isns, (numbers.astype(np.uint32), 9), content)
    return layout, rows


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize(("flags", "data"), [(SYN, b""), (PSH | ACK, REQUEST), (RST | ACK, b"")])
def test_segments_equal_scapy(name, flags, data):
    layout, rows = make_segments(name, 5, flags, data)
    numbers = np.arange(5)
    assert layout.select_frames(rows).all()
    read = layout.read(rows)
    assert read.is_valid.all() and read.has_timestamp.all()
    assert read.timestamp.tolist() == numbers.tolist()
    assert set(read.data_octets.tolist()) == {len(data)}
    for number, row in enumerate(rows):
        seen = Ether(row.tobytes())
        assert seen[TCP].sport == 1024 + number and seen[TCP].dport == 7
        assert seen[TCP].seq == int(compute_client_isns(numbers)[number])
        assert seen[TCP].ack == int(compute_server_isns(numbers)[number])
        assert bytes(seen[TCP].payload) == data
        assert ("Timestamp", (number, 9)) in seen[TCP].options
        assert (("MSS", SEGMENT_OCTETS) in seen[TCP].options) == (flags == SYN)
        assert seen[TCP].dataofs * 4 == (OPENING_OCTETS if flags == SYN else HEADER_OCTETS)
        assert rebuild(row.tobytes()) == row.tobytes()


def test_damaged_or_fragmented_segment_is_ignored():
    layout, rows = make_segments("IPv4", 3)
    rows[1, layout.tcp + 4] ^= 1
    assert layout.read(rows).is_valid.tolist() == [True, False, True]
    layout, rows = make_segments("IPv4", 2)
    assert not layout.select_frames(make_udp_frame("IPv4")[None, :]).any()  # UDP
    rows[1, 14 + 6] |= 0x20  # flag for more fragments
    assert layout.select_frames(rows).tolist() == [True, False]


def test_reversed_endpoints_include_those_of_tunnels():
    _, back = make_segments("IPv4 in IPv6", 1, is_reversed=True)
    seen = Ether(back[0].tobytes())
    assert (seen[IPv6].src, seen[IPv6].dst) == ("2001:2:1::2", "2001:2::2")
    assert (seen[IP].src, seen[IP].dst) == ("198.19.0.2", "198.18.0.2")
    assert (seen[TCP].sport, seen[TCP].dport) == (7, 1024)


def test_response_has_its_length_and_fits_the_first_window():
    head, _, body = build_response(100).partition(b"\r\n\r\n")
    assert b"Content-Length: 100" in head
    assert len(body) == 100
    assert b"".join(split_into_segments(build_response(5000))) == build_response(5000)
    assert len(split_into_segments(build_response(MAX_OBJECT_OCTETS))) <= MAX_SEGMENTS


def test_packet_shorter_than_a_tcp_header_has_no_ports():
    packets = np.zeros((2, 30), np.uint8)
    packets[:, 0], packets[:, 3], packets[:, 9] = 0x45, 30, (6, 17)
    assert select_with_ports(packets).tolist() == [False, True]


def make_quote(kind, number, ports, version=4, cut=None):
    """Build an ICMP message that quotes a segment."""
    segment = TCP(sport=ports[0], dport=ports[1], seq=number)
    if version == 4:
        quoted = IP(src="198.18.0.2", dst="198.19.0.2", id=number & 0xFFFF) / segment
        error = Ether() / IP(src="192.168.18.1", dst="198.18.0.2") / ICMP(type=kind, code=13)
    else:
        quoted = IPv6(src="2001:2::2", dst="64:ff9b::1") / segment
        error = Ether() / IPv6(src="2001:2::1", dst="2001:2::2")
        error /= ICMPv6DestUnreach(code=1) if kind == 1 else ICMPv6EchoRequest()
    return bytes(error / quoted)[:cut]


def read_quotes(*frames):
    """Return the sequence numbers and destination ports of quoted segments."""
    rows = np.stack([np.frombuffer(f, np.uint8) for f in frames])
    return [(tuple(n.tolist()), p[:, 3].tolist()) for p, n in read_quoted_segments(rows)]


def test_quoted_segments_of_icmp_errors_are_read():
    errors = [make_quote(3, 1000 + n, (1, n)) for n in range(4)]
    assert read_quotes(*errors) == [((1000, 1001, 1002, 1003), [0, 1, 2, 3])]
    expired, request = make_quote(11, 5, (1, 9)), make_quote(8, 6, (1, 9))
    quotes = read_quotes(errors[0], request, expired, errors[1])
    assert quotes == [((1000, 1001), [0, 1]), ((5,), [9])]
    assert read_quotes(make_quote(1, 7, (1, 2), 6), make_quote(128, 7, (1, 2), 6)) == [((7,), [2])]


def test_icmp_messages_are_selected():
    layout, rows = make_segments("IPv4", 2)
    error = np.frombuffer(make_quote(3, 1, (1, 2), cut=rows.shape[1]), np.uint8)
    assert layout.select_icmp(np.stack([*rows, error])).tolist() == [error.tolist()]


@pytest.mark.parametrize("octets", [14 + 20 + 8 + 20 + 8, 14 + 20 + 8 + 20 + 7])
def test_quote_needs_eight_octets_of_a_segment(octets):
    """RFC 792 requires eight octets; seven do not contain the sequence number."""
    result = read_quotes(make_quote(3, 77, (1, 2), cut=octets))
    assert result == ([((77,), [2])] if octets == 70 else [])
