"""RFC 7915: sections 4 (IPv4 packets become IPv6 packets) and 5 (IPv6 packets become IPv4 packets)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import IPv4Address
from typing import Any

from scapy.layers import inet6
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption, IPOption_Router_Alert, IPOption_RR
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.packet import Packet, Raw
from v6t.audit.ip_packet import IPPacket, find_checksum_error
from v6t.audit.packets import DATA, INNER_TTL, TTL, Predicate, Wire, allow, data, icmp6, transport
from v6t.audit.row import LinkHosts, Opening, Row, find_public_end
from v6t.plugins.audit_views import SideName, Translator

IDENTIFICATION, IDENTIFICATION6 = 0xBEEF, 0x89ABCDEF
LARGE = 1400  # octets of an IPv4 packet that does not fit the smallest IPv6 MTU
SMALLEST_WITH_DF = 1261  # IPv4 packets of at least this size have DF set
FRAGMENTS = (("first", 0, 200), ("middle", 200, 400), ("last", 400, 608))
WITHOUT_MF = Predicate("without MF", lambda flags: not flags.MF)
# protocols that RFC 7915 does not mention. scapy dissects DCCP, so its data is not compared
NUMBERS = {"dccp": (33, "DCCP"), "esp": (50, "ESP"), "unknown": (253, "an unknown protocol")}


@dataclass(frozen=True)
class TranslatorHosts(LinkHosts):
    """The hosts of a translator audit, one on each link, and the packets they send and receive.

    ``ip4`` and ``udp4`` are headers of the IPv4 host, ``at4`` is a template of what reaches it, ``quoted4``
    a header of the other host as IPv4 errors quote it. The names with 6 are those of IPv6.
    """

    view: Translator
    mtu6: int
    mtu4: int
    six4: IPv4Address  # the IPv6 host as the IPv4 host sees it
    port4: int
    udp_end: tuple[IPv4Address, int] | None = None  # for UDP, if it has another session

    def open_session(self, row: Row, wire: Wire) -> Opening:
        v = self.view
        outwards = row.side == v.ipv6_side
        if not v.stateful or (outwards and "checksum" not in row.label):
            return self
        end = yield from find_public_end(wire, v.ipv6_side, self.plain6(row.flow), row.flow)
        udp_end = None
        if end and row.flow != "udp" and not outwards:
            udp_end = yield from find_public_end(wire, v.ipv6_side, self.plain6(), "udp")
        return replace(self, six4=end[0], port4=end[1], udp_end=udp_end) if end else None

    def plain(self, side: SideName) -> Packet:
        if side == self.view.ipv6_side:
            return self.plain6()
        six4, port4 = self.udp_end or (self.six4, self.port4)
        return self.ip4(dst=str(six4)) / UDP(sport=self.view.server_port, dport=port4) / Raw(DATA)

    def plain6(self, flow: str = "udp") -> Packet:
        return self.ip6() / transport(flow, self.view.port, self.view.server_port, 6)

    @property
    def udp4(self) -> UDP:
        return UDP(sport=self.view.server_port, dport=self.port4)

    @property
    def udp6(self) -> UDP:
        return UDP(sport=self.view.port, dport=self.view.server_port)

    def fits(self, octets: int, added: int = 20) -> bool:
        """Return whether an IPv4 packet and its longer IPv6 translation fit the links."""
        return octets <= self.mtu4 and octets + added <= self.mtu6

    def ip4(self, **fields: Any) -> IP:
        return IP(**{"src": str(self.view.ipv4_host), "dst": str(self.six4), "ttl": TTL, **fields})

    def ip6(self, **fields: Any) -> IPv6:
        ends = {"src": str(self.view.ipv6_host), "dst": str(self.view.mapped_ipv6)}
        return IPv6(**{**ends, "hlim": TTL, **fields})

    def at6(self, **fields: Any) -> IPv6:
        ends = {"src": str(self.view.mapped_ipv6), "dst": str(self.view.ipv6_host)}
        return IPv6(**{**ends, **fields})

    def at4(self, **fields: Any) -> Packet:
        sources = tuple(map(str, self.view.mapped_ipv4))
        return allow(IP(dst=str(self.view.ipv4_host), **fields), src=sources)

    def quoted4(self, **fields: Any) -> IP:
        ends = {"src": str(self.six4), "dst": str(self.view.ipv4_host), "ttl": INNER_TTL}
        return IP(**{**ends, **fields})

    def quoted6(self, **fields: Any) -> IPv6:
        return self.at6(**{"hlim": INNER_TTL, **fields})


# fmt: off
def make_ipv4_rows(h: TranslatorHosts) -> Iterator[Row]:
    """Yield the rows of RFC 7915, section 4, except ICMP."""
    v, ip, at, udp, plain = h.view, h.ip4, h.at6, h.udp4, h.ip4() / h.udp4 / Raw(DATA)
    down = partial(Row, "RFC 7915", side=v.ipv4_side)
    yield down("4.1", "udp", "an IPv4 packet becomes an IPv6 packet between the mapped addresses, "
               "with its checksum updated and its data unchanged",
               plain, at() / UDP(dport=v.port) / Raw(DATA),
               plain=True)
    yield down("4.1", "traffic-class", "the traffic class is the TOS octet", ip(tos=0xB9) / udp / DATA,
               IPv6(tc=0xB9), "SHOULD")
    yield down("4.1", "flow-label", "the flow label is 0", plain, IPv6(fl=0))
    yield down("4.1", "payload-length", "the payload length is the total length less the IPv4 header",
               plain, IPv6(plen=8 + len(DATA)))
    yield down("4", "no-fragment-header-df", "an unfragmented packet with DF gets no fragment header",
               ip(flags="DF") / udp / DATA, IPv6(nh=17))
    yield down("4", "no-fragment-header-no-df", "an unfragmented packet without DF gets no fragment header",
               ip(flags=0) / udp / DATA, IPv6(nh=17))
    for name, source in (("loopback", "127.0.0.1"), ("this-network", "0.0.0.0")):
        yield down("4.1", f"illegal-source-{name}", f"a packet from {source} is silently discarded",
                   ip(src=source) / udp / DATA, level="SHOULD", silent=True)
    yield down("4.1", "hop-limit", "the hop limit is the TTL less one", plain, IPv6(hlim=TTL - 1))
    yield down("4.1", "ttl-2", "a packet with TTL 2 is forwarded", ip(ttl=2) / udp / DATA, IPv6(hlim=1))
    yield down("4.1", "ttl-1", "a packet with TTL 1 is discarded and its sender notified",
               ip(ttl=1) / udp / DATA, IP() / ICMP(type=11, code=0), error=True)
    for name, words, option in (
        ("router-alert", "Router Alert", IPOption_Router_Alert()),
        ("record-route", "Record Route", IPOption_RR(length=7, pointer=4, routers=["0.0.0.0"])),
        ("used-source-route", "a completed source route", _make_source_route(8))):
        yield down("4.1", f"option-{name}", f"an IPv4 option ({words}) is ignored and the packet translated",
                   ip(options=[option]) / udp / DATA, at() / UDP() / Raw(DATA))
    routed = ip(options=[_make_source_route(4)]) / udp / DATA
    yield down("4.1", "source-route", "a packet with an unexpired source route is discarded", routed)
    yield down("4.1", "source-route-error", "its sender receives a source route failed error",
               routed, IP() / ICMP(type=3, code=5), "SHOULD", error=True)
    yield down("4.5", "tcp", "a TCP segment's checksum is updated",
               ip() / TCP(sport=v.server_port, dport=h.port4, flags="A") / DATA, at() / TCP() / Raw(DATA),
               flow="tcp")
    unsummed = ip() / UDP(sport=v.server_port, dport=h.port4, chksum=0)
    yield down("4.5", "udp-no-checksum", "UDP without checksum is dropped or gets a correct checksum",
               unsummed / DATA, lambda far: next(filter(None, map(find_checksum_error, far)), ""))
    yield down("4.5", "udp-checksum-made", "UDP without checksum gets a checksum and is forwarded",
               unsummed / DATA, at() / UDP(), "MAY")
    to_zero = _find_zero_sum_data(at(), UDP(sport=v.server_port, dport=v.port))
    yield down("4.5", "udp-checksum-ffff", "a UDP checksum that is computed as zero is sent as 0xffff",
               ip() / udp / to_zero, at() / UDP(chksum=0xFFFF))
    if not v.uses_ports:
        for name, (number, words) in NUMBERS.items():
            payload = Raw(data(40))
            yield down("4.1", f"protocol-{name}", f"{words} ({number}) is forwarded with its number copied",
                       ip(proto=number) / payload, at(nh=number) / payload if number != 33 else at(nh=number))
        yield down("4.2", "igmp", "IGMP is silently dropped",
                   ip(proto=2) / Raw(bytes.fromhex("160008f9e0000105")), level="SHOULD", silent=True)
    yield from make_rows_without_df(h)
    fits = v.lowest_ipv6_mtu < LARGE + 20 and h.fits(LARGE)
    if h.mtu4 + 20 > h.mtu6:
        yield down("4.1", "df-too-big",
                   "a packet with DF that does not fit the IPv6 link is discarded and its sender notified",
                   ip(flags="DF") / udp / data(h.mtu4 - 28),
                   IP() / ICMP(type=3, code=4, nexthopmtu=h.mtu6 - 20), error=True)
    if fits:
        yield down("4", "df-fits", "a packet with DF that fits the IPv6 link is forwarded unfragmented",
                   ip(flags="DF") / udp / data(LARGE - 28), at() / UDP())
    part, whole = partial(ip, id=IDENTIFICATION, proto=17), bytes(ip() / udp / data(600))[20:]
    for name, start, end in (*FRAGMENTS, ("first-df", 0, 200)) if not v.may_reassemble else ():
        octets, df = whole[start:end], name.endswith("df")
        place = IPv6ExtHdrFragment(id=IDENTIFICATION, offset=start // 8, m=int(name != "last"), nh=17)
        yield down("4.1", f"fragment-{name}",
                   f"a {name.replace('-df', '')} fragment{' with DF' if df else ''} gets a "
                   "fragment header with its offset, M flag and identification",
                   part(flags=(name != "last") + 2 * df, frag=start // 8) / Raw(octets),
                   at(plen=8 + len(octets)) / place / _fragment_data(octets, start))
    if not v.stateful:
        yield down("4.5", "fragment-no-checksum",
                   "a first fragment of UDP without checksum is dropped by a stateless translator",
                   part(flags="MF") / Raw(bytes(unsummed / data(600))[20:220]), level="SHOULD")
    if not v.may_reassemble and fits:
        long = bytes(ip() / udp / data(LARGE))[20:1396]
        yield down("4.1", "fragment-too-big",
                   f"a fragment without DF that would exceed {v.lowest_ipv6_mtu} octets is fragmented "
                   "further",
                   part(flags="MF") / Raw(long), partial(_check_fragments, h, long[8:], False),
                   "SHOULD")


def make_rows_without_df(h: TranslatorHosts, suffix: str = "") -> Iterator[Row]:
    """Yield the rows about ``lowest-ipv6-mtu``, which is 1280 unless configured."""
    lowest, payload = h.view.lowest_ipv6_mtu, data(LARGE - 28)
    down = partial(Row, "RFC 7915", side=h.view.ipv4_side)
    if h.fits(lowest - 20):
        yield down("4", f"no-df-fits{suffix}",
                   f"a packet without DF that becomes {lowest} octets is not fragmented",
                   h.ip4() / h.udp4 / data(lowest - 48), h.at6(plen=lowest - 40) / UDP())
    if lowest < LARGE + 20 and h.fits(LARGE):
        yield down("4.1", f"no-df-too-big{suffix}",
                   f"a packet without DF that would exceed {lowest} octets is fragmented to that size",
                   h.ip4() / h.udp4 / payload, partial(_check_fragments, h, payload, True), "SHOULD")


def make_ipv6_rows(h: TranslatorHosts) -> Iterator[Row]:
    """Yield the rows of RFC 7915, section 5, except ICMPv6."""
    v, ip, at, udp, plain = h.view, h.ip6, h.at4, h.udp6, h.plain6()
    up, sender = partial(Row, "RFC 7915", side=v.ipv6_side), IPv6(dst=str(v.ipv6_host))
    yield up("5.1", "udp", "an IPv6 packet becomes an IPv4 packet between the mapped addresses, "
             "with its checksum updated and its data unchanged",
             plain, at(ihl=5) / UDP() / Raw(DATA), plain=True)
    yield up("5.1", "tos", "the TOS octet is the traffic class", ip(tc=0xB9) / udp / DATA, IP(tos=0xB9),
             "SHOULD")
    yield up("5.1", "total-length", "the total length is the payload length plus the IPv4 header",
             plain, IP(len=28 + len(DATA)))
    yield up("5.1", "no-fragment", "an unfragmented packet has neither the More Fragments flag nor an offset",
             plain, allow(IP(frag=0), flags=WITHOUT_MF))
    for octets in filter(h.fits, (46, SMALLEST_WITH_DF - 1, SMALLEST_WITH_DF, LARGE)):
        df = octets >= SMALLEST_WITH_DF
        yield up("5.1", f"df-{octets}",
                 f"an IPv4 packet of {octets} octets is sent {'with' if df else 'without'} DF",
                 ip() / udp / data(octets - 28), at(flags="DF" if df else 0) / UDP())
    yield up("5.5", "tcp", "a TCP segment's checksum is updated", h.plain6("tcp"), at() / TCP(), flow="tcp")
    to_zero = _find_zero_sum_data(h.quoted4(), UDP(sport=h.port4, dport=v.server_port))
    yield up("5.5", "udp-checksum-ffff",
             "a UDP checksum that is computed as zero is sent as 0xffff: zero means no checksum",
             ip() / udp / to_zero, at() / UDP(chksum=0xFFFF))
    for name, (number, words) in NUMBERS.items() if not v.uses_ports else ():
        payload = Raw(data(40))
        yield up("5.1", f"protocol-{name}", f"{words} ({number}) is forwarded with its number copied",
                 ip(nh=number) / payload, at(proto=number) / payload if number != 33 else at(proto=number))
    yield up("5.1", "illegal-source", "a packet from ::1 is silently dropped",
             ip(src="::1") / udp / DATA, level="SHOULD", silent=True)
    yield up("5.1", "ttl", "the TTL is the hop limit less one", plain, IP(ttl=TTL - 1))
    yield up("5.1", "hop-limit-2", "a packet with hop limit 2 is forwarded", ip(hlim=2) / udp / DATA,
             IP(ttl=1))
    yield up("5.1", "hop-limit-1", "a packet with hop limit 1 is discarded and its sender notified",
             ip(hlim=1) / udp / DATA, sender / icmp6(3, code=0), error=True)
    pad = inet6.PadN(optdata=bytes(4))
    options = inet6.IPv6ExtHdrDestOpt(options=[pad])
    hop_by_hop = inet6.IPv6ExtHdrHopByHop(options=[pad])
    used = inet6.IPv6ExtHdrRouting(segleft=0, addresses=[])
    for name, headers, words in (
        ("hop-by-hop", hop_by_hop, "hop-by-hop options"),
        ("destination-options", options, "destination options"),
        ("routing-used", used, "a routing header with no segments left"),
        ("chain", hop_by_hop / used / options, "three extension headers")):
        yield up("5.1", f"extension-{name}", f"a packet with {words} is translated without extension headers",
                 ip() / headers / udp / DATA, at(ihl=5, len=28 + len(DATA)) / UDP() / Raw(DATA))
    left = ip() / inet6.IPv6ExtHdrRouting(segleft=1, addresses=["2001:db8::5"]) / udp / DATA
    yield up("5.1", "segments-left", "a packet with segments left in a routing header is not translated",
             left)
    yield up("5.1", "segments-left-error", "its sender receives a parameter problem (pointer at Segments "
                                           "Left)",
             left, sender / icmp6(4, code=0, ptr=43), "SHOULD", error=True)
    # a device that reassembles packets to read their ports (RFC 6146, section 3.4) keeps no
    # fragments
    kept, low, whole = not v.uses_ports, IDENTIFICATION6 & 0xFFFF, bytes(ip() / udp / data(600))[40:]
    part = partial(IPv6ExtHdrFragment, nh=17, id=IDENTIFICATION6)
    for name, start, end in FRAGMENTS if kept else ():
        octets, more = whole[start:end], int(name != "last")
        template = at(id=low, frag=start // 8, flags=more, proto=17, len=20 + len(octets))
        yield up("5.1.1", f"fragment-{name}",
                 f"a {name} fragment keeps offset, M flag and the low 16 bits of its identification, "
                 "without DF",
                 ip() / part(offset=start // 8, m=more) / Raw(octets),
                 template / _fragment_data(octets, start))
    atomic = at(frag=0, proto=17, len=628, **({"id": low, "flags": 0} if kept else {}))
    yield up("5.1.1", "atomic-fragment", "an atomic fragment becomes an unfragmented packet"
             + (" without DF that keeps its identification" if kept else ""), ip() / part() / udp / data(600),
             (atomic if kept else allow(atomic, flags=WITHOUT_MF)) / UDP() / Raw(data(600)))
    if kept and h.fits(SMALLEST_WITH_DF + 99, 28):
        yield up("5.1.1", "atomic-fragment-large", "an atomic fragment above 1260 octets also has no DF",
                 ip() / part() / udp / data(SMALLEST_WITH_DF + 99 - 28), at(flags=0) / UDP())
    yield up("5.1.1", "fragment-extension", "a fragment whose header names an extension header is dropped",
             ip() / part(nh=60, m=1) / Raw(bytes([17, 0, 1, 4, 0, 0, 0, 0]) + whole[:200]), level="SHOULD")
# fmt: on


def _make_source_route(pointer: int) -> IPOption:
    """Return a loose source route option; scapy's own option class would change the UDP checksum."""
    return IPOption(copy_flag=1, optclass=0, option=3, value=bytes([pointer, 192, 0, 2, 33]))


def _find_zero_sum_data(ip: Packet, udp: UDP) -> bytes:
    """Return UDP data whose checksum is computed as 0, which is sent as 0xffff."""
    octets, at = bytes(ip / udp / Raw(b"v6\0\0")), len(ip) + 6
    return b"v6" + octets[at : at + 2]


def _fragment_data(octets: bytes, start: int) -> Packet:
    """Return a template for the data of a UDP fragment; the first one holds the checksum."""
    return Raw(octets) if start else UDP() / Raw(octets[8:])


def _check_fragments(h: TranslatorHosts, payload: bytes, has_end: bool, far: list[IPPacket]) -> str:
    """Check that UDP fragments form a payload; with ``has_end``, the last one has no M flag."""
    ordered, joined = sorted(far, key=lambda p: p.offset), b""
    ends = h.view.mapped_ipv6, h.view.ipv6_host
    for p in ordered:
        wrong = {
            "a packet without fragment header": p.id is None,
            f"a fragment from {p.src} to {p.dst}": (p.src, p.dst) != ends,
            "fragments of several packets": p.id != ordered[0].id,
            f"a fragment of {len(p)} octets": len(p) > h.view.lowest_ipv6_mtu,
            f"a fragment at {8 * p.offset} instead of {len(joined)}": 8 * p.offset != len(joined),
            f"a fragment with M flag {int(p.more)}": p.more == (has_end and p is ordered[-1]),
        }
        if problems := [words for words, is_wrong in wrong.items() if is_wrong]:
            return problems[0]
        joined += p.octets
    if joined[8:] != payload:
        return f"fragments that do not make up the data, {len(joined)} octets" if far else "nothing"
    return find_checksum_error(IPPacket(*ends, 17, joined)) if has_end else ""
