"""Planted faults of translators, relays and tunnels: each breaks one clause.

A fault takes a correct packet-level device and returns the faulty one. It changes packets octet by octet
(`change_arriving`, `change_leaving`), or a method or value of the device (`replace_method`, `set_values`).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import yaml
from scapy.utils import checksum
from v6t.audit.ip_packet import CHECKSUM_OFFSET, Drop, IcmpError, read_header
from v6t.audit.packet_device.translator import TranslatingDevice

IPIP, TCP, UDP, ICMP, ICMPV6, FRAGMENT, ROUTING = 4, 6, 17, 1, 58, 44, 43


class Fault(NamedTuple):
    """Fault, with part of the name of the clause that must find it."""

    name: str
    clause: str
    change: Callable[[Any], Any]


def version(packet):
    return packet[0] >> 4


class PacketFilter:
    """Device whose packets are changed; None drops a packet."""

    def __init__(self, device, arriving=None, leaving=None):
        self.device, self.arriving, self.leaving = device, arriving, leaving

    def receive(self, side, frame, now_s=0.0):
        packet, sent = frame[14:], []
        changed = self.arriving(packet) if self.arriving else packet
        arrived = replace_packet(frame, changed) if changed else b""
        for out, octets in self.device.receive(side, arrived, now_s):
            emitted = remove_padding(octets[14:])
            emitted = self.leaving(packet, emitted) if self.leaving else emitted
            if emitted:
                sent.append((out, replace_packet(octets, emitted).ljust(60, b"\0")))
        return sent


def replace_packet(frame, packet):
    return frame[:12] + (b"\x08\x00" if version(packet) == 4 else b"\x86\xdd") + packet


def update_header_checksum(packet):
    """Return an IPv4 packet with a valid header checksum."""
    packet[10:12] = b"\0\0"
    packet[10:12] = checksum(bytes(packet[: 4 * (packet[0] & 15)])).to_bytes(2, "big")
    return bytes(packet)


def update_transport_checksum(packet):
    """Return a packet with a valid ICMP, ICMPv6 or UDP checksum."""
    read = read_header(bytes(packet))
    return bytes(read.with_checksum(read.octets, CHECKSUM_OFFSET[read.proto]))


def remove_padding(packet):
    length = packet[2:4] if version(packet) == 4 else packet[4:6]
    return packet[: int.from_bytes(length, "big") + 40 * (version(packet) == 6)]


def change_arriving(change):
    return lambda device: PacketFilter(device, arriving=change)


def change_leaving(change):
    """Change packets that leave; `change` takes the packet that arrived and the one that leaves."""
    return lambda device: PacketFilter(device, leaving=change)


def set_values(**values):
    def change(device):
        for name, new in values.items():
            setattr(device, name, new(getattr(device, name)) if callable(new) else new)
        return device

    return change


def replace_method(method, wrong):
    """Replace a method of the device or of a part; `wrong` takes the owner, the correct method and the arguments."""
    part, _, name = method.rpartition(".")

    def change(device):
        owner = attrgetter(part)(device) if part else device
        setattr(owner, name, partial(wrong, owner, getattr(owner, name)))
        return device

    return change


def drop4(when):
    return change_arriving(lambda p: None if version(p) == 4 and when(p) else p)


def drop6(when):
    return change_arriving(lambda p: None if version(p) == 6 and when(p) else p)


def rewrite(when, edit):
    """Change packets before they reach the device, with a valid IPv4 header checksum."""
    return change_arriving(lambda p: edit_packet(p, edit) if when(p) else p)


def edit_packet(packet, edit):
    octets = bytearray(packet)
    edit(octets)
    return update_header_checksum(octets) if version(packet) == 4 else bytes(octets)


def change_translated(number, edit, when=lambda p: True):
    """Change packets that were translated to an IP version, or decapsulated."""

    def change(arrived, emitted):
        is_translated = version(emitted) == number != version(arrived)
        return edit_packet(emitted, edit) if is_translated and when(emitted) else emitted

    return change_leaving(change)


to4, to6 = partial(change_translated, 4), partial(change_translated, 6)


def put(at, *octets):
    """Return an edit that replaces octets from an offset on."""
    return lambda p: p.__setitem__(slice(at, at + len(octets)), bytes(octets))


def plus(at, difference):
    """Return an edit that adds a number to an octet."""
    return lambda p: p.__setitem__(at, p[at] + difference & 0xFF)


def mask(at, clear, add=0):
    """Return an edit that clears and sets bits of an octet."""
    return lambda p: p.__setitem__(at, p[at] & ~clear | add)


def drop_own_errors(number):
    """Drop the device's own ICMP errors."""
    return change_leaving(lambda c, p: None if version(c) == version(p) == number else p)


def change_icmp(when, at, *octets):
    """Change octets of ICMP messages and update their checksums."""

    def change(arrived, emitted):
        changed = emitted[:at] + bytes(octets) + emitted[at + len(octets) :]
        return update_transport_checksum(changed) if when(arrived, emitted) else emitted

    return change_leaving(change)


def change_fragments(edit, when=lambda c: True):
    """Change IPv4 packets that were IPv6 fragments."""

    def change(arrived, emitted):
        is_fragment = (
            version(arrived) == 6
            and arrived[6] == FRAGMENT
            and version(emitted) == 4
            and when(arrived)
        )
        return edit_packet(emitted, edit) if is_fragment else emitted

    return change_leaving(change)


def add_fragment_header(arrived, emitted):
    if version(emitted) != 6 or version(arrived) != 4 or emitted[6] != UDP:
        return emitted
    length = (int.from_bytes(emitted[4:6], "big") + 8).to_bytes(2, "big")
    header = bytes([UDP, 0, 0, 0, 0, 0]) + arrived[4:6]
    return emitted[:4] + length + bytes([FRAGMENT]) + emitted[7:40] + header + emitted[40:]


def raise_ttl(packet):
    """Treat TTL or hop limit 1 as 2."""
    at = 8 if version(packet) == 4 else 7
    return edit_packet(packet, put(at, 2)) if packet[at] == 1 else packet


def is_routed(packet):
    return version(packet) == 4 and packet[0] & 15 > 5 and packet[20] == 131


def lacks_checksum(packet):
    return packet[0] == 0x45 and packet[9] == UDP and packet[26:28] == b"\0\0"


def is_own_error(arrived, emitted, *start):
    """Check whether a packet is the device's ICMP error of a type and, optionally, a code."""
    at = 20 if version(emitted) == 4 else 40
    return version(arrived) == version(emitted) and emitted[at : at + len(start)] == bytes(start)


def is_icmpv6_error(packet):
    return version(packet) == 6 and packet[6] == ICMPV6 and packet[40] < 128


def is_icmp_error(packet):
    return version(packet) == 4 and packet[9] == ICMP and packet[20] in (3, 11, 12)


def change_quoted(number, at, difference):
    """Change an octet of the packet quoted by a translated error and update the message's checksum."""
    base, is_error = (48, is_icmpv6_error) if number == 6 else (28, is_icmp_error)

    def change(arrived, emitted):
        if version(emitted) != number or version(arrived) == number or not is_error(emitted):
            return emitted
        octets = bytearray(emitted)
        plus(base + at, difference)(octets)
        return update_transport_checksum(octets)

    return change_leaving(change)


def change_errors(method, choose):
    """Change ICMP errors by `choose`, a function of type, code, second word and translation."""

    def wrong(_, correct, error, quoted):
        try:
            right = tuple(correct(error, quoted))
        except Drop:
            right = None
        answer = choose(*error, right)
        if answer is None:
            raise Drop
        return IcmpError(*answer)

    return replace_method(method, wrong)


def replace_errors(method, *start, answer):
    """Replace the translation of ICMP errors that start with this type, code and second word."""
    return change_errors(method, lambda *e: answer if e[: len(start)] == start else e[3])


def report_unknown(_, correct, packet, *rest, **fields):
    if packet.octets[0] == 200:
        raise Drop(IcmpError(1, 1))
    return correct(packet, *rest, **fields)


def read_change(kind, *arguments):
    """Return the change of a row of the table."""
    kind, _, protocol = kind.partition(" ")
    match kind, arguments:
        case "to4" | "to6" | "fragment", (edit, *octets):
            changes = {"to4": to4, "to6": to6, "fragment": change_fragments}
            number, at = PROTOCOLS.get(protocol), 9 if kind == "to4" else 6
            return changes[kind](EDITS[edit](*octets), lambda p: number in (None, p[at]))
        case "drop4", (at, octet):
            return drop4(lambda p: p[at] == octet)
        case "drop6", (at, octet):
            return drop6(lambda p: p[at] == octet)
        case "six" | "four", (start, answer):
            method = {"six": "translate_error_to_ipv6", "four": "translate_error_to_ipv4"}[kind]
            return replace_errors(method, *start, answer=answer and tuple(answer))
        case "value", (values,):
            return set_values(**values)
        case "within", _:
            return change_quoted(*arguments)
        case _, (types,):
            return set_values(**{kind: lambda correct: {**correct, **types}})
    raise ValueError(kind)


PROTOCOLS = {"UDP": UDP, "TCP": TCP, "FRAGMENT": FRAGMENT}
EDITS = {"put": put, "plus": plus, "mask": mask}
TABLE = Path(__file__).parent / "vectors" / "faults.yaml"


# fmt: off
TRANSLATION = [
    *(Fault(name, clause, read_change(*change)) for name, clause, *change in yaml.safe_load(TABLE.read_text())),
    Fault("DF always", "5.1-df-46", to4(mask(6, 0, 0x40), lambda p: p[6:8] == b"\0\0")),
    Fault("DF from 1280 on", "5.1-df-1261", to4(mask(6, 0x40), lambda p: len(p) < 1280)),
    Fault("no IPv4 header checksum", "5.1-udp", change_leaving(lambda c, p: p[:10] + b"\0\0" + p[12:] if version(p) == 4 else p)),
    Fault("UDP checksum zero", "4.5-udp-checksum-ffff", to6(put(46, 0, 0), lambda p: p[6] == UDP and p[46:48] == b"\xff\xff")),
    Fault("UDP checksum zero to IPv4", "5.5-udp-checksum-ffff", to4(put(26, 0, 0), lambda p: p[9] == UDP and p[26:28] == b"\xff\xff")),
    Fault("UDP forwarded without checksum", "4.5-udp-no-checksum",
          change_leaving(lambda c, p: p[:46] + b"\0\0" + p[48:] if lacks_checksum(c) and p[6] == UDP else p)),
    Fault("UDP without checksum dropped", "4.5-udp-checksum-made", drop4(lambda p: lacks_checksum(p) and p[6:8] == b"\0\0")),
    Fault("data cut", "5.1-udp", change_leaving(lambda c, p: p[:-1] if version(p) == 4 else p)),
    Fault("fragment header in every IPv6 packet", "no-fragment-header", change_leaving(add_fragment_header)),
    # drops
    Fault("own ICMPv6 errors missing", "5.1-hop-limit-1", drop_own_errors(6)),
    Fault("own ICMP errors missing", "4.1-ttl-1", drop_own_errors(4)),
    Fault("hop limit 1 forwarded", "5.1-hop-limit-1", change_arriving(raise_ttl)),
    Fault("TTL 1 forwarded", "4.1-ttl-1", change_arriving(raise_ttl)),
    Fault("options dropped", "4.1-option-record-route", drop4(lambda p: p[0] & 15 > 5)),
    Fault("used source routes dropped", "4.1-option-used-source-route", drop4(is_routed)),
    Fault("source routes forwarded", "4.1-source-route", rewrite(is_routed, lambda p: put(22, p[21] + 1)(p))),
    Fault("failed source route not reported", "4.1-source-route-error",
          change_leaving(lambda c, p: None if version(p) == 4 and p[9] == ICMP and p[20:22] == b"\x03\x05" else p)),
    Fault("routing headers dropped", "5.1-extension-routing-used", drop6(lambda p: p[6] == ROUTING and p[43] == 0)),
    Fault("segments left forwarded", "5.1-segments-left", rewrite(lambda p: version(p) == 6 and p[6] == ROUTING, put(43, 0))),
    Fault("pointer at the routing header's start", "5.1-segments-left-error",
          change_icmp(lambda c, p: version(p) == 6 and is_own_error(c, p, 4), 44, 0, 0, 0, 40)),
    Fault("packets from ::1 forwarded", "5.1-illegal-source",
          rewrite(lambda p: version(p) == 6 and p[8:24] == bytes(15) + b"\1", put(8, 0x20, 1, 0, 2, *bytes(11), 2))),
    Fault("packets from 127.0.0.1 forwarded", "4.1-illegal-source-loopback",
          rewrite(lambda p: version(p) == 4 and p[12:16] == b"\x7f\0\0\1", put(12, 198, 19, 0, 2))),
    Fault("packets from 0.0.0.0 forwarded", "4.1-illegal-source-this-network",
          rewrite(lambda p: version(p) == 4 and p[12:16] == bytes(4), put(12, 198, 19, 0, 2))),
    # fragments
    Fault("MTU of IPv6 reported", "4.1-df-too-big", change_icmp(lambda c, p: version(p) == 4 and is_own_error(c, p, 3, 4), 26, 5, 0xDC)),
    Fault("offset to IPv6 lost", "4.1-fragment-middle", to6(lambda p: put(42, 0, p[43] & 1)(p), lambda p: p[6] == FRAGMENT)),
    Fault("fragments with DF dropped", "4.1-fragment-first-df", drop4(lambda p: p[6] & 0x60 == 0x60)),
    Fault("fragments from IPv4 dropped", "4.1-fragment-first", drop4(lambda p: p[6:8] not in (b"\0\0", b"\x40\0"))),
    Fault("atomic fragments with DF", "5.1.1-atomic-fragment", change_fragments(mask(6, 0, 0x40), lambda c: c[42:44] == b"\0\0")),
    Fault("atomic fragments dropped", "5.1.1-atomic-fragment", drop6(lambda p: p[6] == FRAGMENT and p[42:44] == b"\0\0")),
    Fault("first fragments without checksum forwarded", "4.5-fragment-no-checksum",
          rewrite(lambda p: lacks_checksum(p) and p[6] & 0x20, put(26, 0x12, 0x34))),
    # messages
    Fault("ICMPv6 echo with a wrong checksum", "4.2-echo-request", to6(plus(42, 1), lambda p: p[6] == ICMPV6 and p[40] == 128)),
    Fault("ICMP echo with a wrong checksum", "5.2-echo-request", to4(plus(22, 1), lambda p: p[9] == ICMP and p[20] == 8)),
    Fault("pointer not translated", "4.2-pointer-12",
          change_errors("translate_error_to_ipv6", lambda k, c, r, t: (4, 0, r >> 24) if t and t[:2] == (4, 0) else t)),
    Fault("pointers that IPv6 has not forwarded", "4.2-no-pointer-4",
          change_errors("translate_error_to_ipv6", lambda k, c, r, t: (4, 0, 0) if k == 12 and t is None else t)),
    Fault("MTU to IPv4 not lowered by 20", "5.2-too-big-1400", change_errors("translate_error_to_ipv4", lambda k, c, r, t: (3, 4, min(r, 1480)) if k == 2 else t)),
    Fault("MTU to IPv4 not limited", "5.2-too-big-9000", change_errors("translate_error_to_ipv4", lambda k, c, r, t: (3, 4, r - 20) if k == 2 else t)),
    Fault("pointer to IPv4 not translated", "5.2-pointer-24",
          change_errors("translate_error_to_ipv4", lambda k, c, r, t: (12, 0, r << 24) if (k, c) == (4, 0) and t else t)),
    Fault("pointers that IPv4 has not forwarded", "5.2-no-pointer-2",
          change_errors("translate_error_to_ipv4", lambda k, c, r, t: (12, 0, 0) if (k, c) == (4, 0) and t is None else t)),
    Fault("unknown messages reported", "5.2-single-hop-200", replace_method("translate_icmp", report_unknown)),
    # packets that errors quote
    Fault("short inner TCP dropped", "4.3-inner-tcp-short", drop4(lambda p: is_icmp_error(p) and len(p) < 60)),
    Fault("inner echo keeps its type", "4.3-inner-echo",
          change_icmp(lambda c, p: version(c) == 4 and is_icmpv6_error(p) and p[54] == ICMPV6, 88, 8)),
]
# fmt: on


def keep_hairpin_source(arrived, emitted):
    """Keep the source of packets from CE to CE, with a valid checksum."""
    if not (version(arrived) == version(emitted) == 6 and emitted[6] == UDP):
        return emitted
    return update_transport_checksum(emitted[:8] + arrived[8:24] + emitted[24:])


# fmt: off
MAPT = [
    Fault("wrong sources not reported", "source-told", drop_own_errors(6)),
    Fault("source port not checked", "source-port-udp",
          replace_method("sharing.find_customer", lambda _, find, source: (ce := find(source)) and (
              SimpleNamespace(rule=ce[0].rule, compute_psid=lambda _: ce[2]), *ce[1:]))),
    Fault("later fragments dropped", "fragments-in-order", drop4(lambda p: p[6] & 0x1F | p[7] > 0)),
    Fault("ICMP echo from IPv4 dropped", "down-icmp", drop4(lambda p: p[9] == ICMP)),
    Fault("last port of a range dropped", "edges-up", drop6(lambda p: p[6] == UDP and p[41] & 0x1F == 0x1F)),
    Fault("CEs do not reach each other", "hairpin", replace_method("emit_ipv4", lambda d, _, *args: TranslatingDevice.emit_ipv4(d, *args))),
    Fault("CEs reach each other with wrong addresses", "hairpin", change_leaving(keep_hairpin_source)),
]
# fmt: on


def change_owner(choose):
    """Change the owner of an address; `choose` takes the correct owner, the customers, address and port."""
    return replace_method(
        "sharing.find", lambda s, find, ipv4, port: choose(find(ipv4, port), s, ipv4, port)
    )


def accept(wrong):
    """Decapsulate tunnel packets for which `wrong` holds, from any sender."""

    def faulty(_, correct, packet):
        octets = bytes(packet)
        if octets[6] != IPIP or len(octets) < 60 or not wrong(octets):
            return correct(packet)
        return [("right", replace(read_header(octets[40:]), ttl=octets[48] - 1, missing=0))]

    return replace_method("forward_tunnel", faulty)


def accept_ports(protocol):
    """Accept packets of a protocol from any port if all addresses are the customer's."""
    return accept(lambda p: p[49] == protocol and p[18:22] == p[52:56] and p[12:14] != STRANGER)


def change_encapsulated(at, change, *, inner=False):
    """Change one octet of the outer or the inner header of encapsulated packets."""

    def changed(arrived, emitted):
        if version(emitted) != 6 or emitted[6] != IPIP or version(arrived) != 4:
            return emitted
        outer, packet = bytearray(emitted[:40]), bytearray(emitted[40:])
        chosen = packet if inner else outer
        chosen[at] = change(chosen[at]) & 0xFF
        return bytes(outer) + update_header_checksum(packet)

    return change_leaving(changed)


def change_ecn(inner, outer, result):
    """Set a wrong result for one cell of the table of RFC 6040."""

    def change(arrived, emitted):
        is_tunnel = version(arrived) == 6 and arrived[6] == IPIP and version(emitted) == 4
        is_cell = is_tunnel and (arrived[41] & 3, arrived[1] >> 4 & 3) == (inner, outer)
        return edit_packet(emitted, mask(1, 3, result)) if is_cell else emitted

    return change_leaving(change)


def read_number(packet, at):
    return int.from_bytes(packet[at : at + 2], "big")


def is_mark_on_not_ect(p):
    return version(p) == 6 and p[6] == IPIP and p[1] >> 4 & 3 == 3 and not p[41] & 3


STRANGER = b"\xde\xad"
"""Third group of the audit's address outside all rules."""
FIRST_CUSTOMER = b"\x00\x21"
"""Fourth group of the first customer's prefix."""
# fmt: off
RELAY = [
    Fault("ports not checked", "source-port-udp", accept_ports(UDP)),
    Fault("TCP ports not checked", "source-port-tcp", accept_ports(TCP)),
    Fault("identifiers not checked", "source-port-icmp", accept_ports(ICMP)),
    Fault("IPv4 sources not checked", "source-ipv4-other", accept(lambda p: p[18:22] != p[52:56])),
    Fault("outer sources not checked", "source-ipv6-stranger", accept(lambda p: p[12:14] == STRANGER)),
    Fault("prefixes not checked", "source-ipv6-other", accept(lambda p: p[14:16] != FIRST_CUSTOMER and p[12:14] != STRANGER)),
    Fault("excluded ports accepted", "source-port-excluded", accept(lambda p: read_number(p, 60) < 1024)),
    Fault("CEs of the upper half lost", "last-up", drop6(lambda p: p[14] >= 0x10)),
    Fault("packets to the last address lost", "last-down", drop4(lambda p: p[19] == 255)),
    Fault("wrong sources reported", "source-port-udp", set_values(reports_sources=True)),
    Fault("port ranges end early", "edges-down", change_owner(lambda r, s, a, p: None if p is not None and p & 0x1F == 0x1F else r)),
    Fault("port ranges begin late", "edges-up", change_owner(lambda r, s, a, p: None if p is not None and p & 0x1F == 0 else r)),
    Fault("all ports are the first customer's", "beside-down",
          change_owner(lambda r, s, a, p: r and (s.domains[0].compute_address(a, "00001") if s.domains else s.find_rows(a)[1].b4, r[1]))),
    Fault("ICMP queries dropped", "down-icmp", drop4(lambda p: p[9] == ICMP and p[20] in (0, 8))),
    Fault("ICMP errors dropped", "icmp-error-3-4", drop4(lambda p: p[9] == ICMP and p[20] == 3)),
    Fault("fragments dropped", "fragments-in-order", drop4(lambda p: p[6] & 0x3F | p[7] > 0)),
    Fault("TCP dropped", "up-tcp", drop6(lambda p: p[6] == IPIP and p[49] == TCP)),
    Fault("no hairpin", "hairpin", replace_method("sharing.has_share", lambda *_: False)),
]
TUNNEL = [
    Fault("TTL kept out of the tunnel", "ttl-out", to4(plus(8, 1))),
    Fault("TTL of the outer header", "outer-hop-limit",
          change_leaving(lambda c, p: edit_packet(p, put(8, c[7] - 1)) if version(c) == 6 != version(p) else p)),
    Fault("DF lost out of the tunnel", "df-out", to4(mask(6, 0x40))),
    Fault("TTL kept into the tunnel", "ttl-into", change_encapsulated(8, lambda v: v + 1, inner=True)),
    Fault("DF lost into the tunnel", "df-into", change_encapsulated(6, lambda v: v & 0xBF, inner=True)),
    Fault("tunnel hop limit from the TTL", "tunnel-hop-limit",
          change_leaving(lambda c, p: p[:7] + c[8:9] + p[8:] if version(p) == 6 and version(c) == 4 else p)),
    Fault("DSCP not carried over", "dscp-into", change_encapsulated(0, lambda v: 0x60)),
    Fault("ECN changed into the tunnel", "ecn-into-2", change_encapsulated(1, lambda v: v & 0xCF | 0x10)),
    Fault("inner data changed", "decapsulated", change_leaving(lambda c, p: p[:-1] + b"!" if version(p) == 4 else p)),
    Fault("tunnel to another customer", "encapsulated", change_encapsulated(39, lambda v: v + 1)),
    Fault("time exceeded not reported", "ttl-1", change_leaving(lambda c, p: None if version(c) == 4 and is_own_error(c, p, 11) else p)),
    Fault("too big not reported", "df-too-big", change_leaving(lambda c, p: None if version(c) == 4 and is_own_error(c, p, 3) else p)),
    Fault("MTU of the link reported", "df-too-big",
          change_leaving(lambda c, p: p[:26] + b"\x05\xdc" + p[28:] if version(c) == 4 == version(p) else p)),
    Fault("too big without DF dropped", "no-df-too-big", change_leaving(lambda c, p: None if version(p) == 6 and p[6] == FRAGMENT else p)),
    Fault("last fragment lost", "no-df-too-big",
          change_leaving(lambda c, p: None if version(p) == 6 and p[6] == FRAGMENT and not p[43] & 1 else p)),
    Fault("tunnel fragments dropped", "reassembly-in-order", drop6(lambda p: p[6] == FRAGMENT)),
    Fault("tunnel packets with destination options dropped", "encapsulation-limit", drop6(lambda p: p[6] == 60)),
    Fault("marks on Not-ECT forwarded", "ecn-0-3", rewrite(is_mark_on_not_ect, mask(1, 0xF0))),
    *(Fault(f"inner {inner}, outer {outer} becomes {made}", f"ecn-{inner}-{outer}", change_ecn(inner, outer, made))
      for inner, outer, made in ((2, 3, 2), (1, 3, 1), (2, 1, 2), (0, 2, 2), (3, 0, 0))),
    Fault("IPv6 in the tunnel forwarded", "wrong-version", accept(lambda p: p[40] >> 4 == 6)),
    Fault("inner length not checked", "inner-length", accept(lambda p: read_number(p, 42) > len(p) - 40)),
    Fault("inner header checksum not checked", "inner-checksum", accept(lambda p: checksum(p[40:60]) != 0)),
    Fault("nested IPv4 forwarded", "nested", accept(lambda p: p[49] == IPIP)),
]
# fmt: on
RULES = yaml.safe_load((TABLE.parent / "rules.yaml").read_text())


def confuse_neighbors(_, find, ipv4, port):
    return find(ipv4 - 4 if int(ipv4) & 0xFF == 8 else ipv4, port)


def replace_rules(technology, params):
    """Return the technology with other parameters; ``psid_offset`` changes the inner rule."""
    values = technology.params.model_dump()
    target = values["domains"][0] if "psid_offset" in params else values
    target.update(params)
    return type(technology)(technology.params_model(**values))
