"""RFC 7915, section 4: IPv4 packets become IPv6 packets (ICMP: see ``rfc7915_icmp``)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption, IPOption_Router_Alert, IPOption_RR
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.packet import Packet, Raw
from v6t.audit.clause import MAY, MUST, SHOULD
from v6t.audit.hosts import (
    DATA,
    TTL,
    TranslatorHosts,
    data,
    expect_fragment,
    udp_data_that_sums_to_zero,
)
from v6t.audit.match import checksum_error, difference
from v6t.audit.rfc7915_ipv6 import NUMBERS
from v6t.audit.row import Row
from v6t.audit.wire import fragment_offset, join_fragments

IDENTIFICATION = 0xBEEF
LARGE = 1400
"""Octets of an IPv4 packet that fits every link and does not fit the smallest IPv6 MTU."""


# fmt: off
def rows(h: TranslatorHosts) -> Iterator[Row]:
    """Return all clauses of section 4 but those about ICMP and sizes."""
    v, ip, at, udp, plain = h.view, h.ip4, h.at6, h.udp4, h.ip4() / h.udp4 / Raw(DATA)
    down = partial(Row, "RFC 7915", side=v.four_side)

    yield down("4.1", "udp", MUST, "an IPv4 packet becomes an IPv6 packet between the mapped addresses, "
               "its checksum updated, its data unchanged",
               plain, at() / UDP(dport=v.port) / Raw(DATA), plain=True)
    yield down("4.1", "traffic-class", SHOULD, "the traffic class is the TOS octet",
               ip(tos=0xB9) / udp / DATA, IPv6(tc=0xB9))
    yield down("4.1", "flow-label", MUST, "the flow label is 0", plain, IPv6(fl=0))
    yield down("4.1", "payload-length", MUST, "the payload length is the total length less the IPv4 header",
               plain, IPv6(plen=8 + len(DATA)))
    yield down("4", "no-fragment-header-df", MUST, "a whole packet with DF gets no fragment header",
               ip(flags="DF") / udp / DATA, IPv6(nh=17))
    yield down("4", "no-fragment-header-no-df", MUST, "a whole packet without DF gets no fragment header",
               ip(flags=0) / udp / DATA, IPv6(nh=17))
    for name, source in (("loopback", "127.0.0.1"), ("this-network", "0.0.0.0")):
        yield down("4.1", f"illegal-source-{name}", SHOULD, f"a packet from {source} is silently discarded",
                   ip(src=source) / udp / DATA)

    yield down("4.1", "hop-limit", MUST, "the hop limit is the TTL less one", plain, IPv6(hlim=TTL - 1))
    yield down("4.1", "ttl-2", MUST, "a packet with TTL 2 is forwarded", ip(ttl=2) / udp / DATA, IPv6(hlim=1))
    yield down("4.1", "ttl-1", MUST, "a packet with TTL 1 is discarded and its sender told",
               ip(ttl=1) / udp / DATA, IP() / ICMP(type=11, code=0), error=True)

    for name, words, option in (
        ("router-alert", "Router Alert", IPOption_Router_Alert()),
        ("record-route", "Record Route", IPOption_RR(length=7, pointer=4, routers=["0.0.0.0"])),
        ("used-source-route", "a source route that is used up", _source_route(8)),
    ):
        yield down("4.1", f"option-{name}", MUST,
                   f"an IPv4 option ({words}) is ignored, the packet translated",
                   ip(options=[option]) / udp / DATA, at() / UDP() / Raw(DATA))
    routed = ip(options=[_source_route(4)]) / udp / DATA
    yield down("4.1", "source-route", MUST, "a packet with an unexpired source route is discarded", routed)
    yield down("4.1", "source-route-error", SHOULD, "its sender is told that the source route failed",
               routed, IP() / ICMP(type=3, code=5), error=True)

    yield down("4.5", "tcp", MUST, "a TCP segment's checksum is updated",
               ip() / TCP(sport=v.server_port, dport=h.port4, flags="A") / DATA, at() / TCP() / Raw(DATA),
               flow="tcp")
    unsummed = ip() / UDP(sport=v.server_port, dport=h.port4, chksum=0) / DATA
    yield down("4.5", "udp-no-checksum", MUST, "UDP without checksum is dropped, or gets a right one",
               unsummed, lambda far: next(filter(None, map(checksum_error, far)), ""),
               expected="nothing, or a right checksum")
    yield down("4.5", "udp-checksum-made", MAY, "UDP without checksum gets one and is forwarded",
               unsummed, at() / UDP())
    to_zero = udp_data_that_sums_to_zero(at(), UDP(sport=v.server_port, dport=v.port))
    yield down("4.5", "udp-checksum-ffff", MUST, "a UDP checksum that is computed as zero is sent as 0xffff",
               ip() / udp / to_zero, at() / UDP(chksum=0xFFFF))
    if v.uses_ports:
        return
    for name, (number, words) in NUMBERS.items():
        yield down("4.1", f"protocol-{name}", MUST, f"{words} ({number}) is forwarded, its number copied",
                   ip(proto=number) / Raw(data(40)),
                   at(nh=number) / Raw(data(40)) if number != 33 else at(nh=number))
    yield down("4.2", "igmp", SHOULD, "IGMP is silently dropped",
               ip(proto=2) / Raw(bytes.fromhex("160008f9e0000105")), silent=True)


def size_rows(h: TranslatorHosts) -> Iterator[Row]:
    """Return the clauses about packets that do not fit, and about fragments."""
    yield from rows_without_df(h)
    v, ip, at, udp = h.view, h.ip4, h.at6, h.udp4
    down = partial(Row, "RFC 7915", side=v.four_side)
    part = partial(ip, id=IDENTIFICATION, proto=17)
    fits = v.lowest_ipv6_mtu < LARGE + 20 <= h.mtu6
    if h.mtu4 + 20 > h.mtu6:
        yield down("4.1", "df-too-big", MUST,
                   "a packet with DF that does not fit the IPv6 link is discarded and its sender told",
                   ip(flags="DF") / udp / data(h.mtu4 - 28),
                   IP() / ICMP(type=3, code=4, nexthopmtu=h.mtu6 - 20), error=True)
    if fits:
        yield down("4", "df-fits", MUST, "a packet with DF that fits the IPv6 link is forwarded whole",
                   ip(flags="DF") / udp / data(LARGE - 28), at() / UDP())
    whole = bytes(ip() / udp / data(600))[20:]
    for name, start, end, flags in (
        ("first", 0, 200, "MF"), ("middle", 200, 400, "MF"), ("last", 400, 608, 0),
        ("first-df", 0, 200, "MF+DF"),
    ) if not v.may_reassemble else ():
        octets = whole[start:end]
        place = IPv6ExtHdrFragment(id=IDENTIFICATION, offset=start // 8, m=int(name != "last"), nh=17)
        yield down("4.1", f"fragment-{name}", MUST,
                   f"a {name.replace('-df', '')} fragment{' with DF' if name.endswith('df') else ''} gets a "
                   "fragment header with its offset, M flag and identification",
                   part(flags=flags, frag=start // 8) / Raw(octets),
                   at(plen=8 + len(octets)) / place / expect_fragment(octets, start))
    if not v.stateful:
        first = bytes(ip() / UDP(sport=v.server_port, dport=h.port4, chksum=0) / data(600))[20:220]
        yield down("4.5", "fragment-no-checksum", SHOULD,
                   "a first fragment of UDP without checksum is dropped by a stateless translator",
                   part(flags="MF") / Raw(first))
    if not v.may_reassemble and fits:
        long = bytes(ip() / udp / data(LARGE))[20:1396]
        yield down("4.1", "fragment-too-big", SHOULD,
                   f"a fragment without DF that would exceed {v.lowest_ipv6_mtu} octets is fragmented "
                   "further",
                   part(flags="MF") / Raw(long), partial(_check_fragments, h, long[8:], has_end=False),
                   expected=f"fragments of at most {v.lowest_ipv6_mtu} octets, all with M set")


def rows_without_df(h: TranslatorHosts, suffix: str = "") -> Iterator[Row]:
    """Return the clauses about ``lowest-ipv6-mtu``: it is 1280, or what the user chose."""
    lowest = h.view.lowest_ipv6_mtu
    down = partial(Row, "RFC 7915", side=h.view.four_side)
    yield down("4", f"no-df-fits{suffix}", MUST,
               f"a packet without DF that becomes {lowest} octets is not fragmented",
               h.ip4() / h.udp4 / data(lowest - 48), h.at6(plen=lowest - 40) / UDP())
    if lowest < LARGE + 20 <= h.mtu6:
        payload = data(LARGE - 28)
        yield down("4.1", f"no-df-too-big{suffix}", SHOULD,
                   f"a packet without DF that would exceed {lowest} octets is fragmented to that",
                   h.ip4() / h.udp4 / payload, partial(_check_fragments, h, payload, has_end=True),
                   expected=f"fragments of at most {lowest} octets that make up the packet")
# fmt: on


def _source_route(pointer: int) -> IPOption:
    """Return a loose source route; of scapy's own option, it changes the UDP checksum."""
    address = bytes([192, 0, 2, 33])
    return IPOption(copy_flag=1, optclass=0, option=3, value=bytes([pointer]) + address)


def _check_fragments(
    h: TranslatorHosts, payload: bytes, far: list[Packet], *, has_end: bool
) -> str:
    """Check fragments of UDP that make up a payload, up to its end or all with the M flag set."""
    ordered, start = sorted(far, key=fragment_offset), 0
    for piece in ordered:
        header = piece.getlayer(IPv6ExtHdrFragment)
        if header is None:
            return "a packet without fragment header"
        if wrong := difference(h.at6(), piece):
            return wrong
        if header.id != ordered[0][IPv6ExtHdrFragment].id:
            return "fragments of several packets"
        if 40 + piece.plen > h.view.lowest_ipv6_mtu:
            return f"a fragment of {40 + piece.plen} octets"
        if 8 * header.offset != start:
            return f"a fragment at {8 * header.offset} instead of {start}"
        if bool(header.m) == (has_end and piece is ordered[-1]):
            return f"a fragment with M flag {header.m}"
        start += len(bytes(header.payload))
    joined = join_fragments(far)
    if joined[8:] != payload:
        return f"fragments that do not make up the data, {start} octets" if far else "nothing"
    return checksum_error(IPv6(bytes(h.at6(nh=17) / Raw(joined)))) if has_end else ""
