"""Rate, loss and device load over time: every trial of a test point in one map, some in lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from v6t.analysis.blocks import Block, BulletList, Collapsible, Drawing, FigureBudget, Paragraph
from v6t.analysis.figures.canvas import BLUE, GREY, ORANGE, VERMILLION
from v6t.analysis.record import Record
from v6t.analysis.report.render import SvgDrawing
from v6t.analysis.rundata import RunData, RunTrial
from v6t.trials.result import DirectionResult
from v6t.trials.timeline import Timeline

WIDTH, LEFT, RIGHT = 760, 14, 60
PLOT_WIDTH = WIDTH - LEFT - RIGHT
"""Room for a trial's time."""
PANEL_HEIGHT, ROW_HEIGHT = 58, 4
"""Heights of a panel of lines and of a trial's row of the map."""
LOSS_COLORS = ((0.0, "#fbe3d3"), (0.01, "#f3b58f"), (0.1, "#d55e00"), (0.5, "#7a3600"))
"""Shares of lost frames, and the colour of a slot that lost more than that."""


@dataclass(frozen=True)
class TrialPanel:
    """One direction of one trial.

    Attributes:
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
class MapRow:
    """A trial in the map: its lost share by slot, and whether it is invalid."""

    lost: Sequence[float]
    invalid: bool


def draw_timelines(panels: Sequence[TrialPanel], rows: Sequence[MapRow]) -> str:
    """Draw panels of single trials one below the other, then the map of all trials."""
    svg = SvgDrawing(WIDTH)
    for number, panel in enumerate(panels):
        _draw_panel(svg, panel, 18 + number * (PANEL_HEIGHT + 38))
    bottom = len(panels) * (PANEL_HEIGHT + 38) + 4
    if rows:
        _draw_map(svg, rows, bottom + 18)
        bottom += 18 + len(rows) * ROW_HEIGHT + 20
    return svg.render(bottom)


def _draw_map(svg: SvgDrawing, rows: Sequence[MapRow], top: float) -> None:
    height = len(rows) * ROW_HEIGHT
    title = f"all {len(rows)} trials, one below the other: slots that lost frames"
    svg.add_text(LEFT, top - 5, title)
    svg.add_box(LEFT, top, PLOT_WIDTH, height, fill="#fafafa", stroke="#cccccc")
    paths: dict[str, list[str]] = {}
    for number, row in enumerate(rows):
        y = f"{top + number * ROW_HEIGHT + 2:g}"
        slots = max(1, len(row.lost))
        at = 0
        levels = [
            next((c for least, c in LOSS_COLORS[::-1] if share > least), "") for share in row.lost
        ]
        for colour, run in groupby(levels):
            length = len(list(run))
            if colour:
                begin, wide = (round(PLOT_WIDTH * n / slots) for n in (at, length))
                paths.setdefault(colour, []).append(f"M{LEFT + begin} {y}h{max(1, wide)}")
            at += length
        if row.invalid:
            paths.setdefault(ORANGE, []).append(f"M2 {y}h8")
    for colour, lines in paths.items():
        svg.add_path("".join(lines), stroke=colour, stroke_width=ROW_HEIGHT - 1)
    svg.add_text(LEFT, top + height + 14, "first frame")
    svg.add_text(WIDTH - RIGHT, top + height + 14, "end of sending", "end")


def _draw_panel(svg: SvgDrawing, panel: TrialPanel, top: int) -> None:
    slots = max(1, round(panel.sending_s / panel.slot_s))
    step = PLOT_WIDTH / slots
    bottom = top + PANEL_HEIGHT
    highest = max(1.1, *panel.received, 0.0)

    def place(share: float) -> float:
        return bottom - PANEL_HEIGHT * share / highest

    full = round(place(1.0), 1)
    svg.add_text(LEFT, top - 5, panel.title)
    svg.add_text(WIDTH - RIGHT + 4, full + 4, "100 %")
    svg.add_text(LEFT, bottom + 13, "0 s")
    svg.add_text(WIDTH - RIGHT, bottom + 13, f"{panel.sending_s:g} s", "end")
    svg.add_path(f"M{LEFT} {full}h{PLOT_WIDTH}", stroke="#cccccc")
    svg.add_path(f"M{LEFT} {full}V{bottom}h{PLOT_WIDTH}", fill="none", stroke=GREY)
    bars = "".join(
        f"M{LEFT + (slot + 0.5) * step:.4g} {bottom}V{place(min(1.0, share)):.4g}"
        for slot, share in enumerate(panel.lost[:slots])
        if share
    )
    if bars:
        svg.add_path(bars, stroke=VERMILLION, stroke_width=f"{step * 0.7:.3g}")
    received = [
        (LEFT + (slot + 0.5) * step, place(share))
        for slot, share in enumerate(panel.received[:slots])
    ]
    if received:
        svg.add_path(_join_points(received), fill="none", stroke=BLUE, stroke_width=1.5)
    for load in panel.load.values():
        points = [
            (LEFT + PLOT_WIDTH * min(1.0, at / panel.sending_s), place(share / 100))
            for at, share in load
        ]
        dashes = {"stroke_width": 1.2, "stroke_dasharray": "4 3"}
        svg.add_path(_join_points(points), fill="none", stroke=GREY, **dashes)


def _join_points(points: Sequence[tuple[float, float]]) -> str:
    """Write a line through points, without those inside a level stretch."""
    texts = [(f"{x:.4g}", f"{y:.4g}") for x, y in points]
    last = len(texts) - 1
    bends = [
        f"{x} {y}"
        for n, (x, y) in enumerate(texts)
        if n in (0, last) or not texts[n - 1][1] == y == texts[n + 1][1]
    ]
    return f"M{'L'.join(bends)}"


MAX_HICCUP_SHARE = 0.1
"""A hiccup takes at most this share of a trial's slots ..."""
MIN_LOSS_SHARE = 0.8
"""... has at least this share of its losses ..."""
MIN_DEPTH = 0.05
"""... and loses at least this share of what was due in its worst slot."""
MIN_SLOTS = 10
"""With fewer slots nothing can be said to be short."""


@dataclass(frozen=True)
class Hiccup:
    """Losses in one stretch of one direction of a trial.

    Attributes:
        at_s: when the stretch began, after the first frame [s].
        elsewhere: frames lost in the rest of the trial.
    """

    trial: RunTrial
    direction: str
    at_s: float
    length_s: float
    lost: int
    elsewhere: int

    def __str__(self) -> str:
        rest = f"{self.elsewhere:,}" if self.elsewhere else "none"
        return (
            f"{self.trial.key}, {self.direction}: {self.lost:,} frames were lost within "
            f"{self.length_s:.3g} s, {self.at_s:.3g} s after the first frame, and {rest} in the "
            "rest of the trial"
        )


def find_hiccups(trials: Iterable[RunTrial]) -> list[Hiccup]:
    """List the hiccups of valid trials, the deepest first; skip trials with a reset or an overload."""
    spans = []
    for trial in trials:
        if trial.asked.get("event") or trial.asked.get("then"):
            continue
        for direction, counted in trial.result.directions.items():
            if counted.timeline is not None:
                one = _find_hiccup(trial, direction, counted, counted.timeline)
                if one is not None:
                    spans.append(one)
    return sorted(spans, key=lambda h: -h.lost)


def count_due_frames(trial: RunTrial, counted: DirectionResult, course: Timeline) -> list[float]:
    """Return the frames due in each slot of a trial while it sends."""
    rate = float(trial.asked["rate_fps"])
    first, whole = float(trial.asked["duration_s"]), trial.sending_s
    then = (trial.asked.get("then") or {"rate_fps": rate})["rate_fps"]
    slots = max(1, round(whole / course.slot_s))
    due = [rate if slot * course.slot_s < first - 1e-9 else then for slot in range(slots)]
    share = counted.count_frames("required") / (sum(due) or 1)
    return [n * share for n in due]


def _find_hiccup(
    trial: RunTrial, direction: str, counted: DirectionResult, course: Timeline
) -> Hiccup | None:
    lost = sum(course.lost)
    due = count_due_frames(trial, counted, course)
    if not lost or len(due) < MIN_SLOTS:
        return None
    first, last = _find_stretch(course.lost, MIN_LOSS_SHARE * lost)
    inside = sum(course.lost[first : last + 1])
    deepest = max(n / d for n, d in zip(course.lost, due, strict=False) if d)
    if last - first + 1 > max(1, MAX_HICCUP_SHARE * len(due)) or deepest < MIN_DEPTH:
        return None
    return Hiccup(
        trial,
        direction,
        first * course.slot_s,
        (last - first + 1) * course.slot_s,
        inside,
        lost - inside,
    )


def _find_stretch(lost: Sequence[int], wanted: float) -> tuple[int, int]:
    best = (0, len(lost) - 1)
    first, within = 0, 0
    for last, count in enumerate(lost):
        within += count
        while within - lost[first] >= wanted and first < last:
            within -= lost[first]
            first += 1
        if within >= wanted and last - first < best[1] - best[0]:
            best = (first, last)
    return best


MAX_MAP_ROWS, MAX_PANELS, MAX_LISTED_HICCUPS = 300, 6, 5
"""Trials of a point in its map, panels beside it, and hiccups of a benchmark that are told."""


def draw_over_time(
    data: RunData, records: Sequence[Record], figures: FigureBudget
) -> Iterator[Block]:
    """Draw the trials of a benchmark over time, one figure for each test point.

    All trials are lines of a map; those with a hiccup, and the last valid one, are drawn in full.
    """
    courses = [(r, list(data.find_trials(r)), data.list_valid_trials([r])) for r in records]
    courses = [(r, trials, valid) for r, trials, valid in courses if any(map(has_timeline, trials))]
    if not courses:
        return
    all_hiccups = [h for _, _, valid in courses for h in find_hiccups(valid)]
    if all_hiccups:
        more = len(all_hiccups) - MAX_LISTED_HICCUPS
        lines = [f"hiccup in {h}" for h in all_hiccups[:MAX_LISTED_HICCUPS]]
        lines += [f"{more} further hiccups: see the figures over time"] * (more > 0)
        yield BulletList(lines, "warning")
    drawn: list[Block] = []
    for record, trials, valid in courses:
        drawn += figures.take(_draw_point(record, trials, valid))
    if not drawn:
        return
    shown = sum(len(trials) for _, trials, _ in courses)
    yield Collapsible(
        f"Rate and loss over time: {shown:,} trials", [_describe_timelines(data, courses), *drawn]
    )


def has_timeline(trial: RunTrial) -> bool:
    """Check whether a trial has counters over time."""
    return any(counted.timeline is not None for counted in trial.result.directions.values())


def _describe_timelines(
    data: RunData, courses: Sequence[tuple[Record, list[RunTrial], list[RunTrial]]]
) -> Paragraph:
    loaded = any(t.result.device_loads for _, trials, _ in courses for t in trials)
    device = (
        "Dashed: the device's busiest core, read once a second."
        if loaded
        else "The device's cores were not read: no driver, trials below 3 s, or "
        "procedure.watch_device is off."
    )
    if data.simulated:
        device = "The device is simulated and has no cores."
    return Paragraph(
        "In full: trials in which much was lost at once, and the last one without loss. Blue is what "
        "arrived in each slot, as a share of the offered rate; red bars are frames due in it that "
        f"never came. {device} Below, a line is a trial, in the order of measuring; pale to dark "
        "are slots that lost up to 1 %, 10 %, 50 % and more of their frames, an orange mark on "
        "the left is an invalid trial."
    )


def _draw_point(
    record: Record, trials: Sequence[RunTrial], valid: Sequence[RunTrial]
) -> Iterator[Drawing]:
    invalid = {t.key for t in record.invalid_trials}
    courses = [t for t in trials if has_timeline(t)]
    rest = len(courses) - MAX_MAP_ROWS
    rows = [MapRow(_find_worst_losses(t), t.key in invalid) for t in courses[:MAX_MAP_ROWS]]
    if not any(any(row.lost) or row.invalid for row in rows):
        rows = []
    panels = [_make_panel(h.trial, h.direction) for h in find_hiccups(valid)[: MAX_PANELS - 1]]
    shown = [t for t in valid if has_timeline(t)]
    shown = [t for t in shown if not any(_find_worst_losses(t))] or shown
    if shown:
        panels += [_make_panel(shown[-1], direction) for direction in shown[-1].result.directions]
    caption = f"{record.title}, {record.point}" + (
        f"; {rest:,} further trials are in journal.jsonl." if rest > 0 else "."
    )
    yield Drawing(draw_timelines(panels, rows), caption, f"Over time: {caption}")


def _find_worst_losses(trial: RunTrial) -> list[float]:
    worst: list[float] = []
    for counted in trial.result.directions.values():
        if counted.timeline is not None:
            due = count_due_frames(trial, counted, counted.timeline)
            lost = [*counted.timeline.lost, *[0] * len(due)]
            shares = [n / d if d else 0.0 for n, d in zip(lost, due, strict=False)]
            worst = [*map(max, worst, shares)] if worst else shares
    return worst


def _make_panel(trial: RunTrial, direction: str) -> TrialPanel:
    counted = trial.result.directions[direction]
    course = counted.timeline
    if course is None:
        raise ValueError("this trial has no course")
    due = count_due_frames(trial, counted, course)
    even = sum(due) / len(due) or 1.0
    lost = [*course.lost, *[0] * len(due)]
    return TrialPanel(
        f"{trial.key}, {direction}: {trial.asked['rate_fps']:,.0f} fps, {sum(course.lost):,} of "
        f"{counted.count_frames('required'):,} lost",
        course.slot_s,
        trial.sending_s,
        [n / even for n in course.received],
        [n / d if d else 0.0 for n, d in zip(lost, due, strict=False)],
        {
            name: tuple(zip(load.end_times_s, load.max_percent, strict=True))
            for name, load in trial.result.device_loads.items()
        },
    )
