"""Change points of series: real changes are found, and noise is not reported as a change."""

import random
from dataclasses import replace

import pytest
from v6t.analysis.rundata import RunData
from v6t.analysis.trend import MAX_CHANCE, Trend, TrendSeries, TrendValue, find_changes
from v6t.benchmarks.outages import ResetRecord
from v6t.core.reporting.trend import find_trend_of_runs, make_trend_document
from v6t.tests.needs import sample

RUNS, SERIES = 30, sample(16, 100)
RATE_FPS, RESOLUTION_FPS = 3_100_000.0, 1000.0


def make_values(*rates):
    return [TrendValue(f"r{n}", str(n), rate) for n, rate in enumerate(rates)]


def draw_series(seed, change, noise):
    """Return noisy rates with some outliers, and the index of the first changed run."""
    rng = random.Random(seed)
    at, rates = rng.randint(8, RUNS - 8), []
    for number in range(RUNS):
        rate = RATE_FPS * (1 + change * (number >= at)) * rng.gauss(1.0, noise)
        if rng.random() < 0.04:
            rate *= 0.85
        rates.append(round(rate / RESOLUTION_FPS) * RESOLUTION_FPS)
    return make_values(*rates), at


def is_located(values, place, tolerance):
    return any(abs(c.place - place) <= tolerance for c in find_changes(values, True))


@pytest.mark.slow
@pytest.mark.parametrize("change", [0.05, -0.05])
@pytest.mark.parametrize(("noise", "share"), [(0.01, 0.99), (0.02, 0.65)])
def test_change_of_5_percent_is_found(noise, share, change):
    located = sum(is_located(*draw_series(n, change, noise), 2) for n in range(SERIES))
    assert located >= share * SERIES


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.005, 0.01, 0.02])
def test_unchanged_series_has_no_change(noise):
    for seed in range(1000, 1000 + SERIES):
        assert not find_changes(draw_series(seed, 0.0, noise)[0], True)


def test_change_has_place_direction_and_size():
    values = make_values(*[100.0 + n % 3 for n in range(10)], *[94.0 + n % 3 for n in range(10)])
    (change,) = find_changes(values, True)
    assert (change.place, change.run, change.better) == (10, "r10", False)
    assert (change.before, change.after) == (101.0, 95.0)
    assert change.percent == pytest.approx(100 * (95 / 101 - 1))
    (delay_change,) = find_changes(values, False)
    assert delay_change.better


@pytest.mark.parametrize(("before", "after", "percent"), [(0.0, 5.0, None), (5.0, 0.0, -100.0)])
def test_start_or_end_of_loss_is_a_change(before, after, percent):
    (change,) = find_changes(make_values(*[before] * 10, *[after] * 10), more_is_better=False)
    assert (change.percent, change.better) == (percent, after < before)


@pytest.mark.parametrize(("limited_fps", "better"), [(50.0, None), (100.0, False)])
def test_change_to_limited_runs_is_not_for_the_worse(limited_fps, better):
    """The tester became slower, not the device."""
    rates = [*[100.0] * 10, *[50.0] * 10]
    values = [replace(v, limited=v.value == limited_fps) for v in make_values(*rates)]
    changes = find_changes(values, True)
    assert [c.better for c in changes] == [better]
    series = TrendSeries("p", "rate", "fps", True, tuple(values), changes)
    assert Trend((), "time", (series,), ()).worse is (better is False)


def test_two_changes_are_found():
    steps = [100.0] * 12 + [110.0] * 12 + [95.0] * 12
    values = make_values(*[rate + n % 4 / 10 for n, rate in enumerate(steps)])
    assert [c.place for c in find_changes(values, True)] == [12, 24]


@pytest.mark.parametrize("rates", [
    [100.0] * 20, [0.0] * 20, [100.0] * 19 + [50.0], [100.0] * 6, [], [100.0, 101.0] * 10,
], ids=["constant", "zero", "one outlier", "too few", "none", "alternating"])  # fmt: skip
def test_series_without_a_change_has_none(rates):
    assert find_changes(make_values(*rates), True) == ()


@pytest.mark.parametrize("seed", range(4))
def test_fall_after_identical_results_is_found(seed):
    """Earlier rates may all equal the tester's limit, whereas later ones vary."""
    rng = random.Random(seed)
    rates = [*[100.0] * 16, *(rng.gauss(70, 1) for _ in range(14))]
    (change,) = find_changes(make_values(*rates), True)
    assert change.place == 16


def count_located_falls(runs, after, fall):
    """Return in how many of ten series the fall before the last ``after`` runs is located."""
    located = 0
    for seed in range(10):
        rng = random.Random(seed)
        factors = [1 - fall * (n >= runs - after) for n in range(runs)]
        values = make_values(*[RATE_FPS * factor * rng.gauss(1, 0.01) for factor in factors])
        located += is_located(values, runs - after, 1)
    return located


@pytest.mark.parametrize("fall", [0.3, 0.05])
@pytest.mark.parametrize(("runs", "after"), [(20, 7), (30, 5), (40, 4), (60, 3)])
def test_fall_is_located_after_a_few_runs(runs, after, fall):
    assert count_located_falls(runs, after, fall) >= 9


def test_change_explained_by_chance_waits_for_more_runs():
    """One of 4,060 orders of 30 runs ends with the three lowest rates."""
    assert count_located_falls(30, 3, 0.3) == 0


def test_false_alarm_probability_is_bounded():
    (large,) = find_changes(make_values(*[100.0 + n % 3 for n in range(15)], *[80.0] * 15), True)
    assert large.chance == MAX_CHANCE
    few = make_values(*[100.0 + n % 3 / 10 for n in range(26)], *[80.0] * 4)
    (late,) = find_changes(few, True)
    assert 0 < late.chance <= MAX_CHANCE  # two of 27,405 orders are as extreme: 0.00007


def test_small_change_is_found_only_on_request():
    values = make_values(*[1000.0] * 10, *[1004.0] * 10)
    assert find_changes(values, True) == ()
    (change,) = find_changes(values, True, 0.1)
    assert change.percent == pytest.approx(0.4)


def make_series(*rates, **options):
    values = tuple(make_values(*rates))
    return TrendSeries("p", "rate", "fps", True, values, find_changes(values, True), **options)


def test_resolution_that_hides_changes_is_stated():
    coarse = make_series(*[850_000.0] * 20, resolution=280_000.0)
    assert coarse.changes == () and coarse.resolution_percent == pytest.approx(32.94, abs=0.01)
    assert "280,000 fps, 32.9 %" in coarse.words
    zero = make_series(*[0.0] * 20, resolution=5.0)
    assert zero.resolution_percent is None and "5 fps" in zero.words
    fine = {"resolution": 8000.0, "least_percent": 1.0}
    assert make_series(*[850_000.0] * 20, **fine).unseen == ""
    assert make_series(*[850_000.0] * 20, **{**fine, "least_percent": 0.5}).unseen


def make_reset_run(name, time_s):
    config = {"plugin": "siit", "line_rate_bps": 1e9}
    config |= {"tester": {"kind": "sim"}, "dut": {"driver": "x"}}
    record = ResetRecord(
        benchmark="reset", direction="forward", frame_sizes={"ipv6": 84, "ipv4": 64}, repetitions=1,
        trials=[], invalid_trials=[], conditions={}, unit="s", hook="software-reset", rate=1000.0,
        directions={"forward": {"values": [time_s]}},
    )  # fmt: skip
    return RunData(name, {}, (record,), config, {})


def test_run_that_did_not_recover_is_named():
    runs = [make_reset_run("a", 1.0), make_reset_run("b", None), make_reset_run("c", 1.0)]
    trend = find_trend_of_runs(runs, "given", 1.0)
    assert [v.run for v in trend.series[0].values] == ["a", "c"]
    assert [text.partition(",")[0] for text in trend.left_out] == ["b"]


def test_first_line_mentions_changes_that_the_resolution_hides():
    def read_first_line(*series):
        trend = Trend(("a",) * len(series[0].values), "time", series, ())
        first = make_trend_document(trend, figures=False).sections[0].blocks[0]
        return first.text, first.tone

    coarse = make_series(*[850_000.0] * 20, resolution=280_000.0)
    words, tone = read_first_line(coarse)
    assert tone == "warning"
    assert "1 of 1" in words
    assert read_first_line(make_series(*[5.0] * 20))[1] == "good"
    worse = make_series(*[100.0] * 10, *[90.0] * 10)
    words, tone = read_first_line(worse)
    assert tone == "bad"
    assert "1 of 1" in words
    assert read_first_line(worse, coarse)[0].count("1 of 2") == 2
    assert "1 run" in read_first_line(make_series(1.0))[0]


@pytest.mark.parametrize(("rates", "words"), [
    ([1.0], "1 run"), ([1.0, 2.0], "2 runs"), ([5.0] * 17, "no change among 17 runs"),
    ([100.0] * 9 + [105.0] * 9, "+5.0 % from r9"),
])  # fmt: skip
def test_first_line_describes_the_change(rates, words):
    assert make_series(*rates).words.startswith(words)
