"""Frame sizes on both sides of a device, FCS and VLAN tags included, of one size or of a mix (RFC 6985)."""

import math
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Annotated

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.base.ethernet import FCS_OCTETS, MIN_FRAME_OCTETS
from v6t.intent.device import Link
from v6t.packets.trailer import LENGTH as TRAILER_OCTETS
from v6t.profiles import mixes
from v6t.profiles.mixes import FrameMix
from v6t.profiles.model import FramePair, Role, Traffic

ETHERNET_OCTETS, TAG_OCTETS = 14, 4
IPV6_UDP_OCTETS = ETHERNET_OCTETS + 40 + 8 + TRAILER_OCTETS + FCS_OCTETS  # smallest IPv6 test frame
# Translators send IPv4 packets without DF in IPv6 packets of at most this size (RFC 7915, section 4).
LOWEST_IPV6_MTU = 1280
# Type of the parameter ``lowest_ipv6_mtu``.
LowestIpv6Mtu = Annotated[
    int, Field(ge=1280, description="IPv4 packets without DF are fragmented to this (RFC 7915)")
]
MIX_SIZE_TOLERANCE = 128  # octets; an impossible size in a mix changes by less than this

# Frame sizes of RFC 8219, section 5.1.1, [octets with FCS], for IPv4, for IPv6, and for tunnels.
IPV4_SIZES = (64, 128, 256, 512, 768, 1024, 1280, 1518)
IPV6_SIZES = (84, *IPV4_SIZES[1:])
TUNNEL_SIZES = (104, 168, 296, 552, 808, 1064, 1320, 1518)  # those of IPv4 and 40 octets more


def count_tag_octets(link: Link) -> int:
    """Return the length of the link's VLAN tag, 0 without a tag."""
    return 0 if link.vlan is None else TAG_OCTETS


def make_translated_pair(size: int, overhead: int, ipv6: Link, ipv4: Link, name: str) -> FramePair:
    """Return the sizes of a translated packet: ``size`` octets with IPv6, ``overhead`` fewer with IPv4."""
    if overhead < 0:
        _check_udp_fits(size, IPV6_UDP_OCTETS + count_tag_octets(ipv6), 6)
    ipv4_size = size - overhead - count_tag_octets(ipv6) + count_tag_octets(ipv4)
    if ipv4_size < MIN_FRAME_OCTETS + count_tag_octets(ipv4):
        smallest = MIN_FRAME_OCTETS + overhead + count_tag_octets(ipv6)
        problem = f"an IPv6 frame of {size} octets is too small: {name} adds {overhead} to IPv4"
        hint = f"choose {smallest} octets or more, FCS included"
        raise UsageError(problem, hint, code="frame-too-small")
    check_mtu(size, ipv6, "IPv6")
    check_mtu(ipv4_size, ipv4, "IPv4")
    return FramePair(size, ipv4_size)


def make_routed_pair(size: int, left: Link, right: Link, version: int) -> FramePair:
    """Return the sizes of a routed packet: on the left link as ``ipv6``, on the right as ``ipv4``."""
    smallest = MIN_FRAME_OCTETS if version == 4 else IPV6_UDP_OCTETS
    _check_udp_fits(size, smallest + count_tag_octets(left), version)
    right_size = size - count_tag_octets(left) + count_tag_octets(right)
    check_mtu(size, left, f"IPv{version}")
    check_mtu(right_size, right, f"IPv{version}")
    return FramePair(size, right_size)


def _check_udp_fits(size: int, smallest: int, version: int) -> None:
    if size < smallest:
        problem = f"an IPv{version} frame of {size} octets is too short for UDP and the trailer"
        hint = f"choose {smallest} octets or more, FCS included"
        raise UsageError(problem, hint, code="frame-too-small")


def check_mtu(size: int, link: Link, version: str) -> None:
    """Refuse a frame (FCS and tag included) that exceeds the MTU of its link."""
    largest = link.mtu + ETHERNET_OCTETS + count_tag_octets(link) + FCS_OCTETS
    if size > largest:
        problem = f"an {version} frame of {size} octets exceeds the {largest} of a link's MTU of {link.mtu}"
        hint = "choose a smaller frame size or raise the link's mtu in the testbed file"
        raise UsageError(problem, hint, code="frame-too-long")


def check_unfragmented(df: bool, ipv6_frame: int, link: Link, lowest_ipv6_mtu: int) -> None:
    """Refuse IPv4 test packets that a correct translator would fragment (RFC 7915, section 4)."""
    around = count_tag_octets(link) + ETHERNET_OCTETS + FCS_OCTETS
    octets, largest = ipv6_frame - around, lowest_ipv6_mtu + around
    if not df and octets > lowest_ipv6_mtu:
        problem = f"without DF, {octets} octets of IPv6 exceed lowest_ipv6_mtu {lowest_ipv6_mtu}"
        hint = f"set df, choose IPv6 frames of at most {largest} octets, or raise lowest_ipv6_mtu"
        raise UsageError(problem, hint, code="frame-too-long")


def make_frame_mix(text: str, make_pair: Callable[[int], FramePair]) -> FrameMix:
    """Parse a mix and return its sizes on both links; impossible sizes become the nearest possible ones."""
    counts: Counter[FramePair] = Counter()
    for size, count in mixes.parse_mix(text):
        change = MIX_SIZE_TOLERANCE
        for octets in (*range(size, size + change), *range(size - 1, size - change, -1)):
            with suppress(UsageError):
                counts[make_pair(octets)] += count
                break
        else:
            make_pair(size)  # raises the error of the listed size
    return FrameMix(tuple(counts.items()))


def merge_traffic(
    sizes: FrameMix, build: Callable[[FramePair], Traffic], *, same_connections: bool
) -> Traffic:
    """Merge the traffic of all sizes of a mix; ``same_connections`` are enumerated by all sizes."""
    parts = [(build(pair), count) for pair, count in sizes.pair_counts]
    totals = [sum(c.weight for c in traffic.classes) for traffic, _ in parts]
    multiple = math.lcm(*totals)
    classes = []
    for (traffic, count), total in zip(parts, totals, strict=True):
        for c in traffic.classes:
            draws = c.name if same_connections and c.role is Role.FOREGROUND else c.draw_group
            weight = c.weight * count * multiple // total
            name = f"{c.name}-{c.frame_size}"
            classes.append(replace(c, name=name, weight=weight, draw_group=draws))
    common = math.gcd(*(c.weight for c in classes)) or 1
    classes = [replace(c, weight=c.weight // common) for c in classes]
    return replace(parts[0][0], classes=tuple(classes))
