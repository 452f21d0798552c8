"""The reference translation: what a device, or a part of one, emits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from v6t.packets.header_policy import HeaderPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray
    from v6t.packets.direction import Direction


@dataclass(frozen=True)
class Expected:
    """What a correct device emits for a batch of frames.

    Attributes:
        frames: ``(n, longest)`` uint8, Ethernet header on, FCS off; row i answers input row i.
        length: ``(n,)`` int32, octets of row i that count; 0 means "dropped".
        reason: ``(n,)`` uint8, index into the plugin's ``drop_reasons`` (0: not dropped).
    """

    frames: NDArray[np.uint8]
    length: NDArray[np.int32]
    reason: NDArray[np.uint8]


class Reference(ABC):
    """Knows what a device, or a part of one, emits. Picklable."""

    @abstractmethod
    def expect(self, direction: Direction, frames: NDArray[np.uint8]) -> Expected:
        """The reference translation of equally long frames, ``(n, length)`` uint8, FCS off."""

    @property
    def header_policy(self) -> HeaderPolicy:
        """Which header fields of expected frames may have other values; see the class."""
        return HeaderPolicy()


def translate_frames(
    reference: Reference, direction: Direction, frames: Sequence[bytes]
) -> list[bytes | None]:
    """Return the frame that a correct device emits for each frame, or None if it drops the frame.

    Args:
        reference: the reference translation of a stateless technology.
        direction: the direction in which the frames are sent.
        frames: frames of any lengths, without FCS.
    """
    import numpy as np

    rows_by_length: dict[int, list[int]] = {}
    for row, frame in enumerate(frames):
        rows_by_length.setdefault(len(frame), []).append(row)
    emitted: list[bytes | None] = [None] * len(frames)
    for octets, rows in rows_by_length.items():
        batch = np.frombuffer(b"".join(frames[row] for row in rows), dtype=np.uint8)
        answer = reference.expect(direction, batch.reshape(len(rows), octets).copy())
        for row, frame, length in zip(rows, answer.frames, answer.length.tolist(), strict=True):
            if length:
                emitted[row] = frame[:length].tobytes()
    return emitted
