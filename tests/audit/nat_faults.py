"""Planted faults of a NAT44, each with the end of the name of the clause that it breaks.

A fault replaces methods; each replacement takes the device, the correct method and its arguments.
"""

from dataclasses import replace
from functools import partial

from scapy.layers.inet import TCP
from v6t.audit.ip_packet import (
    CHECKSUM_OFFSET,
    ICMP4,
    TCP6,
    UDP17,
    Drop,
    IcmpError,
    IPPacket,
    replace_endpoint,
)
from v6t.audit.packet_device.nat import RESET_S, endpoint, require_transport

FAULTS = {}
PREFIXES = {UDP17: "", TCP6: "tcp ", ICMP4: "query "}


def plant(name, clause, only=None, **changes):
    """Add a fault, which affects one protocol only if `only` is set."""
    overrides = {method: partial(override, change, only) for method, change in changes.items()}
    FAULTS[name] = clause, overrides


def override(change, only, device, correct, *args, **kwargs):
    if only is not None and get_protocol(args[0]) != only:
        return correct(*args, **kwargs)
    return change(device, correct, *args, **kwargs)


def apply_fault(device, changes):
    for method, change in changes.items():
        setattr(device, method, partial(change, device, getattr(device, method)))
    return device


def plant_flows(name, *clauses, **changes):
    """Add a fault for UDP, TCP and ICMP queries, in this order, one for each given clause."""
    for only, clause in zip(PREFIXES, clauses, strict=False):
        plant(PREFIXES[only] + name, clause, only, **changes)


def get_protocol(argument):
    if isinstance(argument, IPPacket):
        return require_transport(argument.read_quoted_packet() if argument.is_error else argument)
    return argument if isinstance(argument, int) else argument.protocol


def drop(*_, error=None, **__):
    raise Drop(error)


# mappings


# fmt: off
def find_by_destination(device, _, session):
    return next((m for m in device.mappings if (m.protocol, m.host, m.inside) == session[:3]
                 and has_server(m, session.server)), None)


def find_contended(device, correct, session):
    ports = [m.inside.port for m in device.mappings if m.protocol == session.protocol]
    is_contended = len(ports) > len(set(ports))
    return find_by_destination(device, correct, session) if is_contended else correct(session)


def has_server(mapping, server):
    return server.address in {s.address for s in mapping.servers}


def choose_for_port(step):
    """Choose the public port for another inside port."""
    return lambda _, correct, session, address: correct(session._replace(
        inside=session.inside._replace(port=session.inside.port + step)), address)


def break_checksum(_, correct, packet, host = None):
    [(side, translated, to)] = correct(packet, host)
    octets = bytearray(translated.octets)
    octets[CHECKSUM_OFFSET[packet.proto]] ^= 1
    return [(side, replace(translated, octets=bytes(octets)), to)]


plant_flows("by destination", "-REQ-1-endpoint-independent", "tcp-endpoint-independent", "query-independent",
            find_inside=find_by_destination)
plant_flows("contended by destination", "-REQ-1-endpoint-independent-contended",
            "tcp-endpoint-independent-contended", find_inside=find_contended)
plant_flows("overloads", "-REQ-3-overloading", "tcp-overloading", "query-overloading",
            find_used_ports=lambda d, _, session, __: {m.public.port for m in d.mappings if m.host == session.host})
plant_flows("overloads by server", "rfc7857-3-overloading-by-server", "tcp-overloading-by-server",
            find_used_ports=lambda d, _, session, __: {
                m.public.port for m in d.mappings if m.host == session.host or has_server(m, session.server)},
            find_public=lambda d, correct, proto, public: [
                correct(proto, public), *(m for m in d.mappings if (m.protocol, m.public) == (proto, public))][-1])
plant("parity lost", "parity", choose_port=choose_for_port(1))
plant("port not preserved", "port-preserved", choose_port=choose_for_port(2))
plant("out of range", "port-range", get_port_range=lambda *_: (512, 1023))
plant("unpaired", "pooling", choose_address=lambda d, *_: d.pool[len(d.mappings) % len(d.pool)])
plant_flows("wrong checksum", "REQ-1-mapped", "tcp-exchange", translate_outbound=break_checksum)


# filtering and hairpinning


def filter_servers(accepts, otherwise = drop):
    """Return a `translate_inbound` that accepts packets from outside under a condition."""

    def translate_inbound(device, correct, packet):
        if packet.is_error or packet.src in device.pool:
            return correct(packet)
        mapping = device.find_public(require_transport(packet), endpoint(packet, is_source=False))
        return correct(packet) if accepts(mapping, packet) else otherwise(device, packet)

    return translate_inbound


def is_known_server(mapping, packet):
    return has_server(mapping, endpoint(packet, is_source=True))


def keep_source(_, correct, packet, host = None):
    """Translate hairpinned packets, but not their sources."""
    source = endpoint(packet, is_source=True)
    return [(side, replace_endpoint(p, source, is_source=True) if side == "left" else p, to)
            for side, p, to in correct(packet, host)]


plant_flows("strict filter", "-REQ-8-filtering-address", "tcp-filtering-address",
            translate_inbound=filter_servers(lambda m, packet: endpoint(packet, is_source=True) in m.servers))
plant_flows("address filter", "-REQ-8-filtering-endpoint", "tcp-filtering-endpoint", translate_inbound=filter_servers(is_known_server))
plant_flows("no hairpin", "-REQ-9-hairpinning", "tcp-hairpinning",
            translate_inbound=lambda d, correct, packet: drop() if packet.src in d.pool else correct(packet))
plant_flows("inside source", "-REQ-9a-hairpinning-source", "tcp-hairpinning-source", translate_outbound=keep_source)
plant("hairpinned errors dropped", "hairpinned-error",
      translate_outbound_error=lambda d, correct, packet, host: drop() if packet.dst in d.pool else correct(packet, host))


# ICMP errors, fragments and protocols


def end_mappings(device, correct, packet):
    sent, device.mappings = correct(packet), []
    return sent


def keep_quoted(_, correct, packet, *host):
    [(side, translated, to)] = correct(packet, *host)
    return [(side, translated.with_message(packet.octets), to)]


def refuse(condition, link = ""):
    """Return a `forward` that drops packets of a link for which a condition holds."""
    return lambda d, correct, side, packet: [] if link in side and condition(d, packet) else correct(side, packet)


def is_late(device, packet):
    """Return whether the last fragment arrives first."""
    return bool(packet.offset) and all(packet.id not in key for key in device.reassembly.fragments)


def forward_to_first_host(device, correct, packet):
    try:
        return correct(packet)
    except Drop:
        host = device.view.hosts[0]
        return [("left", replace(packet, dst=host), host)]


plant_flows("errors dropped", "-REQ-4-error-3-4", "tcp-error-3-1", "query-error-11-0", translate_inbound_error=drop)
plant_flows("quoted packet kept", "-REQ-4-error-3-3", "tcp-error-3-3", "query-error-3-1", translate_inbound_error=keep_quoted)
plant_flows("errors end mappings", "error-keeps-mapping", "tcp-error-keeps-11-0", "query-error-keeps",
            translate_inbound_error=end_mappings)
plant("unknown errors forwarded", "error-unmapped", translate_inbound_error=forward_to_first_host)
plant("no checksum check", "error-checksum",
      translate_inbound_error=lambda _, correct, packet: correct(packet.with_message(packet.octets)))
plant("errors from inside dropped", "error-from-inside", translate_outbound_error=drop)
plant("quoted destination kept", "error-from-inside", translate_outbound_error=keep_quoted)
plant("TTL 1 forwarded", "time-exceeded",
      decrement=lambda _, correct, packet: correct(replace(packet, ttl=max(packet.ttl, 9))))
plant("no time exceeded", "time-exceeded", send_error=lambda *_: [])
for word, link, direction in (("", "left", "out"), (" inwards", "right", "in")):
    plant(f"no fragments{word}", f"fragments-{direction}-in-order",
          forward=refuse(lambda _, packet: packet.is_fragment, link))
    plant(f"no late fragments{word}", f"fragments-{direction}-out-of-order", forward=refuse(is_late, link))
plant("no TCP", "tcp-exchange", forward=refuse(lambda _, packet: packet.proto == TCP6))
plant("no queries", "REQ-1-query", forward=refuse(lambda _, packet: packet.proto == ICMP4))


# TCP


def get_flags(packet):
    return str(TCP(packet.octets[:20]).flags)


def drop_resets(side):
    return lambda _, correct, mapping, packet, at: (
        drop() if "R" in get_flags(packet) and at == side else correct(mapping, packet, at))


def use_then(action, flag = "", only = ""):
    """Return a `use` that calls an action after packets; `flag` and `only` restrict flag and side."""

    def use(device, correct, mapping, packet, side):
        correct(mapping, packet, side)
        if (not flag or flag in get_flags(packet)) and only in side:
            action(device, mapping)

    return use


def forget(device, mapping):
    device.mappings.remove(mapping)


def forget_reset(*, accepted):
    """Forget connections after RST segments that their hosts accept, or after other RST segments."""
    return lambda d, m: forget(d, m) if (m.lifetime_s == RESET_S) == accepted else None


def shorten(seconds):
    return lambda _, m: setattr(m, "lifetime_s", min(m.lifetime_s, seconds))


def remember(device, packet):
    device.stranger = endpoint(packet, is_source=True)
    raise Drop


plant("tcp RST in dropped", "tcp-reset-in", TCP6, use=drop_resets("right"))
plant("tcp RST out dropped", "tcp-reset-out", TCP6, use=drop_resets("left"))
plant("tcp FIN forgets", "tcp-half-closed", TCP6, use=use_then(forget, "F"))
plant("tcp no simultaneous open", "tcp-simultaneous-open", TCP6,
      translate_inbound=filter_servers(lambda m, packet: m.syn_sides != {"left"} or get_flags(packet) != "S"))
plant("tcp RST forgets", "tcp-after-reset", TCP6, use=use_then(forget_reset(accepted=True), "R"))
plant("tcp stray RST forgets", "tcp-stray-reset", TCP6, use=use_then(forget_reset(accepted=False), "R"))
plant("tcp answers unknown servers", "tcp-unsolicited-silent", TCP6, translate_inbound=filter_servers(
    is_known_server, lambda _, packet: [("right", replace(packet, src=packet.dst, dst=packet.src), None)]))
plant("tcp remembers unknown servers", "tcp-unsolicited-then-asked", TCP6,
      translate_inbound=filter_servers(is_known_server, remember), translate_outbound=lambda d, correct, packet, host=None: (
          drop() if endpoint(packet, is_source=False) == getattr(d, "stranger", None) else correct(packet, host)))


# limits, flush, reset and timers


def replace_oldest(device, _, session):
    device.mappings.pop(0)
    return device.create(session)


def create_beyond_limit(device, correct, session):
    before, device.mappings = device.mappings, []
    mapping = correct(session)
    device.mappings = [*before, mapping]
    return mapping


plant("no limit", "block-limit", get_port_range=lambda device, *_: device.view.public_ports)
plant("exhaustion not reported", "block-told", handle_exhaustion=drop)
plant("exhaustion reported wrongly", "full-told", handle_exhaustion=partial(drop, error=IcmpError(3, 3)))
plant("oldest replaced", "full-keeps", handle_exhaustion=replace_oldest)
plant("table grows", "table-limit", create=create_beyond_limit)
plant("full table not reported", "table-told", handle_exhaustion=drop)
plant("full table replaces entries", "table-keeps", handle_exhaustion=replace_oldest)
plant("scattered", "block-contiguous", choose_port=lambda device, *_: 1024 + 64 * len(device.mappings))
plant("one block", "block-others", assign_host_number=lambda *_: 0)


def stop_after_unknown_reply(device, correct, packet):
    try:
        return correct(packet)
    except Drop:
        device.is_dead = packet.proto == ICMP4
        raise


def keep_mappings(device, _):
    """Keep the mappings, but treat their ports as unused."""
    device.find_used_ports = lambda *_: set()


def refresh_except(side):
    return lambda _, correct, mapping, packet, at: None if at == side else correct(mapping, packet, at)


for proto, word in ((UDP17, "udp"), (TCP6, "tcp"), (ICMP4, "icmp")):
    plant(f"flush keeps {word}", f"flush-{word}", flush=lambda d, _, proto=proto: setattr(
        d, "mappings", [m for m in d.mappings if m.protocol == proto]))
plant("mapping ends after unknown reply", "flush-icmp", translate_inbound=stop_after_unknown_reply,
      create=lambda t, correct, session: drop() if getattr(t, "is_dead", False) else correct(session))
plant("ports reused after restart", "configured-again", reset=keep_mappings)
plant("timer halved", "timer-lasts", UDP17, get_initial_lifetime_s=lambda _, correct, proto: correct(proto) / 2)
plant("timer ignored", "timer-ends", UDP17, get_initial_lifetime_s=lambda *_: 300)
plant("no refresh out", "timer-refresh-out", use=refresh_except("left"))
plant("no refresh in", "timer-refresh-in", use=refresh_except("right"))
plant("udp short", "timer-udp", UDP17, get_initial_lifetime_s=lambda *_: 60)
plant("answered short", "timer-udp-answered", UDP17, use=use_then(shorten(100), only="right"))
plant("query short", "timer-query", ICMP4, get_initial_lifetime_s=lambda *_: 30)
plant("syn short", "timer-tcp-transitory", TCP6, get_initial_lifetime_s=lambda *_: 60)
plant("closing short", "timer-tcp-closing", TCP6, use=use_then(shorten(60), "F"))
plant("connection short", "timer-tcp-established", TCP6, use=use_then(shorten(3600)))
# fmt: on
