"""A virtual machine with emulated NICs that runs Debian's kernel and the programs of this host.

Its root file system is an overlay in memory over this host's, read-only, so v6t, Python and TRex
(``TREX_DIR``) have the same paths. busybox loads kernel modules if the host has no programs for it.
"""

import json
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from v6t.drivers.transport.contract import Output
from v6t.drivers.transport.openssh import SshTransport
from v6t.tests.core.support import COMMAND
from v6t.tests.drivers.duts.support import DUMMY
from v6t.tests.drivers.duts.test_guard import PLUGIN
from v6t.tests.machine import cpio
from v6t.tests.machine.image import Recipe
from v6t.tests.machine.machine import (
    ACCELERATOR,
    MANAGEMENT_MAC,
    OFFLOADS_OFF,
    Machine,
    make_management_nic,
)

INIT = """\
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p /host /writes /whole
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
modprobe virtio_pci
modprobe 9pnet_virtio
modprobe 9p
modprobe overlay
mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose host /host
mount -t tmpfs none /writes
mkdir /writes/upper /writes/work
mount -t overlay -o lowerdir=/host,upperdir=/writes/upper,workdir=/writes/work whole /whole
mkdir -p /whole/lib/modules
cp -a /usr/lib/modules/* /whole/lib/modules/
mount --move /proc /whole/proc
mount --move /sys /whole/sys
mount --move /dev /whole/dev
mount -t tmpfs none /whole/run
mkdir -p /whole/run/sshd /whole/run/guest
cp /etc/ssh/* /etc/v6t-interfaces /second /usr/bin/busybox /whole/run/guest/
exec busybox switch_root /whole /bin/sh /run/guest/second
"""
SECOND_INIT = """\
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p /dev/pts /dev/shm
mount -t devpts none /dev/pts
mount -t tmpfs none /dev/shm
sed -i 's/^root:[^:]*:/root:*:/' /etc/shadow
for name in depmod insmod lsmod modinfo modprobe rmmod; do
  command -v $name >/dev/null || ln -s /run/guest/busybox /usr/sbin/$name
done
for name in virtio_net e1000 e1000e vmxnet3; do modprobe $name; done
ip link set lo up
for d in /sys/class/net/*; do
  read mac <$d/address
  while read wanted name; do
    [ "$wanted" != "$mac" ] || ip link set dev ${d##*/} name $name
  done </run/guest/v6t-interfaces
done
ip addr add 10.0.2.15/24 dev mgmt
ip link set mgmt up || /run/guest/busybox poweroff -f  # logins would be impossible
ip route add default via 10.0.2.2
hostname guest
/usr/sbin/sshd -f /run/guest/sshd_config -E /run/guest/sshd.log
while :; do wait; sleep 1; done
"""
SSHD_CONFIG = """\
HostKey /run/guest/hostkey
AuthorizedKeysFile /run/guest/authorized_keys
PidFile /run/guest/sshd.pid
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
PrintMotd no
Subsystem sftp internal-sftp
SetEnv PATH=/usr/sbin:/usr/bin:/sbin:/bin SHLVL=9
"""
GUEST = Recipe(
    "trex-guest",
    packages=("linux-image-amd64", "kmod", "busybox-static"),
    programs=("usr/bin/kmod", "usr/bin/dash", "usr/bin/busybox"),
    modules=(
        "virtio_pci", "virtio_net", "9pnet_virtio", "9p", "overlay", "e1000", "e1000e", "vmxnet3",
        "uio_pci_generic", "vfio-pci", "veth", "bridge", "8021q", "nf_tables", "nft_ct", "nft_meta_bridge",
        "iptable_filter", "ip6table_filter", "xt_owner",
    ),
)  # fmt: skip
# Added at boot and not in the image, which takes minutes to build.
SCRIPTS = (
    cpio.make_file("init", INIT, 0o755),
    cpio.make_file("second", SECOND_INIT),
    cpio.make_file("etc/ssh/sshd_config", SSHD_CONFIG),
)
# step of a plan that waits for the test
WAIT_SCRIPT = "echo here >/run/reached; while [ ! -e /run/go ]; do sleep 0.1; done"
ROOT_SHARE = "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"


@dataclass(frozen=True)
class Nic:
    """An emulated NIC."""

    name: str  # interface name while a kernel driver is bound
    kind: str  # QEMU device name
    slot: int  # PCI slot number
    mac: str
    wire: int  # number of the hub that it is connected to

    @property
    def address(self) -> str:
        """Return the PCI address."""
        return f"00:{self.slot:02x}.0"

    @property
    def arguments(self) -> list[str]:
        """Return the QEMU arguments."""
        offloads = f",{OFFLOADS_OFF}" if self.kind.startswith("virtio-net") else ""
        bus = f"bus=pcie.0,addr={self.slot:#x},romfile="
        return [
            "-netdev", f"hubport,id={self.name},hubid={self.wire}",
            "-device", f"{self.kind},netdev={self.name},mac={self.mac},{bus}{offloads}",
        ]  # fmt: skip


def make_nics(kind: str, wires: Sequence[int], first: int = 0, name: str = "nic") -> list[Nic]:
    """Make a NIC of a kind for each wire, numbered from ``first``."""
    return [
        Nic(f"{name}{n}", kind, 0x10 + first + n, f"52:54:00:00:01:{first + n:02x}", wire)
        for n, wire in enumerate(wires)
    ]


class Guest(Machine):
    """The virtual machine with an open SSH session."""

    def __init__(self, cards: Sequence[Nic], *, cpus: int = 2, mib: int = 4096) -> None:
        """Describe a guest with these NICs without starting it."""
        self.cards = list(cards)
        lines = "".join(f"{c.mac} {c.name}\n" for c in cards) + f"{MANAGEMENT_MAC} mgmt\n"
        port = _find_free_port()
        command = [
            "-M", "q35", "-accel", ACCELERATOR, "-cpu", "max,la57=off",
            "-smp", str(cpus), "-m", str(mib), *make_management_nic(port), "-virtfs", ROOT_SHARE,
        ]  # fmt: skip
        for card in cards:
            command += card.arguments
        files = [*SCRIPTS, cpio.make_file("etc/v6t-interfaces", lines)]
        super().__init__(GUEST.get_image(), port, command, files)
        self._transport: SshTransport | None = None

    def start(self) -> None:
        """Boot and log in."""
        super().start()
        self.log_in()

    def log_in(self) -> None:
        """Open the session, again after a reset."""
        self.await_login()
        if self._transport is not None:
            self._transport.close()
        self._transport = self.transport()
        self._transport.open()

    def make_ssh_settings(self) -> dict[str, object]:
        """Return the SSH options for a testbed file."""
        return self.options.model_dump(mode="json", exclude_defaults=True) | {"config": ""}

    def run(self, command: str, deadline_s: float = 600) -> Output:
        """Run a command as root."""
        assert self._transport is not None
        return self._transport.run(command, deadline_s=deadline_s)

    def run_checked(self, command: str, deadline_s: float = 600) -> str:
        """Run a command, check that it succeeds and return its output."""
        result = self.run(command, deadline_s)
        assert result.status == 0, f"{command}: {result.status}\n{result.out}\n{result.err}"
        return result.out

    def get_driver(self, card: Nic) -> str:
        """Return the driver that a NIC is bound to."""
        result = self.run(f"readlink /sys/bus/pci/devices/0000:{card.address}/driver")
        return Path(result.out.strip()).name

    def stop(self) -> None:
        """Close the session and stop the machine."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None
        super().stop()


def _find_free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


@contextmanager
def run_guest(cards: Sequence[Nic] = (), **hardware: int) -> Iterator[Guest]:
    """Boot a guest, and stop it on exit."""
    guest = Guest(cards, **hardware)
    try:
        guest.start()
        yield guest
    finally:
        guest.stop()


class Operator:
    """Run `v6t dut` on this host to configure a guest with the given steps."""

    def __init__(self, device: Guest, directory: Path, steps: list[Any], **options: object) -> None:
        self.bed = directory / "bed.json"
        ssh = device.make_ssh_settings()
        options = {"base": False, "steps": [DUMMY, *steps], "ssh": ssh, **options}
        self.bed.write_text(json.dumps({"dut": {"driver": "command", "options": options}}))
        device.run_checked(f"cat >/run/waits <<'.'\n{WAIT_SCRIPT}\n.\nrm -f /run/reached /run/go")

    def start(self, action: str) -> subprocess.Popen[str]:
        """Start `v6t dut`."""
        command = [*COMMAND, "dut", action, "--testbed", str(self.bed), *PLUGIN]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True)

    def run(self, action: str) -> tuple[int, str]:
        """Run `v6t dut` and return its exit status and output."""
        process = self.start(action)
        output = process.communicate(timeout=600)[0]
        print(output)
        return process.returncode, output
