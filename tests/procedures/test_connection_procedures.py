"""Connection rate, tear-down and capacity against devices whose truth is known."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from v6t.drivers.oracle.two_phase import TwoPhaseTester
from v6t.procedures.stateful.capacity import CapacitySpec, measure_capacity
from v6t.procedures.stateful.connection_rate import (
    ConnectionRateSpec,
    measure_connection_rate,
)
from v6t.procedures.stateful.phases import (
    PhaseOneFailed,
    PhaseOneSettings,
    Prepared,
    judge_connections,
)
from v6t.procedures.stateful.teardown import TeardownSpec, measure_teardown
from v6t.tests.procedures.support import Recorded, at, sim
from v6t.trials.codec import result_from_json, result_to_json, trial_to_json
from v6t.trials.connections import Connections, PhaseOneResult
from v6t.trials.result import TrialResult
from v6t.trials.tcp import Tcp
from v6t.trials.trial import Trial

pytestmark = pytest.mark.slow

UPPER_CPS = 1_000_000.0


def door(**device):
    """A simulated tester and stateful device, with every trial kept."""
    tester = sim(**device)
    return Recorded(TwoPhaseTester(tester, tester.table).measure)


def rate_of(found, **changes):
    spec = ConnectionRateSpec(
        conditions=at(),
        connections=changes.pop("connections", 10_000),
        upper_bound_cps=UPPER_CPS,
        upper_bound_reason="media",
        resolution_cps=1000.0,
        phase_one=PhaseOneSettings(alpha=changes.pop("alpha", 1.0)),
        **changes,
    )
    return measure_connection_rate(spec, found)


def capacity_of(found, **changes):
    given = {
        "first": 1000,
        "most": 4_000_000,
        "error": 1,
        "resolution_cps": 10_000.0,
        "phase_one": PhaseOneSettings(),
        **changes,
    }
    return measure_capacity(
        CapacitySpec(
            conditions=at(), upper_bound_cps=UPPER_CPS, upper_bound_reason="media", **given
        ),
        found,
    )


def test_a18_a_nat_that_stores_nothing_fails_in_validation_and_passes_without():
    device = {"table_stores": False, "table_tells": False}
    (tried,) = rate_of(door(**device)).repetitions
    assert tried.rate_cps == 0.0
    reasons = {r for a in tried.attempts for r in a.verdict.reasons}
    (reason,) = reasons
    assert "10000 of 10000" in reason
    (untried,) = rate_of(door(**device), alpha=None).repetitions
    assert untried.rate_cps == UPPER_CPS


def test_a18_the_devices_own_count_tells_too():
    (tried,) = rate_of(door(table_stores=False), alpha=None).repetitions
    assert tried.rate_cps == 0.0
    (reason,) = tried.attempts[0].verdict.reasons
    assert re.findall(r"\d+", reason) == ["0", "10000"]


@pytest.mark.parametrize("limit", [1_234.0, 56_789.0, 555_555.0, 2e6])
def test_the_rate_is_the_devices(limit):
    found = door(insertion_cps=limit)
    (repetition,) = rate_of(found).repetitions
    wanted = min(limit, UPPER_CPS)
    assert wanted - 1000.0 <= repetition.rate_cps <= wanted
    assert repetition.search.hit_upper_bound == (limit > UPPER_CPS)
    for trial in found.trials:
        assert trial.connections.count == 10_000
        assert not trial.connections.reuse
        assert trial.connections.purpose == "establish"
        assert trial.rate_fps == trial.connections.rate_cps


def test_no_share_of_connections_may_be_missing():
    """The tolerance of phase 2 has no meaning for connections (ST-06)."""
    spec = ConnectionRateSpec(
        conditions=at(loss_tolerance=0.5), connections=1_000_000, upper_bound_cps=UPPER_CPS,
        upper_bound_reason="media", resolution_cps=1000.0,
    )  # fmt: skip
    (found,) = measure_connection_rate(spec, door(insertion_cps=400_000.0)).repetitions
    assert 399_000 <= found.rate_cps <= 400_000
    losing = door(phase_one_loss=1, phase_one_loss_trials=10**6)
    (one,) = measure_connection_rate(spec, losing).repetitions
    assert one.rate_cps == 0.0


def test_a_device_far_below_the_tester_has_a_rate_all_the_same():
    (repetition,) = measure_connection_rate(
        ConnectionRateSpec(
            conditions=at(), connections=1000, upper_bound_cps=UPPER_CPS,
            upper_bound_reason="media", resolution_cps=UPPER_CPS / 16,
        ),
        door(insertion_cps=7_000.0),
    ).repetitions  # fmt: skip
    assert 5_000 <= repetition.rate_cps <= 7_000


def test_teardown_is_the_difference_of_two_times():
    spec = TeardownSpec(at(), 30_000, 10_000.0, "given", repetitions=3)
    found = measure_teardown(spec, door(teardown_cps=60_000.0, teardown_s=0.25))
    assert [r.rate_cps(30_000) for r in found.repetitions] == [pytest.approx(60_000)] * 3
    assert [r.idle_s for r in found.repetitions] == [pytest.approx(0.25)] * 3
    assert [r.sessions for r in found.repetitions] == [30_000] * 3


def test_teardown_takes_phase_one_again_and_gives_up():
    spec = TeardownSpec(at(), 1000, 10_000.0, "given", repetitions=1, retakes=2)
    device = {"teardown_cps": 1000.0, "phase_one_loss": 1}
    found = measure_teardown(spec, door(**device, phase_one_loss_trials=2))
    assert [a.verdict.passed for a in found.repetitions[0].attempts] == [False, False, True]
    with pytest.raises(PhaseOneFailed, match="3 times"):
        measure_teardown(spec, door(**device, phase_one_loss_trials=3))


@pytest.mark.parametrize("size", [1, 3, 999, 1000, 65_537, 1_000_003])
def test_a19_capacity_is_exact(size):
    result = capacity_of(door(table_entries=size))
    assert result.capacity == size
    assert result.first_failed == size + 1
    assert result.first_connections <= max(1000, size)


def test_a19_capacity_within_an_error():
    found = door(table_entries=1_000_003)
    result = capacity_of(found, error=5000)
    assert 1_000_003 - 5000 <= result.capacity <= 1_000_003
    assert result.first_failed - result.capacity <= 5000
    counts = [s.connections for s in result.steps if s.phase == "exponential"]
    assert counts == [1000 * 2**k for k in range(1, 11)]
    keys = [t.key for t in found.trials]
    assert len(set(keys)) == len(keys)


def test_a_slower_table_is_carried_above_gamma_only():
    device = {"insertion_cps": 500_000.0, "slow_from": 40_000}
    kept = capacity_of(door(**device, slow_insertion_share=0.6), most=200_000)
    assert (kept.capacity, kept.first_failed) == (200_000, None)
    lost = capacity_of(door(**device, slow_insertion_share=0.2), most=200_000, beta=0.3)
    assert lost.capacity == 40_000
    between = capacity_of(door(**device, slow_insertion_share=0.2), most=200_000, beta=0.1)
    assert between.capacity == 200_000  # above beta all along: the table only gets slower
    assert between.rate_cps < 0.25 * between.first_rate_cps


def by_number(rate_of):
    """A device that makes so many connections at any rate up to ``rate_of(connections)``."""

    def measure(trial):
        asked = trial.connections
        lost = asked.rate_cps > rate_of(asked.count)
        learned = asked.count - lost
        found = PhaseOneResult(
            asked.count, asked.count, learned, validation_sent=learned, validated=learned
        )
        return TrialResult({}, connections=found)

    return Recorded(measure)


def test_the_binary_search_of_a_capacity_goes_by_gamma():
    """Between beta and gamma of the rate is enough to go on doubling, and too little at the end."""

    def rate(connections):
        if connections <= 40_000:
            return 400_000.0
        return 120_000.0 if connections <= 70_000 else 0.0

    found = by_number(rate)
    result = capacity_of(found, first=10_000, beta=0.1, gamma=0.5)
    assert (result.capacity, result.first_failed) == (40_000, 40_001)
    wider = capacity_of(by_number(rate), first=10_000, beta=0.1, gamma=0.25)
    assert (wider.capacity, wider.first_failed) == (70_000, 70_001)
    doubled = capacity_of(by_number(rate), first=35_000, most=70_000, beta=0.1, gamma=0.5)
    assert (doubled.capacity, doubled.first_failed) == (70_000, None)
    assert doubled.rate_cps <= 120_000


def test_rates_on_the_way_to_a_capacity_are_bounded_by_the_last_one():
    """R_S is the upper bound of the next search, also for a device that gets faster."""

    def rate(connections):
        return {1000: 300_000.0, 2000: 200_000.0}.get(
            connections, 500_000.0 if connections <= 6000 else 0.0
        )

    found = by_number(rate)
    result = capacity_of(found, most=8000)
    assert (result.capacity, result.first_failed) == (6000, 6001)
    rates = [step.rate_cps for step in result.steps if step.carried]
    assert rates == sorted(rates, reverse=True)
    for step, before in zip(result.steps[1:], result.steps, strict=False):
        tried = [t.rate_fps for t in found.trials if f"/{step.name}-" in t.key]
        bound = min(s.rate_cps for s in result.steps[: result.steps.index(before) + 1] if s.carried)
        assert max(tried) == bound, step
    assert [s.phase for s in result.steps[:4]] == ["first", *["exponential"] * 3]


def test_where_the_tester_falters_lower_rates_tell_of_the_table():
    """From 2,000 connections on, whatever is faster than 20,000 a second is the tester's limit."""

    def measure(trial):
        asked = trial.connections
        found = PhaseOneResult(
            asked.count, asked.count, asked.count, validation_sent=asked.count,
            validated=asked.count,
        )  # fmt: skip
        faltered = asked.count >= 2000 and asked.rate_cps > 20_000
        return TrialResult({}, ("its ring overflowed",) if faltered else (), connections=found)

    result = capacity_of(measure, most=8000)
    assert (result.capacity, result.first_failed) == (8000, None)
    assert 10_000 < result.rate_cps <= 20_000
    assert [s.carried for s in result.steps] == [True] * 4


def test_connections_that_are_not_validated_take_no_time_for_it():
    assert Connections(1000, 500.0).validation_s == 0.0
    assert Connections(1000, 500.0, alpha=0.5).validation_s == 4.0


def test_a_tester_that_falters_says_nothing_of_the_table():
    """Above 50,000 connections per second every trial is invalid."""
    tester = door(table_entries=70_001, tester_fps=50_000.0)
    result = capacity_of(tester, most=300_000)
    assert result.capacity == 70_001
    assert result.rate_cps <= 50_000
    nothing = door(table_entries=70_001, tester_fps=1.0)
    assert capacity_of(nothing, most=2000).capacity == 0


def test_capacity_needs_validated_rates():
    found = door(table_entries=5000)
    capacity_of(found, most=20_000)
    assert {t.connections.alpha for t in found.trials} == {1.0}


@pytest.mark.parametrize(
    "changes", [{"beta": 0.6}, {"gamma": 1.5}, {"first": 0}, {"first": 5_000_000}, {"error": 0}]
)
def test_a_capacity_search_that_cannot_work_is_refused(changes):
    with pytest.raises(ValueError, match="must"):
        capacity_of(door(), **changes)


def test_a20_phase_two_is_retaken_a_bounded_number_of_times():
    trial = Trial("throughput", "k", 84, 64, "bidirectional", 1000.0, 1.0)
    asked = Connections(1000, 10_000.0)
    tester = door(phase_one_loss=1, phase_one_loss_trials=2)
    prepared = Prepared(tester, asked)
    assert prepared(trial).directions["reverse"].count_frames("received") == 1000
    assert [t.key for t in tester.trials] == ["k", "k/p2", "k/p3"]
    assert prepared.finder({"k/p3": "it", "k": "not it"}.__getitem__)("k") == "it"
    with pytest.raises(PhaseOneFailed, match="999 of 1000"):
        Prepared(door(phase_one_loss=1, phase_one_loss_trials=4), asked)(trial)
    assert Prepared(door(phase_one_loss=1, phase_one_loss_trials=4), asked, 4)(trial).connections


def test_a_tester_that_falters_in_phase_one_is_named_as_such():
    trial = Trial("throughput", "k", 84, 64, "bidirectional", 1000.0, 1.0)

    def falters(asked):
        found = PhaseOneResult(required=1000, sent=1000, learned=990)
        return TrialResult({}, ("its receive ring overflowed",), connections=found)

    with pytest.raises(PhaseOneFailed, match="receive ring") as caught:
        Prepared(falters, Connections(1000, 10_000.0))(trial)
    assert caught.value.tester
    lossy = door(phase_one_loss=1, phase_one_loss_trials=10)
    with pytest.raises(PhaseOneFailed) as caught:
        Prepared(lossy, Connections(1000, 10_000.0))(trial)
    assert not caught.value.tester
    spec = TeardownSpec(at(invalid_retries=0), 1000, 10_000.0, "given", repetitions=1)
    with pytest.raises(PhaseOneFailed, match="its receive ring") as caught:
        measure_teardown(spec, falters)
    assert caught.value.tester


def established(**changes):
    return PhaseOneResult(**{"required": 100, "sent": 100, "learned": 100, **changes})


FAULTS = {
    "the Initiator sent 99 of 100 frames": {"sent": 99},
    "phase 1 took 0.200000 s, allowed 0.100001 s": {"sending_time_s": 0.2},
    "the validation took 0.200000 s, allowed 0.100001 s": {
        "validated": 100, "validation_sent": 100, "validation_time_s": 0.2,
    },
    "the Responder sent 98 of 100 frames": {
        "validated": 98, "validation_sent": 98, "validation_time_s": 0.1,
    },
}  # fmt: skip
FAILURES = {
    "1 of 100 connections were not forwarded": {"learned": 99},
    "surplus of 2 frames in phase 1": {"surplus": 2},
    "3 connections have the outside four-tuple of another": {"duplicate_tuples": 3},
    "the device counts 98 connections, the Responder learned 100": {"sessions": 98},
    "4 of 100 connections failed validation": {"validated": 96, "validation_sent": 100},
    "the connections were not validated": {},
}


@pytest.mark.parametrize("words", [*FAULTS, *FAILURES])
def test_a_verdict_tells_tester_and_device_apart(words):
    asked = Connections(100, 1000.0, alpha=1.0)
    trial = Trial("connection-rate", "k", 84, 64, "bidirectional", 1000.0, 0.1, connections=asked)
    given = {**FAULTS, **FAILURES}[words]
    verdict = judge_connections(trial, TrialResult({}, connections=established(**given)))
    assert verdict.reasons[0].startswith(words)
    assert not verdict.passed
    assert verdict.valid == (words in FAILURES)


def test_a_trial_without_connections_is_the_testers_fault():
    trial = Trial("connection-rate", "k", 84, 64, "forward", 1000.0, 0.1)
    verdict = judge_connections(trial, TrialResult({}))
    assert not verdict.valid
    assert not verdict.passed


def test_connections_survive_the_journal():
    tester = door(teardown_cps=1000.0)
    asked = Connections(100, 1000.0, alpha=0.5, purpose="tear-down")
    trial = Trial("teardown", "k", 84, 64, "bidirectional", 1000.0, 0.1, connections=asked)
    result = tester(trial)
    assert result.connections.validated == 100
    assert result.connections.flush_s == pytest.approx(0.1)
    assert result_from_json(result_to_json(result)) == result
    assert trial_to_json(trial)["connections"]["purpose"] == "tear-down"
    assert "connections" not in trial_to_json(Trial("t", "k", 84, 64, "forward", 1.0, 1.0))


def test_a_second_try_lowers_no_rate_at_which_others_are_attempted():
    found = door(table_entries=5000)
    offered = []

    def measured(trial):
        offered.append((trial.connections.count, trial.rate_fps))
        result = found(trial)
        if offered[-1] != (2000, UPPER_CPS):
            return result
        one_less = replace(result.connections, learned=result.connections.learned - 1)
        return replace(result, connections=one_less)

    fixed = {
        "fixed": True,
        "resolution_cps": UPPER_CPS / 2,
        "beta": 0.5,
        "gamma": 0.5,
        "most": 8000,
    }
    assert capacity_of(measured, **fixed).capacity == 5000
    assert {rate for count, rate in offered if count == 2000} == {UPPER_CPS, UPPER_CPS / 2}
    assert (4000, UPPER_CPS) in offered
    assert (5000, UPPER_CPS) in offered
    assert min(rate for _, rate in offered) == UPPER_CPS / 2


def test_ends_that_the_tester_did_not_send_are_its_own_fault():
    tester = sim(tcp_aging_s=3)
    tcp = Tcp(aging_s=60.0)
    asked = Connections(100, 1000.0, alpha=1.0, purpose="establish", tcp=tcp)
    trial = at().make_trial("tcp-rate", 1000.0, 0.1, mode="forward", connections=asked)
    preparing = TwoPhaseTester(tester, tester.table)
    whole = preparing.measure(trial)
    assert not whole.faults
    assert whole.connections.tcp.expiry_s == 3.0
    disconnect = tester.disconnect

    def short(trial, connections):
        ended = disconnect(trial, connections)
        ((name, counted),) = ended.result.classes.items()
        classes = {name: replace(counted, sent=counted.sent - 1)}
        tester.wait(1.25)  # for answers: the device's time runs
        return replace(ended, result=replace(ended.result, classes=classes))

    tester.disconnect = short
    result = preparing.measure(trial)
    (fault,) = result.faults
    assert "99 of 100" in fault
    assert 3.0 <= result.connections.tcp.expiry_s < 4.0
