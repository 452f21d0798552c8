"""Conditions in which two runs or records differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from v6t.analysis.record import Record
from v6t.analysis.rundata import RunData

PointKey = tuple[str, str, str]
"""Benchmark, frame sizes, direction."""

_COMPARED_FIELDS = (
    *("title", "convention", "unit", "search", "loss_tolerance", "duration_s", "frame_timeout_s"),
    *("burst_rate", "tags", "first_tag_s", "sampled", "hook", "procedure"),
    *("connections", "alpha"),
)
_IGNORED_PARAMETERS = frozenset({"seed"})


@dataclass(frozen=True)
class ConditionDifference:
    """A condition in which two runs differ."""

    what: str
    first: Any
    second: Any

    def __str__(self) -> str:
        """``"frame sizes: 104 and 128"``."""
        return f"{self.what}: {self.first} and {self.second}"


def index_records(data: RunData) -> dict[PointKey, Record]:
    """Return the measured records by benchmark, frame sizes and direction."""
    return {(r.benchmark, r.sizes, r.direction): r for r in data.records if r.measured}


def compare_runs(first: RunData, second: RunData) -> list[ConditionDifference]:
    """List conditions of whole runs that differ: then nothing in them can be compared."""
    pairs: list[tuple[Any, ...]] = [
        ("technology", first.config["plugin"], second.config["plugin"]),
        ("frames", *("simulated" if data.simulated else "sent" for data in (first, second))),
        ("medium, bit/s", first.config["line_rate_bps"], second.config["line_rate_bps"]),
        ("modifier", first.config.get("modifier"), second.config.get("modifier")),
    ]
    unlike = [ConditionDifference(what, a, b) for what, a, b in pairs if a != b]
    apart = compare_parameters(first, second)
    return unlike + [replace(u, what=f"parameter {u.what}") for u in apart]


def compare_parameters(first: RunData, second: RunData) -> list[ConditionDifference]:
    """List parameters of the technology that differ, by name."""
    ours, theirs = _flatten(first.params), _flatten(second.params)
    return [
        ConditionDifference(name, ours.get(name), theirs.get(name))
        for name in sorted({*ours, *theirs} - _IGNORED_PARAMETERS)
        if ours.get(name) != theirs.get(name)
    ]


def compare_records(first: Record, second: Record) -> list[ConditionDifference]:
    """List conditions of two records that differ, titles and conventions included."""
    ours, theirs = first.to_json(), second.to_json()
    return [
        ConditionDifference(name.replace("_", " "), ours.get(name), theirs.get(name))
        for name in _COMPARED_FIELDS
        if not _is_same(ours.get(name), theirs.get(name))
    ]


def _is_same(first: Any, second: Any) -> bool:
    if isinstance(first, float) and isinstance(second, (int, float)):
        # a rate that the medium or the tester gave may differ in its last digits
        return abs(first - second) <= 0.01 * max(abs(first), abs(second))
    return bool(first == second)


def _flatten(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{above}{key}.")
        else:
            flat[f"{above}{key}"] = value
    return flat
