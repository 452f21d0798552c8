"""A virtual machine between the lab's cables, and its sshd, as a device that v6t drives.

::

    tester              device namespace
      left  === left -- bridge -- tap --- left   of the machine
      right === right - bridge -- tap --- right
                        loopback -- NAT - mgmt   sshd of the machine
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from v6t.drivers.duts.standing import host
from v6t.drivers.duts.standing.device import LabDut
from v6t.drivers.duts.standing.ssh import LabTransport
from v6t.drivers.transport.namespace import NamespaceTransport, enter
from v6t.drivers.transport.ssh_options import SshOptions
from v6t.profiles.errors import DutError

from . import cpio
from .image import Image

PORT = 2222
MANAGEMENT_MAC = "52:54:00:00:00:01"
BOOT_DEADLINE_S = 180.0
KERNEL_LINE = "console=ttyS0 quiet panic=-1 mitigations=off net.ifnames=0"
OFF = (
    "csum=off,gso=off,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,"
    "host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off,romfile="
)
"""Frames as they are on a wire: complete checksums, nothing merged."""


class Machine:
    """QEMU without hardware acceleration, in a namespace."""

    def __init__(self, image: Image, pid: int, macs: dict[str, str]) -> None:
        """Remember.

        Args:
            image: to boot.
            pid: a process in the device's namespaces.
            macs: of left and right.
        """
        self._image = image
        self._pid = pid
        self._macs = {**macs, "mgmt": MANAGEMENT_MAC}
        self._place = Path(tempfile.mkdtemp(prefix="v6t-jool-"))
        self._process: subprocess.Popen[bytes] | None = None

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
        self._keys()
        with (self._place / "qemu.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*enter(self._pid), *self._command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._await_login()

    def transport(self) -> LabTransport:
        """A way to it, not open yet."""
        options = SshOptions(
            lab="jool-vm",
            port=PORT,
            user="root",
            identity=(str(self._place / "id"),),
            known_hosts=str(self._place / "known_hosts"),
            config="",
            connect_deadline_s=30,
            command_deadline_s=60,
        )
        return LabTransport(self._pid, options, PORT)

    def stop(self) -> None:
        """End it. May be called twice."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
        shutil.rmtree(self._place, ignore_errors=True)

    def _keys(self) -> None:
        """They come in a second archive behind the image's: the image holds no secret."""
        for name in ("hostkey", "id"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self._place / name)],
                check=True,
            )
        kind, key = (self._place / "hostkey.pub").read_text().split()[:2]
        (self._place / "known_hosts").write_text(
            "".join(f"{host} {kind} {key}\n" for host in ("localhost", f"[localhost]:{PORT}"))
        )
        own = [
            cpio.file("etc/ssh/hostkey", (self._place / "hostkey").read_text(), 0o600),
            cpio.file("etc/ssh/authorized_keys", (self._place / "id.pub").read_text(), 0o600),
            cpio.file(
                "etc/v6t-interfaces", "".join(f"{mac} {name}\n" for name, mac in self._macs.items())
            ),
        ]
        shared = self._image.initial.read_bytes()
        whole = shared + b"\0" * (-len(shared) % 4) + cpio.archive(own)
        (self._place / "initrd").write_bytes(whole)

    def _command(self) -> list[str]:
        cards = [f"user,id=mgmt,restrict=on,hostfwd=tcp:127.0.0.1:{PORT}-:22"]
        cards += [
            f"tap,id={side},ifname=tap-{side},script=no,downscript=no" for side in ("left", "right")
        ]
        command = [
            "qemu-system-x86_64", "-M", "q35", "-accel", "tcg", "-cpu", "max", "-smp", "1",
            "-m", "512", "-nodefaults", "-no-user-config", "-display", "none",
            "-serial", f"file:{self._place}/console.log",
            "-kernel", str(self._image.kernel), "-initrd", str(self._place / "initrd"),
            "-append", KERNEL_LINE,
        ]  # fmt: skip
        for name, card in zip(("mgmt", "left", "right"), cards, strict=True):
            device = f"virtio-net-pci,netdev={name},mac={self._macs[name]},{OFF}"
            command += ["-netdev", card, "-device", device]
        return command

    def _await_login(self) -> None:
        end = time.monotonic() + BOOT_DEADLINE_S
        while True:
            transport = self.transport()
            try:
                transport.open()
            except DutError as exc:
                if time.monotonic() > end or self._process is None or self._process.poll():
                    words = f"the virtual machine does not answer: {exc}; {self._said()}"
                    raise DutError(words) from exc
                time.sleep(0.5)
            else:
                transport.close()
                return

    def _said(self) -> str:
        texts = [self._place / "qemu.log", self._place / "console.log"]
        return " | ".join(p.read_text(errors="replace")[-1500:] for p in texts if p.exists())


class MachineDut(LabDut):
    """The lab's device is a virtual machine, driven as one elsewhere would be: over SSH."""

    def __init__(self, driver, intent, image: Image) -> None:
        super().__init__(driver, intent)
        self._image = image

    def namespace(self) -> int:
        self._host, self._pid = host.start(persistent=False)
        self._await_free()
        return self._pid

    def address(self) -> None:
        self._addressed = True
        macs = {side: getattr(self.intent.links, side).dut_mac for side in ("left", "right")}
        self._server = Machine(self._image, self._pid, macs)
        self._server.start()
