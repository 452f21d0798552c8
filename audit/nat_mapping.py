"""Mapping, filtering, public ports and hairpinning of a NAT (RFC 4787, 5382, 5508, 6888)."""

from __future__ import annotations

from v6t.audit.nat_hosts import (
    ICMP_QUERY,
    TCP_FLOW,
    UDP_FLOW,
    Exchange,
    Flow,
    NatHosts,
    NatScenario,
    NatSession,
    NotTestable,
    source_of,
)

MAPPINGS_PER_CLAUSE = 16
WELL_KNOWN_PORTS = 1024
STRANGER_PORT = 4321
PARITIES = 0b0110100110010110
"""Parities of consecutive mappings, which no simple generator of random numbers follows."""


def check_round_trip(h: NatHosts, flow: Flow) -> Exchange:
    """Send a request out and its answer back."""
    s = NatSession(h, flow)
    if not (yield from s.send()):
        return False, "nothing, or a wrong checksum"
    if s.public.address not in h.view.pool:
        return False, f"the source is {s.public}"
    if (yield from s.answer()):
        return True, f"mapped to {s.public}"
    return False


def check_independence(h: NatHosts, flow: Flow, is_contended: bool) -> Exchange:
    """Compare the public endpoints of one inside endpoint for three servers.

    Args:
        h: the NAT.
        flow: of the packets.
        is_contended: another host gets a mapping for the port first, so the NAT must choose.
    """
    port = next(h.ports)
    if is_contended:
        yield from NatSession(h, flow, 1, port).open()
    endpoints = []
    for server in (h.server(0), h.server(0, 9), h.server(1)):
        endpoints.append((yield from NatSession(h, flow, 0, port, server).open()))
    return len(set(endpoints)) == 1, ", ".join(map(str, endpoints))


def check_overloading(h: NatHosts, flow: Flow, server: int) -> Exchange:
    """Compare the public endpoints of two hosts with the same port; echo replies tell them apart.

    Args:
        h: the NAT.
        flow: of the packets.
        server: number of the second host's server.
    """
    one = NatSession(h, flow)
    two = NatSession(h, flow, 1, one.port, h.server(server))
    yield from one.open()
    yield from two.open()
    for s in (one, two) if flow is ICMP_QUERY and one.public != two.public else ():
        if not (yield from s.answer()):
            return False
    return one.public != two.public, f"{one.public}, {two.public}"


def check_filtering(h: NatHosts, flow: Flow, server: int) -> Exchange:
    """Send a datagram or SYN from a port of a server that the host has not addressed."""
    s = yield from NatSession(h, flow).establish()
    stranger = NatSession(h, flow, 0, s.port, h.server(server, STRANGER_PORT), s.public)
    return (yield from stranger.answer("S"))


def check_parity(h: NatHosts) -> Exchange:
    """Open mappings from even and odd ports."""
    words = []
    for number in range(MAPPINGS_PER_CLAUSE):
        port = next(p for p in h.ports if p % 2 == PARITIES >> number & 1)
        public = yield from NatSession(h, UDP_FLOW, 0, port).open()
        words.append(f"{port} to {public.port}")
        if (public.port - port) % 2:
            return False, words[-1]
    return True, ", ".join(words[:2]) + ", ..."


def check_port(h: NatHosts, is_preserved: bool) -> Exchange:
    """Compare the public port of a new mapping with its inside port, or with 1024."""
    s = NatSession(h, UDP_FLOW)
    public = yield from s.open()
    is_right = public.port == s.port if is_preserved else public.port >= WELL_KNOWN_PORTS
    return is_right, f"{s.port} to {public.port}"


def check_pooling(h: NatHosts) -> Exchange:
    """Open several mappings of one host."""
    addresses = set()
    for _ in range(MAPPINGS_PER_CLAUSE):
        addresses.add(str((yield from NatSession(h, UDP_FLOW).open()).address))
    return len(addresses) == 1, ", ".join(sorted(addresses))


def check_hairpinning(h: NatHosts, flow: Flow, checks_source: bool) -> Exchange:
    """Send a packet from one host to the public endpoint of another."""
    one, two = NatSession(h, flow), NatSession(h, flow, 1)
    yield from one.establish()
    yield from two.establish()
    yield from NatSession(h, flow, 0, one.port, two.public).send()
    arrived = two.arrivals("S")
    if not checks_source:
        return bool(arrived)
    if not arrived:
        raise NotTestable("no hairpinning")
    source = source_of(arrived[0])
    return source == (
        h.known_address(one.public.address),
        one.public.port,
    ), f"the source is {source}"


# fmt: off
ROUND_TRIP = "a valid packet from a public address; the answer comes back"
ONE_ENDPOINT, TWO_ENDPOINTS = "one public endpoint for all servers", "two public endpoints"
MAPPINGS = (
    NatScenario("RFC 4787", "REQ-1", "mapped", "MUST",
                "a datagram from inside gets a public address, and its answer comes back",
                ROUND_TRIP, check_round_trip, (UDP_FLOW,), plain=True),
    NatScenario("RFC 5508", "REQ-1", "query", "MUST",
                "an echo request gets a public address, and its reply comes back with its identifier",
                ROUND_TRIP, check_round_trip, (ICMP_QUERY,), plain=True),
    *(NatScenario(rfc, section, label + "-contended" * is_contended, level,
                  f"an inside {end} has one public {end} for all servers"
                  + ", also if another host has taken the port" * is_contended,
                  ONE_ENDPOINT, check_independence, (flow, is_contended))
      for rfc, section, label, level, flow, end, is_contended in (
          ("RFC 4787", "REQ-1", "endpoint-independent", "MUST", UDP_FLOW, "endpoint", False),
          ("RFC 4787", "REQ-1", "endpoint-independent", "MUST", UDP_FLOW, "endpoint", True),
          ("RFC 5382", "REQ-1", "tcp-endpoint-independent", "MUST", TCP_FLOW, "endpoint", False),
          ("RFC 5382", "REQ-1", "tcp-endpoint-independent", "MUST", TCP_FLOW, "endpoint", True),
          ("RFC 5508", "REQ-1a", "query-independent", "SHOULD", ICMP_QUERY, "identifier", False))),
    *(NatScenario(rfc, section, f"{flow.prefix}overloading", "MUST", f"two hosts with the same {words}",
                  TWO_ENDPOINTS, check_overloading, (flow, 0))
      for rfc, section, flow, words in (
          ("RFC 4787", "REQ-3", UDP_FLOW, "port get different public endpoints"),
          ("RFC 5382", "REQ-7", TCP_FLOW, "TCP port get different public endpoints"),
          ("RFC 5508", "REQ-1", ICMP_QUERY, "identifier get their own replies"))),
    # RFC 4787, REQ-3, and RFC 5382, REQ-7, forbid it; RFC 7857, section 3, has allowed it since.
    *(NatScenario("RFC 7857", "3", f"{flow.prefix}overloading-by-server", "MAY",
                  "two hosts never share a public endpoint, not even for different servers",
                  TWO_ENDPOINTS, check_overloading, (flow, 1), nat64=("RFC 6146", section, "MUST"))
      for flow, section in ((UDP_FLOW, "3.5.1.1"), (TCP_FLOW, "3.5.2.3"))),
    NatScenario("RFC 4787", "REQ-8", "filtering-address", "SHOULD",
                "filtering is at most address-dependent: a server may answer from another port",
                "the datagram, inside", check_filtering, (UDP_FLOW, 0)),
    NatScenario("RFC 4787", "REQ-8", "filtering-endpoint", "MAY",
                "endpoint-independent filtering: any server reaches a mapped host",
                "the datagram, inside", check_filtering, (UDP_FLOW, 1)),
)
PORTS = (
    # RFC 7857, section 8, lets NATs of IPv4 omit what RFC 4787, REQ-4, recommends.
    NatScenario("RFC 7857", "8", "parity", "MAY", "the public port has the parity of the inside port",
                "even ports stay even, odd ports odd", check_parity, nat64=("RFC 6146", "3.5.1.1", "SHOULD")),
    NatScenario("RFC 4787", "4.2.1", "port-preserved", "MAY",
                "the public port is the inside port if that is free",
                "the inside port, which is free", check_port, (True,)),
    NatScenario("RFC 4787", "REQ-3a", "port-range", "SHOULD",
                "an inside port of 1024 or more gets a public port of 1024 or more",
                "a public port of 1024 or more", check_port, (False,)),
)
POOLING = (
    NatScenario("RFC 6888", "REQ-2", "pooling", "MUST",
                "all mappings of a host have the same public address", "one public address", check_pooling),
)
HAIRPINS = (
    *(NatScenario(rfc, section + "a" * checks_source, f"{flow.prefix}hairpinning" + "-source" * checks_source,
                  "MUST", title.format(word), expected.format(word), check_hairpinning, (flow, checks_source))
      for rfc, section, flow, word in (("RFC 4787", "REQ-9", UDP_FLOW, "datagram"),
                                       ("RFC 5382", "REQ-8", TCP_FLOW, "SYN"))
      for checks_source, title, expected in (
          (False, "a host's {} reaches another host by its public endpoint", "the {}, at the other host"),
          (True, "the other host sees the public endpoint as the source of the {}",
           "the public endpoint as source"))),
)
# fmt: on
