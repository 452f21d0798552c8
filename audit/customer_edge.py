"""The suite ``customer-edge`` of MAP-E CEs and lwB4s without NAPT; clauses about the ports of MAP-T CEs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet, Raw
from v6t.audit.clause import Clause, Subject, Suite
from v6t.audit.ip_packet import PROTOCOLS, IPPacket, find_inner_packet, get_port
from v6t.audit.packets import DATA, PORT, SERVER_PORT, header, transport
from v6t.audit.rfc7915 import TranslatorHosts
from v6t.audit.row import LinkHosts, Row, make_row_clauses
from v6t.plugins.audit_views import CustomerEdge, SideName
from v6t.plugins.ports import PortSet

STRANGERS4 = IPv4Address("198.51.100.77"), IPv4Address("192.0.2.77")
STRANGER6 = IPv6Address("2001:db8:dead::77")
NUMBERS = {"udp": "port", "tcp": "port", "icmp": "identifier"}
# RFC, section of what the CE receives, and of what it sends
SECTIONS = {"MAP-E": ("RFC 7597", "8.1", "8"), "lw4o6": ("RFC 7596", "5.2", "5.2")}


class CustomerEdgeSuite(Suite):
    """Clauses for customer edges of MAP-E and lightweight 4over6."""

    name = "customer-edge"
    core = ("down-udp", "up-udp", "other-relay", "foreign-address")

    def list_clauses(self, subject: Subject, variant: str = "") -> Iterable[Clause]:
        view = subject.find(CustomerEdge)
        if view is None or view.relay is None or variant:
            return ()
        port = view.ports.middle_port if view.ports.psid_len else PORT
        return make_row_clauses(EdgeHosts(view, port), subject.wire, _make_edge_rows)


@dataclass(frozen=True)
class EdgeHosts(LinkHosts):
    """The server, whose packets go ``down`` the tunnel, and the customer's host, whose packets go ``up``."""

    view: CustomerEdge
    port: int

    def plain(self, side: SideName) -> Packet:
        return self.down(self.port) if side == "left" else self.up(self.port)

    def down(self, port: int, protocol: str = "udp", relay: Any = None, ipv4: Any = None) -> Packet:
        tunnel = header(relay or self.view.relay, self.view.ipv6)
        inner = header(self.view.server, ipv4 or self.view.ipv4[0])
        return tunnel / inner / transport(protocol, SERVER_PORT, port)

    def up(self, port: int, protocol: str = "udp") -> Packet:
        return header(self.view.ipv4[0], self.view.server) / transport(protocol, port, SERVER_PORT)

    def to_host(self, port: int, protocol: str = "udp") -> Packet:
        return IP(dst=str(self.view.ipv4[0])) / transport(protocol, SERVER_PORT, port)

    def to_relay(self, port: int, protocol: str = "udp") -> Packet:
        tunnel = IPv6(src=str(self.view.ipv6), dst=str(self.view.relay))
        return tunnel / IP() / transport(protocol, port, SERVER_PORT)


# fmt: off
def _make_edge_rows(h: EdgeHosts) -> Iterator[Row]:
    v, port, (rfc, receiving, sending) = h.view, h.port, SECTIONS[h.view.kind]
    down, up = partial(Row, rfc, receiving), partial(Row, rfc, sending, side="right")
    edges, foreign = find_edge_ports(v.ports), find_neighbor_ports(v.ports)
    for name in PROTOCOLS:
        yield down(f"down-{name}", f"{name.upper()} from the relay for the customer is decapsulated",
                   h.down(port, name), h.to_host(port, name), plain=name == "udp")
        yield up(f"up-{name}", f"{name.upper()} of the customer is sent to the relay in a tunnel",
                 h.up(port, name), h.to_relay(port, name), plain=name == "udp")
    yield down("edges-down", f"packets for the ports {format_ports(edges)} of the customer are forwarded",
               list(map(h.down, edges)), list(map(h.to_host, edges)))
    yield up("edges-up", f"packets from the ports {format_ports(edges)} of the customer are forwarded",
             list(map(h.up, edges)), list(map(h.to_relay, edges)))
    yield down("other-relay", "a tunnel packet that does not come from the relay is dropped",
               h.down(port, relay=STRANGER6))
    yield down("foreign-address",
               "a packet from the tunnel for an IPv4 address that is not the customer's is dropped",
               h.down(port, ipv4=next(address for address in STRANGERS4 if address not in v.ipv4)))
    for name in PROTOCOLS if foreign and v.kind == "lw4o6" else ():
        yield down(f"foreign-port-{name}", f"{name.upper()} from the tunnel for {NUMBERS[name]} {foreign[0]}"
                   ", which the customer does not have, is dropped", h.down(foreign[0], name))
    for name in PROTOCOLS if foreign else ():
        yield up(f"own-{name}", f"{name.upper()} that a host sends from {NUMBERS[name]} "
                 f"{foreign[0]} is dropped or leaves with one of the customer's",
                 h.up(foreign[0], name), partial(_check_source_ports, v.ports))


def make_port_rows(h: TranslatorHosts, ports: PortSet) -> Iterator[Row]:
    """Return the clauses about the port set of a MAP-T CE and about ports of other CEs."""
    edges, foreign, v = find_edge_ports(ports), find_neighbor_ports(ports), h.view
    if not foreign:
        return
    up = partial(Row, "RFC 7599", "8.2", side=v.ipv6_side)
    yield up("edges", f"packets for the ports {format_ports(edges)} of the CE are forwarded",
             [h.ip6() / transport("udp", v.port, port) for port in edges],
             [h.at4() / UDP(dport=port) for port in edges])
    for name, some in {"udp": foreign, "tcp": foreign[:1], "icmp": foreign[:1]}.items():
        yield up(f"foreign-{name}", f"{name.upper()} for {NUMBERS[name]} {format_ports(some)}, "
                 "which the CE does not have, is silently dropped",
                 [h.ip6() / transport(name, port if name == "icmp" else v.port, port, 6) for port in some],
                 silent=True)
    yield Row("RFC 7599", "8.1", "own-port",
              f"a packet from a host behind the CE with port {foreign[0]} is dropped or leaves "
              "with a port of the CE",
              h.ip4() / UDP(sport=foreign[0], dport=h.port4) / Raw(DATA), partial(_check_source_ports, ports),
              side=v.ipv4_side)
# fmt: on


def find_edge_ports(ports: PortSet) -> list[int]:
    """Return the ends of the first and the last port range, without port 0."""
    return sorted({port for ends in (ports.ranges[0], ports.ranges[-1]) for port in ends if port})


def find_neighbor_ports(ports: PortSet) -> list[int]:
    """Return the ports next to the first and last range that are not in the set."""
    edges = (*ports.ranges[0], *ports.ranges[-1])
    return sorted({p for e in edges for p in (e - 1, e + 1) if 0 < p < 65536 and p not in ports})


def format_ports(ports: list[int]) -> str:
    """Format ports for the title of a clause."""
    return ", ".join(map(str, ports))


def _check_source_ports(ports: PortSet, far: list[IPPacket]) -> str:
    sources = [get_port(find_inner_packet(packet) or packet, is_source=True) for packet in far]
    return next((f"from port {port}" for port in sources if port not in ports), "")
