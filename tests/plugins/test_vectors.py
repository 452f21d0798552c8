"""Every published vector through the project's own arithmetic (A14)."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from pathlib import Path

import numpy as np
import pytest
from v6t.base.errors import UsageError
from v6t.core.cli.map_calculator import calc_map, calc_rate, calc_rfc6052
from v6t.packets.checksum import sum_words, write_ipv4_checksum
from v6t.packets.walker import locate_headers
from v6t.plugins import address_mappings
from v6t.plugins.map_rules import MapRule, rule_from_text
from v6t.plugins.nat64 import TIMERS_S, Nat64, Nat64Params
from v6t.plugins.ports import PortSet
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.model import Kind, Layer, Variable
from v6t.profiles.template import build_template
from v6t.tests.expect import expect_error
from v6t.tests.packets.oracle import verify
from v6t.tests.profiles.traffics import ETHER, OVER_FOUR, OVER_SIX, Binding, one

from .support import MapeDrop, relay, stream_frames

VECTORS = Path(__file__).parents[1] / "vectors"


def load(name):
    return json.loads((VECTORS / f"{name}.json").read_text())["vectors"]


MAP, SIIT = load("map"), load("siit")


def rule_of(vector) -> MapRule:
    r = vector["rule"]
    draft = vector.get("iid_format", "rfc7597").startswith("draft")
    return rule_from_text(
        r["ipv6_prefix"],
        r["ipv4_prefix"],
        r["ea_len"],
        r["psid_offset"],
        psid_len=r["psid_len"],
        iid_format="draft" if draft else "rfc7597",
    )


def calculated(vector, **which):
    rule = rule_of(vector)
    return calc_map(
        str(rule.ipv6_prefix),
        str(rule.ipv4_prefix),
        rule.ea_len,
        rule.psid_offset,
        psid_len=rule.psid_len,
        iid_format=rule.iid_format,
        **which,
    )


def map_address(v):
    rule, psid = rule_of(v), v["psid"] or 0
    got = calculated(v, ipv4=v["ipv4"], psid=psid)
    assert got["map_address"] == v["map_ipv6"]
    assert rule.decode_address(IPv6Address(v["map_ipv6"])) == (IPv4Address(v["ipv4"]), psid)
    assert calculated(v, ipv6=v["map_ipv6"]) == got
    assert got["ipv4"] == v["ipv4"]
    assert got["psid"] == (psid if rule.shared else None)
    compared = {
        "end_user_prefix": got["end_user_prefix"],
        "map_ipv6_expanded": IPv6Address(got["map_address"]).exploded,
        "sharing_ratio": got["sharing_ratio"],
        "psid_len": got["psid_len"],
        "ports_per_ce": got["ports_per_ce"],
        "port_ranges": len(got["port_ranges"]),
        "first_range": got["port_ranges"][0],
        "last_range": got["port_ranges"][-1],
        "rfc7597_equivalent": calc_map(
            str(rule.ipv6_prefix),
            str(rule.ipv4_prefix),
            rule.ea_len,
            rule.psid_offset,
            psid_len=rule.psid_len,
            ipv4=v["ipv4"],
            psid=psid,
        )["map_address"],
    }
    for key, value in compared.items():
        assert value == v.get(key, value), key
    for key in ("ea_bits", "ea_13bit"):
        if v.get(key) is not None:
            assert rule.encode_ea(IPv4Address(v["ipv4"]), psid) == int(v[key], 16)
    if v.get("ea_bits"):
        assert rule.decode_ea(int(v["ea_bits"], 16)) == (IPv4Address(v["ipv4"]), psid)
    if "port" in v:
        assert (v["port"] in rule.port_set(psid)) == v["port_in_set"]
        assert rule.find_psid(v["port"]) == v["psid_from_port"]
        assert calculated(v, ipv4=v["ipv4"], port=v["port"]) == got
    if "nat44_range" in v:
        assert "-".join(map(str, got["port_ranges"][0])) == v["nat44_range"]


def map_packet(v):
    plugin, frame = tunnelled(v, str(v["expect"]["ipv6_src"]))
    assert v["direction"] == "forward"
    assert (
        calculated(v, ipv4=v["ipv4_src"], port=v["sport"])["map_address"]
        == (v["expect"]["ipv6_src"])
    )
    answer = plugin.expect("forward", frame)
    assert answer.reason[0] == MapeDrop.FORWARDED
    dmr = IPv6Network("2001:db8:ffff::/64")
    assert (
        str(address_mappings.embed(dmr, IPv4Address(v["ipv4_dst"]))) == v["expect"]["ipv6_dst_mapt"]
    )


def mapt_packet(v):
    assert v["direction"] == "reverse"
    got = calculated(v, ipv4=v["ipv4_dst"], port=v["dport"])
    assert got["map_address"] == v["expect"]["ipv6_dst"]
    assert calc_rfc6052(v["dmr"], ipv4=v["ipv4_src"])["ipv6"] == v["expect"]["ipv6_src"]


def dmr_embed(v):
    assert calc_rfc6052(v["dmr"], ipv4=v["ipv4"])["ipv6"] == v["ipv6"]
    assert calc_rfc6052(v["dmr"], ipv6=v["ipv6"])["ipv4"] == v["ipv4"]


def tunnelled(v, source: str):
    """A relay for the vector's rule, and a frame from ``source`` with the vector's port."""
    r = v["rule"]
    given = {
        "rule_ipv6": r["ipv6_prefix"],
        "rule_ipv4": r["ipv4_prefix"],
        "ea_len": r["ea_len"],
        "psid_offset": r["psid_offset"],
    }
    br = v["expect"]["ipv6_dst_mape"] if isinstance(v["expect"], dict) else "2001:db8:ffff::1"
    plugin = relay(**given, br_address=br)
    frame = stream_frames(plugin, "forward", 1)["fg"]
    frame[0, 22:38] = list(IPv6Address(source).packed)
    ea = int(IPv6Address(source)) >> 128 - plugin.params.rule.ipv6_prefix.prefixlen - r["ea_len"]
    ipv4 = plugin.params.rule.decode_ea(ea & ((1 << r["ea_len"]) - 1))[0]
    frame[0, 66:70] = list(IPv4Address(v.get("ipv4_src", ipv4)).packed)
    frame[0, 74:76] = list(v["sport"].to_bytes(2, "big"))
    write_ipv4_checksum(frame, 54)
    return plugin, frame


REASONS = {
    "vpp-br-spoof-addr": MapeDrop.BAD_IID,
    "vpp-br-spoof-subnet": MapeDrop.NO_RULE,
    "vpp-br-spoof-port": MapeDrop.BAD_PORT,
}


def negative_source_check(v):
    assert v["expect"] == "drop"
    plugin, frame = tunnelled(v, v["ipv6_src"])
    answer = plugin.expect("forward", frame)
    assert answer.length[0] == 0
    assert answer.reason[0] == REASONS[v["id"]]
    if "psid_from_port" in v:
        assert rule_of(v).find_psid(v["sport"]) == v["psid_from_port"]


def port_set(v):
    a, k = v["psid_offset"], v["psid_len"]
    rule = rule_from_text("2001:db8::/40", "192.0.2.0/32", k, a)
    assert rule.ports.low_bits == v["m"] or not k
    assert rule.sharing_ratio == v["sharing_ratio"]
    for wanted in v["sets"]:
        ports = rule.port_set(wanted["psid"])
        assert ports == PortSet(a, k, wanted["psid"])
        assert ports.count == v["ports_per_set"]
        assert len(ports.ranges) == wanted["ranges"]
        assert list(ports.ranges[0]) == wanted["first"]
        assert list(ports.ranges[-1]) == wanted["last"]
        second = ports.ranges[1] if len(ports.ranges) > 1 else None
        assert second == (wanted["second"] and tuple(wanted["second"]))
    low, high = v["excluded_low_ports"] or (0, -1)
    excluded = [p for p in range(65536) if rule.find_psid(p) is None]
    assert excluded == list(range(low, high + 1))


def ipv4_prefix_ce(v):
    rule = rule_of(v)
    assert rule.assigns_prefixes
    ipv4, psid = rule.decode_ea(v["ce_index"])
    assert str(rule.end_user_prefix(ipv4, psid)) == v["end_user_prefix"]
    if v["mode"] == "MAP-E":
        assert str(rule.map_address(ipv4, psid)) == v["map_ipv6"]
        got = calculated(v, ipv4=str(ipv4 + 5))
        assert (got["ipv4"], got["map_address"]) == (v["ipv4_prefix"], v["map_ipv6"])
    else:
        host = IPv4Address(v["ipv4_host"])
        assert str(rule.map_address(host, psid, whole_host=True)) == v["map_ipv6"]


def configured(given):
    if "dmr" in given:
        return calc_rfc6052(given["dmr"], ipv4="192.0.2.1")
    if "psid_len" in given:
        length, offset = given["psid_len"], given["psid_offset"]
        return rule_from_text("2001:db8::/56", "192.0.2.1/32", 0, offset, psid_len=length)
    return rule_from_text(given["ipv6_prefix"], given["ipv4_prefix"], given["ea_len"])


def negative_config(v):
    assert v["expect"] == "reject"
    with pytest.raises(UsageError) as caught:
        configured(v["config"])
    assert caught.value.hint


def ce_capacity(v):
    assert rule_of(v).ce_count == v["arith_ce_count"]
    r = v["rule"]
    given = {"rule_ipv6": r["ipv6_prefix"], "rule_ipv4": r["ipv4_prefix"], "ea_len": r["ea_len"]}
    assert relay(**given, ces=v["arith_ce_count"]).params.ces == 8192
    limited = {**given, "exclude_network_broadcast": True}
    assert relay(**limited, ces=v["maptperf_code_limit"]).params.ces == 8128
    with pytest.raises(UsageError):
        relay(**limited, ces=v["maptperf_code_limit"] + 1)


def embedding(v):
    assert calc_rfc6052(v["prefix"], ipv4=v["ipv4"]) == {
        "prefix": v["prefix"],
        "ipv4": v["ipv4"],
        "ipv6": v["ipv6"],
    }
    extraction(v)


def extraction(v):
    assert calc_rfc6052(v["prefix"], ipv6=v["ipv6"])["ipv4"] == v["ipv4"]


def embedding_rule(v):
    if v["id"] == "rfc6052-u-octet":
        for length in range(129):
            network = IPv6Network(f"::/{length}")
            if length in (32, 40, 48, 56, 64, 96):
                assert address_mappings.check_prefix(network) == network
            else:
                with pytest.raises(UsageError):
                    address_mappings.check_prefix(network)
        with pytest.raises(UsageError):
            address_mappings.check_prefix(IPv6Network("2001:db8::100:0:0:0/96"))
    else:
        # a lab may embed what the Internet may not: the vector's own caveat
        assert v["id"] == "wkp-non-global"
        assert calc_rfc6052("64:ff9b::/96", ipv4="198.18.0.1")["ipv6"] == "64:ff9b::c612:1"


def neutral_prefix(v):
    total = sum_words(IPv6Network(v["prefix"]).network_address.packed)
    assert f"{total:#06x}" == v["ones_complement_sum"]
    assert (total == 0xFFFF) == v["neutral"]


def udp_checksum(v):
    payload = bytes.fromhex(v["payload_hex"])
    for name, key, size in (("IP", "ipv4", 64), ("IPv6", "ipv6", 84)):
        addresses = {"src": v[key]["src"], "dst": v[key]["dst"]}
        ports = {"sport": v["sport"], "dport": v["dport"]}
        layers = (ETHER, Layer(name, addresses), Layer("UDP", ports))
        frame = np.frombuffer(build_template(layers, size).packet, np.uint8).copy()[None, :]
        frame[0, -len(payload) :] = list(payload)
        layout = locate_headers(frame[0])
        assert frame.shape[1] - layout.end == len(payload)
        layout.write_checksum(frame)
        assert frame[0, layout.checksum : layout.checksum + 2].tobytes().hex() == (
            v[key]["checksum"].removeprefix("0x")
        )
        assert verify(frame).all()


def multi_ip(v):
    bits = 8 * v["offset_bytes"]
    layers = (ETHER, Layer("IPv6", {"src": "2001:2::1", "dst": v["base"]}), OVER_SIX[-1])
    variable = Variable("net", 16, Kind.LIST, values=[v["value"], 4660])
    traffic = one(variable, bind=(Binding("net", "IPv6.dst", bits, bits + 15),), layers=layers)
    frame = Expander(compile_traffic(traffic).streams[0]).frames(0, 1)[0]
    assert str(IPv6Address(frame[38:54].tobytes())) == v["ipv6"]


def multi_ip_range(v):
    for side, network in (("left", "198.18"), ("right", "198.19")):
        assert v["router"][side] == f"{network}.0.0/16 values 2..65534"
        layers = (ETHER, Layer("IP", {"src": f"{network}.0.0", "dst": "198.18.0.1"}), OVER_FOUR[-1])
        variable = Variable("host", 16, Kind.INC, 2, 65534)
        field = v["router"]["offset"] * 8
        traffic = one(variable, bind=(Binding("host", "IP.src", field, field + 15),), layers=layers)
        frames = Expander(compile_traffic(traffic).streams[0]).frames(0, 65534)
        shown = [str(IPv4Address(frames[k, 26:30].tobytes())) for k in (0, 65532, 65533)]
        assert shown == [f"{network}.0.2", f"{network}.255.254", f"{network}.0.2"]


def frame_size_pair(v):
    for line, fps in v["max_fps"].items():
        assert calc_rate(line, v["ipv6_frame"])["max_fps"] == fps
        assert calc_rate(line, v["ipv4_frame"], v["overhead"])["max_fps"] == fps
    plugin = relay()
    if v["overhead"] == plugin.overhead:
        pair = plugin.frame_pair(v["ipv6_frame"])
        assert (pair.ipv6, pair.ipv4) == (v["ipv6_frame"], v["ipv4_frame"])


def nat64_timer(v):
    assert v["value"].startswith(f"{TIMERS_S[v['name']]} s")


def nat64_state(v):
    plugin = Nat64()
    if v["id"] == "rfc6146-bib-vs-session":
        assert v["sources"].startswith("40,000 source ports on one IPv6 address")
        assert v["destinations"].startswith("100 destination ports on one IPv4 address")
        assert (plugin.params.endpoints, plugin.combinations) == (v["bib_entries"], v["sessions"])
        assert "BIB" in plugin.mapping
    else:
        assert v["id"] == "rfc6146-port-range"
        assert plugin.params.initiator_ports.min == 1024
        with expect_error("out-of-range", mentions="1024") as caught:
            Nat64Params(initiator_ports={"min": 1, "max": 40_000})
        assert "low_ports" in caught.value.hint


def max_rate(v):
    got = calc_rate(str(v["line_rate_bps"]), v["frame"], v["overhead"])
    assert got["max_fps"] == v["fps"]
    assert got["convention"] == "per_direction"


MAP_CHECKS = {
    "map_address": map_address,
    "map_packet": map_packet,
    "mapt_packet": mapt_packet,
    "dmr_embed": dmr_embed,
    "negative_source_check": negative_source_check,
    "port_set": port_set,
    "ipv4_prefix_ce": ipv4_prefix_ce,
    "negative_config": negative_config,
    "ce_capacity": ce_capacity,
}
SIIT_CHECKS = {
    "rfc6052": embedding,
    "rfc6052_extract": extraction,
    "rfc6052_rule": embedding_rule,
    "checksum": neutral_prefix,
    "udp_checksum": udp_checksum,
    "multi_ip": multi_ip,
    "multi_ip_range": multi_ip_range,
    "frame_size_pair": frame_size_pair,
    "max_rate": max_rate,
    "nat64_timer": nat64_timer,
    "nat64_state": nat64_state,
}
TRANSLATION = {
    *("eam", "eam_lpm", "eam_rule", "header_4to6", "header_6to4", "icmp_type", "icmp_error"),
    "464xlat",
}
"""Kinds of vectors that ``test_siit_vectors.py`` checks."""


@pytest.mark.parametrize("vector", MAP, ids=[v["id"] for v in MAP])
def test_map_vector(vector):
    MAP_CHECKS[vector["kind"]](vector)


CALCULATED = [v for v in SIIT if v["kind"] not in TRANSLATION]


@pytest.mark.parametrize("vector", CALCULATED, ids=[v["id"] for v in CALCULATED])
def test_siit_vector(vector):
    SIIT_CHECKS[vector["kind"]](vector)


def test_every_kind_of_vector_is_known():
    assert {v["kind"] for v in MAP} == set(MAP_CHECKS)
    assert {v["kind"] for v in SIIT} == set(SIIT_CHECKS) | TRANSLATION
    assert not set(SIIT_CHECKS) & TRANSLATION
    assert len(CALCULATED) == 33
