"""The packet-level device against literals: examples of RFCs, published vectors, single packets."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6PacketTooBig,
    ICMPv6TimeExceeded,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    PadN,
)
from scapy.packet import Packet, Raw
from v6t.audit.ip_packet import Drop, Reassembly, port, read_packet
from v6t.audit.packet_device.build import build_device
from v6t.audit.packet_device.device import PacketDevice
from v6t.audit.packet_device.maps import MapDomain, TableMap, find_psid
from v6t.audit.packet_device.relays import decapsulated_ecn
from v6t.audit.packet_device.translator import translate_prefix
from v6t.audit.packets import Wire, dissect, trim
from v6t.base.errors import UsageError
from v6t.plugins.audit_views import AddressTable, SideName
from v6t.plugins.base import Technology
from v6t.plugins.map_rules import MapRule
from v6t.plugins.mape_br import MapEBorderRelay
from v6t.plugins.mapt_br import MapTBorderRelay
from v6t.plugins.nat44 import Nat44
from v6t.plugins.nat46 import Nat46
from v6t.plugins.siit import Siit
from v6t.tests.audit.in_process import with_params

VECTORS = Path(__file__).parents[1] / "vectors"


def vectors(name: str, kind: str) -> list[Any]:
    """Published vectors of a kind, with their identifiers."""
    entries = json.loads((VECTORS / f"{name}.json").read_text())["vectors"]
    return [pytest.param(v, id=v["id"]) for v in entries if v["kind"] == kind]


def send(
    technology: Technology, side: SideName, *packets: Packet, device: PacketDevice | None = None
) -> list[tuple[SideName, Packet]]:
    """Return the packets that a technology's device sends, and their links."""
    device, wire = device or build_device(technology), Wire(technology.links)
    frames = [wire.frame(side, packet) for packet in packets]
    sent = [out for frame in frames for out in device.receive(side, frame.octets)]
    return [(out, dissect(trim(octets[14:]))) for out, octets in sent]


def rule_of(vector: Any) -> MapRule:
    rule = vector["rule"]
    is_draft = vector.get("iid_format", "").startswith("draft")
    return MapRule(
        IPv6Network(rule["ipv6_prefix"]), IPv4Network(rule["ipv4_prefix"]), rule["ea_len"],
        rule["psid_offset"], rule["psid_len"], "draft" if is_draft else "rfc7597",
    )  # fmt: skip


# addresses


@pytest.mark.parametrize("vector", vectors("siit", "rfc6052"))
def test_prefix_map_with_rfc6052_example_agrees(vector: Any) -> None:
    prefix, ipv4 = (
        TableMap(AddressTable(prefix=IPv6Network(vector["prefix"]))),
        IPv4Address(vector["ipv4"]),
    )
    ipv6 = IPv6Address(vector["ipv6"])
    assert (prefix.to_ipv6(ipv4), prefix.to_ipv4(ipv6)) == (ipv6, ipv4)


def table_of(vector: Any) -> TableMap:
    eams = ((IPv4Network(four), IPv6Network(six)) for four, six in vector["table"])
    return TableMap(AddressTable(tuple(eams)))


@pytest.mark.parametrize("vector", vectors("siit", "eam"))
def test_table_map_with_rfc7757_example_agrees(vector: Any) -> None:
    table, ipv4, ipv6 = table_of(vector), IPv4Address(vector["ipv4"]), IPv6Address(vector["ipv6"])
    assert (table.to_ipv6(ipv4), table.to_ipv4(ipv6)) == (ipv6, ipv4)


@pytest.mark.parametrize("vector", vectors("siit", "eam_lpm"))
def test_table_map_with_overlapping_mappings_takes_longest_prefix(vector: Any) -> None:
    table, (ipv6, ipv4) = table_of(vector), vector["v6_to_v4"]
    assert table.to_ipv4(IPv6Address(ipv6)) == IPv4Address(ipv4)
    ipv4, ipv6 = vector["v4_to_v6"]
    assert table.to_ipv6(IPv4Address(ipv4)) == IPv6Address(ipv6)


@pytest.mark.parametrize("vector", vectors("map", "map_address"))
def test_map_domain_with_published_ce_agrees(vector: Any) -> None:
    domain, ipv4 = MapDomain(rule_of(vector)), IPv4Address(vector["ipv4"])
    length = domain.rule.psid_len
    psid = f"{vector['psid'] or 0:0{length}b}" if length else ""
    assert domain.address(ipv4, psid) == IPv6Address(vector["map_ipv6"])
    assert domain.read(IPv6Address(vector["map_ipv6"])) == (ipv4, psid)


@pytest.mark.parametrize("vector", vectors("map", "port_set"))
def test_find_psid_with_published_port_set_agrees(vector: Any) -> None:
    offset, length = vector["psid_offset"], vector["psid_len"]
    for ports in vector["sets"]:
        psids = {find_psid(p, offset, length) for p in (*ports["first"], *ports["last"])}
        assert {int(psid or "0", 2) for psid in psids} == {ports["psid"]}
    if offset:
        assert find_psid(0, offset, length or 1) is None


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("fd01:203:405:1::1234", "2001:db8:1:d550::1234"),  # RFC 6296, section 3.6
        ("fd01:203:405:0:1:2:3:4", "2001:db8:1:d54f:1:2:3:4"),
    ],
)
def test_translate_prefix_with_rfc6296_example_agrees(inside: str, outside: str) -> None:
    internal, external = IPv6Network("fd01:203:405::/48"), IPv6Network("2001:db8:1::/48")
    assert translate_prefix(IPv6Address(inside), internal, external) == IPv6Address(outside)
    assert translate_prefix(IPv6Address(outside), external, internal) == IPv6Address(inside)


def test_translate_prefix_with_all_ones_identifier_drops() -> None:
    old, new = IPv6Network("fd00::/64"), IPv6Network("2001:db8::/64")
    with pytest.raises(Drop):
        translate_prefix(IPv6Address("fd00::ffff:ffff:ffff:ffff"), old, new)


# packets


def test_translator_with_plain_packets_translates_each_header_field() -> None:
    """The vectors 46-basic and 64-basic."""
    four = IP(src="198.19.0.2", dst="198.18.0.2", tos=184, ttl=10, id=4660, flags="DF")
    [(out, six)] = send(Siit(), "right", four / UDP(sport=4, dport=5) / Raw(bytes(18)))
    assert (out, six.version, six.tc, six.fl, six.nh, six.hlim) == ("left", 6, 184, 0, 17, 9)
    packet = IPv6(src="2001:2::2", dst="2001:2:0:1000::2", tc=184, fl=74565, hlim=10)
    [(out, four)] = send(Siit(), "left", packet / UDP(sport=4, dport=5) / Raw(bytes(18)))
    assert (out, four.ihl, four.tos, four.ttl, four.proto) == ("right", 5, 184, 9, 17)
    assert (int(four.flags), four.frag) == (0, 0)


@pytest.mark.parametrize("vector", vectors("siit", "udp_checksum"))
def test_translator_with_udp_checksum_vector_agrees(vector: Any) -> None:
    four, six = vector["ipv4"], vector["ipv6"]
    payload = Raw(bytes.fromhex(vector["payload_hex"]))
    udp = UDP(sport=vector["sport"], dport=vector["dport"]) / payload
    [(out, packet)] = send(Siit(), "left", IPv6(src=six["src"], dst=six["dst"]) / udp)
    assert (out, packet.src, packet.dst) == ("right", four["src"], four["dst"])
    assert UDP(bytes(packet.payload)).chksum == int(four["checksum"], 16)


def relay_of(kind: type[Technology], vector: Any, **params: Any) -> Technology:
    """Return the relay of a vector's rule."""
    rule = vector["rule"]
    names = {"rule_ipv6": "ipv6_prefix", "rule_ipv4": "ipv4_prefix"}
    params |= {name: rule[key] for name, key in names.items()}
    return with_params(kind(), ea_len=rule["ea_len"], psid_offset=rule["psid_offset"], **params)


@pytest.mark.parametrize("vector", vectors("map", "mapt_packet"))
def test_mapt_relay_with_rfc7599_example_agrees(vector: Any) -> None:
    relay = relay_of(MapTBorderRelay, vector, dmr=vector["dmr"])
    udp = UDP(sport=vector["sport"], dport=vector["dport"])
    packet = IP(src=vector["ipv4_src"], dst=vector["ipv4_dst"]) / udp
    [(out, translated)] = send(relay, "right", packet)
    ends = {"ipv6_src": translated.src, "ipv6_dst": translated.dst}
    assert (out, ends) == ("left", {name: vector["expect"][name] for name in ends})


@pytest.mark.parametrize("vector", vectors("map", "negative_source_check"))
def test_mape_relay_with_spoofed_source_vector_drops(vector: Any) -> None:
    inner = IP(src=vector.get("ipv4_src", "198.18.0.12"), dst="203.0.113.56")
    packet = IPv6(src=vector["ipv6_src"], dst="2001:db8:6::1") / inner / UDP(sport=vector["sport"])
    assert send(relay_of(MapEBorderRelay, vector), "left", packet) == []


def test_translator_with_options_and_expired_hop_limit_sends_error() -> None:
    options = IPv6ExtHdrDestOpt(options=[PadN(optdata=b"1234")])
    packet = IPv6(src="2001:2::2", dst="2001:2:0:1000::2", hlim=1) / options
    [(out, error)] = send(Siit(), "left", packet / UDP(sport=4, dport=5))
    assert (out, error.dst) == ("left", "2001:2::2")
    assert bytes(error.payload)[:2] == bytes(ICMPv6TimeExceeded(code=0))[:2]


def test_translator_with_large_ipv6_packet_reports_mtu() -> None:
    technology = Siit()
    packet = IPv6(src="2001:2::2", dst="2001:2:0:1000::2") / UDP(sport=4) / Raw(bytes(1452))
    assert [out for out, _ in send(technology, "left", packet)] == ["right"]
    device = build_device(technology)
    device.ipv4_mtu = 1400  # type: ignore[attr-defined]
    [(out, error)] = send(technology, "left", packet, device=device)
    assert (out, ICMPv6PacketTooBig(bytes(error.payload)[:8]).mtu) == ("left", 1420)


def test_translator_without_df_fragments_to_1280() -> None:
    packet = IP(src="198.19.0.2", dst="198.18.0.2", id=0x1234) / UDP(sport=4) / Raw(bytes(1400))
    sent = [p for _, p in send(Siit(), "right", packet)]
    headers = [IPv6ExtHdrFragment(bytes(p.payload)[:8]) for p in sent]
    assert [len(p) for p in sent] == [1280, 224]
    assert [(h.offset, h.m, h.id) for h in headers] == [(0, 1, 0x1234), (154, 0, 0x1234)]


def test_translator_with_icmp_error_about_error_drops() -> None:
    about = IP(src="198.18.0.2", dst="198.19.0.2") / ICMP(type=3, code=3) / Raw(bytes(40))
    packet = IP(src="198.19.0.2", dst="198.18.0.2") / ICMP(type=3, code=1) / Raw(bytes(about))
    assert send(Siit(), "right", packet) == []


@pytest.mark.parametrize(
    ("inner", "by_outer"),
    # RFC 6040, figure 4: Not-ECT 0, ECT(1) 1, ECT(0) 2, CE 3
    [(0, [0, 0, 0]), (1, [1, 1, 1, 3]), (2, [2, 1, 2, 3]), (3, [3, 3, 3, 3])],
)
def test_decapsulated_ecn_with_rfc6040_table_agrees(inner: int, by_outer: list[int]) -> None:
    assert [decapsulated_ecn(inner, outer) for outer in range(len(by_outer))] == by_outer


def test_decapsulated_ecn_with_mark_on_not_ect_drops() -> None:
    with pytest.raises(Drop):
        decapsulated_ecn(0, 3)


def test_nat_with_reset_keeps_session_for_four_minutes() -> None:
    technology = with_params(Nat44(), **Nat44().audit_params())
    device, wire = build_device(technology), Wire(technology.links)
    request = IP(src="198.18.0.2", dst="198.19.0.2") / TCP(sport=20000, dport=7)
    answer = IP(src="198.19.0.2", dst="198.19.0.1") / TCP(sport=7, dport=20000)
    for side, packet, flags, now_s, count in (
        ("left", request, "S", 0.0, 1), ("left", request, "R", 0.0, 1),
        ("right", answer, "A", 239.0, 1), ("right", answer, "A", 1000.0, 0),
    ):  # fmt: skip
        packet[TCP].flags = flags
        assert len(device.receive(side, wire.frame(side, packet).octets, now_s)) == count


def test_port_of_quoted_packet_belongs_to_the_other_end() -> None:
    about = IP(src="192.0.2.1", dst="192.0.2.2") / UDP(sport=1000, dport=2000)
    error = IP(src="192.0.2.2", dst="192.0.2.1") / ICMP(type=3, code=3) / Raw(bytes(about))
    packet = read_packet(bytes(error))
    assert (port(packet, is_source=False), port(packet, is_source=True)) == (1000, 2000)


def test_reassembly_with_fragments_in_any_order_returns_whole_packet() -> None:
    octets = bytes(UDP(sport=1, dport=2) / Raw(bytes(range(40))))
    ends = {"src": "192.0.2.1", "dst": "192.0.2.2", "proto": 17, "id": 7}
    first = IP(**ends, flags="MF") / Raw(octets[:24])
    last = IP(**ends, frag=3) / Raw(octets[24:])
    reassembly = Reassembly()
    with pytest.raises(Drop):
        reassembly.add(read_packet(bytes(last)))
    whole = reassembly.add(read_packet(bytes(first)))
    assert (whole.octets, whole.more, whole.offset) == (octets, False, 0)


@pytest.mark.parametrize(
    "packet",
    [
        IP(src="127.0.0.1", dst="192.0.2.1") / UDP(),
        IP(src="192.0.2.1", dst="224.0.0.1") / UDP(),
        IP(src="192.0.2.1", dst="192.0.2.2", chksum=1) / UDP(),
        IP(src="192.0.2.1", dst="192.0.2.2", len=99) / UDP(),
        IPv6(src="::1", dst="2001:db8::1") / UDP(),
        IPv6(src="2001:db8::2", dst="2001:db8::1", plen=99) / UDP(),
        IPv6(src="fe80::1", dst="2001:db8::1") / ICMPv6DestUnreach(),
    ],
)
def test_read_packet_that_no_router_forwards_drops(packet: Packet) -> None:
    with pytest.raises(Drop):
        read_packet(bytes(packet))


def test_build_device_without_views_is_rejected() -> None:
    with pytest.raises(UsageError) as caught:
        build_device(Nat46())
    assert caught.value.code == "no-clauses"
