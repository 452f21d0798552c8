"""Vectors of RFC 7757, RFC 7915 and 464XLAT: address tables, headers, ICMP (A14)."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import ICMP, IP, UDP, IPOption_NOP
from scapy.layers.inet6 import (
    ICMPv6EchoRequest,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.packet import Raw
from v6t.audit.clause import Frame
from v6t.audit.packet_device.build import build_device
from v6t.audit.packets import Wire
from v6t.core.config.plugins import load_plugin
from v6t.intent.device import Link, Links
from v6t.plugins.address_mappings import mappings_from_text
from v6t.plugins.siit import Siit, SiitParams
from v6t.plugins.translation import MappingsArray
from v6t.profiles.model import Layer
from v6t.profiles.template import build_template
from v6t.tests.expect import expect_error

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "siit.json").read_text())["vectors"]
PREFIX = "2001:db8:64::/96"
FOUR = {"src": "192.0.2.1", "dst": "198.51.100.2"}
SIX = {"src": "2001:db8:64::c000:201", "dst": "2001:db8:64::c633:6402"}
BACK = {"src": SIX["dst"], "dst": SIX["src"]}


class PacketTranslator:
    """The packet-level SIIT, packet by packet."""

    def __init__(self, lowest_ipv6_mtu=1280, ipv6_mtu=1500):
        left = Link("02:00:00:00:01:02", "02:00:00:00:01:01", mtu=ipv6_mtu)
        params = SiitParams(eam=(), prefix=PREFIX, lowest_ipv6_mtu=lowest_ipv6_mtu)
        self.technology = Siit(params, Links(left))
        self.wire, self.device = Wire(self.technology.links), build_device(self.technology)

    def four_to_six(self, packet):
        return self._translate("right", "left", packet)

    def six_to_four(self, packet):
        [out] = self._translate("left", "right", packet) or [b""]
        return out

    def _translate(self, side, far, packet):
        sent = self.device.receive(side, self.wire.frame(side, packet).octets)
        frames = [Frame(out, octets) for out, octets in sent]
        return self.wire.octets(far, frames)


def translator(**given) -> PacketTranslator:
    return PacketTranslator(**given)


def octets(address):
    return np.frombuffer(address.packed, np.uint8)[None, :]


def eam(v):
    mappings = mappings_from_text(v["table"], None)
    four, six = IPv4Address(v["ipv4"]), IPv6Address(v["ipv6"])
    assert mappings.to_ipv6(four) == six
    assert mappings.to_ipv4(six) == four
    array = MappingsArray(mappings)
    assert array.to_ipv6(octets(four))[0].tobytes() == six.packed
    assert array.to_ipv4(octets(six))[0].tobytes() == four.packed


def eam_lpm(v):
    mappings = mappings_from_text(v["table"], None)
    array = MappingsArray(mappings)
    six, four = (IPv6Address(v["v6_to_v4"][0]), IPv4Address(v["v6_to_v4"][1]))
    assert mappings.to_ipv4(six) == four
    assert array.to_ipv4(octets(six))[0].tobytes() == four.packed
    four, six = (IPv4Address(v["v4_to_v6"][0]), IPv6Address(v["v4_to_v6"][1]))
    assert mappings.to_ipv6(four) == six
    assert array.to_ipv6(octets(four))[0].tobytes() == six.packed


def eam_rule(v):
    assert "identical prefixes rejected" in v["note"]
    fits = [["192.0.2.0/24", "2001:db8::/120"]]
    assert mappings_from_text(fits, None).to_ipv6(IPv4Address("192.0.2.255")) == IPv6Address(
        "2001:db8::ff"
    )
    for table, code in (
        ([["192.0.2.0/24", "2001:db8::/121"]], "outside-prefix"),
        ([*fits, ["192.0.2.0/24", "2001:db9::/120"]], "duplicate"),
        ([*fits, ["192.0.3.0/24", "2001:db8::/120"]], "duplicate"),
    ):
        with expect_error(code):
            mappings_from_text(table, None)


def whole(octets):
    """A packet of scapy's with lengths and checksums as they must be."""
    packet = IPv6(octets) if octets[0] >> 4 == 6 else IP(octets)
    again = packet.copy()
    if UDP in again:
        del again[UDP].chksum
        del again[UDP].len
    if packet.version == 4:
        del again.chksum
        del again.len
    else:
        del again.plen
    assert bytes(again) == octets
    return packet


def header_4to6(v):
    given, expect = v["input"], v["expect"]
    limits = {"lowest_ipv6_mtu": given.get("lowest_ipv6_mtu", 1280)}
    packet = ipv4_packet(given)
    if "OR compute" in expect.get("action", ""):  # which the packet-level device does
        [out] = translator().four_to_six(packet)
        whole(out)
        return
    if expect.get("action", "").startswith("drop"):
        assert not translator(ipv6_mtu=given.get("next_hop_mtu", 1500)).four_to_six(packet)
        return
    out = [IPv6(p) for p in translator(**limits).four_to_six(packet)]
    if expect.get("action") == "fragment":
        assert len(out) >= expect["min_fragments"]
        assert max(len(p) for p in out) <= expect["max_ipv6_fragment"]
        data = b"".join(bytes(p[IPv6ExtHdrFragment].payload) for p in out)
        assert len(data) == given["total_length"] - 20
        assert [p[IPv6ExtHdrFragment].m for p in out] == [1] * (len(out) - 1) + [0]
        assert out[1][IPv6ExtHdrFragment].offset * 8 == len(out[0]) - 48
        return
    (six,) = out
    assert six.src == SIX["src"]
    assert six.dst == SIX["dst"]
    seen = {
        "version": six.version,
        "traffic_class": six.tc,
        "flow_label": six.fl,
        "payload_length": six.plen,
        "next_header": six.nh,
        "hop_limit": six.hlim,
        "fragment_header": IPv6ExtHdrFragment in six,
        "ipv6_packet": len(six),
        "options": "ignored" if len(six) == 40 + six.plen else "kept",
        "payload": "unchanged" if bytes(six)[40:] == packet[20:] else "changed",
    }
    if IPv6ExtHdrFragment in six:
        part = six[IPv6ExtHdrFragment]
        seen |= {"fh_id": f"{part.id:#010x}", "fh_m": part.m}
    assert {k: seen[k] for k in expect} == expect
    if six.nh == 17:
        whole(bytes(six))


def ipv4_packet(given) -> bytes:
    """The packet a vector describes, otherwise right."""
    fields = {"ttl": given.get("ttl", 64), "tos": given.get("tos", 0), "id": given.get("id", 0)}
    flags = "+".join(name for name, key in (("DF", "df"), ("MF", "mf")) if given.get(key))
    header = IP(**FOUR, **fields, flags=flags or 0, proto=given.get("proto", 17))
    if "options" in given:
        header.options = [IPOption_NOP()] * 4
    data = bytes(n % 251 for n in range(given.get("total_length", 46) - len(bytes(header)) - 8))
    if header.proto != 17:
        return bytes(header / Raw(data))
    udp = UDP(sport=7, dport=9)
    if given.get("udp_checksum") == 0:
        udp.chksum = 0
    return bytes(header / udp / Raw(data))


def header_6to4(v):
    given, expect = v["input"], v["expect"]
    inner = UDP(sport=9, dport=7) / Raw(b"x" * 18)
    fields = {"tc": given.get("tc", 0), "fl": given.get("flow_label", 0)}
    header = IPv6(**BACK, hlim=given.get("hop_limit", 64), **fields)
    if "fragment_header" in given:
        told = given["fragment_header"]
        part = IPv6ExtHdrFragment(id=int(told["id"], 16), m=told["m"], offset=told["offset"])
        octets = bytes(header / part / inner)
    elif "ext" in given:
        octets = bytes(header / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / inner)
    elif given.get("next_header") == 58:
        octets = bytes(header / ICMPv6EchoRequest(id=7, seq=9, data=b"hello"))
    else:
        octets = bytes(header / inner)
    if expect.get("action") == "drop":
        assert not translator().six_to_four(octets)
        return
    out = translator().six_to_four(octets)
    four = IP(out)
    assert (four.src, four.dst) == (FOUR["dst"], FOUR["src"])
    flags = str(four.flags)
    seen = {
        "version": four.version,
        "ihl": four.ihl,
        "tos": four.tos,
        "total_length": four.len,
        "ttl": four.ttl,
        "protocol": four.proto,
        "df": int("DF" in flags),
        "mf": int("MF" in flags),
        "frag_offset": four.frag,
        "ext": "skipped" if four.ihl == 5 and four.len == len(out) else "kept",
    }
    if "fragment_header" in given:
        seen["id"] = f"{four.id:#06x}"
    told = {k: w for k, w in expect.items() if k not in {"header_checksum", "id"} or k in seen}
    assert {k: seen[k] for k in told} == told
    if "fragment_header" not in given and four.proto == 17:
        whole(out)
    if four.proto == 1:
        again = four.copy()
        del again[ICMP].chksum
        assert bytes(again) == out
        assert (again[ICMP].id, again[ICMP].seq, bytes(again[ICMP].payload)) == (7, 9, b"hello")


def icmp_type(v):
    echo = IP(**FOUR) / ICMP(type=v["v4"][0], code=v["v4"][1], id=5, seq=6) / Raw(b"abcdefg")
    (out,) = translator().four_to_six(bytes(echo))
    assert list(out[40:42]) == v["v6"]
    again = IPv6(out).copy()
    del again.payload.cksum
    assert bytes(again) == out
    back = IPv6(**BACK) / ICMPv6EchoRequest(id=5, seq=6, data=b"abcdefg")
    four = IP(translator().six_to_four(bytes(back)))
    assert [four[ICMP].type, four[ICMP].code] == v["v4"]


def icmp_error(v):
    about = IP(src=FOUR["dst"], dst=FOUR["src"], ttl=9) / UDP(sport=1, dport=2) / Raw(b"z" * 9)
    error = IP(**FOUR) / ICMP(type=v["v4"][0], code=v["v4"][1]) / about
    if v["v4"] == [3, 4]:
        error[ICMP].nexthopmtu = 1400
    (out,) = translator().four_to_six(bytes(error))
    six = IPv6(out)
    assert list(out[40:42]) == v["v6"]
    again = six.copy()
    del again.payload.cksum
    assert bytes(again) == out
    if v["v4"] == [3, 4]:
        assert int.from_bytes(out[44:48], "big") == 1420
    inner = IPv6(out[48:])
    assert (inner.src, inner.dst, inner.hlim) == (SIX["dst"], SIX["src"], 9)
    whole(bytes(inner))


def xlat(v):
    """The CLAT's half; the PLAT is stateful."""
    plugin = load_plugin("clat")
    clat = plugin(plugin.params_model(plat_prefix="64:ff9b::/96"))
    link = clat.links.right
    layers = (
        Layer("Ether", {"src": link.tester_mac, "dst": link.dut_mac}),
        Layer("IP", v["ipv4"]),
        Layer("UDP", {"sport": 1, "dport": 2}),
    )
    frame = np.frombuffer(build_template(layers, 64).packet, np.uint8)[None, :]
    answer = clat.expect("reverse", frame)
    six = whole(answer.frames[0, 14 : answer.length[0]].tobytes())
    assert {"src": six.src, "dst": six.dst} == v["after_clat"]


CHECKS = {
    "eam": eam,
    "eam_lpm": eam_lpm,
    "eam_rule": eam_rule,
    "header_4to6": header_4to6,
    "header_6to4": header_6to4,
    "icmp_type": icmp_type,
    "icmp_error": icmp_error,
    "464xlat": xlat,
}
OURS = [v for v in VECTORS if v["kind"] in CHECKS]


@pytest.mark.parametrize("vector", OURS, ids=[v["id"] for v in OURS])
def test_vector(vector):
    CHECKS[vector["kind"]](vector)


def test_there_are_vectors_of_every_kind():
    assert {v["kind"] for v in OURS} == set(CHECKS)
    assert len(OURS) > 30


def test_a_routing_header_on_its_way_is_refused():
    routing = IPv6ExtHdrRouting(addresses=["2001:db8::1"], segleft=1)
    assert not translator().six_to_four(bytes(IPv6(**BACK) / routing / UDP()))
    arrived = IPv6ExtHdrRouting(addresses=["2001:db8::1"], segleft=0)
    assert translator().six_to_four(bytes(IPv6(**BACK) / arrived / UDP()))[9] == 17
