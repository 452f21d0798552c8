"""Address mappings as strings of bits; the reference translation computes with integers and arrays."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from operator import itemgetter
from typing import TypeVar

from v6t.audit.ip_packet import Drop
from v6t.plugins.audit_views import Address, AddressTable, SharedAddressRelay, Softwire
from v6t.plugins.map_rules import MapRule
from v6t.plugins.ports import PortSet

T = TypeVar("T")
Network = IPv4Network | IPv6Network


def to_bits(address: Address) -> str:
    """Return an address as a string of 32 or 128 bits."""
    return f"{int(address):0{address.max_prefixlen}b}"


def to_prefix_bits(network: Network) -> str:
    """Return the bits of a prefix."""
    return to_bits(network.network_address)[: network.prefixlen]


def parse_ipv6_bits(bits: str) -> IPv6Address:
    """Parse the leading bits of an IPv6 address; the others are zero."""
    return IPv6Address(int(bits.ljust(128, "0"), 2))


def parse_ipv4_bits(bits: str) -> IPv4Address:
    """Parse the leading bits of an IPv4 address; the others are zero."""
    return IPv4Address(int(bits[:32].ljust(32, "0"), 2))


def find_longest(address: Address, candidates: Iterable[tuple[Network, T]]) -> T | None:
    """Return the first candidate with the longest prefix that contains an address."""
    matches = [(net.prefixlen, candidate) for net, candidate in candidates if address in net]
    return max(matches, key=itemgetter(0), default=(0, None))[1]


class TableMap:
    """Address map by the longest explicit mapping (RFC 7757), else by the RFC 6052 prefix."""

    def __init__(self, table: AddressTable) -> None:
        self.eams, self.prefix = table.eams, table.prefix

    @classmethod
    def map_host(cls, ipv4: Address, ipv6: Address, prefix: IPv6Network) -> TableMap:
        """Return a map with one explicit mapping and a prefix for all other hosts."""
        return cls(AddressTable(((IPv4Network(ipv4), IPv6Network(ipv6)),), prefix))

    def find_explicit(self, address: Address) -> tuple[IPv4Network, IPv6Network] | None:
        return find_longest(address, ((eam[address.version == 6], eam) for eam in self.eams))

    def to_ipv6(self, ipv4: Address) -> IPv6Address | None:
        if eam := self.find_explicit(ipv4):
            return parse_ipv6_bits(to_prefix_bits(eam[1]) + to_bits(ipv4)[eam[0].prefixlen :])
        bits = to_prefix_bits(self.prefix) + to_bits(ipv4) if self.prefix else ""
        bits = bits[:64] + "0" * 8 + bits[64:] if len(bits) < 128 else bits
        return parse_ipv6_bits(bits) if self.prefix else None

    def to_ipv4(self, ipv6: Address) -> IPv4Address | None:
        bits = to_bits(ipv6)
        if eam := self.find_explicit(ipv6):
            return parse_ipv4_bits(to_prefix_bits(eam[0]) + bits[eam[1].prefixlen :])
        if self.prefix is None or ipv6 not in self.prefix:
            return None
        length = self.prefix.prefixlen
        return parse_ipv4_bits(bits[length:64] + bits[72:] if length < 96 else bits[length:])


def translate_prefix(address: Address, old: IPv6Network, new: IPv6Network) -> IPv6Address:
    """Translate an address to another prefix, checksum-neutrally (RFC 6296, section 3.5)."""
    bits = to_prefix_bits(new) + to_bits(address)[new.prefixlen :]
    before = struct.unpack("!8H", address.packed)
    after = [int(bits[at : at + 16], 2) for at in range(0, 128, 16)]
    is_short = max(old.prefixlen, new.prefixlen) <= 48
    adjustable = [3] if is_short else [n for n in range(4, 8) if before[n] != 0xFFFF]
    if not adjustable:
        raise Drop
    after[adjustable[0]] = (after[adjustable[0]] + sum(before) - sum(after)) % 0xFFFF
    return IPv6Address(struct.pack("!8H", *after))


def find_psid(port: int, offset: int, length: int) -> str | None:
    """Return the PSID bits of a port (RFC 7597, section 5.1), or None if no CE has the port."""
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
    """A MAP rule; with ``embeds_host``, identifiers hold complete addresses (RFC 7599, erratum 5225)."""

    rule: MapRule
    embeds_host: bool = False

    def has_ce(self, psid: str) -> bool:
        """Return whether a CE with this PSID exists: a rule without EA bits has a single CE."""
        rule = self.rule
        return rule.psid is None or bool(rule.ea_len) or not psid or int(psid, 2) == rule.psid

    def compute_psid(self, port: int | None) -> str | None:
        """Return the PSID of a CE's port; without a port, that of a CE with a complete address."""
        if port is None:
            return None if self.rule.psid_len else ""
        psid = find_psid(port, self.rule.psid_offset, self.rule.psid_len)
        return psid if psid is not None and self.has_ce(psid) else None

    def compute_address(self, ipv4: Address, psid: str) -> IPv6Address:
        """Return the MAP address of a host (RFC 7597, section 6)."""
        rule, bits = self.rule, to_bits(ipv4)
        ea = (bits[rule.ipv4_prefix.prefixlen :] + psid)[: rule.ea_len]
        length = rule.ipv4_prefix.prefixlen + rule.ea_len
        if length < 32 and not self.embeds_host:
            bits = bits[:length].ljust(32, "0")
        lead = "0" * (8 if rule.iid_format == "draft" else 16)
        end_user_prefix = to_prefix_bits(rule.ipv6_prefix) + ea
        return parse_ipv6_bits(end_user_prefix.ljust(64, "0") + lead + bits + psid.zfill(16))

    def read(self, ipv6: Address) -> tuple[IPv4Address, str] | None:
        """Return the IPv4 address and the PSID in a MAP address, or None if the address is inconsistent."""
        bits = to_bits(ipv6)[72 if self.rule.iid_format == "draft" else 80 :]
        ipv4, psid = parse_ipv4_bits(bits), bits[32:48][16 - self.rule.psid_len :]
        is_right = ipv4 in self.rule.ipv4_prefix and self.compute_address(ipv4, psid) == ipv6
        return (ipv4, psid) if is_right and self.has_ce(psid) else None


class AddressSharing:
    """Customers who share IPv4 addresses: CEs of MAP rules, or lwB4s of a binding table (RFC 7596)."""

    def __init__(self, view: SharedAddressRelay) -> None:
        self.relay, self.softwires = view.relay, view.list_softwires
        self.domains = [MapDomain(rule, embeds_host=not view.encapsulates) for rule in view.rules]

    def find_domains(self, ipv4: Address) -> list[MapDomain]:
        prefixes = [d.rule.ipv4_prefix for d in self.domains]
        longest = find_longest(ipv4, zip(prefixes, prefixes, strict=True))
        return [d for d in self.domains if d.rule.ipv4_prefix == longest]

    def find_rows(self, ipv4: Address) -> Sequence[Softwire]:
        return self.softwires(ipv4) if self.softwires else ()  # type: ignore[arg-type]

    def find(self, ipv4: Address, port: int | None) -> tuple[IPv6Address, IPv6Address] | None:
        """Return a customer and its relay; without a port, only a customer with a complete address."""
        for row in self.find_rows(ipv4):
            if has_port(row, port):
                return row.b4, row.aftr
        for domain in self.find_domains(ipv4):
            if (psid := domain.compute_psid(port)) is not None:
                return domain.compute_address(ipv4, psid), self.relay
        return None

    def has_share(self, ipv4: Address, customer: Address | None = None) -> bool:
        """Return whether a customer, or any customer, has ports of an address."""
        domains, rows = self.find_domains(ipv4), self.find_rows(ipv4)
        if customer is None:
            return bool(domains or rows)
        shares = [(d.read(customer), d) for d in domains]
        is_ce = any(ce and domain.compute_address(ipv4, ce[1]) == customer for ce, domain in shares)
        return is_ce or customer in {row.b4 for row in rows}

    def find_customer(self, customer: Address) -> tuple[MapDomain, IPv4Address, str] | None:
        """Return domain, IPv4 address and PSID of a CE by the longest IPv6 prefix."""
        domain = find_longest(customer, ((d.rule.ipv6_prefix, d) for d in self.domains))
        ce = domain.read(customer) if domain else None
        return (domain, *ce) if domain and ce else None
