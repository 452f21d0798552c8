"""Curves over what a campaign varies: scale-up, and mixtures beside their models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from v6t.analysis.figures.canvas import (
    BLACK,
    BLUE,
    GREEN,
    VERMILLION,
    axes,
    drawing,
    legend,
    look,
    short,
    svg,
    thousands,
)
from v6t.analysis.record import RateRecord

FAR = 6.0
"""Where the largest value is so many times the smallest, the axis is logarithmic."""


def scaling_curve(
    lines: Mapping[str, Mapping[float, RateRecord]],
    axis: str,
    unit: str,
    name: str,
    *,
    ideal: bool = False,
) -> str:
    """Rates against what varies, one line per point (SC-01 to SC-03).

    Args:
        lines: records with ``median``, ``p1`` and ``p99`` by value of the axis, by label.
        axis: what varies.
        unit: of the rates.
        name: of the figure.
        ideal: also draw as many times the rate of one.
    """
    from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

    with drawing(name):
        figure, (at,) = axes()
        values = sorted({x for line in lines.values() for x in line})
        for number, (label, line) in enumerate(lines.items()):
            across = sorted(line)
            records = [line[x] for x in across]
            bars = [
                [max(0.0, r.median - r.p1) for r in records],
                [max(0.0, r.p99 - r.median) for r in records],
            ]
            at.errorbar(across, [r.median for r in records], yerr=bars, capsize=4, label=label,
                        **look(number).line)  # fmt: skip
            if ideal and 1 in line:
                at.plot(across, [x * line[1].median for x in across], color="#999999",
                        linewidth=0.8, label=None if number else "n times one core")  # fmt: skip
        if values[0] > 0 and values[-1] >= FAR * values[0]:
            at.set_xscale("log", base=2)
        at.set_xticks(values)
        at.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        at.xaxis.set_minor_locator(NullLocator())
        at.xaxis.set_minor_formatter(NullFormatter())
        at.set_ylim(bottom=0)
        at.set_xlabel(axis)
        at.set_ylabel(unit.replace(" per direction", "\nper direction"))
        thousands(at)
        legend(at)
        return svg(figure, name)


def mixture_curve(
    measured: Sequence[tuple[float, float]], translated: float, native: float, name: str
) -> str:
    """Rates of mixtures beside both models (MIX-02).

    Args:
        measured: translated share (0 to 1) and rate [fps per direction].
        translated, native: rates of either traffic alone.
        name: of the figure.
    """
    from v6t.analysis.scaling import overlay_harmonic, overlay_min

    with drawing(name):
        figure, (at,) = axes()
        shares = [i / 50 for i in range(51)]
        for model, dash, colour, label in (
            (overlay_min, "--", VERMILLION, "min(Tt/a, Tn/(1-a))"),
            (overlay_harmonic, ":", GREEN, "1/(a/Tt + (1-a)/Tn)"),
        ):
            values = [model(translated, native, a) for a in shares]
            at.plot([100 * a for a in shares], values, linestyle=dash, color=colour, label=label)
        at.plot([100 * a for a, _ in measured], [r for _, r in measured], linestyle="",
                marker="o", color=BLUE, markeredgecolor=BLACK, label="measured")  # fmt: skip
        at.set_ylim(bottom=0)
        at.set_xlabel("translated share of the frames, %")
        at.set_ylabel("frames per second per direction")
        thousands(at)
        legend(at)
        return svg(figure, name)
