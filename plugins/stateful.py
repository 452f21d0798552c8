"""Common part of NATs: parameters and traffic of connections, and the translation of their frames.

The forward foreground enumerates four-tuples, so its first N frames are N connections; addresses and ports
of the reverse template come from the Responder's table (``v6t.drivers.oracle.replay``).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, IPv6Interface, IPv6Network, summarize_address_range
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator
from v6t.base.errors import UsageError
from v6t.base.quantities import convert_quantity
from v6t.intent.device import Address
from v6t.intent.families import DeviceConfig
from v6t.packets import reference
from v6t.packets.arrays import U8, Mask
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.direction import Direction
from v6t.packets.headers import IPV4, IPV6, read_hops, to_numbers, view
from v6t.packets.reference import DropReason, Expected
from v6t.packets.walker import FrameLayout, locate_endpoints
from v6t.plugins import audit_views as views
from v6t.plugins import four_tuples, reference_device
from v6t.plugins.base import DeviceIntent, Technology
from v6t.plugins.four_tuples import FourTuples, TupleField
from v6t.plugins.params import Mixture, address, describe_link, device_address, tester_address
from v6t.plugins.ports import Ports
from v6t.plugins.prefixes import refuse_unforwardable
from v6t.plugins.traffic import combine, make_ethernet, make_ipv4, make_ipv6
from v6t.plugins.translation import MappingsArray, Rfc6052Array, build_ipv4, build_ipv6
from v6t.plugins.tunnels import ECN_DROP
from v6t.profiles.model import FramePair, Layer, Role, Traffic, TrafficClass


def _parse_number(value: Any) -> Any:
    text = convert_quantity("", str(value))
    return int(text) if text.isdecimal() else value


Enumeration = Annotated[Literal[0, 1, 2, 3], BeforeValidator(_parse_number)]
LOWEST_PORT = 1024  # of clients and of NATs; lower ports are well-known
MAX_SUBSCRIBERS, MAX_CONNECTIONS_EACH = 60_000, 64_512
EXAMPLE_SUBSCRIBERS = {"subscribers": 1000, "connections_per_subscriber": 200}  # for hints
SERVER_PORT = 443  # of the server that all subscribers connect to

# Share of a pool's ports above which Linux, which tries 128 random ports, fails to open some connections.
MAX_POOL_USE = 0.9
PUBLIC_PORTS = Ports(min=LOWEST_PORT, max=65535)


@dataclass(frozen=True)
class PublicPool:
    """Consecutive public addresses, each with the same ports; those of IPv6 differ in their last 64 bits."""

    first: Address
    count: int
    ports: Ports

    @property
    def port_bounds(self) -> tuple[int, int]:
        return self.ports.min, self.ports.max

    def select_sources(self, rows: U8) -> Mask:
        """Select the rows of a Responder's table whose source is an address and port of the pool."""
        addresses, ports = read_learned_source(rows)
        value, first = to_numbers(ports), int(self.first)
        mask: Mask = (value >= np.uint64(self.ports.min)) & (value <= np.uint64(self.ports.max))
        if self.first.version == 6:
            mask &= to_numbers(addresses[:, :8]) == np.uint64(first >> 64)
            addresses = addresses[:, 8:]
        low = np.uint64(first & (1 << 64) - 1)
        return mask & (to_numbers(addresses) - low < np.uint64(self.count))


def declare_enumeration(default: int, values: str) -> Any:
    """Declare whether, and in which order, connections take all ports or addresses."""
    modes = "0 none, 1 ascending, 2 descending, 3 pseudorandom"  # as siitperf numbers them
    return Field(default, description=f"{values} take all values: {modes}")


def enclose_hosts(first: Address, count: int, step: int = 1) -> list[Any]:
    """Return networks of ``count`` hosts: exact ones for IPv4, the smallest common one for IPv6."""
    if isinstance(first, IPv4Address):
        return list(summarize_address_range(first, first + (count - 1)))
    bits = (int(first) ^ int(first) + (count - 1) * step).bit_length()
    return [IPv6Network((int(first) >> bits << bits, 128 - bits))]


class ConnectionParams(Mixture):
    """Parameters of all stateful technologies."""

    allows_background_only: ClassVar[bool] = False
    transport: ClassVar[str] = "UDP"  # scapy's name of the header with the ports

    initiator_ports: Ports = Field(Ports(min=1024, max=41023), description="the Initiator's ports")
    responder_ports: Ports = Field(Ports(min=1, max=100), description="ports of the Responder")
    initiator_count: int = Field(1, ge=1, le=65536, description="addresses of the Initiator")
    responder_count: int = Field(1, ge=1, le=65536, description="addresses of the Responder")
    enumerate_ports: Enumeration = declare_enumeration(3, "ports")
    enumerate_ips: Enumeration = declare_enumeration(0, "addresses")
    low_ports: bool = Field(False, description="allow initiator ports below 1024 (RFC 6146)")
    subscribers: int = Field(
        0, ge=0, le=MAX_SUBSCRIBERS, description="clients of one server; 0: see initiator_count"
    )
    connections_per_subscriber: int = Field(
        0, ge=0, le=MAX_CONNECTIONS_EACH, description="each subscriber's connections, one per port"
    )

    @model_validator(mode="before")
    @classmethod
    def _derive_from_subscribers(cls, values: dict[str, Any]) -> dict[str, Any]:
        derived = cls.derive_params(values)
        plain = {n: _parse_number(v) for n, v in values.items()}
        given = {n: v.model_dump() if isinstance(v, Ports) else v for n, v in plain.items()}
        if twice := sorted(n for n in derived if given.get(n, derived[n]) != derived[n]):
            problem = f"{twice[0]} follows from subscribers and connections_per_subscriber"
            raise UsageError(problem, f"omit {twice[0]}", path=(twice[0],), code="conflict")
        if not derived:
            return values
        clients = derived["initiator_count"]
        ports = derived["initiator_ports"]["max"] + 1 - LOWEST_PORT
        return {**derived, **cls.size_pool(clients, ports, values), **values}

    @classmethod
    def derive_params(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        names = ("subscribers", "connections_per_subscriber")
        given = [_parse_number(values.get(name, 0)) for name in names]
        limits = (MAX_SUBSCRIBERS, MAX_CONNECTIONS_EACH)
        if not any(given) or not all(
            isinstance(n, int) and n <= limit for n, limit in zip(given, limits, strict=True)
        ):
            return {}  # the checks of the fields reject wrong values
        if not all(given):
            missing = names[given.index(0)]
            hint = "subscribers and connections_per_subscriber belong together"
            params, problem = {missing: EXAMPLE_SUBSCRIBERS[missing]}, f"{missing} is missing"
            raise UsageError(problem, hint, params=params, path=(missing,), code="missing-setting")
        clients, each = given
        return {
            "initiator_count": clients,
            "responder_count": 1,
            "initiator_ports": {"min": LOWEST_PORT, "max": LOWEST_PORT - 1 + each},
            "responder_ports": {"min": SERVER_PORT, "max": SERVER_PORT},
            "enumerate_ports": 3,
            "enumerate_ips": 3 if clients > 1 else 0,
        }

    @classmethod
    def size_pool(cls, clients: int, ports: int, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters of a large enough public pool, unless ``values`` has them."""
        return {}

    @property
    def subscriber_connections(self) -> int:
        return self.subscribers * self.connections_per_subscriber

    @property
    def range_counters(self) -> dict[str, str]:
        """Names of the parameters with the first address of each range and with its size."""
        kinds, names = ("first", "ipv4", "ipv6"), type(self).model_fields
        counters = {f"{who}_count": who for who in ("initiator", "responder", "pool", "public")}
        pairs = ((f"{who}_{kind}", n) for n, who in counters.items() for kind in kinds)
        return {first: counter for first, counter in pairs if first in names}

    @model_validator(mode="after")
    def _check_ranges(self) -> ConnectionParams:
        for name, counter in self.range_counters.items():
            first, count = getattr(self, name), getattr(self, counter)
            if first is None:
                continue
            last = four_tuples.find_last_address(name, first, count)
            try:
                for net in summarize_address_range(first, last):
                    refuse_unforwardable(net, refuse_overlaps=True)
            except ValueError as exc:
                problem, hint = f"{name} with {counter} {count}: {exc}", "choose another, or fewer"
                raise UsageError(problem, hint, path=(name,), code="out-of-range") from exc
        return self

    @model_validator(mode="after")
    def _check_enumeration(self) -> ConnectionParams:
        ports, ips = self.enumerate_ports, self.enumerate_ips
        several = [self.initiator_count > 1, self.responder_count > 1]
        problem, params = "", dict[str, object]()
        if ports and ips and ports != ips:
            problem = f"enumerate_ports = {ports} and enumerate_ips = {ips} are different modes"
            hint = "four-tuples are enumerated in one order: write the same number for both"
            params = {"enumerate_ips": ports}
        elif ips and not any(several):
            problem = "enumerate_ips needs more than one address on one side"
            hint = "raise initiator_count or responder_count, or set enumerate_ips to 0"
            params = {"enumerate_ips": 0} if ports else {"enumerate_ips": 0, "enumerate_ports": 3}
        elif any(several) and not ips:
            problem = "several addresses without enumerate_ips would repeat four-tuples"
            hint = f"set enumerate_ips to {ports or 3}, or both counts to 1"
            params = {"enumerate_ips": ports or 3}
            if self.responder_count == 1:
                hint = f"give subscribers and connections_per_subscriber, or {hint}"
                params = self._propose_subscribers()
        elif not ports and not ips:
            problem = "with enumerate_ports = 0 and enumerate_ips = 0 all frames are one connection"
            hint, params = "set one of them to 3", {"enumerate_ports": 3}
        if problem:
            raise UsageError(problem, hint, params=params, code="conflict")
        if self.initiator_ports.min < LOWEST_PORT and not self.low_ports:
            problem = f"initiator ports from {self.initiator_ports.min} on include those below 1024"
            hint = f"set initiator_ports.min to {LOWEST_PORT} or more, or low_ports to true"
            raise UsageError(problem, hint, params={"low_ports": True}, code="out-of-range")
        return self

    @property
    def combinations(self) -> int:
        addresses = self.initiator_count * self.responder_count if self.enumerate_ips else 1
        return math.prod(f.count for f in self.list_port_fields()) * addresses

    @property
    def client_ports(self) -> int:
        """Number of source ports of each client."""
        return self.initiator_ports.count if self.enumerate_ports else 1

    @property
    def endpoints(self) -> int:
        """Number of the Initiator's source endpoints, each a BIB entry of an endpoint-independent NAT."""
        return self.client_ports * (self.initiator_count if self.enumerate_ips else 1)

    def _find_first_address(self, counter: str) -> Any:
        return next(getattr(self, n) for n, c in self.range_counters.items() if c == counter)

    @property
    def initiator(self) -> Any:
        """First address of the Initiator, or of the B4s with DS-Lite."""
        return self._find_first_address("initiator_count")

    @property
    def initiator_step(self) -> int:
        return 1

    @property
    def responder(self) -> Any:
        return self._find_first_address("responder_count")

    @property
    def last_responder(self) -> Any:
        return self.responder + (self.responder_count - 1)

    @property
    def server(self) -> Any:
        """First address of the Responder as seen by the Initiator."""
        return self.responder

    @property
    def clients(self) -> list[Any]:
        """Networks of the Initiator's addresses."""
        return enclose_hosts(self.initiator, self.initiator_count, self.initiator_step)

    @property
    def servers(self) -> list[Any]:
        """Networks of the Responder's addresses."""
        return enclose_hosts(self.responder, self.responder_count)

    @property
    def public_pool(self) -> PublicPool:
        raise NotImplementedError

    @property
    def pool(self) -> tuple[Any, ...]:
        """All public addresses."""
        return tuple(self.public_pool.first + i for i in range(self.public_pool.count))

    def check_pool(self, first: str, responder: str, count: str, owner: str = "device") -> None:
        """Refuse a pool that is too small or has a Responder's address; arguments name the parameters."""
        pool, low, high = self.public_pool, int(self.responder), int(self.last_responder)
        if int(pool.first) <= high and low < int(pool.first) + pool.count:
            problem = f"the Responder's addresses are public addresses of the {owner}"
            hint, params = f"change {first} or {responder}", {first: self.last_responder + 1}
            raise UsageError(problem, hint, params=params, code="address-conflict")
        room = pool.count * pool.ports.count
        if self.endpoints > room:
            problem = f"the Initiator has {self.endpoints} source endpoints, the pool has {room}"
            hint = f"raise {count}, or shorten initiator_ports or initiator_count"
            params = {count: -(-self.endpoints // pool.ports.count)}
            if self.initiator_count > 1 and self.responder_count == 1 and not self.subscribers:
                params = self._propose_subscribers()
            raise UsageError(problem, hint, params=params, code="not-enough-addresses")

    def list_port_fields(self) -> list[TupleField]:
        """Return the varying destination and source port of the Initiator's frames, slowest first."""
        fields = (("responder_ports", "dport"), ("initiator_ports", "sport"))
        return [
            TupleField(name, f"{self.transport}.{field}", 15, ports.min, ports.count)
            for name, field in (fields if self.enumerate_ports else ())
            for ports in (getattr(self, name),)
        ]

    def enumerate_tuples(self, addresses: Sequence[TupleField], seed: int) -> FourTuples:
        """Enumerate the four-tuples of all connections, in the configured order."""
        fields = [*(addresses if self.enumerate_ips else []), *self.list_port_fields()]
        if (mode := self.enumerate_ports or self.enumerate_ips) != 3:
            return four_tuples.enumerate_linearly(fields, down=mode == 2)
        try:
            return four_tuples.shuffle_tuples(fields, seed)
        except UsageError as exc:
            self._add_suggestion(exc, fields, seed)
            raise

    def _add_suggestion(self, exc: UsageError, fields: Sequence[TupleField], seed: int) -> None:
        """Add to the error a suggestion of parameters whose four-tuples can be enumerated."""
        clients, each = self.subscribers, self.connections_per_subscriber
        for number in range(each + 1, 2 * each + 1):  # none without subscribers
            more = [replace(f, count=number) if f.count == each else f for f in fields]
            with suppress(UsageError):
                four_tuples.shuffle_tuples(more, seed)
                exc.hint = f"{clients} subscribers with {number} connections each work"
                exc.params["connections_per_subscriber"] = number
                return
        if self.responder_count > 1:
            exc.params["responder_count"] = 1
        elif not clients:
            exc.params |= self._propose_subscribers()

    def _propose_subscribers(self) -> dict[str, object]:
        return {**EXAMPLE_SUBSCRIBERS, "subscribers": self.initiator_count}


class PoolParams(ConnectionParams):
    """Parameters of a device with public addresses."""

    pool_first: Address
    pool_count: int = Field(1, ge=1, le=65536, description="public addresses of the device")
    pool_ports: Ports = Field(PUBLIC_PORTS, description="public ports of each address")

    @model_validator(mode="after")
    def _check_pool(self) -> PoolParams:
        self.check_pool("pool_first", f"responder_ipv{self.responder.version}", "pool_count")
        return self

    @property
    def public_pool(self) -> PublicPool:
        return PublicPool(self.pool_first, self.pool_count, self.pool_ports)

    @property
    def limits(self) -> dict[str, Any]:
        """Configured limits of the NAT: port blocks, timeouts and sessions."""
        return {}

    def list_audit_variants(self) -> dict[str, dict[str, Any]]:
        return {views.TWO_PUBLIC_ADDRESSES: {"pool_count": max(2, self.pool_count)}}


class Pool4Params(PoolParams):
    """Parameters of a device with public IPv4 addresses."""

    pool_first: IPv4Address = address("198.19.0.1", "first public address of the device")
    responder_ipv4: IPv4Address = address("198.19.0.2", "first address of the Responder")
    port_block: int = Field(0, ge=0, le=64512, description="public ports of a client; 0: shared")
    udp_timeout_s: int = Field(
        0, ge=0, le=864_000, description="lifetime of idle UDP mappings [s]; 0: longer than a test"
    )
    session_limit: int = Field(
        0, ge=0, le=1 << 30, description="sessions that the device can hold; 0: at least the test's"
    )

    @model_validator(mode="after")
    def _check_port_blocks(self) -> Pool4Params:
        blocks = self.pool_count * (self.pool_ports.count // max(1, self.port_block))
        if self.port_block and blocks < self.initiator_count:
            problem = f"{blocks} blocks of ports for {self.initiator_count} clients"
            hint = "shorten port_block, or raise pool_count"
            raise UsageError(problem, hint, code="not-enough-addresses")
        return self

    @classmethod
    def size_pool(cls, clients: int, ports: int, values: Mapping[str, Any]) -> dict[str, Any]:
        block, room = _parse_number(values.get("port_block", 0)), PUBLIC_PORTS.count
        if {"pool_count", "pool_ports"} & set(values) or block not in range(room + 1):
            return {}
        count = -(-clients // (room // max(block, ports)))
        if not block:
            count = max(count, math.ceil(clients * ports / (MAX_POOL_USE * room)))
        return {"pool_count": count, **({} if count == 1 else {"pool_first": "198.19.1.0"})}

    @property
    def limits(self) -> dict[str, Any]:
        names = ("port_block", "udp_timeout_s", "session_limit")
        return {name: getattr(self, name) for name in names if getattr(self, name)}

    @property
    def max_sessions(self) -> int | None:
        return self.session_limit or None

    def check_client_limits(self) -> None:
        if 0 < self.port_block < self.client_ports:
            ports, block = self.client_ports, self.port_block
            problem = f"{ports:,} source ports of a client do not fit its block of {block:,}"
            hint = f"shorten initiator_ports to {block} ports, or set port_block to {ports} or more"
            params = {"port_block": ports}
            raise UsageError(problem, hint, params=params, code="not-enough-addresses")

    def list_audit_variants(self) -> dict[str, dict[str, Any]]:
        shared, ports = {"port_block": 0, "session_limit": 0}, {"min": 1024, "max": 1031}
        two = {"pool_first": "198.19.1.1", "pool_count": max(2, self.pool_count)}
        few = {"initiator_ports": ports, "initiator_count": 2, "pool_count": 1, **shared}
        few_ports = {"min": 1024, "max": 1023 + views.PORT_LIMIT}
        return {
            views.TWO_PUBLIC_ADDRESSES: two,
            views.PORT_BLOCKS: {"port_block": views.PORT_LIMIT, "session_limit": 0},
            views.SMALL_PORT_POOL: {**few, "pool_ports": few_ports},
            views.SMALL_TABLE: {**shared, "session_limit": views.SESSION_LIMIT},
            views.SHORT_TIMEOUT: {"udp_timeout_s": views.SHORT_TIMEOUT_S},
        }


class Pool6Params(PoolParams):
    """Parameters of a device with public IPv6 addresses: NAT66 and NAT46."""

    pool_first: IPv6Address = address("2001:2:0:2::1", "first public address of the device")
    responder_ipv6: IPv6Address = address("2001:2:0:1::2", "first address of the Responder")
    dut_right_ipv6: IPv6Interface = device_address("2001:2:0:f001::1/64", "right")
    tester_right_ipv6: IPv6Address = tester_address("2001:2:0:f001::2", "right")

    @model_validator(mode="after")
    def _check_mixture(self) -> Pool6Params:
        self.refuse_background("background and foreground are both IPv6 on the right side")
        return self


class StatefulDrop(DropReason):
    """Why a stateful technology drops a frame."""

    NO_CONNECTION = "belongs to no connection"
    OUTSIDE_POOL = "outside the public addresses and ports"
    NOT_ECN_CAPABLE = ECN_DROP


class StatefulTechnology(Technology):
    """A technology whose device keeps state for every connection."""

    stateful = True
    sides = ("Initiator", "Responder")
    drops = StatefulDrop
    mapping: ClassVar[str] = ""  # address and port mapping that RFCs require, for reports
    # Default lifetime of UDP connections (RFC 4787, section 4.3; RFC 6146, section 4).
    usual_timeout_s: ClassVar[float] = 300.0
    params: ConnectionParams

    def build_traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        self.check_traffic(direction, sizes)
        p, forward = self.params, direction == "forward"
        size, order = self.list_link_sizes(sizes)[not forward], ()
        layers = make_ethernet(self.links, direction)
        if forward:
            tuples = p.enumerate_tuples(self.list_address_fields(), seed)
            headers = *self.make_client_layers(), self.make_client_transport()
            layers = tuples.vary_layers([*layers, *headers])
            order = tuples.draw_order
        else:
            header = _HEADER_BUILDERS[self.ip_versions[1]](p, p.responder, p.public_pool.first)
            layers = (*layers, header, self.make_server_transport())
        foreground = TrafficClass("fg", Role.FOREGROUND, layers, size, draw_order=order)
        return combine(self, foreground, [], direction, sizes, seed)

    def list_address_fields(self) -> list[TupleField]:
        """Return the varying destination and source address of the Initiator's frames."""
        p, describe = self.params, four_tuples.describe_addresses
        (header,) = self.make_client_layers()
        far = describe("responders", f"{header.name}.dst", p.server, p.responder_count)
        return [far, describe("initiators", f"{header.name}.src", p.initiator, p.initiator_count)]

    def make_client_layers(self) -> tuple[Layer, ...]:
        """Return the headers of the Initiator's frames between Ethernet and transport."""
        p = self.params
        return (_HEADER_BUILDERS[self.ip_versions[0]](p, p.initiator, p.server),)

    def make_client_transport(self) -> Layer:
        """Return the transport header of the Initiator's frames, or the ICMP query."""
        p = self.params
        return Layer(p.transport, {"sport": p.initiator_ports.min, "dport": p.responder_ports.min})

    def make_server_transport(self) -> Layer:
        """Return the transport header of the Responder's frames, or the ICMP answer."""
        p = self.params
        ports = {"sport": p.responder_ports.min, "dport": p.public_pool.ports.min}
        return Layer(p.transport, ports)

    def check_traffic(self, direction: Direction, sizes: FramePair) -> None:
        """Refuse frames that a correct device would not forward whole."""

    def find_drops(self, direction: Direction, packets: U8) -> reference_device.Checks:
        """Return additional drop reasons of IP packets; subclasses override this."""
        return ()

    def translate(self, direction: Direction, packets: U8, initial: U8, learned: U8) -> U8:
        """Translate packets with the first packets and Responder table rows of their connections."""
        if direction == "forward":
            return self.rewrite(packets, read_learned_source(learned), source=True)
        return self.rewrite(packets, read_source(initial), source=False)

    def rewrite(self, packets: U8, endpoint: Endpoints, *, source: bool) -> U8:
        """Return packets as the device sends them; ``endpoint`` replaces the source or destination."""
        return rewrite(packets, endpoint, source=source, hops=self.hops)

    def expect_for_connections(
        self, direction: Direction, frames: U8, initial: U8, learned: U8
    ) -> Expected:
        """Return the reference translation of frames of known connections; see :meth:`translate`."""
        if not len(frames):
            return Expected(frames, np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.uint8))
        order = 1 if direction == "forward" else -1
        here, there = self._link_headers[::order]
        arriving, leaving = self.ip_versions[::order]
        packets = frames[:, here.ip_offset :]
        opened = initial[:, self._link_headers[0].ip_offset :]
        translated = self.translate(direction, packets, opened, learned)
        head = np.frombuffer(there.egress + reference_device.ETHERTYPE[leaving], dtype=np.uint8)
        out = np.concatenate([np.tile(head, (len(frames), 1)), translated], axis=1)
        entered, left = (read_hops(x, *locate_endpoints(x[0]).networks[-1]) for x in (frames, out))
        reason = reference_device.choose_reasons(
            len(frames),
            (reference.NOT_OURS, ~here.select_accepted(frames)),
            (reference.NOT_FORWARDED, ~reference_device.select_forwardable(packets, arriving)),
            (StatefulDrop.OUTSIDE_POOL, ~self.params.public_pool.select_sources(learned)),
            *self.find_drops(direction, packets),
            (reference.EXHAUSTED, (left == 0) | (left > entered)),
        )
        length = np.where(reason == reference.FORWARDED, out.shape[1], 0).astype(np.int32)
        return Expected(out, length, reason)

    def expect(self, direction: Direction, frames: U8) -> Expected:
        return self._native_device.expect(direction, frames)

    @cached_property
    def _link_headers(self) -> tuple[reference_device.LinkHeaders, reference_device.LinkHeaders]:
        left, right = map(reference_device.make_link_headers, (self.links.left, self.links.right))
        return left, right

    @cached_property
    def _native_device(self) -> reference_device.ReferenceDevice:
        handlers = {6: reference_device.route_all(6)}
        return reference_device.ReferenceDevice(self.links, handlers, handlers)


class Napt(StatefulTechnology):
    """A NAT with a pool of public addresses."""

    params: PoolParams

    @abstractmethod
    def make_configuration(self) -> DeviceConfig:
        """Return the configuration for the device intent."""

    def make_dut_intent(self) -> DeviceIntent:
        p = self.params
        left = describe_link(p, self.links, "left", p.clients)
        right = describe_link(p, self.links, "right", p.servers)
        return DeviceIntent(self.name, self.make_configuration(), self.links, left, right)

    def make_nat_view(self, **fields: Any) -> views.Nat:
        """Return the audit view of the NAT; ``fields`` are further attributes."""
        p = self.params
        hosts = (p.initiator, p.initiator + p.initiator_step)[: p.initiator_count]
        servers = (p.responder, p.responder + 1)[: p.responder_count]
        fields |= {"public_ports": p.public_pool.port_bounds, **p.limits}
        return views.Nat(hosts, servers, p.pool, **fields)

    def suggest_audit_params(self) -> Mapping[str, Any]:
        return views.TWO_HOST_PARAMS

    def list_audit_views(self) -> tuple[views.AuditView, ...]:
        return (self.make_nat_view(),)

    def list_audit_variants(self) -> dict[str, dict[str, Any]]:
        return self.params.list_audit_variants()


_HEADER_BUILDERS = {4: make_ipv4, 6: make_ipv6}

# Addresses ``(n, 4)`` or ``(n, 16)``, and ports or ICMP identifiers ``(n, 2)``.
Endpoints = tuple[U8, U8]


def _locate_endpoints(packets: U8) -> FrameLayout:
    return locate_endpoints(packets[0], f"IPv{packets[0, 0] >> 4}")


def read_source(packets: U8) -> Endpoints:
    """Return the source addresses and ports of IP packets."""
    layout = _locate_endpoints(packets)
    return packets[:, layout.get_address(source=True)], packets[:, layout.get_port(source=True)]


def read_learned_source(rows: U8) -> Endpoints:
    """Return the source addresses and ports in rows of a Responder's table."""
    size = (rows.shape[1] - 4) // 2
    return rows[:, :size], rows[:, -4:-2]


def translate_version(
    packets: U8, addresses: MappingsArray | Rfc6052Array, endpoint: Endpoints, *, source: bool
) -> U8:
    """Translate packets to the other IP version; one end becomes ``endpoint``, the other is mapped."""
    if packets[0, 0] >> 4 == 6:
        header, find, build = view(packets, IPV6), addresses.to_ipv4, build_ipv4
    else:
        header, find, build = view(packets, IPV4), addresses.to_ipv6, build_ipv6
    mapped, _ = find(header["dst_octets" if source else "src_octets"])
    address = np.ascontiguousarray(endpoint[0])
    out = build(packets, *((address, mapped) if source else (mapped, address)))
    layout = _locate_endpoints(out)
    out[:, layout.get_port(source=source)] = endpoint[1]
    layout.write_checksum(out)
    return out


def rewrite(packets: U8, endpoint: Endpoints, *, source: bool, hops: int = 1) -> U8:
    """Return copies with ``endpoint`` as source or destination, smaller TTLs and valid checksums."""
    out = packets.copy()
    layout = _locate_endpoints(out)
    out[:, layout.get_address(source=source)], out[:, layout.get_port(source=source)] = endpoint
    remaining = read_hops(out, layout.version)
    remaining -= np.uint8(hops)
    if layout.version == 4:
        write_ipv4_checksum(out)
    layout.write_checksum(out)
    return out
