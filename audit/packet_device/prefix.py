"""A translator of IPv6 prefixes (NPTv6, RFC 6296)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from ipaddress import IPv6Address, IPv6Network

from v6t.audit.packet_device.device import DeviceLinks, PacketDevice, Sent
from v6t.audit.packet_device.maps import bits_of, ipv6_from, prefix_bits
from v6t.audit.packet_device.packets import Drop, IPPacket, replace_address
from v6t.plugins.audit_views import Address, PrefixTranslator, SideName


def words_of(address: Address) -> list[int]:
    """Return an address as eight 16-bit words."""
    return [int(word, 16) for word in address.exploded.split(":")]


def translate_prefix(address: Address, old: IPv6Network, new: IPv6Network) -> IPv6Address:
    """Return an address behind another prefix whose words have the same one's complement sum.

    Raises:
        Drop: no word of the interface identifier can be adjusted (RFC 6296, section 3.5).
    """
    before = words_of(address)
    after = words_of(ipv6_from(prefix_bits(new) + bits_of(address)[new.prefixlen :]))
    is_short = max(old.prefixlen, new.prefixlen) <= 48
    adjustable = [3] if is_short else [n for n in range(4, 8) if before[n] != 0xFFFF]
    if not adjustable:
        raise Drop
    after[adjustable[0]] = (after[adjustable[0]] + sum(before) - sum(after)) % 0xFFFF
    return IPv6Address(":".join(f"{word:x}" for word in after))


class PrefixDevice(PacketDevice):
    """Inside hosts on the left link have an internal prefix, and an external one on the right."""

    def __init__(self, ports: DeviceLinks, view: PrefixTranslator) -> None:
        super().__init__(ports)
        self.internal, self.external = view.internal, view.external

    def forward(self, side: SideName, packet: IPPacket) -> Iterable[Sent]:
        packet = self.decrement(packet)
        if side == "left" and packet.src in self.internal:
            packet = self.translate(packet, self.internal, self.external, is_source=True)
        if packet.dst in self.external:
            packet = self.translate(packet, self.external, self.internal, is_source=False)
            return [("left", packet)]
        out = self.ports.side_of(packet.dst)
        if out is None or out == side:
            raise Drop
        return [(out, packet)]

    def translate(
        self, packet: IPPacket, old: IPv6Network, new: IPv6Network, *, is_source: bool
    ) -> IPPacket:
        """Return a packet with a translated address, also of the packet that an error quotes."""
        if packet.is_error:
            quoted = packet.quoted_packet()
            if (quoted.dst if is_source else quoted.src) in old:
                quoted = self.translate(quoted, old, new, is_source=not is_source)
            packet = replace(packet, octets=packet.octets[:8] + bytes(quoted))
        address = translate_prefix(packet.src if is_source else packet.dst, old, new)
        return replace_address(packet, address, is_source=is_source)
