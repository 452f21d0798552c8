"""What runs learned of times: kept for the next with the same device, and no harm where it is gone."""

from __future__ import annotations

import pytest
from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.runs.experience import Experience, Shown, Tally, keep, recalled
from v6t.core.runs.forecast import Forecast, expected
from v6t.core.runs.plan import Stage, stages


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "v6t"


def a_run(**changes):
    flags = {
        "plugin": "siit",
        "tester": "embedded",
        "frame_sizes": (84, 512),
        "modes": ("forward",),
    }
    return bind(resolve(flags=Flags(**{**flags, **changes})))


SEARCH = Stage("throughput", "84/64", "forward")
SHOWN = Shown(SEARCH, 1.0, 1.0, (5e4, 6e4), 5e4)
LEARNED = Experience(
    {"throughput": Tally(4, 4.0, 4.4)}, {"set-up/": (5.0, 4.0)}, [SHOWN], "2026-11-22T19:00:00"
)


def test_the_next_run_of_the_same_device_knows(cache):
    bound = a_run()
    assert recalled(bound) == Experience()
    assert expected(bound) is None
    keep(bound, LEARNED)
    assert recalled(bound) == LEARNED
    assert recalled(a_run(frame_sizes=(1518,))) == LEARNED  # how it is asked is another matter
    for other in (a_run(tester="sim"), a_run(plugin="nat64"), a_run(dut="tayga")):
        assert recalled(other) == Experience()
    seconds, when = expected(bound)
    assert when == LEARNED.when
    assert seconds < Forecast(stages(bound)).left_s()


def test_what_a_later_run_learned_holds(cache):
    bound = a_run()
    keep(bound, LEARNED)
    other = Shown(Stage("throughput", "512/492", "forward"), 0.0, 1.1, None, 5e4)
    slower = Shown(SEARCH, 0.0, 1.0, (1e4, 1e4), 5e4)
    keep(bound, Experience({}, {"set-up/": (5.0, 5.0)}, [slower, other], "later"))
    both = recalled(bound)
    assert both.shown == [slower, other]
    assert both.ratios == {"set-up/": (5.0, 5.0)}
    assert both.tallies == LEARNED.tallies
    assert both.when == "later"


def test_a_damaged_file_is_as_good_as_none(cache):
    bound = a_run()
    keep(bound, LEARNED)
    (path,) = cache.glob("times-*.json")
    for text in ("", "{", "[]", '{"shown": [1]}', "\0"):
        path.write_text(text)
        assert recalled(bound) == Experience()
    keep(bound, LEARNED)
    assert recalled(bound) == LEARNED


def test_figures_of_another_meaning_are_not_read(cache):
    """The version before this one kept what phase 1 took as a trial's own."""
    bound = a_run()
    keep(bound, LEARNED)
    (path,) = cache.glob("times-2-*.json")
    path.rename(path.with_name(path.name.replace("times-2-", "times-")))
    assert recalled(bound) == Experience()


def test_a_place_that_cannot_be_written_ends_no_run(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    keep(a_run(), LEARNED)
    assert recalled(a_run()) == Experience()


def test_a_self_test_that_is_repeated_is_counted_with_the_search_after_it(cache):
    bound = a_run(frame_sizes=(84,))
    clock = [0.0]
    forecast = Forecast(stages(bound), lambda: clock[0])
    selftest, search = Stage("self-test", "84/64", "forward"), SEARCH
    for stage in (Stage("set-up", "84/64", ""), selftest, search, selftest):
        forecast.begin(stage)
    assert forecast.left_s() == 0
    forecast.repeated(search=True)
    planned = {p.stage: p for p in stages(bound)}
    assert forecast.left_s() > planned[selftest].seconds + planned[search].least_s / 2
    forecast.begin(search)
    forecast.ended()
    assert forecast.left_s() == 0
