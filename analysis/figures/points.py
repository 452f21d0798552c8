"""Results that have names instead of numbers to be drawn over: one line each."""

from __future__ import annotations

from collections.abc import Sequence

from v6t.analysis.figures.canvas import (
    BLUE,
    axes,
    drawing,
    logarithmic,
    short,
    svg,
    thousands,
)
from v6t.analysis.record import RateRecord

UNITS = {
    "frames per second": "frames per second per direction",
    "connections per second": "connections per second",
}
"""Labels of axes by the unit of a record."""
FAR = 20.0
"""Where the largest value is so many times the smallest, the axis is logarithmic."""


def points_figure(rows: Sequence[tuple[str, RateRecord]], unit: str, name: str) -> str:
    """Median of every row with a bar from P1 to P99.

    Args:
        rows: names from top to bottom, and records with ``median``, ``p1`` and ``p99``.
        unit: of the values.
        name: of the figure.
    """
    with drawing(name):
        figure, (at,) = axes(height=0.9 + 0.34 * len(rows))
        places = range(len(rows))
        medians = [r.median for _, r in rows]
        low = [max(0.0, r.median - r.p1) for _, r in rows]
        high = [max(0.0, r.p99 - r.median) for _, r in rows]
        at.errorbar(medians, places, xerr=[low, high], linestyle="", marker="o", capsize=4,
                    color=BLUE)  # fmt: skip
        for place, value in zip(places, medians, strict=True):
            at.annotate(short(value), (value, place), xytext=(0, 6), textcoords="offset points",
                        ha="center", fontsize=8)  # fmt: skip
        at.set_yticks(list(places), [label for label, _ in rows])
        at.invert_yaxis()
        at.margins(y=0.6 / max(1, len(rows)))
        scale = (
            "logarithmic" if min(medians) > 0 and max(medians) > FAR * min(medians) else "linear"
        )
        if scale == "logarithmic":
            logarithmic(at, "x", short)
        else:
            at.set_xlim(0, max(medians) * 1.08 or 1)
            thousands(at, "x")
        at.set_xlabel(f"{unit} ({scale} axis)")
        return svg(figure, name)
