"""A TCP client and its server as an audit plays them: single segments, whose only state is their numbers."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from v6t.plugins.clauses.base import Frame, Send
from v6t.plugins.clauses.nat_ends import Address, Endpoint, NatEnds
from v6t.plugins.clauses.packets import PAYLOAD, TCP, ip4, tcp
from v6t.plugins.clauses.reading import Packet

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
NO_CONNECTION = "no connection can be opened, so nothing can be told"
Seen = Generator[Send, Sequence[Frame], Endpoint | None]
Heard = Generator[Send, Sequence[Frame], bool]


@dataclass
class Connection:
    """Both ends of a TCP connection: their sequence numbers, and whom the server sees.

    Attributes:
        n: the NAT.
        host, port: of the client.
        server: the other end.
        client, answer: sequence numbers of client and server.
        public: whom the server sees; None: nobody yet.
    """

    n: NatEnds
    host: int
    port: int
    server: Endpoint
    client: int = 0x01020304
    answer: int = 0x0A0B0C0D
    public: Endpoint | None = field(default=None)

    def out(self, flags: int, payload: bytes = b"") -> bytes:
        """The client's next segment."""
        client = self.client
        self.client += len(payload) + bool(flags & (SYN | FIN))
        return self.segment(flags, payload, client)

    def segment(self, flags: int, payload: bytes, sequence: int) -> bytes:
        """One of the client's by its sequence number."""
        acknowledged = self.answer if flags & ACK else 0

        def build(source: Address, destination: Address) -> bytes:
            ports = self.port, self.server.port
            return tcp(
                source,
                destination,
                ports,
                flags,
                payload,
                sequence=sequence,
                acknowledged=acknowledged,
            )

        return self.n.carried(self.host, self.server.ipv4, TCP, build)[0]

    def back(self, flags: int, payload: bytes = b"") -> bytes:
        """The server's next segment."""
        to, who = self.public, self.server
        if to is None:
            raise ValueError("nobody to answer")
        acknowledged = self.client if flags & ACK else 0
        octets = tcp(
            who.ipv4,
            to.ipv4,
            (who.port, to.port),
            flags,
            payload,
            sequence=self.answer,
            acknowledged=acknowledged,
        )
        self.answer += len(payload) + bool(flags & (SYN | FIN))
        return ip4(who.ipv4, to.ipv4, TCP, octets)

    def syn(self) -> Seen:
        """The client's SYN: whom the server sees."""
        self.public = yield from self.n.seen_as(self.out(SYN), self.server.ipv4, TCP)
        return self.public

    def goes(self, flags: int, payload: bytes = b"") -> Heard:
        """Whether the client's next segment arrives, whole, from the same endpoint as before."""
        heard = yield Send([self.n.frame("left", self.out(flags, payload))])
        return any(
            who == self.public and right(p, flags, payload) for who, p in self.n.outside(heard, TCP)
        )

    def comes(self, flags: int, payload: bytes = b"") -> Heard:
        """Whether the server's next segment arrives, whole."""
        heard = yield Send([self.n.frame("right", self.back(flags, payload))])
        return self.arrived(heard, flags, payload)

    def arrived(self, heard: Sequence[Frame], flags: int, payload: bytes = b"") -> bool:
        """Whether such a segment came to the client."""
        return any(
            h == self.host and p.ports == (self.server.port, self.port) and right(p, flags, payload)
            for h, p in self.n.inside(heard)
        )

    def opened(self) -> Heard:
        """The three segments that open it; whether all arrived."""
        seen = yield from self.syn()
        if seen is None or not (yield from self.comes(SYN | ACK)):
            return False
        return (yield from self.goes(ACK))

    def lives(self) -> Heard:
        """Whether data pass, either way."""
        # the server first: the client's would make a new session where there is none any more
        came = yield from self.comes(ACK | PSH, PAYLOAD)
        return (yield from self.goes(ACK | PSH, PAYLOAD)) and came


def right(packet: Packet, flags: int, payload: bytes) -> bool:
    """Whether it is such a segment with right checksums."""
    octets = packet.payload
    if packet.protocol != TCP or len(octets) < 20:
        return False
    return (
        octets[13] == flags
        and octets[(octets[12] >> 4) * 4 :] == payload
        and packet.summed
        and packet.sound
    )


def new(n: NatEnds, host: int = 0, server: Endpoint | None = None) -> Connection:
    """A connection from a port that nobody has used."""
    return Connection(n, host, next(n.ports), n.server(0) if server is None else server)


def seen(n: NatEnds, host: int, port: int, to: Endpoint) -> Seen:
    """Whom a server sees of a SYN."""
    return (yield from Connection(n, host, port, to).syn())
