"""Summaries, notes, optional means, and JSON without infinities."""

import json
import math

import pytest
from v6t.analysis import statistics
from v6t.tests.core.support import measure_run, read_comparable, simulate, v6t


def test_p99_of_many_values_is_not_the_maximum():
    summary = statistics.summarize([float(n) for n in range(1, 201)])
    assert (summary["p1"], summary["p99"], summary["min"], summary["max"]) == (2, 198, 1, 200)


def test_dispersion_is_the_range_in_percent_of_the_median():
    assert statistics.summarize([90.0, 100.0, 110.0])["dispersion"] == pytest.approx(20.0)
    assert statistics.summarize([0.0, 0.0])["dispersion"] is None


def test_undefined_statistics_are_none_in_json():
    summary = statistics.summarize([1.0, math.inf, math.inf])
    assert (summary["median"], summary["min"]) == (None, 1.0)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert statistics.summarize([])["median"] is None


def test_median_interval_has_ranks_and_bounds():
    interval = statistics.summarize([float(n) for n in range(20)])["median_interval"]
    assert interval["ranks"] == [6, 15]
    assert (interval["low"], interval["high"]) == (5.0, 14.0)


def test_two_modes_are_noted():
    values = [100.0, 101, 99, 100, 102, 60, 61, 59, 60, 60]
    low, high = statistics.find_two_modes(values)
    assert (max(low), min(high)) == (61, 99)
    assert "5 repetitions around 60 fps" in " ".join(statistics.describe_repetitions(values, "fps"))


@pytest.mark.parametrize("values", [[100.0, 101, 99, 100, 102, 98], [1.0] * 6, [100.0] * 19 + [50]])
def test_single_mode_is_not_noted(values):
    assert statistics.find_two_modes(values) is None


def test_outliers_are_noted():
    values = [100.0, 101, 99, 100, 102, 98, 150]
    assert statistics.find_outliers(values) == [150]
    assert any(note.endswith(": 150") for note in statistics.describe_repetitions(values))
    assert statistics.find_outliers([100.0] * 10 + [100.5]) == []
    assert statistics.find_outliers([100.0] * 10 + [90.0]) == [90.0]


def test_wide_spread_is_noted():
    assert "20.0 %" in statistics.describe_repetitions([90.0, 95, 100, 100, 105, 110])[0]
    assert statistics.describe_repetitions([99.0, 100, 101, 100, 99, 101]) == []


@pytest.mark.parametrize(("extremes", "dispersed"), [(1, False), (3, True)])
def test_dispersion_is_noted_by_p99_instead_of_maximum(extremes, dispersed):
    notes = statistics.describe_repetitions([100.0] * (200 - extremes) + [150.0] * extremes)
    assert any("dispersion" in note for note in notes) is dispersed


@pytest.mark.parametrize(("values", "share"), [([math.inf, 1.0, 1.0], "1 of 3 "), ([math.inf], "1 of 1 ")])  # fmt: skip
def test_undefined_repetitions_are_counted(values, share):
    (note,) = statistics.describe_repetitions(values)
    assert note.startswith(share)


def test_means_follow_the_formulas_of_ipv6net():
    means = statistics.compute_means([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])
    assert means["mean"] == 5.0
    assert means["margin_99"] == pytest.approx(2.575 * 2.13809 / 8**0.5, rel=1e-5)
    assert means["rsd_percent"] == pytest.approx(42.7618, rel=1e-5)


@pytest.mark.parametrize("values", [[], [5.0], [1.0, None], [1.0, float("inf")], [1.0, -1.0]])
def test_means_of_undefined_or_single_values_are_none(values):
    assert statistics.compute_means(values) is None


def measure_records(path, **procedure):
    run = simulate(
        "throughput", "latency", device={"capacity_noise": 0.05}, modes=("forward",),
        procedure={"repetitions": 5, "resolution_fps": 1000.0, **procedure},
    )  # fmt: skip
    measure_run(run, path)
    return read_comparable(path)


def test_means_are_reported_with_the_median_on_request(tmp_path):
    throughput, latency = measure_records(tmp_path / "with", means=True)
    assert throughput["means"]["mean"] == pytest.approx(sum(throughput["rates"]) / 5)
    assert latency["directions"]["forward"]["tl"]["means"]["rsd_percent"] >= 0
    plain, _ = measure_records(tmp_path / "without")
    assert "means" not in plain and plain["median"] == throughput["median"]
    for name, printed in (("with", True), ("without", False)):
        assert ("standard deviation" in v6t("show", tmp_path / name, "--warnings").out) is printed
