"""One case per technology, driver, and version whose commands differ."""

import functools
from dataclasses import dataclass, field, replace
from typing import Any

from v6t.drivers.duts.kinds import tundra
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.plan import Plan
from v6t.drivers.duts.registry import make_driver
from v6t.intent.device import BackgroundVlan
from v6t.plugins.base import Links

from . import cli_dialects, intents


@dataclass(frozen=True)
class Case:
    name: str
    driver: str
    intent: Any
    options: dict[str, Any] = field(default_factory=dict)


VLAN = Links(
    intents.LINKS.left.model_copy(update={"vlan": 100}),
    intents.LINKS.right.model_copy(update={"mtu": 9000}),
)
VLANS_WITH_BACKGROUND = Links(*(
    getattr(VLAN, side).model_copy(
        update={"vlan": vlan, "background": BackgroundVlan.with_default_addresses(side, 200)})
    for side, vlan in (("left", 100), ("right", 101))
))  # fmt: skip
NEIGHBORS = {f"198.18.0.{n}": intents.LINKS.left.tester_mac for n in range(2, 50)}
MANY_HOSTS = replace(intents.make_nat44(), left=replace(intents.LEFT4, neighbors=NEIGHBORS))
TUNED = {"rss": "sdfn", "queues": 4, "rps": "f", "cores": 4, "governor": "performance",
         "clock_khz": 1_200_000}  # fmt: skip
# Options for a VPP that is already running.
RUNNING = {"start": False}
TUNDRA, TUNDRA_CLAT = (
    {name: override.value for name, override in tundra.PARAMETER_OVERRIDES[plugin].items()}
    for plugin in ("siit", "clat")
)
PCI = {"left": "0000:03:00.0", "right": "03:00.1", "cpus": "3-5"}
CUSTOM_COMMANDS = {
    "steps": [{"command": "ip link set $LEFT promisc on", "why": "an example", "undo": ""}],
    "flush": [{"command": "true", "check": {"command": "echo 0", "equals": "0"}}],
    "sessions_command": "echo 5",
    "watch": {"load": "cut -d' ' -f1 /proc/loadavg"},
}

CASES = (
    Case("linux-router-ipv4", "linux-router", intents.ROUTER4),
    Case("linux-router-ipv6", "linux-router", intents.ROUTER6),
    Case("linux-router-vlan", "linux-router", replace(intents.ROUTER4, links=VLAN)),
    Case("linux-router-background", "linux-router", intents.make_intent("ipv6-router", links=VLANS_WITH_BACKGROUND)),
    Case("linux-router-tuned", "linux-router", intents.ROUTER4, TUNED),
    Case("nftables-nat44", "nftables", intents.make_nat44()),
    Case("nftables-nat44-gateway", "nftables", MANY_HOSTS, {"neighbours": "gateway"}),
    Case("iptables-nat44", "iptables", intents.make_nat44()),
    Case("tayga-siit", "tayga", intents.SIIT),
    Case("tayga-siit-workers", "tayga", intents.SIIT, {"workers": 2}),
    Case("tayga-nftables-nat64", "tayga-nftables", intents.make_nat64()),
    Case("bind9-dns64", "bind9", intents.make_intent("dns64")),
    Case("unbound-dns64", "unbound", intents.make_intent("dns64"), {"threads": 2}),
    Case("pdns-recursor-dns64", "pdns-recursor", intents.make_intent("dns64")),
    Case("knot-resolver-dns64", "knot-resolver", intents.make_intent("dns64")),
    Case("jool-siit", "jool", intents.SIIT),
    Case("jool-clat", "jool", intents.make_intent("clat")),
    Case("jool-nat64-4.1.9", "jool", intents.make_nat64("64:ff9b::/96"), {"version": "4.1.9"}),
    Case("jool-nat64-4.1.15", "jool", intents.make_nat64("64:ff9b::/96"), {"version": "4.1.15"}),
    Case("jool-mapt-br", "jool", intents.make_mapt("2001:db8:ce::/51", "64:ff9b::/96")),
    Case("jool-mapt-ce", "jool", intents.make_intent("mapt-ce")),
    Case("vpp-router-26.06", "vpp", intents.ROUTER4, RUNNING),
    Case("vpp-mape-26.06", "vpp", intents.make_paper_mape(), RUNNING),
    Case("vpp-mape-26.06-background", "vpp", intents.make_intent("mape-br", links=VLANS_WITH_BACKGROUND), RUNNING),
    Case("vpp-mape-26.06-started", "vpp", intents.make_paper_mape(), {"workers": "2-3"}),
    Case("vpp-mapt-24.02", "vpp", intents.make_mapt("2001:db8:ce::/51"), {"version": "24.02", **RUNNING}),
    Case("vpp-mapt-26.06", "vpp", intents.make_mapt(), RUNNING),
    Case("vpp-lwaftr-26.06", "vpp", intents.make_lwaftr(), RUNNING),
    Case("vpp-nat44-24.02", "vpp", intents.make_nat44(), {"version": "24.02", **RUNNING}),
    Case("vpp-nat44-26.06", "vpp", intents.make_nat44(), RUNNING),
    Case("vpp-nat44-ei-26.06", "vpp", intents.make_nat44(), {"nat44": "ei", **RUNNING}),
    Case("vpp-nat64-26.06", "vpp", intents.make_nat64("64:ff9b::/96"), RUNNING),
    Case("vpp-ds-lite-26.06", "vpp", intents.make_dslite()),
    Case("vpp-lwb4-26.06", "vpp", intents.make_intent("lwb4"), RUNNING),
    Case("vpp-b4-26.06", "vpp", intents.B4),
    Case("openbsd-pf-nat44", "openbsd-pf", intents.make_nat44()),
    Case("openbsd-pf-nat64-purge", "openbsd-pf", intents.make_nat64(), {"flush": "purge"}),
    Case("openbsd-pf-router", "openbsd-pf", intents.ROUTER6),
    Case("snabb-lwaftr", "snabb-lwaftr", intents.make_lwaftr()),
    Case("snabb-lwaftr-pci", "snabb-lwaftr", intents.make_lwaftr(), PCI),
    Case("tundra-siit", "tundra", intents.make_intent("siit", **TUNDRA)),
    Case("tundra-clat", "tundra", intents.make_intent("clat", **TUNDRA_CLAT), {"threads": 2}),
    Case("ip6-tunnel-mape-ce", "ip6-tunnel", intents.make_intent("mape-ce"), {"checks": True}),
    Case("ip6-tunnel-lwb4", "ip6-tunnel", intents.make_intent("lwb4"), {"dscp": "pipe"}),
    Case("ip6-tunnel-b4", "ip6-tunnel", intents.B4),
    Case("nat46-siit", "nat46", intents.SIIT),
    Case("nat46-clat", "nat46", intents.make_intent("clat"), {"module": "/opt/nat46/nat46.ko"}),
    Case("nat46-mapt-ce", "nat46", intents.make_intent("mapt-ce")),
    Case("command", "command", intents.ROUTER4, CUSTOM_COMMANDS),
    Case("network-cli-ios", "network-cli", intents.ROUTER6, cli_dialects.IOS),
    Case("network-cli-junos", "network-cli", intents.ROUTER6, cli_dialects.JUNOS),
    Case("ip6tables-npt-nptv6", "ip6tables-npt", intents.make_intent("nptv6")),
    Case("vpp-npt66-26.06", "vpp", intents.make_intent("nptv6"), RUNNING),
    Case("nftables66-nat66", "nftables66", intents.make_intent("nat66")),
    Case("chain-464xlat", "chain", intents.make_intent("ipv4aas")),
    Case("chain-map-t", "chain", intents.make_intent("ipv4aas", variant="map-t")),
    Case("chain-nat46", "chain", intents.make_intent("nat46")),
)  # fmt: skip
CASE_BY_NAME = {case.name: case for case in CASES}


@functools.cache
def plan_case(name: str) -> tuple[Any, Any, Any]:
    """Return the driver, the device's facts and the plan of a case."""
    case = CASE_BY_NAME[name]
    driver = make_driver(case.driver, case.options)
    facts = driver.make_example_facts(case.intent)
    return driver, facts, driver.plan(case.intent, facts)


def without_base_steps(driver: Any, intent: Any, plan: Plan) -> Plan:
    """Return a plan without the steps that every Linux device needs first."""
    parts = driver.get_parts(intent) if driver.is_chain else ()
    units = [(p.driver, p.intent) for p in parts] or [(driver, intent)]
    base = {
        (step.command, step.text)
        for unit, part_intent in units
        if isinstance(unit, LinuxDriver) and unit.name != "linux-router"
        for step in unit.make_base_steps(part_intent, unit.make_example_facts(part_intent))
    }
    return replace(plan, steps=tuple(s for s in plan.steps if (s.command, s.text) not in base))
