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
from v6t.intent.device import LinkIntent
from v6t.intent.families import (
    AftrTunnelConfig,
    B4Config,
    DsLiteAftrConfig,
    LwAftrConfig,
    LwB4Config,
    MapERelayConfig,
    MapTRelayConfig,
    Nat44Config,
    Nat64Config,
    NptConfig,
    RouterConfig,
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
    accepts = (
        RouterConfig, MapERelayConfig, MapTRelayConfig, LwAftrConfig, Nat44Config, Nat64Config,
        DsLiteAftrConfig, NptConfig, LwB4Config, B4Config, AftrTunnelConfig,
    )  # fmt: skip
    executed = (
        "configured, verified, measured and restored with real frames (v26.06); the commands of "
        "other versions follow their sources"
    )
    versions = syntax.VERSIONS
    options_model = VppOptions
    kernel = False
    has_background_vlans = True

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

    @classmethod
    def check_supported(cls, intent: Intent, *, in_chain: bool = False) -> None:
        super().check_supported(intent, in_chain=in_chain)
        if isinstance(intent.configuration, (B4Config, AftrTunnelConfig)):
            tunnel.customer_of(intent)

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
        configuration = intent.configuration
        match configuration:
            case DsLiteAftrConfig():
                dslite.refuse(intent, self.options)
            case NptConfig():
                nat.refuse_prefixes(facts.version)
        # after what no plugin mends: nobody is to start a router anew for nothing
        plugins = facts.sections.get("plugins", "")
        tunnels = facts.sections.get("ipip", "")
        loaded.check(plugins, configuration, self.options.nat44, tunnels)
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
        match intent.configuration:
            case DsLiteAftrConfig():
                return _DSLITE
            case Nat64Config():
                return _NAT64
            case MapERelayConfig() | LwAftrConfig():
                return _TUNNEL
            case LwB4Config() | B4Config() | AftrTunnelConfig():
                return tunnel.PROFILE
            case _:
                return ExpectProfile()

    def telemetry(self, intent: Intent) -> Mapping[str, Reading]:
        """Vectors per call are the load of a VPP, which polls: its cores are never idle."""
        nat44 = self.nat44 if isinstance(intent.configuration, Nat44Config) else None
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
        match intent.configuration:
            case DsLiteAftrConfig():
                return dslite.occupancy(intent, self.options)
            case Nat64Config():
                return nat.occupancy64(intent, self.options)
            case Nat44Config():
                return self.nat44.occupancy(intent)
            case _:
                return None

    def sessions(self, intent: Intent) -> Reading | None:
        """Counted by VPP itself; of NAT64 and DS-Lite only the statistics do, which may not be there."""
        return self.nat44.sessions() if isinstance(intent.configuration, Nat44Config) else None

    def by_endpoint(self, intent: Intent) -> bool:
        """Of its plugins of NAT44 one keeps sessions for addresses and ports of clients."""
        return isinstance(intent.configuration, Nat44Config) and self.nat44.by_endpoint

    def timeout_s(self, intent: Intent) -> float | None:
        """Only NAT44's can be set; DS-Lite's sessions never expire."""
        match intent.configuration:
            case Nat64Config():
                return OWN_TIMEOUT_S
            case DsLiteAftrConfig():
                return None
            case _:
                return self.nat44.timeout_s(intent)

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        version, o, configuration = facts.version, self.options, intent.configuration
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
            given: LinkIntent = getattr(intent, side)
            nets: list[IPv6Network] = []
            if isinstance(configuration, DsLiteAftrConfig) and side == "left":
                given, nets = dslite.left_of(intent)
            more = dslite.attached(nets, port, self.cli)
            steps += sides.steps(given, port, **alike, more=more)
            if given.background is not None:
                vlan = link.background.vlan
                steps.append(sides.vlan(self.cli, whole, vlan))
                steps += sides.steps(given.background, f"{whole}.{vlan}", **alike)
        flush: tuple[Step, ...] = ()
        match configuration:
            case MapERelayConfig() | MapTRelayConfig() | LwAftrConfig():
                steps += map_domains.steps(intent, self.cli, ports, o.state_dir)
            case DsLiteAftrConfig():
                steps += dslite.steps(intent, self.cli)
                flush = (start.again(steps, dslite.empty(self.cli)),)
            case LwB4Config() | B4Config() | AftrTunnelConfig():
                steps += tunnel.steps(intent, self.cli, ports)
            case NptConfig():
                steps += nat.prefixes(intent, self.cli, ports)
            case Nat64Config():
                own = nat.nat64(intent, version, self.cli, ports, o)
                steps, flush = [*steps, *own], nat.flush64(own, self.cli)
            case Nat44Config():
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
        net = spare(intent, version, skip=int(intent.requirements.live_change))
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
        configuration = intent.configuration
        if isinstance(configuration, (MapERelayConfig, MapTRelayConfig, LwAftrConfig)):
            return map_domains.beside(intent, self.cli)
        return self.nat44.beside(intent) if isinstance(configuration, Nat44Config) else None

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


def _notes(intent: Intent, version: str, options: VppOptions) -> tuple[str, ...]:
    notes, configuration = [], intent.configuration
    if isinstance(configuration, (MapERelayConfig, MapTRelayConfig, LwAftrConfig)):
        notes.append("packets whose ports are not of the CE's PSID are dropped")
    if isinstance(configuration, (LwB4Config, B4Config, AftrTunnelConfig)):
        notes.append(
            "hub and spoke: everything goes to the relay; no inner address or port is checked"
        )
    if isinstance(configuration, MapERelayConfig):
        notes.append(
            "IPv6 that is not IPv4-in-IPv6 is dropped on a MAP interface: background needs VLANs of its own "
            "(links.*.background)"
        )
    if isinstance(configuration, Nat64Config):
        notes.append("no command sets NAT64's timeout: idle sessions live 300 s")
    if isinstance(configuration, DsLiteAftrConfig):
        notes.append("nothing empties the table but another VPP, which takes seconds a trial")
    return tuple(notes)
