"""Single packets of an audit, octet by octet: also those that no traffic model may send.

The compiler's frames are well-formed test frames of one size; an audit needs options, fragments, errors
about other packets and broken headers, one of each. Checksums are right unless a caller spoils them.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

ICMP, IPIP, TCP, UDP, ROUTING, FRAGMENT, ICMPV6, OPTIONS, HOP_BY_HOP = (
    1,
    4,
    6,
    17,
    43,
    44,
    58,
    60,
    0,
)
TTL = 61
"""Of what is sent: neither a usual default nor one that a device could write by itself."""
DF, MF = 0x4000, 0x2000
PAYLOAD = b"v6t audit payload "


def data(length: int = len(PAYLOAD)) -> bytes:
    """So many octets of payload; no two neighbouring words are equal."""
    counted = b"".join(number.to_bytes(2, "big") for number in range((length + 1) // 2))
    return (PAYLOAD + counted)[:length]


def folded(octets: bytes) -> int:
    """One's complement sum of 16-bit words (RFC 1071)."""
    number = int.from_bytes(octets + b"\0" * (len(octets) % 2), "big")
    return number % 0xFFFF or (0xFFFF if number else 0)


def internet_checksum(octets: bytes) -> int:
    """The Internet checksum of octets whose checksum field is zero."""
    return folded(octets) ^ 0xFFFF


def ip4(
    source: IPv4Address,
    destination: IPv4Address,
    protocol: int,
    payload: bytes,
    *,
    ttl: int = TTL,
    tos: int = 0,
    flags: int = 0,
    offset: int = 0,
    identification: int = 0x1234,
    options: bytes = b"",
    total: int | None = None,
) -> bytes:
    """An IPv4 packet.

    Args:
        source, destination, protocol, payload, ttl, tos, identification: as in the header.
        flags: :data:`DF`, :data:`MF`.
        offset: of a fragment [octets, a multiple of 8].
        options: padded to words.
        total: length told by the header; None: the right one.
    """
    options += b"\0" * (-len(options) % 4)
    length = 20 + len(options)
    head = bytes([0x40 | length // 4, tos])
    head += (length + len(payload) if total is None else total).to_bytes(2, "big")
    head += identification.to_bytes(2, "big") + (flags | offset // 8).to_bytes(2, "big")
    head += bytes([ttl, protocol, 0, 0]) + source.packed + destination.packed + options
    return head[:10] + internet_checksum(head).to_bytes(2, "big") + head[12:] + payload


def ip6(
    source: IPv6Address,
    destination: IPv6Address,
    protocol: int,
    payload: bytes,
    *,
    hop_limit: int = TTL,
    traffic_class: int = 0,
    flow_label: int = 0,
    length: int | None = None,
) -> bytes:
    """An IPv6 packet; extension headers are a part of the payload."""
    first = 6 << 28 | traffic_class << 20 | flow_label
    declared_length = len(payload) if length is None else length
    head = (
        first.to_bytes(4, "big") + declared_length.to_bytes(2, "big") + bytes([protocol, hop_limit])
    )
    return head + source.packed + destination.packed + payload


def fragment_header(
    following: int, offset: int = 0, *, more: bool = False, identification: int = 0x89ABCDEF
) -> bytes:
    """An IPv6 fragment header; ``offset`` in octets, a multiple of 8."""
    return (
        bytes([following, 0])
        + (offset | more).to_bytes(2, "big")
        + identification.to_bytes(4, "big")
    )


def udp(
    source: IPv4Address | IPv6Address,
    destination: IPv4Address | IPv6Address,
    ports: tuple[int, int],
    payload: bytes = PAYLOAD,
    *,
    summed: bool = True,
) -> bytes:
    """A UDP datagram between two addresses; without a checksum where ``summed`` is False."""
    head = b"".join(p.to_bytes(2, "big") for p in (*ports, 8 + len(payload)))
    datagram = head + b"\0\0" + payload
    if not summed:
        return datagram
    value = internet_checksum(_pseudo(source, destination, UDP, len(datagram)) + datagram) or 0xFFFF
    return head + value.to_bytes(2, "big") + payload


def summing_to_zero(
    source: IPv4Address | IPv6Address,
    destination: IPv4Address | IPv6Address,
    ports: tuple[int, int],
) -> bytes:
    """Data of a datagram whose checksum is computed as zero: 0xFFFF is written then (RFC 768)."""
    return b"v6" + udp(source, destination, ports, b"v6\0\0")[6:8]


def tcp(
    source: IPv4Address | IPv6Address,
    destination: IPv4Address | IPv6Address,
    ports: tuple[int, int],
    flags: int = 0x02,
    payload: bytes = b"",
    *,
    sequence: int = 0x01020304,
    acknowledged: int = 0,
) -> bytes:
    """A TCP segment; SYN by default."""
    head = b"".join(p.to_bytes(2, "big") for p in ports) + sequence.to_bytes(4, "big")
    head += acknowledged.to_bytes(4, "big") + bytes([0x50, flags, 0x10, 0])
    segment = head + b"\0\0\0\0" + payload
    value = internet_checksum(_pseudo(source, destination, TCP, len(segment)) + segment)
    return head + value.to_bytes(2, "big") + b"\0\0" + payload


def icmp(kind: int, code: int, rest: int, payload: bytes) -> bytes:
    """An ICMP message; ``rest`` is the second word."""
    message = bytes([kind, code, 0, 0]) + rest.to_bytes(4, "big") + payload
    return message[:2] + internet_checksum(message).to_bytes(2, "big") + message[4:]


def icmp6(
    source: IPv6Address, destination: IPv6Address, kind: int, code: int, rest: int, payload: bytes
) -> bytes:
    """An ICMPv6 message."""
    message = bytes([kind, code, 0, 0]) + rest.to_bytes(4, "big") + payload
    value = internet_checksum(_pseudo(source, destination, ICMPV6, len(message)) + message)
    return message[:2] + value.to_bytes(2, "big") + message[4:]


def echo_word(identifier: int, sequence: int = 1) -> int:
    """Second word of an echo message."""
    return identifier << 16 | sequence


def _pseudo(
    source: IPv4Address | IPv6Address,
    destination: IPv4Address | IPv6Address,
    protocol: int,
    length: int,
) -> bytes:
    """The checksum does not mind which fields of the pseudo header are how wide."""
    return (
        source.packed + destination.packed + length.to_bytes(4, "big") + protocol.to_bytes(4, "big")
    )
