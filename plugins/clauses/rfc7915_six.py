"""RFC 7915 section 5: what becomes of IPv6 packets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import IPv6Address
from typing import Any

from v6t.plugins.clauses.base import Clause, Exchange, untold
from v6t.plugins.clauses.ends import asked
from v6t.plugins.clauses.packets import (
    FRAGMENT,
    HOP_BY_HOP,
    OPTIONS,
    PAYLOAD,
    ROUTING,
    TCP,
    TTL,
    UDP,
    data,
    fragment_header,
    ip6,
    summing_to_zero,
    tcp,
    udp,
)
from v6t.plugins.clauses.reading import Packet
from v6t.plugins.clauses.rfc7915 import clause
from v6t.plugins.clauses.translator import (
    TranslatorEnds,
    answered,
    first,
    from_six,
    not_from_six,
    one,
)

_PAD = bytes([1, 4, 0, 0, 0, 0])
"""PadN: fills an options header of eight octets."""
_SMALLEST = 1260
"""IPv4 packets up to so many octets have no DF."""
_IDENTIFICATION = 0x89ABCDEF


def clauses(t: TranslatorEnds) -> Iterator[Clause]:
    """All of section 5 but ICMP."""
    yield from _header(t)
    yield from _hop_limit(t)
    yield from _extensions(t)
    yield from _fragments(t)


def datagram(t: TranslatorEnds, payload: bytes = PAYLOAD, **header: Any) -> bytes:
    """UDP from the IPv6 host."""
    ends = t.six, t.four6
    return ip6(*ends, UDP, udp(*ends, (t.port, t.server_port), payload), **header)


def addressed(t: TranslatorEnds, packet: Packet, protocol: int = UDP) -> str:
    """What is wrong with header, addresses, protocol and sum of a translated packet."""
    return first(
        (packet.version != 4, "it is no IPv4"),
        (packet.source not in t.six4, f"its source is {packet.source}"),
        (packet.destination != t.four, f"its destination is {packet.destination}"),
        (packet.protocol != protocol, f"its protocol is {packet.protocol}"),
        (not packet.sound, "its header checksum is wrong"),
        (bool(packet.options), "it has IPv4 options"),
        (not packet.summed, "its transport checksum is wrong"),
    )


def _header(t: TranslatorEnds) -> Iterator[Clause]:
    def plain(p: Packet) -> str:
        return addressed(t, p) or first((p.payload[8:] != PAYLOAD, "its data was changed"))

    yield clause(
        "5.1",
        "udp",
        "MUST",
        "an IPv6 packet becomes an IPv4 packet between the mapped "
        "addresses, its checksum updated, its data unchanged",
        from_six(t, datagram(t), "one IPv4 packet, UDP, the same data", one(plain), plain=True),
    )
    yield clause(
        "5.1",
        "tos",
        "SHOULD",
        "the TOS octet is the traffic class",
        from_six(
            t,
            datagram(t, traffic_class=0xB9),
            "TOS 0xb9",
            one(lambda p: first((p.tos != 0xB9, f"TOS {p.tos:#04x}"))),
        ),
    )
    wanted = 28 + len(PAYLOAD)
    yield clause(
        "5.1",
        "total-length",
        "MUST",
        "the total length is the payload length plus the IPv4 header",
        from_six(
            t,
            datagram(t),
            f"total length {wanted}",
            one(lambda p: first((p.length != wanted, f"total length {p.length}"))),
        ),
    )
    yield clause(
        "5.1",
        "no-fragment",
        "MUST",
        "a whole packet has neither the More Fragments flag nor an offset",
        from_six(
            t,
            datagram(t),
            "MF 0, offset 0",
            one(lambda p: first((p.fragment, f"MF {int(p.mf)}, offset {p.offset}"))),
        ),
    )
    for octets, df in (
        (46, False),
        (_SMALLEST, False),
        (_SMALLEST + 1, True),
        (_SMALLEST + 140, True),
    ):
        words = f"DF {int(df)}"
        yield clause(
            "5.1",
            f"df-{octets}",
            "MUST",
            f"an IPv4 packet of {octets} octets is sent {'with' if df else 'without'} DF",
            from_six(
                t,
                datagram(t, data(octets - 28)),
                words,
                one(lambda p, df=df: addressed(t, p) or first((p.df != df, f"DF {int(p.df)}"))),  # type: ignore[misc]
            ),
        )
    ends = t.six, t.four6
    segment = ip6(*ends, TCP, tcp(*ends, (t.port, t.server_port), 0x02, b""))
    yield clause(
        "5.5",
        "tcp",
        "MUST",
        "a TCP segment's checksum is updated",
        from_six(
            t, segment, "the segment with a right checksum", one(lambda p: addressed(t, p, TCP))
        ),
    )
    expected = "UDP checksum 0xffff"

    def to_ffff() -> Exchange:
        seen = yield from t.opened(UDP)
        if seen is None:
            return untold(expected, "nothing passes")
        packet = datagram(t, summing_to_zero(seen[0], t.four, (seen[1], t.server_port)))

        def judge(p: Packet) -> str:
            checksum = p.payload[6:8]
            return addressed(t, p) or first(
                (checksum != b"\xff\xff", f"checksum 0x{checksum.hex()}")
            )

        return (yield from asked(t, t.six_side, packet, expected, one(judge), control=t.up()))

    yield clause(
        "5.5",
        "udp-checksum-ffff",
        "MUST",
        "a UDP checksum that is computed as zero is sent as 0xffff: zero means none",
        to_ffff,
    )
    if not t.by_ports:
        for name, protocol, words in (
            ("dccp", 33, "DCCP"),
            ("esp", 50, "ESP"),
            ("unknown", 253, "an unknown protocol"),
        ):
            packet = ip6(*ends, protocol, data(40))
            yield clause(
                "5.1",
                f"protocol-{name}",
                "MUST",
                f"{words} ({protocol}) is forwarded, its number copied",
                from_six(
                    t,
                    packet,
                    f"protocol {protocol}, the same data",
                    one(
                        lambda p, n=protocol: (
                            addressed(t, p, n)
                            or first((n != 33 and p.payload != data(40), "its data was changed"))
                        )
                    ),
                ),
            )
    illegal = IPv6Address("::1")
    packet = ip6(illegal, t.four6, UDP, udp(illegal, t.four6, (t.port, t.server_port)))
    yield clause(
        "5.1",
        "illegal-source",
        "SHOULD",
        "a packet from ::1 is silently dropped",
        not_from_six(t, packet, "nothing", silently=True),
    )


def _hop_limit(t: TranslatorEnds) -> Iterator[Clause]:
    yield clause(
        "5.1",
        "ttl",
        "MUST",
        "the TTL is the hop limit less one",
        from_six(
            t,
            datagram(t),
            f"TTL {TTL - 1}",
            one(lambda p: first((p.ttl != TTL - 1, f"TTL {p.ttl}"))),
        ),
    )
    yield clause(
        "5.1",
        "hop-limit-2",
        "MUST",
        "a packet with hop limit 2 is forwarded",
        from_six(
            t, datagram(t, hop_limit=2), "TTL 1", one(lambda p: first((p.ttl != 1, f"TTL {p.ttl}")))
        ),
    )
    yield clause(
        "5.1",
        "hop-limit-1",
        "MUST",
        "a packet with hop limit 1 is discarded and its sender told",
        from_six(
            t, datagram(t, hop_limit=1), "ICMPv6 time exceeded (3/0) back", answered(6, (3, 0))
        ),
        rare=True,
    )


def _extensions(t: TranslatorEnds) -> Iterator[Clause]:
    ends = t.six, t.four6
    datagram = udp(*ends, (t.port, t.server_port))
    unrouted = bytes([UDP, 0, 0, 0, 0, 0, 0, 0])
    options = bytes([UDP, 0]) + _PAD
    chains = {
        "hop-by-hop": (HOP_BY_HOP, options, "hop-by-hop options"),
        "destination-options": (OPTIONS, options, "destination options"),
        "routing-used": (ROUTING, unrouted, "a routing header with no segments left"),
        "chain": (
            HOP_BY_HOP,
            bytes([ROUTING, 0]) + _PAD + bytes([OPTIONS, 0]) + bytes(6) + options,
            "three extension headers",
        ),
    }

    def skipped(p: Packet) -> str:
        return addressed(t, p) or first(
            (p.length != 20 + len(datagram), f"total length {p.length}"),
            (p.payload[8:] != PAYLOAD, "its data was changed"),
        )

    for name, (number, octets, words) in chains.items():
        yield clause(
            "5.1",
            f"extension-{name}",
            "MUST",
            f"{words}: ignored, the packet translated without",
            from_six(
                t,
                ip6(*ends, number, octets + datagram),
                "UDP without extension headers",
                one(skipped),
            ),
        )
    left = bytes([UDP, 2, 0, 1, 0, 0, 0, 0]) + IPv6Address("2001:db8::5").packed
    packet = ip6(*ends, ROUTING, left + datagram)
    yield clause(
        "5.1",
        "segments-left",
        "MUST",
        "a packet with segments left in a routing header is not translated",
        not_from_six(t, packet, "not forwarded"),
    )
    yield clause(
        "5.1",
        "segments-left-error",
        "SHOULD",
        "its sender is told where (pointer at Segments Left)",
        from_six(
            t,
            packet,
            "ICMPv6 parameter problem (4/0) back, pointer 43",
            answered(6, (4, 0), lambda p: first((p.word != 43, f"pointer {p.word}"))),
        ),
        rare=True,
    )


def _fragments(t: TranslatorEnds) -> Iterator[Clause]:
    ends = t.six, t.four6
    whole = data(600)
    octets = udp(*ends, (t.port, t.server_port), whole)
    low = _IDENTIFICATION & 0xFFFF

    # of what was reassembled for its ports (RFC 6146, section 3.4) nothing is kept
    kept = not t.by_ports

    def judge(at: int, length: int, more: bool) -> Callable[[list[Packet], list[Packet]], str]:
        return one(
            lambda p: first(
                (p.source not in t.six4 or p.destination != t.four, "its addresses are wrong"),
                (kept and p.identification != low, f"identification {p.identification or 0:#06x}"),
                (p.offset != at, f"offset {p.offset}"),
                (p.mf != more, f"MF {int(p.mf)}"),
                (kept and p.df, "DF is set"),
                (p.protocol != UDP, f"protocol {p.protocol}"),
                (p.length != 20 + length, f"total length {p.length}"),
                (not p.sound, "its header checksum is wrong"),
                (
                    p.payload[8 if not at else 0 :]
                    != octets[at + (8 if not at else 0) : at + length],
                    "its data was changed",
                ),
            )
        )

    kinds = [("first", 0, 200, True), ("middle", 200, 200, True), ("last", 400, 208, False)]
    for name, at, length, more in kinds if not t.by_ports else []:
        header = fragment_header(UDP, at, more=more, identification=_IDENTIFICATION)
        packet = ip6(*ends, FRAGMENT, header + octets[at : at + length])
        yield clause(
            "5.1.1",
            f"fragment-{name}",
            "MUST",
            f"a {name} fragment keeps offset, M flag and the low 16 bits of its identification, without DF",
            from_six(
                t,
                packet,
                f"offset {at}, MF {int(more)}, identification {low:#06x}, DF 0",
                judge(at, length, more),
            ),
        )
    single = fragment_header(UDP, identification=_IDENTIFICATION)
    small = ip6(*ends, FRAGMENT, single + octets)
    yield clause(
        "5.1.1",
        "atomic-fragment",
        "MUST",
        "an atomic fragment becomes a whole packet"
        + (" without DF that keeps its identification" if kept else ""),
        from_six(
            t,
            small,
            "MF 0, offset 0" + (f", identification {low:#06x}, DF 0" if kept else ""),
            judge(0, len(octets), False),
        ),
    )
    large = udp(*ends, (t.port, t.server_port), data(_SMALLEST + 100 - 28))
    if kept:
        yield clause(
            "5.1.1",
            "atomic-fragment-large",
            "MUST",
            "an atomic fragment above 1260 octets has no DF, either",
            from_six(
                t,
                ip6(*ends, FRAGMENT, single + large),
                "DF 0",
                one(lambda p: addressed(t, p) or first((p.df, "DF is set"))),
            ),
        )
    following = fragment_header(OPTIONS, more=True, identification=_IDENTIFICATION)
    options = bytes([UDP, 0]) + _PAD
    yield clause(
        "5.1.1",
        "fragment-extension",
        "SHOULD",
        "a fragment whose header names an extension header is dropped",
        not_from_six(t, ip6(*ends, FRAGMENT, following + options + octets[:200]), "nothing"),
    )
