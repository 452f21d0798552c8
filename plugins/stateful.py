"""What NATs share: parameters of connections, their traffic, and frames that belong to a connection.

Forward is from the Initiator (left) to the Responder (right). The forward foreground enumerates
four-tuples, so its first N frames are N connections; the reverse foreground is a template whose
addresses and ports come from the Responder's table (see ``v6t.drivers.oracle.replay``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
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
)
from v6t.packets.walker import FrameLayout, locate_endpoints
from v6t.plugins import audit_views as views
from v6t.plugins.addresses import refuse_unforwarded
from v6t.plugins.base import PluginParams, Technology
from v6t.plugins.four_tuples import (
    FourTuples,
    TupleField,
    combinations,
    consecutive,
    last_address,
    linear_tuples,
    shuffled_tuples,
)
from v6t.plugins.params import Mixture, address, device, tester
from v6t.plugins.reference_device import (
    ETHERTYPE,
    LinkHeaders,
    ReferenceDevice,
    choose_reasons,
    is_forwardable,
    link_headers,
    route_all,
)
from v6t.plugins.traffic import background_of, ethernet, ipv4, ipv6, mixed
from v6t.plugins.tunnels import UNMARKABLE
from v6t.profiles.model import FramePair, Layer, Role, Traffic, TrafficClass

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, Mask


def _read_number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdecimal() else value


Address = IPv4Address | IPv6Address
Enumeration = Annotated[Literal[0, 1, 2, 3], BeforeValidator(_read_number)]
"""Modes of siitperf: 0 not at all, 1 upwards, 2 downwards, 3 in pseudorandom order."""
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
        """Number of ports."""
        return self.max - self.min + 1


ALL_PORTS = Ports(min=LOWEST_PORT, max=65535)


@dataclass(frozen=True)
class PublicPool:
    """Consecutive public addresses, each with the same ports.

    Attributes:
        first, count: of the addresses; those of IPv6 differ in their last 64 bits.
        ports: of each address.
    """

    first: Address
    count: int
    ports: Ports

    @property
    def span(self) -> tuple[int, int]:
        """Lowest and highest port."""
        return self.ports.min, self.ports.max

    def contains(self, rows: U8) -> Mask:
        """Select the rows of a Responder's table whose source is a public address and port."""
        addresses, ports = learned_source(rows)
        value, first = to_numbers(ports), int(self.first)
        good: Mask = (value >= np.uint64(self.ports.min)) & (value <= np.uint64(self.ports.max))
        if self.first.version == 6:
            good &= to_numbers(addresses[:, :8]) == np.uint64(first >> 64)
            addresses = addresses[:, 8:]
        low = np.uint64(first & (1 << 64) - 1)
        return good & (to_numbers(addresses) - low < np.uint64(self.count))


class ConnectionParams(Mixture):
    """Parameters of all stateful technologies."""

    reference: ClassVar[bool] = False
    transport: ClassVar[str] = "UDP"
    """Scapy's name of the header with the ports; without ports, :meth:`port_fields` is overridden."""
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
        several = [self.initiator_count > 1, self.responder_count > 1]
        problem = ""
        if ports and ips and ports != ips:
            problem = f"enumerate_ports = {ports} and enumerate_ips = {ips} are different modes"
            hint = "four-tuples are enumerated in one order: write the same number for both"
        elif ips and not all(several):
            problem = "enumerate_ips needs more than one address on both sides"
            hint = "raise initiator_count and responder_count, or set enumerate_ips to 0"
        elif any(several) and not ips:
            problem = "several addresses without enumerate_ips would repeat four-tuples"
            hint = f"set enumerate_ips to {ports or 3}, or both counts to 1"
        elif not ports and not ips:
            problem = "with enumerate_ports = 0 and enumerate_ips = 0 all frames are one connection"
            hint = "set one of them to 3"
        if problem:
            raise UsageError(problem, hint, code="conflict")
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
        """Number of four-tuples."""
        addresses = self.initiator_count * self.responder_count if self.enumerate_ips else 1
        return combinations(self.port_fields()) * addresses

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
        """Source addresses and ports that the Responder sees."""
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

    def port_fields(self) -> list[TupleField]:
        """Return destination port and source port, the slower one first."""
        if not self.enumerate_ports:
            return []
        return [
            TupleField(name, f"{self.transport}.{field}", 15, ports.min, ports.count)
            for name, field, ports in (
                ("responder_ports", "dport", self.responder_ports),
                ("initiator_ports", "sport", self.initiator_ports),
            )
        ]

    def enumerate_tuples(self, addresses: Sequence[TupleField], seed: int) -> FourTuples:
        """Enumerate what varies in the Initiator's frames.

        Args:
            addresses: fields of destination and source address.
            seed: of the pseudorandom order.

        Raises:
            UsageError: TRex has no such enumeration.
        """
        fields = [*(addresses if self.enumerate_ips else []), *self.port_fields()]
        mode = self.enumerate_ports or self.enumerate_ips
        if mode == 3:
            return shuffled_tuples(fields, seed)
        return linear_tuples(fields, down=mode == 2)


class PoolParams(ConnectionParams):
    """Parameters of a device with public IPv4 addresses."""

    ranges: ClassVar[Mapping[str, str]] = {
        "pool_first": "pool_count",
        "responder_ipv4": "responder_count",
    }

    pool_first: IPv4Address = address("198.19.0.1", "first public address of the device")
    pool_count: int = Field(1, ge=1, le=65536, description="public addresses of the device")
    pool_ports: Ports = Field(ALL_PORTS, description="public ports of each address")
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
    def limits(self) -> dict[str, int]:
        """Configured limits of the device."""
        names = ("port_block", "udp_timeout_s", "session_limit")
        return {name: getattr(self, name) for name in names if getattr(self, name)}

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
        """Public ports and limits in the audit view of a NAT."""
        return {
            "public": self.public.span,
            "block": self.port_block,
            "session_limit": self.session_limit,
            "udp_timeout_s": self.udp_timeout_s,
        }

    def audit_variants(self) -> dict[str, dict[str, Any]]:
        """Return the further configurations of a NAT that an audit has clauses for."""
        shared = {"port_block": 0, "session_limit": 0}
        return {
            views.TWO_PUBLIC_ADDRESSES: {
                "pool_first": "198.19.1.1",
                "pool_count": max(2, self.pool_count),
            },
            views.PORT_BLOCKS: {"port_block": views.FEW_PORTS, "session_limit": 0},
            views.FEW_PUBLIC_PORTS: {
                "pool_ports": {"min": 1024, "max": 1023 + views.FEW_PORTS},
                "initiator_ports": {"min": 1024, "max": 1031},
                "initiator_count": 2,
                "pool_count": 1,
                **shared,
            },
            views.SMALL_TABLE: {**shared, "session_limit": views.SMALL_TABLE_SESSIONS},
            views.SHORT_TIMEOUT: {"udp_timeout_s": views.SHORT_TIMEOUT_S},
        }

    @property
    def responder_networks(self) -> list[IPv4Network]:
        """Networks that hold exactly the Responder's addresses."""
        return networks(self.responder_ipv4, self.responder_count)


class Pool6Params(ConnectionParams):
    """Parameters of a device with public IPv6 addresses: NAT66 and NAT46."""

    ranges: ClassVar[Mapping[str, str]] = {
        "pool_first": "pool_count",
        "responder_ipv6": "responder_count",
    }

    pool_first: IPv6Address = address("2001:2:0:2::1", "first public address of the device")
    pool_count: int = Field(1, ge=1, le=65536, description="public addresses of the device")
    pool_ports: Ports = Field(ALL_PORTS, description="public ports of each address")
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

    @property
    def responder_networks(self) -> list[IPv6Network]:
        """The network of the Responder's addresses."""
        return [span(self.responder_ipv6, self.responder_count, "responder_ipv6")]


def networks(first: IPv4Address, count: int) -> list[IPv4Network]:
    """Return the networks that hold exactly these addresses."""
    return list(summarize_address_range(first, first + (count - 1)))


def span(first: IPv6Address, count: int, name: str) -> IPv6Network:
    """Return the smallest network that holds consecutive addresses.

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


@dataclass(frozen=True)
class NatPackets:
    """Packets that leave a device.

    Attributes:
        packets: ``(n, length)`` uint8.
        version: of IP.
        drops: reasons in order of precedence, each with its condition.
    """

    packets: U8
    version: int
    drops: Sequence[tuple[int, Mask]] = ()


_HEADER = {4: ("IP", ipv4), 6: ("IPv6", ipv6)}
"""Scapy's name of a header, and the function that builds it."""


class StatefulTechnology(Technology):
    """A device that keeps a state for every connection."""

    stateful = True
    sides = ("Initiator", "Responder")
    drops = StatefulDrop
    mapping: ClassVar[str] = ""
    """Address and port mapping that the technology's RFC requires, for the report."""
    usual_timeout_s: ClassVar[float] = 300.0
    """Lifetime of UDP connections unless configured: RFC 4787, section 4.3 recommends 5 minutes (the
    same as RFC 6146, section 4)."""
    params: ConnectionParams

    @property
    def combinations(self) -> int:
        return self.params.combinations

    @property
    def endpoints(self) -> int:
        """Number of pairs of address and port of the Initiator.

        With endpoint-independent mapping, all connections together need as many BIB entries.
        """
        return self.params.endpoints

    @property
    def most_sessions(self) -> int | None:
        return self.params.most_sessions

    def check_limits(self) -> None:
        self.params.check_limits()

    @property
    def ends(self) -> tuple[IPv6Address, IPv6Address] | None:
        """Background addresses left and right; None: background traffic is impossible."""
        return None

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """Describe the Initiator's connections or the Responder's template, and background."""
        self.check_traffic(direction, sizes)
        p, size = self.params, self.side_sizes(sizes)[0 if direction == "forward" else 1]
        layers = ethernet(self.links, direction)
        if direction == "forward":
            tuples = p.enumerate_tuples(self.address_fields(), seed)
            layers = tuples.vary([*layers, *self.client_layers(), self.client_transport()])
            foreground = TrafficClass(
                "fg", Role.FOREGROUND, layers, size, draw_order=tuples.draw_order
            )
        else:
            layers = (*layers, *self.server_layers(), self.server_transport())
            foreground = TrafficClass("fg", Role.FOREGROUND, layers, size)
        behind = []
        if self.ends is not None:
            behind = background_of(p, self.links, direction, sizes, self.ends, self.links.left)
        return mixed(p, direction, [(foreground, 1)], behind, [], 0, seed)

    def address_fields(self) -> list[TupleField]:
        """Return destination and source of the Initiator's frames; each takes all its addresses."""
        p, name = self.params, _HEADER[self.ip_versions[0]][0]
        return [
            consecutive("responders", f"{name}.dst", p.server, p.responder_count),
            consecutive("initiators", f"{name}.src", p.initiator, p.initiator_count),
        ]

    def client_layers(self) -> tuple[Layer, ...]:
        """Return the headers of the Initiator's frames between Ethernet and transport."""
        p = self.params
        return (_HEADER[self.ip_versions[0]][1](p, p.initiator, p.server),)

    def server_layers(self) -> tuple[Layer, ...]:
        """Return the headers of the Responder's frames between Ethernet and transport."""
        p = self.params
        return (_HEADER[self.ip_versions[1]][1](p, p.responder, p.public.first),)

    def client_transport(self) -> Layer:
        """Return the header with the Initiator's and the Responder's port, or the ICMP query."""
        p = self.params
        return Layer(p.transport, {"sport": p.initiator_ports.min, "dport": p.responder_ports.min})

    def server_transport(self) -> Layer:
        """Return the same of the Responder's frames, or the ICMP answer."""
        p = self.params
        return Layer(p.transport, {"sport": p.responder_ports.min, "dport": p.public.ports.min})

    def check_traffic(self, direction: Direction, sizes: FramePair) -> None:
        """Refuse frames that a correct device would not forward whole."""

    @abstractmethod
    def translate(self, direction: Direction, packets: U8, initial: U8, learned: U8) -> NatPackets:
        """Translate packets of known connections.

        Args:
            direction: of the packets.
            packets: ``(n, length)`` IP packets as sent.
            initial: ``(n, length)`` IP packets with which the Initiator opened the connections.
            learned: ``(n, 12)`` or ``(n, 36)`` rows of the Responder's table.
        """

    def connected(self, direction: Direction, frames: U8, initial: U8, learned: U8) -> Expected:
        """Return the reference translation of frames that belong to known connections.

        Args:
            direction: of the frames.
            frames: ``(n, length)`` as sent.
            initial: ``(n, length)`` frames that opened the connections.
            learned: ``(n, octets)`` rows of the Responder's table.
        """
        if not len(frames):
            return Expected(frames, np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.uint8))
        left, right = self._sides
        here, there = (left, right) if direction == "forward" else (right, left)
        packets = frames[:, here.l3 :]
        leaving = self.translate(direction, packets, initial[:, left.l3 :], learned)
        head = np.frombuffer(there.egress + ETHERTYPE[leaving.version], dtype=np.uint8)
        out = np.empty((len(frames), len(head) + leaving.packets.shape[1]), dtype=np.uint8)
        out[:, : len(head)] = head
        out[:, len(head) :] = leaving.packets
        version = self.ip_versions[0 if direction == "forward" else 1]
        reason = choose_reasons(
            len(frames),
            (NOT_OURS, ~here.accepts(frames)),
            (NOT_FORWARDED, ~is_forwardable(packets, version)),
            (StatefulDrop.OUTSIDE_POOL, ~self.params.public.contains(learned)),
            *leaving.drops,
            (EXHAUSTED, _is_exhausted(frames, out)),
        )
        length = np.where(reason == FORWARDED, out.shape[1], 0).astype(np.int32)
        return Expected(out, length, reason)

    def expect(self, direction: Direction, frames: U8) -> Expected:
        """Return the answers without a connection: only native IPv6 is forwarded."""
        return self._native.expect(direction, frames)

    @cached_property
    def _sides(self) -> tuple[LinkHeaders, LinkHeaders]:
        return link_headers(self.links.left), link_headers(self.links.right)

    @cached_property
    def _native(self) -> ReferenceDevice:
        handlers = {6: route_all(6)}
        return ReferenceDevice(self.links, handlers, handlers)


def _is_exhausted(before: U8, after: U8) -> Mask:
    """Select rows whose inner TTL or hop limit became 0 or passed it."""
    entered, left = (
        read_hops(frames, *locate_endpoints(frames[0]).networks[-1]) for frames in (before, after)
    )
    ended: Mask = (left == 0) | (left > entered)
    return ended


Endpoints = tuple["U8", "U8"]
"""Addresses ``(n, 4)`` or ``(n, 16)``, and ports or identifiers ``(n, 2)``."""


def _locate(packets: U8) -> FrameLayout:
    return locate_endpoints(packets[0], f"IPv{packets[0, 0] >> 4}")


def source_of(packets: U8) -> Endpoints:
    """Return source address and port of IP packets."""
    layout = _locate(packets)
    return packets[:, layout.address(source=True)], packets[:, layout.port(source=True)]


def learned_source(rows: U8) -> Endpoints:
    """Return source address and port of rows of a Responder's table."""
    size = (rows.shape[1] - 4) // 2
    return rows[:, :size], rows[:, -4:-2]


def write_ports(packets: U8, *, source: U8 | None = None, destination: U8 | None = None) -> U8:
    """Write ports and valid transport checksums into packets, and return the packets."""
    layout = _locate(packets)
    for ports, is_source in ((source, True), (destination, False)):
        if ports is not None:
            packets[:, layout.port(source=is_source)] = ports
    layout.write_checksum(packets)
    return packets


def rewrite(
    packets: U8,
    *,
    source: Endpoints | None = None,
    destination: Endpoints | None = None,
    hops: int = 1,
) -> U8:
    """Return copies with another source or destination, fewer hops to live and valid checksums.

    Args:
        packets: ``(n, length)`` IP packets.
        source: addresses and ports.
        destination: likewise.
        hops: that the packets take.
    """
    out = packets.copy()
    layout = _locate(out)
    for endpoint, is_source in ((source, True), (destination, False)):
        if endpoint is not None:
            addresses, ports = layout.address(source=is_source), layout.port(source=is_source)
            out[:, addresses], out[:, ports] = endpoint
    remaining = read_hops(out, layout.version)
    remaining -= np.uint8(hops)
    if layout.version == 4:
        write_ipv4_checksum(out)
    layout.write_checksum(out)
    return out


def rewrite_endpoint(
    direction: Direction, packets: U8, initial: U8, learned: U8, *, hops: int = 1
) -> U8:
    """Rewrite the source (forward) or destination (reverse) of packets of known connections.

    Args:
        direction: of the packets.
        packets: see :func:`rewrite`.
        initial: packets with which the Initiator opened the connections.
        learned: rows of the Responder's table.
        hops: that the packets take.
    """
    if direction == "forward":
        return rewrite(packets, source=learned_source(learned), hops=hops)
    return rewrite(packets, destination=source_of(initial), hops=hops)
