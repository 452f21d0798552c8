"""OpenBSD in QEMU between the lab's cables, driven over SSH as a device elsewhere would be.

``V6T_OPENBSD_VM`` holds QEMU's arguments that boot it (``-drive file=openbsd.qcow2,if=virtio,snapshot=on``, or
``-kernel ... -initrd ...``), ``V6T_OPENBSD_KEY`` names the private key that its root takes. Of its three virtio
interfaces the first has 10.0.2.15/24, by itself or by DHCP, and sshd listens there; the others are left alone.
``V6T_OPENBSD_VERSION`` is what the record calls it, where its ``uname`` does not say whose sources it was built of.
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
from v6t.tests.jool.vm import MACS, SIDES, MachineDut, Stand, bridged, carried_out
from v6t.tests.machine.machine import (
    ACCELERATOR,
    BOOT_DEADLINE_S,
    QEMU,
    QemuProcess,
    management_card,
    tap_cards,
)

BOOTS, KEY = "V6T_OPENBSD_VM", "V6T_OPENBSD_KEY"
VERSION = "V6T_OPENBSD_VERSION"
PORT = 2222
PLACE = (
    f"-nodefaults -no-user-config -display none -M pc -accel {ACCELERATOR} -cpu max -smp 1 -m 512"
)


def lacking() -> str:
    """Describe what is missing; empty if nothing."""
    unset = [name for name in (BOOTS, KEY) if not os.environ.get(name)]
    return f"set {' and '.join(unset)}, see tests/openbsd/vm.py" if unset else ""


class OpenBsdMachine(QemuProcess):
    """QEMU in a namespace."""

    def __init__(self, pid: int) -> None:
        """Describe a machine; ``pid`` is a process in the device's namespaces."""
        super().__init__()
        self._pid = pid
        self._user = "root"
        self._ports: dict[str, str] = {}

    def start(self) -> None:
        """Start the taps and the machine; return when its sshd accepts logins."""
        carried_out(self._pid, bridged())
        words = [QEMU, *PLACE.split(), "-serial", f"file:{self.place}/console.log"]
        words += [*management_card(PORT), *tap_cards(MACS), *shlex.split(os.environ[BOOTS])]
        self.launch([*enter(self._pid), *words])
        self._await_login()

    def _await_login(self) -> None:
        """Wait until its sshd shows its keys, which are trusted: nothing else is at that port here."""
        end = time.monotonic() + BOOT_DEADLINE_S
        scan = [*enter(self._pid), "ssh-keyscan", "-T", "10", "-p", str(PORT), "127.0.0.1"]
        keys: list[list[str]] = []
        while not keys:
            shown = subprocess.run(scan, capture_output=True, text=True, check=False).stdout
            keys = [line.split()[1:3] for line in shown.splitlines() if line.startswith("[")]
            if not keys:
                self.check_booting(end)
        names = [f"[{name}]:{PORT}" for name in ("localhost", "127.0.0.1")]
        known = "".join(f"{name} {kind} {key}\n" for name in names for kind, key in keys)
        (self.place / "known_hosts").write_text(known)

    @property
    def options(self) -> SshOptions:
        """Return the ssh options from within the namespace."""
        return SshOptions(
            lab="openbsd-vm",
            user=self._user,
            port=PORT,
            identity=(os.environ[KEY],),
            known_hosts=str(self.place / "known_hosts"),
            config="",
            become="" if self._user == "root" else "doas -n",
            connect_deadline_s=120,
            command_deadline_s=120,
        )

    def login(self, user: str) -> None:
        """Log in as another user from now on, who becomes root by ``doas``."""
        self._user = user

    def transport(self) -> LabTransport:
        """Return a transport to it, not open yet."""
        return LabTransport(self._pid, self.options, PORT)

    def run(self, command: str) -> str:
        """Run a command and return its output."""
        way = self.transport()
        way.open()
        try:
            done = way.run(command)
        finally:
            way.close()
        return done.out + done.err

    def ports(self) -> dict[str, str]:
        """Return its interface names for left and right."""
        if not self._ports:
            interfaces, _ = parse_ifconfig(self.run("ifconfig -A"))
            named = {i.mac: name for name, i in interfaces.items()}
            self._ports = {side: named[MACS[side].lower()] for side in SIDES}
        return self._ports


class Standing(Stand[OpenBsdMachine]):
    def __init__(self, *, plain: bool = False) -> None:
        """Describe a machine that is not started yet.

        Args:
            plain: PF is off until somebody needs it. A release has it on from its start, and then a router that
                sees other ports in each frame does what fills a table of states, and is measured full.
        """
        super().__init__()
        self._plain = plain

    def stand(self) -> OpenBsdMachine:
        begins = self._machine is None
        machine = super().stand()
        if begins and self._plain:
            machine.run("pfctl -d")
        return machine

    def _made(self) -> OpenBsdMachine:
        return OpenBsdMachine(self.namespace())

    def cable(self, macs: Mapping[str, str]) -> None:
        """Check the addresses of the machine's interfaces, which are fixed."""
        assert {side: mac.lower() for side, mac in macs.items()} == {
            side: mac.lower() for side, mac in MACS.items()
        }
        super().cable(macs)

    def device(self, driver: Any, intent: Any, **keep: Any) -> OpenBsdDut:
        return OpenBsdDut(driver, intent, self, **keep)


class OpenBsdDut(MachineDut):
    """Lab device that is the OpenBSD machine; the machine names its interfaces."""

    def __init__(self, driver, intent, standing: Standing, **keep) -> None:
        given = driver.options
        # the interfaces of the lab's device have no option; those of this one have names already
        driver.options = given.model_copy(update={side: side for side in SIDES})
        super().__init__(driver, intent, standing, **keep)
        driver.options = given.model_copy(update=standing.stand().ports())
        self.driver = driver  # with these; it has no modules that would stay in a lab

    def named(self, system: str) -> str:
        """Return whose sources it was built from, if given."""
        return os.environ.get(VERSION) or system


def excerpt(console: str) -> list[str]:
    """Return the lines of a boot about the system, its processor and its interfaces."""
    wanted = re.compile(
        r"^(OpenBSD|cpu0:? (at|:)|cpu0: [A-Z]|real mem|vio\d at|em\d at|root on|kern\.version)"
    )
    return [line for line in console.splitlines() if wanted.search(line)]
