"""ICMP errors and fragments through a NAT (RFC 5508; RFC 4787, REQ-12 and REQ-14)."""

from __future__ import annotations

from ipaddress import ip_address

from scapy.layers.inet import fragment
from scapy.layers.inet6 import IPv6ExtHdrFragment, fragment6
from scapy.packet import Packet, Raw
from v6t.audit.nat_hosts import (
    ICMP_QUERY,
    UDP_FLOW,
    Endpoint,
    Exchange,
    Flow,
    NatHosts,
    NatScenario,
    NatSession,
    NotTestable,
    icmp_error,
    ip_header,
)
from v6t.audit.packets import (
    checksum_error,
    data,
    icmp_type,
    is_icmp_error,
    join_fragments,
    ports_of,
    quoted_packet,
)

FRAGMENT_AT = 400
"""Octets of transport in a first fragment."""


def check_error_in(h: NatHosts, flow: Flow, *error: int) -> Exchange:
    """Send a server's ICMP error about a host's packet."""
    s = yield from NatSession(h, flow).establish()
    yield from h.send_down(s.error(*error))
    return h.judge_error(0, s.port)


def check_error_keeps(h: NatHosts, flow: Flow, *error: int) -> Exchange:
    """Use a session after an ICMP error about it."""
    s = yield from NatSession(h, flow).establish()
    yield from h.send_down(s.error(*error))
    return (yield from s.use())


def check_unmapped_error(h: NatHosts) -> Exchange:
    """Send an ICMP error about a public endpoint without a mapping."""
    s = NatSession(h, UDP_FLOW, public=Endpoint(h.view.pool[0], 61112))
    yield from h.send_down(s.error(3, 3))
    has_passed, words = bool(h.arrivals()), h.describe()
    if not has_passed:
        yield from NatSession(h, UDP_FLOW).open()
    return not has_passed, words


def check_error_checksum(h: NatHosts) -> Exchange:
    """Send an ICMP error with a wrong checksum, then a valid one."""
    s = NatSession(h, ICMP_QUERY)
    yield from s.open()
    error = s.error(3, 1)
    octets, start = bytearray(bytes(error)), len(error) - len(error.payload)
    octets[start + 2] ^= 0x5A
    yield from h.send_down(bytes(octets))
    has_passed, words = bool(h.arrivals()), h.describe()
    if not has_passed:
        yield from h.send_down(error)
        if not h.arrivals():
            raise NotTestable("an error with a correct checksum does not pass either")
    return not has_passed, words


def send_port_unreachable(h: NatHosts, host: int, arrived: Packet) -> Exchange:
    """Send a host's ICMP error about a datagram that it received."""
    header = ip_header(h.own_address(host), ip_address(arrived.src))
    error = icmp_error(h.inner_version, 3, 3) / Raw(bytes(arrived)[:1280])
    yield from h.send_up(host, header / error)
    return True


def check_error_out(h: NatHosts) -> Exchange:
    """Send a host's ICMP error about an answer."""
    s = NatSession(h, UDP_FLOW)
    yield from s.open()
    if not (yield from s.answer()):
        raise NotTestable("the answer does not reach the host")
    yield from send_port_unreachable(h, 0, s.arrivals()[0])
    errors = [p for p in h.wire.packets("right", h.heard) if is_icmp_error(p)]
    if not errors:
        return False
    if ip_address(errors[0].src) not in h.view.pool:
        return False, f"the source is {errors[0].src}"
    about, wrong = quoted_packet(errors[0]), checksum_error(errors[0])
    if about is None or (ip_address(about.dst), ports_of(about)[1]) != s.public:
        return False, "the quoted packet is not to the public endpoint"
    return not wrong, wrong or "as expected"


def check_hairpinned_error(h: NatHosts) -> Exchange:
    """Send a host's ICMP error about a datagram of another inside host."""
    one, two = NatSession(h, UDP_FLOW), NatSession(h, UDP_FLOW, 1)
    yield from one.open()
    yield from two.open()
    yield from NatSession(h, UDP_FLOW, 0, one.port, two.public).send()
    if not two.arrivals():
        raise NotTestable("no hairpinning")
    yield from send_port_unreachable(h, 1, two.arrivals()[0])
    return h.judge_error(0, one.port)


def check_ttl_expiry(h: NatHosts) -> Exchange:
    """Send a datagram whose TTL is 1."""
    yield from h.send_up(0, NatSession(h, UDP_FLOW).request(ttl=1))
    kinds = [icmp_type(packet) for host, packet in h.arrivals() if host == 0]
    return kinds in ([(11, 0)], [(3, 0)]) and not h.departures(UDP_FLOW)


def check_fragments_out(h: NatHosts, step: int) -> Exchange:
    """Send the fragments of a host's datagram, in order or (step -1) the last one first."""
    s = NatSession(h, UDP_FLOW)
    yield from h.send_up(0, *split(s.request(), s.port)[::step])
    fragments = h.departures(UDP_FLOW)
    sources = {ip_address(packet.src) for packet in fragments}
    is_public = len(sources) == 1 and sources <= set(h.view.pool)
    return is_public and join_fragments(fragments)[8:] == data(700), h.describe()


def check_fragments_in(h: NatHosts, step: int) -> Exchange:
    """Send the fragments of a server's datagram, in order or (step -1) the last one first."""
    s = NatSession(h, UDP_FLOW)
    yield from s.open()
    yield from h.send_down(*split(s.prepare().pending[0], s.port)[::step])
    return join_fragments(packet for _, packet in h.arrivals())[8:] == data(700)


def split(packet: Packet, identification: int) -> list[Packet]:
    """Return the fragments of a datagram of 708 octets."""
    packet.payload.payload.load = data(700)
    if packet.version == 4:
        packet.id = identification
        return fragment(packet, FRAGMENT_AT)
    transport = packet.payload
    packet.remove_payload()
    whole = packet / IPv6ExtHdrFragment(id=identification) / transport
    return fragment6(whole, 48 + FRAGMENT_AT)


# fmt: off
ERRORS = (
    NatScenario("RFC 5508", "REQ-7", "hairpinned-error", "MUST",
                "an ICMP error between two hosts inside is translated both ways",
                "the error, at the first host, about its own datagram", check_hairpinned_error),
    *(NatScenario("RFC 5508", "REQ-4", f"{flow.prefix}error-{kind}-{code}", "MUST",
                  f"ICMP {words} reaches the host, with the quoted packet translated",
                  "the error inside, about the host's own packet", check_error_in, (flow, kind, code, mtu))
      for flow, kind, code, mtu, words in (
          (UDP_FLOW, 3, 3, 0, "port unreachable about a mapped datagram"),
          (UDP_FLOW, 3, 4, 1400, "fragmentation needed about a mapped datagram"),
          (UDP_FLOW, 11, 0, 0, "time exceeded about a mapped datagram"),
          (ICMP_QUERY, 3, 1, 0, "host unreachable about an echo request"),
          (ICMP_QUERY, 11, 0, 0, "time exceeded about an echo request"))),
    NatScenario("RFC 5508", "REQ-4", "error-unmapped", "SHOULD",
                "an ICMP error about no mapping is silently dropped", "nothing inside", check_unmapped_error),
    NatScenario("RFC 4787", "REQ-12", "error-keeps-mapping", "MUST", "an ICMP error ends no mapping",
                "the answer after the error, inside", check_error_keeps, (UDP_FLOW, 3, 3)),
    NatScenario("RFC 5508", "REQ-6", "query-error-keeps", "MUST",
                "an ICMP error about a query ends no session",
                "the reply after the error, inside", check_error_keeps, (ICMP_QUERY, 3, 1)),
    NatScenario("RFC 5508", "REQ-3", "error-checksum", "SHOULD",
                "an ICMP error with a wrong ICMP checksum is silently dropped",
                "nothing inside", check_error_checksum),
    NatScenario("RFC 5508", "REQ-5", "error-from-inside", "MUST",
                "a host's ICMP error about an answer goes out, with the quoted packet translated",
                "the error outside, about the public endpoint", check_error_out),
    NatScenario("RFC 5508", "REQ-10", "time-exceeded", "MUST",
                "a packet from inside whose TTL is 1 is dropped, and its sender gets an ICMP error",
                "ICMP time exceeded, and no datagram outside", check_ttl_expiry, rate_limited=True),
)
FRAGMENTS = tuple(
    NatScenario("RFC 4787", "REQ-14", f"fragments-{direction}-{name}", "MUST",
                f"a fragmented datagram from {origin} arrives whole ({words})", expected, exchange, (step,))
    for name, step, words in (("in-order", 1, "in order"), ("out-of-order", -1, "the last one first"))
    for direction, origin, expected, exchange in (
        ("out", "inside", "708 octets of UDP from one public endpoint", check_fragments_out),
        ("in", "outside", "708 octets of UDP inside", check_fragments_in))
)
# fmt: on
