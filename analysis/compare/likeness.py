"""Conditions in which two runs or records differ."""

import re
from dataclasses import dataclass, replace
from typing import Any

from v6t.analysis.record import Record
from v6t.analysis.rundata import RunData, flatten

PointKey = tuple[str, str, str]  # benchmark, frame sizes, direction

# fields that must be equal in both records
_COMPARED_FIELDS = (
    *("title", "convention", "unit", "search", "loss_tolerance", "duration_s", "frame_timeout_s"),
    *("burst_rate", "longest_s", "tags", "first_tag_s", "sampled", "hook", "procedure"),
    *("connections", "alpha", "exchange", "timeout_s", "interval_s"),
)
# in titles; where adaptive repetition ends depends on the values
_ADAPTIVE_COUNT = re.compile(r"(?<=adaptive), n=\d+")
_IGNORED_PARAMETERS = frozenset({"seed"})  # parameters that may differ


@dataclass(frozen=True)
class ConditionDifference:
    """A condition in which two runs differ, with both values."""

    what: str  # name of the condition
    first: Any
    second: Any

    def __str__(self) -> str:
        """``"frame sizes: 104 and 128"``."""
        return f"{self.what}: {self.first} and {self.second}"


def index_records(data: RunData) -> dict[PointKey, Record]:
    """Return the measured records by benchmark, frame sizes and direction."""
    return {(r.benchmark, r.sizes, r.direction): r for r in data.records if r.measured}


def compare_runs(first: RunData, second: RunData) -> list[ConditionDifference]:
    """List the differing conditions of whole runs, which rule out any comparison."""
    pairs: list[tuple[Any, ...]] = [
        ("technology", first.config["plugin"], second.config["plugin"]),
        ("frames", *("simulated" if data.simulated else "sent" for data in (first, second))),
        ("medium, bit/s", first.config["line_rate_bps"], second.config["line_rate_bps"]),
        ("modifier", first.config.get("modifier"), second.config.get("modifier")),
    ]
    differences = [ConditionDifference(what, a, b) for what, a, b in pairs if a != b]
    parameters = compare_parameters(first, second)
    return differences + [replace(d, what=f"parameter {d.what}") for d in parameters]


def compare_parameters(first: RunData, second: RunData) -> list[ConditionDifference]:
    """List the parameters of the technology that differ, sorted by name."""
    first_values, second_values = dict(flatten(first.params)), dict(flatten(second.params))
    return [
        ConditionDifference(name, first_values.get(name), second_values.get(name))
        for name in sorted({*first_values, *second_values} - _IGNORED_PARAMETERS)
        if first_values.get(name) != second_values.get(name)
    ]


def compare_records(first: Record, second: Record) -> list[ConditionDifference]:
    """List the fields of two records that must be equal for a comparison and are not."""
    first_values, second_values = (
        {
            "connections": (r.conditions.get("connections") or {}).get("count"),
            "duration_s": getattr(r, "duration_s", None),
            **r.to_json(),
            "title": _ADAPTIVE_COUNT.sub("", r.title),
        }
        for r in (first, second)
    )
    return [
        ConditionDifference(name.replace("_", " "), first_values.get(name), second_values.get(name))
        for name in _COMPARED_FIELDS
        if not _is_close(first_values.get(name), second_values.get(name))
    ]


def _is_close(first: Any, second: Any) -> bool:
    """Check whether two values are equal; numbers may differ by 1 %."""
    if isinstance(first, float) and isinstance(second, (int, float)):
        # rates that the medium or the tester determines may differ in their last digits
        return abs(first - second) <= 0.01 * max(abs(first), abs(second))
    return bool(first == second)
