"""Hosts and servers of a NAT, sessions between them, and clauses that judge what passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Address
from itertools import count
from typing import Any, TypeAlias

from scapy.layers.inet import ICMP, TCP
from scapy.packet import Packet, Raw
from v6t.audit.clause import Clause, Frame, Judgement, Send, Steps, Talk
from v6t.audit.ip_packet import Endpoint, IPPacket, find_checksum_error, find_packet, get_port
from v6t.audit.packets import DATA, TTL, Wire, header, icmp6, transport
from v6t.plugins.audit_views import Address, Nat, SideName
from v6t.plugins.translation import embed_ipv4

FIRST_PORT, SERVER_PORT = 20000, 7
MAPPINGS_PER_AUDIT = 1024
# what a NAT66 must do, although no RFC requires it
BASIC_LABELS = ("mapped", "query", "tcp-exchange")
# initial sequence numbers of host and server, and a distance far beyond every window
ISNS, FAR = (0x01020304, 0x0A0B0C0D), 0x40000000
STREAM_S = 2.5  # Linux has a longer timer for UDP from two seconds after the first answer on
UNMAPPED = Endpoint(IPv4Address(0), 0)
Row: TypeAlias = Callable[["NatHosts"], Clause]
Exchange: TypeAlias = Callable[..., Talk["Result"]]
Result: TypeAlias = bool | str | tuple[bool, str] | Judgement
"""Whether the device does what the clause requires, and what it did: by default what it sent. Text alone
describes a deviation; empty text is none."""


class NotTestable(Exception):
    """Exception for a scenario that cannot be carried out with this device."""


def require(condition: object, problem: str) -> None:
    """Raise NotTestable unless a condition holds."""
    if not condition:
        raise NotTestable(problem)


@dataclass
class NatHosts:
    """Hosts on the left link of a NAT, servers on the right link."""

    view: Nat
    wire: Wire
    # inside ports that no clause has used yet: state of one clause must not affect another
    ports: Iterator[int] = field(default_factory=lambda: count(FIRST_PORT))
    heard: Sequence[Frame] = ()  # frames that the device sent last

    def server(self, number: int, port: int = SERVER_PORT) -> Endpoint:
        return Endpoint(self.view.servers[number], port)

    def get_own_address(self, host: int) -> Address:
        """Return the source address of a host's packets; behind a B4, the inner one."""
        return self.view.customer or self.view.hosts[host]

    def get_known_address(self, address: Address) -> Address:
        """Return the address under which inside hosts reach a server or a public address."""
        return address if self.view.prefix is None else embed_ipv4(self.view.prefix, address)  # type: ignore[arg-type]

    def send_up(self, host: int, *packets: Packet, **options: Any) -> Talk[None]:
        """Send packets of a host, through its tunnel if it is a B4."""
        if aftr := self.view.aftr:
            packets = tuple(header(self.view.hosts[host], aftr) / packet for packet in packets)
        yield from self.send("left", *packets, **options)

    def send(self, side: SideName, *packets: Any, **options: Any) -> Talk[None]:
        self.heard = yield Send([self.wire.frame(side, packet) for packet in packets], **options)

    def list_arrivals(self) -> list[tuple[int, IPPacket]]:
        """Return each packet that reached a host, decapsulated, with the host's number."""
        arrivals = []
        for packet in self.wire.packets("left", self.heard):
            inner = packet if self.view.aftr is None else find_packet(packet.octets)
            if packet.dst in self.view.hosts and inner is not None:
                arrivals.append((self.view.hosts.index(packet.dst), inner))
        return arrivals

    def list_errors(self, host: int) -> list[IPPacket]:
        return [packet for at, packet in self.list_arrivals() if at == host and packet.is_error]

    def list_departures(self, protocol: str = "") -> list[IPPacket]:
        packets = self.wire.packets("right", self.heard)
        return [packet for packet in packets if protocol in ("", packet.protocol)]

    def describe(self) -> str:
        return self.wire.describe(self.heard)


@dataclass
class NatSession:
    """A session of a host, by default on a new port, with a server, by default the first one.

    `flags` and `data` of its packets are those of TCP, `numbers` the next ones of host and server. `pending`
    is the server's next packet.
    """

    h: NatHosts
    protocol: str  # udp, tcp or icmp
    host: int = 0
    port: int = 0
    server: Endpoint = UNMAPPED
    public: Endpoint = UNMAPPED  # the host as the server sees it
    numbers: list[int] = field(default_factory=lambda: list(ISNS))
    pending: tuple[Packet, str, bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.port = self.port or next(self.h.ports)
        self.server = self.h.server(0) if self.server is UNMAPPED else self.server

    def build(
        self, flags: str = "S", data: bytes = b"", *, is_answer: bool = False, ttl: int = TTL
    ) -> Packet:
        source, target = self.server, self.public
        if not is_answer:
            source = Endpoint(self.h.get_own_address(self.host), self.port)
            target = Endpoint(self.h.get_known_address(self.server.address), self.server.port)
        packet = _build_packet(self.protocol, source, target, is_reply=is_answer, ttl=ttl)
        if self.protocol == "tcp":
            tcp, numbers = packet[TCP], self.numbers
            tcp.flags, tcp.seq = flags, (ISNS if "S" in flags else numbers)[is_answer]
            tcp.ack = numbers[not is_answer] if "A" in flags else 0
            packet /= Raw(data)
            numbers[is_answer] = tcp.seq + len(data) + bool({"S", "F"} & set(flags))
        return packet

    def prepare(self, flags: str = "", data: bytes = b"") -> NatSession:
        """Build the server's next packet, which :meth:`repeat` sends."""
        self.pending = self.build(flags, data, is_answer=True), flags, data
        return self

    def send(self, flags: str = "S", data: bytes = b"", **options: Any) -> Talk[bool]:
        """Send the host's next packet; return whether it arrived. The first one sets `public`."""
        yield from self.h.send_up(self.host, self.build(flags, data), **options)
        for packet in self.h.list_departures(self.protocol):
            is_new = self.public == UNMAPPED and packet.dst == self.server.address
            source = packet.read_endpoint()
            if self.is_valid(packet, flags, data) and (is_new or source == self.public):
                self.public = source
                return True
        return False

    def repeat(self, **options: Any) -> Talk[bool]:
        """Send the server's prepared packet, possibly again; return whether it arrived."""
        packet, flags, data = self.pending
        yield from self.h.send("right", packet, **options)
        return bool(self.list_arrivals(flags, data))

    def answer(self, flags: str = "", data: bytes = b"", **options: Any) -> Talk[bool]:
        return (yield from self.prepare(flags, data).repeat(**options))

    def list_arrivals(self, flags: str = "", data: bytes = b"") -> list[IPPacket]:
        end = self.host, self.port, self.protocol
        packets = [p for at, p in self.h.list_arrivals() if (at, get_port(p), p.protocol) == end]
        return [p for p in packets if not p.is_error and self.is_valid(p, flags, data)]

    def is_valid(self, packet: IPPacket, flags: str, data: bytes) -> bool:
        if find_checksum_error(packet) or self.protocol != "tcp":
            return not find_checksum_error(packet)
        tcp = TCP(packet.octets)
        return tcp.flags == flags and packet.octets[4 * tcp.dataofs :] == data

    def open(self) -> Talk[Endpoint]:
        has_left = yield from self.send()
        require(has_left, "no valid packet leaves the device, so no mapping can be observed")
        return self.public

    def establish(self) -> Talk[NatSession]:
        yield from self.open()
        yield from self.play_opening("<SA A>" if self.protocol == "tcp" else "")
        return self

    def play_opening(self, script: str) -> Talk[None]:
        missing = yield from self.play(script)
        require(not missing, f"no session can be opened: {missing} does not arrive")

    def play(self, script: str) -> Talk[str]:
        """Send the packets of a script until one does not arrive; return that step, or an empty string.

        ``FA>`` is the host's FIN, ``<PA+`` the server's data, ``<RA?`` a segment that need not arrive,
        ``<R*`` one whose number is far outside the host's window, ``~>`` a packet after a pause.
        """
        for step in script.split():
            flags, far = step.strip("<>+?*~"), FAR * ("*" in step)
            self.numbers[1] += far
            act = self.answer if "<" in step else self.send
            options = {"pause_s": STREAM_S} if "~" in step else {}
            has_arrived = yield from act(flags, DATA if "+" in step else b"", **options)
            self.numbers[1] -= far
            if not has_arrived and not {"?", "*"} & set(step):
                return step
        return ""

    def use(self) -> Talk[bool]:
        """Check that a session still works; TCP data goes both ways, since a host's may open another."""
        return not (yield from self.play("<PA+ PA+>" if self.protocol == "tcp" else "<"))

    def error(self, *values: int) -> Packet:
        """Return a server's ICMP error about the host's packet; 8 octets of a segment are quoted."""
        about = _build_packet(self.protocol, self.public, self.server)
        if self.protocol == "tcp":
            about[TCP].seq = self.numbers[0]
        quoted = bytes(about)[: -12 if self.protocol == "tcp" else None]
        return build_error(self.server.address, self.public.address, quoted, *values)


def row(*values: Any, **options: Any) -> Row:
    """Return a function that makes the clause of a scenario for a NAT.

    Values are number of the RFC, section, label and level; title; what correct devices send; a function that
    exchanges packets, and its arguments after the hosts. ``nat64`` is number, section and level of NAT64.
    """
    return partial(_make_clause, values, **options)


def _make_clause(values: Any, h: NatHosts, nat64: str = "", **options: Any) -> Clause:
    place, title, *scenario = values
    rfc, section, label, level = place.split()
    if nat64 and h.view.prefix is not None:
        rfc, section, level = nat64.split()
    if h.view.pool[0].version == 6 and label not in BASIC_LABELS:
        level = "MAY"  # no RFC requires it of a NAT66
    steps = partial(_carry_out, h, *scenario)
    return Clause(f"RFC {rfc}", section, label, level, title, steps, **options)


def _carry_out(h: NatHosts, expected: str, exchange: Exchange, *args: Any) -> Steps:
    """Run a scenario; flush the NAT table first if it cannot hold all mappings of the audit."""
    if h.view.mapping_capacity < MAPPINGS_PER_AUDIT:
        yield Send((), before="flush")
    try:
        result = yield from exchange(h, *args)
    except NotTestable as exc:
        return Judgement("not testable", expected, str(exc))
    if isinstance(result, Judgement):
        return result
    if isinstance(result, str):
        result = not result, result or "as expected"
    is_right, seen = result if isinstance(result, tuple) else (result, h.describe())
    return Judgement("conforms" if is_right else "deviates", expected, seen)


def _build_packet(protocol: str, *ends: Endpoint, is_reply: bool = False, **fields: Any) -> Packet:
    (source, source_port), (target, target_port) = ends
    ip = header(source, target, **fields)
    return ip / transport(protocol, source_port, target_port, ip.version, is_reply=is_reply)


def build_error(source: Address, target: Address, quoted: bytes, *error_values: int) -> Packet:
    """Return an ICMP error from type, code and optional MTU, or the equivalent ICMPv6 error."""
    kind, code, mtu = (*error_values, 0)[:3]
    if source.version == 4:
        error = ICMP(type=kind, code=code, **({"nexthopmtu": mtu} if mtu else {}))
    elif kind == 11:
        error = icmp6(3, code=code)
    else:
        error = icmp6(2, mtu=mtu) if mtu else icmp6(1, code={1: 3, 3: 4}[code])
    return header(source, target) / error / Raw(quoted)
