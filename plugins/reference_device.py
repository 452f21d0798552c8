"""The reference device, which passes valid packets to the handler of their direction and IP version.

It drops packets that no device forwards: RFC 1812, sections 5.2.2 and 5.3.7; RFC 8200, section 3; RFC 4291,
sections 2.5.2, 2.5.3, 2.5.6 and 2.7.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from v6t.intent.device import Link, Links
from v6t.packets.arrays import U8, Mask, Reasons, sort_unique
from v6t.packets.checksum import has_valid_sum
from v6t.packets.direction import Direction
from v6t.packets.headers import IP, decrement_hops, read_hops, view
from v6t.packets.reference import EXHAUSTED, FORWARDED, NOT_FORWARDED, NOT_OURS, Expected
from v6t.plugins.prefixes import UNFORWARDABLE
from v6t.plugins.translation import LongestMatch

ETHERTYPE = {4: b"\x08\x00", 6: b"\x86\xdd"}  # by IP version


class LinkHeaders(NamedTuple):
    """Ethernet headers of one link without the EtherType, as the device receives and sends them."""

    ingress: bytes  # of received frames
    egress: bytes  # of sent frames

    @property
    def ip_offset(self) -> int:
        return len(self.ingress) + 2

    def select_accepted(self, frames: U8) -> Mask:
        """Select frames to the device's MAC address with the link's VLAN tag, from any source."""
        head = np.frombuffer(self.ingress, dtype=np.uint8)
        ours: Mask = (frames[:, :6] == head[:6]).all(axis=1)
        ours &= (frames[:, 12 : len(head)] == head[12:]).all(axis=1)
        return ours


def make_link_headers(link: Link, vlan: int | None = None) -> LinkHeaders:
    """Return the Ethernet headers of a link at the device; ``vlan`` replaces the VLAN of the link."""
    dut, tester = (bytes.fromhex(m.replace(":", "")) for m in (link.dut_mac, link.tester_mac))
    vlan = link.vlan if vlan is None else vlan
    tag = b"" if vlan is None else b"\x81\x00" + vlan.to_bytes(2, "big")
    return LinkHeaders(dut + tester + tag, tester + dut + tag)


# Drop reasons with their conditions; the first condition that holds decides.
Checks: TypeAlias = Sequence[tuple[Reasons | int, Mask | bool]]


def _build_nothing(_: Mask) -> U8:
    """Stand in for a build function where all packets are dropped or routed."""
    raise AssertionError("all packets are dropped")


@dataclass(frozen=True)
class Outcome:
    """Treatment of a batch of packets by a device: dropped, translated or routed."""

    drops: Checks
    build: Callable[[Mask], U8] = _build_nothing  # returns translated packets of the selected rows
    version: int = 6  # of translated packets
    native: Mask | None = None  # packets that are routed unchanged, regardless of ``drops``

    def resolve(self, packets: U8) -> tuple[Reasons, list[tuple[Mask, U8, int]]]:
        """Return drop reasons ``(n,)``, and the forwarded packets as (rows, packets, IP version)."""
        reason = choose_reasons(len(packets), *self.drops)
        translated = reason == FORWARDED
        leaving = []
        if self.native is not None and self.native.any():
            version = int(packets[0, 0] >> 4)
            alive = read_hops(packets, version) > 1
            rows = self.native & alive
            reason[rows], reason[self.native & ~alive] = FORWARDED, EXHAUSTED
            translated &= ~self.native
            if rows.any():
                routed = packets.copy() if rows.all() else packets[rows]
                decrement_hops(routed, version)
                leaving.append((rows, routed, version))
        if translated.any():
            leaving.append((translated, self.build(translated), self.version))
        return reason, leaving


DROP_ALL = Outcome([(NOT_FORWARDED, True)])

# Function that handles IP packets of one version and length, ``(n, length)``, at least a header long.
Handler: TypeAlias = Callable[[U8], Outcome]


class ReferenceDevice:
    """Two links and the handlers between them; background VLANs are routed (RFC 8219, section 4.1)."""

    def __init__(
        self, links: Links, forward: Mapping[int, Handler], reverse: Mapping[int, Handler]
    ) -> None:
        layers = [(make_link_headers(links.left), make_link_headers(links.right), forward, reverse)]
        if links.background_vlans is not None:
            native, (one, other) = {6: route_all(6)}, links.background_vlans
            left, right = map(make_link_headers, (links.left, links.right), (one.vlan, other.vlan))
            layers.append((left, right, native, native))
        self._layers = {
            "forward": [(left, right, handlers) for left, right, handlers, _ in layers],
            "reverse": [(right, left, handlers) for left, right, _, handlers in layers],
        }

    def expect(self, direction: Direction, frames: U8) -> Expected:
        count, octets = frames.shape
        reason = np.full(count, NOT_OURS, dtype=np.uint8)
        parts: list[tuple[NDArray[np.intp], bytes, U8]] = []
        for arrival, departure, handlers in self._layers[direction]:
            at, ours = arrival.ip_offset, reason == NOT_OURS
            if octets <= at:
                reason[ours] = NOT_FORWARDED
                break
            ours &= arrival.select_accepted(frames)
            reason[ours] = NOT_FORWARDED
            kinds = frames[:, at - 2 : at].view(">u2")[:, 0]
            for version, handler in handlers.items():
                mine = ours & (kinds == int.from_bytes(ETHERTYPE[version], "big"))
                mine &= frames[:, at] >> 4 == version
                if octets < at + IP[version].itemsize or not mine.any():
                    continue
                packets = frames[:, at:] if mine.all() else frames[mine, at:]
                forwardable = select_forwardable(packets, version)
                if not forwardable.all():
                    mine[mine] = forwardable
                    packets = packets[forwardable]
                    if not len(packets):
                        continue
                rows = np.flatnonzero(mine)
                reason[rows], leaving = handler(packets).resolve(packets)
                for answered, emitted, kind in leaving:
                    header = departure.egress + ETHERTYPE[kind]
                    parts.append((rows[answered], header, emitted))
        longest = max((len(header) + packets.shape[1] for _, header, packets in parts), default=0)
        out = np.zeros((count, longest), dtype=np.uint8)
        length = np.zeros(count, dtype=np.int32)
        for rows, header, packets in parts:
            end = len(header) + packets.shape[1]
            place = slice(None) if len(rows) == count else rows
            out[place, : len(header)] = np.frombuffer(header, dtype=np.uint8)
            out[place, len(header) : end] = packets
            length[rows] = end
        return Expected(out, length, reason)


def route_all(version: int) -> Handler:
    """Return a handler that routes all packets unchanged."""
    return lambda packets: Outcome((), native=np.ones(len(packets), dtype=bool), version=version)


def choose_reasons(count: int, *checks: tuple[Reasons | int, Mask | bool]) -> Reasons:
    """Return the drop reason of each packet: the first whose condition holds, or 0."""
    chosen = np.zeros(count, dtype=np.uint8)
    for reason, condition in reversed(checks):
        np.copyto(chosen, np.uint8(reason) if isinstance(reason, int) else reason, where=condition)
    return chosen


_UNFORWARDABLE_BY_OCTETS = {
    octets: LongestMatch([net for net in UNFORWARDABLE.values() if net.max_prefixlen == 8 * octets])
    for octets in (4, 16)
}
# First octets of unforwardable addresses, by address length; only such addresses are looked up.
_SUSPECT_OCTETS = {4: np.zeros(256, dtype=bool), 16: np.zeros(256, dtype=bool)}
for _net in UNFORWARDABLE.values():
    _SUSPECT_OCTETS[_net.max_prefixlen // 8][_net[0].packed[0] : _net[-1].packed[0] + 1] = True


def select_forwardable_addresses(addresses: U8) -> Mask:
    """Select the addresses, ``(n, 4)`` or ``(n, 16)``, that a device forwards."""
    octets = addresses.shape[1]
    forwardable: Mask = ~_SUSPECT_OCTETS[octets][addresses[:, 0]]
    if not forwardable.all():
        rows = np.flatnonzero(~forwardable)
        forwardable[rows] = _UNFORWARDABLE_BY_OCTETS[octets].find(addresses[rows]) < 0
    return forwardable


def select_forwardable(packets: U8, version: int) -> Mask:
    """Select the packets, ``(n, length)`` and at least a header long, that a device may forward."""
    length, header = packets.shape[1], view(packets, IP[version])
    forwardable: Mask = select_forwardable_addresses(header["src_octets"])
    forwardable &= select_forwardable_addresses(header["dst_octets"])
    if version == 6:
        forwardable &= (header["plen"] <= length - 40) & (header["ver_tc"] >> 4 == 6)
        return forwardable
    first, total = header["ver_ihl"], header["len"].astype(np.uint16)
    forwardable &= (total >= 20) & (total <= length)
    plain = first == 0x45
    if plain.all():
        forwardable &= has_valid_sum(packets[:, :20])
        return forwardable
    forwardable &= plain | (first > 0x45) & (first < 0x50)
    for octets in sort_unique(4 * (first[forwardable] & 15).astype(int)):
        rows = np.flatnonzero(forwardable & (first == 0x40 | octets // 4))
        forwardable[rows] &= octets <= total[rows]
        if octets <= length:
            forwardable[rows] &= has_valid_sum(packets[rows, :octets])
    return forwardable
