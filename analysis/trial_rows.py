"""Rows of trials.csv: the counters of single trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from v6t.analysis.record import Row
from v6t.trials.result import TrialResult

TRIAL_COLUMNS: Mapping[str, str] = {
    "key": "identity of the trial within the run",
    "started": "start of the trial, ISO 8601, UTC",
    "direction": "`forward` or `reverse`",
    "class": "name of the traffic class",
    "rate_fps": "rate of the trial in each direction [frames per second]",
    "duration_s": "duration of the trial [s]",
    "role": "`foreground`, `background` or `negative`",
    "required": "frames to send [frames]",
    "sent": "frames that left the tester [frames]",
    "received": "distinct frames that returned in time [frames]",
    "surplus": "duplicates received [frames]",
    "out_of_order": "frames received after a frame with a higher sequence number [frames]",
    "late": "frames received after the residual wait or the timeout of a frame [frames]",
    "sending_time_s": "time from the first frame to the end of the last frame's slot [s]",
    "checked": "received frames of the direction compared with the reference translation [frames]",
    "matched": "of them equal to it [frames]",
    "faults": "faults of the tester, separated by semicolons; empty: the trial is valid",
}
"""Meaning of each column of trials.csv, with its unit."""


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
