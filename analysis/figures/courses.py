"""Trials over their time: all of a test point as a map of losses, some of them as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from v6t.analysis.figures.canvas import BLUE, GREY, ORANGE, VERMILLION

WIDTH, LEFT, RIGHT = 760, 14, 60
ACROSS = WIDTH - LEFT - RIGHT
"""Room for a trial's time."""
TALL, LINE = 58, 4
"""Heights of a panel of lines and of a trial's row of the map."""
LEVELS = ((0.0, "#fbe3d3"), (0.01, "#f3b58f"), (0.1, "#d55e00"), (0.5, "#7a3600"))
"""Shares of lost frames, and the colour of a slot that lost more than that."""


@dataclass(frozen=True)
class Panel:
    """One direction of one trial.

    Attributes:
        title: what it is.
        slot_s, sending_s: length of a slot, and of the trial while it sends [s].
        received: share of the even rate that arrived in each slot.
        lost: share of what was due in each slot that was lost.
        load: of a device's busiest core, by the end of each second after the first frame [%].
    """

    title: str
    slot_s: float
    sending_s: float
    received: Sequence[float]
    lost: Sequence[float]
    load: Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class Row:
    """A trial in the map: its lost share by slot, and whether the tester faltered in it."""

    lost: Sequence[float]
    invalid: bool


def course_figure(panels: Sequence[Panel], rows: Sequence[Row]) -> str:
    """Draw panels one below the other, then the map.

    Args:
        panels: trials in full: what arrived (line), was lost (bars), how busy the device was.
        rows: all trials: a line for each, from its first frame on the left to its last.
    """
    shapes = []
    for number, panel in enumerate(panels):
        shapes += _panel(panel, 18 + number * (TALL + 38))
    top = len(panels) * (TALL + 38) + 4
    if rows:
        shapes += _map(rows, top + 18)
        top += 18 + len(rows) * LINE + 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top:g}" '
        f'width="{WIDTH}" font-family="DejaVu Sans, Arial, sans-serif" font-size="12" '
        f'fill="#1a1a1a">{"".join(shapes)}</svg>'
    )


def _map(rows: Sequence[Row], top: float) -> list[str]:
    height = len(rows) * LINE
    shapes = [
        _text(
            LEFT, top - 5, f"all {len(rows)} trials, one below the other: slots that lost frames"
        ),
        f'<rect x="{LEFT}" y="{top:g}" width="{ACROSS}" height="{height}" fill="#fafafa" '
        'stroke="#cccccc"/>',
    ]
    paths: dict[str, list[str]] = {}
    for number, row in enumerate(rows):
        y = f"{top + number * LINE + 2:g}"
        slots = max(1, len(row.lost))
        at = 0
        levels = [next((c for least, c in LEVELS[::-1] if share > least), "") for share in row.lost]
        for colour, run in groupby(levels):
            length = len(list(run))
            if colour:
                begin, wide = (round(ACROSS * n / slots) for n in (at, length))
                paths.setdefault(colour, []).append(f"M{LEFT + begin} {y}h{max(1, wide)}")
            at += length
        if row.invalid:
            paths.setdefault(ORANGE, []).append(f"M2 {y}h8")
    shapes += [
        f'<path d="{"".join(lines)}" stroke="{colour}" stroke-width="{LINE - 1}"/>'
        for colour, lines in paths.items()
    ]
    shapes.append(_text(LEFT, top + height + 14, "first frame"))
    shapes.append(_text(WIDTH - RIGHT, top + height + 14, "end of sending", "end"))
    return shapes


def _panel(panel: Panel, top: int) -> list[str]:
    slots = max(1, round(panel.sending_s / panel.slot_s))
    step = ACROSS / slots
    bottom = top + TALL
    highest = max(1.1, *panel.received, 0.0)

    def down(share: float) -> float:
        return bottom - TALL * share / highest

    full = round(down(1.0), 1)
    shapes = [
        _text(LEFT, top - 5, panel.title),
        f'<path d="M{LEFT} {full}h{ACROSS}" stroke="#cccccc"/>',
        f'<path d="M{LEFT} {full}V{bottom}h{ACROSS}" fill="none" stroke="#777777"/>',
        _text(WIDTH - RIGHT + 4, full + 4, "100 %"),
        _text(LEFT, bottom + 13, "0 s"),
        _text(WIDTH - RIGHT, bottom + 13, f"{panel.sending_s:g} s", "end"),
    ]
    bars = "".join(
        f"M{LEFT + (slot + 0.5) * step:.4g} {bottom}V{down(min(1.0, share)):.4g}"
        for slot, share in enumerate(panel.lost[:slots])
        if share
    )
    if bars:
        shapes.append(f'<path d="{bars}" stroke="{VERMILLION}" stroke-width="{step * 0.7:.3g}"/>')
    points = _bends(
        [
            (f"{LEFT + (slot + 0.5) * step:.4g}", f"{down(share):.4g}")
            for slot, share in enumerate(panel.received[:slots])
        ]
    )
    if points:
        shapes.append(
            f'<path d="M{"L".join(points)}" fill="none" stroke="{BLUE}" stroke-width="1.5"/>'
        )
    for load in panel.load.values():
        busy = _bends(
            [
                (
                    f"{LEFT + ACROSS * min(1.0, at / panel.sending_s):.4g}",
                    f"{down(share / 100):.4g}",
                )
                for at, share in load
            ]
        )
        shapes.append(
            f'<path d="M{"L".join(busy)}" fill="none" stroke="{GREY}" stroke-width="1.2" '
            'stroke-dasharray="4 3"/>'
        )
    return shapes


def _bends(points: Sequence[tuple[str, str]]) -> list[str]:
    last = len(points) - 1
    return [
        f"{across} {down}"
        for n, (across, down) in enumerate(points)
        if n in (0, last) or not points[n - 1][1] == down == points[n + 1][1]
    ]


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'
