"""Arithmetic of MAP rules: identities for all valid rules, and rejection of malformed input."""

from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from v6t.audit.packet_device.maps import MapDomain
from v6t.core.cli.calc_command import calc_map
from v6t.packets.headers import to_numbers
from v6t.plugins.map_domains import _draw_ea_values
from v6t.plugins.map_rules import MapRule, RuleTable, find_served_eas
from v6t.plugins.prefixes import parse_address, parse_ipv4_network, parse_ipv6_network
from v6t.tests.expect import expect_error

from .drawn_rules import ces, clear_host_bits, rules
from .support import make, stream_frames


@settings(max_examples=400)
@given(ces())
def test_ce_encoded_and_decoded_is_unchanged(drawn):
    rule, ea, psid = drawn
    ipv4 = rule.decode_ea(ea)[0]
    assert ipv4 in rule.ipv4_prefix
    assert rule.encode_ea(ipv4, psid) == ea
    address = rule.map_address(ipv4, psid)
    bits = f"{psid:0{rule.psid_len}b}" if rule.psid_len else ""
    assert MapDomain(rule).compute_address(ipv4, bits) == address
    assert rule.decode_address(address) == (ipv4, psid)
    prefix = rule.compute_end_user_prefix(ipv4, psid)
    assert address in prefix
    assert prefix.subnet_of(rule.ipv6_prefix)
    assert prefix.prefixlen == rule.ipv6_prefix.prefixlen + rule.ea_len
    assert rule.is_shared == (rule.psid_len > 0)
    assert (rule.host_bits > 0) == (rule.ea_len + rule.ipv4_prefix.prefixlen < 32)


def split_halves(ipv6):
    """Return the upper and lower 64 bits of addresses as numbers."""
    return to_numbers(ipv6[:, :8]), to_numbers(ipv6[:, 8:])


@settings(max_examples=120)
@given(rules(), st.data())
def test_rule_table_finds_destinations_and_sources(rule, data):
    table, base = RuleTable([rule], embeds_host=True), int(rule.ipv4_prefix.network_address)
    suffix = data.draw(st.lists(st.integers(0, 2**rule.suffix_len - 1), min_size=1, max_size=9))
    ports = data.draw(st.lists(st.integers(0, 65535), min_size=len(suffix), max_size=len(suffix)))
    ipv4, numbers = np.array([base | s for s in suffix], np.uint64), np.array(ports, np.uint64)
    ce = table.find_destinations(ipv4, numbers)
    assert ce.known.all()
    for row, port in enumerate(ports):
        psid = rule.find_psid(port)
        assert ce.owned[row] == (psid is not None)
        if psid is not None:
            expected = rule.map_address(IPv4Address(int(ipv4[row])), psid, embeds_host=True)
            assert IPv6Address(ce.ipv6[row].tobytes()) == expected
    source = table.find_sources(*split_halves(ce.ipv6[ce.owned]), numbers[ce.owned])
    assert (source.known & source.consistent & source.owned).all()
    assert (source.ipv4 == ipv4[ce.owned]).all()


@settings(max_examples=120)
@given(rules(), st.data())
def test_rule_table_with_a_wrong_bit_finds_another_source_or_none(rule, data):
    table = RuleTable([rule], embeds_host=True)
    suffix = data.draw(st.integers(0, 2**rule.suffix_len - 1))
    port = data.draw(st.integers(2**15, 65535))
    ipv4 = np.array([int(rule.ipv4_prefix.network_address) | suffix], np.uint64)
    number = np.array([port], np.uint64)
    ce = table.find_destinations(ipv4, number)
    if not ce.owned[0]:
        return
    damaged, bits = np.repeat(ce.ipv6, 128, axis=0), np.arange(128)
    damaged[bits, bits // 8] ^= (0x80 >> bits % 8).astype(np.uint8)
    source = table.find_sources(*split_halves(damaged), np.repeat(number, 128))
    n = rule.ipv6_prefix.prefixlen
    assert not source.known[:n].any() and source.known[n:].all()
    passed = np.flatnonzero(source.known & source.consistent & source.owned)
    assert not source.consistent[n:64].any() or (passed >= 64).all()
    # only the host bits, which a CE with an IPv4 prefix may choose, are free
    at = 111 if rule.iid_format == "rfc7597" else 103
    free = 32 - rule.ipv4_prefix.prefixlen - rule.ea_len if rule.host_bits else 0
    assert passed.tolist() == list(range(at - free + 1, at + 1))
    assert (source.ipv4[passed] != ipv4[0]).all()


@settings(max_examples=120)
@given(rules())
def test_psids_of_all_ports_equal_the_port_sets(rule):
    ports = np.arange(65536, dtype=np.uint64)
    psid, owned = rule.find_psids(ports)
    for port in (0, 1, 1023, 1024, 4095, 32767, 65535):
        assert (int(psid[port]) if owned[port] else None) == rule.find_psid(port)
    counts = np.bincount(psid[owned].astype(int), minlength=rule.sharing_ratio)
    assert set(counts.tolist()) == {rule.make_port_set(0).count}
    for number in {0, rule.sharing_ratio - 1}:
        ranges = rule.make_port_set(number).ranges
        owned_ports = ports[owned & (psid == number)].tolist()
        assert owned_ports == [p for low, high in ranges for p in range(low, high + 1)]


@st.composite
def small_rules(draw):
    """Draw a rule of few CEs in a small address space, where rules often contain each other."""
    o, r = draw(st.integers(0, 6)), draw(st.integers(26, 32))
    n = draw(st.integers(56, 64 - o))
    ipv6 = clear_host_bits(draw(st.integers(0, 255)) << 64, n, 128)
    ipv4 = clear_host_bits(draw(st.integers(0, 63)), r, 32)
    return MapRule(IPv6Network((ipv6, n)), IPv4Network((ipv4, r)), o, 2)


@settings(max_examples=300)
@given(small_rules(), st.lists(small_rules(), max_size=3))
def test_served_ces_of_a_wider_rule_avoid_narrower_rules(rule, others):
    def is_taken(ea):
        ce = rule.decode_ea(ea)
        prefix = rule.compute_end_user_prefix(*ce)
        pool = IPv4Network((int(ce[0]), min(32, rule.ipv4_prefix.prefixlen + rule.ea_len)))
        return any(
            narrow.prefixlen > wide.prefixlen and network.overlaps(narrow)
            for other in others
            for narrow, wide, network in (
                (other.ipv6_prefix, rule.ipv6_prefix, prefix),
                (other.ipv4_prefix, rule.ipv4_prefix, pool),
            )
        )

    low, high = min(1, rule.ce_count - 1), rule.ce_count - 1
    ranges = find_served_eas(rule, low, high, others)
    assert all(ranges)
    values = [ea for r in ranges for ea in r]
    assert values == [ea for ea in range(low, high + 1) if not is_taken(ea)]
    assert sorted(_draw_ea_values(tuple(ranges), len(values), "sample", "order")) == values


FIRST = {
    "rule_ipv6": "2001:db8:12:3400::/56", "rule_ipv4": "192.0.2.18/32", "ea_len": 0,
    "psid_len": 8, "psid": 0x34,
}  # fmt: skip
SECOND = {**FIRST, "rule_ipv6": "2001:db8:12:3500::/56", "psid": 0x35}
CE_34 = IPv6Address("2001:db8:12:3400:0:c000:212:34")
CE_35 = IPv6Address("2001:db8:12:3500:0:c000:212:35")


@pytest.mark.parametrize("name", ["mape-br", "mapt-br"])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_relay_with_two_psids_of_one_address_forwards_both(name, direction):
    plugin = make(name, **FIRST, domains=[SECOND])
    for frames in stream_frames(plugin, direction, 64, size=128).values():
        assert not plugin.expect(direction, frames).reason.any()


def test_relay_sends_a_packet_to_the_ce_of_its_port():
    plugin = make("mape-br", **FIRST, domains=[SECOND], iid_format="draft")
    configured = [(r.psid, r.psid_len, r.iid_format) for r in plugin.make_configuration().rules]
    assert configured == [(0x34, 8, "draft"), (0x35, 8, "rfc7597")]
    plugin = make("mape-br", **FIRST, domains=[SECOND])
    table, ipv4 = RuleTable(plugin.params.rules), IPv4Address("192.0.2.18")
    assert [table.find_ce(ipv4, port) for port in (1232, 1236, 1240)] == [CE_34, CE_35, None]
    sent = stream_frames(plugin, "reverse", 64)
    for name, address in (("fg-0", CE_34), ("fg-1", CE_35)):
        out = plugin.expect("reverse", sent[name]).frames
        assert {bytes(row[38:54]) for row in out} == {address.packed}
    assert not make("mape-br", **FIRST).expect("reverse", sent["fg-1"]).length.any()


def test_ce_of_a_rule_without_ea_bits_has_the_rules_prefix():
    result = calc_map("2001:db8::/56", "192.0.2.16/28", 0, 6, ipv4="192.0.2.21")
    assert (result["ipv4"], result["psid"]) == ("192.0.2.16/28", None)
    assert result["map_address"] == "2001:db8::c000:210:0"


@pytest.mark.parametrize(("parse", "text", "code", "suggested"), [
    (parse_ipv6_network, "2001:db8::1/40", "not-a-prefix", "2001:db8::/40"),
    (parse_ipv6_network, "2001:db8::/129", "not-a-prefix", "2001:db8::/40"),
    (parse_ipv4_network, "192.0.2.1/24", "not-a-prefix", "192.0.2.0/24"),
    (parse_ipv4_network, "nonsense", "not-a-prefix", "192.0.2.0/24"),
    (partial(parse_address, IPv4Address), "x", "not-an-address", ""),
    (partial(parse_address, IPv6Address), "x", "not-an-address", ""),
])  # fmt: skip
def test_malformed_prefix_or_address_is_refused_with_a_suggestion(parse, text, code, suggested):
    with expect_error(code, path=["the setting"]) as caught:
        parse(text, "the setting")
    assert suggested in (caught.value.hint or "")
    assert not suggested or str(parse(suggested, "x")) == suggested
