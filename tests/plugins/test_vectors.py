"""Published test vectors of MAP, SIIT and RFC 6052, with one check function for each kind of vector."""

import json
from contextlib import nullcontext
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import Path

import numpy as np
import pytest
from v6t.audit.clause import Frame
from v6t.audit.packet_device.build import build_device
from v6t.audit.packets import Wire
from v6t.base.errors import UsageError
from v6t.core.cli.calc_command import calc_map, calc_rfc6052
from v6t.packets.checksum import sum_words, write_ipv4_checksum
from v6t.packets.walker import locate_headers
from v6t.plugins import translation
from v6t.plugins.map_rules import parse_rule
from v6t.plugins.nat64 import SESSION_LIFETIMES_S
from v6t.plugins.ports import PortSet
from v6t.plugins.translation import MappingsArray, parse_mappings
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.model import Kind, Layer, Variable
from v6t.profiles.template import build_template
from v6t.tests.expect import expect_error
from v6t.tests.packets.oracle import verify
from v6t.tests.profiles.traffics import ETHER, UDP6, Binding, make_traffic

from .support import MapeDrop, first_frames, make, make_mape_br

FILES = [Path(__file__).parents[1] / "vectors" / f"{name}.json" for name in ("map", "siit")]
VECTORS = [
    vector
    for file in FILES
    for vector in json.loads(file.read_text())["vectors"]
    if vector["kind"] not in ("frame_size_pair", "max_rate")  # tested in tests/base
]


def make_rule(vector):
    r = vector["rule"]
    draft = vector.get("iid_format", "rfc7597").startswith("draft")
    return parse_rule(
        r["ipv6_prefix"], r["ipv4_prefix"], r["ea_len"], r["psid_offset"], psid_len=r["psid_len"],
        iid_format="draft" if draft else "rfc7597",
    )  # fmt: skip


def calculate(vector, iid_format=None, **address):
    rule = make_rule(vector)
    return calc_map(
        str(rule.ipv6_prefix), str(rule.ipv4_prefix), rule.ea_len, rule.psid_offset,
        psid_len=rule.psid_len, iid_format=iid_format or rule.iid_format, **address,
    )  # fmt: skip


def check_map_address(v):
    rule, psid, ipv4 = make_rule(v), v["psid"] or 0, IPv4Address(v["ipv4"])
    result = calculate(v, ipv4=v["ipv4"], psid=psid)
    assert result["map_address"] == v["map_ipv6"]
    assert (result["ipv4"], result["psid"]) == (v["ipv4"], psid if rule.is_shared else None)
    assert rule.decode_address(IPv6Address(v["map_ipv6"])) == (ipv4, psid)
    assert calculate(v, ipv6=v["map_ipv6"]) == result
    compared = {
        "end_user_prefix": result["end_user_prefix"],
        "map_ipv6_expanded": IPv6Address(result["map_address"]).exploded,
        "sharing_ratio": result["sharing_ratio"], "psid_len": result["psid_len"],
        "ports_per_ce": result["ports_per_ce"], "port_ranges": len(result["port_ranges"]),
        "first_range": result["port_ranges"][0], "last_range": result["port_ranges"][-1],
        "rfc7597_equivalent": calculate(v, "rfc7597", ipv4=v["ipv4"], psid=psid)["map_address"],
        "nat44_range": "-".join(map(str, result["port_ranges"][0])),
    }  # fmt: skip
    assert compared | {key: v[key] for key in compared if key in v} == compared
    for key in ("ea_bits", "ea_13bit"):
        if v.get(key) is not None:
            assert rule.encode_ea(ipv4, psid) == int(v[key], 16)
    if v.get("ea_bits"):
        assert rule.decode_ea(int(v["ea_bits"], 16)) == (ipv4, psid)
    if "port" in v:
        assert (v["port"] in rule.make_port_set(psid)) == v["port_in_set"]
        assert rule.find_psid(v["port"]) == v["psid_from_port"]
        assert calculate(v, ipv4=v["ipv4"], port=v["port"]) == result


def check_map_packet(v):
    source = v["expect"]["ipv6_src"]
    plugin, frame = make_tunnelled(v, source)
    assert v["direction"] == "forward"
    assert calculate(v, ipv4=v["ipv4_src"], port=v["sport"])["map_address"] == source
    assert plugin.expect("forward", frame).reason[0] == MapeDrop.FORWARDED
    embedded = translation.embed_ipv4(IPv6Network("2001:db8:ffff::/64"), IPv4Address(v["ipv4_dst"]))
    assert str(embedded) == v["expect"]["ipv6_dst_mapt"]


def check_dmr_embed(v):
    check_rfc6052({**v, "prefix": v["dmr"]})


def make_tunnelled(v, source):
    """Make a relay with the vector's rule, and a frame from ``source`` with the vector's port."""
    r = v["rule"]
    br = v["expect"]["ipv6_dst_mape"] if isinstance(v["expect"], dict) else "2001:db8:ffff::1"
    plugin = make_mape_br(
        rule_ipv6=r["ipv6_prefix"], rule_ipv4=r["ipv4_prefix"], ea_len=r["ea_len"],
        psid_offset=r["psid_offset"], br_address=br,
    )  # fmt: skip
    frame, rule = first_frames(plugin, "forward", 1), plugin.params.rule
    frame[0, 22:38] = list(IPv6Address(source).packed)
    ea = int(IPv6Address(source)) >> 128 - rule.ipv6_prefix.prefixlen - r["ea_len"]
    ipv4 = rule.decode_ea(ea & ((1 << r["ea_len"]) - 1))[0]
    frame[0, 66:70] = list(IPv4Address(v.get("ipv4_src", ipv4)).packed)
    frame[0, 74:76] = list(v["sport"].to_bytes(2, "big"))
    write_ipv4_checksum(frame, 54)
    return plugin, frame


REASONS = {
    "vpp-br-spoof-addr": MapeDrop.BAD_IID,
    "vpp-br-spoof-subnet": MapeDrop.NO_RULE,
    "vpp-br-spoof-port": MapeDrop.BAD_PORT,
}


def check_negative_source_check(v):
    assert v["expect"] == "drop"
    plugin, frame = make_tunnelled(v, v["ipv6_src"])
    answer = plugin.expect("forward", frame)
    assert (answer.length[0], answer.reason[0]) == (0, REASONS[v["id"]])
    if "psid_from_port" in v:
        assert make_rule(v).find_psid(v["sport"]) == v["psid_from_port"]


def check_port_set(v):
    a, k = v["psid_offset"], v["psid_len"]
    rule = parse_rule("2001:db8::/40", "192.0.2.0/32", k, a)
    assert rule.port_sharing.low_bits == v["m"] or not k
    assert rule.sharing_ratio == v["sharing_ratio"]
    for expected in v["sets"]:
        ports = rule.make_port_set(expected["psid"])
        assert ports == PortSet(a, k, expected["psid"])
        assert (ports.count, len(ports.ranges)) == (v["ports_per_set"], expected["ranges"])
        assert list(ports.ranges[0]) == expected["first"]
        assert list(ports.ranges[-1]) == expected["last"]
        second = [tuple(expected["second"])] if expected["second"] else []
        assert list(ports.ranges[1:2]) == second
    low, high = v["excluded_low_ports"] or (0, -1)
    assert [p for p in range(65536) if rule.find_psid(p) is None] == list(range(low, high + 1))


def check_ipv4_prefix_ce(v):
    rule = make_rule(v)
    assert rule.host_bits
    ipv4, psid = rule.decode_ea(v["ce_index"])
    assert str(rule.compute_end_user_prefix(ipv4, psid)) == v["end_user_prefix"]
    if v["mode"] == "MAP-E":
        assert str(rule.map_address(ipv4, psid)) == v["map_ipv6"]
        result = calculate(v, ipv4=str(ipv4 + 5))
        assert (result["ipv4"], result["map_address"]) == (v["ipv4_prefix"], v["map_ipv6"])
    else:
        host = IPv4Address(v["ipv4_host"])
        assert str(rule.map_address(host, psid, embeds_host=True)) == v["map_ipv6"]


def configure(config):
    if "dmr" in config:
        return calc_rfc6052(config["dmr"], ipv4="192.0.2.1")
    defaults = {"ipv6_prefix": "2001:db8::/56", "ipv4_prefix": "192.0.2.1/32", "ea_len": 0}
    return make_rule({"rule": {"psid_offset": 6, "psid_len": None, **defaults, **config}})


def check_negative_config(v):
    with pytest.raises(UsageError) as caught:
        configure(v["config"])
    assert caught.value.hint


def check_rfc6052(v):
    assert calc_rfc6052(v["prefix"], ipv4=v["ipv4"])["ipv6"] == v["ipv6"]
    check_rfc6052_extract(v)


def check_rfc6052_extract(v):
    assert calc_rfc6052(v["prefix"], ipv6=v["ipv6"])["ipv4"] == v["ipv4"]


def check_rfc6052_rule(v):
    if v["id"] == "wkp-non-global":  # allowed in a lab although RFC 6052 forbids it on the Internet
        assert calc_rfc6052("64:ff9b::/96", ipv4="198.18.0.1")["ipv6"] == "64:ff9b::c612:1"
        return
    for length in range(129):
        with nullcontext() if length in (32, 40, 48, 56, 64, 96) else expect_error("not-a-prefix"):
            translation.check_rfc6052_prefix(IPv6Network(f"::/{length}"))
    with expect_error("outside-prefix"):
        translation.check_rfc6052_prefix(IPv6Network("2001:db8::100:0:0:0/96"))


def check_checksum(v):
    total = sum_words(IPv6Network(v["prefix"]).network_address.packed)
    assert f"{total:#06x}" == v["ones_complement_sum"]
    assert (total == 0xFFFF) == v["neutral"]


def check_udp_checksum(v):
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
        checksum = frame[0, layout.checksum : layout.checksum + 2].tobytes().hex()
        assert checksum == v[key]["checksum"].removeprefix("0x")
        assert verify(frame).all()


def check_multi_ip(v):
    bits = 8 * v["offset_bytes"]
    layers = (ETHER, Layer("IPv6", {"src": "2001:2::1", "dst": v["base"]}), UDP6[-1])
    variable = Variable("net", 16, Kind.LIST, values=[v["value"], 4660])
    bind = (Binding("net", "IPv6.dst", bits, bits + 15),)
    traffic = make_traffic(variable, bind=bind, layers=layers)
    frame = Expander(compile_traffic(traffic).streams[0]).compute_frames(0, 1)[0]
    assert str(IPv6Address(frame[38:54].tobytes())) == v["ipv6"]


def check_nat64_timer(v):
    assert v["value"].startswith(f"{SESSION_LIFETIMES_S[v['name']]} s")


def assert_maps(v, build_ipv6, build_ipv4):
    """Check translation of a pair in both directions, as an address and as an array."""
    table = parse_mappings(v["table"], None)
    for name, pair in (("to_ipv6", build_ipv6), ("to_ipv4", build_ipv4)):
        source, destination = map(ip_address, pair)
        assert getattr(table, name)(source) == destination
        octets = np.frombuffer(source.packed, np.uint8)[None, :]
        assert getattr(MappingsArray(table), name)(octets)[0].tobytes() == destination.packed


def check_eam(v):
    assert_maps(v, (v["ipv4"], v["ipv6"]), (v["ipv6"], v["ipv4"]))


def check_eam_lpm(v):
    assert_maps(v, v["v4_to_v6"], v["v6_to_v4"])


def check_eam_rule(v):
    assert "identical prefixes rejected" in v["note"]
    valid = [["192.0.2.0/24", "2001:db8::/120"]]
    last = parse_mappings(valid, None).to_ipv6(IPv4Address("192.0.2.255"))
    assert last == IPv6Address("2001:db8::ff")
    for table, code in (
        ([["192.0.2.0/24", "2001:db8::/121"]], "outside-prefix"),
        ([*valid, ["192.0.2.0/24", "2001:db9::/120"]], "duplicate"),
        ([*valid, ["192.0.3.0/24", "2001:db8::/120"]], "duplicate"),
    ):
        with expect_error(code):
            parse_mappings(table, None)


def parse_packet(text):
    """Read hexadecimal octets; ``5..9`` means octets 5 to 8 of a payload whose octet n is n modulo 251."""
    parts = (part.partition("..") for part in text.split())
    return b"".join(
        bytes(n % 251 for n in range(int(first), int(last))) if last else bytes.fromhex(first)
        for first, _, last in parts
    )


def check_translation(v):
    plugin = make("siit", eam=(), prefix="2001:db8:64::/96")
    wire, opposite = Wire(plugin.links), "left" if v["sent_from"] == "right" else "right"
    frame = wire.frame(v["sent_from"], parse_packet(v["sent"])).octets
    sent = build_device(plugin).receive(v["sent_from"], frame)
    received = wire.octets(opposite, [Frame(side, octets) for side, octets in sent])
    assert received == [parse_packet(text) for text in v["received"]]


CHECKS = {name[6:]: check for name, check in globals().items() if name[:6] == "check_"}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_published_vector_is_reproduced(vector):
    CHECKS[vector["kind"]](vector)


def test_every_check_has_vectors():
    assert {vector["kind"] for vector in VECTORS} == set(CHECKS)
