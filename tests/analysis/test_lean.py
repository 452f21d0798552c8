"""Lean drawings show what the large ones did."""

import itertools
import math
import re
from xml.etree import ElementTree

import pytest
from v6t.analysis.figures.canvas import axes, drawing, legend, look, svg
from v6t.analysis.figures.lean import SEEN, lean


def polyline(points):
    inner = " \n".join(f"{'L' if n else 'M'} {x:.6f} {y:.6f}" for n, (x, y) in enumerate(points))
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="9pt" height="9pt" viewBox="0 0 9 9">'
        f'<g id="idle"><path d="{inner} \n" style="fill: none; stroke: #0072b2"/></g></svg>'
    )


def points_of(text):
    numbers = re.search(r'<path d="M([^"]*)"', text)[1].replace("L", " ").split()
    return list(zip(map(float, numbers[::2]), map(float, numbers[1::2]), strict=True))


def distance(point, line):
    """Of a point from a line of straight stretches."""
    found = math.inf
    for begin, end in itertools.pairwise(line):
        along = (end[0] - begin[0], end[1] - begin[1])
        off = (point[0] - begin[0], point[1] - begin[1])
        length = along[0] ** 2 + along[1] ** 2
        share = (along[0] * off[0] + along[1] * off[1]) / length if length else 0.0
        share = min(1.0, max(0.0, share))
        found = min(found, math.hypot(off[0] - share * along[0], off[1] - share * along[1]))
    return found


@pytest.mark.parametrize(
    "shape", [lambda x: 100 * math.exp(-x / 40), lambda x: 50 + 40 * math.sin(x), lambda x: 7.0]
)
def test_a_line_passes_all_its_points(shape):
    stairs = []
    for n in range(900):
        stairs += [(n / 4, shape(n / 4)), ((n + 1) / 4, shape(n / 4))]
    kept = points_of(lean(polyline(stairs), "f"))
    assert len(kept) < len(stairs) / 2
    # half a tenth each way is the rounding
    assert max(distance(p, kept) for p in stairs) <= SEEN + 0.08


def test_a_spike_of_one_point_stays():
    flat = [(n / 10, 5.0) for n in range(1000)]
    flat[500] = (50.0, 80.0)
    assert points_of(lean(polyline(flat), "f")) == [
        (0.0, 5.0), (49.9, 5.0), (50.0, 80.0), (50.1, 5.0), (99.9, 5.0)
    ]  # fmt: skip


def test_what_has_bends_keeps_them():
    text = polyline([(0, 0), (1, 1)]).replace("L 1.000000", "C 0.25 0.5 0.75 1.125 1")
    assert 'd="M0 0C0.2 0.5 0.8 1.1 1 1"' in lean(text, "f")


def figure(name, label):
    with drawing(name):
        drawn, (at,) = axes()
        at.plot(range(50), [n * n for n in range(50)], label=label, **look(0).line)
        at.scatter(range(50), range(50), color="red")
        legend(at)
        return svg(drawn, name)


def test_references_are_met_and_identifiers_are_those_of_one_figure():
    one, other = figure("one", "a"), figure("other", "b")
    for text in (one, other):
        ids = re.findall(r' id="([^"]*)"', text)
        assert len(ids) == len(set(ids))
        assert ids[0] in ("one-figure", "other-figure")
        assert set(re.findall(r"#([\w-]+)[\")]", text)) == set(ids[1:])
    assert not set(re.findall(r' id="([^"]*)"', one)) & set(re.findall(r' id="([^"]*)"', other))
    assert one == figure("one", "a")  # the same octets every time


def test_words_and_marks_are_all_there():
    text = figure("one", "<a> & $b$")
    root = ElementTree.fromstring(text)  # noqa: S314  (made above)
    space = "{http://www.w3.org/2000/svg}"
    assert "<a> & $b$" in [t.text for t in root.iter(f"{space}text")]
    assert sum(1 for _ in root.iter(f"{space}use")) >= 100
    classes = set(re.findall(r'class="(\w+)"', text))
    assert classes == set(re.findall(r"\.(\w+)\{", text))  # all styles told, none for nothing
