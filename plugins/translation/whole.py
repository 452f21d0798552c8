"""A translator as a whole: RFC 7915 both ways with fragments, its own ICMP errors, UDP without checksum."""

from __future__ import annotations

from abc import abstractmethod
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

from v6t.plugins.common.whole import PacketDevice, checksum
from v6t.plugins.translation import rfc7915
from v6t.plugins.whole import Leaves, SideName, other

if TYPE_CHECKING:
    from v6t.plugins.translation.rfc7915 import Translator

_UDP, _ROUTING = 17, 43


class TranslatingDevice(PacketDevice):
    """A stateless translator; who maps addresses is asked for each packet."""

    six_side: SideName = "left"

    @abstractmethod
    def translator(self, packet: bytes) -> Translator:
        """Who translates a packet.

        Raises:
            Refused: its addresses are not to be translated.
        """

    @abstractmethod
    def translated(self, destination: IPv6Address) -> bool:
        """Whether an IPv6 destination is an IPv4 host's."""

    def packet(self, side: SideName, version: int, packet: bytes) -> Leaves | None:
        if version == 6:
            if side != self.six_side or not self.translated(IPv6Address(packet[24:40])):
                return None
            return self._from_six(side, packet)
        return self._from_four(side, packet) if side != self.six_side else []

    def _from_six(self, side: SideName, packet: bytes) -> Leaves:
        at = _segments_left(packet)
        if at is not None:
            return self.icmp_error(side, packet, 4, 0, at)
        try:
            return self.beyond(side, packet, self.translator(packet).six_to_four(packet))
        except rfc7915.Refused as exc:
            if exc.reason == rfc7915.EXHAUSTED:
                return self.icmp_error(side, packet, 3, 0)
            if exc.reason == rfc7915.TOO_BIG:
                return self.icmp_error(side, packet, 2, 0, self.mtu[other(side)] + 20)
            if exc.reason == rfc7915.WRONG_SOURCE:
                return self.icmp_error(side, packet, 1, 5)
            return self.icmp_error(side, packet, 1, 1) if exc.reason == rfc7915.NO_MAPPING else []

    def beyond(self, side: SideName, came: bytes, packet: bytes) -> Leaves:
        """Where a packet goes that has been made IPv4: out, or back as IPv6.

        Args:
            side: where it came from.
            came: as it arrived.
            packet: as IPv4.
        """
        del came
        return [(other(side), packet)]

    def gathered(self, packet: bytes) -> bytes | None:
        """An IPv4 packet as it is to be translated; None: not yet."""
        return packet

    def _from_four(self, side: SideName, arrived: bytes) -> Leaves:
        packet = self.gathered(arrived)
        if packet is None:
            return []
        if rfc7915.source_routed(packet[20 : 4 * (packet[0] & 15)]):
            return self.icmp_error(side, packet, 3, 5)
        try:
            packets = self.translator(packet).four_to_six(_summed(packet))
        except rfc7915.Refused as exc:
            if exc.reason == rfc7915.EXHAUSTED:
                return self.icmp_error(side, packet, 11, 0)
            if exc.reason == rfc7915.TOO_BIG:
                return self.icmp_error(side, packet, 3, 4, self.mtu[self.six_side] - 20)
            return self.icmp_error(side, packet, 3, 13) if exc.reason == rfc7915.NO_MAPPING else []
        return [(self.six_side, p) for p in packets]


def _segments_left(packet: bytes) -> int | None:
    """Where a routing header says that segments are left; None: nowhere."""
    protocol, at = packet[6], 40
    while protocol in (0, _ROUTING, 60) and at + 8 <= len(packet):
        if protocol == _ROUTING and packet[at + 3]:
            return at + 3
        protocol, at = packet[at], at + 8 * (packet[at + 1] + 1)
    return None


def _summed(packet: bytes) -> bytes:
    """With a UDP checksum, if it is a whole datagram without one (RFC 7915 section 4.5)."""
    at = 4 * (packet[0] & 15)
    whole = not int.from_bytes(packet[6:8], "big") & 0x3FFF
    if packet[9] != _UDP or not whole or packet[at + 6 : at + 8] != b"\0\0" or len(packet) < at + 8:
        return packet
    data = packet[at:]
    pseudo = packet[12:20] + len(data).to_bytes(4, "big") + _UDP.to_bytes(4, "big")
    value = checksum(pseudo + data) or 0xFFFF
    return packet[: at + 6] + value.to_bytes(2, "big") + packet[at + 8 :]


class OneHost:
    """Addresses as they are mapped for a single packet: one host by hand, all others behind a prefix."""

    def __init__(self, ipv4: IPv4Address, ipv6: IPv6Address, others: rfc7915.AddressMap) -> None:
        """Remember.

        Args:
            ipv4: of the host.
            ipv6: the same host's.
            others: everybody else's.
        """
        self._ipv4, self._ipv6, self._others = ipv4, ipv6, others

    def to_ipv6(self, ipv4: IPv4Address) -> IPv6Address | None:
        """IPv6 form."""
        return self._ipv6 if ipv4 == self._ipv4 else self._others.to_ipv6(ipv4)

    def to_ipv4(self, ipv6: IPv6Address) -> IPv4Address | None:
        """IPv4 form."""
        return self._ipv4 if ipv6 == self._ipv6 else self._others.to_ipv4(ipv6)
