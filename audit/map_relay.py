"""The suite ``relay``: who may send what through MAP-E, MAP-T and lw4o6 relays, and who receives what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, IPv6
from scapy.packet import Packet, Raw
from v6t.audit.clause import Clause, Level, Subject, Suite
from v6t.audit.relay_hosts import (
    ICMP_NUMBER,
    SERVER_PORT,
    TCP_NUMBER,
    UDP_NUMBER,
    RelayHosts,
)
from v6t.audit.rfc6052 import prefix_requirement
from v6t.audit.rfc7599 import edge_ports, list_ports
from v6t.audit.row import Row, row_clause, row_steps
from v6t.audit.translator_hosts import data
from v6t.audit.wire import Wire, fragment_offset, transport_octets
from v6t.plugins import address_mappings
from v6t.plugins.audit_views import (
    NESTED_RULE,
    PREFIX_CUSTOMERS,
    PSID_OFFSETS,
    Customer,
    Rule,
    SharedAddressRelay,
)

_STRANGER4, _STRANGER6 = IPv4Address("198.51.100.77"), IPv6Address("2001:db8:dead::77")
_PROTOCOLS = {UDP_NUMBER: "udp", TCP_NUMBER: "tcp", ICMP_NUMBER: "icmp"}
_NESTED_CE, _NESTED_PSID, _PREFIX_HOSTS = 3, 1, 4

Place = tuple[str, str]
# RFC and section of each subject
SOURCES = {"MAP-E": ("RFC 7597", "8.1"), "MAP-T": ("RFC 7599", "8.3"), "lw4o6": ("RFC 7596", "6.2")}
DELIVERY = {"MAP-E": ("RFC 7597", "5"), "MAP-T": ("RFC 7599", "8.4"), "lw4o6": ("RFC 7596", "6.2")}
PINGS = {"MAP-E": ("RFC 7597", "8.2"), "MAP-T": ("RFC 7599", "9"), "lw4o6": ("RFC 7596", "8.1")}
FRAGMENTS = {
    "MAP-E": ("RFC 7597", "8.3.2"),
    "MAP-T": ("RFC 7599", "10.2"),
    "lw4o6": ("RFC 7596", "6.2"),
}
HAIRPINS = {"MAP-E": ("RFC 7597", "5"), "MAP-T": ("RFC 7599", "12.2"), "lw4o6": ("RFC 7596", "6.2")}
FRAGMENT_LEVELS: dict[str, Level] = {"MAP-E": "MUST", "MAP-T": "SHOULD", "lw4o6": "MAY"}
"""RFC 7596 is silent on fragments of IPv4: a packet without ports matches no entry of the binding table."""


class RelaySuite(Suite):
    """For the relays of technologies in which customers share addresses."""

    name = "relay"
    title = "MAP-E, MAP-T and lw4o6 relays: sources, port sets, identifiers, fragments, hairpin"
    core = (
        "up-udp",
        "down-udp",
        "source-port-udp",
        "source-ipv6-stranger",
        "edges-up",
        "edges-down",
    )

    def clauses(self, subject: Subject) -> Iterator[Clause]:
        view = subject.find(SharedAddressRelay)
        if view is None or self.requirement(subject):
            return
        h = RelayHosts(view)
        rows = (plain_rows, source_rows, edge_rows, delivery_rows, last_rows)
        yield from _clauses(h, subject.wire, (row for source in rows for row in source(h)))

    def requirement(self, subject: Subject) -> tuple[str, str] | None:
        """Refuse a private server behind the well-known prefix."""
        view = subject.find(SharedAddressRelay)
        if (
            view is None
            or view.dmr is None
            or address_mappings.may_represent(view.dmr, view.server)
        ):
            return None
        return prefix_requirement(view.server)

    def variant_clauses(self, subject: Subject, variant: str) -> Iterator[Clause]:
        """Return the edges of the port sets, or the clauses about nested rules and prefixes."""
        view = subject.find(SharedAddressRelay)
        if view is None or self.requirement(subject):
            return
        h = RelayHosts(view)
        rows: Iterable[Row] = ()
        if variant == NESTED_RULE and len(view.rules) > 1:
            rows = nested_rows(h, view.rules[0], view.rules[1])
        elif variant == PREFIX_CUSTOMERS:
            rows = prefix_rows(h, view.rules[0])
        elif variant in PSID_OFFSETS:
            rows = edge_rows(h, f"-a{variant.rpartition(' ')[2]}")
        yield from _clauses(h, subject.wire, rows)


def _clauses(h: RelayHosts, wire: Wire, rows: Iterable[Row]) -> Iterator[Clause]:
    for row in rows:
        control = h.plain_up() if row.side == "left" else h.plain_down()
        steps = partial(row_steps, row, wire, None if row.plain else control)
        yield row_clause(row, "", steps)


def _row(place: Place) -> partial[Row]:
    return partial(Row, rfc=place[0], section=place[1])


# fmt: off
def plain_rows(h: RelayHosts) -> Iterator[Row]:
    """Return the clauses about packets of a customer and for it, in each protocol."""
    v, me = h.view, h.view.customer
    for number, name in _PROTOCOLS.items():
        yield _row(SOURCES[v.kind])(label=f"up-{name}", level="MUST",
                  title=f"{name.upper()} of a customer's own address and port is forwarded",
                  side="left", packet=h.up(me, me.port, number), plain=number == UDP_NUMBER,
                  answer=partial(h.reach_server, [me.ipv4]), expected=f"IPv4 from {me.ipv4}")
    for number, name in _PROTOCOLS.items():
        ping = number == ICMP_NUMBER
        yield _row((PINGS if ping else DELIVERY)[v.kind])(label=f"down-{name}",
                  level="SHOULD" if ping and v.kind != "MAP-E" else "MUST",
                  title=f"{name.upper()} for a customer's address and {'identifier' if ping else 'port'} "
                  "reaches that customer",
                  side="right", packet=h.down(me.ipv4, me.port, number), plain=number == UDP_NUMBER,
                  answer=partial(h.reach_customers, [me.ipv6]), expected=f"to {me.ipv6}")


def source_rows(h: RelayHosts) -> Iterator[Row]:
    """Return the clauses about every way in which a source can be wrong."""
    v, me = h.view, h.view.customer
    at = _row(SOURCES[v.kind])
    for label, level, words, packet in _wrong_sources(h):
        yield at(label=f"source-{label}", level=level, title=f"a packet from {words} is dropped",
                  side="left", packet=packet, silent=v.kind == "MAP-E" and level == "MUST")
    sibling = v.sibling
    if v.kind != "MAP-E" and sibling is not None and v.owner(me.ipv4, sibling.port) != me.ipv6:
        yield at(label="source-told", level="SHOULD" if v.kind == "MAP-T" else "MAY",
                  title="its sender is told: source address failed ingress policy",
                  side="left", packet=h.up(me, sibling.port), answer=IPv6() / ICMPv6DestUnreach(code=5),
                  error=True)


def _wrong_sources(h: RelayHosts) -> Iterator[tuple[str, Level, str, Packet]]:
    """Return label, level, words and packet of each source that is wrong with these parameters."""
    v, me = h.view, h.view.customer
    sources: list[tuple[str, Level, str, int, dict[str, Any]]] = []
    if v.sibling is not None:
        for number, name in _PROTOCOLS.items():
            sources.append((f"port-{name}", "MUST",
                            f"{name.upper()} from a port of another customer with the same address",
                            v.sibling.port, {"protocol": number}))
        low, high = me.ports.ranges[0]
        for name, port in (("below", low - 1), ("above", high + 1)):
            sources.append((f"port-{name}", "MUST", f"the port just {name} a customer's", port, {}))
        # a port with the customer's PSID that no customer has, because its first bits are zero
        low_bits = 16 - me.ports.psid_offset - me.ports.psid_len
        excluded = (me.ports.psid + 1 << low_bits) - 1
        if me.ports.psid_offset:
            sources.append(("port-excluded", "MUST", "a port that is nobody's (A = 0)", excluded, {}))
    if v.other is not None:
        if v.tunnels:
            sources.append(("ipv4-other", "MUST", "another customer's IPv4 address", me.port,
                            {"ipv4": v.other.ipv4}))
        sources.append(("ipv6-other", "MUST", "another customer's IPv6 prefix before one's own identifier",
                        me.port, {"ipv6": _join(v.other.ipv6, me.ipv6)}))
    if v.tunnels:
        sources.append(("ipv4-stranger", "MUST", "an IPv4 address of nobody", me.port, {"ipv4": _STRANGER4}))
    sources.append(("ipv6-stranger", "MUST", "an IPv6 address outside every rule or binding",
                    me.port, {"ipv6": _STRANGER6}))
    if v.rules and v.other is not None:
        sources.append(("identifier", "MAY", "an interface identifier that contradicts the prefix",
                        me.port, {"ipv6": _join(me.ipv6, v.other.ipv6)}))
    for label, level, words, port, packet in sources:
        ends = packet.get("ipv4", me.ipv4), packet.get("ipv6", me.ipv6)
        if 0 < port < 65536 and v.owner(ends[0], port) != ends[1]:
            yield label, level, words, h.up(me, port, **packet)


def edge_rows(h: RelayHosts, suffix: str = "") -> Iterator[Row]:
    """Return the clauses about the first and last ports of the first and last range, and their neighbors."""
    v, me = h.view, h.view.customer
    at = _row(("RFC 7597", "5.1") if v.kind != "lw4o6" else SOURCES[v.kind])
    ports = edge_ports(me.ports)
    yield at(label=f"edges-up{suffix}", level="MUST",
              title=f"packets from the ports {list_ports(ports)} of a customer are forwarded",
              side="left", packet=[h.up(me, port) for port in ports],
              answer=partial(h.reach_server, [me.ipv4] * len(ports)),
              expected=f"{len(ports)} packets from {me.ipv4}")
    yield at(label=f"edges-down{suffix}", level="MUST",
              title=f"packets for the ports {list_ports(ports)} reach their customer",
              side="right", packet=[h.down(me.ipv4, port) for port in ports],
              answer=partial(h.reach_customers, [me.ipv6] * len(ports)),
              expected=f"{len(ports)} packets to {me.ipv6}")
    if not v.rules or not v.rules[0].shared:
        return
    ranges = me.ports.ranges[0], me.ports.ranges[-1]
    neighbors = sorted({p for low, high in ranges for p in (low - 1, high + 1)
                        if 0 < p < 65536 and p not in me.ports})
    owners = [ipv6 for ipv6 in (v.owner(me.ipv4, p) for p in neighbors) if ipv6 is not None]
    if neighbors:
        yield at(label=f"beside-down{suffix}", level="MUST",
                  title=f"packets for the ports {list_ports(neighbors)} reach those who own them, or nobody",
                  side="right", packet=[h.down(me.ipv4, port) for port in neighbors],
                  answer=partial(h.reach_customers, owners),
                  expected=f"{len(owners)} packets, none to {me.ipv6}")


def delivery_rows(h: RelayHosts) -> Iterator[Row]:
    """Return the clauses about fragments, ICMP errors and hairpinning."""
    v, me = h.view, h.view.customer
    ends = {"src": str(v.server), "dst": str(me.ipv4), "ttl": 61}
    octets = bytes(IP(**ends) / UDP(sport=SERVER_PORT, dport=me.port) / data(600))[20:]
    for label, words, order in (("in-order", "in order", 1), ("out-of-order", "the last first", -1)):
        parts = [IP(**ends, proto=17, id=0x2200 + order, flags="MF") / Raw(octets[:304]),
                 IP(**ends, proto=17, id=0x2200 + order, frag=38) / Raw(octets[304:])]
        yield _row(FRAGMENTS[v.kind])(label=f"fragments-{label}", level=FRAGMENT_LEVELS[v.kind],
                  title=f"a fragmented datagram for a customer arrives whole ({words})",
                  side="right", packet=parts[::order], answer=partial(_fragments_arrive, h),
                  expected=f"600 octets to {me.ipv6}")
    if v.kind != "MAP-T":  # RFC 7599, section 9: errors are mapped without a port
        at = _row(("RFC 7596", "8.1") if v.kind == "lw4o6" else ("RFC 7597", "8.2"))
        about = IP(src=str(me.ipv4), dst=str(v.server), ttl=61)
        about /= UDP(sport=me.port, dport=SERVER_PORT) / b"v6t"
        for kind, code, words in ((3, 3, "port unreachable"), (3, 4, "fragmentation needed"),
                                  (11, 0, "time exceeded")):
            mtu = {"nexthopmtu": 1400} if code == 4 else {}
            yield at(label=f"icmp-error-{kind}-{code}", level="SHOULD",
                      title=f"ICMP {words} about a customer's packet reaches it",
                      side="right", packet=IP(**ends) / ICMP(type=kind, code=code, **mtu) / about,
                      answer=partial(h.reach_customers, [me.ipv6]), expected=f"to {me.ipv6}",
                      rate_limited=False)
    # packets between CEs of MAP-T name both by their IPv4 addresses, which must differ
    partner = (v.sibling if v.tunnels else None) or v.other
    if partner is not None:
        source = v.relay if v.tunnels else h.embed_in_dmr(me.ipv4)
        yield _row(HAIRPINS[v.kind])(label="hairpin", level="MUST" if v.kind == "lw4o6" else "MAY",
                  title="a packet of a customer for another one is sent back "
                  + ("through a tunnel" if v.tunnels else "to it, from the address behind the DMR"),
                  side="left", packet=h.up(me, me.port, to=partner.ipv4, to_port=partner.port), near=True,
                  answer=partial(_check_hairpin, h, partner, source),
                  expected=f"{'in a tunnel ' if v.tunnels else ''}to {partner.ipv6} from {source}")


def last_rows(h: RelayHosts) -> Iterator[Row]:
    """Return the clauses about the rule's last CE: all its EA bits are one."""
    v = h.view
    if not v.rules or not v.rules[0].ea_len:
        return
    rule = v.rules[0]
    ipv4, psid = rule.decode_ea(rule.ce_count - 1)
    ce = Customer(rule.map_address(ipv4, psid), ipv4, rule.port_set(psid))
    if v.owner(ipv4, ce.port) != ce.ipv6:
        return  # another domain serves it
    at = _row(("RFC 7597", "5.2") if v.kind == "MAP-E" else ("RFC 7599", "8.4"))
    yield at(label="last-up", level="MUST", title="a packet of the rule's last CE is forwarded",
              side="left", packet=h.up(ce, ce.port), answer=partial(h.reach_server, [ipv4]),
              expected=f"from {ipv4}")
    yield at(label="last-down", level="MUST", title="a packet for the rule's last CE reaches it",
              side="right", packet=h.down(ipv4, ce.port), answer=partial(h.reach_customers, [ce.ipv6]),
              expected=f"to {ce.ipv6}")


def nested_rows(h: RelayHosts, outer: Rule, inner: Rule) -> Iterator[Row]:
    """Return the clauses about a rule within another: the longest IPv4 prefix decides whose an address is."""
    v = h.view
    ipv4 = inner.ipv4_prefix.network_address + _NESTED_CE
    mine = Customer(inner.map_address(ipv4, _NESTED_PSID), ipv4, inner.port_set(_NESTED_PSID))
    at = _row(("RFC 7597", "5") if v.kind == "MAP-E" else ("RFC 7599", "8.4"))
    low, title = mine.ports.ranges[0][0], "of overlapping rules the longest prefix tells: "
    yield at(label="overlap-down", level="MUST", side="right",
              title=title + "packets for an address of the inner rule reach its CE",
              packet=[h.down(ipv4, low), h.down(ipv4, mine.port)],
              answer=partial(h.reach_customers, [mine.ipv6, mine.ipv6]),
              expected=f"two packets to {mine.ipv6}")
    yield at(label="overlap-up", level="MUST", side="left",
              title=title + "packets of the inner rule's CE are forwarded",
              packet=[h.up(mine, low), h.up(mine, mine.port)],
              answer=partial(h.reach_server, [ipv4, ipv4]), expected=f"two packets from {ipv4}")
    yield at(label="overlap-outer", level="MUST", side="right", packet=h.plain_down(),
              title=title + "packets for other addresses reach the outer rule's CEs",
              answer=partial(h.reach_customers, [v.customer.ipv6]), expected=f"to {v.customer.ipv6}")
    wrong = Customer(outer.map_address(ipv4, 1), ipv4, outer.port_set(1))
    drop = partial(_row(SOURCES[v.kind]), level="MUST", side="left")
    if v.tunnels:
        yield drop(label="overlap-source", packet=h.up(wrong, wrong.port),
                   title="a packet of an outer rule's CE with an address of the inner rule is dropped")
    foreign = next(p for ends in wrong.ports.ranges for p in ends if p not in mine.ports)
    yield drop(label="overlap-port", packet=h.up(mine, foreign),
               title="a port that only the outer rule would give the inner rule's CE is not its own")


def prefix_rows(h: RelayHosts, rule: Rule) -> Iterator[Row]:
    """Return the clauses about a CE with four addresses and all their ports."""
    v, me = h.view, h.view.customer
    hosts = me.ipv4, me.ipv4 + _PREFIX_HOSTS - 1
    at = _row(("RFC 7597", "5.2") if v.kind == "MAP-E" else ("RFC 7599", "8.3"))
    # MAP-T writes the host's whole address into the identifier (RFC 7599, erratum 5225)
    sources = [me.ipv6 if v.tunnels else rule.map_address(host, 0, whole_host=True) for host in hosts]
    yield at(label="prefix-up", level="MUST", side="left",
              title="packets from the first and the last address of a CE's IPv4 prefix are forwarded",
              packet=[h.up(me, 40000, ipv4=host, ipv6=six) for host, six in zip(hosts, sources, strict=True)],
              answer=partial(h.reach_server, hosts), expected=f"from {hosts[0]} and {hosts[1]}")
    yield at(label="prefix-down", level="MUST", side="right",
              title="packets for the first and the last address of a CE's IPv4 prefix reach it",
              packet=[h.down(host, 40000) for host in hosts], answer=partial(_reach_prefix, h),
              expected=f"two packets to {me.ipv6}")
    if v.other is None:
        return
    yield at(label="prefix-other-down", level="MUST", side="right",
              title="packets for the address after a CE's IPv4 prefix reach the next CE",
              packet=h.down(hosts[1] + 1, 40000), answer=partial(h.reach_customers, [v.other.ipv6]),
              expected=f"to {v.other.ipv6}")
    if v.tunnels:
        yield _row(SOURCES[v.kind])(label="prefix-other-up", level="MUST", side="left",
                  title="a packet from the address after a CE's IPv4 prefix is dropped",
                  packet=h.up(me, 40000, ipv4=hosts[1] + 1))
# fmt: on


def _join(prefix: IPv6Address, identifier: IPv6Address) -> IPv6Address:
    return IPv6Address(int(prefix) >> 64 << 64 | int(identifier) & (1 << 64) - 1)


def _fragments_arrive(h: RelayHosts, far: list[Packet]) -> str:
    if any(p.dst != str(h.view.customer.ipv6) for p in far):
        return "a fragment for another customer"
    inner = [p for p in map(h.unwrap, far) if p is not None]
    joined = b"".join(transport_octets(p) for p in sorted(inner, key=fragment_offset))
    return "" if joined[8:] == data(600) else f"{len(joined)} octets of 608"


def _check_hairpin(h: RelayHosts, partner: Customer, source: IPv6Address, far: list[Packet]) -> str:
    wrong = [p.src for p in far if p.src != str(source)]
    return h.reach_customers([partner.ipv6], far) or (f"from {wrong[0]}" if wrong else "")


def _reach_prefix(h: RelayHosts, far: list[Packet]) -> str:
    """Check the CE's prefix only: RFC 7599 and its erratum disagree about the identifier."""
    prefixes = [int(IPv6Address(p.dst)) >> 64 for p in far if h.unwrap(p) is not None]
    mine = int(h.view.customer.ipv6) >> 64
    return "" if prefixes == [mine] * 2 else f"{len(prefixes)} packets, or to others"
