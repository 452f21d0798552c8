"""Figures in the words of a device: patterns with named groups, whose names say what the figures are."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from itertools import chain

from v6t.base.errors import InvalidValue
from v6t.drivers.duts.readings import Lost

DROPS = "drops"
LOSSES = {"refused.*": Lost.ROOM, ".*": Lost.QUEUE}
"""What the figures of the reading of drops count."""
_READINGS = {
    "core": "cpu", "busy": "cpu", "idle": "cpu", "used": "table", "limit": "table",
    "rx_left": "link left", "rx_right": "link right",
}  # fmt: skip
_DROPS = re.compile(r"(drops?|refused)(?:_(\w+))?")


def reading_of(pattern: str) -> str:
    """Return the reading of :mod:`v6t.drivers.duts.shape` that the groups of a pattern make."""
    groups = re.compile(pattern).groupindex
    names = {_READINGS.get(g, DROPS if _DROPS.fullmatch(g) else "") for g in groups}
    unknown = [g for g in groups if g not in _READINGS and not _DROPS.fullmatch(g)]
    if unknown or not names or (names == {"cpu"} and not {"busy", "idle"} & set(groups)):
        problem = f"no group is called {unknown[0]}" if unknown else "no group has a figure"
        known = f"{', '.join(_READINGS)}, drop_REASON or refused_REASON"
        raise InvalidValue(f"{problem}: give (?P<NAME>...) with {known}", code="wrong-form")
    if len(names) > 1:
        raise InvalidValue(
            f"{' and '.join(sorted(names))} are two readings: give each its own pattern",
            code="wrong-form",
        )
    return names.pop()


def figures(patterns: Iterable[str], text: str, default: str = "") -> Mapping[str, float]:
    """Parse an output by patterns, with the names of :mod:`v6t.drivers.duts.shape`.

    Packets and drops are added up; of anything else the last match counts.

    Args:
        patterns: with named groups, each on all of the text.
        text: of the device.
        default: figure of the first group of the first match; empty: groups have names.
    """
    found: dict[str, float] = {}
    for match in chain.from_iterable(re.finditer(p, text, re.MULTILINE) for p in patterns):
        if default:
            number = _parse_number(match[1])
            return {} if number is None else {default: number}
        values = {name: value for name, value in match.groupdict().items() if value is not None}
        core = values.pop("core", "").strip()
        core = f"cpu{core}" if core.isdigit() or not core else core
        for name, value in values.items():
            number = _parse_number(value)
            if number is None:
                continue
            if name in ("busy", "idle"):
                found[f"{core}.idle_percent"] = number if name == "idle" else 100.0 - number
            elif name in ("used", "limit"):
                found[name] = number
            else:
                kind, reason = ("", "rx.packets") if name.startswith("rx_") else _split_drop(name)
                figure = f"{kind}{reason}"
                found[figure] = found.get(figure, 0.0) + number
    return found


def _split_drop(name: str) -> tuple[str, str]:
    drop = _DROPS.fullmatch(name)
    kind, reason = drop.groups() if drop else ("", name)
    return "refused " if kind == "refused" else "", reason or "all"


def _parse_number(text: str) -> float | None:
    """Parse digits, with or without separators of thousands."""
    try:
        number = float(re.sub(r"[,_'\s%]", "", text))
    except ValueError:
        return None
    return number if math.isfinite(number) else None
