"""Header views, compared with scapy."""

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from v6t.packets import headers
from v6t.packets.headers import view

MACS = {"src": "02:00:00:00:00:02", "dst": "02:00:00:00:00:01"}


def rows(packet):
    return np.repeat(np.frombuffer(bytes(packet), np.uint8)[None, :], 2, axis=0)


IP4 = IP(tos=0xB9, id=7, flags="DF", ttl=9, src="192.0.2.1", dst="198.51.100.2") / UDP()
IP6 = IPv6(tc=0xAB, fl=0x12345, hlim=3, src="2001:db8::1", dst="2001:db8:1::2") / UDP()
SEGMENT = TCP(sport=1, dport=2, seq=3, ack=4, flags="SA", window=5, chksum=6, urgptr=7)
TAGGED = Ether(**MACS) / Dot1Q(vlan=5, type=0x86DD)


@pytest.mark.parametrize(("packet", "header", "start", "fields"), [
    (TAGGED, headers.ETHERNET, 0, {"dst": [2, 0, 0, 0, 0, 1], "type": 0x8100}),
    (TAGGED, headers.VLAN, 14, {"tci": 5, "type": 0x86DD}),
    (IP4, headers.IPV4, 0, {
        "ver_ihl": 0x45, "tos": 0xB9, "len": 28, "id": 7, "flags_frag": 0x4000, "ttl": 9, "proto": 17,
        "src": 0xC0000201, "dst": 0xC6336402, "dst_octets": [198, 51, 100, 2],
        "chksum": IP(bytes(IP4)).chksum}),
    (IP6, headers.IPV6, 0, {
        "ver_tc_fl": 0x6AB12345, "plen": 8, "nh": 17, "hlim": 3, "src_high": 0x20010DB800000000,
        "src_low": 1, "dst_high": 0x20010DB800010000, "dst_low": 2,
        "dst_octets": [0x20, 1, 0x0D, 0xB8, 0, 1, *[0] * 9, 2]}),
    (UDP(sport=1, dport=2, len=3, chksum=4), headers.UDP, 0,
     {"sport": 1, "dport": 2, "len": 3, "chksum": 4}),
])  # fmt: skip
def test_view_fields_equal_scapys(packet, header, start, fields):
    result = view(rows(packet), header, start)
    assert {name: result[name].tolist()[1] for name in fields} == fields


def test_view_of_a_segment_equals_scapys():
    assert view(rows(SEGMENT), headers.TCP)[0].tolist() == (1, 2, 3, 4, 5 << 4, 0x12, 5, 6, 7)
    assert headers.read_traffic_class(view(rows(IP6), headers.IPV6)).tolist() == [0xAB] * 2


def test_view_shares_memory_with_strided_rows():
    ring = np.zeros((2, 64), np.uint8)
    view(ring[:, 10:40], headers.UDP, 4)["dport"] = 0x0102
    assert ring[:, 16:18].tolist() == [[1, 2], [1, 2]] and ring.sum() == 6


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
    field = headers.HOP_LIMIT_FIELD[version]
    octets = [bytes(kind(**{field: hops}, src="2001:db8::1", dst="::2") if version == 6
                    else kind(ttl=hops, id=257 * hops, src="192.0.2.1", dst="192.0.2.2"))
              for hops in range(1, 256)]  # fmt: skip
    packets = np.frombuffer(b"".join(octets), np.uint8).reshape(255, -1).copy()
    headers.decrement_hops(packets, version)
    assert headers.read_hops(packets, version).tolist() == list(range(255))
    for packet in packets:
        rebuilt = kind(packet.tobytes()).copy()
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
