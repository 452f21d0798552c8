"""The suite ``translation``: RFC 7915 clause by clause, RFC 6052's prefix lengths and well-known prefix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Any

from v6t.plugins.clauses import (
    rfc7599_ports,
    rfc7757_hairpin,
    rfc7915_four,
    rfc7915_icmp,
    rfc7915_icmpv6,
    rfc7915_six,
    rfc7915_sizes,
)
from v6t.plugins.clauses.base import Clause, Suite
from v6t.plugins.clauses.packets import UDP, ip4, ip6, udp
from v6t.plugins.clauses.translator import (
    TranslatorEnds,
    from_four,
    from_six,
    not_from_four,
    not_from_six,
    one,
    translator,
    unrepresentable,
    wants_other_prefix,
)
from v6t.plugins.customer_edge.plugins import MapTCe
from v6t.plugins.map.mapt_br import MapTBorderRelay
from v6t.plugins.nat.nat64 import Nat64
from v6t.plugins.siit.clat import Clat
from v6t.plugins.siit.siit import Siit
from v6t.plugins.translation import rfc6052
from v6t.plugins.translation.rfc6052 import WELL_KNOWN

if TYPE_CHECKING:
    from v6t.plugins.base import Technology


_WELL_KNOWN = "well-known prefix"
_GLOBAL = "8.8.4.4"
_MAPPED = IPv4Address("198.18.0.65")
_SERVERS = ("198.19.0.0/24", "2001:2:0:1::/120")
_HOSTS = {
    "ipv6_hosts": {"first": str(_MAPPED - 1), "last": str(_MAPPED), "policy": "random"},
    "ipv4_hosts": {"first": "198.19.0.2", "last": "198.19.0.2", "policy": "random"},
}
"""Hosts that these tables map, whatever hosts the user named."""
_PLAIN = ("198.18.0.0/24", "2001:2::/120")
_HAIRPIN = "a prefix beside mappings"
_LOWEST = 1400
_RAISED = f"lowest-ipv6-mtu of {_LOWEST}"
_OVERLAPPING, _UNLIKE = "overlapping mappings", "mappings of unlike lengths"
_TABLES: dict[str, tuple[tuple[tuple[str, str], ...], IPv6Address]] = {
    _OVERLAPPING: (
        (_PLAIN, ("198.18.0.64/26", "2001:2:0:64::/122")),
        IPv6Address("2001:2:0:64::1"),
    ),
    _UNLIKE: ((("198.18.0.0/24", "2001:2:0:64::/64"),), IPv6Address("2001:2:0:64:4100::")),
}
"""Address tables of RFC 7757, and what 198.18.0.65 is by each: by the longest prefix; with zeros behind."""
_PREFIXES = {length: f"2001:db8:{0x6400 + length:x}::/{length}" for length in (48, 56, 64, 96)}
_PREFIXES.update({32: "2001:dba::/32", 40: "2001:dba:6400::/40"})
_PARAMETER = {
    Siit: "prefix",
    Clat: "plat_prefix",
    Nat64: "prefix",
    MapTBorderRelay: "dmr",
    MapTCe: "dmr",
}


def _beyond(technology: Technology) -> dict[str, Any]:
    """A host that is behind the prefix and has a global address."""
    if isinstance(technology, Nat64):
        return {"responder_ipv4": _GLOBAL}
    beyond = {"first": _GLOBAL, "last": _GLOBAL}
    if isinstance(technology, Clat):
        return {"ipv6_hosts": beyond}
    return {**_HOSTS, "ipv4_hosts": beyond, "eam": _table(_PLAIN), "eam_file": None}


def _table(*rows: tuple[str, str]) -> list[dict[str, str]]:
    return [{"ipv4": four, "ipv6": six} for four, six in rows]


class Translation(Suite):
    """For every technology that translates between IPv6 on one link and IPv4 on the other."""

    name = "translation"
    title = "RFC 7915 both ways, prefixes of RFC 6052, address tables of RFC 7757"
    core = ("5.1-udp", "5.1-ttl", "5.1-df-46", "4.1-udp", "4.1-hop-limit", "4.5-udp-checksum-ffff")

    def clauses(self, technology: Technology) -> Iterator[Clause]:
        """All of RFC 7915 with the addresses of the technology."""
        t = translator(technology)
        if t is None or unrepresentable(t):
            return
        yield from rfc7915_six.clauses(t)
        yield from rfc7915_four.clauses(t)
        yield from rfc7915_sizes.clauses(t)
        yield from rfc7915_icmp.clauses(t)
        yield from rfc7915_icmpv6.clauses(t)
        if isinstance(technology, MapTCe):
            yield from rfc7599_ports.clauses(t, technology.params.customer.ports)

    def unmet(self, technology: Technology) -> tuple[str, str] | None:
        """Refuse private hosts behind the well-known prefix."""
        t = translator(technology)
        hidden = None if t is None else unrepresentable(t)
        return None if hidden is None else wants_other_prefix(hidden)

    def preferred(self, technology: Technology) -> Mapping[str, Any]:
        """Not the well-known prefix: a right device refuses addresses for benchmarks behind it.

        A CE with an address of its own: more can be asked of it than of one with a share.
        """
        if isinstance(technology, Clat):
            return {"plat_prefix": _PREFIXES[96]}
        if isinstance(technology, MapTCe):
            return {"ea_len": technology.params.rule.suffix_len}
        return {}

    def variants(self, technology: Technology) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Another ``lowest-ipv6-mtu``; a prefix of each length, and the well-known one."""
        name = next((n for kind, n in _PARAMETER.items() if isinstance(technology, kind)), None)
        if name is None:
            return
        more = {"eam": [], "eam_file": None} if isinstance(technology, Siit) else {}
        if not isinstance(technology, Nat64):
            yield _RAISED, {"lowest_ipv6_mtu": _LOWEST}
        for length in sorted(_PREFIXES):
            yield f"prefix of /{length}", {name: _PREFIXES[length], **more}
        if isinstance(technology, (MapTBorderRelay, MapTCe)):
            return
        if isinstance(technology, Siit):
            for words, (inner, _) in _TABLES.items():
                yield words, {**more, "eam": _table(*inner, _SERVERS), **_HOSTS}
            both = {"prefix": _PREFIXES[96], "eam": _table(_PLAIN, _SERVERS)}
            yield _HAIRPIN, {**more, **both, **_HOSTS}
        yield _WELL_KNOWN, {name: str(WELL_KNOWN), **_beyond(technology)}

    def varied(self, technology: Technology, variant: str) -> Iterator[Clause]:
        """A packet each way behind each prefix; what the well-known prefix must not hold."""
        t = translator(technology)
        if t is None or (variant != _WELL_KNOWN and unrepresentable(t)):
            return
        if variant == _RAISED:
            yield from rfc7915_sizes.without_df(replace(t, lowest=_LOWEST), f"-{_LOWEST}")
            return
        if variant == _WELL_KNOWN:
            yield from _well_known(t, technology)
            return
        if variant == _HAIRPIN:
            yield from rfc7757_hairpin.clauses(t, technology.params)  # type: ignore[arg-type]
            return
        if variant in _TABLES:
            yield from _mapped(replace(t, six=_TABLES[variant][1], six4=(_MAPPED,)), variant)
            return
        length = int(variant.rpartition("/")[2])
        yield Clause(
            f"rfc6052-2.2-up-{length}",
            "RFC 6052",
            "2.2",
            "MUST",
            f"an IPv4 address is found behind a prefix of /{length}",
            from_six(
                t,
                rfc7915_six.datagram(t),
                f"IPv4 to {t.four}",
                one(lambda p: rfc7915_six.addressed(t, p)),
                plain=True,
            ),
        )
        yield Clause(
            f"rfc6052-2.2-down-{length}",
            "RFC 6052",
            "2.2",
            "MUST",
            f"an IPv4 address is embedded behind a prefix of /{length}, bits 64 to 71 zero",
            from_four(
                t,
                lambda where: rfc7915_four.datagram(t, where),
                f"IPv6 from {t.four6}",
                one(lambda p: rfc7915_four.addressed(t, p)),
                plain=True,
            ),
        )


def _mapped(t: TranslatorEnds, variant: str) -> Iterator[Clause]:
    """One address both ways."""
    longest = variant == _OVERLAPPING
    name = "longest" if longest else "padded"
    yield Clause(
        f"rfc7757-3.3.1-{name}",
        "RFC 7757",
        "3.3.1",
        "MUST",
        f"{_MAPPED} becomes {t.six}: "
        + ("the longest IPv4 prefix tells" if longest else "zeros follow the suffix"),
        from_four(
            t,
            lambda where: rfc7915_four.datagram(t, where),
            f"IPv6 to {t.six}",
            one(lambda p: rfc7915_four.addressed(t, p)),
            plain=True,
        ),
    )
    there = t if longest else replace(t, six=t.six + 7)
    yield Clause(
        f"rfc7757-3.3.2-{name}",
        "RFC 7757",
        "3.3.2",
        "MUST",
        f"{there.six} becomes {_MAPPED}: "
        + ("the longest IPv6 prefix tells" if longest else "bits behind the suffix are discarded"),
        from_six(
            there,
            rfc7915_six.datagram(there),
            f"IPv4 from {_MAPPED}",
            one(lambda p: rfc7915_six.addressed(there, p)),
            plain=True,
        ),
    )


def _well_known(t: TranslatorEnds, technology: Technology) -> Iterator[Clause]:
    """Section 3.1: a global address passes, one that is not, but could be reached, does not."""
    yield Clause(
        "rfc6052-3.1-global",
        "RFC 6052",
        "3.1",
        "MAY",
        f"{t.four if t.four.is_global else t.six4[0]}, which is global, may stand behind the prefix",
        from_six(
            t, t.up(), f"IPv4 to {t.four}", one(lambda p: rfc7915_six.addressed(t, p)), plain=True
        ),
    )
    neighbors = getattr(technology.dut_intent(), t.four_side).neighbors
    near = next(a for a in neighbors if isinstance(a, IPv4Address))
    behind = rfc6052.embed(WELL_KNOWN, near)
    clat = isinstance(technology, Clat)
    ends = (behind, t.four6) if clat else (t.six, behind)
    yield Clause(
        "rfc6052-3.1-not-global",
        "RFC 6052",
        "3.1",
        "MUST",
        f"a packet {'from' if clat else 'for'} {near}, which is not global, behind the prefix is dropped",
        not_from_six(t, ip6(*ends, UDP, udp(*ends, (t.port, t.server_port))), "not forwarded"),
    )
    if not t.stateful and not clat:
        yield Clause(
            "rfc6052-3.1-not-represented",
            "RFC 6052",
            "3.1",
            "MUST",
            f"the well-known prefix does not represent {near}, which is not global",
            not_from_four(
                t,
                lambda where: ip4(
                    near, where[0], UDP, udp(near, where[0], (t.server_port, where[1]))
                ),
                "not forwarded",
            ),
        )
