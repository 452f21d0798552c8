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
from scapy.packet import Packet, Raw
from v6t.audit.row import Row
from v6t.audit.translator_hosts import (
    DATA,
    TTL,
    TranslatorHosts,
    data,
    udp_data_that_sums_to_zero,
)

SMALLEST_WITH_DF = 1261
"""IPv4 packets of at least this size have DF set."""
IDENTIFICATION = 0x89ABCDEF
PROTOCOLS = {"dccp": (33, "DCCP"), "esp": (50, "ESP"), "unknown": (253, "an unknown protocol")}


# fmt: off
def rows(h: TranslatorHosts) -> Iterator[Row]:
    """Return all clauses of section 5 but those about ICMPv6."""
    v = h.view
    ip, at = h.ip6, h.at4
    udp = h.udp6
    up = partial(Row, side=v.six_side)
    plain = h.plain6()
    sender = IPv6(dst=str(v.six))

    yield up("5.1", "udp", "MUST", "an IPv6 packet becomes an IPv4 packet between the mapped addresses, "
             "its checksum updated, its data unchanged",
             packet=plain, answer=at(ihl=5) / UDP() / Raw(DATA), plain=True)
    yield up("5.1", "tos", "SHOULD", "the TOS octet is the traffic class",
             packet=ip(tc=0xB9) / udp / DATA, answer=IP(tos=0xB9))
    yield up("5.1", "total-length", "MUST", "the total length is the payload length plus the IPv4 header",
             packet=plain, answer=IP(len=28 + len(DATA)))
    yield up("5.1", "no-fragment", "MUST", "a whole packet has neither the More Fragments flag nor an offset",
             packet=plain, answer=IP(frag=0), check=_last)
    for octets in (46, SMALLEST_WITH_DF - 1, SMALLEST_WITH_DF, SMALLEST_WITH_DF + 139):
        df = octets >= SMALLEST_WITH_DF
        yield up("5.1", f"df-{octets}", "MUST",
                 f"an IPv4 packet of {octets} octets is sent {'with' if df else 'without'} DF",
                 packet=ip() / udp / data(octets - 28), answer=at(flags="DF" if df else 0) / UDP())
    yield up("5.5", "tcp", "MUST", "a TCP segment's checksum is updated",
             packet=h.plain6(6), answer=at() / TCP(), flow=6)
    to_zero = udp_data_that_sums_to_zero(h.quoted4(), UDP(sport=h.port4, dport=v.server_port))
    yield up("5.5", "udp-checksum-ffff", "MUST",
             "a UDP checksum that is computed as zero is sent as 0xffff: zero means none",
             packet=ip() / udp / to_zero, answer=at() / UDP(chksum=0xFFFF))
    for name, (number, words) in PROTOCOLS.items() if not v.uses_ports else ():
        answer = at(proto=number) / Raw(data(40)) if number != 33 else at(proto=number)
        yield up("5.1", f"protocol-{name}", "MUST", f"{words} ({number}) is forwarded, its number copied",
                 packet=ip(nh=number) / Raw(data(40)), answer=answer)
    yield up("5.1", "illegal-source", "SHOULD", "a packet from ::1 is silently dropped",
             packet=ip(src="::1") / udp / DATA, silent=True)

    yield up("5.1", "ttl", "MUST", "the TTL is the hop limit less one", packet=plain, answer=IP(ttl=TTL - 1))
    yield up("5.1", "hop-limit-2", "MUST", "a packet with hop limit 2 is forwarded",
             packet=ip(hlim=2) / udp / DATA, answer=IP(ttl=1))
    yield up("5.1", "hop-limit-1", "MUST", "a packet with hop limit 1 is discarded and its sender told",
             packet=ip(hlim=1) / udp / DATA, answer=sender / ICMPv6TimeExceeded(code=0), error=True)

    yield from _extension_rows(h, up)
    yield from _fragment_rows(h, up)


def _extension_rows(h: TranslatorHosts, up: partial[Row]) -> Iterator[Row]:
    ip, udp = h.ip6, h.udp6
    pad = PadN(optdata=bytes(4))
    options, hop_by_hop = IPv6ExtHdrDestOpt(options=[pad]), IPv6ExtHdrHopByHop(options=[pad])
    unused = IPv6ExtHdrRouting(segleft=0, addresses=[])
    routing = IPv6ExtHdrRouting(segleft=0, addresses=[])
    chains = {
        "hop-by-hop": (hop_by_hop, "hop-by-hop options"),
        "destination-options": (options, "destination options"),
        "routing-used": (unused, "a routing header with no segments left"),
        "chain": (hop_by_hop / routing / options, "three extension headers"),
    }
    answer = h.at4(ihl=5, len=28 + len(DATA)) / UDP() / Raw(DATA)
    for name, (headers, words) in chains.items():
        yield up("5.1", f"extension-{name}", "MUST", f"{words}: ignored, the packet translated without",
                 packet=ip() / headers / udp / DATA, answer=answer)
    left = ip() / IPv6ExtHdrRouting(segleft=1, addresses=["2001:db8::5"]) / udp / DATA
    yield up("5.1", "segments-left", "MUST",
             "a packet with segments left in a routing header is not translated", packet=left)
    yield up("5.1", "segments-left-error", "SHOULD", "its sender is told where (pointer at Segments Left)",
             packet=left, answer=IPv6(dst=str(h.view.six)) / ICMPv6ParamProblem(code=0, ptr=43), error=True)


def _fragment_rows(h: TranslatorHosts, up: partial[Row]) -> Iterator[Row]:
    ip = h.ip6
    # of what a device reassembles for its ports (RFC 6146, section 3.4) it keeps nothing
    kept = not h.view.uses_ports
    low = IDENTIFICATION & 0xFFFF
    octets = bytes(ip() / h.udp6 / data(600))[40:]
    for name, start, length in (("first", 0, 200), ("middle", 200, 200), ("last", 400, 208)) if kept else ():
        more = int(name != "last")
        header = IPv6ExtHdrFragment(nh=17, offset=start // 8, m=more, id=IDENTIFICATION)
        answer = h.at4(id=low, frag=start // 8, flags="MF" if more else 0, proto=17, len=20 + length)
        yield up("5.1.1", f"fragment-{name}", "MUST",
                 f"a {name} fragment keeps offset, M flag and the low 16 bits of its identification, "
                 "without DF",
                 packet=ip() / header / Raw(octets[start : start + length]), answer=answer,
                 check=partial(_has_data, octets[start : start + length], 8 if name == "first" else 0))
    single = IPv6ExtHdrFragment(nh=17, id=IDENTIFICATION)
    fields = {"id": low, "flags": 0} if kept else {}
    yield up("5.1.1", "atomic-fragment", "MUST", "an atomic fragment becomes a whole packet"
             + (" without DF that keeps its identification" if kept else ""),
             packet=ip() / single / h.udp6 / data(600),
             answer=h.at4(frag=0, proto=17, len=628, **fields), check=_atomic)
    if kept:
        yield up("5.1.1", "atomic-fragment-large", "MUST",
                 "an atomic fragment above 1260 octets has no DF, either",
                 packet=ip() / single / h.udp6 / data(SMALLEST_WITH_DF + 99 - 28),
                 answer=h.at4(flags=0) / UDP())
    following = IPv6ExtHdrFragment(nh=60, m=1, id=IDENTIFICATION)
    options = bytes([17, 0, 1, 4, 0, 0, 0, 0])
    yield up("5.1.1", "fragment-extension", "SHOULD",
             "a fragment whose header names an extension header is dropped",
             packet=ip() / following / Raw(options + octets[:200]))
# fmt: on


def _last(packet: Packet) -> str:
    return "MF 1" if packet.flags.MF else ""


def _has_data(expected: bytes, start: int, packet: Packet) -> str:
    return "" if bytes(packet.payload)[start:] == expected[start:] else "its data was changed"


def _atomic(packet: Packet) -> str:
    return _last(packet) or _has_data(bytes(8) + data(600), 8, packet)
