"""A device as a whole, a frame at a time: whatever it sends, on either link.

The reference translation (:meth:`~v6t.packets.reference.ReferenceTranslation.expect`) is for test frames: one
answer or none, on the other link, millions of them. This is what audits are audited with, where
every octet of single packets counts, errors of the device's own included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from v6t.packets.direction import Direction
    from v6t.packets.reference import ReferenceTranslation

SideName = Literal["left", "right"]
Leaves = list[tuple[SideName, bytes]]
"""Frames or packets, and the link each leaves on."""
WAYS: dict[SideName, Direction] = {"left": "forward", "right": "reverse"}
"""Direction of what arrives on a link."""


class WholeDevice:
    """Forwards what the technology's reference translation forwards, says nothing itself. Picklable."""

    def __init__(self, reference: ReferenceTranslation) -> None:
        """Remember.

        Args:
            reference: the translation.
        """
        self.reference = reference

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.reference,)

    def receive(self, side: SideName, frame: bytes) -> Leaves:
        """Frames that leave because of one that arrived on a link."""
        rows = np.frombuffer(frame, dtype=np.uint8)[None, :]
        answer = self.reference.expect(WAYS[side], rows)
        length = int(answer.length[0])
        return [(other(side), answer.frames[0, :length].tobytes())] if length > 0 else []


def other(side: SideName) -> SideName:
    """The other link."""
    return "right" if side == "left" else "left"
