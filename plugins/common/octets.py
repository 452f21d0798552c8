"""Ethernet headers of a link, as the device receives and sends them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.intent.device import Link
    from v6t.packets.arrays import U8, Mask

ETHERTYPE = {4: b"\x08\x00", 6: b"\x86\xdd"}


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
        kinds: NDArray[np.uint16] = frames[:, at : at + 2].view(">u2")[:, 0]
        return kinds


def side_of(link: Link, vlan: int | None = None) -> Side:
    """Both headers of a link, seen from the device; ``vlan``: of another VLAN than its own."""
    dut, tester = (bytes.fromhex(m.replace(":", "")) for m in (link.dut_mac, link.tester_mac))
    vlan = link.vlan if vlan is None else vlan
    tag = b"" if vlan is None else b"\x81\x00" + vlan.to_bytes(2, "big")
    return Side(dut + tester + tag, tester + dut + tag)
