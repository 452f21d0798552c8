"""A relay of customers with shared IPv4 addresses as an audit sees it: MAP-E, MAP-T, lightweight 4over6."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import TYPE_CHECKING, Literal

from v6t.plugins.clauses.base import Exchange
from v6t.plugins.clauses.ends import Ends, refused
from v6t.plugins.clauses.packets import (
    ICMP,
    ICMPV6,
    IPIP,
    PAYLOAD,
    TCP,
    UDP,
    echo_word,
    icmp,
    icmp6,
    ip4,
    ip6,
    tcp,
    udp,
)
from v6t.plugins.clauses.reading import Packet, parsed
from v6t.plugins.common.ports import PortSet
from v6t.plugins.lw4o6.lwaftr import LightweightAftr
from v6t.plugins.lw4o6.whole import softwire
from v6t.plugins.map.mape_br import MapEBorderRelay
from v6t.plugins.map.mapt_br import MapTBorderRelay
from v6t.plugins.map.params import MapParams
from v6t.plugins.map.whole import owner as map_owner
from v6t.plugins.map_rules import MapRule
from v6t.plugins.translation import rfc6052

if TYPE_CHECKING:
    from v6t.plugins.base import Technology

SERVER_PORT = 443
Address = IPv4Address | IPv6Address
Kind = Literal["MAP-E", "MAP-T", "lw4o6"]


@dataclass(frozen=True)
class Customer:
    """A CE or lwB4.

    Attributes:
        ipv6: of it.
        ipv4: that it has a share of.
        ports: its own, in ranges.
    """

    ipv6: IPv6Address
    ipv4: IPv4Address
    ports: PortSet

    @property
    def port(self) -> int:
        """One of its ports, in the midst of its last range; never 0."""
        low, high = self.ports.ranges[-1]
        return (low + high) // 2 or high


@dataclass(frozen=True)
class RelayEnds(Ends):
    """Customers left, a server right.

    Attributes:
        kind: of the relay.
        relay: where tunnels end; of MAP-T, the server behind the DMR.
        server: beyond it.
        mine, sibling, other: customers: the second shares the first one's address, the third has another;
            the first only where there are no such.
        owner: who has an IPv4 address and a port; None: nobody.
        rule: of MAP.
        mtu6: of the customers' link.
        dmr: prefix of everybody else, of MAP-T.
    """

    kind: Kind
    relay: IPv6Address
    server: IPv4Address
    mine: Customer
    sibling: Customer | None
    other: Customer | None
    owner: Callable[[IPv4Address, int], IPv6Address | None]
    rule: MapRule | None
    mtu6: int
    dmr: IPv6Network | None = None

    @property
    def tunnels(self) -> bool:
        """IPv4 in IPv6; else translated."""
        return self.kind != "MAP-T"

    def up(
        self,
        customer: Customer,
        port: int,
        protocol: int = UDP,
        *,
        ipv4: IPv4Address | None = None,
        ipv6: IPv6Address | None = None,
        to: IPv4Address | None = None,
        ports: int = SERVER_PORT,
    ) -> bytes:
        """A packet of a customer's, perhaps with another's addresses."""
        source, outer = ipv4 or customer.ipv4, ipv6 or customer.ipv6
        if self.tunnels:
            inner = source, to or self.server
            return ip6(
                outer,
                self.relay,
                IPIP,
                ip4(*inner, protocol, _transport(inner, protocol, port, ports)),
            )
        ends = outer, self.relay if to is None else self.behind(to)
        number = ICMPV6 if protocol == ICMP else protocol
        return ip6(*ends, number, _transport(ends, protocol, port, ports))

    def down(self, ipv4: IPv4Address, port: int, protocol: int = UDP) -> bytes:
        """A packet of the server's."""
        ends = self.server, ipv4
        return ip4(*ends, protocol, _transport(ends, protocol, SERVER_PORT, port))

    def owned(self, customer: Customer, port: int) -> bool:
        """Return whether a customer may use a port of its address."""
        return self.owner(customer.ipv4, port) == customer.ipv6

    def behind(self, ipv4: IPv4Address) -> IPv6Address:
        """Who has an IPv4 address, as CEs of MAP-T name all others."""
        if self.dmr is None:
            raise ValueError("only MAP-T has a DMR")
        return rfc6052.embed(self.dmr, ipv4)

    def control(self) -> bytes:
        """A plain packet of the first customer's."""
        return self.up(self.mine, self.mine.port)

    def inner(self, packet: Packet) -> Packet | None:
        """What a customer gets: the packet in the tunnel, or the packet; None: something else."""
        if not self.tunnels:
            return packet if packet.version == 6 else None
        return parsed(packet.payload) if packet.version == 6 and packet.protocol == IPIP else None


def _transport(
    ends: tuple[Address, Address],
    protocol: int,
    source: int,
    destination: int,
) -> bytes:
    """A datagram, a segment, or an echo: request with the source port as identifier, else reply."""
    if protocol == TCP:
        return tcp(*ends, (source, destination))
    if protocol == ICMP:
        mine = source != SERVER_PORT
        number = source if mine else destination
        if isinstance(ends[0], IPv6Address) and isinstance(ends[1], IPv6Address):
            return icmp6(ends[0], ends[1], 128, 0, echo_word(number), PAYLOAD)
        return icmp(8 if mine else 0, 0, echo_word(number), PAYLOAD)
    return udp(*ends, (source, destination))


def relay(technology: Technology) -> RelayEnds | None:
    """How a technology relays; None: it is no relay."""
    links = technology.links
    if isinstance(technology, LightweightAftr):
        return _lightweight(technology)
    if isinstance(technology, MapEBorderRelay):
        p = technology.params
        return RelayEnds(
            links,
            "MAP-E",
            p.br_address,
            p.server_ipv4,
            *_customers(p),
            partial(map_owner, p.all_domains),
            p.rule,
            links.left.mtu,
        )
    if isinstance(technology, MapTBorderRelay):
        p_t = technology.params
        server = rfc6052.embed(p_t.dmr_prefix, p_t.server_ipv4)
        return RelayEnds(
            links,
            "MAP-T",
            server,
            p_t.server_ipv4,
            *_customers(p_t),
            partial(map_owner, p_t.all_domains),
            p_t.rule,
            links.left.mtu,
            p_t.dmr_prefix,
        )
    return None


def _customers(params: MapParams) -> tuple[Customer, Customer | None, Customer | None]:
    """Neither the first nor the last of the rule, if possible: ports beside theirs are somebody's.

    No other domain takes over their addresses.
    """
    rule = params.rule

    def customer(ea: int) -> Customer:
        ipv4, psid = rule.decode_ea(ea) if rule.ea_len else (base, params.psid)
        return Customer(rule.map_address(ipv4, psid), ipv4, rule.port_set(psid))

    base, ratio = rule.ipv4_prefix.network_address, rule.sharing_ratio if rule.ea_len else 1
    served = params.find_served_ea(params, 0)
    usual = min(1, rule.ce_count // ratio - 1) * ratio + min(1, ratio - 1)
    likely = [usual, *(ea for some in served for ea in (*some[1:3], *some[:1]))]
    mine = next((ea for ea in likely if any(ea in some for some in served)), usual)

    def first_served(*values: int) -> Customer | None:
        return next((customer(ea) for ea in values if any(ea in some for some in served)), None)

    number, psid = divmod(mine, ratio)
    shared = [number * ratio + p for p in (psid + 1, psid - 1) if 0 <= p < ratio]
    return customer(mine), first_served(*shared), first_served(mine + ratio, mine - ratio)


def _lightweight(technology: LightweightAftr) -> RelayEnds:
    p = technology.params
    table = p.table()

    def customer(row: int) -> Customer:
        ipv4, psid, b4, _ = table.softwire(row)
        ports = PortSet(int(table.psid_offset[row]), int(table.psid_len[row]), psid)
        return Customer(b4, ipv4, ports)

    def owner(ipv4: IPv4Address, port: int) -> IPv6Address | None:
        found = softwire(table, ipv4, port)
        return None if found is None else found[0]

    numbers = range(min(len(table), 256))
    first = min(1, numbers[-1])
    mine, relay = customer(first), table.softwire(first)[3]
    # neither further rows of the same lwB4 nor other addresses of the lwAFTR
    rows = [customer(row) for row in numbers if table.softwire(row)[3] == relay]
    others = [c for c in rows if c.ipv6 != mine.ipv6]
    sharing = [c for c in others if c.ipv4 == mine.ipv4]
    sibling = next((c for c in sharing if c.ports.psid > mine.ports.psid), None)
    sibling = sibling or next(iter(sharing), None)
    other = next((c for c in others if c.ipv4 != mine.ipv4), None)
    links = technology.links
    return RelayEnds(
        links,
        "lw4o6",
        relay,
        p.server_ipv4,
        mine,
        sibling,
        other,
        owner,
        None,
        links.left.mtu,
    )


def not_up(
    r: RelayEnds, packet: bytes, expected: str = "not forwarded", *, silently: bool = False
) -> Callable[[], Exchange]:
    """Packets of customers that must not pass."""
    return lambda: refused(r, "left", packet, r.control(), expected, silently=silently)
