"""Rule parameters of IPv4 as a service, and parameters that reach no part of it."""

from __future__ import annotations

import pytest
from v6t.base.errors import UsageError
from v6t.plugins.dslite import DsLiteAftr, DsLiteParams
from v6t.plugins.ipv4aas import Ipv4aas, Ipv4aasParams
from v6t.plugins.map_domains import RuleParams
from v6t.plugins.mape_br import MapEParams
from v6t.plugins.mapt_br import MapTParams

FEW_PORTS = {"min": 4096, "max": 4111}
ONE_ADDRESS = {
    "rule_ipv4": "192.0.2.35/32", "rule_ipv6": "2001:db8:12:3400::/56", "ea_len": 0, "psid_len": 8,
    "psid": 0x34, "psid_offset": 4, "initiator_ports": FEW_PORTS,
}  # fmt: skip


def parts(**given: object):
    return {part.name: part for part in Ipv4aas(Ipv4aasParams(**given)).parts}


def rules(**given: object):
    both = parts(**given)
    return both["ce"].intent.configuration.rule, both["br"].intent.configuration.rules[0]


def test_ipv4aas_has_every_rule_parameter_of_the_relays():
    shared = RuleParams.model_fields.keys()
    assert shared <= MapEParams.model_fields.keys() & MapTParams.model_fields.keys()
    assert shared <= Ipv4aasParams.model_fields.keys()


@pytest.mark.parametrize("variant", ["map-e", "map-t"])
def test_draft_rule_with_offset_4_reaches_ce_and_relay(variant):
    both = rules(variant=variant, psid_offset=4, iid_format="draft", initiator_ports=FEW_PORTS)
    assert [(rule.psid_offset, rule.iid_format) for rule in both] == [(4, "draft")] * 2


@pytest.mark.parametrize("variant", ["map-e", "map-t"])
def test_rule_without_ea_bits_reaches_ce_and_relay(variant):
    both = rules(variant=variant, **ONE_ADDRESS)
    assert [(rule.ea_len, rule.psid, rule.psid_len) for rule in both] == [(0, 0x34, 8)] * 2


@pytest.mark.parametrize("variant", ["lw4o6", "map-e", "map-t"])
def test_napt_takes_the_first_range_of_ports(variant):
    technology = Ipv4aas(Ipv4aasParams(variant=variant, psid_offset=4, initiator_ports=FEW_PORTS))
    assert technology.params.port_set.ranges[:2] == ((5632, 6143), (9728, 10239))
    assert technology.parts[0].intent.configuration.ports == (5632, 6143)
    assert any("5632 to 6143" in text for text in technology.warnings)


def test_more_endpoints_than_the_first_range_are_refused():
    with pytest.raises(UsageError):
        Ipv4aasParams(variant="map-e", psid_offset=4, initiator_ports={"min": 4096, "max": 4608})


@pytest.mark.parametrize(
    ("variant", "name", "value"),
    [
        ("map-e", "prefix", "2001:db8:65::/96"),
        ("map-e", "dmr", "2001:db8:eeee::/64"),
        ("map-e", "psid_len", 2),
        ("map-t", "public_count", 2),
        ("464xlat", "iid_format", "draft"),
        ("464xlat", "psid", 5),
        ("ds-lite", "rule_ipv6", "2001:db8:cf::/53"),
        ("lw4o6", "clat_ipv6", "2001:2:0:4::/96"),
    ],
)
def test_parameter_of_another_variant_is_refused(variant, name, value):
    with pytest.raises(UsageError) as info:
        Ipv4aas(Ipv4aasParams(**{"variant": variant, name: value}))
    assert info.value.exit_code == 2
    assert name in info.value.message


def test_default_value_of_another_variant_is_accepted():
    assert Ipv4aas(Ipv4aasParams(variant="map-e", dmr="2001:db8:ffff::/64")).parts


def test_dslite_hands_its_limits_to_the_nat():
    limits = {"port_block": 2000, "udp_timeout_s": 77, "session_limit": 200_000}
    technology = DsLiteAftr(DsLiteParams(**limits))
    configuration = technology.parts[-1].intent.configuration
    assert {name: getattr(configuration, name) for name in limits} == limits


def test_port_set_that_begins_at_port_0_is_used_from_port_1():
    params = Ipv4aasParams(variant="map-e", psid_offset=0, psid=0, low_ports=True)
    assert (params.public.ports.min, params.public.ports.max) == (1, 8191)
