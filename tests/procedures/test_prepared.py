"""Phase 1 before phase 2: acceptance test A20, and resets that take connections along (RST-03)."""

import math

import pytest
from v6t.analysis.warnings import list_warnings
from v6t.benchmarks.outages import reset_record
from v6t.benchmarks.registry import presentations
from v6t.procedures.reset import ResetSpec, measure_reset
from v6t.procedures.stateful.phases import PhaseOneFailed, Prepared
from v6t.procedures.throughput import measure_throughput
from v6t.tests.procedures.support import Recorded, at, searching, sim
from v6t.trials.connections import Connections

CONNECTIONS = Connections(10_000, 100_000.0, wait_s=0.1)
LIMIT = 3_000_000.0


class Phases:
    """A tester's door for trials with connections, as drivers compose it."""

    def __init__(self, **options):
        from v6t.drivers.oracle.two_phase import TwoPhaseTester

        self.tester = sim(capacity_fps=LIMIT, **options)
        self.preparing = TwoPhaseTester(self.tester, self.tester.table)
        self.first_phases = 0

    def __call__(self, trial):
        self.first_phases += 1
        return self.preparing.measure(trial)


def test_a20_a_lossy_phase_1_is_retaken_and_then_given_up():
    door = Phases(phase_one_loss=1, phase_one_loss_trials=10**6)
    prepared = Prepared(door, CONNECTIONS)
    with pytest.raises(PhaseOneFailed, match="9999 of 10000"):
        measure_throughput(searching(), prepared)
    assert door.first_phases == 4


def test_a20_a_retake_that_succeeds_is_enough():
    """One lost frame of phase 1 is neither loss of phase 2 nor the end of the run."""
    door = Recorded(Phases(phase_one_loss=1, phase_one_loss_trials=2))
    prepared = Prepared(door, CONNECTIONS)
    (found,) = measure_throughput(searching(), prepared).repetitions
    assert LIMIT - 1000 < found.rate_fps <= LIMIT
    first = found.attempts[0].trial.key
    assert [t.key for t in door.trials][:3] == [first, f"{first}/p2", f"{first}/p3"]
    assert prepared.taken == {first: f"{first}/p3"}
    assert len({t.key for t in door.trials}) == len(door.trials)
    assert all(t.connections == CONNECTIONS for t in door.trials)


@pytest.mark.parametrize(("keeps", "survived"), [(True, [True] * 3), (False, [False] * 3)])
def test_whether_connections_survive_a_reset(keeps, survived):
    door = Recorded(Phases(reset_s=2.0, reset_keeps=keeps))
    prepared = Prepared(door, Connections(10_000, 100_000.0, wait_s=0.1, reuse=True))
    spec = ResetSpec(at("reverse"), "software-reset", 100_000.0, 30.0, 10.0, 3)
    result = measure_reset(spec, prepared)
    assert [math.isfinite(t) for t in result.by_loss_s("reverse")] == survived
    record = reset_record(result, conditions={"connections": {}})
    assert record.state_survived == survived
    assert f"survived {sum(survived)} of 3 resets" in str(*list_warnings([record], presentations()))
    # what a reset took away cannot serve the next trial
    assert not any(t.connections.reuse for t in door.trials)


def test_frames_from_inside_make_the_connections_again():
    prepared = Prepared(Phases(reset_s=2.0), CONNECTIONS)
    spec = ResetSpec(at("forward"), "software-reset", 100_000.0, 30.0, 10.0, 2)
    result = measure_reset(spec, prepared)
    assert result.by_loss_s("forward") == (pytest.approx(2.0), pytest.approx(2.0))
    record = reset_record(result, conditions={"connections": {}})
    assert record.state_survived is None
