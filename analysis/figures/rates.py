"""Rates: against the frame size, repetition by repetition, and as the search found them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from v6t.analysis.figures.canvas import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    VERMILLION,
    axes,
    drawing,
    legend,
    logarithmic,
    look,
    short,
    svg,
    thousands,
)
from v6t.analysis.record import RateRecord

FAR = 20.0
"""Where the largest value is so many times the smallest, the axis is logarithmic."""


def rate_by_size(records: Sequence[RateRecord], name: str, media: dict[str, float]) -> str:
    """Frame rate against frame size with the theoretical line (RFC 2544 section 26.1; TP-08).

    Args:
        records: throughput records of one title.
        name: of the figure.
        media: theoretical maximum by :attr:`~v6t.analysis.record.Record.sizes`, frames per second.
    """
    ordered = sorted({(r.frame_sizes.ipv6, r.sizes) for r in records})
    places = {label: i for i, (_, label) in enumerate(ordered)}
    with drawing(name):
        figure, (at,) = axes()
        across = list(places.values())
        limits = [media[label] for label in places]
        at.plot(across, limits, color=BLACK, linestyle="-", marker="_", markersize=18,
                label="theoretical maximum of the medium")  # fmt: skip
        modes = list(dict.fromkeys(r.direction for r in records))
        values = list(limits)
        label = "tester's own capacity" + ", by direction" * (len(modes) > 1)
        for number, mode in enumerate(modes):
            here = [r for r in records if r.direction == mode]
            medians = [r.median for r in here]
            values += [m for m in medians if m]
            shift = 0.06 * (number - (len(modes) - 1) / 2)
            low = [max(0.0, r.median - r.p1) for r in here]
            high = [max(0.0, r.p99 - r.median) for r in here]
            at.errorbar([places[r.sizes] + shift for r in here], medians, yerr=[low, high],
                        capsize=4, label=mode, **look(number).line)  # fmt: skip
            known = [(places[r.sizes] + shift, r.tester_ceiling) for r in here if r.tester_ceiling]
            if known:
                named = label if number == 0 else "_"
                at.plot(*zip(*known, strict=True), color=GREY, linestyle=":", marker="_",
                        markersize=14, label=named)  # fmt: skip
                values += [capacity for _, capacity in known]
        if max(values) > FAR * min(values):
            logarithmic(at, "y", short)
        else:
            at.set_ylim(bottom=0)
            thousands(at)
        slanted = {"rotation": 30, "ha": "right"} if len(places) > 6 else {}
        at.set_xticks(across, list(places), **slanted)  # type: ignore[arg-type]
        at.set_xlim(-0.5, len(places) - 0.5)
        both = any(r.frame_sizes.ipv6 != r.frame_sizes.ipv4 for r in records)
        at.set_xlabel(f"frame size, octets ({'IPv6/IPv4, ' * both}FCS included)")
        at.set_ylabel("frames per second per direction")
        legend(at)
        return svg(figure, name)


def repetitions(record: RateRecord, name: str) -> str:
    """Draw the rate of every repetition, with median, P1 and P99."""
    from matplotlib.ticker import MaxNLocator

    with drawing(name):
        figure, (at,) = axes(height=3.0)
        rates = record.rates
        at.plot(range(1, len(rates) + 1), rates, linestyle="", marker="o", color=BLUE,
                label="repetition")  # fmt: skip
        for word, value, dash in (
            ("median", record.median, "-"),
            ("P1", record.p1, "--"),
            ("P99", record.p99, ":"),
        ):
            at.axhline(value, color=VERMILLION, linestyle=dash, label=f"{word} {short(value)}")
        at.set_xlabel("repetition")
        at.set_ylabel("frames per second\nper direction")
        at.xaxis.set_major_locator(MaxNLocator(integer=True))
        thousands(at)
        legend(at)
        return svg(figure, name)


@dataclass(frozen=True)
class Step:
    """One trial of a search: its place, its rate [fps], and how it ended."""

    repetition: int
    number: int
    rate_fps: float
    outcome: str


_OUTCOMES = {"passed": ("o", BLUE), "failed": ("x", VERMILLION), "invalid": ("s", ORANGE)}


def search_trace(steps: Sequence[Step], result_fps: float, name: str) -> str:
    """Every trial of the searches of one point, in the order they were made."""
    from matplotlib.ticker import MaxNLocator

    with drawing(name):
        figure, (at,) = axes(height=3.6)
        for repetition in sorted({s.repetition for s in steps}):
            here = [s for s in steps if s.repetition == repetition]
            at.plot([s.number for s in here], [s.rate_fps for s in here], color="#bbbbbb",
                    linewidth=0.8, zorder=1)  # fmt: skip
        for outcome, (marker, colour) in _OUTCOMES.items():
            met = [s for s in steps if s.outcome == outcome]
            if met:
                at.scatter([s.number for s in met], [s.rate_fps for s in met], marker=marker,
                           color=colour, label=outcome, zorder=2)  # fmt: skip
        at.axhline(result_fps, color=BLACK, linestyle="--", label=f"median {short(result_fps)}")
        at.set_xlabel("trial of the point")
        at.xaxis.set_major_locator(MaxNLocator(integer=True))
        at.set_ylabel("offered frames per second\nper direction")
        at.set_ylim(bottom=0)
        thousands(at)
        legend(at)
        return svg(figure, name)
