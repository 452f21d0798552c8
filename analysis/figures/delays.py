"""Figures of delays: histograms, and the share of the frames that take longer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from v6t.analysis.figures import plots
from v6t.trials.delays import Distribution

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_BINS = 60  # bins of a histogram
_LOG_SCALE_RATIO = 5.0  # axes are logarithmic above this ratio of largest to smallest delay


def draw_delays(delays: Mapping[str, Distribution], name: str) -> str:
    """Draw the histogram of delays and the share of frames that take longer, lost ones included."""
    with plots.apply_style(name):
        figure, (left, right) = plots.make_axes(width=10.0, height=3.8, panels=2)
        low, high = _draw_histograms(left, delays)
        for number, (direction, distribution) in enumerate(delays.items()):
            across, later = _compute_ccdf(distribution)
            right.step(across, later, where="post", label=direction, **_style_steps(number))
        for axes in (left, right):
            if high > _LOG_SCALE_RATIO * low > 0:
                plots.set_logarithmic(axes, "x", plots.abbreviate)
            axes.set_xlabel("one-way delay, µs")
        plots.set_logarithmic(right, "y", lambda share: f"{100 * share:.4g} %")
        left.set_ylabel("frames per bin")
        right.set_ylabel("share of frames that take longer")
        for share, word in ((0.5, "median"), (0.001, "99.9 %")):
            right.axhline(share, color=plots.BLACK, linewidth=0.7, linestyle=":")
            right.text(1.0, share, f" {word}", transform=right.get_yaxis_transform(), va="center",
                       fontsize=8)  # fmt: skip
        plots.draw_legend(right)
        right.get_legend().set_bbox_to_anchor((1.12, 1.0))  # type: ignore[union-attr]
        return plots.write_svg(figure, name)


def draw_variation(differences: Mapping[str, Distribution], name: str) -> str:
    """Draw the histogram of the differences of consecutive delays (IPDV)."""
    with plots.apply_style(name):
        figure, (axes,) = plots.make_axes(height=3.4)
        _draw_histograms(axes, differences, linear=True)
        axes.set(xlabel="delay minus that of the frame before, µs", ylabel="pairs per bin")
        plots.draw_legend(axes)
        return plots.write_svg(figure, name)


def _style_steps(number: int) -> dict[str, Any]:
    """Return the style of a line without its marker."""
    return {k: v for k, v in plots.style_line(number).items() if k != "marker"}


def _draw_histograms(
    axes: Axes, distributions: Mapping[str, Distribution], *, linear: bool = False
) -> tuple[float, float]:
    """Draw a histogram of each direction; return the lowest and the highest value [µs]."""
    import numpy as np

    low = min(d.values_ns[0] for d in distributions.values() if d.values_ns) / 1000
    high = max(d.values_ns[-1] for d in distributions.values() if d.values_ns) / 1000
    fewest = min(d.frames for d in distributions.values())
    bins = max(8, min(MAX_BINS, math.isqrt(fewest) // 2))
    edges = np.linspace(low, max(high, low + 1e-9), bins + 1)
    if high > _LOG_SCALE_RATIO * low > 0 and not linear:
        edges = np.geomspace(low, high, bins + 1)
    for number, (direction, distribution) in enumerate(distributions.items()):
        values = np.clip(np.array(distribution.values_ns) / 1000, edges[0], edges[-1])
        counts, _ = np.histogram(values, edges, weights=distribution.counts)
        heights = np.where(counts, counts, np.nan)
        axes.stairs(heights, edges, linewidth=1.4, label=direction, **_style_steps(number))
    axes.set_ylim(bottom=0.8)
    plots.set_logarithmic(axes, "y", plots.abbreviate)
    return low, high


def _compute_ccdf(distribution: Distribution) -> tuple[Any, Any]:
    """Return delays [µs] and the share of the frames that take longer, lost ones included."""
    import numpy as np

    total = distribution.frames + distribution.lost
    longer = total - np.cumsum(distribution.counts)
    return np.array(distribution.values_ns) / 1000, np.where(longer > 0, longer / total, np.nan)
