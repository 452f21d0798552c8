"""Connection rate, tear-down rate, capacity and phase 1, measured with devices of known properties."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from v6t.analysis.warnings import list_warnings
from v6t.benchmarks.connections import CapacitySettings
from v6t.benchmarks.outages import Reset
from v6t.benchmarks.registry import load_presentations
from v6t.drivers.oracle.two_phase import TwoPhaseTester
from v6t.procedures.reset import ResetSpec, measure_reset
from v6t.procedures.stateful import phases
from v6t.procedures.stateful.capacity import CapacitySpec, measure_capacity
from v6t.procedures.stateful.connection_rate import ConnectionRateSpec, measure_connection_rate
from v6t.procedures.stateful.teardown import TeardownSpec, measure_teardown
from v6t.trials.connections import Connections, PhaseOneResult, Tcp
from v6t.trials.result import TrialResult
from v6t.trials.trial import Trial

from .support import Recorder, make_conditions, make_sim

UPPER_CPS = 1_000_000.0
CONNECTIONS = Connections(10_000, 100_000.0, wait_s=0.1)
TRIAL = Trial("throughput", "k", 84, 64, "bidirectional", 1000.0, 1.0)


def make_stateful(**device):
    """Make a recorder of a tester with a simulated stateful device."""
    tester = make_sim(**device)
    return Recorder(TwoPhaseTester(tester, tester.table).measure)


def make_rate_spec(connections, **changes):
    fields = {"resolution_cps": 1000.0, **changes}
    return ConnectionRateSpec(
        conditions=fields.pop("conditions", make_conditions()), connections=connections,
        upper_bound_cps=UPPER_CPS, upper_bound_reason="media", **fields,
    )  # fmt: skip


def measure_rate(tester, alpha=1.0):
    spec = make_rate_spec(10_000, phase_one=phases.PhaseOneSettings(alpha=alpha))
    (repetition,) = measure_connection_rate(spec, tester).repetitions
    return repetition


def find_capacity(tester, **changes):
    fields = {
        "first": 1000, "most": 4_000_000, "error": 1, "resolution_cps": 10_000.0,
        "phase_one": phases.PhaseOneSettings(), **changes,
    }  # fmt: skip
    bound = {"upper_bound_cps": UPPER_CPS, "upper_bound_reason": "media"}
    return measure_capacity(CapacitySpec(conditions=make_conditions(), **bound, **fields), tester)


def test_nat_without_a_table_fails_only_the_validation():
    device = {"table_stores": False, "table_tells": False}
    validated = measure_rate(make_stateful(**device))
    assert validated.rate_cps == 0.0
    (reason,) = {r for a in validated.attempts for r in a.verdict.reasons}
    assert "10000 of 10000" in reason
    assert measure_rate(make_stateful(**device), alpha=None).rate_cps == UPPER_CPS


@pytest.mark.parametrize("limit", [1_234.0, 56_789.0, 555_555.0, 2e6])
def test_connection_rate_equals_device_limit(limit):
    tester = make_stateful(insertion_cps=limit)
    outcome = measure_rate(tester)
    assert make_rate_spec(10_000).steps == 11
    expected = min(limit, UPPER_CPS)
    assert expected - 1000.0 <= outcome.rate_cps <= expected
    assert outcome.search.hit_upper_bound == (limit > UPPER_CPS)
    for trial in tester.trials:
        requested = trial.connections
        assert (requested.count, requested.reuse, requested.purpose) == (10_000, False, "establish")
        assert trial.rate_fps == requested.rate_cps


def test_loss_tolerance_does_not_apply_to_connections():
    """The loss tolerance applies to phase 2 only."""
    spec = make_rate_spec(1_000_000, conditions=make_conditions(loss_tolerance=0.5))
    device = make_stateful(insertion_cps=400_000.0)
    (repetition,) = measure_connection_rate(spec, device).repetitions
    assert 399_000 <= repetition.rate_cps <= 400_000
    lossy = make_stateful(phase_one_loss=1, phase_one_loss_trials=10**6)
    (repetition,) = measure_connection_rate(spec, lossy).repetitions
    assert repetition.rate_cps == 0.0


def test_teardown_after_lossy_phase_one_is_repeated():
    spec = TeardownSpec(make_conditions(), 1000, 10_000.0, "given", repetitions=1, retakes=2)
    device = {"teardown_cps": 1000.0, "phase_one_loss": 1}
    outcome = measure_teardown(spec, make_stateful(**device, phase_one_loss_trials=2))
    assert [a.verdict.passed for a in outcome.attempts] == [False, False, True]
    assert [a.trial.key.split("/")[-2] for a in outcome.attempts] == ["t1", "t2", "t3"]
    with pytest.raises(phases.PhaseOneError, match="3 times"):
        measure_teardown(spec, make_stateful(**device, phase_one_loss_trials=3))


def test_teardown_disturbed_by_tester_has_no_rate():
    device = make_stateful(teardown_cps=1000.0)
    conditions = make_conditions(invalid_retries=0)
    spec = TeardownSpec(conditions, 1000, 10_000.0, "given", repetitions=1, retakes=2)
    with pytest.raises(phases.PhaseOneError, match="3 times: late") as caught:
        measure_teardown(spec, lambda trial: replace(device(trial), faults=("late",)))
    assert caught.value.tester


@pytest.mark.parametrize("size", [1, 3, 999, 1000, 65_537, 1_000_003])
def test_capacity_of_table_is_exact(size):
    tester = make_stateful(table_entries=size)
    result = find_capacity(tester)
    assert (result.capacity, result.first_failed) == (size, size + 1)
    assert result.first_connections <= max(1000, size)
    assert {t.connections.alpha for t in tester.trials} == {1.0}


@pytest.mark.parametrize(
    ("share", "beta", "capacity"), [(0.6, 0.1, 200_000), (0.2, 0.3, 40_000), (0.2, 0.1, 200_000)]
)
def test_capacity_of_a_table_that_becomes_slower_depends_on_beta(share, beta, capacity):
    device = {"insertion_cps": 500_000.0, "slow_from": 40_000, "slow_insertion_share": share}
    result = find_capacity(make_stateful(**device), most=200_000, beta=beta)
    assert result.capacity == capacity
    if (share, beta) == (0.2, 0.1):
        assert result.rate_cps < 0.25 * result.first_rate_cps


def make_device(limit_of_count):
    """Make a device that opens ``n`` connections at rates up to ``limit_of_count(n)``."""

    def measure(trial):
        count = trial.connections.count
        learned = count - (trial.connections.rate_cps > limit_of_count(count))
        outcome = PhaseOneResult(count, count, learned, validation_sent=learned, validated=learned)
        return TrialResult({}, connections=outcome)

    return Recorder(measure)


def limit_above_40_000(connections):
    if connections <= 40_000:
        return 400_000.0
    return 120_000.0 if connections <= 70_000 else 0.0


@pytest.mark.parametrize(("changes", "capacity", "failed"), [
    ({"first": 10_000, "gamma": 0.5}, 40_000, 40_001),
    ({"first": 10_000, "gamma": 0.25}, 70_000, 70_001),
    ({"first": 35_000, "most": 70_000, "gamma": 0.5}, 70_000, None),
])  # fmt: skip
def test_capacity_search_bisects_down_to_the_share_gamma(changes, capacity, failed):
    result = find_capacity(make_device(limit_above_40_000), beta=0.1, **changes)
    assert (result.capacity, result.first_failed) == (capacity, failed)
    assert capacity == 40_000 or result.rate_cps <= 120_000


@pytest.mark.parametrize(("first", "device", "capacity"), [
    (1000, 10**9, 20_000), (1000, 25_000, 20_000), (64_000, 10**9, 20_000), (1000, 19_000, 19_000),
])  # fmt: skip
def test_capacity_is_not_limited_by_tester_failure(first, device, capacity):
    def fail(trial):
        result = make_device(lambda n: UPPER_CPS if n <= device else 0.0)(trial)
        return replace(result, faults=("late",) if trial.connections.count > 20_000 else ())

    result = find_capacity(fail, first=first, resolution_cps=500_000.0)
    assert result.capacity == capacity
    assert result.first_failed == (19_001 if device == 19_000 else None)


def test_rate_of_each_capacity_step_is_bounded_by_earlier_steps():
    def limit(connections):
        default = 500_000.0 if connections <= 6000 else 0.0
        return {1000: 300_000.0, 2000: 200_000.0}.get(connections, default)

    tester = make_device(limit)
    result = find_capacity(tester, most=8000)
    assert (result.capacity, result.first_failed) == (6000, 6001)
    rates = [step.rate_cps for step in result.steps if step.carried]
    assert rates == sorted(rates, reverse=True)
    for index, step in enumerate(result.steps[1:], 1):
        tried = [t.rate_fps for t in tester.trials if f"/{step.name}-" in t.key]
        assert max(tried) == min(s.rate_cps for s in result.steps[:index] if s.carried), step
    assert [s.phase for s in result.steps[:4]] == ["first", *["exponential"] * 3]


@pytest.mark.parametrize(("tester_fps", "most", "capacity"), [(5e4, 300000, 70001), (1.0, 2000, 0)])
def test_slow_tester_does_not_change_table_capacity(tester_fps, most, capacity):
    result = find_capacity(make_stateful(table_entries=70_001, tester_fps=tester_fps), most=most)
    assert result.capacity == capacity and result.rate_cps <= 50_000


def test_capacity_search_has_default_beta_and_gamma():
    settings = CapacitySettings()
    assert (settings.beta, settings.gamma) == (CapacitySpec.beta, CapacitySpec.gamma) == (0.1, 0.5)


@pytest.mark.parametrize(
    "changes", [{"beta": 0.6}, {"gamma": 1.5}, {"first": 0}, {"first": 5_000_000}, {"error": 0}]
)
def test_impossible_capacity_search_is_refused(changes):
    with pytest.raises(ValueError, match="must"):
        find_capacity(make_stateful(), **changes)


def test_second_attempt_does_not_lower_other_rates():
    tester, offered = make_stateful(table_entries=5000), []

    def measure(trial):
        offered.append((trial.connections.count, trial.rate_fps))
        result = tester(trial)
        if offered[-1] != (2000, UPPER_CPS):
            return result
        one_less = replace(result.connections, learned=result.connections.learned - 1)
        return replace(result, connections=one_less)

    shares = {"beta": 0.5, "gamma": 0.5, "resolution_cps": UPPER_CPS / 2}
    assert find_capacity(measure, fixed=True, most=8000, **shares).capacity == 5000
    assert {rate for count, rate in offered if count == 2000} == {UPPER_CPS, UPPER_CPS / 2}
    assert {(4000, UPPER_CPS), (5000, UPPER_CPS)} <= set(offered)
    assert min(rate for _, rate in offered) == UPPER_CPS / 2


def test_repetitions_of_phase_one_are_limited():
    connections = Connections(1000, 10_000.0)
    tester = make_stateful(phase_one_loss=1, phase_one_loss_trials=2)
    preparer = phases.ConnectionPreparer(tester, connections)
    assert preparer(TRIAL).directions["reverse"].count_frames("received") == 1000
    assert [t.key for t in tester.trials] == ["k", "k/p2", "k/p3"]
    assert preparer.make_finder({"k/p3": "it", "k": "not it"}.__getitem__)("k") == "it"
    lossy = {"phase_one_loss": 1, "phase_one_loss_trials": 4}
    with pytest.raises(phases.PhaseOneError, match="999 of 1000"):
        phases.ConnectionPreparer(make_stateful(**lossy), connections)(TRIAL)
    assert phases.ConnectionPreparer(make_stateful(**lossy), connections, 4)(TRIAL).connections


def reset_device(direction, connections, **device):
    """Reset a device with connections three times and return the result, the record and the trials."""
    tester = make_stateful(capacity_fps=3_000_000.0, reset_s=2.0, **device)
    spec = ResetSpec(make_conditions(direction), "software-reset", 100_000.0, 30.0, 10.0, 3)
    result = measure_reset(spec, phases.ConnectionPreparer(tester, connections))
    return result, Reset().make_record(result, {"connections": {}}), tester.trials


@pytest.mark.parametrize(("keeps", "survived"), [(True, [True] * 3), (False, [False] * 3)])
def test_reset_of_device_that_keeps_connections_is_survived(keeps, survived):
    reused = replace(CONNECTIONS, reuse=True)
    result, record, trials = reset_device("reverse", reused, reset_keeps=keeps)
    lost_s = [outages["reverse"].by_loss_s for outages in result.repetitions]
    assert list(map(math.isfinite, lost_s)) == record.state_survived == survived
    (warning,) = list_warnings([record], load_presentations())
    assert f"survived {sum(survived)} of 3 resets" in str(warning)
    # connections lost in a reset cannot be reused
    assert not any(t.connections.reuse for t in trials)


def test_frames_from_inside_reestablish_connections():
    result, record, _ = reset_device("forward", CONNECTIONS)
    lost_s = [outages["forward"].by_loss_s for outages in result.repetitions]
    assert lost_s == [pytest.approx(2.0)] * 3
    assert record.state_survived is None


def overflow_ring(trial):
    outcome = PhaseOneResult(required=1000, sent=1000, learned=990)
    return TrialResult({}, ("its receive ring overflowed",), connections=outcome)


@pytest.mark.parametrize("is_tester", [True, False])
def test_failed_phase_one_names_tester_or_device(is_tester):
    lossy = make_stateful(phase_one_loss=1, phase_one_loss_trials=10)
    tester, words = (overflow_ring, "its receive ring") if is_tester else (lossy, "of 1000")
    with pytest.raises(phases.PhaseOneError, match=words) as caught:
        phases.ConnectionPreparer(tester, Connections(1000, 10_000.0))(TRIAL)
    assert caught.value.tester is is_tester
    spec = TeardownSpec(make_conditions(invalid_retries=0), 1000, 10_000.0, "given", repetitions=1)
    with pytest.raises(phases.PhaseOneError, match=words) as caught:
        measure_teardown(spec, tester)
    assert caught.value.tester is is_tester


VERDICTS = yaml.safe_load((Path(__file__).parent / "vectors" / "verdicts.yaml").read_text())


@pytest.mark.parametrize(("fields", "valid", "words"), VERDICTS)
def test_verdict_on_connections_names_tester_or_device(fields, valid, words):
    connections = Connections(100, 1000.0, alpha=1.0)
    trial = replace(TRIAL, benchmark="connection-rate", duration_s=0.1, connections=connections)
    outcome = PhaseOneResult(**{"required": 100, "sent": 100, "learned": 100, **fields})
    verdict = phases.judge_connections(trial, TrialResult({}, connections=outcome))
    assert verdict.reasons[0].startswith(words)
    assert (verdict.passed, verdict.valid) == (False, valid)


def test_unsent_end_of_connection_is_tester_fault():
    tester = make_sim(tcp_aging_s=3)
    tcp = Connections(100, 1000.0, alpha=1.0, purpose="establish", tcp=Tcp(aging_s=60.0))
    trial = make_conditions().make_trial("tcp-rate", 1000.0, 0.1, mode="forward", connections=tcp)
    two_phase = TwoPhaseTester(tester, tester.table)
    result = two_phase.measure(trial)
    assert not result.faults and result.connections.tcp.expiry_s == 3.0
    disconnect = tester.disconnect

    def omit_one_end(trial, connections):
        ended = disconnect(trial, connections)
        ((name, counted),) = ended.result.classes.items()
        classes = {name: replace(counted, sent=counted.sent - 1)}
        tester.wait(1.25)  # time for answers, which passes in the simulated device
        return replace(ended, result=replace(ended.result, classes=classes))

    tester.disconnect = omit_one_end
    result = two_phase.measure(trial)
    (fault,) = result.faults
    assert "99 of 100" in fault
    assert 3.0 <= result.connections.tcp.expiry_s < 4.0
