"""Build and cache virtual machine images: Debian's kernel and an initrd with selected programs."""

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from v6t.base.errors import EnvironmentLacking

from . import cpio

SUITE = os.environ.get("V6T_VM_SUITE", "bookworm")
KMOD = ("depmod", "insmod", "lsmod", "modinfo", "modprobe", "rmmod")
# top-level directories that are links into /usr
MERGED_DIRECTORIES = ("bin", "sbin", "lib", "lib64")
# Removes mounts and processes when the program ends, so that deleting the directory cannot reach the host's /sys.
_UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
REBOOT = "#!/bin/sh\nexec busybox reboot -f\n"


@dataclass(frozen=True)
class Image:
    """Kernel and initrd that QEMU boots."""

    kernel: Path
    initrd: Path


def find_missing_packages() -> list[str]:
    """Return the Debian packages that must still be installed to build and boot images."""
    required = {
        "mmdebstrap": "mmdebstrap",
        "qemu-system-x86_64": "qemu-system-x86",
        "ssh-keygen": "openssh-client",
    }
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return [package for name, package in required.items() if not shutil.which(name, path=path)]


@dataclass(frozen=True)
class Recipe:
    """Content of an image."""

    name: str
    packages: tuple[str, ...]  # Debian packages to install, including the kernel
    programs: tuple[str, ...]  # files to copy, together with their libraries
    modules: tuple[str, ...]  # kernel modules to copy, together with their dependencies
    init: str = ""  # script of process 1, or empty if each machine adds its own
    files: tuple[cpio.Entry, ...] = ()

    def get_image(self) -> Image:
        """Return the cached image, or build it.

        Raises:
            EnvironmentLacking: a required program is not installed.
        """
        if packages := find_missing_packages():
            hint = f"apt-get install {' '.join(packages)}"
            raise EnvironmentLacking("no virtual machine", hint, code="missing-program")
        directory = _find_cache() / f"{self.name}-{SUITE}-{self._compute_hash()}"
        image = Image(directory / "vmlinuz", directory / "initrd.gz")
        if not image.kernel.exists():
            cache = directory.parent
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache, prefix="making-") as temporary:
                self._build(Path(temporary))
                shutil.rmtree(directory, ignore_errors=True)
                (Path(temporary) / "image").rename(directory)
        return image

    def _compute_hash(self) -> str:
        """Return a hash of the recipe and of the code that builds the image."""
        here = Path(__file__)
        text = here.read_bytes() + here.with_name("cpio.py").read_bytes() + repr(self).encode()
        return hashlib.sha256(text).hexdigest()[:12]

    def _build(self, directory: Path) -> None:
        root = directory / "root"
        subprocess.run(
            [
                *_UNSHARE, "mmdebstrap", "--quiet", "--variant=apt", "--dpkgopt=force-unsafe-io",
                f"--include={','.join(self.packages)}", SUITE, str(root),
            ],
            check=True,
        )  # fmt: skip
        self._write_image(root, directory / "image")

    def _write_image(self, root: Path, out: Path) -> None:
        out.mkdir()
        version = next((root / "usr/lib/modules").iterdir()).name
        versions = _run_in_root(root, "dpkg-query", "-W", *self.packages)
        entries = [
            *(cpio.make_link(name, f"usr/{name}") for name in MERGED_DIRECTORIES),
            *map(cpio.make_directory, ("proc", "sys", "run", "tmp", "root", "var/empty")),
            cpio.make_console(),
            *self._list_programs(root),
            *self._list_modules(root, version),
            cpio.make_file("init", self.init, 0o755),
            cpio.make_file("etc/debian-packages", versions),
            *self.files,
        ]
        (out / "initrd.gz").write_bytes(gzip.compress(cpio.build_archive(entries), 6))
        shutil.copyfile(root / f"boot/vmlinuz-{version}", out / "vmlinuz")

    def _list_programs(self, root: Path) -> Iterator[cpio.Entry]:
        names = set(self.programs)
        for program in self.programs:
            ldd = ["chroot", str(root), "ldd", f"/{program}"]
            output = subprocess.run(ldd, capture_output=True, text=True, check=False).stdout
            names.update(re.findall(r"(/\S+) \(0x", output))
        entries = [_read_file(root, name) for name in sorted(names)]
        yield from entries
        taken = {entry.name.rpartition("/")[2] for entry in entries} | {*KMOD, "sh", "reboot"}
        yield from (cpio.make_link(f"usr/sbin/{name}", "../bin/kmod") for name in KMOD)
        yield cpio.make_link("usr/bin/sh", "dash")
        yield cpio.make_file("usr/sbin/reboot", REBOOT, 0o755)
        for applet in _run_in_root(root, "busybox", "--list").split():
            if applet not in taken:
                yield cpio.make_link(f"usr/bin/{applet}", "busybox")

    def _list_modules(self, root: Path, version: str) -> Iterator[cpio.Entry]:
        paths = set()
        for module in self.modules:
            output = _run_in_root(root, "modprobe", "-S", version, "--show-depends", module)
            paths.update(re.findall(r"^insmod (\S+)", output, re.MULTILINE))
        tables = (root / "usr/lib/modules" / version).glob("modules.*")
        paths.update(f"/usr/lib/modules/{version}/{table.name}" for table in tables)
        return (_read_file(root, path) for path in sorted(paths))


def _find_cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "v6t"


def _run_in_root(root: Path, *command: str) -> str:
    command = ("chroot", str(root), *command)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _read_file(root: Path, name: str) -> cpio.Entry:
    """Read a file, following symbolic links, as an entry with the given name."""
    name = name.lstrip("/")
    first = name.partition("/")[0]
    name = f"usr/{name}" if first in MERGED_DIRECTORIES else name
    real = Path(_run_in_root(root, "readlink", "-f", f"/{name}").strip().lstrip("/"))
    path = root / real
    return cpio.make_file(name, path.read_bytes(), path.stat().st_mode & 0o777)
