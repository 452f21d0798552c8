from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_Router_Alert
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.packet import Raw
from scapy.utils import checksum
from v6t.packets import inet

from .test_template import rebuilt

FOUR = IP(src="192.0.2.1", dst="198.51.100.2")
SIX = IPv6(src="2001:db8::1", dst="2001:db8:1::2")
PORTS = UDP(sport=1024, dport=53000)
# always with addresses: scapy would ask the network for those that are missing
ETHER = {"src": "02:00:00:00:00:02", "dst": "02:00:00:00:00:01"}
STACKS = {
    "ipv4": (Ether(**ETHER) / FOUR / PORTS, (14, 4, None, 34, 42)),
    "ipv6": (Ether(**ETHER) / SIX / PORTS, (14, 6, None, 54, 62)),
    "4in6": (Ether(**ETHER) / SIX / FOUR / PORTS, (14, 6, 54, 74, 82)),
    "vlan": (Ether(**ETHER) / Dot1Q(vlan=5) / SIX / FOUR / PORTS, (18, 6, 58, 78, 86)),
    "two tags": (
        Ether(**ETHER) / Dot1AD(vlan=5) / Dot1Q(vlan=6) / FOUR / PORTS,
        (22, 4, None, 42, 50),
    ),
    "options": (
        Ether(**ETHER)
        / IP(src="192.0.2.1", dst="192.0.2.2", options=[IPOption_Router_Alert()])
        / PORTS,
        (14, 4, None, 38, 46),
    ),
}
OTHERS = {
    "arp": (
        Ether(**ETHER) / ARP(hwsrc=ETHER["src"], psrc="192.0.2.1", pdst="192.0.2.2"),
        (14, 0, None, None, 14),
    ),
    "icmp": (Ether(**ETHER) / FOUR / ICMP(), (14, 4, None, None, 34)),
    "tcp": (Ether(**ETHER) / FOUR / TCP(), (14, 4, None, None, 34)),
    "tcp in 4in6": (Ether(**ETHER) / SIX / FOUR / TCP(), (14, 6, 54, None, 74)),
    "fragment": (
        Ether(**ETHER) / IP(src="192.0.2.1", dst="192.0.2.2", frag=10, proto=17) / Raw(bytes(20)),
        (14, 4, None, None, 34),
    ),
    "IPv6 fragment": (Ether(**ETHER) / SIX / IPv6ExtHdrFragment() / PORTS, (14, 6, None, None, 54)),
    "cut": (Ether(**ETHER, type=0x86DD) / Raw(bytes(39)), (14, 0, None, None, 14)),
    "cut tag": (Ether(**ETHER, type=0x8100) / Raw(b"\0"), (18, 0, None, None, 18)),
}


def sent(packet, payload=b"") -> bytes:
    return bytes(packet / Raw(payload) if payload else packet)


def rows(*frames: bytes) -> np.ndarray:
    return np.array([np.frombuffer(f, np.uint8) for f in frames])


@pytest.mark.parametrize("name", [*STACKS, *OTHERS])
def test_headers_are_where_scapy_put_them(name):
    packet, (l3, version, inner, udp, payload) = {**STACKS, **OTHERS}[name]
    frame = sent(packet)
    headers = inet.headers_of(frame)
    assert headers == inet.Headers(l3, version, inner, udp, payload)
    assert inet.headers_of(np.frombuffer(frame, np.uint8)) == headers
    assert headers.l4_ip == (inner or l3)
    assert headers.l4_version == (4 if inner else version)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(st.binary(min_size=1, max_size=99), min_size=1, max_size=3), st.integers(0, 9))
def test_sums_are_scapys_checksums(contents, before):
    size = max(map(len, contents))
    frames = np.zeros((len(contents), before + size), np.uint8)
    for row, content in zip(frames, contents, strict=True):
        row[before : before + len(content)] = list(content)
    sums = inet.fold(inet.ones_complement_sum(frames, before, before + size))
    assert [int(~s & 0xFFFF) for s in sums] == [
        checksum(f[before:].tobytes()) if f[before:].any() else 0xFFFF for f in frames
    ]


@settings(derandomize=True, deadline=None)
@given(st.lists(st.integers(0, (1 << 32) - 1), min_size=1, max_size=5))
def test_folding(sums):
    folded = inet.fold(np.array(sums, np.uint32))
    for before, after in zip(sums, folded.tolist(), strict=True):
        assert after <= 0xFFFF
        assert after % 0xFFFF == before % 0xFFFF
        assert (after == 0) == (before == 0)


def test_words_share_memory_with_octets():
    frames = np.zeros((2, 7), np.uint8)
    words = inet.words(frames)
    assert words.shape == (2, 3)
    words[1, 2] = 0x0102
    assert frames[1].tolist() == [0, 0, 0, 0, 1, 2, 0]
    ring = np.zeros((2, 16), np.uint8)
    inet.words(ring[:, 3:9])[0, 0] = 0x0304
    assert ring[0, 3:5].tolist() == [3, 4]


@pytest.mark.parametrize("length", [0, 1, 2, 17, 18, 999, 1000])
@pytest.mark.parametrize("name", STACKS)
def test_checksums_of_odd_and_even_lengths(name, length):
    rng = np.random.default_rng(length)
    packets = [rng.integers(0, 256, length, np.uint8).tobytes() for _ in range(4)]
    frames = rows(*(sent(STACKS[name][0], p) for p in packets))
    assert inet.verify(frames).all()
    headers = inet.headers_of(frames[0])
    spoilt = frames.copy()
    spoilt[:, headers.udp + 6 : headers.udp + 8] = 0x5A
    assert not inet.verify(spoilt).any()
    inet.finish_udp(spoilt, headers)
    assert (spoilt == frames).all()
    assert [rebuilt(f.tobytes()) for f in frames] == [f.tobytes() for f in frames]
    if headers.l4_version == 4:
        spoilt[:, headers.l4_ip + 10 : headers.l4_ip + 12] = 0x5A
        assert not inet.verify(spoilt).any()
        inet.finish_ipv4(spoilt, headers.l4_ip)
        assert (spoilt == frames).all()


@pytest.mark.parametrize("name", STACKS)
def test_every_covered_bit_counts(name):
    frame = np.frombuffer(sent(STACKS[name][0], b"some odd text"), np.uint8)
    headers = inet.headers_of(frame)
    start = headers.l4_ip
    at = start + 12 if headers.l4_version == 4 else start + 8
    covered = [*range(at, headers.udp + 4), *range(headers.udp + 6, len(frame))]
    damaged = np.repeat(frame[None, :], 8 * len(covered), axis=0)
    for row, flipped in enumerate(damaged):
        flipped[covered[row // 8]] ^= 1 << row % 8
    assert not inet.verify(damaged).any()


def test_each_row_is_judged_for_itself():
    good = sent(STACKS["4in6"][0], b"payload")
    bad = bytearray(good)
    bad[-1] ^= 1
    assert inet.verify(rows(good, bytes(bad), good)).tolist() == [True, False, True]
    assert inet.verify(np.zeros((0, 60), np.uint8)).tolist() == []


@pytest.mark.parametrize("name", OTHERS)
def test_frames_without_udp_are_not_valid(name):
    frames = rows(sent(OTHERS[name][0]), sent(OTHERS[name][0]))
    assert not inet.verify(frames).any()
    headers = inet.headers_of(frames[0])
    for ask in (inet.finish_udp, inet.udp_sum, inet.pseudo_header_sum):
        with pytest.raises(ValueError, match="without UDP"):
            ask(frames, headers)


def test_a_missing_udp_checksum_is_not_valid():
    # GEN-25: legal over IPv4 (RFC 768), and yet no test frame
    frames = rows(sent(Ether(**ETHER) / FOUR / UDP(sport=1, dport=2, chksum=0), b"x"))
    assert not inet.verify(frames).any()


@pytest.mark.parametrize("name", ["ipv4", "ipv6", "4in6"])
def test_a_checksum_of_zero_is_sent_as_ffff(name):
    frames = np.repeat(rows(sent(STACKS[name][0], b"ab")), 65536, axis=0)
    headers = inet.headers_of(frames[0])
    number = np.arange(65536)
    frames[:, headers.payload] = number >> 8
    frames[:, headers.payload + 1] = number & 255
    inet.finish_udp(frames, headers)
    field = inet.ones_complement_sum(frames, headers.udp + 6, headers.udp + 8)
    assert (field > 0).all()
    assert inet.verify(frames).all()
    ones = np.flatnonzero(field == 0xFFFF)
    assert len(ones) > 0
    for row in ones:
        assert rebuilt(frames[row].tobytes()) == frames[row].tobytes()
    # the same sum written as 0 means "no checksum"
    frames[ones, headers.udp + 6 : headers.udp + 8] = 0
    assert not inet.verify(frames[ones]).any()


def test_padding_behind_a_datagram_is_not_summed():
    packet = sent(Ether(**ETHER) / FOUR / PORTS, b"abc") + b"\xff\xee\xdd"
    assert inet.verify(rows(packet)).all()


def test_rows_far_apart():
    ring = np.zeros((5, 256), np.uint8)
    frames = ring[:, 10:60]
    frames[:] = rows(sent(STACKS["ipv4"][0], b"12345678"))
    headers = inet.headers_of(frames[0])
    inet.finish_udp(frames, headers)
    inet.finish_ipv4(frames, headers.l3)
    assert inet.verify(frames).all()
    assert not ring[:, :10].any()
    assert not ring[:, 60:].any()
