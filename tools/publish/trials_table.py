"""Write every trial of a campaign, with its use in results, to one CSV file."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from v6t.analysis.rundata import strip_number
from v6t.base.errors import UsageError
from v6t.base.files import read_text
from v6t.core.runs.results import COMPLETE
from v6t.core.runs.rundir import TRIALS

if TYPE_CHECKING:
    from v6t.analysis.rundata import CampaignRun
    from v6t.tools.publish.public import Words

COUNTS = "yes"
"""Outcome of a valid trial that counts in a result; other trials have a reason instead."""
APART = (
    (re.compile(r"(^|-)loopback-"), "no: tester alone"),
    (re.compile(r"(^|-)selftest/"), "no: self-test"),
    (re.compile(r"(^|-)preflight/"), "no: preflight"),
)
"""Keys of trials that never count in a device's result."""
_ANEW = re.compile(r"again\d+-")


def trials_table(
    directory: Path, runs: Sequence[tuple[CampaignRun, CampaignRun]], words: Words
) -> str:
    """Write the trials of all runs as CSV, with the run's published name first and two more columns last.

    ``counts`` is ``yes`` for a valid trial behind a result, else ``no`` and why; ``invalid`` is what the
    tester did wrong in it, reasons parted by semicolons. Both are of the trial and stand in all its lines.

    Args:
        directory: of the campaign.
        runs: each as read and as published.
        words: what sentences are cleaned with.

    Raises:
        UsageError: the trials of a complete run cannot be read.
    """
    out = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for read, public in runs:
        invalid = [t for r in public.records for t in r.invalid_trials]
        reasons = {t.key: "; ".join(t.reasons) for t in invalid}
        behind = {key for r in public.records for key in r.trials}
        for row in csv.DictReader(io.StringIO(_trials_of(directory, read))):
            if writer is None:
                writer = csv.DictWriter(out, ["run", *row, "counts", "invalid"], lineterminator="\n",
                                        restval="", extrasaction="ignore")  # fmt: skip
                writer.writeheader()
            told = {k: words.within(v) for k, v in _rounded(row).items()}
            key = row.get("key", "")
            fate = {"counts": _counts(key, behind, reasons), "invalid": reasons.get(key, "")}
            writer.writerow({"run": strip_number(public.directory), **told, **fate})
    return out.getvalue()


def _counts(key: str, behind: set[str], invalid: Mapping[str, str]) -> str:
    """Return whether a trial counts in a result, and if not, why."""
    if key in behind:
        return "no: invalid" if key in invalid else COUNTS
    for begins, why in APART:
        if begins.search(key):
            return why
    anew = {_benchmark(other) for other in behind if _ANEW.search(other)}
    return "no: search begun anew" if _benchmark(key) in anew else "no: of no result"


def _benchmark(key: str) -> str:
    return _ANEW.sub("", key.partition("/")[0])


def _trials_of(directory: Path, run: CampaignRun) -> str:
    path = directory / run.directory / TRIALS
    try:
        return read_text(path)
    except OSError as exc:
        if run.status != COMPLETE:  # it has not come so far
            return ""
        raise UsageError(
            f"{path} cannot be read: {exc.strerror or exc}", code="file-unreadable"
        ) from exc


def _rounded(row: Mapping[str, str]) -> dict[str, str]:
    """Return a row with long decimal fractions rounded to six digits."""
    return {
        k: f"{float(v):.6f}" if re.fullmatch(r"\d+\.\d{7,}", v or "") else v for k, v in row.items()
    }
