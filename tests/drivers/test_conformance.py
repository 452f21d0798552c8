"""The same trials and invariants for every tester.

``sim`` needs nothing, ``embedded`` a lab, ``trex`` TREX_DIR. The rates are low enough for a small, busy machine.
"""

import pytest
from v6t.core.runs.bench import make_tester
from v6t.tests.expect import expect_error
from v6t.trials.trial import MODES, DelayRequest, Trial, list_directions
from v6t.trials.verdict import assess_trial

from .lab_testers import REAL, load, make_tester_setup, measure_passed

KINDS = [pytest.param("sim"), *REAL]


@pytest.fixture(scope="module", params=KINDS)
def tester(request):
    """Provide a tester with a reference border relay, and foreground and background traffic."""
    setup = make_tester_setup(request.param, params={"n": "10", "m": "9"})
    opened = make_tester(setup)
    opened.open()
    with expect_error("not-loaded"):
        opened.measure(make_trial())
    load(opened, setup, 104)
    assert opened.describe()["kind"] == opened.name
    yield opened
    opened.close()
    opened.close()  # a second call does nothing


def make_trial(mode="bidirectional", rate=2000.0, duration=0.5, **more):
    return Trial("throughput", "t", 104, 64, mode, rate, duration, 0.4, 0.1, **more)


@pytest.mark.parametrize("mode", MODES)
def test_counts_add_up(tester, mode):
    trial = make_trial(mode)
    result = tester.measure(trial)
    assert set(result.directions) == set(list_directions(mode))
    for counted in result.directions.values():
        assert counted.count_frames("required") == trial.frames
        for count in counted.classes.values():
            assert count.sent == count.required
            assert 0 <= count.received + count.late <= count.sent
            assert count.surplus == 0
        assert counted.matched == counted.checked > 50
        assert counted.sending_time_s > 0.25  # a busy machine delays the first frames
        shares = {c.role: c.required for c in counted.classes.values()}
        assert shares == {"foreground": trial.frames * 9 // 10, "background": trial.frames // 10}


def test_delays_and_ipdv_pairs_add_up(tester):
    assert {"every-frame", "ipdv"} <= tester.capabilities
    result = tester.measure(make_trial(delays=DelayRequest(ipdv=True)))
    for counted in result.directions.values():
        assert set(counted.delays) == set(counted.ipdv) == set(counted.classes)
        for name, count in counted.classes.items():
            times, pairs = counted.delays[name], counted.ipdv[name]
            assert times.frames == count.received
            assert times.frames + times.lost == count.required
            assert all(v >= 0 for v in times.values_ns)
            assert pairs.frames + pairs.lost == count.required - 1
            if count.received == count.required:
                assert pairs.lost == 0
                assert abs(pairs.median_ns()) < 1e9


def test_tester_sends_exact_number_of_tags(tester):
    assert "tags" in tester.capabilities
    result = tester.measure(make_trial(delays=DelayRequest(tags=300, first_tag_s=0.2)))
    for counted in result.directions.values():
        assert sum(d.frames + d.lost for d in counted.delays.values()) == 300
        assert counted.count_frames("required") == 1000


def test_frames_over_the_timeout_are_late(tester):
    assert "frame-timeout" in tester.capabilities
    result = tester.measure(make_trial(frame_timeout_s=1e-9))
    for counted in result.directions.values():
        assert counted.count_frames("received") == 0
        assert counted.count_frames("late") == counted.count_frames("sent") == 1000


def test_impossible_rate_fails_without_affecting_later_trials(tester):
    trial = make_trial(rate=4_900_000.0, duration=0.005)
    verdict = assess_trial(trial, tester.measure(trial), sending_time_tolerance=1.02)
    assert verdict.reasons and not verdict.passed
    result = tester.measure(make_trial(rate=1000.0))
    for counted in result.directions.values():
        assert counted.count_frames("surplus") == 0
        assert counted.count_frames("received") <= counted.count_frames("sent") == 500
    measure_passed(tester, make_trial(rate=1000.0), tolerance=1.1)
