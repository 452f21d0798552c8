"""The reference device: frames in, packets by direction and IP version to a handler, frames out.

A technology supplies the handlers. The device drops frames that are not addressed to it, packets of a version
without a handler, and packets that no device forwards:

* IPv4: RFC 1812, section 5.2.2 (lengths, version, header checksum) and section 5.3.7 (addresses that may not
  be forwarded; RFC 7915, section 4.1 requires the same of a translator),
* IPv6: RFC 8200, section 3 (payload length) and RFC 4291, sections 2.5.2, 2.5.3, 2.5.6 and 2.7 (addresses).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from v6t.intent.device import Link, Links
from v6t.packets.checksum import has_valid_sum
from v6t.packets.headers import IP, IPV4, IPV6, decrement_hops, read_hops, view
from v6t.packets.reference import EXHAUSTED, FORWARDED, NOT_FORWARDED, NOT_OURS, Expected
from v6t.packets.unique import sort_unique
from v6t.plugins.addresses import UNFORWARDED

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8, Mask, Reasons
    from v6t.packets.direction import Direction

ETHERTYPE = {4: b"\x08\x00", 6: b"\x86\xdd"}


@dataclass(frozen=True)
class LinkHeaders:
    """Ethernet headers of one link without the EtherType.

    Attributes:
        arriving: what the device receives: its own address, the tester's, the VLAN tag.
        leaving: what it sends.
    """

    arriving: bytes
    leaving: bytes

    @property
    def l3(self) -> int:
        """Offset of the IP packet."""
        return len(self.arriving) + 2

    def is_destination(self, frames: U8) -> Mask:
        """Select rows addressed to the device, with the link's tag; routers ignore the source address."""
        head = np.frombuffer(self.arriving, dtype=np.uint8)
        ours: Mask = (frames[:, :6] == head[:6]).all(axis=1)
        ours &= (frames[:, 12 : len(head)] == head[12:]).all(axis=1)
        return ours

    def ethertypes(self, frames: U8) -> NDArray[np.uint16]:
        """Read the EtherType of each row."""
        at = len(self.arriving)
        kinds: NDArray[np.uint16] = frames[:, at : at + 2].view(">u2")[:, 0]
        return kinds


def link_headers(link: Link, vlan: int | None = None) -> LinkHeaders:
    """Return the headers of a link as the device sees them; ``vlan`` replaces the link's own."""
    dut, tester = (bytes.fromhex(m.replace(":", "")) for m in (link.dut_mac, link.tester_mac))
    vlan = link.vlan if vlan is None else vlan
    tag = b"" if vlan is None else b"\x81\x00" + vlan.to_bytes(2, "big")
    return LinkHeaders(dut + tester + tag, tester + dut + tag)


@dataclass(frozen=True)
class Leaving:
    """Packets that leave the device.

    Attributes:
        rows: ``(n,)`` bool, which of the handler's packets they answer.
        packets: ``(rows.sum(), length)`` uint8.
        version: of IP.
    """

    rows: Mask
    packets: U8
    version: int


@dataclass(frozen=True)
class Handled:
    """The result of a batch: ``reason`` ``(n,)``, 0 where a packet leaves."""

    reason: Reasons
    leaving: tuple[Leaving, ...]


Checks: TypeAlias = "Sequence[tuple[Reasons | int, Mask | bool]]"
"""Drop reasons with their conditions; the first condition that holds decides."""


def _build_nothing(_: Mask) -> U8:
    raise AssertionError("all packets are dropped")


@dataclass(frozen=True)
class Answer:
    """What a device makes of a batch of packets.

    Attributes:
        drops: drop reasons with their conditions, in order of precedence.
        build: makes the packets that leave, given the rows without a drop reason.
        version: IP version of these packets.
        native: ``(n,)``, packets that are routed unchanged; ``drops`` does not apply to them.
    """

    drops: Checks
    build: Callable[[Mask], U8] = _build_nothing
    version: int = 6
    native: Mask | None = None

    def settle(self, packets: U8) -> Handled:
        """Apply the drop reasons, route native packets and build the others."""
        reason = choose_reasons(len(packets), *self.drops)
        good = reason == FORWARDED
        leaving = []
        if self.native is not None and self.native.any():
            version = int(packets[0, 0] >> 4)
            alive = read_hops(packets, version) > 1
            rows = self.native & alive
            reason[rows], reason[self.native & ~alive] = FORWARDED, EXHAUSTED
            good &= ~self.native
            if rows.any():
                routed = packets[rows]
                decrement_hops(routed, version)
                leaving.append(Leaving(rows, routed, version))
        if good.any():
            leaving.append(Leaving(good, self.build(good), self.version))
        return Handled(reason, tuple(leaving))


DROP_ALL = Answer([(NOT_FORWARDED, True)])
"""The answer to packets that no device forwards."""

Handler: TypeAlias = "Callable[[U8], Answer]"
"""Takes equally long IP packets of one version, ``(n, length)``, at least a header long."""


class ReferenceDevice:
    """Two links and the handlers between them."""

    def __init__(
        self, links: Links, forward: Mapping[int, Handler], reverse: Mapping[int, Handler]
    ) -> None:
        """Combine handlers.

        Args:
            links: MAC addresses and VLANs.
            forward: by IP version, for frames that arrive on the left link.
            reverse: the same for the right link.
        """
        left, right = link_headers(links.left), link_headers(links.right)
        self._directions = {"forward": (left, right, forward), "reverse": (right, left, reverse)}
        self._background: ReferenceDevice | None = None
        if links.background_vlans is not None:
            native = {6: route_all(6)}
            self._background = ReferenceDevice(_background_links(links), native, native)

    def expect(self, direction: Direction, frames: U8) -> Expected:
        """Return what the device emits; see :class:`v6t.packets.reference.ReferenceTranslation`."""
        arrival, departure, handlers = self._directions[direction]
        count = len(frames)
        reason = np.full(count, NOT_FORWARDED, dtype=np.uint8)
        length = np.zeros(count, dtype=np.int32)
        if frames.shape[1] <= arrival.l3:
            return Expected(np.zeros((count, 0), np.uint8), length, reason)
        ours = arrival.is_destination(frames)
        reason[~ours] = NOT_OURS
        kinds = arrival.ethertypes(frames)
        if self._background is not None and not ours.all():
            return _join(direction, frames, ((ours, self), (~ours, self._background)))
        parts: list[tuple[np.ndarray, Leaving]] = []
        for version, handler in handlers.items():
            mine = ours & (kinds == int.from_bytes(ETHERTYPE[version], "big"))
            mine &= frames[:, arrival.l3] >> 4 == version
            if frames.shape[1] < arrival.l3 + IP[version].itemsize or not mine.any():
                continue
            packets = frames[:, arrival.l3 :]
            if not mine.all():
                packets = packets[mine]
            good = is_forwardable(packets, version)
            if not good.all():
                mine[mine] = good
                packets = packets[good]
                if not len(packets):
                    continue
            rows = np.flatnonzero(mine)
            handled = handler(packets).settle(packets)
            reason[rows] = handled.reason
            parts += [(rows[part.rows], part) for part in handled.leaving]
        return Expected(_assemble(departure, count, length, parts), length, reason)


def _join(
    direction: Direction, frames: U8, halves: Sequence[tuple[Mask, ReferenceDevice]]
) -> Expected:
    """Join the answers of the technology's device and of the background's device."""
    parts = [(rows, half.expect(direction, frames[rows])) for rows, half in halves if rows.any()]
    longest = max(part.frames.shape[1] for _, part in parts)
    out = np.zeros((len(frames), longest), dtype=np.uint8)
    reason = np.zeros(len(frames), dtype=np.uint8)
    length = np.zeros(len(frames), dtype=np.int32)
    for rows, part in parts:
        out[rows, : part.frames.shape[1]] = part.frames
        reason[rows], length[rows] = part.reason, part.length
    return Expected(out, length, reason)


def _background_links(links: Links) -> Links:
    """Return the same cables on the VLANs of the background."""
    left, right = (
        replace(link, vlan=link.background.vlan if link.background else None, background=None)
        for link in (links.left, links.right)
    )
    return Links(left, right)


def _assemble(
    departure: LinkHeaders, count: int, length: np.ndarray, parts: list[tuple[np.ndarray, Leaving]]
) -> U8:
    """Put the packets of all parts into frames, in the rows they answer, and fill in ``length``."""
    header = departure.l3
    longest = max((part.packets.shape[1] for _, part in parts), default=0)
    out = np.zeros((count, header + longest if parts else 0), dtype=np.uint8)
    for rows, part in parts:
        end = header + part.packets.shape[1]
        place = slice(None) if len(rows) == count else rows
        out[place, : header - 2] = np.frombuffer(departure.leaving, dtype=np.uint8)
        out[place, header - 2 : header] = np.frombuffer(ETHERTYPE[part.version], dtype=np.uint8)
        out[place, header:end] = part.packets
        length[rows] = end
    return out


def route_all(version: int) -> Handler:
    """Return a handler that forwards all packets natively."""

    def handler(packets: U8) -> Answer:
        return Answer((), native=np.ones(len(packets), dtype=bool), version=version)

    return handler


def choose_reasons(count: int, *checks: tuple[Reasons | int, Mask | bool]) -> Reasons:
    """Return the drop reason of each packet: the first whose condition holds, or 0.

    Args:
        count: number of packets.
        checks: reasons in order of precedence, each with its condition.
    """
    chosen = np.zeros(count, dtype=np.uint8)
    for reason, condition in reversed(checks):
        np.copyto(chosen, np.uint8(reason) if isinstance(reason, int) else reason, where=condition)
    return chosen


_NEVER = {v: [n for n in UNFORWARDED.values() if n.version == v] for v in (4, 6)}


def _first_octets(version: int, longest: int = 128) -> Mask:
    """Mark each first octet of the networks of :data:`UNFORWARDED` up to a prefix length."""
    marked = np.zeros(256, dtype=bool)
    for net in _NEVER[version]:
        if net.prefixlen > longest:
            continue
        marked[net.network_address.packed[0] : net.broadcast_address.packed[0] + 1] = True
    return marked


_UNICAST4 = ~_first_octets(4, 8)
"""Whether a device may forward an IPv4 address, by its first octet; class E contains broadcast."""
_PAIRS4 = [n.network_address.packed[:2] for n in _NEVER[4] if n.prefixlen == 16]
"""First two octets of IPv4 addresses that no device forwards."""
_SUSPECT6 = _first_octets(6)
"""Whether an IPv6 address needs a comparison with the table, by its first octet."""


def has_forwardable_address(addresses: U8) -> Mask:
    """Select the rows of ``(n, 4)`` or ``(n, 16)`` addresses that a device forwards."""
    good: Mask
    if addresses.shape[1] == 4:
        good = _UNICAST4[addresses[:, 0]]
        for first, second in _PAIRS4:
            good &= (addresses[:, 0] != first) | (addresses[:, 1] != second)
        return good
    good = ~_SUSPECT6[addresses[:, 0]]
    rows = np.flatnonzero(~good)
    if len(rows):
        good[rows] = ~_listed6(addresses[rows])
    return good


def is_forwardable(packets: U8, version: int) -> Mask:
    """Select the rows of ``(n, length)`` packets, at least a header long, that a device may forward."""
    if version == 4:
        return _is_forwardable_ipv4(packets)
    header = view(packets, IPV6)
    good: Mask = header["plen"] <= packets.shape[1] - 40
    good &= header["ver_tc"] >> 4 == 6
    good &= has_forwardable_address(header["src_octets"])
    return good & has_forwardable_address(header["dst_octets"])


def _is_forwardable_ipv4(packets: U8) -> Mask:
    length, header = packets.shape[1], view(packets, IPV4)
    first, total = header["ver_ihl"], header["len"].astype(np.uint16)
    good: Mask = (total >= 20) & (total <= length)
    good &= has_forwardable_address(header["src_octets"])
    good &= has_forwardable_address(header["dst_octets"])
    plain = first == 0x45
    if plain.all():
        return good & has_valid_sum(packets[:, :20])
    good &= plain | (first > 0x45) & (first < 0x50)
    for octets in sort_unique(4 * (first[good] & 15).astype(int)):
        rows = np.flatnonzero(good & (first == 0x40 | octets // 4))
        good[rows] &= octets <= total[rows]
        if octets <= length:
            good[rows] &= has_valid_sum(packets[rows, :octets])
    return good


def _listed6(addresses: U8) -> Mask:
    """Mark the rows of ``(n, 16)`` addresses within a prefix of :data:`UNFORWARDED`."""
    mask: Mask = np.zeros(len(addresses), dtype=bool)
    for net in _NEVER[6]:
        octets = -(-net.prefixlen // 8)
        bits = np.frombuffer(net.netmask.packed[:octets], dtype=np.uint8)
        first = np.frombuffer(net.network_address.packed[:octets], dtype=np.uint8)
        mask |= (addresses[:, :octets] & bits == first).all(axis=1)
    return mask
