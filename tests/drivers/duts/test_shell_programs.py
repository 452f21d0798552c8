"""Shell programs of a session, checked by shellcheck and run by shells of devices."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from v6t.drivers.duts.plan import Step
from v6t.drivers.duts.session import shell
from v6t.drivers.duts.session.connection import build_lock_script
from v6t.drivers.duts.session.plan_steps import make_undo_entry
from v6t.drivers.duts.session.shell import Section, build_batch_script, parse_sections
from v6t.drivers.duts.session.undo_store import build_timer_script, build_undo_script

from .remote_site import wait_until
from .support import FAULTS, make_record, mark_lab_test, run_shell

FILES = [*(Path(shell.__file__).parent / "sh").glob("*.sh"), FAULTS]
STEP = Step("true", "a link", undo="ip link del x", read="ip link show x", gone_test="false")
UNDO_SCRIPT = build_undo_script(make_record("/run/v6t", make_undo_entry(1, STEP, "")))
# Warnings about unused functions and functions that are called by number.
DISABLED = "# shellcheck disable=SC2317,SC2329,SC2046,SC2086\n"
PROGRAMS = {
    **{path.name: path.read_text() for path in sorted(FILES)},
    "generated undo script": UNDO_SCRIPT.replace("#!/bin/sh\n", f"#!/bin/sh\n{DISABLED}"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_passes_shellcheck(name):
    program = shutil.which("shellcheck") or str(Path(sys.executable).with_name("shellcheck"))
    if shutil.which(program) is None:
        pytest.skip("needs shellcheck")
    result = run_shell(f"{program} -s sh -", PROGRAMS[name], check=False)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("function", ["read_record", "list_parts", "read_state"])
def test_inaccessible_directory_is_an_error_and_a_missing_one_is_not(function, sh, tmp_path):
    denied = "cd() { false; }\n" + shell.build_call("state", function, directory=str(tmp_path))
    missing = shell.build_call("state", function, directory="/nonexistent")
    assert run_shell(denied, sh=sh, check=False).returncode == 1
    assert run_shell(missing, sh=sh, check=False).returncode == 0


def start(sh, text, **streams):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **streams}
    return subprocess.Popen([*sh, "-c", text], text=True, **pipes)


def take_lock(sh, place, owner):
    """Take a lock on a device whose ps cannot select a process, like that of BusyBox."""
    process = start(sh, "ps() { return 1; }\n" + build_lock_script(str(place), owner))
    return process, process.stdout.readline().strip()


def test_lock_rejects_other_owner_answers_beats_and_is_freed(sh, tmp_path):
    process, answer = take_lock(sh, tmp_path, "alice")
    assert answer == "locked"
    other, answer = take_lock(sh, tmp_path, "bob")
    assert answer == f"busy {process.pid} alice"
    other.communicate(timeout=60)
    out, _ = process.communicate("10.5\n11\n", timeout=60)
    assert out.split() == ["10.5", "11"]
    assert list(tmp_path.iterdir()) == []


def test_lock_is_freed_if_its_output_is_closed(sh, tmp_path):
    """If the connection is closed, the broken pipe ends the shell that holds the lock."""
    reads, writes = os.pipe()
    os.close(reads)
    with start(sh, build_lock_script(str(tmp_path), "alice"), stdout=writes) as process:
        os.close(writes)
        process.wait(60)
    assert list(tmp_path.iterdir()) == []


@mark_lab_test()
@pytest.mark.parametrize(("place", "answer"), [
    ("/run/v6t", "locked"), ("/usr", "foreign /usr belongs to user 65534")])  # fmt: skip
def test_lock_in_user_namespace_ignores_owner_of_root_directory_only(place, answer):
    script = f"mount -t tmpfs -o mode=755 tmpfs /run\n{build_lock_script(place, 'alice')}"
    user = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    assert run_shell(script, sh=(*user, "unshare", "-Urm", "sh")).stdout.splitlines() == [answer]


@pytest.mark.parametrize("form", ["{dead} alice", "{dead}:1 alice", "{other}:1 alice", "{other}:1 bob"])  # fmt: skip
def test_lock_of_dead_process_is_replaced(form, sh, tmp_path):
    """Another process may have the process ID of the dead one."""
    with subprocess.Popen(["true"]) as dead, subprocess.Popen(["sleep", "60"]) as other:
        dead.wait()
        (tmp_path / "lock").symlink_to(form.format(dead=dead.pid, other=other.pid))
        process, answer = take_lock(sh, tmp_path, "bob")
        assert answer == "locked"
        assert other.poll() is None
        process.communicate(timeout=60)
        other.kill()


def test_process_tree_is_found_without_ps(sh):
    stub = "ps() { false; }\n"
    with start(["sh"], "sleep 60 & echo $!; wait") as parent:
        child = parent.stdout.readline().strip()
        text = stub + shell.build_call("process", "stop_tree", str(parent.pid))
        numbers = run_shell(text, sh=sh).stdout.split()
        for number in numbers:
            os.kill(int(number), signal.SIGKILL)
    assert numbers == [str(parent.pid), child]


def start_timer(sh, place, undo, *, limit_s=1, **more):
    (place / "undo.sh").write_text(undo)
    (place / "guard").mkdir()
    (place / "guard/token").write_text("token\n")
    return start(sh, build_timer_script(str(place), "token", limit_s, **more))


def test_timer_undoes_and_kills_lock_holder_after_silence(sh, tmp_path):
    holder, _ = take_lock(sh, tmp_path, "alice")
    holder.send_signal(signal.SIGSTOP)
    assert start_timer(sh, tmp_path, "echo undone >state\n").wait(60) == 0
    assert holder.wait(60) == -signal.SIGKILL
    assert (tmp_path / "state").read_text() == "undone\n"
    assert "undid everything" in (tmp_path / "guard/fired").read_text()
    assert not (tmp_path / "lock").is_symlink()


def test_timer_with_a_deadline_does_not_wait_for_silence(sh, tmp_path):
    script = f"n=0; while sleep 0.2; do n=$((n + 1)); echo $n >{tmp_path}/beat; done"
    with subprocess.Popen([*sh, "-c", script]) as beats:
        status = start_timer(sh, tmp_path, "echo undone >state\n", absolute=True).wait(60)
        beats.kill()
    assert status == 0
    assert "1 s without a confirmation" in (tmp_path / "guard/fired").read_text()


def test_timer_retries_failed_undo(sh, tmp_path):
    assert start_timer(sh, tmp_path, "echo >>tries; exit 1\n").wait(60) == 0
    assert (tmp_path / "tries").read_text() == "\n\n\n"
    assert "not everything" in (tmp_path / "guard/fired").read_text()


def test_timer_reports_remaining_time_and_can_be_removed(sh, tmp_path):
    timer = start_timer(sh, tmp_path, "touch undone\n", limit_s=60)
    pid = tmp_path / "guard/pid"
    wait_until(lambda: pid.exists() and pid.read_text(), "the timer")
    (tmp_path / "lock").symlink_to("1 alice")
    text = shell.build_call("state", "read_state", directory=str(tmp_path))
    lock, remaining = run_shell(text, sh=sh).stdout.splitlines()
    assert lock == "lock 1 alice"
    assert remaining.startswith("remaining ")
    (tmp_path / "lock").unlink()
    run_shell(shell.build_call("state", "remove_timer", directory=str(tmp_path)), sh=sh)
    assert timer.wait(60) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["undo.sh"]


@pytest.mark.parametrize(("line", "start"), [
    (f"12 (a) b) S {' '.join(map(str, range(4, 50)))}", "22"),
    (f"12 (sh) Z {' '.join(map(str, range(4, 50)))}", ""),
    ("Ss+  Sat Nov 28 01:02:03 2026", "Sat Nov 28 01:02:03 2026"),
    ("Z    Sat Nov 28 01:02:03 2026", ""),
    ("", ""),
], ids=["Linux", "Linux zombie", "OpenBSD", "OpenBSD zombie", "nothing"])  # fmt: skip
def test_process_start_time_is_parsed(line, start, sh):
    text = shell.build_call("process", "start_of", line)
    assert run_shell(text, sh=sh, check=False).stdout.strip() == start


def test_process_is_identified_by_ps_without_proc(sh, tmp_path):
    """OpenBSD has no /proc."""
    if sh == ["busybox", "sh"]:
        pytest.skip("its ps cannot select a process")
    stub = 'cat() { case $1 in /proc/*) false ;; *) command cat "$@" ;; esac; }\n'
    tracked = stub + shell.build_tracked_command(str(tmp_path), "sleep 60")
    file = tmp_path / "doing"
    with start(sh, tracked, start_new_session=True) as process:
        wait_until(lambda: file.exists() and ":" in file.read_text(), "the process ID")
        read = stub + shell.build_call("process", "running_process", str(file))
        pid = run_shell(read, sh=sh, check=False).stdout.strip()
        os.killpg(process.pid, signal.SIGKILL)
    assert pid == str(process.pid)


def test_batch_returns_output_and_status_of_each_command():
    sections = {
        "echo c; exit 3": Section("c", 3),
        "printf 'a\\n\\nb'": Section("a\n\nb", 0),
        "cat": Section("", 0),
        "echo no >&2; echo yes": Section("yes", 0),
    }
    result = run_shell(build_batch_script(sections), check=False)
    assert parse_sections(result.stdout, sections) == sections


def test_incomplete_section_has_no_status():
    commands = ["echo 1", "echo 2"]
    out = run_shell(build_batch_script(commands), check=False).stdout
    sections = parse_sections(out[: out.rindex(shell.SECTION_HEADING)], commands)
    assert sections["echo 1"] == Section("1", 0)
    assert sections["echo 2"].status is None
    assert "echo 2" not in parse_sections(out[: out.index(f"{shell.SECTION_HEADING} 1")], commands)
