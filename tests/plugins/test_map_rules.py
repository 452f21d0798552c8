"""MAP and RFC 6052 arithmetic: identities over everything legal, and refusals."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from v6t.audit.packet_device.maps import MapDomain
from v6t.base.errors import UsageError
from v6t.core.cli.map_calculator import calc_map, calc_rate, calc_rfc6052
from v6t.packets.headers import to_numbers
from v6t.plugins import translation
from v6t.plugins.map_domains import _draw_ea
from v6t.plugins.map_rules import MapRule, RuleTable, find_served_ea, rule_from_text
from v6t.plugins.mape_br import MapEParams
from v6t.plugins.prefixes import address4, address6, network4, network6
from v6t.tests.expect import expect_error

from .drawn_rules import ces, masked, rules
from .support import first_frames, make, stream_frames

REPEATABLE = settings(derandomize=True, deadline=None)


@settings(REPEATABLE, max_examples=400)
@given(ces())
def test_ce_encoded_and_decoded_is_the_same(drawn):
    rule, ea, psid = drawn
    ipv4 = rule.decode_ea(ea)[0]
    assert ipv4 in rule.ipv4_prefix
    assert rule.encode_ea(ipv4, psid) == ea
    address = rule.map_address(ipv4, psid)
    bits = f"{psid:0{rule.psid_len}b}" if rule.psid_len else ""
    assert MapDomain(rule).address(ipv4, bits) == address
    assert rule.decode_address(address) == (ipv4, psid)
    prefix = rule.end_user_prefix(ipv4, psid)
    assert address in prefix
    assert prefix.subnet_of(rule.ipv6_prefix)
    assert prefix.prefixlen == rule.ipv6_prefix.prefixlen + rule.ea_len
    assert rule.shared == (rule.psid_len > 0)
    assert (rule.host_bits > 0) == (rule.ea_len + rule.ipv4_prefix.prefixlen < 32)


@settings(REPEATABLE, max_examples=200)
@given(ces(), st.integers(0, 127))
def test_address_with_another_bit_decodes_to_another_ce(drawn, bit):
    rule, ea, psid = drawn
    ipv4 = rule.decode_ea(ea)[0]
    other = IPv6Address(int(rule.map_address(ipv4, psid)) ^ 1 << bit)
    decoded = rule.decode_address(other)
    if decoded is not None:
        # another CE, or another host behind the same one (erratum 5225)
        assert decoded != (ipv4, psid)
        assert rule.map_address(*decoded, whole_host=True) == other


def halves(ipv6):
    return to_numbers(ipv6[:, :8]), to_numbers(ipv6[:, 8:])


@settings(REPEATABLE, max_examples=120)
@given(rules(), st.data())
def test_rule_table_finds_destinations_and_sources(rule, data):
    """All hosts and all owned ports, from IPv4 address and port to the MAP address and back."""
    table = RuleTable([rule], whole_host=True)
    base = int(rule.ipv4_prefix.network_address)
    suffix = data.draw(st.lists(st.integers(0, 2**rule.suffix_len - 1), min_size=1, max_size=9))
    ports = data.draw(st.lists(st.integers(0, 65535), min_size=len(suffix), max_size=len(suffix)))
    ipv4, numbers = np.array([base | s for s in suffix], np.uint64), np.array(ports, np.uint64)
    ce = table.find_destinations(ipv4, numbers)
    assert ce.known.all()
    for row, port in enumerate(ports):
        psid = rule.find_psid(port)
        assert ce.owned[row] == (psid is not None)
        if psid is not None:
            wanted = rule.map_address(IPv4Address(int(ipv4[row])), psid, whole_host=True)
            assert IPv6Address(ce.ipv6[row].tobytes()) == wanted
    source = table.find_sources(*halves(ce.ipv6[ce.owned]), numbers[ce.owned])
    assert (source.known & source.consistent & source.owned).all()
    assert (source.ipv4 == ipv4[ce.owned]).all()


@settings(REPEATABLE, max_examples=120)
@given(rules(), st.data())
def test_rule_table_with_a_wrong_bit_finds_another_source_or_none(rule, data):
    """MAP-09: any bit of a MAP address that differs makes it another CE's or nobody's."""
    table = RuleTable([rule], whole_host=True)
    suffix = data.draw(st.integers(0, 2**rule.suffix_len - 1))
    port = data.draw(st.integers(2**15, 65535))
    ipv4 = np.array([int(rule.ipv4_prefix.network_address) | suffix], np.uint64)
    number = np.array([port], np.uint64)
    ce = table.find_destinations(ipv4, number)
    if not ce.owned[0]:
        return
    spoiled = np.repeat(ce.ipv6, 128, axis=0)
    bits = np.arange(128)
    spoiled[bits, bits // 8] ^= (0x80 >> bits % 8).astype(np.uint8)
    source = table.find_sources(*halves(spoiled), np.repeat(number, 128))
    n = rule.ipv6_prefix.prefixlen
    assert not source.known[:n].any()
    assert source.known[n:].all()
    passed = np.flatnonzero(source.known & source.consistent & source.owned)
    assert not source.consistent[n:64].any() or (passed >= 64).all()
    # only the host's own bits, which a CE with an IPv4 prefix may choose, are free
    at = 111 if rule.iid_format == "rfc7597" else 103
    free = 32 - rule.ipv4_prefix.prefixlen - rule.ea_len if rule.host_bits else 0
    assert passed.tolist() == list(range(at - free + 1, at + 1))
    assert (source.ipv4[passed] != ipv4[0]).all()


@pytest.mark.parametrize(
    ("source", "port", "checks"),
    [
        ("2001:db8:f0:c30:0:c612:1c:3", 16606, (True, False)),
        ("2001:db8:f1:c30:0:c612:c:3", 16606, (False, False)),
        ("2001:db8:f0:c30:0:c612:c:3", 16862, (True, True, False)),
        ("2001:db8:f0:c30:0:c612:c:3", 16606, (True, True, True)),
    ],
    ids=["address", "subnet", "port", "good"],
)
def test_rule_table_judges_spoofed_sources_of_vpps_tests(source, port, checks):
    table = RuleTable([rule_from_text("2001:db8:f0::/48", "198.18.0.0/24", 12, 6)], whole_host=True)
    octets = np.frombuffer(IPv6Address(source).packed, np.uint8)[None, :]
    ce = table.find_sources(*halves(octets), np.array([port], np.uint64))
    results = (bool(ce.known[0]), bool(ce.consistent[0]), bool(ce.owned[0]))
    assert results[: len(checks)] == checks


# port sets


@settings(REPEATABLE, max_examples=120)
@given(rules())
def test_psids_of_all_ports_equal_the_port_sets(rule):
    ports = np.arange(65536, dtype=np.uint64)
    psid, owned = rule.find_psids(ports)
    for port in (0, 1, 1023, 1024, 4095, 32767, 65535):
        assert (int(psid[port]) if owned[port] else None) == rule.find_psid(port)
    counts = np.bincount(psid[owned].astype(int), minlength=rule.sharing_ratio)
    assert set(counts.tolist()) == {rule.port_set(0).count}
    for number in {0, rule.sharing_ratio - 1}:
        ranges = rule.port_set(number).ranges
        mine = ports[owned & (psid == number)].tolist()
        assert mine == [p for low, high in ranges for p in range(low, high + 1)]


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
        # generalised modulus form (RFC 7597, appendix B)
        ratio, size = 1 << k, 1 << rule.ports.low_bits
        for port in owned[::977]:
            assert rule.find_psid(port) == port % (ratio * size) // size


@settings(REPEATABLE)
@given(rules())
def test_ce_that_shares_nothing_owns_every_port(rule):
    if not rule.shared:
        assert rule.port_set(0).ranges == ((0, 65535),)
        assert rule.port_set(0).count == 65536
        assert {rule.find_psid(p) for p in (0, 1, 1023, 65535)} == {0}


# several rules


@st.composite
def small_rules(draw) -> MapRule:
    """Draw a rule of few CEs in a small world, so that rules often lie within each other."""
    o, r = draw(st.integers(0, 6)), draw(st.integers(26, 32))
    n = draw(st.integers(56, 64 - o))
    ipv6 = masked(draw(st.integers(0, 255)) << 64, n, 128)
    ipv4 = masked(draw(st.integers(0, 63)), r, 32)
    return MapRule(IPv6Network((ipv6, n)), IPv4Network((ipv4, r)), o, 2)


@settings(REPEATABLE, max_examples=300)
@given(small_rules(), st.lists(small_rules(), max_size=3))
def test_served_ces_of_a_wider_rule_avoid_narrower_rules(rule, others):
    def is_taken(ea):
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
    assert values == [ea for ea in range(low, high + 1) if not is_taken(ea)]
    assert sorted(_draw_ea(tuple(ranges), len(values), "sample", "order")) == values


# rules without EA bits (RFC 7597, section 5.2 and appendix A, example 5)

FIRST = {
    "rule_ipv6": "2001:db8:12:3400::/56", "rule_ipv4": "192.0.2.18/32", "ea_len": 0,
    "psid_len": 8, "psid": 0x34,
}  # fmt: skip
SECOND = {**FIRST, "rule_ipv6": "2001:db8:12:3500::/56", "psid": 0x35}
CE_34 = IPv6Address("2001:db8:12:3400:0:c000:212:34")
CE_35 = IPv6Address("2001:db8:12:3500:0:c000:212:35")
SHARED_IPV4 = IPv4Address("192.0.2.18")


def test_rule_of_example_5_has_its_address_and_ports():
    rule = MapEParams(**FIRST).rule
    ranges = rule.port_set(0x34).ranges
    assert ranges[:2] == ((1232, 1235), (2256, 2259))
    assert ranges[-1] == (64720, 64723)
    assert (rule.find_psid(1232), rule.find_psid(1236)) == (0x34, None)
    assert rule.map_address(SHARED_IPV4, 0x34) == CE_34
    assert rule.decode_address(CE_34) == (SHARED_IPV4, 0x34)
    assert rule.decode_address(IPv6Address(int(CE_34) + 1)) is None


@pytest.mark.parametrize("name", ["mape-br", "mapt-br"])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_relay_with_two_psids_of_one_address_forwards_both(name, direction):
    plugin = make(name, **FIRST, domains=[SECOND])
    for frames in stream_frames(plugin, direction, 64, size=128).values():
        assert not plugin.expect(direction, frames).reason.any()


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_relay_without_the_psid_drops(direction):
    sent = stream_frames(make("mape-br", **FIRST, domains=[SECOND]), direction, 64)["fg-1"]
    assert not make("mape-br", **FIRST).expect(direction, sent).length.any()


def test_relay_sends_a_packet_to_the_ce_of_its_port():
    plugin = make("mape-br", **FIRST, domains=[SECOND])
    sent = stream_frames(plugin, "reverse", 64)
    for name, address in (("fg-0", CE_34), ("fg-1", CE_35)):
        out = plugin.expect("reverse", sent[name]).frames
        assert {bytes(row[38:54]) for row in out} == {address.packed}


def test_port_of_a_longer_rule_is_not_the_shorter_ones():
    wider = {"rule_ipv6": "2001:db8:ce::/51", "rule_ipv4": "192.0.2.0/24", "ea_len": 13, "ces": 10}
    plugin = make("mape-br", **FIRST, domains=[wider])
    frame = first_frames(plugin, "reverse", 1)
    frame[:, 36:38] = (0x04, 0xD4)  # port 1236: PSID 0x35
    assert not plugin.expect("reverse", frame).length.any()


def test_owner_of_a_port_without_ea_bits_is_its_ce():
    table = RuleTable(make("mape-br", **FIRST, domains=[SECOND]).params.rules)
    assert [table.find_ce(SHARED_IPV4, port) for port in (1232, 1236, 1240)] == [CE_34, CE_35, None]


def test_rules_of_the_intent_without_ea_bits_have_psid_and_format():
    plugin = make("mape-br", **FIRST, domains=[SECOND], iid_format="draft")
    rules_ = [(r.psid, r.psid_len, r.iid_format) for r in plugin.configuration().rules]
    assert rules_ == [(0x34, 8, "draft"), (0x35, 8, "rfc7597")]


def test_rule_with_one_ce_has_one_simulated_ce():
    assert make("mape-br", **FIRST).params.ces == 1


@pytest.mark.parametrize(
    "given",
    [
        *({**FIRST, "domains": [{**SECOND, **second}]} for second in (
            {"psid": 0x34},
            {"psid_len": 4, "psid": 3},
            {"psid_len": 0, "psid": 0},
            {"ea_len": 8, "psid_len": 8, "psid": 0},
        )),
        {**FIRST, "ces": 2},
        {"psid": 5},
    ],
)  # fmt: skip
def test_impossible_rule_without_ea_bits_is_refused(given):
    with pytest.raises(UsageError) as info:
        MapEParams(**given)
    assert info.value.exit_code == 2


# RFC 6052


@settings(REPEATABLE)
@given(
    st.integers(0, (1 << 128) - 1),
    st.sampled_from(translation.PREFIX_LENGTHS),
    st.integers(0, (1 << 32) - 1),
    st.integers(0, (1 << 24) - 1),
)
def test_rfc6052_address_extracted_is_the_embedded_one(value, length, ipv4, suffix):
    network = IPv6Network((masked(value & ~(0xFF << 56), length, 128), length))
    four = IPv4Address(ipv4)
    six = translation.embed(network, four)
    assert six in network
    assert int(six) >> 56 & 0xFF == 0
    assert translation.extract(network, six) == four
    digits = f"{int(six):0128b}"
    carried = (digits[:64] + digits[72:])[length : length + 32] if length < 96 else digits[96:]
    assert carried == f"{ipv4:032b}"
    used = max(length + 40, 72) if length < 96 else 128
    noisy = IPv6Address(int(six) | suffix & (1 << 128 - used) - 1)
    assert translation.extract(network, noisy) == four


@pytest.mark.parametrize(
    ("prefix", "given_", "code"),
    [
        ("64:ff9b::/96", {}, "missing-setting"),
        ("64:ff9b::/96", {"ipv4": "192.0.2.1", "ipv6": "64:ff9b::1"}, "missing-setting"),
        ("64:ff9b::/96", {"ipv6": "64:ff9c::1"}, "outside-prefix"),
        ("2001:db8::/72", {"ipv4": "192.0.2.1"}, "not-a-prefix"),
        ("2001:db8::100:0:0:0/96", {"ipv4": "192.0.2.1"}, "outside-prefix"),
    ],
)
def test_rfc6052_calculation_of_an_impossible_address_is_refused(prefix, given_, code):
    with expect_error(code):
        calc_rfc6052(prefix, **given_)


# the calculator

FIGURE_8 = ("2001:db8:ce::/51", "192.0.2.0/24", 13, 0)


@pytest.mark.parametrize(
    "which",
    [
        {"ipv4": "192.0.2.189", "psid": 9},
        {"ipv4": "192.0.2.189", "port": 19722},
        {"ipv4": "192.0.2.189", "port": 19722, "psid": 9},
        {"ipv6": "2001:db8:ce:17a9::1"},
    ],
)
def test_figure_8_of_the_mapperf_paper_is_calculated(which):
    assert calc_map(*FIGURE_8, **which) == {
        "end_user_prefix": "2001:db8:ce:17a9::/64",
        "map_address": "2001:db8:ce:17a9:0:c000:2bd:9",
        "ipv4": "192.0.2.189",
        "psid": 9,
        "psid_len": 5,
        "port_ranges": [[18432, 20479]],
        "ports_per_ce": 2048,
        "sharing_ratio": 32,
    }


def test_second_ce_of_figure_8_is_calculated_from_psid_or_port():
    other = calc_map(*FIGURE_8, ipv4="192.0.2.80", psid=17)
    assert other["map_address"] == "2001:db8:ce:a11:0:c000:250:11"
    assert calc_map(*FIGURE_8, ipv4="192.0.2.80", port=35336) == other


def test_calculation_without_an_ipv4_suffix_needs_only_the_psid():
    got = calc_map("2001:db8::/56", "192.0.2.18/32", 0, 6, psid_len=8, psid=52)
    assert (got["ipv4"], got["psid"], got["ports_per_ce"]) == ("192.0.2.18", 52, 252)
    address = got["map_address"]
    assert calc_map("2001:db8::/56", "192.0.2.18/32", 0, 6, psid_len=8, ipv6=address) == got


def test_ce_of_a_rule_without_ea_bits_has_the_whole_prefix():
    got = calc_map("2001:db8::/56", "192.0.2.16/28", 0, 6, ipv4="192.0.2.21")
    assert (got["ipv4"], got["psid"]) == ("192.0.2.16/28", None)
    assert got["map_address"] == "2001:db8::c000:210:0"


@pytest.mark.parametrize(
    ("rule", "given_", "code"),
    [
        (FIGURE_8, {}, "missing-setting"),
        (FIGURE_8, {"psid": 9}, "missing-setting"),
        (FIGURE_8, {"ipv4": "192.0.2.1", "ipv6": "2001:db8:ce::1"}, "missing-setting"),
        (FIGURE_8, {"ipv4": "192.0.2.1"}, "missing-setting"),
        (FIGURE_8, {"ipv4": "192.0.2.1", "port": 65536}, "out-of-range"),
        (FIGURE_8, {"ipv4": "192.0.2.1", "port": 2048, "psid": 0}, "outside-port-set"),
        (FIGURE_8, {"ipv4": "192.0.2.1", "psid": 32}, "out-of-range"),
        (FIGURE_8, {"ipv4": "192.0.3.1", "psid": 1}, "outside-prefix"),
        (FIGURE_8, {"ipv4": "192.0.2", "psid": 1}, "not-an-address"),
        (FIGURE_8, {"ipv6": "2001:db8::zz"}, "not-an-address"),
        (FIGURE_8, {"ipv6": "2001:db8:ff::1"}, "outside-prefix"),
        ((*FIGURE_8[:3], 6), {"ipv4": "192.0.2.1", "port": 1023}, "outside-port-set"),
        (("2001:db8::/56", "192.0.2.18/32", 0, 6), {"ipv6": "2001:db8::1"}, "outside-prefix"),
    ],
)
def test_calculation_of_an_impossible_ce_is_refused(rule, given_, code):
    with expect_error(code):
        calc_map(*rule, **given_)


@pytest.mark.parametrize(
    ("read", "text", "suggested"),
    [
        (network6, "2001:db8::1/40", "2001:db8::/40"),
        (network6, "2001:db8::/129", "2001:db8::/40"),
        (network4, "192.0.2.1/24", "192.0.2.0/24"),
        (network4, "nonsense", "192.0.2.0/24"),
    ],
)
def test_malformed_prefix_is_refused_with_a_suggestion(read, text, suggested):
    assert read(suggested, "x") in (IPv6Network("2001:db8::/40"), IPv4Network("192.0.2.0/24"))
    with expect_error("not-a-prefix", path=["the prefix"]) as caught:
        read(text, "the prefix")
    assert suggested in caught.value.hint


@pytest.mark.parametrize("read", [address4, address6])
def test_malformed_address_is_refused(read):
    with expect_error("not-an-address", path=["the address"]):
        read("x", "the address")


@pytest.mark.parametrize(
    ("given_", "rate"),
    [
        (("10G", 104), 10_080_645),
        (("10G", 64, 40), 10_080_645),
        (("25G", 104), 25_201_612),
    ],
)
def test_maximum_rate_of_a_medium_is_calculated(given_, rate):
    assert calc_rate(*given_)["max_fps"] == rate


@pytest.mark.parametrize("given_", [("fast", 104), ("10G", 63)])
def test_maximum_rate_of_an_impossible_medium_is_refused(given_):
    with pytest.raises(UsageError):
        calc_rate(*given_)
