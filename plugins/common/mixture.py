"""What all technologies mix: foreground, native IPv6 in the background, frames to be dropped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.device import LinkIntent
from v6t.packets.direction import Direction
from v6t.plugins.base import Link, Links, PluginParams, Technology
from v6t.plugins.common.addresses import device, tester
from v6t.plugins.common.ports import (
    DestinationPorts,
    PortRange,
    SourcePorts,
    destination_range,
    source_range,
)
from v6t.plugins.frame_sizes import IPV6_UDP_OCTETS, check_mtu, tag_octets
from v6t.profiles.model import Expression, FramePair, Layer, Role, Traffic, TrafficClass, Variable


class Mixture(PluginParams):
    """Shares of foreground and background (GEN-14), and what every frame carries."""

    reference: ClassVar[bool] = True
    """Whether the background alone is a measurement: native IPv6 through the device (MIX-01)."""

    bg_sport: SourcePorts = Field(
        default_factory=source_range, description="background source ports"
    )
    bg_dport: DestinationPorts = Field(
        default_factory=destination_range, description="background destination ports"
    )
    n: int = Field(2, ge=1, description="foreground is m of n frames")
    m: int = Field(
        2,
        ge=0,
        description="foreground is m of n frames; n = m: no background, m = 0: background only",
    )
    ttl: int = Field(64, ge=2, le=255, description="TTL and hop limit of test frames")
    df: bool = Field(True, description="Don't Fragment bit of IPv4 test frames")

    @property
    def only_background(self) -> bool:
        """Without foreground (m = 0)."""
        return self.m == 0

    @property
    def mixture(self) -> tuple[int, int]:
        """So many frames, and so many of them foreground."""
        return self.n, self.m

    @model_validator(mode="after")
    def _shares(self) -> Mixture:
        if self.m > self.n:
            raise UsageError(
                f"m = {self.m} of n = {self.n} frames cannot be foreground", code="out-of-range"
            )
        if 0 < self.m < self.n and math.gcd(self.m, self.n) != 1:
            raise UsageError(
                f"n = {self.n} and m = {self.m} have a common divisor",
                f"write n = {self.n // math.gcd(self.m, self.n)}, "
                f"m = {self.m // math.gcd(self.m, self.n)}",
                code="out-of-range",
            )
        if self.m == 0 and not self.reference:
            raise UsageError(
                f"without foreground (m = 0) nothing of {self.measured} would be measured",
                code="out-of-range",
            )
        return self


def negative_share(description: str) -> Any:
    """The parameter ``negative_percent``, of whatever kind a technology's negative traffic is."""
    return Field(0, ge=0, le=50, description=description)


class PortParams(Mixture):
    """A mixture whose foreground ports follow RFC 4814 on both sides."""

    fw_sport: SourcePorts = Field(default_factory=source_range, description="forward source ports")
    fw_dport: DestinationPorts = Field(
        default_factory=destination_range, description="forward destination ports"
    )
    rv_sport: SourcePorts = Field(default_factory=source_range, description="reverse source ports")
    rv_dport: DestinationPorts = Field(
        default_factory=destination_range, description="reverse destination ports"
    )

    def udp(self, direction: Direction) -> Layer:
        """Return the UDP header of a direction."""
        forward = direction == "forward"
        source, destination = (
            (self.fw_sport, self.fw_dport) if forward else (self.rv_sport, self.rv_dport)
        )
        return udp_header(source, "sport", destination, "dport")


class LinkParams(PortParams):
    """The addresses of both links; all test hosts are routed behind the tester's."""

    dut_left_ipv6: IPv6Interface = device("2001:2:0:f000::1/64", "left")
    dut_right_ipv6: IPv6Interface = device("2001:2:0:f001::1/64", "right")
    tester_left_ipv6: IPv6Address = tester("2001:2:0:f000::2", "left")
    tester_right_ipv6: IPv6Address = tester("2001:2:0:f001::2", "right")

    def link_intent(
        self,
        side: str,
        link: Link,
        ipv4: tuple[IPv4Interface, IPv4Address] | None,
        routes: Mapping[Any, object] | None = None,
    ) -> LinkIntent:
        """Describe a link for a device intent.

        Args:
            side: ``left`` or ``right``.
            link: the cable.
            ipv4: the device's and the tester's address; None: the link carries IPv6 only.
            routes: networks behind the tester, each with its next hop.
        """
        own, tester = getattr(self, f"dut_{side}_ipv6"), getattr(self, f"tester_{side}_ipv6")
        if ipv4 is None:
            return LinkIntent.describe(link, [own], [tester], routes)
        return LinkIntent.describe(link, [ipv4[0], own], [ipv4[1], tester], routes)


def describe_link(
    params: PluginParams,
    links: Links,
    side: Literal["left", "right"],
    networks: Iterable[object] = (),
) -> LinkIntent:
    """Describe a link by the parameters ``dut_<side>_ipv4``, ``tester_<side>_ipv6`` and so on.

    Args:
        params: of a technology.
        links: both cables.
        side: of the link.
        networks: behind the tester; the first of its addresses is the next hop.
    """
    device, tester = (
        [
            getattr(params, f"{who}_{side}_ipv{version}")
            for version in (4, 6)
            if f"{who}_{side}_ipv{version}" in type(params).model_fields
        ]
        for who in ("dut", "tester")
    )
    return LinkIntent.describe(
        getattr(links, side), device, tester, dict.fromkeys(networks, tester[0])
    )


def udp_header(
    source: PortRange, source_name: str, destination: PortRange, destination_name: str
) -> Layer:
    """Return a UDP header whose ports take all values of their ranges, with the names of both variables."""
    fields = {
        "sport": source.variable(source_name) or source.min,
        "dport": destination.variable(destination_name) or destination.min,
    }
    return Layer("UDP", fields)


def sending_link(links: Links, direction: Direction) -> Link:
    """The link on which the tester sends in a direction."""
    return links.left if direction == "forward" else links.right


def ethernet(links: Links, direction: Direction, vlan: int | None = None) -> list[Layer]:
    """Ethernet header, and VLAN tag where the link has one, of frames the tester sends.

    Args:
        links: both cables.
        direction: which way.
        vlan: instead of the link's own.
    """
    link = sending_link(links, direction)
    layers = [Layer("Ether", {"src": link.tester_mac, "dst": link.dut_mac})]
    if vlan is None:
        vlan = link.vlan
    if vlan is not None:
        layers.append(Layer("Dot1Q", {"vlan": vlan}))
    return layers


def ipv4(params: Mixture, src: object, dst: object) -> Layer:
    """Return the IPv4 header of test frames; addresses may be expressions."""
    flags = 2 if params.df else 0
    return Layer(
        "IP", {"src": _field(src), "dst": _field(dst), "ttl": params.ttl, "id": 0, "flags": flags}
    )


def ipv6(params: Mixture, src: object, dst: object) -> Layer:
    """Return the IPv6 header of test frames; addresses may be expressions."""
    return Layer("IPv6", {"src": _field(src), "dst": _field(dst), "hlim": params.ttl})


def _field(value: object) -> object:
    return value if isinstance(value, (Expression, Variable)) else str(value)


def background(
    params: Mixture,
    links: Links,
    direction: Direction,
    size: int,
    ends: tuple[IPv6Address, IPv6Address],
) -> TrafficClass:
    """Native IPv6 between the tester's own addresses, on its own VLANs where it has some (MIX-04).

    Args:
        params: ports and hop limit.
        links: where it is sent.
        direction: which way.
        size: octets without VLAN tag, FCS included: those of the IPv6 foreground frame.
        ends: addresses on the left and on the right.

    Raises:
        UsageError: no IPv6 test frame has this size.
    """
    link = sending_link(links, direction)
    if size < IPV6_UDP_OCTETS:
        raise UsageError(
            f"background frames are IPv6 and need {IPV6_UDP_OCTETS} octets, not {size}",
            f"set n = m, or choose frames of at least {IPV6_UDP_OCTETS} octets",
            code="frame-too-small",
        )
    size += tag_octets(link)
    for each in (links.left, links.right):
        check_mtu(size - tag_octets(link) + tag_octets(each), each, "IPv6")
    vlan, vlans = None, links.background_vlans
    if vlans is not None:
        ends = IPv6Address(vlans[0].tester), IPv6Address(vlans[1].tester)
        vlan = vlans[0 if direction == "forward" else 1].vlan
    src, dst = ends if direction == "forward" else ends[::-1]
    layers = (
        *ethernet(links, direction, vlan),
        ipv6(params, src, dst),
        udp_header(params.bg_sport, "bg_sport", params.bg_dport, "bg_dport"),
    )
    return TrafficClass("bg", Role.BACKGROUND, layers, size)


def background_of(
    params: Mixture,
    links: Links,
    direction: Direction,
    sizes: FramePair,
    ends: tuple[IPv6Address, IPv6Address],
    ipv6_link: Link,
) -> list[TrafficClass]:
    """The background class, if the mixture has one; as large as the frame on ``ipv6_link``."""
    if params.n == params.m:
        return []
    return [background(params, links, direction, sizes.ipv6 - tag_octets(ipv6_link), ends)]


def mixed(
    params: Mixture,
    direction: Direction,
    foreground: Sequence[tuple[TrafficClass, int]],
    behind: Sequence[TrafficClass],
    negative: Sequence[TrafficClass],
    percent: int,
    seed: int,
) -> Traffic:
    """All classes with their weights.

    Args:
        params: n and m.
        direction: of the traffic.
        foreground: classes and their shares of the foreground.
        behind: background classes.
        negative: classes to be dropped, in equal shares.
        percent: of all frames that are negative [%]; without effect if there is no such class.
        seed: of the pseudorandom numbers.
    """
    kinds = len(negative) if percent else 0
    shares = sum(share for _, share in foreground)
    scale = kinds * (100 - percent) if kinds else 1
    parts = foreground if params.m else ()  # no foreground: the reference of a series of mixtures
    classes = [replace(c, weight=scale * params.m * share) for c, share in parts]
    classes += [replace(c, weight=scale * (params.n - params.m) * shares) for c in behind]
    if kinds:
        classes += [replace(c, weight=params.n * shares * percent) for c in negative]
    return Traffic(direction, tuple(classes), seed)


def foreground(
    technology: Technology,
    direction: Direction,
    sizes: FramePair,
    *headers: Layer,
    draw_order: tuple[str, ...] = (),
) -> TrafficClass:
    """Return the foreground class of a technology with :class:`LinkParams`.

    Args:
        technology: with its parameters and links.
        direction: of the frames.
        sizes: on both sides.
        headers: between Ethernet and UDP.
        draw_order: see :class:`~v6t.profiles.model.TrafficClass`.
    """
    layers = (*ethernet(technology.links, direction), *headers, technology.params.udp(direction))
    size = technology.side_sizes(sizes)[0 if direction == "forward" else 1]
    return TrafficClass("fg", Role.FOREGROUND, layers, size, draw_order=draw_order)


def combine(
    technology: Technology,
    foreground: TrafficClass,
    negative: Sequence[TrafficClass],
    direction: Direction,
    sizes: FramePair,
    seed: int,
    ends: tuple[IPv6Address, IPv6Address] | None = None,
) -> Traffic:
    """Combine foreground, background and negative classes of a technology with :class:`LinkParams`.

    Args:
        technology: with its parameters and links.
        foreground: the only class.
        negative: classes to be dropped.
        direction: of the frames.
        sizes: on both sides.
        seed: of the pseudorandom numbers.
        ends: background addresses left and right; None: the tester's.
    """
    p, links = technology.params, technology.links
    ipv6_link = links.right if technology.ip_versions == (4, 6) else links.left
    ends = ends or (p.tester_left_ipv6, p.tester_right_ipv6)
    behind = background_of(p, links, direction, sizes, ends, ipv6_link)
    return mixed(p, direction, [(foreground, 1)], behind, negative, p.negative_percent, seed)


def change_header(
    foreground: TrafficClass, name: str, layer: str, **fields: object
) -> TrafficClass:
    """Return a negative class: the foreground class with other fields in one header."""
    return negative_like(foreground, name, layers=foreground.replace_fields(layer, **fields))


def negative_like(traffic_class: TrafficClass, name: str, **changed: object) -> TrafficClass:
    """A class that must be dropped, like a foreground class but for what is changed."""
    return replace(traffic_class, name=name, role=Role.NEGATIVE, **changed)  # type: ignore[arg-type]


def replaced(traffic_class: TrafficClass, layer: str, **fields: object) -> tuple[Layer, ...]:
    """The layers of a class with some fields of one header changed."""
    return tuple(
        Layer(each.name, {**each.fields, **fields}) if each.name == layer else each
        for each in traffic_class.layers
    )
