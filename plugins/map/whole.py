"""MAP border relays as whole devices: MAP-E's tunnels, MAP-T's translation for the CE that owns a port."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

from v6t.plugins.common.reassembly import Reassembly
from v6t.plugins.translation import rfc7915
from v6t.plugins.translation.eam import Rfc6052
from v6t.plugins.translation.whole import OneHost, TranslatingDevice
from v6t.plugins.tunnel.whole import RelayDevice, port_of
from v6t.plugins.whole import Leaves, SideName

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from v6t.plugins.base import Technology
    from v6t.plugins.map.mape_params import MapEParams
    from v6t.plugins.map.mapt_params import MapTParams
    from v6t.plugins.map.params import Domain

_ICMPV6, _FRAGMENT = 58, 44


def serving(domains: Sequence[Domain], ipv4: IPv4Address) -> list[Domain]:
    """Return the domains whose rules have the longest IPv4 prefix that holds an address."""
    holding = [domain for domain in domains if ipv4 in domain.rule.ipv4_prefix]
    longest = max((domain.rule.ipv4_prefix.prefixlen for domain in holding), default=0)
    return [domain for domain in holding if domain.rule.ipv4_prefix.prefixlen == longest]


def has_ce(domain: Domain, psid: int) -> bool:
    """Return whether a CE has a PSID: a rule without EA bits is for one CE (RFC 7597, section 5.2)."""
    rule = domain.rule
    return bool(rule.ea_len) or not rule.shared or psid == domain.psid


def owner(domains: Sequence[Domain], ipv4: IPv4Address, port: int | None) -> IPv6Address | None:
    """Return the CE that has an address and port, by the rule with the longest IPv4 prefix."""
    for domain in serving(domains, ipv4):
        rule = domain.rule
        psid = rule.find_psid(port) if port is not None else (None if rule.shared else 0)
        if psid is not None and has_ce(domain, psid):
            return rule.map_address(ipv4, psid)
    return None


class WholeMapE(RelayDevice):
    """MAP-E."""

    def __init__(self, technology: Technology) -> None:
        super().__init__(technology)
        params: MapEParams = technology.params  # type: ignore[assignment]
        self._domains = params.all_domains
        self._relay = params.br_address

    @property
    def relays(self) -> Collection[IPv6Address]:
        """The BR."""
        return (self._relay,)

    def relay(self, ipv4: IPv4Address, port: int | None) -> IPv6Address:
        return self._relay

    def owner(self, ipv4: IPv4Address, port: int | None) -> IPv6Address | None:
        return owner(self._domains, ipv4, port)

    def has_share(self, ipv4: IPv4Address, customer: IPv6Address | None = None) -> bool:
        domains = serving(self._domains, ipv4)
        if customer is None:
            return bool(domains)
        for domain in domains:
            ce = domain.rule.decode_address(customer)
            if ce is not None and has_ce(domain, ce[1]):
                return domain.rule.map_address(ipv4, ce[1]) == customer
        return False


class WholeMapT(TranslatingDevice):
    """MAP-T."""

    def __init__(self, technology: Technology) -> None:
        super().__init__(technology)
        params: MapTParams = technology.params  # type: ignore[assignment]
        self._domains = params.all_domains
        self._dmr = Rfc6052(params.dmr_prefix)
        self._lowest = params.lowest_ipv6_mtu
        self._fragments = Reassembly()

    def gathered(self, packet: bytes) -> bytes | None:
        """Whole: only the first fragment has a port (RFC 7599 section 10.2)."""
        return self._fragments.ipv4(packet)

    def beyond(self, side: SideName, came: bytes, packet: bytes) -> Leaves:
        """A packet for a CE with another address goes back (hub-and-spoke mode, RFC 7599 section 12.2)."""
        if packet[12:16] == packet[16:20]:
            return []
        if serving(self._domains, IPv4Address(packet[16:20])):
            return self._from_four("right", packet)
        return super().beyond(side, came, packet)

    def translated(self, destination: IPv6Address) -> bool:
        """Behind the DMR."""
        return destination in self._dmr.ipv6

    def translator(self, packet: bytes) -> rfc7915.Translator:
        """For the one CE whose packet it is."""
        ipv4, ipv6 = self._from_ce(packet) if packet[0] >> 4 == 6 else self._to_ce(packet)
        addresses = OneHost(ipv4, ipv6, Behind(self._dmr))
        return rfc7915.Translator(addresses, self._lowest, self.mtu["left"], self.mtu["right"])

    def _from_ce(self, packet: bytes) -> tuple[IPv4Address, IPv6Address]:
        ce = IPv6Address(packet[8:24])
        holding = [domain for domain in self._domains if ce in domain.rule.ipv6_prefix]
        if not holding:
            raise rfc7915.Refused(rfc7915.WRONG_SOURCE)
        domain = max(holding, key=lambda d: d.rule.ipv6_prefix.prefixlen)
        rule = domain.rule
        embedded = rule.decode_address(ce)
        port = port6_of(packet, sender=True)
        if (
            embedded is None
            or not has_ce(domain, embedded[1])
            or (rule.shared and (port is None or rule.find_psid(port) != embedded[1]))
        ):
            raise rfc7915.Refused(rfc7915.WRONG_SOURCE)
        return embedded[0], ce

    def _to_ce(self, packet: bytes) -> tuple[IPv4Address, IPv6Address]:
        ipv4 = IPv4Address(packet[16:20])
        ce = owner(self._domains, ipv4, port_of(packet, sender=False))
        if ce is None:
            raise rfc7915.Refused(rfc7915.NO_MAPPING)
        return ipv4, ce


class Behind:
    """Everybody else, behind the DMR."""

    def __init__(self, dmr: Rfc6052) -> None:
        self._dmr = dmr

    def to_ipv6(self, ipv4: IPv4Address) -> IPv6Address | None:
        """By the DMR."""
        return self._dmr.to_ipv6(ipv4)

    def to_ipv4(self, ipv6: IPv6Address) -> IPv4Address | None:
        """Of those behind it."""
        return self._dmr.to_ipv4(ipv6) if ipv6 in self._dmr.ipv6 else None


def port6_of(packet: bytes, *, sender: bool) -> int | None:
    """Return the CE's port or identifier in an IPv6 packet, behind extension headers.

    Args:
        packet: IPv6; of an ICMPv6 error, the packet within counts.
        sender: the CE sent it, else it is for the CE.
    """
    protocol, at = packet[6], 40
    while protocol in (0, 43, 60, _FRAGMENT) and at + 8 <= len(packet):
        later = protocol == _FRAGMENT and int.from_bytes(packet[at + 2 : at + 4], "big") & 0xFFF8
        if later:
            return None
        size = 8 if protocol == _FRAGMENT else 8 * (packet[at + 1] + 1)
        protocol, at = packet[at], at + size
    data = packet[at:]
    if protocol in (6, 17):
        return int.from_bytes(data[:2] if sender else data[2:4], "big")
    if protocol != _ICMPV6 or len(data) < 8:
        return None
    if data[0] in (128, 129):
        return int.from_bytes(data[4:6], "big")
    inner = data[8:]
    return port6_of(inner, sender=not sender) if len(inner) >= 48 else None
