"""Every planted fault is found by every tester, and no others are reported."""

import shutil
import threading
import time
from dataclasses import replace

import pytest
from v6t.core.config.resolve import resolve
from v6t.core.config.run_setup import make_setup
from v6t.core.runs.bench import Bench, compile_directions
from v6t.drivers.duts.registry import make_driver
from v6t.tests.needs import needs_lab, needs_trex
from v6t.trials.connections import Connections
from v6t.trials.trial import Trial
from v6t.trials.verdict import assess_trial

from . import planted

pytestmark = [pytest.mark.lab, needs_lab]
KINDS = [pytest.param("embedded"), pytest.param("trex", marks=[pytest.mark.trex, needs_trex])]


@pytest.fixture(scope="module", params=KINDS)
def bench(request):
    made = planted.FaultBench(request.param)
    yield made
    made.close()


@pytest.mark.parametrize("fault", planted.FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(bench, fault):
    found, said = 0, []
    for _ in range(planted.get_repetitions()):
        seen, right = bench.try_fault(fault)
        found += right
        said.append("; ".join(seen.verdict.reasons))
    planted.add_record(bench.kind, fault, found, planted.get_repetitions(), said[-1])
    assert found == planted.get_repetitions(), said


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_is_reset_during_a_trial(kind):
    for program, package in make_driver("nftables", {}).programs.items():
        if shutil.which(program, path="/usr/sbin:/sbin:/usr/bin:/bin") is None:
            pytest.skip(f"needs the Debian package {package}")
    options = {"lab": "true"} if kind == "trex" else {}
    run = resolve(plugin="nat44", tester=kind, tester_options=options)
    setup = make_setup(run)
    sizes = setup.technology.make_frame_pair(run.frame_sizes[0])
    bench = Bench(setup)
    bench.load(compile_directions(setup.technology, sizes, run.seed))
    trial = Trial("planted", "reset", sizes.ipv6, sizes.ipv4, "reverse", 1000.0, 1.2, 0.5, 0.1,
                  connections=Connections(500, 1000.0, wait_s=0.5))  # fmt: skip

    def reset(tester, pid):
        planted.wait_for_frames(pid, "right")
        time.sleep(0.3)
        tester.device_state().flush()

    found, said = 0, []
    try:
        tester = bench.open()
        for _ in range(planted.get_repetitions()):
            assert measure_phase_two(bench, trial, None) is not None
            seen = measure_phase_two(
                bench, trial, lambda: reset(tester, tester.namespaces()["device"])
            )
            found += planted.RESET.found(seen)
            said.append("; ".join(seen.verdict.reasons))
    finally:
        bench.close()
    planted.add_record(kind, planted.RESET, found, planted.get_repetitions(), said[-1])
    assert found == planted.get_repetitions(), said


def measure_phase_two(bench, trial, meanwhile):
    """Measure a valid phase 2 trial; call ``meanwhile`` once its outside traffic has begun."""
    for _ in range(planted.MAX_TRIES):
        kept = replace(trial, connections=replace(trial.connections, reuse=meanwhile is not None))
        thread = None
        if meanwhile is not None:
            bench.measure(kept)  # the table is filled; the next trial uses it at once
            thread = threading.Thread(target=meanwhile)
            thread.start()
        result = bench.measure(kept)
        if thread is not None:
            thread.join()
        verdict = assess_trial(trial, result, sending_time_tolerance=planted.SENDING_TIME_TOLERANCE)
        if result.connections.is_complete and verdict.valid and (verdict.passed or meanwhile):
            return planted.Observation(trial, result, verdict)
    return None
