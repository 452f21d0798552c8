"""A trial over time: frames received and lost in each time slot, and the load of the device."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

MAX_SENDING_SLOTS = 60
"""Limit for the slots in which a trial sends, because a journal holds tens of thousands of trials."""
_SLOT_LENGTHS_S = [round(step * 10**decade, 2) for decade, step in product(range(-2, 8), (1, 2, 5))]


def choose_slot_s(sending_s: float) -> float:
    """Choose the shortest slot of 0.01, 0.02, 0.05, 0.1 ... s of which few enough cover a trial."""
    return next(
        slot for slot in _SLOT_LENGTHS_S if sending_s <= MAX_SENDING_SLOTS * slot * (1 + 1e-9)
    )


@dataclass(frozen=True)
class Timeline:
    """Frames of one direction of a trial by time slot, without negative traffic.

    Attributes:
        slot_s: length of a slot [s].
        received: frames that arrived in each slot, counted from the first frame sent.
        lost: frames due in each slot that did not arrive in time.
    """

    slot_s: float
    received: tuple[int, ...]
    lost: tuple[int, ...]


@dataclass(frozen=True)
class DeviceLoad:
    """Load of a device's processor cores during a trial, second by second.

    Attributes:
        end_times_s: ends of the seconds that were observed, counted from the first frame [s].
        max_percent: load of the busiest core in each of them [%].
        mean_percent: mean load of all cores [%].
    """

    end_times_s: tuple[float, ...]
    max_percent: tuple[int, ...]
    mean_percent: tuple[int, ...]
