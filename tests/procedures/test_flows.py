"""Flows of RFC 8219 section 10: which points, and how long their trials are (SC-04)."""

import pytest
from v6t.procedures.flows import FlowPoint, flow_points, flow_spec
from v6t.procedures.throughput import measure_throughput
from v6t.tests.procedures.support import BACKGROUND, FOREGROUND, Recorded, limited, searching, sim
from v6t.trials.codec import trial_to_json
from v6t.trials.trial import FlowStarts, Trial


def test_one_flow_is_the_base_of_all():
    points = list(flow_points((100, 10, 10), ("together", "successive")))
    assert points == [
        FlowPoint(1, "together"),
        FlowPoint(10, "together"),
        FlowPoint(100, "together"),
        FlowPoint(10, "successive"),
        FlowPoint(100, "successive"),
    ]
    assert len({p.variant for p in points}) == 5


def test_trials_last_until_all_flows_have_run_in_full():
    spec = flow_spec(searching(duration_s=60.0), FlowPoint(11, "successive"), 2.0)
    door = Recorded(limited(3e6))
    measure_throughput(spec, door)
    assert {t.duration_s for t in door.trials} == {80.0}
    assert {t.flow_starts for t in door.trials} == {FlowStarts(11, 2.0)}
    assert all(t.required_capabilities == {"flow-starts"} for t in door.trials)
    assert all(t.key.startswith("successive11-throughput/104/forward/r01/") for t in door.trials)


def test_flows_that_begin_together_need_nothing_of_a_tester():
    spec = flow_spec(searching(), FlowPoint(11, "together"), 2.0)
    door = Recorded(limited(3e6))
    measure_throughput(spec, door)
    assert all(t.required_capabilities == set() for t in door.trials)
    assert "starts" not in trial_to_json(door.trials[0])


@pytest.mark.parametrize("flows", [1, 4, 10])
def test_frames_before_a_flow_begins_are_not_required(flows):
    """Of a stream of R fps and n flows, flow i misses the turns of i intervals."""
    asked = Trial(
        "throughput", "throughput/104/forward/r01/s00", 104, 64, "forward", 10_000.0, 10.0,
        flow_starts=FlowStarts(flows, 0.5),
    )  # fmt: skip
    counted = sim(capacity_fps=1e9).measure(asked).directions["forward"].classes["fg"]
    missed = sum(i * 0.5 * 10_000 / flows for i in range(flows))
    assert counted.required == pytest.approx(100_000 - missed, abs=flows)
    assert counted.received == counted.sent == counted.required


def test_every_class_has_its_flows():
    asked = Trial(
        "throughput", "throughput/104/forward/r01/s00", 104, 64, "forward", 10_000.0, 10.0,
        flow_starts=FlowStarts(2, 4.0),
    )  # fmt: skip
    tester = sim(streams=(FOREGROUND, BACKGROUND), capacity_fps=1e9)
    classes = tester.measure(asked).directions["forward"].classes
    assert {c.required for c in classes.values()} == {40_000}
