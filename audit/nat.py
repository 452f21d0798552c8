"""The suite ``nat``: mapping, filtering, hairpinning, ICMP errors and fragments through NATs.

RFC 4787, 5382, 5508, 6888 and 7857 by the numbers of their requirements. DS-Lite (RFC 6333, section 8.2) and
NAT64 (RFC 6146) require the same. No RFC covers NAT66: what these RFCs require is information there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address

from v6t.audit import nat_mapping, nat_state
from v6t.audit.clause import Clause, Subject, Suite
from v6t.audit.nat_session import FIRST_PORT, NatHosts, NatScenario
from v6t.audit.translation import prefix_requirement
from v6t.plugins.audit_views import TWO_PUBLIC_ADDRESSES, Nat
from v6t.plugins.translation import may_represent

ROWS: dict[str, Iterable[NatScenario]] = {
    "": (*nat_mapping.ROWS, *nat_state.ROWS),
    TWO_PUBLIC_ADDRESSES: nat_mapping.POOLING,
    **nat_state.VARIANTS,
}
"""By configuration; the empty name is the audit's own."""


class NatSuite(Suite):
    """For NATs with two hosts and two servers."""

    name = "nat"
    title = "NATs: mapping, filtering, hairpinning, ICMP, TCP, fragments, limits and timers"
    core = ("REQ-1-mapped", "endpoint-independent", "REQ-3-overloading")

    def requirement(self, subject: Subject) -> tuple[str, str] | None:
        """Refuse a single host on a side, and private servers behind the well-known prefix."""
        view = subject.find(Nat)
        if view is None:
            return None
        if min(len(view.hosts), len(view.servers)) < 2:
            return (
                "the suite needs two Initiators and two Responders",
                "set initiator_count and responder_count to 2 or more, and enumerate_ips to 3",
            )
        prefix, servers = view.prefix, [s for s in view.servers if isinstance(s, IPv4Address)]
        hidden = [s for s in servers if prefix is not None and not may_represent(prefix, s)]
        return prefix_requirement(hidden[0]) if hidden else None

    def clauses(self, subject: Subject, variant: str = "") -> Iterator[Clause]:
        """Leave out the clauses that the hosts or the port range of a NAT do not allow."""
        view = subject.find(Nat)
        if view is None or self.requirement(subject):
            return
        h, prefix, (low, high) = NatHosts(view, subject.wire), view.prefix, view.public
        can_hairpin = prefix is None or all(may_represent(prefix, a) for a in view.pool)  # type: ignore[arg-type]
        for row in ROWS.get(variant, ()):
            can_preserve = not view.port_block and low <= FIRST_PORT and high >= FIRST_PORT + 1023
            is_possible = can_hairpin or "hairpin" not in row.label
            if is_possible and (can_preserve or row.label != "port-preserved"):
                yield row.clause(h)
