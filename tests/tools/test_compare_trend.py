"""Comparison of the trend test with another test on synthetic series."""

from v6t.tools import compare_trend


def test_series_has_a_step_that_is_detected():
    series = [
        compare_trend.make_series(seed, -0.05, noise=0.005, outlier_share=0.0) for seed in range(3)
    ]
    assert compare_trend.measure_detection(compare_trend.find_v6t_changes, series) == 100.0
    assert compare_trend.measure_detection(lambda rates: [0], series) == 0.0


def test_limit_yields_the_given_number_of_false_alarms():
    assert compare_trend.match_false_alarms([0.0, 7.0, 3.0, 5.0], alarms=2) == 3.0
