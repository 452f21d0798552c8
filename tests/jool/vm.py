"""A virtual machine between the lab's cables, and its sshd, as a device that v6t drives.

::

    tester              device namespace
      left  === left -- bridge -- tap --- left   of the machine
      right === right - bridge -- tap --- right
                        loopback -- NAT - mgmt   sshd of the machine
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from v6t.drivers.duts.standing import host
from v6t.drivers.duts.standing.device import LabDut
from v6t.drivers.duts.standing.ssh import LabTransport
from v6t.drivers.transport.namespace import NamespaceTransport, enter
from v6t.drivers.transport.ssh_options import SshOptions
from v6t.tests.machine import cpio
from v6t.tests.machine.image import Image
from v6t.tests.machine.machine import Machine, management

PORT = 2222
MANAGEMENT_MAC = "52:54:00:00:00:01"
OFF = (
    "csum=off,gso=off,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,"
    "host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off,romfile="
)
"""Frames as they are on a wire: complete checksums, nothing merged."""


class JoolMachine(Machine):
    """QEMU without hardware acceleration, in a namespace."""

    def __init__(
        self, image: Image, pid: int, macs: Mapping[str, str], more: Sequence[str] = ()
    ) -> None:
        """Remember.

        Args:
            image: to boot.
            pid: a process in the device's namespaces.
            macs: of left and right.
            more: arguments of QEMU.
        """
        self._pid = pid
        names = {**macs, "mgmt": MANAGEMENT_MAC}
        lines = "".join(f"{mac} {name}\n" for name, mac in names.items())
        files = [cpio.file("etc/v6t-interfaces", lines)]
        super().__init__(image, PORT, [*_arguments(macs), *more], files, enter(pid))

    def start(self) -> None:
        """Taps, then the machine; returns when its sshd lets us in."""
        lines = []
        for side in ("left", "right"):
            lines += [
                f"ip tuntap add tap-{side} mode tap",
                f"ip link add br-{side} type bridge mcast_snooping 0",
                f"ip link set dev {side} master br-{side}",
                f"ip link set dev tap-{side} master br-{side}",
                f"ip link set dev tap-{side} up",
                f"ip link set dev br-{side} up",
            ]
        done = NamespaceTransport(self._pid).run(" && ".join(lines))
        assert done.status == 0, done
        super().start()

    @property
    def options(self) -> SshOptions:
        """From within the namespace."""
        return super().options.model_copy(update={"host": "", "lab": "jool-vm"})

    def transport(self) -> LabTransport:
        """A way to it, not open yet."""
        return LabTransport(self._pid, self.options, PORT)


def _arguments(macs: Mapping[str, str]) -> list[str]:
    command = ["-M", "q35", "-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", "512"]
    command += management(PORT, MANAGEMENT_MAC)
    for side in ("left", "right"):
        tap = f"tap,id={side},ifname=tap-{side},script=no,downscript=no"
        device = f"virtio-net-pci,netdev={side},mac={macs[side]},{OFF}"
        command += ["-netdev", tap, "-device", device]
    return command


class MachineDut(LabDut):
    """The lab's device is a virtual machine, driven as one elsewhere would be: over SSH."""

    def __init__(self, driver, intent, image: Image, more: Sequence[str] = (), **keep) -> None:
        super().__init__(driver, intent, **keep)
        self._image, self._more = image, more

    def namespace(self) -> int:
        self._host, self._pid = host.start(persistent=False)
        self._await_free()
        return self._pid

    def prepare(self) -> None:
        macs = {side: getattr(self.intent.links, side).dut_mac for side in ("left", "right")}
        self.machine = self._server = JoolMachine(self._image, self._pid, macs, self._more)
        self._server.start()
