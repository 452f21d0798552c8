"""Every driver uses or refuses every requirement, and every field of accepted configurations."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_interface, ip_network
from itertools import product
from typing import Any

import pytest
from pydantic import BaseModel
from v6t.base.errors import UsageError
from v6t.core.config.compatibility import accepts_any_technology
from v6t.drivers.duts.registry import list_driver_names, load_driver_type
from v6t.intent.device import DeviceIntent, DeviceRequirements
from v6t.intent.families import NatConfig
from v6t.tests.drivers.duts import parameter_values

pytestmark = pytest.mark.xdist_group("parameter-values")  # one worker, because tests share plans
BY_SOFTWIRE = "VPP tells customers apart by their softwires (RFC 6333, section 6.6)"
BY_ENDS = "the ends of the tunnel follow from the rule"
BY_RULE = "the port set follows from the rule and the end-user prefix"
BY_ADDRESS = "behind its NAPT the CE is the mapping of one address"
ANY_CLIENT = "the implementation serves every client"
BY_ADDRESSES = "it translates by addresses, whatever the interface"
MANY_SESSIONS = "a run that opens more than 1,000 sessions of each is refused"
NO_PORTS = "the NAPT checks addresses and ports (RFC 7597, section 8.1; RFC 7596, section 5.2)"
PORT_SET = ("ipv4", "psid", "psid_len", "psid_offset")
RULE = ("ea_len", "ipv4_prefix", "ipv6_prefix", "psid_len", "psid_offset")
ENDS_OF_RULE = ("end_user_prefix", *(f"rule.{name}" for name in (*RULE, "psid", "iid_format")))
ONE_ADDRESS = (
    *("end_user_prefix", "psid_len", "psid_offset", "rule.ea_len", "rule.ipv4_prefix"),
    *("rule.psid", "rule.psid_offset"),
)
REASONS = (
    ("vpp", ("lwb4", "map-e-ce"), PORT_SET, NO_PORTS),
    (("ip6-tunnel", "vpp"), "map-e-ce", ENDS_OF_RULE, BY_ENDS),
    (("jool", "nat46"), "map-t-ce", (*PORT_SET, "rule.psid_len"), BY_RULE),
    ("jool", "map-t-relay", "rules.psid_len", BY_RULE),
    ("tayga", "map-t-ce", ONE_ADDRESS, BY_ADDRESS),
    ("jool", ("siit", "clat", "map-t-ce"), "ipv6_side", BY_ADDRESSES),
    ("nat46", "map-t-ce", "ipv6_side", BY_ADDRESSES),
    ("knot-resolver", "dns64", "clients", ANY_CLIENT),
    (("jool", "openbsd-pf", "tayga-nftables", "vpp"), "nat64", ("clients", "inside6"), ANY_CLIENT),
    ("vpp", "nat44", "inside4", ANY_CLIENT),
    ("vpp", "ds-lite-aftr", "b4_count", MANY_SESSIONS),
    ("vpp", "ds-lite-aftr", ("inside4", "first_b4"), BY_SOFTWIRE),
)
"""Reasons for which drivers may ignore fields, by drivers, families and fields."""
UNUSED = {
    key: reason
    for *names, reason in REASONS
    for key in product(*((each,) if isinstance(each, str) else each for each in names))
}
EXAMPLES = {
    "psid": 1,
    "prefix": IPv6Network("2001:db8:65::/96"),
    "eam": ((IPv4Network("198.18.0.9"), IPv6Network("2001:db8:e::9")),),
    "inside6": (IPv6Network("2001:db8:c::/64"),),
}
"""Other values of fields that are None or empty."""


def list_mutations(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield, for each field, its name and a configuration with another value of it."""
    for name in type(value).model_fields:
        current = getattr(value, name)
        if current is None or current == ():
            yield name, value.model_copy(update={name: EXAMPLES[name]})
            continue
        for inner, other in _list_other_values(current):
            path = f"{name}.{inner}" if inner else name
            yield path, value.model_copy(update={name: other})


def _list_other_values(value: Any) -> Iterator[tuple[str, Any]]:
    match value:
        case BaseModel():
            yield from list_mutations(value)
        case (BaseModel() as first, *others):
            for name, other in list_mutations(first):
                yield name, (other, *others)
        case bool():
            yield "", not value
        case int() | IPv4Address() | IPv6Address():
            yield "", value + 1
        case IPv4Network() | IPv6Network():
            adjacent = int(value.network_address) ^ value.hostmask._ip + 1
            yield "", ip_network((type(value.network_address)(adjacent), value.prefixlen))
        case "left" | "right":
            yield "", "left" if value == "right" else "right"
        case "rfc7597":
            yield "", "draft"
        case str():
            yield "", f"x{value}"
        case (first, *others):
            for name, other in _list_other_values(first):
                yield name, (other, *others)
        case _:
            raise AssertionError(f"no other value of {value!r}")


Unit = tuple[Any, DeviceIntent]


@cache
def list_all_units() -> tuple[Unit, ...]:
    """Return each driver with an intent of each family that it accepts, alone and in a chain."""
    results: dict[tuple[str, str, bool], Unit] = {}
    for base in parameter_values.BASES:
        for device in parameter_values.list_devices(base):
            intent = device.base.make_technology().make_dut_intent()
            for driver, part in parameter_values.list_units(device.loaded_driver, intent):
                key = (driver.name, part.configuration.family, driver.chain_membership is not None)
                if driver.configures_device:
                    results.setdefault(key, (driver, part))
    return tuple(results.values())


def list_units(name: str) -> list[Unit]:
    return [(driver, intent) for driver, intent in list_all_units() if driver.name == name]


DRIVERS = [
    name
    for name in list_driver_names()
    if (kind := load_driver_type(name)).configures_device
    and not kind.is_chain
    and not accepts_any_technology(name)
]
"""Drivers of known configurations; other drivers execute commands of the user."""
each_driver = pytest.mark.parametrize("name", DRIVERS)


def is_noticed(driver: Any, intent: DeviceIntent, changed: DeviceIntent) -> bool:
    """Check whether a driver refuses a changed intent or has another plan for it."""
    try:
        return bool(
            parameter_values.describe_plan(driver, changed)
            != parameter_values.describe_plan(driver, intent)
        )
    except (UsageError, LookupError, ValueError):  # the value may contradict the others
        return True


@each_driver
def test_accepted_family_has_a_unit(name):
    tested = [intent.configuration for _, intent in list_units(name)]
    lacking = [
        kind.family
        for kind in load_driver_type(name).supported_configurations
        if not any(isinstance(each, kind) for each in tested)
    ]
    assert lacking == []


@each_driver
def test_field_of_configuration_is_used_or_refused(name):
    ignored = {
        (name, intent.configuration.family, field)
        for driver, intent in list_units(name)
        for field, changed in list_mutations(intent.configuration)
        if not is_noticed(driver, intent, replace(intent, configuration=changed))
    }
    assert sorted(ignored) == sorted(key for key in UNUSED if key[0] == name)


def list_link_changes(intent: DeviceIntent) -> Iterator[tuple[str, DeviceIntent]]:
    """Yield intents that differ on one link: by an address, a host, a network or a next hop."""
    for side in ("left", "right"):
        link = getattr(intent, side)
        for number, address in enumerate(link.addresses):
            other = ip_interface(f"{address.ip + 1}/{address.network.prefixlen}")
            changed = (*link.addresses[:number], other, *link.addresses[number + 1 :])
            yield f"{side} addresses", replace(intent, **{side: replace(link, addresses=changed)})
        for host in [*link.neighbors][-1:]:
            fewer = {a: mac for a, mac in link.neighbors.items() if a != host}
            for hosts in (fewer, {**fewer, host: "02:00:00:00:00:77"}):
                yield f"{side} neighbors", replace(intent, **{side: replace(link, neighbors=hosts)})
        for net, via in link.routes.items():
            fewer = {n: v for n, v in link.routes.items() if n != net}
            for routes in (fewer, {**fewer, net: via + 1}):
                yield f"{side} routes", replace(intent, **{side: replace(link, routes=routes)})
        cable = getattr(intent.links, side).model_copy(update={"mtu": 1600})
        yield f"{side} mtu", replace(intent, links=replace(intent.links, **{side: cable}))


ONE_NEXT_HOP = "Snabb sends everything to one next hop by its MAC address"
UNUSED_ON_LINKS: dict[tuple[str, str, str], str] = {
    **{
        ("snabb-lwaftr", "lwaftr", f"{side} {kind}"): ONE_NEXT_HOP
        for side in ("left", "right")
        for kind in ("neighbors", "routes")
    },
    ("snabb-lwaftr", "lwaftr", "right addresses"): "it has no IPv6 on the right",
}
"""Reasons for which a driver may ignore a property of a link, by driver, family and property."""


@each_driver
def test_everything_on_a_link_is_used_or_refused(name):
    ignored = {
        (name, intent.configuration.family, kind)
        for driver, intent in list_units(name)
        for kind, changed in list_link_changes(intent)
        if not is_noticed(driver, intent, changed)
    }
    assert sorted(ignored) == sorted(key for key in UNUSED_ON_LINKS if key[0] == name)


REQUIREMENTS = {
    "filters": DeviceRequirements(filters=3),
    "live_change": DeviceRequirements(live_change=True),
    "route_updates": DeviceRequirements(route_updates=True),
    "bgp_speaker": DeviceRequirements(route_updates=True, bgp_speaker=True),
    "snmp_agent": DeviceRequirements(snmp_agent=True),
}


@each_driver
@pytest.mark.parametrize("requirement", REQUIREMENTS)
def test_requirement_is_used_or_refused(name, requirement):
    without = DeviceRequirements(route_updates=requirement == "bgp_speaker")
    for driver, intent in list_units(name):
        expect_use(driver, intent, without, REQUIREMENTS[requirement])


UNBOUNDED = ("jool",)
"""Drivers whose devices have no table of a configured size."""


@each_driver
def test_number_of_sessions_of_a_nat_is_used_or_refused(name):
    for driver, intent in list_units(name):
        if isinstance(intent.configuration, NatConfig) and name not in UNBOUNDED:
            required = DeviceRequirements(sessions=5_000_000)
            expect_use(driver, intent, intent.requirements, required)


def expect_use(
    driver: Any, intent: DeviceIntent, before: DeviceRequirements, after: DeviceRequirements
) -> None:
    """Check that a driver refuses the later requirements or has another plan for them."""
    earlier, later = (
        make_plan_summary(driver, replace(intent, requirements=required))
        for required in (before, after)
    )
    assert later is None or earlier not in (None, later)


def make_plan_summary(driver: Any, intent: DeviceIntent) -> Any:
    """Return the commands and texts of a plan and of changes under traffic; None if refused."""
    try:
        plan = driver.plan(intent, driver.make_example_facts(intent))
    except UsageError:
        return None
    changes = [
        change and (change.add_command, change.change_command)
        for change in (plan.live_change, plan.route_update)
    ]
    return (
        [s.command + s.text for s in plan.steps],
        changes,
        plan.management_query and plan.management_query.command,
    )
