"""NAT64 and the AFTR of DS-Lite: the NAT of the tests behind a translator, and behind tunnels."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

from v6t.plugins.clauses.base import Send
from v6t.plugins.common.reassembly import Reassembly
from v6t.plugins.common.whole import is_error, message
from v6t.plugins.dslite.aftr import DsLiteAftr
from v6t.plugins.nat.nat64 import Nat64
from v6t.plugins.translation import rfc6052, rfc7915
from v6t.plugins.translation.rfc6052 import WELL_KNOWN
from v6t.plugins.translation.whole import TranslatingDevice
from v6t.plugins.tunnel.whole import IPIP, RelayDevice, after_options
from v6t.plugins.whole import Leaves, SideName
from v6t.tests.plugins.clauses.faulty import ETHERNET, Octets, added, cut
from v6t.tests.plugins.clauses.nat_device import SUM_AT, NatDevice, headed, messaged

TTL = 64


class InnerNat:
    """The NAT without its links; hosts inside are numbered from 10.0.0.1 on."""

    def __init__(self, device: NatDevice) -> None:
        self.device = device
        self.hosts: list[IPv6Address] = []

    def inside(self, host: IPv6Address) -> IPv4Address:
        if host not in self.hosts:
            self.hosts.append(host)
        return IPv4Address("10.0.0.1") + self.hosts.index(host)

    def host(self, ipv4: IPv4Address) -> IPv6Address | None:
        number = int(ipv4) - int(IPv4Address("10.0.0.1"))
        return self.hosts[number] if 0 <= number < len(self.hosts) else None

    def pass_on(self, side: SideName, packet: bytes) -> Leaves:
        """Packets that leave the NAT, with the TTL of the one that arrived."""
        long_lived = headed(packet[:8] + bytes([TTL]) + packet[9:])
        left = self.device.receive(side, bytes(ETHERNET) + long_lived)
        return [
            (out, headed(p[:8] + packet[8:9] + p[9:]))
            for out, p in ((out, cut(frame[ETHERNET:])) for out, frame in left)
        ]


class Nat64Device(TranslatingDevice):
    """RFC 6146: IPv6 becomes IPv4 with a private source, which the NAT translates."""

    def __init__(self, technology: Nat64, device: NatDevice) -> None:
        super().__init__(technology)
        self._nat = InnerNat(device)
        self._prefix = technology.params.servers
        self._fragments = Reassembly()

    def before(self, send: Send) -> None:
        self._nat.device.before(send)

    def to_ipv4(self, ipv6: IPv6Address) -> IPv4Address | None:
        return (
            rfc6052.extract(self._prefix, ipv6) if ipv6 in self._prefix else self._nat.inside(ipv6)
        )

    def to_ipv6(self, ipv4: IPv4Address) -> IPv6Address | None:
        return self._nat.host(ipv4) or rfc6052.embed(self._prefix, ipv4)

    def translated(self, destination: IPv6Address) -> bool:
        return destination in self._prefix

    def translator(self, packet: bytes) -> rfc7915.Translator:
        if packet[0] >> 4 == 6:
            if IPv6Address(packet[8:24]) in self._prefix:
                raise rfc7915.Refused(rfc7915.UNTRANSLATABLE)  # RFC 6146, section 3.5
            server = rfc6052.extract(self._prefix, IPv6Address(packet[24:40]))
            if self._prefix == WELL_KNOWN and not server.is_global:
                raise rfc7915.Refused(rfc7915.NO_MAPPING)
        return rfc7915.Translator(self, 1280, self.mtu["left"], self.mtu["right"])

    def _from_six(self, side: SideName, packet: bytes) -> Leaves:
        whole = self._fragments.ipv6(packet)
        return [] if whole is None else super()._from_six(side, whole)

    def gathered(self, packet: bytes) -> bytes | None:
        return self._fragments.ipv4(packet)

    def beyond(self, side: SideName, came: bytes, packet: bytes) -> Leaves:
        leaving: Leaves = []
        for out, p in self._nat.pass_on("left", packet):
            leaving += super()._from_four("right", p) if out == "left" else [(out, p)]
        return leaving

    def _from_four(self, side: SideName, arrived: bytes) -> Leaves:
        packet = self.gathered(arrived)
        if packet is None:
            return []
        options = packet[20 : 4 * (packet[0] & 15)]
        if packet[8] <= 1:
            return self.icmp_error(side, packet, 11, 0)
        if rfc7915.source_routed(options):
            return self.icmp_error(side, packet, 3, 5)
        return [
            further
            for _, p in self._nat.pass_on("right", without_options(packet))
            for further in super(Nat64Device, self)._from_four(side, p)
        ]


class AftrDevice(RelayDevice):
    """RFC 6333: each B4 is a host of the NAT, whatever the IPv4 address in its tunnel."""

    copied = True

    def __init__(self, technology: DsLiteAftr, device: NatDevice) -> None:
        super().__init__(technology)
        self._nat = InnerNat(device)
        self._aftr = technology.params.aftr_ipv6.ip
        self._customer = technology.params.initiator_ipv4
        self._b4: IPv6Address | None = None

    def before(self, send: Send) -> None:
        self._nat.device.before(send)

    @property
    def relays(self) -> tuple[IPv6Address, ...]:
        return (self._aftr,)

    def relay(self, ipv4: IPv4Address, port: int | None) -> IPv6Address:
        return self._aftr

    def owner(self, ipv4: IPv4Address, port: int | None) -> IPv6Address | None:
        return self._b4

    def has_share(self, ipv4: IPv4Address, customer: IPv6Address | None = None) -> bool:
        return customer is not None

    def _from_tunnel(self, packet: bytes) -> Leaves:
        self._b4 = IPv6Address(packet[8:24])
        protocol, at = after_options(packet)
        inner = packet[at:]
        if protocol == IPIP and len(inner) >= 28 and inner[8] <= 1:
            body = bytes([11, 0]) + bytes(6) + inner
            return self._into_tunnel(message(self.own["right", 4].packed, inner[12:16], body))
        leaving: Leaves = []
        for out, inner in super()._from_tunnel(packet):
            if out == "left":
                leaving.append((out, inner))
                continue
            outgoing = renamed(inner, self._customer, self._nat.inside(self._b4))
            for side, p in self._nat.pass_on("left", outgoing):
                leaving += self._to_b4(p) if side == "left" else [(side, p)]
        return leaving

    def _from_four(self, packet: bytes) -> Leaves:
        whole = self._fragments.ipv4(packet)
        if whole is None:
            return []
        if whole[8] <= 1:
            return self.icmp_error("right", packet, 11, 0)
        arrived = headed(whole[:8] + bytes([whole[8] - 1]) + whole[9:])
        return [
            further for _, p in self._nat.pass_on("right", arrived) for further in self._to_b4(p)
        ]

    def _to_b4(self, packet: bytes) -> Leaves:
        inside = IPv4Address(packet[16:20])
        self._b4 = self._nat.host(inside)
        return self._into_tunnel(renamed(packet, inside, self._customer))


def without_options(packet: bytes) -> bytes:
    data = packet[4 * (packet[0] & 15) :]
    length = (20 + len(data)).to_bytes(2, "big")
    return headed(b"\x45" + packet[1:2] + length + packet[4:20] + data)


def renamed(packet: bytes, old: IPv4Address, new: IPv4Address) -> bytes:
    """A packet without options with an address replaced, also within an ICMP error."""
    octets = Octets(packet)
    replace(octets, old, new)
    if is_error(packet) and len(packet) >= 48:
        inner = Octets(packet[28:])
        replace(inner, old, new)
        octets = Octets(headed(bytes(octets[:20]) + messaged(bytes(octets[20:28]) + bytes(inner))))
    return bytes(octets)


def replace(octets: Octets, old: IPv4Address, new: IPv4Address) -> None:
    for place in (12, 16):
        if octets[place : place + 4] == old.packed:
            octets[place : place + 4] = new.packed
            later = int.from_bytes(octets[6:8], "big") & 0x1FFF
            for checksum in (10, 0 if later else SUM_AT.get(octets[9], 0)):
                if checksum and len(octets) >= checksum + 2:
                    adjust(octets, checksum, old.packed, new.packed)


def adjust(octets: Octets, at: int, old: bytes, new: bytes) -> None:
    """The checksum at an offset, after a change (RFC 1624)."""
    value = octets[at : at + 2]
    if octets[9] == 17 and at == SUM_AT[17] and value == b"\0\0":
        return
    inverted = bytes(0xFF - octet for octet in bytes(value) + old)
    octets[at : at + 2] = (0xFFFF - added(inverted + new)).to_bytes(2, "big")
