"""Readings of a device, and the meaning of their loss counters."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class LossReason(str, Enum):
    """Reason for which a counter of lost frames grows."""

    QUEUE = "queue"  # a queue was full, or the counter does not show the reason
    INGRESS = "ingress"  # a queue of frames that the device had not fetched yet was full
    TABLE_FULL = "room"  # a table of connections was full, or a NAT had no free port
    NO_ENTRY = "entry"  # a connection was not created: no free port, or a race of two frames
    NO_CONNECTION = "no connection"  # frames of no known connection; the table may have been full
    RULE = "rule"  # dropped by a rule or as untranslatable, at any frame rate
    TOTAL = "all"  # any reason: other counters count the same frames by reason


@dataclass(frozen=True)
class Reading:
    """Probe of the device's load: a command that prints figures, and the parser of its output."""

    command: str  # prints the figures
    parse: Callable[[str], Mapping[str, float]]  # returns the figures in the output, by name
    description: str = ""  # meaning of the figures, for the documentation
    # Reasons of losses, by pattern of the counter's complete name; the first match applies.
    loss_reasons: Mapping[str, LossReason] = field(default_factory=dict)
    polls: bool = False  # the device polls: its cores are busy even without load
    duration_s: float = 0.0  # time that the command itself takes

    def find_loss_reason(self, figure: str) -> LossReason | None:
        """Return why the frames in a counter were lost; None if it does not count losses."""
        matches = (why for name, why in self.loss_reasons.items() if re.fullmatch(name, figure))
        return next(matches, None)


def make_sum_parser(pattern: str, name: str = "") -> Callable[[str], dict[str, float]]:
    """Return a parser that adds up numbers by figure name.

    The pattern has groups for a figure's name and value; with ``name``, for its value only.
    """
    find = re.compile(pattern, re.MULTILINE).findall

    def parse_sums(text: str) -> dict[str, float]:
        figures: dict[str, float] = {}
        for match in find(text):
            key, value = (name, match) if name else match
            figures[key] = figures.get(key, 0.0) + float(value)
        return figures

    return parse_sums


@dataclass(frozen=True)
class ParameterOverride:
    """Value that replaces a technology's default which the device does not support."""

    value: Any
    reason: str  # why the device does not support the default, for a warning
