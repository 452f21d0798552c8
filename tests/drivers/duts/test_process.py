"""How a process that v6t started is ended, and no other."""

from __future__ import annotations

import subprocess

import pytest
from v6t.drivers.duts.kinds.linux import process


@pytest.fixture
def sleeper():
    started = subprocess.Popen(["sleep", "60"])
    yield started
    started.kill()
    started.wait()


def stop(pid_file, name):
    """Its status; who is killed is this process's child, and has to be fetched."""
    return subprocess.Popen(["sh", "-c", process.stop(str(pid_file), name)])


def test_ours_is_ended(sleeper, tmp_path):
    file = tmp_path / "pid"
    file.write_text(f"{sleeper.pid}\n")
    stopping = stop(file, "sleep")
    assert sleeper.wait(20) == -15
    assert stopping.wait(20) == 0
    assert not file.exists()


def test_another_one_that_has_its_number_is_left_alone(sleeper, tmp_path):
    """And that is no failure: ours has ended long ago."""
    file = tmp_path / "pid"
    file.write_text(f"{sleeper.pid}\n")
    assert stop(file, "vpp_main").wait(20) == 0
    assert sleeper.poll() is None
    assert not file.exists()


@pytest.mark.parametrize("text", [None, "", "999999999\n"])
def test_where_none_is_there_is_nothing_to_do(text, tmp_path):
    file = tmp_path / "pid"
    if text is not None:
        file.write_text(text)
    assert stop(file, "sleep").wait(20) == 0
    assert not file.exists()


def test_one_that_does_not_end_is_told(tmp_path):
    deaf = subprocess.Popen(["sh", "-c", "trap '' TERM; while :; do sleep 1; done"])
    file = tmp_path / "pid"
    file.write_text(f"{deaf.pid}\n")
    try:
        assert stop(file, "sh").wait(30) != 0
    finally:
        deaf.kill()
        deaf.wait()
