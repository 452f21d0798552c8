"""The embedded tester and its lab with real frames, and cleanup of processes and namespaces."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
from v6t.base.errors import EnvironmentLacking
from v6t.drivers import clock
from v6t.drivers.lab import privilege
from v6t.drivers.lab.workers import Worker
from v6t.tests.core.support import COMMAND
from v6t.tests.expect import expect_error
from v6t.tests.needs import needs_lab
from v6t.trials.trial import DelayRequest, FlowStarts, Segment
from v6t.trials.verdict import assess_trial

from .duts.remote_site import wait_until
from .faketrex import has_ended, list_descendants
from .lab_testers import measure_passed, open_tester, write_testbed

pytestmark = [pytest.mark.lab, needs_lab]
# Each of five flows starts 50 ms after the previous one.
STARTS = FlowStarts(5, 0.05)


def test_lost_frames_have_an_example_and_times(tmp_path):
    bed = write_testbed(tmp_path, "dut: {options: {faults: {drop_every: 100}}}\n")
    with open_tester("embedded", testbed=bed) as (tester, trial):
        result = tester.measure(replace(trial, mode="forward", rate_fps=1000.0))
        counted = result.directions["forward"]
        assert counted.count_frames("received") == 990
        assert counted.missing["received"] == ""
        assert counted.first_lost_s == pytest.approx(0.099, abs=0.001)
        assert counted.last_lost_s == pytest.approx(0.999, abs=0.001)


@pytest.mark.parametrize(("mtu", "vlan", "size"), [(1500, 7, 108), (9216, "null", 9000)])
def test_frames_in_vlans_and_jumbo_frames_match(tmp_path, mtu, vlan, size):
    side = f"{{mtu: {mtu}, vlan: {vlan}}}"
    bed = write_testbed(tmp_path, f"links: {{left: {side}, right: {side}}}\n")
    with open_tester("embedded", size=size, testbed=bed) as (tester, trial):
        result = measure_passed(tester, trial, rate_fps=300.0, duration_s=0.5)
        assert all(d.checked == d.matched > 0 for d in result.directions.values())


@pytest.fixture(scope="module")
def tester_with_two_classes():
    """Provide a tester with foreground and background in equal parts."""
    with open_tester("embedded", size=128, params={"n": "2", "m": "1"}) as (tester, trial):
        yield tester, replace(trial, rate_fps=2000.0, duration_s=0.5, residual_wait_s=0.5)


def test_frames_with_a_timeout_are_stamped_in_small_batches(tester_with_two_classes):
    """In a large batch, frames would wait for others, which would increase the delay that is judged."""
    tester, trial = tester_with_two_classes
    with patch.object(Worker, "submit", autospec=True, side_effect=Worker.submit) as submit:
        tester.measure(replace(trial, frame_timeout_s=0.5, duration_s=0.1))
    orders = [order for order in submit.mock_calls if order.args[1] == "send"]
    assert {order.kwargs["timed"] for order in orders} == {True}


def test_delays_are_measured_while_flows_start(tester_with_two_classes):
    """Every frame is timed; IPDV uses consecutive frames (RFC 8219, section 10.2.2)."""
    delays = DelayRequest(ipdv=True)
    result = measure_passed(*tester_with_two_classes, flow_starts=STARTS, delays=delays)
    for counted in result.directions.values():
        for name in counted.classes:
            assert (counted.delays[name].frames, counted.delays[name].lost) == (400, 0)
            assert (counted.ipdv[name].frames, counted.ipdv[name].lost) == (399, 0)
        assert counted.first_lost_s is counted.last_lost_s is None


def test_second_rate_follows_flows_that_start_at_intervals(tester_with_two_classes):
    changes = {"flow_starts": STARTS, "second_segment": Segment(1000.0, 0.2)}
    result = measure_passed(*tester_with_two_classes, **changes)
    for counted in result.directions.values():
        assert {(c.required, c.sent) for c in counted.classes.values()} == {(500, 500)}
        assert counted.checked == counted.matched > 0
        assert counted.last_lost_s is None


def measure_with_stopped_receiver(continues_s, **changes):
    """Measure a trial whose receiver is stopped after 0.25 s and continued later; return both."""
    with open_tester("embedded", loopback=True) as (tester, trial):
        receiver = tester._receivers["forward"]
        forward = replace(trial, mode="forward", **changes)
        tester.measure(replace(forward, rate_fps=1000.0, duration_s=0.2))  # fills caches
        for after_s, number in ((0.25, signal.SIGSTOP), (continues_s, signal.SIGCONT)):
            timer = threading.Timer(after_s, os.kill, (receiver.pid, number))
            timer.start()
        result = tester.measure(forward)
        timer.join()
        return forward, result


@pytest.mark.alone  # stops the receiver in the middle of a trial
def test_overflow_of_receive_ring_makes_trial_invalid():
    changes = {"rate_fps": 60_000.0, "duration_s": 2.0, "residual_wait_s": 1.0}
    trial, result = measure_with_stopped_receiver(2.6, **changes)
    assert not assess_trial(trial, result, sending_time_tolerance=1.5).valid
    assert any("receive ring overflowed" in f for f in result.faults), result.faults


@pytest.mark.alone  # stops the receiver until the trial has ended
def test_frames_that_wait_in_the_receive_ring_are_not_lost():
    changes = {"rate_fps": 20_000.0, "duration_s": 1.0, "residual_wait_s": 0.15}
    _, result = measure_with_stopped_receiver(3.0, **changes)
    (count,) = result.directions["forward"].classes.values()
    assert (count.received, result.faults) == (count.sent, ())


def test_stepped_clock_makes_trial_invalid():
    """A step of the wall clock, which stamps frames, changes delays of frames in flight."""
    real, steps = time.time_ns, chain([0] * clock.READINGS, repeat(3_000_000_000))
    with open_tester("embedded", loopback=True) as (tester, second):
        trial = replace(second, duration_s=0.2)
        with patch.object(time, "time_ns", lambda: real() + next(steps)):
            result = tester.measure(trial)
        assert not assess_trial(trial, result).valid
        assert any("the clock was stepped by +3.000000 s" in fault for fault in result.faults)
        assert result.is_disturbed
        measure_passed(tester, trial)


def read_namespaces(pids):
    """Return the network namespaces of those processes that exist."""
    namespaces = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            namespaces.add(os.readlink(f"/proc/{pid}/ns/net"))
    return namespaces


def test_killed_run_leaves_no_processes(tmp_path):
    command, null = [*COMMAND, "run", "--plugin", "mape-br", "-o", "out"], subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=tmp_path, stdout=null, stderr=null)

    def find_namespaces():
        return read_namespaces(list_descendants(process.pid)) - read_namespaces(["self"])

    try:
        wait_until(lambda: len(find_namespaces()) >= 2, "the namespaces of the lab")
        wait_until(lambda: len(list_descendants(process.pid)) >= 6, "the workers of the lab")
        workers, namespaces = list_descendants(process.pid), find_namespaces()
        assert len(namespaces) >= 2
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: all(map(has_ended, workers)), "the end of all workers", 30)
    wait_until(lambda: not namespaces & read_namespaces(os.listdir("/proc")), "their end", 30)


# Runs a command as user nobody, with these directories at their paths: `sh -c AS_NOBODY sh DIRECTORY... -- COMMAND`.
AS_NOBODY = """
set -e
seen=$(mktemp -d); mount -t tmpfs -o mode=755 tmpfs "$seen"
while [ "$1" != -- ]; do
    mkdir -p "$seen$1"; mount --bind "$1" "$seen$1"; shift
done
shift
cd "$seen"
for top in *; do [ ! -d "$top" ] || { chmod 1777 "$top"; mount --rbind "$top" "/$top"; }; done
mkdir -p /tmp/v6t-nobody; chown 65534:65534 /tmp/v6t-nobody; cd /tmp/v6t-nobody
exec setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/tmp/v6t-nobody "$@"
"""
# Measures a trial from v6t's entry point.
MEASURE_AS_USER = """
import os
from v6t.core.cli import entry, main
def measure():
    import numpy
    from v6t.drivers.lab.privilege import acquire
    assert os.geteuid() == 65534
    how = acquire()
    from v6t.tests.drivers.lab_testers import open_tester, measure_passed
    with open_tester("embedded") as lab:
        print(how, bool(measure_passed(*lab, rate_fps=1000.0, duration_s=0.2)))
main.main = measure
entry.main()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="without root, all tests run as an ordinary user")
def test_ordinary_user_has_lab_in_user_namespace():
    """v6t enters the namespace before numpy starts threads."""
    paths = {Path(p).resolve() for p in (sys.prefix, sys.base_prefix, Path(__file__).parents[2])}
    hidden = [p for p in paths if not all(one.stat().st_mode & 1 for one in (p, *p.parents))]
    command = [*hidden, "--", sys.executable, "-c", MEASURE_AS_USER]
    words = ["unshare", "-m", "sh", "-c", AS_NOBODY, "sh", *command]
    result = subprocess.run(words, capture_output=True, text=True, check=False, timeout=100)
    assert result.stdout.splitlines()[-1:] == ["user namespace True"], result


def test_process_with_threads_has_hint_about_starting_python(monkeypatch):
    fail = Mock(side_effect=OSError(errno.EINVAL, "unshare: Invalid argument"))
    monkeypatch.setattr(privilege, "find_problem", lambda: None)
    monkeypatch.setattr(privilege.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(privilege.netns, "become_root_of_new_user_namespace", fail)
    with expect_error("missing-permission", kind=EnvironmentLacking) as raised:
        privilege.acquire()
    assert "OPENBLAS_NUM_THREADS=1" in raised.value.hint
