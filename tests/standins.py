"""Virtual machines of devices that are kernel modules or another operating system."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from v6t.base.errors import EnvironmentLacking
from v6t.tests.jool.builds import find_mapt_build, read_kernel_version
from v6t.tests.jool.image import JOOL, TUNNEL
from v6t.tests.jool.vm import SharedLinuxMachine, SharedMachine
from v6t.tests.machine import cpio
from v6t.tests.openbsd import vm as openbsd


def find_shared_machine(
    driver: str, technology: str
) -> tuple[str, Callable[[], SharedMachine[Any]]] | None:
    """Return the name and the maker of a driver's machine, or None if the driver needs none.

    Args:
        driver: name of the driver.
        technology: name of the technology.

    Raises:
        EnvironmentLacking: from the maker, if programs or the module are missing.
    """
    if driver == "jool":
        return ("jool-mapt", _jool_mapt) if technology.startswith("mapt") else ("jool", _jool)
    makers: dict[str, Callable[[], SharedMachine[Any]]] = {
        "nat46": nat46,
        "ip6-tunnel": _tunnel,
        "openbsd-pf": _openbsd,
    }
    return (driver, makers[driver]) if driver in makers else None


def nat46() -> SharedLinuxMachine:
    """Return a machine with OpenWrt's module of ``V6T_NAT46`` and Debian's kernel."""
    module = os.environ.get("V6T_NAT46", "")
    if not module:
        raise EnvironmentLacking("nat46.ko is missing", "set V6T_NAT46", code="missing-program")
    image = JOOL.get_image()
    place = f"usr/lib/modules/{read_kernel_version(image)}/updates/dkms/nat46.ko"
    files = [
        cpio.make_file("etc/v6t-built", "nat46\n"),
        cpio.make_file(place, Path(module).read_bytes()),
    ]
    return SharedLinuxMachine(image, files)


def _jool() -> SharedLinuxMachine:
    return SharedLinuxMachine(JOOL.get_image())


def _jool_mapt() -> SharedLinuxMachine:
    image = JOOL.get_image()
    return SharedLinuxMachine(image, find_mapt_build().list_files(image))


def _tunnel() -> SharedLinuxMachine:
    return SharedLinuxMachine(TUNNEL.get_image())


def _openbsd() -> openbsd.SharedOpenBsdMachine:
    if wanted := openbsd.find_missing_variables():
        raise EnvironmentLacking(
            "an OpenBSD image for a virtual machine is missing", wanted, code="missing-program"
        )
    return openbsd.SharedOpenBsdMachine(pf_disabled=True)
