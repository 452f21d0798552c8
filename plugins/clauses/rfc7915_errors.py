"""ICMP errors about packets of the host beyond the IPv6 link, as IPv4 sends them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from v6t.plugins.clauses import rfc7915_four
from v6t.plugins.clauses.packets import (
    ICMP,
    ICMPV6,
    TCP,
    UDP,
    data,
    echo_word,
    icmp,
    ip4,
    tcp,
    udp,
)
from v6t.plugins.clauses.reading import Packet
from v6t.plugins.clauses.translator import (
    Place,
    TranslatorEnds,
    first,
)

INNER_TTL = 7
"""Of the packet within an error: it is not decremented."""


def about4(
    t: TranslatorEnds, where: Place, protocol: int = UDP, payload: bytes = data(64)
) -> bytes:
    """What the host beyond the IPv6 link sent, as the IPv4 side saw it."""
    ends = where[0], t.four
    if protocol == TCP:
        segment = tcp(*ends, (where[1], t.server_port), 0x10, payload)
    elif protocol == ICMP:
        segment = icmp(8, 0, echo_word(where[1]), payload)
    else:
        segment = udp(*ends, (where[1], t.server_port), payload)
    return ip4(*ends, protocol, segment, ttl=INNER_TTL)


def error4(
    t: TranslatorEnds,
    where: Place,
    kind: int,
    code: int,
    rest: int = 0,
    inner: bytes | None = None,
    **header: Any,
) -> bytes:
    """An ICMP error from the IPv4 host."""
    message = icmp(kind, code, rest, about4(t, where) if inner is None else inner)
    return ip4(t.four, where[0], ICMP, message, **header)


def message(
    t: TranslatorEnds, kind: tuple[int, int], word: int | None = None
) -> Callable[[Packet], str]:
    """A message to the IPv6 host."""
    return lambda p: (
        rfc7915_four.addressed(t, p, ICMPV6)
        or first(
            (p.kind != kind, f"type and code {p.kind}"),
            (word is not None and p.word != word, f"second word {p.word}"),
        )
    )
