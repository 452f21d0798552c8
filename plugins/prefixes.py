"""Parsing of prefixes and addresses, and those that no device forwards."""

import contextlib
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Any, TypeVar

from v6t.base.errors import InvalidValue, UsageError
from v6t.base.strict_model import refuse_zone

Network = TypeVar("Network", IPv4Network, IPv6Network)
Address = TypeVar("Address", IPv4Address, IPv6Address)

# Networks whose addresses no device forwards, by description.
UNFORWARDABLE = {
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


def refuse_unforwardable(value: Any, *, refuse_overlaps: bool = False) -> None:
    """Refuse unforwardable addresses, and networks of which all, or with ``refuse_overlaps`` some, are."""
    if isinstance(value, (IPv4Address, IPv6Address)):  # an interface is an address, too
        value = ip_network(value.packed)
    if not isinstance(value, (IPv4Network, IPv6Network)):
        return
    for noun, net in UNFORWARDABLE.items():
        if value.version == net.version and value.overlaps(net):
            inside = value.prefixlen >= net.prefixlen
            shown = value.network_address if value.num_addresses == 1 else value
            verb = "is" if inside else "contains"
            if inside or refuse_overlaps:
                problem = f"{shown} {verb} {noun} ({net}), which no device forwards"
                raise InvalidValue(problem, code="not-forwarded")


def parse_ipv6_network(text: str, label: str, setting: str = "") -> IPv6Network:
    """Parse an IPv6 prefix; errors name it ``label`` and its parameter ``setting`` (default: ``label``)."""
    return _parse_network(IPv6Network, text, label, setting, refuse_overlaps=True)


def parse_ipv4_network(text: str, label: str, setting: str = "") -> IPv4Network:
    """Parse an IPv4 prefix, of which a part may be unforwardable; see :func:`parse_ipv6_network`."""
    return _parse_network(IPv4Network, text, label, setting, refuse_overlaps=False)


def parse_ipv4_host_network(text: str, label: str, setting: str = "") -> IPv4Network:
    """Parse an IPv4 prefix whose addresses are all forwardable; see :func:`parse_ipv6_network`."""
    return _parse_network(IPv4Network, text, label, setting, refuse_overlaps=True)


def _parse_network(
    kind: type[Network], text: str, label: str, setting: str, *, refuse_overlaps: bool
) -> Network:
    path = (setting or label,)
    try:
        network = kind(text)
    except ValueError as exc:
        version, example = (4, "192.0.2.0/24") if kind is IPv4Network else (6, "2001:db8::/40")
        hint = f"write it as {example}"
        with contextlib.suppress(ValueError):
            hint = f"did you mean {kind(text, strict=False)}?"
        problem = f"{label} '{text}' is not an IPv{version} prefix: {exc}"
        raise UsageError(problem, hint, path=path, code="not-a-prefix") from exc
    try:
        refuse_unforwardable(refuse_zone(network), refuse_overlaps=refuse_overlaps)
    except InvalidValue as exc:
        hint = "choose another prefix"
        raise UsageError(f"{label}: {exc}", hint, path=path, code=exc.code) from exc
    return network


def parse_address(kind: type[Address], text: str, label: str) -> Address:
    """Parse an address of type ``kind``; errors name it ``label``."""
    try:
        return refuse_zone(kind(text))
    except ValueError as exc:
        version = 4 if kind is IPv4Address else 6
        problem = f"{label} '{text}' is not an IPv{version} address"
        raise UsageError(problem, path=(label,), code="not-an-address") from exc
