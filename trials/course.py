"""A trial over its time: what came back and what was lost in each slot, and how busy the device was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any

SLOTS = 60
"""A trial has at most so many slots while it sends: a journal holds tens of thousands of trials."""
MOST_SLOTS = 1_000_000
"""No journal that v6t wrote has more, wait for late frames included."""

_STEPS = (1, 2, 5)
_SHORTEST_S = 0.01


def slot_s(sending_s: float) -> float:
    """Length of the slots of a trial [s]: 0.01, 0.02, 0.05, 0.1 ... such that there are few."""
    decade = _SHORTEST_S
    while True:
        for step in _STEPS:
            if sending_s <= SLOTS * step * decade * (1 + 1e-9):
                return round(step * decade, 2)
        decade *= 10


@dataclass(frozen=True)
class Course:
    """One direction of a trial, slot by slot, frames that must be dropped left out.

    Attributes:
        slot_s: length of a slot [s].
        received: frames that arrived in each slot after the first frame was sent.
        lost: frames due in each slot that did not come back in time.
    """

    slot_s: float
    received: tuple[int, ...]
    lost: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON-like values: most slots are alike, which takes two characters each, or none."""
        return {
            "slot_s": self.slot_s,
            "received": _packed(self.received),
            "lost": _packed(self.lost),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Course:
        """Read back what :meth:`to_json` wrote."""
        return cls(data["slot_s"], _unpacked(data["received"]), _unpacked(data["lost"]))


def _packed(values: Sequence[int]) -> list[int]:
    """How many values, the usual one, and by how much each differs from it up to the last that does."""
    usual = median_low(values) if values else 0
    more = [value - usual for value in values]
    while more and not more[-1]:
        more.pop()
    return [len(values), usual, *more]


def _unpacked(packed: Sequence[int]) -> tuple[int, ...]:
    count, usual, *more = packed
    if not 0 <= len(more) <= count <= MOST_SLOTS:
        raise ValueError("a trial's course has not so many slots as it says")
    return tuple(usual + n for n in more) + (usual,) * (count - len(more))


@dataclass(frozen=True)
class DeviceLoad:
    """How busy the cores of a device were during a trial.

    Attributes:
        at_s: ends of the seconds that were watched, after the first frame [s].
        busiest: of the busiest core in each of them [%].
        mean: of all cores [%].
    """

    at_s: tuple[float, ...]
    busiest: tuple[int, ...]
    mean: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON-like values, the inverse of :meth:`from_json`."""
        return {k: list(getattr(self, k)) for k in ("at_s", "busiest", "mean")}

    @classmethod
    def from_json(cls, data: Mapping[str, Sequence[Any]]) -> DeviceLoad:
        """Read back what :meth:`to_json` wrote."""
        return cls(tuple(data["at_s"]), tuple(data["busiest"]), tuple(data["mean"]))
