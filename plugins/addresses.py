"""Addresses that no device forwards: the one table for parameters, tables and reference translations.

Class E is among them: a router SHOULD NOT forward it (RFC 1812, section 5.3.7), but some do.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Any

from v6t.base.errors import InvalidValue

UNFORWARDED = {
    "this network (RFC 1122, section 3.2.1.3)": ip_network("0.0.0.0/8"),
    "loopback": ip_network("127.0.0.0/8"),
    "IPv4 link-local (RFC 3927)": ip_network("169.254.0.0/16"),
    "multicast": ip_network("224.0.0.0/4"),
    "broadcast": ip_network("255.255.255.255/32"),
    "class E": ip_network("240.0.0.0/4"),
    "the unspecified address": ip_network("::/128"),
    "the loopback address": ip_network("::1/128"),
    "link-local": ip_network("fe80::/10"),
    "IPv6 multicast": ip_network("ff00::/8"),
}


def refuse_unforwarded(value: Any, *, partly: bool = False) -> None:
    """Raise ValueError for an address, interface or network of :data:`UNFORWARDED`; other values pass.

    With ``partly``, refuse a network that contains a single such address, too.
    """
    if isinstance(value, (IPv4Address, IPv6Address)):  # an interface is an address, too
        value = ip_network(value.packed)
    if not isinstance(value, (IPv4Network, IPv6Network)):
        return
    for what, net in UNFORWARDED.items():
        if value.version == net.version and value.overlaps(net):
            inside = value.prefixlen >= net.prefixlen
            shown = value.network_address if value.num_addresses == 1 else value
            verb = "is" if inside else "contains"
            if inside or partly:
                problem = f"{shown} {verb} {what} ({net}), which no device forwards"
                raise InvalidValue(problem, code="not-forwarded")
