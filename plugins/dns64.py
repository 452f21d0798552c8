"""DNS64 (RFC 6147): the tester is the client on the left and the authoritative server on the right."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network
from typing import Any, ClassVar, Literal, NoReturn

from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.base.ethernet import FCS_OCTETS
from v6t.intent.families import Dns64Config
from v6t.packets.arrays import U8
from v6t.packets.direction import Direction
from v6t.plugins.base import DeviceIntent, EmbeddedIpv4, Technology
from v6t.plugins.params import Ipv6Links, RightIpv4Link, describe_link
from v6t.plugins.translation import parse_rfc6052_prefix
from v6t.profiles.dns.messages import QUESTION_END
from v6t.profiles.dns.zone import SUFFIX, Zone
from v6t.profiles.model import FramePair

IPV6_OCTETS, IPV4_OCTETS = (14 + ip + 8 + QUESTION_END + FCS_OCTETS for ip in (40, 20))
"""Size of an untagged query."""
RECORD_OCTETS = 28  # of an AAAA record, by which an answer is longer than its query
MIN_NAMES = 1 << 16  # of a zone; fewer names would soon be queried again


class QuerySizes(FramePair):
    """Sizes of a query, whose answer limits the rate on a medium."""

    @property
    def longest(self) -> int:
        return super().longest + RECORD_OCTETS


class QueryTechnology(Technology):
    """A technology whose device answers DNS queries."""

    exchange = "queries"
    modes = ("forward",)
    default_benchmarks = ("resolution",)
    overhead = 20
    rfc_frame_sizes: ClassVar[tuple[int, ...]] = (IPV6_OCTETS,)

    @property
    @abstractmethod
    def zone(self) -> Zone:
        """DNS zone that the tester queries and serves."""

    def make_frame_pair(self, ipv6_frame_size: int) -> FramePair:
        if ipv6_frame_size != IPV6_OCTETS:
            problem = f"a query is a frame of {IPV6_OCTETS} octets, not {ipv6_frame_size}"
            raise UsageError(problem, "leave the frame size out", code="frame-too-small")
        upstream_octets = IPV4_OCTETS if self.zone.server.version == 4 else IPV6_OCTETS
        return QuerySizes(IPV6_OCTETS, upstream_octets)

    def make_sizes(self, frame_size: int | str) -> FramePair:
        if isinstance(frame_size, str):
            problem = "name resolution cannot use a mix of frame sizes"
            raise UsageError(problem, "leave the frame size out", code="invalid-frame-size-mix")
        return self.make_frame_pair(frame_size)

    def expect(self, direction: Direction, frames: U8) -> NoReturn:
        problem = f"{self.name} forwards no frames"
        raise UsageError(problem, "it answers queries: use zone", code="no-frames")

    def build_traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> NoReturn:
        problem = f"{self.name} sends single queries instead of streams of frames"
        raise UsageError(problem, "measure it with --measure resolution", code="no-frames")


class Dns64Params(RightIpv4Link, Ipv6Links):
    """Parameters of ``dns64``."""

    prefix: str = Field("2001:db8:64::/96", description="RFC 6052 prefix of synthetic AAAA records")
    upstream: Literal["ipv4", "ipv6"] = Field(
        "ipv4", description="IP version of the authoritative server"
    )
    names: IPv4Network = Field(
        IPv4Network("64.0.0.0/2"), description="addresses of the A records: each name encodes one"
    )
    own_prefix: IPv6Network = Field(
        IPv6Network("2001:2:0:aaaa::/96"), description="a /96 for the native AAAA records of names"
    )
    ttl_s: int = Field(3600, ge=0, le=604_800, description="time to live of all records [s]")
    client_ports: int = Field(64, ge=1, le=300, description="source ports of the client")

    @cached_property
    def server_prefix(self) -> IPv6Network:
        return parse_rfc6052_prefix(self.prefix, "prefix")

    @property
    def embedded_addresses(self) -> EmbeddedIpv4:
        return {"prefix": (self.server_prefix, (self.names.network_address,))}

    @model_validator(mode="after")
    def _check_zone(self) -> Dns64Params:
        if self.own_prefix.prefixlen != 96:
            problem = f"own_prefix is a /{self.own_prefix.prefixlen}"
            raise UsageError(problem, "use a /96: a name's address follows it", code="not-a-prefix")
        if self.own_prefix.overlaps(self.server_prefix):
            problem = f"own_prefix {self.own_prefix} and prefix {self.server_prefix} overlap"
            raise UsageError(problem, "choose disjoint prefixes", code="address-conflict")
        if self.names.num_addresses < MIN_NAMES:
            problem = f"{self.names} has {self.names.num_addresses} names, which soon repeat"
            raise UsageError(problem, "give a /16 or a shorter prefix", code="not-enough-addresses")
        return self


class Dns64(QueryTechnology):
    """A resolver that synthesizes AAAA records from A records."""

    name = "dns64"
    title = "DNS64: AAAA records synthesized from A records, for clients of a NAT64"
    rfcs = ("RFC 8219 section 9", "RFC 6147", "RFC 6052")
    params_model = Dns64Params
    sides = ("clients", "authoritative server")
    default_driver = "unbound"
    params: Dns64Params

    @property
    def ip_versions(self) -> tuple[Literal[4, 6], Literal[4, 6]]:
        return 6, 4 if self.params.upstream == "ipv4" else 6

    @cached_property
    def zone(self) -> Zone:
        p = self.params
        four = p.upstream == "ipv4"
        return Zone(
            client=p.tester_left_ipv6,
            resolver=p.dut_left_ipv6.ip,
            egress=p.dut_right_ipv4.ip if four else p.dut_right_ipv6.ip,
            server=p.tester_right_ipv4 if four else p.tester_right_ipv6,
            prefix=p.server_prefix,
            own=p.own_prefix.network_address.packed[:12],
            first=int(p.names.network_address),
            count=p.names.num_addresses,
            ttl_s=p.ttl_s,
            ports=(20_000, p.client_ports),
        )

    def make_dut_intent(self) -> DeviceIntent:
        p, links, zone = self.params, self.links, self.zone
        ends: Any = {"resolver": zone.resolver, "server": zone.server}
        clients, prefix = p.dut_left_ipv6.network, p.server_prefix
        configuration = Dns64Config(prefix=prefix, clients=clients, zone=SUFFIX, **ends)
        left, right = (describe_link(p, links, side) for side in ("left", "right"))
        return DeviceIntent(self.name, configuration, links, left, right)
