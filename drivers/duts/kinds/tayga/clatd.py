"""clatd: a CLAT around TAYGA, with its own TUN device and rules of routing, for a single address."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv6Network, ip_network
from typing import Any, ClassVar

from pydantic import Field
from v6t.drivers.duts.driver import Suited
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds import addresses, map_rules
from v6t.drivers.duts.kinds.linux.process import in_background
from v6t.drivers.duts.kinds.linux.steps import routes, write_file
from v6t.drivers.duts.kinds.tayga.siit import OWN_LOWEST_MTU, MendOptions, Tayga
from v6t.drivers.duts.kinds.tun.translator import TUN
from v6t.drivers.duts.plan import Intent, Plan, Step, Was
from v6t.drivers.duts.programs import version_in
from v6t.profiles.errors import DutError, UsageError

PROGRAM = "clatd"
RULES = 0xC1A7
"""clatd's own table of routes."""
_ONE_HOST = "clatd translates one address"
SUITED = {
    "plat_prefix": Suited(
        "2001:db8:64::/96", "TAYGA translates no test addresses behind the well-known prefix"
    ),
    "clat_ipv4": Suited("198.18.0.2/32", _ONE_HOST),
    "clat_ipv6": Suited("2001:2:0:2::2/128", _ONE_HOST),
}


class ClatdOptions(MendOptions):
    """Options of clatd."""

    program: str = Field(default=PROGRAM, pattern=rf"^([A-Za-z0-9_./-]*/)?{PROGRAM}$")
    """Where the program is; its name is what its process is known by."""
    ipv6_addr: str = Field(default="", pattern="^$")
    """Cannot be told: TAYGA's own IPv6 address is its IPv4 address in the PLAT's prefix."""


class Clatd(Tayga):
    """What it does by itself is left to it: TUN device, TAYGA, the way of IPv6 into both."""

    name = "clatd"
    title = "clatd: TAYGA as CLAT of one address"
    technologies: ClassVar[tuple[str, ...]] = ("clat",)
    part_technologies = ()
    executed = (
        "configured, verified, measured and restored with real frames (2.1.0 with Debian's TAYGA 0.9.2-8), "
        "in the lab and over SSH"
    )
    versions = ("2.1.0",)
    options_model = ClatdOptions
    process = PROGRAM
    words = "clatd"

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        super().__init__(given)
        source = "https://github.com/toreanderson/clatd; Debian has it from 13 on"
        self.programs = {**self.programs, self.options.program: source}
        self.version_command = f"{self.options.program} -h 2>&1 | head -1"

    @property
    def program(self) -> str:
        """TAYGA's, which clatd finds by itself."""
        return "tayga"

    @property
    def workers(self) -> int:
        """TAYGA has as many as it chooses."""
        return -1

    def survey(self) -> Mapping[str, str]:
        """See the base class."""
        return {**super().survey(), "nat46": "ls /proc/net/nat46/control 2>/dev/null || true"}

    def read_version(self, text: str) -> str:
        """``clatd v2.1.0 - a 464XLAT ...``; another text: a library of Perl's is missing."""
        if "Net/IP" in text:
            raise DutError("clatd lacks Net::IP", "apt-get install libnet-ip-perl")
        return version_in(text, r"\bclatd v(\d+(?:\.\d+)+)", "clatd", f"{self.options.program} -h")

    def suited(self, technology: str) -> Mapping[str, Suited]:
        """One host in place of a network, and a prefix that TAYGA takes."""
        return SUITED if technology in self.technologies else {}

    def refuse(self, intent: Intent, facts: Facts) -> None:
        """More than one address; no prefix; a kernel where it takes another translator."""
        super().refuse(intent, facts)
        self._single(intent)
        map_rules.refuse_lowest_mtu(
            addresses.table_of(intent).lowest_ipv6_mtu,
            "clatd writes no offlink-mtu for TAYGA",
            OWN_LOWEST_MTU,
        )
        if addresses.prefix_of(intent) is None:
            raise UsageError(
                "clatd needs the PLAT's prefix",
                "set the parameter plat_prefix",
                params={"plat_prefix": SUITED["plat_prefix"].value},
            )
        if facts.sections.get("nat46", "").strip():
            raise DutError(
                "the device has the kernel module nat46, which clatd takes in place of TAYGA",
                "modprobe -r nat46, if it is not needed",
            )

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        """See the base class."""
        return self.finish(
            facts,
            [*self.base(intent, facts), *self.running(intent, self._text(intent))],
            checks=[self.alive()],
            notes=(
                "clatd gives its IPv4 address to its own device: that is taken away, the host is behind it",
                "IPv4 packets whose UDP checksum is 0 are dropped",
            ),
        )

    def running(self, intent: Intent, config: str) -> list[Step]:
        """It makes its TUN device itself; what measurements need beyond that comes after it."""
        rules = f"ip -6 rule show table {RULES} 2>/dev/null || true"
        return [
            routes(self._to_plat(intent), "clatd asks where the PLAT is"),
            write_file(self.file, config, "clatd's configuration"),
            Step(
                self.started(),
                "clatd, its TUN device, and TAYGA",
                undo=self.ended(),
                before=f"ls {self.pid} 2>/dev/null; ip -o link show dev {TUN} 2>/dev/null; {rules}",
                was=Was.FOREIGN,
                check=self.alive(),
            ),
            *self.joined(intent),
            *self.mended(),
        ]

    def routed(self, intent: Intent) -> list[Any]:
        """IPv4 destinations: to those of IPv6 clatd sees itself."""
        return [net for net in self.into(intent) if net.version == 4]

    def started(self) -> str:
        """It stays in the foreground, and leads a group with TAYGA."""
        return in_background(self.pid, f"{self.options.program} -c {self.file}", self._log)

    def ended(self) -> str:
        """Ends TAYGA, upon which clatd puts its own things back; after a kill -9 they are put back here."""
        local = "ip -6 rule show prio 0 table local"
        return (
            f"p=$(cat {self.pid} 2>/dev/null) || exit 0; "
            f'ours() {{ [ "$(cat /proc/$p/comm 2>/dev/null)" = {PROGRAM} ]; }}; ours && kill -- -$p; '
            "n=0; while ours && [ $n -lt 50 ]; do n=$((n+1)); sleep 0.2; done; "
            f"[ ! -f {self._tayga} ] || ! ip link show dev {TUN} >/dev/null 2>&1 || "
            f"{{ kill -- -$p 2>/dev/null; sleep 0.5; tayga --config {self._tayga} --rmtun; }}; "
            f"ip -6 rule del prio 0 table {RULES} 2>/dev/null; "
            f'[ -n "$({local})" ] || ip -6 rule add prio 0 table local; '
            "ip -6 rule del prio 1 table local 2>/dev/null; "
            f"! ours && rm -f {self.pid} {self._log} {self._tayga}"
        )

    @property
    def _log(self) -> str:
        return f"{self.options.state_dir}/{self.process}.log"

    @property
    def _tayga(self) -> str:
        """What clatd writes for TAYGA."""
        return f"{self.options.state_dir}/{self.process}-tayga.conf"

    def _to_plat(self, intent: Intent) -> dict[str, str]:
        """The way to all of the PLAT's prefix: that to a server."""
        side, prefix = self.ipv6_side(intent), addresses.prefix_of(intent)
        ways = getattr(intent, side).get("routes", {}).items()
        servers = [via for net, via in ways if prefix is not None and _within(net, prefix)]
        return {str(prefix): f"via {servers[0]} dev {self.port(intent, side)}"} if servers else {}

    def _single(self, intent: Intent) -> tuple[Any, Any]:
        """The customer's host by both its addresses."""
        return addresses.single(intent, self.words, {n: own.value for n, own in SUITED.items()})

    def _text(self, intent: Intent) -> str:
        four, six = self._single(intent)
        own4, _ = self.own_addresses(intent)
        lines = [
            f"clat-dev={TUN}",
            f"clat-v4-addr={four}",
            f"clat-v6-addr={six}",
            f"plat-prefix={addresses.prefix_of(intent)}",
            f"plat-dev={self.port(intent, self.ipv6_side(intent))}",
            f"tayga-conffile={self._tayga}",
            f"tayga-v4-addr={own4}",
            f"route-table={RULES}",
            # connections are not to be marked: a CLAT is stateless (RFC 6877 section 6.2)
            "ctmark=0",
            "proxynd-enable=no",
            "forwarding-enable=no",
            "v4-conncheck-enable=no",
            "v4-defaultroute-enable=no",
            "cmd-ufw=",
            "script-up=ip -4 address del $clat_v4_addr dev $clat_dev",
        ]
        return "\n".join(lines) + "\n"


def _within(net: str, prefix: IPv6Network) -> bool:
    found = ip_network(net)
    return isinstance(found, IPv6Network) and found.subnet_of(prefix)
