"""RFC 7915 sections 5.2 to 5.4: ICMPv6 to ICMP, errors with the packet they are about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from v6t.plugins.clauses import rfc7915_six
from v6t.plugins.clauses.base import Clause
from v6t.plugins.clauses.packets import (
    FRAGMENT,
    ICMP,
    ICMPV6,
    PAYLOAD,
    TCP,
    UDP,
    data,
    echo_word,
    fragment_header,
    icmp6,
    ip6,
    tcp,
    udp,
)
from v6t.plugins.clauses.reading import Packet
from v6t.plugins.clauses.rfc7915 import clause
from v6t.plugins.clauses.rfc7915_errors import INNER_TTL
from v6t.plugins.clauses.rfc7915_icmp import inner_is
from v6t.plugins.clauses.translator import (
    TranslatorEnds,
    first,
    from_six,
    not_from_six,
    one,
)

_UNREACHABLE_BACK = {0: (3, 1), 1: (3, 10), 2: (3, 1), 3: (3, 1), 4: (3, 3)}
_POINTERS_BACK = {0: 0, 1: 1, 4: 2, 6: 9, 7: 8, 8: 12, 24: 16}
"""Figure 6."""
_SINGLE_HOP = {
    130: "MLD query",
    133: "router solicitation",
    135: "neighbour solicitation",
    200: "an unknown informational type",
}
_DROPPED_ERRORS_BACK = {
    (1, 7): "an unknown code of destination unreachable",
    (4, 2): "an unknown option",
    (50, 0): "an unknown error type",
}
_NO_POINTER_BACK = (2, 40)


def clauses(t: TranslatorEnds) -> Iterator[Clause]:
    """From IPv6 to IPv4."""
    yield from _up(t)
    yield from _up_inner(t)


def about6(t: TranslatorEnds, protocol: int = UDP, payload: bytes = data(64)) -> bytes:
    """What the host beyond the IPv4 link sent, as the IPv6 side saw it."""
    ends = t.four6, t.six
    if protocol == TCP:
        segment = tcp(*ends, (t.server_port, t.port), 0x10, payload)
    elif protocol == ICMPV6:
        segment = icmp6(*ends, 129, 0, echo_word(t.port), payload)
    else:
        segment = udp(*ends, (t.server_port, t.port), payload)
    return ip6(*ends, protocol, segment, hop_limit=INNER_TTL)


def error6(
    t: TranslatorEnds,
    kind: int,
    code: int,
    rest: int = 0,
    inner: bytes | None = None,
    **header: Any,
) -> bytes:
    """An ICMPv6 error from the IPv6 host."""
    ends = t.six, t.four6
    message = icmp6(*ends, kind, code, rest, about6(t) if inner is None else inner)
    return ip6(*ends, ICMPV6, message, **header)


def _message_back(
    t: TranslatorEnds, kind: tuple[int, int], word: int | None = None
) -> Callable[[Packet], str]:
    return lambda p: (
        rfc7915_six.addressed(t, p, ICMP)
        or first(
            (p.kind != kind, f"type and code {p.kind}"),
            (word is not None and p.word != word, f"second word {p.word}"),
        )
    )


def _up(t: TranslatorEnds) -> Iterator[Clause]:
    ends = t.six, t.four6
    for kind, four, name in ((128, 8, "echo-request"), (129, 0, "echo-reply")):
        if t.stateful and kind == 129:
            continue
        packet = ip6(*ends, ICMPV6, icmp6(*ends, kind, 0, echo_word(t.port, 9), PAYLOAD))

        def echo(p: Packet, four: int = four) -> str:
            return _message_back(t, (four, 0))(p) or first(
                (p.word & 0xFFFF != 9, "the sequence number was changed"),
                (not t.stateful and p.ports[0] != t.port, f"identifier {p.ports[0]}"),
                (p.payload[8:] != PAYLOAD, "its data was changed"),
            )

        yield clause(
            "5.2",
            name,
            "MUST",
            f"ICMPv6 {name.replace('-', ' ')} becomes ICMP type {four}",
            from_six(t, packet, f"ICMP {four}/0, the same data", one(echo)),
        )
    for kind, words in _SINGLE_HOP.items():
        packet = ip6(*ends, ICMPV6, icmp6(*ends, kind, 0, echo_word(t.port), bytes(16)))
        yield clause(
            "5.2",
            f"single-hop-{kind}",
            "MUST",
            f"{words} (ICMPv6 type {kind}) is silently dropped",
            not_from_six(t, packet, "nothing"),
        )
    if t.stateful:
        return  # errors need a session that was opened from outside, or are about one: see RFC 6146
    for code, four_kind in _UNREACHABLE_BACK.items():
        yield clause(
            "5.2",
            f"unreachable-{code}",
            "MUST",
            f"ICMPv6 destination unreachable, code {code}, becomes ICMP 3/{four_kind[1]}",
            from_six(
                t, error6(t, 1, code), f"ICMP 3/{four_kind[1]}", one(_message_back(t, four_kind))
            ),
        )
    for mtu in (1400, 1280):
        wanted = min(mtu - 20, t.mtu4, t.mtu6 - 20)
        yield clause(
            "5.2",
            f"too-big-{mtu}",
            "MUST",
            f"ICMPv6 packet too big with MTU {mtu} becomes fragmentation needed with MTU {wanted}",
            from_six(
                t,
                error6(t, 2, 0, mtu),
                f"ICMP 3/4, MTU {wanted}",
                one(
                    lambda p, n=wanted: (
                        _message_back(t, (3, 4))(p)
                        or first((p.word & 0xFFFF != n, f"MTU {p.word & 0xFFFF}"))
                    )
                ),
            ),
        )
    wanted = min(9000 - 20, t.mtu4, t.mtu6 - 20)
    yield clause(
        "5.2",
        "too-big-9000",
        "MUST",
        f"the MTU of a translated packet too big is at most {wanted}, what both links carry",
        from_six(
            t,
            error6(t, 2, 0, 9000),
            f"ICMP 3/4, MTU {wanted}",
            one(
                lambda p: (
                    _message_back(t, (3, 4))(p)
                    or first((p.word & 0xFFFF != wanted, f"MTU {p.word & 0xFFFF}"))
                )
            ),
        ),
    )
    for code in (0, 1):
        yield clause(
            "5.2",
            f"time-exceeded-{code}",
            "MUST",
            f"ICMPv6 time exceeded, code {code}, becomes ICMP 11/{code}",
            from_six(t, error6(t, 3, code), f"ICMP 11/{code}", one(_message_back(t, (11, code)))),
        )
    for pointer, four_pointer in _POINTERS_BACK.items():
        yield clause(
            "5.2",
            f"pointer-{pointer}",
            "MUST",
            f"ICMPv6 parameter problem at octet {pointer} points at octet {four_pointer} of IPv4",
            from_six(
                t,
                error6(t, 4, 0, pointer),
                f"ICMP 12/0, pointer {four_pointer}",
                one(
                    lambda p, n=four_pointer: (
                        _message_back(t, (12, 0))(p)
                        or first((p.word >> 24 != n, f"pointer {p.word >> 24}"))
                    )
                ),
            ),
        )
    for pointer in _NO_POINTER_BACK:
        yield clause(
            "5.2",
            f"no-pointer-{pointer}",
            "MUST",
            f"ICMPv6 parameter problem at octet {pointer}, which IPv4 has not, is silently dropped",
            not_from_six(t, error6(t, 4, 0, pointer), "nothing", silently=True),
        )
    yield clause(
        "5.2",
        "next-header",
        "MUST",
        "ICMPv6 unrecognized next header becomes ICMP protocol unreachable",
        from_six(t, error6(t, 4, 1, 6), "ICMP 3/2", one(_message_back(t, (3, 2)))),
    )
    for (kind, code), words in _DROPPED_ERRORS_BACK.items():
        yield clause(
            "5.2",
            f"dropped-{kind}-{code}",
            "MUST",
            f"{words} (ICMPv6 {kind}/{code}) is silently dropped",
            not_from_six(t, error6(t, kind, code), "nothing", silently=True),
        )
    yield clause(
        "5.4",
        "no-error-about-error",
        "MUST",
        "no ICMPv6 error is sent about an ICMPv6 error",
        not_from_six(t, error6(t, 1, 0, hop_limit=1), "nothing", silently=True, unanswered=True),
    )


def _up_inner(t: TranslatorEnds) -> Iterator[Clause]:
    if t.stateful:
        return
    source, destination = t.four, t.six4[0]

    def checked(protocol: int) -> Callable[[Packet], str]:
        return lambda p: (
            _message_back(t, (3, 3))(p) or inner_is(4, protocol, source, destination)(p)
        )

    yield clause(
        "5.3",
        "inner",
        "MUST",
        "the packet within an ICMPv6 error is translated, its hop limit kept",
        from_six(
            t,
            error6(t, 1, 4),
            f"ICMP 3/3 about IPv4 {source} > {destination}, TTL {INNER_TTL}",
            one(checked(UDP)),
        ),
    )

    def summed(p: Packet) -> str:
        inner = p.about
        if inner is None:
            return "no packet is in it"
        return first(
            (inner.length != 20 + 72, f"the inner total length is {inner.length}"),
            (
                inner.octets == inner.length and not inner.summed,
                "the inner transport checksum is wrong",
            ),
            (inner.ports != (t.server_port, t.port), f"the inner ports are {inner.ports}"),
        )

    yield clause(
        "5.3",
        "inner-checksum",
        "MUST",
        "length, ports and checksum of the inner UDP are translated",
        from_six(t, error6(t, 1, 4), "inner UDP as it was sent", one(summed)),
    )

    def echo(p: Packet) -> str:
        inner = p.about
        return checked(ICMP)(p) or first(
            (
                inner is not None and inner.payload[:1] != b"\0",
                "the inner echo is no ICMP echo reply",
            )
        )

    yield clause(
        "5.3",
        "inner-echo",
        "MUST",
        "an ICMPv6 error about an echo reply has an ICMP one in it",
        from_six(t, error6(t, 1, 4, 0, about6(t, ICMPV6)), "ICMP 3/3 about ICMP 0/0", one(echo)),
    )
    part = udp(t.four6, t.six, (t.server_port, t.port), data(64))
    whole = ip6(
        t.four6, t.six, FRAGMENT, fragment_header(UDP, more=True) + part, hop_limit=INNER_TTL
    )

    def fragment(p: Packet) -> str:
        inner = p.about
        return checked(UDP)(p) or first(
            (
                inner is not None and inner.identification != 0xCDEF,
                "the inner identification is lost",
            ),
            (inner is not None and not inner.mf, "the inner More Fragments flag is lost"),
        )

    yield clause(
        "5.3",
        "inner-fragment",
        "MUST",
        "an ICMPv6 error about a fragment has an IPv4 fragment in it",
        from_six(
            t,
            error6(t, 1, 4, 0, whole),
            "ICMP 3/3 about a fragment, identification 0xcdef",
            one(fragment),
        ),
    )
    inner = ip6(
        t.four6,
        t.six,
        ICMPV6,
        icmp6(
            t.four6,
            t.six,
            1,
            4,
            0,
            ip6(t.six, t.four6, UDP, udp(t.six, t.four6, (t.port, t.server_port))),
        ),
    )
    yield clause(
        "5.3",
        "nested",
        "MUST",
        "an ICMPv6 error about an ICMPv6 error is dropped",
        not_from_six(t, error6(t, 1, 0, 0, inner), "nothing"),
    )
