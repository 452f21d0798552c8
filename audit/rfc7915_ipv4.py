"""RFC 7915, section 4: IPv4 packets become IPv6 packets (ICMP: see ``rfc7915_icmp``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from scapy.layers.inet import (
    ICMP,
    IP,
    TCP,
    UDP,
    IPOption,
    IPOption_Router_Alert,
    IPOption_RR,
)
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.packet import Packet, Raw
from v6t.audit.match import checksum_error, difference
from v6t.audit.rfc7915_ipv6 import PROTOCOLS
from v6t.audit.row import TCP_FLOW, Row
from v6t.audit.translator_hosts import (
    DATA,
    TTL,
    TranslatorHosts,
    data,
    udp_data_that_sums_to_zero,
)
from v6t.audit.wire import transport_octets

IDENTIFICATION = 0xBEEF
LARGE = 1400
"""Octets of an IPv4 packet that fits every link and does not fit the smallest IPv6 MTU."""


# fmt: off
def rows(h: TranslatorHosts) -> Iterator[Row]:
    """Return all clauses of section 4 but those about ICMP and sizes."""
    v = h.view
    ip, at, udp = h.ip4, h.at6, h.udp4
    down = partial(Row, side=v.four_side)
    plain = h.plain4()

    yield down("4.1", "udp", "MUST", "an IPv4 packet becomes an IPv6 packet between the mapped addresses, "
               "its checksum updated, its data unchanged",
               packet=plain, answer=at() / UDP(dport=v.port) / Raw(DATA), plain=True)
    yield down("4.1", "traffic-class", "SHOULD", "the traffic class is the TOS octet",
               packet=ip(tos=0xB9) / udp / DATA, answer=IPv6(tc=0xB9))
    yield down("4.1", "flow-label", "MUST", "the flow label is 0", packet=plain, answer=IPv6(fl=0))
    yield down("4.1", "payload-length", "MUST", "the payload length is the total length less the IPv4 header",
               packet=plain, answer=IPv6(plen=8 + len(DATA)))
    for name, flags, words in (("df", "DF", "with"), ("no-df", 0, "without")):
        yield down("4", f"no-fragment-header-{name}", "MUST",
                   f"a whole packet {words} DF gets no fragment header",
                   packet=ip(flags=flags) / udp / DATA, answer=IPv6(), check=_no_fragment_header)
    for name, source in (("loopback", "127.0.0.1"), ("this-network", "0.0.0.0")):
        yield down("4.1", f"illegal-source-{name}", "SHOULD", f"a packet from {source} is silently discarded",
                   packet=ip(src=source) / udp / DATA)

    yield down("4.1", "hop-limit", "MUST", "the hop limit is the TTL less one",
               packet=plain, answer=IPv6(hlim=TTL - 1))
    yield down("4.1", "ttl-2", "MUST", "a packet with TTL 2 is forwarded",
               packet=ip(ttl=2) / udp / DATA, answer=IPv6(hlim=1))
    yield down("4.1", "ttl-1", "MUST", "a packet with TTL 1 is discarded and its sender told",
               packet=ip(ttl=1) / udp / DATA, answer=IP() / ICMP(type=11, code=0), error=True)

    for name, words, option in (
        ("router-alert", "Router Alert", IPOption_Router_Alert()),
        ("record-route", "Record Route", IPOption_RR(length=7, pointer=4, routers=["0.0.0.0"])),
        ("used-source-route", "a source route that is used up",
         _source_route(8)),
    ):
        yield down("4.1", f"option-{name}", "MUST",
                   f"an IPv4 option ({words}) is ignored, the packet translated",
                   packet=ip(options=[option]) / udp / DATA, answer=at() / UDP() / Raw(DATA))
    routed = ip(options=[_source_route(4)]) / udp / DATA
    yield down("4.1", "source-route", "MUST", "a packet with an unexpired source route is discarded",
               packet=routed)
    yield down("4.1", "source-route-error", "SHOULD", "its sender is told that the source route failed",
               packet=routed, answer=IP() / ICMP(type=3, code=5), error=True)

    yield down("4.5", "tcp", "MUST", "a TCP segment's checksum is updated",
               packet=ip() / TCP(sport=v.server_port, dport=h.port4, flags="A") / DATA,
               answer=at() / TCP() / Raw(DATA), flow=TCP_FLOW)
    unsummed = ip() / UDP(sport=v.server_port, dport=h.port4, chksum=0) / DATA
    yield down("4.5", "udp-no-checksum", "MUST", "UDP without checksum is dropped, or gets a right one",
               packet=unsummed, answer=lambda far: next(filter(None, map(checksum_error, far)), ""),
               expected="nothing, or a right checksum")
    yield down("4.5", "udp-checksum-made", "MAY", "UDP without checksum gets one and is forwarded",
               packet=unsummed, answer=at() / UDP())
    to_zero = udp_data_that_sums_to_zero(at(), UDP(sport=v.server_port, dport=v.port))
    yield down("4.5", "udp-checksum-ffff", "MUST",
               "a UDP checksum that is computed as zero is sent as 0xffff",
               packet=ip() / udp / to_zero, answer=at() / UDP(chksum=0xFFFF))
    if v.uses_ports:
        return
    for name, (number, words) in PROTOCOLS.items():
        answer = at(nh=number) / Raw(data(40)) if number != 33 else at(nh=number)
        yield down("4.1", f"protocol-{name}", "MUST", f"{words} ({number}) is forwarded, its number copied",
                   packet=ip(proto=number) / Raw(data(40)), answer=answer)
    yield down("4.2", "igmp", "SHOULD", "IGMP is silently dropped",
               packet=ip(proto=2) / Raw(bytes.fromhex("160008f9e0000105")), silent=True)


def size_rows(h: TranslatorHosts) -> Iterator[Row]:
    """Return the clauses about packets that do not fit, and about fragments."""
    yield from rows_without_df(h)
    v = h.view
    ip, at, udp = h.ip4, h.at6, h.udp4
    down = partial(Row, side=v.four_side)
    fits = v.lowest_ipv6_mtu < LARGE + 20 <= h.mtu6
    if h.mtu4 + 20 > h.mtu6:
        yield down("4.1", "df-too-big", "MUST",
                   "a packet with DF that does not fit the IPv6 link is discarded and its sender told",
                   packet=ip(flags="DF") / udp / data(h.mtu4 - 28),
                   answer=IP() / ICMP(type=3, code=4, nexthopmtu=h.mtu6 - 20), error=True)
    if fits:
        yield down("4", "df-fits", "MUST", "a packet with DF that fits the IPv6 link is forwarded whole",
                   packet=ip(flags="DF") / udp / data(LARGE - 28), answer=at() / UDP())
    octets = bytes(ip() / udp / data(600))[20:]
    for name, start, length, flags in (
        ("first", 0, 200, "MF"), ("middle", 200, 200, "MF"), ("last", 400, 208, 0),
        ("first-df", 0, 200, "MF+DF"),
    ) if not v.may_reassemble else ():
        header = IPv6ExtHdrFragment(id=IDENTIFICATION, offset=start // 8, m=int(name != "last"), nh=17)
        yield down("4.1", f"fragment-{name}", "MUST",
                   f"a {name.replace('-df', '')} fragment{' with DF' if name.endswith('df') else ''} gets a "
                   "fragment header with its offset, M flag and identification",
                   packet=ip(flags=flags, frag=start // 8, id=IDENTIFICATION, proto=17)
                   / Raw(octets[start : start + length]),
                   answer=at(plen=8 + length) / header,
                   check=partial(_same_data, octets[start : start + length], 0 if start else 8))
    if not v.stateful:
        first = bytes(ip() / UDP(sport=v.server_port, dport=h.port4, chksum=0) / data(600))[20:220]
        yield down("4.5", "fragment-no-checksum", "SHOULD",
                   "a first fragment of UDP without checksum is dropped by a stateless translator",
                   packet=ip(flags="MF", id=IDENTIFICATION, proto=17) / Raw(first))
    if not v.may_reassemble and fits:
        long = bytes(ip() / udp / data(LARGE))[20:1396]
        yield down("4.1", "fragment-too-big", "SHOULD",
                   f"a fragment without DF that would exceed {v.lowest_ipv6_mtu} octets is fragmented "
                   "further",
                   packet=ip(flags="MF", id=IDENTIFICATION, proto=17) / Raw(long),
                   answer=partial(_all_with_m_flag, h, len(long)),
                   expected=f"fragments of at most {v.lowest_ipv6_mtu} octets, all with M set")


def rows_without_df(h: TranslatorHosts, suffix: str = "") -> Iterator[Row]:
    """Return the clauses about ``lowest-ipv6-mtu``: it is 1280, or what the user chose."""
    lowest = h.view.lowest_ipv6_mtu
    down = partial(Row, side=h.view.four_side)
    yield down("4", f"no-df-fits{suffix}", "MUST",
               f"a packet without DF that becomes {lowest} octets is not fragmented",
               packet=h.ip4() / h.udp4 / data(lowest - 48), answer=h.at6(plen=lowest - 40) / UDP())
    if lowest < LARGE + 20 <= h.mtu6:
        yield down("4.1", f"no-df-too-big{suffix}", "SHOULD",
                   f"a packet without DF that would exceed {lowest} octets is fragmented to that",
                   packet=h.ip4() / h.udp4 / data(LARGE - 28), answer=partial(_whole_datagram, h),
                   expected=f"fragments of at most {lowest} octets that make up the packet")
# fmt: on


def _source_route(pointer: int) -> IPOption:
    """Return a loose source route; of scapy's own option, it changes the UDP checksum."""
    address = bytes([192, 0, 2, 33])
    return IPOption(copy_flag=1, optclass=0, option=3, value=bytes([pointer]) + address)


def _no_fragment_header(packet: Packet) -> str:
    return "a fragment header" if packet.haslayer(IPv6ExtHdrFragment) else ""


def _same_data(expected: bytes, start: int, packet: Packet) -> str:
    seen = transport_octets(packet)
    return "" if seen[start:] == expected[start:] else "its data was changed"


def _fragments_problem(h: TranslatorHosts, fragments: Sequence[Packet], total: int) -> str:
    """Check IPv6 fragments that should have ``total`` octets of data together."""
    if not fragments:
        return "nothing"
    ordered = sorted(fragments, key=_offset)
    start = 0
    for piece in ordered:
        header = piece.getlayer(IPv6ExtHdrFragment)
        length = 40 + piece.plen
        if wrong := difference(h.at6(), piece):
            return wrong
        if header is None:
            return "a packet without fragment header"
        if header.id != ordered[0][IPv6ExtHdrFragment].id:
            return "fragments of several packets"
        if length > h.view.lowest_ipv6_mtu:
            return f"a fragment of {length} octets"
        if 8 * header.offset != start:
            return f"a fragment at {8 * header.offset} instead of {start}"
        start += len(bytes(header.payload))
    return "" if start == total else f"{start} octets of {total}"


def _offset(packet: Packet) -> int:
    header = packet.getlayer(IPv6ExtHdrFragment)
    return int(header.offset) if header else 0


def _all_with_m_flag(h: TranslatorHosts, total: int, fragments: list[Packet]) -> str:
    headers = [p.getlayer(IPv6ExtHdrFragment) for p in fragments]
    if any(header is not None and not header.m for header in headers):
        return "a fragment without the M flag"
    return _fragments_problem(h, fragments, total)


def _whole_datagram(h: TranslatorHosts, fragments: list[Packet]) -> str:
    wrong = _fragments_problem(h, fragments, LARGE - 20)
    if wrong:
        return wrong
    ordered = sorted(fragments, key=_offset)
    if ordered[-1][IPv6ExtHdrFragment].m:
        return "the last fragment is missing"
    octets = b"".join(bytes(p[IPv6ExtHdrFragment].payload) for p in ordered)
    if octets[8:] != data(LARGE - 28):
        return "the fragments do not make up the data"
    return checksum_error(IPv6(bytes(h.at6(nh=17) / Raw(octets))))
