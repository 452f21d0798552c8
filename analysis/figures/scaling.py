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

FAR = 20.0


def scaling_curve(lines: Mapping[str, Mapping[float, float]], axis: str, name: str) -> str:
    """Rate against what varies, one line per point (SC-01 to SC-03).

    Args:
        lines: rate [fps per direction] by value of the axis, by label.
        axis: what varies.
        name: of the figure.
    """
    from matplotlib.ticker import FuncFormatter, NullFormatter

    with drawing(name):
        figure, (at,) = axes()
        values = sorted({x for line in lines.values() for x in line})
        for number, (label, line) in enumerate(lines.items()):
            across = sorted(line)
            at.plot(across, [line[x] for x in across], label=label, **look(number).line)
        if values[0] > 0 and values[-1] > FAR * values[0]:
            at.set_xscale("log")
        at.set_xticks(values)
        at.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        at.xaxis.set_minor_formatter(NullFormatter())
        at.set_ylim(bottom=0)
        at.set_xlabel(axis)
        at.set_ylabel("frames per second per direction")
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
