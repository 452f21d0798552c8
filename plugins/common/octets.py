"""Octets of test frames as arrays: Ethernet headers of a link, numbers, TTL and checksums.

Rows are frames or IP packets, ``(n, length)`` uint8; all functions work on all rows at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.intent.device import Link
    from v6t.packets.arrays import U8, U64, Mask

ETHERTYPE = {4: b"\x08\x00", 6: b"\x86\xdd"}
UDP = 17


@dataclass(frozen=True)
class Side:
    """Ethernet headers of one link, as bytes, without the EtherType.

    Attributes:
        arriving: what the device receives: its own address, the tester's, the tag if any.
        leaving: what it sends.
    """

    arriving: bytes
    leaving: bytes

    @property
    def l3(self) -> int:
        """Offset of the IP packet."""
        return len(self.arriving) + 2

    def ours(self, frames: U8) -> Mask:
        """Rows addressed to the device, with the link's tag; routers look at no source address."""
        head = np.frombuffer(self.arriving, dtype=np.uint8)
        ours: Mask = (frames[:, :6] == head[:6]).all(axis=1)
        ours &= (frames[:, 12 : len(head)] == head[12:]).all(axis=1)
        return ours

    def kind(self, frames: U8) -> NDArray[np.uint16]:
        """EtherType of each row."""
        at = len(self.arriving)
        kinds: NDArray[np.uint16] = frames[:, at].astype(np.uint16) << np.uint16(8)
        return kinds | frames[:, at + 1]


def side_of(link: Link, vlan: int | None = None) -> Side:
    """Both headers of a link, seen from the device; ``vlan``: of another VLAN than its own."""
    dut, tester = (bytes.fromhex(m.replace(":", "")) for m in (link.dut_mac, link.tester_mac))
    vlan = link.vlan if vlan is None else vlan
    tag = b"" if vlan is None else b"\x81\x00" + vlan.to_bytes(2, "big")
    return Side(dut + tester + tag, tester + dut + tag)


def u64(octets: U8) -> U64:
    """Numbers ``(n,)`` of 8 octets each."""
    return np.ascontiguousarray(octets).view(">u8")[:, 0].astype(np.uint64)


def u32(octets: U8) -> U64:
    """Numbers ``(n,)`` of 4 octets each, as uint64."""
    return np.ascontiguousarray(octets).view(">u4")[:, 0].astype(np.uint64)


def u16(octets: U8) -> U64:
    """Numbers ``(n,)`` of 2 octets each, as uint64."""
    return np.ascontiguousarray(octets).view(">u2")[:, 0].astype(np.uint64)


def octets8(numbers: U64) -> U8:
    """Big-endian octets ``(n, 8)``."""
    return numbers.astype(">u8").view(np.uint8).reshape(len(numbers), 8)


def octets4(numbers: U64) -> U8:
    """Big-endian octets ``(n, 4)`` of numbers below 2^32."""
    return numbers.astype(">u4").view(np.uint8).reshape(len(numbers), 4)


def set_tos(packets: U8, values: NDArray[np.integer]) -> None:
    """TOS of IPv4 packets, header checksum updated (RFC 1624 equation 3), in place."""
    total = ~u16(packets[:, 10:12]) & np.uint64(0xFFFF)
    total += ~u16(packets[:, :2]) & np.uint64(0xFFFF)
    packets[:, 1] = values
    total += u16(packets[:, :2])
    for _ in range(2):
        total = (total & np.uint64(0xFFFF)) + (total >> np.uint64(16))
    packets[:, 10] = ~total >> np.uint64(8) & np.uint64(0xFF)
    packets[:, 11] = ~total & np.uint64(0xFF)


def decrement_ttl(packets: U8) -> None:
    """TTL of IPv4 packets minus one, header checksum updated (RFC 1624), in place."""
    packets[:, 8] -= 1
    checksum = (packets[:, 10].astype(np.uint32) << 8 | packets[:, 11]) + np.uint32(0x0100)
    checksum += checksum >= 0xFFFF
    packets[:, 10] = checksum >> 8 & 0xFF
    packets[:, 11] = checksum & 0xFF
