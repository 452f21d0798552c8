"""Customers of a relay and a server: packets that they send, and checks of what reaches them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.packet import Packet, Raw
from v6t.audit.match import checksum_error
from v6t.audit.translator_hosts import DATA, TTL
from v6t.audit.wire import dissect, protocol_of, summary, transport_octets
from v6t.plugins.address_mappings import embed
from v6t.plugins.audit_views import Customer, SharedAddressRelay

SERVER_PORT = 443
ICMP_NUMBER, TCP_NUMBER, UDP_NUMBER = 1, 6, 17


@dataclass(frozen=True)
class RelayHosts:
    """The hosts of a relay."""

    view: SharedAddressRelay

    def up(
        self,
        customer: Customer,
        port: int,
        protocol: int = UDP_NUMBER,
        *,
        ipv4: IPv4Address | None = None,
        ipv6: IPv6Address | None = None,
        to: IPv4Address | None = None,
        to_port: int = SERVER_PORT,
    ) -> Packet:
        """Return a packet of a customer, with another source or destination if given."""
        outer = {"src": str(ipv6 or customer.ipv6), "hlim": TTL}
        if self.view.tunnels:
            ends = {"src": str(ipv4 or customer.ipv4), "dst": str(to or self.view.server)}
            inner = IP(**ends, ttl=TTL) / _transport(protocol, port, to_port, 4)
            return IPv6(**outer, dst=str(self.view.relay)) / inner
        destination = self.view.relay if to is None else self.embed_in_dmr(to)
        return IPv6(**outer, dst=str(destination)) / _transport(protocol, port, to_port, 6)

    def down(self, ipv4: IPv4Address, port: int, protocol: int = UDP_NUMBER) -> Packet:
        """Return a packet of the server."""
        header = IP(src=str(self.view.server), dst=str(ipv4), ttl=TTL)
        return header / _transport(protocol, SERVER_PORT, port, 4)

    def plain_up(self) -> Packet:
        """Return the simplest packet of the first customer."""
        return self.up(self.view.customer, self.view.customer.port)

    def plain_down(self) -> Packet:
        """Return the simplest packet for the first customer."""
        return self.down(self.view.customer.ipv4, self.view.customer.port)

    def embed_in_dmr(self, ipv4: IPv4Address) -> IPv6Address:
        """Return the address by which CEs of MAP-T reach an IPv4 address."""
        if self.view.dmr is None:
            raise ValueError("only MAP-T has a DMR")
        return embed(self.view.dmr, ipv4)

    def unwrap(self, packet: Packet) -> Packet | None:
        """Return what a customer receives: the packet in the tunnel, or the translated packet."""
        if not isinstance(packet, IPv6):
            return None
        if not self.view.tunnels:
            return packet
        octets = transport_octets(packet)
        return dissect(octets) if protocol_of(packet) == 4 and len(octets) >= 20 else None

    def reach_customers(self, customers: Sequence[IPv6Address], far: list[Packet]) -> str:
        """Check that each of these customers received one correct packet."""
        if len(far) != len(customers):
            return f"{len(far)} of {len(customers)} packets"
        for packet in far:
            inner = self.unwrap(packet)
            wrong = "no packet for a customer" if inner is None else checksum_error(inner)
            if wrong:
                return f"{wrong}: {summary(packet)}"
        expected = sorted(map(int, customers))
        destinations = sorted(int(IPv6Address(packet.dst)) for packet in far)
        if destinations == expected:
            return ""
        other = next((IPv6Address(a) for a in destinations if a not in expected), None)
        return f"a packet to {other or 'one customer twice'}"

    def reach_server(self, sources: Sequence[IPv4Address], far: list[Packet]) -> str:
        """Check that the server received one correct packet from each of these addresses."""
        seen = sorted(p.src for p in far)
        if seen != sorted(map(str, sources)):
            return f"{len(far)} packets, from {', '.join(seen) or 'nobody'}"
        for packet in far:
            wrong = checksum_error(packet)
            if wrong or packet.dst != str(self.view.server):
                return f"{wrong or 'another destination'}: {summary(packet)}"
        return ""


def _transport(protocol: int, source: int, destination: int, version: int) -> Packet:
    """Return a datagram, a SYN, or an echo: a request of the customer, a reply of the server."""
    if protocol == TCP_NUMBER:
        return TCP(sport=source, dport=destination, seq=0x01020304)
    if protocol == UDP_NUMBER:
        return UDP(sport=source, dport=destination) / Raw(DATA)
    from_customer = source != SERVER_PORT
    identifier = source if from_customer else destination
    if version == 6:
        return ICMPv6EchoRequest(id=identifier, seq=1, data=DATA)
    return ICMP(type=8 if from_customer else 0, id=identifier, seq=1) / Raw(DATA)
