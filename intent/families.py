"""What a device must be told beside its links, by family of technology; read by plugins and drivers.

A plugin writes one of these models; a driver asks :func:`settings_of` for whichever it is, or reads
the one it needs with :meth:`IntentSettings.of`. In an intent they stand as plain JSON-like values,
whose names are those of the attributes, beside the name of the ``family``; a technology of somebody
else may use one of these or settings of its own.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from v6t.base.errors import UsageError
from v6t.intent.device import DutIntent

_Own = TypeVar("_Own", bound="IntentSettings")


class IntentSettings(BaseModel):
    """What every technology may say."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    family: ClassVar[str] = ""
    """What an intent calls settings of this kind; empty: nothing beside what all may say."""

    mtu: int = 1500
    """Octets of IP packet on the link that decides."""
    sessions: int = 0
    """Connections the device must hold; 0: nobody says."""
    reconfigures: bool = False
    """Something of it is added, changed and removed under traffic."""
    updates: bool = False
    """A route that no test packet takes is changed again and again under traffic."""
    speaker: bool = False
    """By the updates of a BGP speaker."""
    agent: bool = False
    """It answers queries by SNMP."""
    filters: int = 0
    """So many conditions filter each direction; the one in the middle lets the test traffic pass."""

    @classmethod
    def of(cls: type[_Own], intent: DutIntent) -> _Own:
        """An intent's settings.

        Raises:
            UsageError: they are not what this family needs.
        """
        try:
            return cls.model_validate(intent.settings)
        except ValidationError as exc:
            problem = exc.errors(include_url=False)[0]
            name = ".".join(map(str, problem["loc"]))
            raise UsageError(
                f"the intent of {intent.technology} has no usable {name}: {problem['msg']}",
                "the technology's plugin makes it; see docs/tutorials/plugin.md",
                code="invalid-intent",
            ) from exc

    def listed(self) -> dict[str, Any]:
        """As an intent holds them: what was given, in JSON-like values."""
        return {"family": self.family, **self.model_dump(mode="json", exclude_unset=True)}


class Nat(IntentSettings):
    """Clients behind public addresses: NAT44, NAT66."""

    family = "nat"

    inside4: tuple[IPv4Network, ...] = ()
    """Networks of the clients."""
    inside6: tuple[IPv6Network, ...] = ()
    pool4: tuple[IPv4Address, ...] = ()
    """Public addresses, in order."""
    pool6: tuple[IPv6Address, ...] = ()
    ports: tuple[int, int] = (1024, 65535)
    """Lowest and highest public port."""
    port_block: int = 0
    """Public ports of each client, a block of its own; 0: all clients share all."""
    udp_timeout_s: int = 0
    """Idle UDP mappings end after so long; 0: not before the test does."""
    session_limit: int = 0
    """Sessions the device has room for, in all; 0: at least those of the test."""


class Npt(IntentSettings):
    """A site's prefix and its provider's, of the same length (RFC 6296)."""

    family = "npt"

    internal: IPv6Network
    external: IPv6Network


class Nat64(Nat):
    """Clients of IPv4 servers behind a prefix."""

    family = "nat64"

    prefix: IPv6Network
    """RFC 6052 prefix of the servers."""
    clients: int = 1


class DsLite(Nat):
    """An AFTR: tunnels' end and NAT44."""

    family = "ds-lite"

    aftr: IPv6Address
    b4: tuple[IPv6Address, int]
    """First address of the B4s, and how many."""


class Softwire(IntentSettings):
    """A B4: its end of a single tunnel, without NAT."""

    family = "softwire"

    aftr: IPv6Address
    b4: IPv6Address
    ipv6_side: Literal["left", "right"] = "left"


class Softwires(IntentSettings):
    """An AFTR's tunnels' end without its NAT."""

    family = "softwires"

    aftr: IPv6Address
    b4: tuple[IPv6Address, int]
    customer: IPv4Address
    """Of the customers, the same behind each B4."""
    internal: IPv4Address
    """Stands for the first B4 towards the NAT."""


class AddressTable(IntentSettings):
    """A stateless translator: SIIT, CLAT."""

    family = "address-table"

    eam: tuple[tuple[IPv4Network, IPv6Network], ...] = ()
    """Explicit address mappings."""
    prefix: IPv6Network | None = None
    """RFC 6052 prefix of all other addresses."""
    ipv6_side: Literal["left", "right"] = "left"
    lowest_ipv6_mtu: int = 1280


class Rule(BaseModel):
    """A mapping rule of MAP."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    ipv6_prefix: IPv6Network
    ipv4_prefix: IPv4Network
    ea_len: int
    psid_offset: int
    psid_len: int
    psid: int | None = None
    """Of the one CE of a shared address without EA bits (RFC 7597, section 5.2)."""
    iid_format: Literal["rfc7597", "draft"] = "rfc7597"
    """Interface identifier of RFC 7597, section 6, or of the drafts before it."""


class Dns64(IntentSettings):
    """A DNS64 server between clients and an authoritative server."""

    family = "dns64"

    prefix: IPv6Network
    """RFC 6052 prefix of the AAAA records it makes."""
    resolver: IPv6Address
    """Its address, where clients ask."""
    clients: IPv6Network
    """Who asks."""
    zone: str
    """Name of the zone that is asked for."""
    server: IPv4Address | IPv6Address
    """Its authoritative server."""


class MapRelay(IntentSettings):
    """A border relay; of MAP-E with its own address, of MAP-T with a default mapping rule."""

    family = "map-relay"

    rules: tuple[Rule, ...]
    br_address: IPv6Address | None = None
    dmr: IPv6Network | None = None
    lowest_ipv6_mtu: int = 1280

    @property
    def translates(self) -> bool:
        """Whether it is MAP-T's."""
        return self.dmr is not None


class GeneratedTable(BaseModel):
    """How the rows of a binding table are made."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    softwires: int
    ipv4_pool: IPv4Network
    b4_prefix: IPv6Network
    psid_len: int
    psid_offset: int


class TableFile(BaseModel):
    """Which file holds the rows."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    file: str


class BindingTable(IntentSettings):
    """A lwAFTR."""

    family = "binding-table"

    table: TableFile | GeneratedTable
    br_address: IPv6Address
    hairpinning: bool = False


class CustomerEdge(IntentSettings):
    """A customer's device: its address, its ports, the way to the relay."""

    family = "customer-edge"

    ipv4: IPv4Network
    psid: int
    psid_len: int
    psid_offset: int
    napt: bool = False
    rule: Rule | None = None
    end_user_prefix: IPv6Network | None = None
    dmr: IPv6Network | None = None
    lowest_ipv6_mtu: int = 1280
    tunnel_local: IPv6Address | None = None
    tunnel_remote: IPv6Address | None = None
    ipv6_side: Literal["left", "right"] = "left"


_FAMILIES: dict[str, type[IntentSettings]] = {
    kind.family: kind
    for kind in (
        Nat, Npt, Nat64, Dns64, DsLite, Softwire, Softwires, AddressTable, MapRelay, BindingTable,
        CustomerEdge,
    )
}  # fmt: skip


def settings_of(intent: DutIntent) -> IntentSettings:
    """An intent's settings as the family that it names; of none: what all may say.

    Raises:
        UsageError: they are not what the family needs.
    """
    return _FAMILIES.get(intent.settings.get("family", ""), IntentSettings).of(intent)
