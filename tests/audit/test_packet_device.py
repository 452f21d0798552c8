"""The packet-level device against literals: examples of RFCs and single packets."""

from ipaddress import IPv6Address, IPv6Network

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6PacketTooBig, ICMPv6TimeExceeded, IPv6, IPv6ExtHdrDestOpt, PadN
from scapy.packet import Raw
from v6t.audit.ip_packet import Drop
from v6t.audit.packet_device.build import build_device
from v6t.audit.packet_device.translator import translate_prefix
from v6t.audit.packets import Wire, dissect, trim
from v6t.base.errors import UsageError
from v6t.plugins.nat44 import Nat44
from v6t.plugins.nat46 import Nat46
from v6t.plugins.siit import Siit
from v6t.tests.audit.in_process import with_params


def send(technology, side, *packets, device=None):
    """Return the packets that a technology's device sends, and their links."""
    device, wire = device or build_device(technology), Wire(technology.links)
    frames = [wire.frame(side, packet) for packet in packets]
    sent = [out for frame in frames for out in device.receive(side, frame.octets)]
    return [(out, dissect(trim(octets[14:]))) for out, octets in sent]


def test_translate_prefix_with_all_ones_identifier_drops():
    old, new = IPv6Network("fd00::/64"), IPv6Network("2001:db8::/64")
    with pytest.raises(Drop):
        translate_prefix(IPv6Address("fd00::ffff:ffff:ffff:ffff"), old, new)


def test_translator_with_options_and_expired_hop_limit_sends_error():
    options = IPv6ExtHdrDestOpt(options=[PadN(optdata=b"1234")])
    packet = IPv6(src="2001:2::2", dst="2001:2:0:1000::2", hlim=1) / options
    [(out, error)] = send(Siit(), "left", packet / UDP(sport=4, dport=5))
    assert (out, error.dst) == ("left", "2001:2::2")
    assert bytes(error.payload)[:2] == bytes(ICMPv6TimeExceeded(code=0))[:2]


def test_translator_with_large_ipv6_packet_reports_mtu():
    technology = Siit()
    packet = IPv6(src="2001:2::2", dst="2001:2:0:1000::2") / UDP(sport=4) / Raw(bytes(1452))
    assert [out for out, _ in send(technology, "left", packet)] == ["right"]
    device = build_device(technology)
    device.ipv4_mtu = 1400
    [(out, error)] = send(technology, "left", packet, device=device)
    assert (out, ICMPv6PacketTooBig(bytes(error.payload)[:8]).mtu) == ("left", 1420)


def test_nat_with_reset_keeps_session_for_four_minutes():
    technology = with_params(Nat44(), **Nat44().suggest_audit_params())
    device, wire = build_device(technology), Wire(technology.links)
    request = IP(src="198.18.0.2", dst="198.19.0.2") / TCP(sport=20000, dport=7)
    answer = IP(src="198.19.0.2", dst="198.19.0.1") / TCP(sport=7, dport=20000)
    for side, packet, flags, now_s, count in (
        ("left", request, "S", 0.0, 1), ("left", request, "R", 0.0, 1),
        ("right", answer, "A", 239.0, 1), ("right", answer, "A", 1000.0, 0),
    ):  # fmt: skip
        packet[TCP].flags = flags
        assert len(device.receive(side, wire.frame(side, packet).octets, now_s)) == count


def test_build_device_without_views_is_rejected():
    with pytest.raises(UsageError) as caught:
        build_device(Nat46())
    assert caught.value.code == "no-clauses"
