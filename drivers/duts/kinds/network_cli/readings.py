"""Figures in the words of a device whose words only its user knows: patterns with named groups."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from itertools import chain

from v6t.base.errors import InvalidValue
from v6t.drivers.duts.commands import Lost

GROUPS = {
    "core": "whose figures these are, beside `busy` or `idle`",
    "busy": "a core's or a processor's share of time in use [%]",
    "idle": "the rest of it [%]",
    "used": "entries of the table in use",
    "limit": "entries it has room for",
    "rx_left": "packets that came in on the left",
    "rx_right": "packets that came in on the right",
}
"""What a group of a pattern may be called."""
DROPS = "drops"
_DROPS = re.compile(r"(drops?|refused)(?:_(\w+))?")
LOSSES = {"refused.*": Lost.ROOM, ".*": Lost.QUEUE}
"""Of the reading of drops."""
_READING = {
    **dict.fromkeys(("core", "busy", "idle"), "cpu"),
    **dict.fromkeys(("used", "limit"), "table"),
    "rx_left": "link left",
    "rx_right": "link right",
}


def reading_of(groups: Mapping[str, int]) -> str:
    """Return the reading of :mod:`v6t.drivers.duts.shape` for a pattern's groups.

    Args:
        groups: by name.

    Raises:
        ValueError: there is none, or there are two.
    """
    names = {_READING.get(g, DROPS if _DROPS.fullmatch(g) else "") for g in groups}
    unknown = [g for g in groups if g not in _READING and not _DROPS.fullmatch(g)]
    if unknown or not names or (names == {"cpu"} and not {"busy", "idle"} & set(groups)):
        what = f"no group is called {unknown[0]}" if unknown else "no group has a figure"
        known = f"{', '.join(GROUPS)}, drop_REASON or refused_REASON"
        raise InvalidValue(f"{what}: give (?P<NAME>...) with {known}", code="wrong-form")
    if len(names) > 1:
        raise InvalidValue(
            f"{' and '.join(sorted(names))} are two readings: give each its own pattern",
            code="wrong-form",
        )
    return names.pop()


def figures(patterns: Iterable[str], text: str) -> Mapping[str, float]:
    """Parse an output by patterns, with the names of :mod:`v6t.drivers.duts.shape`.

    Packets and drops are added up; of anything else the last word counts.

    Args:
        patterns: with named groups, each on all of the text.
        text: of the device.
    """
    found: dict[str, float] = {}
    for match in chain.from_iterable(re.finditer(p, text, re.MULTILINE) for p in patterns):
        said = {name: value for name, value in match.groupdict().items() if value is not None}
        core = said.pop("core", "cpu").strip() or "cpu"
        core = f"cpu{core}" if core.isdigit() else core
        for name, value in said.items():
            number = _number(value)
            if number is None:
                continue
            drops = _DROPS.fullmatch(name)
            if name in ("busy", "idle"):
                found[f"{core}.idle_percent"] = number if name == "idle" else 100.0 - number
            elif name.startswith("rx_"):
                found["rx.packets"] = found.get("rx.packets", 0.0) + number
            elif drops:
                reason = drops[2] or "all"
                reason = f"refused {reason}" if drops[1] == "refused" else reason
                found[reason] = found.get(reason, 0.0) + number
            else:
                found[name] = number
    return found


def first_number(pattern: str, text: str) -> float | None:
    """Parse the first group of a pattern, or its whole match, as a number."""
    match = re.search(pattern, text, re.MULTILINE)
    return None if match is None else _number(match[1] if match.re.groups else match[0])


def _number(text: str) -> float | None:
    """Digits, with or without separators of thousands."""
    try:
        number = float(re.sub(r"[,_'\s%]", "", text))
    except ValueError:
        return None
    return number if math.isfinite(number) else None
