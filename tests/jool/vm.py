"""Use a virtual machine as the DUT of the lab, configured over SSH.

::

    tester              device namespace
      left  === left -- bridge -- tap --- left   of the machine
      right === right - bridge -- tap --- right
                                    tap --- mgmt   sshd of the machine
"""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Generic, TypeVar

from v6t.core.config import run_setup
from v6t.drivers.duts.lab import namespaces
from v6t.drivers.duts.lab.device import LabDut
from v6t.drivers.duts.lab.ssh import LabTransport
from v6t.drivers.transport.process import NamespaceTransport, enter
from v6t.drivers.transport.ssh_options import SshOptions
from v6t.intent.device import Links
from v6t.tests.machine import cpio
from v6t.tests.machine.image import Image
from v6t.tests.machine.machine import ACCELERATOR, MANAGEMENT_MAC, Machine, make_tap_nics

SIDES = ("left", "right")
# MAC addresses after a boot, the defaults of most technologies
MACS = {side: getattr(Links(), side).dut_mac for side in SIDES}
HARDWARE = f"-M q35 -accel {ACCELERATOR} -cpu max -smp 1 -m 512"


class LinuxMachine(Machine):
    """A Linux machine whose QEMU runs in the namespaces of the device."""

    address = "10.0.2.15"
    restart_qemu = True

    def __init__(
        self,
        image: Image,
        pid: int,
        macs: Mapping[str, str],
        files: Sequence[cpio.Entry] = (),
        template: LinuxMachine | None = None,
    ) -> None:
        """Describe a machine without starting it; ``pid`` is a process in the device's namespaces."""
        self._pid = pid
        names = {**macs, "mgmt": MANAGEMENT_MAC}
        lines = "".join(f"{mac} {name}\n" for name, mac in names.items())
        files = [cpio.make_file("etc/v6t-interfaces", lines), *files]
        cards = make_tap_nics({"mgmt": MANAGEMENT_MAC, **macs})
        super().__init__(image, 22, [*HARDWARE.split(), *cards], files, enter(pid), template)

    def start(self) -> None:
        """Create the taps, start the machine and wait until it accepts logins."""
        lines = [
            "ip tuntap add tap-mgmt mode tap",
            "ip address add 10.0.2.2/24 dev tap-mgmt",
            "ip link set dev tap-mgmt up",
        ]
        run_in_namespaces(self._pid, [*lines, *list_bridge_commands()])
        super().start()

    @property
    def options(self) -> SshOptions:
        """Return the SSH options to log in from the namespaces with."""
        # a booting machine does not answer: retry early
        changes = {"lab": "jool-vm", "connect_deadline_s": 15.0}
        return super().options.model_copy(update=changes)

    def transport(self) -> LabTransport:
        return LabTransport(self._pid, self.options)


def list_bridge_commands() -> list[str]:
    """Return commands that create a tap and a bridge for each side."""
    lines = []
    for side in SIDES:
        lines += [
            f"ip tuntap add tap-{side} mode tap",
            f"ip link add br-{side} type bridge mcast_snooping 0",
            f"ip link set dev tap-{side} master br-{side}",
            f"ip link set dev tap-{side} up",
            f"ip link set dev br-{side} up",
        ]
    return lines


def run_in_namespaces(pid: int, lines: Sequence[str]) -> None:
    """Run commands in the namespaces of a process."""
    result = NamespaceTransport(pid).run(" && ".join(lines))
    assert result.status == 0, result


M = TypeVar("M", bound=Any)  # a machine with `start`, `stop` and `transport`


class SharedMachine(ABC, Generic[M]):
    """A machine and its namespaces, booted at first use and shared by several configurations."""

    def __init__(self) -> None:
        self._host: subprocess.Popen[str] | None = None
        self._pid = 0
        self._machine: M | None = None

    @abstractmethod
    def _create_machine(self) -> M:
        """Return the machine without starting it."""

    @property
    def machine(self) -> M:
        """Return the running machine."""
        assert self._machine is not None
        return self._machine

    def start(self) -> M:
        """Start the machine unless it is running."""
        if self._machine is None:
            machine = self._create_machine()
            try:
                machine.start()
            except BaseException:  # a retry needs namespaces without the taps
                machine.stop()
                self.stop()
                self._host = None
                raise
            self._machine = machine
        return self._machine

    def get_namespace_pid(self) -> int:
        """Return the PID of a process in the machine's namespaces, creating them if necessary."""
        if self._host is None:
            self._host, self._pid = namespaces.start_namespaces(persistent=False)
        return self._pid

    def connect(self, macs: Mapping[str, str]) -> None:
        """Start the machine if necessary and connect it to the lab's new cables."""
        del macs
        self.start()
        lines = [f"ip link set dev {s} master br-{s} && ip link set dev {s} up" for s in SIDES]
        run_in_namespaces(self._pid, lines)

    def make_device(self, driver: Any, intent: Any, **options: Any) -> MachineDut:
        """Return the machine as a lab device with a driver."""
        return MachineDut(driver, intent, self, **options)

    def stop(self) -> None:
        """Stop the machine and remove its namespaces."""
        if self._machine is not None:
            self._machine.stop()
        if self._host is not None:
            self._host.kill()
            self._host.communicate()


class SharedLinuxMachine(SharedMachine[LinuxMachine]):
    """A shared machine that boots a Linux image."""

    def __init__(
        self,
        image: Image,
        files: Sequence[cpio.Entry] = (),
        version: str = "",
        template: SharedLinuxMachine | None = None,
    ) -> None:
        """Describe a machine without starting it.

        Args:
            image: the image to boot.
            files: files to add to the image.
            version: version of the software to be measured.
            template: machine from whose state to start instead of booting.
        """
        super().__init__()
        self._image, self._files, self.version, self._template = image, files, version, template

    def clone(self) -> SharedLinuxMachine:
        """Return a machine that starts from this one's state. No session may be open."""
        return SharedLinuxMachine(self._image, self._files, self.version, self)

    def _create_machine(self) -> LinuxMachine:
        template = None if self._template is None else self._template.start()
        return LinuxMachine(self._image, self.get_namespace_pid(), MACS, self._files, template)

    def connect(self, macs: Mapping[str, str]) -> None:
        super().connect(macs)
        transport = self.machine.transport()
        transport.open()
        try:
            for side, mac in macs.items():
                result = transport.run(f"ip link set dev {side} address {mac}")
                assert result.status == 0, result
        finally:
            transport.close()


class MachineDut(LabDut):
    """Lab device that is a shared virtual machine; it keeps running after the rollback."""

    def __init__(self, driver, intent, shared: SharedMachine[Any], **options) -> None:
        super().__init__(driver, intent, **options)
        self._shared = shared
        if driver.options.ssh is None:
            # with SSH options, the driver may load and remove modules: the kernel is not shared
            changes = {"ssh": SshOptions(host=LinuxMachine.address), "undo_after_s": 0}
            self.driver = copy(driver)
            self.driver.options = driver.options.model_copy(update=changes)

    def create_namespaces(self) -> int:
        self._pid = self._shared.get_namespace_pid()
        self._await_free_interfaces()
        return self._pid

    def prepare(self) -> None:
        links = self.intent.links
        self._shared.connect({side: getattr(links, side).dut_mac for side in SIDES})

    def _make_transport(self) -> LabTransport:
        return self._shared.machine.transport()

    def describe(self):
        """Describe the device for the manifest, including the emulation that limits the rates."""
        description = super().describe()
        system = self.get_system_name(description.get("system", ""))
        emulated = " without hardware acceleration" if ACCELERATOR == "tcg" else ""
        return {**description, "system": f"{system}, in QEMU{emulated}"}

    def get_system_name(self, system: str) -> str:
        """Return the name to record for a system that reports itself as ``system``."""
        return system


def replace_lab_device(machine: SharedMachine[Any], monkeypatch) -> None:
    """Use the machine as the lab's device in every run."""

    def make_device(run, record_dir=None):
        return machine.make_device(run.driver, run.intent, record_dir=record_dir)

    monkeypatch.setattr(run_setup, "build_lab_device", make_device)
