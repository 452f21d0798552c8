"""Shell text that runs a server on whatever host it is on, and leaves that host as it was.

A NIC that TRex takes from the kernel's driver goes back to it; the server's ports, which ask nobody for
a password, are closed to other hosts while it runs; what DPDK keeps of a process that has ended is removed.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

DEVICES = "/sys/bus/pci/devices"
FENCED = "v6t: only this host reaches the server"
"""A line of its output, where that is so."""
_BOUND = (
    f'bound() {{ d={DEVICES}/$1/driver; [ ! -e "$d" ] || basename "$(readlink "$d")"; }}\n'
    "each() { for a in %s; do echo $a $(bound $a); done; }"
)
_GIVE_BACK = f"""\
echo "$before" | while read -r a d; do
now=$(bound $a)
if [ -n "$d" ] && [ "$d" != "$now" ]; then
[ ! -e {DEVICES}/$a/driver_override ] || echo > {DEVICES}/$a/driver_override
[ -z "$now" ] || echo $a > /sys/bus/pci/drivers/$now/unbind
echo $a > /sys/bus/pci/drivers/$d/bind
fi
done"""

_FORGET = """\
rm -rf "${RUNTIME_DIRECTORY:-/var/run}/dpdk/%(prefix)s"
while read -r _ mounted kind _; do
[ "$kind" != hugetlbfs ] || rm -f "$mounted"/%(prefix)smap_*
done </proc/mounts"""
"""Its directory and its hugepages, which only the next program with DPDK could have otherwise."""


def kept_by_dpdk(prefix: str) -> str:
    """Directory that DPDK makes for root's processes with this prefix, and leaves: megabytes, in memory."""
    return f"{os.environ.get('RUNTIME_DIRECTORY', '/var/run')}/dpdk/{prefix}"


def until_input_ends(prepare: str, program: str, clean: str) -> list[str]:
    """A shell that runs a program and ends it, and all it started, with its own standard input.

    A broken connection, or the end of v6t by whatever cause, thus leaves nothing behind.

    Args:
        prepare: commands before it.
        program: the command, as shell text.
        clean: commands after it.
    """
    return [
        "sh",
        "-c",
        f"{prepare}\n[ $? = 0 ] || exit 1\n"
        "exec 3<&0\n"
        "pid= told=\n"
        "end() { kill -- -$pid 2>/dev/null || kill $pid; }\n"  # it may not lead a group yet
        "trap 'told=1; [ -z \"$pid\" ] || end' TERM\n"
        f"setsid {program} </dev/null 3<&- &\n"
        "pid=$!\n"
        "(exec >/dev/null 2>&1; while read -r line <&3; do :; done\n"
        "kill -- -$pid; sleep 3; kill -9 -- -$pid) &\n"
        "watcher=$!\n"
        "exec 3<&-\n"
        '[ -z "$told" ] || end\n'
        "wait $pid; status=$?\n"
        "while kill -0 $pid 2>/dev/null; do wait $pid; status=$?; done\n"
        "kill $watcher 2>/dev/null\n"
        f"{clean}\n"
        "exit $status",
    ]


def server_program(
    directory: str,
    config: str,
    program: str,
    *,
    prefix: str,
    nics: Sequence[str] = (),
    fence: Sequence[int] = (),
) -> list[str]:
    """The whole life of a server.

    Args:
        directory: the installation.
        config: text of the configuration file.
        program: the command, as shell text; ``$cfg`` is the file.
        prefix: that tells DPDK's files from those of other processes.
        nics: full PCI addresses, given back to the drivers that had them before.
        fence: TCP ports that other hosts shall not reach.
    """
    before = [_BOUND % " ".join(nics), "before=$(each)"] if nics else []
    after = [_FORGET % {"prefix": prefix}, *([_GIVE_BACK] if nics else [])]
    if fence:
        before.append(
            f"if printf %s {shlex.quote(_rules(fence))} | nft -f - ; then echo {FENCED!r}; fi"
        )
        after.append(f"nft delete table inet {_table(fence)} 2>/dev/null")
    before.append(
        f'cfg=$(mktemp) && printf %s {shlex.quote(config)} > "$cfg" && cd {shlex.quote(directory)}'
    )
    return until_input_ends("\n".join(before), program, "\n".join(['rm -f "$cfg"', *after]))


def _table(ports: Sequence[int]) -> str:
    return f"v6t_trex_{ports[0]}"


def _rules(ports: Sequence[int]) -> str:
    """One table of our own: it is there anew, whatever an earlier server left."""
    table, listed = _table(ports), ", ".join(map(str, ports))
    return (
        f"table inet {table}\ndelete table inet {table}\ntable inet {table} {{\n"
        "chain input { type filter hook input priority -300; policy accept;\n"
        f'iifname != "lo" tcp dport {{ {listed} }} drop\n}}\n}}\n'
    )
