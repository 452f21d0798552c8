"""Rate, loss and device load over time: every trial of a test point in one map, some in lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from v6t.analysis.blocks import Block, Collapsible, Drawing, Figures, Items, Text
from v6t.analysis.figures.courses import Panel, Row, course_figure
from v6t.analysis.hiccups import due_by_slot, hiccups
from v6t.analysis.record import Record
from v6t.analysis.rundata import RunData, RunTrial

MOST_ROWS, MOST_PANELS, MOST_SAID = 300, 6, 5
"""Trials of a point in its map, panels beside it, and hiccups of a benchmark that are told."""


def over_time(data: RunData, records: Sequence[Record], figures: Figures) -> Iterator[Block]:
    """Draw what the trials of a benchmark show over their time, one figure for each test point.

    Not one for each trial: a run has thousands. All are lines of the map; those in which something
    happened, and the last valid one, are drawn in full.
    """
    courses = [(r, list(data.of(r)), data.counted([r])) for r in records]
    courses = [(r, trials, valid) for r, trials, valid in courses if any(map(has_course, trials))]
    if not courses:
        return
    all_hiccups = [h for _, _, valid in courses for h in hiccups(valid)]
    if all_hiccups:
        more = len(all_hiccups) - MOST_SAID
        lines = [f"hiccup in {h}" for h in all_hiccups[:MOST_SAID]]
        lines += [f"{more} further hiccups: see the figures over time"] * (more > 0)
        yield Items(lines, "warning")
    drawn: list[Block] = []
    for record, trials, valid in courses:
        drawn += figures.take(_point(record, trials, valid))
    if not drawn:
        return
    shown = sum(len(trials) for _, trials, _ in courses)
    yield Collapsible(f"Rate and loss over time: {shown:,} trials", [_words(data, courses), *drawn])


def has_course(trial: RunTrial) -> bool:
    """Whether the tester told what happened when."""
    return any(counted.timeline is not None for counted in trial.result.directions.values())


def _words(data: RunData, courses: Sequence[tuple[Record, list[RunTrial], list[RunTrial]]]) -> Text:
    loaded = any(t.result.device_loads for _, trials, _ in courses for t in trials)
    device = (
        "Dashed: the device's busiest core, read once a second."
        if loaded
        else "The device's cores were not read: no driver, trials below 3 s, or "
        "procedure.watch_device is off."
    )
    if data.simulated:
        device = "The device is simulated and has no cores."
    return Text(
        "In full: trials in which much was lost at once, and the last one without loss. Blue is what "
        "arrived in each slot, as a share of the offered rate; red bars are frames due in it that "
        f"never came. {device} Below, a line is a trial, in the order of measuring; pale to dark "
        "are slots that lost up to 1 %, 10 %, 50 % and more of their frames, an orange mark on "
        "the left is an invalid trial."
    )


def _point(
    record: Record, trials: Sequence[RunTrial], valid: Sequence[RunTrial]
) -> Iterator[Drawing]:
    invalid = {t.key for t in record.invalid_trials}
    courses = [t for t in trials if has_course(t)]
    rest = len(courses) - MOST_ROWS
    rows = [Row(_worst(t), t.key in invalid) for t in courses[:MOST_ROWS]]
    if not any(any(row.lost) or row.invalid for row in rows):
        rows = []
    panels = [_panel(h.trial, h.way) for h in hiccups(valid)[: MOST_PANELS - 1]]
    shown = [t for t in valid if has_course(t)]
    shown = [t for t in shown if not any(_worst(t))] or shown
    if shown:
        panels += [_panel(shown[-1], way) for way in shown[-1].result.directions]
    caption = f"{record.title}, {record.point}" + (
        f"; {rest:,} further trials are in journal.jsonl." if rest > 0 else "."
    )
    yield Drawing(course_figure(panels, rows), caption, f"Over time: {caption}")


def _worst(trial: RunTrial) -> list[float]:
    worst: list[float] = []
    for counted in trial.result.directions.values():
        if counted.timeline is not None:
            due = due_by_slot(trial, counted, counted.timeline)
            lost = [*counted.timeline.lost, *[0] * len(due)]
            shares = [n / d if d else 0.0 for n, d in zip(lost, due, strict=False)]
            worst = [*map(max, worst, shares)] if worst else shares
    return worst


def _panel(trial: RunTrial, way: str) -> Panel:
    counted = trial.result.directions[way]
    course = counted.timeline
    if course is None:
        raise ValueError("this trial has no course")
    due = due_by_slot(trial, counted, course)
    even = sum(due) / len(due) or 1.0
    lost = [*course.lost, *[0] * len(due)]
    return Panel(
        f"{trial.key}, {way}: {trial.asked['rate_fps']:,.0f} fps, {sum(course.lost):,} of "
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
