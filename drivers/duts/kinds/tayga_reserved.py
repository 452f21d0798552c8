"""Addresses that TAYGA refuses, by version: ``addrmap.c``, ``conffile.c`` and ``nat64.c`` of its releases."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network

from v6t.base.errors import UsageError
from v6t.drivers.duts.kinds import addresses
from v6t.drivers.duts.plan import Intent

Version = tuple[int, ...]
LOCAL_USE = (0, 9, 2, 10)
"""The first version with prefixes of RFC 8215, such as 64:ff9b:1::/48."""
CLASS_E = (0, 9, 4)
"""The first version that translates 240.0.0.0/4, and knows 100.64.0.0/10 as private."""
LINK_LOCAL = (0, 9, 6)
"""The first version with mappings of 169.254.0.0/16, and with mappings within 64:ff9b::/96."""
OWN_PREFIX = "2001:db8:64::/96"

_ALWAYS = tuple(map(IPv4Network, ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4")))
_RESERVED = IPv4Network("240.0.0.0/4")
_BROADCAST = IPv4Network("255.255.255.255/32")
_AUTOCONFIGURED = IPv4Network("169.254.0.0/16")
_SHARED = IPv4Network("100.64.0.0/10")
_PRIVATE = tuple(
    IPv4Network(n)
    for n in (
        *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15"),
        *("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"),
    )
)
"""Not translated behind the well-known prefix (RFC 6052 section 3.1)."""
_LOW = IPv6Network("::/8")
_SCOPED = tuple(map(IPv6Network, ("fe80::/10", "ff00::/8")))
_TRANSLATION = IPv6Network("64:ff9b::/32")


def version_numbers(version: str) -> Version:
    """Return ``0.9.6-16-g8a028c7`` as (0, 9, 6, 16); a version without numbers is the oldest."""
    numbers = re.match(r"[\d.]+(?:-\d+)?", version)
    return tuple(map(int, re.findall(r"\d+", numbers.group()))) if numbers else ()


def refuse_reserved(intent: Intent, version: str) -> None:
    """Refuse a prefix, mappings and hosts that this version drops, or does not start with.

    Raises:
        UsageError: with the first of them.
    """
    numbers = version_numbers(version)
    prefix = addresses.prefix_of(intent)
    if prefix is not None and _is_refused6(prefix, numbers):
        raise UsageError(
            f"TAYGA {version} does not take the prefix {prefix}",
            f"use a prefix of your own, for example {OWN_PREFIX}",
            params={addresses.prefix_parameter(intent.configuration): OWN_PREFIX},
            code="unsupported-by-version",
        )
    table = addresses.eams(intent)
    for ipv4, ipv6 in table:
        if _is_refused6(ipv6, numbers) or _is_in_well_known(ipv6, numbers):
            raise UsageError(
                f"TAYGA {version} does not map {ipv4} to {ipv6}",
                "choose another IPv6 prefix",
                code="unsupported-by-version",
            )
    for net, mapped in _hosts(intent):
        first = addresses.WELL_KNOWN.network_address
        if prefix is not None and prefix.network_address == first and not mapped:
            _refuse_private(intent, net, numbers)


def _is_refused6(net: IPv6Network, numbers: Version) -> bool:
    well_known = _TRANSLATION if numbers >= LOCAL_USE else addresses.WELL_KNOWN
    if net.subnet_of(well_known):
        return False
    return any(net.overlaps(reserved) for reserved in (_LOW, *_SCOPED))


def _is_in_well_known(net: IPv6Network, numbers: Version) -> bool:
    """Return whether a mapping lies where this version supports none."""
    if numbers >= LINK_LOCAL:
        return False
    return net.overlaps(addresses.WELL_KNOWN if numbers >= CLASS_E else _TRANSLATION)


def refuse_pool(pool: IPv4Network, version: str) -> None:
    """Refuse a dynamic pool with addresses that this version drops."""
    numbers = version_numbers(version)
    reserved = [*_ALWAYS, _BROADCAST if numbers >= CLASS_E else _RESERVED]
    if numbers < LINK_LOCAL:
        reserved.append(_AUTOCONFIGURED)
    for net in reserved:
        if pool.overlaps(net):
            raise UsageError(
                f"TAYGA {version} does not take the dynamic pool {pool}: it drops {net}",
                "choose other IPv4 addresses",
                code="unsupported-by-version",
            )


def _refuse_private(intent: Intent, net: IPv4Network, numbers: Version) -> None:
    private = (*_PRIVATE, _SHARED) if numbers >= CLASS_E else _PRIVATE
    if any(net.overlaps(reserved) for reserved in private):
        raise UsageError(
            f"TAYGA does not translate {net} behind the well-known prefix {addresses.WELL_KNOWN}, as "
            "RFC 6052, section 3.1, demands",
            f"use a prefix of your own, for example {OWN_PREFIX}",
            params={addresses.prefix_parameter(intent.configuration): OWN_PREFIX},
            code="unsupported-by-device",
        )


def _hosts(intent: Intent) -> Iterator[tuple[IPv4Network, bool]]:
    """Yield the IPv4 networks of all test hosts, and whether a mapping holds them."""
    side, table = addresses.ipv6_side(intent), addresses.eams(intent)
    for net in addresses.hosts_behind(intent, addresses.other_side(side), 4):
        yield net, any(net.subnet_of(ipv4) for ipv4, _ in table)
    prefix = addresses.prefix_of(intent)
    for net in addresses.hosts_behind(intent, side, 6):
        owned = any(net.subnet_of(ipv6) for _, ipv6 in table)
        if prefix is not None and not owned and net.subnet_of(prefix):
            yield addresses.ipv4_within(prefix, net), False
