"""Which connections a stateful device sees: ranges, enumeration, public addresses (GEN-13)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, summarize_address_range
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator
from v6t.base.errors import InvalidValue, UsageError
from v6t.plugins.addresses import refuse_unforwarded
from v6t.plugins.audit_views import (
    FEW_PORTS,
    FEW_PUBLIC_PORTS,
    PORT_BLOCKS,
    SHORT_TIMEOUT,
    SHORT_TIMEOUT_S,
    SMALL_TABLE,
    SMALL_TABLE_SESSIONS,
    TWO_PUBLIC_ADDRESSES,
)
from v6t.plugins.base import PluginParams
from v6t.plugins.params import Mixture, address
from v6t.plugins.stateful import four_tuples
from v6t.plugins.stateful.four_tuples import last_address


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdecimal() else value


Address = IPv4Address | IPv6Address
Enumeration = Annotated[Literal[0, 1, 2, 3], BeforeValidator(_number)]
"""siitperf's: 0 not at all, 1 upwards, 2 downwards, 3 in pseudorandom order."""
LOWEST_PORT = 1024


class Ports(PluginParams):
    """A range of ports, both ends included."""

    min: int = Field(ge=1, le=65535)
    max: int = Field(ge=1, le=65535)

    @model_validator(mode="after")
    def _ordered(self) -> Ports:
        if self.min > self.max:
            raise InvalidValue(
                f"the smallest port {self.min} is larger than the largest {self.max}",
                code="empty-range",
            )
        return self

    @property
    def count(self) -> int:
        """Ports in it."""
        return self.max - self.min + 1


@dataclass(frozen=True)
class PublicPool:
    """Consecutive public addresses, each with the same ports.

    Attributes:
        first, count: of the addresses; those of IPv6 differ in their last 64 bits.
        ports: of each.
    """

    first: Address
    count: int
    ports: Ports

    @property
    def span(self) -> tuple[int, int]:
        """Lowest and highest port."""
        return self.ports.min, self.ports.max


class ConnectionParams(Mixture):
    """What all stateful technologies can be told."""

    reference: ClassVar[bool] = False
    transport: ClassVar[str] = "UDP"
    """Scapy's name of the header with the ports; what has none gives :meth:`port_fields` itself."""
    ranges: ClassVar[Mapping[str, str]] = {}
    """Parameters that are the first address of a range, with the parameter that is its length."""

    initiator_ports: Ports = Field(
        Ports(min=LOWEST_PORT, max=41023), description="source ports of the Initiator"
    )
    responder_ports: Ports = Field(
        Ports(min=1, max=100), description="destination ports, those of the Responder"
    )
    initiator_count: int = Field(1, ge=1, le=65536, description="addresses of the Initiator")
    responder_count: int = Field(1, ge=1, le=65536, description="addresses of the Responder")
    enumerate_ports: Enumeration = Field(
        3, description="ports take all values: 0 not at all, 1 up, 2 down, 3 pseudorandom"
    )
    enumerate_ips: Enumeration = Field(
        0, description="addresses take all values: 0 not at all, 1 up, 2 down, 3 pseudorandom"
    )
    low_ports: bool = Field(
        False, description="initiator ports below 1024 are meant: RFC 6146 keeps them below 1024"
    )

    @model_validator(mode="after")
    def _ranges(self) -> ConnectionParams:
        for name, counter in self.ranges.items():
            first, count = getattr(self, name), getattr(self, counter)
            if first is None:
                continue
            last = last_address(name, first, count)
            try:
                for net in summarize_address_range(first, last):
                    refuse_unforwarded(net, partly=True)
            except ValueError as exc:
                raise UsageError(
                    f"{name} with {counter} {count}: {exc}",
                    "choose a lower first address, or fewer addresses",
                    path=(name,),
                    code="out-of-range",
                ) from exc
        return self

    @model_validator(mode="after")
    def _enumerated(self) -> ConnectionParams:
        ports, ips = self.enumerate_ports, self.enumerate_ips
        if ports and ips and ports != ips:
            raise UsageError(
                f"enumerate_ports = {ports} and enumerate_ips = {ips} are different modes",
                "four-tuples are enumerated in one order: write the same number for both",
                code="conflict",
            )
        varied = self.initiator_count > 1 or self.responder_count > 1
        if ips and not (self.initiator_count > 1 and self.responder_count > 1):
            raise UsageError(
                "enumerate_ips needs more than one address on both sides",
                "raise initiator_count and responder_count, or set enumerate_ips to 0",
                code="conflict",
            )
        if varied and not ips:
            raise UsageError(
                "several addresses without enumerate_ips would repeat four-tuples",
                f"set enumerate_ips to {ports or 3}, or both counts to 1",
                code="conflict",
            )
        if not ports and not ips:
            raise UsageError(
                "with enumerate_ports = 0 and enumerate_ips = 0 all frames are one connection",
                "set one of them to 3",
                code="conflict",
            )
        if self.initiator_ports.min < LOWEST_PORT and not self.low_ports:
            raise UsageError(
                f"initiator ports from {self.initiator_ports.min} on: a NAT maps ports below "
                f"{LOWEST_PORT} to ports below {LOWEST_PORT}, of which there are few",
                f"set initiator_ports.min to {LOWEST_PORT} or more, or low_ports to true",
                code="out-of-range",
            )
        return self

    @property
    def combinations(self) -> int:
        """Four-tuples there are (ST-04)."""
        return four_tuples.combinations(self.port_fields()) * self._addresses

    @property
    def endpoints(self) -> int:
        """Pairs of address and port of the Initiator."""
        ports = self.initiator_ports.count if self.enumerate_ports else 1
        return ports * (self.initiator_count if self.enumerate_ips else 1)

    @property
    def initiator(self) -> Address:
        """First address of the Initiator."""
        raise NotImplementedError

    @property
    def responder(self) -> Address:
        """First address of the Responder."""
        raise NotImplementedError

    @property
    def server(self) -> Address:
        """The Responder's first address as the Initiator knows it."""
        return self.responder

    @property
    def public(self) -> PublicPool:
        """What the Responder sees as source."""
        raise NotImplementedError

    def check_room(self, first: str, responder: str, count: str, whose: str = "device") -> None:
        """Refuse public addresses that are the Responder's, or too few for all connections.

        Args:
            first, responder, count: names of the parameters that could be changed.
            whose: the device, or the devices.

        Raises:
            UsageError: they are, or they are too few.
        """
        pool, low = self.public, self.responder
        last = int(low) + self.responder_count - 1
        if int(pool.first) <= last and int(low) <= int(pool.first) + pool.count - 1:
            raise UsageError(
                f"the Responder's addresses are public addresses of the {whose}",
                f"choose another {first} or {responder}",
                code="address-conflict",
            )
        room = pool.count * pool.ports.count
        if self.endpoints > room:
            servers = self.combinations // self.endpoints
            raise UsageError(
                f"{self.combinations} connections do not fit {pool.count} public addresses with "
                f"{pool.ports.count} ports towards {servers} ports of the Responder: the Initiator "
                f"has {self.endpoints} source endpoints, and the pool has {room}",
                f"raise {count}, or shorten initiator_ports or initiator_count",
                code="not-enough-addresses",
            )

    @property
    def most_sessions(self) -> int | None:
        """Sessions that the device is configured to hold; None: no limit is configured."""
        return None

    def check_limits(self) -> None:
        """Refuse a limit of each client that is smaller than what the client opens.

        Raises:
            UsageError: with the value that is large enough.
        """

    @property
    def _addresses(self) -> int:
        return self.initiator_count * self.responder_count if self.enumerate_ips else 1

    def port_fields(self) -> list[four_tuples.Field]:
        """Destination port, source port: the slower first."""
        if not self.enumerate_ports:
            return []
        return [
            four_tuples.Field(
                "responder_ports", f"{self.transport}.dport", 15, self.responder_ports.min,
                self.responder_ports.count,
            ),
            four_tuples.Field(
                "initiator_ports", f"{self.transport}.sport", 15, self.initiator_ports.min,
                self.initiator_ports.count,
            ),
        ]  # fmt: skip

    def varied(self, addresses: list[four_tuples.Field], seed: int) -> four_tuples.Varied:
        """Variables and bindings of the Initiator's frames.

        Args:
            addresses: fields of destination and source address.
            seed: of the pseudorandom order.

        Raises:
            UsageError: TRex has no such enumeration.
        """
        fields = [*(addresses if self.enumerate_ips else []), *self.port_fields()]
        mode = self.enumerate_ports or self.enumerate_ips
        if mode == 3:
            return four_tuples.shuffled_tuples(fields, seed)
        return four_tuples.linear_tuples(fields, down=mode == 2)


class PoolParams(ConnectionParams):
    """A device with public IPv4 addresses."""

    ranges: ClassVar[Mapping[str, str]] = {
        "pool_first": "pool_count",
        "responder_ipv4": "responder_count",
    }

    pool_first: IPv4Address = address("198.19.0.1", "first public address of the device")
    pool_count: int = Field(1, ge=1, le=65536, description="public addresses of the device")
    pool_ports: Ports = Field(
        Ports(min=LOWEST_PORT, max=65535), description="public ports of each address"
    )
    responder_ipv4: IPv4Address = address("198.19.0.2", "first address of the Responder")
    port_block: int = Field(
        0,
        ge=0,
        le=64512,
        description="public ports of each client, a block of its own; 0: all share all",
    )
    udp_timeout_s: int = Field(
        0,
        ge=0,
        le=864_000,
        description="idle UDP mappings end after so many seconds; 0: not before the test does",
    )
    session_limit: int = Field(
        0,
        ge=0,
        le=1 << 30,
        description="sessions the device has room for, in all; 0: at least those of the test",
    )

    @property
    def limits(self) -> dict[str, Any]:
        """What the device is told of them, where it is told."""
        values = {
            name: getattr(self, name) for name in ("port_block", "udp_timeout_s", "session_limit")
        }
        return {name: value for name, value in values.items() if value}

    @property
    def public(self) -> PublicPool:
        return PublicPool(self.pool_first, self.pool_count, self.pool_ports)

    @property
    def responder(self) -> IPv4Address:
        return self.responder_ipv4

    @model_validator(mode="after")
    def _pool(self) -> PoolParams:
        self.check_room("pool_first", "responder_ipv4", "pool_count")
        blocks = self.pool_count * (self.pool_ports.count // max(1, self.port_block))
        if self.port_block and blocks < self.initiator_count:
            raise UsageError(
                f"{blocks} blocks of {self.port_block} public ports for {self.initiator_count} clients",
                "shorten port_block, or raise pool_count",
                code="not-enough-addresses",
            )
        return self

    @property
    def most_sessions(self) -> int | None:
        return self.session_limit or None

    def check_limits(self) -> None:
        """Refuse source ports of a client that do not fit its block."""
        used = self.initiator_ports.count if self.enumerate_ports else 1
        if 0 < self.port_block < used:
            raise UsageError(
                f"{used:,} source ports of a client do not fit its block of {self.port_block:,} "
                "public ports",
                f"shorten initiator_ports to {self.port_block} ports, or set port_block to {used} "
                "or more",
                params={"port_block": used},
                code="not-enough-addresses",
            )

    @property
    def pool(self) -> tuple[IPv4Address, ...]:
        """All public addresses."""
        return tuple(self.pool_first + i for i in range(self.pool_count))

    @property
    def audit_limits(self) -> dict[str, Any]:
        """What the audit view of a NAT has of these parameters."""
        return {
            "public": self.public.span,
            "block": self.port_block,
            "session_limit": self.session_limit,
            "udp_timeout_s": self.udp_timeout_s,
        }

    def audit_variants(self) -> dict[str, dict[str, Any]]:
        """Return the further configurations of a NAT that an audit has clauses for."""
        few = {"min": 1024, "max": 1023 + FEW_PORTS}
        return {
            TWO_PUBLIC_ADDRESSES: {
                "pool_first": "198.19.1.1",
                "pool_count": max(2, self.pool_count),
            },
            PORT_BLOCKS: {"port_block": FEW_PORTS, "session_limit": 0},
            FEW_PUBLIC_PORTS: {
                "pool_ports": few,
                "initiator_ports": {"min": 1024, "max": 1031},
                "initiator_count": 2,
                "pool_count": 1,
                "port_block": 0,
                "session_limit": 0,
            },
            SMALL_TABLE: {"session_limit": SMALL_TABLE_SESSIONS, "port_block": 0},
            SHORT_TIMEOUT: {"udp_timeout_s": SHORT_TIMEOUT_S},
        }

    def responder_networks(self) -> list[IPv4Network]:
        """Networks that hold exactly the Responder's addresses."""
        return networks(self.responder_ipv4, self.responder_count)


def networks(first: IPv4Address, count: int) -> list[IPv4Network]:
    """Networks that hold exactly these addresses."""
    return list(summarize_address_range(first, first + (count - 1)))
