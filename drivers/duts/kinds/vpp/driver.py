"""VPP: MAP-E, MAP-T, lw4o6, NAT44, NAT64, NPTv6, DS-Lite and routing, by version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from ipaddress import IPv6Network
from typing import Any

from v6t.base.errors import DutError, UsageError
from v6t.drivers.duts.driver import Driver, Reading, Suited
from v6t.drivers.duts.expect_profile import ExpectProfile
from v6t.drivers.duts.facts import LINUX, Facts, linux_facts
from v6t.drivers.duts.kinds.linux import telemetry
from v6t.drivers.duts.kinds.spare import spare, two_ways
from v6t.drivers.duts.kinds.vpp import (
    dslite,
    loaded,
    map_domains,
    nat,
    sides,
    start,
    syntax,
    tunnel,
)
from v6t.drivers.duts.kinds.vpp.nat44 import (
    OWN_TIMEOUT_S,
    EndpointDependent,
    EndpointIndependent,
    Nat44,
)
from v6t.drivers.duts.kinds.vpp.options import VppOptions
from v6t.drivers.duts.plan import Change, Intent, Plan, Step, shown
from v6t.drivers.duts.programs import lacking
from v6t.drivers.duts.shape import INTERFACES
from v6t.intent.families import (
    BindingTable,
    CustomerEdge,
    DsLite,
    IntentSettings,
    MapRelay,
    Nat,
    Nat64,
    Npt,
    Softwire,
    Softwires,
    settings_of,
)

_NAT44 = {"ed": EndpointDependent, "ei": EndpointIndependent}
_ROUTED = "it routes what it has encapsulated with hop limit 64"
_NO_CHECKSUM = "VPP computes no UDP checksum of IPv4 packets that were IPv6 or in it"
_TUNNEL = ExpectProfile(tunnel_hop_limit=63, why=_ROUTED)
_NAT64 = ExpectProfile(absent_checksum=True, why=_NO_CHECKSUM)
_DSLITE = ExpectProfile(
    absent_checksum=True,
    tunnel_hop_limit=63,
    tunnel_keeps_ttl=True,
    why=f"{_NO_CHECKSUM}; {_ROUTED}, whose TTL it leaves as it was",
)

_MAPT = {
    "rule_ipv6": Suited(
        "2001:db8:ce::/48", "VPP 24.06 and newer find a MAP-T rule by whole octets of its prefix"
    ),
    "dmr": Suited("64:ff9b::/64", "VPP loses one direction of MAP-T behind a DMR other than /64"),
}


class Vpp(Driver):
    """Driven by ``vppctl``, whose exit status is always 0: output is an error, read-back proof."""

    name = "vpp"
    title = "VPP: MAP-E, MAP-T, lw4o6, NAT44, NAT64, NPTv6, DS-Lite, tunnels of customers, routing"
    technologies = (
        "ipv4-router", "ipv6-router", "mape-br", "mapt-br", "lwaftr", "nat44", "nat64",
        "dslite-aftr", "nptv6", "mape-ce", "lwb4",
    )  # fmt: skip
    part_technologies = ("b4", "softwire")
    executed = (
        "configured, verified, measured and restored with real frames (v26.06); the commands of "
        "other versions follow their sources"
    )
    versions = syntax.VERSIONS
    options_model = VppOptions
    kernel = False
    aside = True

    def survey(self) -> Mapping[str, str]:
        if self.options.started:
            version = f"{self.options.program} --version || {self.options.program} -h | head -1"
            return {**LINUX, "version": version}
        return {
            **LINUX,
            "version": self.cli("show version"),
            "hardware": self.cli("show hardware-interfaces"),
            "plugins": self.cli("show plugins"),
            "ipip": self.cli("show ipip tunnel"),
        }

    def facts(self, sections: Mapping[str, str]) -> Facts:
        found = re.search(r"v?(\d+\.\d+[^\s]*)", sections.get("version", ""))
        if not found:
            if self.options.started:
                raise lacking(self.options.program, "https://fd.io", named=True)
            raise DutError(
                "VPP does not answer: " + shown(sections.get("version", "")),
                "is it running, and may this user use its socket? dut.options.socket names it",
                code="unexpected-answer",
            )
        return linux_facts(sections, found.group(1))

    def example(self, intent: Intent) -> Facts:
        return Facts("Linux", self.options.version or syntax.VERSIONS[-1])

    def refuse(self, intent: Intent, facts: Facts) -> None:
        """Wrong interfaces, and what VPP does silently wrong."""
        if syntax.key(facts.version) < syntax.OLDEST:
            raise UsageError(
                f"VPP {facts.version} is not supported",
                "install VPP 22.06 or newer",
                dut_params={"version": syntax.VERSIONS[0]},
                code="unsupported-by-version",
            )
        map_domains.refuse(intent, facts.version, losses=self.options.known_losses)
        settings = settings_of(intent)
        match settings:
            case DsLite():
                dslite.refuse(intent, self.options)
            case CustomerEdge() | Softwire() | Softwires():
                tunnel.customer_of(intent)
            case Npt():
                nat.refuse_prefixes(facts.version)
        # after what no plugin mends: nobody is to start a router anew for nothing
        plugins = facts.sections.get("plugins", "")
        tunnels = facts.sections.get("ipip", "")
        loaded.check(plugins, settings, self.options.nat44, tunnels)
        hardware = facts.sections.get("hardware")
        if hardware is not None:
            for side in ("left", "right"):
                sides.check_hardware(
                    hardware, getattr(self.options, side), getattr(intent.links, side).dut_mac, side
                )
        elif self.options.started and facts.interfaces:
            untouchable = facts.untouchable()
            for side in ("left", "right"):
                name = getattr(self.options, side)
                if name in untouchable:
                    raise DutError(
                        f"the {side} interface {name} is not touched: {untouchable[name]}",
                        code="interface-protected",
                    )

    def suited(self, technology: str) -> Mapping[str, Suited]:
        """Prefixes of MAP-T whose packets VPP does not lose; clients enough for the connections."""
        if technology == "dslite-aftr":
            return dslite.SUITED
        if technology == "nat44":
            return self.nat44.suited
        return _MAPT if technology == "mapt-br" and not self.options.known_losses else {}

    def profile(self, intent: Intent) -> ExpectProfile:
        """What RFCs leave to the implementation, as seen on v26.06."""
        match settings_of(intent):
            case DsLite():
                return _DSLITE
            case Nat64():
                return _NAT64
            case MapRelay(translates=False) | BindingTable():
                return _TUNNEL
            case CustomerEdge() | Softwire():
                return tunnel.PROFILE
            case _:
                return ExpectProfile()

    def telemetry(self, intent: Intent) -> Mapping[str, Reading]:
        """Vectors per call are the load of a VPP, which polls: its cores are never idle."""
        settings = settings_of(intent)
        nat44 = self.nat44 if _is_nat44(settings) else None
        table = self._occupancy(intent)
        ports = tuple(self.port(side) for side in ("left", "right"))
        return {
            "cpu": telemetry.cores(polls=True),
            **({} if table is None else {"table": table}),
            "runtime": Reading(
                self.cli("show runtime"),
                syntax.runtime,
                "calls, vectors and clocks of each busy node by thread, and vectors per call (256 is the "
                "most), since VPP began or was told to forget; packets a second of each thread",
            ),
            INTERFACES: Reading(
                self.cli("show interface"),
                partial(syntax.interface_counters, ports=ports),
                "packets, drops, frames missed for want of a ring's room, of each interface",
                syntax.INTERFACE_LOSSES,
            ),
            "errors": Reading(
                self.cli("show errors"),
                syntax.errors if nat44 is None else nat44.errors,
                "dropped packets by node and reason, without those that mean no loss; how many `reasons` it "
                "shows of any kind",
                syntax.ERROR_LOSSES,
            ),
        }

    def _occupancy(self, intent: Intent) -> Reading | None:
        """How full the table of sessions is; None: it keeps none."""
        match settings_of(intent):
            case DsLite():
                return dslite.occupancy(intent, self.options)
            case Nat64() as settings:
                return nat.occupancy64(settings, self.options)
            case Nat():
                return self.nat44.occupancy(intent)
            case _:
                return None

    def sessions(self, intent: Intent) -> Reading | None:
        """Counted by VPP itself; of NAT64 and DS-Lite only the statistics do, which may not be there."""
        return self.nat44.sessions() if _is_nat44(settings_of(intent)) else None

    def by_endpoint(self, intent: Intent) -> bool:
        """Of its plugins of NAT44 one keeps sessions for addresses and ports of clients."""
        return _is_nat44(settings_of(intent)) and self.nat44.by_endpoint

    def timeout_s(self, intent: Intent) -> float | None:
        """Only NAT44's can be set; DS-Lite's sessions never expire."""
        match settings_of(intent):
            case Nat64():
                return OWN_TIMEOUT_S
            case DsLite():
                return None
            case _:
                return self.nat44.timeout_s(intent)

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        version, o, settings = facts.version, self.options, settings_of(intent)
        taken = start.taken(o) if o.started else []
        first = start.steps(o, intent, self.cli) if o.started else []
        steps: list[Step] = list(first)
        ports: dict[str, str] = {}
        for side in ("left", "right"):
            link, whole = getattr(intent.links, side), self.port(side)
            port = ports[side] = f"{whole}.{link.vlan}" if link.vlan else whole
            alike: Any = {
                "mtu": link.mtu,
                "cli": self.cli,
                "told": o.neighbours != "resolved",
            }
            if link.vlan:
                steps += [sides.up(self.cli, whole), sides.vlan(self.cli, whole, link.vlan)]
            given: Any = getattr(intent, side)
            nets: list[IPv6Network] = []
            if isinstance(settings, DsLite) and side == "left":
                given, nets = dslite.left_of(intent)
            more = dslite.attached(nets, port, self.cli)
            steps += sides.steps(given, port, **alike, more=more)
            beside = given.get("background")
            if beside is not None:
                steps.append(sides.vlan(self.cli, whole, beside["vlan"]))
                steps += sides.steps(beside, f"{whole}.{beside['vlan']}", **alike)
        flush: tuple[Step, ...] = ()
        match settings:
            case MapRelay() | BindingTable():
                steps += map_domains.steps(intent, self.cli, ports, o.state_dir)
            case DsLite():
                steps += dslite.steps(intent, self.cli)
                flush = (start.again(steps, dslite.empty(self.cli)),)
            case CustomerEdge() | Softwire():
                steps += tunnel.steps(intent, self.cli, ports)
            case Npt():
                steps += nat.prefixes(intent, self.cli, ports)
            case Nat64():
                own = nat.nat64(intent, version, self.cli, ports, o)
                steps, flush = [*steps, *own], nat.flush64(own, self.cli)
            case Nat():
                steps += self.nat44.steps(intent, version, ports)
                flush = self.nat44.flush(intent, version, ports)
        if o.started:
            steps = [*taken, *first, *start.within(steps[len(first) :], o)]
        return Plan(self.name, version, tuple(steps), flush, notes=_notes(intent, version, o))

    def updates(self, intent: Intent, facts: Facts) -> Change | None:
        """A route to a network without hosts; VPP adds ways to a route, so the other one goes first."""
        ports = {
            side: f"{self.port(side)}.{link.vlan}" if link.vlan else self.port(side)
            for side, link in (("left", intent.links.left), ("right", intent.links.right))
        }
        ways = two_ways(intent, ports)
        if ways is None:
            return None
        version, (there, back) = ways[0], [f"via {host} {port}" for host, port in ways[1:]]
        net = spare(intent, version, skip=int(IntentSettings.of(intent).reconfigures))
        show = self.cli(f"show ip{'6' if version == 6 else ''} fib {net}")

        def moved(way: str, other: str) -> str:
            gone = self.cli(f"ip route del {net} {other}")
            return f"{gone} >/dev/null; {self.cli(f'ip route add {net} {way}')}"

        both = [self.cli(f"ip route del {net} {way}") for way in (there, back)]
        return Change(
            "a route",
            add=moved(there, back),
            change=moved(back, there),
            remove=f"{both[0]} >/dev/null; {both[1]} >/dev/null; true",
            # the hosts alone: a way that was not taken away is there beside the new one
            look=f"{show} | sed -n '\\|^{net} |,$p' | grep -o 'via [0-9a-f.:]*' | sort -u",
            added=f"via {ways[1][0]}",
            changed=f"via {ways[2][0]}",
            alone=True,
        )

    def beside(self, intent: Intent, facts: Facts) -> Change | None:
        """A domain of MAP or lw4o6, or a public address of NAT44."""
        settings = settings_of(intent)
        if isinstance(settings, (MapRelay, BindingTable)):
            return map_domains.beside(intent, self.cli)
        return self.nat44.beside(intent) if _is_nat44(settings) else None

    @property
    def nat44(self) -> Nat44:
        """The plugin that is to do NAT44."""
        return _NAT44[self.options.nat44](self.cli, self.options)

    def port(self, side: str) -> str:
        """VPP's name of an interface."""
        name: str = getattr(self.options, side)
        return f"host-{name}" if self.options.started else name

    def cli(self, command: str) -> str:
        """A VPP command as a shell line."""
        socket = self.options.socket or (
            f"{self.options.state_dir}/vpp-cli.sock" if self.options.started else ""
        )
        return f"{self.options.control}{f' -s {socket}' if socket else ''} {command}"


def _is_nat44(settings: IntentSettings) -> bool:
    return isinstance(settings, Nat) and not isinstance(settings, (Nat64, DsLite))


def _notes(intent: Intent, version: str, options: VppOptions) -> tuple[str, ...]:
    notes, settings = [], settings_of(intent)
    if isinstance(settings, (MapRelay, BindingTable)):
        notes.append("packets whose ports are not of the CE's PSID are dropped")
    if isinstance(settings, (CustomerEdge, Softwire)):
        notes.append(
            "hub and spoke: everything goes to the relay; no inner address or port is checked"
        )
    if isinstance(settings, MapRelay) and not settings.translates:
        notes.append(
            "IPv6 that is not IPv4-in-IPv6 is dropped on a MAP interface: background needs VLANs of its own "
            "(links.*.background)"
        )
    if isinstance(settings, Nat64):
        notes.append("no command sets NAT64's timeout: idle sessions live 300 s")
    if isinstance(settings, DsLite):
        notes.append("nothing empties the table but another VPP, which takes seconds a trial")
    return tuple(notes)
