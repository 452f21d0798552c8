"""Warnings that apply to several points are printed once."""

from types import SimpleNamespace

from v6t.analysis.warnings import list_warnings


def test_the_same_words_name_all_their_points():
    points = [
        ("84/64", "forward", "no rate passed"),
        ("84/64", "reverse", "no rate passed"),
        ("512/492", "forward", "no rate passed"),
        ("512/492", "reverse", "no rate passed"),
        ("1518/1498", "forward", "no rate passed"),
        ("1518/1498", "reverse", "no time"),
    ]
    records = [
        SimpleNamespace(benchmark="pdv", sizes=sizes, direction=way, not_measured=why)
        for sizes, way, why in points
    ]
    without_rate, without_time = list_warnings(records, None)
    assert without_rate.figures == "pdv 84/64, 512/492 forward, reverse; 1518/1498 forward"
    assert without_time.figures == "pdv 1518/1498 reverse"
    assert {without_rate.code, without_time.code} == {"not-measured"}
