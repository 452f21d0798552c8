"""Tunnels of IPv6 in IPv4 (RFC 4213) that end in the device, as those of 6rd do (RFC 5969)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from v6t.audit.packet_device.device import HOP_LIMIT, DeviceLinks, PacketDevice, Sent
from v6t.audit.packet_device.packets import IPV6_IN_IP, Drop, IcmpError, IPPacket, read_packet
from v6t.audit.packet_device.relays import decapsulated_ecn
from v6t.plugins.audit_views import Address, SideName, TunnelEnd


class SixInFourDevice(PacketDevice):
    """A tunnel end whose other ends are found by the inner address."""

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

    def decapsulate(self, packet: IPPacket) -> Iterable[Sent]:
        """Send the packet in a tunnel packet (RFC 4213, section 3.6; RFC 5969, section 12)."""
        whole = self.reassembly.add(packet)
        if whole is None:
            return []
        inner = read_packet(whole.octets)
        is_ipv6 = whole.proto == IPV6_IN_IP and inner.version == 6
        if not is_ipv6 or not self.is_own_source(whole.src, inner.src) or inner.ttl <= 1:
            raise Drop
        tos = inner.tos & 0xFC | decapsulated_ecn(inner.tos & 3, whole.tos & 3)
        return [(self.tunnel.far_side, self.decrement(replace(inner, tos=tos)))]

    def is_own_source(self, outer: Address, inner: Address) -> bool:
        """Return whether the tunnel's other end may send from an inner address."""
        return self.endpoint(inner) == outer

    def encapsulate(self, packet: IPPacket, remote: Address) -> Iterable[Sent]:
        """Send a packet into the tunnel (RFC 4213, section 3.5; RFC 6040, section 4.1)."""
        octets, mtu = bytes(packet), self.ports.mtu(self.tunnel.side)
        if len(octets) + 20 > mtu:
            raise Drop(IcmpError(2, 0, mtu - 20))
        header = IPPacket(self.tunnel.local, remote, IPV6_IN_IP, octets, packet.tos, HOP_LIMIT)
        return [(self.tunnel.side, header)]
