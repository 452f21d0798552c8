"""All trials of a campaign as one CSV file, which states for each trial whether it counts."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from v6t.analysis.rundata import strip_number
from v6t.base.errors import UsageError
from v6t.base.files import read_text
from v6t.core.runs.results import COMPLETE
from v6t.core.runs.rundir import TRIALS

if TYPE_CHECKING:
    from v6t.analysis.rundata import CampaignRun
    from v6t.tools.publish.redaction import Redactor

UNCOUNTED_KEYS = (
    (re.compile(r"(^|-)loopback-"), "no: tester alone"),
    (re.compile(r"(^|-)selftest/"), "no: self-test"),
    (re.compile(r"(^|-)preflight/"), "no: preflight"),
)
"""Keys of trials that never count in a result of the device."""
_RESTART = re.compile(r"again\d+-")  # prefix of the keys of a restarted search


def format_trials_csv(
    directory: Path, runs: Sequence[tuple[CampaignRun, CampaignRun]], redactor: Redactor
) -> str:
    """Return the trials of all runs as CSV with three more columns: ``run``, ``counts`` and ``invalid``.

    ``run`` is the published name. ``counts`` is ``yes`` for a valid trial of a result, otherwise ``no``
    with the reason. ``invalid`` lists the errors of the tester, separated by semicolons.

    Args:
        directory: directory of the campaign.
        runs: pairs of the original and the published run.
        redactor: removes private data from the cells.

    Raises:
        UsageError: the trials of a complete run cannot be read.
    """
    output = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for run, public_run in runs:
        invalid = {
            t.key: "; ".join(t.reasons) for r in public_run.records for t in r.invalid_trials
        }
        result_keys = {key for record in public_run.records for key in record.trials}
        for row in csv.DictReader(io.StringIO(_read_trials(directory, run))):
            if writer is None:
                writer = csv.DictWriter(
                    output,
                    ["run", *row, "counts", "invalid"],
                    lineterminator="\n",
                    restval="",
                    extrasaction="ignore",
                )
                writer.writeheader()
            key = row.get("key", "")
            writer.writerow(
                {
                    "run": strip_number(public_run.directory),
                    **{name: redactor.redact_value(_round(cell)) for name, cell in row.items()},
                    "counts": _explain_count(key, result_keys, invalid),
                    "invalid": invalid.get(key, ""),
                }
            )
    return output.getvalue()


def _explain_count(key: str, result_keys: Collection[str], invalid: Mapping[str, str]) -> str:
    """Return "yes" if a trial counts in a result, otherwise "no" with the reason."""
    if key in result_keys:
        return "no: invalid" if key in invalid else "yes"
    for pattern, reason in UNCOUNTED_KEYS:
        if pattern.search(key):
            return reason
    restarted = {_get_benchmark(k) for k in result_keys if _RESTART.search(k)}
    return "no: search begun anew" if _get_benchmark(key) in restarted else "no: of no result"


def _get_benchmark(key: str) -> str:
    return _RESTART.sub("", key.partition("/")[0])


def _read_trials(directory: Path, run: CampaignRun) -> str:
    """Return ``trials.csv`` of a run; empty if an incomplete run has none."""
    path = directory / run.directory / TRIALS
    try:
        return read_text(path)
    except UsageError:
        if run.status != COMPLETE:
            return ""
        raise


def _round(cell: str) -> str:
    """Round long decimal fractions to six digits."""
    return f"{float(cell):.6f}" if re.fullmatch(r"\d+\.\d{7,}", cell or "") else cell
