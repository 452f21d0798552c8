"""Devices for tests, written once more: scapy's headers, strings of bits, a frame at a time.

Each world answers a frame with the frame a correct device sends, or with nothing. Checksums are
computed anew by scapy. No arithmetic is shared with the plugins.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from v6t.plugins.base import Links

from .oracle import OracleRule, aged, arrived, may_be_forwarded, sent


def embedded(prefix: str, ipv4: str) -> str:
    """RFC 6052 by the picture in its section 2.2."""
    net = IPv6Network(prefix)
    left = f"{int(net.network_address):0128b}"[: net.prefixlen]
    bits = f"{int(IPv4Address(ipv4)):032b}"
    if net.prefixlen == 96:
        return str(IPv6Address(int(left + bits, 2)))
    before, after = bits[: 64 - net.prefixlen], bits[64 - net.prefixlen :]
    return str(IPv6Address(int((left + before + "0" * 8 + after).ljust(128, "0"), 2)))


def extracted(prefix: str, ipv6: str) -> str | None:
    net = IPv6Network(prefix)
    if IPv6Address(ipv6) not in net:
        return None
    bits = f"{int(IPv6Address(ipv6)):0128b}"
    if net.prefixlen == 96:
        return str(IPv4Address(int(bits[96:], 2)))
    without_u = bits[net.prefixlen : 64] + bits[72:]
    return str(IPv4Address(int(without_u[:32], 2)))


def as_ipv4(packet: IPv6, src: str, dst: str) -> IP:
    """An IPv6 packet with UDP as the IPv4 packet of RFC 7915 section 5.1."""
    length = packet.plen + 20
    udp = packet[UDP].copy()
    del udp.chksum
    flags = "DF" if length > 1260 else 0
    return IP(src=src, dst=dst, tos=packet.tc, ttl=packet.hlim - 1, id=0, flags=flags) / udp


def as_ipv6(packet: IP, src: str, dst: str) -> IPv6:
    """An IPv4 packet with UDP as the IPv6 packet of RFC 7915 section 4.1."""
    udp = packet[UDP].copy()
    del udp.chksum
    return IPv6(src=src, dst=dst, tc=packet.tos, fl=0, hlim=packet.ttl - 1) / udp


def routed(packet: IP | IPv6) -> IP | IPv6 | None:
    if packet.version == 4:
        return aged(packet) if packet.ttl > 1 else None
    if packet.hlim < 2:
        return None
    packet.hlim -= 1
    return packet


@dataclass
class World:
    """Two links; a subclass says what becomes of a packet."""

    links: Links

    def answer(self, direction: str, frame: bytes) -> bytes:
        here, there = self.links.left, self.links.right
        if direction == "reverse":
            here, there = there, here
        rest, ethertype = arrived(frame, here)
        if rest is None or not may_be_forwarded(rest):
            return b""
        packet = {0x0800: IP, 0x86DD: IPv6}[ethertype](rest)
        out = getattr(self, direction)(packet)
        return b"" if out is None else sent(there, out)


@dataclass
class RouterWorld(World):
    left: list[str]
    right: list[str]

    def forward(self, packet):
        return self._to(self.right, packet)

    def reverse(self, packet):
        return self._to(self.left, packet)

    def _to(self, networks, packet):
        make = (IPv4Network, IPv4Address) if packet.version == 4 else (IPv6Network, IPv6Address)
        mine = [make[0](n) for n in networks if (":" in n) == (packet.version == 6)]
        return routed(packet) if any(make[1](packet.dst) in n for n in mine) else None


def words(address: str) -> list[int]:
    return [int(part, 16) for part in IPv6Address(address).exploded.split(":")]


@dataclass
class Nptv6World(World):
    """RFC 6296: the fourth word is what keeps the sum of all words, in one's complement, as it was."""

    inside: str
    outside: str
    left: list[str]
    right: list[str]

    def forward(self, packet):
        out = self._to(self.right, packet)
        if out is not None:
            out.src = self._moved(out.src, self.inside, self.outside)
        return out

    def reverse(self, packet):
        out = self._to([*self.left, self.outside], packet)
        if out is not None:
            out.dst = self._moved(out.dst, self.outside, self.inside)
        return out

    def _to(self, networks, packet):
        here = any(IPv6Address(packet.dst) in IPv6Network(n) for n in networks)
        return routed(packet) if here else None

    def _moved(self, address, old, new):
        if IPv6Address(address) not in IPv6Network(old):
            return address
        before = words(address)
        after = [*words(new.partition("/")[0])[:3], 0, *before[4:]]
        after[3] = next(
            w
            for w in (sum(before) - sum(after) + n * 0xFFFF for n in range(-8, 9))
            if 0 <= w < 0xFFFF
        )
        return str(IPv6Address(":".join(f"{word:x}" for word in after)))


@dataclass
class SiitWorld(World):
    pairs: list[tuple[str, str]]
    prefix: str | None
    ipv6_is_left: bool
    native6: str
    native4: str

    def to_ipv6(self, ipv4: str) -> str | None:
        bits = f"{int(IPv4Address(ipv4)):032b}"
        best: tuple[int, str] | None = None
        for four, six in self.pairs:
            a, n = four.split("/")
            start = f"{int(IPv4Address(a)):032b}"[: int(n)]
            if bits.startswith(start) and (best is None or int(n) > best[0]):
                address, length = six.split("/")
                head = f"{int(IPv6Address(address)):0128b}"[: int(length)]
                best = int(n), (head + bits[int(n) :]).ljust(128, "0")
        if best:
            return str(IPv6Address(int(best[1], 2)))
        return embedded(self.prefix, ipv4) if self.prefix else None

    def to_ipv4(self, ipv6: str) -> str | None:
        bits = f"{int(IPv6Address(ipv6)):0128b}"
        best: tuple[int, str] | None = None
        for four, six in self.pairs:
            a, n = six.split("/")
            start = f"{int(IPv6Address(a)):0128b}"[: int(n)]
            if bits.startswith(start) and (best is None or int(n) > best[0]):
                address, length = four.split("/")
                head = f"{int(IPv4Address(address)):032b}"[: int(length)]
                best = int(n), head + bits[int(n) :][: 32 - int(length)]
        if best:
            return str(IPv4Address(int(best[1], 2)))
        return extracted(self.prefix, ipv6) if self.prefix else None

    def forward(self, packet):
        return self._six(packet) if self.ipv6_is_left else self._other(packet)

    def reverse(self, packet):
        return self._other(packet) if self.ipv6_is_left else self._six(packet)

    def _six(self, packet):
        src, dst = self.to_ipv4(packet.src), self.to_ipv4(packet.dst)
        if dst is None:
            return routed(packet) if packet.dst == self.native4 else None
        return None if src is None or packet.hlim < 2 else as_ipv4(packet, src, dst)

    def _other(self, packet):
        if packet.version == 6:
            return routed(packet) if packet.dst == self.native6 else None
        src, dst = self.to_ipv6(packet.src), self.to_ipv6(packet.dst)
        return None if None in (src, dst) or packet.ttl < 2 else as_ipv6(packet, src, dst)


def ports_of(packet) -> tuple[int, int]:
    return struct.unpack("!HH", bytes(packet.payload)[:4])


@dataclass
class MapTWorld(World):
    rules: list[OracleRule]
    dmr: str

    def map_address(self, rule: OracleRule, ipv4: str, psid: str) -> str:
        """The rule's MAP address, but with all of the host's address (erratum 5225)."""
        bits = f"{int(rule.address(ipv4, psid)):0128b}"
        at = 72 if rule.draft else 80
        return str(IPv6Address(int(bits[:at] + ipv4 + bits[at + 32 :], 2)))

    def forward(self, packet):
        server = extracted(self.dmr, packet.dst)
        if server is None:
            return routed(packet)
        bits = f"{int(IPv6Address(packet.src)):0128b}"
        holding = [r for r in self.rules if bits.startswith(r.prefix)]
        if not holding or packet.hlim < 2:
            return None
        rule = max(holding, key=lambda r: len(r.prefix))
        at = 72 if rule.draft else 80
        ipv4, psid = bits[at : at + 32], bits[at + 32 : at + 48][16 - rule.psid_len :]
        if not ipv4.startswith(rule.pool):
            return None
        if self.map_address(rule, ipv4, psid) != packet.src:
            return None
        if rule.port_psid(ports_of(packet)[0]) != psid:
            return None
        return as_ipv4(packet, str(IPv4Address(int(ipv4, 2))), server)

    def reverse(self, packet):
        if packet.version == 6:
            return routed(packet)
        bits = f"{int(IPv4Address(packet.dst)):032b}"
        holding = [r for r in self.rules if bits.startswith(r.pool)]
        if not holding or packet.ttl < 2:
            return None
        rule = max(holding, key=lambda r: len(r.pool))
        psid = rule.port_psid(ports_of(packet)[1])
        if psid is None:
            return None
        return as_ipv6(packet, embedded(self.dmr, packet.src), self.map_address(rule, bits, psid))


@cache
def canonical(ipv6):
    return str(IPv6Address(ipv6))


@dataclass
class LwWorld(World):
    """Rows: IPv4 address, PSID, PSID length, offset, lwB4, lwAFTR, all but numbers as text."""

    rows: list[tuple[str, int, int, int, str, str]]
    owners: dict[tuple[str, int], tuple[str, str]] = field(default_factory=dict)
    sharing: dict[str, tuple[int, int]] = field(default_factory=dict)
    relays: set[str] = field(default_factory=set)

    def __post_init__(self):
        for ipv4, psid, length, offset, b4, br in self.rows:
            assert (ipv4, psid) not in self.owners
            self.owners[ipv4, psid] = (canonical(b4), canonical(br))
            self.relays.add(canonical(br))
            assert self.sharing.setdefault(ipv4, (length, offset)) == (length, offset)

    def owner(self, ipv4: str, port: int) -> tuple[str, str] | None:
        if ipv4 not in self.sharing:
            return None
        length, offset = self.sharing[ipv4]
        digits = f"{port:016b}"
        if length and offset and "1" not in digits[:offset]:
            return None
        psid = digits[offset : offset + length] if length else ""
        return self.owners.get((ipv4, int(psid or "0", 2)))

    def forward(self, packet):
        if packet.dst not in self.relays:
            return routed(packet)
        inner = IP(bytes(packet.payload))
        owner = self.owner(inner.src, ports_of(inner)[0])
        return aged(inner) if owner == (packet.src, packet.dst) and inner.ttl > 1 else None

    def reverse(self, packet):
        if packet.version == 6:
            return routed(packet)
        owner = self.owner(packet.dst, ports_of(packet)[1])
        if owner is None or packet.ttl < 2:
            return None
        return IPv6(src=owner[1], dst=owner[0], nh=4, hlim=64) / aged(packet)


@dataclass
class TunnelWorld(World):
    """MAP-E CE or lwB4: an IPv4 network, ports given one by one, and the ends of the tunnel."""

    network: str
    ports: frozenset[int]
    local: str
    remote: str

    def forward(self, packet):
        if packet.dst != self.local:
            return routed(packet)
        inner = IP(bytes(packet.payload))
        mine = IPv4Address(inner.dst) in IPv4Network(self.network)
        mine &= ports_of(inner)[1] in self.ports and packet.src == self.remote
        return aged(inner) if mine and inner.ttl > 1 else None

    def reverse(self, packet):
        if packet.version == 6:
            return routed(packet)
        mine = IPv4Address(packet.src) in IPv4Network(self.network)
        if not mine or ports_of(packet)[0] not in self.ports:
            return None
        return IPv6(src=self.local, dst=self.remote, nh=4, hlim=64) / aged(packet)


@dataclass
class MapTCeWorld(World):
    """MAP-T CE: the relay's mirror image for one CE."""

    relay: MapTWorld
    network: str
    ports: frozenset[int]

    def forward(self, packet):
        server = extracted(self.relay.dmr, packet.src)
        (rule,) = self.relay.rules
        bits = f"{int(IPv6Address(packet.dst)):0128b}"
        if server is None or not bits.startswith(rule.prefix):
            return routed(packet)
        at = 72 if rule.draft else 80
        host = IPv4Address(int(bits[at : at + 32], 2))
        if host not in IPv4Network(self.network) or ports_of(packet)[1] not in self.ports:
            return None
        return as_ipv4(packet, server, str(host))

    def reverse(self, packet):
        if packet.version == 6:
            return routed(packet)
        if IPv4Address(packet.src) not in IPv4Network(self.network):
            return None
        source = ports_of(packet)[0]
        if source not in self.ports:
            return None
        (rule,) = self.relay.rules
        psid = rule.port_psid(source)
        bits = f"{int(IPv4Address(packet.src)):032b}"
        server = embedded(self.relay.dmr, packet.dst)
        return as_ipv6(packet, self.relay.map_address(rule, bits, psid), server)
