"""The suite ``router``: what every IPv4 router (RFC 1812) and IPv6 router (RFC 8200, 4443) must do."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, PadN
from scapy.packet import Raw
from v6t.audit.clause import Clause, Subject, Suite
from v6t.audit.packets import (
    DATA,
    PORT,
    SERVER_PORT,
    SIDES,
    TTL,
    Wire,
    data,
    datagram,
    header,
    icmp6,
    ip,
    opposite,
)
from v6t.audit.row import Hosts, Row, row_clauses
from v6t.plugins.audit_views import Router, SideName


class RouterSuite(Suite):
    """For routers that neither translate nor encapsulate."""

    name = "router"
    title = "IPv4 and IPv6 routers: forwarding, hop limits, ICMP errors, malformed packets"
    core = ("udp-left", "udp-right", "ttl-left", "hop-limit-left")

    def clauses(self, subject: Subject, variant: str = "") -> Iterator[Clause]:
        view = subject.find(Router)
        for side in SIDES if view and not variant else ():
            source, target = (
                (getattr(view, side), PORT),
                (getattr(view, opposite(side)), SERVER_PORT),
            )
            udp = partial(datagram, source, target)
            hosts = Hosts(**{side: udp()})
            yield from row_clauses(hosts, subject.wire, partial(rows, side, udp, subject.wire))


# fmt: off
def rows(side: SideName, udp: partial[Any], wire: Wire, _: Hosts) -> Iterator[Row]:
    """Return the clauses for packets that arrive on one link; those of RFC 1812 for IPv4."""
    (source, _port), (target, _server_port) = udp.args
    near, far, four = wire.mtu(side), wire.mtu(opposite(side)), source.version == 4
    to, template = partial(header, source, target), partial(ip, source.version)
    ends, sender = {"src": str(source), "dst": str(target)}, template(dst=str(source))
    answer, ports = template(**ends), {"sport": PORT, "dport": SERVER_PORT}
    ttl, tos, octets = ("TTL", "TOS octet", 28) if four else ("hop limit", "traffic class", 48)
    hop, tos_label = ttl.lower().replace(" ", "-"), tos.removesuffix(" octet").lower().replace(" ", "-")

    def row(rfc4: str, rfc6: str, label: str, *rest: Any, **fields: Any) -> Row:
        rfc, section = (f"1812 {rfc4}" if four else rfc6).split()
        return Row(f"RFC {rfc}", section, f"{label}-{side}", *rest, side=side, **fields)

    yield row("5.2.1", "8200 3", "udp", "a packet is forwarded, its data unchanged",
              udp(), answer / UDP() / Raw(DATA), plain=True)
    yield row("5.2.1", "8200 3", "tcp", "a TCP segment is forwarded", to() / TCP(**ports), answer / TCP())
    echo = ICMP(type=8, id=7, seq=9) / Raw(DATA) if four else icmp6(128, id=7, seq=9, data=DATA)
    yield row("5.2.1", "8200 3", "echo",
              f"an {'ICMP' if four else 'ICMPv6'} echo request for a host is forwarded", to() / echo,
              answer / echo)
    yield row("5.3.1", "8200 3", hop, f"the {ttl} is one less", udp(), template(ttl=TTL - 1))
    yield row("5.3.1", "8200 3", f"{hop}-2", f"a packet with {ttl} 2 is forwarded", udp(ttl=2),
              template(ttl=1))
    yield row("5.3.1", "8200 3", f"{hop}-1", f"a packet with {ttl} 1 is not forwarded", udp(ttl=1))
    exceeded = ICMP(type=11, code=0) if four else icmp6(3, code=0)
    yield row("4.3.3.4", "4443 3.3", "time-exceeded", "its sender is told: time exceeded",
              udp(ttl=1), sender / exceeded, error=True)
    yield row("5.3.2", "8200 7", tos_label, f"the {tos} is not changed", udp(tos=0xB8), template(tos=0xB8),
              "MAY")
    if four:
        yield row("4.2.2.5", "", "checksum", "a packet with a wrong header checksum is dropped",
                  udp(chksum=0xDEAD))
        yield row("5.2.2", "", "version", "a packet whose header length is too small is dropped", udp(ihl=4))
        yield row("5.2.2", "", "length", "a packet that is shorter than its total length is dropped",
                  udp(len=900))
        part = {"frag": 25, "flags": "MF", "proto": 17, "id": 0xBEEF}
        fragment, piece = to(**part) / Raw(data(200)), IP(**ends, **part) / Raw(data(200))
    else:
        yield row("", "6437 3", "flow-label", "the flow label is not changed", udp(fl=0x12345),
                  IPv6(fl=0x12345))
        options = IPv6ExtHdrDestOpt(options=[PadN(optdata=bytes(4))])
        yield row("", "8200 4", "destination-options", "destination options are neither examined nor changed",
                  to() / options / UDP(**ports) / DATA, answer / IPv6ExtHdrDestOpt() / UDP())
        yield row("", "8200 4", "unknown-header", "a packet of an unknown protocol (253) is forwarded",
                  to(nh=253) / Raw(data(40)), template(**ends, nh=253) / Raw(data(40)))
        part6 = IPv6ExtHdrFragment(nh=17, offset=25, m=1, id=0x89ABCDEF) / Raw(data(200))
        fragment, piece = to() / part6, answer / part6
    yield row("4.2.2.7", "8200 4.5", "fragment", "a fragment is forwarded as it is", fragment, piece)
    for section, name, address in (
        ("5.3.7", "loopback", "127.0.0.1"), ("2.5.2", "unspecified", "::"), ("2.5.3", "loopback", "::1"),
        ("2.5.6", "link-local", "fe80::77"),
    ):
        if four == ("." in address):
            yield row(section, f"4291 {section}", name, f"a packet from {address} is not forwarded",
                      udp(src=address), level="SHOULD" if four else "MUST")
    if near > far:
        yield row("4.3.3.1", "4443 3.2", "fragmentation-needed" if four else "too-big",
                  f"the sender of a packet {'with DF ' if four else ''}that does not fit is told the MTU",
                  udp(data(near - octets), **({"flags": "DF"} if four else {})),
                  sender / (ICMP(type=3, code=4, nexthopmtu=far) if four else icmp6(2, mtu=far)),
                  error=True)
# fmt: on
