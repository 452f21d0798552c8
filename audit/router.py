"""The suite ``router``: what every IPv4 router (RFC 1812) and IPv6 router (RFC 8200, 4443) must do."""

from __future__ import annotations

from collections.abc import Iterator
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
from v6t.audit.clause import Clause, Subject, Suite
from v6t.audit.row import Row, row_clause, row_steps
from v6t.audit.translator_hosts import DATA, TTL, data
from v6t.audit.wire import Wire, opposite
from v6t.plugins.audit_views import Router, SideName

_NAMES: tuple[SideName, SideName] = ("left", "right")


class RouterSuite(Suite):
    """For routers that neither translate nor encapsulate."""

    name = "router"
    title = "IPv4 and IPv6 routers: forwarding, hop limits, ICMP errors, malformed packets"
    core = ("udp-left", "udp-right", "ttl-left", "hop-limit-left")

    def clauses(self, subject: Subject) -> Iterator[Clause]:
        view = subject.find(Router)
        if view is None:
            return
        for side in _NAMES:
            for row in rows(view, side, subject.wire):
                control = None if row.plain else _packet(view, side)
                yield row_clause(row, "", partial(row_steps, row, subject.wire, control))


def _header(view: Router, side: SideName, **fields: Any) -> Packet:
    """Return a header of the host on one side for the host on the other."""
    ends = {"src": str(getattr(view, side)), "dst": str(getattr(view, opposite(side)))}
    four = isinstance(view.left, IPv4Address)
    return (IP if four else IPv6)(**{**ends, "ttl" if four else "hlim": TTL, **fields})


def _packet(view: Router, side: SideName, payload: bytes = DATA, **fields: Any) -> Packet:
    return _header(view, side, **fields) / UDP(sport=40123, dport=443) / Raw(payload)


def rows(view: Router, side: SideName, wire: Wire) -> Iterator[Row]:
    """Return the clauses for packets that arrive on one link."""
    source = rows4 if isinstance(view.left, IPv4Address) else rows6
    yield from source(view, side, wire)


# fmt: off
def rows4(view: Router, side: SideName, wire: Wire) -> Iterator[Row]:
    """Return the clauses of RFC 1812."""
    at = partial(Row, side=side, rfc="RFC 1812")
    header, packet = partial(_header, view, side), partial(_packet, view, side)
    ends = {"src": str(getattr(view, side)), "dst": str(getattr(view, opposite(side)))}
    answer, sender = IP(**ends), IP(dst=ends["src"])
    mtu = int(getattr(wire.links, opposite(side)).mtu)

    yield at("5.2.1", f"udp-{side}", "MUST", "a packet is forwarded, its data unchanged",
             packet=packet(), answer=answer / UDP() / Raw(DATA), plain=True)
    yield at("5.2.1", f"tcp-{side}", "MUST", "a TCP segment is forwarded",
             packet=header() / TCP(sport=40123, dport=443), answer=answer / TCP())
    yield at("5.2.1", f"echo-{side}", "MUST", "an ICMP echo request for a host is forwarded",
             packet=header() / ICMP(id=7, seq=9) / DATA,
             answer=answer / ICMP(type=8, id=7, seq=9) / Raw(DATA))
    yield at("5.3.1", f"ttl-{side}", "MUST", "the TTL is one less", packet=packet(), answer=IP(ttl=TTL - 1))
    yield at("5.3.1", f"ttl-2-{side}", "MUST", "a packet with TTL 2 is forwarded",
             packet=packet(ttl=2), answer=IP(ttl=1))
    yield at("5.3.1", f"ttl-1-{side}", "MUST", "a packet with TTL 1 is not forwarded", packet=packet(ttl=1))
    yield at("4.3.3.4", f"time-exceeded-{side}", "MUST", "its sender is told: time exceeded",
             packet=packet(ttl=1), answer=sender / ICMP(type=11, code=0), error=True)
    yield at("5.3.2", f"tos-{side}", "MAY", "the TOS octet is not changed",
             packet=packet(tos=0xB8), answer=IP(tos=0xB8))
    yield at("4.2.2.5", f"checksum-{side}", "MUST", "a packet with a wrong header checksum is dropped",
             packet=packet(chksum=0xDEAD))
    yield at("5.2.2", f"version-{side}", "MUST", "a packet whose header length is too small is dropped",
             packet=packet(ihl=4))
    yield at("5.2.2", f"length-{side}", "MUST", "a packet that is shorter than its total length is dropped",
             packet=packet(len=900))
    yield at("4.2.2.7", f"fragment-{side}", "MUST", "a fragment is forwarded as it is",
             packet=header(frag=25, flags="MF", proto=17, id=0xBEEF) / Raw(data(200)),
             answer=IP(**ends, frag=25, flags="MF", id=0xBEEF) / Raw(data(200)))
    yield at("5.3.7", f"loopback-{side}", "SHOULD", "a packet from 127.0.0.1 is not forwarded",
             packet=packet(src="127.0.0.1"))
    near = int(getattr(wire.links, side).mtu)
    if near > mtu:
        yield at("4.3.3.1", f"fragmentation-needed-{side}", "MUST",
                 "the sender of a packet with DF that does not fit is told the MTU",
                 packet=packet(data(near - 28), flags="DF"),
                 answer=sender / ICMP(type=3, code=4, nexthopmtu=mtu), error=True)


def rows6(view: Router, side: SideName, wire: Wire) -> Iterator[Row]:
    """Return the clauses of RFC 8200 and RFC 4443."""
    at = partial(Row, side=side, rfc="RFC 8200")
    header, packet = partial(_header, view, side), partial(_packet, view, side)
    ends = {"src": str(getattr(view, side)), "dst": str(getattr(view, opposite(side)))}
    answer, sender = IPv6(**ends), IPv6(dst=ends["src"])
    mtu = int(getattr(wire.links, opposite(side)).mtu)

    yield at("3", f"udp-{side}", "MUST", "a packet is forwarded, its data unchanged",
             packet=packet(), answer=answer / UDP() / Raw(DATA), plain=True)
    yield at("3", f"tcp-{side}", "MUST", "a TCP segment is forwarded",
             packet=header() / TCP(sport=40123, dport=443), answer=answer / TCP())
    yield at("3", f"echo-{side}", "MUST", "an ICMPv6 echo request for a host is forwarded",
             packet=header() / ICMPv6EchoRequest(id=7, seq=9, data=DATA),
             answer=answer / ICMPv6EchoRequest(id=7, seq=9))
    yield at("3", f"hop-limit-{side}", "MUST", "the hop limit is one less", packet=packet(),
             answer=IPv6(hlim=TTL - 1))
    yield at("3", f"hop-limit-2-{side}", "MUST", "a packet with hop limit 2 is forwarded",
             packet=packet(hlim=2), answer=IPv6(hlim=1))
    yield at("3", f"hop-limit-1-{side}", "MUST", "a packet with hop limit 1 is not forwarded",
             packet=packet(hlim=1))
    yield at("3.3", f"time-exceeded-{side}", "MUST", "its sender is told: time exceeded", rfc="RFC 4443",
             packet=packet(hlim=1), answer=sender / ICMPv6TimeExceeded(code=0), error=True)
    yield at("7", f"traffic-class-{side}", "MAY", "the traffic class is not changed",
             packet=packet(tc=0xB8), answer=IPv6(tc=0xB8))
    yield at("3", f"flow-label-{side}", "MUST", "the flow label is not changed", rfc="RFC 6437",
             packet=packet(fl=0x12345), answer=IPv6(fl=0x12345))
    options = IPv6ExtHdrDestOpt(options=[PadN(optdata=bytes(4))])
    yield at("4", f"destination-options-{side}", "MUST",
             "destination options are neither examined nor changed",
             packet=header() / options / UDP(sport=40123, dport=443) / DATA,
             answer=answer / IPv6ExtHdrDestOpt() / UDP())
    yield at("4", f"unknown-header-{side}", "MUST", "a packet of an unknown protocol (253) is forwarded",
             packet=header(nh=253) / Raw(data(40)), answer=IPv6(**ends, nh=253) / Raw(data(40)))
    part = IPv6ExtHdrFragment(nh=17, offset=25, m=1, id=0x89ABCDEF)
    yield at("4.5", f"fragment-{side}", "MUST", "a fragment is forwarded as it is",
             packet=header() / part / Raw(data(200)), answer=answer / part / Raw(data(200)))
    for name, address in (("unspecified", "::"), ("loopback", "::1"), ("link-local", "fe80::77")):
        section = "2.5.6" if name == "link-local" else {"unspecified": "2.5.2", "loopback": "2.5.3"}[name]
        yield at(section, f"{name}-{side}", "MUST", f"a packet from {address} is not forwarded",
                 rfc="RFC 4291",
                 packet=packet(src=address))
    near = int(getattr(wire.links, side).mtu)
    if near > mtu:
        yield at("3.2", f"too-big-{side}", "MUST", "the sender of a packet that does not fit is told the MTU",
                 rfc="RFC 4443", packet=packet(data(near - 48)),
                 answer=sender / ICMPv6PacketTooBig(mtu=mtu), error=True)
# fmt: on
