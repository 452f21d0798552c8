"""The suite ``customer-edge``: what a MAP-E CE or lwB4 without its NAPT accepts from the relay and its hosts.

The clauses of a MAP-T CE are in the suite ``translation`` (RFC 7599).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from ipaddress import IPv4Address, IPv6Address

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet, Raw
from v6t.audit.clause import Clause, Subject, Suite
from v6t.audit.match import checksum_error
from v6t.audit.rfc7599 import edge_ports, list_ports, neighbor_ports
from v6t.audit.row import Row, row_clause, row_steps
from v6t.audit.translator_hosts import DATA, TTL
from v6t.audit.wire import dissect, ports_of, protocol_of, summary, transport_octets
from v6t.plugins.audit_views import CustomerEdge

SERVER_PORT = 443
_STRANGERS4 = IPv4Address("198.51.100.77"), IPv4Address("192.0.2.77")
_STRANGER6 = IPv6Address("2001:db8:dead::77")
# RFC and section of each subject
RECEIVING = {"MAP-E": ("RFC 7597", "8.1"), "lw4o6": ("RFC 7596", "5.2")}
SENDING = {"MAP-E": ("RFC 7597", "8"), "lw4o6": ("RFC 7596", "5.2")}


class CustomerEdgeSuite(Suite):
    """For the customer's side of MAP-E and lightweight 4over6."""

    name = "customer-edge"
    title = "CEs of MAP-E and lwB4s: relay, addresses and ports of the customer"
    core = ("down-udp", "up-udp", "other-relay", "foreign-address")

    def clauses(self, subject: Subject) -> Iterator[Clause]:
        view = subject.find(CustomerEdge)
        if view is None or view.relay is None:
            return
        h = _Hosts(view, view.relay)
        for row in rows(h):
            control = h.down(h.port) if row.side == "left" else h.up(h.port)
            steps = partial(row_steps, row, subject.wire, None if row.plain else control)
            yield row_clause(row, "", steps)


class _Hosts:
    """The relay's server and a host of the customer."""

    def __init__(self, view: CustomerEdge, relay: IPv6Address) -> None:
        self.view, self.relay = view, relay
        self.host = view.ipv4.network_address
        ports = view.ports
        low, high = ports.ranges[-1]
        self.port = ((low + high) // 2 or high) if ports.psid_len else 40123

    def down(self, port: int, protocol: str = "udp", **ends: object) -> Packet:
        """Return a tunnel packet of the server for the customer."""
        source, destination = ends.get("outer", self.relay), ends.get("ipv4", self.host)
        inner = IP(src=str(self.view.server), dst=str(destination), ttl=TTL)
        outer = IPv6(src=str(source), dst=str(self.view.ipv6), hlim=TTL)
        return outer / inner / _transport(protocol, SERVER_PORT, port, 0)

    def up(self, port: int, protocol: str = "udp", source: IPv4Address | None = None) -> Packet:
        """Return a packet of the customer's host for the server."""
        header = IP(src=str(source or self.host), dst=str(self.view.server), ttl=TTL)
        return header / _transport(protocol, port, SERVER_PORT, 8)

    def reach_host(self, ports: list[int], far: list[Packet]) -> str:
        """Check that the host received one correct packet for each of these ports."""
        seen = sorted(ports_of(p)[1] for p in far)
        if seen != sorted(ports):
            return f"packets for the ports {seen}"
        for packet in far:
            if packet.dst != str(self.host) or checksum_error(packet):
                return f"a wrong packet: {summary(packet)}"
        return ""

    def reach_relay(self, ports: list[int], far: list[Packet]) -> str:
        """Check that the relay received one correct tunnel packet from each of these ports."""
        inners = []
        for packet in far:
            octets = transport_octets(packet)
            ends = IPv6Address(packet.src), IPv6Address(packet.dst)
            if protocol_of(packet) != 4 or ends != (self.view.ipv6, self.relay):
                return f"no tunnel packet for the relay: {summary(packet)}"
            inners.append(dissect(octets))
        seen = sorted(ports_of(p)[0] for p in inners)
        if seen != sorted(ports):
            return f"packets from the ports {seen}"
        return next(filter(None, map(checksum_error, inners)), "")

    def own_ports_only(self, far: list[Packet]) -> str:
        """Check that all packets that leave have a port of the customer."""
        for packet in far:
            octets = transport_octets(packet)
            port = ports_of(dissect(octets))[0] if protocol_of(packet) == 4 else 0
            if port not in self.view.ports:
                return f"from port {port}"
        return ""


# fmt: off
def rows(h: _Hosts) -> Iterator[Row]:
    """Return all clauses of a CE or lwB4."""
    v = h.view
    (rfc, section), (_, sending) = RECEIVING[v.kind], SENDING[v.kind]
    down = partial(Row, rfc=rfc, section=section, side="left", level="MUST")
    up = partial(Row, rfc=rfc, section=sending, side="right", level="MUST")
    for name in ("udp", "tcp", "icmp"):
        yield down(label=f"down-{name}",
                   title=f"{name.upper()} from the relay for the customer is decapsulated",
                   packet=h.down(h.port, name), answer=partial(h.reach_host, [h.port]), plain=name == "udp",
                   expected=f"IPv4 to {h.host}")
        yield up(label=f"up-{name}", title=f"{name.upper()} of the customer is sent to the relay in a tunnel",
                 packet=h.up(h.port, name), answer=partial(h.reach_relay, [h.port]), plain=name == "udp",
                 expected=f"IPv6 {v.ipv6} > {h.relay} with it inside")
    edges = edge_ports(v.ports)
    yield down(label="edges-down",
               title=f"packets for the ports {list_ports(edges)} of the customer are forwarded",
               packet=[h.down(port) for port in edges], answer=partial(h.reach_host, edges),
               expected=f"{len(edges)} packets to {h.host}")
    yield up(label="edges-up",
             title=f"packets from the ports {list_ports(edges)} of the customer are forwarded",
             packet=[h.up(port) for port in edges], answer=partial(h.reach_relay, edges),
             expected=f"{len(edges)} packets to {h.relay}")
    yield down(label="other-relay", packet=h.down(h.port, outer=_STRANGER6),
               title="a tunnel packet that does not come from the relay is dropped")
    stranger = next(address for address in _STRANGERS4 if address not in v.ipv4)
    yield down(label="foreign-address", packet=h.down(h.port, ipv4=stranger),
               title="a packet from the tunnel for an IPv4 address that is not the customer's is dropped")
    foreign = neighbor_ports(v.ports)
    if not foreign:
        return
    if v.kind == "lw4o6":
        for name in ("udp", "tcp", "icmp"):
            yield down(label=f"foreign-port-{name}", packet=h.down(foreign[0], name),
                       title=f"{name.upper()} from the tunnel for {_number(name)} {foreign[0]}, which the "
                       "customer does not have, is dropped")
    for name in ("udp", "tcp", "icmp"):
        yield up(label=f"own-{name}", packet=h.up(foreign[0], name), answer=h.own_ports_only,
                 title=f"{name.upper()} that a host sends from {_number(name)} {foreign[0]} leaves with "
                 "one of the customer's, if at all", expected="one of the customer's, or nothing")
# fmt: on


def _number(protocol: str) -> str:
    return "identifier" if protocol == "icmp" else "port"


def _transport(protocol: str, source: int, destination: int, echo: int) -> Packet:
    """Return a datagram, a SYN or an echo message; the customer's port is its identifier."""
    if protocol == "tcp":
        return TCP(sport=source, dport=destination)
    if protocol == "udp":
        return UDP(sport=source, dport=destination) / Raw(DATA)
    return ICMP(type=echo, id=source if echo else destination, seq=1) / Raw(DATA)
