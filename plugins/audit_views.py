"""Audit views: descriptions of the roles that a technology's device plays, from which audits build packets.

Addresses of the device, routes and MTUs are in ``make_dut_intent()`` and ``links``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from v6t.plugins.map_rules import MapRule
    from v6t.plugins.ports import PortSet

SideName = Literal["left", "right"]
Address = IPv4Address | IPv6Address

# Names of device variants: further configurations, for which audits have additional clauses.
RAISED_MTU = "lowest-ipv6-mtu of 1400"
WELL_KNOWN_PREFIX = "well-known prefix"
PREFIX_AND_MAPPINGS = "prefix and explicit mappings"
OVERLAPPING_MAPPINGS = "overlapping mappings"
UNEQUAL_MAPPINGS = "mappings of different lengths"
PSID_OFFSETS = tuple(f"PSID offset {offset}" for offset in range(16))
NESTED_RULE = "a rule within another"
CE_PREFIXES = "CEs with an IPv4 prefix"
TWO_PUBLIC_ADDRESSES = "two public addresses"
PORT_LIMIT = 16  # public ports of a host, or of all hosts; even, as some NATs keep port parity
SESSION_LIMIT = 20  # sessions of the device; a multiple of ten, as some devices require
SHORT_TIMEOUT_S = 4  # of UDP mappings
PORT_BLOCKS = f"blocks of {PORT_LIMIT} public ports"
SMALL_PORT_POOL = f"{PORT_LIMIT} public ports"
SMALL_TABLE = f"room for {SESSION_LIMIT} sessions"
SHORT_TIMEOUT = f"UDP mappings of {SHORT_TIMEOUT_S} s"
# Parameters for audits of NATs: two hosts on either side.
TWO_HOST_PARAMS = {
    "initiator_count": 2, "responder_count": 2, "enumerate_ips": 3,
    "initiator_ports": {"min": 1024, "max": 21023},
}  # fmt: skip
# RFC 6052 prefixes of variants, by length.
PREFIXES = {32: "2001:dba::/32", 40: "2001:dba:6400::/40"}
PREFIXES |= {length: f"2001:db8:{0x6400 + length:x}::/{length}" for length in (48, 56, 64, 96)}
PREFIX_VARIANTS = {f"prefix of /{length}": length for length in PREFIXES}
GLOBAL_HOST = "8.8.4.4"  # test host behind the well-known prefix, which maps only global addresses
MAPPED_HOST = IPv4Address("198.18.0.65")  # test host in variants with explicit mappings


def make_prefix_variants(parameter: str, **params: object) -> dict[str, dict[str, Any]]:
    """Return one variant for each RFC 6052 prefix length; ``params`` are added to each variant."""
    lengths = PREFIX_VARIANTS.items()
    return {name: {parameter: PREFIXES[length], **params} for name, length in lengths}


@dataclass(frozen=True)
class AddressTable:
    """Explicit address mappings (RFC 7757) and an RFC 6052 prefix for all other addresses."""

    eams: tuple[tuple[IPv4Network, IPv6Network], ...] = ()
    prefix: IPv6Network | None = None


@dataclass(frozen=True)
class Translator:
    """A translator between an IPv6 and an IPv4 link (RFC 7915), with one host beyond each link."""

    ipv6_side: SideName
    ipv6_host: IPv6Address
    mapped_ipv4: tuple[IPv4Address, ...]  # of the IPv6 host; several if stateful
    port: int  # of the IPv6 host
    ipv4_host: IPv4Address
    mapped_ipv6: IPv6Address  # of the IPv4 host
    server_port: int  # of the IPv4 host
    lowest_ipv6_mtu: int  # for IPv4 packets without DF (RFC 7915, section 4)
    table: AddressTable | None = None  # None for a relay, CE or NAT
    prefix_side: Literal["ipv6", "ipv4"] = "ipv4"  # link whose hosts are behind the RFC 6052 prefix
    stateful: bool = False
    uses_ports: bool = False  # so it cannot deliver later fragments
    may_reassemble: bool = False

    @property
    def ipv4_side(self) -> SideName:
        return "right" if self.ipv6_side == "left" else "left"


@dataclass(frozen=True)
class Customer:
    """A CE or lwB4 with its share of an IPv4 address."""

    ipv6: IPv6Address
    ipv4: IPv4Address
    ports: PortSet

    @property
    def port(self) -> int:
        return self.ports.middle_port


@dataclass(frozen=True)
class Softwire:
    """One row of a binding table (RFC 7596): an IPv4 address, a PSID, the lwB4 and the lwAFTR."""

    ipv4: IPv4Address
    psid: int
    psid_len: int
    psid_offset: int
    b4: IPv6Address
    aftr: IPv6Address


@dataclass(frozen=True)
class SharedAddressRelay:
    """A relay of customers with shared IPv4 addresses on the left link, and a server on the right."""

    kind: str  # MAP-E, MAP-T or lw4o6
    relay: IPv6Address  # its tunnel address; for MAP-T, the server behind the DMR
    tunnel_addresses: frozenset[IPv6Address]
    server: IPv4Address
    customer: Customer  # used in most clauses
    sibling: Customer | None  # with the same IPv4 address
    other: Customer | None  # with another IPv4 address
    find_customer: Callable[[IPv4Address, int], IPv6Address | None]
    rules: tuple[MapRule, ...] = ()
    dmr: IPv6Network | None = None
    lowest_ipv6_mtu: int = 1280
    list_softwires: Callable[[IPv4Address], Sequence[Softwire]] | None = None  # lw4o6

    @property
    def encapsulates(self) -> bool:
        """Whether the relay encapsulates packets instead of translating them."""
        return self.kind != "MAP-T"


@dataclass(frozen=True)
class CustomerEdge:
    """A CE or lwB4 without its NAPT: the relay's side on the left link, the customer's hosts on the right."""

    kind: str  # MAP-E, MAP-T or lw4o6
    ipv4: IPv4Network
    ports: PortSet
    server: IPv4Address  # beyond the relay
    ipv6: IPv6Address
    relay: IPv6Address | None = None  # other end of the tunnel; None for MAP-T
    rule: MapRule | None = None
    psid: int = 0
    dmr: IPv6Network | None = None
    lowest_ipv6_mtu: int = 1280


@dataclass(frozen=True)
class TunnelEnd:
    """A tunnel that ends in the device, with a host at either side; endpoints are (address, port)."""

    side: SideName
    local: Address
    remote: Address
    inner: tuple[Address, int]  # endpoint behind the remote end
    outer: tuple[Address, int] | None  # the same beyond the device; None if a NAT assigns it
    host: tuple[Address, int]  # endpoint beyond the device
    copies_dscp: bool = False  # in both directions (RFC 6333, section 7.1)
    shared: bool = True  # whether customers share the inner IPv4 address
    # Returns the remote tunnel address for an inner address, if each inner address has its own.
    find_outer_address: Callable[[Address], Address | None] | None = None

    @property
    def far_side(self) -> SideName:
        return "right" if self.side == "left" else "left"


@dataclass(frozen=True)
class Nat:
    """A NAT: two or more hosts on the left link, and servers on the right; limits of 0 do not apply."""

    hosts: tuple[Address, ...]  # B4s with DS-Lite
    servers: tuple[Address, ...]
    pool: tuple[Address, ...]  # public addresses
    prefix: IPv6Network | None = None  # of a NAT64
    customer: IPv4Address | None = None  # behind each B4
    aftr: IPv6Address | None = None
    public_ports: tuple[int, int] = (1024, 65535)  # lowest and highest
    port_block: int = 0  # public ports of each host
    session_limit: int = 0
    udp_timeout_s: int = 0
    icmp_timeout_s: int = 60
    tcp_transitory_s: int = 240
    tcp_established_s: int = 7440
    lowest_ipv6_mtu: int = 1280

    @property
    def mapping_capacity(self) -> int:
        """Number of mappings that fit: of each host with port blocks, else of all hosts together."""
        count = self.public_ports[1] - self.public_ports[0] + 1
        return min(self.port_block or count, self.session_limit or count)


@dataclass(frozen=True)
class PrefixTranslator:
    """An NPTv6 translator (RFC 6296): an inside host on the left link, a server on the right."""

    internal: IPv6Network
    external: IPv6Network
    host: IPv6Address
    server: IPv6Address


@dataclass(frozen=True)
class Router:
    """A router of one IP version, with a host beyond each link."""

    left: Address  # of the host beyond the left link
    right: Address


AuditView: TypeAlias = (
    Translator | SharedAddressRelay | CustomerEdge | TunnelEnd | Nat | PrefixTranslator | Router
)
