"""Frame sizes on both sides of a device (GEN-04 to GEN-06), FCS and VLAN tags included."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from v6t.base.errors import UsageError
from v6t.intent.device import Link
from v6t.packets.trailer import LENGTH as TRAILER_OCTETS
from v6t.profiles import mixes
from v6t.profiles.mixes import FrameMix
from v6t.profiles.model import FramePair, Role, Traffic, TrafficClass
from v6t.profiles.wire import FCS_OCTETS, MIN_FRAME_OCTETS

ETHERNET_OCTETS = 14
TAG_OCTETS = 4
IPV6_UDP_OCTETS = ETHERNET_OCTETS + 40 + 8 + TRAILER_OCTETS + FCS_OCTETS
"""Smallest IPv6 test frame: UDP with room for the tester's trailer."""


IPV4_SIZES = (64, 128, 256, 512, 768, 1024, 1280, 1518)
"""Frame sizes of RFC 8219 section 5.1.1 where a link carries IPv4 on both sides (GEN-04)."""
IPV6_SIZES = (84, *IPV4_SIZES[1:])
"""Where the larger frame is plain IPv6."""
TUNNEL_SIZES = (104, 168, 296, 552, 808, 1064, 1320, 1518)
"""Where the larger frame is IPv4 in IPv6: the inner ones are those of IPv4."""


def tag_octets(link: Link) -> int:
    """Octets of the link's VLAN tag."""
    return 0 if link.vlan is None else TAG_OCTETS


def translated_pair(size: int, overhead: int, ipv6: Link, ipv4: Link, name: str) -> FramePair:
    """Sizes of a packet that is ``overhead`` octets longer in (or as) IPv6.

    Args:
        size: the listed size, of the IPv6 frame.
        overhead: 20 for translation, 40 for encapsulation, -20 for IPv6 in IPv4.
        ipv6: the link that carries IPv6.
        ipv4: the other link.
        name: of the technology, for errors.

    Raises:
        UsageError: one of the frames cannot exist.
    """
    smallest = IPV6_UDP_OCTETS + tag_octets(ipv6)
    if overhead < 0 and size < smallest:
        raise UsageError(
            f"an IPv6 test frame of {size} octets cannot be: UDP and the tester's "
            f"{TRAILER_OCTETS} octets of mark need {smallest}",
            "sizes are those of the IPv6 frame, FCS included",
            code="frame-too-small",
        )
    ipv4_size = size - overhead - tag_octets(ipv6) + tag_octets(ipv4)
    if ipv4_size < MIN_FRAME_OCTETS + tag_octets(ipv4):
        raise UsageError(
            f"an IPv6 frame of {size} octets holds no IPv4 frame of at least "
            f"{MIN_FRAME_OCTETS} octets: {name} adds {overhead}",
            f"the smallest is {MIN_FRAME_OCTETS + overhead + tag_octets(ipv6)}; sizes are those "
            "of the IPv6 frame, FCS included",
            code="frame-too-small",
        )
    check_mtu(size, ipv6, "IPv6")
    check_mtu(ipv4_size, ipv4, "IPv4")
    return FramePair(size, ipv4_size)


def routed_pair(size: int, left: Link, right: Link, version: int) -> FramePair:
    """Sizes of a routed packet: ``ipv6`` is the left frame's, ``ipv4`` the right one's.

    Raises:
        UsageError: one of the frames cannot exist.
    """
    smallest = MIN_FRAME_OCTETS if version == 4 else IPV6_UDP_OCTETS
    smallest += tag_octets(left)
    if size < smallest:
        raise UsageError(
            f"an IPv{version} test frame of {size} octets cannot be: UDP and the tester's "
            f"{TRAILER_OCTETS} octets of mark need {smallest}",
            f"choose {smallest} octets or more, FCS included",
            code="frame-too-small",
        )
    other = size - tag_octets(left) + tag_octets(right)
    check_mtu(size, left, f"IPv{version}")
    check_mtu(other, right, f"IPv{version}")
    return FramePair(size, other)


def check_mtu(size: int, link: Link, version: str) -> None:
    """Refuse a frame (FCS and tag included) that is longer than its link carries."""
    largest = link.mtu + ETHERNET_OCTETS + tag_octets(link) + FCS_OCTETS
    if size > largest:
        raise UsageError(
            f"an {version} frame of {size} octets does not fit a link with an MTU of "
            f"{link.mtu}: {largest} octets at most, FCS included",
            "choose a smaller frame size or raise the link's mtu in the testbed file",
            code="frame-too-long",
        )


def check_whole(df: bool, ipv6_frame: int, link: Link, lowest_ipv6_mtu: int) -> None:
    """Refuse IPv4 test packets that a correct translator would fragment (GEN-07).

    Args:
        df: whether they have Don't Fragment set.
        ipv6_frame: size of the translated frame, FCS and tag included.
        link: that carries it.
        lowest_ipv6_mtu: of the translator (RFC 7915 section 4).

    Raises:
        UsageError: they would be fragmented.
    """
    around = tag_octets(link) + ETHERNET_OCTETS + FCS_OCTETS
    octets, largest = ipv6_frame - around, lowest_ipv6_mtu + around
    if not df and octets > lowest_ipv6_mtu:
        raise UsageError(
            f"a translator fragments IPv4 packets without DF that become {octets} octets of "
            f"IPv6: more than its lowest_ipv6_mtu of {lowest_ipv6_mtu}",
            f"set df, choose IPv6 frames of at most {largest} octets, or raise lowest_ipv6_mtu, where "
            "the technology has it, here and on the device",
            code="frame-too-long",
        )


MOVED = 128
"""A listed size is changed by no more octets: headers of all technologies are shorter."""


def frame_mix(text: str, pair: Callable[[int], FramePair]) -> FrameMix:
    """The pairs of a mix; a size too small for the technology is raised to its smallest.

    So the 64 octets that every Internet mix begins with are an IPv6 frame of 84 or 104 octets where
    RFC 8219 section 5.1.1 has that in place of 64. One that is too large by no more than headers
    is lowered: IPv6 in IPv4 has no room for 1518 octets. Sizes that become the same are one.

    Args:
        text: as listed.
        pair: the technology's sizes for a listed one.

    Raises:
        UsageError: a size cannot exist, nor one near it.
    """
    counts: dict[FramePair, int] = {}
    for size, count in mixes.parts(text):
        frame_pair = _fitted(size, pair)
        counts[frame_pair] = counts.get(frame_pair, 0) + count
    return FrameMix(tuple(counts.items()))


def _fitted(size: int, pair: Callable[[int], FramePair]) -> FramePair:
    for octets in (*range(size, size + MOVED), *range(size - 1, size - MOVED, -1)):
        try:
            return pair(octets)
        except UsageError:
            continue
    return pair(size)


def mixed_traffic(
    sizes: FrameMix, make: Callable[[FramePair], Traffic], *, connections: bool
) -> Traffic:
    """One traffic of all sizes; a class of each is called by its octets, ``fg-84``.

    Args:
        sizes: in which proportion.
        make: the technology's traffic of one of them.
        connections: foreground classes enumerate the same connections in the same order, so that
            frames of every size belong to those that the first of them opened.
    """
    parts = [(make(pair), count) for pair, count in sizes.pairs]
    totals = [sum(c.weight for c in traffic.classes) for traffic, _ in parts]
    whole = math.lcm(*totals)
    classes = [
        _sized(c, c.weight * count * whole // total, connections)
        for (traffic, count), total in zip(parts, totals, strict=True)
        for c in traffic.classes
    ]
    common = math.gcd(*(c.weight for c in classes)) or 1
    traffic = parts[0][0]
    return replace(traffic, classes=tuple(replace(c, weight=c.weight // common) for c in classes))


def _sized(traffic_class: TrafficClass, weight: int, connections: bool) -> TrafficClass:
    draws = (
        traffic_class.name
        if connections and traffic_class.role is Role.FOREGROUND
        else traffic_class.draws
    )
    return replace(
        traffic_class,
        name=f"{traffic_class.name}-{traffic_class.frame_size}",
        weight=weight,
        draws=draws,
    )
