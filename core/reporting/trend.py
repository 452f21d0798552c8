"""Trends over run directories."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from v6t.analysis import trend as trends
from v6t.analysis.blocks import Block, BulletList, Drawing, Paragraph, ReportDocument, ReportSection
from v6t.analysis.compare import likeness
from v6t.analysis.figures.plots import BLUE, GREY, VERMILLION, Curve, draw_series
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import Column, format_count, make_table, pluralize
from v6t.analysis.trend import MAX_CHANCE, MIN_RUNS, MIN_RUNS_PER_SIDE, Trend, TrendSeries
from v6t.base.errors import UsageError
from v6t.benchmarks.registry import load_presentations
from v6t.core.runs.results import load_run
from v6t.core.runs.rundir import CONFIG, make_no_run_error

MAX_TICK_LABELS = 40  # on the run axis of a figure
# Matches an ISO 8601 time; the groups are the date and the time to the minute.
_TIMESTAMP_PATTERN = re.compile(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d).*")
# Functions that return the sort key of a run, by value of ``--by``.
_SORT_KEYS: Mapping[str, Callable[[RunData], str]] = {
    "time": lambda run: str(run.manifest.get("created", "")),
    "label": lambda run: str(run.results.get("label") or run.config.get("label", "")),
    "given": lambda run: run.name,
}


def find_trend(directories: Sequence[Path], order: str, min_percent: float) -> Trend:
    """Return the trend of the results of all runs in the directories.

    Raises:
        UsageError: a directory holds no run, or one lacks the sort key.
    """
    unique: dict[Path, Path] = {}
    for path in directories:
        is_run = (path / CONFIG).is_file()
        runs = [path] if is_run else sorted(p.parent for p in path.glob(f"*/{CONFIG}"))
        if not runs:
            raise make_no_run_error(path)
        unique |= {run.resolve(): run for run in runs}
    return find_trend_of_runs([*map(load_run, unique.values())], order, min_percent)


def find_trend_of_runs(runs: Sequence[RunData], order: str, min_percent: float) -> Trend:
    """Sort runs and return the trend of each of their results.

    Args:
        runs: the runs; those that are not comparable with the last one are left out.
        order: ``time``, ``label`` or ``given``.
        min_percent: smaller changes are left out.

    Raises:
        UsageError: a run lacks the sort key, or nothing has a trend.
    """
    key = _SORT_KEYS[order]
    if order != "given":
        for run in runs:
            if not key(run):
                problem = f"{run.name} does not contain the sort key {order}"
                raise UsageError(problem, "--by given takes the order given", code="not-comparable")
        runs = sorted(runs, key=lambda run: _make_natural_key(key(run)))
    last, left_out, comparable = runs[-1], [], []
    for run in runs:
        devices = last.config["dut"]["driver"], run.config["dut"]["driver"]
        differing = likeness.compare_runs(last, run)
        if devices[0] != devices[1]:
            differing.insert(0, likeness.ConditionDifference("device", *devices))
        if differing:
            left_out.append(f"{run.name}: {'; '.join(map(str, differing[:3]))}")
        else:
            comparable.append(run)
    series = []
    for each in _make_series(comparable, key, left_out):
        changes = trends.find_changes(each.values, each.more_is_better, min_percent)
        series.append(replace(each, changes=changes, least_percent=min_percent))
    if not series:
        raise UsageError(f"{last.name} contains no benchmark with a trend", code="no-such-run")
    left_out += load_presentations().failures
    return Trend(tuple(run.name for run in comparable), order, tuple(series), tuple(left_out))


def _make_natural_key(text: str) -> list[tuple[int, str]]:
    """Return a sort key that compares numbers in the text by their value."""
    return [(int(p or 0), "") if p.isdecimal() else (-1, p) for p in re.split(r"(\d+)", text)]


def _make_series(
    runs: Sequence[RunData], key: Callable[[RunData], str], left_out: list[str]
) -> list[TrendSeries]:
    """Return a series for each result of the last run; omit records with other conditions."""
    known, last_points = load_presentations(), likeness.index_records(runs[-1])
    series: dict[tuple[likeness.PointKey, str], TrendSeries] = {}
    for run in runs:
        for place, record in likeness.index_records(run).items():
            if place not in last_points or not known.has_presentation(record):
                continue
            point = " ".join(place)
            if differing := likeness.compare_records(last_points[place], record):
                left_out.append(f"{run.name}, {point}: {'; '.join(map(str, differing))}")
                continue
            for result in known.find(record).list_quantities(record):
                defined = result.defined_values
                if not result.is_comparable:
                    continue
                if len(defined) < len(result.values):
                    left_out.append(f"{run.name}, {point}: {result.name} is undefined")
                    continue
                value = trends.TrendValue(run.name, key(run), median(defined), result.limited)
                former = series.get((place, result.name)) or TrendSeries(
                    point, result.name, result.unit, result.more_is_better, (), ()
                )
                values = (*former.values, value)
                resolution = max(former.resolution, result.resolution)
                series[place, result.name] = replace(former, values=values, resolution=resolution)
    return list(series.values())


def make_trend_document(trend: Trend, *, figures: bool) -> ReportDocument:
    """Return a report document with the changes, a table and a figure for each series."""
    columns = (
        Column[TrendSeries]("point", lambda s: s.point, text=True),
        Column[TrendSeries]("quantity", lambda s: f"{s.quantity}, {s.unit}", text=True),
        Column[TrendSeries]("runs", lambda s: str(len(s.values))),
        Column[TrendSeries]("first", lambda s: _format_value(s.values[0].value)),
        Column[TrendSeries]("last", lambda s: _format_value(s.values[-1].value)),
        Column[TrendSeries]("conclusion", lambda s: s.words, text=True),
    )
    table = make_table(f"By {trend.order}", trend.series, columns)
    blocks: list[Block] = [_summarize(trend), table]
    if figures:
        for number, series in enumerate(trend.series):
            caption = f"{series.point}, {series.quantity}: {series.words}."
            blocks.append(Drawing(_plot_series(series, f"trend-{number}"), caption, caption))
    if trend.left_out:
        blocks += [Paragraph("Left out:"), BulletList(trend.left_out)]
    text = (
        "Each value is the median of a run's repetitions. A change is reported if at most "
        f"{MAX_CHANCE:.2%} of shuffled series show one as large. A single run far from its neighbors is "
        f"not a change. A series needs {MIN_RUNS} runs, {MIN_RUNS_PER_SIDE} of them on either side of a "
        "change."
    )
    blocks.append(Paragraph(text))
    section = ReportSection("Changes", "changes", blocks)
    return ReportDocument("Trend", f"{trend.runs[0]} to {trend.runs[-1]}", [section])


def _plot_series(series: TrendSeries, name: str) -> str:
    values, curves = [v.value for v in series.values], []
    for label, limited, marker in (("run", False, "o"), ("run limited by the tester", True, "^")):
        if places := [n for n, v in enumerate(series.values) if v.limited == limited]:
            style = {"linestyle": "", "marker": marker, "color": BLUE}
            curves.append(Curve(label, places, [values[n] for n in places], style=style))
    bounds = [0, *(c.place for c in series.changes), len(values)]
    for first, after in pairwise(bounds):
        level = median(values[first:after])
        ends, label = [first - 0.4, after - 0.6], "_" if first else "median"
        curves.append(Curve(label, ends, [level, level], style={"color": GREY}))

    def adjust(axes: Any) -> None:
        for change in series.changes:
            style = {"color": VERMILLION, "linestyle": "--"}
            axes.axvline(change.place - 0.5, label=change.size, **style)
        step = -(-len(values) // MAX_TICK_LABELS)
        names = [_TIMESTAMP_PATTERN.sub(r"\1 \2", v.when or v.run) for v in series.values]
        places = range(0, len(values), step)
        axes.set_xticks(places, names[::step], rotation=40, ha="right", fontsize=7)

    ylabel = f"{series.quantity}, {series.unit}"
    return draw_series(name, curves, "", ylabel, whole=False, adjust=adjust)


def _summarize(trend: Trend) -> Paragraph:
    runs, results = pluralize(len(trend.runs), "run"), pluralize(len(trend.series), "result")
    changed = sum(bool(s.changes) for s in trend.series)
    if not any(s.has_enough_runs for s in trend.series):
        return Paragraph(f"{runs}: too few to tell a change from chance.")
    unseen = sum(bool(s.unseen) for s in trend.series if s.has_enough_runs)
    text = f" Changes below the resolution could go unseen in {unseen} of {results}."
    more = text if unseen else ""
    if changed:
        verb = "changes" if changed == 1 else "change"
        text = f"{changed} of {results} {verb} among {runs}.{more}"
        return Paragraph(text, "bad" if trend.worse else "good")
    if unseen:
        return Paragraph(f"No change is visible among {runs}.{more}", "warning")
    return Paragraph(f"No result changes among {runs}.", "good")


def _format_value(value: float) -> str:
    return format_count(value) if abs(value) >= 1000 else f"{value:.5g}"
