"""Rate, loss and device load of trials over time: all trials of a test point in a map, some in full."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import nan
from operator import itemgetter
from typing import TYPE_CHECKING

from v6t.analysis.blocks import Block, BulletList, Collapsible, Drawing, FigureBudget, Paragraph
from v6t.analysis.figures import plots
from v6t.analysis.record import Record
from v6t.analysis.rundata import RunData, RunTrial
from v6t.trials.result import DirectionResult, Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# shares of lost frames above which the colour of a slot in the map changes, and these colours
LOSS_LEVELS = (0.0, 0.01, 0.1, 0.5)
LOSS_COLORS = ("#fbe3d3", "#f3b58f", "#d55e00", "#7a3600")
PANEL_INCHES, MAP_ROW_INCHES = 0.95, 0.05  # heights

MAX_HICCUP_SHARE = 0.1  # largest share of a trial's slots that a hiccup takes
MIN_LOSS_SHARE = 0.8  # least share of the trial's losses that fall in a hiccup
MIN_DEPTH = 0.05  # least share of the due frames that are lost in a hiccup's worst slot
MIN_SLOTS = 10  # in trials with fewer slots, hiccups cannot be seen


@dataclass(frozen=True)
class Hiccup:
    """A short stretch of a trial in which nearly all lost frames of a direction were lost."""

    trial: RunTrial
    direction: str
    begin_s: float  # time from the first frame to the beginning of the stretch [s]
    length_s: float  # length of the stretch [s]
    lost: int  # frames lost in the stretch
    elsewhere: int  # frames lost in the rest of the trial

    def __str__(self) -> str:
        rest = f"{self.elsewhere:,}" if self.elsewhere else "none"
        return (
            f"{self.trial.key}, {self.direction}: {self.lost:,} frames were lost within "
            f"{self.length_s:.3g} s, {self.begin_s:.3g} s after the first frame, and {rest} in the "
            "rest of the trial"
        )


def find_hiccups(trials: Iterable[RunTrial]) -> list[Hiccup]:
    """List the hiccups of valid trials, the deepest first; skip trials with a reset or an overload."""
    hiccups = [
        hiccup
        for trial in trials
        if not (trial.request.get("event") or trial.request.get("then"))
        for direction, counted in trial.result.directions.items()
        if counted.timeline is not None
        and (hiccup := _find_hiccup(trial, direction, counted, counted.timeline))
    ]
    return sorted(hiccups, key=lambda h: -h.lost)


def count_due_frames(trial: RunTrial, counted: DirectionResult, timeline: Timeline) -> list[float]:
    """Return the frames due in each slot of a trial while it sends."""
    rate = float(trial.request["rate_fps"])
    first_s = float(trial.request["duration_s"])
    later_fps = (trial.request.get("then") or {"rate_fps": rate})["rate_fps"]
    slots = max(1, round(trial.sending_s / timeline.slot_s))
    due = [rate if slot * timeline.slot_s < first_s - 1e-9 else later_fps for slot in range(slots)]
    share = counted.count_frames("required") / (sum(due) or 1)
    return [n * share for n in due]


def _find_hiccup(
    trial: RunTrial, direction: str, counted: DirectionResult, timeline: Timeline
) -> Hiccup | None:
    """Return the hiccup of a direction; None if its losses are spread over the trial."""
    lost = sum(timeline.lost)
    due = count_due_frames(trial, counted, timeline)
    if not lost or len(due) < MIN_SLOTS:
        return None
    first, last = _find_stretch(timeline.lost, MIN_LOSS_SHARE * lost)
    inside = sum(timeline.lost[first : last + 1])
    deepest = max(_compute_losses(timeline, due))
    if last - first + 1 > max(1, MAX_HICCUP_SHARE * len(due)) or deepest < MIN_DEPTH:
        return None
    begin_s, length_s = first * timeline.slot_s, (last - first + 1) * timeline.slot_s
    return Hiccup(trial, direction, begin_s, length_s, inside, lost - inside)


def _find_stretch(lost: Sequence[int], threshold: float) -> tuple[int, int]:
    """Return the ends of the shortest stretch of slots that lost at least ``threshold`` frames."""
    best = (0, len(lost) - 1)
    first, inside = 0, 0
    for last, count in enumerate(lost):
        inside += count
        while inside - lost[first] >= threshold and first < last:
            inside -= lost[first]
            first += 1
        if inside >= threshold and last - first < best[1] - best[0]:
            best = (first, last)
    return best


MAX_MAP_ROWS = 300  # trials in the map of a test point
MAX_PANELS = 6  # trials and directions drawn in full in the figure of a test point
MAX_LISTED_HICCUPS = 5  # hiccups of a benchmark that a report lists


def draw_over_time(
    data: RunData, records: Sequence[Record], figures: FigureBudget
) -> Iterator[Block]:
    """Draw the trials of a benchmark over time, one figure for each test point.

    All trials are rows of a map; those with a hiccup, and the last valid one, are drawn in full.
    """
    points = [(r, list(data.find_trials(r)), data.list_valid_trials([r])) for r in records]
    points = [(r, trials, valid) for r, trials, valid in points if any(map(has_timeline, trials))]
    if all_hiccups := [h for _, _, valid in points for h in find_hiccups(valid)]:
        more = len(all_hiccups) - MAX_LISTED_HICCUPS
        lines = [f"hiccup in {h}" for h in all_hiccups[:MAX_LISTED_HICCUPS]]
        lines += [f"{more} further hiccups: see the figures over time"] * (more > 0)
        yield BulletList(lines, "warning")
    if drawn := [block for point in points for block in figures.take(_draw_point(*point))]:
        shown = [t for _, trials, _ in points for t in trials]
        summary = f"Rate and loss over time: {len(shown):,} trials"
        yield Collapsible(summary, [_describe_timelines(data, shown), *drawn])


def has_timeline(trial: RunTrial) -> bool:
    """Check whether a trial has counters over time."""
    return any(counted.timeline is not None for counted in trial.result.directions.values())


def _describe_timelines(data: RunData, trials: Iterable[RunTrial]) -> Paragraph:
    """Explain the colours of the figures, and whether the device was observed."""
    if data.simulated:
        device = "The device is simulated and has no cores."
    elif any(t.result.device_loads for t in trials):
        device = "Dashed: the device's busiest core, read once a second."
    else:
        causes = "no driver, trials below 3 s, or procedure.watch_device is off"
        device = f"The device's cores were not read: {causes}."
    return Paragraph(
        "Above: trials with bursts of loss, and the last trial without loss. Blue: frames "
        "received in each slot, as a share of the offered rate; red bars: frames due in the slot "
        f"that were lost. {device} Below: each line is a trial, in the order of measurement; pale "
        "to dark: slots that lost up to 1 %, 10 %, 50 % and more of their frames; an orange mark "
        "on the left: an invalid trial."
    )


def _draw_point(
    record: Record, trials: Sequence[RunTrial], valid: Sequence[RunTrial]
) -> Iterator[Drawing]:
    trials = [t for t in trials if has_timeline(t)]
    excess = len(trials) - MAX_MAP_ROWS
    shown = [t for t in valid if has_timeline(t)]
    shown = [t for t in shown if not any(_compute_worst_losses(t))] or shown
    panels = [(h.trial, h.direction) for h in find_hiccups(valid)[: MAX_PANELS - 1]]
    panels += [(t, direction) for t in shown[-1:] for direction in t.result.directions]
    more = f"; {excess:,} further trials are in journal.jsonl" if excess > 0 else ""
    caption = f"{record.title}, {record.point}{more}."
    name = f"over-time-{record.benchmark}-{record.frame_sizes.key}-{record.direction}"
    invalid = {t.key for t in record.invalid_trials}
    svg = draw_timelines(name, panels, trials[:MAX_MAP_ROWS], invalid)
    yield Drawing(svg, caption, f"Over time: {caption}")


def draw_timelines(
    name: str,
    panels: Sequence[tuple[RunTrial, str]],
    trials: Sequence[RunTrial],
    invalid: Collection[str],
) -> str:
    """Draw directions of single trials one below the other, then a map with a row for each trial.

    Args:
        invalid: keys of the invalid trials; without these and without loss there is no map.
    """
    rows = [_compute_worst_losses(t) for t in trials]
    has_map = any(map(any, rows)) or any(t.key in invalid for t in trials)
    heights = [PANEL_INCHES] * len(panels) + [0.4 + MAP_ROW_INCHES * len(rows)] * has_map
    with plots.apply_style(name):
        figure, axes = plots.make_axes(heights=heights)
        for panel_axes, (trial, direction) in zip(axes, panels, strict=False):
            _draw_panel(panel_axes, trial, direction)
        if has_map:
            marked = [n for n, trial in enumerate(trials) if trial.key in invalid]
            _draw_loss_map(axes[-1], rows, marked)
        return plots.write_svg(figure, name)


def _draw_loss_map(axes: Axes, rows: Sequence[Sequence[float]], marked: Sequence[int]) -> None:
    """Draw the loss ratios over time, a row for each trial; mark the rows of numbers ``marked``."""
    lines: dict[int, list[tuple[float, float]]] = {}
    for number, row in enumerate(rows):
        slots = ((bisect_left(LOSS_LEVELS, share), slot) for slot, share in enumerate(row))
        for level, group in groupby(slots, itemgetter(0)):
            places = [slot / len(row) for _, slot in group]
            ends = ((places[0], number), (places[-1] + 1 / len(row), number), (nan, nan))
            lines.setdefault(level, []).extend(ends)
    width = {"linewidth": 60 * MAP_ROW_INCHES, "solid_capstyle": "butt"}
    for level, points in lines.items():
        if level:
            axes.plot(*zip(*points, strict=True), color=LOSS_COLORS[level - 1], **width)
    mark = {"linestyle": "", "marker": "_", "markersize": 8, "clip_on": False}
    axes.plot([-0.02] * len(marked), marked, color=plots.ORANGE, **mark)
    axes.grid(visible=False)
    axes.set(xlim=(0, 1), ylim=(len(rows) - 0.5, -0.5), yticks=[])
    axes.set_xticks([0, 1], ["first frame", "end of sending"])
    title = f"all {len(rows)} trials, one below the other: slots that lost frames"
    axes.set_title(title, loc="left", fontsize=9)


def _draw_panel(axes: Axes, trial: RunTrial, direction: str) -> None:
    """Draw received and lost frames and the device's load over one direction of a trial."""
    counted = trial.result.directions[direction]
    timeline = counted.timeline
    if timeline is None:
        raise ValueError("this trial has no timeline")
    due = count_due_frames(trial, counted, timeline)
    even = sum(due) / len(due) or 1.0
    middles = [slot + 0.5 for slot in range(len(due))]
    received = [frames / even for frames in timeline.received[: len(due)]]
    lossy = [(x, y) for x, y in zip(middles, _compute_losses(timeline, due), strict=True) if y]
    axes.bar([x for x, _ in lossy], [y for _, y in lossy], 0.7, color=plots.VERMILLION)
    axes.plot(middles[: len(received)], received, color=plots.BLUE, linewidth=1.5)
    slots_per_s = len(due) / trial.sending_s
    for load in trial.result.device_loads.values():
        ends = [min(end_s * slots_per_s, len(due)) for end_s in load.end_times_s]
        shares = [percent / 100 for percent in load.max_percent]
        axes.plot(ends, shares, color=plots.GREY, linewidth=1.2, linestyle="--")
    axes.set(xlim=(0, len(due)), ylim=(0, max(1.1, *received, 0.0)))
    axes.set_yticks([0, 1], ["0 %", "100 %"])
    axes.set_xticks([0, len(due)], ["0 s", f"{trial.sending_s:g} s"])
    title = (
        f"{trial.key}, {direction}: {trial.request['rate_fps']:,.0f} fps, {sum(timeline.lost):,} of "
        f"{counted.count_frames('required'):,} lost"
    )
    axes.set_title(title, loc="left", fontsize=9)


def _compute_losses(timeline: Timeline, due: Sequence[float]) -> list[float]:
    """Return the share of the frames due in each slot that were lost."""
    lost = [*timeline.lost, *[0] * len(due)]
    return [n / d if d else 0.0 for n, d in zip(lost, due, strict=False)]


def _compute_worst_losses(trial: RunTrial) -> list[float]:
    """Return the loss ratio in each slot, in the direction that lost more."""
    losses = [
        _compute_losses(counted.timeline, count_due_frames(trial, counted, counted.timeline))
        for counted in trial.result.directions.values()
        if counted.timeline is not None
    ]
    return [max(shares) for shares in zip(*losses, strict=False)]
