"""Relays and customer edges: MAP-E, MAP-T and lightweight 4over6; tunnels, also of IPv6 in IPv4."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import replace
from ipaddress import IPv6Network

from v6t.audit.packet_device.device import HOP_LIMIT, DeviceLinks, PacketDevice, Sent
from v6t.audit.packet_device.maps import (
    AddressMap,
    MapDomain,
    MapSharing,
    SoftwireSharing,
    TableMap,
    has_port,
)
from v6t.audit.packet_device.packets import (
    IPIP,
    IPV6_IN_IP,
    Drop,
    IcmpError,
    IPPacket,
    check_source_route,
    fragment,
    port,
    read_packet,
)
from v6t.audit.packet_device.translator import TranslatingDevice
from v6t.plugins.audit_views import (
    Address,
    CustomerEdge,
    SharedAddressRelay,
    SideName,
    TunnelEnd,
)
from v6t.plugins.map_rules import MapRule

NOT_ECT, CONGESTION = 0b00, 0b11
WRONG_SOURCE = IcmpError(1, 5)
"""ICMPv6: the source address failed the ingress policy."""


def decapsulated_ecn(inner: int, outer: int) -> int:
    """Return the ECN field of a packet that leaves a tunnel, or drop it (RFC 6040, figure 4)."""
    if inner == NOT_ECT and outer == CONGESTION:
        raise Drop
    if inner in (NOT_ECT, CONGESTION) or outer == NOT_ECT:
        return inner
    return max(inner, outer) if CONGESTION in (inner, outer) else min(inner, outer)


class TunnelDevice(PacketDevice):
    """Tunnels of IPv4 in IPv6 on the left link, IPv4 on the right link."""

    relays: Collection[Address] = ()
    """Addresses of the device where tunnels end."""

    def forward(self, side: SideName, packet: IPPacket) -> Iterable[Sent]:
        if packet.version == 4:
            if side == "left":
                raise Drop
            return self.forward_ipv4(packet)
        if packet.dst not in self.relays:
            return self.route(side, packet)
        if side == "right":
            raise Drop
        return self.forward_tunnel(self.reassembly.add(packet))

    def check_source(self, outer: IPPacket, inner: IPPacket) -> None:
        """Drop a packet if its customer must not send it through its tunnel."""

    @abstractmethod
    def forward_inner(self, outer: IPPacket, inner: IPPacket) -> Iterable[Sent]:
        """Send a packet that left a tunnel."""

    @abstractmethod
    def forward_ipv4(self, packet: IPPacket) -> Iterable[Sent]:
        """Send a packet from the right link into a tunnel."""

    def forward_tunnel(self, packet: IPPacket) -> Iterable[Sent]:
        """Decapsulate a packet (RFC 2473, section 3.3); no error reports an expired TTL."""
        inner = self.decapsulate(packet)
        self.check_source(packet, inner)
        tos = inner.tos & 0xFC | decapsulated_ecn(inner.tos & 3, packet.tos & 3)
        if inner.ttl <= 1:
            raise Drop
        return self.forward_inner(packet, self.decrement(replace(inner, tos=tos)))

    def decapsulate(self, packet: IPPacket) -> IPPacket:
        """Return the IPv4 packet in a tunnel packet; tunnel options are skipped."""
        check_source_route(packet)
        inner = read_packet(packet.octets)
        if packet.proto != IPIP or inner.version != 4:
            raise Drop
        return inner

    def encapsulate(self, packet: IPPacket, src: Address, dst: Address) -> list[Sent]:
        """Return tunnel packets (RFC 2473, sections 3.1 and 7.2; RFC 6040, section 4.1)."""
        octets, mtu = bytes(packet), self.ports.mtu("left")
        if len(octets) + 40 > mtu and packet.df:
            raise Drop(IcmpError(3, 4, mtu - 40))
        outer = IPPacket(src, dst, IPIP, octets, packet.tos, HOP_LIMIT)
        return [("left", piece) for piece in fragment(outer, mtu, packet.id or 0)]


class TunnelRelay(TunnelDevice):
    """A MAP-E border relay or lwAFTR."""

    reports_sources = False
    """Send ICMPv6 errors about sources that are not the customer's (RFC 7596, section 6.2)."""

    def __init__(self, ports: DeviceLinks, view: SharedAddressRelay) -> None:
        super().__init__(ports)
        self.relays = view.relays
        self.sharing: MapSharing | SoftwireSharing = MapSharing(
            [MapDomain(rule) for rule in view.rules], view.relay
        )
        if view.softwires is not None:
            self.sharing, self.reports_sources = SoftwireSharing(view.softwires), True

    def check_source(self, outer: IPPacket, inner: IPPacket) -> None:
        if inner.offset:  # a later fragment has no port
            is_own = self.sharing.has_share(inner.src, outer.src)
        else:
            ends = self.sharing.find(inner.src, port(inner, is_source=True))
            is_own = ends == (outer.src, outer.dst)
        if not is_own:
            raise Drop(WRONG_SOURCE if self.reports_sources else None)

    def forward_inner(self, outer: IPPacket, inner: IPPacket) -> Iterable[Sent]:
        """Send to the right link, or to another customer (hairpinning)."""
        if not self.sharing.has_share(inner.dst):
            return [("right", inner)]
        return self.forward_to_customer(inner, None)

    def forward_ipv4(self, packet: IPPacket) -> Iterable[Sent]:
        whole = self.reassembly.add(self.decrement(packet))
        return self.forward_to_customer(whole, IcmpError(3, 1))

    def forward_to_customer(self, packet: IPPacket, error: IcmpError | None) -> Iterable[Sent]:
        """Send a packet into the tunnel of its customer; send an error if no customer has it."""
        ends = self.sharing.find(packet.dst, port(packet, is_source=False))
        if ends is None:
            raise Drop(error, packet)
        customer, relay = ends
        return self.encapsulate(packet, relay, customer)


class TunnelCustomerEdge(TunnelDevice):
    """A MAP-E CE or lwB4 without its NAPT: the customer's hosts are on the right link."""

    def __init__(self, ports: DeviceLinks, view: CustomerEdge) -> None:
        super().__init__(ports)
        self.edge, self.relays = view, (view.ipv6,)
        self.remote = view.relay or view.ipv6

    def is_own(self, ipv4: Address, number: int | None) -> bool:
        return ipv4 in self.edge.ipv4 and has_port(self.edge.ports, number)

    def check_source(self, outer: IPPacket, inner: IPPacket) -> None:
        is_own = self.is_own(inner.dst, port(inner, is_source=False))
        if outer.src != self.remote or not is_own:
            raise Drop

    def forward_inner(self, outer: IPPacket, inner: IPPacket) -> Iterable[Sent]:
        return [("right", inner)]

    def forward_ipv4(self, packet: IPPacket) -> Iterable[Sent]:
        whole = self.reassembly.add(packet)
        if not self.is_own(whole.src, port(whole, is_source=True)):
            raise Drop
        return self.encapsulate(self.decrement(whole), self.edge.ipv6, self.remote)


class MapTRelayDevice(TranslatingDevice):
    """A MAP-T border relay: the CE that owns the port, everybody else behind the DMR."""

    def __init__(self, ports: DeviceLinks, view: SharedAddressRelay, dmr: IPv6Network) -> None:
        super().__init__(ports, "left", view.lowest_ipv6_mtu)
        domains = [MapDomain(rule, embeds_host=True) for rule in view.rules]
        self.sharing, self.dmr = MapSharing(domains, view.relay), dmr

    def is_ipv4_destination(self, destination: Address) -> bool:
        return destination in self.dmr

    def map_for(self, packet: IPPacket) -> AddressMap:
        if packet.version == 6:
            ce = self.sharing.find_customer(packet.src)
            if ce is None or not self.is_own_port(packet, ce):  # RFC 7599, section 8.1
                raise Drop(WRONG_SOURCE)
            return TableMap.map_host(ce[1], packet.src, self.dmr)
        ends = self.sharing.find(packet.dst, port(packet, is_source=False))
        if ends is None:
            raise Drop(IcmpError(3, 13))
        return TableMap.map_host(packet.dst, ends[0], self.dmr)

    def is_own_port(self, packet: IPPacket, ce: tuple[MapDomain, Address, str]) -> bool:
        domain, _, psid = ce
        number = port(packet, is_source=True)
        return not psid or (number is not None and domain.psid_of(number) == psid)

    def reassemble(self, packet: IPPacket) -> IPPacket:
        """Wait for packets whose ports count: fragments have none (RFC 7599, section 10.2)."""
        ce = self.sharing.find_customer(packet.src) if packet.version == 6 else None
        needs_port = packet.version == 4 or (ce is not None and ce[0].rule.psid_len > 0)
        return self.reassembly.add(packet) if needs_port else packet

    def emit_ipv4(self, arrived: IPPacket, packet: IPPacket) -> Iterable[Sent]:
        """Send a packet for a CE back to the left (hub-and-spoke mode, RFC 7599, section 12.2)."""
        if packet.src == packet.dst:
            raise Drop
        if self.sharing.has_share(packet.dst):
            return [(out, p) for out, p in self.process("right", packet) if out == "left"]
        return super().emit_ipv4(arrived, packet)


class MapTCustomerEdge(TranslatingDevice):
    """A MAP-T CE without its NAPT: the customer's hosts are on the right link."""

    def __init__(
        self, ports: DeviceLinks, view: CustomerEdge, rule: MapRule, dmr: IPv6Network
    ) -> None:
        super().__init__(ports, "left", view.lowest_ipv6_mtu)
        self.edge, self.domain, self.dmr = view, MapDomain(rule, embeds_host=True), dmr

    def is_ipv4_destination(self, destination: Address) -> bool:
        return self.find_host(destination) is not None

    def find_host(self, ipv6: Address) -> Address | None:
        """Return the customer's host with a MAP address; None for addresses of other CEs."""
        ce = self.domain.read(ipv6) if ipv6 in self.domain.rule.ipv6_prefix else None
        if ce is None or ce[0] not in self.edge.ipv4 or int(ce[1] or "0", 2) != self.edge.psid:
            return None
        return ce[0]

    def map_for(self, packet: IPPacket) -> AddressMap:
        edge, length = self.edge, self.domain.rule.psid_len
        if not has_port(edge.ports, port(packet, is_source=packet.version == 4)):
            raise Drop
        if packet.version == 6:
            host = self.find_host(packet.dst)
            if host is None:
                raise Drop
            return TableMap.map_host(host, packet.dst, self.dmr)
        if packet.src not in edge.ipv4:
            raise Drop(IcmpError(3, 13))
        psid = f"{edge.psid:0{length}b}" if length else ""
        return TableMap.map_host(packet.src, self.domain.address(packet.src, psid), self.dmr)

    def reassemble(self, packet: IPPacket) -> IPPacket:
        """Return a whole packet; without shared ports, fragments are translated one by one."""
        return self.reassembly.add(packet) if self.edge.ports.psid_len else packet


class SixInFourDevice(PacketDevice):
    """An end of tunnels of IPv6 in IPv4 (RFC 4213), whose other ends 6rd finds by the inner address."""

    def __init__(self, ports: DeviceLinks, view: TunnelEnd) -> None:
        super().__init__(ports)
        self.tunnel = view

    def forward(self, side: SideName, packet: IPPacket) -> Iterable[Sent]:
        view = self.tunnel
        if packet.version == 4:
            if side != view.side or packet.dst != view.local:
                raise Drop
            return self.decapsulate(packet)
        remote = self.endpoint(packet.dst) if side == view.far_side else None
        if remote is None:
            return self.route(side, packet)
        return self.encapsulate(self.decrement(packet), remote)

    def endpoint(self, inner: Address) -> Address | None:
        """Return the other end of the tunnel for an inner address."""
        view = self.tunnel
        if view.endpoint is not None:
            return view.endpoint(inner)
        return view.remote if inner == view.inner[0] else None

    def is_own_source(self, outer: Address, inner: Address) -> bool:
        return self.endpoint(inner) == outer

    def decapsulate(self, packet: IPPacket) -> Iterable[Sent]:
        """Send the packet in a tunnel packet (RFC 4213, section 3.6; RFC 5969, section 12)."""
        whole = self.reassembly.add(packet)
        inner = read_packet(whole.octets)
        is_ipv6 = whole.proto == IPV6_IN_IP and inner.version == 6
        if not is_ipv6 or not self.is_own_source(whole.src, inner.src) or inner.ttl <= 1:
            raise Drop
        tos = inner.tos & 0xFC | decapsulated_ecn(inner.tos & 3, whole.tos & 3)
        return [(self.tunnel.far_side, self.decrement(replace(inner, tos=tos)))]

    def encapsulate(self, packet: IPPacket, remote: Address) -> Iterable[Sent]:
        """Send a packet into the tunnel (RFC 4213, section 3.5; RFC 6040, section 4.1)."""
        octets, mtu = bytes(packet), self.ports.mtu(self.tunnel.side)
        if len(octets) + 20 > mtu:
            raise Drop(IcmpError(2, 0, mtu - 20))
        header = IPPacket(self.tunnel.local, remote, IPV6_IN_IP, octets, packet.tos, HOP_LIMIT)
        return [(self.tunnel.side, header)]
