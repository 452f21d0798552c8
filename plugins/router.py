"""What a correct router emits: the packet with a TTL or hop limit less, if there is a route."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Network
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator
from v6t.base.errors import InvalidValue, UsageError
from v6t.intent.device import LinkIntent
from v6t.intent.families import RouterConfig
from v6t.packets.direction import Direction
from v6t.packets.headers import IP, view
from v6t.packets.reference import DropReason, list_drop_reasons
from v6t.plugins.audit_views import Router as RouterView
from v6t.plugins.base import DeviceIntent, Links, PluginParams, StatelessTechnology
from v6t.plugins.frame_sizes import IPV4_SIZES, IPV6_SIZES
from v6t.plugins.params import LinkParams, address, negative_share, tester
from v6t.plugins.ports import KINDS, Policy
from v6t.plugins.prefixes import LongestMatch
from v6t.plugins.reference_device import Handled, Handler, ReferenceDevice, choose_reasons, route
from v6t.plugins.traffic import background_of, ethernet, ipv4, ipv6, mixed, negative_like, replaced
from v6t.profiles.model import Binding, FramePair, Role, Traffic, TrafficClass, Variable

if TYPE_CHECKING:
    from v6t.packets.arrays import U8

Side = Literal["left", "right"]


class RouterDrop(DropReason):
    """Why a router drops a frame."""

    NO_ROUTE = "no route to the destination"


def _number(value: Any) -> Any:
    """Decimal or, as in siitperf.conf, hexadecimal."""
    return int(value, 16) if isinstance(value, str) and value.lower().startswith("0x") else value


Number = Annotated[int, BeforeValidator(_number)]


class HostBits(PluginParams):
    """Sixteen bits of an IPv6 host's address that change from frame to frame (GEN-11)."""

    policy: Policy = "fixed"
    min: Number = Field(0, ge=0, le=65535)
    max: Number = Field(65535, ge=0, le=65535)
    offset: int = Field(12, description="octet of the address at which the 16 bits begin")

    @model_validator(mode="after")
    def _ordered(self) -> HostBits:
        if self.min > self.max:
            raise InvalidValue(
                f"the smallest host {self.min} is larger than the largest {self.max}",
                code="empty-range",
            )
        return self


class Ipv4HostBits(HostBits):
    """The same for IPv4, without the addresses that RFC 2544 gives to the router."""

    min: Number = Field(2, ge=0, le=65535)
    max: Number = Field(65534, ge=0, le=65535)
    offset: int = Field(2, description="octet of the address at which the 16 bits begin")


class RouterParams(LinkParams):
    """What both routers can be told."""

    left_networks: int = Field(1, ge=1, le=256, description="destination networks on the left")
    right_networks: int = Field(1, ge=1, le=256, description="destination networks on the right")
    negative_percent: int = negative_share(
        "share of frames the router must drop: their TTL or hop limit ends at it [%]"
    )

    def hosts(self, side: Side) -> HostBits:
        """The host bits that vary on a side."""
        hosts: HostBits = getattr(self, f"{side}_hosts")
        return hosts

    def host(self, side: Side) -> Any:
        """The address of the side's host; varying bits overwrite it."""
        raise NotImplementedError

    def networks(self, side: Side) -> int:
        """Number of destination networks of a side."""
        return int(getattr(self, f"{side}_networks"))

    def reach(self, side: Side) -> tuple[Any, ...]:
        """Networks a router must know to reach all hosts of a side."""
        raise NotImplementedError

    def vary(self, side: Side, field: str, *, destination: bool) -> list[tuple[Variable, Binding]]:
        """What varies in an address of a side's host."""
        hosts, networks = self.hosts(side), self.networks(side)
        if hosts.policy != "fixed":
            variable = Variable(
                f"{side}_host", 16, KINDS[hosts.policy], low=hosts.min, high=hosts.max
            )
            first = 8 * hosts.offset
            return [(variable, Binding(variable.name, field, first, first + 15))]
        if destination and networks > 1:
            low = self._network(side)
            variable = Variable(f"{side}_network", 8, low=low, high=low + networks - 1)
            first = self._network_bit()
            return [(variable, Binding(variable.name, field, first, first + 7))]
        return []

    def _network_bit(self) -> int:
        raise NotImplementedError

    def _network(self, side: Side) -> int:
        """The octet of the host's address that tells its network."""
        return int(self.host(side).packed[self._network_bit() // 8])

    def _check(self, offsets: tuple[int, ...]) -> None:
        for side in ("left", "right"):
            hosts, networks = self.hosts(side), self.networks(side)
            if hosts.offset not in offsets:
                raise UsageError(
                    f"{side}_hosts cannot begin at octet {hosts.offset} of an address",
                    "choose " + ", ".join(map(str, offsets)),
                    code="out-of-range",
                )
            if networks > 1 and hosts.policy != "fixed":
                raise UsageError(
                    f"{side}_networks and {side}_hosts cannot both vary",
                    f"set {side}_networks to 1, or the policy of {side}_hosts to fixed",
                    code="conflict",
                )
            if self._network(side) + networks > 256:
                raise UsageError(
                    f"{networks} networks from {self.host(side)} on do not fit the octet that "
                    "tells them apart",
                    "choose a host whose network octet is 0",
                    code="not-enough-addresses",
                )
        if set(self.reach("left")) & set(self.reach("right")):
            raise UsageError(
                "a network would be on the left and on the right of the router", code="duplicate"
            )


class Ipv4RouterParams(RouterParams):
    """Everything ``ipv4-router`` can be told."""

    left_ipv4: IPv4Address = address("198.18.0.2", "the host on the left (RFC 2544 appendix C.2.2)")
    right_ipv4: IPv4Address = Field(IPv4Address("198.19.0.2"), description="the host on the right")
    left_hosts: Ipv4HostBits = Field(
        default_factory=Ipv4HostBits, description="varying bits of hosts on the left"
    )
    right_hosts: Ipv4HostBits = Field(
        default_factory=Ipv4HostBits, description="varying bits of hosts on the right"
    )
    dut_left_ipv4: IPv4Interface = Field(
        IPv4Interface("192.168.18.1/30"), description="the router's IPv4 address on the left"
    )
    dut_right_ipv4: IPv4Interface = Field(
        IPv4Interface("192.168.19.1/30"), description="the router's IPv4 address on the right"
    )
    tester_left_ipv4: IPv4Address = tester("192.168.18.2", "left")
    tester_right_ipv4: IPv4Address = tester("192.168.19.2", "right")

    @model_validator(mode="after")
    def _possible(self) -> Ipv4RouterParams:
        self._check((2,))
        return self

    def host(self, side: Side) -> IPv4Address:
        return self.left_ipv4 if side == "left" else self.right_ipv4

    def reach(self, side: Side) -> tuple[IPv4Network, ...]:
        """``/24`` networks, or one ``/16`` where hosts vary."""
        value = int(self.host(side))
        if self.hosts(side).policy != "fixed":
            return (IPv4Network((value >> 16 << 16, 16)),)
        first = value >> 8 << 8
        return tuple(IPv4Network((first + (i << 8), 24)) for i in range(self.networks(side)))

    def _network_bit(self) -> int:
        return 16


class Ipv6RouterParams(RouterParams):
    """Everything ``ipv6-router`` can be told."""

    left_ipv6: IPv6Address = address("2001:2::2", "the host on the left (RFC 5180)")
    right_ipv6: IPv6Address = address("2001:2:0:8000::2", "the host on the right")
    left_hosts: HostBits = Field(
        default_factory=HostBits, description="varying bits of hosts on the left"
    )
    right_hosts: HostBits = Field(
        default_factory=HostBits, description="varying bits of hosts on the right"
    )

    @model_validator(mode="after")
    def _possible(self) -> Ipv6RouterParams:
        self._check((8, 10, 12, 14))
        return self

    def host(self, side: Side) -> IPv6Address:
        return self.left_ipv6 if side == "left" else self.right_ipv6

    def reach(self, side: Side) -> tuple[IPv6Network, ...]:
        """``/64`` networks."""
        first = int(self.host(side)) >> 64
        count = self.networks(side)
        return tuple(IPv6Network(((first + i) << 64, 64)) for i in range(count))

    def _network_bit(self) -> int:
        return 56


class Router(StatelessTechnology):
    """Forwards from link to link; stateless."""

    overhead = 0
    native = True
    drop_reasons: ClassVar[tuple[str, ...]] = list_drop_reasons(RouterDrop)
    spread: ClassVar[dict[str, Any]] = {
        "left_hosts": {"policy": "random"},
        "right_hosts": {"policy": "random"},
    }
    version: ClassVar[Literal[4, 6]]
    params: RouterParams

    @property
    def ip_versions(self) -> tuple[Literal[4, 6], Literal[4, 6]]:
        """The same on both sides."""
        return self.version, self.version

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """One foreground class, background and exhausted frames as the parameters say."""
        p = self.params
        foreground = self._foreground(direction, sizes)
        ends = (p.tester_left_ipv6, p.tester_right_ipv6)
        behind = background_of(p, self.links, direction, sizes, ends, self.links.left)
        name, field = ("IP", "ttl") if self.version == 4 else ("IPv6", "hlim")
        expired = negative_like(
            foreground, "expired", layers=replaced(foreground, name, **{field: 1})
        )
        return mixed(p, direction, [(foreground, 1)], behind, [expired], p.negative_percent, seed)

    def dut_intent(self) -> DeviceIntent:
        """Addresses, static neighbours, and a route to every network of either side."""
        return DeviceIntent(
            technology=self.name,
            configuration=RouterConfig(),
            links=self.links,
            left=self._side("left"),
            right=self._side("right"),
        )

    def _side(self, side: Side) -> LinkIntent:
        p = self.params
        gateway = getattr(p, f"tester_{side}_ipv{self.version}")
        ipv4 = (getattr(p, f"dut_{side}_ipv4"), gateway) if self.version == 4 else None
        routes = dict.fromkeys(p.reach(side), gateway)
        return p.link_intent(side, getattr(self.links, side), ipv4, routes)

    def _foreground(self, direction: Direction, sizes: FramePair) -> TrafficClass:
        p = self.params
        near: Side = "left" if direction == "forward" else "right"
        far: Side = "right" if direction == "forward" else "left"
        name, make = ("IP", ipv4) if self.version == 4 else ("IPv6", ipv6)
        varying = p.vary(near, f"{name}.src", destination=False)
        varying += p.vary(far, f"{name}.dst", destination=True)
        udp, variables, bindings = p.udp(direction)
        return TrafficClass(
            "fg",
            Role.FOREGROUND,
            (*ethernet(self.links, direction), make(p, p.host(near), p.host(far)), udp),
            sizes.ipv6 if direction == "forward" else sizes.ipv4,
            (*(v for v, _ in varying), *variables),
            (*(b for _, b in varying), *bindings),
        )

    def audit_views(self) -> tuple[RouterView]:
        return (RouterView(self.params.host("left"), self.params.host("right")),)

    def reference_device(self) -> ReferenceDevice:
        p = self.params
        ipv4: dict[str, tuple[Any, ...]] = {"left": (), "right": ()}
        ipv6: dict[str, tuple[Any, ...]] = {
            "left": (p.dut_left_ipv6.network,),
            "right": (p.dut_right_ipv6.network,),
        }
        for side in ("left", "right"):
            if self.version == 4:
                ipv4[side] = p.reach(side)
            else:
                ipv6[side] = (*p.reach(side), *ipv6[side])
        return router(self.links, ipv4, ipv6)


class Ipv4Router(Router):
    """The baseline of RFC 2544."""

    name = "ipv4-router"
    title = "IPv4 router: the baseline of RFC 2544, one or many networks and hosts"
    rfcs = ("RFC 2544", "RFC 4814 section 4.5")
    params_model = Ipv4RouterParams
    version = 4
    rfc_frame_sizes = IPV4_SIZES


class Ipv6Router(Router):
    """The baseline of RFC 5180."""

    name = "ipv6-router"
    title = "IPv6 router: the baseline of RFC 5180, one or many networks and hosts"
    rfcs = ("RFC 5180", "RFC 4814 section 4.5")
    params_model = Ipv6RouterParams
    version = 6
    rfc_frame_sizes = IPV6_SIZES


def router(
    links: Links,
    ipv4: Mapping[str, Sequence[IPv4Network]],
    ipv6: Mapping[str, Sequence[IPv6Network]],
) -> ReferenceDevice:
    """A router that knows the networks behind its left and right link.

    Args:
        links: MAC addresses and VLANs.
        ipv4: networks by side (``left``, ``right``); none: the version is not routed.
        ipv6: the same.
    """

    def handlers(side: str) -> dict[int, Handler]:
        known: dict[int, Handler] = {}
        if ipv4[side]:
            known[4] = _towards(LongestMatch(ipv4[side]), 4)
        if ipv6[side]:
            known[6] = _towards(LongestMatch(ipv6[side]), 6)
        return known

    return ReferenceDevice(links, handlers("right"), handlers("left"))


def _towards(networks: LongestMatch, version: int) -> Handler:
    def handler(packets: U8) -> Handled:
        unknown = networks.find(view(packets, IP[version])["dst_octets"]) < 0
        return route(packets, version, choose_reasons(len(packets), (RouterDrop.NO_ROUTE, unknown)))

    return handler
