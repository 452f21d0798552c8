"""One run of a campaign, with the values of its axes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from v6t.analysis.record import Record
from v6t.analysis.rundata import RunData


@dataclass(frozen=True)
class CampaignRun:
    """One run of a campaign."""

    directory: str
    experiment: str
    testbed: str
    axes: Mapping[str, Any]  # value of each varied setting
    status: str  # `complete`, `running`, `translation incorrect`, `failed` or `waiting`
    failure: str
    data: RunData | None  # None before its first trial

    @property
    def records(self) -> Sequence[Record]:
        """Records of the run."""
        return () if self.data is None else self.data.records

    @property
    def values(self) -> str:
        """The values of its axes: ``"ces 1000, frame_sizes 104"``."""
        return ", ".join(f"{shorten_axis(k)} {format_axis_value(v)}" for k, v in self.axes.items())


POINT_AXES = ("frame_sizes", "modes")  # axes that are part of the label of a test point


def strip_number(directory: str) -> str:
    """Return the name of a run without its number, which depends on the runs before it."""
    return re.sub(r"^\d+-", "", directory)


def shorten_axis(axis: str) -> str:
    """Shorten the name of an axis: ``"params.ces"`` is ``"ces"``."""
    return {"params": "traffic", "dut.driver": "device"}.get(axis, axis.rpartition(".")[2])


def format_axis_value(value: Any) -> str:
    """Format a value of an axis."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return " ".join(f"{k}={format_axis_value(v)}" for k, v in value.items())
    return "/".join(map(format_axis_value, value)) if isinstance(value, list) else str(value)
