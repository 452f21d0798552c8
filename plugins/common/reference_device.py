"""The frame of every reference device: frames in, packets by direction and version, frames out.

A technology supplies one handler per direction and IP version. What is not addressed to the
device, or of a version without a handler, is dropped here, and what no device forwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.headers import IP, decrement_hops, read_hops
from v6t.packets.reference import EXHAUSTED, FORWARDED, NOT_FORWARDED, NOT_OURS, Expected
from v6t.plugins.base import Links
from v6t.plugins.common.discards import sound
from v6t.plugins.common.octets import ETHERTYPE, side_of

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, Mask, Reasons
    from v6t.packets.direction import Direction
    from v6t.plugins.common.octets import Side


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
    """What became of a batch of packets: ``reason`` ``(n,)``, 0 where something leaves."""

    reason: Reasons
    leaving: tuple[Leaving, ...]


Handler = Callable[["U8"], Handled]
"""Takes equally long IP packets of one version, ``(n, length)``, at least a header long."""


class ReferenceDevice:
    """Two links and the handlers between them."""

    def __init__(
        self,
        links: Links,
        forward: Mapping[int, Handler],
        reverse: Mapping[int, Handler],
    ) -> None:
        """Combine handlers.

        Args:
            links: MAC addresses and VLANs.
            forward: by IP version, for frames that arrive on the left link.
            reverse: the same for the right link.
        """
        left, right = side_of(links.left), side_of(links.right)
        self._ways: dict[str, tuple[Side, Side, Mapping[int, Handler]]] = {
            "forward": (left, right, forward),
            "reverse": (right, left, reverse),
        }
        self._beside: ReferenceDevice | None = None
        if links.background_vlans is not None:
            native, other = {6: route_all(6)}, _aside(links)
            self._beside = ReferenceDevice(other, native, native)

    def expect(self, direction: Direction, frames: U8) -> Expected:
        """See :meth:`v6t.plugins.base.Technology.expect`."""
        here, there, handlers = self._ways[direction]
        count = len(frames)
        reason = np.full(count, NOT_FORWARDED, dtype=np.uint8)
        length = np.zeros(count, dtype=np.int32)
        if frames.shape[1] <= here.l3:
            return Expected(np.zeros((count, 0), np.uint8), length, reason)
        ours = here.ours(frames)
        reason[~ours] = NOT_OURS
        kinds = here.kind(frames)
        if self._beside is not None and not ours.all():
            halves = ((ours, self), (~ours, self._beside))
            return _together(direction, frames, halves)
        parts: list[tuple[np.ndarray, Leaving]] = []
        for version, handler in handlers.items():
            mine = ours & (kinds == int.from_bytes(ETHERTYPE[version], "big"))
            mine &= frames[:, here.l3] >> 4 == version
            if frames.shape[1] < here.l3 + IP[version].itemsize or not mine.any():
                continue
            packets = frames[:, here.l3 :]
            if not mine.all():
                packets = packets[mine]
            good = sound(packets, version)
            if not good.all():
                mine[mine] = good
                packets = packets[good]
                if not len(packets):
                    continue
            rows = np.flatnonzero(mine)
            handled = handler(packets)
            reason[rows] = handled.reason
            parts += [(rows[part.rows], part) for part in handled.leaving]
        return Expected(_assemble(there, count, length, parts), length, reason)


def _together(
    direction: Direction, frames: U8, halves: Sequence[tuple[Mask, ReferenceDevice]]
) -> Expected:
    """Frames of both VLANs, each as its own half of the device answers it (MIX-04)."""
    parts = [(rows, half.expect(direction, frames[rows])) for rows, half in halves if rows.any()]
    longest = max(part.frames.shape[1] for _, part in parts)
    out = np.zeros((len(frames), longest), dtype=np.uint8)
    reason = np.zeros(len(frames), dtype=np.uint8)
    length = np.zeros(len(frames), dtype=np.int32)
    for rows, part in parts:
        out[rows, : part.frames.shape[1]] = part.frames
        reason[rows], length[rows] = part.reason, part.length
    return Expected(out, length, reason)


def _aside(links: Links) -> Links:
    """The same cables on the VLANs of the background."""
    here = (links.left, links.right)
    vlans = [link.background.vlan if link.background else None for link in here]
    left, right = (
        replace(link, vlan=vlan, background=None) for link, vlan in zip(here, vlans, strict=True)
    )
    return Links(left, right)


def _assemble(
    there: Side, count: int, length: np.ndarray, parts: list[tuple[np.ndarray, Leaving]]
) -> U8:
    """Frames of all parts, each at the row of the frame it answers; ``length`` is filled in."""
    header = there.l3
    longest = max((part.packets.shape[1] for _, part in parts), default=0)
    out = np.zeros((count, header + longest if parts else 0), dtype=np.uint8)
    for rows, part in parts:
        end = header + part.packets.shape[1]
        place = slice(None) if len(rows) == count else rows
        out[place, : header - 2] = np.frombuffer(there.leaving, dtype=np.uint8)
        out[place, header - 2 : header] = np.frombuffer(ETHERTYPE[part.version], dtype=np.uint8)
        out[place, header:end] = part.packets
        length[rows] = end
    return out


def dropped(count: int, reason: int) -> Handled:
    """All packets dropped for one reason."""
    return Handled(np.full(count, reason, dtype=np.uint8), ())


def route(packets: U8, version: int, reason: Reasons) -> Handled:
    """Native forwarding of the packets whose ``reason`` is 0: TTL or hop limit minus one."""
    reason = reason.copy()
    reason[(reason == FORWARDED) & (read_hops(packets, version) <= 1)] = EXHAUSTED
    rows = reason == FORWARDED
    forwarded = packets[rows] if not rows.all() else packets.copy()
    decrement_hops(forwarded, version)
    return Handled(reason, (Leaving(rows, forwarded, version),) if len(forwarded) else ())


def route_all(version: int) -> Handler:
    """A handler that forwards whatever can live one hop longer."""

    def handler(packets: U8) -> Handled:
        return route(packets, version, np.zeros(len(packets), dtype=np.uint8))

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


def answer(reason: Reasons, build: Callable[[Mask], U8], version: int) -> Handled:
    """Emit what ``build`` makes of the packets without a drop reason."""
    good = reason == FORWARDED
    return Handled(reason, (Leaving(good, build(good), version),) if good.any() else ())


def answer_or_route(
    packets: U8,
    ours: Mask,
    reason: Reasons,
    build: Callable[[Mask], U8],
    *,
    stray: Mask | None = None,
) -> Handled:
    """Emit what ``build`` makes of the device's IPv6 packets as IPv4, and route the others.

    Args:
        packets: IPv6 packets.
        ours: ``(n,)``, packets for the device itself.
        reason: ``(n,)``, drop reasons of these packets.
        build: makes the packets that leave, given their rows.
        stray: ``(n,)``, packets that are not for the device and are not routed either.
    """
    good = ours & (reason == FORWARDED)
    leaving = (Leaving(good, build(good), 4),) if good.any() else ()
    if ours.all():
        return Handled(reason, leaving)
    unroutable = ours if stray is None else ours | stray
    native = route(packets, 6, choose_reasons(len(packets), (NOT_FORWARDED, unroutable)))
    return Handled(np.where(ours, reason, native.reason), leaving + native.leaving)
