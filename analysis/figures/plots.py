"""Plots of reports: readable in grey and by colour-blind people, and reproducible."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, VERMILLION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
PURPLE, SKY, BLACK, GREY = "#CC79A7", "#56B4E9", "#000000", "#777777"
# palette of Okabe and Ito, which people with any colour vision can tell apart
COLOR_CYCLE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
MARKERS = ("o", "^", "s", "D", "v", "P", "X")  # markers of matplotlib for successive curves
# line styles of matplotlib that differ without colours
LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))

# settings of matplotlib for all figures
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica"],
    "font.size": 10,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.6,
    "lines.markersize": 6,
    # dollars in labels of users do not begin formulas
    "text.parse_math": False,
    "figure.facecolor": "white",
}

_REFERENCE, _ID = re.compile(r"#([\w.:-]+)"), re.compile(r' id="([^"]*)"')
_CLIP = re.compile(r'<clipPath id="([^"]*)"')  # finds clip paths in SVG
_PATH, _DECIMALS = re.compile(r' d="[^"]*"'), re.compile(r"(\.\d)\d+")
# directory for PDF files of figures; None: none are written
_PDF_DIRECTORY: ContextVar[Path | None] = ContextVar("_PDF_DIRECTORY", default=None)
LOG_SCALE_RATIO = 20.0  # axes are logarithmic above this ratio of largest to smallest value
_OPEN_BAR = "no upper bar: P99 undefined"
MAX_UPRIGHT_LABELS = 6  # an axis with more labels tilts them


def style_line(number: int) -> dict[str, Any]:
    """Return matplotlib's arguments for the line with this number, from 0."""
    place = number % len(COLOR_CYCLE)
    return {"color": COLOR_CYCLE[place], "marker": MARKERS[place], "linestyle": LINE_STYLES[place]}


@contextmanager
def apply_style(name: str) -> Iterator[None]:
    """Apply the style and reproducible identifiers to figures drawn in this context."""
    # a home directory without write access does not concern the reader of a report
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    import matplotlib as mpl

    style: Any = {**_STYLE, "svg.hashsalt": name}
    with mpl.rc_context(style):
        yield


@contextmanager
def save_pdf(directory: Path) -> Iterator[None]:
    """Also save each figure drawn in this context as NAME.pdf."""
    token = _PDF_DIRECTORY.set(directory)
    try:
        yield
    finally:
        _PDF_DIRECTORY.reset(token)


def make_axes(
    width: float = 8.0, height: float = 4.0, panels: int = 1, heights: Sequence[float] = ()
) -> tuple[Figure, list[Axes]]:
    """Make a figure with panels side by side, or of several ``heights`` above each other [inches]."""
    from matplotlib.figure import Figure

    ratios = list(heights) or [height]
    figure = Figure(figsize=(width, sum(ratios)), layout="constrained")
    grid = figure.subplots(len(ratios), panels, squeeze=False, height_ratios=ratios)
    return figure, list(grid.flat)


def write_svg(figure: Figure, name: str) -> str:
    """Return a figure as an ``<svg>`` element whose identifiers are unique in a report."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    out = io.StringIO()
    # `savefig` draws everything twice, the first time to lay it out
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(out, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    if (directory := _PDF_DIRECTORY.get()) is not None:
        figure.savefig(directory / f"{name}.pdf", metadata={"Title": name, "CreationDate": None})
    text = out.getvalue()
    text = text[text.index("<svg") :].rstrip()
    used = set(_REFERENCE.findall(text))
    text = _ID.sub(lambda match: match[0] if match[1] in used else "", text)
    # matplotlib names some clip paths by their address in memory
    for number, clip in enumerate(_CLIP.findall(text)):
        text = text.replace(clip, f"{name}-clip{number}")
    text = _PATH.sub(lambda match: _DECIMALS.sub(r"\1", match[0]), text)
    return text.replace("<svg", f'<svg id="{name}-figure"', 1)


def draw_legend(axes: Axes) -> None:
    """Draw a legend to the right of the axes."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(handles, labels, loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)


def format_thousands(axes: Axes, axis: str = "y") -> None:
    """Format the numbers on an axis as ``250 k`` and ``2.5 M``."""
    from matplotlib.ticker import FuncFormatter

    chosen = axes.yaxis if axis == "y" else axes.xaxis
    chosen.set_major_formatter(FuncFormatter(lambda value, _: abbreviate(value)))


def set_logarithmic(axes: Axes, axis: str, format_number: Callable[[float], str]) -> None:
    """Make an axis logarithmic; short axes have ticks at 1, 2 and 5 times each power of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    (axes.set_xscale if axis == "x" else axes.set_yscale)("log")
    chosen = axes.xaxis if axis == "x" else axes.yaxis
    low, high = sorted(chosen.get_view_interval())
    is_narrow = low > 0 and high < 300 * low
    chosen.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if is_narrow else (1.0,)))
    chosen.set_major_formatter(FuncFormatter(lambda value, _: format_number(value)))
    chosen.set_minor_locator(NullLocator())


def abbreviate(value: float) -> str:
    """Abbreviate a number: ``1250000`` is ``"1.25 M"``."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= limit:
            return f"{value / limit:.4g}{unit}"
    return f"{value:.4g}"


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
    """A line or points of a plot."""

    label: str  # text in the legend; `_` for none
    x: Sequence[float]
    y: Sequence[float]
    bars: Sequence[Sequence[float]] | None = None  # lengths below and above each point
    style: Mapping[str, Any] = field(default_factory=dict)  # arguments of matplotlib


def make_summary_curve(
    number: int, label: str, points: Sequence[tuple[float, MedianSummary]]
) -> Curve:
    """Make the curve of defined medians with bars from P1 to P99, in the style of this number.

    A bar has no part towards an undefined percentile; the label says so if only P99 is undefined.
    """
    known = [(x, s.median, s.p1, s.p99) for x, s in points if s.median is not None]
    low = [0.0 if p1 is None else max(0.0, median - p1) for _, median, p1, _ in known]
    high = [0.0 if p99 is None else max(0.0, p99 - median) for _, median, _, p99 in known]
    if any(p99 is None and p1 is not None for *_, p1, p99 in known):
        label += f", {_OPEN_BAR}"
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
    """Draw curves with error bars.

    Args:
        ticks: labels of positions on the x axis; None: numbers.
        linear: whether the y axis is never logarithmic.
        adjust: called to change the axes before the legend is drawn.
    """
    with apply_style(name):
        figure, (axes,) = make_axes()
        for c in curves:
            axes.errorbar(c.x, c.y, yerr=c.bars, capsize=4, label=c.label, **c.style)
        values = [y for curve in curves for y in curve.y if y > 0]
        if values and not linear and max(values) > LOG_SCALE_RATIO * min(values):
            set_logarithmic(axes, "y", abbreviate)
        else:
            axes.set_ylim(bottom=0)
            format_thousands(axes)
        if ticks is not None:
            is_tilted = len(ticks) > MAX_UPRIGHT_LABELS
            tilt: dict[str, Any] = {"rotation": 30, "ha": "right"} if is_tilted else {}
            axes.set_xticks(list(ticks), list(ticks.values()), **tilt)
        axes.set(xlabel=xlabel, ylabel=ylabel)
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
    """Draw curves over numbered values; ``levels`` are horizontal lines with label and style."""
    from matplotlib.ticker import MaxNLocator

    with apply_style(name):
        figure, (axes,) = make_axes(height=3.6)
        for curve in curves:
            axes.plot(curve.x, curve.y, label=curve.label, **curve.style)
        for value, label, style in levels:
            axes.axhline(value, label=label, **style)
        axes.set(xlabel=xlabel, ylabel=ylabel)
        if whole:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        format_thousands(axes)
        if adjust is not None:
            adjust(axes)
        draw_legend(axes)
        return write_svg(figure, name)


def draw_points(rows: Sequence[tuple[str, Any]], unit: str, name: str, reference: float = 0) -> str:
    """Draw the median of each labelled row with a bar from P1 to P99, and a line at any reference."""
    with apply_style(name):
        figure, (axes,) = make_axes(height=0.9 + 0.34 * len(rows))
        curve = make_summary_curve(0, "", list(enumerate(r for _, r in rows)))
        axes.errorbar(
            curve.y, curve.x, xerr=curve.bars, linestyle="", marker="o", capsize=4, color=BLUE
        )
        for place, value in zip(curve.x, curve.y, strict=True):
            axes.annotate(abbreviate(value), (value, place), xytext=(0, 6), textcoords="offset points",
                        ha="center", fontsize=8)  # fmt: skip
        labels = [
            f"{label}, {_OPEN_BAR}" if r.p99 is None and r.p1 is not None else label
            for label, r in rows
        ]
        axes.set_yticks(range(len(rows)), labels)
        axes.invert_yaxis()
        axes.margins(y=0.6 / max(1, len(rows)))
        is_log = max(curve.y) > LOG_SCALE_RATIO * min(curve.y) > 0
        if is_log:
            set_logarithmic(axes, "x", abbreviate)
        else:
            ends = [value for _, r in rows for value in (r.median, r.p99) if value is not None]
            axes.set_xlim(0, max([*ends, reference]) * 1.08 or 1)
            format_thousands(axes, "x")
        if reference:
            axes.axvline(reference, color=GREY, linewidth=1)
        axes.set_xlabel(f"{unit} ({'logarithmic' if is_log else 'linear'} axis)")
        return write_svg(figure, name)
