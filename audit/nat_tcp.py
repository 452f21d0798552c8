"""TCP through a NAT: RFC 5382, RFC 7857 and RFC 6146, section 3.5.2."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from scapy.layers.inet import TCP
from scapy.packet import Packet, Raw
from v6t.audit.clause import Clause, Level, Send
from v6t.audit.hosts import DATA
from v6t.audit.match import checksum_error
from v6t.audit.nat_hosts import (
    TCP_FLOW,
    Endpoint,
    Exchange,
    Flow,
    Heard,
    NatHosts,
    NotTestable,
    icmp_error,
    ip_header,
    judge_error,
    scenario,
)
from v6t.audit.wire import is_icmp_error, protocol_of, transport_octets

RATE_LIMIT_PAUSE_S = 1.5
"""After this pause a device may send another error, so that silence means something."""
UNSOLICITED_S = 6.0
"""How long a NAT must not answer an unsolicited SYN (RFC 5382, REQ-4)."""
Arrived: TypeAlias = Generator[Send, Heard, bool]


@dataclass
class Connection:
    """Both ends of a TCP connection.

    Attributes:
        h: the NAT.
        host, port: of the client.
        server: the other end.
        public: the client as the server sees it.
        seq, server_seq: next sequence numbers of client and server.
    """

    h: NatHosts
    host: int
    port: int
    server: Endpoint
    public: Endpoint
    seq: int = 0x01020304
    server_seq: int = 0x0A0B0C0D

    @classmethod
    def new(cls, h: NatHosts, host: int = 0, port: int = 0) -> Connection:
        """Return a connection of a host, by default from an unused port."""
        return cls(h, host, port or next(h.ports), h.server(0), h.server(0))

    def client_segment(self, flags: str, payload: bytes = b"") -> Packet:
        """Return the client's next segment."""
        ack = self.server_seq if "A" in flags else 0
        segment = TCP(sport=self.port, dport=self.server.port, flags=flags, seq=self.seq, ack=ack)
        self.seq += len(payload) + bool({"S", "F"} & set(flags))
        to = self.h.known_address(self.server.address)
        return self.h.up(self.host, to, segment / Raw(payload))

    def server_segment(self, flags: str, payload: bytes = b"") -> Packet:
        """Return the server's next segment."""
        ports = {"sport": self.server.port, "dport": self.public.port}
        ack = self.seq if "A" in flags else 0
        segment = TCP(**ports, flags=flags, seq=self.server_seq, ack=ack)
        self.server_seq += len(payload) + bool({"S", "F"} & set(flags))
        return self.h.down(self.server, self.public, segment / Raw(payload))

    def reaches_client(self, heard: Heard, flags: str, payload: bytes = b"") -> bool:
        """Return whether a segment of the server reached the client."""
        segments = self.h.at_host(heard, self.host, TCP_FLOW, self.port)
        return any(
            is_segment(p, flags, payload) and p[TCP].sport == self.server.port for p in segments
        )

    def connect(self) -> Generator[Send, Heard, None]:
        """Send the client's SYN and learn the public endpoint.

        Raises:
            NotTestable: it does not reach the server.
        """
        heard = yield from self.h.send(self.client_segment("S"))
        public = self.h.public_source(heard, TCP_FLOW, self.server)
        if public is None:
            raise NotTestable("no connection can be opened")
        self.public = public

    def send(self, flags: str, payload: bytes = b"") -> Arrived:
        """Send the client's next segment; return whether it arrived from the public endpoint."""
        heard = yield from self.h.send(self.client_segment(flags, payload))
        return any(
            source == self.public and is_segment(packet, flags, payload)
            for source, packet in self.h.find_departures(heard, TCP_FLOW)
        )

    def answer(self, flags: str, payload: bytes = b"") -> Arrived:
        """Send the server's next segment; return whether it arrived."""
        heard = yield from self.h.send_down(self.server_segment(flags, payload))
        return self.reaches_client(heard, flags, payload)

    def open(self) -> Generator[Send, Heard, None]:
        """Send the three segments that open the connection.

        Raises:
            NotTestable: one does not arrive.
        """
        yield from self.connect()
        if not (yield from self.answer("SA")) or not (yield from self.send("A")):
            raise NotTestable("no connection can be opened")

    def exchange_data(self) -> Arrived:
        """Send data both ways; return whether they arrived.

        The server sends first: the client's data would make a new session if there were none.
        """
        came = yield from self.answer("PA", DATA)
        return (yield from self.send("PA", DATA)) and came


def is_segment(packet: Packet, flags: str, payload: bytes) -> bool:
    """Return whether a packet is a valid TCP segment with flags and data."""
    if protocol_of(packet) != 6 or TCP not in packet or checksum_error(packet):
        return False
    segment = packet[TCP]
    octets = transport_octets(packet)[4 * segment.dataofs :]
    return bool(segment.flags == flags and octets == payload)


def establish(h: NatHosts, flow: Flow, host: int, port: int) -> Generator[Send, Heard, Endpoint]:
    """Open a mapping, for TCP an established connection; return its public endpoint."""
    if flow is not TCP_FLOW:
        return (yield from h.open_mapping(flow, host, port, h.server(0)))
    connection = Connection.new(h, host, port)
    yield from connection.open()
    return connection.public


# Exchanges of a new connection; each returns whether all its segments arrived.


def whole_connection(c: Connection) -> Arrived:
    """Open, use and close a connection."""
    try:
        yield from c.open()
    except NotTestable:
        return False
    came = yield from c.exchange_data()
    client = yield from c.send("FA")
    server = yield from c.answer("FA")
    return (yield from c.send("A")) and came and client and server


def close_one_direction(c: Connection) -> Arrived:
    """Close the client's direction and go on with the server's."""
    yield from c.open()
    if not (yield from c.send("FA")) or not (yield from c.answer("A")):
        return False
    return (yield from c.answer("PA", DATA)) and (yield from c.send("A"))


def simultaneous_open(c: Connection) -> Arrived:
    """Open a connection from both ends (RFC 9293, section 3.5, figure 8)."""
    yield from c.connect()
    if not (yield from c.answer("S")):
        return False
    c.seq -= 1
    out = yield from c.send("SA")
    c.server_seq -= 1
    return (yield from c.answer("SA")) and out


def reset_in(c: Connection) -> Arrived:
    """Reset a connection from outside."""
    yield from c.open()
    return (yield from c.answer("RA"))


def reset_out(c: Connection) -> Arrived:
    """Reset a connection from inside."""
    yield from c.open()
    return (yield from c.send("RA"))


def data_after_stray_reset(c: Connection) -> Arrived:
    """Send an RST far outside the client's window, then data."""
    yield from c.open()
    number = c.server_seq
    c.server_seq = number + 0x40000000
    yield from c.h.send_down(c.server_segment("R"))
    c.server_seq = number
    return (yield from c.exchange_data())


def data_after_reset(c: Connection) -> Arrived:
    """Send data after an RST."""
    yield from c.open()
    yield from c.answer("RA")
    return (yield from c.exchange_data())


# fmt: off
def clauses(h: NatHosts) -> Iterator[Clause]:
    """Return the clauses about TCP connections."""
    for label, words, exchange, expected in (
        ("exchange", "opened, carries data both ways and is closed", whole_connection,
         "every segment arrives, checksums right"),
        ("half-closed", "closed by one end carries what the other end still sends", close_one_direction,
         "data after a FIN, and its acknowledgement"),
        ("simultaneous-open", "opened by both ends at the same time", simultaneous_open,
         "the SYN from outside within, and both SYN-ACKs"),
        ("reset-in", "reset from outside", reset_in, "the RST, inside"),
        ("reset-out", "reset from inside", reset_out, "the RST, outside"),
    ):
        yield scenario("RFC 5382", "REQ-2", f"tcp-{label}", "MUST",
                       f"the NAT forwards a connection that is {words}",
                       expected, partial(check_exchange, h, exchange), plain=label == "exchange")
    yield scenario("RFC 7857", "2.2", "tcp-stray-reset", "SHOULD",
                   "an RST whose number is outside the window ends no session",
                   "data both ways after the RST",
                   partial(check_exchange, h, data_after_stray_reset))
    level: Level = "MUST" if h.is_nat64 else "SHOULD"
    yield scenario(*(("RFC 6146", "3.5.2.2") if h.is_nat64 else ("RFC 7857", "2.2")), "tcp-after-reset",
                   level,
                   "a session outlives an RST for 4 minutes: data pass afterwards",
                   "data both ways after the RST",
                   partial(check_exchange, h, data_after_reset))
    yield scenario("RFC 5382", "REQ-3", "tcp-filtering-address", "SHOULD",
                   "a server may open a connection to a mapped host from another port", "the SYN, inside",
                   partial(check_filtering, h, h.server(0, 4321)))
    yield scenario("RFC 5382", "REQ-3", "tcp-filtering-endpoint", "MAY",
                   "any server may open a connection to a mapped host", "the SYN, inside",
                   partial(check_filtering, h, h.server(1, 4321)))
    yield scenario("RFC 5382", "REQ-4", "tcp-unsolicited-silent", "MUST",
                   "an unsolicited SYN is not answered for 6 seconds", f"silence for {UNSOLICITED_S:g} s",
                   partial(check_silence, h))
    yield scenario("RFC 5382", "REQ-4", "tcp-unsolicited-then-asked", "MUST",
                   "an unsolicited SYN is dropped if the host's own SYN follows and opens the connection",
                   "no answer to the first SYN; the host's own opens the connection",
                   partial(check_late_open, h))
    for kind, code, mtu, words in (
        (3, 1, 0, "host unreachable"), (3, 3, 0, "port unreachable"),
        (3, 4, 1400, "fragmentation needed"), (11, 0, 0, "time exceeded"),
    ):
        error = icmp_error(h.outer_version, kind, code, mtu)
        if kind == 3:
            yield scenario("RFC 5382", "REQ-9", f"tcp-error-{kind}-{code}", "SHOULD",
                           f"ICMP {words} about a connection reaches the host, the quoted packet translated",
                           "the error inside, about the host's own endpoint",
                           partial(check_error_in, h, error))
        yield scenario("RFC 5382", "REQ-10", f"tcp-error-keeps-{kind}-{code}", "MUST",
                       f"ICMP {words} ends no connection", "data both ways after the error",
                       partial(check_error_keeps, h, error))
# fmt: on


def check_exchange(h: NatHosts, exchange: Callable[[Connection], Arrived]) -> Exchange:
    """Carry out an exchange of a new connection."""
    arrived = yield from exchange(Connection.new(h))
    return arrived, "as expected" if arrived else "a segment is missing"


def open_with_stranger(
    h: NatHosts, server: Endpoint
) -> Generator[Send, Heard, tuple[Connection, Connection]]:
    """Open a connection; return it, and one that another server tries with the same host."""
    connection = Connection.new(h)
    yield from connection.open()
    return connection, Connection(h, 0, connection.port, server, connection.public)


def check_filtering(h: NatHosts, server: Endpoint) -> Exchange:
    """Send a SYN of a server that the host has not addressed."""
    _, stranger = yield from open_with_stranger(h, server)
    heard = yield from h.send_down(stranger.server_segment("S"))
    return stranger.reaches_client(heard, "S"), h.wire.describe(heard)


def check_silence(h: NatHosts) -> Exchange:
    """Send an unsolicited SYN and listen for an answer."""
    _, stranger = yield from open_with_stranger(h, h.server(1, 4322))
    segment, listen_s = stranger.server_segment("S"), UNSOLICITED_S - 0.1
    heard = yield from h.send_down(segment, pause_s=RATE_LIMIT_PAUSE_S, listen_s=listen_s)
    return not h.wire.packets("right", heard), h.wire.describe(heard)


def check_late_open(h: NatHosts) -> Exchange:
    """Send an unsolicited SYN, then open the connection from inside."""
    _, stranger = yield from open_with_stranger(h, h.server(1, 4323))
    heard = yield from h.send_down(stranger.server_segment("S"), pause_s=RATE_LIMIT_PAUSE_S)
    if h.wire.packets("right", heard):
        return False, h.wire.describe(heard)
    stranger.server_seq -= 1
    heard = yield from h.send(stranger.client_segment("S"))
    sources = [
        who for who, packet in h.find_departures(heard, TCP_FLOW) if is_segment(packet, "S", b"")
    ]
    if not sources or any(is_icmp_error(p) for p in h.wire.packets("right", heard)):
        return False, h.wire.describe(heard)
    stranger.public = sources[0]
    is_open = (yield from stranger.answer("SA")) and (yield from stranger.send("A"))
    return is_open, "as expected" if is_open else "the connection is not opened"


def send_error(h: NatHosts, error: Packet) -> Generator[Send, Heard, tuple[Connection, Heard]]:
    """Open a connection and send an ICMP error that quotes 8 octets of a segment (RFC 792)."""
    connection = Connection.new(h)
    yield from connection.open()
    public, server = connection.public, connection.server
    segment = TCP(sport=public.port, dport=server.port, flags="A", seq=connection.seq)
    quoted = bytes(ip_header(public.address, server.address) / segment)[:-12]
    heard = yield from h.send_down(h.down(server, public, error / Raw(quoted)))
    return connection, heard


def check_error_in(h: NatHosts, error: Packet) -> Exchange:
    """Send a server's ICMP error about a connection."""
    connection, heard = yield from send_error(h, error)
    return judge_error(h, heard, connection.port)


def check_error_keeps(h: NatHosts, error: Packet) -> Exchange:
    """Exchange data after an ICMP error about a connection."""
    connection, _ = yield from send_error(h, error)
    arrived = yield from connection.exchange_data()
    return arrived, "as expected" if arrived else "the connection carries nothing any more"
