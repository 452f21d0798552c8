"""Mapping, filtering, hairpinning, ICMP errors and fragments of a NAT (RFC 4787, 5382, 5508, 6888)."""

from collections.abc import Sequence

from v6t.audit.clause import Talk
from v6t.audit.ip_packet import Endpoint, IPPacket, find_checksum_error, find_packet, join_fragments
from v6t.audit.nat_session import NatHosts, NatSession, Result, build_error, require, row
from v6t.audit.packets import data, split

PREFIXES = {"udp": "", "tcp": "tcp-", "icmp": "query-"}  # of labels
MAPPINGS_PER_CLAUSE = 16
WELL_KNOWN_PORTS = 1024
STRANGER_PORT = 4321
# parities of consecutive mappings, which no simple generator of random numbers follows
PARITIES = 0b0110100110010110
QUOTED_MTU = 1400  # of ICMP fragmentation needed
FRAGMENT_AT = 400  # octets of transport in a first fragment


def _check_round_trip(h: NatHosts, protocol: str) -> Talk[Result]:
    s = NatSession(h, protocol)
    if not (yield from s.send()):
        return "nothing, or a wrong checksum"
    if s.public.address not in h.view.pool:
        return f"the source is {s.public}"
    return (yield from s.answer()) and (True, f"mapped to {s.public}")


def _check_independence(h: NatHosts, protocol: str, is_contended: bool) -> Talk[Result]:
    port, endpoints = next(h.ports), []
    if is_contended:
        yield from NatSession(h, protocol, 1, port).open()
    for server in (h.server(0), h.server(0, 9), h.server(1)):
        endpoints.append((yield from NatSession(h, protocol, 0, port, server).open()))
    return len(set(endpoints)) == 1, ", ".join(map(str, endpoints))


def _check_overloading(h: NatHosts, protocol: str, server: int) -> Talk[Result]:
    one = NatSession(h, protocol)
    two = NatSession(h, protocol, 1, one.port, h.server(server))
    yield from one.open()
    yield from two.open()
    for s in (one, two) if protocol == "icmp" and one.public != two.public else ():
        if not (yield from s.answer()):
            return False
    return one.public != two.public, f"{one.public}, {two.public}"


def _check_filtering(h: NatHosts, protocol: str, server: int) -> Talk[Result]:
    """Send a datagram or SYN from a server port that the host has not contacted."""
    s = yield from NatSession(h, protocol).establish()
    stranger = NatSession(h, protocol, 0, s.port, h.server(server, STRANGER_PORT), s.public)
    return (yield from stranger.answer("S"))


def _check_parity(h: NatHosts) -> Talk[Result]:
    words = []
    for number in range(MAPPINGS_PER_CLAUSE):
        port = next(p for p in h.ports if p % 2 == PARITIES >> number & 1)
        public = yield from NatSession(h, "udp", 0, port).open()
        words.append(f"{port} to {public.port}")
        if (public.port - port) % 2:
            return words[-1]
    return True, ", ".join(words[:2]) + ", ..."


def _check_port(h: NatHosts, is_preserved: bool) -> Talk[Result]:
    s = NatSession(h, "udp")
    public = yield from s.open()
    is_right = public.port == s.port if is_preserved else public.port >= WELL_KNOWN_PORTS
    return is_right, f"{s.port} to {public.port}"


def _check_pooling(h: NatHosts) -> Talk[Result]:
    addresses = set()
    for _ in range(MAPPINGS_PER_CLAUSE):
        addresses.add(str((yield from NatSession(h, "udp").open()).address))
    return len(addresses) == 1, ", ".join(sorted(addresses))


def _send_hairpin(h: NatHosts, protocol: str) -> Talk[tuple[NatSession, NatSession]]:
    one, two = NatSession(h, protocol), NatSession(h, protocol, 1)
    yield from one.establish()
    yield from two.establish()
    yield from NatSession(h, protocol, 0, one.port, two.public).send()
    return one, two


def _check_hairpinning(h: NatHosts, protocol: str, is_about_source: bool) -> Talk[Result]:
    one, two = yield from _send_hairpin(h, protocol)
    arrived = two.list_arrivals("S")
    if not is_about_source:
        return bool(arrived)
    require(arrived, "no hairpinning")
    source = arrived[0].read_endpoint()
    expected = h.get_known_address(one.public.address), one.public.port
    return source == expected, f"the source is {source}"


def _check_error(h: NatHosts, ends_session: bool, protocol: str, *error: int) -> Talk[Result]:
    """Send a server's ICMP error about a host's packet; judge the error, or the session after it."""
    s = yield from NatSession(h, protocol).establish()
    yield from h.send("right", s.error(*error, QUOTED_MTU if error == (3, 4) else 0))
    return (yield from s.use()) if ends_session else _judge_error(s)


def _judge_error(s: NatSession) -> Result:
    own_end = Endpoint(s.h.get_own_address(s.host), s.port)
    return _judge_quote(s.h.list_errors(s.host), own_end, is_source=True)


def _judge_quote(errors: Sequence[IPPacket], end: Endpoint, *, is_source: bool) -> Result:
    """Judge the first error, which must quote a packet from, or to, an endpoint."""
    if not errors:
        return False
    about = find_packet(errors[0].octets[8:])
    quoted = about and about.read_endpoint(is_source=is_source)
    if quoted != end:
        return f"a packet {'from' if is_source else 'to'} {quoted} is quoted"
    return find_checksum_error(errors[0])


def _check_unmapped_error(h: NatHosts) -> Talk[Result]:
    s = NatSession(h, "udp", public=Endpoint(h.view.pool[0], 61112))
    yield from h.send("right", s.error(3, 3))
    has_passed, words = bool(h.list_arrivals()), h.describe()
    if not has_passed:
        yield from NatSession(h, "udp").open()
    return not has_passed, words


def _check_error_checksum(h: NatHosts) -> Talk[Result]:
    s = NatSession(h, "icmp")
    yield from s.open()
    error = s.error(3, 1)
    octets = bytearray(bytes(error))
    octets[len(error) - len(error.payload) + 2] ^= 0x5A
    yield from h.send("right", bytes(octets))
    if h.list_arrivals():
        return False
    words = h.describe()
    yield from h.send("right", error)
    require(h.list_arrivals(), "an error with a correct checksum does not pass either")
    return True, words


def _send_port_unreachable(h: NatHosts, host: int, arrived: IPPacket) -> Talk[None]:
    ends = h.get_own_address(host), arrived.src
    yield from h.send_up(host, build_error(*ends, bytes(arrived)[:1280], 3, 3))


def _check_error_out(h: NatHosts) -> Talk[Result]:
    s = NatSession(h, "udp")
    yield from s.open()
    has_arrived = yield from s.answer()
    require(has_arrived, "the answer does not reach the host")
    yield from _send_port_unreachable(h, 0, s.list_arrivals()[0])
    errors = [p for p in h.list_departures() if p.is_error]
    if errors and errors[0].src not in h.view.pool:
        return f"the source is {errors[0].src}"
    return _judge_quote(errors, s.public, is_source=False)


def _check_hairpinned_error(h: NatHosts) -> Talk[Result]:
    one, two = yield from _send_hairpin(h, "udp")
    require(two.list_arrivals(), "no hairpinning")
    yield from _send_port_unreachable(h, 1, two.list_arrivals()[0])
    return _judge_error(one)


def _check_ttl_expiry(h: NatHosts) -> Talk[Result]:
    yield from h.send_up(0, NatSession(h, "udp").build(ttl=1))
    kinds = [packet.message for host, packet in h.list_arrivals() if host == 0]
    return kinds in ([(11, 0)], [(3, 0)]) and not h.list_departures("udp")


def _check_fragments(h: NatHosts, is_outbound: bool, step: int) -> Talk[Result]:
    s = NatSession(h, "udp")
    if not is_outbound:
        yield from s.open()
    packet = s.build(is_answer=not is_outbound)
    packet.payload.payload.load = data(700)
    pieces = split(packet, FRAGMENT_AT, s.port)[::step]
    yield from h.send_up(0, *pieces) if is_outbound else h.send("right", *pieces)
    arrived = h.list_departures("udp") if is_outbound else [p for _, p in h.list_arrivals()]
    sources = {packet.src for packet in arrived}
    is_public = not is_outbound or (len(sources) == 1 and sources <= set(h.view.pool))
    return is_public and join_fragments(arrived)[8:] == data(700)


# fmt: off
ERRORS = {(3, 1): "host unreachable", (3, 3): "port unreachable", (3, 4): "fragmentation needed",
          (11, 0): "time exceeded"}  # by ICMP type and code
ROUND_TRIP = "a valid packet from a public address; the answer comes back"
ONE_ENDPOINT, TWO_ENDPOINTS = "one public endpoint for all servers", "two public endpoints"
ROWS = (
    row("4787 REQ-1 mapped MUST", "a datagram from inside gets a public address, and its answer comes back",
        ROUND_TRIP, _check_round_trip, "udp", plain=True),
    row("5508 REQ-1 query MUST",
        "an echo request gets a public address, and its reply comes back with its identifier",
        ROUND_TRIP, _check_round_trip, "icmp", plain=True),
    *(row(f"{place}{'-contended' * is_contended} {level}",
          f"an inside {end} has one public {end} for all servers"
          + ", also if another host has taken the port" * is_contended,
          ONE_ENDPOINT, _check_independence, protocol, is_contended)
      for place, level, protocol, end, is_contended in (
          ("4787 REQ-1 endpoint-independent", "MUST", "udp", "endpoint", False),
          ("4787 REQ-1 endpoint-independent", "MUST", "udp", "endpoint", True),
          ("5382 REQ-1 tcp-endpoint-independent", "MUST", "tcp", "endpoint", False),
          ("5382 REQ-1 tcp-endpoint-independent", "MUST", "tcp", "endpoint", True),
          ("5508 REQ-1a query-independent", "SHOULD", "icmp", "identifier", False))),
    *(row(f"{place} {PREFIXES[protocol]}overloading MUST", f"two hosts with the same {words}",
          TWO_ENDPOINTS, _check_overloading, protocol, 0)
      for place, protocol, words in (
          ("4787 REQ-3", "udp", "port get different public endpoints"),
          ("5382 REQ-7", "tcp", "TCP port get different public endpoints"),
          ("5508 REQ-1", "icmp", "identifier get their own replies"))),
    # RFC 4787, REQ-3, and RFC 5382, REQ-7, forbid it; RFC 7857, section 3, has allowed it since.
    *(row(f"7857 3 {PREFIXES[protocol]}overloading-by-server MAY",
          "two hosts never share a public endpoint, not even for different servers",
          TWO_ENDPOINTS, _check_overloading, protocol, 1, nat64=f"6146 {section} MUST")
      for protocol, section in (("udp", "3.5.1.1"), ("tcp", "3.5.2.3"))),
    *(row(f"{place} {PREFIXES[protocol]}filtering-{label} {level}", title.format(action),
          f"the {word}, inside", _check_filtering, protocol, server)
      for place, protocol, word, action in (
          ("4787 REQ-8", "udp", "datagram", "send a mapped host a datagram"),
          ("5382 REQ-3", "tcp", "SYN", "open a connection to a mapped host"))
      for label, level, title, server in (
          ("address", "SHOULD", "a server may {} from another port", 0),
          ("endpoint", "MAY", "any server may {}", 1))),
    # RFC 7857, section 8, lets NATs of IPv4 omit what RFC 4787, REQ-4, recommends.
    row("7857 8 parity MAY", "the public port has the parity of the inside port",
        "even ports stay even, odd ports odd", _check_parity, nat64="6146 3.5.1.1 SHOULD"),
    row("4787 4.2.1 port-preserved MAY", "the public port is the inside port if that is free",
        "the inside port, which is free", _check_port, True),
    row("4787 REQ-3a port-range SHOULD", "an inside port of 1024 or more gets a public port of 1024 or more",
        "a public port of 1024 or more", _check_port, False),
    *(row(f"{place}{section} {PREFIXES[protocol]}{label} MUST", title.format(word), expected.format(word),
          _check_hairpinning, protocol, section == "a")
      for place, protocol, word in (("4787 REQ-9", "udp", "datagram"), ("5382 REQ-8", "tcp", "SYN"))
      for section, label, title, expected in (
          ("", "hairpinning",
           "a host's {} reaches another host by its public endpoint", "the {}, at the other host"),
          ("a", "hairpinning-source",
           "the other host sees the public endpoint as the source of the {}",
           "the public endpoint as source"))),
    row("5508 REQ-7 hairpinned-error MUST", "an ICMP error between two hosts inside is translated both ways",
        "the error at the first host, about that host's datagram", _check_hairpinned_error),
    *(row(f"{place} {PREFIXES[protocol]}error-{kind}-{code} {level}",
          f"ICMP {ERRORS[kind, code]} about {words} reaches the host, with the quoted packet translated",
          "the error inside, about the host's packet", _check_error, False, protocol, kind, code)
      for place, level, protocol, words, errors in (
          ("5508 REQ-4", "MUST", "udp", "a mapped datagram", ((3, 3), (3, 4), (11, 0))),
          ("5508 REQ-4", "MUST", "icmp", "an echo request", ((3, 1), (11, 0))),
          ("5382 REQ-9", "SHOULD", "tcp", "a connection", ((3, 1), (3, 3), (3, 4))))
      for kind, code in errors),
    *(row(f"5382 REQ-10 tcp-error-keeps-{kind}-{code} MUST", f"ICMP {words} does not end a connection",
          "data both ways after the error", _check_error, True, "tcp", kind, code)
      for (kind, code), words in ERRORS.items()),
    row("5508 REQ-4 error-unmapped SHOULD", "an ICMP error that matches no mapping is silently dropped",
        "nothing inside", _check_unmapped_error),
    row("4787 REQ-12 error-keeps-mapping MUST", "an ICMP error does not end a mapping",
        "the answer after the error, inside", _check_error, True, "udp", 3, 3),
    row("5508 REQ-6 query-error-keeps MUST", "an ICMP error about a query does not end a session",
        "the reply after the error, inside", _check_error, True, "icmp", 3, 1),
    row("5508 REQ-3 error-checksum SHOULD", "an ICMP error with a wrong ICMP checksum is silently dropped",
        "nothing inside", _check_error_checksum),
    row("5508 REQ-5 error-from-inside MUST",
        "a host's ICMP error about an answer is forwarded with the quoted packet translated",
        "the error outside, about the public endpoint", _check_error_out),
    row("5508 REQ-10 time-exceeded MUST",
        "a packet from inside whose TTL is 1 is dropped, and its sender gets an ICMP error",
        "ICMP time exceeded, and no datagram outside", _check_ttl_expiry, rate_limited=True),
    *(row(f"4787 REQ-14 fragments-{direction}-{name} MUST",
          f"a fragmented datagram from {origin} arrives completely ({words})", expected,
          _check_fragments, direction == "out", step)
      for name, step, words in (("in-order", 1, "in order"), ("out-of-order", -1, "last fragment first"))
      for direction, origin, expected in (
          ("out", "inside", "708 octets of UDP from one public endpoint"),
          ("in", "outside", "708 octets of UDP inside"))),
)
POOLING = row("6888 REQ-2 pooling MUST", "all mappings of a host have the same public address",
              "one public address", _check_pooling)
# fmt: on
