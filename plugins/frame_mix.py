"""A technology's traffic in several frame sizes at once (RFC 6985), made of that of each size.

Each size is what it is alone: the same classes, bindings and pairs of sizes on both sides. A round
of the mix holds every class in the proportion of its size and of its share; the order in which the
frames of all classes alternate is that of every traffic (``v6t.profiles.compiler.schedule``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from v6t.base.errors import UsageError
from v6t.profiles import mixes
from v6t.profiles.mixes import FrameMix
from v6t.profiles.model import FramePair, Role, Traffic, TrafficClass

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
