"""What an experiment shows as a whole: scale-up over a number, mixtures beside their models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from v6t.analysis.figures.scaling import mixture_curve, scaling_curve
from v6t.analysis.report.blocks import Block, Drawing
from v6t.analysis.scaling import (
    S_C,
    S_CPU,
    T_HARMONIC,
    T_MIN,
    core_scaling,
    load_scaling,
    overlay_harmonic,
    overlay_min,
    residual_percent,
)
from v6t.analysis.sheets import Sheet, count, sheet, sizes_of

if TYPE_CHECKING:
    from v6t.analysis.report.campaign import RunOf

_CORES = ("cores", "workers")
_MIX = frozenset({"n", "m"})


def curves(
    experiment: str, runs: Sequence[RunOf], every: Sequence[RunOf], *, figures: bool
) -> list[Block]:
    """Tables and figures of everything in an experiment that forms a curve.

    Args:
        experiment: its name.
        runs: its runs.
        every: all runs of the campaign; native traffic alone is measured by ``ipv6-router``.
        figures: whether to draw.
    """
    blocks: list[Block] = []
    axes = list(dict.fromkeys(a for r in runs for a in r.axes))
    for number, axis in enumerate(axes):
        name = f"{experiment}-{number}".replace(".", "-")
        values = [r.axes.get(axis) for r in runs]
        if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
            blocks += _scaling(axis, runs, f"scaling-{name}", figures)
        elif all(isinstance(v, Mapping) and set(v) == _MIX for v in values):
            blocks += _mixture(axis, runs, every, f"mixture-{name}", figures)
    return blocks


def _rates(runs: Sequence[RunOf], axis: str) -> dict[str, dict[Any, float]]:
    """Throughput by value of the axis, by everything else that tells runs and points apart."""
    found: dict[str, dict[Any, float]] = {}
    for run in runs:
        others = [str(v) for a, v in run.axes.items() if a not in (axis, "frame_sizes")]
        for record in run.records:
            if record["benchmark"] == "throughput" and record["median"]:
                label = ", ".join([*others, sizes_of(record), record["direction"]])
                value = run.axes[axis]
                key = value["m"] / value["n"] if isinstance(value, Mapping) else value
                found.setdefault(label, {})[key] = record["median"]
    return found


def _scaling(axis: str, runs: Sequence[RunOf], name: str, figures: bool) -> list[Block]:
    if axis == "frame_sizes":
        return []
    lines = {label: line for label, line in _rates(runs, axis).items() if len(line) > 1}
    if not lines:
        return []
    short = axis.rpartition(".")[2]
    of_cores = short in _CORES and all(1 in line for line in lines.values())
    rows = []
    for label, line in lines.items():
        scale = core_scaling(line) if of_cores else load_scaling(line)
        rows += [
            (label, f"{value:,}", count(line[value]), f"{scale[value]:.3f}") for value in scale
        ]
    formula = S_CPU if of_cores else S_C
    blocks: list[Block] = [
        sheet(
            f"Scale-up over {short}: {formula}",
            ["<point", short, "median fps per direction", "scale-up"],
            rows,
        )
    ]
    if figures:
        caption = f"Throughput over {short}, median, frames per second per direction."
        blocks.append(Drawing(scaling_curve(lines, short, name), caption, caption))
    return blocks


def _mixture(
    axis: str, runs: Sequence[RunOf], every: Sequence[RunOf], name: str, figures: bool
) -> list[Block]:
    blocks: list[Block] = []
    natives = _natives(every)
    for number, (label, line) in enumerate(_rates(runs, axis).items()):
        native = natives.get((runs[0].testbed, *_place(label)))
        if 1.0 not in line or len(line) < 2 or native is None:
            continue
        translated = line[1.0]
        blocks.append(_mixture_sheet(label, line, translated, native))
        if figures:
            measured = sorted([*line.items(), (0.0, native)])
            figure = mixture_curve(measured, translated, native, f"{name}-{number}")
            caption = f"Mixtures of translated and native traffic beside two models, {label}."
            blocks.append(Drawing(figure, caption, caption))
    return blocks


def _natives(every: Sequence[RunOf]) -> dict[tuple[str, ...], float]:
    """Rates of native IPv6 alone by testbed, octets of the IPv6 frame and direction."""
    return {
        (run.testbed, str(record["frame_sizes"]["ipv6"]), record["direction"]): record["median"]
        for run in every
        if run.data is not None and run.data.config["plugin"] == "ipv6-router"
        for record in run.records
        if record["benchmark"] == "throughput" and record["median"]
    }


def _place(label: str) -> tuple[str, str]:
    """Octets of the IPv6 frame and direction at the end of a label."""
    octets, direction = label.split(", ")[-2:]
    return octets.partition("/")[0], direction


def _mixture_sheet(
    label: str, line: Mapping[float, float], translated: float, native: float
) -> Sheet:
    rows = []
    for share, rate in sorted(line.items(), reverse=True):
        models = [model(translated, native, share) for model in (overlay_min, overlay_harmonic)]
        rows.append(
            (
                f"{share:.0%}",
                count(rate),
                *(c for m in models for c in (count(m), f"{residual_percent(rate, m):+.2f}")),
            )
        )
    names = ["translated", "measured fps", T_MIN, "residual %", T_HARMONIC, "residual %"]
    return sheet(f"Mixtures, {label}", names, rows)
