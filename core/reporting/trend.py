"""Trends over run directories."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from v6t.analysis.blocks import Block, Document, Drawing, Items, Section, Text
from v6t.analysis.compare.likeness import Key, Unlike, points, unlike_records, unlike_runs
from v6t.analysis.figures.canvas import BLUE, GREY, VERMILLION
from v6t.analysis.figures.plots import Curve, time_plot
from v6t.analysis.presentation import Presentations
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import count, number_of, sheet, text_columns
from v6t.analysis.trend import CHANCE, FEWEST, NEEDED, Series, Trend, Value, find_changes
from v6t.base.errors import UsageError
from v6t.benchmarks.registry import presentations
from v6t.core.reporting.write import load
from v6t.core.runs.rundir import CONFIG, no_run, reading


def trend_of(directories: Sequence[Path], order: str, least_percent: float) -> Trend:
    """Order runs and look for changes.

    Args:
        directories: of runs, or with runs in them.
        order: ``time``, ``label`` or ``given``.
        least_percent: smaller changes are not told.

    Raises:
        UsageError: no run, or none can be ordered so.
    """
    return trend_of_runs([_loaded(path) for path in _runs(directories)], order, least_percent)


def trend_of_runs(given: Sequence[RunData], order: str, least_percent: float) -> Trend:
    """Compute the trend of runs that were read already.

    Raises:
        UsageError: none can be ordered so.
    """
    runs, when = list(given), _WHEN[order]
    if order != "given":
        unknown = [run.name for run in runs if not when(run)]
        if unknown:
            raise UsageError(
                f"{unknown[0]} does not contain the sort key {order}",
                "--by given takes the order given",
                code="not-comparable",
            )
        runs.sort(key=lambda run: _natural(when(run)))
    last, known = runs[-1], presentations()
    left_out: list[str] = []
    comparable = []
    for run in runs:
        differing = [*_another_device(last, run), *unlike_runs(last, run)]
        if differing:
            left_out.append(f"{run.name}: {'; '.join(map(str, differing[:3]))}")
        else:
            comparable.append(run)
    series = _series(comparable, known, when, left_out)
    lines = tuple(
        replace(
            s,
            changes=find_changes(s.values, s.more_is_better, least_percent),
            least_percent=least_percent,
        )
        for s in series
    )
    if not lines:
        raise UsageError(f"{last.name} contains no benchmark with a trend", code="no-such-run")
    left_out += known.failures
    return Trend(tuple(run.name for run in comparable), order, lines, tuple(left_out))


def _another_device(first: RunData, second: RunData) -> list[Unlike]:
    """Refuse runs of another device: ``v6t compare`` is for these."""
    ours, theirs = (run.config["dut"]["driver"] for run in (first, second))
    return [] if ours == theirs else [Unlike("device", ours, theirs)]


def document(trend: Trend, *, figures: bool) -> Document:
    """Build what can be said, a table, and a figure for each series."""
    blocks: list[Block] = [_lead(trend)]
    rows = [
        (
            *(s.point, f"{s.quantity}, {s.unit}", str(len(s.values))),
            *(_figure(s.values[0].value), _figure(s.values[-1].value), s.words),
        )
        for s in trend.series
    ]
    names = [
        *text_columns("point", "quantity"),
        "runs",
        "first",
        "last",
        *text_columns("what can be said"),
    ]
    blocks.append(sheet(f"By {trend.order}", names, rows))
    if figures:
        for number, one in enumerate(trend.series):
            caption = f"{one.point}, {one.quantity}: {one.words}."
            blocks.append(Drawing(_plot(one, f"trend-{number}"), caption, caption))
    if trend.left_out:
        blocks += [Text("Left out:"), Items(trend.left_out)]
    blocks.append(
        Text(
            "Each value is the median of a run's repetitions. A change is told where ranks before and "
            f"after differ more than in all but {CHANCE:.2%} of shuffled series; single runs far from "
            f"their neighbours count as one of them. From {NEEDED} runs on, {FEWEST} on either side."
        )
    )
    between = f"{trend.runs[0]} to {trend.runs[-1]}"
    return Document("Trend", between, [Section("Changes", "changes", blocks)])


MOST_NAMES = 40
_TIME = re.compile(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d).*")
"""The time of a run to the minute."""


def _plot(series: Series, name: str) -> str:
    values, curves = [v.value for v in series.values], []
    for word, limited, marker in (
        ("run", False, "o"),
        ("run limited by the tester", True, "^"),
    ):
        places = [n for n, v in enumerate(series.values) if v.limited == limited]
        if places:
            style = {"linestyle": "", "marker": marker, "color": BLUE}
            curves.append(Curve(word, places, [values[n] for n in places], style=style))
    bounds = [0, *(c.place for c in series.changes), len(values)]
    for first, after in pairwise(bounds):
        level = median(values[first:after])
        across, label = [first - 0.4, after - 0.6], "_" if first else "median"
        curves.append(Curve(label, across, [level, level], style={"color": GREY}))

    def adjust(at: Any) -> None:
        for change in series.changes:
            label = f"{change.percent:+.1f} %"
            at.axvline(change.place - 0.5, color=VERMILLION, linestyle="--", label=label)
        step = -(-len(values) // MOST_NAMES)
        names = [_TIME.sub(r"\1 \2", v.when or v.run) for v in series.values]
        places = range(0, len(values), step)
        at.set_xticks(places, names[::step], rotation=40, ha="right", fontsize=7)

    ylabel = f"{series.quantity}, {series.unit}"
    return time_plot(name, curves, "", ylabel, whole=False, adjust=adjust)


def _lead(trend: Trend) -> Text:
    runs, results = number_of(len(trend.runs), "run"), number_of(len(trend.series), "result")
    changed = sum(bool(s.changes) for s in trend.series)
    if not any(s.enough for s in trend.series):
        return Text(f"{runs}: too few to tell a change from chance.")
    unseen = sum(bool(s.unseen) for s in trend.series if s.enough)
    more = (
        f" Changes below the resolution could go unseen in {unseen} of {results}." if unseen else ""
    )
    if changed:
        verb = "changes" if changed == 1 else "change"
        text = f"{changed} of {results} {verb} among {runs}.{more}"
        return Text(text, "bad" if trend.worse else "good")
    if unseen:
        return Text(f"No result is seen to change among {runs}.{more}", "warning")
    return Text(f"No result changes among {runs}.", "good")


def _runs(directories: Sequence[Path]) -> Iterator[Path]:
    for path in directories:
        if (path / CONFIG).is_file():
            yield path
            continue
        inner = sorted(p.parent for p in path.glob(f"*/{CONFIG}"))
        if not inner:
            raise no_run(path)
        yield from inner


def _loaded(path: Path) -> RunData:
    with reading(path):
        return load(path)


_WHEN: Mapping[str, Callable[[RunData], str]] = {
    "time": lambda run: str(run.manifest.get("created", "")),
    "label": lambda run: str(run.results.get("label") or run.config.get("label", "")),
    "given": lambda run: run.name,
}


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(p or 0), "") if p.isdigit() else (-1, p) for p in re.split(r"(\d+)", text)]


def _series(
    runs: Sequence[RunData],
    known: Presentations,
    when: Callable[[RunData], str],
    left_out: list[str],
) -> list[Series]:
    last_points = points(runs[-1])
    series: dict[tuple[Key, str], Series] = {}
    for run in runs:
        for key, record in points(run).items():
            if key not in last_points or not known.knows(record):
                continue
            odd = unlike_records(last_points[key], record)
            if odd:
                left_out.append(f"{run.name}, {' '.join(key)}: {'; '.join(map(str, odd))}")
                continue
            for quantity in known.of(record).results(record):
                if (
                    quantity.compared
                    and quantity.defined
                    and len(quantity.defined) == len(quantity.values)
                ):
                    value = Value(run.name, when(run), median(quantity.defined), quantity.limited)
                    new = Series(
                        *(" ".join(key), quantity.name, quantity.unit, quantity.more_is_better),
                        *((), ()),
                    )
                    former = series.get((key, quantity.name), new)
                    series[key, quantity.name] = replace(
                        former,
                        values=(*former.values, value),
                        resolution=max(former.resolution, quantity.resolution),
                    )
    return list(series.values())


def _figure(value: float) -> str:
    return count(value) if abs(value) >= 1000 else f"{value:.5g}"
