"""Ethernet, IP and UDP around DNS messages, many at once."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.inet import ETHERTYPES_VLAN, Headers, finish_ipv4, finish_udp

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8

DNS_PORT = 53
_TYPES = {4: b"\x08\x00", 6: b"\x86\xdd"}


@dataclass(frozen=True)
class Layout:
    """Where things are in frames of one link.

    Attributes:
        version: of IP.
        vlan: of the link.
    """

    version: int
    vlan: int | None = None

    @property
    def ip(self) -> int:
        """Octet at which the IP header begins."""
        return 14 if self.vlan is None else 18

    @property
    def udp(self) -> int:
        """The UDP header; IPv4 without options."""
        return self.ip + (40 if self.version == 6 else 20)

    @property
    def message(self) -> int:
        """The DNS message."""
        return self.udp + 8

    @property
    def addresses(self) -> tuple[int, int]:
        """Where the source address begins, and octets of each."""
        return (self.ip + 8, 16) if self.version == 6 else (self.ip + 12, 4)

    def is_ours(self, frames: U8) -> NDArray[np.bool_]:
        """Which frames hold a whole UDP datagram with room for a DNS header, addressed to anybody."""
        if frames.shape[1] < self.message + 12:
            return np.zeros(len(frames), bool)
        kind, ip = _TYPES[self.version], self.ip
        ours: NDArray[np.bool_] = (frames[:, ip - 2] == kind[0]) & (frames[:, ip - 1] == kind[1])
        if self.vlan is not None:
            ours &= (word(frames, 12) == ETHERTYPES_VLAN[0]) & (
                word(frames, 14) & 0xFFF == self.vlan
            )
        if self.version == 6:
            ours &= frames[:, ip + 6] == 17
        else:  # no options, no fragment
            ours &= (frames[:, ip] == 0x45) & (frames[:, ip + 9] == 17)
            ours &= ((frames[:, ip + 6] & 0x3F) == 0) & (frames[:, ip + 7] == 0)
        return ours

    def header(
        self,
        macs: tuple[str, str],
        source: IPv4Address | IPv6Address,
        destination: IPv4Address | IPv6Address,
    ) -> bytes:
        """All before a message, with lengths, ports and checksums left at 0.

        Args:
            macs: of the sender and of the receiver.
            source, destination: of the packet.
        """
        ethernet = _mac(macs[1]) + _mac(macs[0])
        if self.vlan is not None:
            ethernet += b"\x81\x00" + self.vlan.to_bytes(2, "big")
        ends = source.packed + destination.packed
        if self.version == 6:
            ip = b"\x60\0\0\0\0\0\x11\x40" + ends
        else:
            ip = b"\x45\0\0\0\0\0\x40\0\x40\x11\0\0" + ends
        return ethernet + _TYPES[self.version] + ip + bytes(8)

    def finish(self, frames: U8) -> None:
        """Write lengths and checksums of equally long frames."""
        length = frames.shape[1] - self.udp
        frames[:, self.udp + 4 : self.udp + 6] = tuple(length.to_bytes(2, "big"))
        ip = self.ip
        if self.version == 6:
            frames[:, ip + 4 : ip + 6] = tuple(length.to_bytes(2, "big"))
        else:
            frames[:, ip + 2 : ip + 4] = tuple((length + 20).to_bytes(2, "big"))
            finish_ipv4(frames, ip, 20)
        finish_udp(frames, Headers(ip, self.version, None, self.udp, self.message))

    def turned(self, frames: U8, octets: int) -> U8:
        """Frames back to their senders, with room for messages of so many octets behind the headers."""
        replies = np.empty((len(frames), self.message + octets), np.uint8)
        replies[:, : self.message] = frames[:, : self.message]
        replies[:, 0:6], replies[:, 6:12] = frames[:, 6:12], frames[:, 0:6]
        begin, size = self.addresses
        middle, end = begin + size, begin + 2 * size
        replies[:, begin:middle], replies[:, middle:end] = (
            frames[:, middle:end],
            frames[:, begin:middle],
        )
        udp = self.udp
        replies[:, udp : udp + 2] = frames[:, udp + 2 : udp + 4]
        replies[:, udp + 2 : udp + 4] = frames[:, udp : udp + 2]
        replies[:, self.ip + (7 if self.version == 6 else 8)] = 64
        return replies


def word(frames: U8, at: int) -> NDArray[np.uint16]:
    """Sixteen bits of every frame."""
    words: NDArray[np.uint16] = (frames[:, at].astype(np.uint16) << 8 | frames[:, at + 1]).astype(
        np.uint16
    )
    return words


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))
