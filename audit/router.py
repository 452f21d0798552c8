"""The suite ``router``: what every IPv4 router (RFC 1812) and IPv6 router (RFC 8200, 4443) must do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address
from typing import Any

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6EchoRequest,
    ICMPv6PacketTooBig,
    ICMPv6TimeExceeded,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    PadN,
)
from scapy.packet import Packet, Raw
from v6t.audit.clause import MAY, MUST, SHOULD, Clause, Subject, Suite
from v6t.audit.hosts import DATA, PORT, SERVER_PORT, TTL, data, header
from v6t.audit.row import Hosts, Row, row_clauses
from v6t.audit.wire import SIDES, Wire, opposite
from v6t.plugins.audit_views import Router, SideName


class RouterSuite(Suite):
    """For routers that neither translate nor encapsulate."""

    name = "router"
    title = "IPv4 and IPv6 routers: forwarding, hop limits, ICMP errors, malformed packets"
    core = ("udp-left", "udp-right", "ttl-left", "hop-limit-left")

    def clauses(self, subject: Subject) -> Iterator[Clause]:
        view = subject.find(Router)
        if view is None:
            return
        for side in SIDES:
            rows = rows4 if isinstance(view.left, IPv4Address) else rows6
            yield from row_clauses(rows, RouterHosts(view, subject.wire, side), subject.wire)


@dataclass(frozen=True)
class RouterHosts(Hosts):
    """The host on one side, which sends, and the host on the other."""

    view: Router
    wire: Wire
    side: SideName

    @property
    def ends(self) -> dict[str, str]:
        """Source and destination."""
        source, destination = getattr(self.view, self.side), getattr(self.view, opposite(self.side))
        return {"src": str(source), "dst": str(destination)}

    def ip(self, **fields: Any) -> Packet:
        """Return a header of the sender."""
        return header(*self.ends.values(), **fields)

    def udp(self, payload: bytes = DATA, **fields: Any) -> Packet:
        """Return a datagram of the sender."""
        return self.ip(**fields) / UDP(sport=PORT, dport=SERVER_PORT) / Raw(payload)

    def plain(self, side: SideName) -> Packet:
        return self.udp()

    @property
    def mtus(self) -> tuple[int, int]:
        """MTUs of the sender's link and of the other one."""
        return self.wire.mtu(self.side), self.wire.mtu(opposite(self.side))


# fmt: off
def rows4(h: RouterHosts) -> Iterator[Row]:
    """Return the clauses of RFC 1812 for packets that arrive on one link."""
    ip, udp, side, ends, (near, far) = h.ip, h.udp, h.side, h.ends, h.mtus
    at = partial(Row, "RFC 1812", side=side)
    answer, sender = IP(**ends), IP(dst=ends["src"])

    yield at("5.2.1", f"udp-{side}", MUST, "a packet is forwarded, its data unchanged",
             udp(), answer / UDP() / Raw(DATA), plain=True)
    yield at("5.2.1", f"tcp-{side}", MUST, "a TCP segment is forwarded",
             ip() / TCP(sport=PORT, dport=SERVER_PORT), answer / TCP())
    yield at("5.2.1", f"echo-{side}", MUST, "an ICMP echo request for a host is forwarded",
             ip() / ICMP(id=7, seq=9) / DATA, answer / ICMP(type=8, id=7, seq=9) / Raw(DATA))
    yield at("5.3.1", f"ttl-{side}", MUST, "the TTL is one less", udp(), IP(ttl=TTL - 1))
    yield at("5.3.1", f"ttl-2-{side}", MUST, "a packet with TTL 2 is forwarded", udp(ttl=2), IP(ttl=1))
    yield at("5.3.1", f"ttl-1-{side}", MUST, "a packet with TTL 1 is not forwarded", udp(ttl=1))
    yield at("4.3.3.4", f"time-exceeded-{side}", MUST, "its sender is told: time exceeded",
             udp(ttl=1), sender / ICMP(type=11, code=0), error=True)
    yield at("5.3.2", f"tos-{side}", MAY, "the TOS octet is not changed", udp(tos=0xB8), IP(tos=0xB8))
    yield at("4.2.2.5", f"checksum-{side}", MUST, "a packet with a wrong header checksum is dropped",
             udp(chksum=0xDEAD))
    yield at("5.2.2", f"version-{side}", MUST, "a packet whose header length is too small is dropped",
             udp(ihl=4))
    yield at("5.2.2", f"length-{side}", MUST, "a packet that is shorter than its total length is dropped",
             udp(len=900))
    yield at("4.2.2.7", f"fragment-{side}", MUST, "a fragment is forwarded as it is",
             ip(frag=25, flags="MF", proto=17, id=0xBEEF) / Raw(data(200)),
             IP(**ends, frag=25, flags="MF", id=0xBEEF) / Raw(data(200)))
    yield at("5.3.7", f"loopback-{side}", SHOULD, "a packet from 127.0.0.1 is not forwarded",
             udp(src="127.0.0.1"))
    if near > far:
        yield at("4.3.3.1", f"fragmentation-needed-{side}", MUST,
                 "the sender of a packet with DF that does not fit is told the MTU",
                 udp(data(near - 28), flags="DF"), sender / ICMP(type=3, code=4, nexthopmtu=far), error=True)


def rows6(h: RouterHosts) -> Iterator[Row]:
    """Return the clauses of RFC 8200 and RFC 4443 for packets that arrive on one link."""
    ip, udp, side, ends, (near, far) = h.ip, h.udp, h.side, h.ends, h.mtus
    at, rfc4443 = partial(Row, "RFC 8200", side=side), partial(Row, "RFC 4443", side=side)
    answer, sender = IPv6(**ends), IPv6(dst=ends["src"])

    yield at("3", f"udp-{side}", MUST, "a packet is forwarded, its data unchanged",
             udp(), answer / UDP() / Raw(DATA), plain=True)
    yield at("3", f"tcp-{side}", MUST, "a TCP segment is forwarded",
             ip() / TCP(sport=PORT, dport=SERVER_PORT), answer / TCP())
    yield at("3", f"echo-{side}", MUST, "an ICMPv6 echo request for a host is forwarded",
             ip() / ICMPv6EchoRequest(id=7, seq=9, data=DATA), answer / ICMPv6EchoRequest(id=7, seq=9))
    yield at("3", f"hop-limit-{side}", MUST, "the hop limit is one less", udp(), IPv6(hlim=TTL - 1))
    yield at("3", f"hop-limit-2-{side}", MUST, "a packet with hop limit 2 is forwarded", udp(ttl=2),
             IPv6(hlim=1))
    yield at("3", f"hop-limit-1-{side}", MUST, "a packet with hop limit 1 is not forwarded", udp(ttl=1))
    yield rfc4443("3.3", f"time-exceeded-{side}", MUST, "its sender is told: time exceeded",
                  udp(ttl=1), sender / ICMPv6TimeExceeded(code=0), error=True)
    yield at("7", f"traffic-class-{side}", MAY, "the traffic class is not changed", udp(tos=0xB8),
             IPv6(tc=0xB8))
    yield Row("RFC 6437", "3", f"flow-label-{side}", MUST, "the flow label is not changed",
              udp(fl=0x12345), IPv6(fl=0x12345), side=side)
    options = IPv6ExtHdrDestOpt(options=[PadN(optdata=bytes(4))])
    yield at("4", f"destination-options-{side}", MUST,
             "destination options are neither examined nor changed",
             ip() / options / UDP(sport=PORT, dport=SERVER_PORT) / DATA, answer / IPv6ExtHdrDestOpt() / UDP())
    yield at("4", f"unknown-header-{side}", MUST, "a packet of an unknown protocol (253) is forwarded",
             ip(nh=253) / Raw(data(40)), IPv6(**ends, nh=253) / Raw(data(40)))
    part = IPv6ExtHdrFragment(nh=17, offset=25, m=1, id=0x89ABCDEF) / Raw(data(200))
    yield at("4.5", f"fragment-{side}", MUST, "a fragment is forwarded as it is", ip() / part, answer / part)
    for section, name, address in (
        ("2.5.2", "unspecified", "::"), ("2.5.3", "loopback", "::1"), ("2.5.6", "link-local", "fe80::77"),
    ):
        yield Row("RFC 4291", section, f"{name}-{side}", MUST, f"a packet from {address} is not forwarded",
                  udp(src=address), side=side)
    if near > far:
        yield rfc4443("3.2", f"too-big-{side}", MUST,
                      "the sender of a packet that does not fit is told the MTU",
                      udp(data(near - 48)), sender / ICMPv6PacketTooBig(mtu=far), error=True)
# fmt: on
