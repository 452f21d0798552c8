"""Planted faults of a NAT44: each breaks one clause. By name: the end of the clause's name, and the device's class.

A fault is a change of methods of the table, or of the device: a function of the object, of the correct method
and of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from scapy.layers.inet import TCP
from v6t.audit.packet_device.nat import (
    RESET_S,
    NatDevice,
    NatEndpoint,
    NatMapping,
    NatTable,
    SessionKey,
    Translated,
    transport_of,
)
from v6t.audit.packet_device.packets import ICMP4, TCP6, UDP17, Drop, IcmpError, IPPacket

Change = Callable[..., Any]
FAULTS: dict[str, tuple[str, type[NatDevice]]] = {}
PREFIXES = {UDP17: "", TCP6: "tcp ", ICMP4: "query "}


def override(method: str, change: Change, only: int | None) -> tuple[type, Change]:
    """Return the class that has a method, and the faulty method.

    Args:
        method: of the table, else of the device.
        change: takes the object, the correct method and its arguments.
        only: protocol whose packets, sessions and mappings the fault concerns; None: all.
    """
    owner: type = NatTable if hasattr(NatTable, method) else NatDevice

    def faulty(self: Any, *args: Any, **kwargs: Any) -> Any:
        correct = partial(getattr(owner, method), self)
        if only is not None and protocol_of(args[0]) != only:
            return correct(*args, **kwargs)
        return change(self, correct, *args, **kwargs)

    return owner, faulty


def plant(name: str, clause: str, only: int | None = None, **changes: Change) -> None:
    """Add a fault: methods by name, and how they are wrong."""
    methods: dict[type, dict[str, Any]] = {NatTable: {}, NatDevice: {}}
    for method, change in changes.items():
        owner, faulty = override(method, change, only)
        methods[owner][method] = faulty
    table = type("FaultyTable", (NatTable,), methods[NatTable])
    device = type("FaultyDevice", (NatDevice,), {"table_class": table, **methods[NatDevice]})
    FAULTS[name] = clause, device


def plant_flows(
    name: str, udp: str = "", tcp: str = "", query: str = "", **changes: Change
) -> None:
    """Add a fault of one protocol for each clause that is given."""
    for only, clause in ((UDP17, udp), (TCP6, tcp), (ICMP4, query)):
        if clause:
            plant(PREFIXES[only] + name, clause, only, **changes)


def protocol_of(argument: Any) -> int:
    if isinstance(argument, IPPacket):
        return transport_of(argument)
    return argument if isinstance(argument, int) else argument.protocol


def drop(*_: Any, **__: Any) -> Any:
    raise Drop


def forget(table: NatTable, _: Change, mapping: NatMapping, *, fits: bool = True) -> None:
    if fits:
        table.mappings.remove(mapping)


# mappings


def find_by_destination(table: NatTable, _: Change, session: SessionKey) -> NatMapping | None:
    mine = (m for m in table.mappings if (m.protocol, m.inside) == session[:2])
    return next((m for m in mine if has_server(m, session.server)), None)


def find_contended(table: NatTable, correct: Change, session: SessionKey) -> NatMapping | None:
    ports = [m.inside.port for m in table.mappings if m.protocol == session.protocol]
    is_contended = len(ports) > len(set(ports))
    return find_by_destination(table, correct, session) if is_contended else correct(session)


def has_server(mapping: NatMapping, server: NatEndpoint) -> bool:
    return server.address in {s.address for s in mapping.servers}


def ports_of_host(table: NatTable, _: Change, session: SessionKey, __: Any) -> set[int]:
    return {m.public.port for m in table.mappings if m.inside[:2] == session.inside[:2]}


def ports_with_server(
    table: NatTable, correct: Change, session: SessionKey, address: Any
) -> set[int]:
    others = {m.public.port for m in table.mappings if has_server(m, session.server)}
    return ports_of_host(table, correct, session, address) | others


def find_newest(table: NatTable, _: Change, proto: int, public: NatEndpoint) -> NatMapping | None:
    newest = reversed(table.mappings)
    return next((m for m in newest if (m.protocol, m.public) == (proto, public)), None)


def choose_for_port(step: int) -> Change:
    """Choose as if the inside port were another one."""

    def choose(_: NatTable, correct: Change, session: SessionKey, address: Any) -> int | None:
        inside = session.inside._replace(port=session.inside.port + step)
        return correct(session._replace(inside=inside), address)

    return choose


def break_checksum(_: NatTable, correct: Change, packet: IPPacket, mapping: NatMapping) -> IPPacket:
    translated = correct(packet, mapping)
    octets = bytearray(translated.octets)
    octets[{UDP17: 7, TCP6: 17}[packet.proto]] ^= 1
    return replace(translated, octets=bytes(octets))


# fmt: off
plant_flows("by destination", "-REQ-1-endpoint-independent", "tcp-endpoint-independent", "query-independent",
            find_inside=find_by_destination)
plant_flows("contended by destination", "-REQ-1-endpoint-independent-contended",
            "tcp-endpoint-independent-contended", find_inside=find_contended)
plant_flows("overloads", "-REQ-3-overloading", "tcp-overloading", "query-overloading", used_ports=ports_of_host)
plant_flows("overloads by server", "rfc7857-3-overloading-by-server", "tcp-overloading-by-server",
            used_ports=ports_with_server, find_public=find_newest)
plant("parity lost", "parity", choose_port=choose_for_port(1))
plant("port not preserved", "port-preserved", choose_port=choose_for_port(2))
plant("out of range", "port-range", port_range=lambda *_: (512, 1023))
plant("unpaired", "pooling", choose_address=lambda t, *_: t.pool[len(t.mappings) % len(t.pool)])
plant_flows("wrong checksum", "REQ-1-mapped", "tcp-exchange", translate_source=break_checksum)


# filtering and hairpinning


plant_flows("strict filter", "-REQ-8-filtering-address", "tcp-filtering-address",
            accepts=lambda _, __, mapping, server: server in mapping.servers)
plant_flows("address filter", "-REQ-8-filtering-endpoint", "tcp-filtering-endpoint",
            accepts=lambda _, __, mapping, server: has_server(mapping, server))
plant_flows("no hairpin", "-REQ-9-hairpinning", "tcp-hairpinning", hairpin=drop)
plant_flows("inside source", "-REQ-9a-hairpinning-source", "tcp-hairpinning-source",
            hairpin=lambda _, correct, packet, translated: correct(packet, packet))
plant("hairpinned errors dropped", "hairpinned-error", hairpin_error=drop)


# ICMP errors, fragments and protocols


def end_mapping(t: NatTable, correct: Change, quoted: IPPacket, mapping: NatMapping) -> IPPacket:
    t.mappings.remove(mapping)
    return correct(quoted, mapping)


def refuse(condition: Callable[[NatDevice, str, IPPacket], bool]) -> Change:
    """Return a `forward` that drops the packets for which a condition holds."""
    return lambda d, correct, side, packet: [] if condition(d, side, packet) else correct(side, packet)


def is_late(device: NatDevice, packet: IPPacket) -> bool:
    """Return whether the last fragment arrives first."""
    return bool(packet.offset) and all(packet.id not in key for key in device.reassembly.fragments)


def forward_expired(_: NatDevice, correct: Change, packet: IPPacket) -> IPPacket:
    return correct(replace(packet, ttl=9) if packet.ttl == 1 else packet)


def forward_to_first(table: NatTable, _: Change, packet: IPPacket) -> list[Translated]:
    host = table.view.hosts[0]
    return [Translated("left", replace(packet, dst=host), host)]


plant_flows("errors dropped", "-REQ-4-error-3-4", "tcp-error-3-1", "query-error-11-0",
            translate_quoted_source=drop)
plant_flows("quoted packet kept", "-REQ-4-error-3-3", "tcp-error-3-3", "query-error-3-1",
            translate_quoted_source=lambda _, __, quoted, mapping: quoted)
plant_flows("errors end mappings", "error-keeps-mapping", "tcp-error-keeps-11-0", "query-error-keeps",
            translate_quoted_source=end_mapping)
plant("unknown errors forwarded", "error-unmapped", handle_unknown=forward_to_first)
plant("no checksum check", "error-checksum", is_valid_error=lambda *_: True)
plant("errors from inside dropped", "error-from-inside", send_error_out=drop)
plant("quoted destination kept", "error-from-inside",
      translate_quoted_destination=lambda _, __, quoted, mapping: quoted)
plant("TTL 1 forwarded", "time-exceeded", decrement=forward_expired)
plant("no time exceeded", "time-exceeded", send_error=lambda *_: [])
for word, link, direction in (("", "left", "out"), (" inwards", "right", "in")):
    plant(f"no fragments{word}", f"fragments-{direction}-in-order",
          forward=refuse(lambda _, side, p, link=link: side == link and p.is_fragment))  # type: ignore[misc]
    plant(f"no late fragments{word}", f"fragments-{direction}-out-of-order",
          forward=refuse(lambda d, side, p, link=link: side == link and is_late(d, p)))  # type: ignore[misc]
plant("no TCP", "tcp-exchange", forward=refuse(lambda _, side, p: p.proto == TCP6))
plant("no queries", "REQ-1-query", forward=refuse(lambda _, side, p: p.proto == ICMP4))
# fmt: on


# TCP


def drop_segments(condition: Callable[[NatTable, str, str, NatEndpoint], bool]) -> Change:
    """Return a `follow` that drops segments by table, flags, side and server."""

    def follow(t: NatTable, correct: Change, mapping: NatMapping, packet: IPPacket, *to: Any) -> None:  # fmt: skip
        if condition(t, str(TCP(packet.octets[:20]).flags), *to):
            raise Drop
        correct(mapping, packet, *to)

    return follow


def follow_then(action: Callable[[NatTable, NatMapping], None], flag: str = "") -> Change:
    """Return a `follow` that does something after segments with a flag."""

    def follow(t: NatTable, correct: Change, mapping: NatMapping, packet: IPPacket, *to: Any) -> None:  # fmt: skip
        correct(mapping, packet, *to)
        if flag in str(TCP(packet.octets[:20]).flags):
            action(t, mapping)

    return follow


def shorten(seconds: float) -> Callable[[NatTable, NatMapping], None]:
    return lambda _, m: setattr(m, "lifetime_s", min(m.lifetime_s, seconds))


def note_syn(table: Any, correct: Change, packet: IPPacket, **options: Any) -> list[Translated]:
    table.is_syn = packet.proto == TCP6 and TCP(packet.octets[:20]).flags == "S"
    return correct(packet, **options)


def accept_one_open(table: Any, _: Change, mapping: NatMapping, __: NatEndpoint) -> bool:
    return "left" not in mapping.syn_sides or len(mapping.syn_sides) == 2 or not table.is_syn


def forget_after_stray_reset(t: NatTable, _: Change, mapping: NatMapping, *, fits: bool) -> None:
    mapping.lifetime_s = RESET_S
    if not fits:
        t.mappings.remove(mapping)


def answer(_: NatTable, __: Change, packet: IPPacket, ___: NatEndpoint) -> list[Translated]:
    return [Translated("right", replace(packet, src=packet.dst, dst=packet.src))]


def remember(table: Any, _: Change, packet: IPPacket, server: NatEndpoint) -> None:
    table.strangers = {server}
    raise Drop


# fmt: off
def accept_known(_: NatTable, __: Change, mapping: NatMapping, server: NatEndpoint) -> bool:
    return mapping.protocol != TCP6 or has_server(mapping, server)


plant("tcp RST in dropped", "tcp-reset-in",
      follow=drop_segments(lambda _, flags, side, __: "R" in flags and side == "right"))
plant("tcp RST out dropped", "tcp-reset-out",
      follow=drop_segments(lambda _, flags, side, __: "R" in flags and side == "left"))
plant("tcp FIN forgets", "tcp-half-closed", follow=follow_then(lambda t, m: t.mappings.remove(m), "F"))
plant("tcp no simultaneous open", "tcp-simultaneous-open", send_in=note_syn, accepts=accept_one_open)
plant("tcp RST forgets", "tcp-after-reset", follow_reset=forget)
plant("tcp stray RST forgets", "tcp-stray-reset", follow_reset=forget_after_stray_reset)
plant("tcp answers strangers", "tcp-unsolicited-silent", accepts=accept_known, handle_stranger=answer)
plant("tcp remembers strangers", "tcp-unsolicited-then-asked", accepts=accept_known, handle_stranger=remember,
      follow=drop_segments(lambda t, _, __, server: server in getattr(t, "strangers", ())))


# limits


def refuse_wrongly(*_: Any) -> NatMapping:
    raise Drop(IcmpError(3, 3))


def replace_oldest(table: NatTable, _: Change, session: SessionKey) -> NatMapping:
    table.mappings.pop(0)
    return table.create(session)


def grow(table: NatTable, correct: Change, session: SessionKey) -> NatMapping:
    kept, table.mappings = table.mappings, []
    mapping = correct(session)
    table.mappings = [*kept, mapping]
    return mapping


plant("no limit", "block-limit", port_range=lambda table, *_: table.view.public)
plant("not told", "block-told", handle_exhaustion=drop)
plant("told wrongly", "full-told", handle_exhaustion=refuse_wrongly)
plant("oldest replaced", "full-keeps", handle_exhaustion=replace_oldest)
plant("table grows", "table-limit", create=grow)
plant("table not told", "table-told", handle_exhaustion=drop)
plant("table makes room", "table-keeps", handle_exhaustion=replace_oldest)
plant("scattered", "block-contiguous", choose_port=lambda table, *_: 1024 + 64 * len(table.mappings))
plant("one block", "block-others", host_number=lambda *_: 0)


# flush, reset and timers


def die_of_unknown_reply(table: Any, _: Change, packet: IPPacket) -> None:
    table.is_dead = packet.proto == ICMP4
    raise Drop


def create_alive(table: Any, correct: Change, session: SessionKey) -> NatMapping:
    return drop() if getattr(table, "is_dead", False) else correct(session)


def keep_mappings(device: NatDevice, _: Change) -> None:
    """Keep the mappings, and forget which ports they have."""
    device.table.used_ports = lambda *_: set()  # type: ignore[method-assign]


def keep_protocol(proto: int) -> Change:
    def flush(table: NatTable, _: Change) -> None:
        table.mappings = [m for m in table.mappings if m.protocol == proto]

    return flush


def refresh_except(side: str) -> Change:
    return lambda _, correct, mapping, at: None if at == side else correct(mapping, at)


def refresh_briefly(_: NatTable, correct: Change, mapping: NatMapping, side: Any) -> None:
    correct(mapping, side)
    if (mapping.protocol, side) == (UDP17, "right"):
        mapping.lifetime_s = 100


for proto, word in ((UDP17, "udp"), (TCP6, "tcp"), (ICMP4, "icmp")):
    plant(f"flush keeps {word}", f"flush-{word}", flush=keep_protocol(proto))
plant("ends by an unknown reply", "flush-icmp", handle_unknown=die_of_unknown_reply, create=create_alive)
plant("given away by restart", "configured-again", reset=keep_mappings)
plant("timer halved", "timer-lasts", UDP17, initial_lifetime_s=lambda _, correct, proto: correct(proto) / 2)
plant("timer ignored", "timer-ends", UDP17, initial_lifetime_s=lambda *_: 300)
plant("no refresh out", "timer-refresh-out", refresh=refresh_except("left"))
plant("no refresh in", "timer-refresh-in", refresh=refresh_except("right"))
plant("udp short", "timer-udp", UDP17, initial_lifetime_s=lambda *_: 60)
plant("answered short", "timer-udp-answered", refresh=refresh_briefly)
plant("query short", "timer-query", ICMP4, initial_lifetime_s=lambda *_: 30)
plant("syn short", "timer-tcp-transitory", TCP6, initial_lifetime_s=lambda *_: 60)
plant("closing short", "timer-tcp-closing", follow=follow_then(shorten(60), "F"))
plant("connection short", "timer-tcp-established", follow=follow_then(shorten(3600)))
# fmt: on
