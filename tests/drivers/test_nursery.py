"""Where the lab's workers come from, and what they know of the process that asked for them."""

from __future__ import annotations

import os
import signal

import pytest
from v6t.drivers.lab import channel
from v6t.drivers.lab.channel import Worker
from v6t.drivers.lab.privilege import available
from v6t.profiles.errors import TesterError

from . import faketrex

LAB, WHY = available()
pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(not LAB, reason=f"needs a lab: {WHY}"),
]
HOLDER = {"kind": "holder", "namespace": None}


@pytest.fixture
def worker():
    made = Worker("first holder", HOLDER)
    made.answer()
    yield made
    made.close()


def test_a_worker_lives_where_its_process_lives_now(worker, tmp_path, monkeypatch):
    """The nursery may be older than that."""
    monkeypatch.setenv("V6T_SAID_LATER", "heard")
    monkeypatch.chdir(tmp_path)
    later = Worker("second holder", HOLDER)
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
    lost = Worker("lost holder", {"kind": "holder", "namespace": 1 << 30})
    try:
        with pytest.raises(TesterError, match="the lost holder died: FileNotFoundError"):
            lost.answer()
    finally:
        lost.close()


def test_a_worker_that_was_killed_is_told_apart(worker):
    os.kill(worker.pid, signal.SIGTERM)
    with pytest.raises(TesterError, match=f"the first holder died: status -{signal.SIGTERM:d}"):
        worker.ask("run", command=["true"])


def test_workers_end_with_their_nursery_and_it_is_replaced(worker):
    made = channel._nursery
    assert made is not None
    os.kill(made.pid, signal.SIGKILL)
    with pytest.raises(TesterError, match="the first holder died"):
        worker.ask("run", command=["true"])
    later = Worker("second holder", HOLDER)
    try:
        later.answer()
        assert later.ask("run", command=["true"]) == (0, "")
        assert channel._nursery is not made
    finally:
        later.close()
