"""Runs one after the other, with the medians between changes."""

from __future__ import annotations

import re
from itertools import pairwise
from statistics import median

from v6t.analysis.figures.canvas import (
    BLUE,
    GREY,
    VERMILLION,
    axes,
    drawing,
    legend,
    svg,
    thousands,
)
from v6t.analysis.trend import Series

MOST_NAMES = 40
_TIME = re.compile(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d).*")
"""Nobody tells runs by the second."""


def trend_figure(series: Series, name: str) -> str:
    """Every run, and where a change begins."""
    with drawing(name):
        figure, (at,) = axes(height=3.6)
        values = [v.value for v in series.values]
        for word, limited, marker in (
            ("run", False, "o"),
            ("run limited by the tester", True, "^"),
        ):
            places = [n for n, v in enumerate(series.values) if v.limited == limited]
            if places:
                at.plot(places, [values[n] for n in places], linestyle="", marker=marker,
                        color=BLUE, label=word)  # fmt: skip
        bounds = [0, *(c.place for c in series.changes), len(values)]
        for first, after in pairwise(bounds):
            level = median(values[first:after])
            at.plot([first - 0.4, after - 0.6], [level, level], color=GREY,
                    label="median" if not first else None)  # fmt: skip
        for change in series.changes:
            at.axvline(change.place - 0.5, color=VERMILLION, linestyle="--",
                       label=f"{change.percent:+.1f} %")  # fmt: skip
        step = -(-len(values) // MOST_NAMES)
        names = [_TIME.sub(r"\1 \2", v.when or v.run) for v in series.values]
        at.set_xticks(range(0, len(values), step), names[::step], rotation=40, ha="right",
                      fontsize=7)  # fmt: skip
        at.set_ylabel(f"{series.quantity}, {series.unit}")
        thousands(at)
        legend(at)
        return svg(figure, name)
