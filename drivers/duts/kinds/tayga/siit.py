"""TAYGA: stateless translation in user space behind a TUN device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from typing import Any, ClassVar

from pydantic import Field
from v6t.drivers.duts.driver import Reading, Suited
from v6t.drivers.duts.expect_profile import ExpectProfile
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds import addresses
from v6t.drivers.duts.kinds.linux import filters, telemetry
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.kinds.linux.process import stop
from v6t.drivers.duts.kinds.linux.steps import routes, write_file
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.plan import Check, Intent, Plan, Step, Was, contains, equals
from v6t.profiles.errors import UsageError

TUN = "v6t-nat64"
REFUSED = tuple(
    IPv4Network(n)
    for n in (
        *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15"),
        *("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"),
    )
)
"""IPv4 addresses TAYGA does not translate behind the well-known prefix (RFC 6052 section 3.1)."""

PREFIX_OF = {"siit": "prefix", "clat": "plat_prefix", "nat64": "prefix"}
"""What a technology's parameters call it."""


class TaygaOptions(LinuxOptions):
    """Options of TAYGA."""

    queue_length: int = Field(default=500, ge=1, le=1_000_000)
    """Frames the TUN device holds before it drops (``txqueuelen``)."""
    ipv4_addr: str = Field(default="", pattern=r"^[0-9.]*$")
    """TAYGA's own IPv4 address, outside every mapping; empty: chosen."""
    ipv6_addr: str = Field(default="", pattern=r"^[0-9A-Fa-f:.]*$")
    """TAYGA's own IPv6 address, outside every mapping; empty: chosen."""
    mend_checksums: bool = False
    """Write 0xFFFF where TAYGA writes a UDP checksum of 0, with a rule of nftables: one frame in
    65,536, which a next translator drops as IPv6 (RFC 8200 section 8.1)."""


class Tayga(LinuxDriver):
    """Stateless; one process, one core."""

    name = "tayga"
    title = "TAYGA, stateless IPv4/IPv6 translation in user space"
    technologies: ClassVar[tuple[str, ...]] = ("siit", "clat")
    executed = "configured, verified, measured and restored with real frames (Debian's 0.9.2-8)"
    versions = ("0.9.2-8",)
    options_model = TaygaOptions
    programs: Mapping[str, str] = {"tayga": "tayga"}
    helpers = (filters.PROGRAM,)
    version_command = "dpkg-query -W -f '${Version}' tayga || echo unknown"

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        super().__init__(given)
        if self.options.mend_checksums:
            self.programs = {**self.programs, "nft": "nftables"}

    def refuse(self, intent: Intent, facts: Facts) -> None:
        """The well-known prefix with addresses TAYGA refuses."""
        super().refuse(intent, facts)
        refuse_well_known(intent, addresses.other_side(addresses.ipv6_side(intent)))

    def suited(self, technology: str) -> Mapping[str, Suited]:
        """A PLAT's prefix that TAYGA takes the test addresses behind."""
        if technology != "clat":
            return {}
        why = "TAYGA translates no test addresses behind the well-known prefix"
        return {"plat_prefix": Suited("2001:db8:64::/96", why)}

    def profile(self, intent: Intent) -> ExpectProfile:
        """The packet is routed into the TUN device, translated, and routed again."""
        return ExpectProfile(
            further_hops=2,
            df="set",
            absent_checksum=not self.options.mend_checksums,
            why="kernel, TAYGA and kernel each take a hop; TAYGA sets DF of what was IPv6; where "
            "its UDP checksum comes out as 0 it writes 0, not 0xFFFF",
        )

    def telemetry(self, intent: Intent) -> Mapping[str, Reading]:
        """The TUN device's drops are TAYGA's."""
        return {
            **super().telemetry(intent),
            f"tun {TUN}": telemetry.link_reading(
                TUN, "its `tx.dropped` are frames TAYGA did not fetch"
            ),
            "process": telemetry.process(f"{self.options.state_dir}/tayga.pid"),
        }

    def into(self, intent: Intent) -> list[Any]:
        """Networks that are routed into the translator, of both versions of IP."""
        four, six = addresses.through_translator(intent)
        return [*four, *six]

    def ipv6_side(self, intent: Intent) -> str:
        """Where what is translated is IPv6."""
        return addresses.ipv6_side(intent)

    def filters(self, intent: Intent, facts: Facts, count: int) -> Sequence[Step]:
        """Before the translator, for what comes in on either side."""
        six = self.ipv6_side(intent)
        versions = {side: 6 if side == six else 4 for side in ("left", "right")}
        translated = {
            side: [net for net in self.into(intent) if net.version == version]
            for side, version in versions.items()
        }
        return filters.steps(intent, facts, self.all_ports(intent), count, translated)

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        """See the base class."""
        lines = [f"tun-device {TUN}", *self._own(intent)]
        prefix = addresses.prefix_of(intent)
        lines += [f"prefix {prefix}"] if prefix else []
        lines += [f"map {four} {six}" for four, six in map(_shortest, addresses.eams(intent))]
        ways = {str(net): f"dev {TUN}" for net in self.into(intent)}
        parts = running(self.options, intent, "\n".join(lines) + "\n", ways)
        return self.finish(
            facts,
            [*self.base(intent, facts), *parts],
            checks=[alive(self.options.state_dir)],
            notes=(
                "IPv4 packets whose UDP checksum is 0 are dropped",
                "one process on one core; its drops are the TUN device's tx drops",
            ),
        )

    def _own(self, intent: Intent) -> list[str]:
        table = addresses.eams(intent)
        prefix = addresses.prefix_of(intent)
        own4 = self.options.ipv4_addr or addresses.outside(
            ("192.168.255.9", "10.255.255.9", "172.31.255.9"), [four for four, _ in table]
        )
        taken: list[Any] = [six for _, six in table] + ([prefix] if prefix else [])
        own6 = self.options.ipv6_addr or addresses.outside(
            ("fd76:3674::9", "fd76:3675::9", "2001:2:0:f::9"), taken
        )
        return [f"ipv4-addr {own4}", f"ipv6-addr {own6}"]


def refuse_well_known(intent: Intent, ipv4_side: str) -> None:
    """TAYGA answers ICMPv6 1/0 for non-global IPv4 addresses behind 64:ff9b::/96.

    Raises:
        UsageError: with what works.
    """
    if addresses.prefix_of(intent) != addresses.WELL_KNOWN:
        return
    for net in addresses.hosts_behind(intent, ipv4_side, 4):
        if any(net.overlaps(bad) for bad in REFUSED):
            raise UsageError(
                f"TAYGA does not translate {net} behind the well-known prefix 64:ff9b::/96, as "
                "RFC 6052 section 3.1 demands",
                "use a prefix of your own, for example 2001:db8:64::/96",
                params={PREFIX_OF[intent.technology]: "2001:db8:64::/96"},
            )


def running(options: Any, intent: Intent, config: str, ways: Mapping[str, str]) -> list[Step]:
    """TAYGA with a configuration, its TUN device, and routes into it."""
    place = options.state_dir
    file, pid = f"{place}/tayga.conf", f"{place}/tayga.pid"
    mtu = max(intent.links.left.mtu, intent.links.right.mtu)
    return [
        write_file(file, config, "TAYGA's configuration"),
        Step(
            f"tayga -c {file} --mktun",
            "TAYGA's TUN device",
            undo=f"if ip link show dev {TUN} >/dev/null 2>&1; then tayga -c {file} --rmtun; fi",
            before=f"ip -o link show dev {TUN} 2>/dev/null || true",
            was=Was.FOREIGN,
            check=contains(f"ip -o link show dev {TUN}", TUN),
        ),
        Step(
            f"ip link set dev {TUN} mtu {mtu} txqueuelen {options.queue_length} up",
            "room for bursts",
            check=contains(
                f"ip -o link show dev {TUN}", f"mtu {mtu}", f"qlen {options.queue_length}"
            ),
        ),
        Step(
            f"sysctl -q -w net.ipv6.conf.{TUN}.disable_ipv6=0 net.ipv4.conf.{TUN}.rp_filter=0",
            "both versions through the TUN device, whatever the source",
            check=equals(
                f"sysctl -n net.ipv6.conf.{TUN}.disable_ipv6 net.ipv4.conf.{TUN}.rp_filter", "0\n0"
            ),
        ),
        routes(ways, "into the translator"),
        Step(
            f"tayga -c {file} -p {pid}",
            "the translator itself",
            undo=stop_command(place),
            before=f"ls {pid} 2>/dev/null || true",
            was=Was.FOREIGN,
            check=alive(place),
        ),
        *_mend(options),
    ]


def _mend(options: TaygaOptions) -> list[Step]:
    """TAYGA's own defect put right behind it."""
    if not options.mend_checksums:
        return []
    file = f"{options.state_dir}/mend.nft"
    lines = ["add table inet v6t_mend", "delete table inet v6t_mend", "table inet v6t_mend {"]
    # before connection tracking: it leaves a checksum of 0 as it is
    lines += ["  chain entry {", "    type filter hook prerouting priority raw; policy accept;"]
    lines += [f'    iifname "{TUN}" udp checksum 0 counter udp checksum set 65535', "  }", "}"]
    show = "nft list table inet v6t_mend"
    return [
        write_file(file, "\n".join(lines) + "\n", "a rule for TAYGA's checksums"),
        Step(
            f"nft -c -f {file} && nft -f {file}",
            "UDP checksums that come out as 0 are 0xffff (RFC 768)",
            undo="nft delete table inet v6t_mend",
            before=f"{show} 2>/dev/null || true",
            was=Was.FOREIGN,
            check=contains(show, TUN, "udp checksum set 65535"),
        ),
    ]


def stop_command(place: str) -> str:
    """Shell line that ends our TAYGA, and no other."""
    return stop(f"{place}/tayga.pid", "tayga")


def alive(place: str) -> Check:
    """TAYGA runs: it daemonizes before it has opened its TUN device, and writes its pid before that."""
    up = f"ip -o link show dev {TUN} | grep -o LOWER_UP"
    wait = (
        f'n=0; until p=$(cat {place}/tayga.pid) && [ -n "$p" ] && {up} >/dev/null; do '
        "n=$((n+1)); [ $n -lt 50 ] || break; sleep 0.2; done; "
        f"cat /proc/$p/comm; {up}"
    )
    return equals(wait, "tayga\nLOWER_UP")


def _shortest(pair: tuple[Any, Any]) -> tuple[str, str]:
    """A single host without prefix length, as TAYGA's manual has it."""
    four, six = pair
    if four.prefixlen == 32 and six.prefixlen == 128:
        return str(four.network_address), str(six.network_address)
    if four.prefixlen + 96 != six.prefixlen:
        raise UsageError(
            f"TAYGA maps prefixes with equally many host bits only, not {four} to {six}",
            f"use an IPv6 prefix of /{four.prefixlen + 96} for {four}",
        )
    return str(four), str(six)
