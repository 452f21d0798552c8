"""Which connections a stateful device sees: ranges, enumeration, public addresses (GEN-13)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    summarize_address_range,
)
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator
from v6t.base.errors import InvalidValue, UsageError
from v6t.intent.device import LinkIntent, Links
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.direction import Direction
from v6t.packets.headers import read_hops, to_numbers
from v6t.packets.reference import (
    EXHAUSTED,
    FORWARDED,
    NOT_FORWARDED,
    NOT_OURS,
    DropReason,
    Expected,
    list_drop_reasons,
)
from v6t.packets.walker import FrameLayout, locate_endpoints
from v6t.plugins import four_tuples
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
from v6t.plugins.base import PluginParams, Technology
from v6t.plugins.four_tuples import TupleField, consecutive, last_address
from v6t.plugins.params import Mixture, address, device, tester
from v6t.plugins.reference_device import (
    ETHERTYPE,
    LinkHeaders,
    ReferenceDevice,
    is_forwardable,
    link_headers,
    route_all,
)
from v6t.plugins.traffic import background_of, ethernet, ipv4, ipv6, mixed
from v6t.plugins.tunnels import UNMARKABLE
from v6t.profiles.model import FramePair, Layer, Role, Traffic, TrafficClass

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, Mask


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

    def port_fields(self) -> list[four_tuples.TupleField]:
        """Destination port, source port: the slower first."""
        if not self.enumerate_ports:
            return []
        return [
            four_tuples.TupleField(
                "responder_ports", f"{self.transport}.dport", 15, self.responder_ports.min,
                self.responder_ports.count,
            ),
            four_tuples.TupleField(
                "initiator_ports", f"{self.transport}.sport", 15, self.initiator_ports.min,
                self.initiator_ports.count,
            ),
        ]  # fmt: skip

    def varied(self, addresses: list[four_tuples.TupleField], seed: int) -> four_tuples.Varied:
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


class Pool6Params(ConnectionParams):
    """Public IPv6 addresses on the right, and the Responder there."""

    ranges: ClassVar[Mapping[str, str]] = {
        "pool_first": "pool_count",
        "responder_ipv6": "responder_count",
    }

    pool_first: IPv6Address = address("2001:2:0:2::1", "first public address of the device")
    pool_count: int = Field(1, ge=1, le=65536, description="public addresses of the device")
    pool_ports: Ports = Field(
        Ports(min=LOWEST_PORT, max=65535), description="public ports of each address"
    )
    responder_ipv6: IPv6Address = address("2001:2:0:1::2", "first address of the Responder")
    dut_right_ipv6: IPv6Interface = device("2001:2:0:f001::1/64", "right")
    tester_right_ipv6: IPv6Address = tester("2001:2:0:f001::2", "right")

    @model_validator(mode="after")
    def _pool(self) -> Pool6Params:
        if self.n != self.m:
            raise UsageError(
                "background cannot be distinguished from the foreground if the right side is IPv6",
                "set n = m",
                code="no-background",
            )
        self.check_room("pool_first", "responder_ipv6", "pool_count")
        return self

    @property
    def public(self) -> PublicPool:
        return PublicPool(self.pool_first, self.pool_count, self.pool_ports)

    @property
    def pool(self) -> tuple[IPv6Address, ...]:
        """All public addresses."""
        return tuple(self.pool_first + i for i in range(self.pool_count))

    @property
    def responder(self) -> IPv6Address:
        return self.responder_ipv6

    def right_side(self, links: Links) -> LinkIntent:
        """The right link of an intent: addresses, neighbours, the way to the Responder."""
        servers = span(self.responder_ipv6, self.responder_count, "responder_ipv6")
        testers = [self.tester_right_ipv6]
        return LinkIntent.describe(
            links.right, [self.dut_right_ipv6], testers, dict.fromkeys([servers], testers[0])
        )


def span(first: IPv6Address, count: int, name: str) -> IPv6Network:
    """The smallest network that holds so many addresses from the first on.

    Raises:
        UsageError: they differ in more than their last 32 bits.
    """
    bits = (int(first) ^ int(last_address(name, first, count))).bit_length()
    return IPv6Network((int(first) >> bits << bits, 128 - bits))


class StatefulDrop(DropReason):
    """Why a stateful technology drops a frame."""

    NO_CONNECTION = "belongs to no connection"
    OUTSIDE_POOL = "outside the public addresses and ports"
    UNMARKED = UNMARKABLE


_HEADER = {4: ("IP", ipv4), 6: ("IPv6", ipv6)}
"""scapy's name of a header, and what makes it."""


class StatefulTechnology(Technology):
    """A device that makes a state for every connection."""

    stateful = True
    sides = ("Initiator", "Responder")
    drop_reasons: ClassVar[tuple[str, ...]] = list_drop_reasons(StatefulDrop)
    mapping: ClassVar[str] = ""
    """What the technology's RFC asks of address and port mapping, for the report (ST-15)."""
    usual_timeout_s: ClassVar[float] = 300.0
    """UDP connections live so long unless the device is told otherwise: RFC 4787 section 4.3
    recommends 5 minutes (the same as RFC 6146 section 4)."""
    params: ConnectionParams

    @property
    def combinations(self) -> int:
        """Connections there are four-tuples for."""
        return self.params.combinations

    @property
    def endpoints(self) -> int:
        """Number of pairs of address and port of the Initiator.

        With endpoint-independent mapping, all connections together need as many BIB entries.
        """
        return self.params.endpoints

    @property
    def most_sessions(self) -> int | None:
        """The parameter of the device's table."""
        return self.params.most_sessions

    def check_limits(self) -> None:
        """The clients' limits are parameters."""
        self.params.check_limits()

    @property
    def ends(self) -> tuple[IPv6Address, IPv6Address] | None:
        """Background addresses left and right; None: there is no background (MIX-03)."""
        return None

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """The Initiator's connections or the Responder's template, and background."""
        self.check_traffic(direction, sizes)
        foreground = (
            self.initiator(sizes, seed) if direction == "forward" else self.responder(sizes)
        )
        behind = []
        if self.ends is not None:
            behind = background_of(
                self.params, self.links, direction, sizes, self.ends, self.links.left
            )
        return mixed(self.params, direction, [(foreground, 1)], behind, [], 0, seed)

    def address_fields(self) -> list[TupleField]:
        """Destination and source of the Initiator's frames; each takes all its addresses."""
        p, name = self.params, _HEADER[self.ip_versions[0]][0]
        return [
            consecutive("responders", f"{name}.dst", p.server, p.responder_count),
            consecutive("initiators", f"{name}.src", p.initiator, p.initiator_count),
        ]

    def client_layers(self) -> tuple[Layer, ...]:
        """Headers of the Initiator's frames between Ethernet and transport."""
        p = self.params
        return (_HEADER[self.ip_versions[0]][1](p, p.initiator, p.server),)

    def server_layers(self) -> tuple[Layer, ...]:
        """Headers of the Responder's frames between Ethernet and transport."""
        p = self.params
        return (_HEADER[self.ip_versions[1]][1](p, p.responder, p.public.first),)

    def client_transport(self) -> Layer:
        """The header with the Initiator's and the Responder's port; of ICMP, the query."""
        p = self.params
        return Layer(p.transport, {"sport": p.initiator_ports.min, "dport": p.responder_ports.min})

    def server_transport(self) -> Layer:
        """The same of the Responder's frames; of ICMP, the answer."""
        p = self.params
        return Layer(p.transport, {"sport": p.responder_ports.min, "dport": p.public.ports.min})

    def check_traffic(self, direction: Direction, sizes: FramePair) -> None:
        """Refuse frames that a correct device would not forward whole."""

    def initiator(self, sizes: FramePair, seed: int) -> TrafficClass:
        """Class ``fg`` of the forward direction: every connection once per cycle."""
        p = self.params
        variables, bindings = p.varied(self.address_fields(), seed)
        return TrafficClass(
            "fg",
            Role.FOREGROUND,
            (
                *ethernet(self.links, "forward"),
                *self.client_layers(),
                self.client_transport(),
            ),
            self.side_sizes(sizes)[0],
            tuple(variables),
            tuple(bindings),
        )

    def responder(self, sizes: FramePair) -> TrafficClass:
        """Class ``fg`` of the reverse direction: a template without variables."""
        layers = (
            *ethernet(self.links, "reverse"),
            *self.server_layers(),
            self.server_transport(),
        )
        return TrafficClass("fg", Role.FOREGROUND, layers, self.side_sizes(sizes)[1])

    @abstractmethod
    def translate(self, direction: Direction, packets: U8, initial: U8, learned: U8) -> Packets:
        """What a correct device makes of packets of known connections.

        Args:
            direction: which way.
            packets: ``(n, length)`` IP packets as sent.
            initial: ``(n, length)`` IP packets with which the Initiator opened the connections.
            learned: ``(n, 12)`` or ``(n, 36)`` rows of the Responder's table.
        """

    def connected(self, direction: Direction, frames: U8, initial: U8, learned: U8) -> Expected:
        """The reference translation of frames that belong to known connections.

        Args:
            direction: which way.
            frames: ``(n, length)`` as sent.
            initial: ``(n, length)`` frames that opened the connections.
            learned: ``(n, octets)`` rows of the Responder's table.
        """
        if not len(frames):
            return Expected(frames, np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.uint8))
        left, right = self._sides
        here, there = (left, right) if direction == "forward" else (right, left)
        translation = self.translate(
            direction, frames[:, here.l3 :], initial[:, left.l3 :], learned
        )
        head = np.frombuffer(there.leaving + ETHERTYPE[translation.version], dtype=np.uint8)
        out = np.empty((len(frames), len(head) + translation.packets.shape[1]), dtype=np.uint8)
        out[:, : len(head)] = head
        out[:, len(head) :] = translation.packets
        reason = translation.reason.copy()
        version = self.ip_versions[0 if direction == "forward" else 1]
        reason[~is_forwardable(frames[:, here.l3 :], version)] = NOT_FORWARDED
        reason[~here.is_destination(frames)] = NOT_OURS
        reason[(reason == FORWARDED) & _exhausted(frames, out)] = EXHAUSTED
        length = np.where(reason == FORWARDED, out.shape[1], 0).astype(np.int32)
        return Expected(out, length, reason)

    def expect(self, direction: Direction, frames: U8) -> Expected:
        """Without a connection only native IPv6 is forwarded."""
        return self._native.expect(direction, frames)

    @cached_property
    def _sides(self) -> tuple[LinkHeaders, LinkHeaders]:
        return link_headers(self.links.left), link_headers(self.links.right)

    @cached_property
    def _native(self) -> ReferenceDevice:
        handlers = {6: route_all(6)}
        return ReferenceDevice(self.links, handlers, handlers)


def _exhausted(before: U8, after: U8) -> Mask:
    """Rows whose TTL or hop limit ends on the way: it became 0, or passed it.

    In a tunnel the inner one counts.
    """
    entered, left = _hops(before), _hops(after)
    ended: Mask = (left == 0) | (left > entered)
    return ended


def _hops(frames: U8) -> U8:
    version, at = locate_endpoints(frames[0]).networks[-1]
    return read_hops(frames, version, at)


@dataclass(frozen=True)
class Packets:
    """Packets that leave a device.

    Attributes:
        packets: ``(n, length)`` uint8.
        version: of IP.
        reason: ``(n,)`` uint8, 0 where it is forwarded.
    """

    packets: U8
    version: int
    reason: U8


Numbered = tuple["U8", "U8"]
"""Addresses ``(n, 4)`` or ``(n, 16)``, and ports ``(n, 2)`` or what stands for them."""


def _locate(packets: U8) -> FrameLayout:
    return locate_endpoints(packets[0], f"IPv{packets[0, 0] >> 4}")


def source_of(packets: U8) -> Numbered:
    """Source address and port of IP packets."""
    layout = _locate(packets)
    return packets[:, layout.address(source=True)], packets[:, layout.port(source=True)]


def learned_source(rows: U8) -> Numbered:
    """Source address and port of rows of a Responder's table."""
    size = (rows.shape[1] - 4) // 2
    return rows[:, :size], rows[:, -4:-2]


def renumbered(packets: U8, *, source: U8 | None = None, destination: U8 | None = None) -> U8:
    """The same packets with other ports, transport checksums valid."""
    layout = _locate(packets)
    for ports, place in ((source, True), (destination, False)):
        if ports is not None:
            packets[:, layout.port(source=place)] = ports
    layout.write_checksum(packets)
    return packets


def rewritten(
    packets: U8,
    *,
    source: Numbered | None = None,
    destination: Numbered | None = None,
    hops: int = 1,
) -> U8:
    """Copies with another source or destination, TTL or hop limit less, checksums valid.

    Args:
        packets: ``(n, length)`` IP packets.
        source: addresses and ports.
        destination: likewise.
        hops: that the packets take.
    """
    out = packets.copy()
    layout = _locate(out)
    for endpoint, place in ((source, True), (destination, False)):
        if endpoint is not None:
            out[:, layout.address(source=place)], out[:, layout.port(source=place)] = endpoint
    header_hops = read_hops(out, layout.version)
    header_hops -= np.uint8(hops)
    if layout.version == 4:
        write_ipv4_checksum(out)
    layout.write_checksum(out)
    return out


def translated_ends(
    direction: Direction, packets: U8, initial: U8, learned: U8, *, hops: int = 1
) -> U8:
    """Packets of known connections with their other source (forward) or destination (reverse).

    Args:
        direction: which way.
        packets: see :func:`rewritten`.
        initial: packets with which the Initiator opened the connections.
        learned: rows of the Responder's table.
        hops: that the packets take.
    """
    if direction == "forward":
        return rewritten(packets, source=learned_source(learned), hops=hops)
    return rewritten(packets, destination=source_of(initial), hops=hops)


def pool_reasons(pool: PublicPool, rows: U8) -> U8:
    """0 for rows of a table whose source is a public address and port, else the reason."""
    address, port = learned_source(rows)
    value = to_numbers(port)
    first = int(pool.first)
    if pool.first.version == 4:
        number, good = to_numbers(address), np.ones(len(rows), dtype=bool)
    else:
        number, good = (
            to_numbers(address[:, 8:]),
            to_numbers(address[:, :8]) == np.uint64(first >> 64),
        )
    low = np.uint64(first & (1 << 64) - 1)
    good &= number - low < np.uint64(pool.count)
    good &= (value >= np.uint64(pool.ports.min)) & (value <= np.uint64(pool.ports.max))
    return np.where(good, 0, StatefulDrop.OUTSIDE_POOL).astype(np.uint8)
