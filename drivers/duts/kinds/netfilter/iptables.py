"""iptables (either backend): the kernel's stateful NAT44."""

from __future__ import annotations

from collections.abc import Mapping

from v6t.drivers.duts.driver import Reading
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.plan import Intent, Plan, Step, Was, contains
from v6t.profiles.errors import DutError

COMMENT = "-m comment --comment v6t"
SAVED = "iptables -t nat -S POSTROUTING"


class Iptables(LinuxDriver):
    """SNAT rules, told from others' by their comment."""

    name = "iptables"
    title = "Linux kernel NAT44 with iptables"
    technologies = ("nat44",)
    executed = "configured, verified with real frames, flushed and restored (iptables 1.8.9)"
    versions = ("1.8.9",)
    programs: Mapping[str, str] = {"iptables": "iptables", "conntrack": "conntrack"}
    version_command = "iptables --version"

    def survey(self) -> Mapping[str, str]:
        """See the base class."""
        return {**super().survey(), "forward": "iptables -S FORWARD"}

    def read_version(self, text: str) -> str:
        """``iptables v1.8.9 (nf_tables)``."""
        words = text.split()
        return words[1].lstrip("v") if len(words) > 1 else text.strip()

    def refuse(self, intent: Intent, facts: Facts) -> None:
        """Somebody's firewall drops what is forwarded."""
        super().refuse(intent, facts)
        if "-P FORWARD DROP" in facts.sections.get("forward", ""):
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
                *(_rule(pool, net, port) for net in pool.inside),
                *nat.conntrack(self.options, intent, facts),
            ],
            flush=nat.flush(pool.inside),
            notes=("source ports within the range are kept where they are free",),
        )

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


def _rule(pool: nat.Pool, net: str, port: str) -> Step:
    match = f"-s {net} -o {port} -p udp {COMMENT}"
    rule = f"{match} -j SNAT --to-source {pool.span}:{pool.low}-{pool.high}"
    return Step(
        f"iptables -w -t nat -A POSTROUTING {rule}",
        f"translate the connections of {net}",
        undo=f"iptables -w -t nat -D POSTROUTING {rule}",
        before=f"{SAVED} | grep -e '-s {net} .*--comment v6t ' || true",
        was=Was.FOREIGN,
        check=contains(SAVED, f"-s {net}", f"-o {port}", f"{pool.span}:{pool.low}-{pool.high}"),
    )
