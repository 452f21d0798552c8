"""RFC 7915, sections 4.2 to 4.4 and 5.2 to 5.4: ICMP and ICMPv6, and the packets that errors quote."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6Unknown, IPv6, IPv6ExtHdrFragment
from scapy.packet import Packet, Raw
from v6t.audit.packets import DATA, allow, data, icmp, icmp6
from v6t.audit.rfc7915 import TranslatorHosts
from v6t.audit.row import Row

# fmt: off
# RFC 7915, sections 4.2 and 5.2, figures 3 and 6, by the IP version of the error
KINDS = {4: ("ICMP", 3, 11, 12), 6: ("ICMPv6", 1, 3, 4)}  # unreachable, exceeded, parameter problem
UNREACHABLE = {6: {0: 1, 1: 10, 2: 1, 3: 1, 4: 3}, 4: {
    **dict.fromkeys((0, 1, 5, 6, 7, 8, 11, 12), 0), **dict.fromkeys((9, 10, 13, 15), 1), 3: 4}}
POINTERS = {4: {0: 0, 1: 1, 2: 4, 8: 7, 9: 6, 12: 8, 16: 24},
            6: {0: 0, 1: 1, 4: 2, 6: 9, 7: 8, 8: 12, 24: 16}}
NO_POINTERS = {4: (4, 6, 10, 20), 6: (2, 40)}
QUERIES = {13: "timestamp request", 15: "information request", 17: "address mask request",
           9: "router advertisement", 10: "router solicitation", 42: "an unknown type"}
DROPPED = {(5, 1): "a redirect", (6, 0): "alternative host address", (4, 0): "source quench",
           (3, 14): "host precedence violation", (3, 16): "an unknown code of destination unreachable",
           (12, 1): "parameter problem, missing option"}
PLATEAU = 1492  # of RFC 1191, below 2,000 octets
SINGLE_HOP = {130: "MLD query", 133: "router solicitation", 135: "neighbour solicitation",
              200: "an unknown informational type"}
DROPPED6 = {(1, 7): "an unknown code of destination unreachable", (4, 2): "an unknown option",
            (50, 0): "an unknown error type"}


def make_error_rows(row: partial[Row], error: Callable[[Packet], Packet], ip: Packet) -> Iterator[Row]:
    """Yield the rows of ICMP errors common to both versions; translations must match the header ``ip``."""
    version, version2 = 10 - ip.version, ip.version
    name, unreachable, exceeded, problem = KINDS[version]
    name2, unreachable2, exceeded2, problem2 = KINDS[version2]
    old, new = partial(icmp, version), partial(icmp, version2)
    for code, code2 in UNREACHABLE[version].items():
        yield row(f"unreachable-{code}",
                  f"{name} destination unreachable, code {code}, becomes {name2} {unreachable2}/{code2}",
                  error(old(unreachable, code=code)), ip / new(unreachable2, code=code2))
    for code in (0, 1):
        yield row(f"time-exceeded-{code}",
                  f"{name} time exceeded, code {code}, becomes {name2} {exceeded2}/{code}",
                  error(old(exceeded, code=code)), ip / new(exceeded2, code=code))
    for at, at2 in POINTERS[version].items():
        yield row(f"pointer-{at}",
                  f"{name} parameter problem at octet {at} points at octet {at2} of IPv{version2}",
                  error(old(problem, code=0, ptr=at)), ip / new(problem2, code=0, ptr=at2))
    for at in NO_POINTERS[version]:
        yield row(f"no-pointer-{at}",
                  f"{name} parameter problem at octet {at}, which has no equivalent in IPv{version2}, is "
                  "silently dropped",
                  error(old(problem, code=0, ptr=at)), silent=True)


def make_ipv4_rows(h: TranslatorHosts) -> Iterator[Row]:
    """Yield the ICMP rows of RFC 7915, sections 4.2 to 4.4."""
    v, ip, six = h.view, h.ip4, h.at6()
    down, into = (partial(Row, "RFC 7915", section, side=v.ipv4_side) for section in ("4.2", "4.3"))
    ports, ports6 = {"sport": h.port4, "dport": v.server_port}, {"sport": v.port, "dport": v.server_port}
    about = h.quoted4() / UDP(**ports) / Raw(data(64))
    def error(kind: int, code: int, inner: Packet = about, **fields: Any) -> Packet:
        return ip() / ICMP(type=kind, code=code, **fields) / inner
    for kind, reply, name in ((8, 128, "echo-request"), (0, 129, "echo-reply")):
        if not v.stateful or kind == 0:  # requests from outside match no session
            yield down(name, f"ICMP {name.replace('-', ' ')} becomes ICMPv6 type {reply}",
                       ip() / ICMP(type=kind, id=h.port4, seq=9) / DATA,
                       six / icmp6(reply, id=v.port, seq=9, data=DATA), flow="icmp")
    for kind, words in QUERIES.items():
        query = ICMP(type=kind, id=h.port4, seq=1)  # scapy gives some types further fields
        yield down(f"query-{kind}", f"{words} (ICMP type {kind}) is silently dropped",
                   ip() / query / Raw(bytes(20 - len(query))), silent=True)
    if v.uses_ports and not v.stateful:
        return  # RFC 7599, section 9: errors are mapped without a port, so they belong to no CE
    yield from make_error_rows(down, lambda message: ip() / message / about, six)
    yield down("protocol-unreachable",
               "ICMP protocol unreachable becomes ICMPv6 parameter problem at the next header",
               error(3, 2), six / icmp6(4, code=1, ptr=6))
    for mtu in (1300, 600, 1500):
        mtu6 = max(1280, min(mtu + 20, h.mtu6, h.mtu4 + 20))
        yield down(f"fragmentation-needed-{mtu}",
                   f"ICMP fragmentation needed with MTU {mtu} becomes packet too big with MTU {mtu6}",
                   error(3, 4, nexthopmtu=mtu), six / icmp6(2, code=0, mtu=mtu6))
    plateaus = (PLATEAU, max(1280, min(PLATEAU + 20, h.mtu6, h.mtu4 + 20)))
    large = h.quoted4(len=2000) / UDP(**ports, len=1980) / Raw(data(64))
    yield down("fragmentation-needed-0",
               "ICMP fragmentation needed without MTU, about 2,000 octets, becomes packet too big with a "
               "plateau of RFC 1191",
               error(3, 4, large, nexthopmtu=0), six / allow(icmp6(2, code=0), mtu=plateaus))
    yield down("bad-length", "ICMP parameter problem, bad length, becomes ICMPv6 4/0",
               error(12, 2, ptr=2), six / icmp6(4, code=0, ptr=4))
    for (kind, code), words in DROPPED.items():
        yield down(f"dropped-{kind}-{code}", f"{words} (ICMP {kind}/{code}) is silently dropped",
                   error(kind, code), silent=True)
    yield Row("RFC 7915", "4.4", "no-error-about-error", "no ICMP error is sent about an ICMP error",
              ip(ttl=1) / ICMP(type=3, code=1) / about, side=v.ipv4_side, silent=True, only_reply=True)
    unreachable = six / icmp6(1, code=4)
    about6 = partial(h.quoted6, src=str(v.ipv6_host), dst=str(v.mapped_ipv6))
    yield into("inner", "the packet within an ICMP error is translated with its TTL unchanged",
               error(3, 3), unreachable / about6(nh=17))
    yield into("inner-checksum", "length, ports and checksum of the inner UDP are translated",
               error(3, 3), unreachable / IPv6(plen=72) / UDP(**ports6), quoted=True)
    short = bytes(h.quoted4() / TCP(**ports, flags="A") / data(64))[:28]
    yield into("inner-tcp-short", "an ICMP error that quotes only 8 octets of TCP is translated",
               error(3, 3, Raw(short)), unreachable / about6(nh=6), flow="tcp")
    yield into("inner-echo", "an ICMP error about an echo request quotes an ICMPv6 echo request",
               error(3, 3, h.quoted4() / ICMP(id=h.port4, seq=1) / Raw(data(64))),
               unreachable / about6() / icmp6(128), flow="icmp")
    yield into("nested", "an ICMP error about an ICMP error is dropped",
               error(3, 1, h.quoted4(ttl=61) / ICMP(type=3, code=3) / ip() / h.udp4 / DATA))


def make_ipv6_rows(h: TranslatorHosts) -> Iterator[Row]:
    """Yield the ICMPv6 rows of RFC 7915, sections 5.2 to 5.4."""
    v, ip, four = h.view, h.ip6, h.at4()
    up, into = (partial(Row, "RFC 7915", section, side=v.ipv6_side) for section in ("5.2", "5.3"))
    ports = {"sport": v.server_port, "dport": v.port}
    about = h.quoted6() / UDP(**ports) / Raw(data(64))
    def error(message: Packet, inner: Packet = about) -> Packet:
        return ip() / message / inner
    for request, kind, name in ((128, 8, "echo-request"), (129, 0, "echo-reply")):
        if not v.stateful or kind == 8:
            fields = {"seq": 9} if v.stateful else {"seq": 9, "id": v.port}
            yield up(name, f"ICMPv6 {name.replace('-', ' ')} becomes ICMP type {kind}",
                     ip() / icmp6(request, id=v.port, seq=9, data=DATA),
                     four / ICMP(type=kind, code=0, **fields) / Raw(DATA))
    for kind, words in SINGLE_HOP.items():
        body = (v.port << 16 | 1).to_bytes(4, "big") + bytes(16)
        yield up(f"single-hop-{kind}", f"{words} (ICMPv6 type {kind}) is silently dropped",
                 ip() / ICMPv6Unknown(type=kind, code=0, msgbody=body),
                 silent=not v.uses_ports)  # they have no port, so RFC 7599, section 8.3 applies, too
    if v.stateful:
        return  # errors need a session opened from outside, or are about one: see RFC 6146
    yield from make_error_rows(up, error, four)
    for mtu in (1400, 1280, 9000):
        mtu4 = min(mtu - 20, h.mtu4, h.mtu6 - 20)
        title = f"ICMPv6 packet too big with MTU {mtu} becomes fragmentation needed with MTU {mtu4}"
        if mtu == 9000:
            title = f"the MTU of a translated packet too big is at most {mtu4}, the largest of both links"
        yield up(f"too-big-{mtu}", title, error(icmp6(2, mtu=mtu)),
                 four / ICMP(type=3, code=4, nexthopmtu=mtu4))
    yield up("next-header", "ICMPv6 unrecognized next header becomes ICMP protocol unreachable",
             error(icmp6(4, code=1, ptr=6)), four / ICMP(type=3, code=2))
    for (kind, code), words in DROPPED6.items():
        message = ICMPv6Unknown(type=kind, code=code, msgbody=bytes(4) + bytes(about))
        yield up(f"dropped-{kind}-{code}", f"{words} (ICMPv6 {kind}/{code}) is silently dropped",
                 ip() / message, silent=True)
    yield Row("RFC 7915", "5.4", "no-error-about-error", "no ICMPv6 error is sent about an ICMPv6 error",
              ip(hlim=1) / icmp6(1, code=0) / about, side=v.ipv6_side, silent=True, only_reply=True)
    message, unreachable = icmp6(1, code=4), four / ICMP(type=3, code=3)
    about4 = partial(h.quoted4, src=str(v.ipv4_host), dst=str(h.six4))
    yield into("inner", "the packet within an ICMPv6 error is translated with its hop limit unchanged",
               error(message), unreachable / about4(proto=17))
    yield into("inner-checksum", "length, ports and checksum of the inner UDP are translated",
               error(message), unreachable / IP(len=92) / UDP(**ports), quoted=True)
    yield into("inner-echo", "an ICMPv6 error about an echo reply quotes an ICMP echo reply",
               error(message, h.quoted6() / icmp6(129, id=v.port, seq=1, data=data(64))),
               unreachable / about4(proto=1) / ICMP(type=0))
    fragment = IPv6ExtHdrFragment(nh=17, m=1, id=0x89ABCDEF) / UDP(**ports) / data(64)
    yield into("inner-fragment", "an ICMPv6 error about a fragment quotes an IPv4 fragment",
               error(message, h.quoted6() / fragment), unreachable / about4(proto=17, id=0xCDEF, flags="MF"))
    yield into("nested", "an ICMPv6 error about an ICMPv6 error is dropped",
               error(icmp6(1, code=0), h.quoted6(hlim=61) / message / ip() / h.udp6 / DATA))
# fmt: on
