"""MAP-T over the whole legal range of its rules (MAP-01 to MAP-11)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from v6t.audit.packet_device.maps import PrefixMap
from v6t.base.errors import UsageError
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.headers import to_numbers, to_octets
from v6t.plugins import address_mappings
from v6t.plugins.map_rules import MapRule, RuleTable, rule_from_text
from v6t.plugins.mapt_br import MapTBorderRelay, MapTParams
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.tests.expect import expect_error

from .support import forwarded_frame, packet_device

FAST = settings(max_examples=120, deadline=None)
SERVER = "203.0.113.56"


@st.composite
def rules(draw):
    """Any legal rule below 3ffe::/16 and 128.0.0.0/3."""
    o = draw(st.integers(0, 45))
    n = draw(st.integers(16, 64 - o))
    r = draw(st.integers(3, min(32, 48 - o)))
    k = max(0, o - (32 - r))
    explicit = draw(st.integers(0, 16)) if o == 0 and r == 32 else None
    a = draw(st.integers(0, 16 - (explicit or k)))
    if (explicit or k) == 16:
        a = 0
    six = (0x3FFE << n - 16 | draw(st.integers(0, 2 ** (n - 16) - 1))) << 128 - n
    four = (4 << r - 3 | draw(st.integers(0, 2 ** (r - 3) - 1))) << 32 - r
    draft = draw(st.booleans())
    return MapRule(
        IPv6Network((six, n)), IPv4Network((four, r)), o, a,
        -1 if explicit is None else explicit, "draft" if draft else "rfc7597",
    )  # fmt: skip


def params(rule: MapRule, **given) -> MapTParams:
    return MapTParams(
        rule_ipv6=str(rule.ipv6_prefix),
        rule_ipv4=str(rule.ipv4_prefix),
        ea_len=rule.ea_len,
        psid_offset=rule.psid_offset,
        psid_len=None if rule.ea_len else rule.psid_len,
        iid_format=rule.iid_format,
        ces=min(rule.ce_count, 100),
        server_ipv4=SERVER,
        **given,
    )


def expanded(plugin, direction, count=40):
    (stream,) = compile_traffic(plugin.traffic(direction, plugin.frame_pair(84))).streams
    return Expander(stream).frames(0, count)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(rules(), st.sampled_from(address_mappings.PREFIX_LENGTHS))
def test_frames_of_any_rule_pass_any_dmr(rule, length):
    dmr = f"{IPv6Network((0x0064FF9B << 96, length))}"
    try:
        chosen = params(rule, dmr=dmr)
    except UsageError as exc:
        assert exc.code in ("address-conflict", "not-enough-addresses")
        return
    plugin = MapTBorderRelay(chosen)
    device = packet_device(plugin)
    for direction in ("forward", "reverse"):
        frames = expanded(plugin, direction)
        answer = plugin.expect(direction, frames)
        assert not answer.reason.any()
        for row in range(0, len(frames), 7):
            wanted = forwarded_frame(device, direction, frames[row].tobytes())
            assert answer.frames[row, : answer.length[row]].tobytes() == wanted


def halves(ipv6):
    return to_numbers(ipv6[:, :8]), to_numbers(ipv6[:, 8:])


@FAST
@given(rules(), st.data())
def test_decode_after_encode_is_the_identity(rule, data):
    """IPv4 address and port to MAP address and back, all hosts and all owned ports."""
    table = RuleTable([rule], whole_host=True)
    base = int(rule.ipv4_prefix.network_address)
    suffix = data.draw(st.lists(st.integers(0, 2**rule.suffix_len - 1), min_size=1, max_size=9))
    ports = data.draw(st.lists(st.integers(0, 65535), min_size=len(suffix), max_size=len(suffix)))
    ipv4 = to_octets(np.array([base | s for s in suffix], dtype=np.uint64), 4)
    number = np.array(ports, dtype=np.uint64)
    ce = table.find_destinations(to_numbers(ipv4), number)
    assert ce.known.all()
    for row, port in enumerate(ports):
        psid = rule.find_psid(port)
        assert ce.owned[row] == (psid is not None)
        if psid is None:
            continue
        address = IPv4Address(ipv4[row].tobytes())
        assert IPv6Address(ce.ipv6[row].tobytes()) == rule.map_address(
            address, psid, whole_host=True
        )
    back = table.find_sources(*halves(ce.ipv6[ce.owned]), number[ce.owned])
    assert (back.known & back.consistent & back.owned).all()
    assert (back.ipv4 == to_numbers(ipv4[ce.owned])).all()


@FAST
@given(rules(), st.data())
def test_a_wrong_bit_is_noticed(rule, data):
    """Any bit of a MAP address that differs makes it another CE's or nobody's (MAP-09)."""
    table = RuleTable([rule], whole_host=True)
    suffix = data.draw(st.integers(0, 2**rule.suffix_len - 1))
    port = data.draw(st.integers(2**15, 65535))
    ipv4 = to_octets(np.array([int(rule.ipv4_prefix.network_address) | suffix], dtype=np.uint64), 4)
    number = np.array([port], dtype=np.uint64)
    ce = table.find_destinations(to_numbers(ipv4), number)
    if not ce.owned[0]:
        return
    spoiled = np.repeat(ce.ipv6, 128, axis=0)
    bits = np.arange(128)
    spoiled[bits, bits // 8] ^= (0x80 >> bits % 8).astype(np.uint8)
    back = table.find_sources(*halves(spoiled), np.repeat(number, 128))
    n, end = rule.ipv6_prefix.prefixlen, rule.ipv6_prefix.prefixlen + rule.ea_len
    assert not back.known[:n].any()
    assert back.known[n:].all()
    passed = np.flatnonzero(back.known & back.consistent & back.owned)
    assert not back.consistent[n:64].any() or (passed >= 64).all()
    # only the host's own bits, which a CE with an IPv4 prefix may choose, are free
    at = 111 if rule.iid_format == "rfc7597" else 103
    free = 32 - rule.ipv4_prefix.prefixlen - rule.ea_len if rule.assigns_prefixes else 0
    assert passed.tolist() == list(range(at - free + 1, at + 1))
    assert (back.ipv4[passed] != to_numbers(ipv4)[0]).all()
    assert end <= 64


@FAST
@given(rules())
def test_port_sets_of_different_ces_are_disjoint(rule):
    ports = np.arange(65536, dtype=np.uint64)
    psid, owned = rule.find_psids(ports)
    for port in (0, 1, 1023, 1024, 4095, 32767, 65535):
        wanted = rule.find_psid(port)
        assert (int(psid[port]) if owned[port] else None) == wanted
    counts = np.bincount(psid[owned].astype(int), minlength=rule.sharing_ratio)
    assert len(counts) == rule.sharing_ratio
    assert set(counts.tolist()) == {rule.port_set(0).count} or not rule.shared
    for number in {0, rule.sharing_ratio - 1}:
        mine = set(ports[owned & (psid == number)].tolist())
        assert mine == {
            p for low, high in rule.port_set(number).ranges for p in range(low, high + 1)
        }


def test_the_example_of_rfc_7599():
    """Appendix A, examples 2 and 3."""
    rule = rule_from_text("2001:db8::/40", "192.0.2.0/24", 16, 6)
    plugin = MapTBorderRelay(params(rule, dmr="2001:db8:ffff::/64"))
    frames = expanded(plugin, "reverse", 1)
    frames[0, 26:34] = list(IPv4Address("10.2.3.4").packed + IPv4Address("192.0.2.18").packed)
    frames[0, 34:38] = list((80).to_bytes(2, "big") + (1232).to_bytes(2, "big"))
    write_ipv4_checksum(frames, 14)
    six = IPv6(plugin.expect("reverse", frames).frames[0, 14:].tobytes())
    assert six.src == "2001:db8:ffff:0:a:203:400:0"
    assert six.dst == "2001:db8:12:3400:0:c000:212:34"
    assert (six[UDP].sport, six[UDP].dport) == (80, 1232)


def test_the_example_of_the_dual_device_paper():
    """EA 0x11b of 11 bits: 192.0.2.35, PSID 3, ports 24576 to 32767, Jool's DMR."""
    given = {"rule_ipv6": "2001:db8:ce::/53", "ea_len": 11, "psid_offset": 0, "ces": "all"}
    plugin = MapTBorderRelay(MapTParams.model_validate({**given, "dmr": "64:ff9b::/96"}))
    frames = expanded(plugin, "forward", 20_000)
    source = IPv6Address("2001:db8:ce:11b:0:c000:223:3").packed
    mine = frames[(frames[:, 22:38] == np.frombuffer(source, np.uint8)).all(axis=1)]
    assert len(mine)
    ports = mine[:, 54].astype(int) << 8 | mine[:, 55]
    assert ports.min() >= 24576
    assert ports.max() <= 32767
    answer = plugin.expect("forward", mine)
    server = PrefixMap(IPv6Network("64:ff9b::/96")).to_ipv6(IPv4Address(SERVER))
    assert {row.tobytes() for row in answer.frames[:, 26:30]} == {IPv4Address("192.0.2.35").packed}
    assert {row.tobytes() for row in mine[:, 38:54]} == {server.packed}


@pytest.mark.parametrize("iid_format", ["rfc7597", "draft"])
def test_all_hosts_behind_ces_with_a_prefix_send_and_receive(iid_format):
    """Sixteen CEs with a /28 each: erratum 5225 of RFC 7599 shows every host in the identifier."""
    given = {"rule_ipv6": "2001:db8::/40", "ea_len": 4, "ces": 16, "iid_format": iid_format}
    plugin = MapTBorderRelay(MapTParams.model_validate(given))
    pool = {IPv4Address(f"192.0.2.{n}").packed for n in range(256)}
    sent = plugin.expect("forward", expanded(plugin, "forward", 5000)).frames
    assert {row.tobytes() for row in sent[:, 26:30]} == pool
    assert {row.tobytes() for row in expanded(plugin, "reverse", 5000)[:, 30:34]} == pool


@pytest.mark.parametrize(
    ("vector", "source", "sport", "checks"),
    [
        ("address", "2001:db8:f0:c30:0:c612:1c:3", 16606, (True, False)),
        ("subnet", "2001:db8:f1:c30:0:c612:c:3", 16606, (False, False)),
        ("port", "2001:db8:f0:c30:0:c612:c:3", 16862, (True, True, False)),
        ("good", "2001:db8:f0:c30:0:c612:c:3", 16606, (True, True, True)),
    ],
)
def test_spoofed_sources_of_vpps_tests(vector, source, sport, checks):
    rule = rule_from_text("2001:db8:f0::/48", "198.18.0.0/24", 12, 6)
    table = RuleTable([rule], whole_host=True)
    octets = np.frombuffer(IPv6Address(source).packed, np.uint8)[None, :]
    port = np.array([sport], dtype=np.uint64)
    ce = table.find_sources(*halves(octets), port)
    results = (bool(ce.known[0]), bool(ce.consistent[0]), bool(ce.owned[0]))
    assert results[: len(checks)] == checks, vector


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"dmr": "2001:db8::/97"}, "not-a-prefix"),
        ({"dmr": "2001:db8::/72"}, "not-a-prefix"),
        ({"dmr": "2001:db8::/32"}, "address-conflict"),
        ({"dmr": "2001:db8:6::/64"}, "address-conflict"),
        ({"server_ipv4": "192.0.2.9"}, "address-conflict"),
    ],
)
def test_refusals(given, code):
    with expect_error(code):
        MapTParams.model_validate(given)


def test_the_intent_names_the_dmr():
    intent = MapTBorderRelay().dut_intent()
    assert str(intent.configuration.dmr) == "2001:db8:ffff::/64"
    assert intent.configuration.rules[0].ea_len == 13
    assert "2001:db8:ce::/51" in map(str, intent.left.routes)
