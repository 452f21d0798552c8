"""Router baselines: IPv4 (RFC 2544) and IPv6 (RFC 5180), nothing is translated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from v6t.intent.device import LinkIntent
from v6t.intent.families import RouterConfig
from v6t.packets.direction import Direction
from v6t.packets.reference import list_drop_reasons
from v6t.plugins.audit_views import Router as RouterView
from v6t.plugins.base import DeviceIntent, StatelessTechnology
from v6t.plugins.router.params import (
    Ipv4RouterParams,
    Ipv6RouterParams,
    RouterDrop,
    RouterParams,
    Side,
)
from v6t.plugins.sizes import IPV4_SIZES, IPV6_SIZES
from v6t.plugins.traffic import background_of, ethernet, ipv4, ipv6, mixed, negative_like, replaced
from v6t.profiles.model import FramePair, Role, Traffic, TrafficClass

if TYPE_CHECKING:
    from v6t.plugins.reference_device import ReferenceDevice


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
        from v6t.plugins.router.reference import router

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
