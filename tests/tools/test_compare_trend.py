"""Comparison of the trend test with another test on synthetic series."""

from v6t.tools.compare_trend import (
    find_v6t_changes,
    make_series,
    match_false_alarms,
    measure_detection,
)


def test_series_has_a_step_that_is_detected():
    series = [make_series(seed, -0.05, noise=0.005, outlier_share=0.0) for seed in range(3)]
    assert measure_detection(find_v6t_changes, series) == 100.0
    assert measure_detection(lambda rates: [0], series) == 0.0


def test_limit_yields_the_given_number_of_false_alarms():
    assert match_false_alarms([0.0, 7.0, 3.0, 5.0], alarms=2) == 3.0
