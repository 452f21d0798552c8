"""The suite ``tunnel``: TTL, DSCP, ECN, sizes, fragments and malformed packets of tunnels.

RFC 2473 for IPv4 in IPv6, RFC 4213 for IPv6 in IPv4, RFC 6040 for ECN and RFC 6333 for DSCP.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import IPv4Address, ip_address
from typing import Any

from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import HBHOptUnknown, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment
from scapy.packet import Packet, Raw
from v6t.audit.clause import Clause, Send, Steps, Subject, Suite, not_testable
from v6t.audit.match import checksum_error, difference, payload_of
from v6t.audit.probe import Frame
from v6t.audit.row import Row, describe_answer, row_clause, row_steps
from v6t.audit.translator_hosts import DATA, TTL, data
from v6t.audit.wire import (
    Wire,
    dissect,
    fragment_offset,
    parse,
    ports_of,
    protocol_of,
    transport_octets,
)
from v6t.plugins.audit_views import Address, Nat, TunnelEnd

RFC = "RFC 2473"
CODEPOINTS = {0: "Not-ECT", 1: "ECT(1)", 2: "ECT(0)", 3: "CE"}
# fmt: off
ECN_OUT = {
    (0, 0): 0, (0, 1): 0, (0, 2): 0, (0, 3): None,
    (2, 0): 2, (2, 1): 1, (2, 2): 2, (2, 3): 3,
    (1, 0): 1, (1, 1): 1, (1, 2): 1, (1, 3): 3,
    (3, 0): 3, (3, 1): 3, (3, 2): 3, (3, 3): 3,
}
"""RFC 6040, figure 4, by inner and outer codepoint; None: dropped."""
# fmt: on


@dataclass(frozen=True)
class TunnelHosts:
    """Both hosts of a tunnel.

    Attributes:
        view: the tunnel.
        mtu: of its link.
        outer_host: the host behind the tunnel as the other host sees it.
        nat: a NAT is behind the tunnel's end (DS-Lite).
    """

    view: TunnelEnd
    mtu: int
    outer_host: tuple[Address, int]
    nat: bool = False

    @property
    def four_in_six(self) -> bool:
        """Whether the tunnel carries IPv4 in IPv6, rather than IPv6 in IPv4."""
        return isinstance(self.view.inner[0], IPv4Address)

    def header(self, source: Address, destination: Address, **fields: Any) -> Packet:
        """Return an IP header; ``ttl`` and ``tos`` are the hop limit and traffic class of IPv6."""
        ends = {"src": str(source), "dst": str(destination)}
        ttl, tos = fields.pop("ttl", TTL), fields.pop("tos", 0)
        if isinstance(source, IPv4Address):
            return IP(**ends, ttl=ttl, tos=tos, **fields)
        return IPv6(**ends, hlim=ttl, tc=tos, **fields)

    def inner(self, payload: bytes = DATA, **fields: Any) -> Packet:
        """Return a packet of the host behind the tunnel."""
        (source, sport), (destination, dport) = self.view.inner, self.view.host
        return self.header(source, destination, **fields) / UDP(sport=sport, dport=dport) / payload

    def outer(self, **fields: Any) -> Packet:
        """Return the header of a tunnel packet for the device."""
        return self.header(self.view.remote, self.view.local, **fields)

    def up(self, inner: Packet | None = None, **fields: Any) -> Packet:
        """Return a tunnel packet for the device."""
        return self.outer(**fields) / (self.inner() if inner is None else inner)

    def down(self, payload: bytes = DATA, **fields: Any) -> Packet:
        """Return a packet for the host behind the tunnel."""
        (source, sport), (destination, dport) = self.view.host, self.outer_host
        return self.header(source, destination, **fields) / UDP(sport=sport, dport=dport) / payload

    def expect_inner_packet(self, **fields: Any) -> Packet:
        """Return a template of what leaves the tunnel."""
        return type(self.inner())(dst=str(self.view.host[0]), **fields)

    def expect_tunnel_packet(self, **fields: Any) -> Packet:
        """Return a template of the device's tunnel packets."""
        v = self.view
        return type(self.outer())(src=str(v.local), dst=str(v.remote), **fields)

    def read_inner(self, packet: Packet) -> Packet | None:
        """Return the packet in a tunnel packet, or None."""
        octets = transport_octets(packet)
        number, length = (4, 20) if self.four_in_six else (41, 40)
        return dissect(octets) if protocol_of(packet) == number and len(octets) >= length else None


class TunnelSuite(Suite):
    """For devices in which tunnels end."""

    name = "tunnel"
    title = "Tunnels: TTL, DSCP, ECN, sizes, fragments, malformed packets"
    core = ("decapsulated", "encapsulated", "ttl-into", "dscp-into")

    def clauses(self, subject: Subject) -> Iterator[Clause]:
        view = subject.find(TunnelEnd)
        if view is None:
            return
        mtu = getattr(subject.wire.links, view.side).mtu
        h = TunnelHosts(view, mtu, view.outer or view.inner, subject.find(Nat) is not None)
        sources = (
            (out_rows, into_rows, ecn_rows, size_rows, malformed_rows)
            if h.four_in_six
            else (six_in_four_rows, ecn_rows)
        )
        for rows in sources:
            for row in rows(h):
                yield row_clause(row, RFC, partial(_steps, h, subject.wire, rows, row))


def _steps(
    h: TunnelHosts, wire: Wire, rows: Callable[[TunnelHosts], Iterable[Row]], row: Row
) -> Steps:
    """Open a session if a NAT chooses how the host appears, then carry out the row."""
    outwards = row.side == h.view.side
    if not outwards and h.view.outer is None:
        reached = yield from _reach(h, wire)
        if reached is None:
            return not_testable(
                describe_answer(row), "no packet from inside passes, so no session is open"
            )
        h = replace(h, outer_host=reached)
        row = next(r for r in rows(h) if r.label == row.label)
    control = None if row.plain else (h.up() if outwards else h.down())
    return (yield from row_steps(row, wire, control))


def _reach(
    h: TunnelHosts, wire: Wire
) -> Generator[Send, Sequence[Frame], tuple[Address, int] | None]:
    """Send a packet out of the tunnel; return the address and port that it leaves with."""
    frames = yield Send([wire.frame(h.view.side, h.up())])
    for packet in wire.packets(h.view.far_side, frames):
        if isinstance(packet, IP) and protocol_of(packet) == 17:
            return ip_address(packet.src), ports_of(packet)[0]
    return None


# fmt: off
def out_rows(h: TunnelHosts) -> Iterator[Row]:
    """Return the clauses about what leaves the tunnel."""
    out = partial(Row, side=h.view.side, section="3.3")
    host = h.view.host[0]
    whole = h.expect_inner_packet() / UDP() / Raw(DATA)
    yield out(label="decapsulated", level="MUST", packet=h.up(), answer=whole, plain=True,
              title="the packet in a tunnel leaves it unchanged in data, with right checksums",
              expected=f"IPv4 to {host}")
    # RFC 8200, sections 4 and 4.2: a destination processes options, and skips those of type 4
    limit = IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=4, optlen=1, optdata=b"\4")])
    yield out(label="encapsulation-limit", level="MUST", packet=h.outer() / limit / h.inner(), answer=whole,
              title="a tunnel packet with an encapsulation limit option is decapsulated")
    yield out(label="ttl-out", level="MAY", packet=h.up(), answer=IP(ttl=TTL - 1),
              title="the inner TTL is one less when a router has forwarded the packet from a tunnel")
    yield out(label="outer-hop-limit", level="MUST", packet=h.up(ttl=3), answer=IP(),
              title="the hop limit of the tunnel has no part in the inner TTL",
              check=lambda p: f"TTL {p.ttl}" if p.ttl in (2, 3) else "",
              expected="an inner TTL that is not 2 or 3")
    yield out(label="df-out", level="MUST", packet=h.up(h.inner(flags="DF")), answer=IP(flags="DF"),
              title="DF of the inner packet stays")


def into_rows(h: TunnelHosts) -> Iterator[Row]:
    """Return the clauses about what enters the tunnel."""
    into = partial(Row, side=h.view.far_side)
    inside = partial(_inside_matches, h)
    inner = str(h.view.inner[0])
    yield into("3.1", "encapsulated", "MUST", "a packet for a customer is put into the customer's tunnel",
               packet=h.down(), answer=h.expect_tunnel_packet(), plain=True,
               check=partial(inside, IP(dst=inner) / UDP() / Raw(DATA)))
    yield into("3.1", "ttl-into", "MUST", "the inner TTL is one less when a router has put it into a tunnel",
               packet=h.down(), answer=h.expect_tunnel_packet(), check=partial(inside, IP(ttl=TTL - 1)),
               expected=f"inner TTL {TTL - 1}")
    yield into("6.3", "tunnel-hop-limit", "MUST",
               "the hop limit of the tunnel is set independently of the inner TTL",
               packet=h.down(ttl=2), answer=h.expect_tunnel_packet(),
               check=lambda p: inside(IP(), p) or ("" if p.hlim > 2 else f"hop limit {p.hlim}"),
               expected="a hop limit above 2")
    yield into("3.1", "ttl-1", "MUST", "a packet with TTL 1 for a tunnel is discarded and its sender told",
               packet=h.down(ttl=1), answer=IP() / ICMP(type=11, code=0), error=True)
    yield into("3.1", "df-into", "MUST", "DF of the inner packet stays",
               packet=h.down(flags="DF"), answer=h.expect_tunnel_packet(), expected="inner DF 1",
               check=partial(inside, IP(flags="DF")))
    yield into("7.1", "dscp-into", "MUST", "the DSCP of IPv4 is carried over to the tunnel's header",
               packet=h.down(tos=0xB8), answer=h.expect_tunnel_packet(), expected="traffic class 0xb8",
               check=lambda p: inside(IP(), p) or _dscp_problem(p), rfc="RFC 6333")
    if h.view.copies_dscp:
        yield Row("7.1", "dscp-out", "MUST", "the DSCP of the tunnel's header is carried over to IPv4",
                  h.view.side, h.up(h.inner(tos=0x28), tos=0xB8), IP(), "TOS 0xb8", rfc="RFC 6333",
                  check=_dscp_problem)


def ecn_rows(h: TunnelHosts) -> Iterator[Row]:
    """Return the clauses of RFC 6040."""
    for (inner, outer), codepoint in ECN_OUT.items():
        words = f"inner {CODEPOINTS[inner]}, outer {CODEPOINTS[outer]}"
        out = partial(Row, "4.2", f"ecn-{inner}-{outer}", "MUST", rfc="RFC 6040", side=h.view.side,
                      packet=h.up(h.inner(tos=inner), tos=outer))
        if codepoint is None:
            yield out(f"{words}: dropped")
        else:
            yield out(f"{words}: {CODEPOINTS[codepoint]} leaves the tunnel", answer=type(h.inner())(),
                      check=partial(_has_ecn, codepoint), expected=CODEPOINTS[codepoint])
    for codepoint in (1, 2, 3):
        yield Row("4.1", f"ecn-into-{codepoint}", "MUST",
                  f"{CODEPOINTS[codepoint]} is copied to the tunnel's header", h.view.far_side,
                  h.down(tos=codepoint), h.expect_tunnel_packet(), f"outer {CODEPOINTS[codepoint]}",
                  check=partial(_has_ecn_twice, h, codepoint), rfc="RFC 6040")


def size_rows(h: TunnelHosts) -> Iterator[Row]:
    """Return the clauses about packets that do not fit, and about fragments."""
    into = partial(Row, side=h.view.far_side, level="MUST")
    largest = data(h.mtu - 28)
    into_rfc = partial(into, rfc="RFC 6333", section="6.3") if h.nat else partial(into, section="7.2")
    yield into("7.2", "df-too-big", packet=h.down(largest, flags="DF"), error=True,
               title="a packet with DF that does not fit the tunnel is discarded and its sender told",
               answer=IP() / ICMP(type=3, code=4, nexthopmtu=h.mtu - 40))
    yield into_rfc(label="no-df-too-big", packet=h.down(largest),
               answer=partial(_fragmented_outside, h, largest),
               title="a packet without DF that does not fit is encapsulated, then fragmented",
               expected=f"IPv6 fragments of at most {h.mtu} octets")
    payload = data(600)
    octets = bytes(h.inner(payload))
    out_rfc = partial(Row, rfc="RFC 6333", section="6.3") if h.nat else partial(Row, section="3.3")
    for name, order in (("in-order", 1), ("out-of-order", -1)):
        number = 0x51000000 + order
        parts = [h.outer() / IPv6ExtHdrFragment(nh=4, m=1, id=number) / Raw(octets[:400]),
                 h.outer() / IPv6ExtHdrFragment(nh=4, offset=50, id=number) / Raw(octets[400:])]
        yield out_rfc(label=f"reassembly-{name}", level="MUST", side=h.view.side, packet=parts[::order],
                  title="a fragmented tunnel packet is reassembled "
                        f"({'the last first' if order < 0 else 'in order'})",
                  answer=IP() / UDP() / Raw(payload), expected="IPv4 with 600 octets of data")


def malformed_rows(h: TunnelHosts) -> Iterator[Row]:
    """Return the clauses about tunnel packets that must be dropped."""
    drop = partial(Row, "3.3", side=h.view.side)
    native = IPv6(src=str(h.view.remote), dst="2001:db8:7::2") / UDP(sport=1, dport=2) / DATA
    yield drop("wrong-version", "MUST", "IPv6 behind the next header of IPv4 is dropped",
               packet=h.outer(nh=4) / native)
    yield drop("short", "MUST", "a tunnel packet with less than an IPv4 header in it is dropped",
               packet=h.outer(nh=4) / Raw(bytes(h.inner())[:12]))
    yield drop("inner-length", "MUST", "an inner packet longer than the tunnel packet is dropped",
               packet=h.up(h.inner(len=900)))
    wrong = bytes(h.inner())[10] ^ 0xFF, bytes(h.inner())[11]
    yield Row("5.2.2", "inner-checksum", "MUST", "an inner packet with a wrong header checksum is dropped",
              h.view.side, h.up(h.inner(chksum=int.from_bytes(wrong, "big"))), rfc="RFC 1812")
    if h.view.shared and not h.nat:
        (source, _), (destination, _) = h.view.inner, h.view.host
        yield drop("nested", "MAY",
                   "IPv4 in IPv4 in IPv6 has no port, and is dropped where addresses are shared",
                   packet=h.outer() / h.header(source, destination) / h.inner())


def six_in_four_rows(h: TunnelHosts) -> Iterator[Row]:
    """Return the clauses of RFC 4213 about IPv6 in IPv4."""
    out = partial(Row, side=h.view.side, rfc="RFC 4213")
    into = partial(Row, side=h.view.far_side, rfc="RFC 4213")
    inside = partial(_inside_matches, h)
    yield out("3.6", "decapsulated", "MUST", "the packet in a tunnel leaves it unchanged in data",
              packet=h.up(), answer=h.expect_inner_packet() / UDP() / Raw(DATA), plain=True)
    yield out("3.6", "outer-ttl", "MUST", "the TTL of the tunnel has no part in the inner hop limit",
              packet=h.up(ttl=3), answer=IPv6(hlim=TTL - 1))
    yield out("3.3", "hop-limit-1", "MUST",
              "a packet whose hop limit ends in the device does not leave the tunnel",
              packet=h.up(h.inner(ttl=1)))
    yield out("3.6", "wrong-version", "MUST", "IPv4 behind the protocol of IPv6 is dropped",
              packet=h.outer(proto=41) / Raw(bytes(h.header(h.view.remote, h.view.local))))
    yield out("3.6", "short", "MUST", "a tunnel packet with less than an IPv6 header in it is dropped",
              packet=h.outer(proto=41) / Raw(bytes(h.inner())[:32]))
    yield out("3.6", "inner-length", "MUST", "an inner packet longer than the tunnel packet is dropped",
              packet=h.up(h.inner(plen=900)))
    for name, source in (("multicast", "ff02::1"), ("loopback", "::1"), ("unspecified", "::")):
        inner = h.inner()
        inner.src = source
        yield out("3.6", f"source-{name}", "MUST", f"a packet in a tunnel from {source} is dropped",
                  packet=h.up(inner))
    yield into("3.5", "encapsulated", "MUST", "a packet for a customer is put into the customer's tunnel",
               packet=h.down(), answer=h.expect_tunnel_packet(proto=41), plain=True,
               check=partial(inside, IPv6(dst=str(h.view.inner[0]), hlim=TTL - 1) / UDP() / Raw(DATA)))
    yield into("3.3", "tunnel-ttl", "MUST",
               "the TTL of the tunnel is set independently of the inner hop limit",
               packet=h.down(ttl=2), answer=h.expect_tunnel_packet(), expected="a TTL above 2",
               check=lambda p: "" if p.ttl > 2 else f"TTL {p.ttl}")
# fmt: on


def _inside_matches(h: TunnelHosts, template: Packet, packet: Packet) -> str:
    """Check the packet in a tunnel packet."""
    inner = h.read_inner(packet)
    if inner is None:
        return "no IP packet in it"
    wrong = difference(template, inner) or checksum_error(inner)
    return f"in the tunnel: {wrong}" if wrong else ""


def _ecn(packet: Packet) -> int:
    return int(packet.tos if isinstance(packet, IP) else packet.tc) & 3


def _dscp_problem(packet: Packet) -> str:
    octet = packet.tos if isinstance(packet, IP) else packet.tc
    return "" if octet & 0xFC == 0xB8 else f"traffic class {octet:#04x}"


def _has_ecn(codepoint: int, packet: Packet) -> str:
    return "" if _ecn(packet) == codepoint else CODEPOINTS[_ecn(packet)]


def _has_ecn_twice(h: TunnelHosts, codepoint: int, packet: Packet) -> str:
    inner = h.read_inner(packet)
    if inner is None:
        return "no IP packet in it"
    if _ecn(packet) != codepoint:
        return f"outer {CODEPOINTS[_ecn(packet)]}"
    return "" if _ecn(inner) == codepoint else f"inner {CODEPOINTS[_ecn(inner)]}"


def _fragmented_outside(h: TunnelHosts, payload: bytes, far: list[Packet]) -> str:
    """Check the fragments of a packet that did not fit the tunnel."""
    if any(len(bytes(p)) > h.mtu for p in far):
        return "a packet that is longer than the link's MTU"
    outer = [p for p in far if p.haslayer(IPv6ExtHdrFragment)]
    if outer:
        parts = [bytes(p[IPv6ExtHdrFragment].payload) for p in sorted(outer, key=fragment_offset)]
        inner = parse(b"".join(parts))
        complete = inner is not None and payload_of(inner) == payload
        return "" if complete else "the fragments do not make up the packet"
    inners = [p for p in map(h.read_inner, far) if p is not None]
    joined = b"".join(transport_octets(p) for p in sorted(inners, key=fragment_offset))
    if joined[8:] == payload:
        return f"IPv4 was fragmented before encapsulation, in {len(inners)} pieces"
    return "nothing that makes up the packet"
