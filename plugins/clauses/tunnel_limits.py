"""Tunnels: ECN (RFC 6040), packets that do not fit, fragments, and what is not IPv4."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import IPv6Address

from v6t.plugins.clauses.base import Clause, Exchange, clause
from v6t.plugins.clauses.ends import refused
from v6t.plugins.clauses.packets import (
    DF,
    FRAGMENT,
    IPIP,
    UDP,
    data,
    fragment_header,
    ip4,
    ip6,
    udp,
)
from v6t.plugins.clauses.reading import Packet, parsed
from v6t.plugins.clauses.translator import answered, first
from v6t.plugins.clauses.tunnel_ends import (
    SERVER_PORT,
    TunnelEnds,
    carried,
    from_tunnel,
    inside,
    to_tunnel,
)

_RFC2473 = "RFC 2473"
_ECN = {
    (0, 0): 0,
    (0, 1): 0,
    (0, 2): 0,
    (0, 3): None,
    (2, 0): 2,
    (2, 1): 1,
    (2, 2): 2,
    (2, 3): 3,
    (1, 0): 1,
    (1, 1): 1,
    (1, 2): 1,
    (1, 3): 3,
    (3, 0): 3,
    (3, 1): 3,
    (3, 2): 3,
    (3, 3): 3,
}
"""RFC 6040 figure 4 by inner and outer codepoint; ECT(0) is 2, ECT(1) is 1; None: dropped."""
_CODEPOINTS = {0: "Not-ECT", 1: "ECT(1)", 2: "ECT(0)", 3: "CE"}


def clauses(t: TunnelEnds) -> Iterator[Clause]:
    """All of them."""
    yield from _ecn(t)
    yield from _sizes(t)
    yield from _wrong(t)


def _ecn(t: TunnelEnds) -> Iterator[Clause]:
    for (inner, outer), wanted in _ECN.items():
        packet = t.up(t.inner(tos=inner), traffic_class=outer)
        words = f"inner {_CODEPOINTS[inner]}, outer {_CODEPOINTS[outer]}"
        name = f"ecn-{inner}-{outer}"
        if wanted is None:
            yield clause(
                "RFC 6040",
                "4.2",
                name,
                "MUST",
                f"{words}: dropped",
                lambda p=packet: refused(t, "left", p, t.up(), "not forwarded"),
            )
            continue
        yield clause(
            "RFC 6040",
            "4.2",
            name,
            "MUST",
            f"{words}: {_CODEPOINTS[wanted]} leaves the tunnel",
            from_tunnel(
                t,
                packet,
                _CODEPOINTS[wanted],
                lambda p, w=wanted: first((p.tos & 3 != w, _CODEPOINTS[p.tos & 3])),
            ),
        )
    for own in (1, 2, 3):
        yield clause(
            "RFC 6040",
            "4.1",
            f"ecn-into-{own}",
            "MUST",
            f"{_CODEPOINTS[own]} is copied to the tunnel's header",
            to_tunnel(
                t,
                lambda w, n=own: t.down(w, tos=n),
                f"outer {_CODEPOINTS[own]}",
                carried(
                    t,
                    lambda p, i, n=own: first(
                        (p.tos & 3 != n, f"outer {_CODEPOINTS[p.tos & 3]}"),
                        (i.tos & 3 != n, f"inner {_CODEPOINTS[i.tos & 3]}"),
                    ),
                ),
            ),
        )


def _sizes(t: TunnelEnds) -> Iterator[Clause]:
    largest = data(t.mtu6 - 28)
    rfc, section = ("RFC 6333", "6.3") if t.dslite else (_RFC2473, "7.2")
    yield clause(
        _RFC2473,
        "7.2",
        "df-too-big",
        "MUST",
        "a packet with DF that does not fit the tunnel is discarded and its sender told",
        to_tunnel(
            t,
            lambda w: t.down(w, largest, flags=DF),
            f"ICMP 3/4 back, MTU {t.mtu6 - 40}",
            answered(
                4,
                (3, 4),
                lambda p: first((p.word & 0xFFFF != t.mtu6 - 40, f"MTU {p.word & 0xFFFF}")),
            ),
        ),
        rare=True,
    )

    def pieces(beyond: list[Packet], back: list[Packet]) -> str:
        del back
        if any(p.length > t.mtu6 for p in beyond):
            return "a packet that is longer than the link's MTU"
        outer = [p for p in beyond if 44 in p.extensions]
        if outer:
            joined = b"".join(p.payload for p in sorted(outer, key=lambda p: p.offset))
            inner = parsed(joined)
            return (
                ""
                if inner is not None and inner.payload[8:] == largest
                else "the fragments do not make up the packet"
            )
        inners = [i for i in map(inside, beyond) if i is not None]
        joined = b"".join(i.payload for i in sorted(inners, key=lambda i: i.offset))
        return (
            f"IPv4 was fragmented before encapsulation, in {len(inners)} pieces"
            if joined[8:] == largest
            else "nothing that makes up the packet"
        )

    yield clause(
        rfc,
        section,
        "no-df-too-big",
        "MUST",
        "a packet without DF that does not fit is encapsulated, then fragmented",
        to_tunnel(
            t, lambda w: t.down(w, largest), f"IPv6 fragments of at most {t.mtu6} octets", pieces
        ),
    )
    payload = data(600)
    inner = t.inner(payload)

    def parts(order: int) -> list[bytes]:
        number = 0x51000000 + order
        heads = (
            fragment_header(IPIP, more=True, identification=number),
            fragment_header(IPIP, 400, identification=number),
        )
        cut = inner[:400], inner[400:]
        return [ip6(t.here, t.there, FRAGMENT, h + c) for h, c in zip(heads, cut, strict=True)][
            ::order
        ]

    for name, order in (("in-order", 1), ("out-of-order", -1)):
        yield clause(
            rfc if t.dslite else _RFC2473,
            section if t.dslite else "3.3",
            f"reassembly-{name}",
            "MUST",
            f"a fragmented tunnel packet is reassembled ({'the last first' if order < 0 else 'in order'})",
            from_tunnel(
                t,
                parts(order),
                "IPv4 with 600 octets of data",
                lambda p: first((p.payload[8:] != payload, "its data was changed")),
            ),
        )


def _wrong(t: TunnelEnds) -> Iterator[Clause]:
    def dropped(packet: bytes) -> Callable[[], Exchange]:
        return lambda: refused(t, "left", packet, t.up(), "not forwarded")

    six = ip6(
        t.here, IPv6Address("2001:db8:7::2"), UDP, udp(t.here, IPv6Address("2001:db8:7::2"), (1, 2))
    )
    yield clause(
        _RFC2473,
        "3.3",
        "wrong-version",
        "MUST",
        "IPv6 behind the next header of IPv4 is dropped",
        dropped(t.up(six)),
    )
    short = t.inner()[:12]
    yield clause(
        _RFC2473,
        "3.3",
        "short",
        "MUST",
        "a tunnel packet with less than an IPv4 header in it is dropped",
        dropped(t.up(short)),
    )
    longer = ip4(
        t.inside[0],
        t.server,
        UDP,
        udp(t.inside[0], t.server, (t.inside[1], SERVER_PORT)),
        total=900,
    )
    yield clause(
        _RFC2473,
        "3.3",
        "inner-length",
        "MUST",
        "an inner packet longer than the tunnel packet is dropped",
        dropped(t.up(longer)),
    )
    spoiled = bytearray(t.inner())
    spoiled[10] ^= 0xFF
    yield clause(
        "RFC 1812",
        "5.2.2",
        "inner-checksum",
        "MUST",
        "an inner packet with a wrong header checksum is dropped",
        dropped(t.up(bytes(spoiled))),
    )
    nested = ip4(t.inside[0], t.server, IPIP, t.inner())
    if t.shared and not t.dslite:
        yield clause(
            _RFC2473,
            "3.3",
            "nested",
            "MAY",
            "IPv4 in IPv4 in IPv6 has no port, and is dropped where addresses are shared",
            dropped(t.up(nested)),
        )
