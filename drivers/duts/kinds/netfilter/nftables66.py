"""nftables: the kernel's stateful NAT66, IPv6 clients behind public IPv6 addresses and ports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_network
from typing import ClassVar

from v6t.drivers.duts.driver import Reading
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.linux.base import LinuxDriver, write_file
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.plan import Intent, Plan, Step, Was, checked, contains, shown
from v6t.profiles.errors import UsageError

LIST = "nft list table ip6 v6t"


@dataclass(frozen=True)
class Pool6:
    """Where connections leave from.

    Attributes:
        inside: networks of the clients.
        addresses: public addresses, consecutive.
        low, high: public ports.
    """

    inside: tuple[str, ...]
    addresses: tuple[str, ...]
    low: int
    high: int

    @property
    def target(self) -> str:
        """Addresses and ports as nft writes them."""
        first, last = self.addresses[0], self.addresses[-1]
        span = f"[{first}]" if first == last else f"[{first}]-[{last}]"
        return f"{span}:{self.low}-{self.high}"


def pool_of(intent: Intent) -> Pool6:
    """Out of the settings ``inside6``, ``pool6`` and ``ports``.

    Raises:
        UsageError: the addresses are not consecutive.
    """
    settings = intent.settings
    addresses = tuple(str(a) for a in settings["pool6"])
    numbers = [int(IPv6Address(a)) for a in addresses]
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise UsageError(
            "the public addresses are not consecutive", "list them in order, without gaps"
        )
    low, high = settings.get("ports", (1024, 65535))
    inside = tuple(str(ip_network(n)) for n in settings["inside6"])
    return Pool6(inside, addresses, int(low), int(high))


class Nftables66(LinuxDriver):
    """SNAT in a table of v6t's own."""

    name = "nftables66"
    title = "Linux kernel NAT66 with nftables"
    technologies: ClassVar[tuple[str, ...]] = ("nat66",)
    executed = "configured, verified, measured, flushed and restored with real frames (nft 1.0.6)"
    versions = ("1.0.6",)
    programs: Mapping[str, str] = {"nft": "nftables", "conntrack": "conntrack"}
    version_command = "nft --version"

    def read_version(self, text: str) -> str:
        """``nftables v1.0.6 (Lester Gooch #5)``."""
        words = text.split()
        return words[1].lstrip("v") if len(words) > 1 else text.strip()

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        """See the base class."""
        pool, port = pool_of(intent), self.port(intent, "right")
        rules = [
            f'ip6 saddr {net} oifname "{port}" meta l4proto udp counter snat to {pool.target}'
            for net in pool.inside
        ]
        return self.finish(
            facts,
            [
                *self.base(intent, facts),
                *_table(self.options.state_dir, rules, pool),
                *nat.conntrack(self.options, intent, facts),
            ],
            flush=_flush(pool.inside),
            notes=("source ports within the range are kept where they are free",),
        )

    def sessions(self, intent: Intent) -> Reading | None:
        """See the base class."""
        return nat.reading()

    def telemetry(self, intent: Intent) -> Mapping[str, Reading]:
        """Connections, and those that could not be made."""
        return {
            **super().telemetry(intent),
            "sessions": nat.reading(),
            "conntrack": nat.statistics(),
        }


def _table(place: str, rules: Sequence[str], pool: Pool6) -> list[Step]:
    file = f"{place}/v6t.nft"
    lines = ["add table ip6 v6t", "delete table ip6 v6t", "table ip6 v6t {"]
    lines += ["  chain post {", "    type nat hook postrouting priority srcnat; policy accept;"]
    lines += [*(f"    {rule}" for rule in rules), "  }", "}"]
    seen = [f"ip6 saddr {net.removesuffix('/128')} " for net in pool.inside]
    return [
        write_file(file, "\n".join(lines) + "\n", "the rules"),
        Step(
            f"nft -c -f {file} && nft -f {file}",
            "translate the clients' connections",
            undo="nft delete table ip6 v6t",
            before=f"{LIST} 2>/dev/null || true",
            was=Was.FOREIGN,
            check=contains(LIST, *seen, f":{pool.low}-{pool.high}"),
        ),
    ]


def _flush(inside: Sequence[str]) -> tuple[Step, ...]:
    """Delete the clients' connections, and nobody else's."""
    commands = "; ".join(f"conntrack -D -f ipv6 -s {net} 2>/dev/null" for net in inside)
    left = "; ".join(f"conntrack -L -f ipv6 -s {net} 2>/dev/null | head -1" for net in inside)

    def checker(output: str) -> str | None:
        lines = output.splitlines()
        return f"still there: {shown(lines[0])}" if lines else None

    return (
        Step(
            f"{commands}; true",
            "no connection of an earlier trial is left",
            check=checked(left, checker, "no connection"),
            deadline_s=300.0,
        ),
    )
