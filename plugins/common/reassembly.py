"""Fragments of IPv4 and IPv6 put together again, for devices that must see the ports of what they forward."""

from __future__ import annotations

from v6t.plugins.common.whole import ipv4_header

FRAGMENT = 44


class Reassembly:
    """Parts of packets that are not complete yet; nothing is ever forgotten."""

    def __init__(self) -> None:
        self._parts: dict[bytes, list[tuple[int, bool, bytes]]] = {}

    def ipv6(self, packet: bytes) -> bytes | None:
        """The packet, whole; None: parts are missing. The fragment header must be the first one."""
        if packet[6] != FRAGMENT:
            return packet
        word = int.from_bytes(packet[42:44], "big")
        key = packet[8:40] + packet[44:48]
        data = self._collected(key, word & 0xFFF8, bool(word & 1), packet[48:])
        if data is None:
            return None
        return packet[:4] + len(data).to_bytes(2, "big") + packet[40:41] + packet[7:40] + data

    def ipv4(self, packet: bytes) -> bytes | None:
        """The packet, whole and without options; None: parts are missing."""
        word = int.from_bytes(packet[6:8], "big")
        if not word & 0x3FFF:
            return packet
        end = 4 * (packet[0] & 15)
        key = packet[12:20] + packet[4:6] + packet[9:10]
        data = self._collected(key, (word & 0x1FFF) * 8, bool(word & 0x2000), packet[end:])
        if data is None:
            return None
        head = ipv4_header(
            packet[12:16],
            packet[16:20],
            packet[9],
            len(data),
            ttl=packet[8],
            tos=packet[1],
            rest=packet[4:6] + b"\0\0",
        )
        return head + data

    def _collected(self, key: bytes, at: int, more: bool, data: bytes) -> bytes | None:
        """The whole, once all its parts are there."""
        parts = self._parts.setdefault(key, [])
        parts.append((at, more, data))
        whole = b""
        for start, further, piece in sorted(parts):
            if start != len(whole):
                return None
            whole += piece
            if not further:
                del self._parts[key]
                return whole
        return None
