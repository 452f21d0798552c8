"""What the traffic of all technologies has in common: headers, background, negative classes, weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv6Address
from typing import Any

from v6t.base.errors import UsageError
from v6t.packets.direction import Direction
from v6t.plugins.base import Link, Links, Technology
from v6t.plugins.frame_sizes import IPV6_UDP_OCTETS, check_mtu, tag_octets
from v6t.plugins.params import Mixture
from v6t.plugins.ports import udp_header
from v6t.profiles.model import Expression, FramePair, Layer, Role, Traffic, TrafficClass


def sending_link(links: Links, direction: Direction) -> Link:
    """Return the link on which the tester sends in a direction."""
    return links.left if direction == "forward" else links.right


def ethernet(links: Links, direction: Direction, vlan: int | None = None) -> list[Layer]:
    """Return the Ethernet header, and the VLAN tag of the link if it has one, of frames of the tester.

    Args:
        links: both cables.
        direction: of the frames.
        vlan: in place of the link's.
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
    addresses = {"src": _field(src), "dst": _field(dst)}
    return Layer("IP", {**addresses, "ttl": params.ttl, "id": 0, "flags": flags})


def ipv6(params: Mixture, src: object, dst: object) -> Layer:
    """Return the IPv6 header of test frames; addresses may be expressions."""
    return Layer("IPv6", {"src": _field(src), "dst": _field(dst), "hlim": params.ttl})


def _field(address: object) -> object:
    return address if isinstance(address, Expression) else str(address)


def background(
    params: Mixture,
    links: Links,
    direction: Direction,
    size: int,
    ends: tuple[IPv6Address, IPv6Address],
) -> TrafficClass:
    """Return the class of native IPv6 between the tester's addresses, or those of the background VLANs.

    Args:
        params: ports and hop limit.
        links: both cables.
        direction: of the frames.
        size: octets without VLAN tag, FCS included, of the IPv6 foreground frame.
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
    """Return the background class, if the mixture has one; it is as large as the frame on ``ipv6_link``."""
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
    """Combine classes into traffic and give them weights.

    Args:
        params: n and m.
        direction: of the traffic.
        foreground: classes and their shares of the foreground.
        behind: background classes.
        negative: classes to be dropped, in equal shares.
        percent: of all frames that are negative [%]; without effect if there are none.
        seed: of the pseudorandom numbers.
    """
    kinds = len(negative) if percent else 0
    shares = sum(share for _, share in foreground)
    scale = kinds * (100 - percent) if kinds else 1
    parts = foreground if params.m else ()
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
    params: Any = technology.params
    layers = (*ethernet(technology.links, direction), *headers, params.udp(direction))
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
    p: Any = technology.params
    links = technology.links
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
    """Return a class that must be dropped: a foreground class with changes."""
    return replace(traffic_class, name=name, role=Role.NEGATIVE, **changed)  # type: ignore[arg-type]
