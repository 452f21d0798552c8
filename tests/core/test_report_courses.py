"""Trials over their time in a report: what a hiccup looks like, and what is said where nobody read."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from v6t.analysis.blocks import BulletList, Collapsible, Drawing, FigureBudget, Paragraph
from v6t.analysis.report.courses import (
    LEFT,
    PLOT_WIDTH,
    MapRow,
    TrialPanel,
    draw_over_time,
    draw_timelines,
    find_hiccups,
)
from v6t.analysis.rundata import RunTrial
from v6t.core.runs.results import load_run
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.timeline import DeviceLoad, Timeline

from .reportruns import made


def trial(lost, key="throughput/104/forward/r01/s01/a1", rate=1000.0, **more):
    """A trial of 6 s with these losses by tenth of a second."""
    count = ClassCount("foreground", 6000, 6000, 6000 - sum(lost))
    course = Timeline(0.1, tuple(100 - n for n in lost), tuple(lost))
    way = DirectionResult({"fg": count}, 6.0, timeline=course)
    asked = {"key": key, "rate_fps": rate, "duration_s": 6.0}
    return RunTrial(asked, TrialResult({"forward": way}, **more))


def at(*slots, lost=50):
    return [lost if n in slots else 0 for n in range(60)]


def test_losses_all_at_once_are_a_hiccup():
    (found,) = find_hiccups([trial(at(32, 33))])
    assert (found.direction, found.at_s, found.length_s) == ("forward", 3.2, pytest.approx(0.2))
    assert (found.lost, found.elsewhere) == (100, 0)
    assert re.findall(r"[\d.]+", str(found))[-3:] == ["100", "0.2", "3.2"]


@pytest.mark.parametrize(
    "lost",
    [
        [5] * 60,  # a device that is too slow
        at(),
        at(3, 30, lost=1),  # two frames
        at(*range(0, 60, 10)),  # again and again
    ],
)
def test_other_losses_are_none(lost):
    assert find_hiccups([trial(lost)]) == []


def test_the_rest_of_the_trial_is_counted_too():
    lost = at(10, lost=90)
    lost[50] = 3
    (found,) = find_hiccups([trial(lost)])
    assert (found.lost, found.elsewhere) == (90, 3)


@pytest.mark.parametrize(
    "more",
    [{"event": {"hook": "reset", "at_s": 3.0}}, {"then": {"rate_fps": 500.0, "duration_s": 1.0}}],
)
def test_what_was_done_to_the_device_is_no_hiccup(more):
    one = trial(at(32, 33))
    assert find_hiccups([RunTrial({**one.asked, **more}, one.result)]) == []


def test_the_figure_has_a_bar_where_the_hiccup_was():
    lost = [0.0] * 32 + [1.0, 0.5] + [0.0] * 26
    panel = TrialPanel("one", 0.1, 6.0, [1 - n for n in lost], lost, {"router": [(1.0, 50.0)]})
    drawn = draw_timelines([panel], [])
    bars = re.search(r'<path d="([^"]*)" stroke="#D55E00"', drawn)[1]
    step = PLOT_WIDTH / 60
    across = [float(x) for x in re.findall(r"M([\d.]+) ", bars)]
    assert across == [pytest.approx(LEFT + (n + 0.5) * step, abs=0.1) for n in (32, 33)]
    assert 'stroke-dasharray="4 3"' in drawn


def test_the_map_has_a_line_for_each_trial_and_marks_the_invalid():
    rows = [
        MapRow([0.0] * 60, False),
        MapRow([0.0] * 30 + [0.2] * 30, False),
        MapRow([0.9] * 60, True),
    ]
    drawn = draw_timelines([], rows)
    assert "all 3 trials" in drawn
    half = LEFT + PLOT_WIDTH // 2
    assert re.search(rf'd="M{half} \d+h{PLOT_WIDTH // 2}" stroke="#d55e00"', drawn)
    assert re.search(rf'd="M{LEFT} \d+h{PLOT_WIDTH}" stroke="#7a3600"', drawn)
    assert re.search(r'd="M2 \d+h8" stroke="#E69F00"', drawn)


@pytest.mark.slow
def test_a_planted_hiccup_is_told_and_drawn(tmp_path):
    """Of a run's trials one is given a hiccup of a third of a second and a device that was watched."""
    data = load_run(made(tmp_path / "run", procedure={"repetitions": 2, "trial_duration_s": 6.0}))
    (record,) = data.records
    assert [
        b for b in draw_over_time(data, [record], FigureBudget(None)) if isinstance(b, BulletList)
    ] == []
    key = record.decisive_trials[0]
    load_of_it = {"router": DeviceLoad((1.0, 2.0, 3.0), (40, 100, 40), (30, 60, 30))}
    planted = trial(at(40, 41, 42, lost=80), key, device_loads=load_of_it)
    broken = replace(data, trials=[planted if t.key == key else t for t in data.trials])
    said, folded = draw_over_time(broken, [record], FigureBudget(None))
    assert isinstance(said, BulletList) and isinstance(folded, Collapsible)
    assert said.items[0].startswith(f"hiccup in {key}, forward: 240 frames ")
    words, figure = folded.blocks
    assert (isinstance(words, Paragraph) and "once a second" in words.text) or data.simulated
    assert isinstance(figure, Drawing)
    assert f"{key}, forward" in figure.svg and 'stroke-dasharray="4 3"' in figure.svg
    assert (
        not record.invalid_trials
        and f"all {len(list(data.find_trials(record)))} trials" in figure.svg
    )


@pytest.mark.slow
def test_runs_without_readings_say_nothing_of_time(tmp_path):
    data = load_run(made(tmp_path / "run", procedure={"repetitions": 1}))
    bare = [
        RunTrial(
            t.asked,
            replace(
                t.result,
                directions={w: replace(d, timeline=None) for w, d in t.result.directions.items()},
            ),
        )
        for t in data.trials
    ]
    assert list(draw_over_time(replace(data, trials=bare), data.records, FigureBudget(None))) == []
