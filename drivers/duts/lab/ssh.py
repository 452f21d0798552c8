"""An sshd in a lab device with its own keys and configuration.

The device and its sshd outlive a v6t that is killed, as a device elsewhere would. The next run with the same
name finds it, rolls it back, and removes it at its end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

from v6t.base.errors import EnvironmentLacking
from v6t.drivers.duts.lab import namespaces
from v6t.drivers.transport.here import NamespaceTransport, enter
from v6t.drivers.transport.openssh import SshTransport
from v6t.drivers.transport.ssh_options import SshOptions

RUN_DIRECTORY = Path("/run")  # contains the directories of lab devices
SSHD_PROGRAM = "/usr/sbin/sshd"
_CHILD_DEADLINE_S, _CHILD_POLL_S = 5.0, 0.02
_user_counts: Counter[str] = Counter()  # users of each server in this process, by its name
# SHLVL keeps bash from reading this machine's .bashrc, which has nothing to do with a device.
_SSHD_CONFIG = """\
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


class LabSshServer:
    """A lab device with an sshd: namespaces that other processes find by name."""

    def __init__(self, name: str) -> None:
        if os.geteuid() != 0 or not os.access(RUN_DIRECTORY, os.W_OK):
            hint = "leave ssh out: the lab needs none"
            raise EnvironmentLacking("an sshd of the lab's own needs root", hint, code="not-root")
        if not Path(SSHD_PROGRAM).exists():
            problem = "sshd for the lab's device is not installed"
            hint = "apt-get install openssh-server"
            raise EnvironmentLacking(problem, hint, code="missing-program")
        self.name = name
        self.directory = RUN_DIRECTORY / f"v6t-lab-{name}"
        self._pid = 0

    def start(self) -> int:
        """Start the namespaces and the sshd unless they run; return their process id."""
        self.directory.mkdir(mode=0o700, exist_ok=True)
        pid = self.find_pid()
        if pid:
            self._pid = pid
        else:
            self._create_keys()
            _, self._pid = namespaces.start_namespaces(persistent=True)
            (self.directory / "pid").write_text(f"{self._pid} {read_start_time(self._pid)}\n")
        if not self._is_listening():
            self._start_sshd()
        return self._pid

    def add_user(self) -> None:
        """Count a user of this server in this process, see :meth:`remove_user`."""
        _user_counts[self.name] += 1

    def remove_user(self) -> None:
        """Stop the server unless this process has another user of the server."""
        _user_counts[self.name] -= 1
        if _user_counts[self.name] <= 0:
            del _user_counts[self.name]
            self.stop()

    def add_namespace(self, netns: str) -> int:
        """Add a network namespace unless it exists; return the id of a process in it."""
        pid_file = self.directory / f"netns-{netns}"
        pid = _read_live_pid(pid_file)
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

    def make_transport(self, netns: str = "") -> SshTransport:
        """Return an unopened transport to the server."""
        return LabTransport(self._pid, self.make_options(netns))

    def make_options(self, netns: str = "") -> SshOptions:
        """Return the options of a login."""
        return SshOptions(
            lab=self.name,
            netns=netns,
            user="root",
            identity=(str(self.directory / "id"),),
            known_hosts=str(self.directory / "known_hosts"),
            config="",
        )

    def stop(self) -> None:
        """Stop the server with everything that runs in its namespaces."""
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
        """Return the process id that names the namespaces; 0 if they do not exist."""
        return _read_live_pid(self.directory / "pid")

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

    def _start_sshd(self) -> None:
        # the device's own /run hides this directory, so it gets a copy
        inside = "/run/v6t-lab"
        files = {
            name: (self.directory / name).read_text() for name in ("hostkey", "authorized_keys")
        }
        files["sshd_config"] = _SSHD_CONFIG.format(place=inside)
        transport = NamespaceTransport(self._pid, f"lab device {self.name}")
        transport.run(f"mkdir -p -m 700 {inside}")
        for name, text in files.items():
            transport.run(f"umask 077; cat >{inside}/{name}", text)
        done = transport.run(f"{SSHD_PROGRAM} -f {inside}/sshd_config -E {inside}/log")
        if done.status:
            problem = f"the lab's sshd does not start: {done.words}"
            raise EnvironmentLacking(problem, code="lab-failed")
        for _ in range(100):
            if self._is_listening():
                return
            time.sleep(0.05)
        raise EnvironmentLacking("the lab's sshd does not listen", code="lab-failed")

    def _is_listening(self) -> bool:
        sockets = NamespaceTransport(self._pid).run("ss -Hltn sport = :22")
        return bool(sockets.out.strip())


class LabTransport(SshTransport):
    """An SSH transport from within the device's own network namespace."""

    def __init__(self, pid: int, options: SshOptions, port: int = 22) -> None:
        inner = options.model_copy(update={"port": port})
        super().__init__(inner, ["nsenter", "-t", str(pid), "-n", "--"])
        self.name = f"ssh {options.user}@{options.lab}{options.suffix}"


def find_transport(ssh: SshOptions) -> SshTransport | None:
    """Return the transport to a device; None if it is a lab device that is not running."""
    if not ssh.lab:
        return SshTransport(ssh)
    lab = LabSshServer(ssh.lab)
    if not lab.find_pid():
        return None
    lab.start()
    return lab.make_transport(ssh.netns)


def read_start_time(pid: int) -> str:
    """Return when a process started [ticks since boot]; it distinguishes reused process ids."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _read_live_pid(pid_file: Path) -> int:
    """Return the process id in a file; 0 if that process has ended."""
    try:
        pid, _, started = pid_file.read_text().strip().partition(" ")
    except OSError:
        return 0
    alive = pid.isdigit() and started and read_start_time(int(pid)) == started
    return int(pid) if alive else 0


def _find_child(parent: int, name: str) -> int:
    """Wait for a child process with this name; return its process id."""
    until = time.monotonic() + _CHILD_DEADLINE_S
    while time.monotonic() < until:
        for directory in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, IndexError):
                before, _, after = (directory / "stat").read_text().rpartition(")")
                if int(after.split()[1]) == parent and before.partition("(")[2] == name:
                    return int(directory.name)
        time.sleep(_CHILD_POLL_S)
    raise EnvironmentLacking(f"no {name} runs in the lab's network namespace", code="lab-failed")
