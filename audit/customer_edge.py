"""The suite ``customer-edge``: what a MAP-E CE or lwB4 without its NAPT accepts from the relay and its hosts.

The suite ``translation`` has the clauses of a MAP-T CE; those about its ports are here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from ipaddress import IPv4Address, IPv6Address

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet, Raw
from v6t.audit import ip_packet
from v6t.audit.clause import Clause, Subject, Suite
from v6t.audit.packets import DATA, PORT, PROTOCOLS, SERVER_PORT, header, inner_packet, transport
from v6t.audit.rfc7915 import TranslatorHosts
from v6t.audit.row import Hosts, Row, row_clauses
from v6t.plugins.audit_views import CustomerEdge
from v6t.plugins.ports import PortSet

STRANGERS4 = IPv4Address("198.51.100.77"), IPv4Address("192.0.2.77")
STRANGER6 = IPv6Address("2001:db8:dead::77")
# RFC, section of what the CE receives, and of what it sends
SECTIONS = {"MAP-E": ("RFC 7597", "8.1", "8"), "lw4o6": ("RFC 7596", "5.2", "5.2")}


class CustomerEdgeSuite(Suite):
    """For the customer's side of MAP-E and lightweight 4over6."""

    name = "customer-edge"
    title = "CEs of MAP-E and lwB4s: relay, addresses and ports of the customer"
    core = ("down-udp", "up-udp", "other-relay", "foreign-address")

    def clauses(self, subject: Subject, variant: str = "") -> Iterable[Clause]:
        view = subject.find(CustomerEdge)
        if view is None or view.relay is None or variant:
            return ()
        low, high = view.ports.ranges[-1]
        port = ((low + high) // 2 or high) if view.ports.psid_len else PORT
        hosts = Hosts(left=send_down(view, port), right=send_up(view, port))
        return row_clauses(hosts, subject.wire, partial(rows, view, port))


def send_down(
    v: CustomerEdge,
    port: int,
    protocol: str = "udp",
    relay: IPv6Address | None = None,
    ipv4: IPv4Address | None = None,
) -> Packet:
    """Return a packet of the server in the relay's tunnel."""
    inner = header(v.server, ipv4 or v.ipv4[0]) / transport(protocol, SERVER_PORT, port)
    return header(relay or v.relay, v.ipv6) / inner


def send_up(v: CustomerEdge, port: int, protocol: str = "udp") -> Packet:
    """Return a packet of the customer's host."""
    return header(v.ipv4[0], v.server) / transport(protocol, port, SERVER_PORT)


# fmt: off
def rows(v: CustomerEdge, port: int, _: Hosts) -> Iterator[Row]:
    """Return all clauses of a CE or lwB4."""
    rfc, receiving, sending = SECTIONS[v.kind]
    down, up = partial(Row, rfc, receiving), partial(Row, rfc, sending, side="right")
    received, sent = partial(send_down, v), partial(send_up, v)

    def at_host(port: int, protocol: str = "udp") -> Packet:
        return IP(dst=str(v.ipv4[0])) / transport(protocol, SERVER_PORT, port)

    def at_relay(port: int, protocol: str = "udp") -> Packet:
        return IPv6(src=str(v.ipv6), dst=str(v.relay)) / IP() / transport(protocol, port, SERVER_PORT)

    for name in PROTOCOLS:
        yield down(f"down-{name}", f"{name.upper()} from the relay for the customer is decapsulated",
                   received(port, name), at_host(port, name), plain=name == "udp")
        yield up(f"up-{name}", f"{name.upper()} of the customer is sent to the relay in a tunnel",
                 sent(port, name), at_relay(port, name), plain=name == "udp")
    edges, foreign = edge_ports(v.ports), neighbor_ports(v.ports)
    yield down("edges-down", f"packets for the ports {list_ports(edges)} of the customer are forwarded",
               list(map(received, edges)), list(map(at_host, edges)))
    yield up("edges-up", f"packets from the ports {list_ports(edges)} of the customer are forwarded",
             list(map(sent, edges)), list(map(at_relay, edges)))
    yield down("other-relay", "a tunnel packet that does not come from the relay is dropped",
               received(port, relay=STRANGER6))
    stranger = next(address for address in STRANGERS4 if address not in v.ipv4)
    yield down("foreign-address",
               "a packet from the tunnel for an IPv4 address that is not the customer's is dropped",
               received(port, ipv4=stranger))
    for name in PROTOCOLS if foreign and v.kind == "lw4o6" else ():
        yield down(f"foreign-port-{name}",
                   f"{name.upper()} from the tunnel for {_number(name)} {foreign[0]}, "
                   "which the customer does not have, is dropped", received(foreign[0], name))
    for name in PROTOCOLS if foreign else ():
        yield up(f"own-{name}",
                 f"{name.upper()} that a host sends from {_number(name)} {foreign[0]} leaves with "
                 "one of the customer's, if at all", sent(foreign[0], name), partial(_have_own_port, v.ports))


def port_rows(h: TranslatorHosts, ports: PortSet) -> Iterator[Row]:
    """Return the clauses about the port set of a MAP-T CE and about ports of other CEs."""
    edges, foreign, v = edge_ports(ports), neighbor_ports(ports), h.view
    if not foreign:
        return
    up = partial(Row, "RFC 7599", "8.2", side=v.six_side)
    yield up("edges", f"packets for the ports {list_ports(edges)} of the CE are forwarded",
             [h.ip6() / transport("udp", v.port, port) for port in edges],
             [h.at4() / UDP(dport=port) for port in edges])
    for name, some in {"udp": foreign, "tcp": foreign[:1], "icmp": foreign[:1]}.items():
        yield up(f"foreign-{name}", f"{name.upper()} for {_number(name)} {list_ports(some)}, "
                 "which the CE does not have, is silently dropped",
                 [h.ip6() / transport(name, port if name == "icmp" else v.port, port, 6) for port in some],
                 silent=True)
    yield Row("RFC 7599", "8.1", "own-port",
              f"what a host behind the CE sends from port {foreign[0]} leaves with a port of the CE's, "
              "if at all",
              h.ip4() / UDP(sport=foreign[0], dport=h.port4) / Raw(DATA), partial(_have_own_port, ports),
              side=v.four_side)
# fmt: on


def edge_ports(ports: PortSet) -> list[int]:
    """Return the first and last port of the first and of the last range; never 0."""
    return sorted({port for ends in (ports.ranges[0], ports.ranges[-1]) for port in ends if port})


def neighbor_ports(ports: PortSet) -> list[int]:
    """Return the ports next to the first and last range that are not in the set."""
    edges = (*ports.ranges[0], *ports.ranges[-1])
    return sorted({p for e in edges for p in (e - 1, e + 1) if 0 < p < 65536 and p not in ports})


def list_ports(ports: list[int]) -> str:
    """Return ports for a title."""
    return ", ".join(map(str, ports))


def _number(protocol: str) -> str:
    return "identifier" if protocol == "icmp" else "port"


def _have_own_port(ports: PortSet, far: list[ip_packet.IPPacket]) -> str:
    sources = [ip_packet.port(inner_packet(packet) or packet, is_source=True) for packet in far]
    return next((f"from port {port}" for port in sources if port not in ports), "")
