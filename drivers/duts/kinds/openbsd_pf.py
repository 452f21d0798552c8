"""OpenBSD PF: NAT64 with af-to, NAT44 with nat-to. Written after manuals, never executed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any, Literal

from pydantic import Field
from v6t.drivers.device import NEARLY_EMPTY
from v6t.drivers.duts import way
from v6t.drivers.duts.driver import Driver, Reading, check_interfaces
from v6t.drivers.duts.facts import Facts, Interface
from v6t.drivers.duts.kinds.linux.steps import write_file
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.options import DutOptions
from v6t.drivers.duts.plan import Check, Intent, Plan, Step, Was, checked, contains, shown
from v6t.profiles.errors import DutError, UsageError
from v6t.profiles.intent_settings import Nat, Nat64, settings_of

LIMIT_MARGIN = 1.05


class OpenBsdOptions(DutOptions):
    """Options of OpenBSD."""

    state_dir: str = "/var/run/v6t"
    """Directory on the device for lock, undo record and configuration files; best a tmpfs."""
    flush: Literal["reboot", "purge"] = "reboot"
    """``pfctl -F states`` only marks states: reboot, or wait for the purge (a declared
    deviation)."""
    sessions: int = Field(default=0, ge=0, le=1 << 30)
    """States PF must hold; 0: what the technology says."""
    timeout_s: int = Field(default=3600, ge=1, le=864_000)
    """Timeout of UDP states, longer than any test [s]."""
    reboot_deadline_s: float = Field(default=600.0, gt=0, le=7200)
    """How long a reboot may take until the next login."""


class OpenBsdPf(Driver):
    """No bash, no sudo, no ip: ksh, doas, ifconfig."""

    name = "openbsd-pf"
    title = "OpenBSD PF: NAT64 (af-to) and NAT44 (nat-to)"
    technologies = ("nat44", "nat64", "ipv4-router", "ipv6-router")
    executed = "not executed anywhere: written after the manual pages and Lencse's scripts"
    versions = ("7.6",)
    options_model = OpenBsdOptions

    def timeout_s(self, intent: Intent) -> float | None:
        """Of UDP states."""
        return float(self.options.timeout_s)

    def survey(self) -> Mapping[str, str]:
        """See the base class."""
        return {
            "system": "uname -sr",
            "boot": "ps -o lstart= -p 1",  # kern.boottime moves when the clock is stepped
            "user": "id -u",
            "version": "uname -r",
            "client": way.CLIENT,
            "way": 'set -- $SSH_CONNECTION; [ -z "$1" ] || route -n get "$1"',
            "links": "ifconfig -A",
            "default4": "route -n get -inet default",
            "default6": "route -n get -inet6 default",
            "rules": "pfctl -sr",
            "file": "pfctl -nvf /etc/pf.conf",
            "info": "pfctl -si",
        }

    def facts(self, sections: Mapping[str, str]) -> Facts:
        """See the base class."""
        system = sections.get("system", "")
        if not system.startswith("OpenBSD"):
            raise DutError(f"the device is no OpenBSD: uname says {shown(system)}")
        interfaces, addresses = read_ifconfig(sections.get("links", ""))
        words = sections.get("client", "").split()
        server, _, zone = (words[2] if len(words) > 2 else "").partition("%")
        managed = {n for n, own in addresses.items() if server in own and zone in ("", n)}
        looked = way_back(words[0], sections.get("way", "")) if words else ""
        routes = sections.get("default4", "") + "\n" + sections.get("default6", "")
        return Facts(
            system=system,
            version=sections.get("version", "").strip(),
            boot=sections.get("boot", "").strip(),
            root=sections.get("user", "").strip() == "0",
            interfaces=interfaces,
            management=frozenset(managed),
            way=way.way_of(sections.get("client", ""), looked, sorted(managed)),
            default_via=frozenset(re.findall(r"^\s*interface: (\S+)", routes, re.MULTILINE)),
            sections=dict(sections),
        )

    def example(self, intent: Intent) -> Facts:
        """See the base class."""
        interfaces = {
            getattr(self.options, side): Interface(getattr(intent.links, side).dut_mac.lower())
            for side in ("left", "right")
        }
        version = self.options.version or self.versions[-1]
        return Facts(f"OpenBSD {version}", version, interfaces=interfaces)

    def refuse(self, intent: Intent, facts: Facts) -> None:
        """Somebody's rules, and what the grammar has no words for."""
        if not facts.root:
            raise DutError("commands do not run as root", "set ssh.become to 'doas -n'")
        check_interfaces(self.options, intent, facts)
        loaded, file = (_rules(facts.sections.get(name, "")) for name in ("rules", "file"))
        if loaded != file:
            raise DutError(
                "the loaded PF rules are not those of /etc/pf.conf and could not be put back",
                "save them there, or load the file with pfctl -f /etc/pf.conf",
            )
        settings = settings_of(intent)
        if isinstance(settings, Nat64) and settings.ports != (1024, 65535):
            raise UsageError(
                "PF's af-to takes no range of ports", "leave the ports at 1024 to 65535"
            )
        if any(getattr(intent.links, s).vlan for s in ("left", "right")):
            raise UsageError("this driver configures no VLAN on OpenBSD", "use untagged links")

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        """See the base class."""
        steps = [_forwarding()]
        for side in ("left", "right"):
            told = getattr(intent, side)
            if self.options.neighbours == "resolved":
                told = {**told, "neighbours": {}}
            steps += _side(told, getattr(self.options, side))
        flush: tuple[Step, ...] = ()
        notes = ["PF hashes receive queues by addresses only: many addresses for many cores"]
        if isinstance(settings_of(intent), Nat):
            steps += self._rules(intent)
            flush = (self._flush(),)
            if self.options.flush == "purge":
                notes.append("DEVIATION: states are purged in place of a reboot (RFC 9693, GEN-29)")
        return Plan(self.name, facts.version, tuple(steps), flush, notes=tuple(notes))

    def sessions(self, intent: Intent) -> Reading | None:
        """``current entries`` of ``pfctl -si``."""
        return Reading("pfctl -si", info) if isinstance(settings_of(intent), Nat) else None

    def telemetry(self, intent: Intent) -> Mapping[str, Reading]:
        """Cores and PF's counters."""
        return {"cpu": Reading("sysctl kern.cp_time2", cpu), "pf": Reading("pfctl -si", info)}

    def _rules(self, intent: Intent) -> list[Step]:
        file = f"{self.options.state_dir}/pf.conf"
        text = ruleset(intent, self.options)
        disable = "case {old} in *Disabled*) pfctl -q -d;; esac; true"
        rule = "af-to" if isinstance(settings_of(intent), Nat64) else "nat-to"
        return [
            write_file(file, text, "the rules, in place of /etc/pf.conf"),
            Step(
                f"pfctl -nf {file} && pfctl -q -f {file}",
                "translate the clients' connections",
                undo="pfctl -q -f /etc/pf.conf",
                before="pfctl -sr",
                check=contains("pfctl -sr", rule),
            ),
            Step(
                "pfctl -q -e 2>/dev/null || true",
                "PF is on",
                undo=disable,
                before="pfctl -si | grep -o -e 'Status: Enabled' -e 'Status: Disabled'",
                check=contains("pfctl -si", "Status: Enabled"),
            ),
        ]

    def _flush(self) -> Step:
        if self.options.flush == "reboot":
            return Step(
                "reboot",
                "an empty state table: flushing only marks states",
                reboots=True,
                deadline_s=self.options.reboot_deadline_s,
            )

        def checker(output: str) -> str | None:
            left = info(output).get("sessions")
            if left is None:
                return "it does not say how many states there are"
            return f"{left:.0f} states are left" if left > NEARLY_EMPTY else None

        return Step(
            "pfctl -q -F states",
            "no state of an earlier trial is left, once the purge has run",
            check=checked("pfctl -si", checker, "hardly any state"),
            deadline_s=300.0,
        )


def ruleset(intent: Intent, options: OpenBsdOptions) -> str:
    """Text of ``pf.conf``: the file's own rules first, limits that outlive any test."""
    pool = nat.pool_of(intent)
    settings = settings_of(intent)
    wanted = options.sessions or settings.sessions
    limit = max(100_000, int(wanted * LIMIT_MARGIN))
    t = options.timeout_s
    lines = [
        f"set limit states {limit}",
        "set timeout { interval 10, adaptive.start 0, adaptive.end 0, "
        f"udp.first {t}, udp.single {t}, udp.multiple {t} }}",
        "set skip on lo",
        "pass",
    ]
    left, right = options.left, options.right
    public = (
        pool.addresses[0] if len(pool.addresses) == 1 else "{ " + ", ".join(pool.addresses) + " }"
    )
    if isinstance(settings, Nat64):
        lines.append(
            f"pass in on {left} inet6 proto udp from any to {settings.prefix} "
            f"af-to inet from {public}"
        )
    else:
        lines += [
            f"match out on {right} inet proto udp from {net} to any "
            f"nat-to {public} port {pool.low}:{pool.high}"
            for net in pool.inside
        ]
    return "\n".join(lines) + "\n"


def read_ifconfig(text: str) -> tuple[dict[str, Interface], dict[str, set[str]]]:
    """Interfaces and their addresses from ``ifconfig -A``."""
    interfaces: dict[str, Interface] = {}
    addresses: dict[str, set[str]] = {}
    for block in re.split(r"\n(?=\S)", text.strip()):
        head = re.match(r"(\S+?): flags=\w+<([^>]*)> mtu (\d+)", block)
        if not head:
            continue
        name, flags, mtu = head.groups()
        mac = re.search(r"^\s+lladdr (\S+)", block, re.MULTILINE)
        carrier = not re.search(r"^\s+status: no carrier", block, re.MULTILINE)
        interfaces[name] = Interface(
            mac.group(1).lower() if mac else "", "UP" in flags.split(","), carrier, int(mtu)
        )
        own = re.findall(r"^\s+inet6? (\S+)", block, re.MULTILINE)
        addresses[name] = {a.partition("%")[0] for a in own}
    return interfaces, addresses


def way_back(client: str, text: str) -> str:
    """``route -n get`` in the words of :func:`v6t.drivers.duts.way.survey`."""
    said = dict(re.findall(r"^\s*([a-z ]+): (\S+)", text, re.MULTILINE))
    to, mask, port = (said.get(k, "") for k in ("destination", "mask", "interface"))
    if not to or not port:
        return ""
    if to != "default":
        bits = sum(bin(int(p, 10 if "." in mask else 16)).count("1")
                   for p in re.split(r"[.:]", mask) if p)  # fmt: skip
        to = f"{to.partition('%')[0]}/{bits}" if mask else to.partition("%")[0]
    return f"client {client.partition('%')[0]} matched {to} dev {port}"


def info(text: str) -> Mapping[str, float]:
    """``pfctl -si``: states, and reasons for loss."""
    found: dict[str, float] = {}
    names = {"current entries": "sessions", "memory": "memory", "state-limit": "state_limit",
             "congestion": "congestion", "state-mismatch": "state_mismatch"}  # fmt: skip
    for line in text.splitlines():
        match = re.match(r"\s+([a-z][a-z -]*?)\s{2,}(\d+)", line)
        if match and match.group(1) in names:
            found[names[match.group(1)]] = float(match.group(2))
    return found


def cpu(text: str) -> Mapping[str, float]:
    """``sysctl kern.cp_time2``: ticks by core; the fields are user, nice, system, (spin,)
    interrupt, idle.
    """
    found: dict[str, float] = {}
    for number, ticks in re.findall(r"kern\.cp_time2\.(\d+)=([\d,]+)", text):
        values = [float(t) for t in ticks.split(",")]
        found[f"cpu{number}.idle"] = values[-1]
        found[f"cpu{number}.softirq"] = values[-2]
        found[f"cpu{number}.total"] = sum(values)
    return found


def _rules(text: str) -> list[str]:
    """Rules alone, however they are numbered: ``-nvf`` prints options and macros, too."""
    lines = (" ".join(re.sub(r"^@\d+ ", "", line).split()) for line in text.splitlines())
    return [line for line in lines if line.split(" ")[0] in ("pass", "block", "match", "anchor")]


def _forwarding() -> Step:
    names = "net.inet.ip.forwarding net.inet6.ip6.forwarding"

    def checker(output: str) -> str | None:
        return None if output.split() == ["1", "1"] else f"forwarding is {shown(output)}"

    return Step(
        "sysctl net.inet.ip.forwarding=1 net.inet6.ip6.forwarding=1 >/dev/null",
        "forward both versions",
        undo="sysctl {words} >/dev/null",
        before=f"sysctl {names}",
        check=Check(f"sysctl -n {names}", checker, "1 and 1"),
    )


def _side(side: Mapping[str, Any], port: str) -> list[Step]:
    steps = [
        Step(
            f"ifconfig {port} up",
            f"{port} carries test traffic",
            undo=f"ifconfig {port} down",
            before=f"ifconfig {port} | grep -o '<UP' || true",
            was=Was.THERE,
            check=contains(f"ifconfig {port}", "<UP"),
        )
    ]
    for text in side.get("addresses", ()):
        a = ip_interface(text)
        family = "inet" if a.version == 4 else "inet6"
        length = (
            f"/{a.network.prefixlen}" if a.version == 4 else f" prefixlen {a.network.prefixlen}"
        )
        steps.append(
            Step(
                f"ifconfig {port} {family} alias {a.ip}{length}",
                f"the device's address on {port}",
                undo=f"ifconfig {port} {family} {a.ip} delete",
                before=f"ifconfig {port} | grep -wF '{a.ip}' || true",
                was=Was.THERE,
                check=contains(f"ifconfig {port}", f" {a.ip} "),
            )
        )
    for address, mac in side.get("neighbours", {}).items():
        four = ip_address(address).version == 4
        tool, show = ("arp", f"arp -n {address}") if four else ("ndp", f"ndp -n {address}")
        steps.append(
            Step(
                f"{tool} -s {address} {mac}" + (" permanent" if four else ""),
                f"the tester's hosts behind {port}: told, so that none is asked for",
                undo=f"{tool} -d {address}",
                before=f"{show} 2>/dev/null | grep -i permanent || true",
                was=Was.FOREIGN,
                check=contains(f"{show} | tr A-Z a-z", mac.lower()),
            )
        )
    for net, via in side.get("routes", {}).items():
        family = "-inet" if ip_network(net).version == 4 else "-inet6"
        show = f"route -n show {family} | grep -F '{net} ' || true"
        steps.append(
            Step(
                f"route -qn add {family} {net} {via}",
                f"to the test hosts behind {port}",
                undo=f"route -qn delete {family} {net} {via}",
                before=show,
                was=Was.FOREIGN,
                check=contains(f"route -n get {family} {net}", f"gateway: {via}"),
            )
        )
    return steps
