"""Planted faults of a NAT44: each breaks one clause. By name: the end of the clause's name, and the device's class."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from scapy.layers.inet import ICMP, IP, TCP
from v6t.audit.packet_device.device import Sent
from v6t.audit.packet_device.nat import (
    RESET_S,
    Inside,
    NatDevice,
    NatEndpoint,
    NatMapping,
    NatTable,
    Translated,
    transport_of,
)
from v6t.audit.packet_device.packets import (
    ICMP4,
    TCP6,
    UDP17,
    Drop,
    IPPacket,
    is_fragment,
    payload,
    with_hop_limit,
    with_payload,
)

FIN, SYN = 0x01, 0x02
FAULTS: dict[str, tuple[str, type[NatDevice]]] = {}


class FlowTable(NatTable):
    """A table whose fault concerns one protocol only."""

    only: ClassVar[int] = UDP17

    def is_faulty(self, proto: int) -> bool:
        return proto == self.only


def plant(name: str, clause: str, table: type[NatTable] = NatTable, **methods: Any) -> None:
    """Add a fault: a class of table, or methods and attributes of the device."""
    FAULTS[name] = clause, type("FaultyDevice", (NatDevice,), {"table_class": table, **methods})


def plant_flows(
    name: str, table: type[FlowTable], udp: str = "", tcp: str = "", query: str = ""
) -> None:
    """Add a fault of one protocol for each clause that is given."""
    for prefix, only, clause in (("", UDP17, udp), ("tcp ", TCP6, tcp), ("query ", ICMP4, query)):
        if clause:
            plant(f"{prefix}{name}", clause, type("FlowTable", (table,), {"only": only}))


# mappings


class ByDestination(FlowTable):
    def find_inside(self, proto: int, inside: Inside, server: NatEndpoint) -> NatMapping | None:
        if not self.is_faulty(proto):
            return super().find_inside(proto, inside, server)
        mine = (m for m in self.mappings if (m.protocol, m.inside) == (proto, inside))
        return next((m for m in mine if server[0] in {s[0] for s in m.servers}), None)


class ContendedByDestination(ByDestination):
    def is_faulty(self, proto: int) -> bool:
        ports = [m.inside.port for m in self.mappings if m.protocol == self.only]
        return super().is_faulty(proto) and len(ports) > len(set(ports))


class Overloads(FlowTable):
    def used_ports(self, proto: int, inside: Inside, address: str, server: NatEndpoint) -> set[int]:
        used = super().used_ports(proto, inside, address, server)
        mine = {m.public.port for m in self.mappings if m.inside[:2] == inside[:2]}
        return mine if self.is_faulty(proto) else used


class OverloadsByServer(Overloads):
    def used_ports(self, proto: int, inside: Inside, address: str, server: NatEndpoint) -> set[int]:
        used = super().used_ports(proto, inside, address, server)
        return used | {
            m.public.port for m in self.mappings if server[0] in {s[0] for s in m.servers}
        }

    def find_public(self, proto: int, public: NatEndpoint) -> NatMapping | None:
        return next((m for m in reversed(self.mappings) if (m.protocol, m.public) == (proto, public)), None)  # fmt: skip


class ParityLost(NatTable):
    def choose_port(
        self, proto: int, inside: Inside, address: str, server: NatEndpoint
    ) -> int | None:
        return super().choose_port(proto, inside._replace(port=inside.port + 1), address, server)


class PortNotPreserved(NatTable):
    def choose_port(
        self, proto: int, inside: Inside, address: str, server: NatEndpoint
    ) -> int | None:
        return super().choose_port(proto, inside._replace(port=inside.port + 2), address, server)


class WellKnownPorts(NatTable):
    def port_range(self, inside: Inside) -> tuple[int, int]:
        return 512, 1023


class Unpaired(NatTable):
    def choose_address(self, inside: Inside) -> str:
        return self.pool[len(self.mappings) % len(self.pool)]


class WrongChecksum(FlowTable):
    def translate_source(self, packet: IPPacket, mapping: NatMapping) -> IPPacket:
        translated = super().translate_source(packet, mapping)
        octets, at = bytearray(payload(translated)), {UDP17: 7, TCP6: 17}.get(mapping.protocol, 0)
        octets[at] ^= 1
        return (
            with_payload(translated, bytes(octets))
            if self.is_faulty(mapping.protocol)
            else translated
        )


plant_flows("by destination", ByDestination, "-REQ-1-endpoint-independent",
            "tcp-endpoint-independent", "query-independent")  # fmt: skip
plant_flows("contended by destination", ContendedByDestination,
            "-REQ-1-endpoint-independent-contended", "tcp-endpoint-independent-contended")  # fmt: skip
plant_flows("overloads", Overloads, "-REQ-3-overloading", "tcp-overloading", "query-overloading")
plant_flows("overloads by server", OverloadsByServer, "rfc7857-3-overloading-by-server",
            "tcp-overloading-by-server")  # fmt: skip
plant("parity lost", "parity", ParityLost)
plant("port not preserved", "port-preserved", PortNotPreserved)
plant("out of range", "port-range", WellKnownPorts)
plant("unpaired", "pooling", Unpaired)
plant_flows("wrong checksum", WrongChecksum, "REQ-1-mapped", "tcp-exchange")


# filtering and hairpinning


class StrictFilter(FlowTable):
    def accepts(self, mapping: NatMapping, server: NatEndpoint) -> bool:
        return not self.is_faulty(mapping.protocol) or server in mapping.servers


class AddressFilter(FlowTable):
    def accepts(self, mapping: NatMapping, server: NatEndpoint) -> bool:
        return not self.is_faulty(mapping.protocol) or server[0] in {s[0] for s in mapping.servers}


class NoHairpin(FlowTable):
    def hairpin(self, packet: IPPacket, translated: IPPacket) -> list[Translated]:
        if self.is_faulty(transport_of(packet)):
            raise Drop
        return super().hairpin(packet, translated)


class InsideSource(FlowTable):
    def hairpin(self, packet: IPPacket, translated: IPPacket) -> list[Translated]:
        return super().hairpin(
            packet, packet if self.is_faulty(transport_of(packet)) else translated
        )


class NoHairpinnedErrors(NatTable):
    def hairpin_error(self, packet: IPPacket, about: IPPacket) -> list[Translated]:
        raise Drop


plant_flows("strict filter", StrictFilter, "-REQ-8-filtering-address", "tcp-filtering-address")
plant_flows("address filter", AddressFilter, "-REQ-8-filtering-endpoint", "tcp-filtering-endpoint")
plant_flows("no hairpin", NoHairpin, "-REQ-9-hairpinning", "tcp-hairpinning")
plant_flows("inside source", InsideSource, "-REQ-9a-hairpinning-source", "tcp-hairpinning-source")
plant("hairpinned errors dropped", "hairpinned-error", NoHairpinnedErrors)


# ICMP errors


class ErrorsDropped(FlowTable):
    def translate_quoted_source(self, quoted: IPPacket, mapping: NatMapping) -> IPPacket:
        if self.is_faulty(mapping.protocol):
            raise Drop
        return super().translate_quoted_source(quoted, mapping)


class QuotedKept(FlowTable):
    def translate_quoted_source(self, quoted: IPPacket, mapping: NatMapping) -> IPPacket:
        return quoted if self.is_faulty(mapping.protocol) else super().translate_quoted_source(quoted, mapping)  # fmt: skip


class ErrorsEndMappings(FlowTable):
    def translate_quoted_source(self, quoted: IPPacket, mapping: NatMapping) -> IPPacket:
        if self.is_faulty(mapping.protocol):
            self.mappings.remove(mapping)
        return super().translate_quoted_source(quoted, mapping)


class UnknownErrorsForwarded(NatTable):
    def handle_unknown(self, packet: IPPacket) -> list[Translated]:
        packet.dst = str(self.view.hosts[0])
        return [Translated("left", packet)]


class AnyChecksum(NatTable):
    def is_valid_error(self, packet: IPPacket) -> bool:
        return True


class NoErrorsOut(NatTable):
    def send_error_out(self, packet: IPPacket, host: str) -> list[Translated]:
        raise Drop


class QuotedDestinationKept(NatTable):
    def translate_quoted_destination(self, quoted: IPPacket, mapping: NatMapping) -> IPPacket:
        return quoted


plant_flows(
    "errors dropped", ErrorsDropped, "-REQ-4-error-3-4", "tcp-error-3-1", "query-error-11-0"
)
plant_flows(
    "quoted packet kept", QuotedKept, "-REQ-4-error-3-3", "tcp-error-3-3", "query-error-3-1"
)
plant_flows("errors end mappings", ErrorsEndMappings, "error-keeps-mapping",
            "tcp-error-keeps-11-0", "query-error-keeps")  # fmt: skip
plant("unknown errors forwarded", "error-unmapped", UnknownErrorsForwarded)
plant("no checksum check", "error-checksum", AnyChecksum)
plant("errors from inside dropped", "error-from-inside", NoErrorsOut)
plant("quoted destination kept", "error-from-inside", QuotedDestinationKept)


def forward_expired(self: NatDevice, packet: IPPacket) -> IPPacket:
    """Decrement a TTL of 1, too."""
    return NatDevice.decrement(self, with_hop_limit(packet, 9) if packet.ttl == 1 else packet)


def send_no_error(self: NatDevice, *_: Any) -> list[Sent]:
    return []


plant("TTL 1 forwarded", "time-exceeded", decrement=forward_expired)
plant("no time exceeded", "time-exceeded", send_error=send_no_error)


# fragments and protocols


def refuse(condition: Any) -> Any:
    """Return a `forward` that drops the packets for which a condition holds."""

    def forward(self: NatDevice, side: Any, packet: IPPacket) -> Iterable[Sent]:
        return [] if condition(self, side, packet) else NatDevice.forward(self, side, packet)

    return forward


def is_late(device: NatDevice, side: str, packet: IP) -> bool:
    """Return whether the last fragment arrives first."""
    return bool(packet.frag) and all(packet.id not in key for key in device.reassembly._fragments)


plant("no fragments", "fragments-out-in-order",
      forward=refuse(lambda _, side, p: side == "left" and is_fragment(p)))  # fmt: skip
plant("no late fragments", "fragments-out-out-of-order",
      forward=refuse(lambda d, side, p: side == "left" and is_late(d, side, p)))  # fmt: skip
plant("no fragments inwards", "fragments-in-in-order",
      forward=refuse(lambda _, side, p: side == "right" and is_fragment(p)))  # fmt: skip
plant("no late fragments inwards", "fragments-in-out-of-order",
      forward=refuse(lambda d, side, p: side == "right" and is_late(d, side, p)))  # fmt: skip
plant("no TCP", "tcp-exchange", forward=refuse(lambda _, side, p: p.proto == TCP6))
plant("no queries", "REQ-1-query", forward=refuse(lambda _, side, p: p.proto == ICMP4))


# TCP


def segment_of(packet: IPPacket) -> TCP:
    return TCP(payload(packet)[:20])


class DropsSegments(NatTable):
    """Drops segments with an RST from a side."""

    side: ClassVar[str]

    def follow(self, mapping: NatMapping, packet: IPPacket, side: Any, server: NatEndpoint) -> None:
        if segment_of(packet).flags.R and side == self.side:
            raise Drop
        super().follow(mapping, packet, side, server)


class ResetInDropped(DropsSegments):
    side = "right"


class ResetOutDropped(DropsSegments):
    side = "left"


class FinForgets(NatTable):
    def follow(self, mapping: NatMapping, packet: IPPacket, side: Any, server: NatEndpoint) -> None:
        super().follow(mapping, packet, side, server)
        if segment_of(packet).flags.F:
            self.mappings.remove(mapping)


class NoSimultaneousOpen(NatTable):
    def accepts(self, mapping: NatMapping, server: NatEndpoint) -> bool:
        return "left" not in mapping.syn_sides or len(mapping.syn_sides) == 2 or not self.is_syn

    def send_in(self, packet: IPPacket, *, is_hairpinned: bool = False) -> list[Translated]:
        self.is_syn = packet.proto == TCP6 and segment_of(packet).flags == SYN
        return super().send_in(packet, is_hairpinned=is_hairpinned)


class ResetForgets(NatTable):
    def follow_reset(self, mapping: NatMapping, side: Any, *, fits: bool) -> None:
        if fits:
            self.mappings.remove(mapping)


class StrayResetForgets(NatTable):
    def follow_reset(self, mapping: NatMapping, side: Any, *, fits: bool) -> None:
        mapping.lifetime_s = RESET_S
        if not fits:
            self.mappings.remove(mapping)


class AnswersStrangers(AddressFilter):
    only = TCP6

    def handle_stranger(self, packet: IPPacket, server: NatEndpoint) -> list[Translated]:
        answer = with_payload(packet, payload(packet))
        answer.src, answer.dst = packet.dst, packet.src
        return [Translated("right", answer)]


class RemembersStrangers(AddressFilter):
    only = TCP6

    def handle_stranger(self, packet: IPPacket, server: NatEndpoint) -> list[Translated]:
        self.strangers = {server}
        raise Drop

    def follow(self, mapping: NatMapping, packet: IPPacket, side: Any, server: NatEndpoint) -> None:
        if server in getattr(self, "strangers", ()):
            raise Drop
        super().follow(mapping, packet, side, server)


plant("tcp RST in dropped", "tcp-reset-in", ResetInDropped)
plant("tcp RST out dropped", "tcp-reset-out", ResetOutDropped)
plant("tcp FIN forgets", "tcp-half-closed", FinForgets)
plant("tcp no simultaneous open", "tcp-simultaneous-open", NoSimultaneousOpen)
plant("tcp RST forgets", "tcp-after-reset", ResetForgets)
plant("tcp stray RST forgets", "tcp-stray-reset", StrayResetForgets)
plant("tcp answers strangers", "tcp-unsolicited-silent", AnswersStrangers)
plant("tcp remembers strangers", "tcp-unsolicited-then-asked", RemembersStrangers)


# limits


class NoBlockLimit(NatTable):
    def port_range(self, inside: Inside) -> tuple[int, int]:
        return self.view.public


class ErrorsAreSilent(NatTable):
    def handle_exhaustion(self, proto: int, inside: Inside, server: NatEndpoint) -> NatMapping:
        raise Drop


class WrongError(NatTable):
    def handle_exhaustion(self, proto: int, inside: Inside, server: NatEndpoint) -> NatMapping:
        raise Drop(ICMP(type=3, code=3))


class OldestReplaced(NatTable):
    def handle_exhaustion(self, proto: int, inside: Inside, server: NatEndpoint) -> NatMapping:
        self.mappings.pop(0)
        return self.create(proto, inside, server)


class TableGrows(NatTable):
    def create(self, proto: int, inside: Inside, server: NatEndpoint) -> NatMapping:
        kept, self.mappings = self.mappings, []
        mapping = super().create(proto, inside, server)
        self.mappings = [*kept, mapping]
        return mapping


class Scattered(NatTable):
    def choose_port(
        self, proto: int, inside: Inside, address: str, server: NatEndpoint
    ) -> int | None:
        return 1024 + 64 * len(self.mappings)


class OneBlock(NatTable):
    def host_number(self, inside: Inside) -> int:
        return 0


plant("no limit", "block-limit", NoBlockLimit)
plant("not told", "block-told", ErrorsAreSilent)
plant("told wrongly", "full-told", WrongError)
plant("oldest replaced", "full-keeps", OldestReplaced)
plant("table grows", "table-limit", TableGrows)
plant("table not told", "table-told", ErrorsAreSilent)
plant("table makes room", "table-keeps", OldestReplaced)
plant("scattered", "block-contiguous", Scattered)
plant("one block", "block-others", OneBlock)


# flush, reset and timers


class FlushKeeps(FlowTable):
    def flush(self) -> None:
        self.mappings = [m for m in self.mappings if self.is_faulty(m.protocol)]


class Dies(NatTable):
    is_dead = False

    def handle_unknown(self, packet: IPPacket) -> list[Translated]:
        self.is_dead = packet.proto == ICMP4
        raise Drop

    def create(self, proto: int, inside: Inside, server: NatEndpoint) -> NatMapping:
        if self.is_dead:
            raise Drop
        return super().create(proto, inside, server)


def overload_after_reset(self: NatDevice) -> None:
    """Keep the mappings, and forget which ports they have."""
    self.table.used_ports = lambda *_: set()  # type: ignore[method-assign]


class Lifetime(FlowTable):
    """Another lifetime of new mappings, in seconds or as a share of the configured one."""

    lifetime_s: ClassVar[float] = 0.0
    share: ClassVar[float] = 1.0

    def initial_lifetime_s(self, proto: int) -> float:
        right = super().initial_lifetime_s(proto)
        return (self.lifetime_s or right) * self.share if self.is_faulty(proto) else right


class NoRefreshOut(NatTable):
    def refresh(self, mapping: NatMapping, side: Any) -> None:
        if side != "left":
            super().refresh(mapping, side)


class NoRefreshIn(NatTable):
    def refresh(self, mapping: NatMapping, side: Any) -> None:
        if side != "right":
            super().refresh(mapping, side)


class AnsweredShort(NatTable):
    def refresh(self, mapping: NatMapping, side: Any) -> None:
        super().refresh(mapping, side)
        if (mapping.protocol, side) == (UDP17, "right"):
            mapping.lifetime_s = 100


class ClosingShort(NatTable):
    def follow(self, mapping: NatMapping, packet: IPPacket, side: Any, server: NatEndpoint) -> None:
        super().follow(mapping, packet, side, server)
        if segment_of(packet).flags.F:
            mapping.lifetime_s = 60


class ConnectionShort(NatTable):
    def follow(self, mapping: NatMapping, packet: IPPacket, side: Any, server: NatEndpoint) -> None:
        super().follow(mapping, packet, side, server)
        mapping.lifetime_s = min(mapping.lifetime_s, 3600)


def lifetime(only: int, seconds: float = 0.0, share: float = 1.0) -> type[NatTable]:
    return type("Lifetime", (Lifetime,), {"only": only, "lifetime_s": seconds, "share": share})


for protocol, word in ((UDP17, "udp"), (TCP6, "tcp"), (ICMP4, "icmp")):
    keeping = type("FlushKeeps", (FlushKeeps,), {"only": protocol})
    plant(f"flush keeps {word}", f"flush-{word}", keeping)
plant("ends by an unknown reply", "flush-icmp", Dies)
plant("given away by restart", "configured-again", reset=overload_after_reset)
plant("timer halved", "timer-lasts", lifetime(UDP17, share=0.5))
plant("timer ignored", "timer-ends", lifetime(UDP17, 300))
plant("no refresh out", "timer-refresh-out", NoRefreshOut)
plant("no refresh in", "timer-refresh-in", NoRefreshIn)
plant("udp short", "timer-udp", lifetime(UDP17, 60))
plant("answered short", "timer-udp-answered", AnsweredShort)
plant("query short", "timer-query", lifetime(ICMP4, 30))
plant("syn short", "timer-tcp-transitory", lifetime(TCP6, 60))
plant("closing short", "timer-tcp-closing", ClosingShort)
plant("connection short", "timer-tcp-established", ConnectionShort)
