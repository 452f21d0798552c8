"""Planted faults of relays and tunnels: each breaks one clause."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from v6t.audit.packet_device.maps import AddressSharing
from v6t.audit.packet_device.packets import read_header
from v6t.audit.packet_device.relays import MapTRelayDevice, TunnelDevice, TunnelRelay
from v6t.audit.packet_device.translator import TranslatingDevice
from v6t.plugins.audit_views import NESTED_RULE, PREFIX_CUSTOMERS
from v6t.tests.audit.faulty import Fault, Octets, added, drop, header_summed, put, version

IPIP, FRAGMENT, UDP, ICMP, OPTIONS = 4, 44, 17, 1, 60
Change = Callable[[Octets], None]


def _out(change: Change) -> Callable[[bytes, bytes], bytes]:
    """Of packets that leave a tunnel; the header checksum is right afterwards."""

    def leaving(came: bytes, left: bytes) -> bytes:
        if version(came) != 6 or version(left) != 4:
            return left
        octets = Octets(left)
        change(octets)
        return header_summed(octets)

    return leaving


def _into(at: int, change: Callable[[int], int], *, inner: bool) -> Callable[[bytes, bytes], bytes]:
    """One octet of packets that enter a tunnel: of the outer header or of the inner one."""

    def leaving(came: bytes, left: bytes) -> bytes:
        if version(left) != 6 or left[6] != IPIP or version(came) != 4:
            return left
        outer, packet = Octets(left[:40]), Octets(left[40:])
        chosen = packet if inner else outer
        chosen[at] = change(chosen[at]) & 0xFF
        return bytes(outer) + header_summed(packet)

    return leaving


def _owner(change: Callable[[Any, Any, Any, Any], Any]) -> tuple[Any, str, Callable[[Any], Any]]:
    """Change who owns addresses: takes the correct answer, the rules, address and port."""

    def make(correct: Any) -> Any:
        def wrong(self: Any, ipv4: Any, port: Any) -> Any:
            return change(correct(self, ipv4, port), self, ipv4, port)

        return wrong

    return AddressSharing, "find", make


# fmt: off
def mapt() -> list[Fault]:
    """Of a MAP-T relay."""
    silent = Fault("wrong sources not told", "source-told",
                   leaving=lambda c, p: None if version(c) == 6 == version(p) else p)
    port = Fault("source port not checked", "source-port-udp",
                 patch=(MapTRelayDevice, "is_own_port", lambda _: lambda self, packet, ce: True))
    later = Fault("later fragments dropped", "fragments-in-order",
                  arriving=drop(lambda p: version(p) == 4 and p[6] & 0x1F | p[7] > 0))
    echo = Fault("ICMP echo from IPv4 dropped", "down-icmp",
                 arriving=drop(lambda p: version(p) == 4 and p[9] == ICMP))
    edge = Fault("last port of a range dropped", "edges-up",
                 arriving=drop(lambda p: version(p) == 6 and p[6] == UDP and p[41] & 0x1F == 0x1F))
    alone = Fault("CEs do not reach each other", "hairpin",
                  patch=(MapTRelayDevice, "emit_ipv4", lambda _: TranslatingDevice.emit_ipv4))
    named = Fault("CEs reach each other by wrong names", "hairpin", leaving=_renamed)
    return [silent, port, later, echo, edge, alone, named]
# fmt: on


def _renamed(came: bytes, left: bytes) -> bytes:
    """What goes from CE to CE keeps its source; its checksum is right."""
    if version(came) != 6 or version(left) != 6 or left[6] != UDP:
        return left
    packet = Octets(left)
    packet[8:24] = came[8:24]
    packet[46:48] = b"\0\0"
    pseudo = bytes(packet[8:40]) + packet[4:6].rjust(4, b"\0") + bytes([0, 0, 0, UDP])
    packet[46:48] = (0xFFFF - added(pseudo + bytes(packet[40:]))).to_bytes(2, "big")
    return bytes(packet)


# fmt: off
def relay() -> Iterator[Fault]:
    """Of a MAP-E relay, suite ``relay``."""
    yield Fault("ports not checked", "source-port-udp", patch=_where(_inside(UDP)))
    yield Fault("TCP ports not checked", "source-port-tcp", patch=_where(_inside(6)))
    yield Fault("identifiers not checked", "source-port-icmp", patch=_where(_inside(ICMP)))
    yield Fault("IPv4 sources not checked", "source-ipv4-other", patch=_where(lambda p: p[18:22] != p[52:56]))
    yield Fault("outer sources not checked", "source-ipv6-stranger", patch=_where(lambda p: p[12:14] == _STRANGER))
    yield Fault("prefixes not checked", "source-ipv6-other",
                patch=_where(lambda p: p[14:16] != _OWN and p[12:14] != _STRANGER))
    yield Fault("excluded ports accepted", "source-port-excluded", patch=_where(lambda p: _number(p, 60) < 1024))
    yield Fault("CEs of the upper half lost", "last-up", arriving=drop(lambda p: version(p) == 6 and p[14] >= 0x10))
    yield Fault("packets to the last address lost", "last-down",
                arriving=drop(lambda p: version(p) == 4 and p[19] == 255))
    yield Fault("wrong sources told", "source-port-udp", patch=(TunnelRelay, "reports_sources", lambda _: True))
    yield Fault("port ranges end early", "edges-down",
                patch=_owner(lambda r, s, a, p: None if p is not None and p & 0x1F == 0x1F else r))
    yield Fault("port ranges begin late", "edges-up",
                patch=_owner(lambda r, s, a, p: None if p is not None and p & 0x1F == 0 else r))
    yield Fault("all ports are the first customer's", "beside-down",
                patch=_owner(lambda r, s, a, p: (s.domains[0].address(a, "00001"), r[1]) if r is not None else r))
    yield Fault("ICMP queries dropped", "down-icmp",
                arriving=drop(lambda p: version(p) == 4 and p[9] == ICMP and p[20] in (0, 8)))
    yield Fault("ICMP errors dropped", "icmp-error-3-4",
                arriving=drop(lambda p: version(p) == 4 and p[9] == ICMP and p[20] == 3))
    yield Fault("fragments dropped", "fragments-in-order",
                arriving=drop(lambda p: version(p) == 4 and p[6] & 0x3F | p[7] > 0))
    yield Fault("TCP dropped", "up-tcp", arriving=drop(lambda p: version(p) == 6 and p[6] == IPIP and p[49] == 6))
    yield Fault("no hairpin", "hairpin",
                patch=(AddressSharing, "has_share", lambda _: lambda self, ipv4, customer=None: False))
# fmt: on


def _where(wrong: Callable[[bytes], bool]) -> tuple[Any, str, Callable[[Any], Any]]:
    """Decapsulate tunnel packets that are wrong in one way, whoever sent them."""

    def make(correct: Any) -> Any:
        def faulty(self: Any, packet: Any) -> Any:
            octets = bytes(packet)
            if not wrong(octets) or octets[6] != IPIP or len(octets) < 60:
                return correct(self, packet)
            inner = replace(read_header(octets[40:]), ttl=octets[48] - 1, missing=0)
            return [("right", inner)]

        return faulty

    return TunnelDevice, "forward_tunnel", make


def _number(packet: bytes, at: int) -> int:
    return int.from_bytes(packet[at : at + 2], "big")


def _inside(protocol: int) -> Callable[[bytes], bool]:
    """Of a customer's packet, all of whose addresses are its own."""
    return lambda p: p[49] == protocol and p[18:22] == p[52:56] and p[12:14] != _STRANGER


_STRANGER = b"\xde\xad"
"""Third group of the audit's address outside all rules."""
_OWN = b"\x00\x21"
"""Fourth group of the first customer's prefix."""


def _ecn(inner: int, outer: int, made: int) -> Callable[[bytes, bytes], bytes]:
    """One cell of the table is wrong."""

    def leaving(came: bytes, left: bytes) -> bytes:
        if version(came) != 6 or version(left) != 4 or came[6] != IPIP:
            return left
        if (came[41] & 3, came[1] >> 4 & 3) != (inner, outer):
            return left
        octets = Octets(left)
        octets[1] = octets[1] & 0xFC | made
        return header_summed(octets)

    return leaving


# fmt: off
def tunnel() -> Iterator[Fault]:
    """Of a MAP-E relay, suite ``tunnel``."""
    yield Fault("TTL kept out of the tunnel", "ttl-out", leaving=_out(lambda p: put(8, p[8] + 1)(p)))
    yield Fault("TTL of the outer header", "outer-hop-limit", leaving=lambda c, p: _out(put(8, c[7] - 1))(c, p))
    yield Fault("DF lost out of the tunnel", "df-out", leaving=_out(lambda p: put(6, p[6] & 0xBF)(p)))
    yield Fault("TTL kept into the tunnel", "ttl-into", leaving=_into(8, lambda v: v + 1, inner=True))
    yield Fault("DF lost into the tunnel", "df-into", leaving=_into(6, lambda v: v & 0xBF, inner=True))
    yield Fault("tunnel hop limit from the TTL", "tunnel-hop-limit",
                leaving=lambda c, p: p[:7] + c[8:9] + p[8:] if version(p) == 6 and version(c) == 4 else p)
    yield Fault("DSCP not carried over", "dscp-into", leaving=_into(0, lambda v: 0x60, inner=False))
    yield Fault("ECN not copied", "ecn-into-2", leaving=_into(1, lambda v: v & 0xCF, inner=False))
    yield Fault("inner data changed", "decapsulated", leaving=lambda c, p: p[:-1] + b"!" if version(p) == 4 else p)
    yield Fault("tunnel to another customer", "encapsulated", leaving=_into(39, lambda v: v + 1, inner=False))
    yield Fault("time exceeded not told", "ttl-1",
                leaving=lambda c, p: None if version(c) == 4 == version(p) and p[20] == 11 else p)
    yield Fault("too big not told", "df-too-big",
                leaving=lambda c, p: None if version(c) == 4 == version(p) and p[20] == 3 else p)
    yield Fault("MTU of the link told", "df-too-big",
                leaving=lambda c, p: p[:26] + b"\x05\xdc" + p[28:] if version(c) == 4 == version(p) else p)
    yield Fault("too big without DF dropped", "no-df-too-big",
                leaving=lambda c, p: None if version(p) == 6 and p[6] == FRAGMENT else p)
    yield Fault("last fragment lost", "no-df-too-big",
                leaving=lambda c, p: None if version(p) == 6 and p[6] == FRAGMENT and not p[43] & 1 else p)
    yield Fault("tunnel fragments dropped", "reassembly-in-order",
                arriving=drop(lambda p: version(p) == 6 and p[6] == FRAGMENT))
    yield Fault("tunnel packets with destination options dropped", "encapsulation-limit",
                arriving=drop(lambda p: version(p) == 6 and p[6] == OPTIONS))
    yield Fault("marks on Not-ECT forwarded", "ecn-0-3", arriving=_unmarked)
    for inner, outer, made in ((2, 3, 2), (1, 3, 1), (2, 1, 2), (0, 2, 2), (3, 0, 0)):
        yield Fault(f"inner {inner}, outer {outer} becomes {made}", f"ecn-{inner}-{outer}",
                    leaving=_ecn(inner, outer, made))
    yield Fault("IPv6 in the tunnel forwarded", "wrong-version", patch=_where(lambda p: p[40] >> 4 == 6))
    yield Fault("inner length not checked", "inner-length", patch=_where(lambda p: _number(p, 42) > len(p) - 40))
    yield Fault("inner header checksum not checked", "inner-checksum",
                patch=_where(lambda p: added(p[40:60]) != 0xFFFF))
    yield Fault("nested IPv4 forwarded", "nested", patch=_where(lambda p: p[49] == IPIP))
# fmt: on


def _unmarked(packet: bytes) -> bytes:
    """CE on Not-ECT is not looked at."""
    if (
        version(packet) == 6
        and packet[6] == IPIP
        and packet[1] >> 4 & 3 == 3
        and not packet[41] & 3
    ):
        return packet[:1] + bytes([packet[1] & 0x0F]) + packet[2:]
    return packet


RULES: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("the inner rule unknown", NESTED_RULE, "overlap-down", {"domains": ()}),
    ("the inner rule's CEs unknown", NESTED_RULE, "overlap-up", {"domains": ()}),
    ("the outer rule elsewhere", NESTED_RULE, "overlap-outer", {"rule_ipv6": "2001:db8:cf::/51"}),
    ("the inner rule ignored", NESTED_RULE, "overlap-source", {"domains": ()}),
    ("another PSID offset", NESTED_RULE, "overlap-port", {"psid_offset": 6}),
    ("prefixes of two addresses", PREFIX_CUSTOMERS, "prefix-down", {"ea_len": 7}),
    ("one address for each", PREFIX_CUSTOMERS, "prefix-up", {"ea_len": 8}),
    ("one address too many for a CE", PREFIX_CUSTOMERS, "prefix-other-down", {}),
    ("one address too many from a CE", PREFIX_CUSTOMERS, "prefix-other-up", {}),
)
"""What a MAP-E relay believes in place of its configuration, and the clause that finds it; nothing: it takes
192.0.2.8 for the CE's before.
"""


def confuse_neighbors(correct: Any) -> Any:
    """Take 192.0.2.8 for an address of the CE before."""
    return lambda self, ipv4, port: correct(self, ipv4 - 4 if int(ipv4) & 0xFF == 8 else ipv4, port)


def with_wrong_rules(technology: Any, params: dict[str, Any]) -> Any:
    """Return the technology with other parameters; a PSID offset is the nested rule's."""
    values = technology.params.model_dump()
    if "psid_offset" in params:
        values["domains"][0].update(params)
    else:
        values.update(params)
    return type(technology)(technology.params_model(**values))
