"""RFC 7915 section 4: what becomes of IPv4 packets."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import Any

from v6t.plugins.clauses.base import Clause
from v6t.plugins.clauses.packets import (
    DF,
    PAYLOAD,
    TCP,
    TTL,
    UDP,
    data,
    icmp,
    ip4,
    summing_to_zero,
    tcp,
    udp,
)
from v6t.plugins.clauses.reading import Packet
from v6t.plugins.clauses.rfc7915 import clause
from v6t.plugins.clauses.translator import (
    Place,
    TranslatorEnds,
    answered,
    first,
    from_four,
    not_from_four,
    one,
)

_THIS_NETWORK = str(IPv4Address(0))
_OPTIONS = {
    "router-alert": ("Router Alert", bytes([148, 4, 0, 0])),
    "record-route": ("Record Route", bytes([7, 7, 4, 0, 0, 0, 0, 0])),
    "used-source-route": (
        "a source route that is used up",
        bytes([131, 7, 8]) + IPv4Address("192.0.2.33").packed,
    ),
}
_SOURCE_ROUTE = bytes([131, 7, 4]) + IPv4Address("192.0.2.33").packed
_UNKNOWN = 253
"""For experiments and tests (RFC 3692)."""


def clauses(t: TranslatorEnds) -> Iterator[Clause]:
    """All of section 4 but sizes, fragments and ICMP."""
    yield from _header(t)
    yield from _ttl(t)
    yield from _options(t)
    yield from _transport(t)


def datagram(t: TranslatorEnds, place: Place, payload: bytes = PAYLOAD, **header: Any) -> bytes:
    """UDP from the IPv4 host."""
    ends = t.four, place[0]
    return ip4(*ends, UDP, udp(*ends, (t.server_port, place[1]), payload), **header)


def addressed(t: TranslatorEnds, packet: Packet, protocol: int = UDP) -> str:
    """What is wrong with addresses, protocol and sum of a translated packet."""
    return first(
        (packet.version != 6, "it is no IPv6"),
        (packet.source != t.four6, f"its source is {packet.source}"),
        (packet.destination != t.six, f"its destination is {packet.destination}"),
        (packet.protocol != protocol, f"its next header is {packet.protocol}"),
        (not packet.summed, "its transport checksum is wrong"),
    )


def _header(t: TranslatorEnds) -> Iterator[Clause]:
    def plain(p: Packet) -> str:
        return addressed(t, p) or first(
            (p.payload[8:] != PAYLOAD, "its data was changed"),
            (p.ports[1] != t.port, f"its destination port is {p.ports[1]}"),
        )

    expected = f"one IPv6 packet {t.four6} > {t.six}, UDP, the same data"
    yield clause(
        "4.1",
        "udp",
        "MUST",
        "an IPv4 packet becomes an IPv6 packet between the mapped "
        "addresses, its checksum updated, its data unchanged",
        from_four(t, lambda where: datagram(t, where), expected, one(plain), plain=True),
    )
    yield clause(
        "4.1",
        "traffic-class",
        "SHOULD",
        "the traffic class is the TOS octet",
        from_four(
            t,
            lambda where: datagram(t, where, tos=0xB9),
            "traffic class 0xb9",
            one(lambda p: first((p.tos != 0xB9, f"traffic class {p.tos:#04x}"))),
        ),
    )
    yield clause(
        "4.1",
        "flow-label",
        "MUST",
        "the flow label is 0",
        from_four(
            t,
            lambda where: datagram(t, where),
            "flow label 0",
            one(lambda p: first((p.flow_label != 0, f"flow label {p.flow_label:#x}"))),
        ),
    )
    wanted = 8 + len(PAYLOAD)
    yield clause(
        "4.1",
        "payload-length",
        "MUST",
        "the payload length is the total length less the IPv4 header",
        from_four(
            t,
            lambda where: datagram(t, where),
            f"payload length {wanted}",
            one(lambda p: first((p.length != 40 + wanted, f"payload length {p.length - 40}"))),
        ),
    )
    for name, df, words in (("df", DF, "with"), ("no-df", 0, "without")):
        yield clause(
            "4",
            f"no-fragment-header-{name}",
            "MUST",
            f"a whole packet {words} DF gets no fragment header",
            from_four(
                t,
                lambda where, df=df: datagram(t, where, flags=df),
                "no fragment header",
                one(lambda p: first((44 in p.extensions, "a fragment header"))),
            ),
        )
    for name, source in (("loopback", "127.0.0.1"), ("this-network", _THIS_NETWORK)):
        illegal = IPv4Address(source)
        yield clause(
            "4.1",
            f"illegal-source-{name}",
            "SHOULD",
            f"a packet from {source} is silently discarded",
            not_from_four(
                t,
                lambda where, a=illegal: ip4(
                    a, where[0], UDP, udp(a, where[0], (t.server_port, where[1]))
                ),
                "nothing",
            ),
        )


def _ttl(t: TranslatorEnds) -> Iterator[Clause]:
    yield clause(
        "4.1",
        "hop-limit",
        "MUST",
        "the hop limit is the TTL less one",
        from_four(
            t,
            lambda where: datagram(t, where),
            f"hop limit {TTL - 1}",
            one(lambda p: first((p.ttl != TTL - 1, f"hop limit {p.ttl}"))),
        ),
    )
    yield clause(
        "4.1",
        "ttl-2",
        "MUST",
        "a packet with TTL 2 is forwarded",
        from_four(
            t,
            lambda where: datagram(t, where, ttl=2),
            "hop limit 1",
            one(lambda p: first((p.ttl != 1, f"hop limit {p.ttl}"))),
        ),
    )
    yield clause(
        "4.1",
        "ttl-1",
        "MUST",
        "a packet with TTL 1 is discarded and its sender told",
        from_four(
            t,
            lambda where: datagram(t, where, ttl=1),
            "ICMP time exceeded (11/0) back",
            answered(4, (11, 0)),
        ),
        rare=True,
    )


def _options(t: TranslatorEnds) -> Iterator[Clause]:
    for name, (words, octets) in _OPTIONS.items():

        def optioned(where: Place, octets: bytes = octets) -> bytes:
            ends = t.four, where[0]
            datagram = udp(*ends, (t.server_port, where[1]))
            return ip4(*ends, UDP, datagram, options=octets)

        yield clause(
            "4.1",
            f"option-{name}",
            "MUST",
            f"an IPv4 option ({words}) is ignored, the packet translated",
            from_four(
                t,
                optioned,
                "the packet without options",
                one(
                    lambda p: (
                        addressed(t, p) or first((p.payload[8:] != PAYLOAD, "its data was changed"))
                    )
                ),
            ),
        )

    def routed(where: Place) -> bytes:
        ends = t.four, where[0]
        return ip4(*ends, UDP, udp(*ends, (t.server_port, where[1])), options=_SOURCE_ROUTE)

    yield clause(
        "4.1",
        "source-route",
        "MUST",
        "a packet with an unexpired source route is discarded",
        not_from_four(t, routed, "not forwarded"),
    )
    yield clause(
        "4.1",
        "source-route-error",
        "SHOULD",
        "its sender is told that the source route failed",
        from_four(t, routed, "ICMP source route failed (3/5) back", answered(4, (3, 5))),
        rare=True,
    )


def _transport(t: TranslatorEnds) -> Iterator[Clause]:
    def segment(where: Place) -> bytes:
        ends = t.four, where[0]
        return ip4(*ends, TCP, tcp(*ends, (t.server_port, where[1]), 0x10, PAYLOAD))

    yield clause(
        "4.5",
        "tcp",
        "MUST",
        "a TCP segment's checksum is updated",
        from_four(
            t,
            segment,
            "the segment with a right checksum",
            one(
                lambda p: (
                    addressed(t, p, TCP)
                    or first((p.payload[20:] != PAYLOAD, "its data was changed"))
                )
            ),
            TCP,
        ),
    )

    def unsummed(where: Place) -> bytes:
        ends = t.four, where[0]
        return ip4(*ends, UDP, udp(*ends, (t.server_port, where[1]), summed=False))

    def no_zero(beyond: list[Packet], back: list[Packet]) -> str:
        del back
        return "" if all(p.summed for p in beyond) else "a UDP checksum that is zero or wrong"

    yield clause(
        "4.5",
        "udp-no-checksum",
        "MUST",
        "UDP without checksum is dropped, or gets a right one",
        from_four(t, unsummed, "nothing, or a right checksum", no_zero),
    )
    yield clause(
        "4.5",
        "udp-checksum-made",
        "MAY",
        "UDP without checksum gets one and is forwarded",
        from_four(t, unsummed, "a right checksum", one(lambda p: addressed(t, p))),
    )

    def to_ffff(where: Place) -> bytes:
        return datagram(t, where, summing_to_zero(t.four6, t.six, (t.server_port, t.port)))

    yield clause(
        "4.5",
        "udp-checksum-ffff",
        "MUST",
        "a UDP checksum that is computed as zero is sent as 0xffff",
        from_four(
            t,
            to_ffff,
            "UDP checksum 0xffff",
            one(
                lambda p: (
                    addressed(t, p)
                    or first((p.payload[6:8] != b"\xff\xff", f"checksum 0x{p.payload[6:8].hex()}"))
                )
            ),
        ),
    )
    if t.by_ports:
        return
    for name, protocol, words in (
        ("dccp", 33, "DCCP"),
        ("esp", 50, "ESP"),
        ("unknown", _UNKNOWN, "an unknown protocol"),
    ):
        yield clause(
            "4.1",
            f"protocol-{name}",
            "MUST",
            f"{words} ({protocol}) is forwarded, its number copied",
            from_four(
                t,
                lambda where, n=protocol: ip4(t.four, where[0], n, data(40)),
                f"next header {protocol}, the same data",
                one(
                    lambda p, n=protocol: (
                        addressed(t, p, n)
                        or first((n != 33 and p.payload != data(40), "its data was changed"))
                    )
                ),
            ),
        )
    yield clause(
        "4.2",
        "igmp",
        "SHOULD",
        "IGMP is silently dropped",
        not_from_four(
            t,
            lambda where: ip4(t.four, where[0], 2, icmp(0x16, 0, 0xE0000105, b"")),
            "nothing",
            silently=True,
        ),
    )
