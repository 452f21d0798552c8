"""Relays and customer edges: MAP-E, MAP-T, lightweight 4over6 and the tunnels they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable
from ipaddress import IPv4Address, IPv6Address

from scapy.layers.inet import ICMP, IP
from scapy.layers.inet6 import ICMPv6DestUnreach, IPv6
from v6t.audit.packet_device.device import HOP_LIMIT, DeviceLinks, PacketDevice, Sent
from v6t.audit.packet_device.maps import (
    AddressMap,
    HostMap,
    MapDomain,
    MapSharing,
    PrefixMap,
    Sharing,
    find_psid,
)
from v6t.audit.packet_device.packets import (
    IPIP,
    Drop,
    IPPacket,
    address_of,
    fragment_ipv6,
    port,
    read_packet,
    skip_extensions,
)
from v6t.audit.packet_device.translator import TranslatingDevice
from v6t.plugins.audit_views import CustomerEdge, SideName

NOT_ECT, CONGESTION = 0b00, 0b11


def decapsulated_ecn(inner: int, outer: int) -> int:
    """Return the ECN field of a packet that leaves a tunnel (RFC 6040, figure 4).

    Raises:
        Drop: the outer header has a congestion mark, and the inner transport does not support it.
    """
    if inner == NOT_ECT and outer == CONGESTION:
        raise Drop
    if inner in (NOT_ECT, CONGESTION) or outer == NOT_ECT:
        return inner
    return max(inner, outer) if CONGESTION in (inner, outer) else min(inner, outer)


class TunnelDevice(PacketDevice):
    """Tunnels of IPv4 in IPv6 on the left link, IPv4 on the right link."""

    copies_dscp = False
    """Packets that leave a tunnel have the outer DSCP (uniform model, RFC 2983)."""
    relays: Collection[IPv6Address] = ()
    """Addresses of the device where tunnels end."""

    def forward(self, side: SideName, packet: IPPacket) -> Iterable[Sent]:
        if packet.version == 4:
            if side == "left":
                raise Drop
            return self.forward_ipv4(packet)
        if address_of(packet.dst) not in self.relays:
            return self.route(side, packet)
        whole = self.reassembly.add(packet) if side == "left" else None
        return [] if whole is None else self.forward_tunnel(whole)

    @abstractmethod
    def check_source(self, outer: IPv6, inner: IP) -> None:
        """Check that a customer may send a packet through its tunnel.

        Raises:
            Drop: the source address or port is another customer's.
        """

    @abstractmethod
    def forward_inner(self, outer: IPv6, inner: IP) -> Iterable[Sent]:
        """Send a packet that left a tunnel."""

    @abstractmethod
    def forward_ipv4(self, packet: IP) -> Iterable[Sent]:
        """Send a packet from the right link into a tunnel."""

    def forward_tunnel(self, packet: IPv6) -> Iterable[Sent]:
        """Decapsulate a packet (RFC 2473, section 3.3)."""
        inner = self.decapsulate(packet)
        self.check_source(packet, inner)
        return self.forward_from_tunnel(packet, inner)

    def forward_from_tunnel(self, outer: IPv6, inner: IP) -> Iterable[Sent]:
        """Send an inner packet with its new TOS and TTL."""
        inner.tos = self.inner_tos(inner, outer)
        return self.forward_inner(outer, self.age_inner(inner))

    def decapsulate(self, packet: IPv6) -> IP:
        """Return the IPv4 packet in a tunnel packet; tunnel options are skipped."""
        proto, octets = skip_extensions(packet)
        inner = read_packet(octets)
        if proto != IPIP or inner.version != 4:
            raise Drop
        return inner

    def inner_tos(self, inner: IP, outer: IPv6) -> int:
        """Return DSCP and ECN of a packet that leaves a tunnel."""
        dscp = (outer.tc if self.copies_dscp else inner.tos) & 0xFC
        return dscp | decapsulated_ecn(inner.tos & 3, outer.tc & 3)

    def age_inner(self, inner: IP) -> IP:
        """Return an inner packet with its TTL less one; nothing is sent about an expired one."""
        if inner.ttl <= 1:
            raise Drop
        return self.decrement(inner)

    def encapsulate(self, packet: IP, src: IPv6Address, dst: IPv6Address) -> list[Sent]:
        """Return tunnel packets (RFC 2473, sections 3.1 and 7.2; RFC 6040, section 4.1)."""
        mtu = self.ports.mtu("left")
        if len(packet) + 40 > mtu and packet.flags.DF:
            raise Drop(ICMP(type=3, code=4, nexthopmtu=mtu - 40))
        header = IPv6(src=str(src), dst=str(dst), tc=packet.tos, hlim=HOP_LIMIT)
        packets = fragment_ipv6(header, IPIP, bytes(packet), mtu, packet.id)
        return [("left", tunnelled) for tunnelled in packets]


class TunnelRelay(TunnelDevice):
    """A MAP-E border relay or lwAFTR."""

    reports_sources = False
    """Send ICMPv6 errors about sources that are not the customer's (RFC 7596, section 6.2)."""

    def __init__(self, ports: DeviceLinks, sharing: Sharing) -> None:
        super().__init__(ports)
        self.sharing = sharing
        self.relays = sharing.relays

    def is_own_source(self, outer: IPv6, inner: IP) -> bool:
        """Return whether source address and port belong to the tunnel's customer."""
        source, customer = address_of(inner.src), address_of(outer.src)
        if inner.frag:  # a later fragment has no port
            return self.sharing.has_share(source, customer)
        ends = self.sharing.find(source, port(inner, is_source=True))
        return ends == (customer, address_of(outer.dst))

    def check_source(self, outer: IPv6, inner: IP) -> None:
        if not self.is_own_source(outer, inner):
            raise Drop(ICMPv6DestUnreach(code=5) if self.reports_sources else None)

    def forward_inner(self, outer: IPv6, inner: IP) -> Iterable[Sent]:
        """Send to the right link, or to another customer (hairpinning)."""
        if not self.sharing.has_share(address_of(inner.dst)):
            return [("right", inner)]
        return self.forward_to_customer(inner)

    def forward_ipv4(self, packet: IP) -> Iterable[Sent]:
        aged = self.decrement(packet)
        whole = self.reassembly.add(aged)
        if whole is None:
            return []
        if self.sharing.find(address_of(whole.dst), port(whole, is_source=False)) is None:
            raise Drop(ICMP(type=3, code=1), whole)
        return self.forward_to_customer(whole)

    def forward_to_customer(self, packet: IP) -> Iterable[Sent]:
        """Send a packet into the tunnel of the customer who has its destination."""
        ends = self.sharing.find(address_of(packet.dst), port(packet, is_source=False))
        if ends is None:
            raise Drop
        customer, relay = ends
        return self.encapsulate(packet, relay, customer)


class TunnelCustomerEdge(TunnelDevice):
    """A MAP-E CE or lwB4 without its NAPT: the customer's hosts are on the right link."""

    def __init__(self, ports: DeviceLinks, view: CustomerEdge) -> None:
        super().__init__(ports)
        self.edge = view
        self.relays = (view.ipv6,)
        self.remote = view.relay or view.ipv6

    def is_own(self, ipv4: str, number: int | None) -> bool:
        """Return whether an address and port belong to the customer."""
        return address_of(ipv4) in self.edge.ipv4 and has_port(self.edge, number)

    def check_source(self, outer: IPv6, inner: IP) -> None:
        is_relay = address_of(outer.src) == self.remote
        if not is_relay or not self.is_own(inner.dst, port(inner, is_source=False)):
            raise Drop

    def forward_inner(self, outer: IPv6, inner: IP) -> Iterable[Sent]:
        return [("right", inner)]

    def forward_ipv4(self, packet: IP) -> Iterable[Sent]:
        whole = self.reassembly.add(packet)
        if whole is None:
            return []
        if not self.is_own(whole.src, port(whole, is_source=True)):
            raise Drop
        aged = self.decrement(whole)
        return self.encapsulate(aged, self.edge.ipv6, self.remote)


def has_port(edge: CustomerEdge, number: int | None) -> bool:
    """Return whether a customer may use a port, by the bits of RFC 7597, section 5.1."""
    ports = edge.ports
    if not ports.psid_len:
        return True
    psid = None if number is None else find_psid(number, ports.psid_offset, ports.psid_len)
    return psid is not None and int(psid, 2) == ports.psid


class MapTRelayDevice(TranslatingDevice):
    """A MAP-T border relay: the CE that owns the port, everybody else behind the DMR."""

    def __init__(
        self, ports: DeviceLinks, sharing: MapSharing, dmr: PrefixMap, lowest_ipv6_mtu: int
    ) -> None:
        super().__init__(ports, "left", lowest_ipv6_mtu)
        self.sharing, self.dmr = sharing, dmr

    def is_ipv4_destination(self, destination: str) -> bool:
        return address_of(destination) in self.dmr.prefix

    def map_for(self, packet: IPPacket) -> AddressMap:
        if packet.version == 6:
            ipv6 = address_of(packet.src)
            return HostMap(self.ipv4_of_source(packet), ipv6, self.dmr)
        ipv4 = address_of(packet.dst)
        ends = self.sharing.find(ipv4, port(packet, is_source=False))
        if ends is None:
            raise Drop(ICMP(type=3, code=13))
        return HostMap(ipv4, ends[0], self.dmr)

    def ipv4_of_source(self, packet: IPv6) -> IPv4Address:
        """Return the IPv4 address of a CE that uses its own port (RFC 7599, section 8.1)."""
        ce = self.sharing.find_customer(address_of(packet.src))
        if ce is None or not self.is_own_port(packet, ce):
            raise Drop(ICMPv6DestUnreach(code=5))
        return ce[1]

    def is_own_port(self, packet: IPv6, ce: tuple[MapDomain, IPv4Address, str]) -> bool:
        """Return whether the source port of a packet belongs to a CE."""
        domain, _, psid = ce
        if not domain.rule.psid_len:
            return True
        number = port(packet, is_source=True)
        return number is not None and domain.psid_of(number) == psid

    def forward_ipv6(self, packet: IPv6) -> Iterable[Sent]:
        """Translate a packet of a CE, whole if the CE shares its address."""
        skip_extensions(packet)
        ce = self.sharing.find_customer(address_of(packet.src))
        is_shared = ce is not None and ce[0].rule.psid_len > 0
        whole = self.reassembly.add(packet) if is_shared else packet
        return [] if whole is None else super().forward_ipv6(whole)

    def forward_ipv4(self, packet: IP) -> Iterable[Sent]:
        """Translate a whole packet: only the first fragment has a port (RFC 7599, section 10.2)."""
        whole = self.reassembly.add(packet)
        return [] if whole is None else super().forward_ipv4(whole)

    def emit_ipv4(self, arrived: IPv6, packet: IP) -> Iterable[Sent]:
        """Send a packet for a CE back to the left (hub-and-spoke mode, RFC 7599, section 12.2)."""
        if packet.src == packet.dst:
            raise Drop
        if self.sharing.has_share(address_of(packet.dst)):
            return [(out, p) for out, p in self.process("right", packet) if out == "left"]
        return super().emit_ipv4(arrived, packet)


class MapTCustomerEdge(TranslatingDevice):
    """A MAP-T CE without its NAPT: the customer's hosts are on the right link."""

    def __init__(
        self, ports: DeviceLinks, view: CustomerEdge, sharing: MapSharing, dmr: PrefixMap
    ) -> None:
        super().__init__(ports, "left", view.lowest_ipv6_mtu)
        self.edge, self.sharing, self.dmr = view, sharing, dmr

    def is_ipv4_destination(self, destination: str) -> bool:
        try:
            self.host_at(address_of(destination))
        except Drop:
            return False
        return True

    def host_at(self, ipv6: IPv6Address) -> IPv4Address:
        """Return the customer's host with a MAP address.

        Raises:
            Drop: the address is another CE's.
        """
        ce = self.sharing.find_customer(ipv6)
        if ce is None or ce[1] not in self.edge.ipv4 or int(ce[2] or "0", 2) != self.edge.psid:
            raise Drop
        return ce[1]

    def map_for(self, packet: IPPacket) -> AddressMap:
        is_ipv6 = packet.version == 6
        if self.edge.ports.psid_len and not has_port(
            self.edge, port(packet, is_source=not is_ipv6)
        ):
            raise Drop
        if is_ipv6:
            ipv6 = address_of(packet.dst)
            return HostMap(self.host_at(ipv6), ipv6, self.dmr)
        host = address_of(packet.src)
        return HostMap(host, self.address_of_host(host), self.dmr)

    def address_of_host(self, host: IPv4Address) -> IPv6Address:
        """Return the MAP address of a host behind the CE."""
        if host not in self.edge.ipv4:
            raise Drop(ICMP(type=3, code=13))
        domain = self.sharing.domains[0]
        length = domain.rule.psid_len
        return domain.address(host, f"{self.edge.psid:0{length}b}" if length else "")

    def forward_ipv6(self, packet: IPv6) -> Iterable[Sent]:
        skip_extensions(packet)
        whole = self.reassemble(packet)
        return [] if whole is None else super().forward_ipv6(whole)

    def forward_ipv4(self, packet: IP) -> Iterable[Sent]:
        whole = self.reassemble(packet)
        return [] if whole is None else super().forward_ipv4(whole)

    def reassemble(self, packet: IPPacket) -> IPPacket | None:
        """Return a whole packet; without shared ports, fragments are translated one by one."""
        return self.reassembly.add(packet) if self.edge.ports.psid_len else packet
