"""Delays: how often each occurs, and which share of the frames takes longer."""

from __future__ import annotations

import math
from collections.abc import Mapping

from v6t.analysis.figures.canvas import BLACK, axes, drawing, legend, logarithmic, look, short, svg
from v6t.trials.delays import Distribution

BINS = 60
_FAR = 5.0


def delay_figure(delays: Mapping[str, Distribution], name: str) -> str:
    """Draw the histogram and the share of later frames, lost ones included, on logarithmic scales."""
    with drawing(name):
        figure, (left, right) = axes(width=10.0, height=3.8, panels=2)
        low = min(d.values_ns[0] for d in delays.values() if d.values_ns) / 1000
        high = max(d.values_ns[-1] for d in delays.values() if d.values_ns) / 1000
        edges = _edges(low, high, _bins(delays))
        for number, (way, distribution) in enumerate(delays.items()):
            shape = look(number)
            counts = _count_bins(distribution, edges)
            left.stairs([c or math.nan for c in counts], edges, color=shape.color,
                        linestyle=shape.dash, linewidth=1.4)  # fmt: skip
            across, later = _compute_ccdf(distribution)
            right.step(across, later, where="post", color=shape.color, linestyle=shape.dash,
                       label=way)  # fmt: skip
        for at in (left, right):
            if high > _FAR * low > 0:
                logarithmic(at, "x", short)
            at.set_xlabel("one-way delay, µs")
        left.set_ylim(bottom=0.8)
        logarithmic(left, "y", short)
        logarithmic(right, "y", lambda share: f"{100 * share:.4g} %")
        left.set_ylabel("frames per bin")
        right.set_ylabel("share of frames that take longer")
        for share, word in ((0.5, "median"), (0.001, "99.9 %")):
            right.axhline(share, color=BLACK, linewidth=0.7, linestyle=":")
            right.text(1.0, share, f" {word}", transform=right.get_yaxis_transform(), va="center",
                       fontsize=8)  # fmt: skip
        legend(right)
        right.get_legend().set_bbox_to_anchor((1.12, 1.0))  # type: ignore[union-attr]
        return svg(figure, name)


def variation_figure(differences: Mapping[str, Distribution], name: str) -> str:
    """Draw how often each difference of consecutive delays occurs (IPDV)."""
    with drawing(name):
        figure, (at,) = axes(height=3.4)
        low = min(d.values_ns[0] for d in differences.values() if d.values_ns) / 1000
        high = max(d.values_ns[-1] for d in differences.values() if d.values_ns) / 1000
        bins = _bins(differences)
        width = (high - low or 1.0) / bins
        edges = [low + i * width for i in range(bins + 1)]
        for number, (way, distribution) in enumerate(differences.items()):
            shape = look(number)
            counts = _count_bins(distribution, edges)
            at.stairs([c or math.nan for c in counts], edges, color=shape.color,
                      linestyle=shape.dash, linewidth=1.4, label=way)  # fmt: skip
        at.set_ylim(bottom=0.8)
        logarithmic(at, "y", short)
        at.set_xlabel("delay minus that of the frame before, µs")
        at.set_ylabel("pairs per bin")
        legend(at)
        return svg(figure, name)


def _bins(distributions: Mapping[str, Distribution]) -> int:
    fewest = min(d.frames for d in distributions.values())
    return max(8, min(BINS, math.isqrt(fewest) // 2))


def _edges(low: float, high: float, bins: int) -> list[float]:
    if high > _FAR * low > 0:
        step = math.log(high / low) / bins
        return [low * math.exp(step * i) for i in range(bins)] + [high]
    width = (high - low or 1.0) / bins
    return [low + i * width for i in range(bins + 1)]


def _count_bins(distribution: Distribution, edges: list[float]) -> list[int]:
    from bisect import bisect_right

    counts = [0] * (len(edges) - 1)
    for value, frames in zip(distribution.values_ns, distribution.counts, strict=True):
        counts[min(max(bisect_right(edges, value / 1000) - 1, 0), len(counts) - 1)] += frames
    return counts


def _compute_ccdf(distribution: Distribution) -> tuple[list[float], list[float]]:
    total = distribution.frames + distribution.lost
    left = total
    across, share = [], []
    for value, frames in zip(distribution.values_ns, distribution.counts, strict=True):
        left -= frames
        across.append(value / 1000)
        share.append(left / total if left else math.nan)
    return across, share
