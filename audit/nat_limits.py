"""NATs without a free port or session, and NATs whose table was emptied (RFC 6888, RFC 9693)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from v6t.audit.clause import Frame, Send
from v6t.audit.nat_hosts import (
    ICMP_QUERY,
    TCP_FLOW,
    UDP_FLOW,
    DeviceDead,
    Endpoint,
    Exchange,
    Flow,
    NatHosts,
    NatScenario,
    NatSession,
    NotTestable,
)
from v6t.audit.packets import icmp_type
from v6t.plugins.audit_views import (
    FEW_PORTS,
    FEW_PUBLIC_PORTS,
    PORT_BLOCKS,
    SMALL_TABLE,
    SMALL_TABLE_SESSIONS,
)

EXCESS_MAPPINGS = 3
"""Mappings that a host requests beyond those that fit."""
UNREACHABLE = ((3, 1), (3, 13), (1, 0), (1, 1), (1, 3))
"""ICMP and ICMPv6 host unreachable or prohibited (RFC 6888, REQ-11; RFC 5508, REQ-8; RFC 7915)."""


@dataclass
class FilledTable:
    """What one host got that requested more mappings with one server than fit.

    Attributes:
        mapped: sessions with a mapping, in order.
        refused: number of those without.
        is_notified: an ICMP error reported a refused datagram.
    """

    mapped: list[NatSession] = field(default_factory=list)
    refused: int = 0
    is_notified: bool = False

    @property
    def endpoints(self) -> set[Endpoint]:
        """Public endpoints."""
        return {s.public for s in self.mapped}


def fill_table(
    h: NatHosts, room: int, host: int = 0
) -> Generator[Send, Sequence[Frame], FilledTable]:
    """Request more mappings than fit the empty table, from even and odd ports in turn.

    Raises:
        NotTestable: the host gets no mapping.
    """
    table = FilledTable()
    while len(table.mapped) + table.refused < room + EXCESS_MAPPINGS:
        s = NatSession(h, UDP_FLOW, host)
        if (yield from s.send()):
            table.mapped.append(s)
            continue
        table.refused += 1
        table.is_notified |= any(icmp_type(p) in UNREACHABLE for p in h.errors_at(host))
        if table.refused == EXCESS_MAPPINGS:
            break
    if not table.mapped:
        raise NotTestable("no valid packet comes out, so no mapping can be observed")
    return table


def check_limit(h: NatHosts, room: int) -> Exchange:
    """Count the public endpoints of a host that requests too many."""
    table = yield from fill_table(h, room)
    counts = len(table.mapped), len(table.endpoints), table.refused
    words = "{} mappings, {} public endpoints, {} refused".format(*counts)
    return len(table.endpoints) <= room and bool(table.refused), words


def check_notification(h: NatHosts, room: int) -> Exchange:
    """Look for an ICMP error about a refused datagram."""
    table = yield from fill_table(h, room)
    if not table.refused:
        raise NotTestable(f"{len(table.mapped)} mappings and room for more")
    return table.is_notified, "as expected" if table.is_notified else "nothing"


def check_mappings_stay(h: NatHosts, room: int) -> Exchange:
    """Send an answer over every mapping of a full table."""
    table = yield from fill_table(h, room)
    for s in table.mapped:
        if not (yield from s.answer()):
            return False, f"{s.public}: {h.describe()}"
    if len(table.endpoints) > room:
        raise NotTestable("there is room for more")
    return True, "as expected"


def check_blocks(h: NatHosts) -> Exchange:
    """Compare the public ports of two hosts."""
    spans = []
    for host in (0, 1):
        table = yield from fill_table(h, FEW_PORTS, host)
        addresses, ports = {e.address for e in table.endpoints}, {e.port for e in table.endpoints}
        spans.append((str(min(addresses)), min(ports), max(ports)))
        if len(addresses) > 1 or max(ports) - min(ports) >= FEW_PORTS:
            return False, f"host {host + 1}: ports {min(ports)} to {max(ports)}"
    one, two = sorted(spans)
    words = f"{one[1]} to {one[2]}, {two[1]} to {two[2]}"
    return one[0] != two[0] or one[2] < two[1], words


def check_second_host(h: NatHosts) -> Exchange:
    """Open a mapping of a second host when the first has used up its ports."""
    table = yield from fill_table(h, FEW_PORTS)
    if not table.refused:
        raise NotTestable("the first host has room for more")
    s = NatSession(h, UDP_FLOW, 1)
    is_mapped = yield from s.send()
    return is_mapped, str(s.public) if is_mapped else "nothing"


def check_reset(h: NatHosts) -> Exchange:
    """Open a mapping of another host after the device was configured again."""
    before = NatSession(h, UDP_FLOW)
    after = NatSession(h, UDP_FLOW, 1, before.port)
    yield from before.open()
    yield Send((), before="reset")
    if not (yield from after.send()):
        return False, "nothing passes afterwards"
    if not (yield from after.answer()):
        return False
    yield from before.answer()
    is_alive = [host for host, _ in h.arrivals()] == [0]
    state = "still reaches its host" if is_alive else "is gone"
    words = f"{before.public} before, {after.public} afterwards; the old one {state}"
    return before.public != after.public or not is_alive, words


def check_flush(h: NatHosts, flow: Flow) -> Exchange:
    """Send an answer before and after the table is emptied."""
    s = yield from NatSession(h, flow).establish()
    if not (yield from s.prepare("A", b"late").repeat()):
        raise NotTestable("the answer does not pass before either")
    yield Send((), before="flush")
    yield from NatSession(h, UDP_FLOW).open()
    yield from s.repeat()
    if h.arrivals():
        return False
    if not (yield from NatSession(h, UDP_FLOW).send()):
        raise DeviceDead("nothing, and nothing else passes any more")
    return True, "as expected"


# fmt: off
BLOCKS = (
    NatScenario("RFC 6888", "REQ-14", "block-contiguous", "SHOULD",
                "the public ports of a host are one block, those of another host another block",
                f"two disjoint blocks of {FEW_PORTS} ports", check_blocks),
    NatScenario("RFC 6888", "REQ-4", "block-others", "MUST",
                "a host that has used up its ports takes none from others",
                "a mapping of the second host", check_second_host),
)
LIMITS = {
    variant: (
        NatScenario("RFC 6888", section, f"{label}-limit", "MUST", title,
                    f"no more than {room} public ports for one server", check_limit, (room,)),
        NatScenario("RFC 6888", "REQ-11", f"{label}-told", "SHOULD",
                    "a host that gets no mapping receives an ICMP unreachable",
                    "ICMP host unreachable or prohibited, inside", check_notification, (room,),
                    rate_limited=True),
        NatScenario("RFC 6888", "REQ-11", f"{label}-keeps", "MUST",
                    "no mapping is ended to make room for another one",
                    "answers over all mappings, at their hosts' ports", check_mappings_stay, (room,)),
        *(BLOCKS if variant == PORT_BLOCKS else ()))
    for variant, label, room, section, title in (
        (PORT_BLOCKS, "block", FEW_PORTS, "REQ-4",
         "a host gets as many public ports as it may have, and no more"),
        (FEW_PUBLIC_PORTS, "full", FEW_PORTS, "REQ-11", "without a free public port a packet is dropped"),
        (SMALL_TABLE, "table", SMALL_TABLE_SESSIONS, "REQ-11",
         "without room for a session a packet is dropped"))
}
FLUSHES = (
    NatScenario("RFC 4787", "REQ-3", "configured-again", "MUST",
                "a device that is configured again serves hosts, and reassigns no used endpoint",
                "a mapping and its answer for the second host, and no endpoint of the first", check_reset),
    *(NatScenario("RFC 9693", "4.8", f"flush-{name}", "MUST",
                  f"no {words} is left of a table that was emptied", "nothing inside", check_flush, (flow,))
      for name, flow, words in (("udp", UDP_FLOW, "UDP mapping"), ("tcp", TCP_FLOW, "TCP connection"),
                                ("icmp", ICMP_QUERY, "ICMP query"))),
)
# fmt: on
