"""A border relay for tests: scapy's headers and addresses as strings of bits, a frame at a time.

Shares no arithmetic with the plugin. It names every fault of a frame, not only the first one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw
from scapy.utils import checksum
from v6t.plugins.base import Link, Links

NOT_OURS = "not addressed to this device"
NO_TUNNEL = "neither IPv4 in IPv6 for the BR nor native IPv6"
NO_RULE = "outer source outside every rule"
BAD_IID = "interface identifier contradicts the EA bits"
BAD_SOURCE = "inner source address contradicts the outer one"
BAD_PORT = "inner source port outside the CE's port set"
NO_DESTINATION = "no rule for the IPv4 destination"
NO_PORT = "destination port does not belong to a CE"
TTL = "TTL or hop limit exhausted"
TOO_BIG = "too big for the IPv6 link"
UNMARKABLE = "congestion mark on a packet that is not ECN-capable"

ECN = {
    0b00: {0b00: 0b00, 0b10: 0b00, 0b01: 0b00, 0b11: None},
    0b10: {0b00: 0b10, 0b10: 0b10, 0b01: 0b01, 0b11: 0b11},
    0b01: {0b00: 0b01, 0b10: 0b01, 0b01: 0b01, 0b11: 0b11},
    0b11: {0b00: 0b11, 0b10: 0b11, 0b01: 0b11, 0b11: 0b11},
}
"""RFC 6040 figure 4: by inner, then by outer codepoint; None: dropped."""

NOBODYS = [
    IPv4Network(n)
    for n in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4")
]


@dataclass(frozen=True)
class OracleRule:
    """A rule as a person would write it down."""

    ipv6: str
    ipv4: str
    ea_len: int
    psid_offset: int
    psid_len: int
    draft: bool = False
    only_psid: int | None = None  # of the one CE of a rule without EA bits

    @property
    def prefix(self) -> str:
        net = IPv6Network(self.ipv6)
        return f"{int(net.network_address):0128b}"[: net.prefixlen]

    @property
    def pool(self) -> str:
        net = IPv4Network(self.ipv4)
        return f"{int(net.network_address):032b}"[: net.prefixlen]

    def port_psid(self, port: int) -> str | None:
        """The PSID's bits in a port; None for a port nobody owns."""
        digits = f"{port:016b}"
        if not self.psid_len:
            return ""
        if self.psid_offset and set(digits[: self.psid_offset]) == {"0"}:
            return None
        psid = digits[self.psid_offset : self.psid_offset + self.psid_len]
        return psid if self.has_ce(psid) else None

    def has_ce(self, psid: str) -> bool:
        return self.only_psid is None or psid == f"{self.only_psid:0{self.psid_len}b}"

    def address(self, ipv4: str, psid: str) -> IPv6Address:
        """The MAP address of an IPv4 address and a PSID, both as bits."""
        suffix = ipv4[len(self.pool) :]
        embedded = (suffix + psid)[: self.ea_len]
        length = len(self.pool) + self.ea_len
        shown = ipv4[:length].ljust(32, "0") if length < 32 else ipv4
        identifier = (
            "0" * 8 + shown + psid.zfill(16) + "0" * 8
            if self.draft
            else "0" * 16 + shown + psid.zfill(16)
        )
        return IPv6Address(int((self.prefix + embedded).ljust(64, "0") + identifier, 2))

    def ce(self, address: IPv6Address) -> tuple[str, str] | None:
        """IPv4 bits (of an address or a prefix) and PSID of a well-formed MAP address."""
        digits = f"{int(address):0128b}"
        first = len(self.prefix)
        embedded = digits[first : first + self.ea_len]
        at = 72 if self.draft else 80
        ipv4, field = digits[at : at + 32], digits[at + 32 : at + 48]
        if self.ea_len:
            room = 32 - len(self.pool)
            ipv4 = (self.pool + embedded[:room]).ljust(32, "0")
            psid = embedded[room:]
        else:
            psid = field[16 - self.psid_len :]
        if not ipv4.startswith(self.pool) or self.address(ipv4, psid) != address:
            return None
        if not self.has_ce(psid):
            return None
        length = len(self.pool) + self.ea_len
        return ipv4[:length] if length < 32 else ipv4, psid


@dataclass(frozen=True)
class Oracle:
    """The relay: what leaves it, or all that is wrong with what arrived."""

    rules: tuple[OracleRule, ...]
    br: str
    links: Links

    def forward(self, frame: bytes) -> tuple[bytes, set[str]]:
        rest, ethertype = arrived(frame, self.links.left)
        if rest is None:
            return b"", {NOT_OURS}
        if ethertype != 0x86DD:
            return b"", {NO_TUNNEL}
        if not may_be_forwarded(rest):
            return b"", {NO_TUNNEL}
        outer = IPv6(rest[:40])
        if IPv6Address(outer.dst) != IPv6Address(self.br):
            return self._route(rest, self.links.right)
        if outer.nh != 4:
            return b"", {NO_TUNNEL}
        if outer.plen != len(rest) - 40 or not whole_udp(rest[40:]):
            return b"", {NO_TUNNEL}
        inner = IP(rest[40:60]) / Raw(rest[60:])
        faults = self._source_faults(IPv6Address(outer.src), inner)
        faults |= {TTL} if inner.ttl < 2 else set()
        ecn = ECN[inner.tos & 3][outer.tc & 3]
        if ecn is None:
            return b"", faults | {UNMARKABLE}
        inner.tos = inner.tos & 0xFC | ecn
        return (b"" if faults else sent(self.links.right, aged(inner))), faults

    def reverse(self, frame: bytes) -> tuple[bytes, set[str]]:
        rest, ethertype = arrived(frame, self.links.right)
        if rest is None:
            return b"", {NOT_OURS}
        if ethertype not in (0x0800, 0x86DD) or not may_be_forwarded(rest):
            return b"", {NO_TUNNEL}
        if ethertype == 0x86DD:
            return self._route(rest, self.links.left)
        packet = IP(rest[:20]) / Raw(rest[20:])
        faults = {TTL} if packet.ttl < 2 else set()
        faults |= set() if whole_udp(rest) else {NO_TUNNEL}
        faults |= {TOO_BIG} if len(rest) + 40 > self.links.left.mtu else set()
        ipv4 = f"{int(IPv4Address(packet.dst)):032b}"
        holding = [r for r in self.rules if ipv4.startswith(r.pool)]
        if not holding:
            return b"", {*faults, NO_DESTINATION}
        rule = max(holding, key=lambda r: len(r.pool))
        psid = rule.port_psid(int.from_bytes(rest[22:24], "big"))
        if psid is None:
            return b"", {*faults, NO_PORT}
        if faults:
            return b"", faults
        outer = IPv6(src=self.br, dst=str(rule.address(ipv4, psid)), nh=4, hlim=64, tc=packet.tos)
        return sent(self.links.left, outer / aged(packet)), set()

    def _source_faults(self, source: IPv6Address, inner: IP) -> set[str]:
        digits = f"{int(source):0128b}"
        holding = [r for r in self.rules if digits.startswith(r.prefix)]
        if not holding:
            return {NO_RULE}
        rule = max(holding, key=lambda r: len(r.prefix))
        ce = rule.ce(source)
        if ce is None:
            return {BAD_IID}
        faults = set()
        if not f"{int(IPv4Address(inner.src)):032b}".startswith(ce[0]):
            faults.add(BAD_SOURCE)
        if rule.port_psid(int.from_bytes(bytes(inner.payload)[:2], "big")) != ce[1]:
            faults.add(BAD_PORT)
        return faults

    def _route(self, rest: bytes, link: Link) -> tuple[bytes, set[str]]:
        packet = IPv6(rest[:40]) / Raw(rest[40:])
        if packet.hlim < 2:
            return b"", {TTL}
        packet.hlim -= 1
        return sent(link, packet), set()


def arrived(frame: bytes, link: Link) -> tuple[bytes | None, int]:
    """What is behind the Ethernet header, and the EtherType; None if not for the device."""
    at = 12
    if frame[:6] != bytes.fromhex(link.dut_mac.replace(":", "")):
        return None, 0
    if link.vlan is not None:
        if frame[12:16] != b"\x81\x00" + bytes(Dot1Q(vlan=link.vlan))[:2]:
            return None, 0
        at = 16
    return frame[at + 2 :], int.from_bytes(frame[at : at + 2], "big")


def whole_udp(packet: bytes) -> bool:
    """IPv4 without options, UDP, no fragment, as long as it says."""
    if len(packet) < 28:
        return False
    inner = IP(packet[:20])
    return (
        inner.version == 4
        and (inner.ihl, inner.proto, inner.frag) == (5, 17, 0)
        and "MF" not in inner.flags
        and inner.len == len(packet)
        and may_be_forwarded(packet)
    )


def may_be_forwarded(packet: bytes) -> bool:
    """What RFC 1812 sections 5.2.2 and 5.3.7 and RFC 4291 leave of all packets, by scapy."""
    if packet[0] >> 4 == 6:
        read = IPv6(packet[:40])
        ends = [IPv6Address(a) for a in (read.src, read.dst)]
        wrong = any(
            a.is_multicast or a.is_loopback or a.is_unspecified or a.is_link_local for a in ends
        )
        return not wrong and len(packet) >= 40 and read.plen <= len(packet) - 40
    header = 4 * (packet[0] & 15)
    if packet[0] >> 4 != 4 or not 20 <= header <= len(packet):
        return False
    length = int.from_bytes(packet[2:4], "big")
    ends = [IPv4Address(packet[at : at + 4]) for at in (12, 16)]
    if any(a in net for a in ends for net in NOBODYS) or not header <= length <= len(packet):
        return False
    return checksum(packet[:header]) == 0


def aged(packet: IP) -> IP:
    """The packet with a TTL less, checksum computed anew by scapy, contents as they were."""
    header = IP(**packet.fields)
    header.ttl -= 1
    del header.chksum
    header.add_payload(Raw(bytes(packet.payload)))
    return header


def sent(link: Link, packet: IP | IPv6) -> bytes:
    return _head(link, {IP: 0x0800, IPv6: 0x86DD}[type(packet)]) + bytes(packet)


@cache
def _head(link: Link, ethertype: int) -> bytes:
    ethernet = {"src": link.dut_mac, "dst": link.tester_mac}
    if link.vlan is None:
        return bytes(Ether(**ethernet, type=ethertype))
    return bytes(Ether(**ethernet) / Dot1Q(vlan=link.vlan, type=ethertype))
