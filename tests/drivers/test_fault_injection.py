"""Every tester finds every injected fault and reports no others."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from v6t.tests.needs import needs_lab
from v6t.trials.connections import Connections
from v6t.trials.verdict import assess_trial

from . import fault_injection
from .lab_testers import REAL
from .test_stateful_lab import StatefulLab

pytestmark = [pytest.mark.lab, needs_lab]


@pytest.fixture(scope="module", params=REAL)
def bench(request):
    with closing(fault_injection.FaultBench(request.param)) as bench:
        yield bench


@pytest.mark.parametrize("fault", fault_injection.FAULTS, ids=lambda fault: fault.name)
def test_injected_fault_of_device_or_tester_is_found(bench, fault):
    fault_injection.expect_found(bench.kind, fault, lambda: bench.try_fault(fault))


@pytest.mark.parametrize("kind", REAL)
def test_table_reset_during_trial_is_found(kind):
    with StatefulLab(kind) as lab:
        connections = Connections(300, 1000.0, wait_s=0.5, reuse=True)
        changes = {"mode": "reverse", "rate_fps": 1000.0, "duration_s": 1.0}
        trial = lab.trial(connections, **changes)
        tester = lab.bench.open()

        def reset():
            fault_injection.wait_for_frames(tester.list_namespaces()["device"], "right")
            time.sleep(0.1)
            tester.device_state().flush()

        def measure():
            for _ in range(fault_injection.MAX_TRIES):
                lab.use(connections, **changes)  # passes without a fault, and fills the table
                with ThreadPoolExecutor() as pool:
                    pool.submit(reset)
                    result = lab.bench.measure(trial)
                tolerance = fault_injection.SENDING_TIME_TOLERANCE
                verdict = assess_trial(trial, result, sending_time_tolerance=tolerance)
                if result.connections.is_complete and verdict.valid:
                    return fault_injection.Observation(trial, result, verdict)
            pytest.fail(f"no valid trial: {verdict.reasons}")

        fault_injection.expect_found(kind, fault_injection.RESET, measure)
