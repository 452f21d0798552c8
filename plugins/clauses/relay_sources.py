"""The suite ``relay``: who may send what through MAP-E, MAP-T and lw4o6 relays, and who gets what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Any

from v6t.plugins.clauses import relay_delivery, relay_rules
from v6t.plugins.clauses.base import Clause, Level, Suite
from v6t.plugins.clauses.ends import asked
from v6t.plugins.clauses.packets import ICMP, TCP, UDP
from v6t.plugins.clauses.reading import Packet
from v6t.plugins.clauses.relay import Customer, RelayEnds, not_up, relay
from v6t.plugins.clauses.relay_delivery import PLACE, clause, to_customers
from v6t.plugins.clauses.translator import answered, wants_other_prefix
from v6t.plugins.lw4o6.params import LwAftrParams
from v6t.plugins.map.params import MapParams
from v6t.plugins.translation import rfc6052

if TYPE_CHECKING:
    from v6t.plugins.base import Technology

_STRANGER4, _STRANGER6 = IPv4Address("198.51.100.77"), IPv6Address("2001:db8:dead::77")
_NAMES = {UDP: "udp", TCP: "tcp", ICMP: "icmp"}


class Relay(Suite):
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

    def clauses(self, technology: Technology) -> Iterator[Clause]:
        """All with the first rule or the binding table."""
        r = relay(technology)
        if r is None or self.unmet(technology):
            return
        yield from _plain(r)
        yield from _sources(r)
        yield from _edges(r, "")
        yield from relay_delivery.clauses(r)
        yield from relay_rules.last(r)

    def unmet(self, technology: Technology) -> tuple[str, str] | None:
        """Refuse a private server behind the well-known prefix."""
        r = relay(technology)
        if r is None or r.dmr is None or rfc6052.may_represent(r.dmr, r.server):
            return None
        return wants_other_prefix(r.server)

    def variants(self, technology: Technology) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Every PSID offset, with a PSID that leaves room for it; overlapping rules; CEs with a prefix."""
        params = technology.params
        if isinstance(params, LwAftrParams) and params.binding_table is None and params.psid_len:
            for offset in range(16):
                length = min(params.psid_len, 16 - offset, 5)
                more = {"psid_offset": offset, "psid_len": length, "softwires": 2 << length}
                yield f"PSID offset {offset}", more
        if not isinstance(params, MapParams) or params.domains or not params.rule.suffix_len:
            return
        rule = params.rule
        room = 64 - rule.ipv6_prefix.prefixlen - rule.suffix_len
        for offset in range(16 if room > 0 else 0):
            length = max(1, min(rule.psid_len or 1, 16 - offset, 5, room))
            ea_len = rule.suffix_len + length
            yield f"PSID offset {offset}", {"psid_offset": offset, "ea_len": ea_len, "ces": 2}
        yield from relay_rules.variants(params)

    def varied(self, technology: Technology, variant: str) -> Iterator[Clause]:
        """The edges of the port sets, or what overlaps and who has a prefix."""
        r, params = relay(technology), technology.params
        if r is None or self.unmet(technology):
            return
        if variant in (relay_rules.OVERLAP, relay_rules.PREFIX):
            if isinstance(params, MapParams):
                yield from relay_rules.varied(r, variant, params)
        else:
            yield from _edges(r, f"-a{variant.rpartition(' ')[2]}")


def _to_server(
    r: RelayEnds, customer: Customer, count: int = 1
) -> Callable[[list[Packet], list[Packet]], str]:
    def judge(beyond: list[Packet], back: list[Packet]) -> str:
        del back
        if len(beyond) != count:
            return f"{len(beyond)} of {count} packets"
        for p in beyond:
            if p.source != customer.ipv4 or p.destination != r.server or not p.summed:
                return f"a packet with other addresses, or a wrong checksum: {p}"
        return ""

    return judge


def _plain(r: RelayEnds) -> Iterator[Clause]:
    me = r.mine
    for protocol, name in _NAMES.items():
        yield clause(
            r,
            f"up-{name}",
            "MUST",
            f"{name.upper()} of a customer's own address and port is forwarded",
            lambda n=protocol: asked(
                r,
                "left",
                r.up(me, me.port, n),
                f"IPv4 from {me.ipv4}",
                _to_server(r, me),
                control=None if n == UDP else r.control(),
            ),
        )
    places = {
        "MAP-E": ("RFC 7597", "5"),
        "MAP-T": ("RFC 7599", "8.4"),
        "lw4o6": ("RFC 7596", "6.2"),
    }
    for protocol, name in _NAMES.items():
        level: Level = "MUST" if protocol != ICMP or r.kind == "MAP-E" else "SHOULD"
        place = places[r.kind]
        if protocol == ICMP:
            place = {
                "MAP-E": ("RFC 7597", "8.2"),
                "MAP-T": ("RFC 7599", "9"),
                "lw4o6": ("RFC 7596", "8.1"),
            }[r.kind]
        yield clause(
            r,
            f"down-{name}",
            level,
            f"{name.upper()} for a customer's address and "
            f"{'identifier' if protocol == ICMP else 'port'} reaches that customer",
            lambda n=protocol: asked(
                r,
                "right",
                r.down(me.ipv4, me.port, n),
                f"to {me.ipv6}",
                to_customers(r, [me.ipv6]),
                control=None if n == UDP else r.down(me.ipv4, me.port),
            ),
            place,
        )


def _sources(r: RelayEnds) -> Iterator[Clause]:
    """Every way in which a source can be wrong."""
    me = r.mine
    wrong: list[tuple[str, Level, str, bytes]] = []

    def add(name: str, words: str, port: int, level: Level = "MUST", **packet: Any) -> None:
        """Append a source, unless it is right with these parameters."""
        ipv4, ipv6 = packet.get("ipv4", me.ipv4), packet.get("ipv6", me.ipv6)
        if r.owner(ipv4, port) != ipv6:
            wrong.append((name, level, words, r.up(me, port, **packet)))

    foreign = "a port of another customer with the same address"
    if r.sibling is not None:
        for protocol, name in _NAMES.items():
            words = f"{name.upper()} from {foreign}"
            add(f"port-{name}", words, r.sibling.port, protocol=protocol)
        low, high = me.ports.ranges[0]
        for name, port in (("below", low - 1), ("above", high + 1)):
            if 0 < port < 65536:
                add(f"port-{name}", f"the port just {name} a customer's", port)
        # whose other bits are the customer's PSID: only A tells that it is nobody's
        excluded = (me.ports.psid + 1 << me.ports.low_bits) - 1
        if me.ports.psid_offset and excluded:
            add("port-excluded", "a port that is nobody's (A = 0)", excluded)
    if r.other is not None:
        if r.tunnels:
            add("ipv4-other", "another customer's IPv4 address", me.port, ipv4=r.other.ipv4)
        words = "another customer's IPv6 prefix before one's own identifier"
        add("ipv6-other", words, me.port, ipv6=_joined(r.other.ipv6, me.ipv6))
    if r.tunnels:
        add("ipv4-stranger", "an IPv4 address of nobody", me.port, ipv4=_STRANGER4)
    words = "an IPv6 address outside every rule or binding"
    add("ipv6-stranger", words, me.port, ipv6=_STRANGER6)
    if r.rule is not None and r.other is not None:
        words = "an interface identifier that contradicts the prefix"
        add("identifier", words, me.port, "MAY", ipv6=_joined(me.ipv6, r.other.ipv6))
    for name, demand, words, packet in wrong:
        yield clause(
            r,
            f"source-{name}",
            demand,
            f"a packet from {words} is dropped",
            not_up(r, packet, silently=r.kind == "MAP-E" and demand == "MUST"),
        )
    if r.kind != "MAP-E" and r.sibling is not None and not r.owned(me, r.sibling.port):
        packet = r.up(me, r.sibling.port)
        level: Level = "SHOULD" if r.kind == "MAP-T" else "MAY"
        yield clause(
            r,
            "source-told",
            level,
            "its sender is told: source address failed ingress policy",
            lambda: asked(
                r, "left", packet, "ICMPv6 1/5 back", answered(6, (1, 5)), control=r.control()
            ),
            rare=True,
        )


def _joined(prefix: IPv6Address, identifier: IPv6Address) -> IPv6Address:
    return IPv6Address(int(prefix) >> 64 << 64 | int(identifier) & (1 << 64) - 1)


def _edges(r: RelayEnds, suffix: str) -> Iterator[Clause]:
    """First and last port of the first and of the last range; what is beside them is not the customer's."""
    me = r.mine
    place = ("RFC 7597", "5.1") if r.kind != "lw4o6" else PLACE[r.kind]
    ranges = me.ports.ranges[0], me.ports.ranges[-1]
    ports = sorted({p for low, high in ranges for p in (low, high) if p})
    yield clause(
        r,
        f"edges-up{suffix}",
        "MUST",
        f"packets from the ports {_listed(ports)} of a customer are forwarded",
        lambda: asked(
            r,
            "left",
            [r.up(me, p) for p in ports],
            f"{len(ports)} packets from {me.ipv4}",
            _to_server(r, me, len(ports)),
            control=r.control(),
        ),
        place,
    )
    yield clause(
        r,
        f"edges-down{suffix}",
        "MUST",
        f"packets for the ports {_listed(ports)} reach their customer",
        lambda: asked(
            r,
            "right",
            [r.down(me.ipv4, p) for p in ports],
            f"{len(ports)} packets to {me.ipv6}",
            to_customers(r, [me.ipv6] * len(ports)),
            control=r.down(me.ipv4, me.port),
        ),
        place,
    )
    if r.rule is None or not r.rule.shared:
        return
    beside = [
        p
        for low, high in ranges
        for p in (low - 1, high + 1)
        if 0 < p < 65536 and p not in me.ports
    ]
    beside = sorted(set(beside))
    owners = [ipv6 for ipv6 in (r.owner(me.ipv4, p) for p in beside) if ipv6 is not None]
    if beside:
        yield clause(
            r,
            f"beside-down{suffix}",
            "MUST",
            f"packets for the ports {_listed(beside)} reach those who own them, or nobody",
            lambda: asked(
                r,
                "right",
                [r.down(me.ipv4, p) for p in beside],
                f"{len(owners)} packets, none to {me.ipv6}",
                to_customers(r, owners),
                control=r.down(me.ipv4, me.port),
            ),
            place,
        )


def _listed(ports: list[int]) -> str:
    return ", ".join(map(str, ports))
