"""``v6t dut bottleneck`` names bottlenecks that are injected into real devices.

The run measures the unmodified device on a slow medium. The second measurement offers more load than the device
with the bottleneck forwards on any machine, so rates and times are not compared.
"""

import json
import os
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

import pytest
from v6t.core.cli import run_console
from v6t.core.runs import bottleneck
from v6t.core.runs.bench import Bench
from v6t.drivers.duts.session import telemetry as session_telemetry
from v6t.tests.core.support import v6t, v6t_process

from .support import in_lab, needs_device, run_shell

pytestmark = [*in_lab, pytest.mark.slow]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: v6t runs in this process")
CGROUPS = Path("/sys/fs/cgroup")
PROCEDURE = {
    "repetitions": 1, "selftest": "cached", "trial_duration_s": 0.4, "pause_s": 0.05, "residual_wait_s": 0.2,
    "resolution_ratio": 0.25, "sending_time_tolerance": 1.5, "invalid_retries": 1,
    "connections": {"count": 300, "rate_cps": 400, "wait_ms": 300},
}  # fmt: skip


def write_run_options(place, plugin, mode, driver, line_rate, procedure=PROCEDURE, **params):
    """Write the run file and the testbed file; return the arguments of ``v6t run``."""
    run, bed = place / "run.yaml", place / "testbed.yaml"
    content = {"plugin": plugin, "modes": [mode], "procedure": procedure, "params": params}
    run.write_text(json.dumps(content))
    bed.write_text(json.dumps({"dut": {"driver": driver}, "line_rate": line_rate}))
    return run, "--testbed", bed, "--no-report", "-o", place / "out"


@pytest.fixture(autouse=True)
def short_trials(monkeypatch):
    """Watch the device for less time, as the tester's processes use all cores, and more often."""
    monkeypatch.setattr(run_console, "WATCH_DURATION_S", 1.0)
    monkeypatch.setattr(bottleneck, "IDLE_SAMPLING_S", 0.5)
    monkeypatch.setattr(bottleneck, "MIN_TRIAL_S", 1.0)
    monkeypatch.setattr(session_telemetry, "WATCH_INTERVAL_S", 0.25)


@pytest.fixture
def find_bottleneck(tmp_path, monkeypatch):
    """Return a function that measures a device, injects a bottleneck and runs ``v6t dut bottleneck``."""

    def find(inject, *words, **params):
        result = v6t("run", *write_run_options(tmp_path, *words, **params))
        assert result.status == 0, result.err
        out = tmp_path / "out"

        class BenchWithBottleneck(Bench):
            injected = None

            def open(self):
                tester = super().open()
                if self.injected is None:
                    self.injected = ExitStack()
                    ((_, session),) = self.session.get_sessions()
                    self.injected.enter_context(inject(session))
                return tester

            def close(self):
                if self.injected is not None:
                    self.injected.close()
                super().close()

        monkeypatch.setattr(bottleneck, "Bench", BenchWithBottleneck)
        result = v6t("dut", "bottleneck", out, "--duration", "2")
        assert result.status == 0, result.err
        (watched,) = json.loads((out / "results.json").read_text())["bottleneck"]
        assert watched["says"] in result.out
        return watched, watched["telemetry"][watched["judged_at"]]

    return find


@contextmanager
def limit_cpu(pid, share):
    """Limit a process to a share of one core by a cgroup's quota."""
    old = CGROUPS / "cpu"
    place = (old if (old / "cgroup.procs").exists() else CGROUPS) / f"v6t-test-{os.getpid()}"
    try:
        place.mkdir()
        if place.parent == old:
            (place / "cpu.cfs_quota_us").write_text(str(int(100_000 * share)))
        else:
            (place / "cpu.max").write_text(f"{int(100_000 * share)} 100000")
        (place / "cgroup.procs").write_text(str(pid))
    except OSError as exc:
        if place.exists():
            place.rmdir()
        pytest.skip(f"no cgroup with a quota can be made here: {exc}")
    try:
        yield
    finally:
        (place.parent / "cgroup.procs").write_text(str(pid))
        place.rmdir()


@as_root
@needs_device("tayga")
def test_cgroup_cpu_limit_is_named_as_bottleneck(find_bottleneck):
    def inject(session):
        found = run_shell(f"pgrep --ns {session.transport.pid} --nslist pid -x tayga")
        return limit_cpu(int(found.stdout), 0.02)

    watched, telemetry = find_bottleneck(inject, "siit", "bidirectional", "tayga", "5M")
    assert watched["limited_by"] == "cpu", watched
    assert "quota" in watched["says"]
    # the process needs much more CPU time than the limit
    assert telemetry["process"]["wait"] > 5 * telemetry["process"]["run"]


@as_root
@needs_device("nftables")
@pytest.mark.alone
def test_exhausted_nat_ports_are_named_as_bottleneck(find_bottleneck):
    """The pool is reduced to 32 ports."""

    def inject(session):
        few = "sed s/:1024-65535/:1024-1055/ /run/v6t/v6t.nft | nft -f -"
        assert session.transport.run(few).status == 0
        return nullcontext()  # the rules end with the device

    one = {"min": 1, "max": 1}  # the NAT may use a port again for another destination port
    words = ("nat44", "forward", "nftables", "1M")
    watched, telemetry = find_bottleneck(inject, *words, responder_ports=one)
    assert watched["limited_by"] == "table", watched
    assert "conntrack insert_failed" in watched["says"]
    assert "limit" in telemetry["table"]


def test_slow_tester_is_named_as_bottleneck(tmp_path):
    procedure = {**PROCEDURE, "selftest": "run", "trial_duration_s": 0.1}
    words = write_run_options(tmp_path, "ipv4-router", "forward", "linux-router", "1G", procedure)
    # without root, a process cannot leave its user namespace
    start = v6t if os.geteuid() == 0 else v6t_process
    result = start("run", *words, "--bottleneck")
    assert result.status == 0, result.err
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["results"][0]["upper_bound_hit"]
    (watched,) = results["bottleneck"]
    assert watched["limited_by"] == "tester", watched
    assert set(watched["telemetry"]) == {"before", "found", "after"}
    assert watched["telemetry"]["found"]["cores"]
    assert watched["says"] in result.out
