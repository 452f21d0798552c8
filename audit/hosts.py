"""The hosts beyond the links of a translator between IPv4 and IPv6."""

from __future__ import annotations

from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from typing import Any

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet, Raw
from v6t.audit.packets import DATA, TTL, Wire, allow, transport
from v6t.audit.row import Hosts, Opening, Row, find_public_end
from v6t.plugins.audit_views import SideName, Translator

INNER_TTL = 7
"""TTL of a packet that an ICMP error quotes; translators do not decrement it."""


@dataclass(frozen=True)
class TranslatorHosts(Hosts):
    """One host beyond each link of a translator.

    ``ip4`` and ``udp4`` are headers of the IPv4 host, ``at4`` is a template of what reaches it, ``quoted4``
    a header of the other host as IPv4 errors quote it; likewise for IPv6.

    Attributes:
        mtu6, mtu4: MTUs of both links.
        six4, port4: address and port of the IPv6 host as the IPv4 host sees it.
        udp_end: address and port for UDP, if those are of another session.
    """

    view: Translator
    mtu6: int
    mtu4: int
    six4: IPv4Address
    port4: int
    udp_end: tuple[IPv4Address, int] | None = None

    def open_session(self, row: Row, wire: Wire) -> Opening:
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
        return self.ip6() / transport(flow, self.view.port, self.view.server_port, 6)

    @property
    def udp4(self) -> UDP:
        return UDP(sport=self.view.server_port, dport=self.port4)

    @property
    def udp6(self) -> UDP:
        return UDP(sport=self.view.port, dport=self.view.server_port)

    def ip4(self, **fields: Any) -> IP:
        return IP(**{"src": str(self.view.four), "dst": str(self.six4), "ttl": TTL, **fields})

    def ip6(self, **fields: Any) -> IPv6:
        ends = {"src": str(self.view.six), "dst": str(self.view.four6)}
        return IPv6(**{**ends, "hlim": TTL, **fields})

    def at6(self, **fields: Any) -> IPv6:
        return IPv6(**{"src": str(self.view.four6), "dst": str(self.view.six), **fields})

    def at4(self, **fields: Any) -> Packet:
        sources = tuple(map(str, self.view.six4))
        return allow(IP(dst=str(self.view.four), **fields), src=sources)

    def quoted4(self, **fields: Any) -> IP:
        return IP(**{"src": str(self.six4), "dst": str(self.view.four), "ttl": INNER_TTL, **fields})

    def quoted6(self, **fields: Any) -> IPv6:
        return self.at6(**{"hlim": INNER_TTL, **fields})
