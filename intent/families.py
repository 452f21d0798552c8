"""Configurations of devices, one model for each family; written by technologies, read by drivers.

A technology builds one model, and a driver's ``supported_configurations`` are those that it can configure.
A technology or driver of another distribution may derive further models from :class:`DeviceConfig`.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, ClassVar, Literal

from v6t.base.strict_model import StrictModel

Side = Literal["left", "right"]


class DeviceConfig(StrictModel):
    """Configuration of a device beyond its links and routes."""

    family: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Return the values that were given, as JSON values."""
        return self.model_dump(mode="json", exclude_unset=True)


class RouterConfig(DeviceConfig):
    """A router, which needs no configuration beyond its links and routes."""

    family = "router"


class NatConfig(DeviceConfig):
    """Public ports and limits of a stateful NAT of any kind; ``pool4`` and ``pool6`` ascend."""

    ports: tuple[int, int] = (1024, 65535)  #: Lowest and highest public port.
    port_block: int = 0  #: Public ports reserved for each client; 0: all clients share all.
    udp_timeout_s: int = 0  #: Lifetime of idle UDP mappings [s]; 0: longer than the test.
    session_limit: int = 0  #: Sessions that the device has room for; 0: at least those of the test.


class Nat44Config(NatConfig):
    """IPv4 clients behind public IPv4 addresses."""

    family = "nat44"
    inside4: tuple[IPv4Network, ...]
    pool4: tuple[IPv4Address, ...]


class Nat66Config(NatConfig):
    """IPv6 clients behind public IPv6 addresses."""

    family = "nat66"
    inside6: tuple[IPv6Network, ...]
    pool6: tuple[IPv6Address, ...]


class Nat64Config(NatConfig):
    """IPv6 clients of IPv4 servers behind a prefix of RFC 6052 (RFC 6146)."""

    family = "nat64"
    prefix: IPv6Network
    inside6: tuple[IPv6Network, ...] = ()
    pool4: tuple[IPv4Address, ...]
    clients: int = 1


class DsLiteAftrConfig(NatConfig):
    """An AFTR: the end of the tunnels of B4s with consecutive addresses, and a NAT44 (RFC 6333)."""

    family = "ds-lite-aftr"
    aftr: IPv6Address
    first_b4: IPv6Address
    b4_count: int
    inside4: tuple[IPv4Network, ...]
    pool4: tuple[IPv4Address, ...]


class AftrTunnelConfig(DeviceConfig):
    """The end of the tunnels of B4s with consecutive addresses, without the AFTR's NAT."""

    family = "aftr-tunnel"
    aftr: IPv6Address
    first_b4: IPv6Address
    b4_count: int
    customer: IPv4Address  #: Address of the customers, the same behind each B4.
    internal: IPv4Address
    """Address that represents the first B4 towards the NAT; the others follow."""


class B4Config(DeviceConfig):
    """A B4 without NAT: one end of a tunnel (RFC 6333)."""

    family = "b4"
    aftr: IPv6Address
    b4: IPv6Address
    ipv6_side: Side = "left"


class NptConfig(DeviceConfig):
    """Translation of a site's prefix to an equally long one of its provider (RFC 6296)."""

    family = "npt"
    internal: IPv6Network
    external: IPv6Network


class SiitConfig(DeviceConfig):
    """A stateless translator (RFC 7915): mappings of RFC 7757, and a prefix of RFC 6052 for the rest.

    ``lowest_ipv6_mtu`` is the length of the longest IPv6 packet made of IPv4 without DF [octets].
    """

    family = "siit"
    eam: tuple[tuple[IPv4Network, IPv6Network], ...] = ()
    prefix: IPv6Network | None = None
    ipv6_side: Side = "left"
    lowest_ipv6_mtu: int = 1280


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


class MapTRelayConfig(DeviceConfig):
    """A border relay of MAP-T (RFC 7599); ``dmr`` is the default mapping rule."""

    family = "map-t-relay"
    rules: tuple[MapRuleConfig, ...]
    dmr: IPv6Network
    lowest_ipv6_mtu: int = 1280


class CustomerConfig(DeviceConfig):
    """Address and port set of a customer's device without its NAPT; ``ipv6_side`` is the relay's."""

    ipv4: IPv4Network
    psid: int
    psid_len: int
    psid_offset: int
    ipv6_side: Side = "left"


class LwB4Config(CustomerConfig):
    """A customer's end of one tunnel (RFC 7596)."""

    family = "lwb4"
    tunnel_local: IPv6Address
    tunnel_remote: IPv6Address


class MapECeConfig(LwB4Config):
    """A CE of MAP-E (RFC 7597), with the rule that its tunnel address and port set follow from."""

    family = "map-e-ce"
    rule: MapRuleConfig
    end_user_prefix: IPv6Network


class MapTCeConfig(CustomerConfig):
    """A CE of MAP-T (RFC 7599); ``dmr`` is the default mapping rule."""

    family = "map-t-ce"
    rule: MapRuleConfig
    end_user_prefix: IPv6Network
    dmr: IPv6Network
    lowest_ipv6_mtu: int = 1280


class GeneratedTable(StrictModel):
    """Binding table with a number of consecutive rows."""

    softwires: int
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
    br_address: IPv6Address  #: Tunnel address of the lwAFTR, where a row has no other.


class Dns64Config(DeviceConfig):
    """A DNS64 server (RFC 6147) between clients, which query ``resolver``, and a zone's ``server``."""

    family = "dns64"
    prefix: IPv6Network
    resolver: IPv6Address
    clients: IPv6Network
    zone: str
    server: IPv4Address | IPv6Address


class ChainConfig(DeviceConfig):
    """Several devices or stages in a row; their parts carry the configurations."""

    family = "chain"
