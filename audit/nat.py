"""The suite ``nat``: mapping, filtering, hairpinning, ICMP errors and fragments through NATs.

RFC 4787, 5382, 5508, 6888 and 7857 by the numbers of their requirements. DS-Lite (RFC 6333, section 8.2) and
NAT64 (RFC 6146) require the same. No RFC covers NAT66: what these RFCs require is information there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address, ip_address

from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.packet import Packet, Raw
from v6t.audit import nat_limits, nat_tcp, nat_timers
from v6t.audit.clause import Clause, Level, Send, Subject, Suite
from v6t.audit.hosts import data
from v6t.audit.match import checksum_error, quoted_packet
from v6t.audit.nat_hosts import (
    FIRST_PORT,
    ICMP_QUERY,
    TCP_FLOW,
    UDP_FLOW,
    Endpoint,
    Exchange,
    Flow,
    NatHosts,
    NotTestable,
    icmp_error,
    ip_header,
    judge_error,
    scenario,
    source_of,
)
from v6t.audit.rfc6052 import prefix_requirement
from v6t.audit.wire import (
    dissect,
    fragment_offset,
    icmp_type,
    is_icmp_error,
    ports_of,
    protocol_of,
    transport_octets,
)
from v6t.plugins.address_mappings import may_represent
from v6t.plugins.audit_views import SHORT_TIMEOUT, TWO_PUBLIC_ADDRESSES, Nat

MAPPINGS_PER_CLAUSE, MAPPINGS_PER_AUDIT = 16, 1024
WELL_KNOWN_PORTS = 1024
FRAGMENT_AT = 400
"""Octets of transport in a first fragment."""
PARITIES = 0b0110100110010110
"""Parities of consecutive mappings, which no simple generator of random numbers follows."""
BASIC_LABELS = ("mapped", "query", "tcp-exchange")
"""What a NAT66 must do, although no RFC requires it."""


class NatSuite(Suite):
    """For NATs with two hosts and two servers."""

    name = "nat"
    title = "NATs: mapping, filtering, hairpinning, ICMP, TCP, fragments, limits and timers"
    core = ("REQ-1-mapped", "endpoint-independent", "REQ-3-overloading")

    def clauses(self, subject: Subject) -> Iterator[Clause]:
        h = _hosts(subject)
        if h is None or self.requirement(subject):
            return
        for group in (
            mapping_clauses,
            port_clauses,
            hairpin_clauses,
            error_clauses,
            fragment_clauses,
            nat_tcp.clauses,
            nat_limits.flush_clauses,
            nat_timers.minimum_clauses,
        ):
            yield from _adapt(h, group(h))

    def requirement(self, subject: Subject) -> tuple[str, str] | None:
        """Refuse a single host on a side, and private servers behind the well-known prefix."""
        view = subject.find(Nat)
        if view is None:
            return None
        if min(len(view.hosts), len(view.servers)) < 2:
            return (
                "the suite needs two Initiators and two Responders",
                "set initiator_count and responder_count to 2 or more, and enumerate_ips to 3",
            )
        prefix, servers = view.prefix, [s for s in view.servers if isinstance(s, IPv4Address)]
        hidden = [s for s in servers if prefix is not None and not may_represent(prefix, s)]
        return prefix_requirement(hidden[0]) if hidden else None

    def variant_clauses(self, subject: Subject, variant: str) -> Iterator[Clause]:
        h = _hosts(subject)
        if h is None or self.requirement(subject):
            return
        if variant == TWO_PUBLIC_ADDRESSES:
            yield from _adapt(h, pooling_clauses(h))
        elif variant == SHORT_TIMEOUT:
            yield from _adapt(h, nat_timers.short_clauses(h))
        else:
            yield from map(partial(_lower_level, h), nat_limits.limit_clauses(h, variant))


def _hosts(subject: Subject) -> NatHosts | None:
    view = subject.find(Nat)
    return None if view is None else NatHosts(view, subject.wire)


def _adapt(h: NatHosts, clauses: Iterable[Clause]) -> Iterator[Clause]:
    """Leave out what hosts cannot do, and empty the table first if it has no room for all mappings."""
    for clause in clauses:
        if "hairpin" in clause.label and not h.can_hairpin:
            continue
        adapted = _lower_level(h, clause)
        yield adapted if h.view.room >= MAPPINGS_PER_AUDIT else nat_limits.flush_first(adapted)


def _lower_level(h: NatHosts, clause: Clause) -> Clause:
    """Make what no RFC requires of a NAT66 information."""
    is_basic = h.outer_version == 4 or clause.label in BASIC_LABELS
    return clause if is_basic else replace(clause, level="MAY")


# fmt: off
def mapping_clauses(h: NatHosts) -> Iterator[Clause]:
    """Return the clauses about mappings of UDP, TCP and ICMP queries."""
    expected = "a valid packet from a public address; the answer comes back"
    yield scenario("RFC 4787", "REQ-1", "mapped", "MUST",
                   "a datagram from inside gets a public address, and its answer comes back",
                   expected, partial(check_round_trip, h, UDP_FLOW), plain=True)
    yield scenario("RFC 5508", "REQ-1", "query", "MUST",
                   "an echo request gets a public address, and its reply comes back with its identifier",
                   expected, partial(check_round_trip, h, ICMP_QUERY), plain=True)
    for rfc, section, label, level, flow in (
        ("RFC 4787", "REQ-1", "endpoint-independent", "MUST", UDP_FLOW),
        ("RFC 5382", "REQ-1", "tcp-endpoint-independent", "MUST", TCP_FLOW),
        ("RFC 5508", "REQ-1a", "query-independent", "SHOULD", ICMP_QUERY),
    ):
        end = "identifier" if flow is ICMP_QUERY else "endpoint"
        title = f"an inside {end} has one public {end} for all servers"
        yield scenario(rfc, section, label, level, title, "one public endpoint for all servers",
                       partial(check_independence, h, flow, taken=False))
        if flow is not ICMP_QUERY:
            yield scenario(rfc, section, f"{label}-contended", level,
                           f"{title}, also if another host has taken the port",
                           "one public endpoint for all servers",
                           partial(check_independence, h, flow, taken=True))
    expected = "two public endpoints"
    for rfc, section, label, flow, words in (
        ("RFC 4787", "REQ-3", "overloading", UDP_FLOW, "port get different public endpoints"),
        ("RFC 5382", "REQ-7", "tcp-overloading", TCP_FLOW, "TCP port get different public endpoints"),
        ("RFC 5508", "REQ-1", "query-overloading", ICMP_QUERY, "identifier get their own replies"),
    ):
        yield scenario(rfc, section, label, "MUST", f"two hosts with the same {words}", expected,
                       partial(check_overloading, h, flow, server=0))
    for flow, section in ((UDP_FLOW, "3.5.1.1"), (TCP_FLOW, "3.5.2.3")):
        # RFC 4787, REQ-3, and RFC 5382, REQ-7, forbid it; RFC 7857, section 3, has allowed it since.
        place = ("RFC 6146", section) if h.is_nat64 else ("RFC 7857", "3")
        yield scenario(*place, f"{flow.prefix}overloading-by-server", "MUST" if h.is_nat64 else "MAY",
                       "two hosts never share a public endpoint, not even for different servers", expected,
                       partial(check_overloading, h, flow, server=1))
    for number, label, level, title in (
        (0, "address", "SHOULD",
         "filtering is at most address-dependent: a server may answer from another port"),
        (1, "endpoint", "MAY", "endpoint-independent filtering: any server reaches a mapped host"),
    ):
        yield scenario("RFC 4787", "REQ-8", f"filtering-{label}", level, title, "the datagram, inside",
                       partial(check_filtering, h, h.server(number, 4321)))


def port_clauses(h: NatHosts) -> Iterator[Clause]:
    """Return the clauses about public ports."""
    # RFC 7857, section 8, lets NATs of IPv4 omit what RFC 4787, REQ-4, recommends.
    level: Level = "SHOULD" if h.is_nat64 else "MAY"
    place = ("RFC 6146", "3.5.1.1") if h.is_nat64 else ("RFC 7857", "8")
    yield scenario(*place, "parity", level, "the public port has the parity of the inside port",
                   "even ports stay even, odd ports odd", partial(check_parity, h))
    low, high = h.view.public
    if not h.view.block and low <= FIRST_PORT and high >= FIRST_PORT + 1023:
        yield scenario("RFC 4787", "4.2.1", "port-preserved", "MAY",
                       "the public port is the inside port if that is free",
                       "the inside port, which is free", partial(check_port, h, is_preserved=True))
    yield scenario("RFC 4787", "REQ-3a", "port-range", "SHOULD",
                   "an inside port of 1024 or more gets a public port of 1024 or more",
                   "a public port of 1024 or more", partial(check_port, h, is_preserved=False))


def pooling_clauses(h: NatHosts) -> Iterator[Clause]:
    """Return the clause for two public addresses."""
    yield scenario("RFC 6888", "REQ-2", "pooling", "MUST",
                   "all mappings of a host have the same public address",
                   "one public address", partial(check_pooling, h))


def hairpin_clauses(h: NatHosts) -> Iterator[Clause]:
    """Return the clauses about inside hosts that reach each other by public endpoints."""
    for flow, rfc, section, word in (
        (UDP_FLOW, "RFC 4787", "REQ-9", "datagram"), (TCP_FLOW, "RFC 5382", "REQ-8", "SYN"),
    ):
        yield scenario(rfc, section, f"{flow.prefix}hairpinning", "MUST",
                       f"a host's {word} reaches another host by its public endpoint",
                       f"the {word}, at the other host",
                       partial(check_hairpinning, h, flow, checks_source=False))
        yield scenario(rfc, f"{section}a", f"{flow.prefix}hairpinning-source", "MUST",
                       f"the other host sees the public endpoint as the source of the {word}",
                       "the public endpoint as source",
                       partial(check_hairpinning, h, flow, checks_source=True))
    yield scenario("RFC 5508", "REQ-7", "hairpinned-error", "MUST",
                   "an ICMP error between two hosts inside is translated both ways",
                   "the error, at the first host, about its own datagram", partial(check_hairpinned_error, h))


def error_clauses(h: NatHosts) -> Iterator[Clause]:
    """Return the clauses about ICMP errors of servers, hosts and the NAT itself."""
    for flow, about, kind, code, mtu, words in (
        (UDP_FLOW, "a mapped datagram", 3, 3, 0, "port unreachable"),
        (UDP_FLOW, "a mapped datagram", 3, 4, 1400, "fragmentation needed"),
        (UDP_FLOW, "a mapped datagram", 11, 0, 0, "time exceeded"),
        (ICMP_QUERY, "an echo request", 3, 1, 0, "host unreachable"),
        (ICMP_QUERY, "an echo request", 11, 0, 0, "time exceeded"),
    ):
        yield scenario("RFC 5508", "REQ-4", f"{flow.prefix}error-{kind}-{code}", "MUST",
                       f"ICMP {words} about {about} reaches the host, with the quoted packet translated",
                       "the error inside, about the host's own packet",
                       partial(check_error_in, h, flow, icmp_error(h.outer_version, kind, code, mtu)))
    yield scenario("RFC 5508", "REQ-4", "error-unmapped", "SHOULD",
                   "an ICMP error about no mapping is silently dropped",
                   "nothing inside", partial(check_unmapped_error, h))
    yield scenario("RFC 4787", "REQ-12", "error-keeps-mapping", "MUST", "an ICMP error ends no mapping",
                   "the answer after the error, inside", partial(check_error_keeps, h, UDP_FLOW, 3))
    yield scenario("RFC 5508", "REQ-6", "query-error-keeps", "MUST",
                   "an ICMP error about a query ends no session",
                   "the reply after the error, inside", partial(check_error_keeps, h, ICMP_QUERY, 1))
    yield scenario("RFC 5508", "REQ-3", "error-checksum", "SHOULD",
                   "an ICMP error with a wrong ICMP checksum is silently dropped", "nothing inside",
                   partial(check_error_checksum, h))
    yield scenario("RFC 5508", "REQ-5", "error-from-inside", "MUST",
                   "a host's ICMP error about an answer goes out, with the quoted packet translated",
                   "the error outside, about the public endpoint", partial(check_error_out, h))
    yield scenario("RFC 5508", "REQ-10", "time-exceeded", "MUST",
                   "a packet from inside whose TTL is 1 is dropped, and its sender gets an ICMP error",
                   "ICMP time exceeded, and no datagram outside", partial(check_ttl_expiry, h),
                   rate_limited=True)


def fragment_clauses(h: NatHosts) -> Iterator[Clause]:
    """Return the clauses about fragmented datagrams."""
    for name, step, words in (("in-order", 1, "in order"), ("out-of-order", -1, "the last one first")):
        yield scenario("RFC 4787", "REQ-14", f"fragments-out-{name}", "MUST",
                       f"a fragmented datagram from inside arrives whole ({words})",
                       "708 octets of UDP from one public endpoint", partial(check_fragments_out, h, step))
        yield scenario("RFC 4787", "REQ-14", f"fragments-in-{name}", "MUST",
                       f"a fragmented datagram from outside arrives whole ({words})",
                       "708 octets of UDP inside",
                       partial(check_fragments_in, h, step))
# fmt: on


def check_round_trip(h: NatHosts, flow: Flow) -> Exchange:
    """Send a request out and its answer back."""
    port, server = next(h.ports), h.server(0)
    public = yield from h.try_mapping(flow, 0, port, server)
    if public is None:
        return False, "nothing, or a wrong checksum"
    if public.address not in h.view.pool:
        return False, f"the source is {public}"
    heard = yield from h.send_down(h.answer(flow, server, public))
    if h.at_host(heard, 0, flow, port):
        return True, f"mapped to {public}"
    return False, h.wire.describe(heard)


def check_independence(h: NatHosts, flow: Flow, *, taken: bool) -> Exchange:
    """Compare the public endpoints of one inside endpoint for three servers.

    Args:
        h: the NAT.
        flow: of the packets.
        taken: another host gets a mapping for the port first, so the NAT must choose.
    """
    port = next(h.ports)
    if taken:
        yield from h.open_mapping(flow, 1, port, h.server(0))
    endpoints = []
    for server in (h.server(0), h.server(0, 9), h.server(1)):
        endpoints.append((yield from h.open_mapping(flow, 0, port, server)))
    return len(set(endpoints)) == 1, ", ".join(map(str, endpoints))


def check_overloading(h: NatHosts, flow: Flow, server: int) -> Exchange:
    """Compare the public endpoints of two hosts with the same port; echo replies tell them apart.

    Args:
        h: the NAT.
        flow: of the packets.
        server: number of the second host's server.
    """
    port = next(h.ports)
    one = yield from h.open_mapping(flow, 0, port, h.server(0))
    two = yield from h.open_mapping(flow, 1, port, h.server(server))
    for host, public in ((0, one), (1, two)) if flow is ICMP_QUERY and one != two else ():
        heard = yield from h.send_down(h.answer(flow, h.server(0), public))
        if not h.at_host(heard, host, flow, port):
            return False, h.wire.describe(heard)
    return one != two, f"{one}, {two}"


def check_filtering(h: NatHosts, server: Endpoint) -> Exchange:
    """Send a datagram of a server that the host has not addressed."""
    public = yield from h.open_mapping(UDP_FLOW, 0, next(h.ports), h.server(0))
    heard = yield from h.send_down(h.answer(UDP_FLOW, server, public))
    return bool(h.find_arrivals(heard)), h.wire.describe(heard)


def check_parity(h: NatHosts) -> Exchange:
    """Open mappings from even and odd ports."""
    words = []
    for number in range(MAPPINGS_PER_CLAUSE):
        port = next(p for p in h.ports if p % 2 == PARITIES >> number & 1)
        public = yield from h.open_mapping(UDP_FLOW, 0, port, h.server(0))
        words.append(f"{port} to {public.port}")
        if (public.port - port) % 2:
            return False, words[-1]
    return True, ", ".join(words[:2]) + ", ..."


def check_port(h: NatHosts, *, is_preserved: bool) -> Exchange:
    """Compare the public port of a new mapping with its inside port, or with 1024."""
    port = next(h.ports)
    public = yield from h.open_mapping(UDP_FLOW, 0, port, h.server(0))
    is_right = public.port == port if is_preserved else public.port >= WELL_KNOWN_PORTS
    return is_right, f"{port} to {public.port}"


def check_pooling(h: NatHosts) -> Exchange:
    """Open several mappings of one host."""
    addresses = set()
    for _ in range(MAPPINGS_PER_CLAUSE):
        public = yield from h.open_mapping(UDP_FLOW, 0, next(h.ports), h.server(0))
        addresses.add(str(public.address))
    return len(addresses) == 1, ", ".join(sorted(addresses))


def check_hairpinning(h: NatHosts, flow: Flow, *, checks_source: bool) -> Exchange:
    """Send a packet from one host to the public endpoint of another."""
    mine, theirs = next(h.ports), next(h.ports)
    one = yield from nat_tcp.establish(h, flow, 0, mine)
    two = yield from nat_tcp.establish(h, flow, 1, theirs)
    heard = yield from h.send(h.request(flow, 0, mine, two))
    arrived = h.at_host(heard, 1, flow, theirs)
    if not checks_source:
        return bool(arrived), h.wire.describe(heard)
    if not arrived:
        raise NotTestable("no hairpinning")
    source = source_of(arrived[0])
    return source == (h.known_address(one.address), one.port), f"the source is {source}"


def check_error_in(h: NatHosts, flow: Flow, error: Packet) -> Exchange:
    """Send a server's ICMP error about a host's request."""
    port = next(h.ports)
    public = yield from h.open_mapping(flow, 0, port, h.server(0))
    heard = yield from h.send_down(h.error(flow, h.server(0), public, error))
    return judge_error(h, heard, port)


def check_unmapped_error(h: NatHosts) -> Exchange:
    """Send an ICMP error about a public endpoint without a mapping."""
    public, error = Endpoint(h.view.pool[0], 61112), icmp_error(h.outer_version, 3, 3)
    heard = yield from h.send_down(h.error(UDP_FLOW, h.server(0), public, error))
    if not h.find_arrivals(heard):
        yield from h.open_mapping(UDP_FLOW, 0, next(h.ports), h.server(0))
    return not h.find_arrivals(heard), h.wire.describe(heard)


def check_error_keeps(h: NatHosts, flow: Flow, code: int) -> Exchange:
    """Send an answer after a destination unreachable error."""
    port, server = next(h.ports), h.server(0)
    public = yield from h.open_mapping(flow, 0, port, server)
    error = icmp_error(h.outer_version, 3, code)
    yield from h.send_down(h.error(flow, server, public, error))
    heard = yield from h.send_down(h.answer(flow, server, public))
    return bool(h.at_host(heard, 0, flow, port)), h.wire.describe(heard)


def check_error_checksum(h: NatHosts) -> Exchange:
    """Send an ICMP error with a wrong checksum, then a valid one."""
    public = yield from h.open_mapping(ICMP_QUERY, 0, next(h.ports), h.server(0))
    error = icmp_error(h.outer_version, 3, 1)
    valid = h.error(ICMP_QUERY, h.server(0), public, error)
    octets, start = bytes(valid), len(valid) - len(valid.payload)
    broken = octets[: start + 2] + bytes([octets[start + 2] ^ 0x5A]) + octets[start + 3 :]
    heard = yield Send([h.wire.frame("right", broken)])
    if not h.find_arrivals(heard) and not h.find_arrivals((yield from h.send_down(valid))):
        raise NotTestable("an error with a correct checksum does not pass either")
    return not h.find_arrivals(heard), h.wire.describe(heard)


def port_unreachable(h: NatHosts, host: int, arrived: Packet) -> Packet:
    """Return a host's ICMP error about a datagram that it received."""
    quoted = bytes(arrived)[:1280]
    error = icmp_error(h.inner_version, 3, 3) / Raw(quoted)
    return h.up(host, ip_address(arrived.src), error)


def check_error_out(h: NatHosts) -> Exchange:
    """Send a host's ICMP error about an answer."""
    port, server = next(h.ports), h.server(0)
    public = yield from h.open_mapping(UDP_FLOW, 0, port, server)
    heard = yield from h.send_down(h.answer(UDP_FLOW, server, public))
    arrived = h.at_host(heard, 0, UDP_FLOW, port)
    if not arrived:
        raise NotTestable("the answer does not reach the host")
    heard = yield from h.send(port_unreachable(h, 0, arrived[0]))
    errors = [p for p in h.wire.packets("right", heard) if is_icmp_error(p)]
    if not errors:
        return False, h.wire.describe(heard)
    if ip_address(errors[0].src) not in h.view.pool:
        return False, f"the source is {errors[0].src}"
    about, wrong = quoted_packet(errors[0]), checksum_error(errors[0])
    if about is None or (ip_address(about.dst), ports_of(about)[1]) != public:
        return False, "the quoted packet is not to the public endpoint"
    return not wrong, wrong or "as expected"


def check_hairpinned_error(h: NatHosts) -> Exchange:
    """Send a host's ICMP error about a datagram of another inside host."""
    mine, theirs = next(h.ports), next(h.ports)
    yield from h.open_mapping(UDP_FLOW, 0, mine, h.server(0))
    two = yield from h.open_mapping(UDP_FLOW, 1, theirs, h.server(0))
    heard = yield from h.send(h.request(UDP_FLOW, 0, mine, two))
    arrived = h.at_host(heard, 1, UDP_FLOW, theirs)
    if not arrived:
        raise NotTestable("no hairpinning")
    heard = yield from h.send(port_unreachable(h, 1, arrived[0]))
    return judge_error(h, heard, mine)


def check_ttl_expiry(h: NatHosts) -> Exchange:
    """Send a datagram whose TTL is 1."""
    heard = yield from h.send(h.request(UDP_FLOW, 0, next(h.ports), h.server(0), ttl=1))
    kinds = [icmp_type(p) for host, p in h.find_arrivals(heard) if host == 0]
    is_right = kinds in ([(11, 0)], [(3, 0)]) and not h.find_departures(heard, UDP_FLOW)
    return is_right, h.wire.describe(heard)


def check_fragments_out(h: NatHosts, step: int) -> Exchange:
    """Send the fragments of a host's datagram, in order or (step -1) the last one first."""
    port, server = next(h.ports), h.server(0)
    datagram = UDP_FLOW.request(h.inner_version, port, server.port)
    datagram.payload.load = data(700)
    packet = ip_header(h.own_address(0), h.known_address(server.address)) / datagram
    parts = [h.into_tunnel(0, part) for part in split(packet, port)]
    heard = yield Send([h.wire.frame("left", part) for part in parts[::step]])
    fragments = [packet for _, packet in h.find_departures(heard, UDP_FLOW)]
    sources = {ip_address(packet.src) for packet in fragments}
    is_public = len(sources) == 1 and sources <= set(h.view.pool)
    return is_public and join(fragments)[8:] == data(700), h.wire.describe(heard)


def check_fragments_in(h: NatHosts, step: int) -> Exchange:
    """Send the fragments of a server's datagram, in order or (step -1) the last one first."""
    port, server = next(h.ports), h.server(0)
    public = yield from h.open_mapping(UDP_FLOW, 0, port, server)
    answer = UDP_FLOW.answer(h.outer_version, server.port, public.port)
    answer.payload.load = data(700)
    parts = split(h.down(server, public, answer), port)
    heard = yield Send([h.wire.frame("right", part) for part in parts[::step]])
    fragments = [packet for _, packet in h.find_arrivals(heard)]
    return join(fragments)[8:] == data(700), h.wire.describe(heard)


def split(packet: Packet, identification: int) -> list[Packet]:
    """Return the two fragments of a packet."""
    octets, proto = transport_octets(dissect(bytes(packet))), protocol_of(dissect(bytes(packet)))
    pieces, start = (octets[:FRAGMENT_AT], octets[FRAGMENT_AT:]), FRAGMENT_AT // 8
    if packet.version == 6:
        header = IPv6(src=packet.src, dst=packet.dst, hlim=packet.hlim)
        first = IPv6ExtHdrFragment(nh=proto, m=1, id=identification)
        last = IPv6ExtHdrFragment(nh=proto, offset=start, id=identification)
        return [header / first / Raw(pieces[0]), header / last / Raw(pieces[1])]
    ends = {"src": packet.src, "dst": packet.dst, "proto": proto, "id": identification}
    return [IP(**ends, flags="MF") / Raw(pieces[0]), IP(**ends, frag=start) / Raw(pieces[1])]


def join(fragments: Iterable[Packet]) -> bytes:
    """Return the transport of a packet from its fragments."""
    return b"".join(transport_octets(p) for p in sorted(fragments, key=fragment_offset))
