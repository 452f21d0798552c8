"""What an audit must know of a technology: views, one for each role that its device plays.

Addresses of the device, routes and MTUs are in ``dut_intent()`` and ``links``.
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

# Variants: further configurations that suites have clauses for. A technology that supports one returns the
# parameters that make it, by these names.
RAISED_MTU = "lowest-ipv6-mtu of 1400"
WELL_KNOWN_PREFIX = "well-known prefix"
PREFIX_BESIDE_MAPPINGS = "a prefix beside mappings"
OVERLAPPING_MAPPINGS = "overlapping mappings"
UNLIKE_MAPPINGS = "mappings of unlike lengths"
PSID_OFFSETS = tuple(f"PSID offset {offset}" for offset in range(16))
NESTED_RULE = "a rule within another"
PREFIX_CUSTOMERS = "CEs with an IPv4 prefix"
TWO_PUBLIC_ADDRESSES = "two public addresses"
FEW_PORTS = 16  # public ports of a host, or of all: even, as some NATs keep parity
SMALL_TABLE_SESSIONS = 20  # a multiple of ten, which some devices require
SHORT_TIMEOUT_S = 4
PORT_BLOCKS = f"blocks of {FEW_PORTS} public ports"
FEW_PUBLIC_PORTS = f"{FEW_PORTS} public ports"
SMALL_TABLE = f"room for {SMALL_TABLE_SESSIONS} sessions"
SHORT_TIMEOUT = f"UDP mappings of {SHORT_TIMEOUT_S} s"
TWO_HOSTS = {
    "initiator_count": 2, "responder_count": 2, "enumerate_ips": 3,
    "initiator_ports": {"min": 1024, "max": 21023},
}  # fmt: skip
"""Parameters that audits of NATs prefer: two hosts on either side."""
PREFIX_VARIANTS = {f"prefix of /{length}": length for length in (32, 40, 48, 56, 64, 96)}
"""Variants with an RFC 6052 prefix, and its length."""
GLOBAL_HOST = "8.8.4.4"  # for the variant with the well-known prefix
MAPPED_HOST = IPv4Address("198.18.0.65")  # of the variants with address tables


def choose_hosts(first: Address, count: int, step: int = 1) -> tuple[Address, ...]:
    """Return the first two of consecutive hosts, or the only one."""
    return (first, first + step)[:count]


def make_variant_prefix(length: int) -> str:
    """Return the RFC 6052 prefix that variants of a length use."""
    if length <= 40:
        return {32: "2001:dba::/32", 40: "2001:dba:6400::/40"}[length]
    return f"2001:db8:{0x6400 + length:x}::/{length}"


def make_prefix_variants(parameter: str, **params: object) -> dict[str, dict[str, Any]]:
    """Return a variant for each length of the prefix in a parameter, with further parameters."""
    prefixes = {name: make_variant_prefix(length) for name, length in PREFIX_VARIANTS.items()}
    return {name: {parameter: prefix, **params} for name, prefix in prefixes.items()}


@dataclass(frozen=True)
class AddressTable:
    """Explicit address mappings (RFC 7757) and an RFC 6052 prefix for all other addresses."""

    eams: tuple[tuple[IPv4Network, IPv6Network], ...] = ()
    prefix: IPv6Network | None = None


@dataclass(frozen=True)
class Translator:
    """A translator between an IPv6 and an IPv4 link (RFC 7915), with one host beyond each link.

    ``six4`` is the pool of a stateful one, ``port`` one that the IPv6 host may use. A relay, CE or NAT has no
    ``table``. ``prefix_side`` is the link whose hosts are behind the RFC 6052 prefix. Hosts beyond the IPv4
    link of a ``stateful`` one need a session. If it ``uses_ports``, it cannot deliver later fragments.
    """

    ipv6_side: SideName
    six: IPv6Address
    six4: tuple[IPv4Address, ...]
    port: int
    four: IPv4Address
    four6: IPv6Address
    server_port: int
    lowest_ipv6_mtu: int
    table: AddressTable | None = None
    prefix_side: Literal["six", "four"] = "four"
    stateful: bool = False
    uses_ports: bool = False
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
        """A port in the middle of its last range; never 0."""
        low, high = self.ports.ranges[-1]
        return (low + high) // 2 or high


@dataclass(frozen=True)
class Softwire:
    """One row of a binding table (RFC 7596): the ports of an address, its lwB4 and its lwAFTR."""

    ipv4: IPv4Address
    psid: int
    psid_len: int
    psid_offset: int
    b4: IPv6Address
    aftr: IPv6Address


@dataclass(frozen=True)
class SharedAddressRelay:
    """A relay of customers with shared IPv4 addresses on the left link, and a server on the right.

    ``relay`` is where tunnels end, for MAP-T the server's address behind the DMR. Most clauses use
    ``customer``; ``sibling`` shares its address, ``other`` has another. ``owner`` finds the customer of an
    address and port, ``softwires`` the rows of an address (lw4o6).
    """

    kind: Literal["MAP-E", "MAP-T", "lw4o6"]
    relay: IPv6Address
    relays: frozenset[IPv6Address]
    server: IPv4Address
    customer: Customer
    sibling: Customer | None
    other: Customer | None
    owner: Callable[[IPv4Address, int], IPv6Address | None]
    rules: tuple[MapRule, ...] = ()
    dmr: IPv6Network | None = None
    lowest_ipv6_mtu: int = 1280
    softwires: Callable[[IPv4Address], Sequence[Softwire]] | None = None

    @property
    def tunnels(self) -> bool:
        """Whether packets are encapsulated rather than translated."""
        return self.kind != "MAP-T"


@dataclass(frozen=True)
class CustomerEdge:
    """A CE or lwB4 without its NAPT: the relay's side on the left link, the customer's hosts on the right.

    ``server`` is an IPv4 host beyond the relay; ``relay`` the other end of the tunnel, None for MAP-T.
    """

    kind: Literal["MAP-E", "MAP-T", "lw4o6"]
    ipv4: IPv4Network
    ports: PortSet
    server: IPv4Address
    ipv6: IPv6Address
    relay: IPv6Address | None = None
    rule: MapRule | None = None
    psid: int = 0
    dmr: IPv6Network | None = None
    lowest_ipv6_mtu: int = 1280


@dataclass(frozen=True)
class TunnelEnd:
    """One tunnel that ends in the device, and a host beyond the device.

    ``inner`` is a host behind the other end, ``outer`` what hosts beyond see; None if a NAT chooses.
    Other customers of a ``shared`` address have other ports; ``endpoint`` finds an inner one's outer address.
    """

    side: SideName
    local: Address
    remote: Address
    inner: tuple[Address, int]
    outer: tuple[Address, int] | None
    host: tuple[Address, int]
    copies_dscp: bool = False
    shared: bool = True
    endpoint: Callable[[Address], Address | None] | None = None

    @property
    def far_side(self) -> SideName:
        return "right" if self.side == "left" else "left"


@dataclass(frozen=True)
class Nat:
    """A NAT: two or more hosts on the left link, and servers on the right.

    ``hosts`` are B4s of DS-Lite, each before ``customer``. ``prefix`` is that of a NAT64. ``public`` are the
    lowest and the highest port, ``port_block`` those of each host. Limits of 0 are not configured.
    """

    hosts: tuple[Address, ...]
    servers: tuple[Address, ...]
    pool: tuple[Address, ...]
    prefix: IPv6Network | None = None
    customer: IPv4Address | None = None
    aftr: IPv6Address | None = None
    public: tuple[int, int] = (1024, 65535)
    port_block: int = 0
    session_limit: int = 0
    udp_timeout_s: int = 0
    icmp_timeout_s: int = 60
    tcp_transitory_s: int = 240
    tcp_established_s: int = 7440
    lowest_ipv6_mtu: int = 1280

    @property
    def room(self) -> int:
        """Mappings that fit, of a host or of all."""
        count = self.public[1] - self.public[0] + 1
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

    left: Address
    right: Address


AuditView: TypeAlias = (
    Translator | SharedAddressRelay | CustomerEdge | TunnelEnd | Nat | PrefixTranslator | Router
)
