"""VPP: MAP-E, MAP-T, lw4o6, NAT44, NAT64, DS-Lite and routing, by version."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv6Network, ip_address, ip_interface, ip_network
from typing import Any

from v6t.drivers.duts.driver import Driver, Reading, Suited
from v6t.drivers.duts.expect_profile import ExpectProfile
from v6t.drivers.duts.facts import LINUX, Facts, linux_facts
from v6t.drivers.duts.kinds.spare import spare, two_ways
from v6t.drivers.duts.kinds.vpp import dslite, map_domains, nat, start, syntax
from v6t.drivers.duts.kinds.vpp.options import VppOptions
from v6t.drivers.duts.plan import Change, Intent, Plan, Step, Was, checked, contains, shown
from v6t.profiles.errors import DutError
from v6t.profiles.intent_settings import (
    BindingTable,
    DsLite,
    IntentSettings,
    MapRelay,
    Nat,
    Nat64,
    settings_of,
)

OWN_TIMEOUT_S = 300.0
"""VPP's own, of UDP; no command changes that of NAT64."""
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
    title = "VPP: MAP-E, MAP-T, lw4o6, NAT44, NAT64, DS-Lite, routing"
    technologies = (
        "ipv4-router", "ipv6-router", "mape-br", "mapt-br", "lwaftr", "nat44", "nat64",
        "dslite-aftr",
    )  # fmt: skip
    executed = (
        "configured, verified, measured and restored with real frames (v26.06); the commands of "
        "other versions follow their sources"
    )
    versions = syntax.VERSIONS
    options_model = VppOptions
    kernel = False
    aside = True

    def survey(self) -> Mapping[str, str]:
        """See the base class."""
        if self.options.started:
            version = f"{self.options.program} --version || {self.options.program} -h | head -1"
            return {**LINUX, "version": version}
        return {
            **LINUX,
            "version": self.cli("show version"),
            "hardware": self.cli("show hardware-interfaces"),
        }

    def facts(self, sections: Mapping[str, str]) -> Facts:
        """See the base class."""
        found = re.search(r"v?(\d+\.\d+[^\s]*)", sections.get("version", ""))
        if not found:
            if self.options.started:
                raise DutError(
                    f"the device has no program {self.options.program}",
                    "install VPP, or name it with dut.options.program",
                )
            raise DutError(
                "VPP does not answer: " + shown(sections.get("version", "")),
                "is it running, and may this user use its socket? dut.options.socket names it",
            )
        return linux_facts(sections, found.group(1))

    def example(self, intent: Intent) -> Facts:
        """See the base class."""
        return Facts("Linux", self.options.version or syntax.VERSIONS[-1])

    def refuse(self, intent: Intent, facts: Facts) -> None:
        """Wrong interfaces, and what VPP does silently wrong."""
        map_domains.refuse(intent, facts.version, losses=self.options.known_losses)
        if isinstance(settings_of(intent), DsLite):
            dslite.refuse(intent, self.options)
        hardware = facts.sections.get("hardware")
        if hardware is not None:
            for side in ("left", "right"):
                check_hardware(
                    hardware, getattr(self.options, side), getattr(intent.links, side).dut_mac, side
                )
        elif self.options.started and facts.interfaces:
            untouchable = facts.untouchable()
            for side in ("left", "right"):
                name = getattr(self.options, side)
                if name in untouchable:
                    raise DutError(
                        f"the {side} interface {name} is not touched: {untouchable[name]}"
                    )

    def suited(self, technology: str) -> Mapping[str, Suited]:
        """Prefixes of MAP-T whose packets VPP does not lose; B4s enough for the connections."""
        if technology == "dslite-aftr":
            return dslite.SUITED
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
            case _:
                return ExpectProfile()

    def telemetry(self, intent: Intent) -> Mapping[str, Reading]:
        """Vectors per call are the load of a VPP, which polls: its cores are never idle."""
        return {
            "runtime": Reading(
                self.cli("show runtime"),
                syntax.runtime,
                "calls and vectors per call of each busy node since VPP began or was told to forget "
                "(256 is the most); packets a second of each thread",
            ),
            "interfaces": Reading(
                self.cli("show interface"),
                syntax.interface_counters,
                "packets, drops, frames missed for want of a ring's room, of each interface",
            ),
            "errors": Reading(
                self.cli("show errors"),
                syntax.errors,
                "dropped packets by node and reason; reasons that mean no loss are left out",
            ),
        }

    def sessions(self, intent: Intent) -> Reading | None:
        """Counted by VPP itself; NAT64 and DS-Lite can only list, which takes too long."""
        if not _is_nat44(settings_of(intent)):
            return None
        return Reading(self.cli("show nat44 summary"), syntax.nat44_sessions)

    def timeout_s(self, intent: Intent) -> float | None:
        """Only NAT44's can be set; DS-Lite's sessions never expire."""
        match settings_of(intent):
            case Nat64():
                return OWN_TIMEOUT_S
            case DsLite():
                return None
            case Nat(udp_timeout_s=told) if told:
                return float(told)
            case _:
                return float(self.options.timeout_s or OWN_TIMEOUT_S)

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        """See the base class."""
        version, o, settings = facts.version, self.options, settings_of(intent)
        first = start.steps(o, intent, self.cli) if o.started else []
        steps: list[Step] = list(first)
        ports: dict[str, str] = {}
        for side in ("left", "right"):
            link, whole = getattr(intent.links, side), self.port(side)
            port = ports[side] = f"{whole}.{link.vlan}" if link.vlan else whole
            if link.vlan:
                steps += [self._up(whole), self._vlan(whole, link.vlan)]
            given: Any = getattr(intent, side)
            nets: list[IPv6Network] = []
            if isinstance(settings, DsLite) and side == "left":
                given, nets = dslite.left_of(intent)
            more = dslite.attached(nets, port, self.cli)
            steps += self._side(given, port, version, link.mtu, more)
            beside = given.get("background")
            if beside is not None:
                steps.append(self._vlan(whole, beside["vlan"]))
                steps += self._side(beside, f"{whole}.{beside['vlan']}", version, link.mtu, ())
        flush: tuple[Step, ...] = ()
        match settings:
            case MapRelay() | BindingTable():
                steps += map_domains.steps(intent, self.cli, ports, o.state_dir)
            case DsLite():
                steps += dslite.steps(intent, self.cli)
                flush = (start.again(steps, dslite.empty(self.cli)),)
            case Nat():
                steps += nat.steps(intent, version, self.cli, ports, o)
                flush = nat.flush(intent, version, self.cli, ports, o)
        if o.started:
            steps = [*first, *start.within(steps[len(first) :], o)]
        return Plan(self.name, version, tuple(steps), flush, notes=_notes(intent, version))

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
        return nat.beside(intent, self.cli) if _is_nat44(settings) else None

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

    def _side(
        self, side: Mapping[str, Any], port: str, version: str, mtu: int, more: Sequence[Step]
    ) -> list[Step]:
        steps = [self._up(port), self._mtu(port, mtu)]
        steps += [self._address(text, port) for text in side.get("addresses", ())]
        steps += more
        if self.options.neighbours != "resolved":
            for address, mac in side.get("neighbours", {}).items():
                steps.append(self._neighbour(version, port, address, mac))
        for net, via in side.get("routes", {}).items():
            steps.append(self._route(net, via, port))
        return steps

    def _up(self, port: str) -> Step:
        return Step(
            self.cli(f"set interface state {port} up"),
            f"{port} carries test traffic",
            undo=self.cli(f"set interface state {port} {{words}}"),
            before=self.cli(f"show interface {port}") + " | awk 'NR == 2 {print $3}'",
            check=contains(self.cli(f"show interface {port}"), " up "),
            silent=True,
        )

    def _vlan(self, whole: str, vlan: int) -> Step:
        port = f"{whole}.{vlan}"
        return Step(
            self.cli(f"create sub-interfaces {whole} {vlan}"),
            f"VLAN {vlan} of {whole}",
            undo=self.cli(f"delete sub-interface {port}"),
            before=f"{self.cli('show interface')} | grep -wF {port} || true",
            was=Was.FOREIGN,
            check=contains(self.cli("show interface"), port),
        )

    def _mtu(self, port: str, mtu: int) -> Step:
        show = self.cli(f"show interface {port}")
        return Step(
            self.cli(f"set interface mtu packet {mtu} {port}"),
            f"MTU of {port}",
            undo=self.cli(f"set interface mtu packet {{words}} {port}"),
            before=f"{show} | awk 'NR == 2 {{split($4, m, \"/\"); print m[1]}}'",
            check=contains(show, f" {mtu}/"),
            silent=True,
        )

    def _address(self, text: str, port: str) -> Step:
        show = self.cli(f"show interface address {port}")
        given = ip_interface(text).with_prefixlen
        return Step(
            self.cli(f"set interface ip address {port} {given}"),
            f"the device's address on {port}",
            undo=self.cli(f"set interface ip address del {port} {given}"),
            before=f"{show} | grep -F ' {given}' || true",
            was=Was.THERE,
            check=contains(show, given),
        )

    def _neighbour(self, version: str, port: str, address: str, mac: str) -> Step:
        show = self.cli(syntax.show_neighbours(version, port))
        if syntax.key(version) < (20, 1) and ip_address(address).version == 6:
            show = self.cli("show ip6 neighbors")

        def checker(output: str) -> str | None:
            for line in output.splitlines():
                words = line.split()
                if address in words and mac.lower() in words:
                    static = any(w.startswith("S") and len(w) <= 3 for w in words)
                    return None if static else f"{address} is not static"
            return f"{address} is no neighbour with {mac} on {port}"

        return Step(
            self.cli(syntax.static_neighbour(version, port, address, mac)),
            f"the tester's hosts behind {port}: told, so that none is asked for",
            undo=self.cli(syntax.static_neighbour(version, port, address, mac, gone=True)),
            before=f"{show} | grep -wF {address} || true",
            was=Was.THERE,
            check=checked(show, checker, f"{address} static"),
            silent=True,
        )

    def _route(self, net: str, via: str, port: str) -> Step:
        version = ip_network(net).version
        show = self.cli(f"show ip{'6' if version == 6 else ''} fib {net}")
        return Step(
            self.cli(f"ip route add {net} via {via} {port}"),
            f"to the test hosts behind {port}",
            undo=self.cli(f"ip route del {net} via {via} {port}"),
            before=f"{show} | grep -e '^{net} ' || true",
            was=Was.FOREIGN,
            check=contains(show, net, via),
            silent=True,
        )


def check_hardware(text: str, name: str, mac: str, side: str) -> None:
    """The interface is there and has the MAC address of the testbed file.

    Raises:
        DutError: saying what was seen.
    """
    found: dict[str, str] = {}
    current = ""
    for line in text.splitlines():
        if line and not line[0].isspace():
            current = line.split()[0]
        match = re.search(r"Ethernet address ([0-9a-f:]{17})", line)
        if match and current:
            found[current] = match.group(1)
    if name not in found:
        raise DutError(
            f"VPP has no interface {name} (dut.options.{side}); it has "
            + (", ".join(found) or "none"),
            "`vppctl show hardware-interfaces` lists them",
        )
    if found[name] != mac.lower():
        raise DutError(
            f"VPP's {name} has the MAC address {found[name]}, not {mac}",
            f"set links.{side}.dut_mac in the testbed file",
        )


def _is_nat44(settings: IntentSettings) -> bool:
    return isinstance(settings, Nat) and not isinstance(settings, (Nat64, DsLite))


def _notes(intent: Intent, version: str) -> tuple[str, ...]:
    notes, settings = [], settings_of(intent)
    if isinstance(settings, (MapRelay, BindingTable)):
        notes.append("packets whose ports are not of the CE's PSID are dropped (MAP-09)")
    if isinstance(settings, MapRelay) and not settings.translates:
        notes.append(
            "IPv6 that is not IPv4-in-IPv6 is dropped on a MAP interface: background needs VLANs of its own "
            "(links.*.background)"
        )
    if _is_nat44(settings) and syntax.key(version) < (21, 1):
        notes.append(
            "the start-up file must hold nat { endpoint-dependent max translations per thread N }"
        )
    if isinstance(settings, Nat64):
        notes.append("no command sets NAT64's timeout: idle sessions live 300 s")
    if isinstance(settings, DsLite):
        notes.append("nothing empties the table but another VPP, which takes seconds a trial")
    return tuple(notes)
