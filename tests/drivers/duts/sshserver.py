"""An sshd in separate namespaces, and functions that disturb it."""

import functools
import os
import re
from pathlib import Path
from typing import Any

from v6t.drivers.duts.lab import ssh
from v6t.drivers.transport.process import NamespaceTransport
from v6t.drivers.transport.ssh_options import SshOptions

KILL_SESSIONS = ("for p in $(ps -eo pid,args | awk '/sshd: root/ && !/awk/ {print $1}'); "
                 "do kill -9 $p 2>/dev/null; done; true")  # fmt: skip
# Adds an unconnected interface with the MAC address that a driver expects.
CABLE = ("ip link add {side} address {mac} type veth peer name {side}-cable; "
         "ip link set {side} up; ip link set {side}-cable up")  # fmt: skip
_DEVICE_NAME = re.compile(r"v6t-lab-(test-.+-p(\d+)-(\d+))")


def make_unique_name(name: str) -> str:
    """Return a lab device name unique to this process; remove devices of ended test processes."""
    _remove_stale()
    return f"test-{name}-p{os.getpid()}-{ssh.read_start_time(os.getpid())}"


@functools.cache
def _remove_stale() -> None:
    """Stop the devices of test processes that have ended."""
    for place in ssh.RUN_DIRECTORY.glob("v6t-lab-test-*"):
        name = _DEVICE_NAME.fullmatch(place.name)
        if name and ssh.read_start_time(int(name[2])) != name[3] and find_missing() is None:
            ssh.LabSshServer(name[1]).stop()


def find_missing() -> str | None:
    """Return the package that this machine lacks for these tests, or None."""
    if os.geteuid() != 0:
        return "root"
    packages = {"/usr/sbin/sshd": "openssh-server", "/usr/bin/ssh-keygen": "openssh-client"}
    for program, package in packages.items():
        if not Path(program).exists():
            return f"Debian package {package}"
    return None


class Server(ssh.LabSshServer):
    """sshd of the lab whose boot identifier can be changed, like after a reboot."""

    def __init__(self, name: str) -> None:
        super().__init__(make_unique_name(name))
        self.start()
        self.console = NamespaceTransport(self._pid, "console")
        self.shell("echo first>/run/boot && mount --bind /run/boot /proc/sys/kernel/random/boot_id")

    @property
    def pid(self) -> int:
        return self._pid

    def shell(self, command: str, text: str = "") -> str:
        result = self.console.run(command, text)
        assert result.status == 0, result
        return result.out

    def login(self, **changes) -> ssh.LabTransport:
        options = self.make_options().model_dump()
        port = changes.pop("inner_port", 22)
        return ssh.LabTransport(self._pid, SshOptions(**{**options, **changes}), port)

    def make_login_options(self, **changes: Any) -> dict[str, Any]:
        """Return SSH options with the key and the host key of this server."""
        return {
            "host": "127.0.0.1", "user": "root", "identity": [str(self.directory / "id")],
            "known_hosts": str(self.directory / "known_hosts"), "config": "", **changes,
        }  # fmt: skip

    def stop_listening(self) -> None:
        self.shell("kill $(cat /run/sshd.pid); for i in 1 2 3 4 5 6 7 8 9; do "
                   "[ -e /run/sshd.pid ] || break; sleep 0.1; done")  # fmt: skip

    def listen(self) -> None:
        self.shell(f"{ssh.SSHD_PROGRAM} -f /run/v6t-lab/sshd_config -E /run/v6t-lab/log; "
                   "until [ -e /run/sshd.pid ]; do sleep 0.1; done")  # fmt: skip

    def configure_sshd(self, edit: str) -> None:
        """Edit sshd's configuration by a sed command and restart sshd."""
        self.stop_listening()
        self.shell(f"sed -i '{edit}' /run/v6t-lab/sshd_config")
        self.listen()

    def kill_sessions(self) -> None:
        """Kill all sessions, like a network failure."""
        self.shell(KILL_SESSIONS)

    def connect_sides(self, links) -> None:
        """Add the interfaces left and right with the device's MAC addresses, unconnected."""
        for side in ("left", "right"):
            self.shell(CABLE.format(side=side, mac=getattr(links, side).dut_mac))

    def get_path(self, name: str) -> Path:
        """Return the path of a file of the device in this process's file system."""
        return Path(f"/proc/{self._pid}/root{name}")

    @property
    def has_record(self) -> bool:
        """Whether the device has an undo record."""
        return self.get_path("/run/v6t/record.json").exists()

    @property
    def has_undone(self) -> bool:
        """Whether the device's rollback timer has run the undo script."""
        locked = self.get_path("/run/v6t/lock").is_symlink()
        return self.get_path("/run/v6t/guard/fired").exists() and not locked

    def has_interface(self, name: str) -> bool:
        return f"{name}:" in Path(f"/proc/{self._pid}/net/dev").read_text()
