"""An sshd in a lab device with its own keys and configuration.

The device and its sshd outlive a v6t that is killed, as a device elsewhere would. The next run with the same
name finds it, rolls it back, and removes it at its end.
"""

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
from v6t.drivers.transport.openssh import SshTransport
from v6t.drivers.transport.process import NamespaceTransport
from v6t.drivers.transport.ssh_options import SshOptions

RUN_DIRECTORY = Path("/run")  # parent of the directories of lab devices
SSHD_PROGRAM = "/usr/sbin/sshd"
_use_counts: Counter[str] = Counter()  # uses in this process, by name of the server
_DEVICE_DIRECTORY = "/run/v6t-lab"  # sshd's files on the device
# SHLVL keeps bash from reading the .bashrc of this machine.
_SSHD_CONFIG = f"""\
Port 22
ListenAddress 127.0.0.1
HostKey {_DEVICE_DIRECTORY}/hostkey
PidFile /run/sshd.pid
AuthorizedKeysFile {_DEVICE_DIRECTORY}/authorized_keys
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
    """An sshd in the namespaces of a lab device, which other processes find by its name."""

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
        """Start the namespaces and the sshd unless they are running; return the id of their init process."""
        self.directory.mkdir(mode=0o700, exist_ok=True)
        if pid := self.find_pid():
            self._pid = pid
        else:
            self._create_keys()
            _, self._pid = namespaces.start_namespaces(persistent=True)
            (self.directory / "pid").write_text(f"{self._pid} {read_start_time(self._pid)}\n")
        if not self._is_listening():
            self._start_sshd()
        return self._pid

    def acquire(self) -> None:
        """Register one more use of this server in this process, which :meth:`release` ends."""
        _use_counts[self.name] += 1

    def release(self) -> None:
        """End one use of this server, and stop the server if it was the last one in this process."""
        _use_counts[self.name] -= 1
        if not _use_counts[self.name]:
            self.stop()

    def add_namespace(self, netns: str) -> int:
        """Add a named network namespace unless it exists; return the id of a process in it."""
        pid_file = self.directory / f"netns-{netns}"
        if pid := _read_live_pid(pid_file):
            return pid
        pid = namespaces.start_named_namespace(self._pid, netns)
        pid_file.write_text(f"{pid} {read_start_time(pid)}\n")
        return pid

    def make_transport(self, netns: str = "") -> SshTransport:
        return LabTransport(self._pid, self.make_options(netns))

    def make_options(self, netns: str = "") -> SshOptions:
        return SshOptions(
            lab=self.name,
            netns=netns,
            user="root",
            identity=(str(self.directory / "id"),),
            known_hosts=str(self.directory / "known_hosts"),
            config="",
        )

    def stop(self) -> None:
        """Kill the server and all processes in its namespaces, and remove its directory."""
        if pid := self.find_pid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            for _ in range(50):
                if not read_start_time(pid):
                    break
                time.sleep(0.02)
        shutil.rmtree(self.directory, ignore_errors=True)

    def find_pid(self) -> int | None:
        """Return the id of the init process in the namespaces; None if they do not exist."""
        return _read_live_pid(self.directory / "pid")

    def _create_keys(self) -> None:
        for name in ("hostkey", "id"):
            key_file = self.directory / name
            key_file.unlink(missing_ok=True)
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key_file)]
            subprocess.run(words, check=True)
        kind, key = (self.directory / "hostkey.pub").read_text().split()[:2]
        lines = [f"{host} {kind} {key}\n" for host in ("localhost", "127.0.0.1")]
        (self.directory / "known_hosts").write_text("".join(lines))
        shutil.copyfile(self.directory / "id.pub", self.directory / "authorized_keys")
        (self.directory / "authorized_keys").chmod(0o600)

    def _start_sshd(self) -> None:
        # the device's own /run hides this directory, so it gets a copy
        directory = Path(f"/proc/{self._pid}/root{_DEVICE_DIRECTORY}")
        directory.mkdir(mode=0o700, exist_ok=True)
        for name in ("hostkey", "authorized_keys"):
            shutil.copy(self.directory / name, directory)
        (directory / "sshd_config").write_text(_SSHD_CONFIG)
        start = f"{SSHD_PROGRAM} -f {_DEVICE_DIRECTORY}/sshd_config -E {_DEVICE_DIRECTORY}/log"
        transport = NamespaceTransport(self._pid, f"lab device {self.name}")
        done = transport.run(f"mkdir -p -m 755 /run/sshd; {start}")
        if done.status:
            problem = f"the lab's sshd does not start: {done.cause}"
            raise EnvironmentLacking(problem, code="lab-failed")
        for _ in range(100):
            if self._is_listening():
                return
            time.sleep(0.05)
        raise EnvironmentLacking("the lab's sshd does not listen", code="lab-failed")

    def _is_listening(self) -> bool:
        return bool(NamespaceTransport(self._pid).run("ss -Hltn sport = :22").out.strip())


class LabTransport(SshTransport):
    """An SSH transport whose client runs in the network namespace of the lab device."""

    def __init__(self, pid: int, options: SshOptions, port: int = 22) -> None:
        inner = options.model_copy(update={"port": port})
        super().__init__(inner, ["nsenter", "-t", str(pid), "-n", "--"])
        self.name = f"ssh {options.user}@{options.lab}{options.suffix}"


def find_transport(ssh: SshOptions) -> SshTransport | None:
    """Return an unopened transport to a device; None if it is a lab device that is not running."""
    if not ssh.lab:
        return SshTransport(ssh)
    lab = LabSshServer(ssh.lab)
    if not lab.find_pid():
        return None
    lab.start()
    return lab.make_transport(ssh.netns)


def read_start_time(pid: int) -> str:
    """Return the start time of a process [clock ticks since boot]; empty if the process has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    except (OSError, IndexError):
        return ""


def _read_live_pid(pid_file: Path) -> int | None:
    """Return the process id in a file; None if that process has ended."""
    try:
        pid, _, started = pid_file.read_text().strip().partition(" ")
    except OSError:
        return None
    alive = pid.isdigit() and started and read_start_time(int(pid)) == started
    return int(pid) if alive else None
