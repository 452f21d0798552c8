"""The suite ``prefix``: NPTv6 (RFC 6296) rewrites prefixes, and leaves checksums and ports alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from ipaddress import IPv6Address

from scapy.layers.inet import TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6EchoRequest,
    ICMPv6TimeExceeded,
    IPv6,
    IPv6ExtHdrFragment,
)
from scapy.packet import Packet, Raw
from v6t.audit.clause import Clause, Subject, Suite
from v6t.audit.match import quoted_packet
from v6t.audit.row import Row, row_clause, row_steps
from v6t.audit.translator_hosts import DATA, TTL, data
from v6t.plugins.audit_views import PrefixTranslator

RFC = "RFC 6296"


class PrefixSuite(Suite):
    """For NPTv6 translators."""

    name = "prefix"
    title = "NPTv6: prefixes, checksum neutrality, ICMPv6 errors"
    core = ("outbound", "inbound", "checksum-neutral")

    def clauses(self, subject: Subject) -> Iterator[Clause]:
        view = subject.find(PrefixTranslator)
        if view is None:
            return
        for row in rows(view):
            control = _outbound(view) if row.side == "left" else _inbound(view)
            steps = partial(row_steps, row, subject.wire, None if row.plain else control)
            yield row_clause(row, RFC, steps)


def external_address(view: PrefixTranslator, host: IPv6Address) -> IPv6Address:
    """Return the external address of an inside host, by the algorithm of RFC 6296, section 3.1."""
    inside, outside = _words(view.internal.network_address), _words(view.external.network_address)
    length = max(view.internal.prefixlen, view.external.prefixlen)
    words = _words(host)
    adjusted = 3 if length <= 48 else next(n for n in range(4, 8) if words[n] != 0xFFFF)
    mask = int(view.external.hostmask)
    prefixed = int(view.external.network_address) | int(host) & mask
    result = _words(IPv6Address(prefixed))
    value = (words[adjusted] + sum(inside) - sum(outside)) % 0xFFFF
    result[adjusted] = value
    return IPv6Address(b"".join(word.to_bytes(2, "big") for word in result))


def _words(address: IPv6Address) -> list[int]:
    packed = address.packed
    return [int.from_bytes(packed[at : at + 2], "big") for at in range(0, 16, 2)]


def _outbound(v: PrefixTranslator, host: IPv6Address | None = None, **fields: int) -> Packet:
    header = IPv6(src=str(host or v.host), dst=str(v.server), **{"hlim": TTL, **fields})
    return header / UDP(sport=40123, dport=443) / Raw(DATA)


def _inbound(v: PrefixTranslator, **fields: int) -> Packet:
    header = IPv6(
        src=str(v.server), dst=str(external_address(v, v.host)), **{"hlim": TTL, **fields}
    )
    return header / UDP(sport=443, dport=40123) / Raw(DATA)


# fmt: off
def rows(v: PrefixTranslator) -> Iterator[Row]:
    """Return all clauses."""
    out, into = partial(Row, side="left", level="MUST"), partial(Row, side="right", level="MUST")
    host, external, server = str(v.host), str(external_address(v, v.host)), str(v.server)
    from_outside, to_inside = IPv6(src=external, dst=server), IPv6(src=server, dst=host)
    udp = UDP(sport=40123, dport=443)

    yield out("3.2", "outbound", title=f"the source {host} becomes {external} on the way out",
              packet=_outbound(v), answer=from_outside / udp / Raw(DATA), plain=True)
    yield into("3.3", "inbound", title=f"the destination {external} becomes {host} on the way in",
               packet=_inbound(v), answer=to_inside / UDP(sport=443, dport=40123) / Raw(DATA), plain=True)
    checksum = UDP(bytes(_outbound(v))[40:]).chksum
    yield out("3.1", "checksum-neutral", title="the UDP checksum is not changed, and is right all the same",
              packet=_outbound(v), answer=from_outside / UDP(chksum=checksum))
    for subnet in (1, 0xFFFE):
        other = IPv6Address(int(v.host) | subnet << 64)
        mapped = external_address(v, other)
        yield out("3.4", f"subnet-{subnet:x}",
                  title=f"subnet {subnet:x} is mapped to one subnet: {other} becomes {mapped}",
                  packet=_outbound(v, other), answer=IPv6(src=str(mapped), dst=server) / UDP())
    identifier = IPv6Address(int(v.host) | 0xFEDC << 48)
    yield out("3.4", "identifier", title="the interface identifier is not changed",
              packet=_outbound(v, identifier),
              answer=IPv6(src=str(external_address(v, identifier)), dst=server) / UDP())
    yield out("3.1", "tcp", title="a TCP segment leaves with its checksum unchanged and right",
              packet=IPv6(src=host, dst=server, hlim=TTL) / TCP(sport=40123, dport=443),
              answer=from_outside / TCP())
    yield out("3.1", "icmp-echo", title="an ICMPv6 echo request leaves with a right checksum",
              packet=IPv6(src=host, dst=server, hlim=TTL) / ICMPv6EchoRequest(id=7, seq=9, data=DATA),
              answer=from_outside / ICMPv6EchoRequest(id=7, seq=9, data=DATA))
    yield out("3.1", "unknown-protocol", title="a packet of an unknown protocol (253) is translated, too",
              packet=IPv6(src=host, dst=server, hlim=TTL, nh=253) / Raw(data(40)),
              answer=IPv6(src=external, dst=server, nh=253) / Raw(data(40)))
    part = IPv6ExtHdrFragment(nh=17, offset=25, id=0x89ABCDEF)
    yield out("3.1", "fragment", title="a later fragment is translated, too",
              packet=IPv6(src=host, dst=server, hlim=TTL) / part / Raw(data(100)),
              answer=IPv6(src=external, dst=server) / part / Raw(data(100)))
    about = IPv6(src=external, dst=server, hlim=7) / udp / Raw(DATA)
    yield into("3.3", "icmp-error", level="MAY",
               title="an ICMPv6 error from outside arrives about the host's own packet",
               packet=IPv6(src=server, dst=external, hlim=TTL) / ICMPv6DestUnreach(code=4) / about,
               answer=to_inside / ICMPv6DestUnreach(code=4), check=partial(_quotes, v))
    for name, row, make, sender in (("out", out, _outbound, host), ("in", into, _inbound, server)):
        yield row("3", f"hop-limit-{name}", rfc="RFC 8200", title="the hop limit is one less",
                  packet=make(v), answer=IPv6(hlim=TTL - 1))
        yield row("3", f"hop-limit-1-{name}", rfc="RFC 8200", title="a packet with hop limit 1 is discarded",
                  packet=make(v, hlim=1))
        yield row("3.3", f"time-exceeded-{name}", rfc="RFC 4443", title="its sender is told: time exceeded",
                  packet=make(v, hlim=1), answer=IPv6(dst=sender) / ICMPv6TimeExceeded(code=0), error=True)
# fmt: on


def _quotes(v: PrefixTranslator, packet: Packet) -> str:
    quoted = quoted_packet(packet)
    if quoted is None:
        return "no packet is quoted"
    ends = IPv6Address(quoted.src), IPv6Address(quoted.dst)
    return "" if ends == (v.host, v.server) else f"a packet from {ends[0]} is quoted"
