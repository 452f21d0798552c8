"""What drivers of the Linux kernel's stateful NAT have in common; each writes its own rules."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from v6t.base.errors import DutError
from v6t.drivers.duts.driver import Reading
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.linux.base import OWN_TIMEOUT_S, LinuxDriver
from v6t.drivers.duts.kinds.netfilter import nat
from v6t.drivers.duts.plan import Intent, Plan, Step, line_with


class ConntrackDevice(LinuxDriver):
    """A device whose connections the kernel's conntrack keeps."""

    options_model = nat.ConntrackOptions

    def timeout_s(self, intent: Intent) -> float | None:
        return float(self.options.udp_s(intent) or OWN_TIMEOUT_S)

    def sessions(self, intent: Intent) -> Reading | None:
        return nat.reading()

    def table(self, intent: Intent) -> Reading | None:
        return nat.table(self.options.log)

    def telemetry(self, intent: Intent) -> Mapping[str, Reading]:
        return {
            **super().telemetry(intent),
            "sessions": nat.reading(),
            "table": nat.occupancy(),
            "conntrack": nat.statistics(),
        }


class NetfilterNat(ConntrackDevice):
    """NAT by rules for the connections of the clients' networks."""

    has_filters = True
    version_pattern = r"\bv(\d\S*)"
    version: ClassVar[int] = 4
    """Of IP."""
    limits: ClassVar[tuple[str, ...]] = ("port_block", "udp_timeout_s")
    """What can be told beside addresses and ports, by the names of the settings."""
    forward: ClassVar[tuple[str, str] | None] = None
    """A command that lists the chain FORWARD, and how it says that it drops what no rule takes."""

    @abstractmethod
    def rules(self, pools: Sequence[nat.Pool], port: str) -> list[Step]:
        """Translate what leaves through an interface.

        Args:
            pools: clients, public addresses and ports; several where clients have blocks of ports.
            port: the interface.
        """

    def survey(self) -> Mapping[str, str]:
        more = {} if self.forward is None else {"forward": self.forward[0]}
        return {**super().survey(), **more}

    def refuse(self, intent: Intent, facts: Facts) -> None:
        super().refuse(intent, facts)
        listed = facts.sections.get("forward", "")
        if self.forward is not None and line_with(listed, self.forward[1]) is not None:
            raise DutError(
                "the device's chain FORWARD drops what no rule of its own accepts",
                "that is another program's firewall (Docker, ufw): use a device without it",
                code="firewall-blocks",
            )

    def steps(self, intent: Intent, facts: Facts) -> Plan:
        pool = nat.pool_of(intent, self.version, self.limits)
        steps = [
            *self.base(intent, facts),
            *self.rules(nat.shares(pool, intent), self.port(intent, "right")),
            *nat.conntrack(self.options, intent, facts),
            *nat.logging(self.options),
        ]
        notes = ("source ports within the range are kept where they are free",)
        return self.finish(facts, steps, nat.flush(pool.inside), notes=notes)
