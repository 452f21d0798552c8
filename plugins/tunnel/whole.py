"""A relay of IPv4 in IPv6 as a whole: sources checked, fragments, hairpin, its own ICMP errors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.header_policy import combine_ecn
from v6t.plugins.common.discards import sound
from v6t.plugins.common.reassembly import Reassembly
from v6t.plugins.common.whole import HOP_LIMIT, PacketDevice, decremented
from v6t.plugins.whole import Leaves, SideName

if TYPE_CHECKING:
    from v6t.plugins.base import Technology

HOP_BY_HOP, ICMP, IPIP, FRAGMENT, OPTIONS = 0, 1, 4, 44, 60
_PORTS = (6, 17)
_CE = 3


class RelayDevice(PacketDevice):
    """Customers left, in tunnels; IPv4 right. Stateless but for fragments."""

    silent = True
    """Says nothing about sources that are not the customer's."""

    def __init__(self, technology: Technology) -> None:
        super().__init__(technology)
        self._fragments = Reassembly()

    @property
    @abstractmethod
    def relays(self) -> Collection[IPv6Address]:
        """Return the addresses at which tunnels end here."""

    @abstractmethod
    def relay(self, ipv4: IPv4Address, port: int | None) -> IPv6Address:
        """Return the tunnel end here of the customer who has an address and port."""

    @abstractmethod
    def owner(self, ipv4: IPv4Address, port: int | None) -> IPv6Address | None:
        """Who has an address and port; None: nobody."""

    @abstractmethod
    def has_share(self, ipv4: IPv4Address, customer: IPv6Address | None = None) -> bool:
        """Return whether a customer, by default any customer, has a share of an IPv4 address."""

    def packet(self, side: SideName, version: int, packet: bytes) -> Leaves | None:
        if version == 4:
            return self._from_four(packet) if side == "right" else []
        if side != "left" or IPv6Address(packet[24:40]) not in self.relays:
            return None
        whole = self._fragments.ipv6(packet)
        return [] if whole is None else self._from_tunnel(whole)

    def _from_tunnel(self, packet: bytes) -> Leaves:
        """Decapsulation (RFC 2473 section 3.3)."""
        protocol, at = after_options(packet)
        inner = packet[at:]
        if protocol != IPIP or len(inner) < 20 or inner[0] >> 4 != 4:
            return []
        inner = inner[: int.from_bytes(inner[2:4], "big")]
        if not sound(np.frombuffer(inner, dtype=np.uint8)[None, :], 4)[0]:
            return []
        source = IPv4Address(inner[12:16])
        key = packet[8:24]
        port = port_of(inner, sender=True)
        owned = self.owner(source, port)
        if owned is not None and self.relay(source, port).packed != packet[24:40]:
            owned = None
        if int.from_bytes(inner[6:8], "big") & 0x1FFF:
            # a later fragment has no port: the customer must have a share of the address
            owned = IPv6Address(key) if self.has_share(source, IPv6Address(key)) else None
        if owned is None or owned.packed != key:
            return [] if self.silent else self.icmp_error("left", packet, 1, 5)
        outer_tos = (packet[0] << 4 & 0xF0) | packet[1] >> 4
        tos = _decapsulated(inner[1], outer_tos, copied=self.copied)
        if tos is None or inner[8] <= 1:
            return []
        outgoing = decremented(ipv4_tos(inner, tos))
        destination = IPv4Address(inner[16:20])
        if self.has_share(destination):
            return self._into_tunnel(outgoing)
        return [("right", outgoing)]

    copied = False
    """The DSCP is the outer header's when a packet leaves a tunnel (uniform model)."""

    def _from_four(self, packet: bytes) -> Leaves:
        if packet[8] <= 1:
            return self.icmp_error("right", packet, 11, 0)
        whole = self._fragments.ipv4(packet)
        if whole is None:
            return []
        if self.owner(IPv4Address(whole[16:20]), port_of(whole, sender=False)) is None:
            return self.icmp_error("right", packet, 3, 1)
        return self._into_tunnel(decremented(whole))

    def _into_tunnel(self, packet: bytes) -> Leaves:
        """Encapsulation (RFC 2473 section 3.1) of what was forwarded already."""
        place = IPv4Address(packet[16:20]), port_of(packet, sender=False)
        customer = self.owner(*place)
        if customer is None:
            return []
        mtu = self.mtu["left"]
        if len(packet) + 40 > mtu and packet[6] & 0x40:
            return self.icmp_error("right", packet, 3, 4, mtu - 40)
        return [
            ("left", piece) for piece in _encapsulated(packet, self.relay(*place), customer, mtu)
        ]


def after_options(packet: bytes) -> tuple[int, int]:
    """Return the protocol behind options of an IPv6 packet, and where it begins.

    Options that a tunnel's exit does not know are skipped, the encapsulation limit among them
    (RFC 2473, sections 3.3 and 4.1.1).
    """
    protocol, at = packet[6], 40
    while protocol in (HOP_BY_HOP, OPTIONS) and at + 8 <= len(packet):
        protocol, at = packet[at], at + 8 * (packet[at + 1] + 1)
    return protocol, at


def port_of(packet: bytes, *, sender: bool) -> int | None:
    """The customer's port in a packet of IPv4: an identifier of ICMP; of an error, the one within.

    Args:
        packet: IPv4.
        sender: the customer sent it, else it is for the customer.
    """
    end = 4 * (packet[0] & 15)
    data = packet[end:]
    if int.from_bytes(packet[6:8], "big") & 0x1FFF or len(data) < 4:
        return None
    if packet[9] in _PORTS:
        return int.from_bytes(data[:2] if sender else data[2:4], "big")
    if packet[9] != ICMP or len(data) < 8:
        return None
    if data[0] in (0, 8):
        return int.from_bytes(data[4:6], "big")
    inner = data[8:]
    if data[0] not in (3, 11, 12) or len(inner) < 28:
        return None
    return port_of(inner, sender=not sender)


def ipv4_tos(packet: bytes, tos: int) -> bytes:
    """With another TOS; the checksum is left to who changes the TTL."""
    return packet[:1] + bytes([tos]) + packet[2:]


def _decapsulated(inner: int, outer: int, *, copied: bool) -> int | None:
    """TOS of a packet that leaves a tunnel (RFC 6040 section 4.2); None: it is dropped."""
    if not inner & 3 and outer & 3 == _CE:
        return None
    ecn = combine_ecn(np.array([inner & 3]), np.array([outer & 3]))
    return int(ecn[0]) | (outer if copied else inner) & 0xFC


def _encapsulated(
    packet: bytes, source: IPv6Address, destination: IPv6Address, mtu: int
) -> Iterator[bytes]:
    """One tunnel packet, or its fragments (RFC 2473 section 7.2)."""
    first = (6 << 28 | packet[1] << 20).to_bytes(4, "big")
    ends = source.packed + destination.packed

    def outer(following: int, data: bytes) -> bytes:
        return first + len(data).to_bytes(2, "big") + bytes([following, HOP_LIMIT]) + ends + data

    if len(packet) + 40 <= mtu:
        yield outer(IPIP, packet)
        return
    room = (mtu - 48) // 8 * 8
    pieces: Sequence[bytes] = [packet[at : at + room] for at in range(0, len(packet), room)]
    for number, piece in enumerate(pieces):
        word = number * room | (number < len(pieces) - 1)
        head = bytes([IPIP, 0]) + word.to_bytes(2, "big") + b"\0\0" + packet[4:6]
        yield outer(FRAGMENT, head + piece)
