"""The suite ``prefix``: NPTv6 (RFC 6296) rewrites prefixes, and leaves checksums and ports alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from ipaddress import IPv6Address
from struct import pack, unpack

from scapy.layers.inet import TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.packet import Raw
from v6t.audit.clause import Clause, Subject, Suite
from v6t.audit.packets import (
    DATA,
    INNER_TTL,
    PORT,
    SERVER_PORT,
    TTL,
    data,
    datagram,
    header,
    icmp6,
    transport,
)
from v6t.audit.row import Hosts, Row, row_clauses
from v6t.plugins.audit_views import PrefixTranslator


class PrefixSuite(Suite):
    """For NPTv6 translators."""

    name = "prefix"
    title = "NPTv6: prefixes, checksum neutrality, ICMPv6 errors"
    core = ("outbound", "inbound", "checksum-neutral")

    def clauses(self, subject: Subject, variant: str = "") -> Iterable[Clause]:
        view = subject.find(PrefixTranslator)
        if view is None or variant:
            return ()
        inside, server = (view.host, PORT), (view.server, SERVER_PORT)
        outside = external_address(view, view.host), PORT
        hosts = Hosts(left=datagram(inside, server), right=datagram(server, outside))
        return row_clauses(hosts, subject.wire, partial(rows, view))


def external_address(view: PrefixTranslator, host: IPv6Address) -> IPv6Address:
    """Return the external address of an inside host, by the algorithm of RFC 6296, section 3.1."""
    internal, external = view.internal, view.external
    addresses = internal.network_address, external.network_address, host
    inside, outside, words = (unpack("!8H", address.packed) for address in addresses)
    length = max(internal.prefixlen, external.prefixlen)
    adjusted = 3 if length <= 48 else next(n for n in range(4, 8) if words[n] != 0xFFFF)
    mapped = int(external.network_address) | int(host) & int(external.hostmask)
    result = list(unpack("!8H", IPv6Address(mapped).packed))
    result[adjusted] = (words[adjusted] + sum(inside) - sum(outside)) % 0xFFFF
    return IPv6Address(pack("!8H", *result))


# fmt: off
def rows(v: PrefixTranslator, h: Hosts) -> Iterator[Row]:
    """Return all clauses."""
    out, into = (partial(Row, "RFC 6296", side=side) for side in ("left", "right"))
    host, external, server = str(v.host), str(external_address(v, v.host)), str(v.server)
    ip, to_inside, outside = header(host, server), IPv6(src=server, dst=host), IPv6(src=external, dst=server)
    outbound, inbound = h.plain("left"), h.plain("right")

    yield out("3.2", "outbound", f"the source {host} becomes {external} on the way out",
              outbound, outside / transport("udp", PORT, SERVER_PORT), plain=True)
    yield into("3.3", "inbound", f"the destination {external} becomes {host} on the way in",
               inbound, to_inside / transport("udp", SERVER_PORT, PORT), plain=True)
    yield out("3.1", "checksum-neutral", "the UDP checksum is not changed, and is right all the same",
              outbound, outside / UDP(chksum=UDP(bytes(outbound)[40:]).chksum))
    for subnet in (1, 0xFFFE):
        other = IPv6Address(int(v.host) | subnet << 64)
        mapped = str(external_address(v, other))
        yield out("3.4", f"subnet-{subnet:x}",
                  f"subnet {subnet:x} is mapped to one subnet: {other} becomes {mapped}",
                  datagram((other, PORT), (v.server, SERVER_PORT)), IPv6(src=mapped, dst=server) / UDP())
    identifier = IPv6Address(int(v.host) | 0xFEDC << 48)
    yield out("3.4", "identifier", "the interface identifier is not changed",
              datagram((identifier, PORT), (v.server, SERVER_PORT)),
              IPv6(src=str(external_address(v, identifier)), dst=server) / UDP())
    yield out("3.1", "tcp", "a TCP segment leaves with its checksum unchanged and right",
              ip / TCP(sport=PORT, dport=SERVER_PORT), outside / TCP())
    echo = icmp6(128, id=7, seq=9, data=DATA)
    yield out("3.1", "icmp-echo", "an ICMPv6 echo request leaves with a right checksum", ip / echo,
              outside / echo)
    yield out("3.1", "unknown-protocol", "a packet of an unknown protocol (253) is translated, too",
              header(host, server, nh=253) / Raw(data(40)),
              IPv6(src=external, dst=server, nh=253) / Raw(data(40)))
    part = IPv6ExtHdrFragment(nh=17, offset=25, id=0x89ABCDEF) / Raw(data(100))
    yield out("3.1", "fragment", "a later fragment is translated, too", ip / part, outside / part)
    about = header(external, server, ttl=INNER_TTL) / transport("udp", PORT, SERVER_PORT)
    yield into("3.3", "icmp-error", "an ICMPv6 error from outside arrives about the host's own packet",
               header(server, external) / icmp6(1, code=4) / about,
               to_inside / icmp6(1, code=4) / IPv6(src=host, dst=server), "MAY")
    for name, side, packet, sender in (("out", "left", outbound, host), ("in", "right", inbound, server)):
        row, expiring = partial(Row, side=side), packet.copy()
        expiring.hlim = 1
        yield row("RFC 8200", "3", f"hop-limit-{name}", "the hop limit is one less", packet,
                  IPv6(hlim=TTL - 1))
        yield row("RFC 8200", "3", f"hop-limit-1-{name}", "a packet with hop limit 1 is discarded", expiring)
        yield row("RFC 4443", "3.3", f"time-exceeded-{name}", "its sender is told: time exceeded",
                  expiring, IPv6(dst=sender) / icmp6(3, code=0), error=True)
# fmt: on
