"""nftables: the kernel's stateful NAT66, IPv6 clients behind public IPv6 addresses and ports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from v6t.drivers.duts.kinds.linux.base import write_file
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.kinds.netfilter.driver import NetfilterNat
from v6t.drivers.duts.plan import Step, Was, contains

LIST = "nft list table ip6 v6t"


class Nftables66(NetfilterNat):
    """SNAT in a table of v6t's own."""

    name = "nftables66"
    title = "Linux kernel NAT66 with nftables"
    technologies: ClassVar[tuple[str, ...]] = ("nat66",)
    executed = "configured, verified, measured, flushed and restored with real frames (nft 1.0.6)"
    versions = ("1.0.6",)
    programs: Mapping[str, str] = {"nft": "nftables", "conntrack": "conntrack"}
    version_command = "nft --version"
    version = 6

    def rules(self, pool: nat.Pool, port: str) -> list[Step]:
        """See the base class."""
        rules = [
            f'ip6 saddr {net} oifname "{port}" meta l4proto udp counter snat to {pool.target}'
            for net in pool.inside
        ]
        return _table(self.options.state_dir, rules, pool)


def _table(place: str, rules: Sequence[str], pool: nat.Pool) -> list[Step]:
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
