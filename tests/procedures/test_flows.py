"""Flows of RFC 8219, section 10, and the probe of the fields that a device's RSS hash uses."""

import pytest
from v6t.procedures.flows import FlowPoint, list_flow_points, specify_flow_search
from v6t.procedures.rss_probe import PROBE_CASES, recommend_fields
from v6t.procedures.throughput import measure_throughput
from v6t.trials.codec import encode
from v6t.trials.trial import FlowStarts, Trial

from .support import BACKGROUND, FOREGROUND, Recorder, make_limited, make_sim, make_spec


def test_flow_points_begin_with_a_single_flow():
    points = list(list_flow_points((100, 10, 10), ("together", "successive")))
    successive = [FlowPoint(n, "successive") for n in (10, 100)]
    assert points == [*(FlowPoint(n, "together") for n in (1, 10, 100)), *successive]
    assert len({p.variant for p in points}) == 5


def measure_trials(spec):
    tester = Recorder(make_limited(3e6))
    measure_throughput(spec, tester)
    return tester.trials


def test_trials_last_until_all_flows_have_run_in_full():
    search = make_spec(duration_s=60.0)
    trials = measure_trials(specify_flow_search(search, FlowPoint(11, "successive"), 2.0))
    assert {t.duration_s for t in trials} == {80.0}
    assert {t.flow_starts for t in trials} == {FlowStarts(11, 2.0)}
    assert all(t.required_capabilities == {"flow-starts"} for t in trials)
    assert all(t.key.startswith("successive11-throughput/104/forward/r01/") for t in trials)


def test_simultaneous_flows_need_no_capability():
    trials = measure_trials(specify_flow_search(make_spec(), FlowPoint(11, "together"), 2.0))
    assert all(t.required_capabilities == set() for t in trials)
    assert "starts" not in encode(trials[0])


def measure_classes(starts, *streams):
    trial = Trial(
        "throughput", "throughput/104/forward/r01/s00", 104, 64, "forward", 10_000.0, 10.0,
        flow_starts=starts,
    )  # fmt: skip
    return make_sim(streams=streams, capacity_fps=1e9).measure(trial).directions["forward"].classes


@pytest.mark.parametrize("flows", [1, 4, 10])
def test_frames_before_the_start_of_a_flow_are_not_required(flows):
    counted = measure_classes(FlowStarts(flows, 0.5), FOREGROUND)["fg"]
    missed = sum(i * 0.5 * 10_000 / flows for i in range(flows))
    assert counted.required == pytest.approx(100_000 - missed, abs=flows)
    assert counted.received == counted.sent == counted.required


def test_frames_of_flows_are_counted_for_each_class():
    classes = measure_classes(FlowStarts(2, 4.0), FOREGROUND, BACKGROUND)
    assert {c.required for c in classes.values()} == {40_000}


@pytest.mark.parametrize(("rates", "use"), [
    ((1, 8, 8, 8), "ports"),
    ((1, 8, 1, 8), "ports"),
    ((1, 1, 8, 8), "addresses"),
    ((1, 1, 1, 1), "ports"),
    ((1, 2, 2, 8), "both"),
    ((1, 7, 6, 7.5), "ports"),  # random addresses slow down the tester
])  # fmt: skip
def test_rss_probe_recommends_addresses_only_where_ports_do_not_help(rates, use):
    by_case = dict(zip(("fixed", "ports", "addresses", "both"), rates, strict=True))
    assert recommend_fields(by_case).use == use


def test_rss_probe_of_one_core_mentions_it():
    assert "one core" in recommend_fields(dict.fromkeys(PROBE_CASES, 1e6)).why
