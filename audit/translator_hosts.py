"""The hosts beyond a translator's links: packets that they send, and templates of what reaches them."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.packet import Packet, Raw
from v6t.audit.match import allow
from v6t.audit.row import ICMP_FLOW, TCP_FLOW, UDP_FLOW
from v6t.audit.wire import Wire
from v6t.plugins.audit_views import Translator

TTL = 61
"""TTL of sent packets: neither a usual default nor a value that a device could write itself."""
INNER_TTL = 7
"""TTL of a packet that an ICMP error quotes; translators do not decrement it."""
DATA = b"v6t audit payload "


def data(length: int) -> bytes:
    """Return payload in which no two neighboring words are equal."""
    words = b"".join(number.to_bytes(2, "big") for number in range((length + 1) // 2))
    return (DATA + words)[:length]


@dataclass(frozen=True)
class TranslatorHosts:
    """One host beyond each link of a translator.

    Attributes:
        view: the translator.
        wire: its links.
        six4, port4: address and port of the IPv6 host as the IPv4 host sees it.
    """

    view: Translator
    wire: Wire
    six4: IPv4Address
    port4: int

    @classmethod
    def from_view(cls, view: Translator, wire: Wire) -> TranslatorHosts:
        """Return the hosts before any session is open."""
        return cls(view, wire, view.six4[0], view.port)

    @property
    def mtu6(self) -> int:
        """MTU of the IPv6 link."""
        return int(getattr(self.wire.links, self.view.six_side).mtu)

    @property
    def mtu4(self) -> int:
        """MTU of the IPv4 link."""
        return int(getattr(self.wire.links, self.view.four_side).mtu)

    def ip4(self, **fields: Any) -> IP:
        """Return a header of the IPv4 host."""
        return IP(**{"src": str(self.view.four), "dst": str(self.six4), "ttl": TTL, **fields})

    def ip6(self, **fields: Any) -> IPv6:
        """Return a header of the IPv6 host."""
        return IPv6(
            **{"src": str(self.view.six), "dst": str(self.view.four6), "hlim": TTL, **fields}
        )

    @property
    def udp4(self) -> UDP:
        """UDP from the IPv4 host."""
        return UDP(sport=self.view.server_port, dport=self.port4)

    @property
    def udp6(self) -> UDP:
        """UDP from the IPv6 host."""
        return UDP(sport=self.view.port, dport=self.view.server_port)

    def at6(self, **fields: Any) -> IPv6:
        """Return a template of what reaches the IPv6 host."""
        return IPv6(src=str(self.view.four6), dst=str(self.view.six), **fields)

    def at4(self, **fields: Any) -> Packet:
        """Return a template of what reaches the IPv4 host."""
        sources = tuple(map(str, self.view.six4))
        return allow(IP(dst=str(self.view.four), **fields), src=sources)

    def plain6(self, flow: int = UDP_FLOW) -> Packet:
        """Return the simplest packet of the IPv6 host."""
        if flow == TCP_FLOW:
            ports = {"sport": self.view.port, "dport": self.view.server_port}
            return self.ip6() / TCP(**ports, seq=0x01020304)
        if flow == ICMP_FLOW:
            return self.ip6() / ICMPv6EchoRequest(id=self.view.port, seq=1, data=DATA)
        return self.ip6() / self.udp6 / Raw(DATA)

    def plain4(self) -> Packet:
        """Return the simplest packet of the IPv4 host."""
        return self.ip4() / self.udp4 / Raw(DATA)

    def quoted4(self, **fields: Any) -> IP:
        """Return the header of a packet of the IPv6 host, as IPv4 errors quote it."""
        return IP(**{"src": str(self.six4), "dst": str(self.view.four), "ttl": INNER_TTL, **fields})

    def quoted6(self, **fields: Any) -> IPv6:
        """Return the header of a packet of the IPv4 host, as IPv6 errors quote it."""
        ends = {"src": str(self.view.four6), "dst": str(self.view.six), "hlim": INNER_TTL}
        return IPv6(**{**ends, **fields})


def udp_data_that_sums_to_zero(ip: IP | IPv6, udp: UDP) -> bytes:
    """Return UDP data with which the checksum is computed as zero, and 0xffff is sent."""
    octets = bytes(ip / udp / Raw(b"v6\0\0"))
    header = 20 if isinstance(ip, IP) else 40
    return b"v6" + octets[header + 6 : header + 8]
