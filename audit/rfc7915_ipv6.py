"""RFC 7915, section 5: IPv6 packets become IPv4 packets (ICMPv6: see ``rfc7915_icmp``)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6ParamProblem,
    ICMPv6TimeExceeded,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    PadN,
)
from scapy.packet import Raw
from v6t.audit.clause import MUST, SHOULD
from v6t.audit.hosts import (
    DATA,
    TTL,
    WITHOUT_MF,
    TranslatorHosts,
    data,
    expect_fragment,
    udp_data_that_sums_to_zero,
)
from v6t.audit.match import allow
from v6t.audit.row import Row

SMALLEST_WITH_DF = 1261
"""IPv4 packets of at least this size have DF set."""
IDENTIFICATION = 0x89ABCDEF
NUMBERS = {"dccp": (33, "DCCP"), "esp": (50, "ESP"), "unknown": (253, "an unknown protocol")}
"""Protocols that RFC 7915 does not mention. scapy dissects DCCP, so its data is not compared."""


# fmt: off
def rows(h: TranslatorHosts) -> Iterator[Row]:
    """Return all clauses of section 5 but those about ICMPv6."""
    v, ip, at, udp, plain = h.view, h.ip6, h.at4, h.udp6, h.plain6()
    up = partial(Row, "RFC 7915", side=v.six_side)
    sender = IPv6(dst=str(v.six))

    yield up("5.1", "udp", MUST, "an IPv6 packet becomes an IPv4 packet between the mapped addresses, "
             "its checksum updated, its data unchanged",
             plain, at(ihl=5) / UDP() / Raw(DATA), plain=True)
    yield up("5.1", "tos", SHOULD, "the TOS octet is the traffic class", ip(tc=0xB9) / udp / DATA,
             IP(tos=0xB9))
    yield up("5.1", "total-length", MUST, "the total length is the payload length plus the IPv4 header",
             plain, IP(len=28 + len(DATA)))
    yield up("5.1", "no-fragment", MUST, "a whole packet has neither the More Fragments flag nor an offset",
             plain, allow(IP(frag=0), flags=WITHOUT_MF))
    for octets in (46, SMALLEST_WITH_DF - 1, SMALLEST_WITH_DF, SMALLEST_WITH_DF + 139):
        df = octets >= SMALLEST_WITH_DF
        yield up("5.1", f"df-{octets}", MUST,
                 f"an IPv4 packet of {octets} octets is sent {'with' if df else 'without'} DF",
                 ip() / udp / data(octets - 28), at(flags="DF" if df else 0) / UDP())
    yield up("5.5", "tcp", MUST, "a TCP segment's checksum is updated", h.plain6("tcp"), at() / TCP(),
             flow="tcp")
    to_zero = udp_data_that_sums_to_zero(h.quoted4(), UDP(sport=h.port4, dport=v.server_port))
    yield up("5.5", "udp-checksum-ffff", MUST,
             "a UDP checksum that is computed as zero is sent as 0xffff: zero means none",
             ip() / udp / to_zero, at() / UDP(chksum=0xFFFF))
    for name, (number, words) in NUMBERS.items() if not v.uses_ports else ():
        yield up("5.1", f"protocol-{name}", MUST, f"{words} ({number}) is forwarded, its number copied",
                 ip(nh=number) / Raw(data(40)),
                 at(proto=number) / Raw(data(40)) if number != 33 else at(proto=number))
    yield up("5.1", "illegal-source", SHOULD, "a packet from ::1 is silently dropped",
             ip(src="::1") / udp / DATA, silent=True)

    yield up("5.1", "ttl", MUST, "the TTL is the hop limit less one", plain, IP(ttl=TTL - 1))
    yield up("5.1", "hop-limit-2", MUST, "a packet with hop limit 2 is forwarded",
             ip(hlim=2) / udp / DATA, IP(ttl=1))
    yield up("5.1", "hop-limit-1", MUST, "a packet with hop limit 1 is discarded and its sender told",
             ip(hlim=1) / udp / DATA, sender / ICMPv6TimeExceeded(code=0), error=True)

    pad = PadN(optdata=bytes(4))
    options, hop_by_hop = IPv6ExtHdrDestOpt(options=[pad]), IPv6ExtHdrHopByHop(options=[pad])
    used = IPv6ExtHdrRouting(segleft=0, addresses=[])
    for name, headers, words in (
        ("hop-by-hop", hop_by_hop, "hop-by-hop options"),
        ("destination-options", options, "destination options"),
        ("routing-used", used, "a routing header with no segments left"),
        ("chain", hop_by_hop / used / options, "three extension headers"),
    ):
        yield up("5.1", f"extension-{name}", MUST, f"{words}: ignored, the packet translated without",
                 ip() / headers / udp / DATA, at(ihl=5, len=28 + len(DATA)) / UDP() / Raw(DATA))
    left = ip() / IPv6ExtHdrRouting(segleft=1, addresses=["2001:db8::5"]) / udp / DATA
    yield up("5.1", "segments-left", MUST,
             "a packet with segments left in a routing header is not translated",
             left)
    yield up("5.1", "segments-left-error", SHOULD, "its sender is told where (pointer at Segments Left)",
             left, sender / ICMPv6ParamProblem(code=0, ptr=43), error=True)

    # of what a device reassembles for its ports (RFC 6146, section 3.4) it keeps nothing
    kept, low, whole = not v.uses_ports, IDENTIFICATION & 0xFFFF, bytes(ip() / udp / data(600))[40:]
    fragment = partial(IPv6ExtHdrFragment, nh=17, id=IDENTIFICATION)
    for name, start, end in (("first", 0, 200), ("middle", 200, 400), ("last", 400, 608)) if kept else ():
        octets, more = whole[start:end], name != "last"
        yield up("5.1.1", f"fragment-{name}", MUST,
                 f"a {name} fragment keeps offset, M flag and the low 16 bits of its identification, without "
                 "DF",
                 ip() / fragment(offset=start // 8, m=int(more)) / Raw(octets),
                 at(id=low, frag=start // 8, flags="MF" if more else 0, proto=17, len=20 + len(octets))
                 / expect_fragment(octets, start))
    atomic = at(frag=0, proto=17, len=628, **({"id": low, "flags": 0} if kept else {}))
    yield up("5.1.1", "atomic-fragment", MUST, "an atomic fragment becomes a whole packet"
             + (" without DF that keeps its identification" if kept else ""),
             ip() / fragment() / udp / data(600),
             (atomic if kept else allow(atomic, flags=WITHOUT_MF)) / UDP() / Raw(data(600)))
    if kept:
        yield up("5.1.1", "atomic-fragment-large", MUST,
                 "an atomic fragment above 1260 octets has no DF, either",
                 ip() / fragment() / udp / data(SMALLEST_WITH_DF + 99 - 28), at(flags=0) / UDP())
    yield up("5.1.1", "fragment-extension", SHOULD,
             "a fragment whose header names an extension header is dropped",
             ip() / fragment(nh=60, m=1) / Raw(bytes([17, 0, 1, 4, 0, 0, 0, 0]) + whole[:200]))
# fmt: on
