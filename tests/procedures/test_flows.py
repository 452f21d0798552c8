"""Flows of RFC 8219, section 10, and the probe of what a device's hash uses."""

import pytest
from v6t.procedures.flows import FlowPoint, list_flow_points, specify_flow_search
from v6t.procedures.rss_probe import PROBE_CASES, recommend_fields
from v6t.procedures.throughput import measure_throughput
from v6t.tests.procedures.support import BACKGROUND, FOREGROUND, Recorded, limited, searching, sim
from v6t.trials.codec import encode
from v6t.trials.trial import FlowStarts, Trial


def test_single_flow_is_the_reference():
    points = list(list_flow_points((100, 10, 10), ("together", "successive")))
    successive = [FlowPoint(n, "successive") for n in (10, 100)]
    assert points == [*(FlowPoint(n, "together") for n in (1, 10, 100)), *successive]
    assert len({p.variant for p in points}) == 5


def trials_of(spec):
    tester = Recorded(limited(3e6))
    measure_throughput(spec, tester)
    return tester.trials


def test_trials_last_until_all_flows_have_run_in_full():
    search = searching(duration_s=60.0)
    trials = trials_of(specify_flow_search(search, FlowPoint(11, "successive"), 2.0))
    assert {t.duration_s for t in trials} == {80.0}
    assert {t.flow_starts for t in trials} == {FlowStarts(11, 2.0)}
    assert all(t.required_capabilities == {"flow-starts"} for t in trials)
    assert all(t.key.startswith("successive11-throughput/104/forward/r01/") for t in trials)


def test_simultaneous_flows_need_no_capability():
    trials = trials_of(specify_flow_search(searching(), FlowPoint(11, "together"), 2.0))
    assert all(t.required_capabilities == set() for t in trials)
    assert "starts" not in encode(trials[0])


def classes_of(starts, *streams):
    trial = Trial(
        "throughput", "throughput/104/forward/r01/s00", 104, 64, "forward", 10_000.0, 10.0,
        flow_starts=starts,
    )  # fmt: skip
    tester = sim(streams=streams, capacity_fps=1e9)
    return tester.measure(trial).directions["forward"].classes


@pytest.mark.parametrize("flows", [1, 4, 10])
def test_frames_before_a_flow_begins_are_not_required(flows):
    counted = classes_of(FlowStarts(flows, 0.5), FOREGROUND)["fg"]
    missed = sum(i * 0.5 * 10_000 / flows for i in range(flows))
    assert counted.required == pytest.approx(100_000 - missed, abs=flows)
    assert counted.received == counted.sent == counted.required


def test_flows_are_counted_for_each_class():
    classes = classes_of(FlowStarts(2, 4.0), FOREGROUND, BACKGROUND)
    assert {c.required for c in classes.values()} == {40_000}


@pytest.mark.parametrize(("rates", "use"), [
    ((1, 8, 8, 8), "ports"),
    ((1, 8, 1, 8), "ports"),
    ((1, 1, 8, 8), "addresses"),
    ((1, 1, 1, 1), "ports"),
    ((1, 2, 2, 8), "both"),
    ((1, 7, 6, 7.5), "ports"),  # random addresses that cost the tester
])  # fmt: skip
def test_rss_probe_recommends_addresses_only_where_ports_do_not_help(rates, use):
    by_case = dict(zip(("fixed", "ports", "addresses", "both"), rates, strict=True))
    advice = recommend_fields(by_case)
    assert advice.use == use


def test_rss_probe_of_one_core_mentions_it():
    assert "one core" in recommend_fields(dict.fromkeys(PROBE_CASES, 1e6)).why
