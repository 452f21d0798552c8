"""What every Linux device needs: interfaces, addresses, static neighbours, routes, forwarding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from ipaddress import collapse_addresses, ip_network
from typing import Any

from v6t.base.errors import DutError
from v6t.drivers.duts import way
from v6t.drivers.duts.driver import Driver, Reading, check_interfaces
from v6t.drivers.duts.facts import LINUX, Facts, Interface, linux_facts, programs_section
from v6t.drivers.duts.kinds.linux import bgp, snmp, telemetry, tuning
from v6t.drivers.duts.kinds.linux.steps import (
    address,
    link,
    neighbours,
    routes,
    setting,
    sysctl,
    up,
)
from v6t.drivers.duts.kinds.spare import spare, two_ways
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.plan import (
    Change,
    Check,
    Intent,
    Plan,
    Step,
    Was,
    checked,
    line_with,
    shown,
)
from v6t.drivers.duts.programs import lacking
from v6t.intent.device import Address, LinkIntent

SIDES = ("left", "right")
ALWAYS = ("ip", "sysctl", "ethtool", "snmpd", "snmpget", "bird", "birdc")
"""Programs that are looked for on every device; only the first two have to be there."""


OWN_TIMEOUT_S = 30
"""The kernel's own, of a UDP connection that nobody has answered (nf_conntrack_udp_timeout)."""


class LinuxDriver(Driver):
    """A device with iproute2; subclasses add their implementation's steps."""

    options_model = LinuxOptions
    has_background_vlans = True
    programs: Mapping[str, str] = {}
    """Programs needed beyond ip and sysctl, and where each comes from: see :func:`lacking`."""
    helpers: tuple[str, ...] = ()
    """Programs that only some plans need, which look for them."""
    version_command = "uname -r"

    def timeout_s(self, intent: Intent) -> float | None:
        """Of UDP connections: what the technology wants, or the option, or the kernel's own."""
        timeout_s = getattr(intent.configuration, "udp_timeout_s", 0)
        return float(timeout_s or self.options.timeout_s or OWN_TIMEOUT_S)

    def survey(self) -> Mapping[str, str]:
        wanted = dict.fromkeys((*ALWAYS, *self.programs, *self.helpers))
        ssh = self.options.ssh
        return {
            **LINUX,
            "way": way.survey(ssh.jump_addresses if ssh is not None else ()),
            **tuning.survey(self.options),
            "version": self.version_command,
            "programs": programs_section(wanted),
        }

    def facts(self, sections: Mapping[str, str]) -> Facts:
        facts = linux_facts(sections, "")
        own = getattr(self.options, "program", None)
        for program, source in {"ip": "iproute2", "sysctl": "procps", **self.programs}.items():
            if program not in facts.programs:
                raise lacking(program, source, named=program == own)
        return replace(facts, version=self.read_version(sections.get("version", "")))

    def read_version(self, text: str) -> str:
        """The version out of its section."""
        return text.strip()

    def example(self, intent: Intent) -> Facts:
        interfaces = {
            getattr(self.options, side): Interface(getattr(intent.links, side).dut_mac.lower())
            for side in SIDES
        }
        return Facts(
            system="Linux",
            version=self.options.version or self.versions[-1],
            interfaces=interfaces,
            programs=frozenset({*ALWAYS, *self.programs, *self.helpers}),
        )

    def refuse(self, intent: Intent, facts: Facts) -> None:
        """Interfaces that are not to be touched, and no rights."""
        if not facts.root:
            raise DutError(
                "commands on the device do not run as root",
                "log in as root, or set ssh.become to 'sudo -n' or 'doas -n'",
                code="not-root",
            )
        check_interfaces(self.options, intent, facts)

    def telemetry(self, intent: Intent) -> Mapping[str, Reading]:
        """Cores, softnet and interface drops."""
        return telemetry.readings(self.port(intent, "left"), self.port(intent, "right"))

    def port(self, intent: Intent, side: str) -> str:
        """The interface IP runs on: with a VLAN, one made for it."""
        vlan = getattr(intent.links, side).vlan
        return f"v6t-{side}" if vlan else str(getattr(self.options, side))

    def ports(self, intent: Intent) -> dict[str, str]:
        """Both of them, by side."""
        return {side: self.port(intent, side) for side in SIDES}

    def background_ports(self, intent: Intent) -> dict[str, str]:
        """Return the interfaces of a background with VLANs of its own, by side."""
        return {side: f"v6t-{side}-bg" for side in SIDES if getattr(intent, side).background}

    def all_ports(self, intent: Intent) -> dict[str, str]:
        """All that test traffic comes in on: by side, the background's by ``SIDE-bg``."""
        beside = {f"{side}-bg": port for side, port in self.background_ports(intent).items()}
        return {**self.ports(intent), **beside}

    def agent(self, intent: Intent, facts: Facts) -> tuple[Sequence[Step], Check] | None:
        """Net-SNMP's."""
        del intent
        return snmp.steps(facts, self.options.state_dir)

    def updates(self, intent: Intent, facts: Facts) -> Change | None:
        """See :meth:`moved_route`; not the one that a benchmark moves."""
        del facts
        return self.moved_route(intent, skip=int(intent.requirements.live_change))

    def speaker(self, intent: Intent, facts: Facts) -> tuple[Sequence[Step], Change] | None:
        """BIRD's, for the same route; None: the sides have no version of IP in common."""
        ways = two_ways(intent, self.ports(intent))
        if ways is None:
            return None
        version, there, back = ways
        net = spare(intent, version, skip=int(intent.requirements.live_change))
        return bgp.steps(
            facts, self.options.state_dir, version, str(net), {"there": there, "back": back}
        )

    def moved_route(self, intent: Intent, skip: int = 0) -> Change | None:
        """A route to a network without hosts, by a tester's host on the right and by one on the left.

        None: the sides have no version of IP in common.
        """
        ways = two_ways(intent, self.ports(intent))
        if ways is None:
            return None
        version, (there, back) = ways[0], [f"via {host} dev {port}" for host, port in ways[1:]]
        net, route = spare(intent, version, skip), f"ip -{version} route"
        return Change(
            "a route",
            add=f"{route} replace {net} {there} proto 86",
            change=f"{route} replace {net} {back} proto 86",
            remove=f"{route} del {net} proto 86 2>/dev/null; true",
            # somebody else's route to it is in the way: `replace` would take it for good
            look=f"{route} show exact {net}",
            added=there,
            changed=back,
        )

    def base(self, intent: Intent, facts: Facts) -> list[Step]:
        """Steps every technology needs, before its own."""
        steps = []
        if facts.learnt_default:
            steps.append(_keep_default_route(sorted(facts.learnt_default)))
        steps += tuning.steps(self.options, intent, facts)
        for side in SIDES:
            steps += self._link(intent, side)
        ports = self.ports(intent)
        background = self.background_ports(intent)
        for side, port in background.items():
            link, name = getattr(intent.links, side), getattr(self.options, side)
            vlan = link.background.vlan
            steps += _vlan(name, port, vlan, link.mtu, f"VLAN of the background on the {side}")
        steps.append(_forwarding([*ports.values(), *background.values()]))
        steps += _neighbour_table(intent, facts, self.options.neighbours)
        for side in SIDES:
            steps += _side(getattr(intent, side), ports[side], self.options.neighbours)
        for side, port in background.items():
            steps += _side(getattr(intent, side).background, port, self.options.neighbours)
        return steps

    def _link(self, intent: Intent, side: str) -> list[Step]:
        link = getattr(intent.links, side)
        name, port = getattr(self.options, side), self.port(intent, side)
        steps = [_mtu(name, link.mtu)] if not link.vlan else []
        steps.append(up(name))
        if link.vlan:
            steps += _vlan(name, port, link.vlan, link.mtu, f"VLAN of the {side} link")
        return steps

    def finish(
        self,
        facts: Facts,
        steps: Iterable[Step],
        flush: Iterable[Step] = (),
        checks: Iterable[Check] = (),
        notes: Iterable[str] = (),
    ) -> Plan:
        """The plan of these parts."""
        return Plan(
            self.name, facts.version, tuple(steps), tuple(flush), tuple(checks), tuple(notes)
        )


def _side(side: LinkIntent, port: str, mode: str) -> list[Step]:
    steps = [address(a, port) for a in side.addresses]
    entries = {} if mode == "resolved" else dict(side.neighbors)
    ways = {str(net): f"via {via} dev {port}" for net, via in side.routes.items()}
    if mode == "gateway" and len(entries) > 2:
        entries, more = _gateways(entries)
        ways.update({net: f"via {via} dev {port}" for net, via in more.items()})
    if entries:
        steps.append(neighbours(entries, port))
    if ways:
        steps.append(routes(ways, f"to the test hosts behind {port}"))
    return steps


def _gateways(entries: Mapping[Address, str]) -> tuple[dict[Address, str], dict[str, Address]]:
    """One neighbour per IP version, and routes through it to the others (GEN-27)."""
    gateways: dict[Address, str] = {}
    ways: dict[str, Address] = {}
    for version in (4, 6):
        hosts = [host for host in entries if host.version == version]
        if not hosts:
            continue
        first = hosts[0]
        gateways[first] = entries[first]
        singles: list[Any] = [ip_network(h) for h in hosts[1:]]
        others = collapse_addresses(singles)
        ways.update({str(net): first for net in others})
    return gateways, ways


def _vlan(name: str, port: str, vlan: int, mtu: int, why: str) -> list[Step]:
    """An interface of the plan's own for a VLAN."""

    def checker(output: str) -> str | None:
        right = (f"{port}@{name}",), ("vlan protocol 802.1Q", f"id {vlan}")
        if all(line_with(output, *phrases) for phrases in right):
            return None
        return f"{port} is not VLAN {vlan} of {name}; the output is {shown(output)}"

    return [
        Step(
            f"ip link add link {name} name {port} type vlan id {vlan}",
            why,
            undo=f"ip link del {port}",
            before=f"ip -o link show dev {port} 2>/dev/null || true",
            was=Was.FOREIGN,
            check=checked(f"ip -d link show dev {port}", checker, f"id {vlan} on {name}"),
        ),
        _mtu(port, mtu),
        up(port),
    ]


def _mtu(name: str, mtu: int) -> Step:
    return Step(
        f"ip link set dev {name} mtu {mtu}",
        f"MTU of {name}",
        undo=f"ip link set dev {name} mtu {{words}}",
        before=f"ip -o link show dev {name} | sed 's/.* mtu \\([0-9]*\\) .*/\\1/'",
        gone=tuning.gone(name),
        check=link(name, mtu=mtu),
    )


def _forwarding(ports: list[str]) -> Step:
    values: dict[str, int] = {
        "net.ipv4.conf.all.forwarding": 1,
        "net.ipv6.conf.all.forwarding": 1,
        "net.ipv4.conf.all.rp_filter": 0,
        "net.ipv4.conf.all.send_redirects": 0,
    }
    for port in ports:
        values |= {setting(4, port, name): 0 for name in ("rp_filter", "send_redirects")}
        names = ("disable_ipv6", "accept_dad", "accept_ra")
        values |= {setting(6, port, name): 0 for name in names}
    also = "; sysctl -a -r '^net\\.ipv[46]\\.conf\\.[^.]*\\.forwarding$'"
    return sysctl(
        values, "forward both versions, whatever the source; no redirects, no address tests", also
    )


def _keep_default_route(names: list[str]) -> Step:
    values = {setting(6, name, "accept_ra"): 2 for name in names}
    return sysctl(values, "a forwarding host must go on learning its own default route")


def _neighbour_table(intent: Intent, facts: Facts, mode: str) -> list[Step]:
    """More room, where there are more neighbours than the kernel keeps (it loses them silently)."""
    most = max(len(getattr(intent, side).neighbors) for side in SIDES)
    limit = facts.number("gc_thresh3") or 1024
    if mode == "gateway" or most < limit // 2:
        return []
    room = 1 << (2 * most).bit_length()
    values = {
        f"net.ipv{v}.neigh.default.gc_thresh{n}": room * n // 3 if n < 3 else room
        for v in (4, 6)
        for n in (3, 2, 1)
    }
    return [sysctl(values, f"room for {most} neighbours")]
