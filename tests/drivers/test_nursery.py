"""Where the lab's workers come from, and what they know of the process that asked for them."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from v6t.drivers.lab import channel, nursery
from v6t.drivers.lab.channel import Worker
from v6t.drivers.lab.nursery import TITLE
from v6t.drivers.lab.privilege import available
from v6t.drivers.lab.worker import Holder
from v6t.tests.expect import expect_error

from . import faketrex

LAB, WHY = available()
pytestmark = [pytest.mark.lab, pytest.mark.skipif(not LAB, reason=f"needs a lab: {WHY}")]


@pytest.fixture
def worker():
    made = Worker("first holder", Holder, target=None)
    made.answer()
    yield made
    made.close()


def test_a_worker_lives_where_its_process_lives_now(worker, tmp_path, monkeypatch):
    """The nursery may be older than that."""
    monkeypatch.setenv("V6T_SAID_LATER", "heard")
    monkeypatch.chdir(tmp_path)
    later = Worker("second holder", Holder, target=None)
    try:
        later.answer()
        told = later.ask("run", command=["sh", "-c", "echo $V6T_SAID_LATER; pwd"])
        assert told == (0, f"heard\n{tmp_path}\n")
        assert worker.ask("run", command=["sh", "-c", "echo $V6T_SAID_LATER"]) == (0, "\n")
    finally:
        later.close()
    assert faketrex.gone(later.pid)
    assert not faketrex.gone(worker.pid)


def test_last_words_of_a_worker():
    lost = Worker("lost holder", Holder, target=1 << 30)
    try:
        with expect_error("worker-failed"):
            lost.answer()
    finally:
        lost.close()


def test_a_worker_that_was_killed_is_told_apart(worker):
    os.kill(worker.pid, signal.SIGTERM)
    with expect_error("worker-failed"):
        worker.ask("run", command=["true"])


def test_workers_end_with_their_nursery_and_it_is_replaced(worker):
    made = channel._nursery
    assert made is not None
    os.kill(made.pid, signal.SIGKILL)
    end = time.monotonic() + 30
    while not faketrex.gone(worker.pid):
        assert time.monotonic() < end, "the worker lives on"
        time.sleep(0.01)
    with expect_error("worker-failed"):
        worker.ask("run", command=["true"])
    later = Worker("second holder", Holder, target=None)
    try:
        later.answer()
        assert later.ask("run", command=["true"]) == (0, "")
        assert channel._nursery is not made
    finally:
        later.close()


@contextmanager
def started_now(monkeypatch):
    """Id of a nursery that this process starts as it is at this moment."""
    monkeypatch.setattr(channel, "_nursery", None)
    made = Worker("holder", Holder, target=None)
    try:
        made.answer()
        assert made.ask("run", command=["true"]) == (0, "")
        yield channel._nursery.pid
    finally:
        made.close()
        os.kill(channel._nursery.pid, signal.SIGKILL)
        os.waitpid(channel._nursery.pid, 0)


def words(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")


def test_a_fork_has_nothing_of_its_owner(monkeypatch):
    """No file, else a lock outlives its owner; no handler, else a signal is obeyed twice."""
    # one of pytest's own may be there; nothing that a worker does waits for it
    monkeypatch.setattr(nursery, "_has_one_thread", lambda: True)
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    reader, writer = os.pipe()
    try:
        with started_now(monkeypatch) as pid:
            assert words(pid) == [TITLE.encode()]
            files = [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]
            os.close(writer)
            assert os.read(reader, 1) == b""
            assert sum(name.startswith("socket:") for name in files) == 1
            assert len(files) == 4
            status = Path(f"/proc/{pid}/status").read_text()
            caught = next(r for r in status.splitlines() if r.startswith("SigCgt"))
            assert not int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1
            assert os.getsid(pid) == pid
    finally:
        os.close(reader)
        signal.signal(signal.SIGTERM, before)


def test_a_process_with_threads_is_not_forked(monkeypatch):
    """A lock that another thread holds would be held for ever."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        with started_now(monkeypatch) as pid:
            assert b"v6t.drivers.lab.worker" in words(pid)
    finally:
        end.set()
        thread.join()
