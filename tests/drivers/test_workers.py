"""Worker processes of the lab: how they are started, and what they inherit."""

import os
import signal
import threading
from contextlib import closing
from multiprocessing import forkserver
from pathlib import Path

import pytest
from v6t.drivers.lab import workers
from v6t.drivers.lab.namespaces import Holder, Lab
from v6t.drivers.lab.workers import PROCESS_TITLE, Worker
from v6t.tests.expect import expect_error
from v6t.tests.needs import needs_lab

from . import faketrex

pytestmark = [pytest.mark.lab, needs_lab]


@pytest.fixture(params=["fork", "forkserver"])
def start(request, monkeypatch):
    """Start holders by either mechanism, despite pytest's threads."""
    monkeypatch.setattr(workers, "_has_one_thread", lambda: request.param == "fork")
    started = []

    def start_holder(target=None):
        started.append(Worker("holder", Holder, target=target))
        return started[-1]

    yield start_holder
    for worker in started:
        worker.close()


def test_worker_gets_present_environment_and_directory(start, tmp_path, monkeypatch):
    first = start()
    first.answer()
    monkeypatch.setenv("V6T_SAID_LATER", "heard")
    monkeypatch.chdir(tmp_path)
    second = start()
    second.answer()
    answer = second.ask("run", command=["sh", "-c", "echo $V6T_SAID_LATER; pwd"])
    assert answer == (0, f"heard\n{tmp_path}\n")
    assert first.ask("run", command=["sh", "-c", "echo $V6T_SAID_LATER"]) == (0, "\n")
    second.close()
    assert faketrex.has_ended(second.pid)
    assert not faketrex.has_ended(first.pid)


def test_worker_that_cannot_start_is_reported(start):
    with expect_error("worker-failed"):
        start(1 << 30).answer()


def test_worker_killed_by_a_signal_is_reported(start):
    worker = start()
    worker.answer()
    os.kill(worker.pid, signal.SIGTERM)
    with expect_error("worker-failed"):
        worker.ask("run", command=["true"])


@pytest.mark.parametrize("start", ["forkserver"], indirect=True)
def test_fork_server_that_died_is_replaced(start):
    worker = start()
    worker.answer()
    os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
    assert worker._pipe.poll(30)
    with expect_error("worker-failed"):
        worker.ask("run", command=["true"])
    later = start()
    later.answer()
    assert later.ask("run", command=["true"]) == (0, "")


def test_worker_inherits_neither_files_nor_handlers(start):
    """An inherited file would hold the parent's lock; a handler would run twice."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    reader, writer = os.pipe()
    try:
        worker = start()
        worker.answer()
        files = {os.readlink(f"/proc/{worker.pid}/fd/{n}") for n in range(3, 64)
                 if os.path.lexists(f"/proc/{worker.pid}/fd/{n}")}  # fmt: skip
        assert not files & {os.readlink(f"/proc/self/fd/{reader}")}
        status = Path(f"/proc/{worker.pid}/status").read_text()
        caught = next(r for r in status.splitlines() if r.startswith("SigCgt"))
        assert not int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1
        assert os.getsid(worker.pid) == worker.pid
        title = Path(f"/proc/{worker.pid}/cmdline").read_bytes().rstrip(b"\0")
        assert title == PROCESS_TITLE.encode()
    finally:
        os.close(reader)
        os.close(writer)
        signal.signal(signal.SIGTERM, before)


def test_process_with_threads_is_not_forked():
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        assert not workers._has_one_thread()
    finally:
        end.set()
        thread.join()


QUEUES = "cd /sys/class/net; for n in *; do echo $n $(cat $n/queues/rx-*/rps_cpus); done"


def read_masks(holder):
    status, output = holder.ask("run", command=["sh", "-c", QUEUES])
    assert status == 0
    return {
        words[0]: {int(m.replace(",", ""), 16) for m in words[1:]}
        for words in map(str.split, output.splitlines())
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="the kernel lets root alone steer")
def test_only_lab_cables_are_steered():
    here, last = set(os.listdir("/sys/class/net")), max(os.sched_getaffinity(0))
    with closing(Lab(1500, 1500)) as lab:
        steered, why = lab.steer([1000])  # a missing CPU is reported
        assert steered == [] and why
        assert read_masks(lab.tester)["left"] == {0}
        steered, why = lab.steer([0])
        assert (len(steered), why) == (4, "")
        for holder in (lab.tester, lab.device):
            assert read_masks(holder) == {"left": {1}, "right": {1}, "lo": {0}}
        assert set(os.listdir("/sys/class/net")) == here  # the /sys of other processes is unchanged
        assert lab.steer([last]) == ([], "")  # existing steering is kept
        assert read_masks(lab.device)["left"] == {1}
