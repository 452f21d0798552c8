"""Every parameter of every technology changes no frame, or what drivers do; timers are what v6t believes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import pytest
from v6t.base.errors import UsageError
from v6t.core.config.compatibility import list_technologies
from v6t.core.config.plugins import list_names as plugin_names
from v6t.core.config.plugins import load_plugin
from v6t.drivers.duts.registry import list_driver_names as driver_names
from v6t.drivers.duts.registry import load_driver_type, make_driver
from v6t.intent.device import DeviceIntent
from v6t.plugins.nat44 import Nat66
from v6t.tests.expect import expect_error

from . import intents, walk

NO_PORTS = "the NAPT checks addresses and ports (RFC 7597, section 8.1; RFC 7596, section 5.2)"
ONE_NEXT_HOP = (
    "Snabb sends everything to one next hop by its MAC address, and has no IPv6 on the right"
)
BY_SOFTWIRE = "VPP tells customers apart by their softwires (RFC 6333, section 6.6)"
OWN_MTU = "the value is the implementation's own: it fragments no packet that fits the link"
CE_PORTS = ("ipv4", "psid", "psid_len", "psid_offset")
UNUSED: dict[tuple[str, str], str] = {
    **{("vpp", f"{kind}.{name}"): NO_PORTS for kind in ("lwb4", "mape-ce") for name in CE_PORTS},
    **{("snabb-lwaftr", f"lwaftr.{name}"): ONE_NEXT_HOP for name in (
        "server_ipv4", "tester_left_ipv6", "tester_right_ipv6", "dut_right_ipv6",
    )},
    ("snabb-lwaftr", "ipv4aas.tester_right_ipv4"): ONE_NEXT_HOP,
    ("vpp", "dslite-aftr.initiator_ipv4"): BY_SOFTWIRE,
    ("vpp", "dslite-aftr.internal_ipv4"): BY_SOFTWIRE,
    ("nat46", "*.lowest_ipv6_mtu=1500"): OWN_MTU,
    ("tundra", "*.lowest_ipv6_mtu=1500"): OWN_MTU,
    ("vpp", "mapt-br.lowest_ipv6_mtu=1500"): OWN_MTU,
}  # fmt: skip
"""Why a driver's plan stays the same, by driver and ``technology.parameter`` (``=value`` for a single value)."""
each_base = pytest.mark.parametrize("base", walk.BASES, ids=lambda b: b.name)


def test_every_technology_has_a_base():
    assert {base.plugin for base in walk.BASES} == set(plugin_names())


@pytest.mark.parametrize("plugin", plugin_names())
def test_every_parameter_has_another_valid_value(plugin):
    bases = [base for base in walk.BASES if base.plugin == plugin]
    lacking = [
        name
        for name in load_plugin(plugin).params_model.model_fields
        if name not in walk.FILES | walk.DERIVING | walk.FIXED.get(plugin, set())
        and not any(list(walk.accepted(base, name)) for base in bases)
    ]
    assert lacking == []


def test_every_driver_is_a_device_of_its_technologies():
    made = {(d.driver, base.plugin) for base in walk.BASES for d in walk.devices(base)}
    configuring = [name for name in driver_names() if load_driver_type(name).configures_device]
    wanted = {(name, plugin) for name in configuring for plugin in list_technologies(name)}
    assert wanted - made == set()


@each_base
def test_parameter_outside_the_configuration_changes_no_frame(base):
    technology = base.technology()
    configured = walk.configuration(technology.make_dut_intent())
    own = walk.frames(base, {}) if base.plugin != "dns64" else []
    changed = []
    for name in walk.parameters(base):
        for other in walk.accepted(base, name):
            if base.plugin == "dns64" or other.configured != configured:
                continue
            frames = own + walk.frames(base, other.values)
            if walk.emitted(technology, frames) != walk.emitted(other.technology, frames):
                changed.append(other.values)
    assert changed == []


@each_base
def test_configured_parameter_changes_every_plan_or_is_refused(base):
    same = []
    for device in walk.devices(base):
        driver, intent = device.made, device.base.technology().make_dut_intent()
        before, configured = walk.signature(driver, intent), walk.configuration(intent)
        for name in walk.parameters(base):
            for other in walk.accepted(device.base, name):
                if other.configured == configured or _excused(device, name, other.values.get(name)):
                    continue
                try:
                    unchanged = walk.signature(driver, other.intent) == before
                except UsageError:
                    continue
                if unchanged:
                    same.append((device.name, other.values))
    assert same == []


def _excused(device, name, value):
    parts = getattr(device.made.options, "parts", {}).values()
    drivers = [device.driver, *(part.driver for part in parts)]
    return any(
        _is_listed(UNUSED, driver, f"{device.base.plugin}.{name}", value) for driver in drivers
    )


def _is_listed(table, driver, name, value):
    return any(
        fnmatchcase(driver, who)
        and any(fnmatchcase(text, what) for text in (name, f"{name}={value}"))
        for who, what in table
    )


RFC = {"rfc_timers": True}
NFT, OTHER = "nftables", "tayga-nftables"


@pytest.mark.parametrize(
    ("driver", "intent", "told_s", "options", "seconds"),
    [
        (NFT, intents.nat44(), 0, {}, 3600),
        (NFT, intents.nat44(), 0, {"timeout_s": 900}, 900),
        (NFT, intents.nat44(), 0, RFC, 330),
        (NFT, intents.nat44(), 4, {}, 4),
        (NFT, intents.nat44(), 4, RFC, 4),
        ("iptables", intents.nat44(), 400, RFC, 400),
        (OTHER, intents.nat64(), 0, RFC, 330),
        (OTHER, intents.nat64(), 4, RFC, 4),
        (OTHER, intents.nat64(), 4, {}, 4),
        ("nftables66", Nat66().make_dut_intent(), 0, RFC, 330),
        ("jool", intents.nat64(), 0, {}, 3600),
        ("jool", intents.nat64(), 150, {}, 150),
        ("vpp", intents.nat44(), 0, {"timeout_s": 900}, 900),
        ("vpp", intents.nat44(), 4, {}, 4),
    ],
)
def test_what_is_believed_is_what_the_device_is_told(
    driver: str, intent: DeviceIntent, told_s: int, options: Mapping[str, Any], seconds: int
) -> None:
    if told_s:
        intent = intents.with_values(intent, udp_timeout_s=told_s)
    made = make_driver(driver, options)
    assert made.get_timeout_s(intent) == seconds
    steps = made.plan(intent, made.make_example_facts(intent)).steps
    commands = "\n".join(s.command + s.text for s in steps)
    udp = re.findall(r"(?:udp_timeout=|udp_timeout_stream=|timeout udp )(\d+)", commands)
    if driver == "jool":
        assert (
            f'"udp-timeout": "{seconds // 3600}:{seconds % 3600 // 60:02}:{seconds % 60:02}"'
            in commands
        )
    else:
        assert set(udp) == {str(seconds)}


def test_a_device_that_is_told_nothing_has_the_kernels_own() -> None:
    assert make_driver(NFT, {"timeout_s": 0}).get_timeout_s(intents.nat44()) == 30


@pytest.mark.parametrize("driver", [NFT, "nftables66", "iptables", OTHER])
def test_timers_of_rfcs_and_one_of_the_users_exclude_each_other(driver: str) -> None:
    with expect_error("conflict"):
        make_driver(driver, {**RFC, "timeout_s": 900})
    assert make_driver(driver, {"rfc_timers": False, "timeout_s": 900}).get_timeout_s(
        intents.nat44()
    )


def test_icmp_of_both_versions_is_timed() -> None:
    made, intent = make_driver("nftables66", RFC), Nat66().make_dut_intent()
    commands = "\n".join(
        s.command for s in made.plan(intent, made.make_example_facts(intent)).steps
    )
    assert "nf_conntrack_icmp_timeout=66" in commands
    assert "nf_conntrack_icmpv6_timeout=66" in commands
