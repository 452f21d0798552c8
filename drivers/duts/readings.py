"""Readings of a device, and the meaning of their loss counters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class LossReason(str, Enum):
    """Why a counter of lost frames grows."""

    QUEUE = "queue"
    """A queue was full, or the counter does not tell: frames came faster than they were taken."""
    INGRESS = "ingress"
    """A queue of frames that wait for the device to fetch them was full."""
    ROOM = "room"
    """A table had no room for their connection, or a NAT no port."""
    ENTRY = "entry"
    """Their connection was not entered: no port was free for it, or two frames began it at once."""
    UNKNOWN = "no connection"
    """The device has no connection for them, perhaps because it had no room for one."""
    RULE = "rule"
    """A rule or an impossible translation: they are lost at any rate."""
    ALL = "all"
    """Any reason: other figures count the same frames by reason."""


@dataclass(frozen=True)
class Reading:
    """Figures that one cheap command prints while the device works.

    Attributes:
        command: prints them.
        parse: the figures in its output, by name.
        means: what the figures are, for the documentation.
        losses: which figures count lost frames: patterns of whole names, of which the first match counts.
        polls: busy time of a device that polls: it is busy without load, too.
        lasts_s: time that the command itself takes [s].
    """

    command: str
    parse: Callable[[str], Mapping[str, float]]
    description: str = ""
    loss_reasons: Mapping[str, LossReason] = field(default_factory=dict)
    polls: bool = False
    duration_s: float = 0.0

    def find_loss_reason(self, figure: str) -> LossReason | None:
        """Return the reason for which a figure counts lost frames; None: it does not."""
        return next(
            (why for name, why in self.loss_reasons.items() if re.fullmatch(name, figure)), None
        )


def sum_matches(pattern: str, name: str = "") -> Callable[[str], dict[str, float]]:
    """Return a parser that adds up the matches of a pattern.

    Its groups are a figure's name and value; with ``name``, its only group is the value of this figure.
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
    """A default value that a device supports instead of the technology's, and the reason."""

    value: Any
    why: str
