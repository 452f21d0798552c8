"""Rules within rules: whose CEs exist when longest prefix match decides (MAP-13)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network

from v6t.plugins.map.rules import MapRule


def served_ea(rule: MapRule, low: int, high: int, others: Iterable[MapRule]) -> list[range]:
    """EA values ``low..high`` of a rule's CEs that no narrower rule takes over.

    A BR looks up the longest IPv6 prefix forward and the longest IPv4 prefix in reverse. A CE
    whose addresses lie in a rule within its own would lose its frames one way or the other.

    Returns:
        Ascending, disjoint, not empty ranges.
    """
    free = [range(low, high + 1)] if low <= high else []
    for other in others:
        for lost in _lost(rule, other):
            cut = (
                part
                for r in free
                for part in (
                    range(r.start, min(r.stop, lost.start)),
                    range(max(r.start, lost.stop), r.stop),
                )
            )
            free = [part for part in cut if part]
    return free


def pick(ranges: Iterable[range], place: int) -> int:
    """The value number ``place`` (from 0) of all ranges together."""
    for values in ranges:
        if place < len(values):
            return values[place]
        place -= len(values)
    raise IndexError(place)


def _lost(rule: MapRule, other: MapRule) -> Iterator[range]:
    pairs: tuple[tuple[IPv6Network | IPv4Network, IPv6Network | IPv4Network], ...] = (
        (rule.ipv6_prefix, other.ipv6_prefix),
        (rule.ipv4_prefix, other.ipv4_prefix),
    )
    for wide, narrow in pairs:
        more = narrow.prefixlen - wide.prefixlen
        if more <= 0 or narrow.network_address not in wide:
            continue
        beyond = int(narrow.network_address) << rule.ea_len >> wide.max_prefixlen - wide.prefixlen
        first = beyond & (rule.ce_count - 1)
        yield range(first, first + (1 << max(0, rule.ea_len - more)))
