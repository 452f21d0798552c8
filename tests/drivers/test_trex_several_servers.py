"""Two real TRex servers as one tester, each with its own lab and device."""

import os
import signal
import threading
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
from v6t.base.errors import TesterError
from v6t.core.runs.bench import make_tester
from v6t.drivers.oracle.two_phase import TwoPhaseTester
from v6t.drivers.several.tester import SeveralTesters
from v6t.procedures.stateful.phases import judge_connections
from v6t.tests.needs import needs_lab, needs_trex
from v6t.trials.connections import Connections
from v6t.trials.trial import DelayRequest

from . import faketrex
from .lab_testers import TRIES, load, make_tester_setup, measure_passed

pytestmark = [pytest.mark.trex, needs_trex, needs_lab]
COUNT = 20_000


@contextmanager
def open_servers(plugin, **flags):
    setup = make_tester_setup("trex", plugin, **flags)
    members = {name: make_tester(setup) for name in "ab"}
    with closing(SeveralTesters("trex", members, max_skew_share=0.2)) as tester:
        tester.open()
        trial = load(tester, setup, 128)
        yield tester, replace(trial, rate_fps=4000.0, duration_s=2.0), members


@pytest.fixture(scope="module")
def router():
    with open_servers("ipv4-router") as servers:
        yield servers


@pytest.mark.parametrize("delays", [None, DelayRequest(tags=100)])
def test_frames_and_delays_of_both_servers_are_merged(router, delays):
    tester, trial, _ = router
    result = measure_passed(tester, trial, delays=delays)
    for counted in result.directions.values():
        assert counted.count_frames("sent") == counted.count_frames("received") == 8000
        assert counted.checked == counted.matched > 100
        timed = sum(d.frames + d.lost for d in counted.delays.values())
        assert timed == (delays.tags if delays else 0)
    assert set(result.tester["servers"]) == {"a", "b"}


def test_killed_server_is_named(router):
    tester, trial, members = router

    def kill():
        for pid in faketrex.list_descendants(members["b"].attachment.server.pid):
            os.kill(pid, signal.SIGKILL)

    timer = threading.Timer(1.0, kill)
    timer.start()
    with pytest.raises(TesterError, match="server b"):
        tester.measure(trial)
    timer.join()


def test_connections_are_divided_learned_and_validated():
    with open_servers("nat44", dut="nftables", procedure={"connections.count": str(COUNT)}) as (
        tester, trial, members,
    ):  # fmt: skip
        asked = Connections(COUNT, 10_000.0, wait_s=1.0, alpha=1.0, purpose="establish")
        phase_one = replace(trial, connections=asked)
        bench = TwoPhaseTester(tester, None)
        for _ in range(TRIES):
            result = bench.measure(phase_one)
            verdict = judge_connections(phase_one, result, sending_time_tolerance=1.5)
            if verdict.passed:
                break
            for member in members.values():
                member.device_state().flush()
        assert verdict.passed, (verdict, result.faults)
        found = result.connections
        assert (found.learned, found.validated) == (COUNT, COUNT)
        states = [member.device_state().count_sessions() for member in members.values()]
        assert states == [COUNT // 2] * 2
        result = measure_passed(
            bench, replace(trial, connections=replace(asked, purpose="prepare", reuse=True))
        )
        for counted in result.directions.values():
            assert counted.count_frames("received") == 8000
            assert counted.checked == counted.matched > 100
