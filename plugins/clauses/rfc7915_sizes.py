"""RFC 7915 section 4: IPv4 packets that are too big for IPv6, or fragments already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from v6t.plugins.clauses.base import Clause
from v6t.plugins.clauses.ends import Judge
from v6t.plugins.clauses.packets import DF, MF, UDP, data, ip4, udp
from v6t.plugins.clauses.reading import Packet
from v6t.plugins.clauses.rfc7915 import clause
from v6t.plugins.clauses.rfc7915_four import addressed, datagram
from v6t.plugins.clauses.translator import (
    Place,
    TranslatorEnds,
    answered,
    first,
    from_four,
    not_from_four,
    one,
)

_IDENTIFICATION = 0xBEEF
_DATAGRAM = 1400
"""Octets of IPv4 that fit every link, and do not fit the smallest IPv6 MTU."""


def clauses(t: TranslatorEnds) -> Iterator[Clause]:
    """All of them."""
    yield from without_df(t)
    yield from _sizes(t)
    yield from _fragments(t)


def without_df(t: TranslatorEnds, suffix: str = "") -> Iterator[Clause]:
    """What ``lowest-ipv6-mtu`` is about: it is 1280, or what the user says."""
    exact = t.lowest - 20 - 28
    yield clause(
        "4",
        f"no-df-fits{suffix}",
        "MUST",
        f"a packet without DF that becomes {t.lowest} octets is not fragmented",
        from_four(
            t,
            lambda where: datagram(t, where, data(exact)),
            f"one packet of {t.lowest} octets",
            one(
                lambda p: (
                    addressed(t, p)
                    or first(
                        (p.fragment or 44 in p.extensions, "a fragment header"),
                        (p.length != t.lowest, f"{p.length} octets"),
                    )
                )
            ),
        ),
    )
    if t.lowest < _DATAGRAM + 20 <= t.mtu6:
        sent = data(_DATAGRAM - 28)

        def pieces(beyond: list[Packet], back: list[Packet]) -> str:
            del back
            return fragmented(t, beyond, _DATAGRAM - 20, t.lowest) or first(
                (_joined(beyond)[8:] != sent, "the fragments do not make up the data"),
                (not _whole(beyond).summed, "the checksum of the whole is wrong"),
            )

        yield clause(
            "4.1",
            f"no-df-too-big{suffix}",
            "SHOULD",
            f"a packet without DF that would exceed {t.lowest} octets is fragmented to that",
            from_four(
                t,
                lambda where: datagram(t, where, sent),
                f"fragments of at most {t.lowest} octets that make up the packet",
                pieces,
            ),
        )


def _sizes(t: TranslatorEnds) -> Iterator[Clause]:
    if t.mtu4 + 20 > t.mtu6:
        largest = data(t.mtu4 - 28)
        yield clause(
            "4.1",
            "df-too-big",
            "MUST",
            "a packet with DF that does not fit the IPv6 link is discarded and its sender told",
            from_four(
                t,
                lambda where: datagram(t, where, largest, flags=DF),
                f"ICMP fragmentation needed (3/4) back, MTU {t.mtu6 - 20}",
                answered(
                    4,
                    (3, 4),
                    lambda p: first((p.word & 0xFFFF != t.mtu6 - 20, f"MTU {p.word & 0xFFFF}")),
                ),
            ),
            rare=True,
        )
    if t.lowest < _DATAGRAM + 20 <= t.mtu6:
        yield clause(
            "4",
            "df-fits",
            "MUST",
            "a packet with DF that fits the IPv6 link is forwarded whole",
            from_four(
                t,
                lambda where: datagram(t, where, data(_DATAGRAM - 28), flags=DF),
                f"one packet of {_DATAGRAM + 20} octets",
                one(
                    lambda p: (
                        addressed(t, p)
                        or first((p.fragment or 44 in p.extensions, "a fragment header"))
                    )
                ),
            ),
        )


def fragmented(t: TranslatorEnds, fragments: list[Packet], total: int, limit: int) -> str:
    """What is wrong with fragments of so many octets together."""
    if not fragments:
        return "nothing"
    ordered = sorted(fragments, key=lambda p: p.offset)
    at = 0
    for piece in ordered:
        wrong = first(
            (
                piece.source != t.four6 or piece.destination != t.six,
                "a fragment with other addresses",
            ),
            (piece.identification is None, "a packet without fragment header"),
            (piece.identification != ordered[0].identification, "fragments of several packets"),
            (piece.length > limit, f"a fragment of {piece.length} octets"),
            (piece.offset != at, f"a fragment at {piece.offset} in place of {at}"),
        )
        if wrong:
            return wrong
        at += len(piece.payload)
    return first(
        (at != total, f"{at} octets of {total}"), (ordered[-1].mf, "the last fragment is missing")
    )


def _joined(fragments: list[Packet]) -> bytes:
    return b"".join(p.payload for p in sorted(fragments, key=lambda p: p.offset))


def _whole(fragments: list[Packet]) -> Packet:
    return replace(fragments[0], payload=_joined(fragments), mf=False, offset=0)


def _fragments(t: TranslatorEnds) -> Iterator[Clause]:
    """Fragments arrive: with what the fragment header must hold."""
    whole = data(600)

    def part(where: Place, at: int, length: int, flags: int) -> bytes:
        ends = t.four, where[0]
        octets = udp(*ends, (t.server_port, where[1]), whole)[at : at + length]
        return ip4(*ends, UDP, octets, flags=flags, offset=at, identification=_IDENTIFICATION)

    def judge(at: int, length: int, more: bool) -> Judge:
        return one(
            lambda p: first(
                (p.source != t.four6 or p.destination != t.six, "its addresses are wrong"),
                (p.extensions != (44,), "no fragment header"),
                (
                    p.identification != _IDENTIFICATION,
                    f"identification {p.identification or 0:#010x}",
                ),
                (p.offset != at, f"offset {p.offset}"),
                (p.mf != more, f"M flag {int(p.mf)}"),
                (p.protocol != UDP, f"next header {p.protocol}"),
                (p.length != 48 + length, f"payload length {p.length - 40}"),
                (not at and p.payload[8:] != whole[: length - 8], "its data was changed"),
                (
                    bool(at) and p.payload != udp(t.four, t.four, (0, 0), whole)[at : at + length],
                    "its data was changed",
                ),
            )
        )

    kinds = [
        ("first", 0, 200, MF, True),
        ("middle", 200, 200, MF, True),
        ("last", 400, 208, 0, False),
        ("first-df", 0, 200, MF | DF, True),
    ]
    for name, at, length, flags, more in kinds:
        if t.reassembles:
            break
        words = (
            f"offset {at}, M {int(more)}, identification {_IDENTIFICATION:#06x} in the low 16 bits"
        )
        yield clause(
            "4.1",
            f"fragment-{name}",
            "MUST",
            f"a {name.replace('-df', '')} fragment{' with DF' if flags & DF else ''} gets a fragment "
            "header with its offset, M flag and identification",
            from_four(
                t,
                lambda where, a=at, n=length, f=flags: part(where, a, n, f),
                words,
                judge(at, length, more),
            ),
        )
    if not t.stateful:

        def unsummed(where: Place) -> bytes:
            ends = t.four, where[0]
            octets = udp(*ends, (t.server_port, where[1]), whole, summed=False)[:200]
            return ip4(*ends, UDP, octets, flags=MF, identification=_IDENTIFICATION)

        yield clause(
            "4.5",
            "fragment-no-checksum",
            "SHOULD",
            "a first fragment of UDP without checksum is dropped by a stateless translator",
            not_from_four(t, unsummed, "nothing"),
        )
    if not t.reassembles and t.lowest < _DATAGRAM + 20 <= t.mtu6:
        long = data(_DATAGRAM)

        def again(where: Place) -> bytes:
            ends = t.four, where[0]
            octets = udp(*ends, (t.server_port, where[1]), long)[:1376]
            return ip4(*ends, UDP, octets, flags=MF, identification=_IDENTIFICATION)

        def split(beyond: list[Packet], back: list[Packet]) -> str:
            del back
            if any(not p.mf for p in beyond):
                return "a fragment says it is the last"
            wrong = fragmented(t, beyond, 1376, t.lowest)
            return "" if wrong == "the last fragment is missing" else wrong

        yield clause(
            "4.1",
            "fragment-too-big",
            "SHOULD",
            f"a fragment without DF that would exceed {t.lowest} octets is fragmented further",
            from_four(t, again, f"fragments of at most {t.lowest} octets, all with M set", split),
        )
