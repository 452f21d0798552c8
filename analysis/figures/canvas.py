"""Style and output of figures: readable in grey and by colour-blind people, and reproducible."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, VERMILLION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
PURPLE, SKY, BLACK, GREY = "#CC79A7", "#56B4E9", "#000000", "#777777"
COLOR_CYCLE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
"""Palette of Okabe and Ito, which people with any colour vision can tell apart."""

MARKERS = ("o", "^", "s", "D", "v", "P", "X")
LINE_STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
"""Line styles of matplotlib that differ without colours."""

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
    # words of users may hold dollars and are no formulas
    "text.parse_math": False,
    "figure.facecolor": "white",
}

_REFERENCE, _ID = re.compile(r"#([\w.:-]+)"), re.compile(r' id="([^"]*)"')
_PATH, _DECIMALS = re.compile(r' d="[^"]*"'), re.compile(r"(\.\d)\d+")


_PDF_DIRECTORY: ContextVar[Path | None] = ContextVar("_PDF_DIRECTORY", default=None)


def style_line(number: int) -> dict[str, Any]:
    """Return matplotlib's arguments for the line with this number, from 0."""
    place = number % len(COLOR_CYCLE)
    return {"color": COLOR_CYCLE[place], "marker": MARKERS[place], "linestyle": LINE_STYLES[place]}


@contextmanager
def apply_style(name: str) -> Iterator[None]:
    """Apply style and reproducible identifiers to the figures drawn in this context."""
    # a home directory that cannot be written is no news for whoever reads a report
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

    figure = Figure(figsize=(width, sum(heights) or height), layout="constrained")
    ratios = list(heights) or [height]
    return figure, list(
        figure.subplots(len(ratios), panels, squeeze=False, height_ratios=ratios).flat
    )


def write_svg(figure: Figure, name: str) -> str:
    """Return a figure as an ``<svg>`` element with identifiers that are unique in a report."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    out = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    # `savefig` draws everything twice, the first time to lay it out
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(out, metadata=nothing)
    directory = _PDF_DIRECTORY.get()
    if directory is not None:
        figure.savefig(directory / f"{name}.pdf", metadata={"Title": name, "CreationDate": None})
    text = out.getvalue()
    text = text[text.index("<svg") :].rstrip()
    used = set(_REFERENCE.findall(text))
    text = _ID.sub(lambda match: match[0] if match[1] in used else "", text)
    text = _PATH.sub(lambda match: _DECIMALS.sub(r"\1", match[0]), text)
    return text.replace("<svg", f'<svg id="{name}-figure"', 1)


def draw_legend(axes: Axes) -> None:
    """Draw a legend to the right of the axes."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(
            handles, labels, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0
        )


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
    few = low > 0 and high < 300 * low
    chosen.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    chosen.set_major_formatter(FuncFormatter(lambda value, _: format_number(value)))
    chosen.set_minor_locator(NullLocator())


def abbreviate(value: float) -> str:
    """Abbreviate a number: ``1250000`` is ``"1.25 M"``."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= limit:
            return f"{value / limit:.4g}{unit}"
    return f"{value:.4g}"
