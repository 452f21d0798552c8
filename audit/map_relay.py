"""The suite ``relay``: who may send what through MAP-E, MAP-T and lw4o6 relays, and who receives what."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from scapy.layers.inet import ICMP, IP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet
from v6t.audit.clause import Clause, Level, Requirement, Subject, Suite
from v6t.audit.customer_edge import (
    STRANGER6,
    STRANGERS4,
    find_edge_ports,
    find_neighbor_ports,
    format_ports,
)
from v6t.audit.ip_packet import PROTOCOLS, IPPacket, find_inner_packet, join_fragments
from v6t.audit.packets import SERVER_PORT, data, datagram, header, icmp6, split, transport
from v6t.audit.row import LinkHosts, Row, make_row_clauses
from v6t.audit.translation import find_prefix_requirement
from v6t.plugins import audit_views as views
from v6t.plugins.audit_views import Customer, SharedAddressRelay, SideName
from v6t.plugins.translation import embed_ipv4

KINDS = ("MAP-E", "MAP-T", "lw4o6")
SECTIONS = {
    "sources": ("7597 8.1", "7599 8.3", "7596 6.2"),
    "delivery": ("7597 5", "7599 8.4", "7596 6.2"),
    "pings": ("7597 8.2", "7599 9", "7596 8.1"),
    "errors": ("7597 8.2", "", "7596 8.1"),
    "fragments": ("7597 8.3.2", "7599 10.2", "7596 6.2"),
    "hairpin": ("7597 5", "7599 12.2", "7596 6.2"),
    "ports": ("7597 5.1", "7597 5.1", "7596 6.2"),
    "last CE": ("7597 5.2", "7599 8.4", ""),
    "overlap": ("7597 5", "7599 8.4", ""),
    "prefixes": ("7597 5.2", "7599 8.3", ""),
}  # RFC and section of each subject, for each kind of relay
# RFC 7596 is silent on fragments of IPv4: a packet without ports matches no entry of the binding table
FRAGMENT_LEVELS: dict[str, Level] = {"MAP-E": "MUST", "MAP-T": "SHOULD", "lw4o6": "MAY"}


class RelaySuite(Suite):
    """Clauses for relays whose customers share IPv4 addresses."""

    name = "relay"
    core = ("up-udp", "down-udp", "edges-up", "edges-down", "port-udp", "ipv6-stranger")

    def list_clauses(self, subject: Subject, variant: str = "") -> Iterable[Clause]:
        view = subject.find(SharedAddressRelay)
        if view is None or self.find_requirement(subject):
            return ()
        offsets = enumerate(views.PSID_OFFSETS)
        sources = {
            "": (
                _make_plain_rows,
                _make_source_rows,
                _make_edge_rows,
                _make_delivery_rows,
                _make_last_rows,
            ),
            views.NESTED_RULE: (_make_nested_rows,) if len(view.rules) > 1 else (),
            views.CE_PREFIXES: (_make_prefix_rows,),
            **{variant: (partial(_make_edge_rows, suffix=f"-a{n}"),) for n, variant in offsets},
        }
        return make_row_clauses(RelayHosts(view), subject.wire, *sources.get(variant, ()))

    def find_requirement(self, subject: Subject) -> Requirement:
        view = subject.find(SharedAddressRelay)
        return find_prefix_requirement(view.dmr, [view.server]) if view else None


@dataclass(frozen=True)
class RelayHosts(LinkHosts):
    """Customers of a relay, whose packets go ``up``, and a server, whose packets go ``down``."""

    view: SharedAddressRelay

    def row(self, subject: str, *rest: Any, **fields: Any) -> Row:
        rfc, section = SECTIONS[subject][KINDS.index(self.view.kind)].split()
        return Row(f"RFC {rfc}", section, *rest, **fields)

    def up(self, me: Customer, port: int, name: str = "udp", to: Customer | None = None) -> Packet:
        v = self.view
        target, to_port = (to.ipv4, to.port) if to else (v.server, SERVER_PORT)
        if v.encapsulates:
            inner = header(me.ipv4, target) / transport(name, port, to_port)
            return header(me.ipv6, v.relay) / inner
        destination = embed_ipv4(v.dmr, target) if to else v.relay  # type: ignore[arg-type]
        return header(me.ipv6, destination) / transport(name, port, to_port, 6)

    def down(self, ipv4: IPv4Address, port: int, name: str = "udp") -> Packet:
        return header(self.view.server, ipv4) / transport(name, SERVER_PORT, port)

    def plain(self, side: SideName) -> Packet:
        me = self.view.customer
        return self.up(me, me.port) if side == "left" else self.down(me.ipv4, me.port)

    def to_server(self, source: IPv4Address) -> Packet:
        return IP(src=str(source), dst=str(self.view.server))

    def to_customer(self, ipv6: IPv6Address, **fields: Any) -> Packet:
        template = IPv6(dst=str(ipv6), **fields)
        return template / IP() if self.view.encapsulates else template


# fmt: off
def _make_plain_rows(h: RelayHosts) -> Iterator[Row]:
    v, me = h.view, h.view.customer
    for name in PROTOCOLS:
        yield h.row("sources", f"up-{name}",
                    f"{name.upper()} with a customer's address and port is forwarded",
                    h.up(me, me.port, name), h.to_server(me.ipv4), plain=name == "udp")
    for name in PROTOCOLS:
        subject, words = ("pings", "identifier") if name == "icmp" else ("delivery", "port")
        yield h.row(subject, f"down-{name}",
                    f"{name.upper()} for a customer's address and {words} reaches that customer",
                    h.down(me.ipv4, me.port, name), h.to_customer(me.ipv6),
                    "SHOULD" if name == "icmp" and v.kind != "MAP-E" else "MUST", side="right",
                    plain=name == "udp")


def _make_source_rows(h: RelayHosts) -> Iterator[Row]:
    v, me, sibling, other = h.view, h.view.customer, h.view.sibling, h.view.other

    def drop(label: str, words: str, port: int = me.port, protocol: str = "udp", level: Level = "MUST",
             customer: Customer = me) -> Iterator[Row]:
        if 0 < port < 65536 and v.find_customer(customer.ipv4, port) != customer.ipv6:
            yield h.row("sources", f"source-{label}", f"a packet from {words} is dropped",
                        h.up(customer, port, protocol), level=level,
                        silent=v.kind == "MAP-E" and level == "MUST")

    if sibling is not None:
        for name in PROTOCOLS:
            yield from drop(f"port-{name}",
                            f"{name.upper()} from a port of another customer with the same address",
                            sibling.port, name)
        low, high = me.ports.ranges[0]
        yield from drop("port-below", "the port just below a customer's", low - 1)
        yield from drop("port-above", "the port just above a customer's", high + 1)
        if me.ports.psid_offset:
            # a port with the customer's PSID that no customer has, because its first bits are zero
            low_bits = 16 - me.ports.psid_offset - me.ports.psid_len
            yield from drop("port-excluded", "a port that belongs to no customer (A = 0)",
                            (me.ports.psid + 1 << low_bits) - 1)
    if other is not None:
        if v.encapsulates:
            yield from drop("ipv4-other", "another customer's IPv4 address",
                            customer=replace(me, ipv4=other.ipv4))
        yield from drop("ipv6-other", "another customer's IPv6 prefix with the customer's interface "
                                      "identifier",
                        customer=replace(me, ipv6=_join(other.ipv6, me.ipv6)))
    if v.encapsulates:
        yield from drop("ipv4-stranger", "an IPv4 address outside every rule or binding",
                        customer=replace(me, ipv4=STRANGERS4[0]))
    yield from drop("ipv6-stranger", "an IPv6 address outside every rule or binding",
                    customer=replace(me, ipv6=STRANGER6))
    if v.rules and other is not None:
        yield from drop("identifier", "an interface identifier that contradicts the prefix", level="MAY",
                        customer=replace(me, ipv6=_join(me.ipv6, other.ipv6)))
    if v.kind != "MAP-E" and sibling is not None and v.find_customer(me.ipv4, sibling.port) != me.ipv6:
        yield h.row("sources", "source-told", "its sender receives the error source address failed ingress "
                                              "policy",
                    h.up(me, sibling.port), IPv6() / icmp6(1, code=5),
                    "SHOULD" if v.kind == "MAP-T" else "MAY", error=True)


def _make_edge_rows(h: RelayHosts, suffix: str = "") -> Iterator[Row]:
    v, me, ports = h.view, h.view.customer, find_edge_ports(h.view.customer.ports)
    yield h.row("ports", f"edges-up{suffix}",
                f"packets from the ports {format_ports(ports)} of a customer are forwarded",
                [h.up(me, port) for port in ports], [h.to_server(me.ipv4)] * len(ports))
    yield h.row("ports", f"edges-down{suffix}",
                f"packets for the ports {format_ports(ports)} reach their customer",
                [h.down(me.ipv4, port) for port in ports], [h.to_customer(me.ipv6)] * len(ports),
                side="right")
    neighbors = find_neighbor_ports(me.ports) if me.ports.psid_len else []
    owners = list(filter(None, (v.find_customer(me.ipv4, p) for p in neighbors)))
    if neighbors:
        yield h.row("ports", f"beside-down{suffix}",
                    f"packets for the ports {format_ports(neighbors)} are dropped or reach the customers "
                    "that own them",
                    [h.down(me.ipv4, port) for port in neighbors], list(map(h.to_customer, owners)),
                    side="right")


def _make_delivery_rows(h: RelayHosts) -> Iterator[Row]:
    v, me = h.view, h.view.customer
    original = datagram((v.server, SERVER_PORT), (me.ipv4, me.port), data(600))
    for label, words, order in (("in-order", "in order", 1), ("out-of-order", "last fragment first", -1)):
        yield h.row("fragments", f"fragments-{label}",
                    f"a fragmented datagram for a customer arrives completely ({words})",
                    split(original, 304, 0x2200 + order)[::order], partial(_check_fragments, h),
                    FRAGMENT_LEVELS[v.kind], side="right")
    if v.kind != "MAP-T":  # RFC 7599, section 9: errors are mapped without a port
        about = datagram((me.ipv4, me.port), (v.server, SERVER_PORT), b"v6t")
        for kind, code, words in ((3, 3, "port unreachable"), (3, 4, "fragmentation needed"),
                                  (11, 0, "time exceeded")):
            mtu = {"nexthopmtu": 1400} if code == 4 else {}
            yield h.row("errors", f"icmp-error-{kind}-{code}",
                        f"ICMP {words} about a customer's packet reaches the customer",
                        header(v.server, me.ipv4) / ICMP(type=kind, code=code, **mtu) / about,
                        h.to_customer(me.ipv6), "SHOULD" if v.kind == "lw4o6" else "MAY", side="right")
    # packets between CEs of MAP-T name both by their IPv4 addresses, which must differ
    partner = (v.sibling if v.encapsulates else None) or v.other
    if partner is not None:
        words = "through a tunnel" if v.encapsulates else "with a source address behind the DMR"
        source = v.relay if v.encapsulates else embed_ipv4(v.dmr, me.ipv4)  # type: ignore[arg-type]
        yield h.row("hairpin", "hairpin", f"a packet from one customer to another is sent back {words}",
                    h.up(me, me.port, to=partner), h.to_customer(partner.ipv6, src=str(source)),
                    "MUST" if v.kind == "lw4o6" else "MAY", near=True)


def _make_last_rows(h: RelayHosts) -> Iterator[Row]:
    v = h.view
    if not v.rules or not v.rules[0].ea_len:
        return
    rule = v.rules[0]
    ipv4, psid = rule.decode_ea(rule.ce_count - 1)
    ce = Customer(rule.map_address(ipv4, psid), ipv4, rule.make_port_set(psid))
    if v.find_customer(ipv4, ce.port) != ce.ipv6:
        return  # another domain serves it
    yield h.row("last CE", "last-up", "a packet of the rule's last CE is forwarded",
                h.up(ce, ce.port), h.to_server(ipv4))
    yield h.row("last CE", "last-down", "a packet for the rule's last CE reaches it",
                h.down(ipv4, ce.port), h.to_customer(ce.ipv6), side="right")


def _make_nested_rows(h: RelayHosts) -> Iterator[Row]:
    v, (outer, inner) = h.view, h.view.rules[:2]
    ipv4, title = inner.ipv4_prefix.network_address + 3, "the longest prefix of overlapping rules applies: "
    mine, wrong = (Customer(r.map_address(ipv4, 1), ipv4, r.make_port_set(1)) for r in (inner, outer))
    ports = mine.ports.ranges[0][0], mine.port
    yield h.row("overlap", "overlap-down", title + "packets for an address of the inner rule reach its CE",
                [h.down(ipv4, port) for port in ports], [h.to_customer(mine.ipv6)] * 2, side="right")
    yield h.row("overlap", "overlap-up", title + "packets of the inner rule's CE are forwarded",
                [h.up(mine, port) for port in ports], [h.to_server(ipv4)] * 2)
    yield h.row("overlap", "overlap-outer", title + "packets for other addresses reach the outer rule's CEs",
                h.plain("right"), h.to_customer(v.customer.ipv6), side="right")
    if v.encapsulates:
        yield h.row("sources", "overlap-source",
                    "a packet of an outer rule's CE with an address of the inner rule is dropped",
                    h.up(wrong, wrong.port))
    foreign = next(p for ends in wrong.ports.ranges for p in ends if p not in mine.ports)
    yield h.row("sources", "overlap-port",
                "a packet with a port that the inner rule's CE would have by the outer rule only is dropped",
                h.up(mine, foreign))


def _make_prefix_rows(h: RelayHosts) -> Iterator[Row]:
    v, me, rule, port = h.view, h.view.customer, h.view.rules[0], 40000
    hosts = me.ipv4, me.ipv4 + 3
    # MAP-T writes the host's whole address into the identifier (RFC 7599, erratum 5225)
    sources = [me.ipv6 if v.encapsulates else rule.map_address(host, 0, embeds_host=True) for host in hosts]
    yield h.row("prefixes", "prefix-up",
                "packets from the first and the last address of a CE's IPv4 prefix are forwarded",
                [h.up(replace(me, ipv4=host, ipv6=six), port) for host,
                 six in zip(hosts, sources, strict=True)],
                list(map(h.to_server, hosts)))
    yield h.row("prefixes", "prefix-down",
                "packets for the first and the last address of a CE's IPv4 prefix reach it",
                [h.down(host, port) for host in hosts], partial(_check_prefix, h), side="right")
    if v.other is None:
        return
    yield h.row("prefixes", "prefix-other-down",
                "packets for the address after a CE's IPv4 prefix reach the next CE",
                h.down(hosts[1] + 1, port), h.to_customer(v.other.ipv6), side="right")
    if v.encapsulates:
        yield h.row("sources", "prefix-other-up",
                    "a packet from the address after a CE's IPv4 prefix is dropped",
                    h.up(replace(me, ipv4=hosts[1] + 1), port))
# fmt: on


def _join(prefix: IPv6Address, identifier: IPv6Address) -> IPv6Address:
    return IPv6Address(int(prefix) >> 64 << 64 | int(identifier) & (1 << 64) - 1)


def _check_fragments(h: RelayHosts, far: list[IPPacket]) -> str:
    if any(packet.dst != h.view.customer.ipv6 for packet in far):
        return "a fragment for another customer"
    inners = filter(None, map(find_inner_packet, far))
    joined = join_fragments(inners if h.view.encapsulates else far)
    return "" if joined[8:] == data(600) else f"{len(joined)} octets of 608"


def _check_prefix(h: RelayHosts, far: list[IPPacket]) -> str:
    """Check the CE's prefix only: RFC 7599 and its erratum disagree about the identifier."""
    mine = int(h.view.customer.ipv6) >> 64
    reached = [packet for packet in far if not h.view.encapsulates or find_inner_packet(packet)]
    prefixes = [int(packet.dst) >> 64 for packet in reached]
    return "" if prefixes == [mine] * 2 else f"{len(prefixes)} packets, or packets for other CEs"
