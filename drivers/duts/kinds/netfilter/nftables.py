"""nftables: the kernel's stateful NAT44."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.linux.steps import write_file
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.kinds.netfilter.driver import NetfilterNat
from v6t.drivers.duts.kinds.spare import spare4
from v6t.drivers.duts.plan import Change, Check, Intent, Step, Was, checked, shown
from v6t.intent.families import DeviceConfig, Nat44Config

LIST = "nft -j list table ip v6t"


class Nftables(NetfilterNat):
    """SNAT in a table of v6t's own."""

    name = "nftables"
    title = "Linux kernel NAT44 with nftables"
    accepts: ClassVar[tuple[type[DeviceConfig], ...]] = (Nat44Config,)
    executed = "configured, verified, measured, flushed and restored with real frames (nft 1.0.6)"
    versions = ("1.0.6",)
    programs: Mapping[str, str] = {"nft": "nftables", "conntrack": "conntrack"}
    version_command = "nft --version"
    forward: ClassVar[tuple[str, str] | None] = ("nft list chain ip filter FORWARD", "policy drop")

    def rules(self, pools: Sequence[nat.Pool], port: str) -> list[Step]:
        text = nat.nft_table([rule for pool in pools for rule in nat.nft_rules(pool, port)])
        return table(self.options.state_dir, text, listing(pools, port))

    def beside(self, intent: Intent, facts: Facts) -> Change:
        """A rule for clients that are not there, from other ports when it is changed."""
        pool, port = nat.pool_of(intent, self.version, self.limits), self.port(intent, "right")
        look = "nft -a list chain ip v6t post 2>/dev/null | grep -F v6t-beside || true"
        handle = "$(nft -a list chain ip v6t post | sed -n '/v6t-beside/s/.*handle //p')"

        def rule(low: int) -> str:
            return (
                f'ip saddr {spare4(intent)} oifname "{port}" ip protocol udp counter snat to '
                f"{pool.span}:{low}-{pool.high} comment '\"v6t-beside\"'"
            )

        return Change(
            "a NAT rule",
            add=f"nft add rule ip v6t post {rule(pool.low)}",
            change=f"nft replace rule ip v6t post handle {handle} {rule(pool.low + 1)}",
            remove="for h in $(nft -a list chain ip v6t post 2>/dev/null | "
            "sed -n '/v6t-beside/s/.*handle //p'); do nft delete rule ip v6t post handle $h; done",
            look=look,
            added=f"snat to {pool.span}:{pool.low}-{pool.high}",
            changed=f"snat to {pool.span}:{pool.low + 1}-{pool.high}",
        )


def listing(pools: Sequence[nat.Pool], port: str) -> Check:
    """The table reads back."""

    def checker(output: str) -> str | None:
        return nat.read_nft(output, pools, port, nat.PROTOCOLS)

    return checked(LIST, checker, "the rules of the plan")


def has_rules(command: str, hook: str, *rules: str) -> Check:
    """Require a table whose only chain, at this hook, holds exactly these rules in this order.

    Args:
        command: lists the table as text.
        hook: type and hook of the chain, such as ``nat hook postrouting``.
        rules: as nft writes them, without the numbers of counters.
    """

    def checker(output: str) -> str | None:
        lines = [" ".join(line.split()) for line in output.splitlines()]
        content = [re.sub(r"counter packets \d+ bytes \d+", "counter", line) for line in lines]
        # a small system has no names of protocols
        content = [re.sub(r"(?<=meta l4proto )17\b", "udp", line) for line in content]
        content = [line for line in content if line and not line.endswith(("{", "}"))]
        head, *listed = content or [""]
        if not head.startswith(f"type {hook} priority ") or not head.endswith("; policy accept;"):
            return f"there is no chain of {hook}; the output is {shown(output)}"
        if listed != list(rules):
            wrong = next((r for r in rules if r not in listed), None)
            missing = f"'{wrong}' is missing" if wrong else "other rules are there, too"
            return f"{missing}; the output is {shown(output)}"
        return None

    return checked(command, checker, " and ".join(f"'{rule}'" for rule in rules))


def table(
    place: str,
    text: str,
    check: Check,
    family: str = "ip",
    why: str = "translate the clients' connections",
) -> list[Step]:
    """The rules: checked first, then loaded in one transaction."""
    file, name = f"{place}/v6t.nft", f"table {family} v6t"
    return [
        write_file(file, text, "the rules"),
        Step(
            f"nft -c -f {file} && nft -f {file}",
            why,
            undo=f"nft delete {name}",
            before=f"nft list {name} 2>/dev/null || true",
            was=Was.FOREIGN,
            check=check,
        ),
    ]
