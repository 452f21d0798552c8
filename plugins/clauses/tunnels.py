"""The suite ``tunnel``: what IPv4 in IPv6 makes of TTL, DSCP, ECN, sizes and of what is not IPv4."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from v6t.plugins.clauses import tunnel_limits
from v6t.plugins.clauses.base import Clause, Level, Suite, clause
from v6t.plugins.clauses.packets import (
    DF,
    IPIP,
    OPTIONS,
    PAYLOAD,
    TTL,
    ip6,
)
from v6t.plugins.clauses.reading import Packet
from v6t.plugins.clauses.translator import answered, first
from v6t.plugins.clauses.tunnel_ends import (
    TunnelEnds,
    carried,
    from_tunnel,
    to_tunnel,
    tunnel,
)

if TYPE_CHECKING:
    from v6t.plugins.base import Technology

_RFC2473 = "RFC 2473"
_LIMIT = bytes([IPIP, 0, 4, 1, 4, 1, 1, 0])
"""Destination options with an encapsulation limit of 4, as Linux sends it (RFC 2473, section 4.1.1)."""


class Tunnel(Suite):
    """For devices at whose left link IPv4 arrives in IPv6."""

    name = "tunnel"
    title = "IPv4 in IPv6: TTL, DSCP, ECN, sizes, fragments, what is not IPv4"
    core = ("decapsulated", "encapsulated", "ttl-into", "dscp-into")

    def clauses(self, technology: Technology) -> Iterator[Clause]:
        """Out of the tunnel, into it, and both ways where it is full."""
        t = tunnel(technology)
        if t is None:
            return
        yield from _out(t)
        yield from _into(t)
        yield from tunnel_limits.clauses(t)


def _out(t: TunnelEnds) -> Iterator[Clause]:
    def plain(p: Packet) -> str:
        return first(
            (p.version != 4, "no IPv4"),
            (p.destination != t.server, f"to {p.destination}"),
            (not p.sound, "its header checksum is wrong"),
            (not p.summed, "its transport checksum is wrong"),
            (p.payload[8:] != PAYLOAD, "its data was changed"),
        )

    yield clause(
        _RFC2473,
        "3.3",
        "decapsulated",
        "MUST",
        "the packet in a tunnel leaves it unchanged in data, with right checksums",
        from_tunnel(t, t.up(), f"IPv4 to {t.server}", plain, plain=True),
    )
    # RFC 8200, sections 4 and 4.2: a destination processes options, and skips those of this type
    limited = ip6(t.here, t.there, OPTIONS, _LIMIT + t.inner())
    yield clause(
        _RFC2473,
        "3.3",
        "encapsulation-limit",
        "MUST",
        "a tunnel packet with an encapsulation limit option is decapsulated",
        from_tunnel(t, limited, f"IPv4 to {t.server}", plain),
    )
    yield clause(
        _RFC2473,
        "3.3",
        "ttl-out",
        "MAY",
        "the inner TTL is one less when a router has forwarded the packet from a tunnel",
        from_tunnel(
            t, t.up(), f"TTL {TTL - 1}", lambda p: first((p.ttl != TTL - 1, f"TTL {p.ttl}"))
        ),
    )
    yield clause(
        _RFC2473,
        "3.3",
        "outer-hop-limit",
        "MUST",
        "the hop limit of the tunnel has no part in the inner TTL",
        from_tunnel(
            t,
            t.up(hop_limit=3),
            "an inner TTL that is not 2 or 3",
            lambda p: first((p.ttl in (2, 3), f"TTL {p.ttl}")),
        ),
    )
    yield clause(
        _RFC2473,
        "3.3",
        "df-out",
        "MUST",
        "DF of the inner packet stays",
        from_tunnel(t, t.up(t.inner(flags=DF)), "DF 1", lambda p: first((not p.df, "DF 0"))),
    )


def _into(t: TunnelEnds) -> Iterator[Clause]:
    yield clause(
        _RFC2473,
        "3.1",
        "encapsulated",
        "MUST",
        "a packet for a customer is put into the customer's tunnel",
        to_tunnel(
            t,
            t.down,
            f"IPv6 {t.there} > {t.here} with it inside",
            carried(
                t,
                lambda p, i: first(
                    (i.destination != t.inside[0], f"to {i.destination}"),
                    (i.payload[8:] != PAYLOAD, "its data was changed"),
                ),
            ),
            plain=True,
        ),
    )
    yield clause(
        _RFC2473,
        "3.1",
        "ttl-into",
        "MUST",
        "the inner TTL is one less when a router has put it into a tunnel",
        to_tunnel(
            t,
            t.down,
            f"inner TTL {TTL - 1}",
            carried(t, lambda p, i: first((i.ttl != TTL - 1, f"inner TTL {i.ttl}"))),
        ),
    )
    yield clause(
        _RFC2473,
        "6.3",
        "tunnel-hop-limit",
        "MUST",
        "the hop limit of the tunnel is set independently of the inner TTL",
        to_tunnel(
            t,
            lambda w: t.down(w, ttl=2),
            "a hop limit above 2",
            carried(t, lambda p, i: first((p.ttl <= 2, f"hop limit {p.ttl}"))),
        ),
    )
    yield clause(
        _RFC2473,
        "3.1",
        "ttl-1",
        "MUST",
        "a packet with TTL 1 for a tunnel is discarded and its sender told",
        to_tunnel(
            t, lambda w: t.down(w, ttl=1), "ICMP time exceeded (11/0) back", answered(4, (11, 0))
        ),
        rare=True,
    )
    yield clause(
        _RFC2473,
        "3.1",
        "df-into",
        "MUST",
        "DF of the inner packet stays",
        to_tunnel(
            t,
            lambda w: t.down(w, flags=DF),
            "inner DF 1",
            carried(t, lambda p, i: first((not i.df, "inner DF 0"))),
        ),
    )
    level: Level = "MUST"
    yield clause(
        "RFC 6333",
        "7.1",
        "dscp-into",
        level,
        "the DSCP of IPv4 is carried over to the tunnel's header",
        to_tunnel(
            t,
            lambda w: t.down(w, tos=0xB8),
            "traffic class 0xb8",
            carried(t, lambda p, i: first((p.tos & 0xFC != 0xB8, f"traffic class {p.tos:#04x}"))),
        ),
    )
    if t.dslite:
        yield clause(
            "RFC 6333",
            "7.1",
            "dscp-out",
            level,
            "the DSCP of the tunnel's header is carried over to IPv4",
            from_tunnel(
                t,
                t.up(t.inner(tos=0x28), traffic_class=0xB8),
                "TOS 0xb8",
                lambda p: first((p.tos & 0xFC != 0xB8, f"TOS {p.tos:#04x}")),
            ),
        )
