"""The two plots of reports: values with bars over what varies, and trials or runs in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from v6t.analysis.figures.canvas import (
    BLUE,
    abbreviate,
    apply_style,
    draw_legend,
    format_thousands,
    make_axes,
    set_logarithmic,
    style_line,
    write_svg,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOG_SCALE_RATIO = 20.0
"""Ratio of the largest to the smallest value above which an axis is logarithmic."""
MAX_UPRIGHT_LABELS = 6  # number of labels on an axis above which they are tilted


class MedianSummary(Protocol):
    """A record or figure with the median and percentiles of its repetitions."""

    @property
    def median(self) -> float | None: ...
    @property
    def p1(self) -> float | None: ...
    @property
    def p99(self) -> float | None: ...


@dataclass(frozen=True)
class Curve:
    """A line, or points, of a plot.

    Attributes:
        bars: lengths below and above each point; None: no bars.
    """

    label: str  # in the legend; `_` for none
    x: Sequence[float]
    y: Sequence[float]
    bars: Sequence[Sequence[float]] | None = None
    style: Mapping[str, Any] = field(default_factory=dict)  # arguments of matplotlib


def make_summary_curve(
    number: int, label: str, points: Sequence[tuple[float, MedianSummary]]
) -> Curve:
    """Make the curve of defined medians with bars from P1 to P99; ``number`` sets its look."""
    known = [(x, s.median, s.p1, s.p99) for x, s in points if s.median is not None]
    low = [max(0.0, median - (p1 or 0.0)) for _, median, p1, _ in known]
    high = [max(0.0, (p99 or 0.0) - median) for _, median, _, p99 in known]
    medians = [median for _, median, _, _ in known]
    return Curve(label, [x for x, *_ in known], medians, [low, high], style_line(number))


def draw_errorbars(
    name: str,
    curves: Sequence[Curve],
    xlabel: str,
    ylabel: str,
    *,
    ticks: Mapping[float, str] | None = None,
    linear: bool = False,
    adjust: Callable[[Axes], object] | None = None,
) -> str:
    """Draw values with error bars.

    Args:
        ticks: labels of places on the x axis; None: numbers.
        linear: whether the y axis is never logarithmic.
        adjust: changes the axes before the legend is drawn.
    """
    with apply_style(name):
        figure, (axes,) = make_axes()
        for curve in curves:
            axes.errorbar(
                curve.x, curve.y, yerr=curve.bars, capsize=4, label=curve.label, **curve.style
            )
        values = [y for curve in curves for y in curve.y if y > 0]
        if values and not linear and max(values) > LOG_SCALE_RATIO * min(values):
            set_logarithmic(axes, "y", abbreviate)
        else:
            axes.set_ylim(bottom=0)
            format_thousands(axes)
        if ticks is not None:
            tilt: dict[str, Any] = (
                {"rotation": 30, "ha": "right"} if len(ticks) > MAX_UPRIGHT_LABELS else {}
            )
            axes.set_xticks(list(ticks), list(ticks.values()), **tilt)
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        if adjust is not None:
            adjust(axes)
        draw_legend(axes)
        return write_svg(figure, name)


def draw_series(
    name: str,
    curves: Sequence[Curve],
    xlabel: str,
    ylabel: str,
    *,
    levels: Sequence[tuple[float, str, Mapping[str, Any]]] = (),
    whole: bool = True,
    adjust: Callable[[Axes], object] | None = None,
) -> str:
    """Draw values in their order; ``levels`` are horizontal lines with label and style."""
    from matplotlib.ticker import MaxNLocator

    with apply_style(name):
        figure, (axes,) = make_axes(height=3.6)
        for curve in curves:
            axes.plot(curve.x, curve.y, label=curve.label, **curve.style)
        for value, label, style in levels:
            axes.axhline(value, label=label, **style)
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        if whole:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        format_thousands(axes)
        if adjust is not None:
            adjust(axes)
        draw_legend(axes)
        return write_svg(figure, name)


def draw_points(rows: Sequence[tuple[str, Any]], unit: str, name: str) -> str:
    """Draw the median of each labelled row with a bar from P1 to P99."""
    with apply_style(name):
        figure, (axes,) = make_axes(height=0.9 + 0.34 * len(rows))
        curve = make_summary_curve(0, "", list(enumerate(r for _, r in rows)))
        axes.errorbar(
            curve.y, curve.x, xerr=curve.bars, linestyle="", marker="o", capsize=4, color=BLUE
        )
        for place, value in zip(curve.x, curve.y, strict=True):
            axes.annotate(abbreviate(value), (value, place), xytext=(0, 6), textcoords="offset points",
                        ha="center", fontsize=8)  # fmt: skip
        axes.set_yticks(range(len(rows)), [label for label, _ in rows])
        axes.invert_yaxis()
        axes.margins(y=0.6 / max(1, len(rows)))
        scale = (
            "logarithmic"
            if min(curve.y) > 0 and max(curve.y) > LOG_SCALE_RATIO * min(curve.y)
            else "linear"
        )
        if scale == "logarithmic":
            set_logarithmic(axes, "x", abbreviate)
        else:
            axes.set_xlim(0, max(curve.y) * 1.08 or 1)
            format_thousands(axes, "x")
        axes.set_xlabel(f"{unit} ({scale} axis)")
        return write_svg(figure, name)
