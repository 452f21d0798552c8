"""IPv4-embedded IPv6 addresses (RFC 6052, section 2.2)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from v6t.base.errors import UsageError
from v6t.packets.address_layouts import IPV4, embedded_address_layout

PREFIX_LENGTHS = (32, 40, 48, 56, 64, 96)
WELL_KNOWN = IPv6Network("64:ff9b::/96")


def check_prefix(prefix: IPv6Network) -> IPv6Network:
    """Return a prefix behind which an IPv4 address can be embedded.

    Raises:
        UsageError: RFC 6052 does not define its length, or bits 64 to 71 are set.
    """
    if prefix.prefixlen not in PREFIX_LENGTHS:
        raise UsageError(
            f"an IPv4 address cannot be embedded behind a prefix of /{prefix.prefixlen}",
            "RFC 6052 has /" + ", /".join(map(str, PREFIX_LENGTHS)),
            code="not-a-prefix",
        )
    if int(prefix.network_address) >> 56 & 0xFF:
        raise UsageError(
            f"bits 64 to 71 of {prefix} are not zero (RFC 6052 section 2.2)", code="outside-prefix"
        )
    return prefix


def may_represent(prefix: IPv6Network, ipv4: IPv4Address) -> bool:
    """Return whether a prefix may stand for an address: the well-known one only for global ones.

    See RFC 6052, section 3.1.
    """
    return prefix != WELL_KNOWN or ipv4.is_global


def embed(prefix: IPv6Network, ipv4: IPv4Address) -> IPv6Address:
    """Compute the IPv6 address that represents ``ipv4`` behind ``prefix``."""
    return IPv6Address(embedded_address_layout(check_prefix(prefix)).encode(ipv4=int(ipv4)))


def embed_network(prefix: IPv6Network, ipv4: IPv4Network) -> IPv6Network:
    """Compute the IPv6 network of all addresses that start like those of an IPv4 network."""
    first = int(embed(prefix, ipv4.network_address))
    ones = int(embed(prefix, ipv4.netmask)) ^ int(prefix.network_address)
    length = 129 - (ones & -ones).bit_length() if ones else prefix.prefixlen
    return IPv6Network((first, length))


def extract(prefix: IPv6Network, ipv6: IPv6Address) -> IPv4Address:
    """Read the IPv4 address in ``ipv6``; bits after it are ignored.

    Raises:
        UsageError: the address is not behind the prefix.
    """
    check_prefix(prefix)
    if ipv6 not in prefix:
        raise UsageError(f"{ipv6} is not within {prefix}", code="outside-prefix")
    return IPv4Address(embedded_address_layout(prefix).decode(int(ipv6))[IPV4])
