"""ICMP through a NAT (RFC 5508): queries and their identifiers, and errors that queries and hosts cause."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address

from v6t.plugins.clauses.base import Clause, Frame, Send, clause, conforms, deviates, untold
from v6t.plugins.clauses.nat_delivery import NO_MAPPING, Steps
from v6t.plugins.clauses.nat_ends import Address, Endpoint, NatEnds
from v6t.plugins.clauses.packets import (
    ICMP,
    PAYLOAD,
    UDP,
    data,
    echo_word,
    icmp,
    icmp6,
    ip4,
    ip6,
    udp,
)

NO_QUERY = "no echo request comes out, so nothing can be told"
Seen = Generator[Send, Sequence[Frame], Endpoint | None]


def clauses(n: NatEnds) -> Iterator[Clause]:
    """All of them."""
    yield from _queries(n)
    yield from _errors(n)
    yield from _own(n)


def queried(n: NatEnds, host: int, identifier: int, server: int = 0) -> Seen:
    """The public address and identifier a server sees of an echo request."""
    who = n.servers[server]
    return (yield from n.seen_as(n.echo(host, identifier, who), who, ICMP))


def reply(n: NatEnds, to: Endpoint, server: int = 0) -> bytes:
    """A server's echo reply."""
    who = n.servers[server]
    return ip4(who, to.ipv4, ICMP, icmp(0, 0, echo_word(to.port), PAYLOAD))


def answered(n: NatEnds, heard: Sequence[Frame], host: int, identifier: int) -> bool:
    """Whether a host's own echo reply came, checksums right."""
    return any(
        h == host
        and p.kind == ((0, 0) if p.version == 4 else (129, 0))
        and p.ports[0] == identifier
        and p.payload[8:] == PAYLOAD
        and p.summed
        and p.sound
        for h, p in n.inside(heard)
    )


def _queries(n: NatEnds) -> Iterator[Clause]:
    def query(expected: str) -> Steps:
        identifier = next(n.ports)
        seen = yield from queried(n, 0, identifier)
        if seen is None:
            return deviates(expected, "no echo request outside, or a wrong checksum")
        if seen.ipv4 not in n.pool:
            return deviates(expected, f"the source is {seen.ipv4}")
        heard = yield Send([n.frame("right", reply(n, seen))])
        return (
            conforms(expected, f"{seen.ipv4} identifier {seen.port}")
            if answered(n, heard, 0, identifier)
            else deviates(expected, n.seen(heard))
        )

    yield clause(
        "RFC 5508",
        "REQ-1",
        "query",
        "MUST",
        "an echo request goes out from a public address, its reply comes back with its identifier",
        lambda: query("the request outside, its reply inside"),
    )

    def independent() -> Steps:
        identifier, expected = next(n.ports), "one public identifier towards both servers"
        one = yield from queried(n, 0, identifier)
        two = yield from queried(n, 0, identifier, 1)
        if one is None or two is None:
            return untold(expected, NO_QUERY)
        words = f"{one.port}, {two.port}"
        return conforms(expected, words) if one == two else deviates(expected, words)

    yield clause(
        "RFC 5508",
        "REQ-1a",
        "query-independent",
        "SHOULD",
        "one identifier has one public identifier towards all servers",
        independent,
    )

    def overloaded() -> Steps:
        identifier, expected = next(n.ports), "two identifiers, each host its own reply"
        one = yield from queried(n, 0, identifier)
        two = yield from queried(n, 1, identifier)
        if one is None or two is None:
            return untold(expected, NO_QUERY)
        if one == two:
            return deviates(expected, f"both are {one.ipv4} identifier {one.port}")
        for host, to in ((0, one), (1, two)):
            heard = yield Send([n.frame("right", reply(n, to))])
            if not answered(n, heard, host, identifier):
                return deviates(expected, n.seen(heard))
        return conforms(expected, f"{one.port}, {two.port}")

    yield clause(
        "RFC 5508",
        "REQ-1",
        "query-overloading",
        "MUST",
        "two hosts with the same identifier get their own replies",
        overloaded,
    )


def _errors(n: NatEnds) -> Iterator[Clause]:
    def error(seen: Endpoint, kind: int, code: int, *, spoilt: bool = False) -> bytes:
        who = n.servers[0]
        about = ip4(seen.ipv4, who, ICMP, icmp(8, 0, echo_word(seen.port), PAYLOAD))
        message = icmp(kind, code, 0, about)
        if spoilt:
            message = message[:2] + bytes([message[2] ^ 0x5A]) + message[3:]
        return ip4(who, seen.ipv4, ICMP, message)

    def translated(kind: int, code: int) -> Steps:
        identifier, expected = next(n.ports), "the error inside, about the host's own request"
        seen = yield from queried(n, 0, identifier)
        if seen is None:
            return untold(expected, NO_QUERY)
        heard = yield Send([n.frame("right", error(seen, kind, code))])
        errors = [p for h, p in n.inside(heard) if h == 0 and p.error]
        if not errors:
            return deviates(expected, n.seen(heard))
        about = errors[0].about
        if about is None or about.source != n.own(0) or about.ports[0] != identifier:
            return deviates(expected, f"about {about}")
        return (
            conforms(expected) if errors[0].summed else deviates(expected, "a wrong ICMP checksum")
        )

    for kind, code, words in ((3, 1, "host unreachable"), (11, 0, "time exceeded")):
        yield clause(
            "RFC 5508",
            "REQ-4",
            f"query-error-{kind}-{code}",
            "MUST",
            f"ICMP {words} about an echo request reaches the host, its identifier translated",
            lambda k=kind, c=code: translated(k, c),
        )

    def keeps_mapping() -> Steps:
        identifier, expected = next(n.ports), "the reply after the error, inside"
        seen = yield from queried(n, 0, identifier)
        if seen is None:
            return untold(expected, NO_QUERY)
        yield Send([n.frame("right", error(seen, 3, 1))])
        heard = yield Send([n.frame("right", reply(n, seen))])
        return (
            conforms(expected)
            if answered(n, heard, 0, identifier)
            else deviates(expected, n.seen(heard))
        )

    yield clause(
        "RFC 5508",
        "REQ-6",
        "query-error-keeps",
        "MUST",
        "an ICMP error about a query ends no session",
        keeps_mapping,
    )

    def broken() -> Steps:
        identifier, expected = next(n.ports), "nothing inside"
        seen = yield from queried(n, 0, identifier)
        if seen is None:
            return untold(expected, NO_QUERY)
        heard = yield Send([n.frame("right", error(seen, 3, 1, spoilt=True))])
        if n.inside(heard):
            return deviates(expected, n.seen(heard))
        heard = yield Send([n.frame("right", error(seen, 3, 1))])
        return (
            conforms(expected)
            if n.inside(heard)
            else untold(expected, "an error with a right checksum does not pass, either")
        )

    yield clause(
        "RFC 5508",
        "REQ-3",
        "error-checksum",
        "SHOULD",
        "an ICMP error with a wrong ICMP checksum is silently dropped",
        broken,
    )


def _own(n: NatEnds) -> Iterator[Clause]:
    """Errors that hosts inside send, and that the NAT does."""

    def refused(host: int, source: Address, own: Address, ports: tuple[int, int]) -> bytes:
        """Port unreachable, as a host says it about a datagram it got."""

        def build(here: Address, there: Address) -> bytes:
            octets = udp(source, own, ports, data(40))
            if isinstance(here, IPv6Address) and isinstance(there, IPv6Address):
                about = ip6(there, here, UDP, octets)
                return icmp6(here, there, 1, 4, 0, about)
            return icmp(3, 3, 0, ip4(_four(there), _four(here), UDP, octets))

        to = source if isinstance(source, IPv4Address) else n.extracted(source)
        return n.carried(host, to, ICMP, build)[0]

    def outward() -> Steps:
        port, expected = next(n.ports), "the error outside, about the public endpoint"
        server = n.server(0)
        seen = yield from n.mapped(0, port, server)
        if seen is None:
            return untold(expected, NO_MAPPING)
        heard = yield Send([n.frame("right", n.down(server, seen, data(40)))])
        came = [p for h, p in n.inside(heard) if h == 0]
        if not came:
            return untold(expected, NO_MAPPING)
        refusal = refused(0, came[0].source, came[0].destination, (server.port, port))
        heard = yield Send([n.frame("left", refusal)])
        errors = [p for p in n.packets("right", heard) if p.error]
        if not errors:
            return deviates(expected, n.seen(heard))
        about = errors[0].about
        if errors[0].source not in n.pool or not errors[0].summed:
            return deviates(expected, f"{errors[0]}, or its checksum is wrong")
        if about is None or about.destination != seen.ipv4 or about.ports[1] != seen.port:
            return deviates(expected, f"about {about}")
        return conforms(expected)

    yield clause(
        "RFC 5508",
        "REQ-5",
        "error-from-inside",
        "MUST",
        "a host's ICMP error about an answer goes out, translated with what is in it",
        outward,
    )

    def hairpinned() -> Steps:
        expected = "the error, at the first host, about its own datagram"
        mine, theirs = next(n.ports), next(n.ports)
        one = yield from n.mapped(0, mine, n.server(0))
        two = yield from n.mapped(1, theirs, n.server(0))
        if one is None or two is None:
            return untold(expected, NO_MAPPING)
        heard = yield Send([n.frame("left", n.up(0, mine, two, data(40)))])
        came = [p for h, p in n.inside(heard) if h == 1 and p.protocol == UDP]
        if not came:
            return untold(expected, "no hairpinning")
        refusal = refused(1, came[0].source, came[0].destination, came[0].ports)
        heard = yield Send([n.frame("left", refusal)])
        errors = [p for h, p in n.inside(heard) if h == 0 and p.error]
        if not errors:
            return deviates(expected, n.seen(heard))
        about = errors[0].about
        right = about is not None and about.source == n.own(0) and about.ports == (mine, two.port)
        return conforms(expected) if right else deviates(expected, f"about {about}")

    yield clause(
        "RFC 5508",
        "REQ-7",
        "hairpinned-error",
        "MUST",
        "an ICMP error between two hosts inside is translated both ways",
        hairpinned,
    )

    def expired() -> Steps:
        expected = "ICMP time exceeded, and no datagram outside"
        to = n.server(0)
        packet = n.carried(
            0,
            to.ipv4,
            UDP,
            lambda here, there: udp(here, there, (next(n.ports), to.port), data(40)),
            ttl=1,
        )[0]
        heard = yield Send([n.frame("left", packet)])
        if n.outside(heard):
            return deviates(expected, n.seen(heard))
        kinds = [p.kind for h, p in n.inside(heard) if h == 0]
        return (
            conforms(expected)
            if kinds in ([(11, 0)], [(3, 0)])
            else deviates(expected, n.seen(heard))
        )

    yield clause(
        "RFC 5508",
        "REQ-10",
        "time-exceeded",
        "MUST",
        "a packet from inside whose TTL is 1 is dropped and its sender told",
        expired,
        rare=True,
    )


def _four(address: Address) -> IPv4Address:
    if not isinstance(address, IPv4Address):
        raise TypeError(f"{address} is no IPv4 address")
    return address
