"""RFC 7915 sections 4.2 to 4.4: ICMP to ICMPv6, errors with the packet they are about."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from v6t.plugins.clauses import rfc7915_mtu
from v6t.plugins.clauses.base import Clause
from v6t.plugins.clauses.packets import (
    ICMP,
    ICMPV6,
    PAYLOAD,
    TCP,
    UDP,
    echo_word,
    icmp,
    ip4,
    udp,
)
from v6t.plugins.clauses.reading import Packet
from v6t.plugins.clauses.rfc7915 import clause
from v6t.plugins.clauses.rfc7915_errors import INNER_TTL, about4, error4, message
from v6t.plugins.clauses.translator import (
    Place,
    TranslatorEnds,
    first,
    from_four,
    not_from_four,
    one,
)

_UNREACHABLE = {
    **dict.fromkeys((0, 1, 5, 6, 7, 8, 11, 12), (1, 0)),
    **dict.fromkeys((9, 10, 13, 15), (1, 1)),
    3: (1, 4),
}
"""Codes of ICMP destination unreachable: type and code of ICMPv6 (section 4.2)."""
_POINTERS = {0: 0, 1: 1, 2: 4, 8: 7, 9: 6, 12: 8, 16: 24}
"""Figure 3; what is absent is dropped."""
_NO_POINTER = (4, 6, 10, 20)
_QUERIES = {
    13: "timestamp request",
    15: "information request",
    17: "address mask request",
    9: "router advertisement",
    10: "router solicitation",
    42: "an unknown type",
}
_DROPPED_ERRORS = {
    (5, 1): "a redirect",
    (6, 0): "alternative host address",
    (4, 0): "source quench",
    (3, 14): "host precedence violation",
    (3, 16): "an unknown code of destination unreachable",
    (12, 1): "parameter problem, missing option",
}


def clauses(t: TranslatorEnds) -> Iterator[Clause]:
    """From IPv4 to IPv6."""
    yield from _down(t)
    yield from _downinner_is(t)


def _down(t: TranslatorEnds) -> Iterator[Clause]:
    for kind, six, name in ((8, 128, "echo-request"), (0, 129, "echo-reply")):
        if t.stateful and kind == 8:
            continue  # nobody inside has a session for requests from outside

        def echo(where: Place, kind: int = kind) -> bytes:
            return ip4(t.four, where[0], ICMP, icmp(kind, 0, echo_word(where[1], 9), PAYLOAD))

        check = message(t, (six, 0), echo_word(t.port, 9))
        yield clause(
            "4.2",
            name,
            "MUST",
            f"ICMP {name.replace('-', ' ')} becomes ICMPv6 type {six}",
            from_four(
                t,
                echo,
                f"ICMPv6 {six}/0, the same identifier and data",
                one(
                    lambda p, c=check: (
                        c(p) or first((p.payload[8:] != PAYLOAD, "its data was changed"))
                    )
                ),
                ICMP,
            ),
        )
    for kind, words in _QUERIES.items():

        def query(where: Place, kind: int = kind) -> bytes:
            return ip4(t.four, where[0], ICMP, icmp(kind, 0, echo_word(where[1]), bytes(12)))

        yield clause(
            "4.2",
            f"query-{kind}",
            "MUST",
            f"{words} (ICMP type {kind}) is silently dropped",
            not_from_four(t, query, "nothing", silently=True),
        )
    if t.by_ports and not t.stateful:
        return  # RFC 7599 section 9: errors are mapped without a port, so to no CE that can be named
    for code, six_kind in _UNREACHABLE.items():
        yield clause(
            "4.2",
            f"unreachable-{code}",
            "MUST",
            f"ICMP destination unreachable, code {code}, becomes ICMPv6 {six_kind[0]}/{six_kind[1]}",
            from_four(
                t,
                lambda w, c=code: error4(t, w, 3, c),
                f"ICMPv6 {six_kind[0]}/{six_kind[1]}",
                one(message(t, six_kind)),
            ),
        )
    yield clause(
        "4.2",
        "protocol-unreachable",
        "MUST",
        "ICMP protocol unreachable becomes ICMPv6 parameter problem at the next header",
        from_four(
            t, lambda w: error4(t, w, 3, 2), "ICMPv6 4/1, pointer 6", one(message(t, (4, 1), 6))
        ),
    )
    yield from rfc7915_mtu.clauses(t)
    for code in (0, 1):
        yield clause(
            "4.2",
            f"time-exceeded-{code}",
            "MUST",
            f"ICMP time exceeded, code {code}, becomes ICMPv6 3/{code}",
            from_four(
                t,
                lambda w, c=code: error4(t, w, 11, c),
                f"ICMPv6 3/{code}",
                one(message(t, (3, code))),
            ),
        )
    for pointer, six_pointer in _POINTERS.items():
        yield clause(
            "4.2",
            f"pointer-{pointer}",
            "MUST",
            f"ICMP parameter problem at octet {pointer} points at octet {six_pointer} of IPv6",
            from_four(
                t,
                lambda w, n=pointer: error4(t, w, 12, 0, n << 24),
                f"ICMPv6 4/0, pointer {six_pointer}",
                one(message(t, (4, 0), six_pointer)),
            ),
        )
    yield clause(
        "4.2",
        "bad-length",
        "MUST",
        "ICMP parameter problem, bad length, becomes ICMPv6 4/0",
        from_four(
            t,
            lambda w: error4(t, w, 12, 2, 2 << 24),
            "ICMPv6 4/0, pointer 4",
            one(message(t, (4, 0), 4)),
        ),
    )
    for pointer in _NO_POINTER:
        yield clause(
            "4.2",
            f"no-pointer-{pointer}",
            "MUST",
            f"ICMP parameter problem at octet {pointer}, which IPv6 has not, is silently dropped",
            not_from_four(
                t,
                lambda w, n=pointer: error4(t, w, 12, 0, n << 24),
                "nothing",
                silently=True,
            ),
        )
    for (kind, code), words in _DROPPED_ERRORS.items():
        yield clause(
            "4.2",
            f"dropped-{kind}-{code}",
            "MUST",
            f"{words} (ICMP {kind}/{code}) is silently dropped",
            not_from_four(
                t,
                lambda w, k=kind, c=code: error4(t, w, k, c),
                "nothing",
                silently=True,
            ),
        )
    yield clause(
        "4.4",
        "no-error-about-error",
        "MUST",
        "no ICMP error is sent about an ICMP error",
        not_from_four(
            t, lambda w: error4(t, w, 3, 1, ttl=1), "nothing", silently=True, unanswered=True
        ),
    )


def inner_is(
    version: int, protocol: int, source: object, destination: object, ttl: int = INNER_TTL
) -> Callable[[Packet], str]:
    """What is wrong with the packet that an error is about."""

    def check(p: Packet) -> str:
        inner = p.about
        if inner is None:
            return "no packet is in it"
        return first(
            (inner.version != version, f"IPv{inner.version} is in it"),
            (inner.source != source, f"the inner source is {inner.source}"),
            (inner.destination != destination, f"the inner destination is {inner.destination}"),
            (inner.protocol != protocol, f"the inner protocol is {inner.protocol}"),
            (inner.ttl != ttl, f"the inner TTL or hop limit is {inner.ttl}"),
            (not inner.sound, "the inner header checksum is wrong"),
        )

    return check


def _downinner_is(t: TranslatorEnds) -> Iterator[Clause]:
    if t.by_ports and not t.stateful:
        return

    def checked(protocol: int) -> Callable[[Packet], str]:
        return lambda p: message(t, (1, 4))(p) or inner_is(6, protocol, t.six, t.four6)(p)

    expected = f"ICMPv6 1/4 about IPv6 {t.six} > {t.four6}, hop limit {INNER_TTL}"
    yield clause(
        "4.3",
        "inner",
        "MUST",
        "the packet within an ICMP error is translated, its TTL kept",
        from_four(t, lambda w: error4(t, w, 3, 3), expected, one(checked(UDP))),
    )

    def summed(p: Packet) -> str:
        inner = p.about
        if inner is None:
            return "no packet is in it"
        return first(
            (inner.length != 40 + 72, f"the inner payload length is {inner.length - 40}"),
            (
                inner.octets == inner.length and not inner.summed,
                "the inner transport checksum is wrong",
            ),
            (inner.ports != (t.port, t.server_port), f"the inner ports are {inner.ports}"),
        )

    yield clause(
        "4.3",
        "inner-checksum",
        "MUST",
        "length, ports and checksum of the inner UDP are translated",
        from_four(t, lambda w: error4(t, w, 3, 3), "inner UDP as it was sent", one(summed)),
    )
    yield clause(
        "4.3",
        "inner-tcp-short",
        "MUST",
        "an ICMP error with only 8 octets of TCP in it is translated",
        from_four(
            t,
            lambda w: error4(t, w, 3, 3, 0, about4(t, w, TCP)[:28]),
            "ICMPv6 1/4 about TCP",
            one(checked(TCP)),
            TCP,
        ),
    )

    def echo(p: Packet) -> str:
        inner = p.about
        return checked(ICMPV6)(p) or first(
            (
                inner is not None and inner.payload[:1] != b"\x80",
                "the inner echo is no ICMPv6 echo request",
            )
        )

    yield clause(
        "4.3",
        "inner-echo",
        "MUST",
        "an ICMP error about an echo request has an ICMPv6 one in it",
        from_four(
            t,
            lambda w: error4(t, w, 3, 3, 0, about4(t, w, ICMP)),
            "ICMPv6 1/4 about ICMPv6 128/0",
            one(echo),
            ICMP,
        ),
    )

    def nested(where: Place) -> bytes:
        inner = ip4(
            where[0],
            t.four,
            ICMP,
            icmp(
                3,
                3,
                0,
                ip4(t.four, where[0], UDP, udp(t.four, where[0], (t.server_port, where[1]))),
            ),
        )
        return error4(t, where, 3, 1, 0, inner)

    yield clause(
        "4.3",
        "nested",
        "MUST",
        "an ICMP error about an ICMP error is dropped",
        not_from_four(t, nested, "nothing"),
    )
