"""A virtual machine between the lab's cables, and its sshd, as a device that v6t drives.

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

from v6t.core.runs import bench
from v6t.drivers.duts.lab import namespaces
from v6t.drivers.duts.lab.device import LabDut
from v6t.drivers.duts.lab.ssh import LabTransport
from v6t.drivers.transport.process import NamespaceTransport, enter
from v6t.drivers.transport.ssh_options import SshOptions
from v6t.intent.device import Links
from v6t.tests.machine import cpio
from v6t.tests.machine.image import Image
from v6t.tests.machine.machine import ACCELERATOR, MANAGEMENT_MAC, Machine, tap_cards

SIDES = ("left", "right")
MACS = {side: getattr(Links(), side).dut_mac for side in SIDES}
"""After each start; most technologies have these."""
PROCESSOR = f"-M q35 -accel {ACCELERATOR} -cpu max -smp 1 -m 512"


class JoolMachine(Machine):
    """QEMU in a namespace."""

    address = "10.0.2.15"
    anew = True

    def __init__(
        self,
        image: Image,
        pid: int,
        macs: Mapping[str, str],
        files: Sequence[cpio.Entry] = (),
        like: JoolMachine | None = None,
    ) -> None:
        """Describe a machine that is not started yet.

        Args:
            image: to boot.
            pid: a process in the device's namespaces.
            macs: of left and right.
            files: that it has besides those of the image.
            like: begin as that machine is, in place of booting.
        """
        self._pid = pid
        names = {**macs, "mgmt": MANAGEMENT_MAC}
        lines = "".join(f"{mac} {name}\n" for name, mac in names.items())
        own = [cpio.file("etc/v6t-interfaces", lines), *files]
        cards = tap_cards({"mgmt": MANAGEMENT_MAC, **macs})
        super().__init__(image, 22, [*PROCESSOR.split(), *cards], own, enter(pid), like)

    def start(self) -> None:
        """Start the taps and the machine; return when its sshd accepts logins."""
        lines = [
            "ip tuntap add tap-mgmt mode tap",
            "ip address add 10.0.2.2/24 dev tap-mgmt",
            "ip link set dev tap-mgmt up",
        ]
        carried_out(self._pid, [*lines, *bridged()])
        super().start()

    @property
    def options(self) -> SshOptions:
        """Return the ssh options from within the namespace."""
        # a booting machine does not answer: retry soon instead of waiting for long
        inside = {"lab": "jool-vm", "connect_deadline_s": 15.0}
        return super().options.model_copy(update=inside)

    def transport(self) -> LabTransport:
        """Return a transport to it, not open yet."""
        return LabTransport(self._pid, self.options)


def bridged() -> list[str]:
    """Return commands that make a tap for each side, and the bridge that joins it to a cable."""
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


def carried_out(pid: int, lines: Sequence[str]) -> None:
    """Run commands in a process's namespaces."""
    done = NamespaceTransport(pid).run(" && ".join(lines))
    assert done.status == 0, done


M = TypeVar("M", bound=Any)
"""A machine with `start`, `stop` and `transport`."""


class Stand(ABC, Generic[M]):
    """A machine and its namespaces, used for several configurations; the first one boots it."""

    def __init__(self) -> None:
        self._host: subprocess.Popen[str] | None = None
        self._pid = 0
        self._machine: M | None = None

    @abstractmethod
    def _made(self) -> M:
        """Return the machine, not started yet."""

    @property
    def machine(self) -> M:
        """Return the running machine."""
        assert self._machine is not None
        return self._machine

    def stand(self) -> M:
        """Start the machine unless it is running."""
        if self._machine is None:
            machine = self._made()
            try:
                machine.start()
            except BaseException:  # the next one needs a namespace without its taps
                machine.stop()
                self.end()
                self._host = None
                raise
            self._machine = machine
        return self._machine

    def namespace(self) -> int:
        """Return the PID of a process in the machine's namespaces."""
        if self._host is None:
            self._host, self._pid = namespaces.start_namespaces(persistent=False)
        return self._pid

    def cable(self, macs: Mapping[str, str]) -> None:
        """Start the machine unless it is running, and join it to the lab's new cables.

        Args:
            macs: that its interfaces are to have.
        """
        del macs
        self.stand()
        lines = [f"ip link set dev {s} master br-{s} && ip link set dev {s} up" for s in SIDES]
        carried_out(self._pid, lines)

    def device(self, driver: Any, intent: Any, **keep: Any) -> MachineDut:
        """Return the machine as a lab device with a driver."""
        return MachineDut(driver, intent, self, **keep)

    def end(self) -> None:
        """Stop the machine: no further configuration."""
        if self._machine is not None:
            self._machine.stop()
        if self._host is not None:
            self._host.kill()
            self._host.communicate()


class Standing(Stand[JoolMachine]):
    """A machine that boots an image."""

    def __init__(
        self,
        image: Image,
        files: Sequence[cpio.Entry] = (),
        version: str = "",
        like: Standing | None = None,
    ) -> None:
        """Describe a machine that is not started yet.

        Args:
            image: to boot.
            files: that it has besides those of the image.
            version: of what is measured in it, for whoever asks.
            like: begin as that one is, in place of booting.
        """
        super().__init__()
        self._image, self._files, self.version, self._like = image, files, version, like

    def twin(self) -> Standing:
        """Return another machine that starts from this one's state; nobody is logged in then."""
        return Standing(self._image, self._files, self.version, self)

    def _made(self) -> JoolMachine:
        like = None if self._like is None else self._like.stand()
        return JoolMachine(self._image, self.namespace(), MACS, self._files, like)

    def cable(self, macs: Mapping[str, str]) -> None:
        super().cable(macs)
        way = self.machine.transport()
        way.open()
        try:
            for side, mac in macs.items():
                done = way.run(f"ip link set dev {side} address {mac}")
                assert done.status == 0, done
        finally:
            way.close()


class MachineDut(LabDut):
    """Lab device that is a running virtual machine, configured over SSH.

    It is restored at the end, and goes on.
    """

    def __init__(self, driver, intent, standing: Stand[Any], **keep) -> None:
        super().__init__(driver, intent, **keep)
        self._standing = standing
        if driver.options.ssh is None:
            # as elsewhere its kernel is its own: no other lab needs a module of it
            own = {"ssh": SshOptions(host=JoolMachine.address), "undo_after_s": 0}
            self.driver = copy(driver)
            self.driver.options = driver.options.model_copy(update=own)

    def create_namespaces(self) -> int:
        self._pid = self._standing.namespace()
        self._await_free_interfaces()
        return self._pid

    def prepare(self) -> None:
        links = self.intent.links
        self._standing.cable({side: getattr(links, side).dut_mac for side in SIDES})

    def _make_transport(self) -> LabTransport:
        return self._standing.machine.transport()

    def describe(self):
        """Describe the machine for the manifest, since it limits the rates."""
        told = super().describe()
        system = self.named(told.get("system", ""))
        emulated = " without hardware acceleration" if ACCELERATOR == "tcg" else ""
        return {**told, "system": f"{system}, in QEMU{emulated}"}

    def named(self, system: str) -> str:
        """Return the name of the system, which reports itself as ``system``."""
        return system


def stands_in(machine: Stand[Any], monkeypatch) -> None:
    """Replace the lab's device by the machine for every run."""

    def device(run, keep=None):
        return machine.device(run.driver, run.intent, record_dir=keep)

    monkeypatch.setattr(bench, "build_lab_device", device)
