"""The contract of the reference translation: the frame that a correct device emits for each frame."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from v6t.packets.header_policy import HeaderPolicy

if TYPE_CHECKING:
    from v6t.packets.arrays import I32, U8, Reasons
    from v6t.packets.direction import Direction

FORWARDED, NOT_OURS, NOT_FORWARDED, EXHAUSTED = range(4)
COMMON_REASONS = (
    "forwarded",
    "not addressed to this device",
    "not a packet that this device forwards",
    "TTL or hop limit exhausted",
)
"""Texts of the drop reasons that all technologies have; 0 means that the frame is forwarded."""


class DropReason(IntEnum):
    """Base class of a technology's drop reasons, numbered from 4 on: ``NO_ROUTE = "no route"``."""

    text: str

    def __new__(cls, text: str) -> DropReason:
        number = len(COMMON_REASONS) + len(cls.__members__)
        member = int.__new__(cls, number)
        member._value_ = number
        member.text = text
        return member

    @classmethod
    def describe(cls, number: int) -> str:
        """Return the text of a common reason or of one of the technology's own, or raise ValueError."""
        return COMMON_REASONS[number] if number < len(COMMON_REASONS) else cls(number).text


@dataclass(frozen=True)
class Expected:
    """What a correct device emits for a batch of frames."""

    frames: U8  # ``(n, longest)`` uint8, Ethernet header on, FCS off; row i answers input row i
    length: I32  # ``(n,)`` int32, octets of row i that count; 0 means "dropped"
    reason: Reasons
    """``(n,)`` uint8, a common reason or one of a :class:`DropReason` (0: not dropped)."""


class ReferenceTranslation(Protocol):
    """The frames that a correct device emits; implementations must be picklable."""

    @abstractmethod
    def expect(self, direction: Direction, frames: U8) -> Expected:
        """Return what a correct device emits for equally long frames ``(n, length)``, FCS off."""

    @property
    def header_policy(self) -> HeaderPolicy:
        """Policy for header fields that may differ from those of the expected frames."""
        return HeaderPolicy()


def translate_frames(
    reference: ReferenceTranslation, direction: Direction, frames: Sequence[bytes]
) -> list[bytes | None]:
    """Return the frame that a correct device emits for each frame of any length, or None for a drop."""
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
