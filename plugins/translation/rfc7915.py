"""IP/ICMP translation (RFC 7915), one packet at a time: options, fragments, ICMP, everything.

The reference device uses it for what is not plain UDP, and the tests to judge the fast way.
TTL and hop limit decrease by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Protocol

from v6t.packets.checksum import compute_checksum, sum_words, update_checksum
from v6t.plugins.translation import icmp

UDP, TCP, ICMP, IGMP, ICMPV6, FRAGMENT = 17, 6, 1, 2, 58, 44
_CHECKSUM_AT = {UDP: 6, TCP: 16}
_SKIPPED = {0, 43, 60}
"""Hop-by-hop, routing and destination options: not translated (section 5.1)."""
_NO_FRAGMENT = {0, 43, 44, 51, 60}
"""Extension headers that a fragment header may not name; ESP it may."""
_SOURCE_ROUTES = {131, 137}
MINIMUM_MTU = 1280


class Refused(Exception):
    """The packet is not translated; ``reason`` is one of the words above."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class AddressMap(Protocol):
    """Both ways between addresses; None where there is none."""

    def to_ipv6(self, ipv4: IPv4Address) -> IPv6Address | None:
        """IPv6 form."""

    def to_ipv4(self, ipv6: IPv6Address) -> IPv4Address | None:
        """IPv4 form."""


EXHAUSTED = "TTL or hop limit exhausted"
NO_MAPPING = "no mapping for an address"
TOO_BIG = "too big, and not to be fragmented"
UNTRANSLATABLE = "cannot be translated"
WRONG_SOURCE = "the source is not the customer's"
"""By the rules of those who give customers addresses and ports; no matter of RFC 7915's."""


@dataclass(frozen=True)
class Translator:
    """A stateless translator.

    Attributes:
        addresses: its mappings.
        lowest_ipv6_mtu: IPv4 packets without DF are fragmented to this (section 4).
        ipv6_mtu: of the IPv6 next hop [octets].
        ipv4_mtu: of the IPv4 next hop [octets].
    """

    addresses: AddressMap
    lowest_ipv6_mtu: int = MINIMUM_MTU
    ipv6_mtu: int = 1500
    ipv4_mtu: int = 1500

    def four_to_six(self, packet: bytes) -> list[bytes]:
        """IPv6 packets for an IPv4 packet, several if it had to be fragmented.

        Raises:
            Refused: it is dropped.
        """
        if packet[8] <= 1:
            raise Refused(EXHAUSTED)
        header = 4 * (packet[0] & 15)
        total = _number(packet, 2, 2)
        if header < 20 or not header <= total <= len(packet):
            raise Refused(UNTRANSLATABLE)
        packet = packet[:total]
        if source_routed(packet[20:header]):
            raise Refused(UNTRANSLATABLE)
        word = _number(packet, 6, 2)
        may_fragment, more, offset = not word & 0x4000, bool(word & 0x2000), word & 0x1FFF
        fragment = more or offset > 0
        protocol, data = self._data_to_six(packet, header, fragment, offset)
        src, dst = self._to_six(packet[12:16]), self._to_six(packet[16:20])
        head = (packet[1], src, dst, packet[8] - 1)
        extra = 8 if fragment else 0
        if not may_fragment:
            if 40 + extra + len(data) > self.ipv6_mtu:
                raise Refused(TOO_BIG)
            return [_ipv6(head, protocol, data, word, packet[4:6] if fragment else None)]
        limit = min(self.lowest_ipv6_mtu, self.ipv6_mtu)
        if 40 + extra + len(data) <= limit:
            return [_ipv6(head, protocol, data, word, packet[4:6] if fragment else None)]
        room = (limit - 48) // 8 * 8
        pieces = [data[at : at + room] for at in range(0, len(data), room)]
        out = []
        for number, piece in enumerate(pieces):
            further = more or number < len(pieces) - 1
            flags = offset + number * room // 8 | (0x2000 if further else 0)
            out.append(_ipv6(head, protocol, piece, flags, packet[4:6]))
        return out

    def six_to_four(self, packet: bytes) -> bytes:
        """The IPv4 packet for an IPv6 packet; its identification is 0 unless it is a fragment.

        Raises:
            Refused: it is dropped.
        """
        if packet[7] <= 1:
            raise Refused(EXHAUSTED)
        if len(packet) < 40 + _number(packet, 4, 2):
            raise Refused(UNTRANSLATABLE)
        packet = packet[: 40 + _number(packet, 4, 2)]
        out = self._ipv4(packet, packet[7] - 1, complete=True)
        if len(out) > self.ipv4_mtu:
            raise Refused(TOO_BIG)
        return out

    def _ipv4(self, packet: bytes, ttl: int, *, complete: bool) -> bytes:
        protocol, at = packet[6], 40
        while protocol in _SKIPPED:
            if len(packet) < at + 8 or (protocol == 43 and packet[at + 3]):
                raise Refused(UNTRANSLATABLE)
            protocol, at = packet[at], at + 8 * (packet[at + 1] + 1)
        identification, flags = 0, 0
        offset = 0
        fragment = protocol == FRAGMENT
        if fragment:
            if len(packet) < at + 8:
                raise Refused(UNTRANSLATABLE)
            word = _number(packet, at + 2, 2)
            offset, identification = word >> 3, _number(packet, at + 6, 2)
            flags = offset | (0x2000 if word & 1 else 0)
            protocol, at = packet[at], at + 8
            if protocol in _NO_FRAGMENT:  # section 5.1.1: dropped
                raise Refused(UNTRANSLATABLE)
        src, dst = self._to_four(packet[8:24]), self._to_four(packet[24:40])
        data = packet[at:]
        if protocol == ICMPV6:
            if fragment:
                raise Refused(UNTRANSLATABLE)
            protocol, data = ICMP, self._icmp(data)
        elif offset == 0:
            data = _moved(data, protocol, packet[8:40], src.packed + dst.packed)
        length = 20 + (_number(packet, 4, 2) + 40 - at if not complete else len(data))
        if not fragment and length > 1260:
            flags = 0x4000
        tos = (packet[0] << 4 & 0xF0) | packet[1] >> 4
        head = bytes([0x45, tos]) + length.to_bytes(2, "big") + identification.to_bytes(2, "big")
        head += flags.to_bytes(2, "big") + bytes([ttl, protocol, 0, 0]) + src.packed + dst.packed
        return head[:10] + compute_checksum(head).to_bytes(2, "big") + head[12:] + data

    def _data_to_six(
        self, packet: bytes, header: int, fragment: bool, offset: int
    ) -> tuple[int, bytes]:
        """Next header and transport header with data, checksum right for IPv6."""
        protocol, data = packet[9], packet[header:]
        src, dst = self._to_six(packet[12:16]), self._to_six(packet[16:20])
        addresses = src.packed + dst.packed
        if protocol == IGMP:  # section 4.2
            raise Refused(UNTRANSLATABLE)
        if protocol == ICMP:
            if fragment:
                raise Refused(UNTRANSLATABLE)
            return ICMPV6, self._icmpv6(data, addresses)
        if protocol == UDP and offset == 0 and data[6:8] == b"\0\0":
            raise Refused(UNTRANSLATABLE)
        if offset == 0:
            data = _moved(data, protocol, packet[12:20], addresses)
        return protocol, data

    def _icmpv6(self, data: bytes, addresses: bytes) -> bytes:
        if len(data) < 8:
            raise Refused(UNTRANSLATABLE)
        if data[0] in icmp.ECHO:
            out = bytes([icmp.ECHO[data[0]], data[1], 0, 0]) + data[4:]
        else:
            inner = data[8:]
            if len(inner) < 20:
                raise Refused(UNTRANSLATABLE)
            length = _number(inner, 2, 2)
            error = icmp.error_to_icmpv6(
                data[0],
                data[1],
                _number(data, 4, 4),
                length,
                min(self.ipv6_mtu, self.ipv4_mtu + 20),
            )
            if error is None:
                raise Refused(UNTRANSLATABLE)
            out = (
                bytes([error[0], error[1], 0, 0])
                + error[2].to_bytes(4, "big")
                + self._inner6(inner)
            )
        pseudo = addresses + len(out).to_bytes(4, "big") + ICMPV6.to_bytes(4, "big")
        return out[:2] + compute_checksum(pseudo + out).to_bytes(2, "big") + out[4:]

    def _inner6(self, inner: bytes) -> bytes:
        """The packet an error is about, perhaps cut short, as IPv6."""
        header, word = 4 * (inner[0] & 15), _number(inner, 6, 2)
        data, protocol = inner[header:], inner[9]
        src, dst = self._to_six(inner[12:16]), self._to_six(inner[16:20])
        if word & 0x1FFF == 0:
            data = _moved(data, protocol, inner[12:20], src.packed + dst.packed)
        if protocol == ICMP:
            protocol = ICMPV6
            if word & 0x1FFF == 0:
                if not data or data[0] not in icmp.ECHO:  # section 4.3: no more embedded headers
                    raise Refused(UNTRANSLATABLE)
                data = bytes([icmp.ECHO[data[0]]]) + data[1:]
        fragment = word & 0x3FFF
        length = _number(inner, 2, 2) - header
        head = (inner[1], src, dst, inner[8])
        return _ipv6(head, protocol, data, word, inner[4:6] if fragment else None, length)

    def _icmp(self, data: bytes) -> bytes:
        if len(data) < 8:
            raise Refused(UNTRANSLATABLE)
        if data[0] in icmp.ECHO_BACK:
            out = bytes([icmp.ECHO_BACK[data[0]], data[1], 0, 0]) + data[4:]
        else:
            error = icmp.error_to_icmp(
                data[0], data[1], _number(data, 4, 4), min(self.ipv4_mtu, self.ipv6_mtu - 20)
            )
            if error is None or len(data) < 48:
                raise Refused(UNTRANSLATABLE)
            inner = data[8:]
            out = bytes([error[0], error[1], 0, 0]) + error[2].to_bytes(4, "big")
            if inner[6] == ICMPV6:
                inner = self._inner_echo(inner)
            out += self._ipv4(inner, inner[7], complete=False)
        return out[:2] + compute_checksum(out).to_bytes(2, "big") + out[4:]

    def _inner_echo(self, inner: bytes) -> bytes:
        """An echo within an error: only its type changes, its checksum cannot be told."""
        if len(inner) < 41 or inner[40] not in icmp.ECHO_BACK:
            raise Refused(UNTRANSLATABLE)
        return (
            inner[:6]
            + bytes([ICMP])
            + inner[7:40]
            + bytes([icmp.ECHO_BACK[inner[40]]])
            + (inner[41:])
        )

    def _to_six(self, octets: bytes) -> IPv6Address:
        address = self.addresses.to_ipv6(IPv4Address(octets))
        if address is None:
            raise Refused(NO_MAPPING)
        return address

    def _to_four(self, octets: bytes) -> IPv4Address:
        address = self.addresses.to_ipv4(IPv6Address(octets))
        if address is None:
            raise Refused(NO_MAPPING)
        return address


def _ipv6(
    head: tuple[int, IPv6Address, IPv6Address, int],
    protocol: int,
    data: bytes,
    flags: int,
    identification: bytes | None,
    length: int | None = None,
) -> bytes:
    """An IPv6 packet, with a fragment header if there is an identification."""
    tos, src, dst, hop_limit = head
    length = len(data) if length is None else length
    if identification is not None:
        word = (flags & 0x1FFF) << 3 | (1 if flags & 0x2000 else 0)
        data = bytes([protocol, 0]) + word.to_bytes(2, "big") + b"\0\0" + identification + data
        length, protocol = length + 8, FRAGMENT
    first = 0x60000000 | tos << 20
    out = first.to_bytes(4, "big") + length.to_bytes(2, "big") + bytes([protocol, hop_limit])
    return out + src.packed + dst.packed + data


def _moved(data: bytes, protocol: int, before: bytes, after: bytes) -> bytes:
    """Transport data whose checksum covers other addresses than before."""
    at = _CHECKSUM_AT.get(protocol)
    if at is None or len(data) < at + 2:
        return data
    old = _number(data, at, 2)
    if protocol == UDP and old == 0:
        return data
    value = update_checksum(old, sum_words(before), sum_words(after))
    if protocol == UDP and value == 0:
        value = 0xFFFF
    return data[:at] + value.to_bytes(2, "big") + data[at + 2 :]


def source_routed(options: bytes) -> bool:
    """Whether there is a source route that has not been used up."""
    at = 0
    while at < len(options) and options[at]:
        if options[at] == 1:
            at += 1
            continue
        if at + 1 >= len(options) or options[at + 1] < 2:
            break
        pointer = options[at + 2] if at + 2 < len(options) else 255
        if options[at] in _SOURCE_ROUTES and pointer <= options[at + 1]:
            return True
        at += options[at + 1]
    return False


def _number(octets: bytes, at: int, size: int) -> int:
    return int.from_bytes(octets[at : at + size], "big")
