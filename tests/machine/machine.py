"""QEMU, and the way into a machine: keys made for it, and its sshd."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from v6t.base.errors import DutError
from v6t.drivers.transport.openssh import SshTransport
from v6t.drivers.transport.ssh_options import SshOptions

from . import cpio
from .image import Image

ACCELERATOR = os.environ.get("V6T_VM_ACCEL", "tcg")
"""A /dev/kvm says little: within a virtual machine without nested virtualisation one may be there that
is slower than none."""
BOOT_DEADLINE_S = 600.0
QEMU = "qemu-system-x86_64"
_STARTS = """\
anew=$1; first=$2; shift 2
"$@" $first && [ -n "$anew" ] && while "$@"; do :; done
"""
"""Runs QEMU; again and again where its end is the machine's reset."""
KERNEL_LINE = "console=ttyS0 quiet panic=-1 mitigations=off net.ifnames=0"
MANAGEMENT_MAC = "52:54:00:00:00:01"
OFFLOADS_OFF = (
    "csum=off,gso=off,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,"
    "host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off"
)
"""Options of a virtio interface whose frames are as on a wire: complete checksums, nothing merged."""


class QemuProcess:
    """A QEMU process in its own session, with a directory for its files."""

    accelerator = ACCELERATOR

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="v6t-vm-"))
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self, command: Sequence[str]) -> None:
        """Start the process; its output goes into a file."""
        with (self.place / "qemu.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def hypervisor(self) -> str:
        """Name, version and accelerator: ``QEMU 7.2.22, TCG``."""
        said = subprocess.run([QEMU, "--version"], capture_output=True, text=True, check=True)
        return f"QEMU {said.stdout.split()[3]}, {self.accelerator.upper()}"

    @property
    def console(self) -> str:
        """Return the text of the machine's serial line."""
        path = self.place / "console.log"
        return path.read_bytes().decode(errors="replace").replace("\r", "") if path.exists() else ""

    def check_booting(self, end: float, problem: object = "") -> None:
        """Raise DutError if the process has ended or this moment has passed."""
        if self._process is None or self._process.poll() is not None or time.monotonic() > end:
            log = (self.place / "qemu.log").read_text(errors="replace")[-800:]
            raise DutError(
                f"the virtual machine does not answer: {problem} {log} {self.console[-1500:]}",
                code="command-failed",
            )

    def stop(self) -> None:
        """End the process. May be called twice."""
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(self.place, ignore_errors=True)


class Machine(QemuProcess):
    """A virtual machine, and its sshd."""

    address = "127.0.0.1"
    """Where its sshd is reached."""
    anew = False
    """Whether QEMU itself starts anew when the machine does: what it has translated slows the next start, to
    minutes. Who is to notice nothing of that must not reach sshd by way of QEMU's own NAT."""

    def __init__(
        self,
        image: Image,
        port: int,
        command: Sequence[str],
        files: Sequence[cpio.Entry] = (),
        before: Sequence[str] = (),
        like: Machine | None = None,
    ) -> None:
        """Describe a machine that is not started yet.

        Args:
            image: to boot.
            port: that QEMU forwards to the machine's sshd.
            command: QEMU's arguments for machine and interfaces.
            files: for this machine alone.
            before: a program that runs QEMU, for example in another network namespace.
            like: begin as that machine, of the same image and arguments, is by then, in place of booting.
        """
        super().__init__()
        self._image = image
        self._port = port
        self._arguments = list(command)
        self._files = list(files)
        self._before = list(before)
        self._like = like
        self.accelerator = self._arguments[self._arguments.index("-accel") + 1]

    def start(self) -> None:
        """Boot; return when its sshd accepts logins."""
        first = ""
        if self._like is None:
            self._keys()
        else:
            state = self._like.kept()
            for name in ("id", "known_hosts", "initrd"):
                shutil.copy(self._like.place / name, self.place)
            first = f"-incoming exec:cat<{state}"
        anew = "anew" if self.anew else ""
        self.launch([*self._before, "sh", "-c", _STARTS, "sh", anew, first, *self._command()])
        self.await_login()

    @property
    def options(self) -> SshOptions:
        """Return the ssh options of a login."""
        return SshOptions(
            host=self.address,
            port=self._port,
            user="root",
            identity=(str(self.place / "id"),),
            known_hosts=str(self.place / "known_hosts"),
            config="",
            connect_deadline_s=120,
            command_deadline_s=300,
        )

    def transport(self) -> SshTransport:
        """Return a transport to it, not open yet."""
        return SshTransport(self.options)

    def reset(self) -> None:
        """Press the reset button: nothing is written or announced; it boots. Returns at once."""
        self._ask("system_reset")

    def kept(self) -> Path:
        """Save the machine's state once, from which others start; nobody is logged in meanwhile."""
        state = self.place / "state"
        if not state.exists():
            self._ask("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
            self._ask("migrate", uri=f"exec:cat >{state}.part && mv {state}.part {state}")
            while not state.exists():
                how = self._ask("query-migrate")["status"]
                assert how not in ("failed", "cancelled"), how
                time.sleep(0.05)
            self._ask("cont")
        return state

    def _ask(self, command: str, **arguments: Any) -> Any:
        """Execute a command in QEMU's monitor and return its answer."""
        asked = [{"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}]
        answer: dict[str, Any] = {}
        with socket.socket(socket.AF_UNIX) as way, way.makefile("rw") as lines:
            way.connect(f"{self.place}/qmp")
            for each in asked:
                print(json.dumps(each), file=lines, flush=True)
                while "return" not in (answer := json.loads(lines.readline())):
                    assert "error" not in answer, answer
        return answer["return"]

    def await_login(self) -> None:
        """Wait until its sshd lets us in."""
        end = time.monotonic() + BOOT_DEADLINE_S
        while True:
            transport = self.transport()
            try:
                transport.open()
            except DutError as exc:
                self.check_booting(end, exc)
                time.sleep(0.5)
            else:
                transport.close()
                return

    def _keys(self) -> None:
        """Make the keys, which come in a second archive: the image contains no secret."""
        for name in ("hostkey", "id"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.place / name)],
                check=True,
            )
        kind, key = (self.place / "hostkey.pub").read_text().split()[:2]
        names = ["localhost", self.address]
        names += [f"[{name}]:{self._port}" for name in names]
        (self.place / "known_hosts").write_text("".join(f"{n} {kind} {key}\n" for n in names))
        own = [
            cpio.file("etc/ssh/hostkey", (self.place / "hostkey").read_text(), 0o600),
            cpio.file("etc/ssh/authorized_keys", (self.place / "id.pub").read_text(), 0o600),
            *self._files,
        ]
        # this processor unpacks it sooner than that of the machine
        shared = gzip.decompress(self._image.initial.read_bytes())
        whole = shared + b"\0" * (-len(shared) % 4) + cpio.archive(own)
        (self.place / "initrd").write_bytes(whole)

    def _command(self) -> list[str]:
        return [
            QEMU, "-nodefaults", "-no-user-config", "-display", "none",
            "-chardev", f"file,id=console,path={self.place}/console.log,append=on",
            "-serial", "chardev:console", *(["-no-reboot"] if self.anew else []),
            "-qmp", f"unix:{self.place}/qmp,server=on,wait=off",
            "-kernel", str(self._image.kernel), "-initrd", str(self.place / "initrd"),
            "-append", KERNEL_LINE, *self._arguments,
        ]  # fmt: skip


def management_card(port: int) -> list[str]:
    """Return arguments for an interface by which this host's loopback reaches the machine's sshd."""
    return [
        "-netdev", f"user,id=mgmt,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22",
        "-device", f"virtio-net-pci,netdev=mgmt,mac={MANAGEMENT_MAC},romfile=",
    ]  # fmt: skip


def tap_cards(macs: Mapping[str, str]) -> list[str]:
    """Return arguments for an interface at the tap of each name, with its MAC address."""
    command = []
    for name, mac in macs.items():
        card = f"virtio-net-pci,netdev={name},mac={mac},{OFFLOADS_OFF},romfile="
        tap = f"tap,id={name},ifname=tap-{name},script=no,downscript=no"
        command += ["-netdev", tap, "-device", card]
    return command
