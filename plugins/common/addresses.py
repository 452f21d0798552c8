"""Parameters that are addresses: of the device, of the tester, of test hosts."""

from __future__ import annotations

from ipaddress import ip_address, ip_interface
from typing import Any, Literal

from pydantic import Field

Side = Literal["left", "right"]


def address(default: str, description: str) -> Any:
    """An address, or with a length an interface's."""
    value = ip_interface(default) if "/" in default else ip_address(default)
    return Field(value, description=description)


def device(default: str, side: Side) -> Any:
    """The device's own address on a link."""
    version = ip_interface(default).version
    return address(default, f"the device's IPv{version} address on the {side}")


def tester(default: str, side: Side) -> Any:
    """The tester's address on a link, which stands for the hosts behind it."""
    version = ip_address(default).version
    return address(default, f"tester's IPv{version} address on the {side} link")


def background(default: str, side: Side) -> Any:
    """The tester's address on a link that carries IPv6 for the background only."""
    return address(default, f"background address on the {side} link")
