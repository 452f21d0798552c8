"""A TRex server that v6t starts and stops; what others started is never stopped unasked.

A NIC that TRex takes from the kernel's driver goes back to it; the server's ports, which need no
password, are closed to other hosts while it runs; DPDK's files of a process that ended are removed.
"""

import contextlib
import json
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from v6t.base.errors import TesterError
from v6t.drivers.lab.netns import enter_command
from v6t.drivers.placement import ThreadPlacement
from v6t.drivers.transport.ssh_client import SshClient
from v6t.drivers.trex.options import TrexOptions

_RESTORE_S = 30.0  # Deadline for TRex to end and for NICs to return to the kernel
_LAST_LINES = 4  # Lines of output that are shown if a server fails
_PCI_DEVICES = "/sys/bus/pci/devices"
FENCE_MESSAGE = "v6t: only this host reaches the server"  # Line of output if nftables rules are set
_READ_DRIVERS_SCRIPT = (
    f'bound() {{ d={_PCI_DEVICES}/$1/driver; [ ! -e "$d" ] || basename "$(readlink "$d")"; }}\n'
    "each() { for a in %s; do echo $a $(bound $a); done; }\n"
    "before=$(each)"
)
_RESTORE_DRIVERS_SCRIPT = f"""\
echo "$before" | while read -r a d; do
now=$(bound $a)
if [ -n "$d" ] && [ "$d" != "$now" ]; then
[ ! -e {_PCI_DEVICES}/$a/driver_override ] || echo > {_PCI_DEVICES}/$a/driver_override
[ -z "$now" ] || echo $a > /sys/bus/pci/drivers/$now/unbind
echo $a > /sys/bus/pci/drivers/$d/bind
fi
done"""
_REMOVE_DPDK_FILES_SCRIPT = """\
rm -rf "${RUNTIME_DIRECTORY:-/var/run}/dpdk/%(prefix)s"
while read -r _ mounted kind _; do
[ "$kind" != hugetlbfs ] || rm -f "$mounted"/%(prefix)smap_*
done </proc/mounts"""
"""Removes a server's directory and hugepages, which stay allocated otherwise."""
_FENCE_RULES = """\
table inet {table}
delete table inet {table}
table inet {table} {{
chain input {{ type filter hook input priority -300; policy accept;
iifname != "lo" tcp dport {{ {ports} }} drop
}}
}}
"""
STDIN_BOUND_SCRIPT = """\
%(prepare)s
exec 3<&0
pid= told=
end() { kill -- -$pid 2>/dev/null || kill $pid; }  # it may not lead a group yet
trap 'told=1; [ -z "$pid" ] || end' TERM
setsid %(program)s </dev/null 3<&- &
pid=$!
(exec >/dev/null 2>&1; while read -r line <&3; do :; done
end; sleep 6; kill -s KILL -- -$pid) &
watcher=$!
exec 3<&-
[ -z "$told" ] || end
wait $pid; status=$?
while kill -0 $pid 2>/dev/null; do wait $pid; status=$?; done
kill $watcher 2>/dev/null
%(clean)s
exit $status"""
"""A shell that ends a program, and all it started, with its standard input: a broken connection, or the
end of v6t, leaves nothing behind."""


def make_config(
    options: TrexOptions,
    ports: Sequence[tuple[str, str, str]],
    placement: ThreadPlacement,
    prefix: str,
) -> str:
    """Make ``trex_cfg.yaml`` (version 2), written as JSON, which is YAML.

    Args:
        ports: interface as TRex names it, own MAC address and the device's; pair after pair.
        placement: CPUs of its threads.
        prefix: keeps DPDK's files apart from those of other servers.
    """
    config: dict[str, Any] = {
        "version": 2,
        "port_limit": len(ports),
        "prefix": prefix,
        "zmq_pub_port": options.pub_port,
        "zmq_rpc_port": options.rpc_port,
        "interfaces": [interface for interface, _, _ in ports],
        "port_info": [{"src_mac": mac, "dest_mac": dut_mac} for _, mac, dut_mac in ports],
    }
    return json.dumps([config | placement.make_config(options.sockets)]) + "\n"


def make_server_program(
    directory: str,
    config: str,
    arguments: Sequence[str],
    *,
    prefix: str,
    nics: Sequence[str] = (),
    fence: Sequence[int] = (),
) -> list[str]:
    """Return the command that runs a server and cleans up after it.

    Args:
        directory: TRex's installation.
        prefix: keeps DPDK's files apart from those of other processes.
        nics: full PCI addresses, given back to the drivers that had them before.
        fence: TCP ports that other hosts shall not reach.
    """
    binary = "./t-rex-64" if nics else "./_t-rex-64"
    libraries = shlex.quote(f"{directory}:{directory}/so:{directory}/so/x86_64")
    program = f'env LD_LIBRARY_PATH={libraries} {binary} -i --cfg "$cfg" {shlex.join(arguments)}'
    before = [_READ_DRIVERS_SCRIPT % " ".join(nics)] if nics else []
    after = ['rm -f "$cfg"', _REMOVE_DPDK_FILES_SCRIPT % {"prefix": prefix}]
    after += [_RESTORE_DRIVERS_SCRIPT] if nics else []
    text, place = shlex.quote(config), shlex.quote(directory)
    before.append(f'cd {place} && cfg=$(mktemp) && printf %s {text} > "$cfg" || exit 1')
    if fence:  # last, because what fails before is not cleaned up
        table = f"v6t_trex_{fence[0]}"
        rules = shlex.quote(_FENCE_RULES.format(table=table, ports=", ".join(map(str, fence))))
        before.append(f"if printf %s {rules} | nft -f - ; then echo {FENCE_MESSAGE!r}; fi")
        after.append(f"nft delete table inet {table} 2>/dev/null")
    parts = {"prepare": "\n".join(before), "program": program, "clean": "\n".join(after)}
    return ["sh", "-c", STDIN_BOUND_SCRIPT % parts]


class Server:
    """Process of a TRex server, which is started at once; :meth:`wait` until it answers.

    Args:
        program: see :func:`make_server_program`.
        namespace_pid: run inside the network namespace of this process.
        remote: host to run on; None: this one.

    Attributes:
        log: file of the server's output, which is kept if the server failed.
        process: the shell that runs the server, or the SSH client.
    """

    def __init__(
        self, program: Sequence[str], namespace_pid: int | None, remote: SshClient | None
    ) -> None:
        self._failed = False
        program = program if remote is None else remote.make_command(program)
        with tempfile.NamedTemporaryFile(prefix="v6t-trex-", suffix=".log", delete=False) as output:
            self.log = Path(output.name)
            self.process = subprocess.Popen(
                [*enter_command(namespace_pid), *program],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self, answers: Callable[[], bool], deadline_s: float) -> None:
        """Wait until ``answers()`` is true; raise TesterError if the server ends or is too slow."""
        until = time.monotonic() + deadline_s
        while not answers():
            if not self.is_alive:
                raise self.make_error("TRex did not start")
            if time.monotonic() > until:
                raise self.make_error(f"TRex did not answer within {deadline_s:g} s")
            time.sleep(0.1)

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    @property
    def is_fenced(self) -> bool:
        """Whether nftables keeps other hosts from the server's ports."""
        return FENCE_MESSAGE in self._read_output()

    def make_error(self, problem: str) -> TesterError:
        """Make the error for a server that failed, and keep its output."""
        self._failed = True
        last = [line for line in self._read_output() if line != FENCE_MESSAGE][-_LAST_LINES:]
        output = " / ".join(last)[-600:] or "it printed nothing"
        hint = f"`v6t doctor --testbed FILE` checks the interfaces; all output: {self.log}"
        return TesterError(f"{problem}: {output}", hint, code="tester-fault")

    def _read_output(self) -> list[str]:
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return [line for s in text.splitlines() if (line := s.strip())]

    def close(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.communicate(timeout=_RESTORE_S)  # closes its standard input
        if self.is_alive:
            self.process.kill()
            self.process.wait()
        if not self._failed:
            self.log.unlink(missing_ok=True)
