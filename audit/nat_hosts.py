"""The hosts and servers of a NAT, sessions between them, and scenarios that judge what passes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import count
from typing import Any, NamedTuple, TypeAlias

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6PacketTooBig,
    ICMPv6TimeExceeded,
    IPv6,
)
from scapy.packet import Packet, Raw
from v6t.audit.clause import Clause, Frame, Judgement, Level, Send, Steps
from v6t.audit.packets import (
    DATA,
    TTL,
    Wire,
    checksum_error,
    is_icmp_error,
    parse,
    ports_of,
    protocol_of,
    quoted_packet,
    transport_octets,
)
from v6t.plugins.address_mappings import embed, may_represent
from v6t.plugins.audit_views import Address, Nat, SideName

FIRST_PORT, SERVER_PORT = 20000, 7
MAPPINGS_PER_AUDIT = 1024
BASIC_LABELS = ("mapped", "query", "tcp-exchange")
"""What a NAT66 must do, although no RFC requires it."""
Result: TypeAlias = bool | tuple[bool, str]
"""Whether the device does what the clause requires, and what it did: by default what it sent."""
Exchange: TypeAlias = Generator[Send, Sequence[Frame], Result]
Arrived: TypeAlias = Generator[Send, Sequence[Frame], bool]
Sent: TypeAlias = Generator[Send, Sequence[Frame], None]


class NotTestable(Exception):
    """A scenario cannot be carried out with a device."""


class DeviceDead(Exception):
    """No plain packet passes any more, though one did before."""


class Endpoint(NamedTuple):
    """An address and a port, or the identifier of an echo."""

    address: Address
    port: int

    def __str__(self) -> str:
        return f"{self.address} port {self.port}"


UNMAPPED = Endpoint(IPv4Address(0), 0)
HOST_ISN, SERVER_ISN, FAR = 0x01020304, 0x0A0B0C0D, 0x40000000
"""Initial sequence numbers, and a distance far beyond every window."""


class Flow(NamedTuple):
    """Packets of UDP, TCP or ICMP queries through a NAT.

    Attributes:
        protocol: of IPv4.
        prefix: of the labels of the clauses.
    """

    protocol: int
    prefix: str

    def number(self, version: int) -> int:
        """Return the protocol number in an IP version."""
        return 58 if version == 6 and self is ICMP_QUERY else self.protocol

    def transport(
        self, version: int, source: int, target: int, *, is_answer: bool = False
    ) -> Packet:
        """Return the transport of a plain packet; the identifier of an echo is the host's port."""
        if self is TCP_FLOW:
            return TCP(sport=source, dport=target)
        if self is UDP_FLOW:
            return UDP(sport=source, dport=target) / Raw(DATA)
        if version == 6:
            message = (ICMPv6EchoReply if is_answer else ICMPv6EchoRequest)()
        else:
            message = ICMP(type=0 if is_answer else 8)
        message.id, message.seq = target if is_answer else source, 1
        return message / Raw(DATA)


UDP_FLOW, TCP_FLOW, ICMP_QUERY = Flow(17, ""), Flow(6, "tcp-"), Flow(1, "query-")


@dataclass
class NatHosts:
    """Hosts on the left link, servers on the right link.

    Attributes:
        view: the NAT.
        wire: its links.
        ports: inside ports that no clause has used yet: the state of one must not help another.
        heard: frames that the device sent last.
    """

    view: Nat
    wire: Wire
    ports: Iterator[int] = field(default_factory=lambda: count(FIRST_PORT))
    heard: Sequence[Frame] = ()

    @property
    def inner_version(self) -> int:
        """IP version of the packets of hosts; inside the tunnel of a B4."""
        return self.own_address(0).version

    @property
    def outer_version(self) -> int:
        """IP version of the servers and the pool."""
        return self.view.servers[0].version

    @property
    def is_nat64(self) -> bool:
        """Whether hosts address servers by an RFC 6052 prefix."""
        return self.view.prefix is not None

    @property
    def can_hairpin(self) -> bool:
        """Whether hosts can address each other's public addresses."""
        prefix = self.view.prefix
        return prefix is None or all(may_represent(prefix, a) for a in self.view.pool)  # type: ignore[arg-type]

    def server(self, number: int, port: int = SERVER_PORT) -> Endpoint:
        """Return an endpoint of a server."""
        return Endpoint(self.view.servers[number], port)

    def own_address(self, host: int) -> Address:
        """Return a host's address as the host itself writes it."""
        return self.view.customer or self.view.hosts[host]

    def known_address(self, address: Address) -> Address:
        """Return the address by which hosts address a server or a public address."""
        return address if self.view.prefix is None else embed(self.view.prefix, address)  # type: ignore[arg-type]

    def header_up(self, host: int, to: Address, ttl: int = TTL) -> Packet:
        """Return the header of a host's packet to a server or public address."""
        return ip_header(self.own_address(host), self.known_address(to), ttl)

    def into_tunnel(self, host: int, packet: Packet) -> Packet:
        """Return a host's packet as its B4 sends it; other NATs have no tunnels."""
        if self.view.aftr is None:
            return packet
        return ip_header(self.view.hosts[host], self.view.aftr) / packet

    def send_up(self, host: int, *packets: Packet, **options: Any) -> Sent:
        """Send packets of a host."""
        yield from self._send("left", [self.into_tunnel(host, p) for p in packets], **options)

    def send_down(self, *packets: Packet | bytes, **options: Any) -> Sent:
        """Send packets of a server."""
        yield from self._send("right", packets, **options)

    def _send(self, side: SideName, packets: Sequence[Packet | bytes], **options: Any) -> Sent:
        self.heard = yield Send([self.wire.frame(side, packet) for packet in packets], **options)

    def describe(self) -> str:
        """Describe what the device sent last."""
        return self.wire.describe(self.heard)

    def arrivals(self) -> list[tuple[int, Packet]]:
        """Return the packets that reached hosts, out of their tunnels, with the hosts' numbers."""
        arrivals = []
        for packet in self.wire.packets("left", self.heard):
            target = ip_address(packet.dst)
            inner = packet if self.view.aftr is None else parse(transport_octets(packet))
            if target in self.view.hosts and inner is not None:
                arrivals.append((self.view.hosts.index(target), inner))
        return arrivals

    def errors_at(self, host: int) -> list[Packet]:
        """Return the ICMP errors that reached a host."""
        return [packet for at, packet in self.arrivals() if at == host and is_icmp_error(packet)]

    def departures(self, flow: Flow) -> list[Packet]:
        """Return the packets of a flow that reached servers."""
        number = flow.number(self.outer_version)
        return [p for p in self.wire.packets("right", self.heard) if protocol_of(p) == number]

    def judge_error(self, host: int, port: int) -> Result:
        """Judge the ICMP error about a host's own packet that must reach the host."""
        errors = self.errors_at(host)
        if not errors:
            return False
        about = quoted_packet(errors[0])
        source = None if about is None else source_of(about)
        if source != (self.own_address(host), port):
            return False, f"a packet from {source} is quoted"
        wrong = checksum_error(errors[0])
        return not wrong, wrong or "as expected"


@dataclass
class NatSession:
    """A session of a host with a server; `flags` and `data` of its packets are those of TCP.

    Attributes:
        h: the NAT.
        flow: of the packets.
        host, port: of the host; port 0: one that is not used yet.
        server: the other end, by default the first one.
        public: the host as the server sees it.
        seq, server_seq: next TCP sequence numbers of host and server.
    """

    h: NatHosts
    flow: Flow
    host: int = 0
    port: int = 0
    server: Endpoint = UNMAPPED
    public: Endpoint = UNMAPPED
    seq: int = HOST_ISN
    server_seq: int = SERVER_ISN
    pending: tuple[Packet, str, bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.port = self.port or next(self.h.ports)
        self.server = self.h.server(0) if self.server is UNMAPPED else self.server

    def request(self, flags: str = "S", data: bytes = b"", ttl: int = TTL) -> Packet:
        """Return the host's next packet."""
        h = self.h
        transport = self.flow.transport(h.inner_version, self.port, self.server.port)
        if self.flow is TCP_FLOW:
            transport = segment(
                transport, flags, data, HOST_ISN if "S" in flags else self.seq, self.server_seq
            )
            self.seq = next_number(transport)
        return h.header_up(self.host, self.server.address, ttl) / transport

    def prepare(self, flags: str = "", data: bytes = b"") -> NatSession:
        """Make the server's next packet, for :meth:`repeat`."""
        source, target = self.server.port, self.public.port
        transport = self.flow.transport(self.h.outer_version, source, target, is_answer=True)
        if self.flow is TCP_FLOW:
            transport = segment(
                transport, flags, data, SERVER_ISN if "S" in flags else self.server_seq, self.seq
            )
            self.server_seq = next_number(transport)
        packet = ip_header(self.server.address, self.public.address) / transport
        self.pending = packet, flags, data
        return self

    def send(self, flags: str = "S", data: bytes = b"", **options: Any) -> Arrived:
        """Send the host's next packet; return whether it arrived from the public endpoint.

        The first packet that arrives tells the public endpoint.
        """
        yield from self.h.send_up(self.host, self.request(flags, data), **options)
        for packet in self.h.departures(self.flow):
            is_new = self.public == UNMAPPED and ip_address(packet.dst) == self.server.address
            if self.is_valid(packet, flags, data) and (is_new or source_of(packet) == self.public):
                self.public = source_of(packet)
                return True
        return False

    def repeat(self, **options: Any) -> Arrived:
        """Send the server's prepared packet, once more perhaps; return whether it arrived."""
        packet, flags, data = self.pending
        yield from self.h.send_down(packet, **options)
        return bool(self.arrivals(flags, data))

    def answer(self, flags: str = "", data: bytes = b"", **options: Any) -> Arrived:
        """Send the server's next packet; return whether it arrived."""
        return (yield from self.prepare(flags, data).repeat(**options))

    def arrivals(self, flags: str = "", data: bytes = b"") -> list[Packet]:
        """Return the session's valid packets that reached the host."""
        number = self.flow.number(self.h.inner_version)
        return [
            packet
            for at, packet in self.h.arrivals()
            if (at, protocol_of(packet), ports_of(packet)[1]) == (self.host, number, self.port)
            and not is_icmp_error(packet)
            and self.is_valid(packet, flags, data)
        ]

    def is_valid(self, packet: Packet, flags: str, data: bytes) -> bool:
        """Return whether the checksum of a packet is right, and a segment's flags and data."""
        if self.flow is not TCP_FLOW or TCP not in packet or checksum_error(packet):
            return self.flow is not TCP_FLOW and not checksum_error(packet)
        octets = transport_octets(packet)[4 * packet[TCP].dataofs :]
        return bool(packet[TCP].flags == flags and octets == data)

    def open(self) -> Generator[Send, Sequence[Frame], Endpoint]:
        """Send the host's first packet; return its public endpoint.

        Raises:
            NotTestable: no valid packet reaches the server.
        """
        if not (yield from self.send()):
            raise NotTestable("no valid packet comes out, so no mapping can be observed")
        return self.public

    def establish(self) -> Generator[Send, Sequence[Frame], NatSession]:
        """Open the session, for TCP with three segments."""
        yield from self.open()
        if self.flow is TCP_FLOW and (missing := (yield from self.play("<SA A>"))):
            raise NotTestable(f"no connection can be opened: {missing} does not arrive")
        return self

    def play(self, script: str) -> Generator[Send, Sequence[Frame], str]:
        """Send TCP segments until one does not arrive; return its step, or nothing.

        Args:
            script: ``FA>`` is the host's FIN, ``<PA+`` the server's data, ``<RA?`` a segment that need not
                arrive, ``<R*`` one whose number is far outside the host's window.
        """
        for step in script.split():
            flags, far = step.strip("<>+?*"), FAR * ("*" in step)
            self.server_seq += far
            act = self.answer if step.startswith("<") else self.send
            has_arrived = yield from act(flags, DATA if "+" in step else b"")
            self.server_seq -= far
            if not has_arrived and not {"?", "*"} & set(step):
                return step
        return ""

    def use(self) -> Arrived:
        """Send an answer, for TCP data both ways; return whether they arrived.

        The server sends first: the host's data would open a new session if there were none.
        """
        if self.flow is not TCP_FLOW:
            return (yield from self.answer())
        return not (yield from self.play("<PA+ PA+>"))

    def error(self, kind: int, code: int, mtu: int = 0) -> Packet:
        """Return a server's ICMP error about the host's packet; 8 octets of a segment are quoted."""
        version, (address, port) = self.h.outer_version, self.public
        transport = self.flow.transport(version, port, self.server.port)
        about = ip_header(address, self.server.address) / transport
        if self.flow is TCP_FLOW:
            about[TCP].seq = self.seq
        quoted = bytes(about)[: -12 if self.flow is TCP_FLOW else None]
        header = ip_header(self.server.address, address)
        return header / icmp_error(version, kind, code, mtu) / Raw(quoted)


@dataclass(frozen=True)
class NatScenario:
    """An exchange of several packets, and what it tests.

    Attributes:
        rfc, section, label, level, title, rate_limited, lasts_s, plain: see :class:`v6t.audit.clause.Clause`.
        expected: describes the packets of a correct device.
        exchange: sends packets and returns what they show; takes the NAT and `args`.
        nat64: RFC, section and level for NAT64, if they differ.
    """

    rfc: str
    section: str
    label: str
    level: Level
    title: str
    expected: str
    exchange: Callable[..., Exchange]
    args: tuple[Any, ...] = ()
    nat64: tuple[str, str, Level] | None = None
    rate_limited: bool = False
    lasts_s: float = 0.0
    plain: bool = False

    def clause(self, h: NatHosts) -> Clause:
        """Return the clause for a NAT; what no RFC requires of a NAT66 is information."""
        place = self.nat64 if h.is_nat64 and self.nat64 else (self.rfc, self.section, self.level)
        rfc, section, level = place
        is_required = h.outer_version == 4 or self.label in BASIC_LABELS
        return Clause(
            rfc,
            section,
            self.label,
            level if is_required else "MAY",
            self.title,
            partial(self.steps, h),
            self.rate_limited,
            self.lasts_s,
            self.plain,
        )

    def steps(self, h: NatHosts) -> Steps:
        """Carry out the exchange, with an empty table if it has no room for all mappings."""
        if h.view.room < MAPPINGS_PER_AUDIT:
            yield Send((), before="flush")
        try:
            result = yield from self.exchange(h, *self.args)
        except NotTestable as exc:
            return Judgement("not testable", self.expected, str(exc))
        except DeviceDead as exc:
            return Judgement("deviates", self.expected, str(exc), dead=True)
        is_right, words = result if isinstance(result, tuple) else (result, h.describe())
        return Judgement("conforms" if is_right else "deviates", self.expected, words)


def segment(transport: Packet, flags: str, data: bytes, seq: int, ack: int) -> Packet:
    """Return a TCP segment with a payload."""
    transport.flags, transport.seq, transport.ack = flags, seq, ack if "A" in flags else 0
    return transport / Raw(data)


def next_number(packet: Packet) -> int:
    """Return the sequence number that follows a segment."""
    return int(packet.seq) + len(packet.payload) + bool({"S", "F"} & set(str(packet.flags)))


def ip_header(src: Address, dst: Address, ttl: int = TTL) -> Packet:
    """Return an IP header between two addresses."""
    if isinstance(src, IPv6Address):
        return IPv6(src=str(src), dst=str(dst), hlim=ttl)
    return IP(src=str(src), dst=str(dst), ttl=ttl)


def source_of(packet: Packet) -> Endpoint:
    """Return the source of a packet."""
    return Endpoint(ip_address(packet.src), ports_of(packet)[0])


def icmp_error(version: int, kind: int, code: int, mtu: int = 0) -> Packet:
    """Return the header of an ICMP error, or of the ICMPv6 error with its meaning."""
    if version == 4:
        return ICMP(type=kind, code=code, nexthopmtu=mtu) if mtu else ICMP(type=kind, code=code)
    if kind == 11:
        return ICMPv6TimeExceeded(code=code)
    return ICMPv6PacketTooBig(mtu=mtu) if mtu else ICMPv6DestUnreach(code={1: 3, 3: 4}[code])
