"""A program that a driver started, by its file with the process id."""

from __future__ import annotations

from v6t.drivers.duts.plan import Check, equals


def in_background(pid_file: str, command: str, said: str = "/dev/null") -> str:
    """Shell line that starts a program which stays in the foreground; ``said`` takes what it says.

    Nothing is started whose number could not be kept, as on a full disk: nobody could end it.
    """
    run = f"echo $$ >{pid_file} && exec {command}"
    return f"setsid sh -c '{run}' </dev/null >{said} 2>&1 &"


def runs(pid_file: str, name: str) -> Check:
    """Our process of this name is there: a daemon's child may write its file after its parent ended."""
    reads = f"cat /proc/$(cat {pid_file})/comm"
    return equals(
        f'n=0; until [ "$({reads} 2>/dev/null)" = {name} ]; do n=$((n+1)); [ $n -lt 50 ] || break; '
        f"sleep 0.1; done; {reads}",
        name,
    )


def stop(pid_file: str, name: str) -> str:
    """Shell line that ends our process of this name, and no other.

    If ours has ended by itself, its number may be another's: that one is not waited for, either. If it does
    not end, its number is kept for the next try.
    """
    return _stop(pid_file, f'[ "$(cat /proc/$p/comm 2>/dev/null)" = {name} ]', "kill $p")


def stop_all(pid_file: str, name: str) -> str:
    """The same of all processes that ours leads: others of them may go on when it has ended."""
    return _stop(pid_file, f'ps -eo pgid=,args= | grep -q "^ *$p .*{name}"', "kill -- -$p")


def _stop(pid_file: str, ours: str, kill: str) -> str:
    return (
        f"p=$(cat {pid_file} 2>/dev/null) || exit 0; ours() {{ {ours}; }}; ours && {kill}; "
        "n=0; while ours && [ $n -lt 50 ]; do n=$((n+1)); sleep 0.2; done; "
        f"! ours && rm -f {pid_file}"
    )
