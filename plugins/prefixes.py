"""Parsing of prefixes and addresses, and those that no device forwards."""

from __future__ import annotations

import contextlib
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Any, TypeVar

from v6t.base.errors import InvalidValue, UsageError
from v6t.base.strict_model import refuse_zone

Network = TypeVar("Network", IPv4Network, IPv6Network)
Address = TypeVar("Address", IPv4Address, IPv6Address)

UNFORWARDED = {
    "this network (RFC 1122, section 3.2.1.3)": ip_network("0.0.0.0/8"),
    "loopback": ip_network("127.0.0.0/8"),
    "IPv4 link-local (RFC 3927)": ip_network("169.254.0.0/16"),
    "multicast": ip_network("224.0.0.0/4"),
    "broadcast": ip_network("255.255.255.255/32"),
    "class E": ip_network("240.0.0.0/4"),  # SHOULD NOT (RFC 1812, section 5.3.7), but some do
    "the unspecified address": ip_network("::/128"),
    "the loopback address": ip_network("::1/128"),
    "link-local": ip_network("fe80::/10"),
    "IPv6 multicast": ip_network("ff00::/8"),
}


def refuse_unforwarded(value: Any, *, partly: bool = False) -> None:
    """Raise ValueError for a value within :data:`UNFORWARDED`, and for overlaps if ``partly``."""
    if isinstance(value, (IPv4Address, IPv6Address)):  # an interface is an address, too
        value = ip_network(value.packed)
    if not isinstance(value, (IPv4Network, IPv6Network)):
        return
    for noun, net in UNFORWARDED.items():
        if value.version == net.version and value.overlaps(net):
            inside = value.prefixlen >= net.prefixlen
            shown = value.network_address if value.num_addresses == 1 else value
            verb = "is" if inside else "contains"
            if inside or partly:
                problem = f"{shown} {verb} {noun} ({net}), which no device forwards"
                raise InvalidValue(problem, code="not-forwarded")


def read_network6(text: str, noun: str, setting: str = "") -> IPv6Network:
    """Read an IPv6 prefix; messages call it ``noun``; ``setting`` is its parameter if the name differs."""
    return _read_network(IPv6Network, text, noun, setting, partly=True)


def read_network4(text: str, noun: str, setting: str = "") -> IPv4Network:
    """Read an IPv4 prefix, which may contain addresses that no device forwards; see :func:`read_network6`."""
    return _read_network(IPv4Network, text, noun, setting, partly=False)


def read_hosts4(text: str, noun: str, setting: str = "") -> IPv4Network:
    """Read an IPv4 prefix whose addresses can all be hosts; see :func:`read_network6`."""
    return _read_network(IPv4Network, text, noun, setting, partly=True)


def _read_network(
    kind: type[Network], text: str, noun: str, setting: str, *, partly: bool
) -> Network:
    path = (setting or noun,)
    try:
        network = kind(text)
    except ValueError as exc:
        version, example = (4, "192.0.2.0/24") if kind is IPv4Network else (6, "2001:db8::/40")
        hint = f"write it as {example}"
        with contextlib.suppress(ValueError):
            hint = f"did you mean {kind(text, strict=False)}?"
        problem = f"{noun} '{text}' is not an IPv{version} prefix: {exc}"
        raise UsageError(problem, hint, path=path, code="not-a-prefix") from exc
    try:
        refuse_unforwarded(refuse_zone(network), partly=partly)
    except InvalidValue as exc:
        hint = "choose another prefix"
        raise UsageError(f"{noun}: {exc}", hint, path=path, code=exc.code) from exc
    return network


def read_address4(text: str, noun: str) -> IPv4Address:
    """Read an IPv4 address, which messages call ``noun``."""
    return _read_address(IPv4Address, text, noun)


def read_address6(text: str, noun: str) -> IPv6Address:
    """Read an IPv6 address, which messages call ``noun``."""
    return _read_address(IPv6Address, text, noun)


def _read_address(kind: type[Address], text: str, noun: str) -> Address:
    try:
        return refuse_zone(kind(text))
    except ValueError as exc:
        version = 4 if kind is IPv4Address else 6
        problem = f"{noun} '{text}' is not an IPv{version} address"
        raise UsageError(problem, path=(noun,), code="not-an-address") from exc
