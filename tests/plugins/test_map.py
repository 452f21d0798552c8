"""MAP and RFC 6052 arithmetic: identities over everything legal, and refusals."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from v6t.audit.packet_device.maps import MapDomain
from v6t.base.errors import UsageError
from v6t.core.cli.map_calculator import calc_map, calc_rate, calc_rfc6052
from v6t.plugins import address_mappings
from v6t.plugins.map_domains import value_at
from v6t.plugins.map_rules import MapRule, find_served_ea, rule_from_text
from v6t.plugins.prefixes import address4, address6, network4, network6
from v6t.tests.expect import expect_error

from .drawn_rules import ces, masked, rules

REPEATABLE = settings(derandomize=True, deadline=None)


@settings(REPEATABLE, max_examples=400)
@given(ces())
def test_encoding_and_decoding_are_inverse(drawn):
    rule, ea, psid = drawn
    ipv4 = rule.decode_ea(ea)[0]
    assert ipv4 in rule.ipv4_prefix
    assert rule.encode_ea(ipv4, psid) == ea
    address = rule.map_address(ipv4, psid)
    assert rule.decode_address(address) == (ipv4, psid)
    prefix = rule.end_user_prefix(ipv4, psid)
    assert address in prefix
    assert prefix.subnet_of(rule.ipv6_prefix)
    assert prefix.prefixlen == rule.ipv6_prefix.prefixlen + rule.ea_len
    assert rule.shared == (rule.psid_len > 0)
    assert rule.assigns_prefixes == (rule.ea_len + rule.ipv4_prefix.prefixlen < 32)


@settings(REPEATABLE, max_examples=400)
@given(ces())
def test_addresses_are_those_written_as_bits(drawn):
    rule, ea, psid = drawn
    ipv4 = rule.decode_ea(ea)[0]
    bits = f"{psid:0{rule.psid_len}b}" if rule.psid_len else ""
    assert MapDomain(rule).address(ipv4, bits) == rule.map_address(ipv4, psid)


@settings(REPEATABLE, max_examples=200)
@given(ces(), st.integers(0, 127))
def test_no_other_address_decodes_to_the_same_ce(drawn, bit):
    rule, ea, psid = drawn
    ipv4 = rule.decode_ea(ea)[0]
    other = IPv6Address(int(rule.map_address(ipv4, psid)) ^ 1 << bit)
    decoded = rule.decode_address(other)
    if decoded is not None:
        # another CE, or another host behind the same one (erratum 5225)
        assert decoded != (ipv4, psid)
        assert rule.map_address(*decoded, whole_host=True) == other


@settings(REPEATABLE, max_examples=200)
@given(rules(shared=True), st.data())
def test_port_sets_belong_to_one_ce_each(rule, data):
    psid = data.draw(st.integers(0, rule.sharing_ratio - 1))
    other = data.draw(st.integers(0, rule.sharing_ratio - 1).filter(lambda p: p != psid))
    mine = rule.port_set(psid)
    assert list(mine.ranges) == sorted(mine.ranges)
    both = sorted(mine.ranges + rule.port_set(other).ranges)
    assert all(last < first for (_, last), (first, _) in pairwise(both))
    for first, last in (*mine.ranges[:40], mine.ranges[-1]):
        assert rule.find_psid(first) == rule.find_psid(last) == psid
        assert first in mine
        assert last in mine
    a, m = rule.psid_offset, rule.ports.low_bits
    assert mine.count == (1 << m) * ((1 << a) - 1 if a else 1)


@pytest.mark.parametrize("a", range(17))
def test_all_port_sets_together_are_all_ports_but_the_excluded(a):
    for k in range(1, min(16 - a, 8) + 1):
        rule = rule_from_text("2001:db8::/40", "192.0.2.1/32", k, a)
        owned = sorted(
            port
            for psid in range(1 << k)
            for first, last in rule.port_set(psid).ranges
            for port in range(first, last + 1)
        )
        assert owned == list(range(1 << 16 - a if a else 0, 65536))
        # generalised modulus form (RFC 7597 appendix B)
        ratio, size = 1 << k, 1 << rule.ports.low_bits
        for port in owned[::977]:
            assert rule.find_psid(port) == port % (ratio * size) // size


@settings(REPEATABLE)
@given(rules())
def test_without_sharing_every_port_is_the_ces(rule):
    if not rule.shared:
        assert rule.port_set(0).ranges == ((0, 65535),)
        assert rule.port_set(0).count == 65536
        assert {rule.find_psid(p) for p in (0, 1, 1023, 65535)} == {0}


@settings(REPEATABLE)
@given(
    st.integers(0, (1 << 128) - 1),
    st.sampled_from(address_mappings.PREFIX_LENGTHS),
    st.integers(0, (1 << 32) - 1),
    st.integers(0, (1 << 24) - 1),
)
def test_rfc6052_extracts_what_it_embedded(value, length, ipv4, suffix):
    network = IPv6Network((masked(value & ~(0xFF << 56), length, 128), length))
    four = IPv4Address(ipv4)
    six = address_mappings.embed(network, four)
    assert six in network
    assert int(six) >> 56 & 0xFF == 0
    assert address_mappings.extract(network, six) == four
    digits = f"{int(six):0128b}"
    carried = (digits[:64] + digits[72:])[length : length + 32] if length < 96 else digits[96:]
    assert carried == f"{ipv4:032b}"
    used = max(length + 40, 72) if length < 96 else 128
    noisy = IPv6Address(int(six) | suffix & (1 << 128 - used) - 1)
    assert address_mappings.extract(network, noisy) == four


@st.composite
def small_rules(draw) -> MapRule:
    """Rules of few CEs in a small world, so that they often lie within each other."""
    o, r = draw(st.integers(0, 6)), draw(st.integers(26, 32))
    n = draw(st.integers(56, 64 - o))
    ipv6 = masked(draw(st.integers(0, 255)) << 64, n, 128)
    ipv4 = masked(draw(st.integers(0, 63)), r, 32)
    return MapRule(IPv6Network((ipv6, n)), IPv4Network((ipv4, r)), o, 2)


@settings(REPEATABLE, max_examples=300)
@given(small_rules(), st.lists(small_rules(), max_size=3))
def test_ces_of_wider_rules_keep_clear_of_narrower_ones(rule, others):
    def taken(ea):
        ce = rule.decode_ea(ea)
        prefix = rule.end_user_prefix(*ce)
        pool = IPv4Network((int(ce[0]), min(32, rule.ipv4_prefix.prefixlen + rule.ea_len)))
        return any(
            narrow.prefixlen > wide.prefixlen and mine.overlaps(narrow)
            for other in others
            for narrow, wide, mine in (
                (other.ipv6_prefix, rule.ipv6_prefix, prefix),
                (other.ipv4_prefix, rule.ipv4_prefix, pool),
            )
        )

    low, high = min(1, rule.ce_count - 1), rule.ce_count - 1
    ranges = find_served_ea(rule, low, high, others)
    assert all(ranges)
    values = [ea for r in ranges for ea in r]
    assert values == [ea for ea in range(low, high + 1) if not taken(ea)]
    assert [value_at(ranges, k) for k in range(len(values))] == values
    with pytest.raises(IndexError):
        value_at(ranges, len(values))


FIGURE_8 = ("2001:db8:ce::/51", "192.0.2.0/24", 13, 0)


def test_figure_8_of_the_mapperf_paper():
    got = calc_map(*FIGURE_8, psid=9, ipv4="192.0.2.189")
    assert got == {
        "end_user_prefix": "2001:db8:ce:17a9::/64",
        "map_address": "2001:db8:ce:17a9:0:c000:2bd:9",
        "ipv4": "192.0.2.189",
        "psid": 9,
        "psid_len": 5,
        "port_ranges": [[18432, 20479]],
        "ports_per_ce": 2048,
        "sharing_ratio": 32,
    }
    assert calc_map(*FIGURE_8, ipv4="192.0.2.189", port=19722) == got
    assert calc_map(*FIGURE_8, ipv4="192.0.2.189", port=19722, psid=9) == got
    assert calc_map(*FIGURE_8, ipv6="2001:db8:ce:17a9::1") == got
    other = calc_map(*FIGURE_8, ipv4="192.0.2.80", psid=17)
    assert other["map_address"] == "2001:db8:ce:a11:0:c000:250:11"
    assert calc_map(*FIGURE_8, ipv4="192.0.2.80", port=35336) == other


def test_calc_without_an_ipv4_suffix_needs_the_psid_only():
    got = calc_map("2001:db8::/56", "192.0.2.18/32", 0, 6, psid_len=8, psid=52)
    assert (got["ipv4"], got["psid"], got["ports_per_ce"]) == ("192.0.2.18", 52, 252)
    address = got["map_address"]
    assert calc_map("2001:db8::/56", "192.0.2.18/32", 0, 6, psid_len=8, ipv6=address) == got


def test_a_rule_without_ea_bits_gives_its_one_ce_the_whole_prefix():
    got = calc_map("2001:db8::/56", "192.0.2.16/28", 0, 6, ipv4="192.0.2.21")
    assert (got["ipv4"], got["psid"]) == ("192.0.2.16/28", None)
    assert got["map_address"] == "2001:db8::c000:210:0"


@pytest.mark.parametrize(
    ("given_", "code"),
    [
        ({}, "missing-setting"),
        ({"psid": 9}, "missing-setting"),
        ({"ipv4": "192.0.2.1", "ipv6": "2001:db8:ce::1"}, "missing-setting"),
        ({"ipv4": "192.0.2.1"}, "missing-setting"),
        ({"ipv4": "192.0.2.1", "port": 65536}, "out-of-range"),
        ({"ipv4": "192.0.2.1", "port": 2048, "psid": 0}, "outside-port-set"),
        ({"ipv4": "192.0.2.1", "psid": 32}, "out-of-range"),
        ({"ipv4": "192.0.3.1", "psid": 1}, "outside-prefix"),
        ({"ipv4": "192.0.2", "psid": 1}, "not-an-address"),
        ({"ipv6": "2001:db8::zz"}, "not-an-address"),
        ({"ipv6": "2001:db8:ff::1"}, "outside-prefix"),
    ],
)
def test_calc_refuses(given_, code):
    with expect_error(code):
        calc_map(*FIGURE_8, **given_)


def test_calc_refuses_excluded_ports():
    with expect_error("outside-port-set", mentions="1023") as caught:
        calc_map("2001:db8:ce::/51", "192.0.2.0/24", 13, 6, ipv4="192.0.2.1", port=1023)
    assert "1024" in caught.value.message


def test_calc_refuses_foreign_addresses_of_a_rule_without_ea_bits():
    with expect_error("outside-prefix"):
        calc_map("2001:db8::/56", "192.0.2.18/32", 0, 6, ipv6="2001:db8::1")


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({}, "give either --ipv4 or --ipv6"),
        ({"ipv4": "192.0.2.1", "ipv6": "64:ff9b::1"}, "give either --ipv4 or --ipv6"),
        ({"ipv6": "64:ff9c::1"}, "64:ff9c::1 is not within 64:ff9b::/96"),
    ],
)
def test_rfc6052_refuses(given_, message):
    with pytest.raises(UsageError) as caught:
        calc_rfc6052("64:ff9b::/96", **given_)
    assert caught.value.message == message


def test_rfc6052_refuses_other_prefixes():
    with expect_error("not-a-prefix"):
        calc_rfc6052("2001:db8::/72", ipv4="192.0.2.1")
    with expect_error("outside-prefix", mentions="64"):
        calc_rfc6052("2001:db8::100:0:0:0/96", ipv4="192.0.2.1")


def test_prefixes_as_users_write_them():
    assert network6("2001:db8::/40", "x") == IPv6Network("2001:db8::/40")
    assert network4("192.0.2.0/24", "x") == IPv4Network("192.0.2.0/24")
    for read, text, hint in (
        (network6, "2001:db8::1/40", "did you mean 2001:db8::/40?"),
        (network6, "2001:db8::/129", "write it as 2001:db8::/40"),
        (network4, "192.0.2.1/24", "did you mean 192.0.2.0/24?"),
        (network4, "nonsense", "write it as 192.0.2.0/24"),
    ):
        with expect_error("not-a-prefix", path=["the prefix"]) as caught:
            read(text, "the prefix")
        assert f"'{text}'" in caught.value.message
        assert caught.value.hint == hint
    for address in (address4, address6):
        with expect_error("not-an-address", path=["the address"]):
            address("x", "the address")


def test_rates_of_the_rfc():
    assert calc_rate("10G", 104)["max_fps"] == 10_080_645
    assert calc_rate("10G", 64, 40)["max_fps"] == 10_080_645
    assert calc_rate("25G", 104)["max_fps"] == 25_201_612
    with pytest.raises(UsageError):
        calc_rate("fast", 104)
    with pytest.raises(UsageError):
        calc_rate("10G", 63)
