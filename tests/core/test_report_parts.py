"""Parts of a report: the summary of a run, timelines of trials and their hiccups."""

import re
from dataclasses import replace

import pytest
from v6t.analysis.blocks import BulletList, Collapsible, Drawing, FigureBudget, Paragraph
from v6t.analysis.record import Record
from v6t.analysis.report.timelines import LOSS_COLORS, draw_over_time, draw_timelines, find_hiccups
from v6t.analysis.report.verdict import make_title, summarize_throughput
from v6t.analysis.rundata import RunData, RunTrial
from v6t.core.runs.results import load_run
from v6t.tests.core.support import make_run
from v6t.trials.result import ClassCount, DeviceLoad, DirectionResult, Timeline, TrialResult

LOADS = {"router": DeviceLoad((1.0, 2.0, 3.0), (40, 100, 40), (30, 60, 30))}


def make_trial(lost, key="throughput/104/forward/r01/s01/a1", **more):
    """Make a trial of 6 s with these losses in each tenth of a second."""
    count = ClassCount("foreground", 6000, 6000, 6000 - sum(lost))
    timeline = Timeline(0.1, tuple(100 - n for n in lost), tuple(lost))
    directions = {"forward": DirectionResult({"fg": count}, 6.0, timeline=timeline)}
    result = TrialResult(directions, **more)
    return RunTrial({"key": key, "rate_fps": 1000.0, "duration_s": 6.0}, result)


def make_losses(*slots, lost=50):
    """Return the losses of 60 tenths of a second, which are zero except in these slots."""
    return [lost if n in slots else 0 for n in range(60)]


def test_concentrated_losses_are_a_hiccup():
    (hiccup,) = find_hiccups([make_trial(make_losses(32, 33))])
    assert (hiccup.direction, hiccup.begin_s) == ("forward", 3.2)
    assert hiccup.length_s == pytest.approx(0.2)
    assert (hiccup.lost, hiccup.elsewhere) == (100, 0)
    assert re.findall(r"[\d.]+", str(hiccup))[-3:] == ["100", "0.2", "3.2"]


@pytest.mark.parametrize("lost", [
    [5] * 60, make_losses(), make_losses(3, 30, lost=1), make_losses(*range(0, 60, 10)),
], ids=["slow device", "none", "two frames", "again and again"])  # fmt: skip
def test_spread_losses_are_not_a_hiccup(lost):
    assert find_hiccups([make_trial(lost)]) == []


def test_losses_outside_a_hiccup_are_counted():
    lost = make_losses(10, lost=90)
    lost[50] = 3
    (hiccup,) = find_hiccups([make_trial(lost)])
    assert (hiccup.lost, hiccup.elsewhere) == (90, 3)


@pytest.mark.parametrize("more", [
    {"event": {"hook": "reset", "at_s": 3.0}}, {"then": {"rate_fps": 500.0, "duration_s": 1.0}},
])  # fmt: skip
def test_losses_by_reset_are_not_a_hiccup(more):
    one = make_trial(make_losses(32, 33))
    assert find_hiccups([RunTrial({**one.request, **more}, one.result)]) == []


def test_panel_has_bars_at_losses():
    load = {"router": DeviceLoad((1.0,), (50,), (50,))}
    busy = make_trial(make_losses(32, 33, lost=100), device_loads=load)
    drawn = draw_timelines("x", [(busy, "forward")], [], ())
    bars = re.findall(r'd="M ([\d.]+) [^"]*"[^>]*style="fill: #d55e00"', drawn)
    assert len(bars) == 2
    left, right = map(float, bars)
    assert right - left < 12
    assert drawn.count("stroke-dasharray") == 1


def test_map_has_a_row_for_each_trial_and_marks_invalid_ones():
    half = [0] * 30 + [20] * 30
    trials = [make_trial(make_losses(), "a"), make_trial(half, "b"), make_trial([90] * 60, "c")]
    drawn = draw_timelines("x", [], trials, {"c"})
    paths = re.findall(
        r'd="M ([\d.]+) ([\d.]+) \nL ([\d.]+) [^"]*"[^>]*stroke: (#\w+); stroke-width: 3"', drawn
    )
    (begin, upper, end, deep), (first, lower, last, deepest) = paths
    assert (deep, deepest) == LOSS_COLORS[2:]
    assert end == last and float(upper) < float(lower)
    assert float(end) - float(begin) == pytest.approx((float(last) - float(first)) / 2, abs=0.2)
    assert "all 3 trials" in drawn and drawn.count("stroke: #e69f00") >= 1


def test_map_without_losses_is_omitted():
    assert "all 1 trials" not in draw_timelines(
        "x", [(make_trial(make_losses()), "forward")], [make_trial(make_losses())], ()
    )


@pytest.mark.slow
def test_hiccup_is_reported_and_drawn(tmp_path):
    """One trial of the run has a hiccup of 0.3 s and readings of the device's load."""
    procedure = {"repetitions": 2, "trial_duration_s": 6.0}
    data = load_run(make_run(tmp_path / "run", procedure=procedure))
    (record,) = data.records
    blocks = draw_over_time(data, [record], FigureBudget(None))
    assert not any(isinstance(block, BulletList) for block in blocks)
    key = record.decisive_trials[0]
    planted = make_trial(make_losses(40, 41, 42, lost=80), key, device_loads=LOADS)
    broken = replace(data, trials=[planted if t.key == key else t for t in data.trials])
    hiccups, folded = draw_over_time(broken, [record], FigureBudget(None))
    assert isinstance(hiccups, BulletList) and isinstance(folded, Collapsible)
    assert hiccups.items[0].startswith(f"hiccup in {key}, forward: 240 frames ")
    paragraph, figure = folded.blocks
    assert isinstance(paragraph, Paragraph) and isinstance(figure, Drawing)
    assert f"{key}, forward" in figure.svg and "stroke-dasharray" in figure.svg
    assert not record.invalid_trials
    assert f"all {len(list(data.find_trials(record)))} trials" in figure.svg


@pytest.mark.parametrize(("simulated", "device_loads", "words"), [
    (True, LOADS, "The device is simulated"), (False, LOADS, "read once a second"),
    (False, {}, "were not read"),
])  # fmt: skip
def test_figures_explain_whether_the_device_was_observed(simulated, device_loads, words):
    measured = make_trial(make_losses(40), device_loads=device_loads)
    record = Record(
        benchmark="throughput", direction="forward", frame_sizes={"ipv6": 104, "ipv4": 64},
        repetitions=1, trials=[measured.key], invalid_trials=[], conditions={},
    )  # fmt: skip
    data = RunData("run", {}, [record], {}, {"setup": {"simulated": simulated}}, trials=[measured])
    _, folded = draw_over_time(data, [record], FigureBudget(None))
    assert words in folded.blocks[0].text


@pytest.fixture(scope="module")
def short_run(tmp_path_factory):
    """Provide the directory of a run with one repetition."""
    return make_run(tmp_path_factory.mktemp("short") / "run", procedure={"repetitions": 1})


@pytest.mark.slow
def test_runs_without_readings_have_no_timelines(short_run):
    data = load_run(short_run)
    for measured in data.trials:
        directions = measured.result.directions
        directions.update({d: replace(one, timeline=None) for d, one in directions.items()})
    assert list(draw_over_time(data, data.records, FigureBudget(None))) == []


RATE = 500_000


def summarize_run(tmp_path, **settings):
    """Return the data of a run, the sentences of its summary, and their table."""
    procedure = {"repetitions": 2, "resolution_fps": 100.0}
    data = load_run(make_run(tmp_path / "run", procedure=procedure, **settings))
    sentences, table = summarize_throughput(data)
    assert isinstance(sentences, Paragraph)
    return data, sentences.text, table


def test_summary_states_rates_in_units_of_links(tmp_path):
    device = {"capacity_fps": RATE, "capacity_noise": 0.0}
    modes = ("forward", "bidirectional")
    data, text, table = summarize_run(tmp_path, device=device, modes=modes)
    assert make_title(data).startswith("MAP-E border relay")
    rows = {row[1]: row for row in table.rows}
    assert set(rows) == set(modes)
    rate = next(r for r in data.records if r.direction == "forward").median
    assert rate == pytest.approx(RATE, rel=0.01)
    # IEEE 802.3: 20 octets of preamble and gap; the IPv6 frame is on the left
    left_bps, right_bps = rate * 124 * 8, rate * 84 * 8
    in_units = (f"{rate / 1e6:.3f}", f"{left_bps / 1e9:.3f}", f"{right_bps / 1e9:.3f}")
    assert (rows["forward"][3:6], rows["forward"][6]) == (in_units, f"{left_bps / 1e10:.2%}")
    for words in ("104/64", "without loss", "2 repetitions"):
        assert words in text
    assert "limited" not in text


def test_summary_states_the_limit_of_the_tester(tmp_path):
    _, text, table = summarize_run(tmp_path, device={"capacity_fps": 2e6, "tester_fps": 4e5})
    assert "Mpps *" in text and "may be faster" in text
    assert all(row[2].endswith(" *") for row in table.rows)


def test_summary_names_smallest_and_largest_frames(tmp_path):
    _, text, _ = summarize_run(tmp_path, frame_sizes=[104, 1518, 512])
    assert "at 104/64 octets" in text and "; 1518/1478 octets: " in text
    assert "512" not in text


def test_summary_without_throughput_is_empty(tmp_path):
    data = load_run(make_run(tmp_path / "run", "frame-loss", procedure={"repetitions": 1}))
    assert list(summarize_throughput(data)) == []


def test_summary_combines_sizes_of_one_direction_only(tmp_path):
    """The summary sentence must not combine rates of different directions."""
    modes, device = ("forward", "reverse"), {"capacity_fps": RATE, "capacity_noise": 0.05}
    data, text, _ = summarize_run(tmp_path, frame_sizes=[104, 1280], modes=modes, device=device)
    rates = {r.direction: r.median for r in data.records if r.frame_sizes.ipv6 == 1280}
    assert rates["forward"] != rates["reverse"]
    assert f"{rates['forward'] / 1e6:.3f}" in text


@pytest.mark.parametrize(("tester", "device"), [
    ({"version": "v3.08"}, "a device configured by its user"),
    ({"device": {"shares_oracle": True}}, "reference device"),
])  # fmt: skip
def test_title_distinguishes_user_device_from_reference(short_run, tester, device):
    manifest = {"setup": {"simulated": False}, "tester": tester}
    assert make_title(replace(load_run(short_run), manifest=manifest)).endswith(
        f"border relay on {device}"
    )
