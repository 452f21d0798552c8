"""MAP rules without EA bits: CEs that share an address by PSIDs (RFC 7597, section 5.2; appendix A, example 5)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from v6t.base.errors import UsageError
from v6t.plugins.base import Technology
from v6t.plugins.map_rules import RuleTable
from v6t.plugins.mape_br import MapEBorderRelay, MapEParams
from v6t.plugins.mapt_br import MapTBorderRelay, MapTParams
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander

FIRST = {
    "rule_ipv6": "2001:db8:12:3400::/56", "rule_ipv4": "192.0.2.18/32", "ea_len": 0,
    "psid_len": 8, "psid": 0x34,
}  # fmt: skip
SECOND = {**FIRST, "rule_ipv6": "2001:db8:12:3500::/56", "psid": 0x35}
CE_34 = IPv6Address("2001:db8:12:3400:0:c000:212:34")
CE_35 = IPv6Address("2001:db8:12:3500:0:c000:212:35")


def mape(**given: object) -> MapEBorderRelay:
    return MapEBorderRelay(MapEParams(**{**FIRST, **given}))


def mapt(**given: object) -> MapTBorderRelay:
    return MapTBorderRelay(MapTParams(**{**FIRST, **given}))


def frames(technology: Technology, direction: str, name: str):
    streams = compile_traffic(technology.traffic(direction, technology.frame_pair(128))).streams
    return Expander(next(s for s in streams if s.name == name)).frames(0, 64)


def test_rule_example_5_has_its_port_ranges():
    rule = MapEParams(**FIRST).rule
    assert rule.port_set(0x34).ranges[:2] == ((1232, 1235), (2256, 2259))
    assert rule.port_set(0x34).ranges[-1] == (64720, 64723)
    assert rule.map_address(IPv4Address("192.0.2.18"), 0x34) == CE_34


def test_rule_with_psid_has_no_other_ports():
    rule = MapEParams(**FIRST).rule
    assert rule.find_psid(1232) == 0x34
    assert rule.find_psid(1236) is None
    assert rule.decode_address(CE_34) == (IPv4Address("192.0.2.18"), 0x34)
    assert rule.decode_address(IPv6Address(int(CE_34) + 1)) is None


@pytest.mark.parametrize("relay", [mape, mapt])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("name", ["fg-0", "fg-1"])
def test_relay_two_psids_of_one_address_forwards_both(relay, direction, name):
    technology = relay(domains=[SECOND])
    assert (
        technology.expect(direction, frames(technology, direction, name)).reason.tolist()
        == [0] * 64
    )


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_relay_unknown_psid_drops(direction):
    sent = frames(mape(domains=[SECOND]), direction, "fg-1")
    assert not mape().expect(direction, sent).length.any()


def test_reverse_frames_go_to_the_ce_of_their_port():
    technology = mape(domains=[SECOND])
    for name, address in (("fg-0", CE_34), ("fg-1", CE_35)):
        out = technology.expect("reverse", frames(technology, "reverse", name)).frames
        assert {bytes(row[38:54]) for row in out} == {address.packed}


def test_shorter_rule_gets_no_ports_of_a_longer_one():
    shared = {"rule_ipv6": "2001:db8:ce::/51", "rule_ipv4": "192.0.2.0/24", "ea_len": 13, "ces": 10}
    technology = mape(domains=[shared])
    row = frames(technology, "reverse", "fg-0")[:1].copy()
    row[:, 36:38] = (0x04, 0xD4)  # port 1236: PSID 0x35
    assert not technology.expect("reverse", row).length.any()


def test_owner_of_a_port_without_ea_bits_is_its_ce():
    table, address = RuleTable(mape(domains=[SECOND]).params.rules), IPv4Address("192.0.2.18")
    assert [table.find_ce(address, port) for port in (1232, 1236, 1240)] == [CE_34, CE_35, None]


def test_intent_rules_without_ea_bits_hold_psid_and_format():
    rules = mape(domains=[SECOND], iid_format="draft").configuration().rules
    assert [(r.psid, r.psid_len, r.iid_format) for r in rules] == [
        (0x34, 8, "draft"), (0x35, 8, "rfc7597"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "second",
    [
        {"psid": 0x34},
        {"psid_len": 4, "psid": 3},
        {"psid_len": 0, "psid": 0},
        {"ea_len": 8, "psid_len": 8, "psid": 0},
    ],
)
def test_domains_with_a_common_port_are_refused(second):
    with pytest.raises(UsageError) as info:
        mape(domains=[{**SECOND, **second}])
    assert info.value.exit_code == 2


def test_rule_with_one_ce_takes_the_default_of_ces():
    assert mape().params.ces == 1
    with pytest.raises(UsageError):
        mape(ces=2)


def test_psid_beside_ea_bits_is_refused():
    with pytest.raises(UsageError):
        MapEParams(psid=5)
