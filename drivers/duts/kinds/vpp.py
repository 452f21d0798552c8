"""VPP: MAP-E, MAP-T, lw4o6, NAT44, NAT64, DS-Lite and routing, by version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any

from pydantic import Field
from v6t.drivers.duts.driver import Driver, Reading
from v6t.drivers.duts.facts import LINUX, Facts, linux_facts
from v6t.drivers.duts.kinds import vpp_map, vpp_nat, vpp_start, vpp_syntax
from v6t.drivers.duts.model import Intent, Plan, Step, Was, contains, judged, shown
from v6t.drivers.duts.options import DutOptions
from v6t.profiles.errors import DutError, UsageError

STATEFUL = ("nat44", "nat64", "ds-lite")
MAPPED = ("mape-br", "mapt-br", "lwaftr")


class VppOptions(DutOptions):
    """Options of VPP; ``left`` and ``right`` are VPP's names of its interfaces."""

    start: bool = False
    """Start a VPP of v6t's own on the kernel's interfaces left and right (AF_PACKET)."""
    program: str = Field(default="vpp", pattern=r"^[A-Za-z0-9_./-]+$")
    vppctl: str = Field(default="vppctl", pattern=r"^[A-Za-z0-9_./-]+$")
    socket: str = Field(default="", pattern=r"^[A-Za-z0-9_./-]*$")
    """CLI socket of the VPP to drive; empty: vppctl's default."""
    workers: str = Field(default="", pattern=r"^[0-9,-]*$")
    """Cores of worker threads of a VPP that v6t starts; empty: the main thread does everything."""
    main_core: int = Field(default=0, ge=0)
    plugins: str = Field(default="", pattern=r"^[A-Za-z0-9_./:-]*$")
    """Directory of plugins of a VPP that v6t starts; empty: its default."""
    sessions: int = Field(default=0, ge=0, le=1 << 30)
    """Sessions per worker; 0: what the technology says."""
    timeout_s: int = Field(default=3600, ge=1, le=864_000)


class Vpp(Driver):
    """Driven by ``vppctl``, whose exit status is always 0: output is an error, read-back proof."""

    name = "vpp"
    title = "VPP: MAP-E, MAP-T, lw4o6, NAT44, NAT64, DS-Lite, routing"
    technologies = ("ipv4-router", "ipv6-router", *MAPPED, *STATEFUL)
    executed = (
        "its commands, with real frames on v26.06; those of earlier versions follow their sources; "
        "this driver's plans are compared with them"
    )
    versions = vpp_syntax.VERSIONS
    options_model = VppOptions

    def survey(self) -> Mapping[str, str]:
        """See the base class."""
        if self.options.start:
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
            raise DutError(
                "VPP does not answer: " + shown(sections.get("version", "")),
                "is it running, and may this user use its socket? dut.options.socket names it",
            )
        return linux_facts(sections, found.group(1))

    def example(self, intent: Intent) -> Facts:
        """See the base class."""
        del intent
        return Facts("Linux", self.options.version or vpp_syntax.VERSIONS[-1])

    def refuse(self, intent: Intent, facts: Facts) -> None:
        """Wrong interfaces, and what VPP does silently wrong."""
        if intent.technology in MAPPED:
            vpp_map.refuse(intent, facts.version)
        hardware = facts.sections.get("hardware")
        if hardware is not None:
            for side in ("left", "right"):
                check_hardware(
                    hardware, getattr(self.options, side), getattr(intent.links, side).dut_mac, side
                )
        elif self.options.start and facts.interfaces:
            untouchable = facts.untouchable()
            for side in ("left", "right"):
                name = getattr(self.options, side)
                if name in untouchable:
                    raise DutError(
                        f"the {side} interface {name} is not touched: {untouchable[name]}"
                    )

    def telemetry(self, intent: Intent) -> Mapping[str, Reading]:
        """Vectors per call are the load of a VPP, which polls: its cores are never idle."""
        del intent
        return {
            "runtime": Reading(self.cli("show runtime"), vpp_syntax.runtime),
            "interfaces": Reading(self.cli("show interface"), vpp_syntax.interface_counters),
            "errors": Reading(self.cli("show errors"), vpp_syntax.errors),
        }

    def sessions(self, intent: Intent) -> Reading | None:
        """Counted by VPP itself; NAT64 and DS-Lite can only list, which takes too long."""
        if intent.technology != "nat44":
            return None
        return Reading(self.cli("show nat44 summary"), vpp_syntax.nat44_sessions)

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        """See the base class."""
        version, o = facts.version, self.options
        steps: list[Step] = []
        if o.start:
            steps += vpp_start.steps(o, intent, self.cli)
        ports = {side: self.port(side) for side in ("left", "right")}
        for side, port in ports.items():
            link = getattr(intent.links, side)
            if link.vlan:
                raise UsageError("this driver configures no VLAN for VPP", "use untagged links")
            steps += self._side(getattr(intent, side), port, version)
        flush: tuple[Step, ...] = ()
        if intent.technology in MAPPED:
            steps += vpp_map.steps(intent, self.cli, ports, o.state_dir)
        elif intent.technology in STATEFUL:
            steps += vpp_nat.steps(intent, version, self.cli, ports, o)
            if intent.technology != "ds-lite":
                flush = vpp_nat.flush(intent, version, self.cli, ports, o)
        return Plan(self.name, version, tuple(steps), flush, notes=_notes(intent, version))

    def port(self, side: str) -> str:
        """VPP's name of an interface."""
        name: str = getattr(self.options, side)
        return f"host-{name}" if self.options.start else name

    def cli(self, command: str) -> str:
        """A VPP command as a shell line."""
        socket = self.options.socket or (
            f"{self.options.state_dir}/vpp-cli.sock" if self.options.start else ""
        )
        return f"{self.options.vppctl}{f' -s {socket}' if socket else ''} {command}"

    def _side(self, side: Mapping[str, Any], port: str, version: str) -> list[Step]:
        steps = [
            Step(
                self.cli(f"set interface state {port} up"),
                f"{port} carries test traffic",
                undo=self.cli(f"set interface state {port} {{words}}"),
                before=self.cli(f"show interface {port}") + " | awk 'NR == 2 {print $3}'",
                check=contains(self.cli(f"show interface {port}"), " up "),
                silent=True,
            )
        ]
        steps += [self._address(text, port) for text in side.get("addresses", ())]
        for address, mac in side.get("neighbours", {}).items():
            steps.append(self._neighbour(version, port, address, mac))
        for net, via in side.get("routes", {}).items():
            steps.append(self._route(net, via, port))
        return steps

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
        show = self.cli(vpp_syntax.show_neighbours(version, port))
        if vpp_syntax.key(version) < (20, 1) and ip_address(address).version == 6:
            show = self.cli("show ip6 neighbors")

        def judge(output: str) -> str | None:
            for line in output.splitlines():
                words = line.split()
                if address in words and mac.lower() in words:
                    static = any(w.startswith("S") and len(w) <= 3 for w in words)
                    return None if static else f"{address} is not static"
            return f"{address} is no neighbour with {mac} on {port}"

        return Step(
            self.cli(vpp_syntax.static_neighbour(version, port, address, mac)),
            f"the tester behind {port} answers no ARP or neighbour discovery",
            undo=self.cli(vpp_syntax.static_neighbour(version, port, address, mac, gone=True)),
            before=f"{show} | grep -wF {address} || true",
            was=Was.THERE,
            check=judged(show, judge, f"{address} static"),
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


def _notes(intent: Intent, version: str) -> tuple[str, ...]:
    notes = []
    if intent.technology in MAPPED:
        notes.append("packets whose ports are not of the CE's PSID are dropped (MAP-09)")
    if intent.technology == "mape-br":
        notes.append("IPv6 that is not IPv4-in-IPv6 is dropped on a MAP interface: no background")
    if intent.technology == "nat44" and vpp_syntax.key(version) < (21, 1):
        notes.append(
            "the start-up file must hold nat { endpoint-dependent max translations per thread N }"
        )
    if intent.technology == "ds-lite":
        notes.append("sessions cannot be flushed: VPP is started anew by applying again")
    return tuple(notes)
