"""A stateless translator between two links as a whole device."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import TYPE_CHECKING

from v6t.plugins.common.whole import is_error
from v6t.plugins.translation import rfc7915
from v6t.plugins.translation.rfc6052 import WELL_KNOWN
from v6t.plugins.translation.whole import OneHost, TranslatingDevice
from v6t.plugins.whole import Leaves, SideName, other

if TYPE_CHECKING:
    from v6t.plugins.base import Technology
    from v6t.plugins.siit.params import TranslatorParams


class WholeTranslator(TranslatingDevice):
    """SIIT or CLAT with the mappings of its parameters."""

    def __init__(self, technology: Technology) -> None:
        super().__init__(technology)
        left_version = technology.ip_versions[0]
        self.six_side: SideName = "left" if left_version == 6 else "right"
        self._params: TranslatorParams = technology.params  # type: ignore[assignment]

    @cached_property
    def _translator(self) -> rfc7915.Translator:
        return self._by(self._params.mappings)

    def _by(self, addresses: rfc7915.AddressMap) -> rfc7915.Translator:
        return rfc7915.Translator(
            addresses,
            self._params.lowest_ipv6_mtu,
            self.mtu[self.six_side],
            self.mtu[other(self.six_side)],
        )

    def translator(self, packet: bytes) -> rfc7915.Translator:
        """Always the same one; the well-known prefix stands for no address that is not global."""
        prefix = self._params.mappings.prefix
        if prefix is not None and prefix.ipv6 == WELL_KNOWN:
            for address in self._behind(packet, WELL_KNOWN):
                if not address.is_global:
                    raise rfc7915.Refused(rfc7915.NO_MAPPING)
        return self._translator

    def beyond(self, side: SideName, came: bytes, packet: bytes) -> Leaves:
        """Intrinsic hairpinning (RFC 7757 section 4.2.2): back at once, its hop limit not decremented again.

        Of an error the inner source tells, which is whom the error is for.
        """
        mappings = self._params.mappings
        address = IPv6Address(came[56:72] if is_error(came) else came[24:40])
        host = IPv4Address(packet[16:20])
        prefix, own = mappings.prefix, mappings.of_ipv4(host)
        if (
            prefix is None
            or own is None
            or own is prefix
            or mappings.of_ipv6(address) is not prefix
        ):
            return super().beyond(side, came, packet)
        # section 4.2.1: the host goes by its mapping, everybody else by the prefix
        packets = self._by(OneHost(host, own.to_ipv6(host), prefix)).four_to_six(packet)
        return [(side, p[:7] + bytes([p[7] + 1]) + p[8:]) for p in packets]

    def _behind(self, packet: bytes, prefix: IPv6Network) -> Iterator[IPv4Address]:
        """IPv4 addresses of a packet that the prefix stands for."""
        mappings = self._params.mappings
        six = packet[0] >> 4 == 6
        for octets in (packet[8:24], packet[24:40]) if six else (packet[12:16], packet[16:20]):
            four = mappings.to_ipv4(IPv6Address(octets)) if six else IPv4Address(octets)
            own = IPv6Address(octets) if six else mappings.to_ipv6(IPv4Address(octets))
            if four is not None and own is not None and own in prefix:
                yield four

    def translated(self, destination: IPv6Address) -> bool:
        return self._params.mappings.to_ipv4(destination) is not None
