"""NATs without a free port or session, and NATs whose table was emptied (RFC 6888, RFC 9693)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from scapy.packet import Packet
from v6t.audit.clause import Clause, Send, Steps
from v6t.audit.nat_hosts import (
    ICMP_QUERY,
    TCP_FLOW,
    UDP_FLOW,
    DeviceDead,
    Endpoint,
    Exchange,
    Flow,
    Heard,
    NatHosts,
    NotTestable,
    scenario,
)
from v6t.audit.nat_tcp import Connection
from v6t.audit.wire import icmp_type
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
# By variant: first word of the labels, mappings that fit, requirement of RFC 6888 and its title.
LIMITS = {
    PORT_BLOCKS: ("block", FEW_PORTS, "REQ-4",
                  "a host gets as many public ports as it may have, and no more"),
    FEW_PUBLIC_PORTS: ("full", FEW_PORTS, "REQ-11", "without a free public port a packet is dropped"),
    SMALL_TABLE: ("table", SMALL_TABLE_SESSIONS, "REQ-11", "without room for a session a packet is dropped"),
}  # fmt: skip


@dataclass(frozen=True)
class FilledTable:
    """What one host got that requested more mappings with one server than fit.

    Attributes:
        mapped: public endpoints by inside port, in order.
        refused: inside ports without a mapping.
        notified: an ICMP error reported a refused datagram.
    """

    mapped: Mapping[int, Endpoint]
    refused: Sequence[int]
    notified: bool

    @property
    def endpoints(self) -> set[Endpoint]:
        """Public endpoints."""
        return set(self.mapped.values())


def flush_first(clause: Clause) -> Clause:
    """Return a clause that empties the table first: earlier mappings may leave no room."""
    return replace(clause, steps=partial(_flush_then, clause.steps))


def _flush_then(steps: Callable[[], Steps]) -> Steps:
    yield Send((), before="flush")
    return (yield from steps())


def fill_table(h: NatHosts, room: int, host: int = 0) -> Generator[Send, Heard, FilledTable]:
    """Empty the table, then request more mappings than fit, from even and odd ports in turn.

    Raises:
        NotTestable: the host gets no mapping.
    """
    yield Send((), before="flush")
    mapped: dict[int, Endpoint] = {}
    refused: list[int] = []
    notified, server = False, h.server(0)
    while len(mapped) + len(refused) < room + EXCESS_MAPPINGS and len(refused) < EXCESS_MAPPINGS:
        port = next(h.ports)
        heard = yield from h.send(h.request(UDP_FLOW, host, port, server))
        public = h.public_source(heard, UDP_FLOW, server)
        if public is not None:
            mapped[port] = public
            continue
        refused.append(port)
        notified |= any(icmp_type(packet) in UNREACHABLE for packet in h.errors_at(heard, host))
    if not mapped:
        raise NotTestable("no valid packet comes out, so no mapping can be observed")
    return FilledTable(mapped, refused, notified)


# fmt: off
def limit_clauses(h: NatHosts, variant: str) -> Iterator[Clause]:
    """Return the clauses for a NAT with few ports or sessions."""
    if variant not in LIMITS:
        return
    label, room, section, title = LIMITS[variant]
    yield scenario("RFC 6888", section, f"{label}-limit", "MUST", title,
                   f"no more than {room} public ports for one server", partial(check_limit, h, room))
    yield scenario("RFC 6888", "REQ-11", f"{label}-told", "SHOULD",
                   "a host that gets no mapping receives an ICMP unreachable",
                   "ICMP host unreachable or prohibited, inside", partial(check_notification, h, room),
                   rate_limited=True)
    yield scenario("RFC 6888", "REQ-11", f"{label}-keeps", "MUST",
                   "no mapping is ended to make room for another one",
                   "answers over all mappings, at their hosts' ports", partial(check_mappings_stay, h, room))
    if variant == PORT_BLOCKS:
        yield scenario("RFC 6888", "REQ-14", "block-contiguous", "SHOULD",
                       "the public ports of a host are one block, those of another host another block",
                       f"two disjoint blocks of {FEW_PORTS} ports", partial(check_blocks, h))
        yield scenario("RFC 6888", "REQ-4", "block-others", "MUST",
                       "a host that has used up its ports takes none from others",
                       "a mapping of the second host",
                       partial(check_second_host, h))


def flush_clauses(h: NatHosts) -> Iterator[Clause]:
    """Return the clauses about a table that is emptied, and about a device that is configured again."""
    yield scenario("RFC 4787", "REQ-3", "configured-again", "MUST",
                   "a device that is configured again serves hosts, and reassigns no used endpoint",
                   "a mapping and its answer for the second host, and no endpoint of the first",
                   partial(check_reset, h))
    for name, flow, words in (
        ("udp", UDP_FLOW, "UDP mapping"), ("tcp", TCP_FLOW, "TCP connection"), ("icmp", ICMP_QUERY,
                                                                                "ICMP query"),
    ):
        yield scenario("RFC 9693", "4.8", f"flush-{name}", "MUST",
                       f"no {words} is left of a table that was emptied",
                       "nothing inside", partial(check_flush, h, flow))
# fmt: on


def check_limit(h: NatHosts, room: int) -> Exchange:
    """Count the public endpoints of a host that requests too many."""
    table = yield from fill_table(h, room)
    counts = len(table.mapped), len(table.endpoints), len(table.refused)
    words = "{} mappings, {} public endpoints, {} refused".format(*counts)
    return len(table.endpoints) <= room and bool(table.refused), words


def check_notification(h: NatHosts, room: int) -> Exchange:
    """Look for an ICMP error about a refused datagram."""
    table = yield from fill_table(h, room)
    if not table.refused:
        raise NotTestable(f"{len(table.mapped)} mappings and room for more")
    return table.notified, "as expected" if table.notified else "nothing"


def check_mappings_stay(h: NatHosts, room: int) -> Exchange:
    """Send an answer over every mapping of a full table."""
    table = yield from fill_table(h, room)
    for port, public in table.mapped.items():
        heard = yield from h.send_down(h.answer(UDP_FLOW, h.server(0), public))
        if not h.at_host(heard, 0, UDP_FLOW, port):
            return False, f"{public}: {h.wire.describe(heard)}"
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
    public = yield from h.try_mapping(UDP_FLOW, 1, next(h.ports), h.server(0))
    return public is not None, str(public or "nothing")


def check_reset(h: NatHosts) -> Exchange:
    """Open a mapping of another host after the device was configured again."""
    port, server = next(h.ports), h.server(0)
    before = yield from h.open_mapping(UDP_FLOW, 0, port, server)
    yield Send((), before="reset")
    after = yield from h.try_mapping(UDP_FLOW, 1, port, server)
    if after is None:
        return False, "nothing passes afterwards"
    heard = yield from h.send_down(h.answer(UDP_FLOW, server, after))
    if not h.at_host(heard, 1, UDP_FLOW, port):
        return False, h.wire.describe(heard)
    heard = yield from h.send_down(h.answer(UDP_FLOW, server, before))
    is_alive = [host for host, _ in h.find_arrivals(heard)] == [0]
    state = "still reaches its host" if is_alive else "is gone"
    words = f"{before} before, {after} afterwards; the old one {state}"
    return before != after or not is_alive, words


def open_for_late_answer(h: NatHosts, flow: Flow) -> Generator[Send, Heard, Packet]:
    """Open a session and return an answer to send later."""
    if flow is TCP_FLOW:
        connection = Connection.new(h)
        yield from connection.open()
        return connection.server_segment("A", b"late")
    public = yield from h.open_mapping(flow, 0, next(h.ports), h.server(0))
    return h.answer(flow, h.server(0), public)


def check_flush(h: NatHosts, flow: Flow) -> Exchange:
    """Send an answer before and after the table is emptied."""
    late = yield from open_for_late_answer(h, flow)
    if not h.find_arrivals((yield from h.send_down(late))):
        raise NotTestable("the answer does not pass before either")
    yield Send((), before="flush")
    yield from h.open_mapping(UDP_FLOW, 0, next(h.ports), h.server(0))
    heard = yield from h.send_down(late)
    if h.find_arrivals(heard):
        return False, h.wire.describe(heard)
    if (yield from h.try_mapping(UDP_FLOW, 0, next(h.ports), h.server(0))) is None:
        raise DeviceDead("nothing, and nothing else passes any more")
    return True, "as expected"
