"""Configurations of devices, one model for each family; written by technologies, read by drivers.

A technology builds one model, and a driver lists in ``accepts`` those that it can configure. A technology
or driver of another distribution may derive further models from :class:`DeviceConfig`.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, ClassVar, Literal

from v6t.base.strict_model import StrictModel

Side = Literal["left", "right"]


class DeviceConfig(StrictModel):
    """Configuration of a device beyond its links and routes."""

    family: ClassVar[str]
    """Name of the family in messages and manuals."""

    def to_json(self) -> dict[str, Any]:
        """Return the values that were given, as JSON values."""
        return self.model_dump(mode="json", exclude_unset=True)


class RouterConfig(DeviceConfig):
    """A router: links and routes are everything."""

    family = "router"


class NatConfig(DeviceConfig):
    """Public ports and limits of a stateful NAT of any kind."""

    ports: tuple[int, int] = (1024, 65535)
    """Lowest and highest public port."""
    port_block: int = 0
    """Public ports reserved for each client; 0: all clients share all."""
    udp_timeout_s: int = 0
    """Lifetime of idle UDP mappings [s]; 0: longer than the test."""
    session_limit: int = 0
    """Sessions in all that the device has room for; 0: at least those of the test."""


class Nat44Config(NatConfig):
    """IPv4 clients behind public IPv4 addresses."""

    family = "nat44"

    inside4: tuple[IPv4Network, ...]
    """Networks of the clients."""
    pool4: tuple[IPv4Address, ...]
    """Public addresses in ascending order."""


class Nat66Config(NatConfig):
    """IPv6 clients behind public IPv6 addresses."""

    family = "nat66"

    inside6: tuple[IPv6Network, ...]
    """Networks of the clients."""
    pool6: tuple[IPv6Address, ...]
    """Public addresses in ascending order."""


class Nat64Config(NatConfig):
    """IPv6 clients of IPv4 servers (RFC 6146)."""

    family = "nat64"

    prefix: IPv6Network
    """RFC 6052 prefix of the servers."""
    inside6: tuple[IPv6Network, ...] = ()
    """Networks of the clients."""
    pool4: tuple[IPv4Address, ...]
    """Public addresses in ascending order."""
    clients: int = 1
    """Number of client addresses."""


class DsLiteAftrConfig(NatConfig):
    """An AFTR: the end of all B4s' tunnels, and a NAT44 (RFC 6333)."""

    family = "ds-lite-aftr"

    aftr: IPv6Address
    """Tunnel address of the AFTR."""
    first_b4: IPv6Address
    """Lowest tunnel address of the B4s."""
    b4_count: int
    """Number of B4s, whose addresses are consecutive."""
    inside4: tuple[IPv4Network, ...]
    """Networks of the customers."""
    pool4: tuple[IPv4Address, ...]
    """Public addresses in ascending order."""


class AftrTunnelConfig(DeviceConfig):
    """The end of all B4s' tunnels, without the AFTR's NAT."""

    family = "aftr-tunnel"

    aftr: IPv6Address
    """Tunnel address of the AFTR."""
    first_b4: IPv6Address
    """Lowest tunnel address of the B4s."""
    b4_count: int
    """Number of B4s, whose addresses are consecutive."""
    customer: IPv4Address
    """Address of the customers, the same behind each B4."""
    internal: IPv4Address
    """Address that represents the first B4 towards the NAT; the others follow."""


class B4Config(DeviceConfig):
    """A B4 without NAT: one end of a tunnel (RFC 6333)."""

    family = "b4"

    aftr: IPv6Address
    """Tunnel address of the AFTR."""
    b4: IPv6Address
    """Tunnel address of the B4."""
    ipv6_side: Side = "left"
    """Side of the tunnel."""


class NptConfig(DeviceConfig):
    """Prefix translation of a site (RFC 6296); both prefixes are equally long."""

    family = "npt"

    internal: IPv6Network
    """Prefix of the site."""
    external: IPv6Network
    """Prefix of its provider."""


class SiitConfig(DeviceConfig):
    """A stateless translator (RFC 7915)."""

    family = "siit"

    eam: tuple[tuple[IPv4Network, IPv6Network], ...] = ()
    """Explicit address mappings (RFC 7757)."""
    prefix: IPv6Network | None = None
    """RFC 6052 prefix of all other addresses."""
    ipv6_side: Side = "left"
    """Side of the IPv6 hosts."""
    lowest_ipv6_mtu: int = 1280
    """Length of the longest IPv6 packet made of IPv4 without DF [octets]."""


class ClatConfig(SiitConfig):
    """A stateless translator at the customer (RFC 6877): one mapping, and the PLAT's prefix."""

    family = "clat"


class MapRuleConfig(StrictModel):
    """A mapping rule (RFC 7597, section 5)."""

    ipv6_prefix: IPv6Network
    ipv4_prefix: IPv4Network
    ea_len: int
    psid_offset: int
    psid_len: int
    psid: int | None = None
    """PSID of the one CE of a shared address without EA bits (RFC 7597, section 5.2)."""
    iid_format: Literal["rfc7597", "draft"] = "rfc7597"
    """Interface identifier of RFC 7597, section 6, or of the drafts before it."""


class MapERelayConfig(DeviceConfig):
    """A border relay of MAP-E (RFC 7597)."""

    family = "map-e-relay"

    rules: tuple[MapRuleConfig, ...]
    br_address: IPv6Address
    """Tunnel address of the relay."""


class MapTRelayConfig(DeviceConfig):
    """A border relay of MAP-T (RFC 7599)."""

    family = "map-t-relay"

    rules: tuple[MapRuleConfig, ...]
    dmr: IPv6Network
    """Default mapping rule: RFC 6052 prefix of everyone else."""
    lowest_ipv6_mtu: int = 1280
    """Length of the longest IPv6 packet made of IPv4 without DF [octets]."""


class CustomerConfig(DeviceConfig):
    """Address and port set of a customer's device without its NAPT."""

    ipv4: IPv4Network
    """Address or prefix of the customer."""
    psid: int
    psid_len: int
    psid_offset: int
    ipv6_side: Side = "left"
    """Side of the relay."""


class LwB4Config(CustomerConfig):
    """A customer's end of one tunnel (RFC 7596)."""

    family = "lwb4"

    tunnel_local: IPv6Address
    """Tunnel address of the device."""
    tunnel_remote: IPv6Address
    """Tunnel address of the relay."""


class MapECeConfig(LwB4Config):
    """A CE of MAP-E (RFC 7597), with the rule that its tunnel address and port set follow from."""

    family = "map-e-ce"

    rule: MapRuleConfig
    end_user_prefix: IPv6Network


class MapTCeConfig(CustomerConfig):
    """A CE of MAP-T (RFC 7599)."""

    family = "map-t-ce"

    rule: MapRuleConfig
    end_user_prefix: IPv6Network
    dmr: IPv6Network
    """Default mapping rule: RFC 6052 prefix of everyone else."""
    lowest_ipv6_mtu: int = 1280
    """Length of the longest IPv6 packet made of IPv4 without DF [octets]."""


class GeneratedTable(StrictModel):
    """Binding table whose rows follow one another."""

    softwires: int
    """Number of rows."""
    ipv4_pool: IPv4Network
    b4_prefix: IPv6Network
    psid_len: int
    psid_offset: int


class TableFile(StrictModel):
    """Binding table in a file, see :mod:`v6t.intent.binding_table`."""

    file: str


class LwAftrConfig(DeviceConfig):
    """A lwAFTR (RFC 7596)."""

    family = "lwaftr"

    table: TableFile | GeneratedTable
    br_address: IPv6Address
    """Tunnel address of the lwAFTR, where a row has no other."""


class Dns64Config(DeviceConfig):
    """A DNS64 server between clients and an authoritative server (RFC 6147)."""

    family = "dns64"

    prefix: IPv6Network
    """RFC 6052 prefix of synthesized AAAA records."""
    resolver: IPv6Address
    """Address at which clients ask."""
    clients: IPv6Network
    """Network of the clients."""
    zone: str
    """Name of the zone of all questions."""
    server: IPv4Address | IPv6Address
    """Authoritative server of the zone."""


class ChainConfig(DeviceConfig):
    """Several devices or stages in a row; their parts carry the configurations."""

    family = "chain"
