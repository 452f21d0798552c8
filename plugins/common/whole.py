"""A whole device that takes packets out of frames: discards, ICMP errors of its own, fragments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

import numpy as np
from v6t.plugins.common.discards import sound
from v6t.plugins.common.octets import ETHERTYPE, side_of
from v6t.plugins.whole import WAYS, Leaves, SideName, WholeDevice

if TYPE_CHECKING:
    from v6t.plugins.base import Technology

HOP_LIMIT = 64
_ICMP, _ICMPV6 = 1, 58
_QUOTED = {4: 548, 6: 1232}
"""Octets of the packet in an error at most: an error fits 576 octets of IPv4, 1280 of IPv6."""


class PacketDevice(WholeDevice, ABC):
    """Takes packets out of frames and puts packets into frames."""

    def __init__(self, technology: Technology) -> None:
        super().__init__(technology)
        intent = technology.dut_intent()
        self.sides = {name: side_of(getattr(technology.links, name)) for name in WAYS}
        self.mtu = {name: int(getattr(technology.links, name).mtu) for name in WAYS}
        self.own: dict[tuple[str, int], IPv4Address | IPv6Address] = {}
        for name in WAYS:
            for interface in reversed(getattr(intent, name).addresses):
                self.own[name, interface.version] = interface.ip

    def receive(self, side: SideName, frame: bytes) -> Leaves:
        here = self.sides[side]
        head = here.arriving
        if frame[:6] != head[:6] or frame[12 : len(head)] != head[12:]:
            return []
        kind, packet = frame[len(head) : len(head) + 2], frame[len(head) + 2 :]
        for version, ethertype in ETHERTYPE.items():
            if kind == ethertype and len(packet) >= (20 if version == 4 else 40):
                rows = np.frombuffer(packet, dtype=np.uint8)[None, :]
                if packet[0] >> 4 != version or not sound(rows, version)[0]:
                    return []
                leaving = self.packet(side, version, _cut(packet, version))
                if leaving is None:
                    return super().receive(side, frame)
                return [(out, self._framed(out, p)) for out, p in leaving]
        return []

    @abstractmethod
    def packet(self, side: SideName, version: int, packet: bytes) -> Leaves | None:
        """Packets that leave because of one that arrived; None: it is merely routed, or dropped."""

    def _framed(self, side: SideName, packet: bytes) -> bytes:
        frame = self.sides[side].leaving + ETHERTYPE[packet[0] >> 4] + packet
        return frame + bytes(max(0, 60 - len(frame)))

    def icmp_error(
        self, side: SideName, packet: bytes, kind: int, code: int, rest: int = 0
    ) -> Leaves:
        """An ICMP error about a packet, back to its sender; nothing about an ICMP error."""
        version = packet[0] >> 4
        own = self.own.get((side, version))
        if own is None or is_error(packet):
            return []
        quoted = packet[: _QUOTED[version]]
        body = bytes([kind, code, 0, 0]) + rest.to_bytes(4, "big") + quoted
        to = packet[12:16] if version == 4 else packet[8:24]
        return [(side, message(own.packed, to, body))]


def message(source: bytes, destination: bytes, body: bytes) -> bytes:
    """A packet with an ICMP or ICMPv6 message of the device's own, checksum filled in."""
    if len(source) == 4:
        body = body[:2] + checksum(body).to_bytes(2, "big") + body[4:]
        return ipv4_header(source, destination, _ICMP, len(body)) + body
    pseudo = source + destination + len(body).to_bytes(4, "big") + _ICMPV6.to_bytes(4, "big")
    body = body[:2] + checksum(pseudo + body).to_bytes(2, "big") + body[4:]
    head = b"\x60\0\0\0" + len(body).to_bytes(2, "big") + bytes([_ICMPV6, HOP_LIMIT])
    return head + source + destination + body


def ipv4_header(
    source: bytes,
    destination: bytes,
    protocol: int,
    length: int,
    *,
    ttl: int = HOP_LIMIT,
    rest: bytes = b"\0\0\0\0",
    tos: int = 0,
) -> bytes:
    """A header without options; ``rest`` is identification and fragment word."""
    head = bytes([0x45, tos]) + (20 + length).to_bytes(2, "big") + rest
    head += bytes([ttl, protocol, 0, 0]) + source + destination
    return head[:10] + checksum(head).to_bytes(2, "big") + head[12:]


def is_error(packet: bytes) -> bool:
    """Whether it is an ICMP error, or may be the later fragment of one."""
    if packet[0] >> 4 == 4:
        at = 4 * (packet[0] & 15)
        later = int.from_bytes(packet[6:8], "big") & 0x1FFF
        return packet[9] == _ICMP and (later > 0 or packet[at : at + 1] not in (b"\0", b"\x08"))
    return packet[6] == _ICMPV6 and packet[40:41] < b"\x80"


def checksum(octets: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    number = int.from_bytes(octets + b"\0" * (len(octets) % 2), "big")
    return 0xFFFF - (number % 0xFFFF or (0xFFFF if number else 0))


def decremented(packet: bytes) -> bytes:
    """TTL or hop limit one less."""
    if packet[0] >> 4 == 6:
        return packet[:7] + bytes([packet[7] - 1]) + packet[8:]
    end = 4 * (packet[0] & 15)
    head = packet[:8] + bytes([packet[8] - 1]) + packet[9:10] + b"\0\0" + packet[12:end]
    return head[:10] + checksum(head).to_bytes(2, "big") + head[12:] + packet[end:]


def fragments4(packet: bytes, mtu: int) -> Iterable[bytes]:
    """An IPv4 packet without DF in pieces that fit a link."""
    if len(packet) <= mtu:
        return [packet]
    end = 4 * (packet[0] & 15)
    data, word = packet[end:], int.from_bytes(packet[6:8], "big")
    room = (mtu - 20) // 8 * 8
    fragments = []
    for at in range(0, len(data), room):
        piece = data[at : at + room]
        more = word & 0x2000 or at + room < len(data)
        flags = (word & 0x1FFF) + at // 8 | (0x2000 if more else 0)
        fragments.append(
            ipv4_header(
                packet[12:16],
                packet[16:20],
                packet[9],
                len(piece),
                ttl=packet[8],
                tos=packet[1],
                rest=packet[4:6] + flags.to_bytes(2, "big"),
            )
            + piece
        )
    return fragments


def _cut(packet: bytes, version: int) -> bytes:
    """Without Ethernet's padding."""
    if version == 4:
        return packet[: int.from_bytes(packet[2:4], "big")]
    return packet[: 40 + int.from_bytes(packet[4:6], "big")]
