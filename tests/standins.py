"""Devices that are kernel modules, or another system, by the virtual machine that they run in."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from v6t.base.errors import EnvironmentLacking
from v6t.tests.jool.built import built_mapt, kernel_of
from v6t.tests.jool.image import JOOL, TUNNEL
from v6t.tests.jool.vm import Stand, Standing
from v6t.tests.machine import cpio
from v6t.tests.openbsd import vm as openbsd


def standing_of(driver: str, technology: str) -> tuple[str, Callable[[], Stand[Any]]] | None:
    """Return the name and the maker of a driver's machine, or None if the driver needs none.

    Args:
        driver: its name.
        technology: what it is to be.

    Raises:
        EnvironmentLacking: from the maker, if programs or the module are missing.
    """
    if driver == "jool":
        return ("jool-mapt", _jool_mapt) if technology.startswith("mapt") else ("jool", _jool)
    makers: dict[str, Callable[[], Stand[Any]]] = {
        "nat46": nat46,
        "ip6-tunnel": _tunnel,
        "openbsd-pf": _openbsd,
    }
    return (driver, makers[driver]) if driver in makers else None


def nat46() -> Standing:
    """Return a machine with OpenWrt's module of ``V6T_NAT46`` and Debian's kernel."""
    module = os.environ.get("V6T_NAT46", "")
    if not module:
        raise EnvironmentLacking("there is no nat46.ko", "set V6T_NAT46", code="missing-program")
    image = JOOL.image()
    place = f"usr/lib/modules/{kernel_of(image)}/updates/dkms/nat46.ko"
    files = [cpio.file("etc/v6t-built", "nat46\n"), cpio.file(place, Path(module).read_bytes())]
    return Standing(image, files)


def _jool() -> Standing:
    return Standing(JOOL.image())


def _jool_mapt() -> Standing:
    image = JOOL.image()
    return Standing(image, built_mapt().files(image))


def _tunnel() -> Standing:
    return Standing(TUNNEL.image())


def _openbsd() -> openbsd.Standing:
    if wanted := openbsd.lacking():
        raise EnvironmentLacking(
            "there is no OpenBSD that boots in a virtual machine", wanted, code="missing-program"
        )
    return openbsd.Standing(plain=True)
