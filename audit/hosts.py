"""Packets of the hosts beyond a device's links, and the hosts of a translator."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, ip_address
from typing import Any

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoReply, ICMPv6EchoRequest, IPv6
from scapy.packet import Packet, Raw
from v6t.audit.clause import Frame, Send
from v6t.audit.match import Condition, allow
from v6t.audit.row import Hosts, Opening, Row
from v6t.audit.wire import Wire, opposite, ports_of, protocol_of
from v6t.plugins.audit_views import SideName, Translator

TTL = 61
"""TTL of sent packets: neither a usual default nor a value that a device could write itself."""
INNER_TTL = 7
"""TTL of a packet that an ICMP error quotes; translators do not decrement it."""
DATA = b"v6t audit payload "
PORT, SERVER_PORT = 40123, 443
PROTOCOLS = {"udp": 17, "tcp": 6, "icmp": 1}
WITHOUT_MF = Condition("without MF", lambda flags: not flags.MF)


def data(length: int) -> bytes:
    """Return payload in which no two neighboring words are equal."""
    words = b"".join(number.to_bytes(2, "big") for number in range((length + 1) // 2))
    return (DATA + words)[:length]


def header(source: object, destination: object, **fields: Any) -> Packet:
    """Return an IP header; ``ttl`` and ``tos`` are the hop limit and traffic class of IPv6."""
    ends = {"src": str(source), "dst": str(destination)}
    ttl, tos = fields.pop("ttl", TTL), fields.pop("tos", 0)
    if ip_address(ends["src"]).version == 4:
        return IP(**{**ends, "ttl": ttl, "tos": tos, **fields})
    return IPv6(**{**ends, "hlim": ttl, "tc": tos, **fields})


def transport(protocol: str, source: int, destination: int, version: int = 4) -> Packet:
    """Return a datagram, a SYN or an echo, a reply if it comes from the server's port."""
    if protocol == "tcp":
        return TCP(sport=source, dport=destination, seq=0x01020304)
    if protocol == "udp":
        return UDP(sport=source, dport=destination) / Raw(DATA)
    is_reply = source == SERVER_PORT
    identifier = destination if is_reply else source
    if version == 4:
        return ICMP(type=0 if is_reply else 8, id=identifier, seq=1) / Raw(DATA)
    return (ICMPv6EchoReply if is_reply else ICMPv6EchoRequest)(id=identifier, seq=1, data=DATA)


def udp_data_that_sums_to_zero(ip: Packet, udp: UDP) -> bytes:
    """Return UDP data with which the checksum is computed as zero, and 0xffff is sent."""
    octets, at = bytes(ip / udp / Raw(b"v6\0\0")), len(ip) + 6
    return b"v6" + octets[at : at + 2]


def expect_fragment(octets: bytes, start: int) -> Packet:
    """Return a template of the data of a fragment of UDP, whose checksum is in the first one."""
    return Raw(octets) if start else UDP() / Raw(octets[8:])


def find_public_end(
    wire: Wire, side: SideName, packet: Packet, protocol: str
) -> Generator[Send, Sequence[Frame], tuple[IPv4Address, int] | None]:
    """Send a packet to a NAT; return the address and port with which it leaves, or None."""
    frames = yield Send([wire.frame(side, packet)])
    for sent in wire.packets(opposite(side), frames):
        if isinstance(sent, IP) and protocol_of(sent) == PROTOCOLS[protocol]:
            return IPv4Address(sent.src), ports_of(sent)[0]
    return None


@dataclass(frozen=True)
class TranslatorHosts(Hosts):
    """One host beyond each link of a translator.

    Attributes:
        view: the translator.
        wire: its links.
        six4, port4: address and port of the IPv6 host as the IPv4 host sees it.
        udp_end: address and port for UDP, if those are of another session.
    """

    view: Translator
    wire: Wire
    six4: IPv4Address
    port4: int
    udp_end: tuple[IPv4Address, int] | None = None

    @classmethod
    def from_view(cls, view: Translator, wire: Wire) -> TranslatorHosts:
        """Return the hosts before any session is open."""
        return cls(view, wire, view.six4[0], view.port)

    def open_session(self, row: Row, wire: Wire) -> Opening[TranslatorHosts]:
        """Open the session that a row needs in a stateful translator."""
        v = self.view
        outwards = row.side == v.six_side
        if not v.stateful or (outwards and "checksum" not in row.label):
            return self
        end = yield from find_public_end(wire, v.six_side, self.plain6(row.flow), row.flow)
        udp_end = None
        if end and row.flow != "udp" and not outwards:
            udp_end = yield from find_public_end(wire, v.six_side, self.plain6(), "udp")
        return replace(self, six4=end[0], port4=end[1], udp_end=udp_end) if end else None

    def plain(self, side: SideName) -> Packet:
        if side == self.view.six_side:
            return self.plain6()
        six4, port4 = self.udp_end or (self.six4, self.port4)
        return self.ip4(dst=str(six4)) / UDP(sport=self.view.server_port, dport=port4) / Raw(DATA)

    def plain6(self, flow: str = "udp") -> Packet:
        """Return the simplest packet of the IPv6 host."""
        return self.ip6() / transport(flow, self.view.port, self.view.server_port, 6)

    @property
    def mtu6(self) -> int:
        """MTU of the IPv6 link."""
        return self.wire.mtu(self.view.six_side)

    @property
    def mtu4(self) -> int:
        """MTU of the IPv4 link."""
        return self.wire.mtu(self.view.four_side)

    @property
    def udp4(self) -> UDP:
        """UDP from the IPv4 host."""
        return UDP(sport=self.view.server_port, dport=self.port4)

    @property
    def udp6(self) -> UDP:
        """UDP from the IPv6 host."""
        return UDP(sport=self.view.port, dport=self.view.server_port)

    def ip4(self, **fields: Any) -> IP:
        """Return a header of the IPv4 host."""
        return IP(**{"src": str(self.view.four), "dst": str(self.six4), "ttl": TTL, **fields})

    def ip6(self, **fields: Any) -> IPv6:
        """Return a header of the IPv6 host."""
        ends = {"src": str(self.view.six), "dst": str(self.view.four6), "hlim": TTL}
        return IPv6(**{**ends, **fields})

    def at6(self, **fields: Any) -> IPv6:
        """Return a template of what reaches the IPv6 host."""
        return IPv6(**{"src": str(self.view.four6), "dst": str(self.view.six), **fields})

    def at4(self, **fields: Any) -> Packet:
        """Return a template of what reaches the IPv4 host."""
        sources = tuple(map(str, self.view.six4))
        return allow(IP(dst=str(self.view.four), **fields), src=sources)

    def quoted4(self, **fields: Any) -> IP:
        """Return the header of a packet of the IPv6 host, as IPv4 errors quote it."""
        return IP(**{"src": str(self.six4), "dst": str(self.view.four), "ttl": INNER_TTL, **fields})

    def quoted6(self, **fields: Any) -> IPv6:
        """Return the header of a packet of the IPv4 host, as IPv6 errors quote it."""
        return self.at6(**{"hlim": INNER_TTL, **fields})
