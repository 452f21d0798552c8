"""A virtual machine with emulated NICs: Debian's kernel under this host's programs.

The machine's root is this host's, read only, with what it writes kept in its memory: v6t, Python and the
TRex that ``TREX_DIR`` names are where they are here, and nothing of TRex is in any image. What loads
kernel modules a host without modules may lack; busybox does it then.
"""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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
    management_card,
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
SECOND = """\
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
ip link set mgmt up || /run/guest/busybox poweroff -f  # nobody could ever log in
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
SCRIPTS = (
    cpio.file("init", INIT, 0o755),
    cpio.file("second", SECOND),
    cpio.file("etc/ssh/sshd_config", SSHD_CONFIG),
)
"""Not in the image, which takes minutes to make: a change in them makes no other."""
WAITS = "echo here >/run/reached; while [ ! -e /run/go ]; do sleep 0.1; done"
"""A script: the step of a plan that waits."""
ROOT = ("-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap")


@dataclass(frozen=True)
class Nic:
    """One emulated NIC.

    Attributes:
        name: its interface while the kernel drives it.
        kind: as QEMU calls it.
        slot: its place on the PCI bus.
        mac: its address.
        wire: number of the cable it is at.
    """

    name: str
    kind: str
    slot: int
    mac: str
    wire: int

    @property
    def address(self) -> str:
        """Return the address on the PCI bus."""
        return f"00:{self.slot:02x}.0"

    @property
    def arguments(self) -> list[str]:
        """Return QEMU's arguments."""
        off = f",{OFFLOADS_OFF}" if self.kind.startswith("virtio-net") else ""
        place = f"bus=pcie.0,addr={self.slot:#x},romfile="
        return [
            "-netdev", f"hubport,id={self.name},hubid={self.wire}",
            "-device", f"{self.kind},netdev={self.name},mac={self.mac},{place}{off}",
        ]  # fmt: skip


def nics(kind: str, wires: Sequence[int], first: int = 0, name: str = "nic") -> list[Nic]:
    """Make NICs of a kind, each at a cable.

    Args:
        kind: as QEMU calls it.
        wires: of each, its cable.
        first: number of the first.
        name: what their interfaces are called.
    """
    return [
        Nic(f"{name}{n}", kind, 0x10 + first + n, f"52:54:00:00:01:{first + n:02x}", wire)
        for n, wire in enumerate(wires)
    ]


class Guest(Machine):
    """The machine, logged in to."""

    def __init__(self, cards: Sequence[Nic], *, cpus: int = 2, mib: int = 4096) -> None:
        """Describe a guest that is not started yet.

        Args:
            cards: its NICs.
            cpus: their number.
            mib: its memory.
        """
        self.cards = list(cards)
        lines = "".join(f"{c.mac} {c.name}\n" for c in cards) + f"{MANAGEMENT_MAC} mgmt\n"
        port = _free_port()
        command = [
            "-M", "q35", "-accel", ACCELERATOR, "-cpu", "max,la57=off",
            "-smp", str(cpus), "-m", str(mib), *management_card(port),
            *ROOT,
        ]  # fmt: skip
        for card in cards:
            command += card.arguments
        files = [*SCRIPTS, cpio.file("etc/v6t-interfaces", lines)]
        super().__init__(GUEST.image(), port, command, files)
        self._way: SshTransport | None = None

    def start(self) -> None:
        """Boot and log in."""
        super().start()
        self.enter()

    def enter(self) -> None:
        """Log in, once more after it was reset."""
        self.await_login()
        if self._way is not None:
            self._way.close()
        self._way = self.transport()
        self._way.open()

    def login(self) -> dict[str, object]:
        """Return the SSH options of a testbed."""
        return self.options.model_dump(mode="json", exclude_defaults=True) | {"config": ""}

    def run(self, command: str, deadline_s: float = 600) -> Output:
        """Run a command as root of the machine."""
        assert self._way is not None
        return self._way.run(command, deadline_s=deadline_s)

    def done(self, command: str, deadline_s: float = 600) -> str:
        """Run a command that must succeed and return its output."""
        ended = self.run(command, deadline_s)
        assert ended.status == 0, f"{command}: {ended.status}\n{ended.out}\n{ended.err}"
        return ended.out

    def driver(self, card: Nic) -> str:
        """Return the driver that a NIC is bound to."""
        told = self.run(f"readlink /sys/bus/pci/devices/0000:{card.address}/driver")
        return Path(told.out.strip()).name

    def stop(self) -> None:
        """End it."""
        if self._way is not None:
            self._way.close()
            self._way = None
        super().stop()


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


@contextmanager
def running_guest(cards: Sequence[Nic] = (), **hardware: int) -> Iterator[Guest]:
    """Boot a guest and stop it at the end."""
    guest = Guest(cards, **hardware)
    try:
        guest.start()
        yield guest
    finally:
        guest.stop()


class Operator:
    """Commands of v6t on this host that configure a guest step by step."""

    def __init__(
        self, device: Guest, place: Path, steps: list[dict[str, object]], **options: object
    ) -> None:
        self.bed = place / "bed.json"
        options = {"base": False, "steps": [DUMMY, *steps], "ssh": device.login(), **options}
        self.bed.write_text(json.dumps({"dut": {"driver": "command", "options": options}}))
        device.done(f"cat >/run/waits <<'.'\n{WAITS}\n.\nrm -f /run/reached /run/go")

    def start(self, action: str) -> subprocess.Popen[str]:
        """Start `v6t dut`."""
        words = [*COMMAND, "dut", action, "--testbed", str(self.bed), *PLUGIN]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def v6t(self, action: str) -> tuple[int, str]:
        """Run `v6t dut` and return its exit status and output."""
        process = self.start(action)
        said = process.communicate(timeout=600)[0]
        print(said)
        return process.returncode, said
