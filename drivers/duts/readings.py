"""Readings of a device, and the meaning of their loss counters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class LossReason(str, Enum):
    """Why a counter of lost frames grows."""

    QUEUE = "queue"  # a queue was full, or the counter does not tell the reason
    INGRESS = "ingress"  # a queue of frames that the device had not fetched yet was full
    TABLE_FULL = "room"  # a table of connections was full, or a NAT had no free port
    ENTRY = "entry"  # a connection was not created: no free port, or two frames began it at once
    UNKNOWN = "no connection"  # frames of no known connection; the table may have been full
    RULE = "rule"  # a rule or an impossible translation drops them, whatever the frame rate
    ALL = "all"  # any reason: other figures count the same frames by reason


@dataclass(frozen=True)
class Reading:
    """Figures that one cheap command prints while the device works."""

    command: str  # prints the figures
    parse: Callable[[str], Mapping[str, float]]  # returns the figures in the output, by name
    description: str = ""  # meaning of the figures, for the documentation
    # Why frames were lost, by a pattern of the figure's complete name; the first match decides.
    loss_reasons: Mapping[str, LossReason] = field(default_factory=dict)
    polls: bool = False  # the device polls: its cores are busy even without load
    duration_s: float = 0.0  # time that the command itself takes

    def find_loss_reason(self, figure: str) -> LossReason | None:
        """Return why frames that a figure counts were lost; None: it counts no losses."""
        return next(
            (why for name, why in self.loss_reasons.items() if re.fullmatch(name, figure)), None
        )


def sum_matches(pattern: str, name: str = "") -> Callable[[str], dict[str, float]]:
    """Return a parser that sums the numbers that a pattern matches, by the figure's name.

    Args:
        pattern: with groups for a figure's name and value; with ``name``, for its value only.
    """
    find = re.compile(pattern, re.MULTILINE).findall

    def parse(text: str) -> dict[str, float]:
        figures: dict[str, float] = {}
        for match in find(text):
            key, value = (name, match) if name else match
            figures[key] = figures.get(key, 0.0) + float(value)
        return figures

    return parse


@dataclass(frozen=True)
class ParameterOverride:
    """A default value for a technology whose own default the device does not support."""

    value: Any
    why: str  # the reason, for a warning
