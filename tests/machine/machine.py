"""Boot virtual machines in QEMU and log in to them over SSH."""

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

# Not derived from /dev/kvm: without nested virtualization KVM may exist and be slower than TCG.
ACCELERATOR = os.environ.get("V6T_VM_ACCEL", "tcg")
BOOT_DEADLINE_S = 600.0
QEMU = "qemu-system-x86_64"
# Runs QEMU, and starts it again after each reset if the first argument is not empty.
QEMU_LOOP = """\
again=$1; first=$2; shift 2
"$@" $first && [ -n "$again" ] && while "$@"; do :; done
"""
KERNEL_LINE = "console=ttyS0 quiet panic=-1 mitigations=off net.ifnames=0"
MANAGEMENT_MAC = "52:54:00:00:00:01"
# virtio options for frames as on a wire: complete checksums, no segmentation offload
OFFLOADS_OFF = (
    "csum=off,gso=off,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,"
    "host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off"
)


class QemuProcess:
    """A QEMU process in its own session, with a temporary directory."""

    accelerator = ACCELERATOR

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="v6t-vm-"))
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self, command: Sequence[str]) -> None:
        """Start the process and log its output to a file."""
        with (self.directory / "qemu.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def hypervisor(self) -> str:
        """Return name, version and accelerator, for example ``QEMU 7.2.22, TCG``."""
        result = subprocess.run([QEMU, "--version"], capture_output=True, text=True, check=True)
        return f"QEMU {result.stdout.split()[3]}, {self.accelerator.upper()}"

    @property
    def console(self) -> str:
        """Return the output on the serial console."""
        path = self.directory / "console.log"
        return path.read_bytes().decode(errors="replace").replace("\r", "") if path.exists() else ""

    def check_booting(self, end: float, problem: object = "") -> None:
        """Raise DutError if the process has ended or the time ``end`` has passed."""
        if self._process is None or self._process.poll() is not None or time.monotonic() > end:
            log = (self.directory / "qemu.log").read_text(errors="replace")[-800:]
            raise DutError(
                f"the virtual machine does not answer: {problem} {log} {self.console[-1500:]}",
                code="command-failed",
            )

    def stop(self) -> None:
        """Kill the process and remove its directory. A second call does nothing."""
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


class Machine(QemuProcess):
    """A virtual machine that is reached over SSH."""

    address = "127.0.0.1"
    # Restart QEMU on a reset, because the translated code in its cache slows the next boot to minutes.
    # This closes connections through QEMU's own NAT.
    restart_qemu = False

    def __init__(
        self,
        image: Image,
        port: int,
        command: Sequence[str],
        files: Sequence[cpio.Entry] = (),
        prefix: Sequence[str] = (),
        template: Machine | None = None,
    ) -> None:
        """Describe a machine without starting it.

        Args:
            image: the image to boot.
            port: TCP port of sshd on :attr:`address`.
            command: QEMU arguments for the machine and its interfaces.
            files: files to add to the image.
            prefix: command that runs QEMU, for example in another network namespace.
            template: machine with the same image and arguments; start from its state instead of booting.
        """
        super().__init__()
        self._image = image
        self._port = port
        self._arguments = list(command)
        self._files = list(files)
        self._prefix = list(prefix)
        self._template = template
        self.accelerator = self._arguments[self._arguments.index("-accel") + 1]

    def start(self) -> None:
        """Start the machine and wait until it accepts logins."""
        first = ""
        if self._template is None:
            self._create_keys()
        else:
            state = self._template.save_state()
            for name in ("id", "known_hosts", "initrd"):
                shutil.copy(self._template.directory / name, self.directory)
            first = f"-incoming exec:cat<{state}"
        loop = ["sh", "-c", QEMU_LOOP, "sh", "again" if self.restart_qemu else "", first]
        self.launch([*self._prefix, *loop, *self._build_command()])
        self.await_login()

    @property
    def options(self) -> SshOptions:
        """Return the SSH options to log in with."""
        return SshOptions(
            host=self.address,
            port=self._port,
            user="root",
            identity=(str(self.directory / "id"),),
            known_hosts=str(self.directory / "known_hosts"),
            config="",
            connect_deadline_s=120,
            command_deadline_s=300,
        )

    def transport(self) -> SshTransport:
        """Return a closed transport to the machine."""
        return SshTransport(self.options)

    def reset(self) -> None:
        """Reset the machine without a shutdown, and do not wait for it to boot."""
        self._execute("system_reset")

    def save_state(self) -> Path:
        """Save the state for other machines to start from. No session may be open."""
        state = self.directory / "state"
        if not state.exists():
            self._execute("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
            self._execute("migrate", uri=f"exec:cat >{state}.part && mv {state}.part {state}")
            while not state.exists():
                status = self._execute("query-migrate")["status"]
                assert status not in ("failed", "cancelled"), status
                time.sleep(0.05)
            self._execute("cont")
        return state

    def _execute(self, command: str, **arguments: Any) -> Any:
        """Execute a QMP command and return its result."""
        requests = [{"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}]
        answer: dict[str, Any] = {}
        with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rw") as lines:
            connection.connect(f"{self.directory}/qmp")
            for request in requests:
                print(json.dumps(request), file=lines, flush=True)
                while "return" not in (answer := json.loads(lines.readline())):
                    assert "error" not in answer, answer
        return answer["return"]

    def await_login(self) -> None:
        """Wait until a login succeeds."""
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

    def _create_keys(self) -> None:
        """Create SSH keys and append them to the initrd, so that the cached image has no secrets."""
        for name in ("hostkey", "id"):
            path = str(self.directory / name)
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
        kind, key = (self.directory / "hostkey.pub").read_text().split()[:2]
        names = ["localhost", self.address]
        names += [f"[{name}]:{self._port}" for name in names]
        (self.directory / "known_hosts").write_text("".join(f"{n} {kind} {key}\n" for n in names))
        private = [
            cpio.make_file("etc/ssh/hostkey", (self.directory / "hostkey").read_bytes(), 0o600),
            cpio.make_file(
                "etc/ssh/authorized_keys", (self.directory / "id.pub").read_bytes(), 0o600
            ),
            *self._files,
        ]
        # the host decompresses the initrd faster than an emulated machine does
        base = gzip.decompress(self._image.initrd.read_bytes())
        archive = base + b"\0" * (-len(base) % 4) + cpio.build_archive(private)
        (self.directory / "initrd").write_bytes(archive)

    def _build_command(self) -> list[str]:
        return [
            QEMU, "-nodefaults", "-no-user-config", "-display", "none",
            "-chardev", f"file,id=console,path={self.directory}/console.log,append=on",
            "-serial", "chardev:console", *(["-no-reboot"] if self.restart_qemu else []),
            "-qmp", f"unix:{self.directory}/qmp,server=on,wait=off",
            "-kernel", str(self._image.kernel), "-initrd", str(self.directory / "initrd"),
            "-append", KERNEL_LINE, *self._arguments,
        ]  # fmt: skip


def make_management_nic(port: int) -> list[str]:
    """Return QEMU arguments for an interface that forwards a port on the loopback to sshd."""
    return [
        "-netdev", f"user,id=mgmt,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22",
        "-device", f"virtio-net-pci,netdev=mgmt,mac={MANAGEMENT_MAC},romfile=",
    ]  # fmt: skip


def make_tap_nics(macs: Mapping[str, str]) -> list[str]:
    """Return QEMU arguments for tap interfaces with these names and MAC addresses."""
    command = []
    for name, mac in macs.items():
        card = f"virtio-net-pci,netdev={name},mac={mac},{OFFLOADS_OFF},romfile="
        tap = f"tap,id={name},ifname=tap-{name},script=no,downscript=no"
        command += ["-netdev", tap, "-device", card]
    return command
