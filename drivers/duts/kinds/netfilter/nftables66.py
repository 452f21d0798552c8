"""nftables: the kernel's stateful NAT66, IPv6 clients behind public IPv6 addresses and ports."""

from __future__ import annotations

from collections.abc import Sequence

from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.kinds.netfilter.nftables import Nftables, has_rules, table
from v6t.drivers.duts.plan import Step
from v6t.intent.families import Nat66Config


class Nftables66(Nftables):
    """SNAT in a table of v6t's own."""

    name = "nftables66"
    title = "Linux kernel NAT66 with nftables"
    accepts = (Nat66Config,)
    executed = "configured, verified, measured, flushed and restored with real frames (nft 1.0.6)"
    version = 6
    forward = None
    limits = ()

    def rules(self, pools: Sequence[nat.Pool], port: str) -> list[Step]:
        [pool] = pools
        rules = [
            f'ip6 saddr {net} oifname "{port}" meta l4proto udp counter snat to {pool.target}'
            for net in pool.inside
        ]
        listed = [rule.replace("/128 ", " ") for rule in rules]
        check = has_rules("nft list table ip6 v6t", "nat hook postrouting", *listed)
        return table(self.options.state_dir, nat.nft_table(rules, "ip6"), check, "ip6")
