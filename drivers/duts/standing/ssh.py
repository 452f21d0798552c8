"""An sshd in the lab's device with its own keys and configuration.

The device and its sshd outlive a v6t that is killed, as a device elsewhere would: the next run with
the same name finds it, restores it, and removes it at its end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

from v6t.base.errors import EnvironmentLacking
from v6t.drivers.duts.standing import host
from v6t.drivers.lab import netns
from v6t.drivers.transport.here import NamespaceTransport, enter
from v6t.drivers.transport.openssh import SshTransport
from v6t.drivers.transport.ssh_options import SshOptions

BASE = Path("/run")
SSHD = "/usr/sbin/sshd"
_WAIT_S, _POLL_S = 5.0, 0.02
_users: Counter[str] = Counter()
"""Devices of this process that are parts of one machine, by its name."""
_CONFIG = """\
Port 22
ListenAddress 127.0.0.1
HostKey {place}/hostkey
PidFile /run/sshd.pid
AuthorizedKeysFile {place}/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
PrintMotd no
LogLevel VERBOSE
Subsystem sftp internal-sftp
SetEnv SHLVL=9
"""
"""SHLVL keeps bash from reading this machine's .bashrc, which says nothing about a device."""


class LabSshServer:
    """Namespaces with an sshd in them, by name."""

    def __init__(self, name: str) -> None:
        if os.geteuid() != 0 or not os.access(BASE, os.W_OK):
            hint = "leave ssh out: the lab needs none"
            raise EnvironmentLacking("an sshd of the lab's own needs root", hint, code="not-root")
        if not Path(SSHD).exists():
            problem = "sshd for the lab's device is not installed"
            hint = "apt-get install openssh-server"
            raise EnvironmentLacking(problem, hint, code="missing-program")
        self.name = name
        self.directory = BASE / f"v6t-lab-{name}"
        self._pid = 0

    def start(self) -> int:
        self.directory.mkdir(mode=0o700, exist_ok=True)
        pid = self.find_pid()
        if pid:
            self._pid = pid
        else:
            self._create_keys()
            _, self._pid = host.start_namespaces(persistent=True)
            (self.directory / "pid").write_text(f"{self._pid} {read_start_time(self._pid)}\n")
        if self._connect_now() is None:
            self._serve()
        return self._pid

    def add_user(self) -> None:
        """Count a user in this process; see :meth:`remove_user`."""
        _users[self.name] += 1

    def remove_user(self) -> None:
        """End the namespaces if no other part of this process uses them."""
        _users[self.name] -= 1
        if _users[self.name] <= 0:
            del _users[self.name]
            self.stop()

    def namespace(self, netns: str) -> int:
        pid_file = self.directory / f"netns-{netns}"
        pid = _is_alive(pid_file)
        if pid:
            return pid
        inside = NamespaceTransport(self._pid, f"lab device {self.name}")
        add = f"ip netns add {netns} && ip -n {netns} link set lo up"
        done = inside.run(f"[ -e /run/netns/{netns} ] || {add}")
        if done.status:
            problem = f"the lab's network namespace cannot be made: {done.words}"
            raise EnvironmentLacking(problem, code="lab-failed")
        words = [*enter(self._pid), "ip", "netns", "exec", netns, "sleep", "infinity"]
        null = subprocess.DEVNULL
        waiting = subprocess.Popen(
            words, stdin=null, stdout=null, stderr=null, start_new_session=True
        )
        pid = _find_child(waiting.pid, "sleep")
        pid_file.write_text(f"{pid} {read_start_time(pid)}\n")
        return pid

    def transport(self, netns: str = "") -> SshTransport:
        return LabTransport(self._pid, self.options(netns))

    def options(self, netns: str = "") -> SshOptions:
        return SshOptions(
            lab=self.name,
            netns=netns,
            user="root",
            identity=(str(self.directory / "id"),),
            known_hosts=str(self.directory / "known_hosts"),
            config="",
        )

    def stop(self) -> None:
        pid = self.find_pid()
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            for _ in range(50):
                if not read_start_time(pid):
                    break
                time.sleep(0.02)
        shutil.rmtree(self.directory, ignore_errors=True)

    def find_pid(self) -> int:
        """Return the process id of the sshd; 0 if it does not run."""
        return _is_alive(self.directory / "pid")

    def _create_keys(self) -> None:
        for name in ("hostkey", "id"):
            (self.directory / name).unlink(missing_ok=True)
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.directory / name)],
                check=True,
            )
        kind, key = (self.directory / "hostkey.pub").read_text().split()[:2]
        (self.directory / "known_hosts").write_text(
            f"localhost {kind} {key}\n127.0.0.1 {kind} {key}\n"
        )
        shutil.copyfile(self.directory / "id.pub", self.directory / "authorized_keys")
        (self.directory / "authorized_keys").chmod(0o600)

    def _serve(self) -> None:
        # the device's own /run hides this directory: it gets a copy
        inside = "/run/v6t-lab"
        files = {
            name: (self.directory / name).read_text() for name in ("hostkey", "authorized_keys")
        }
        files["sshd_config"] = _CONFIG.format(place=inside)
        transport = NamespaceTransport(self._pid, f"lab device {self.name}")
        transport.run(f"mkdir -p -m 700 {inside}")
        for name, text in files.items():
            transport.run(f"umask 077; cat >{inside}/{name}", text)
        done = transport.run(f"{SSHD} -f {inside}/sshd_config -E {inside}/log")
        if done.status:
            problem = f"the lab's sshd does not start: {done.words}"
            raise EnvironmentLacking(problem, code="lab-failed")
        for _ in range(100):
            connection = self._connect_now()
            if connection is not None:
                connection.close()
                return
            time.sleep(0.05)
        raise EnvironmentLacking("the lab's sshd does not listen", code="lab-failed")

    def _connect_now(self) -> socket.socket | None:
        try:
            return connect_in_namespace(self._pid, "127.0.0.1", 22)
        except OSError:
            return None


class LabTransport(SshTransport):
    """SSH from within the device's own network namespace."""

    def __init__(self, pid: int, options: SshOptions, port: int = 22) -> None:
        inner = options.model_copy(update={"port": port})
        super().__init__(inner, ["nsenter", "-t", str(pid), "-n", "--"])
        self.name = f"ssh {options.user}@{options.lab}{options.suffix}"


def find_transport(ssh: SshOptions) -> SshTransport | None:
    """Return the transport to a device; None if it is one of the lab that does not run."""
    if not ssh.lab:
        return SshTransport(ssh)
    lab = LabSshServer(ssh.lab)
    if not lab.find_pid():
        return None
    lab.start()
    return lab.transport(ssh.netns)


def connect_in_namespace(pid: int, host: str, port: int) -> socket.socket:
    """Open a TCP connection from a thread in another process's network namespace."""
    results: list[socket.socket | OSError] = []

    def work() -> None:
        try:
            netns.enter(pid)
            results.append(socket.create_connection((host, port), timeout=5))
        except OSError as exc:
            results.append(exc)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(results[0], OSError):
        raise results[0]
    results[0].setblocking(False)
    return results[0]


def read_start_time(pid: int) -> str:
    """Return the start time of a process [clock ticks since boot], which distinguishes reused process ids."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _is_alive(pid_file: Path) -> int:
    try:
        pid, _, started = pid_file.read_text().strip().partition(" ")
    except OSError:
        return 0
    alive = pid.isdigit() and started and read_start_time(int(pid)) == started
    return int(pid) if alive else 0


def _find_child(parent: int, name: str) -> int:
    """Wait for a child process of this name and return its id."""
    until = time.monotonic() + _WAIT_S
    while time.monotonic() < until:
        for directory in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, IndexError):
                before, _, after = (directory / "stat").read_text().rpartition(")")
                if int(after.split()[1]) == parent and before.partition("(")[2] == name:
                    return int(directory.name)
        time.sleep(_POLL_S)
    raise EnvironmentLacking(f"no {name} runs in the lab's network namespace", code="lab-failed")
