"""Jool built for the image's kernel: releases that Debian does not have.

``JOOL_DIR`` names a directory with one directory for each version (``4.1.15``, ``4.2.0-rc3``); its kernel
modules (``*.ko``) and programs are anywhere in it, as ``make install`` with a DESTDIR leaves them. They are
copied into the machine. Without it, what needs it is skipped.
"""

from __future__ import annotations

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
class Built:
    """One version of it."""

    place: Path

    @property
    def version(self) -> str:
        """Return the version, which is the directory's name."""
        return self.place.name

    @property
    def modules(self) -> list[Path]:
        """Return the kernel modules."""
        return sorted(self.place.rglob("jool*.ko"))

    @property
    def programs(self) -> list[Path]:
        """List those of the programs that it has."""
        found = [p for name in PROGRAM_SOURCES for p in self.place.rglob(name)]
        return [p for p in found if p.is_file()]

    @property
    def translates_mapt(self) -> bool:
        """Check whether it was built from the branch with MAP-T."""
        return any(p.stem == "jool_mapt" for p in self.modules)

    def files(self, image: Image) -> list[cpio.Entry]:
        """Return the files that a machine with this image gets in place of Debian's.

        Raises:
            EnvironmentLacking: it was built for another kernel, or is incomplete.
        """
        kernel = kernel_of(image)
        for module in self.modules:
            made_for = _KERNEL.search(module.read_bytes())
            if made_for is None or made_for[1].decode() != kernel:
                raise _missing(f"{module} is not for {kernel}, the kernel of the image")
        lacking = {"jool", "jool_siit"} - {p.name for p in self.programs}
        if lacking or not self.modules:
            raise _missing(f"{self.place} lacks {' and '.join(sorted(lacking)) or 'modules'}")
        place = f"usr/lib/modules/{kernel}/updates/dkms"
        return [
            cpio.file("etc/v6t-built", f"{self.version}\n"),
            *(cpio.file(f"{place}/{p.name}", p.read_bytes()) for p in self.modules),
            *(cpio.file(f"usr/bin/{p.name}", p.read_bytes(), 0o755) for p in self.programs),
        ]


def built_plain() -> Built:
    """Return the newest release of 4.1, or raise EnvironmentLacking."""
    return _newest(mapt=False)


def built_mapt() -> Built:
    """Return the newest release with MAP-T (4.2.0-rc3), or raise EnvironmentLacking."""
    return _newest(mapt=True)


def kernel_of(image: Image) -> str:
    """Return the kernel's version by its boot header (kernel_version): ``6.1.0-56-cloud-amd64``."""
    text = image.kernel.read_bytes()
    at = int.from_bytes(text[0x20E:0x210], "little") + 0x200
    return text[at : text.index(b" ", at)].decode()


def _missing(message: str) -> EnvironmentLacking:
    return EnvironmentLacking(message, code="missing-program")


def _newest(*, mapt: bool) -> Built:
    named = os.environ.get(VARIABLE)
    what = "MAP-T (4.2.0-rc3)" if mapt else "a release of 4.1"
    if not named:
        raise _missing(f"needs {what}, built for the image's kernel: set {VARIABLE}")
    found = [Built(place) for place in Path(named).iterdir() if place.is_dir()]
    fitting = [b for b in found if b.translates_mapt == mapt and b.modules]
    if not fitting:
        raise _missing(f"{VARIABLE}={named} has no directory with {what}")
    return max(fitting, key=lambda b: parse_version(b.version))
