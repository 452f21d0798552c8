"""What customers of a relay get: fragments, ICMP errors about their packets, packets of other customers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import IPv6Address

from v6t.plugins.clauses.base import Clause, Exchange, Level
from v6t.plugins.clauses.base import clause as placed
from v6t.plugins.clauses.ends import asked, judged, sent
from v6t.plugins.clauses.packets import ICMP, MF, UDP, data, icmp, ip4, udp
from v6t.plugins.clauses.reading import Packet
from v6t.plugins.clauses.relay import SERVER_PORT, RelayEnds

PLACE = {"MAP-E": ("RFC 7597", "8.1"), "MAP-T": ("RFC 7599", "8.3"), "lw4o6": ("RFC 7596", "6.2")}
"""Where each says that sources are checked."""


def clause(
    r: RelayEnds,
    name: str,
    level: Level,
    title: str,
    exchange: Callable[[], Exchange],
    place: tuple[str, str] | None = None,
    *,
    rare: bool = False,
) -> Clause:
    """A clause of the technology's RFC, or of another place."""
    rfc, section = place or PLACE[r.kind]
    return placed(rfc, section, name, level, title, exchange, rare=rare)


def to_customers(
    r: RelayEnds, customers: list[IPv6Address]
) -> Callable[[list[Packet], list[Packet]], str]:
    """One packet for each, in any order."""

    def judge(beyond: list[Packet], back: list[Packet]) -> str:
        del back
        if len(beyond) != len(customers):
            return f"{len(beyond)} of {len(customers)} packets"
        for p in beyond:
            inner = r.inner(p)
            if inner is None or not inner.summed:
                return f"no right packet for a customer: {p}"
        destinations, wanted = (
            sorted(int(p.destination) for p in beyond),
            sorted(map(int, customers)),
        )
        if destinations != wanted:
            wrong = next((IPv6Address(a) for a in destinations if a not in wanted), None)
            return f"a packet to {wrong or 'a customer twice'}"
        return ""

    return judge


def clauses(r: RelayEnds) -> Iterator[Clause]:
    """Fragments, errors, hairpin."""
    yield from _fragments(r)
    yield from _errors(r)
    yield from _hairpin(r)


def _fragments(r: RelayEnds) -> Iterator[Clause]:
    """A datagram for a customer in two fragments: only the first one tells whose it is."""
    me, whole = r.mine, data(600)
    place = {
        "MAP-E": ("RFC 7597", "8.3.2"),
        "MAP-T": ("RFC 7599", "10.2"),
        "lw4o6": ("RFC 7596", "6.2"),
    }[r.kind]
    # of lw4o6 only the tunnel's fragments are spoken of (RFC 6333 section 6.3): a packet without a port
    # matches no entry of the binding table, and may be discarded
    level: Level = {"MAP-E": "MUST", "MAP-T": "SHOULD", "lw4o6": "MAY"}[r.kind]  # type: ignore[assignment]

    def parts(number: int) -> list[bytes]:
        ends = r.server, me.ipv4
        octets = udp(*ends, (SERVER_PORT, me.port), whole)
        return [
            ip4(*ends, UDP, octets[:304], flags=MF, identification=number),
            ip4(*ends, UDP, octets[304:], offset=304, identification=number),
        ]

    def judge(beyond: list[Packet], back: list[Packet]) -> str:
        del back
        if any(p.destination != me.ipv6 for p in beyond):
            return "a fragment for somebody else"
        inner = [p for p in map(r.inner, beyond) if p is not None]
        joined = b"".join(p.payload for p in sorted(inner, key=lambda p: p.offset))
        return "" if joined[8:] == whole else f"{len(joined)} octets of {len(whole) + 8}"

    for name, words, order in (("in-order", "in order", 1), ("out-of-order", "the last first", -1)):
        number = 0x2200 + order
        yield clause(
            r,
            f"fragments-{name}",
            level,
            f"a fragmented datagram for a customer arrives whole ({words})",
            lambda n=number, o=order: asked(
                r,
                "right",
                parts(n)[::o],
                f"600 octets to {me.ipv6}",
                judge,
                control=r.down(me.ipv4, me.port),
            ),
            place,
        )


def _errors(r: RelayEnds) -> Iterator[Clause]:
    """ICMP errors about a customer's packets: the port is within."""
    if r.kind == "MAP-T":
        return  # RFC 7599 section 9: they are mapped without a port
    me = r.mine
    place: tuple[str, str] = ("RFC 7596", "8.1") if r.kind == "lw4o6" else ("RFC 7597", "8.2")
    about = ip4(me.ipv4, r.server, UDP, udp(me.ipv4, r.server, (me.port, SERVER_PORT)))
    for kind, code, words in (
        (3, 3, "port unreachable"),
        (3, 4, "fragmentation needed"),
        (11, 0, "time exceeded"),
    ):
        packet = ip4(r.server, me.ipv4, ICMP, icmp(kind, code, 1400 if code == 4 else 0, about))
        yield clause(
            r,
            f"icmp-error-{kind}-{code}",
            "SHOULD",
            f"ICMP {words} about a customer's packet reaches it",
            lambda p=packet: asked(
                r,
                "right",
                p,
                f"to {me.ipv6}",
                to_customers(r, [me.ipv6]),
                control=r.down(me.ipv4, me.port),
            ),
            place,
        )


def _hairpin(r: RelayEnds) -> Iterator[Clause]:
    """Between two customers; of MAP in hub-and-spoke mode, where CEs know no rule but their own."""
    # MAP-T's packets between CEs name both by their IPv4 addresses, so those are to differ
    if (partner := (r.sibling if r.tunnels else None) or r.other) is None:
        return
    me = r.mine
    packet = r.up(me, me.port, to=partner.ipv4, ports=partner.port)
    level: Level = "MUST" if r.kind == "lw4o6" else "MAY"
    place = {
        "MAP-E": ("RFC 7597", "5"),
        "MAP-T": ("RFC 7599", "12.2"),
        "lw4o6": ("RFC 7596", "6.2"),
    }[r.kind]
    source = r.relay if r.tunnels else r.behind(me.ipv4)
    reached = to_customers(r, [partner.ipv6])

    def judge(beyond: list[Packet], back: list[Packet]) -> str:
        wrong = [p.source for p in beyond if p.source != source]
        return reached(beyond, back) or (f"from {wrong[0]}" if wrong else "")

    def exchange() -> Exchange:
        heard = yield from sent(r, "left", packet)
        expected = f"{'in a tunnel ' if r.tunnels else ''}to {partner.ipv6} from {source}"
        return judged(r, "left", heard, expected, judge, to="left")

    yield clause(
        r,
        "hairpin",
        level,
        "a packet of a customer for another one is sent back "
        + ("through a tunnel" if r.tunnels else "to it, from the address behind the DMR"),
        exchange,
        place,
    )
