"""What is asked of MAP relays in further configurations: a rule within another one, CEs with a prefix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from v6t.plugins.clauses.base import Clause, SideName
from v6t.plugins.clauses.ends import asked
from v6t.plugins.clauses.reading import Packet
from v6t.plugins.clauses.relay import Customer, RelayEnds, not_up
from v6t.plugins.clauses.relay_delivery import clause, to_customers
from v6t.plugins.map.params import Domain, MapParams
from v6t.plugins.map_rules import MapRule

OVERLAP, PREFIX = "a rule within another", "CEs with an IPv4 prefix"
_INNER_BITS, _PREFIX_BITS = 4, 2
"""IPv4 suffix bits of the inner rule; of a CE's prefix."""


def variants(params: MapParams) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Both, where the rule has room for them."""
    rule = params.rule
    if rule.shared and rule.suffix_len > _INNER_BITS and rule.ipv6_prefix.prefixlen:
        yield OVERLAP, {"ces": 2, "domains": [_within(rule)]}
    if _PREFIX_BITS < rule.suffix_len <= 64 + _PREFIX_BITS - rule.ipv6_prefix.prefixlen:
        yield PREFIX, {"ea_len": rule.suffix_len - _PREFIX_BITS, "ces": 2}


def _within(rule: MapRule) -> dict[str, Any]:
    """The last addresses of a rule, by another PSID offset, and beside its IPv6 prefix."""
    pool = list(rule.ipv4_prefix.subnets(new_prefix=32 - _INNER_BITS))[-1]
    width = 1 << 128 - rule.ipv6_prefix.prefixlen
    beside = rule.ipv6_prefix.network_address + width
    return {
        "rule_ipv6": f"{beside}/{rule.ipv6_prefix.prefixlen}",
        "rule_ipv4": str(pool),
        "ea_len": _INNER_BITS + rule.psid_len,
        "psid_offset": 4 if rule.psid_offset != 4 else 6,
        "ces": 2,
    }


def last(r: RelayEnds) -> Iterator[Clause]:
    """The rule's last CE, all of whose EA bits are one: the first ones share octets with its prefix."""
    rule = r.rule
    if rule is None or not rule.ea_len:
        return
    ipv4, psid = rule.decode_ea(rule.ce_count - 1)
    ce = Customer(rule.map_address(ipv4, psid), ipv4, rule.port_set(psid))
    if not r.owned(ce, ce.port):
        return  # another domain takes it over
    place = ("RFC 7597", "5.2") if r.kind == "MAP-E" else ("RFC 7599", "8.4")
    yield clause(
        r,
        "last-up",
        "MUST",
        "a packet of the rule's last CE is forwarded",
        lambda: asked(r, "left", r.up(ce, ce.port), f"from {ce.ipv4}", _from(r, ce.ipv4)),
        place,
    )
    yield clause(
        r,
        "last-down",
        "MUST",
        "a packet for the rule's last CE reaches it",
        lambda: asked(
            r, "right", r.down(ce.ipv4, ce.port), f"to {ce.ipv6}", to_customers(r, [ce.ipv6])
        ),
        place,
    )


def varied(r: RelayEnds, variant: str, params: MapParams) -> Iterator[Clause]:
    """What is asked in one of them."""
    if variant == OVERLAP:
        inner = params.domains[0] if params.domains else Domain(**_within(params.rule))
        yield from _overlapping(r, inner.rule)
    else:
        yield from _prefixes(r, params.rule)


def _customer(rule: MapRule, number: int, psid: int) -> Customer:
    ipv4 = rule.ipv4_prefix.network_address + number
    return Customer(rule.map_address(ipv4, psid), ipv4, rule.port_set(psid))


def _from(r: RelayEnds, *sources: Any) -> Any:
    def judge(beyond: list[Packet], back: list[Packet]) -> str:
        del back
        if sorted(int(p.source) for p in beyond) != sorted(map(int, sources)):
            return f"packets from {', '.join(str(p.source) for p in beyond) or 'nobody'}"
        wrong = [p for p in beyond if p.destination != r.server or not p.summed]
        return f"a wrong packet: {wrong[0]}" if wrong else ""

    return judge


def _overlapping(r: RelayEnds, inner: MapRule) -> Iterator[Clause]:
    """The longest IPv4 prefix tells whose an address is."""
    mine = _customer(inner, 3, 1)
    outer = r.rule
    if outer is None:
        return
    place = ("RFC 7597", "5") if r.kind == "MAP-E" else ("RFC 7599", "8.4")
    low = mine.ports.ranges[0][0]
    wrong = Customer(outer.map_address(mine.ipv4, 1), mine.ipv4, outer.port_set(1))
    rows: tuple[tuple[str, str, SideName, list[bytes], str, Any], ...] = (
        ("overlap-down", "packets for an address of the inner rule reach its CE", "right",
         [r.down(mine.ipv4, low), r.down(mine.ipv4, mine.port)], f"two packets to {mine.ipv6}",
         to_customers(r, [mine.ipv6, mine.ipv6])),
        ("overlap-up", "packets of the inner rule's CE are forwarded", "left",
         [r.up(mine, low), r.up(mine, mine.port)], f"two packets from {mine.ipv4}",
         _from(r, mine.ipv4, mine.ipv4)),
        ("overlap-outer", "packets for other addresses reach the outer rule's CEs", "right",
         [r.down(r.mine.ipv4, r.mine.port)], f"to {r.mine.ipv6}", to_customers(r, [r.mine.ipv6])),
    )  # fmt: skip
    for name, title, side, packets, expected, judge in rows:
        yield clause(
            r,
            name,
            "MUST",
            f"of overlapping rules the longest prefix tells: {title}",
            lambda s=side, p=packets, w=expected, j=judge: asked(r, s, p, w, j),  # type: ignore[misc]
            place,
        )
    if r.tunnels:
        yield clause(
            r,
            "overlap-source",
            "MUST",
            "a packet of an outer rule's CE with an address of the inner rule is dropped",
            not_up(r, r.up(wrong, wrong.port)),
        )
    spoilt = replace(mine, ports=wrong.ports)
    foreign = next(
        p for low, high in spoilt.ports.ranges for p in (low, high) if p not in mine.ports
    )
    yield clause(
        r,
        "overlap-port",
        "MUST",
        "a port that only the outer rule would give the inner rule's CE is not its own",
        not_up(r, r.up(mine, foreign)),
    )


def _prefixes(r: RelayEnds, rule: MapRule) -> Iterator[Clause]:
    """A CE with four addresses and all their ports."""
    me, other = r.mine, r.other
    hosts = me.ipv4, me.ipv4 + (1 << _PREFIX_BITS) - 1
    place = ("RFC 7597", "5.2") if r.kind == "MAP-E" else ("RFC 7599", "8.3")

    def six(host: Any) -> Any:
        """What the CE writes into its interface identifier (RFC 7599, erratum 5225, for MAP-T)."""
        return me.ipv6 if r.tunnels else rule.map_address(host, 0, whole_host=True)

    def reached(beyond: list[Packet], back: list[Packet]) -> str:
        """By the CE's own prefix: what is behind it, the text and its erratum tell differently."""
        del back
        prefixes = [int(p.destination) >> 64 for p in beyond if r.inner(p) is not None]
        return (
            "" if prefixes == [int(me.ipv6) >> 64] * 2 else f"{len(prefixes)} packets, or to others"
        )

    yield clause(
        r,
        "prefix-up",
        "MUST",
        "packets from the first and the last address of a CE's IPv4 prefix are forwarded",
        lambda: asked(
            r,
            "left",
            [r.up(me, 40000, ipv4=host, ipv6=six(host)) for host in hosts],
            f"from {hosts[0]} and {hosts[1]}",
            _from(r, *hosts),
        ),
        place,
    )
    yield clause(
        r,
        "prefix-down",
        "MUST",
        "packets for the first and the last address of a CE's IPv4 prefix reach it",
        lambda: asked(
            r,
            "right",
            [r.down(host, 40000) for host in hosts],
            f"two packets to {me.ipv6}",
            reached,
        ),
        place,
    )
    if other is None:
        return
    yield clause(
        r,
        "prefix-other-down",
        "MUST",
        "packets for the address after a CE's IPv4 prefix reach the next CE",
        lambda: asked(
            r,
            "right",
            [r.down(hosts[1] + 1, 40000)],
            f"to {other.ipv6}",
            to_customers(r, [other.ipv6]),
        ),
        place,
    )
    if r.tunnels:
        yield clause(
            r,
            "prefix-other-up",
            "MUST",
            "a packet from the address after a CE's IPv4 prefix is dropped",
            not_up(r, r.up(me, 40000, ipv4=hosts[1] + 1)),
        )
