"""What a frame that a device sent says: its IP header, extension headers, transport and message."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from v6t.plugins.clauses.packets import (
    DF,
    FRAGMENT,
    HOP_BY_HOP,
    ICMP,
    ICMPV6,
    MF,
    OPTIONS,
    ROUTING,
    TCP,
    UDP,
    folded,
)

_SKIPPED = (HOP_BY_HOP, ROUTING, OPTIONS)
_NAMES = {ICMP: "ICMP", TCP: "TCP", UDP: "UDP", ICMPV6: "ICMPv6", 4: "IPv4", 41: "IPv6"}
_ERROR_TYPES = {4: (3, 4, 5, 11, 12), 6: tuple(range(1, 128))}


@dataclass(frozen=True)
class Packet:
    """An IP packet, perhaps cut short.

    Attributes:
        version: of IP.
        source, destination, ttl, tos: of its header; hop limit and traffic class of IPv6.
        protocol: behind extension headers.
        payload: behind them, no further than the header's length says.
        flow_label: of IPv6.
        identification: of IPv4, or of the fragment header; None: there is none.
        df, mf: flags; MF also of the fragment header.
        offset: of a fragment [octets].
        extensions: numbers of the extension headers, the fragment header's too.
        options: octets of IPv4 options.
        length: that the header tells, header included.
        octets: that are there.
        sound: the IPv4 header checksum is right.
    """

    version: int
    source: IPv4Address | IPv6Address
    destination: IPv4Address | IPv6Address
    ttl: int
    tos: int
    protocol: int
    payload: bytes
    flow_label: int
    identification: int | None
    df: bool
    mf: bool
    offset: int
    extensions: tuple[int, ...]
    options: bytes
    length: int
    octets: int
    sound: bool

    @property
    def fragment(self) -> bool:
        """Whether it is a part of a packet."""
        return self.mf or self.offset > 0

    @property
    def ports(self) -> tuple[int, int]:
        """Source and destination port; the identifier twice of an echo."""
        if self.protocol in (ICMP, ICMPV6):
            number = int.from_bytes(self.payload[4:6], "big")
            return number, number
        return int.from_bytes(self.payload[:2], "big"), int.from_bytes(self.payload[2:4], "big")

    @property
    def kind(self) -> tuple[int, int] | None:
        """Type and code of an ICMP or ICMPv6 message; None: it is none."""
        if self.protocol != (ICMP if self.version == 4 else ICMPV6) or len(self.payload) < 8:
            return None
        return (self.payload[0], self.payload[1]) if not self.offset else None

    @property
    def error(self) -> bool:
        """Whether it is an ICMP error."""
        return self.kind is not None and self.kind[0] in _ERROR_TYPES[self.version]

    @property
    def word(self) -> int:
        """Second word of a message."""
        return int.from_bytes(self.payload[4:8], "big")

    @property
    def about(self) -> Packet | None:
        """The packet that an error is about."""
        return parsed(self.payload[8:], whole=False) if self.error else None

    @property
    def summed(self) -> bool:
        """Whether the transport checksum is right and there; True of a fragment and of what has none."""
        at = {UDP: 6, TCP: 16, ICMP: 2, ICMPV6: 2}.get(self.protocol)
        if at is None or self.fragment:
            return True
        if len(self.payload) < at + 2:
            return False
        if self.protocol == UDP and not any(self.payload[6:8]):
            return self.version == 4
        return self.sum() == 0xFFFF

    def sum(self) -> int:
        """One's complement sum of the transport with its pseudo header; 0xFFFF where right."""
        pseudo = b""
        if self.protocol != ICMP:
            pseudo = self.source.packed + self.destination.packed
            pseudo += len(self.payload).to_bytes(4, "big") + self.protocol.to_bytes(4, "big")
        return folded(pseudo + self.payload)

    def __str__(self) -> str:
        """In one line, as messages have it."""
        what = _NAMES.get(self.protocol, f"protocol {self.protocol}")
        if self.kind is not None:
            what += f" {self.kind[0]}/{self.kind[1]}"
        if self.fragment:
            what += f", fragment at {self.offset}{', more follow' if self.mf else ''}"
        return f"IPv{self.version} {self.source} > {self.destination}, {what}, {self.length} octets"


def parsed(packet: bytes, *, whole: bool = True) -> Packet | None:
    """A packet's headers; None: it has none that can be read.

    Args:
        packet: from its IP header on; Ethernet's padding may follow.
        whole: it is there to its end; one within an error need not be.
    """
    if len(packet) >= 20 and packet[0] >> 4 == 4:
        return _ipv4(packet, whole)
    if len(packet) >= 40 and packet[0] >> 4 == 6:
        return _ipv6(packet, whole)
    return None


def _ipv4(packet: bytes, whole: bool) -> Packet | None:
    header, length = 4 * (packet[0] & 15), int.from_bytes(packet[2:4], "big")
    if header < 20 or len(packet) < header or (whole and not header <= length <= len(packet)):
        return None
    word = int.from_bytes(packet[6:8], "big")
    return Packet(
        4,
        IPv4Address(packet[12:16]),
        IPv4Address(packet[16:20]),
        packet[8],
        packet[1],
        packet[9],
        packet[header:length],
        0,
        int.from_bytes(packet[4:6], "big"),
        bool(word & DF),
        bool(word & MF),
        (word & 0x1FFF) * 8,
        (),
        packet[20:header],
        length,
        min(len(packet), length),
        folded(packet[:header]) == 0xFFFF,
    )


def _ipv6(packet: bytes, whole: bool) -> Packet | None:
    length = 40 + int.from_bytes(packet[4:6], "big")
    if whole and length > len(packet):
        return None
    first = int.from_bytes(packet[:4], "big")
    protocol, at = packet[6], 40
    extensions: list[int] = []
    identification, offset, more = None, 0, False
    while protocol in (*_SKIPPED, FRAGMENT) and at + 8 <= len(packet) and not offset:
        extensions.append(protocol)
        if protocol == FRAGMENT:
            word = int.from_bytes(packet[at + 2 : at + 4], "big")
            offset, more = word & 0xFFF8, bool(word & 1)
            identification = int.from_bytes(packet[at + 4 : at + 8], "big")
            size = 8
        else:
            size = 8 * (packet[at + 1] + 1)
        protocol, at = packet[at], at + size
    return Packet(
        6,
        IPv6Address(packet[8:24]),
        IPv6Address(packet[24:40]),
        packet[7],
        first >> 20 & 0xFF,
        protocol,
        packet[at:length],
        first & 0xFFFFF,
        identification,
        False,
        more,
        offset,
        tuple(extensions),
        b"",
        length,
        min(len(packet), length),
        True,
    )
