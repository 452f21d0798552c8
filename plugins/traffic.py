"""Common parts of all test traffic: headers, background, negative classes, weights."""

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv6Address
from typing import Any

from v6t.base.errors import UsageError
from v6t.packets.direction import Direction
from v6t.plugins.base import Links, Technology
from v6t.plugins.frame_sizes import IPV6_UDP_OCTETS, check_mtu, count_tag_octets
from v6t.plugins.params import Mixture
from v6t.plugins.ports import make_udp_header
from v6t.profiles.model import Expression, FramePair, Layer, Role, Traffic, TrafficClass

Ends = tuple[IPv6Address, IPv6Address]  # of background traffic, on the left and on the right


def make_ethernet(links: Links, direction: Direction, vlan: int | None = None) -> list[Layer]:
    """Return the Ethernet header of the tester's frames, with the VLAN tag of the link or with ``vlan``."""
    link = links.left if direction == "forward" else links.right
    layers = [Layer("Ether", {"src": link.tester_mac, "dst": link.dut_mac})]
    tag = link.vlan if vlan is None else vlan
    return layers if tag is None else [*layers, Layer("Dot1Q", {"vlan": tag})]


def make_ipv4(params: Mixture, src: object, dst: object) -> Layer:
    """Return the IPv4 header of test frames; addresses may be expressions."""
    flags = 2 if params.df else 0
    addresses = {"src": _to_field(src), "dst": _to_field(dst)}
    return Layer("IP", {**addresses, "ttl": params.ttl, "id": 0, "flags": flags})


def make_ipv6(params: Mixture, src: object, dst: object) -> Layer:
    """Return the IPv6 header of test frames; addresses may be expressions."""
    return Layer("IPv6", {"src": _to_field(src), "dst": _to_field(dst), "hlim": params.ttl})


def _to_field(address: object) -> object:
    """Return an address as text, and an expression unchanged."""
    return address if isinstance(address, Expression) else str(address)


def _build_background(
    technology: Technology, direction: Direction, sizes: FramePair, bg_ends: Ends | None
) -> list[TrafficClass]:
    params: Any = technology.params
    links, side, vlan = technology.links, 0 if direction == "forward" else 1, None
    if params.n == params.m:
        return []
    ipv6_link = links.right if technology.ip_versions == (4, 6) else links.left
    if (size := sizes.ipv6 - count_tag_octets(ipv6_link)) < IPV6_UDP_OCTETS:
        problem = f"background frames are IPv6 and need {IPV6_UDP_OCTETS} octets, not {size}"
        hint = f"set n = m, or choose frames of at least {IPV6_UDP_OCTETS} octets"
        raise UsageError(problem, hint, code="frame-too-small")
    for link in (links.left, links.right):
        check_mtu(size + count_tag_octets(link), link, "IPv6")
    if links.background_vlans is not None:
        left, right = links.background_vlans
        bg_ends = IPv6Address(left.tester), IPv6Address(right.tester)
        vlan = (left, right)[side].vlan
    elif bg_ends is None:
        bg_ends = params.tester_left_ipv6, params.tester_right_ipv6
    header = make_ipv6(params, bg_ends[side], bg_ends[1 - side])
    udp = make_udp_header(params.bg_sport, params.bg_dport, "bg_")
    layers = (*make_ethernet(links, direction, vlan), header, udp)
    size += count_tag_octets((links.left, links.right)[side])
    return [TrafficClass("bg", Role.BACKGROUND, layers, size)]


def combine(
    technology: Technology,
    foreground: TrafficClass | Sequence[tuple[TrafficClass, int]],
    negative: Sequence[TrafficClass],
    direction: Direction,
    sizes: FramePair,
    seed: int,
    bg_ends: Ends | None = None,
) -> Traffic:
    """Combine traffic classes and the configured background, and set their weights.

    Several foreground classes have a share each; negative classes share ``negative_percent`` equally.
    Background frames go between ``bg_ends``, by default the tester's addresses, or in their own VLANs.
    """
    p: Any = technology.params
    if isinstance(foreground, TrafficClass):
        foreground = [(foreground, 1)]
    percent = getattr(p, "negative_percent", 0)
    kinds = len(negative) if percent else 0
    shares = sum(share for _, share in foreground)
    scale = kinds * (100 - percent) if kinds else 1
    classes = [replace(c, weight=scale * p.m * share) for c, share in foreground if p.m]
    for c in _build_background(technology, direction, sizes, bg_ends):
        classes.append(replace(c, weight=scale * (p.n - p.m) * shares))
    if kinds:
        classes += [replace(c, weight=p.n * shares * percent) for c in negative]
    return Traffic(direction, tuple(classes), seed)


def make_foreground(
    technology: Technology,
    direction: Direction,
    sizes: FramePair,
    *headers: Layer,
    draw_order: tuple[str, ...] = (),
) -> TrafficClass:
    """Return the foreground class with Ethernet, ``headers`` and UDP, for :class:`LinkParams`."""
    params: Any = technology.params
    udp = params.make_udp_header(direction)
    layers = (*make_ethernet(technology.links, direction), *headers, udp)
    size = technology.list_link_sizes(sizes)[0 if direction == "forward" else 1]
    return TrafficClass("fg", Role.FOREGROUND, layers, size, draw_order=draw_order)


def change_header(traffic: TrafficClass, name: str, layer: str, **fields: object) -> TrafficClass:
    """Return a negative class: the foreground class with changed fields in one header."""
    return derive_negative(traffic, name, layers=traffic.replace_fields(layer, **fields))


def derive_negative(traffic_class: TrafficClass, name: str, **changed: object) -> TrafficClass:
    """Return a negative class: the foreground class with changed attributes."""
    return replace(traffic_class, name=name, role=Role.NEGATIVE, **changed)  # type: ignore[arg-type]
