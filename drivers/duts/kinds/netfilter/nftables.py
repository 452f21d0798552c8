"""nftables: the kernel's stateful NAT44."""

from __future__ import annotations

from collections.abc import Mapping

from v6t.drivers.duts.driver import Reading
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.linux.base import LinuxDriver, write_file
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.plan import Check, Intent, Plan, Step, Was, checked
from v6t.profiles.errors import DutError

LIST = "nft -j list table ip v6t"


class Nftables(LinuxDriver):
    """SNAT in a table of v6t's own."""

    name = "nftables"
    title = "Linux kernel NAT44 with nftables"
    technologies = ("nat44",)
    executed = "configured, verified with real frames, flushed and restored (nft 1.0.6)"
    versions = ("1.0.6",)
    programs: Mapping[str, str] = {"nft": "nftables", "conntrack": "conntrack"}
    version_command = "nft --version"

    def survey(self) -> Mapping[str, str]:
        """See the base class."""
        return {**super().survey(), "forward": "nft list chain ip filter FORWARD"}

    def read_version(self, text: str) -> str:
        """``nftables v1.0.6 (Lester Gooch #5)``."""
        words = text.split()
        return words[1].lstrip("v") if len(words) > 1 else text.strip()

    def refuse(self, intent: Intent, facts: Facts) -> None:
        """Somebody's firewall drops what is forwarded."""
        super().refuse(intent, facts)
        if "policy drop" in facts.sections.get("forward", ""):
            raise DutError(
                "the device's chain FORWARD drops what no rule of its own accepts",
                "that is another program's firewall (Docker, ufw): use a device without it",
            )

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        """See the base class."""
        pool, port = nat.pool_of(intent), self.port(intent, "right")
        return self.finish(
            facts,
            [
                *self.base(intent, facts),
                *table(self.options.state_dir, nat.nft_table(nat.nft_rules(pool, port)),
                       listing(pool, port)),
                *nat.conntrack(self.options, intent, facts),
            ],
            flush=nat.flush(pool.inside),
            notes=("source ports within the range are kept where they are free",),
        )  # fmt: skip

    def sessions(self, intent: Intent) -> Reading | None:
        """See the base class."""
        return nat.reading()

    def table(self, intent: Intent) -> Reading | None:
        """See the base class."""
        return nat.table()

    def telemetry(self, intent: Intent) -> Mapping[str, Reading]:
        """Connections, and those that could not be made."""
        return {
            **super().telemetry(intent),
            "sessions": nat.reading(),
            "conntrack": nat.statistics(),
        }


def listing(pool: nat.Pool, port: str) -> Check:
    """The table reads back."""
    return checked(LIST, lambda out: nat.read_nft(out, pool, port), "the rules of the plan")


def table(place: str, text: str, check: Check) -> list[Step]:
    """The rules: checked first, then loaded in one transaction."""
    file = f"{place}/v6t.nft"
    return [
        write_file(file, text, "the rules"),
        Step(
            f"nft -c -f {file} && nft -f {file}",
            "translate the clients' connections",
            undo="nft delete table ip v6t",
            before="nft list table ip v6t 2>/dev/null || true",
            was=Was.FOREIGN,
            check=check,
        ),
    ]
