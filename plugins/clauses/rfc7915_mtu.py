"""RFC 7915 section 4.2: the MTU in ICMP fragmentation needed."""

from __future__ import annotations

from collections.abc import Iterator

from v6t.plugins.clauses.base import Clause
from v6t.plugins.clauses.packets import (
    internet_checksum,
)
from v6t.plugins.clauses.rfc7915 import clause
from v6t.plugins.clauses.rfc7915_errors import about4, error4, message
from v6t.plugins.clauses.translator import (
    Place,
    TranslatorEnds,
    first,
    from_four,
    one,
)


def clauses(t: TranslatorEnds) -> Iterator[Clause]:
    """All of them."""
    for mtu, six in ((1300, 1320), (600, 1280), (1500, min(1520, t.mtu6, t.mtu4 + 20))):
        yield clause(
            "4.2",
            f"fragmentation-needed-{mtu}",
            "MUST",
            f"ICMP fragmentation needed with MTU {mtu} becomes packet too big with MTU {six}",
            from_four(
                t,
                lambda w, n=mtu: error4(t, w, 3, 4, n),
                f"ICMPv6 2/0, MTU {six}",
                one(message(t, (2, 0), six)),
            ),
        )

    def old(where: Place) -> bytes:
        """From a router that tells no MTU, about a packet of 2,000 octets: 1492 is the plateau below."""
        inner = bytearray(about4(t, where))
        inner[2:4] = (2000).to_bytes(2, "big")
        inner[10:12] = b"\0\0"
        inner[10:12] = internet_checksum(bytes(inner[:20])).to_bytes(2, "big")
        return error4(t, where, 3, 4, 0, bytes(inner))

    wanted = max(1280, min(1492 + 20, t.mtu6, t.mtu4 + 20))
    yield clause(
        "4.2",
        "fragmentation-needed-0",
        "MUST",
        "ICMP fragmentation needed without MTU, about 2,000 octets, tells a plateau of RFC 1191",
        from_four(
            t,
            old,
            f"ICMPv6 2/0, MTU {1492} or {wanted}",
            one(
                lambda p: (
                    message(t, (2, 0))(p) or first((p.word not in (1492, wanted), f"MTU {p.word}"))
                )
            ),
        ),
    )
