"""How a process that v6t started is ended, and no other."""

from __future__ import annotations

import os
import subprocess

import pytest
from v6t.drivers.duts import steps

from .field import until


@pytest.fixture
def sleeper():
    started = subprocess.Popen(["sleep", "60"])
    yield started
    started.kill()
    started.wait()


def stop(pid_file, name):
    """Its status; who is killed is this process's child, and has to be fetched."""
    return subprocess.Popen(["sh", "-c", steps.stop_process(str(pid_file), name)])


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


@pytest.mark.parametrize("fate", ["at work", "its leader has ended"])
def test_all_that_ours_leads_are_ended(fate, tmp_path):
    """And no process that is not called so, though it has the group's number."""
    file = tmp_path / "pid"
    file.write_text("")
    command = steps.build_background_command(str(file), 'sh -c "sleep 61 & sleep 62; true"')
    subprocess.run(["sh", "-c", command], check=True)
    until(lambda: file.read_text().strip(), "its number")
    leader = int(file.read_text())
    until(lambda: len(group(leader)) == 3, "its processes")
    if fate != "at work":
        os.kill(leader, 9)
    assert (
        subprocess.run(["sh", "-c", steps.stop_group(str(file), "nobody")], check=False).returncode
        == 0
    )
    assert "sleep 61" in group(leader)
    file.write_text(f"{leader}\n")
    assert (
        subprocess.run(["sh", "-c", steps.stop_group(str(file), "sleep")], check=False).returncode
        == 0
    )
    assert group(leader) == []


def group(leader):
    """What runs in a group of processes."""
    said = subprocess.run(
        ["ps", "-eo", "pgid=,stat=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(maxsplit=2) for line in said.stdout.splitlines()]
    return [row[2] for row in rows if row[0] == str(leader) and row[1][0] != "Z"]


def test_one_that_does_not_end_is_told(tmp_path):
    deaf = subprocess.Popen(["sh", "-c", "trap '' TERM; while :; do sleep 1; done"])
    file = tmp_path / "pid"
    file.write_text(f"{deaf.pid}\n")
    try:
        assert stop(file, "sh").wait(60) != 0
        assert file.read_text() == f"{deaf.pid}\n", "the next try would find nothing to do"
    finally:
        deaf.kill()
        deaf.wait()


def test_nothing_runs_whose_number_could_not_be_kept(tmp_path):
    """On a full disk a file is made, and stays empty."""
    ran = tmp_path / "ran"
    line = steps.build_background_command("/dev/full", f"touch {ran}") + " wait"
    subprocess.run(["sh", "-c", line], check=True)
    assert not ran.exists()
    line = steps.build_background_command(str(tmp_path / "pid"), f"touch {ran}") + " wait"
    subprocess.run(["sh", "-c", line], check=True)
    assert ran.exists()
