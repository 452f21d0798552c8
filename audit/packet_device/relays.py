"""Relays and customer edges: MAP-E, MAP-T and lightweight 4over6; tunnels, also of IPv6 in IPv4."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import replace

from v6t.audit import ip_packet as ip
from v6t.audit.clause import flip_side
from v6t.audit.ip_packet import Drop, IcmpError, IPPacket
from v6t.audit.packet_device.device import HOP_LIMIT, PacketDevice, Sent
from v6t.audit.packet_device.maps import AddressSharing, MapDomain, TableMap, has_port
from v6t.audit.packet_device.translator import TranslatingDevice
from v6t.intent.device import DeviceIntent
from v6t.plugins.audit_views import Address, CustomerEdge, SharedAddressRelay, SideName, TunnelEnd

NOT_ECT, CONGESTION = 0b00, 0b11
WRONG_SOURCE = IcmpError(1, 5)  # ICMPv6: the source address failed the ingress policy


class TunnelingDevice(PacketDevice, ABC):
    """Base of devices with tunnels on one link, whose inner packets are plain on the other link."""

    tunnel_side: SideName = "left"
    inner_version = 4
    relays: Collection[Address] = ()  # addresses of the device where tunnels end
    copies_dscp = False  # out of tunnels, too (RFC 6333, section 7.1)

    def forward(self, side: SideName, packet: IPPacket) -> Iterable[Sent]:
        is_inside = side == self.tunnel_side
        if packet.version == self.inner_version and not is_inside:
            return self.enter_tunnel(packet)
        if packet.version != self.inner_version and packet.dst in self.relays and is_inside:
            return self.forward_tunnel(self.reassembly.add(packet))
        if packet.dst in self.relays or packet.version == self.inner_version == 4:
            raise Drop
        return self.route(side, packet)

    @abstractmethod
    def enter_tunnel(self, packet: IPPacket) -> Iterable[Sent]:
        """Send a packet from the other link into a tunnel."""

    def check_source(self, outer: IPPacket, inner: IPPacket) -> None:
        """Drop a tunnel packet whose inner addresses do not match its outer source."""

    def forward_inner(self, inner: IPPacket) -> Iterable[Sent]:
        try:
            return self.fit(flip_side(self.tunnel_side), inner)
        except Drop:
            raise Drop from None

    def forward_tunnel(self, packet: IPPacket) -> Iterable[Sent]:
        """Decapsulate a packet (RFC 2473, section 3.3); no error reports its TTL or length."""
        inner = self.decapsulate(packet)
        self.check_source(packet, inner)
        if inner.ttl <= 1:
            raise Drop
        return self.forward_inner(self.decrement(self.mark(packet, inner)))

    def mark(self, outer: IPPacket, inner: IPPacket) -> IPPacket:
        """Return a decapsulated packet with its DSCP and ECN (RFC 6040, figure 4), or raise Drop."""
        dscp = (outer if self.copies_dscp else inner).tos & 0xFC
        ecn, mark = inner.tos & 3, outer.tos & 3
        if (ecn, mark) == (NOT_ECT, CONGESTION):
            raise Drop
        if ecn not in (NOT_ECT, CONGESTION) and mark != NOT_ECT:
            ecn = mark if mark == CONGESTION else min(ecn, mark)
        return replace(inner, tos=dscp | ecn)

    def decapsulate(self, packet: IPPacket) -> IPPacket:
        """Return the inner packet of a tunnel packet, skipping tunnel options."""
        ip.check_source_route(packet)
        inner = ip.read_packet(packet.octets)
        proto = ip.IPIP if self.inner_version == 4 else ip.IPV6_IN_IP
        if (packet.proto, inner.version) != (proto, self.inner_version):
            raise Drop
        return inner

    def encapsulate(self, packet: IPPacket, src: Address, dst: Address) -> list[Sent]:
        """Return tunnel packets (RFC 2473, sections 3.1 and 7.2; RFC 6040, section 4.1)."""
        is_ipv4, mtu = packet.version == 4, self.mtu(self.tunnel_side)
        proto, room = (ip.IPIP, mtu - 40) if is_ipv4 else (ip.IPV6_IN_IP, mtu - 20)
        if len(packet) > room and (packet.df or not is_ipv4):
            raise Drop(ip.make_too_big_error(packet.version, room))
        outer = IPPacket(src, dst, proto, bytes(packet), packet.tos, HOP_LIMIT)
        return [(self.tunnel_side, piece) for piece in ip.fragment(outer, mtu, packet.id or 0)]


class TunnelRelay(TunnelingDevice):
    """A MAP-E border relay or lwAFTR."""

    def __init__(self, intent: DeviceIntent, view: SharedAddressRelay) -> None:
        super().__init__(intent, view)
        self.relays, self.sharing = view.tunnel_addresses, AddressSharing(view)
        self.reports_sources = self.copies_dscp = view.kind == "lw4o6"  # RFC 7596, section 6.2

    def check_source(self, outer: IPPacket, inner: IPPacket) -> None:
        ends = self.sharing.find(inner.src, ip.get_port(inner, is_source=True))
        is_own = ends == (outer.src, outer.dst)
        if inner.offset:  # a later fragment has no port
            is_own = self.sharing.has_share(inner.src, outer.src)
        if not is_own:
            raise Drop(WRONG_SOURCE if self.reports_sources else None)

    def forward_inner(self, inner: IPPacket) -> Iterable[Sent]:
        is_hairpin = self.sharing.has_share(inner.dst)
        return self.forward_to_customer(inner, None) if is_hairpin else super().forward_inner(inner)

    def enter_tunnel(self, packet: IPPacket) -> Iterable[Sent]:
        datagram = self.reassembly.add(self.decrement(packet))
        return self.forward_to_customer(datagram, IcmpError(3, 1))

    def forward_to_customer(self, packet: IPPacket, error: IcmpError | None) -> Iterable[Sent]:
        if (ends := self.sharing.find(packet.dst, ip.get_port(packet))) is None:
            raise Drop(error, packet)
        return self.encapsulate(packet, ends[1], ends[0])


class TunnelCustomerEdge(TunnelingDevice):
    """A MAP-E CE or lwB4 without its NAPT: the customer's hosts are on the right link."""

    def __init__(self, intent: DeviceIntent, view: CustomerEdge) -> None:
        super().__init__(intent, view)
        self.relays, self.copies_dscp = (view.ipv6,), view.kind == "lw4o6"

    def is_own(self, ipv4: Address, number: int | None) -> bool:
        return ipv4 in self.view.ipv4 and has_port(self.view.ports, number)

    def check_source(self, outer: IPPacket, inner: IPPacket) -> None:
        if outer.src != self.view.relay or not self.is_own(inner.dst, ip.get_port(inner)):
            raise Drop

    def enter_tunnel(self, packet: IPPacket) -> Iterable[Sent]:
        datagram = self.reassembly.add(packet)
        if not self.is_own(datagram.src, ip.get_port(datagram, is_source=True)):
            raise Drop
        return self.encapsulate(self.decrement(datagram), self.view.ipv6, self.view.relay)


class SixInFourDevice(TunnelingDevice):
    """An end of IPv6-in-IPv4 tunnels (RFC 4213, section 3.6); 6rd finds remote ends by inner address."""

    inner_version = 6

    def __init__(self, intent: DeviceIntent, view: TunnelEnd) -> None:
        super().__init__(intent, view)
        self.tunnel_side, self.relays = view.side, (view.local,)

    def endpoint(self, inner: Address) -> Address | None:
        if self.view.find_outer_address is not None:
            return self.view.find_outer_address(inner)  # type: ignore[no-any-return]
        return self.view.remote if inner == self.view.inner[0] else None

    def check_source(self, outer: IPPacket, inner: IPPacket) -> None:
        if self.endpoint(inner.src) != outer.src:  # RFC 5969, section 12
            raise Drop

    def enter_tunnel(self, packet: IPPacket) -> Iterable[Sent]:
        if (remote := self.endpoint(packet.dst)) is None:
            return self.route(self.view.far_side, packet)
        return self.encapsulate(self.decrement(packet), self.view.local, remote)


class MapTRelayDevice(TranslatingDevice):
    """A MAP-T border relay: maps CEs by address and port, and all other hosts by the DMR."""

    def __init__(self, intent: DeviceIntent, view: SharedAddressRelay) -> None:
        super().__init__(intent, view)
        self.sharing = AddressSharing(view)

    def is_ipv4_destination(self, destination: Address) -> bool:
        return destination in self.view.dmr

    def find_map(self, packet: IPPacket) -> TableMap:
        if packet.version == 6:
            ce = self.sharing.find_customer(packet.src)
            port = ip.get_port(packet, is_source=True)
            if ce is None or ce[0].compute_psid(port) != ce[2]:  # RFC 7599, section 8.1
                raise Drop(WRONG_SOURCE)
            return TableMap.map_host(ce[1], packet.src, self.view.dmr)
        if (ends := self.sharing.find(packet.dst, ip.get_port(packet))) is None:
            raise Drop(IcmpError(3, 13))
        return TableMap.map_host(packet.dst, ends[0], self.view.dmr)

    def reassemble(self, packet: IPPacket) -> IPPacket:
        """Reassemble packets whose ports are needed, since fragments have none (RFC 7599, section 10.2)."""
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

    def __init__(self, intent: DeviceIntent, view: CustomerEdge) -> None:
        super().__init__(intent, view)
        self.domain = MapDomain(view.rule, embeds_host=True)  # type: ignore[arg-type]

    def is_ipv4_destination(self, destination: Address) -> bool:
        return self.find_host(destination) is not None

    def find_host(self, ipv6: Address) -> Address | None:
        ce = self.domain.read(ipv6) if ipv6 in self.domain.rule.ipv6_prefix else None
        is_own = ce and ce[0] in self.view.ipv4 and int(ce[1] or "0", 2) == self.view.psid
        return ce[0] if ce and is_own else None

    def find_map(self, packet: IPPacket) -> TableMap:
        edge, length = self.view, self.domain.rule.psid_len
        from_ipv4 = packet.version == 4
        if not has_port(edge.ports, ip.get_port(packet, is_source=from_ipv4)):
            raise Drop
        host = packet.src if from_ipv4 else self.find_host(packet.dst)
        if host is None or host not in edge.ipv4:
            raise Drop(IcmpError(3, 13) if from_ipv4 else None)
        psid = f"{edge.psid:0{length}b}" if length else ""
        return TableMap.map_host(host, self.domain.compute_address(host, psid), edge.dmr)

    def reassemble(self, packet: IPPacket) -> IPPacket:
        return self.reassembly.add(packet) if self.view.ports.psid_len else packet
