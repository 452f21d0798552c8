"""Address mappings as strings of bits: RFC 6052, RFC 7757, MAP rules and binding tables.

Nothing here shares arithmetic with the reference translation, which computes with integers and arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from operator import itemgetter
from typing import TypeAlias, TypeVar

from v6t.plugins.audit_views import Address, AddressTable, Softwire
from v6t.plugins.map_rules import MapRule
from v6t.plugins.ports import PortSet

T = TypeVar("T")
Network = IPv4Network | IPv6Network


def bits_of(address: Address) -> str:
    """Return an address as a string of 32 or 128 bits."""
    return f"{int(address):0{address.max_prefixlen}b}"


def prefix_bits(network: Network) -> str:
    """Return the bits of a prefix."""
    return bits_of(network.network_address)[: network.prefixlen]


def ipv6_from(bits: str) -> IPv6Address:
    """Return the IPv6 address that begins with some bits; zeros follow."""
    return IPv6Address(int(bits.ljust(128, "0"), 2))


def ipv4_from(bits: str) -> IPv4Address:
    """Return the IPv4 address that begins with some bits; zeros follow."""
    return IPv4Address(int(bits[:32].ljust(32, "0"), 2))


def find_longest(address: Address, candidates: Iterable[tuple[Network, T]]) -> T | None:
    """Return the first candidate with the longest prefix that contains an address."""
    matches = [(net.prefixlen, candidate) for net, candidate in candidates if address in net]
    return max(matches, key=itemgetter(0), default=(0, None))[1]


@dataclass(frozen=True)
class PrefixMap:
    """An RFC 6052 prefix: the picture in its section 2.2 with bits 64 to 71 zero."""

    prefix: IPv6Network

    def to_ipv6(self, ipv4: Address) -> IPv6Address:
        bits = prefix_bits(self.prefix) + bits_of(ipv4)
        is_short = self.prefix.prefixlen < 96
        return ipv6_from(bits[:64] + "0" * 8 + bits[64:] if is_short else bits)

    def to_ipv4(self, ipv6: Address) -> IPv4Address | None:
        if ipv6 not in self.prefix:
            return None
        bits, length = bits_of(ipv6), self.prefix.prefixlen
        return ipv4_from(bits[length:64] + bits[72:] if length < 96 else bits[length:])


@dataclass(frozen=True)
class ExplicitMap:
    """One explicit address mapping (RFC 7757, section 3.3)."""

    ipv4: IPv4Network
    ipv6: IPv6Network

    def to_ipv6(self, ipv4: Address) -> IPv6Address:
        return ipv6_from(prefix_bits(self.ipv6) + bits_of(ipv4)[self.ipv4.prefixlen :])

    def to_ipv4(self, ipv6: Address) -> IPv4Address:
        return ipv4_from(prefix_bits(self.ipv4) + bits_of(ipv6)[self.ipv6.prefixlen :])


class TableMap:
    """An address table: the longest explicit mapping, else the RFC 6052 prefix."""

    def __init__(self, table: AddressTable) -> None:
        self.explicit = [ExplicitMap(ipv4, ipv6) for ipv4, ipv6 in table.eams]
        self.prefix = None if table.prefix is None else PrefixMap(table.prefix)

    @classmethod
    def map_host(cls, ipv4: Address, ipv6: Address, prefix: IPv6Network) -> TableMap:
        """Return the map of one host, and of all others behind a prefix."""
        return cls(AddressTable(((IPv4Network(ipv4), IPv6Network(ipv6)),), prefix))

    def find_explicit(self, address: Address) -> ExplicitMap | None:
        is_ipv4 = address.version == 4
        return find_longest(address, ((m.ipv4 if is_ipv4 else m.ipv6, m) for m in self.explicit))

    def to_ipv6(self, ipv4: Address) -> IPv6Address | None:
        chosen = self.find_explicit(ipv4) or self.prefix
        return chosen.to_ipv6(ipv4) if chosen else None

    def to_ipv4(self, ipv6: Address) -> IPv4Address | None:
        chosen = self.find_explicit(ipv6) or self.prefix
        return chosen.to_ipv4(ipv6) if chosen else None


AddressMap: TypeAlias = PrefixMap | TableMap


def find_psid(port: int, offset: int, length: int) -> str | None:
    """Return the PSID bits of a port (RFC 7597, section 5.1), or None for a port of no CE."""
    bits = f"{port:016b}"
    if length and offset and "1" not in bits[:offset]:
        return None
    return bits[offset : offset + length]


def has_port(share: PortSet | Softwire, port: int | None) -> bool:
    """Return whether a customer with a share of an address may use a port."""
    if not share.psid_len:
        return True
    psid = None if port is None else find_psid(port, share.psid_offset, share.psid_len)
    return psid is not None and int(psid, 2) == share.psid


@dataclass(frozen=True)
class MapDomain:
    """One MAP rule as bits; none of the rule's methods is used."""

    rule: MapRule
    embeds_host: bool = False
    """The identifier contains the host's whole address (RFC 7599, erratum 5225)."""

    def has_ce(self, psid: str) -> bool:
        """Return whether a CE has a PSID: a rule without EA bits has one CE."""
        rule = self.rule
        is_open = rule.psid is None or rule.ea_len or not rule.psid_len
        return bool(is_open) or int(psid, 2) == rule.psid

    def psid_of(self, port: int | None) -> str | None:
        """Return the PSID of a CE's port; without a port, of a whole address."""
        if port is None:
            return None if self.rule.psid_len else ""
        psid = find_psid(port, self.rule.psid_offset, self.rule.psid_len)
        return psid if psid is not None and self.has_ce(psid) else None

    def address(self, ipv4: Address, psid: str) -> IPv6Address:
        """Return the MAP address of a host (RFC 7597, section 6)."""
        rule, bits = self.rule, bits_of(ipv4)
        ea = (bits[rule.ipv4_prefix.prefixlen :] + psid)[: rule.ea_len]
        length = rule.ipv4_prefix.prefixlen + rule.ea_len
        if length < 32 and not self.embeds_host:
            bits = bits[:length].ljust(32, "0")
        lead = "0" * (8 if rule.iid_format == "draft" else 16)
        end_user_prefix = prefix_bits(rule.ipv6_prefix) + ea
        return ipv6_from(end_user_prefix.ljust(64, "0") + lead + bits + psid.zfill(16))

    def read(self, ipv6: Address) -> tuple[IPv4Address, str] | None:
        """Return IPv4 address and PSID in a MAP address, or None if the address contradicts itself."""
        bits = bits_of(ipv6)[72 if self.rule.iid_format == "draft" else 80 :]
        ipv4, psid = ipv4_from(bits), bits[32:48][16 - self.rule.psid_len :]
        is_right = ipv4 in self.rule.ipv4_prefix and self.address(ipv4, psid) == ipv6
        return (ipv4, psid) if is_right and self.has_ce(psid) else None


@dataclass
class MapSharing:
    """Customers who share IPv4 addresses: CEs of MAP rules, and their relay."""

    domains: Sequence[MapDomain]
    relay: IPv6Address

    def domains_for(self, ipv4: Address) -> list[MapDomain]:
        longest = find_longest(
            ipv4, ((d.rule.ipv4_prefix, d.rule.ipv4_prefix) for d in self.domains)
        )
        return [d for d in self.domains if d.rule.ipv4_prefix == longest]

    def find(self, ipv4: Address, port: int | None) -> tuple[IPv6Address, IPv6Address] | None:
        """Return a customer and its relay; without a port, only a customer with a whole address."""
        for domain in self.domains_for(ipv4):
            psid = domain.psid_of(port)
            if psid is not None:
                return domain.address(ipv4, psid), self.relay
        return None

    def has_share(self, ipv4: Address, customer: Address | None = None) -> bool:
        """Return whether a customer, by default any, has ports of an address."""
        domains = self.domains_for(ipv4)
        if customer is None:
            return bool(domains)
        return any(
            (ce := domain.read(customer)) and domain.address(ipv4, ce[1]) == customer
            for domain in domains
        )

    def find_customer(self, customer: Address) -> tuple[MapDomain, IPv4Address, str] | None:
        """Return domain, IPv4 address and PSID of a CE by the longest IPv6 prefix."""
        domain = find_longest(customer, ((d.rule.ipv6_prefix, d) for d in self.domains))
        ce = domain.read(customer) if domain else None
        return (domain, *ce) if domain and ce else None


@dataclass
class SoftwireSharing:
    """Customers who share IPv4 addresses: lwB4s by the rows of a binding table (RFC 7596)."""

    softwires: Callable[[IPv4Address], Sequence[Softwire]]

    def find(self, ipv4: Address, port: int | None) -> tuple[IPv6Address, IPv6Address] | None:
        rows = (row for row in self.softwires(ipv4) if has_port(row, port))  # type: ignore[arg-type]
        return next(((row.b4, row.aftr) for row in rows), None)

    def has_share(self, ipv4: Address, customer: Address | None = None) -> bool:
        return any(customer in (None, row.b4) for row in self.softwires(ipv4))  # type: ignore[arg-type]
