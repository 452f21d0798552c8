"""Factories of common steps, for any system with POSIX and ``/proc``."""

from dataclasses import replace
from typing import Any

from v6t.drivers.duts.plan import Expectation, IfExists, Step, expect_text


def make_object_step(
    create: str, delete: str, why: str, *, read: str, expected: Expectation, **fields: Any
) -> Step:
    """Return the step that creates the object that ``read`` prints; the rollback deletes it."""
    return Step(
        create, why, read=read, expected=expected, undo=delete, existing=IfExists.REFUSE, **fields
    )


def make_value_step(write: str, value: object, why: str, *, read: str, **fields: Any) -> Step:
    """Return the step that writes a value, for which ``VALUE`` stands in the shell line ``write``."""
    set_to, undo = (write.replace("VALUE", word) for word in (str(value), "{words}"))
    return Step(set_to, why, read=read, expected=expect_text(value), undo=undo, **fields)


def make_config_file_step(path: str, text: str, why: str) -> Step:
    """Return the step that writes a configuration file; the rollback removes it."""
    create = f"umask 077; cat >{path} && chmod 600 {path}"
    read = f"ls {path} 2>/dev/null && cat {path}; true"
    expected = replace(expect_text(f"{path}\n{text.strip()}"), description="what was written")
    return make_object_step(create, f"rm -f {path}", why, text=text, read=read, expected=expected)


def make_directory_step(path: str, why: str) -> Step:
    """Return the step that creates a directory; the rollback removes it with its contents."""
    create = f"mkdir -m 700 {path}"
    delete = f"find {path} -depth -delete"
    read = f"ls -d {path} 2>/dev/null || true"
    return make_object_step(create, delete, why, read=read, expected=expect_text(path))


def make_daemon_step(
    start: str,
    pid_file: str,
    process: str,
    why: str,
    *,
    probe: str = "",
    expected: Expectation | None = None,
    log: str = "",
    stop: str = "",
) -> Step:
    """Return the step that starts a daemon; the rollback stops it.

    Args:
        start: shell line after which the process id is written to ``pid_file``, perhaps a moment later.
        process: name of the process in ``/proc/PID/comm``.
        probe: shell line that prints something once the program is ready, and nothing before.
        expected: expected read-back: the name of the process, then the output of ``probe``.
        log: file with the program's messages, whose last lines are shown if it has ended.
        stop: shell line that stops it; empty: :func:`make_process_stop_command`.
    """
    comm = f"cat /proc/$(cat {pid_file})/comm"
    name = f"{comm} || tail -n 2 {log}" if log else comm
    is_ready = f'[ "$({comm} 2>/dev/null)" = {process} ]'
    if probe:
        is_ready += f' && [ -n "$({probe} 2>/dev/null)" ]'
    # a process that has ended never becomes ready
    runs = f"{{ [ ! -s {pid_file} ] || [ -e /proc/$(cat {pid_file}) ]; }}"
    return make_object_step(
        start,
        stop or make_process_stop_command(pid_file, process),
        why,
        read=f"{{ {name}; {f'{probe}; ' if probe else ''}}} 2>/dev/null; true",
        expected=expected or expect_text(process),
        wait=f"n=0; until {is_ready}; do n=$((n+1)); [ $n -lt 50 ] && {runs} || break; sleep 0.2; done",
    )


def make_background_command(pid_file: str, command: str, log: str = "/dev/null") -> str:
    """Return a shell line that runs a program in the background and stores its process id."""
    run = f"echo $$ >{pid_file} && exec {command}"
    return f"setsid sh -c '{run}' </dev/null >{log} 2>&1 &"


def make_process_stop_command(pid_file: str, process: str) -> str:
    """Return the shell line that stops the process in ``pid_file`` if it has this name."""
    ours_test = f'[ "$(cat /proc/$p/comm 2>/dev/null)" = {process} ]'
    return _make_stop_command(pid_file, ours_test, "kill $p")


def make_group_stop_command(pid_file: str, program: str) -> str:
    """Return the shell line that stops the process group in ``pid_file`` if it runs this program."""
    members = "ps -eo pid=,pgid= | while read q g; do [ $g != $p ] || readlink /proc/$q/exe; done"
    return _make_stop_command(pid_file, f"{members} | grep -q '/{program}$'", "kill -- -$p")


def _make_stop_command(pid_file: str, ours_test: str, kill_command: str) -> str:
    """Return a shell line that stops a process if it is v6t's, and waits until it has ended."""
    return (
        f"p=$(cat {pid_file} 2>/dev/null) || exit 0; ours() {{ {ours_test}; }}; ours && {kill_command}; "
        "n=0; while ours && [ $n -lt 50 ]; do n=$((n+1)); sleep 0.2; done; "
        f"! ours && rm -f {pid_file}"
    )
