"""Addresses that no host has: a device that forwards must drop what comes from them or goes there."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Any

from v6t.base.errors import InvalidValue

UNFORWARDED = {
    "this network (RFC 1122 section 3.2.1.3)": ip_network("0.0.0.0/8"),
    "loopback": ip_network("127.0.0.0/8"),
    "multicast": ip_network("224.0.0.0/4"),
    "broadcast": ip_network("255.255.255.255/32"),
    "the unspecified address": ip_network("::/128"),
    "the loopback address": ip_network("::1/128"),
    "IPv6 multicast": ip_network("ff00::/8"),
}


def refuse_unforwarded(value: Any) -> None:
    """Refuse an address, interface or network that is, or lies in, one of :data:`UNFORWARDED`.

    A network may hold some of them: one to which all addresses belong has others, too.

    Args:
        value: of a parameter; anything but addresses is let through.

    Raises:
        ValueError: it could be an address of test frames, which every device would drop.
    """
    if isinstance(value, (IPv4Address, IPv6Address)):  # interfaces are addresses too
        value = ip_network(value.packed)
    if not isinstance(value, (IPv4Network, IPv6Network)):
        return
    for what, never in UNFORWARDED.items():
        if value.version == never.version and value.subnet_of(never):  # type: ignore[arg-type]
            shown = value.network_address if value.num_addresses == 1 else value
            raise InvalidValue(
                f"{shown} is {what} ({never}): no device forwards such frames", code="invalid-value"
            )
