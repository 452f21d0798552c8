"""Both ends of a device: frames for it, and the packets in what it sent."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass

from v6t.plugins.base import Links
from v6t.plugins.clauses.base import (
    Exchange,
    Frame,
    Judgement,
    Send,
    SideName,
    conforms,
    deviates,
    untold,
)
from v6t.plugins.clauses.reading import Packet, parsed
from v6t.plugins.common.octets import ETHERTYPE, side_of

_MULTICAST_ND = range(130, 138)
"""ICMPv6 types that devices send unasked, to their neighbours: MLD, neighbour discovery."""
_MLD2 = 143
NOTHING = "nothing"


@dataclass(frozen=True)
class Ends:
    """The two links of a device."""

    links: Links

    def frame(self, side: SideName, packet: bytes) -> Frame:
        """A packet on a link, addressed to the device."""
        head = side_of(getattr(self.links, side)).arriving
        frame = head + ETHERTYPE[packet[0] >> 4] + packet
        return Frame(side, frame + b"\0" * (60 - len(frame)))

    def packets(self, side: SideName, heard: Iterable[Frame]) -> list[Packet]:
        """IP packets that the device sent to the tester on a link, in order; its own talk left out."""
        head = side_of(getattr(self.links, side)).leaving
        packets = []
        for frame in heard:
            if frame.side != side or frame.octets[: len(head)] != head:
                continue
            packet = parsed(frame.octets[len(head) + 2 :])
            if packet is not None and not _neighbourly(packet):
                packets.append(packet)
        return packets

    def unreadable(self, heard: Iterable[Frame]) -> str:
        """Of frames that hold no packet one can read: the first, in words; empty: there is none."""
        for frame in heard:
            head = side_of(getattr(self.links, frame.side)).leaving
            body = frame.octets[len(head) + 2 :]
            kind = frame.octets[len(head) : len(head) + 2]
            if (
                frame.octets[: len(head)] == head
                and kind in ETHERTYPE.values()
                and not parsed(body)
            ):
                return f"a packet whose lengths are wrong: {body[:60].hex()}"
        return ""

    def seen(self, heard: Sequence[Frame]) -> str:
        """What came, on both links, in words."""
        words = [f"{side}: {packet}" for side in _SIDES for packet in self.packets(side, heard)]
        broken = self.unreadable(heard)
        return "; ".join([*words, *([broken] if broken else [])]) or NOTHING


_SIDES: tuple[SideName, SideName] = ("left", "right")


def other(side: SideName) -> SideName:
    """The other link."""
    return "right" if side == "left" else "left"


Judge = Callable[[list[Packet], list[Packet]], str]
"""Of packets beyond the device and of those back to the sender: what is wrong, or nothing."""


def asked(
    ends: Ends,
    side: SideName,
    packet: bytes | Sequence[bytes],
    expected: str,
    judge: Judge,
    *,
    control: bytes | None = None,
    to: SideName | None = None,
) -> Exchange:
    """Send packets on one link, judge what came on both.

    Args:
        ends: of the device.
        side: where they arrive.
        packet: one or several.
        expected: in words.
        judge: says what is wrong.
        control: a plain packet: where that does not pass either, a missing packet says nothing.
        to: the link they shall leave on; None: the other one.
    """
    heard = yield from sent(ends, side, packet)
    judgement = judged(ends, side, heard, expected, judge, to=to)
    came = ends.packets(to or other(side), heard) or ends.unreadable(heard)
    if judgement.verdict == "conforms" or control is None or came:
        return judgement
    after = yield from sent(ends, side, control)
    if ends.packets(other(side), after):
        return judgement
    return untold(expected, f"{judgement.got}, but a plain packet does not pass, either")


def judged(
    ends: Ends,
    side: SideName,
    heard: Sequence[Frame],
    expected: str,
    judge: Judge,
    *,
    to: SideName | None = None,
) -> Judgement:
    """A judgement of what was heard."""
    beyond, back = ends.packets(to or other(side), heard), ends.packets(side, heard)
    wrong = judge(beyond, [] if to == side else back)
    if wrong:
        seen = ends.seen(heard)
        return deviates(expected, wrong if wrong == seen else f"{wrong} ({seen})")
    return conforms(expected, ends.seen(heard))


def sent(
    ends: Ends, side: SideName, packet: bytes | Sequence[bytes], pause_s: float = 0.0
) -> Generator[Send, Sequence[Frame], Sequence[Frame]]:
    """Send packets on one link; what was heard."""
    packets = [packet] if isinstance(packet, bytes) else packet
    return (yield Send([ends.frame(side, p) for p in packets], pause_s))


def refused(
    ends: Ends,
    side: SideName,
    packet: bytes | Sequence[bytes],
    control: bytes,
    expected: str,
    *,
    silently: bool = False,
    unanswered: bool = False,
    to: SideName | None = None,
) -> Exchange:
    """The packet must not pass; nothing is said by that where a right one beside it does not, either.

    Args:
        ends: of the device.
        side: where it arrives.
        packet: it, or several.
        control: one that differs only in being right.
        expected: in words.
        silently: nothing may come back, either.
        unanswered: only of what comes back is something said: whether it may pass is another question.
        to: the link it must not leave on; None: the other one.
    """
    heard = yield from sent(ends, side, packet)
    beyond = ends.packets(to or other(side), heard)
    passed = [p for p in beyond if not p.error] if to == side else beyond
    back = ends.packets(side, heard)
    if passed and unanswered:
        return untold(expected, f"it passed: {passed[0]}")
    if passed:
        return deviates(expected, f"it passed: {passed[0]}")
    broken = ends.unreadable(heard)
    if broken:
        return deviates(expected, f"it passed: {broken}")
    if silently and back:
        return deviates(expected, f"an answer: {back[0]}")
    came = ends.seen(heard)
    heard = yield from sent(ends, side, control)
    if not [p for p in ends.packets(to or other(side), heard) if not (to == side and p.error)]:
        return untold(expected, f"{came}, but a right packet does not pass, either")
    return conforms(expected, came)


def _neighbourly(packet: Packet) -> bool:
    if packet.version != 6 or packet.kind is None:
        return packet.destination.is_multicast
    return packet.kind[0] in _MULTICAST_ND or packet.kind[0] == _MLD2


def worded(links: Links, frames: Sequence[Frame]) -> str:
    """What the tester sent, in words: the first frame, and how many more."""
    for frame in frames:
        head = side_of(getattr(links, frame.side)).arriving
        packet = parsed(frame.octets[len(head) + 2 :])
        more = f", and {len(frames) - 1} more" if len(frames) > 1 else ""
        words = "no readable packet" if packet is None else str(packet)
        return f"{frame.side}: {words}{more}"
    return NOTHING
