"""IPv4-embedded IPv6 addresses (RFC 6052 section 2.2)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network

from v6t.base.errors import UsageError

PREFIX_LENGTHS = (32, 40, 48, 56, 64, 96)
WELL_KNOWN = IPv6Network("64:ff9b::/96")
_U_OCTET = 64
"""Bits 64..71 stay zero and are skipped by the embedded address."""


def check_prefix(prefix: IPv6Network) -> IPv6Network:
    """The prefix, if an IPv4 address can be embedded behind it.

    Raises:
        UsageError: its length is none of RFC 6052's, or bits 64..71 are set.
    """
    if prefix.prefixlen not in PREFIX_LENGTHS:
        raise UsageError(
            f"an IPv4 address cannot be embedded behind a prefix of /{prefix.prefixlen}",
            "RFC 6052 has /" + ", /".join(map(str, PREFIX_LENGTHS)),
        )
    if int(prefix.network_address) >> 56 & 0xFF:
        raise UsageError(f"bits 64 to 71 of {prefix} are not zero (RFC 6052 section 2.2)")
    return prefix


def may_represent(prefix: IPv6Network, ipv4: IPv4Address) -> bool:
    """Return whether a prefix may stand for an address: the well-known one only for global ones.

    See RFC 6052, section 3.1.
    """
    return prefix != WELL_KNOWN or ipv4.is_global


def embed(prefix: IPv6Network, ipv4: IPv4Address) -> IPv6Address:
    """The IPv6 address that stands for ``ipv4`` behind ``prefix``."""
    check_prefix(prefix)
    value = int(prefix.network_address)
    for bit, place in enumerate(places(prefix.prefixlen)):
        value |= (int(ipv4) >> 31 - bit & 1) << 127 - place
    return IPv6Address(value)


def octets_of(prefix: IPv6Network) -> tuple[int, int, int, int]:
    """Octets of an IPv6 address behind ``prefix`` that hold those of the IPv4 address, in order."""
    first, second, third, fourth = (place // 8 for place in places(prefix.prefixlen)[::8])
    return first, second, third, fourth


def extract(prefix: IPv6Network, ipv6: IPv6Address) -> IPv4Address:
    """The IPv4 address in ``ipv6``; bits after it are ignored.

    Raises:
        UsageError: the address is not behind the prefix.
    """
    check_prefix(prefix)
    if ipv6 not in prefix:
        raise UsageError(f"{ipv6} is not within {prefix}")
    value = 0
    for place in places(prefix.prefixlen):
        value = value << 1 | int(ipv6) >> 127 - place & 1
    return IPv4Address(value)


def places(length: int) -> list[int]:
    """Positions of the 32 embedded bits in the IPv6 address, bit 0 leftmost."""
    free = [p for p in range(length, 128) if not _U_OCTET <= p < _U_OCTET + 8]
    return free[:32] if length < 96 else list(range(96, 128))
