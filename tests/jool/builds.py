"""Find Jool releases that Debian does not package, built for the kernel of the image.

``JOOL_DIR`` names a directory with a subdirectory for each version (``4.1.15``, ``4.2.0-rc3``), which holds the kernel
modules (``*.ko``) and programs at any depth, as installed by ``make install DESTDIR=...``. Tests skip without it.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from v6t.base.errors import EnvironmentLacking
from v6t.drivers.duts.facts import parse_version
from v6t.drivers.duts.kinds.jool import PROGRAM_SOURCES
from v6t.tests.machine import cpio
from v6t.tests.machine.image import Image

VARIABLE = "JOOL_DIR"
_KERNEL = re.compile(rb"vermagic=(\S+)")


@dataclass(frozen=True)
class JoolBuild:
    """A version of Jool."""

    directory: Path

    @property
    def version(self) -> str:
        """Return the version, which is the name of the directory."""
        return self.directory.name

    @property
    def modules(self) -> list[Path]:
        """Return the kernel modules."""
        return sorted(self.directory.rglob("jool*.ko"))

    @property
    def programs(self) -> list[Path]:
        """Return the programs that exist."""
        paths = [p for name in PROGRAM_SOURCES for p in self.directory.rglob(name)]
        return [p for p in paths if p.is_file()]

    @property
    def translates_mapt(self) -> bool:
        """Return whether it was built from the MAP-T branch."""
        return any(p.stem == "jool_mapt" for p in self.modules)

    def list_files(self, image: Image) -> list[cpio.Entry]:
        """Return the files that replace those of Debian in a machine with this image.

        Raises:
            EnvironmentLacking: the build is incomplete or for another kernel.
        """
        kernel = read_kernel_version(image)
        for module in self.modules:
            match = _KERNEL.search(module.read_bytes())
            if match is None or match[1].decode() != kernel:
                raise _make_error(f"{module} is not for {kernel}, the kernel of the image")
        missing = {"jool", "jool_siit"} - {p.name for p in self.programs}
        if missing or not self.modules:
            raise _make_error(
                f"{self.directory} lacks {' and '.join(sorted(missing)) or 'modules'}"
            )
        directory = f"usr/lib/modules/{kernel}/updates/dkms"
        return [
            cpio.make_file("etc/v6t-built", f"{self.version}\n"),
            *(cpio.make_file(f"{directory}/{p.name}", p.read_bytes()) for p in self.modules),
            *(cpio.make_file(f"usr/bin/{p.name}", p.read_bytes(), 0o755) for p in self.programs),
        ]


def find_plain_build() -> JoolBuild:
    """Return the newest release of 4.1, or raise EnvironmentLacking."""
    return _find_newest(mapt=False)


def find_mapt_build() -> JoolBuild:
    """Return the newest release with MAP-T (4.2.0-rc3), or raise EnvironmentLacking."""
    return _find_newest(mapt=True)


def read_kernel_version(image: Image) -> str:
    """Read the kernel version, for example ``6.1.0-56-cloud-amd64``, from the boot header."""
    text = image.kernel.read_bytes()
    offset = int.from_bytes(text[0x20E:0x210], "little") + 0x200
    return text[offset : text.index(b" ", offset)].decode()


def _make_error(message: str) -> EnvironmentLacking:
    return EnvironmentLacking(message, code="missing-program")


def _find_newest(*, mapt: bool) -> JoolBuild:
    path = os.environ.get(VARIABLE)
    release = "MAP-T (4.2.0-rc3)" if mapt else "a release of 4.1"
    if not path:
        raise _make_error(f"needs {release}, built for the image's kernel: set {VARIABLE}")
    candidates = [JoolBuild(directory) for directory in Path(path).iterdir() if directory.is_dir()]
    builds = [b for b in candidates if b.translates_mapt == mapt and b.modules]
    if not builds:
        raise _make_error(f"{VARIABLE}={path} has no directory with {release}")
    return max(builds, key=lambda b: parse_version(b.version))
