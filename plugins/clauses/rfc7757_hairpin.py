"""RFC 7757 section 4: two hosts with mappings that reach each other by the translator's prefix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv6Address
from typing import TYPE_CHECKING

from v6t.plugins.clauses.base import Clause, Exchange, clause
from v6t.plugins.clauses.ends import Judge, judged, sent
from v6t.plugins.clauses.packets import ICMPV6, UDP, data, icmp6, ip6, udp
from v6t.plugins.clauses.reading import Packet
from v6t.plugins.clauses.translator import SERVER_PORT, TranslatorEnds, first

if TYPE_CHECKING:
    from v6t.plugins.siit.params import TranslatorParams

_PORT = 40123


def clauses(t: TranslatorEnds, params: TranslatorParams) -> Iterator[Clause]:
    """A datagram, its answer, an error about it."""
    mappings, pair = params.mappings, (params.ipv6_hosts.first, params.ipv6_hosts.top)
    hosts = [_six(mappings.to_ipv6(address)) for address in pair]
    if mappings.prefix is None:
        return
    named = [mappings.prefix.to_ipv6(address) for address in pair]

    def exchange(packet: bytes, expected: str, judge: Judge) -> Exchange:
        heard = yield from sent(t, t.six_side, packet)
        return judged(t, t.six_side, heard, expected, judge, to=t.six_side)

    def only(p: Sequence[Packet], to: int) -> str:
        return first(
            (not p, "nothing"),
            (len(p) > 1, f"{len(p)} packets"),
            (any(x.destination != hosts[to] for x in p), "a packet for somebody else"),
        )

    rows = (
        ("hairpin", 0, (_PORT, SERVER_PORT), "a host with a mapping reaches another one by the "
         "prefix, and is named by the prefix itself"),
        ("hairpin-answer", 1, (SERVER_PORT, _PORT), "the answer comes back from the address "
         "that was asked"),
    )  # fmt: skip
    for name, who, ports, title in rows:
        ends = hosts[who], named[1 - who]
        packet = ip6(*ends, UDP, udp(*ends, ports))

        def turned(beyond: list[Packet], back: list[Packet], who: int = who) -> str:
            del back
            return only(beyond, 1 - who) or first(
                (beyond[0].source != named[who], f"from {beyond[0].source}"),
                (not beyond[0].summed, "a wrong checksum"),
            )

        yield clause(
            "RFC 7757",
            "4.2",
            name,
            "SHOULD",
            title,
            lambda p=packet, w=who, j=turned: exchange(p, f"IPv6 {named[w]} > {hosts[1 - w]}", j),
        )
    about = ip6(named[0], hosts[1], UDP, udp(named[0], hosts[1], (_PORT, SERVER_PORT), data(40)))
    error = ip6(hosts[1], named[0], ICMPV6, icmp6(hosts[1], named[0], 1, 4, 0, about))

    def judge(beyond: list[Packet], back: list[Packet]) -> str:
        del back
        wrong = only(beyond, 0)
        if wrong:
            return wrong
        p, inner = beyond[0], beyond[0].about
        if inner is None:
            return f"no error with a packet in it: {p}"
        return first(
            (p.source != named[1], f"from {p.source}"),
            ((inner.source, inner.destination) != (hosts[0], named[1]), f"about {inner}"),
            (not p.summed, "a wrong checksum"),
        )

    yield clause(
        "RFC 7757",
        "4.2",
        "hairpin-error",
        "SHOULD",
        "an ICMPv6 error about the datagram comes back about what its sender sent",
        lambda: exchange(error, f"from {named[1]} about {hosts[0]} > {named[1]}", judge),
        rare=True,
    )


def _six(address: IPv6Address | None) -> IPv6Address:
    if address is None:
        raise ValueError("the host has no mapping")
    return address
