"""Runs without a device, with the ports of the tester connected to each other."""

import pytest
from v6t.core.config.resolve import resolve_setup
from v6t.core.config.warnings import list_setting_warnings
from v6t.core.runs.events import Listener
from v6t.core.runs.results import load_run, read_results
from v6t.core.runs.runner import execute
from v6t.core.runs.tester_capacity import SHORT_SELFTEST_SOURCE
from v6t.core.runs.trials import find_steal_time
from v6t.tests.core.support import v6t
from v6t.tests.core.test_measures import by_benchmark
from v6t.tests.expect import expect_refusal

pytestmark = pytest.mark.slow


def direct(plugin, *benchmarks, tester="sim", options=None, **procedure):
    return resolve_setup(
        plugin=plugin,
        tester=tester,
        tester_options={k: str(v) for k, v in (options or {}).items()},
        dut="cable",
        benchmarks=benchmarks,
        modes=("bidirectional",),
        procedure={"repetitions": 2, **procedure},
    )


def test_direct_connection_measures_the_tester(tmp_path):
    limits = {"tester_fps": 700_000, "capacity_fps": 1000, "delay_us": 500, "tester_delay_us": 3}
    setup = direct("ipv4-router", "throughput", "latency", options=limits)
    execute(setup, tmp_path / "out", Listener())
    found = by_benchmark(tmp_path / "out")
    assert 600_000 < found["throughput"]["median"] <= 714_000  # sending may take 1.02 times as long
    assert found["throughput"]["upper_bound"] > 1_200_000
    assert found["throughput"]["conditions"]["ceiling"] == SHORT_SELFTEST_SOURCE
    delays = found["latency"]["directions"]["forward"]["tl"]
    assert delays["median"] == pytest.approx(0.003, rel=0.01)
    assert any("no device" in c for c in read_results(tmp_path / "out")["caveats"])


def test_connections_are_made_without_a_device(tmp_path):
    count = {"connections": {"count": 5000, "validate_connections": False}}
    setup = direct("nat44", "connection-rate", options={"tester_fps": 90_000}, **count)
    execute(setup, tmp_path / "out", Listener())
    record = by_benchmark(tmp_path / "out")["connection-rate"]
    assert 60_000 < record["median"] <= 92_000
    assert record["conditions"]["device"] == "cable"


def test_direct_connection_needs_no_driver():
    said = list(list_setting_warnings(direct("ipv4-router", "throughput", tester="trex")))
    assert not any("no driver" in text for text in said)


def test_cable_rejects_options():
    done = v6t("run", "--plugin", "ipv4-router", "--dut", "cable", "--set-dut", "x=1", "--dry-run")
    expect_refusal(done, "unknown-setting")


@pytest.mark.lab
def test_real_frames_come_back_as_they_were_sent(tmp_path):
    setup = direct("mape-br", "throughput", tester="embedded", trial_duration_s=0.3, repetitions=1)
    execute(setup, tmp_path / "out", Listener())
    record = by_benchmark(tmp_path / "out")["throughput"]
    assert record["median"] > 0
    assert record["matched"] == 1.0
    measured = (t.result for t in load_run(tmp_path / "out").trials)
    assert all(
        0 <= find_steal_time(result) < 1 and "stolen" in result.tester for result in measured
    )
