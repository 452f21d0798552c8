"""Factories of common steps, for any system with POSIX and ``/proc``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from v6t.drivers.duts.plan import Existing, Expectation, Step, expect_text


def create_object(
    create: str, delete: str, why: str, *, read: str, expected: Expectation, **fields: Any
) -> Step:
    """Create an object that ``read`` prints if it exists, and delete it at the rollback."""
    return Step(
        create, why, read=read, expected=expected, undo=delete, existing=Existing.REFUSE, **fields
    )


def set_value(write: str, value: object, why: str, *, read: str, **fields: Any) -> Step:
    """Set a value by a shell line with ``VALUE``, and restore the output of ``read`` at the rollback."""
    set_to, undo = (write.replace("VALUE", word) for word in (str(value), "{words}"))
    return Step(set_to, why, read=read, expected=expect_text(value), undo=undo, **fields)


def write_config_file(path: str, text: str, why: str, mode: str = "600") -> Step:
    """Write a file in the state directory."""
    create = f"umask 077; cat >{path} && chmod {mode} {path}"
    read = f"ls {path} 2>/dev/null && cat {path}; true"
    expected = replace(expect_text(f"{path}\n{text.strip()}"), description="what was written")
    return create_object(create, f"rm -f {path}", why, text=text, read=read, expected=expected)


def make_directory(path: str, why: str) -> Step:
    """Create a directory for files of a program, and remove it with its content."""
    create = f"mkdir -m 700 {path}"
    delete = f"find {path} -depth -delete"
    read = f"ls -d {path} 2>/dev/null || true"
    return create_object(create, delete, why, read=read, expected=expect_text(path))


def start_daemon(
    start: str,
    pid_file: str,
    process: str,
    why: str,
    *,
    probe: str = "",
    expected: Expectation | None = None,
    log: str = "",
    stop: str = "",
    deadline_s: float = 60.0,
) -> Step:
    """Start a program that keeps running, and stop it at the rollback.

    Args:
        start: a shell line that leaves the number of the process in ``pid_file``, now or a moment later.
        process: what the kernel calls the process.
        probe: a shell line that prints something once the program is ready, and nothing before.
        want: what the read-back must print: the name of the process, then the output of ``probe``.
        log: the file with the program's messages, whose end is shown if it has ended.
        stop: a shell line that stops it; empty: :func:`stop_process`.
        deadline_s: how long starting and stopping may take [s].
    """
    comm = f"cat /proc/$(cat {pid_file})/comm"
    name = f"{comm} || tail -n 2 {log}" if log else comm
    is_ready = f'[ "$({comm} 2>/dev/null)" = {process} ]'
    if probe:
        is_ready += f' && [ -n "$({probe} 2>/dev/null)" ]'
    # a process that has ended never becomes ready
    runs = f"{{ [ ! -s {pid_file} ] || [ -e /proc/$(cat {pid_file}) ]; }}"
    return create_object(
        start,
        stop or stop_process(pid_file, process),
        why,
        read=f"{{ {name}; {f'{probe}; ' if probe else ''}}} 2>/dev/null; true",
        expected=expected or expect_text(process),
        wait=f"n=0; until {is_ready}; do n=$((n+1)); [ $n -lt 50 ] && {runs} || break; sleep 0.2; done",
        deadline_s=deadline_s,
    )


def build_background_command(pid_file: str, command: str, log: str = "/dev/null") -> str:
    """Return the shell line that starts a foreground program and stores its process id."""
    run = f"echo $$ >{pid_file} && exec {command}"
    return f"setsid sh -c '{run}' </dev/null >{log} 2>&1 &"


def stop_process(pid_file: str, process: str) -> str:
    """Return the shell line that stops the process in ``pid_file`` if it has this name."""
    return _stop_command(pid_file, f'[ "$(cat /proc/$p/comm 2>/dev/null)" = {process} ]', "kill $p")


def stop_group(pid_file: str, program: str) -> str:
    """Return the shell line that stops the process group in ``pid_file`` if it runs this program."""
    members = "ps -eo pid=,pgid= | while read q g; do [ $g != $p ] || readlink /proc/$q/exe; done"
    return _stop_command(pid_file, f"{members} | grep -q '/{program}$'", "kill -- -$p")


def _stop_command(pid_file: str, is_ours: str, kill: str) -> str:
    return (
        f"p=$(cat {pid_file} 2>/dev/null) || exit 0; ours() {{ {is_ours}; }}; ours && {kill}; "
        "n=0; while ours && [ $n -lt 50 ]; do n=$((n+1)); sleep 0.2; done; "
        f"! ours && rm -f {pid_file}"
    )
