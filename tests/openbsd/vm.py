"""Use an OpenBSD virtual machine as the DUT of the lab, configured over SSH.

- ``V6T_OPENBSD_VM``: QEMU arguments that boot it, for example ``-drive file=openbsd.qcow2,if=virtio,snapshot=on``.
- ``V6T_OPENBSD_KEY``: private key file of its root user.
- ``V6T_OPENBSD_VERSION``: system name to record, if ``uname`` does not identify the sources.

The machine has three virtio interfaces. The first must get 10.0.2.15/24, with sshd listening; the others must be
unconfigured.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from v6t.drivers.duts.lab.ssh import LabTransport
from v6t.drivers.duts.os.openbsd import parse_ifconfig
from v6t.drivers.transport.process import enter
from v6t.drivers.transport.ssh_options import SshOptions
from v6t.tests.jool.vm import (
    MACS,
    SIDES,
    MachineDut,
    SharedMachine,
    list_bridge_commands,
    run_in_namespaces,
)
from v6t.tests.machine.machine import (
    ACCELERATOR,
    BOOT_DEADLINE_S,
    QEMU,
    QemuProcess,
    make_management_nic,
    make_tap_nics,
)

QEMU_VARIABLE, KEY_VARIABLE = "V6T_OPENBSD_VM", "V6T_OPENBSD_KEY"
VERSION_VARIABLE = "V6T_OPENBSD_VERSION"
PORT = 2222
HARDWARE = (
    f"-nodefaults -no-user-config -display none -M pc -accel {ACCELERATOR} -cpu max -smp 1 -m 512"
)


def find_missing_variables() -> str:
    """Return which variables must be set, or an empty string."""
    unset = [name for name in (QEMU_VARIABLE, KEY_VARIABLE) if not os.environ.get(name)]
    return f"set {' and '.join(unset)}, see tests/openbsd/vm.py" if unset else ""


class OpenBsdMachine(QemuProcess):
    """An OpenBSD machine whose QEMU runs in the namespaces of the device."""

    def __init__(self, pid: int) -> None:
        """Describe a machine without starting it; ``pid`` is a process in the device's namespaces."""
        super().__init__()
        self._pid = pid
        self._user = "root"
        self._ports: dict[str, str] = {}

    def start(self) -> None:
        """Create the taps, start the machine and wait until it accepts logins."""
        run_in_namespaces(self._pid, list_bridge_commands())
        command = [QEMU, *HARDWARE.split(), "-serial", f"file:{self.directory}/console.log"]
        command += [*make_management_nic(PORT), *make_tap_nics(MACS)]
        self.launch([*enter(self._pid), *command, *shlex.split(os.environ[QEMU_VARIABLE])])
        self._await_login()

    def _await_login(self) -> None:
        """Wait for the host keys of sshd and trust them, since the namespaces are private."""
        end = time.monotonic() + BOOT_DEADLINE_S
        scan = [*enter(self._pid), "ssh-keyscan", "-T", "10", "-p", str(PORT), "127.0.0.1"]
        keys: list[list[str]] = []
        while not keys:
            output = subprocess.run(scan, capture_output=True, text=True, check=False).stdout
            keys = [line.split()[1:3] for line in output.splitlines() if line.startswith("[")]
            if not keys:
                self.check_booting(end)
        names = [f"[{name}]:{PORT}" for name in ("localhost", "127.0.0.1")]
        lines = "".join(f"{name} {kind} {key}\n" for name in names for kind, key in keys)
        (self.directory / "known_hosts").write_text(lines)

    @property
    def options(self) -> SshOptions:
        """Return the SSH options to log in from the namespaces with."""
        return SshOptions(
            lab="openbsd-vm",
            user=self._user,
            port=PORT,
            identity=(os.environ[KEY_VARIABLE],),
            known_hosts=str(self.directory / "known_hosts"),
            config="",
            become="" if self._user == "root" else "doas -n",
            connect_deadline_s=120,
            command_deadline_s=120,
        )

    def set_user(self, user: str) -> None:
        """Set the user for later logins; others than root use ``doas``."""
        self._user = user

    def transport(self) -> LabTransport:
        """Return a closed transport to the machine."""
        return LabTransport(self._pid, self.options, PORT)

    def run(self, command: str) -> str:
        """Run a command and return its output."""
        transport = self.transport()
        transport.open()
        try:
            result = transport.run(command)
        finally:
            transport.close()
        return result.out + result.err

    def get_ports(self) -> dict[str, str]:
        """Return the interface name of each side."""
        if not self._ports:
            interfaces, _ = parse_ifconfig(self.run("ifconfig -A"))
            names = {i.mac: name for name, i in interfaces.items()}
            self._ports = {side: names[MACS[side].lower()] for side in SIDES}
        return self._ports


class SharedOpenBsdMachine(SharedMachine[OpenBsdMachine]):
    def __init__(self, *, pf_disabled: bool = False) -> None:
        """Describe a machine without starting it.

        Args:
            pf_disabled: disable PF after the boot. By default OpenBSD enables it, and the varying ports of
                router benchmarks fill its state table.
        """
        super().__init__()
        self._pf_disabled = pf_disabled

    def start(self) -> OpenBsdMachine:
        is_new = self._machine is None
        machine = super().start()
        if is_new and self._pf_disabled:
            machine.run("pfctl -d")
        return machine

    def _create_machine(self) -> OpenBsdMachine:
        return OpenBsdMachine(self.get_namespace_pid())

    def connect(self, macs: Mapping[str, str]) -> None:
        """Connect the machine, whose MAC addresses cannot be changed."""
        assert {s: m.lower() for s, m in macs.items()} == {s: m.lower() for s, m in MACS.items()}
        super().connect(macs)

    def make_device(self, driver: Any, intent: Any, **options: Any) -> OpenBsdDut:
        return OpenBsdDut(driver, intent, self, **options)


class OpenBsdDut(MachineDut):
    """Lab device that is the OpenBSD machine, with the interface names of the machine."""

    def __init__(self, driver, intent, shared: SharedOpenBsdMachine, **options) -> None:
        original = driver.options
        # a lab device names its interfaces after the sides; replace these names afterwards
        driver.options = original.model_copy(update={side: side for side in SIDES})
        super().__init__(driver, intent, shared, **options)
        driver.options = original.model_copy(update=shared.start().get_ports())
        self.driver = driver  # not the copy that MachineDut made

    def get_system_name(self, system: str) -> str:
        return os.environ.get(VERSION_VARIABLE) or system


def select_boot_lines(console: str) -> list[str]:
    """Return the boot messages about the system, its processor and its interfaces."""
    pattern = re.compile(
        r"^(OpenBSD|cpu0:? (at|:)|cpu0: [A-Z]|real mem|vio\d at|em\d at|root on|kern\.version)"
    )
    return [line for line in console.splitlines() if pattern.search(line)]
