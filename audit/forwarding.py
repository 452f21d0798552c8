"""The suites ``router`` (RFC 1812 for IPv4, RFC 8200 and 4443 for IPv6) and ``prefix`` (NPTv6, RFC 6296)."""

from collections.abc import Iterable, Iterator
from functools import partial
from ipaddress import IPv6Address
from typing import Any

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, PadN
from scapy.packet import Packet, Raw
from v6t.audit.clause import SIDES, Clause, Subject, Suite, flip_side
from v6t.audit.packet_device.maps import translate_prefix
from v6t.audit.packets import DATA, PORT, SERVER_PORT, TTL, Wire, data, datagram, header, icmp, ip
from v6t.audit.row import LinkHosts, Row, make_row_clauses
from v6t.plugins.audit_views import PrefixTranslator, Router, SideName


class RouterSuite(Suite):
    """Clauses for routers that neither translate nor encapsulate."""

    name = "router"
    core = ("udp-left", "udp-right", "ttl-left", "hop-limit-left")

    def list_clauses(self, subject: Subject, variant: str = "") -> Iterator[Clause]:
        view, wire = subject.find(Router), subject.wire
        for side in SIDES if view and not variant else ():
            source, target = getattr(view, side), getattr(view, flip_side(side))
            udp = partial(datagram, (source, PORT), (target, SERVER_PORT))
            rows = (
                partial(_make_router_rows, side, udp),
                partial(_make_limit_rows, wire, side, side, udp),
            )
            yield from make_row_clauses(LinkHosts(**{side: udp()}), wire, *rows)


class PrefixSuite(Suite):
    """Clauses for NPTv6 translators."""

    name = "prefix"
    core = ("outbound", "inbound", "checksum-neutral")

    def list_clauses(self, subject: Subject, variant: str = "") -> Iterable[Clause]:
        view = subject.find(PrefixTranslator)
        if view is None or variant:
            return ()
        inside, server = (view.host, PORT), (view.server, SERVER_PORT)
        outside = translate_prefix(view.host, view.internal, view.external), PORT
        out, into = partial(datagram, inside, server), partial(datagram, server, outside)
        ends = ("left", "out", out), ("right", "in", into)
        limits = (partial(_make_limit_rows, subject.wire, *end) for end in ends)
        hosts = LinkHosts(left=out(), right=into())
        return make_row_clauses(hosts, subject.wire, partial(_make_prefix_rows, view), *limits)


# fmt: off
def _row(four: bool, side: SideName, name: str, rfc4: str, rfc6: str, label: str, *rest: Any,
         **fields: Any) -> Row:
    rfc, section = (f"1812 {rfc4}" if four else rfc6).split()
    return Row(f"RFC {rfc}", section, f"{label}-{name}", *rest, side=side, **fields)


def _make_limit_rows(wire: Wire, side: SideName, name: str, udp: partial[Packet],
                _: LinkHosts) -> Iterator[Row]:
    """Return the clauses about hop limits and about packets that do not fit the next link."""
    source, near, far = udp.args[0][0], wire.mtu(side), wire.mtu(flip_side(side))
    four, template = source.version == 4, partial(ip, source.version)
    row, sender = partial(_row, four, side, name), template(dst=str(source))
    ttl, hop, octets = ("TTL", "ttl", 28) if four else ("hop limit", "hop-limit", 48)
    yield row("5.3.1", "8200 3", hop, f"the {ttl} is decremented by one", udp(), template(ttl=TTL - 1))
    yield row("5.3.1", "8200 3", f"{hop}-2", f"a packet with {ttl} 2 is forwarded", udp(ttl=2),
              template(ttl=1))
    yield row("5.3.1", "8200 3", f"{hop}-1", f"a packet with {ttl} 1 is not forwarded", udp(ttl=1))
    yield row("4.3.3.4", "4443 3.3", "time-exceeded", "its sender receives a time exceeded error",
              udp(ttl=1), sender / icmp(source.version, 11 if four else 3, code=0), error=True)
    if near > far:
        yield row("4.3.3.1", "4443 3.2", "fragmentation-needed" if four else "too-big",
                  f"the sender of a packet {'with DF ' if four else ''}that does not fit receives "
                  "an error with the MTU",
                  udp(data(near - octets), **({"flags": "DF"} if four else {})),
                  sender / (icmp(4, 3, code=4, nexthopmtu=far) if four else icmp(6, 2, mtu=far)), error=True)


def _make_router_rows(side: SideName, udp: partial[Packet], _: LinkHosts) -> Iterator[Row]:
    (source, _port), (target, _server_port) = udp.args
    four, ends = source.version == 4, {"src": str(source), "dst": str(target)}
    row, to = partial(_row, four, side, side), partial(header, source, target)
    template = partial(ip, source.version)
    answer, ports = template(**ends), {"sport": PORT, "dport": SERVER_PORT}
    tos, tos_label = ("TOS octet", "tos") if four else ("traffic class", "traffic-class")
    yield row("5.2.1", "8200 3", "udp", "a packet is forwarded with its data unchanged",
              udp(), answer / UDP() / Raw(DATA), plain=True)
    yield row("5.2.1", "8200 3", "tcp", "a TCP segment is forwarded", to() / TCP(**ports), answer / TCP())
    echo = icmp(4, 8, id=7, seq=9) / Raw(DATA) if four else icmp(6, 128, id=7, seq=9, data=DATA)
    yield row("5.2.1", "8200 3", "echo",
              f"an {'ICMP' if four else 'ICMPv6'} echo request for a host is forwarded", to() / echo,
              answer / echo)
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
    yield row("4.2.2.7", "8200 4.5", "fragment", "a fragment is forwarded unchanged", fragment, piece)
    for section, name, address in (
        ("5.3.7", "loopback", "127.0.0.1"), ("2.5.2", "unspecified", "::"), ("2.5.3", "loopback", "::1"),
        ("2.5.6", "link-local", "fe80::77")):
        if four == ("." in address):
            yield row(section, f"4291 {section}", name, f"a packet from {address} is not forwarded",
                      udp(src=address), level="SHOULD" if four else "MUST")


def _make_prefix_rows(v: PrefixTranslator, h: LinkHosts) -> Iterator[Row]:
    out, into = (partial(Row, "RFC 6296", side=side) for side in ("left", "right"))
    map_host = partial(translate_prefix, old=v.internal, new=v.external)
    host, external, server = str(v.host), str(map_host(v.host)), str(v.server)
    ip, to_inside, outside = header(host, server), IPv6(src=server, dst=host), IPv6(src=external, dst=server)
    outbound, inbound = h.plain("left"), h.plain("right")
    yield out("3.2", "outbound", f"the source {host} becomes {external} on the way out",
              outbound, outside / outbound[UDP], plain=True)
    yield into("3.3", "inbound", f"the destination {external} becomes {host} on the way in",
               inbound, to_inside / inbound[UDP], plain=True)
    yield out("3.1", "checksum-neutral", "the UDP checksum is not changed and remains correct",
              outbound, outside / UDP(chksum=UDP(bytes(outbound)[40:]).chksum))
    for subnet in (1, 0xFFFE):
        other = IPv6Address(int(v.host) | subnet << 64)
        mapped = str(map_host(other))
        yield out("3.4", f"subnet-{subnet:x}",
                  f"subnet {subnet:x} is mapped to one subnet: {other} becomes {mapped}",
                  datagram((other, PORT), (v.server, SERVER_PORT)), IPv6(src=mapped, dst=server) / UDP())
    identifier = IPv6Address(int(v.host) | 0xFEDC << 48)
    yield out("3.4", "identifier", "the interface identifier is not changed",
              datagram((identifier, PORT), (v.server, SERVER_PORT)),
              IPv6(src=str(map_host(identifier)), dst=server) / UDP())
    yield out("3.1", "tcp", "a TCP segment leaves with an unchanged, correct checksum",
              ip / TCP(sport=PORT, dport=SERVER_PORT), outside / TCP())
    echo = icmp(6, 128, id=7, seq=9, data=DATA)
    yield out("3.1", "icmp-echo", "an ICMPv6 echo request leaves with a correct checksum", ip / echo,
              outside / echo)
    yield out("3.1", "unknown-protocol", "a packet of an unknown protocol (253) is also translated",
              header(host, server, nh=253) / Raw(data(40)),
              IPv6(src=external, dst=server, nh=253) / Raw(data(40)))
    part = IPv6ExtHdrFragment(nh=17, offset=25, id=0x89ABCDEF) / Raw(data(100))
    yield out("3.1", "fragment", "a later fragment is also translated", ip / part, outside / part)
    yield into("3.3", "icmp-error", "an ICMPv6 error from outside quotes the host's original packet",
               header(server, external) / icmp(6, 1, code=4) / header(external, server) / outbound[UDP],
               to_inside / icmp(6, 1, code=4) / IPv6(src=host, dst=server), "MAY")
# fmt: on
