"""A translator in user space: its file, its TUN device, routes into that, the process."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field
from v6t.drivers.duts.driver import Reading
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds import addresses
from v6t.drivers.duts.kinds.linux import filters, telemetry
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.kinds.linux.process import stop
from v6t.drivers.duts.kinds.linux.steps import link, routes, write_file
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.plan import Check, Intent, Step, Was, equals

TUN = "v6t-nat64"


class QueueOptions(LinuxOptions):
    """Options of all of them."""

    queue_length: int = Field(default=500, ge=1, le=1_000_000)
    """Frames the TUN device holds before it drops (``txqueuelen``)."""


class TunOptions(QueueOptions):
    """Options of those that have addresses of their own."""

    ipv4_addr: str = Field(default="", pattern=r"^[0-9.]*$")
    """The translator's own IPv4 address, outside every mapping; empty: chosen."""
    ipv6_addr: str = Field(default="", pattern=r"^[0-9A-Fa-f:.]*$")
    """The translator's own IPv6 address, outside every mapping; empty: chosen."""


class TunTranslator(LinuxDriver):
    """Stateless; packets go through the kernel, the process and the kernel again."""

    helpers = (filters.PROGRAM,)
    process: ClassVar[str]
    """What the kernel calls its process; its files are called so, too."""
    words: ClassVar[str]
    """Its name in messages."""
    tun_name: ClassVar[str] = TUN
    """Of its TUN device."""

    @abstractmethod
    def tun(self, action: str) -> str:
        """The shell line that makes (``mktun``) or removes (``rmtun``) its TUN device."""

    @abstractmethod
    def started(self) -> str:
        """The shell line that starts it and leaves its number in :attr:`pid`."""

    @property
    def file(self) -> str:
        """Its configuration."""
        return f"{self.options.state_dir}/{self.process}.conf"

    @property
    def pid(self) -> str:
        """Of its process."""
        return f"{self.options.state_dir}/{self.process}.pid"

    def telemetry(self, intent: Intent) -> Mapping[str, Reading]:
        """The TUN device's drops are the translator's."""
        return {
            **super().telemetry(intent),
            f"tun {self.tun_name}": telemetry.link_reading(
                self.tun_name, f"its `tx.dropped` are frames {self.words} did not fetch"
            ),
            "process": telemetry.process(self.pid),
        }

    def into(self, intent: Intent) -> list[Any]:
        """Networks that are routed into the translator, of both versions of IP."""
        four, six = addresses.through_translator(intent)
        return [*four, *six]

    def routed(self, intent: Intent) -> list[Any]:
        """Those of them whose routes are the driver's."""
        return self.into(intent)

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

    def own_addresses(self, intent: Intent) -> tuple[str, str]:
        """Return the addresses of its ICMP errors, which the test does not use."""
        taken, o = addresses.in_use(intent), self.options
        return (
            addresses.free("ipv4_addr", o.ipv4_addr, addresses.OWN4, taken),
            addresses.free("ipv6_addr", o.ipv6_addr, addresses.OWN6, taken),
        )

    def running(self, intent: Intent, config: str) -> list[Step]:
        """The translator with a configuration, its TUN device, and routes into it."""
        tun = self.tun_name
        return [
            write_file(self.file, config, f"{self.words}'s configuration"),
            Step(
                self.tun("mktun"),
                f"{self.words}'s TUN device",
                undo=f"if ip link show dev {tun} >/dev/null 2>&1; then {self.tun('rmtun')}; fi",
                before=f"ip -o link show dev {tun} 2>/dev/null || true",
                was=Was.FOREIGN,
                check=link(tun),
            ),
            *self.joined(intent),
            Step(
                self.started(),
                "the translator itself",
                undo=self.ended(),
                before=f"ls {self.pid} 2>/dev/null || true",
                was=Was.FOREIGN,
                check=self.alive(),
            ),
        ]

    def joined(self, intent: Intent) -> list[Step]:
        """The TUN device as measurements need it, and routes into it."""
        mtu = max(intent.links.left.mtu, intent.links.right.mtu)
        tun = self.tun_name
        ways = {str(net): f"dev {tun}" for net in self.routed(intent)}
        return [
            Step(
                f"ip link set dev {tun} mtu {mtu} txqueuelen {self.options.queue_length} up",
                "room for bursts",
                check=link(tun, mtu=mtu, qlen=self.options.queue_length),
            ),
            Step(
                f"sysctl -q -w net.ipv6.conf.{tun}.disable_ipv6=0 net.ipv4.conf.{tun}.rp_filter=0",
                "both versions through the TUN device, whatever the source",
                check=equals(
                    f"sysctl -n net.ipv6.conf.{tun}.disable_ipv6 net.ipv4.conf.{tun}.rp_filter",
                    "0\n0",
                ),
            ),
            routes(ways, "into the translator"),
        ]

    def ended(self) -> str:
        """Shell line that ends our translator, and no other."""
        return stop(self.pid, self.process)

    def alive(self) -> Check:
        """It runs: its file may be there before it has opened its TUN device."""
        up = f"ip -o link show dev {self.tun_name} | grep -o LOWER_UP"
        wait = (
            f'n=0; until p=$(cat {self.pid}) && [ -n "$p" ] && {up} >/dev/null; do '
            "n=$((n+1)); [ $n -lt 50 ] || break; sleep 0.2; done; "
            f"cat /proc/$p/comm; {up}"
        )
        return equals(wait, f"{self.process}\nLOWER_UP")
