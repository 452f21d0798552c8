"""Debian's kernel and programs as a kernel and an initial file system, kept in the cache.

Everything comes out of Debian's packages: a small Debian is unpacked, and what a virtual machine
needs is picked out of it.
"""

from __future__ import annotations

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
MERGED = ("bin", "sbin", "lib", "lib64")
"""Top directories that are links into usr."""
_ISOLATED = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Runs a program whose mounts and processes end with it: an interrupted one leaves no `/sys` in what is removed."""
REBOOT = "#!/bin/sh\nexec busybox reboot -f\n"


@dataclass(frozen=True)
class Image:
    """Files QEMU starts from."""

    kernel: Path
    initial: Path


def lacking() -> list[str]:
    """Return the Debian packages that recipe and machine need and this host lacks."""
    wanted = {
        "mmdebstrap": "mmdebstrap",
        "qemu-system-x86_64": "qemu-system-x86",
        "ssh-keygen": "openssh-client",
    }
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return [package for name, package in wanted.items() if not shutil.which(name, path=path)]


@dataclass(frozen=True)
class Recipe:
    """What is in an image.

    Attributes:
        name: of the image.
        packages: of Debian, the kernel's among them.
        programs: files that go into it with the libraries they need.
        modules: of the kernel, with those they need.
        init: text of its process 1; empty: each machine brings its own.
        files: further ones.
    """

    name: str
    packages: tuple[str, ...]
    programs: tuple[str, ...]
    modules: tuple[str, ...]
    init: str = ""
    files: tuple[cpio.Entry, ...] = ()

    def image(self) -> Image:
        """Return the image of this recipe, made if the cache has none.

        Raises:
            EnvironmentLacking: a program is missing on this host.
        """
        if packages := lacking():
            hint = f"apt-get install {' '.join(packages)}"
            raise EnvironmentLacking("no virtual machine", hint, code="missing-program")
        place = _cache() / f"{self.name}-{SUITE}-{self._number()}"
        found = Image(place / "vmlinuz", place / "initrd.gz")
        if not found.kernel.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=place.parent, prefix="making-") as made:
                self._make(Path(made))
                shutil.rmtree(place, ignore_errors=True)
                (Path(made) / "image").rename(place)
        return found

    def _number(self) -> str:
        """Return a hash of the recipe: another recipe makes another image."""
        here = Path(__file__)
        text = here.read_bytes() + here.with_name("cpio.py").read_bytes() + repr(self).encode()
        return hashlib.sha256(text).hexdigest()[:12]

    def _make(self, place: Path) -> None:
        root = place / "root"
        subprocess.run(
            [
                *_ISOLATED, "mmdebstrap", "--quiet", "--variant=apt", "--dpkgopt=force-unsafe-io",
                f"--include={','.join(self.packages)}", SUITE, str(root),
            ],
            check=True,
        )  # fmt: skip
        self._pick(root, place / "image")

    def _pick(self, root: Path, out: Path) -> None:
        out.mkdir()
        version = next((root / "usr/lib/modules").iterdir()).name
        versions = _inside(root, "dpkg-query", "-W", *self.packages)
        entries = [
            *(cpio.link(name, f"usr/{name}") for name in MERGED),
            *(cpio.directory(name) for name in ("proc", "sys", "run", "tmp", "root", "var/empty")),
            cpio.console(),
            *self._programs(root),
            *self._modules(root, version),
            cpio.file("init", self.init, 0o755),
            cpio.file("etc/debian-packages", versions),
            *self.files,
        ]
        (out / "initrd.gz").write_bytes(gzip.compress(cpio.archive(entries), 6))
        shutil.copyfile(root / f"boot/vmlinuz-{version}", out / "vmlinuz")

    def _programs(self, root: Path) -> Iterator[cpio.Entry]:
        names = set(self.programs)
        for program in self.programs:
            listed = subprocess.run(
                ["chroot", str(root), "ldd", f"/{program}"],
                capture_output=True,
                text=True,
                check=False,
            )
            names.update(re.findall(r"(/\S+) \(0x", listed.stdout))
        found = [_file(root, name) for name in sorted(names)]
        yield from found
        have = {entry.name.rpartition("/")[2] for entry in found}
        yield from (cpio.link(f"usr/sbin/{name}", "../bin/kmod") for name in KMOD)
        yield cpio.link("usr/bin/sh", "dash")
        yield cpio.file("usr/sbin/reboot", REBOOT, 0o755)
        for applet in _inside(root, "busybox", "--list").split():
            if applet not in have | {*KMOD, "sh", "reboot"}:
                yield cpio.link(f"usr/bin/{applet}", "busybox")

    def _modules(self, root: Path, version: str) -> Iterator[cpio.Entry]:
        paths = set()
        for module in self.modules:
            shown = _inside(root, "modprobe", "-S", version, "--show-depends", module)
            paths.update(re.findall(r"^insmod (\S+)", shown, re.MULTILINE))
        tables = (root / "usr/lib/modules" / version).glob("modules.*")
        paths.update(f"/usr/lib/modules/{version}/{table.name}" for table in tables)
        return (_file(root, path) for path in sorted(paths))


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "v6t"


def _inside(root: Path, *command: str) -> str:
    done = subprocess.run(
        ["chroot", str(root), *command], capture_output=True, text=True, check=True
    )
    return done.stdout


def _file(root: Path, name: str) -> cpio.Entry:
    """Return the file that a name or its links lead to, under that name."""
    name = name.lstrip("/")
    first = name.partition("/")[0]
    name = f"usr/{name}" if first in MERGED else name
    real = Path(_inside(root, "readlink", "-f", f"/{name}").strip().lstrip("/"))
    path = root / real
    return cpio.file(name, path.read_bytes(), path.stat().st_mode & 0o777)
