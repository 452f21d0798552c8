"""Worker processes of the lab: start, inheritance, errors, and packet steering."""

import os
import re
import signal
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from multiprocessing import forkserver
from pathlib import Path

import pytest
from v6t.base.errors import ExtensionError, TesterError
from v6t.drivers.lab import workers
from v6t.drivers.lab.namespaces import Holder, Lab
from v6t.drivers.lab.workers import PROCESS_TITLE, Worker
from v6t.tests.expect import expect_error
from v6t.tests.needs import needs_lab

from . import faketrex

pytestmark = [pytest.mark.lab, needs_lab]


@pytest.fixture(params=["fork", "forkserver"])
def start(request, monkeypatch):
    """Return a function that starts holders by ``fork`` or by the fork server."""
    monkeypatch.setattr(workers, "_has_one_thread", lambda: request.param == "fork")
    with ExitStack() as stack:

        def start_holder(target=None, *, is_started=True):
            worker = stack.enter_context(closing(Worker("holder", Holder, target=target)))
            if is_started:
                worker.answer()
            return worker

        yield start_holder


def test_worker_gets_current_environment_and_directory(start, tmp_path, monkeypatch):
    first = start()
    monkeypatch.setenv("V6T_LATER", "value")
    monkeypatch.chdir(tmp_path)
    second = start()
    answer = second.ask("run", command=["sh", "-c", "echo $V6T_LATER; pwd"])
    assert answer == (0, f"value\n{tmp_path}\n")
    assert first.ask("run", command=["sh", "-c", "echo $V6T_LATER"]) == (0, "\n")
    second.close()
    assert faketrex.has_ended(second.pid)
    assert not faketrex.has_ended(first.pid)


def test_worker_that_cannot_start_is_reported(start):
    with expect_error("worker-failed"):
        start(1 << 30)


def test_worker_leaves_no_file_behind(start, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    start()
    assert not list(tmp_path.iterdir())


def test_unpicklable_request_is_an_extension_error(start):
    with expect_error("worker-failed", kind=ExtensionError):
        start().submit("run", command=lambda: None)


@pytest.mark.parametrize("end", [Worker.close, lambda worker: os.kill(worker.pid, signal.SIGTERM)])
@pytest.mark.parametrize("is_started", [True, False])
def test_ended_worker_is_reported(start, end, is_started):
    worker = start(is_started=is_started)
    end(worker)
    with expect_error("worker-failed", kind=TesterError):
        worker.ask("run", command=["true"])
        if not is_started:
            worker.answer()  # the first answer may be that of the start


@pytest.mark.parametrize("start", ["forkserver"], indirect=True)
def test_fork_server_that_died_is_replaced(start):
    worker = start()
    os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
    assert worker._pipe.poll(30)
    with expect_error("worker-failed"):
        worker.ask("run", command=["true"])
    later = start()
    assert later.ask("run", command=["true"]) == (0, "")


def test_worker_inherits_neither_files_nor_handlers(start):
    """An inherited file would keep the parent's lock, and an inherited handler would run twice."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with tempfile.TemporaryFile() as file:
            worker = start()
            process = Path(f"/proc/{worker.pid}")
            files = {os.readlink(link) for link in (process / "fd").iterdir()}
            assert os.readlink(f"/proc/self/fd/{file.fileno()}") not in files
        (caught,) = re.findall(r"SigCgt:\s*(\w+)", (process / "status").read_text())
        assert not int(caught, 16) >> (signal.SIGTERM - 1) & 1
        assert os.getsid(worker.pid) == worker.pid
        assert (process / "cmdline").read_bytes().rstrip(b"\0") == PROCESS_TITLE.encode()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_process_with_threads_is_not_forked():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()  # the thread waits for further work
        assert not workers._has_one_thread()


def read_masks(holder):
    queues = "cd /sys/class/net; for n in *; do echo $n $(cat $n/queues/rx-*/rps_cpus); done"
    status, output = holder.ask("run", command=["sh", "-c", queues])
    assert status == 0
    lines = [line.split() for line in output.splitlines()]
    return {name: {int(mask.replace(",", ""), 16) for mask in masks} for name, *masks in lines}


@pytest.mark.skipif(os.geteuid() != 0, reason="packet steering needs root")
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
