"""Header views against scapy."""

from __future__ import annotations

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from v6t.packets import headers
from v6t.packets.headers import view

MACS = {"src": "02:00:00:00:00:02", "dst": "02:00:00:00:00:01"}


def rows(packet) -> np.ndarray:
    return np.repeat(np.frombuffer(bytes(packet), np.uint8)[None, :], 2, axis=0)


def test_ethernet_and_vlan_fields_equal_scapys():
    frames = rows(Ether(**MACS) / Dot1Q(vlan=5, type=0x86DD))
    assert view(frames, headers.ETHERNET)["dst"].tolist() == [[2, 0, 0, 0, 0, 1]] * 2
    assert view(frames, headers.ETHERNET)["type"].tolist() == [0x8100] * 2
    assert view(frames, headers.VLAN, 14)[["tci", "type"]].tolist() == [(5, 0x86DD)] * 2


def test_ipv4_fields_equal_scapys():
    packet = IP(tos=0xB9, id=7, flags="DF", ttl=9, src="192.0.2.1", dst="198.51.100.2") / UDP()
    header = view(rows(packet), headers.IPV4)[0]
    assert (header["ver_ihl"], header["tos"], header["len"], header["id"]) == (0x45, 0xB9, 28, 7)
    assert (header["flags_frag"], header["ttl"], header["proto"]) == (0x4000, 9, 17)
    assert (header["src"], header["dst"]) == (0xC0000201, 0xC6336402)
    assert header["dst_octets"].tolist() == [198, 51, 100, 2]
    assert header["chksum"] == IP(bytes(packet)).chksum


def test_ipv6_fields_equal_scapys():
    packet = IPv6(tc=0xAB, fl=0x12345, hlim=3, src="2001:db8::1", dst="2001:db8:1::2") / UDP()
    header = view(rows(packet), headers.IPV6)
    assert headers.read_traffic_class(header).tolist() == [0xAB] * 2
    assert header["ver_tc_fl"].tolist() == [0x6AB12345] * 2
    assert (header["plen"][0], header["nh"][0], header["hlim"][0]) == (8, 17, 3)
    assert (header["src_high"][0], header["src_low"][0]) == (0x20010DB800000000, 1)
    assert (header["dst_high"][0], header["dst_low"][0]) == (0x20010DB800010000, 2)
    assert header["dst_octets"][0, :6].tolist() == [0x20, 1, 0x0D, 0xB8, 0, 1]


def test_udp_and_tcp_fields_equal_scapys():
    udp = view(rows(UDP(sport=1, dport=2, len=3, chksum=4)), headers.UDP)[0]
    assert udp.tolist() == (1, 2, 3, 4)
    segment = TCP(sport=1, dport=2, seq=3, ack=4, flags="SA", window=5, chksum=6, urgptr=7)
    assert view(rows(segment), headers.TCP)[0].tolist() == (1, 2, 3, 4, 5 << 4, 0x12, 5, 6, 7)


def test_view_shares_memory_with_strided_rows():
    ring = np.zeros((2, 64), np.uint8)
    view(ring[:, 10:40], headers.UDP, 4)["dport"] = 0x0102
    assert ring[:, 16:18].tolist() == [[1, 2], [1, 2]]
    assert ring.sum() == 6


def test_view_short_frames_are_rejected():
    with pytest.raises(ValueError, match="octet 40"):
        view(np.zeros((1, 39), np.uint8), headers.IPV6)


@pytest.mark.parametrize("value", [0, 0xAB, 0xFF])
def test_write_traffic_class_keeps_the_flow_label(value):
    packets = rows(IPv6(fl=0x54321))
    headers.write_traffic_class(view(packets, headers.IPV6), np.full(2, value, np.uint8))
    packet = IPv6(packets[0].tobytes())
    assert (packet.version, packet.tc, packet.fl) == (6, value, 0x54321)


@pytest.mark.parametrize("version", [4, 6])
def test_decrement_hops_all_values_keep_the_checksum_valid(version):
    kind = IP if version == 4 else IPv6
    field = headers.HOPS[version]
    made = [bytes(kind(**{field: hops}, src="2001:db8::1", dst="::2") if version == 6
                  else kind(ttl=hops, id=257 * hops, src="192.0.2.1", dst="192.0.2.2"))
            for hops in range(1, 256)]  # fmt: skip
    packets = np.frombuffer(b"".join(made), np.uint8).reshape(255, -1).copy()
    headers.decrement_hops(packets, version)
    assert headers.read_hops(packets, version).tolist() == list(range(255))
    for packet in packets:
        read = kind(packet.tobytes())
        rebuilt = read.copy()
        if version == 4:
            del rebuilt.chksum
        assert bytes(rebuilt) == packet.tobytes()


def test_write_tos_all_values_keep_the_checksum_valid():
    packets = np.repeat(rows(IP(tos=0x7C, id=99, src="192.0.2.1", dst="192.0.2.2"))[:1], 256, 0)
    headers.write_tos(packets, np.arange(256, dtype=np.uint8))
    for tos, packet in enumerate(packets):
        expected = IP(packet.tobytes())
        del expected.chksum
        assert (expected.tos, bytes(expected)) == (tos, packet.tobytes())


@pytest.mark.parametrize("size", [2, 4, 8])
def test_numbers_and_octets_are_inverse(size):
    octets = np.random.default_rng(size).integers(0, 256, (50, size), dtype=np.uint8)
    numbers = headers.to_numbers(octets)
    assert numbers.tolist() == [int.from_bytes(row.tobytes(), "big") for row in octets]
    assert (headers.to_octets(numbers, size) == octets).all()
