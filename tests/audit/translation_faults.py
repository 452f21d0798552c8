"""Planted faults of a stateless translator: each breaks one clause of RFC 7915 or RFC 6052."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from v6t.audit.packet_device.packets import Drop, IcmpError
from v6t.audit.packet_device.translator import TranslatingDevice
from v6t.tests.audit.faulty import (
    Fault,
    Octets,
    drop,
    forward,
    header_summed,
    message_summed,
    plus,
    put,
    version,
    without_errors,
)

UDP, TCP, ICMP, FRAGMENT, ICMPV6 = 17, 6, 1, 44, 58


def faults() -> list[Fault]:
    return [*_headers(), *_drops(), *_fragments(), *_messages(), *_inner()]


def _untold(of: int) -> Callable[[bytes, bytes], bytes | None]:
    return lambda c, p: p if version(c) != of else without_errors(c, p)


def _protocol4(number: int) -> Callable[[bytes], bool]:
    return lambda p: p[9] == number


def _next6(number: int) -> Callable[[bytes], bool]:
    return lambda p: p[6] == number


def _df(always: bool) -> Callable[[Octets], None]:
    def change(p: Octets) -> None:
        p[6] = p[6] | 0x40 if always else p[6] & 0xBF

    return change


def _set(at: int, octets: bytes) -> Callable[[Octets], None]:
    def change(p: Octets) -> None:
        p[at : at + len(octets)] = octets

    return change


# fmt: off
def _headers() -> Iterator[Fault]:
    yield Fault("TOS lost", "5.1-tos", leaving=forward(4, put(1, 0)))
    yield Fault("traffic class lost", "4.1-traffic-class", leaving=forward(6, _set(0, b"\x60\0")))
    yield Fault("flow label set", "4.1-flow-label", leaving=forward(6, put(3, 7)))
    yield Fault("TTL kept", "5.1-ttl", leaving=forward(4, plus(8, 1)))
    yield Fault("TTL less two", "5.1-ttl", leaving=forward(4, plus(8, -1)))
    yield Fault("hop limit kept", "4.1-hop-limit", leaving=forward(6, plus(7, 1)))
    yield Fault("hop limit less three", "4.1-hop-limit", leaving=forward(6, plus(7, -2)))
    yield Fault("DF always", "5.1-df-46", leaving=forward(4, _df(True), lambda p: p[6:8] == b"\0\0"))
    yield Fault("DF never", "5.1-df-1261", leaving=forward(4, _df(False)))
    yield Fault("DF from 1280 on", "5.1-df-1261", leaving=forward(4, _df(False), lambda p: len(p) < 1280))
    yield Fault("no IPv4 header checksum", "5.1-udp",
                leaving=lambda c, p: p[:10] + b"\0\0" + p[12:] if version(p) == 4 else p)
    yield Fault("UDP checksum to IPv4 not updated", "5.1-udp", leaving=forward(4, plus(26, 1), _protocol4(UDP)))
    yield Fault("UDP checksum to IPv6 not updated", "4.1-udp", leaving=forward(6, plus(46, 1), _next6(UDP)))
    yield Fault("TCP checksum to IPv4 not updated", "5.5-tcp", leaving=forward(4, plus(36, 1), _protocol4(TCP)))
    yield Fault("TCP checksum to IPv6 not updated", "4.5-tcp", leaving=forward(6, plus(56, 1), _next6(TCP)))
    yield Fault("UDP checksum zero", "4.5-udp-checksum-ffff",
                leaving=forward(6, _set(46, b"\0\0"), lambda p: p[6] == UDP and p[46:48] == b"\xff\xff"))
    yield Fault("UDP checksum zero to IPv4", "5.5-udp-checksum-ffff",
                leaving=forward(4, _set(26, b"\0\0"), lambda p: p[9] == UDP and p[26:28] == b"\xff\xff"))
    yield Fault("UDP without checksum forwarded so", "4.5-udp-no-checksum",
                leaving=lambda c, p: p[:46] + b"\0\0" + p[48:]
                if c[0] == 0x45 and c[9] == UDP and c[26:28] == b"\0\0" and p[6] == UDP else p)
    yield Fault("UDP without checksum dropped", "4.5-udp-checksum-made",
                arriving=lambda p: None
                if version(p) == 4 and p[0] == 0x45 and p[9] == UDP and p[6:8] == b"\0\0" and p[26:28] == b"\0\0" else p)
    yield Fault("data cut", "5.1-udp", leaving=lambda c, p: p[:-1] if version(p) == 4 else p)
    yield Fault("every IPv6 packet with a fragment header", "no-fragment-header", leaving=_fragmented)
# fmt: on


def _fragmented(came: bytes, left: bytes) -> bytes:
    if version(left) != 6 or version(came) != 4 or left[6] != UDP:
        return left
    length = int.from_bytes(left[4:6], "big") + 8
    head = left[:4] + length.to_bytes(2, "big") + bytes([FRAGMENT]) + left[7:40]
    return head + bytes([UDP, 0, 0, 0]) + b"\0\0" + came[4:6] + left[40:]


def _chain(*numbers: int) -> Callable[[bytes], bytes | None]:
    return drop(lambda p: version(p) == 6 and p[6] in numbers)


def _used(p: bytes) -> bytes:
    """Segments Left is not looked at."""
    return p[:43] + b"\0" + p[44:] if version(p) == 6 and p[6] == 43 else p


def _unrouted(p: bytes) -> bytes:
    """A source route is not looked at."""
    if version(p) == 4 and p[0] & 15 > 5 and p[20] == 131:
        octets = Octets(p)
        octets[22] = octets[21] + 1
        octets[10:12] = b"\0\0"
        return header_summed(octets)
    return p


def _lifted(p: bytes) -> bytes:
    """TTL or hop limit 1 is not looked at."""
    octets, at = Octets(p), 8 if version(p) == 4 else 7
    if octets[at] != 1:
        return p
    octets[at] = 2
    return header_summed(octets) if version(p) == 4 else bytes(octets)


def _reforwarded(source: bytes, at: int, instead: bytes) -> Callable[[bytes], bytes]:
    """A source that no device forwards is taken for a right one; sums made right by the caller's clause."""

    def arriving(p: bytes) -> bytes:
        if p[at : at + len(source)] == source and version(p) == (4 if len(source) == 4 else 6):
            octets = Octets(p)
            octets[at : at + len(source)] = instead
            return header_summed(octets) if len(source) == 4 else bytes(octets)
        return p

    return arriving


# fmt: off
def _drops() -> Iterator[Fault]:
    yield Fault("no ICMPv6 errors of its own", "5.1-hop-limit-1", leaving=_untold(6))
    yield Fault("no ICMP errors of its own", "4.1-ttl-1", leaving=_untold(4))
    yield Fault("hop limit 1 forwarded", "5.1-hop-limit-1", arriving=_lifted)
    yield Fault("TTL 1 forwarded", "4.1-ttl-1", arriving=_lifted)
    yield Fault("hop limit 2 dropped", "5.1-hop-limit-2", arriving=drop(lambda p: version(p) == 6 and p[7] == 2))
    yield Fault("TTL 2 dropped", "4.1-ttl-2", arriving=drop(lambda p: version(p) == 4 and p[8] == 2))
    yield Fault("options dropped", "4.1-option-record-route",
                arriving=drop(lambda p: version(p) == 4 and p[0] & 15 > 5))
    yield Fault("used source routes dropped", "4.1-option-used-source-route",
                arriving=drop(lambda p: version(p) == 4 and p[0] & 15 > 5 and p[20] == 131))
    yield Fault("source routes forwarded", "4.1-source-route", arriving=_unrouted)
    yield Fault("source route failed not told", "4.1-source-route-error",
                leaving=lambda c, p: None if version(p) == 4 and p[9] == ICMP and p[20:22] == b"\x03\x05" else p)
    yield Fault("hop-by-hop options dropped", "5.1-extension-hop-by-hop", arriving=_chain(0))
    yield Fault("destination options dropped", "5.1-extension-destination-options", arriving=_chain(60))
    yield Fault("routing headers dropped", "5.1-extension-routing-used",
                arriving=drop(lambda p: version(p) == 6 and p[6] == 43 and p[43] == 0))
    yield Fault("segments left forwarded", "5.1-segments-left", arriving=_used)
    yield Fault("pointer at the routing header's start", "5.1-segments-left-error",
                leaving=lambda c, p: message_summed(Octets(p[:44] + b"\0\0\0\x28" + p[48:]))
                if version(p) == 6 == version(c) and p[40] == 4 else p)
    for protocol in (33, 50, 253):
        yield Fault(f"protocol {protocol} from IPv4 dropped", "4.1-protocol",
                    arriving=drop(lambda p, n=protocol: version(p) == 4 and p[9] == n))  # type: ignore[misc]
        yield Fault(f"protocol {protocol} from IPv6 dropped", "5.1-protocol", arriving=_chain(protocol))
    yield Fault("packets from ::1 forwarded", "5.1-illegal-source",
                arriving=_reforwarded(bytes(15) + b"\x01", 8, bytes.fromhex("20010002000000000000000000000002")))
    yield Fault("packets from 127.0.0.1 forwarded", "4.1-illegal-source-loopback",
                arriving=_reforwarded(b"\x7f\0\0\x01", 12, bytes([198, 19, 0, 2])))
    yield Fault("packets from 0.0.0.0 forwarded", "4.1-illegal-source-this-network",
                arriving=_reforwarded(bytes(4), 12, bytes([198, 19, 0, 2])))
    yield Fault("IGMP forwarded", "4.2-igmp", patch=(TranslatingDevice, "untranslated", lambda _: ()))
    yield Fault("timestamp requests forwarded", "4.2-query-13",
                patch=(TranslatingDevice, "echo_to_ipv6", lambda e: {**e, 13: 128}))
    yield Fault("unknown ICMP types forwarded", "4.2-query-42",
                patch=(TranslatingDevice, "echo_to_ipv6", lambda e: {**e, 42: 128}))
    yield Fault("neighbour solicitations forwarded", "5.2-single-hop-135",
                patch=(TranslatingDevice, "echo_to_ipv4", lambda e: {**e, 135: 13}))
    yield Fault("MLD forwarded", "5.2-single-hop-130",
                patch=(TranslatingDevice, "echo_to_ipv4", lambda e: {**e, 130: 13}))
# fmt: on


def _translator(**changed: Any) -> tuple[Any, str, Callable[[Any], Any]]:
    """The translator believes other numbers."""

    def made(init: Any) -> Any:
        def patched(self: Any, *args: Any, **kwargs: Any) -> None:
            init(self, *args, **kwargs)
            for name, value in changed.items():
                setattr(self, name, value)

        return patched

    return TranslatingDevice, "__init__", made


# fmt: off
def _fragments() -> Iterator[Fault]:
    is6 = _next6(FRAGMENT)
    yield Fault("never fragmented", "4.1-no-df-too-big", patch=_translator(lowest_ipv6_mtu=1500))
    yield Fault("fragmented to 1288", "4.1-no-df-too-big", patch=_translator(lowest_ipv6_mtu=1288))
    yield Fault("fragmented at 1280 and above", "4-no-df-fits", patch=_translator(lowest_ipv6_mtu=1279))
    yield Fault("too big with DF forwarded", "4.1-df-too-big", patch=_translator(ipv6_mtu=1600))
    yield Fault("MTU told is that of IPv6", "4.1-df-too-big",
                leaving=lambda c, p: message_summed(Octets(p[:26] + b"\x05\xdc" + p[28:]))
                if version(c) == 4 == version(p) and p[20:22] == b"\x03\x04" else p)
    yield Fault("whole packets with DF dropped above 1280", "4-df-fits", patch=_translator(ipv6_mtu=1280))
    yield Fault("high bits of the identification set", "4.1-fragment-first", leaving=forward(6, put(44, 1), is6))
    yield Fault("identification to IPv6 lost", "4.1-fragment-middle", leaving=forward(6, _set(46, b"\0\0"), is6))
    yield Fault("offset to IPv6 lost", "4.1-fragment-middle",
                leaving=forward(6, lambda p: _set(42, bytes([0, p[43] & 1]))(p), is6))
    yield Fault("M flag lost", "4.1-fragment-first", leaving=forward(6, lambda p: put(43, p[43] & 0xFE)(p), is6))
    yield Fault("M flag on the last", "4.1-fragment-last", leaving=forward(6, lambda p: put(43, p[43] | 1)(p), is6))
    yield Fault("fragments with DF dropped", "4.1-fragment-first-df",
                arriving=drop(lambda p: version(p) == 4 and p[6] & 0x60 == 0x60))
    yield Fault("fragments from IPv4 dropped", "4.1-fragment-first",
                arriving=drop(lambda p: version(p) == 4 and p[6:8] not in (b"\0\0", b"\x40\0")))
    for name, at, octets in (("identification", 4, b"\0\0"), ("fragment word", 6, b"\0\0")):
        yield Fault(f"{name} to IPv4 lost", "5.1.1-fragment-first",
                    leaving=lambda c, p, a=at, o=octets: forward(4, _set(a, o))(c, p)
                    if version(c) == 6 and c[6] == FRAGMENT else p)
    yield Fault("fragments to IPv4 with DF", "5.1.1-fragment-last",
                leaving=lambda c, p: forward(4, _df(True))(c, p) if c[6] == FRAGMENT and version(c) == 6 else p)
    yield Fault("atomic fragments with DF", "5.1.1-atomic-fragment",
                leaving=lambda c, p: forward(4, _df(True))(c, p)
                if version(c) == 6 and c[6] == FRAGMENT and c[42:44] == b"\0\0" else p)
    yield Fault("atomic fragments dropped", "5.1.1-atomic-fragment",
                arriving=drop(lambda p: version(p) == 6 and p[6] == FRAGMENT and p[42:44] == b"\0\0"))
    yield Fault("fragments that name an extension header forwarded", "5.1.1-fragment-extension",
                patch=(TranslatingDevice, "forbidden_in_fragments", lambda _: ()))
    yield Fault("first fragments without checksum forwarded", "4.5-fragment-no-checksum",
                arriving=lambda p: p[:26] + b"\x12\x34" + p[28:]
                if version(p) == 4 and p[0] == 0x45 and p[9] == UDP and p[6] & 0x20 and p[26:28] == b"\0\0" else p)
# fmt: on


Told = tuple[int, int, int] | None


def _errors(name: str, change: Callable[..., Told]) -> tuple[Any, str, Callable[[Any], Any]]:
    """Change ICMP errors: takes type, code, second word and the correct answer (None: dropped)."""

    def make(correct: Any) -> Any:
        def wrong(self: Any, error: Any, quoted: Any) -> Any:
            try:
                right = tuple(correct(self, error, quoted))
            except Drop:
                right = None
            told = change(*error, right)
            if told is None:
                raise Drop
            return IcmpError(*told)

        return wrong

    return TranslatingDevice, name, make


_six, _four = partial(_errors, "error_to_ipv6"), partial(_errors, "error_to_ipv4")


# fmt: off
def _messages() -> Iterator[Fault]:
    yield Fault("ICMPv6 echo with a wrong checksum", "4.2-echo-request",
                leaving=forward(6, plus(42, 1), lambda p: p[6] == ICMPV6 and p[40] == 128))
    yield Fault("ICMP echo with a wrong checksum", "5.2-echo-request",
                leaving=forward(4, plus(22, 1), lambda p: p[9] == ICMP and p[20] == 8))
    yield Fault("echo replies dropped", "4.2-echo-reply",
                patch=(TranslatingDevice, "echo_to_ipv6", lambda e: {8: 128}))
    yield Fault("ICMPv6 echo replies dropped", "5.2-echo-reply",
                patch=(TranslatingDevice, "echo_to_ipv4", lambda e: {128: 8}))
    for code in (0, 3, 9, 13, 15):
        yield Fault(f"ICMP unreachable code {code} becomes 1/3", f"4.2-unreachable-{code}",
                    patch=_six(lambda k, c, r, t, m=code: (1, 3, 0) if (k, c) == (3, m) else t))  # type: ignore[misc]
    yield Fault("ICMP unreachable code 6 dropped", "4.2-unreachable-6",
                patch=_six(lambda k, c, r, t: None if (k, c) == (3, 6) else t))
    yield Fault("protocol unreachable without pointer", "4.2-protocol-unreachable",
                patch=_six(lambda k, c, r, t: (4, 1, 0) if (k, c) == (3, 2) else t))
    yield Fault("MTU to IPv6 not raised by 20", "4.2-fragmentation-needed-1300",
                patch=_six(lambda k, c, r, t: (2, 0, r & 0xFFFF) if (k, c) == (3, 4) and r > 1280 else t))
    yield Fault("MTU below 1280 told", "4.2-fragmentation-needed-600",
                patch=_six(lambda k, c, r, t: (2, 0, 620) if (k, c, r) == (3, 4, 600) else t))
    yield Fault("MTU above the link's told", "4.2-fragmentation-needed-1500",
                patch=_six(lambda k, c, r, t: (2, 0, 1520) if (k, c, r) == (3, 4, 1500) else t))
    yield Fault("no plateau", "4.2-fragmentation-needed-0",
                patch=_six(lambda k, c, r, t: (2, 0, 1280) if (k, c, r) == (3, 4, 0) else t))
    yield Fault("time exceeded loses its code", "4.2-time-exceeded-1",
                patch=_six(lambda k, c, r, t: (3, 0, 0) if k == 11 else t))
    yield Fault("pointer not translated", "4.2-pointer-12",
                patch=_six(lambda k, c, r, t: (4, 0, r >> 24) if t and t[:2] == (4, 0) else t))
    yield Fault("pointers that IPv6 has not forwarded", "4.2-no-pointer-4",
                patch=_six(lambda k, c, r, t: (4, 0, 0) if k == 12 and t is None else t))
    yield Fault("bad length dropped", "4.2-bad-length",
                patch=_six(lambda k, c, r, t: None if (k, c) == (12, 2) else t))
    yield Fault("redirects forwarded", "4.2-dropped-5-1", patch=_six(lambda k, c, r, t: (1, 0, 0) if k == 5 else t))
    yield Fault("source quench forwarded", "4.2-dropped-4-0",
                patch=_six(lambda k, c, r, t: (1, 0, 0) if k == 4 else t))
    yield Fault("precedence violation forwarded", "4.2-dropped-3-14",
                patch=_six(lambda k, c, r, t: (1, 1, 0) if (k, c) == (3, 14) else t))
    for code in range(5):
        yield Fault(f"ICMPv6 unreachable code {code} becomes 3/0", f"5.2-unreachable-{code}",
                    patch=_four(lambda k, c, r, t, m=code: (3, 0, 0) if (k, c) == (1, m) else t))  # type: ignore[misc]
    yield Fault("MTU to IPv4 not lowered by 20", "5.2-too-big-1400",
                patch=_four(lambda k, c, r, t: (3, 4, min(r, 1480)) if k == 2 else t))
    yield Fault("MTU to IPv4 not limited", "5.2-too-big-9000",
                patch=_four(lambda k, c, r, t: (3, 4, r - 20) if k == 2 else t))
    yield Fault("ICMPv6 time exceeded loses its code", "5.2-time-exceeded-1",
                patch=_four(lambda k, c, r, t: (11, 0, 0) if k == 3 else t))
    yield Fault("pointer to IPv4 not translated", "5.2-pointer-24",
                patch=_four(lambda k, c, r, t: (12, 0, r << 24) if (k, c) == (4, 0) and t else t))
    yield Fault("pointers that IPv4 has not forwarded", "5.2-no-pointer-2",
                patch=_four(lambda k, c, r, t: (12, 0, 0) if (k, c) == (4, 0) and t is None else t))
    yield Fault("unrecognized next header becomes 12/0", "5.2-next-header",
                patch=_four(lambda k, c, r, t: (12, 0, 0) if (k, c) == (4, 1) else t))
    yield Fault("unknown options forwarded", "5.2-dropped-4-2",
                patch=_four(lambda k, c, r, t: (12, 0, 0) if (k, c) == (4, 2) else t))
    yield Fault("unknown errors forwarded", "5.2-dropped-50-0",
                patch=(TranslatingDevice, "echo_to_ipv4", lambda e: {**e, 50: 3}))
# fmt: on


def _error6(p: bytes) -> bool:
    return p[6] == ICMPV6 and p[40] < 128


def _error4(p: bytes) -> bool:
    return p[9] == ICMP and p[20] in (3, 11, 12)


def _within(to: int, at: int, difference: int) -> Callable[[bytes, bytes], bytes]:
    """An octet of the packet in an error; the sum of the message is right afterwards."""
    base, error = (48, _error6) if to == 6 else (28, _error4)

    def leaving(came: bytes, left: bytes) -> bytes:
        if version(left) != to or version(came) == to or not error(left):
            return left
        octets = Octets(left)
        octets[base + at] = (octets[base + at] + difference) & 0xFF
        return message_summed(octets)

    return leaving


# fmt: off
def _inner() -> Iterator[Fault]:
    yield Fault("inner hop limit decremented", "4.3-inner", leaving=_within(6, 7, -1))
    yield Fault("inner source wrong", "4.3-inner", leaving=_within(6, 23, 1))
    yield Fault("inner destination wrong", "4.3-inner", leaving=_within(6, 39, 1))
    yield Fault("inner next header wrong", "4.3-inner", leaving=_within(6, 6, 1))
    yield Fault("inner payload length wrong", "4.3-inner-checksum", leaving=_within(6, 5, 20))
    yield Fault("inner UDP checksum not updated", "4.3-inner-checksum", leaving=_within(6, 46, 1))
    yield Fault("short inner TCP dropped", "4.3-inner-tcp-short",
                arriving=drop(lambda p: version(p) == 4 and _error4(p) and len(p) < 60))
    yield Fault("inner echo keeps its type", "4.3-inner-echo",
                leaving=lambda c, p: message_summed(Octets(p[:88] + b"\x08" + p[89:]))
                if version(p) == 6 and version(c) == 4 and _error6(p) and p[54] == ICMPV6 else p)
    yield Fault("nested errors forwarded", "4.3-nested",
                patch=(TranslatingDevice, "echo_to_ipv6", lambda e: {**e, 3: 128}))
    yield Fault("inner TTL decremented", "5.3-inner", leaving=_within(4, 8, -1))
    yield Fault("inner IPv4 header checksum wrong", "5.3-inner", leaving=_within(4, 10, 1))
    yield Fault("inner IPv4 source wrong", "5.3-inner", leaving=_within(4, 15, 1))
    yield Fault("inner total length wrong", "5.3-inner-checksum", leaving=_within(4, 3, 20))
    yield Fault("inner UDP checksum to IPv4 not updated", "5.3-inner-checksum", leaving=_within(4, 26, 1))
    yield Fault("inner identification lost", "5.3-inner-fragment", leaving=_within(4, 4, 1))
    yield Fault("nested ICMPv6 errors forwarded", "5.3-nested",
                patch=(TranslatingDevice, "echo_to_ipv4", lambda e: {**e, 1: 3}))
# fmt: on
