"""Bottlenecks that are planted in real devices: each verdict names the one that is there.

No rate and no time is compared: a trial offers what the planted part cannot take, on any machine.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from pathlib import Path

import pytest
from v6t.core.config.files import Flags
from v6t.core.config.resolve import resolve_and_bind
from v6t.core.runs import bottleneck
from v6t.core.runs.bench import Bench, compile_point
from v6t.drivers.duts.bottleneck import verdict_of
from v6t.drivers.duts.shape import shaped
from v6t.drivers.lab.privilege import available
from v6t.procedures.trial import Trial
from v6t.tests.core.support import v6t, v6t_process

from .test_devices import missing

POSSIBLE, WHY = available()
pytestmark = [
    pytest.mark.lab,
    pytest.mark.slow,
    pytest.mark.skipif(not POSSIBLE, reason=WHY),
]
CGROUPS = Path("/sys/fs/cgroup")


def needs(driver):
    lacking = missing(driver, "in the lab")
    return pytest.mark.skipif(lacking is not None, reason=f"needs {lacking}")


@contextmanager
def device(plugin, dut, **options):
    """A device that stands, and what sends a few seconds through it and tells what was seen."""
    bound = resolve_and_bind(flags=Flags(plugin, dut=dut, dut_params=options))
    tool = bound.technology
    sizes = tool.sizes_of(bound.settings.frame_sizes[0])
    bench = Bench(bound)

    def watched(rate_fps, mode="bidirectional"):
        trial = Trial(
            *("bottleneck", "bottleneck/planted", sizes.ipv6, sizes.ipv4, mode),
            rate_fps=rate_fps,
            duration_s=5.0,
            residual_wait_s=0.3,
            pause_s=0.0,
        )
        watcher = session.watcher()
        try:
            bench.measure(trial)
        finally:
            samples = watcher.stop()
        return samples

    try:
        bench.load(compile_point(tool, sizes, bound.settings.seed))
        bench.open()
        ((_, session),) = bench.session.devices()
        yield session, watched
    finally:
        bench.close()


@contextmanager
def quota(pid, share):
    """A cgroup that gives a process this share of one core."""
    old = CGROUPS / "cpu"
    place = (old if (old / "cgroup.procs").exists() else CGROUPS) / f"v6t-test-{os.getpid()}"
    was = f"0::{_path(pid, '')}" if place.parent == CGROUPS else _path(pid, "cpu")
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
        home = place.parent / was.removeprefix("0::").lstrip("/")
        (home / "cgroup.procs").write_text(str(pid))
        place.rmdir()


def _path(pid, controller):
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    found = [line.split(":", 2) for line in lines]
    return next((path for _, kinds, path in found if controller in kinds.split(",")), "/")


def host_pid(session, file):
    """A process of the device by its number on this machine."""
    inner = session.transport.run(f"cat {file}").out.strip()
    space = os.readlink(f"/proc/{session.transport.pid}/ns/pid")
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            numbers = next(line for line in status.open() if line.startswith("NSpid:")).split()
            if numbers[-1] == inner and os.readlink(status.parent / "ns" / "pid") == space:
                return int(status.parent.name)
        except (OSError, StopIteration):
            continue  # it ended meanwhile
    raise AssertionError(f"no process {inner}")


@needs("tayga")
def test_a_core_that_a_cgroup_limits():
    with device("siit", "tayga") as (session, watched):
        pid = host_pid(session, "/run/v6t/tayga.pid")
        with quota(pid, 0.02):
            samples = watched(6000)
    verdict, told = verdict_of(samples), shaped(samples)
    assert verdict.limited_by == "cpu", verdict
    assert "held" in verdict.says or "hold" in verdict.says
    # what it was given is a small part of what it asked for
    assert told.process["wait"] > 5 * told.process["run"]


@needs("tayga")
def test_a_queue_that_is_full():
    with device("siit", "tayga", queue_length="1") as (_, watched):
        samples = watched(2000)
    verdict, told = verdict_of(samples), shaped(samples)
    assert verdict.limited_by == "queue", verdict
    assert "tun v6t-nat64 tx.dropped" in verdict.says
    assert told.drops["tun v6t-nat64 tx.dropped"] > 100


@needs("nftables")
@pytest.mark.alone
def test_a_table_that_is_full():
    """32 ports in place of all of them, behind the driver's back: a NAT's table is its ports, too."""
    with device("nat44", "nftables") as (session, watched):
        fewer = "sed s/:1024-65535/:1024-1055/ /run/v6t/v6t.nft | nft -f -"
        assert session.transport.run(fewer).status == 0
        samples = watched(500, "forward")
    verdict, told = verdict_of(samples), shaped(samples)
    assert verdict.limited_by == "table", verdict
    assert told.table["used"] < 4000
    assert "limit" in told.table


def test_a_tester_that_is_too_slow(tmp_path, monkeypatch):
    """The kernel forwards what the embedded tester sends, and more."""
    run = tmp_path / "run.yaml"
    procedure = {
        "repetitions": 1,
        "trial_duration_s": 0.4,
        "pause_s": 0.05,
        "residual_wait_s": 0.2,
        "resolution_ratio": 0.25,
        "sending_time_tolerance": 1.5,
        "invalid_retries": 1,
    }
    content = {"plugin": "ipv4-router", "modes": ["forward"], "procedure": procedure}
    run.write_text(json.dumps(content))
    bed = tmp_path / "testbed.yaml"
    bed.write_text(json.dumps({"dut": {"driver": "linux-router"}, "line_rate": "1G"}))
    out = tmp_path / "out"
    monkeypatch.setattr(bottleneck, "SHORTEST_S", 2.0)  # of what takes all cores
    # an ordinary user's namespace could not be left again
    start = v6t if os.geteuid() == 0 else v6t_process
    done = start("run", run, "--testbed", bed, "--bottleneck", "--no-report", "-o", out)
    assert done.status == 0, done.err
    results = json.loads((out / "results.json").read_text())
    assert results["results"][0]["tester_limited"]
    (watched,) = results["bottleneck"]
    assert watched["limited_by"] == "tester", watched
    assert "not asked for more" in watched["says"]
    assert set(watched["telemetry"]) == {"before", "found", "after"}
    assert watched["telemetry"]["found"]["cores"]
    assert watched["says"] in done.out
