"""Router baselines: IPv4 (RFC 2544) and IPv6 (RFC 5180), with one network or many on either side."""

from __future__ import annotations

from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.device import Network
from v6t.intent.families import RouterConfig
from v6t.packets.arrays import U8
from v6t.packets.direction import Direction
from v6t.packets.headers import HOP_LIMIT_FIELD, IP, view
from v6t.packets.reference import DropReason
from v6t.plugins.audit_views import Router, SideName
from v6t.plugins.base import DeviceIntent, StatelessTechnology
from v6t.plugins.frame_sizes import IPV4_SIZES, IPV6_SIZES
from v6t.plugins.params import Ipv4Links, LinkParams, address, describe_link, negative_share
from v6t.plugins.ports import Policy, ValueRange
from v6t.plugins.reference_device import Handler, Outcome, ReferenceDevice
from v6t.plugins.traffic import change_header, combine, make_foreground, make_ipv4, make_ipv6
from v6t.plugins.translation import LongestMatch
from v6t.profiles.model import FramePair, Traffic, Variable

SIDES: tuple[SideName, SideName] = ("left", "right")


class RouterDrop(DropReason):
    """Why a router drops a frame."""

    NO_ROUTE = "no route to the destination"


def _parse_hex(value: Any) -> Any:
    return int(value, 16) if isinstance(value, str) and value.lower().startswith("0x") else value


IntOrHex = Annotated[int, BeforeValidator(_parse_hex)]


class HostBits(ValueRange):
    """Sixteen bits of an IPv6 host's address that change from frame to frame."""

    value_name: ClassVar[str] = "host"

    policy: Policy = "fixed"
    min: IntOrHex = Field(0, ge=0, le=65535)
    max: IntOrHex = Field(65535, ge=0, le=65535)
    offset: int = Field(12, description="octet of the address at which the 16 bits begin")

    def vary(self, name: str, base: IPv4Address | IPv6Address) -> object:
        """Return the address, with 16 bits from a variable unless the policy is fixed."""
        if self.policy == "fixed":
            return str(base)
        return self.make_variable(name).place(8 * self.offset, str(base))


class Ipv4HostBits(HostBits):
    """Sixteen bits of an IPv4 host's address, without the addresses that RFC 2544 assigns to the router."""

    min: IntOrHex = Field(2, ge=0, le=65535)
    max: IntOrHex = Field(65534, ge=0, le=65535)
    offset: int = Field(2, description="octet of the address at which the 16 bits begin")


class RouterParams(LinkParams):
    """Parameters of an IPv4 or IPv6 router."""

    version: ClassVar[Literal[4, 6]]
    offsets: ClassVar[tuple[int, ...]]  # octets of an address at which the host bits may begin
    network_octet: ClassVar[int]  # index of the address octet that numbers the networks of a side

    left_networks: int = Field(1, ge=1, le=256, description="destination networks on the left")
    right_networks: int = Field(1, ge=1, le=256, description="destination networks on the right")
    negative_percent: int = negative_share("share of frames whose TTL expires at the router [%]")

    def describe_side(self, side: SideName) -> tuple[Any, HostBits, int]:
        """Return the first host, its varying bits, and the number of networks of a side."""
        host = getattr(self, f"{side}_ipv{self.version}")
        return host, getattr(self, f"{side}_hosts"), getattr(self, f"{side}_networks")

    def list_networks(self, side: SideName) -> list[Network]:
        """Return the networks of a side: ``/24`` or ``/64`` each, or one ``/16`` if IPv4 hosts vary."""
        host, hosts, count = self.describe_side(side)
        octets = self.network_octet + 1
        if hosts.policy != "fixed":
            octets = min(octets, hosts.offset)
        shift = host.max_prefixlen - 8 * octets
        first, kind = int(host) >> shift, IPv4Network if self.version == 4 else IPv6Network
        return [kind((first + i << shift, 8 * octets)) for i in range(count)]

    def make_address(self, side: SideName, *, destination: bool) -> object:
        """Return the address field of frames; networks vary only in destinations."""
        host, hosts, networks = self.describe_side(side)
        if not destination or networks == 1:
            return hosts.vary(f"{side}_host", host)
        first = host.packed[self.network_octet]
        variable = Variable(f"{side}_network", 8, low=first, high=first + networks - 1)
        return variable.place(8 * self.network_octet, str(host))

    @model_validator(mode="after")
    def _check_networks(self) -> RouterParams:
        for side in SIDES:
            host, hosts, networks = self.describe_side(side)
            problem = hint = code = ""
            if hosts.offset not in self.offsets:
                problem = f"{side}_hosts cannot begin at octet {hosts.offset} of an address"
                hint, code = "choose " + ", ".join(map(str, self.offsets)), "out-of-range"
            elif networks > 1 and hosts.policy != "fixed":
                problem, code = f"{side}_networks and {side}_hosts cannot both vary", "conflict"
                hint = f"set {side}_networks to 1, or the policy of {side}_hosts to fixed"
            elif host.packed[self.network_octet] + networks > 256:
                problem = f"{networks} networks from {host} on do not fit one octet"
                hint, code = "choose a host whose network octet is 0", "not-enough-addresses"
            if problem:
                raise UsageError(problem, hint, code=code)
        if set(self.list_networks("left")) & set(self.list_networks("right")):
            raise UsageError("a network is on both sides of the router", code="duplicate")
        return self


class Ipv4RouterParams(Ipv4Links, RouterParams):
    """Parameters of ``ipv4-router``."""

    version = 4
    offsets = (2,)
    network_octet = 2  # the third octet

    left_ipv4: IPv4Address = address("198.18.0.2", "the host on the left (RFC 2544 appendix C.2.2)")
    right_ipv4: IPv4Address = address("198.19.0.2", "the host on the right")
    left_hosts: Ipv4HostBits = Field(Ipv4HostBits(), description="varying bits of left hosts")
    right_hosts: Ipv4HostBits = Field(Ipv4HostBits(), description="varying bits of right hosts")


class Ipv6RouterParams(RouterParams):
    """Parameters of ``ipv6-router``."""

    version = 6
    offsets = (8, 10, 12, 14)
    network_octet = 7  # the last octet of a /64

    left_ipv6: IPv6Address = address("2001:2::2", "the host on the left (RFC 5180)")
    right_ipv6: IPv6Address = address("2001:2:0:8000::2", "the host on the right")
    left_hosts: HostBits = Field(HostBits(), description="varying bits of hosts on the left")
    right_hosts: HostBits = Field(HostBits(), description="varying bits of hosts on the right")


class RouterTechnology(StatelessTechnology):
    """A router of one IP version."""

    overhead = 0
    native = True
    drops = RouterDrop
    varying_params: ClassVar[dict[str, Any]] = {f"{s}_hosts": {"policy": "random"} for s in SIDES}
    params: RouterParams

    @property
    def ip_versions(self) -> tuple[Literal[4, 6], Literal[4, 6]]:
        return self.params.version, self.params.version

    def build_traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        p = self.params
        near, far = SIDES if direction == "forward" else SIDES[::-1]
        ends = p.make_address(near, destination=False), p.make_address(far, destination=True)
        header = make_ipv4(p, *ends) if p.version == 4 else make_ipv6(p, *ends)
        traffic = make_foreground(self, direction, sizes, header)
        expired = change_header(traffic, "expired", header.name, **{HOP_LIMIT_FIELD[p.version]: 1})
        return combine(self, traffic, [expired], direction, sizes, seed)

    def build_reference_device(self) -> ReferenceDevice:
        return ReferenceDevice(self.links, self._route_to("right"), self._route_to("left"))

    def _route_to(self, side: SideName) -> dict[int, Handler]:
        """Return handlers by IP version that route packets to the networks of a side."""
        p = self.params
        networks: dict[int, list[Network]] = {6: [getattr(p, f"dut_{side}_ipv6").network]}
        networks.setdefault(p.version, []).extend(p.list_networks(side))
        matches = {version: LongestMatch(routed) for version, routed in networks.items()}
        return {version: partial(_route, match, version) for version, match in matches.items()}

    def make_dut_intent(self) -> DeviceIntent:
        p = self.params
        left, right = (describe_link(p, self.links, s, p.list_networks(s)) for s in SIDES)
        return DeviceIntent(self.name, RouterConfig(), self.links, left, right)

    def list_audit_views(self) -> tuple[Router]:
        return (Router(*(self.params.describe_side(side)[0] for side in SIDES)),)


def _route(networks: LongestMatch, version: int, packets: U8) -> Outcome:
    known = networks.find(view(packets, IP[version])["dst_octets"]) >= 0
    return Outcome([(RouterDrop.NO_ROUTE, True)], native=known)


class Ipv4Router(RouterTechnology):
    """An IPv4 router, the baseline of RFC 2544."""

    name = "ipv4-router"
    title = "IPv4 router: the baseline of RFC 2544, one or many networks and hosts"
    rfcs = ("RFC 2544", "RFC 4814 section 4.5")
    params_model = Ipv4RouterParams
    rfc_frame_sizes = IPV4_SIZES


class Ipv6Router(RouterTechnology):
    """An IPv6 router, the baseline of RFC 5180."""

    name = "ipv6-router"
    title = "IPv6 router: the baseline of RFC 5180, one or many networks and hosts"
    rfcs = ("RFC 5180", "RFC 4814 section 4.5")
    params_model = Ipv6RouterParams
    rfc_frame_sizes = IPV6_SIZES
