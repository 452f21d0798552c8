"""RFC 7599, sections 8.1 and 8.2: a MAP-T CE with a share of an address uses its own ports only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from v6t.plugins.clauses.base import Clause, clause
from v6t.plugins.clauses.packets import (
    ICMPV6,
    PAYLOAD,
    TCP,
    UDP,
    echo_word,
    icmp6,
    ip4,
    ip6,
    tcp,
    udp,
)
from v6t.plugins.clauses.reading import Packet
from v6t.plugins.clauses.translator import TranslatorEnds, from_four, from_six, not_from_six

if TYPE_CHECKING:
    from v6t.plugins.common.ports import PortSet

_RFC = "RFC 7599"


def clauses(t: TranslatorEnds, ports: PortSet) -> Iterator[Clause]:
    """Yield clauses about the edges of a port set, and about ports of other CEs."""
    edges = sorted(
        {p for low, high in (ports.ranges[0], ports.ranges[-1]) for p in (low, high) if p}
    )
    beside = [p for edge in edges for p in (edge - 1, edge + 1) if 0 < p < 65536 and p not in ports]
    if not beside:
        return
    six, four = (t.six, t.four6), (t.four, t.six4[0])
    foreign = beside[0]

    def received(beyond: list[Packet], back: list[Packet]) -> str:
        del back
        found = sorted(p.ports[1] for p in beyond)
        return "" if found == edges else f"packets for the ports {found}"

    def from_own_port(beyond: list[Packet], back: list[Packet]) -> str:
        del back
        wrong = [p for p in beyond if p.ports[0] not in ports]
        return f"from port {wrong[0].ports[0]}" if wrong else ""

    yield clause(
        _RFC,
        "8.2",
        "edges",
        "MUST",
        f"packets for the ports {_listed(edges)} of the CE are forwarded",
        from_six(
            t,
            [ip6(*six, UDP, udp(*six, (t.port, port))) for port in edges],
            f"{len(edges)} packets",
            received,
        ),
    )
    packets = {
        "udp": [ip6(*six, UDP, udp(*six, (t.port, port))) for port in beside],
        "tcp": [ip6(*six, TCP, tcp(*six, (t.port, foreign)))],
        "icmp": [ip6(*six, ICMPV6, icmp6(*six, 128, 0, echo_word(foreign), PAYLOAD))],
    }
    for name, some in packets.items():
        what = "identifier" if name == "icmp" else "port"
        yield clause(
            _RFC,
            "8.2",
            f"foreign-{name}",
            "MUST",
            f"{name.upper()} for {what} {_listed(beside[: len(some)])}, which the CE does not have, "
            "is silently dropped",
            not_from_six(t, some, "nothing", silently=True),
        )
    yield clause(
        _RFC,
        "8.1",
        "own-port",
        "MUST",
        f"what a host behind the CE sends from port {foreign} leaves with a port of the CE's, if at all",
        from_four(
            t,
            lambda where: ip4(*four, UDP, udp(*four, (foreign, where[1]))),
            "a port of the CE's, or nothing",
            from_own_port,
        ),
    )


def _listed(ports: Sequence[int]) -> str:
    return ", ".join(map(str, ports))
