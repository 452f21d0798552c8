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
    from collections.abc import Sequence

    from v6t.plugins.base import Technology
    from v6t.plugins.map.mape_params import MapEParams
    from v6t.plugins.map.mapt_params import MapTParams
    from v6t.plugins.map.rules import MapRule

_ICMPV6, _FRAGMENT = 58, 44


def owner(rules: Sequence[MapRule], ipv4: IPv4Address, port: int | None) -> IPv6Address | None:
    """The CE that has an address and port, by the rule with the longest IPv4 prefix."""
    holding = [rule for rule in rules if ipv4 in rule.ipv4_prefix]
    if not holding:
        return None
    longest = max(rule.ipv4_prefix.prefixlen for rule in holding)
    for rule in holding:
        psid = rule.psid_of(port) if port is not None else (None if rule.shared else 0)
        if rule.ipv4_prefix.prefixlen == longest and psid is not None:
            return rule.map_address(ipv4, psid)
    return None


class WholeMapE(RelayDevice):
    """MAP-E."""

    def __init__(self, technology: Technology) -> None:
        """Look up the rules."""
        super().__init__(technology)
        params: MapEParams = technology.params  # type: ignore[assignment]
        self._rules = [d.rule for d in params.all_domains]
        self._relay = params.br_address

    @property
    def relay(self) -> IPv6Address:
        """The BR."""
        return self._relay

    def owner(self, ipv4: IPv4Address, port: int | None) -> IPv6Address | None:
        """See the base class."""
        return owner(self._rules, ipv4, port)


class WholeMapT(TranslatingDevice):
    """MAP-T."""

    def __init__(self, technology: Technology) -> None:
        """Look up the rules and the DMR."""
        super().__init__(technology)
        params: MapTParams = technology.params  # type: ignore[assignment]
        self._rules = [d.rule for d in params.all_domains]
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
        if any(IPv4Address(packet[16:20]) in rule.ipv4_prefix for rule in self._rules):
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
        holding = [rule for rule in self._rules if ce in rule.ipv6_prefix]
        if not holding:
            raise rfc7915.Refused(rfc7915.WRONG_SOURCE)
        rule = max(holding, key=lambda r: r.ipv6_prefix.prefixlen)
        embedded = rule.decode(ce)
        port = _port6(packet)
        if embedded is None or (
            rule.shared and (port is None or rule.psid_of(port) != embedded[1])
        ):
            raise rfc7915.Refused(rfc7915.WRONG_SOURCE)
        return embedded[0], ce

    def _to_ce(self, packet: bytes) -> tuple[IPv4Address, IPv6Address]:
        ipv4 = IPv4Address(packet[16:20])
        ce = owner(self._rules, ipv4, port_of(packet, sender=False))
        if ce is None:
            raise rfc7915.Refused(rfc7915.NO_MAPPING)
        return ipv4, ce


class Behind:
    """Everybody else, behind the DMR."""

    def __init__(self, dmr: Rfc6052) -> None:
        """Remember."""
        self._dmr = dmr

    def to_ipv6(self, ipv4: IPv4Address) -> IPv6Address | None:
        """By the DMR."""
        return self._dmr.to_ipv6(ipv4)

    def to_ipv4(self, ipv6: IPv6Address) -> IPv4Address | None:
        """Of those behind it."""
        return self._dmr.to_ipv4(ipv6) if ipv6 in self._dmr.ipv6 else None


def _port6(packet: bytes) -> int | None:
    """The CE's port, or identifier; of an ICMPv6 error, the one within; behind extension headers."""
    protocol, at = packet[6], 40
    while protocol in (0, 43, 60, _FRAGMENT) and at + 8 <= len(packet):
        later = protocol == _FRAGMENT and int.from_bytes(packet[at + 2 : at + 4], "big") & 0xFFF8
        if later:
            return None
        size = 8 if protocol == _FRAGMENT else 8 * (packet[at + 1] + 1)
        protocol, at = packet[at], at + size
    data = packet[at:]
    if protocol in (6, 17):
        return int.from_bytes(data[:2], "big")
    if protocol != _ICMPV6 or len(data) < 8:
        return None
    if data[0] in (128, 129):
        return int.from_bytes(data[4:6], "big")
    inner = data[8:]
    if len(inner) < 48:
        return None
    at = 48 if inner[6] == _FRAGMENT else 40
    protocol = inner[40] if inner[6] == _FRAGMENT else inner[6]
    if protocol == _ICMPV6:
        return int.from_bytes(inner[at + 4 : at + 6], "big")
    return int.from_bytes(inner[at + 2 : at + 4], "big")
