"""Compare a packet that a device sent with a template: fields that the template sets must be equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.packet import NoPayload, Packet
from scapy.utils import checksum
from v6t.audit.wire import fragment_offset, has_more_fragments, protocol_of, transport_octets

_CHECKSUM_OFFSETS = {1: 2, 6: 16, 17: 6, 58: 2}


@dataclass(frozen=True)
class Condition:
    """A condition that a field of a template must fulfil."""

    words: str
    holds: Callable[[Any], bool]

    def __str__(self) -> str:
        return self.words


def allow(template: Packet, **fields: Condition | tuple[Any, ...]) -> Packet:
    """Return a template with fields that fulfil a condition, or have one of several values."""
    changed = template.copy()
    for name, value in fields.items():
        changed.fields[name] = value[0] if isinstance(value, tuple) and len(value) == 1 else value
    return changed


def difference(template: Packet, packet: Packet) -> str:
    """Describe the first field that differs; empty if the packet matches the template.

    Extension headers before a packet in a tunnel do not count.
    """
    expected: Packet = template
    layer: Packet = packet
    while not isinstance(expected, NoPayload):
        while isinstance(expected, (IP, IPv6)) and expected is not template and _is_option(layer):
            layer = layer.payload
        if not isinstance(layer, type(expected)):
            return f"{layer.name or 'no payload'} instead of {expected.name}"
        for name, value in expected.fields.items():
            if isinstance(value, list) and not value:  # scapy creates lists in every packet
                continue
            seen = layer.getfieldval(name)
            if not _equal(name, seen, value):
                words = f"{format_value(seen)}, not {format_value(value)}"
                return f"{expected.name}.{name} is {words}"
        expected, layer = expected.payload, layer.payload
    return ""


def describe_template(template: Packet) -> str:
    """Describe the fields that a template sets, layer by layer."""
    layers = []
    for layer in template.iterpayloads():
        fields = ", ".join(
            f"{name} {f'of {len(value)} octets' if isinstance(value, bytes) else format_value(value)}"
            for name, value in layer.fields.items()
            if not isinstance(value, list) or value
        )
        layers.append(f"{layer.name} ({fields})" if fields else layer.name)
    return " / ".join(layers)


def checksum_error(packet: Packet, *, quoted: bool = False) -> str:
    """Describe the first wrong checksum of a packet; empty if all are correct.

    Args:
        packet: IPv4 or IPv6.
        quoted: check the packet that an ICMP error quotes, if it is complete, too.
    """
    wrong = _own_checksum_error(packet)
    if wrong or not quoted:
        return wrong
    inner = quoted_packet(packet)
    if inner is None:
        return "no packet is quoted"
    wrong = _own_checksum_error(inner)
    return f"quoted packet: {wrong}" if wrong else ""


def quoted_packet(packet: Packet) -> Packet | None:
    """Return the packet that an ICMP error quotes."""
    octets = transport_octets(packet)[8:]
    if len(octets) < 20:
        return None
    return IP(octets) if octets[0] >> 4 == 4 else IPv6(octets)


def _own_checksum_error(packet: Packet) -> str:
    if isinstance(packet, IP) and checksum(bytes(packet)[: 4 * packet.ihl]):
        return "the IPv4 header checksum is wrong"
    protocol, octets = protocol_of(packet), transport_octets(packet)
    offset = _CHECKSUM_OFFSETS.get(protocol)
    length = packet.len if isinstance(packet, IP) else 40 + packet.plen
    complete = len(packet.original or bytes(packet)) >= length
    if offset is None or fragment_offset(packet) or has_more_fragments(packet) or not complete:
        return ""
    if len(octets) < offset + 2:
        return "the transport header is incomplete"
    if protocol == 17 and octets[6:8] == b"\0\0":
        return "" if isinstance(packet, IP) else "the UDP checksum is zero"
    pseudo = b""
    if protocol != 1:
        ends = ip_address(packet.src).packed + ip_address(packet.dst).packed
        pseudo = ends + len(octets).to_bytes(4, "big") + protocol.to_bytes(4, "big")
    return "the transport checksum is wrong" if checksum(pseudo + octets) else ""


def _is_option(layer: Packet) -> bool:
    """Return whether a layer is an IPv6 extension header."""
    return "nh" in layer.fields and not isinstance(layer, IPv6)


def _equal(name: str, seen: Any, value: Any) -> bool:
    if isinstance(value, Condition):
        return value.holds(seen)
    if isinstance(value, tuple):
        return any(_equal(name, seen, each) for each in value)
    if name in ("src", "dst"):
        return ip_address(seen) == ip_address(value)
    return bool(seen == value)


def format_value(value: Any) -> str:
    """Return the value of a field, octets in hexadecimal."""
    if isinstance(value, bytes):
        return value[:24].hex() + ("..." if len(value) > 24 else "")
    return " or ".join(map(str, value)) if isinstance(value, tuple) else str(value)
