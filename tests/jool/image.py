"""Debian's kernel and Debian's Jool as a kernel and an initial file system, kept in the cache.

Everything comes out of Debian's packages: a small Debian is unpacked, its dkms builds Jool's
modules against its kernel, and what the virtual machine needs is picked out of it.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import cpio

SUITE = os.environ.get("V6T_JOOL_SUITE", "bookworm")
KERNEL = "cloud-amd64"
PACKAGES = (
    f"linux-image-{KERNEL}", f"linux-headers-{KERNEL}", "jool-dkms", "jool-tools", "kmod",
    "iproute2", "procps", "ethtool", "openssh-server", "busybox-static",
)  # fmt: skip
PROGRAMS = (
    "usr/bin/jool", "usr/bin/jool_siit", "usr/bin/ip", "usr/sbin/ethtool", "usr/sbin/sysctl",
    "usr/sbin/sshd", "usr/bin/kmod", "usr/bin/dash", "usr/bin/busybox",
)  # fmt: skip
MODULES = ("virtio_pci", "virtio_net", "jool", "jool_siit")
KMOD = ("depmod", "insmod", "lsmod", "modinfo", "modprobe", "rmmod")
MERGED = ("bin", "sbin", "lib", "lib64")
"""Top directories that are links into usr."""

INIT = """\
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
chmod 755 /
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mkdir -p /dev/pts
mount -t devpts none /dev/pts
mount -t tmpfs none /run
mkdir -p /run/sshd
modprobe virtio_pci
modprobe virtio_net
ip link set lo up
for d in /sys/class/net/*; do
  read mac <$d/address
  while read wanted name; do
    [ "$wanted" != "$mac" ] || ip link set dev ${d##*/} name $name
  done </etc/v6t-interfaces
done
ip addr add 10.0.2.15/24 dev mgmt
ip link set mgmt up
/usr/sbin/sshd -E /run/sshd.log
echo "v6t: sshd listens"
while :; do wait; sleep 1; done
"""
SSHD_CONFIG = """\
HostKey /etc/ssh/hostkey
AuthorizedKeysFile /etc/ssh/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
PrintMotd no
SetEnv PATH=/usr/sbin:/usr/bin:/sbin:/bin
"""
REBOOT = "#!/bin/sh\nexec busybox reboot -f\n"


@dataclass(frozen=True)
class Image:
    """Files QEMU starts from."""

    kernel: Path
    initial: Path


def lacking() -> list[str]:
    """Debian packages the recipe and the machine need and this host lacks."""
    wanted = {
        "mmdebstrap": "mmdebstrap",
        "qemu-system-x86_64": "qemu-system-x86",
        "ssh-keygen": "openssh-client",
    }
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return [package for name, package in wanted.items() if not shutil.which(name, path=path)]


def image() -> Image:
    """The image of this recipe, made if the cache has none."""
    place = _cache() / f"jool-{SUITE}-{_recipe()}"
    found = Image(place / "vmlinuz", place / "initrd.gz")
    if not found.kernel.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix="making-") as made:
            _make(Path(made))
            shutil.rmtree(place, ignore_errors=True)
            (Path(made) / "image").rename(place)
    return found


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "v6t"


def _recipe() -> str:
    """Another recipe makes another image."""
    here = Path(__file__)
    text = here.read_bytes() + here.with_name("cpio.py").read_bytes()
    return hashlib.sha256(text).hexdigest()[:12]


def _make(place: Path) -> None:
    root = place / "root"
    subprocess.run(
        [
            "mmdebstrap", "--quiet", "--variant=apt", f"--include={','.join(PACKAGES)}",
            SUITE, str(root),
        ],
        check=True,
    )  # fmt: skip
    _pick(root, place / "image")


def _pick(root: Path, out: Path) -> None:
    out.mkdir()
    version = next((root / "usr/lib/modules").iterdir()).name
    entries = [
        *(cpio.link(name, f"usr/{name}") for name in MERGED),
        *(cpio.directory(name) for name in ("proc", "sys", "run", "tmp", "root", "var/empty")),
        cpio.console(),
        *_programs(root),
        *_modules(root, version),
        *_texts(root),
    ]
    (out / "initrd.gz").write_bytes(gzip.compress(cpio.archive(entries), 6))
    shutil.copyfile(root / f"boot/vmlinuz-{version}", out / "vmlinuz")


def _inside(root: Path, *command: str) -> str:
    done = subprocess.run(
        ["chroot", str(root), *command], capture_output=True, text=True, check=True
    )
    return done.stdout


def _file(root: Path, name: str) -> cpio.Entry:
    """A file under its name, whatever links lead to it."""
    name = name.lstrip("/")
    first = name.partition("/")[0]
    name = f"usr/{name}" if first in MERGED else name
    real = Path(_inside(root, "readlink", "-f", f"/{name}").strip().lstrip("/"))
    path = root / real
    return cpio.file(name, path.read_bytes(), path.stat().st_mode & 0o777)


def _programs(root: Path) -> list[cpio.Entry]:
    names = set(PROGRAMS)
    for program in PROGRAMS:
        listed = subprocess.run(
            ["chroot", str(root), "ldd", f"/{program}"], capture_output=True, text=True, check=False
        )
        names.update(re.findall(r"(/\S+) \(0x", listed.stdout))
    found = [_file(root, name) for name in sorted(names)]
    have = {entry.name.rpartition("/")[2] for entry in found}
    found += [cpio.link(f"usr/sbin/{name}", "../bin/kmod") for name in KMOD]
    found.append(cpio.link("usr/bin/sh", "dash"))
    found.append(cpio.file("usr/sbin/reboot", REBOOT, 0o755))
    for applet in _inside(root, "busybox", "--list").split():
        if applet not in have | {*KMOD, "sh", "reboot"}:
            found.append(cpio.link(f"usr/bin/{applet}", "busybox"))
    return found


def _modules(root: Path, version: str) -> list[cpio.Entry]:
    paths = set()
    for module in MODULES:
        shown = _inside(root, "modprobe", "-S", version, "--show-depends", module)
        paths.update(re.findall(r"^insmod (\S+)", shown, re.MULTILINE))
    tables = (root / "usr/lib/modules" / version).glob("modules.*")
    paths.update(f"/usr/lib/modules/{version}/{table.name}" for table in tables)
    return [_file(root, path) for path in sorted(paths)]


def _texts(root: Path) -> list[cpio.Entry]:
    versions = _inside(root, "dpkg-query", "-W", *PACKAGES)
    return [
        cpio.file("init", INIT, 0o755),
        cpio.file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nsshd:x:74:74::/var/empty:/bin/false\n"),
        cpio.file("etc/group", "root:x:0:\nsshd:x:74:\n"),
        cpio.file("etc/shadow", "root:*:19000:0:99999:7:::\n", 0o600),
        cpio.file("etc/nsswitch.conf", "passwd: files\ngroup: files\n"),
        cpio.file("etc/ssh/sshd_config", SSHD_CONFIG),
        cpio.file("etc/debian-packages", versions),
    ]  # fmt: skip
