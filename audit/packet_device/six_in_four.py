"""Tunnels of IPv6 in IPv4 (RFC 4213) that end in the device, as those of 6rd do (RFC 5969)."""

from __future__ import annotations

from collections.abc import Iterable

from scapy.layers.inet import IP
from scapy.layers.inet6 import ICMPv6PacketTooBig, IPv6
from v6t.audit.packet_device.device import HOP_LIMIT, DeviceLinks, PacketDevice, Sent
from v6t.audit.packet_device.packets import Drop, IPPacket, address_of, payload, read_packet
from v6t.audit.packet_device.relays import decapsulated_ecn
from v6t.plugins.audit_views import SideName, TunnelEnd

IPV6_IN_IPV4 = 41


class SixInFourDevice(PacketDevice):
    """A tunnel end whose other ends are found by the inner address."""

    def __init__(self, ports: DeviceLinks, view: TunnelEnd) -> None:
        super().__init__(ports)
        self.tunnel = view

    def forward(self, side: SideName, packet: IPPacket) -> Iterable[Sent]:
        view = self.tunnel
        if packet.version == 4:
            if side != view.side or address_of(packet.dst) != view.local:
                raise Drop
            return self.decapsulate(packet)
        if side == view.far_side:
            remote = self.endpoint(packet.dst)
            if remote is not None:
                return self.encapsulate(self.decrement(packet), remote)
        return self.route(side, packet)

    def endpoint(self, inner: str) -> str | None:
        """Return the other end of the tunnel for an inner address."""
        view, address = self.tunnel, address_of(inner)
        if view.endpoint is not None:
            found = view.endpoint(address)
            return None if found is None else str(found)
        return str(view.remote) if address == view.inner[0] else None

    def decapsulate(self, packet: IP) -> Iterable[Sent]:
        """Send the packet in a tunnel packet (RFC 4213, section 3.6; RFC 5969, section 12)."""
        whole = self.reassembly.add(packet)
        if whole is None:
            return []
        if whole.proto != IPV6_IN_IPV4:
            raise Drop
        inner = read_packet(payload(whole))
        if inner.version != 6 or not self.is_own_source(whole.src, inner.src):
            raise Drop
        if inner.hlim <= 1:
            raise Drop
        inner.tc = inner.tc & 0xFC | decapsulated_ecn(inner.tc & 3, whole.tos & 3)
        return [(self.tunnel.far_side, self.decrement(inner))]

    def is_own_source(self, outer: str, inner: str) -> bool:
        """Return whether the tunnel's other end may send from an inner address."""
        return self.endpoint(inner) == outer

    def encapsulate(self, packet: IPv6, remote: str) -> Iterable[Sent]:
        """Send a packet into the tunnel (RFC 4213, section 3.5; RFC 6040, section 4.1)."""
        mtu = self.ports.mtu(self.tunnel.side)
        if len(packet) + 20 > mtu:
            raise Drop(ICMPv6PacketTooBig(mtu=mtu - 20))
        header = IP(src=str(self.tunnel.local), dst=remote, proto=IPV6_IN_IPV4, ttl=HOP_LIMIT, id=0)
        header.tos = packet.tc
        return [(self.tunnel.side, header / packet)]
