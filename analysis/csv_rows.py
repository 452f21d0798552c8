"""Rows of medians.csv, one for each quantity, and of trials.csv, one for each trial and class."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from v6t.analysis.presentation import Percentiles, Presentation
from v6t.analysis.record import CsvRow, Record
from v6t.trials.result import TrialResult


def format_csv(rows: Sequence[CsvRow]) -> str:
    """Return rows as CSV with the columns of all rows; empty without rows."""
    out = io.StringIO()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    if rows:
        writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


# columns of medians.csv with their meaning and unit
FIGURE_COLUMNS: Mapping[str, str] = {
    "benchmark": "name of the benchmark",
    "ipv6_octets": "frame size on the IPv6 side with FCS; of a mix the mean [octets]",
    "ipv4_octets": "frame size on the IPv4 side with FCS; of a mix the mean [octets]",
    "mix": "sizes on both sides and frames of each; empty: one size",
    "direction": "directions under load",
    "figure": "name of the figure",
    "unit": "unit of the figure",
    "median": "median of the repetitions, as in results.json; empty: undefined [see `unit`]",
    "p1": "1st percentile; empty: undefined [see `unit`]",
    "p99": "99th percentile; empty: undefined [see `unit`]",
    "repetitions": "repetitions of the figure",
    "limited": "the tester or the medium limits the figure",
    "load": "load at which the figure was measured; empty: the figure is a load",
}


def list_figure_rows(record: Record, presentation: Presentation[Any]) -> Iterator[CsvRow]:
    """Yield a row of medians.csv for each quantity of a record; none if it was not measured."""
    sizes = record.frame_sizes
    for quantity in presentation.list_quantities(record) if record.measured else ():
        summary = quantity.summary or Percentiles(None, None, None)
        values = (
            record.benchmark, sizes.ipv6, sizes.ipv4, sizes.mix, record.direction,
            quantity.name or quantity.headline or quantity.label, quantity.unit,
            summary.median, summary.p1, summary.p99,
            len(quantity.values) or record.repetitions,
            quantity.limited or not quantity.load_covered, quantity.load,
        )  # fmt: skip
        yield dict(zip(FIGURE_COLUMNS, values, strict=True))


# columns of trials.csv with their meaning and unit
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
    "out_of_order": "frames received after one with a higher sequence number; empty: not seen [frames]",
    "late": "frames received after the residual wait or the timeout of a frame [frames]",
    "sending_time_s": "time from the first frame to the end of the last frame's slot [s]",
    "checked": "received frames of the direction compared with the reference translation [frames]",
    "matched": "of them equal to it [frames]",
    "faults": "faults of the tester, separated by semicolons; empty: the trial is valid",
}


def list_trial_rows(trial: Mapping[str, Any], result: TrialResult) -> list[CsvRow]:
    """Return the rows of trials.csv for a trial: one for each direction and class."""
    return [
        {
            "key": trial["key"],
            "started": result.started,
            "direction": direction,
            "class": name,
            "rate_fps": trial["rate_fps"],
            "duration_s": trial["duration_s"],
            **{k: "" if v is None else v for k, v in asdict(count).items()},
            "sending_time_s": counted.sending_time_s,
            "checked": counted.checked,
            "matched": counted.matched,
            "faults": "; ".join(result.faults),
        }
        for direction, counted in result.directions.items()
        for name, count in counted.classes.items()
    ]
