"""A translator of IPv6 prefixes (NPTv6, RFC 6296)."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv6Address, IPv6Network

from v6t.audit.packet_device.device import DeviceLinks, PacketDevice, Sent
from v6t.audit.packet_device.maps import bits_of, ipv6_from, prefix_bits
from v6t.audit.packet_device.packets import (
    Drop,
    IPPacket,
    address_of,
    is_error,
    payload,
    read_header,
    with_payload,
)
from v6t.plugins.audit_views import PrefixTranslator, SideName


def words_of(address: IPv6Address) -> list[int]:
    """Return an address as eight 16-bit words."""
    return [int(word, 16) for word in address.exploded.split(":")]


def translate_prefix(address: IPv6Address, old: IPv6Network, new: IPv6Network) -> IPv6Address:
    """Return an address behind another prefix whose words have the same one's complement sum.

    Raises:
        Drop: no word of the interface identifier can be adjusted (RFC 6296, section 3.5).
    """
    before = words_of(address)
    after = words_of(ipv6_from(prefix_bits(new) + bits_of(address)[new.prefixlen :]))
    if max(old.prefixlen, new.prefixlen) <= 48:
        adjusted = 3
    else:
        adjustable = [n for n in range(4, 8) if before[n] != 0xFFFF]
        if not adjustable:
            raise Drop
        adjusted = adjustable[0]
    after[adjusted] = (after[adjusted] + sum(before) - sum(after)) % 0xFFFF
    return IPv6Address(":".join(f"{word:x}" for word in after))


class PrefixDevice(PacketDevice):
    """Inside hosts on the left link have an internal prefix, and an external one on the right."""

    def __init__(self, ports: DeviceLinks, view: PrefixTranslator) -> None:
        super().__init__(ports)
        self.internal, self.external = view.internal, view.external

    def forward(self, side: SideName, packet: IPPacket) -> Iterable[Sent]:
        aged = self.decrement(packet)
        if side == "left" and address_of(aged.src) in self.internal:
            aged = self.translate(aged, "src", self.internal, self.external)
        if address_of(aged.dst) in self.external:
            aged = self.translate(aged, "dst", self.external, self.internal)
            return [("left", aged)]
        out = self.ports.side_of(aged.dst)
        if out is None or out == side:
            raise Drop
        return [(out, aged)]

    def translate(self, packet: IPPacket, end: str, old: IPv6Network, new: IPv6Network) -> IPPacket:
        """Return a packet with a translated address, also of the packet that an error quotes."""
        octets = payload(packet)
        if is_error(packet):
            quoted = read_header(octets[8:])
            opposite = "dst" if end == "src" else "src"
            if address_of(getattr(quoted, opposite)) in old:
                replace_end(quoted, opposite, old, new)
            octets = octets[:8] + bytes(quoted)
        changed = with_payload(packet, octets)
        replace_end(changed, end, old, new)
        return changed


def replace_end(packet: IPPacket, end: str, old: IPv6Network, new: IPv6Network) -> None:
    """Translate the source or destination of a packet in place."""
    setattr(packet, end, str(translate_prefix(address_of(getattr(packet, end)), old, new)))
