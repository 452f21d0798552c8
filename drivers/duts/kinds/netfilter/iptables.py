"""iptables (either backend): the kernel's stateful NAT44."""

from __future__ import annotations

from collections.abc import Mapping

from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.kinds.netfilter.driver import NetfilterNat
from v6t.drivers.duts.plan import Step, Was, contains

COMMENT = "-m comment --comment v6t"
SAVED = "iptables -t nat -S POSTROUTING"


class Iptables(NetfilterNat):
    """SNAT rules, told from others' by their comment."""

    name = "iptables"
    title = "Linux kernel NAT44 with iptables"
    technologies = ("nat44",)
    executed = "configured, verified with real frames, flushed and restored (iptables 1.8.9)"
    versions = ("1.8.9",)
    programs: Mapping[str, str] = {"iptables": "iptables", "conntrack": "conntrack"}
    version_command = "iptables --version"
    forward = ("iptables -S FORWARD", "-P FORWARD DROP")

    def rules(self, pool: nat.Pool, port: str) -> list[Step]:
        """One for each network."""
        return [_rule(pool, net, port) for net in pool.inside]


def _rule(pool: nat.Pool, net: str, port: str) -> Step:
    match = f"-s {net} -o {port} -p udp {COMMENT}"
    rule = f"{match} -j SNAT --to-source {pool.target}"
    return Step(
        f"iptables -w -t nat -A POSTROUTING {rule}",
        f"translate the connections of {net}",
        undo=f"iptables -w -t nat -D POSTROUTING {rule}",
        before=f"{SAVED} | grep -e '-s {net} .*--comment v6t ' || true",
        was=Was.FOREIGN,
        check=contains(SAVED, f"-s {net}", f"-o {port}", pool.target),
    )
