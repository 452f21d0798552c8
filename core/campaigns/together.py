"""Campaigns beside campaigns: runs of the same name belong together, made twice or published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from v6t.analysis.compare.comparison import Comparison, compare
from v6t.analysis.report.campaign_run import run_name
from v6t.analysis.trend import Trend
from v6t.base.errors import UsageError
from v6t.benchmarks.registry import presentations
from v6t.core.campaigns.campaign import PLAN, SUMMARY
from v6t.core.reporting.trend import find_trend_of_runs
from v6t.core.runs.run_data import load_run
from v6t.core.runs.rundir import CONFIG, reading


def are_campaigns(directories: Sequence[Path]) -> bool:
    """Whether several campaigns are given, as they were made or published."""
    return len(directories) > 1 and all(
        (path / PLAN).is_file() or (path / SUMMARY).is_file() for path in directories
    )


def compared(directories: Sequence[Path], anyway: bool) -> Comparison:
    """Every run of the first campaign beside the runs of its name in the others.

    Raises:
        UsageError: no two runs have the same name, or nothing in them is like.
    """
    names = _names(directories)
    lines, left_out = [], []
    first, *others = (_runs(path) for path in directories)
    known = presentations()
    for name, path in first.items():
        for where, other in zip(names[1:], others, strict=True):
            if name not in other:
                left_out.append(f"{name}: not in {where}")
                continue
            with reading(other[name]):
                found = compare(load_run(path), [load_run(other[name])], known, anyway=anyway)
            lines += [
                replace(line, run=where, benchmark=f"{name}: {line.benchmark}")
                for line in found.lines
            ]
            left_out += [f"{name}: {text}" for text in found.left_out]
            left_out += [f"{name}: {text}" for texts in found.unlike.values() for text in texts]
    if not lines:
        raise UsageError(
            f"these campaigns cannot be compared: {(left_out or ['they do not contain runs'])[0]}",
            code="not-comparable",
        )
    return Comparison(tuple(names), tuple(lines), tuple(dict.fromkeys(left_out)), {})


def trends(directories: Sequence[Path], order: str, least_percent: float) -> Trend:
    """Yield the trend of every run that the last campaign holds.

    Raises:
        UsageError: there are no runs, or none can be ordered so.
    """
    names = dict(zip(directories, _names(directories), strict=True))
    kept: list[str] = []
    series, left_out = [], []
    found = {path: _runs(path) for path in directories}
    for name in found[directories[-1]]:
        runs = []
        for path in directories:
            if name in found[path]:
                with reading(found[path][name]):
                    runs.append(replace(load_run(found[path][name]), name=names[path]))
        try:
            trend = find_trend_of_runs(runs, order, least_percent)
        except UsageError as exc:  # a run that found nothing hides no other
            left_out.append(f"{name}: {exc.message}")
            continue
        kept += trend.runs
        series += [replace(s, point=f"{name}: {s.point}") for s in trend.series]
        left_out += [f"{name}: {text}" for text in trend.left_out]
    if not series:
        raise UsageError(
            f"{directories[-1]} contains no benchmark with a trend", code="no-such-run"
        )
    return Trend(tuple(dict.fromkeys(kept)), order, tuple(series), tuple(left_out))


def _runs(directory: Path) -> dict[str, Path]:
    """Return the runs by their names."""
    return {run_name(p.parent.name): p.parent for p in sorted(directory.glob(f"*/{CONFIG}"))}


def _names(directories: Sequence[Path]) -> list[str]:
    """Names that tell the campaigns apart."""
    plain = [path.resolve().name for path in directories]
    return [n if plain.count(n) == 1 else str(p) for n, p in zip(plain, directories, strict=True)]
