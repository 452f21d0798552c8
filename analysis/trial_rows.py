"""Rows of trials.csv: the counters of single trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from v6t.analysis.record import Row
from v6t.trials.result import TrialResult


def list_trial_rows(trial: Mapping[str, Any], result: TrialResult) -> list[Row]:
    """Return the rows of trials.csv for a trial: one for each direction and class."""
    rows = []
    for direction, counted in result.directions.items():
        for name, count in counted.classes.items():
            rows.append(
                {
                    "key": trial["key"],
                    "started": result.started,
                    "direction": direction,
                    "class": name,
                    "rate_fps": trial["rate_fps"],
                    "duration_s": trial["duration_s"],
                    **asdict(count),
                    "sending_time_s": counted.sending_time_s,
                    "checked": counted.checked,
                    "matched": counted.matched,
                    "faults": "; ".join(result.faults),
                }
            )
    return rows
