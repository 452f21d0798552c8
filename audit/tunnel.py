"""The suite ``tunnel``: IPv4 in IPv6 (RFC 2473), IPv6 in IPv4 (RFC 4213), ECN (RFC 6040), DSCP (RFC 6333)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import HBHOptUnknown, IPv6, IPv6ExtHdrDestOpt
from scapy.packet import Packet, Raw
from v6t.audit.clause import Clause, Subject, Suite
from v6t.audit.ip_packet import IPPacket, find_inner_packet, join_fragments, read_header
from v6t.audit.packets import DATA, TTL, Predicate, Wire, allow, data, datagram, header, ip, split
from v6t.audit.row import LinkHosts, Opening, Row, find_public_end, make_row_clauses
from v6t.plugins.audit_views import Address, Nat, SideName, TunnelEnd

CODEPOINTS = {0: "Not-ECT", 1: "ECT(1)", 2: "ECT(0)", 3: "CE"}
# RFC 6040, figure 4: by inner codepoint, the result for the outer codepoints 0 to 3; None: dropped
ECN_OUT = {0: (0, 0, 0, None), 2: (2, 1, 2, 3), 1: (1, 1, 1, 3), 3: (3, 3, 3, 3)}
EF = Predicate("0xb8 apart from ECN", lambda octet: octet & 0xFC == 0xB8)


class TunnelSuite(Suite):
    """Clauses for tunnel endpoints."""

    name = "tunnel"
    core = ("decapsulated", "encapsulated", "ttl-into", "dscp-into")

    def list_clauses(self, subject: Subject, variant: str = "") -> Iterable[Clause]:
        view = subject.find(TunnelEnd)
        if view is None or variant:
            return ()
        mtus = subject.wire.mtu(view.side), subject.wire.mtu(view.far_side)
        h = TunnelHosts(view, *mtus, view.outer or view.inner, subject.find(Nat) is not None)
        if view.inner[0].version == 6:
            return make_row_clauses(h, subject.wire, _make_six_in_four_rows, _make_ecn_rows)
        sources = (
            _make_out_rows,
            _make_into_rows,
            _make_ecn_rows,
            _make_size_rows,
            _make_malformed_rows,
        )
        return make_row_clauses(h, subject.wire, *sources)


@dataclass(frozen=True)
class TunnelHosts(LinkHosts):
    """The hosts of a tunnel: packets go ``up`` encapsulated, and plain ``down`` into the tunnel."""

    view: TunnelEnd
    mtu: int  # of the tunnel's link
    far_mtu: int
    outer_host: tuple[Address, int]  # the host behind the tunnel as the other host sees it
    nat: bool = False  # a NAT is behind the tunnel's end (DS-Lite)

    def open_session(self, row: Row, wire: Wire) -> Opening:
        if row.side == self.view.side or self.view.outer is not None:
            return self
        end = yield from find_public_end(wire, self.view.side, self.up(), "udp")
        return replace(self, outer_host=end) if end else None

    def plain(self, side: SideName) -> Packet:
        return self.up() if side == self.view.side else self.down()

    def inner(self, payload: bytes = DATA, **fields: Any) -> Packet:
        return datagram(self.view.inner, self.view.host, payload, **fields)

    def outer(self, **fields: Any) -> Packet:
        return header(self.view.remote, self.view.local, **fields)

    def up(self, inner: Packet | None = None, **fields: Any) -> Packet:
        return self.outer(**fields) / (self.inner() if inner is None else inner)

    def down(self, payload: bytes = DATA, **fields: Any) -> Packet:
        return datagram(self.view.host, self.outer_host, payload, **fields)

    def to_host(self) -> Packet:
        return ip(self.view.host[0].version, dst=str(self.view.host[0])) / UDP()

    def to_remote(self, **fields: Any) -> Packet:
        ends = {"src": str(self.view.local), "dst": str(self.view.remote)}
        return ip(self.view.local.version, **ends, **fields)


# fmt: off
def _make_out_rows(h: TunnelHosts) -> Iterator[Row]:
    out, template = partial(Row, "RFC 2473", "3.3", side=h.view.side), h.to_host() / Raw(DATA)
    # RFC 8200, sections 4 and 4.2: a destination processes options, and skips those of type 4
    limit = IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=4, optlen=1, optdata=b"\4")])
    yield out("decapsulated", "a packet leaves the tunnel with unchanged data and correct checksums",
              h.up(), template, plain=True)
    yield out("encapsulation-limit", "a tunnel packet with an encapsulation limit option is decapsulated",
              h.outer() / limit / h.inner(), template)
    yield out("ttl-out", "a router that forwards a packet from a tunnel decrements the inner TTL by one",
              h.up(), IP(ttl=TTL - 1), "MAY")
    yield out("outer-hop-limit", "the inner TTL does not depend on the hop limit of the tunnel",
              h.up(ttl=3), allow(IP(), ttl=Predicate("not 2 or 3", lambda ttl: ttl not in (2, 3))))
    yield out("df-out", "DF of the inner packet is not changed", h.up(h.inner(flags="DF")), IP(flags="DF"))


def _make_into_rows(h: TunnelHosts) -> Iterator[Row]:
    into, tunnel = partial(Row, "RFC 2473", side=h.view.far_side), h.to_remote()
    yield into("3.1", "encapsulated", "a packet for a customer is put into the customer's tunnel",
               h.down(), tunnel / IP(dst=str(h.view.inner[0])) / UDP() / Raw(DATA), plain=True)
    yield into("3.1", "ttl-into", "a router that puts a packet into a tunnel decrements the inner TTL by one",
               h.down(), tunnel / IP(ttl=TTL - 1))
    yield into("6.3", "tunnel-hop-limit", "the hop limit of the tunnel is set independently of the inner TTL",
               h.down(ttl=2), allow(tunnel, hlim=Predicate("above 2", lambda hlim: hlim > 2)) / IP())
    yield into("3.1", "ttl-1", "a packet with TTL 1 for a tunnel is discarded and its sender notified",
               h.down(ttl=1), IP() / ICMP(type=11, code=0), error=True)
    yield into("3.1", "df-into", "DF of the inner packet is not changed",
               h.down(flags="DF"), tunnel / IP(flags="DF"))
    copies = h.view.copies_dscp  # RFC 7597 does not refer to RFC 6333, section 7.1
    yield Row(*(("RFC 6333", "7.1") if copies else ("RFC 2473", "6.4")), "dscp-into",
              "the DSCP of IPv4 is copied to the tunnel's header", h.down(tos=0xB8),
              allow(tunnel, tc=EF) / IP(), "MUST" if copies else "MAY", side=h.view.far_side)
    if copies:  # RFC 7596, section 6.2 also refers to RFC 2983, which has two models
        yield Row("RFC 6333", "7.1", "dscp-out", "the DSCP of the tunnel's header is copied to IPv4",
                  h.up(h.inner(tos=0x28), tos=0xB8), allow(IP(), tos=EF), "MUST" if h.nat else "SHOULD",
                  side=h.view.side)


def _make_ecn_rows(h: TunnelHosts) -> Iterator[Row]:
    def ecn(template: Packet, *codepoints: int) -> Packet:
        words = " or ".join(map(CODEPOINTS.__getitem__, codepoints))
        condition = Predicate(words, lambda octet: octet & 3 in codepoints)
        return allow(template, **{"tos" if isinstance(template, IP) else "tc": condition})

    anything = ip(h.view.inner[0].version)
    for inner, results in ECN_OUT.items():
        for outer, codepoint in enumerate(results):
            result = "dropped" if codepoint is None else f"{CODEPOINTS[codepoint]} leaves the tunnel"
            yield Row("RFC 6040", "4.2", f"ecn-{inner}-{outer}",
                      f"inner {CODEPOINTS[inner]}, outer {CODEPOINTS[outer]}: {result}",
                      h.up(h.inner(tos=inner), tos=outer),
                      None if codepoint is None else ecn(anything, codepoint), side=h.view.side)
    for codepoint in (1, 2, 3):
        yield Row("RFC 6040", "4.1", f"ecn-into-{codepoint}",
                  f"{CODEPOINTS[codepoint]} is copied to the tunnel's header, or the header has Not-ECT",
                  h.down(tos=codepoint), ecn(h.to_remote(), codepoint, 0) / ecn(anything, codepoint),
                  side=h.view.far_side)


def _make_size_rows(h: TunnelHosts) -> Iterator[Row]:
    largest, payload = data(min(h.mtu, h.far_mtu) - 28), data(600)
    if h.far_mtu > h.mtu - 40:
        yield Row("RFC 2473", "7.2", "df-too-big",
                  "a packet with DF that does not fit the tunnel is discarded and its sender notified",
                  h.down(largest, flags="DF"),
                  # 8 octets less with the tunnel encapsulation limit option (RFC 2473, section 4.1.1)
                  IP() / allow(ICMP(type=3, code=4), nexthopmtu=(h.mtu - 40, h.mtu - 48)), error=True,
                  side=h.view.far_side)
        yield Row(*(("RFC 6333", "6.3") if h.nat else ("RFC 2473", "7.2")), "no-df-too-big",
                  "a packet without DF that does not fit is encapsulated, then fragmented",
                  h.down(largest), partial(_check_fragments, h, largest), side=h.view.far_side)
    for name, words, order in (("in-order", "in order", 1), ("out-of-order", "last fragment first", -1)):
        parts = split(h.up(h.inner(payload)), 400, 0x51000000 + order)
        yield Row(*(("RFC 6333", "6.3") if h.nat else ("RFC 2473", "3.3")), f"reassembly-{name}",
                  f"a fragmented tunnel packet is reassembled ({words})",
                  parts[::order], IP() / UDP() / Raw(payload), side=h.view.side)


def _make_malformed_rows(h: TunnelHosts) -> Iterator[Row]:
    drop = partial(Row, "RFC 2473", "3.3", side=h.view.side)
    native = IPv6(src=str(h.view.remote), dst="2001:db8:7::2") / UDP(sport=1, dport=2) / DATA
    yield drop("wrong-version", "IPv6 behind the next header of IPv4 is dropped", h.outer(nh=4) / native)
    yield drop("short", "a tunnel packet that contains less than an IPv4 header is dropped",
               h.outer(nh=4) / Raw(bytes(h.inner())[:12]))
    yield drop("inner-length", "an inner packet longer than the tunnel packet is dropped",
               h.up(h.inner(len=900)))
    wrong = int.from_bytes(bytes(h.inner())[10:12], "big") ^ 0xFF00
    yield Row("RFC 1812", "5.2.2", "inner-checksum",
              "an inner packet with a wrong header checksum is dropped",
              h.up(h.inner(chksum=wrong)), side=h.view.side)
    if h.view.shared and not h.nat:
        yield drop("nested", "IPv4 in IPv4 in IPv6 has no port, and is dropped where addresses are shared",
                   h.outer() / header(h.view.inner[0], h.view.host[0]) / h.inner(), level="MAY")


def _make_six_in_four_rows(h: TunnelHosts) -> Iterator[Row]:
    out, into = (partial(Row, "RFC 4213", side=side) for side in (h.view.side, h.view.far_side))
    tunnel = h.to_remote(proto=41)
    yield out("3.6", "decapsulated", "a packet leaves the tunnel with unchanged data",
              h.up(), h.to_host() / Raw(DATA), plain=True)
    yield out("3.6", "outer-ttl", "the inner hop limit does not depend on the TTL of the tunnel",
              h.up(ttl=3), IPv6(hlim=TTL - 1))
    yield out("3.3", "hop-limit-1", "a packet whose hop limit expires in the device does not leave the "
                                    "tunnel",
              h.up(h.inner(ttl=1)))
    yield out("3.6", "wrong-version", "IPv4 behind the protocol of IPv6 is dropped",
              h.outer(proto=41) / Raw(bytes(header(h.view.remote, h.view.local))))
    yield out("3.6", "short", "a tunnel packet that contains less than an IPv6 header is dropped",
              h.outer(proto=41) / Raw(bytes(h.inner())[:32]))
    yield out("3.6", "inner-length", "an inner packet longer than the tunnel packet is dropped",
              h.up(h.inner(plen=900)))
    for name, source in (("multicast", "ff02::1"), ("loopback", "::1"), ("unspecified", "::")):
        yield out("3.6", f"source-{name}", f"a packet in a tunnel from {source} is dropped",
                  h.up(h.inner(src=source)))
    yield into("3.5", "encapsulated", "a packet for a customer is put into the customer's tunnel", h.down(),
               tunnel / IPv6(dst=str(h.view.inner[0]), hlim=TTL - 1) / UDP() / Raw(DATA), plain=True)
    yield into("3.3", "tunnel-ttl", "the TTL of the tunnel is set independently of the inner hop limit",
               h.down(ttl=2), allow(tunnel, ttl=Predicate("above 2", lambda ttl: ttl > 2)))
# fmt: on


def _check_fragments(h: TunnelHosts, payload: bytes, far: list[IPPacket]) -> str:
    if any(len(packet) > h.mtu for packet in far):
        return "a packet that is longer than the link's MTU"
    if parts := [packet for packet in far if packet.is_fragment]:
        fields = {"octets": join_fragments(parts), "id": None, "offset": 0, "more": False}
        inner = find_inner_packet(read_header(bytes(replace(parts[0], **fields))))
        is_complete = inner is not None and not inner.missing and inner.octets[8:] == payload
        return "" if is_complete else "the fragments do not make up the packet"
    inners = list(filter(None, map(find_inner_packet, far)))
    if join_fragments(inners)[8:] == payload:
        return f"IPv4 was fragmented before encapsulation, in {len(inners)} pieces"
    return "no fragments that make up the packet"
