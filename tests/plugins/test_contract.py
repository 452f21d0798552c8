"""What every technology says of itself holds for the frames it sends and expects."""

from __future__ import annotations

import json
from importlib.metadata import entry_points

import pytest
from v6t.intent import families
from v6t.plugins.base import Link, Links
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.model import Role
from v6t.tests.expect import expect_error

NAMES = sorted(
    e.name for e in entry_points(group="v6t.plugins") if e.value.startswith("v6t.plugins.")
)
QUERIES = {"dns64"}
"""They forward no frames: the conformance suite looks at their zones."""
PARAMS = {
    **{name: (name, {}) for name in NAMES if name not in QUERIES},
    "siit, IPv4 on the left": ("siit", {"orientation": "nat46"}),
    **{
        f"ipv4aas, {variant}": ("ipv4aas", {"variant": variant})
        for variant in ("ds-lite", "lw4o6", "map-e", "map-t")
    },
}
TAGGED = Links(
    Link("02:00:00:00:01:02", "02:00:00:00:01:01", vlan=7),
    Link("02:00:00:00:02:02", "02:00:00:00:02:01"),
)
SIDES = {"forward": 0, "reverse": 1}


def made(case, links=None):
    name, params = PARAMS[case]
    (point,) = entry_points(group="v6t.plugins", name=name)
    kind = point.load()
    return kind(kind.params_model(**params), links)


@pytest.mark.parametrize("links", [None, TAGGED], ids=["plain", "VLAN"])
@pytest.mark.parametrize("case", PARAMS)
def test_each_side_carries_the_version_and_the_sizes_it_is_said_to(case, links):
    plugin = made(case, links)
    sizes = plugin.frame_pair(plugin.rfc_frame_sizes[-2])
    for direction, side in SIDES.items():
        for each in plugin.traffic(direction, sizes).classes:
            if each.role is Role.FOREGROUND:
                first = next(layer.name for layer in each.layers if layer.name.startswith("IP"))
                assert {"IP": 4, "IPv6": 6}[first] == plugin.ip_versions[side]
                assert each.frame_size == plugin.side_sizes(sizes)[side]


@pytest.mark.parametrize("case", PARAMS)
def test_what_leaves_a_stateless_device_is_as_large_as_what_the_other_side_sends(case):
    plugin = made(case)
    if plugin.stateful:
        pytest.skip("its frames need connections")
    sizes = plugin.frame_pair(plugin.rfc_frame_sizes[-2])
    for direction, side in SIDES.items():
        streams = compile_traffic(plugin.traffic(direction, sizes)).streams
        frames = Expander(next(s for s in streams if s.role is Role.FOREGROUND)).frames(0, 8)
        octets = set(plugin.expect(direction, frames).length + 4)
        assert octets == {plugin.side_sizes(sizes)[1 - side]}


@pytest.mark.parametrize("case", PARAMS)
def test_the_overhead_is_what_the_sizes_differ_by(case):
    plugin = made(case)
    sizes = plugin.frame_pair(plugin.rfc_frame_sizes[-2])
    assert sizes.ipv6 - sizes.ipv4 == plugin.overhead


@pytest.mark.parametrize("case", PARAMS)
def test_devices_and_connections_are_told(case):
    plugin = made(case)
    assert len(plugin.sides) == 2
    assert any(role.stateful for role in plugin.roles) == plugin.stateful
    assert (plugin.combinations > 0) == plugin.stateful
    assert plugin.responder_version == plugin.ip_versions[1]
    assert {part.device for part in plugin.parts} <= {role.name for role in plugin.roles}


FAMILIES = {
    "clat": families.ClatConfig,
    "dslite-aftr": families.DsLiteAftrConfig,
    "lwaftr": families.LwAftrConfig,
    "lwb4": families.LwB4Config,
    "mape-br": families.MapERelayConfig,
    "mape-ce": families.MapECeConfig,
    "mapt-br": families.MapTRelayConfig,
    "mapt-ce": families.MapTCeConfig,
    "nat44": families.Nat44Config,
    "nat64": families.Nat64Config,
    "nat66": families.Nat66Config,
    "nptv6": families.NptConfig,
    "siit": families.SiitConfig,
}


@pytest.mark.parametrize("name", FAMILIES)
def test_dut_intent_configuration_is_of_the_family_and_reads_back_from_json(name):
    configuration = made(name).dut_intent().configuration
    assert type(configuration) is FAMILIES[name]
    kept = json.loads(json.dumps(configuration.to_json()))
    assert FAMILIES[name].model_validate(kept) == configuration


def test_configuration_as_another_family_is_refused():
    intent = made("nat64").dut_intent()
    assert intent.configuration_as(families.NatConfig) is intent.configuration
    with expect_error("unsupported-technology"):
        intent.configuration_as(families.MapERelayConfig)
