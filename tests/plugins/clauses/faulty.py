"""A whole device with one planted fault; frames are changed octet by octet, by code of the tests' own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from v6t.plugins.clauses.base import Clause, Frame, Send
from v6t.plugins.clauses.carry import Outcome, carry_out
from v6t.plugins.whole import Leaves, SideName, WholeDevice

ETHERNET = 14
Octets = bytearray
Leaving = Callable[[bytes, bytes], "bytes | None"]
"""Of a packet that arrived and one that leaves because of it: what leaves in its place; None: nothing."""


@dataclass(frozen=True)
class Fault:
    """One planted fault.

    Attributes:
        name: of the fault.
        clause: part of the name of a clause that must deviate by it.
        arriving: changes a packet before the device sees it; None: drops it.
        leaving: changes what leaves; see :data:`Leaving`.
        patch: changes the reference itself: module or class, attribute, and what stands there
            instead, made of what stood there.
        params: the device alone believes.
    """

    name: str
    clause: str
    arriving: Callable[[bytes], bytes | None] | None = None
    leaving: Leaving | None = None
    patch: tuple[Any, str, Callable[[Any], Any]] | None = None
    params: dict[str, Any] = field(default_factory=dict)


class FaultyDevice:
    """What the device sends, changed by the fault."""

    def __init__(self, whole: WholeDevice, fault: Fault | None) -> None:
        self.whole = whole
        self.fault = fault

    def receive(self, side: SideName, frame: bytes) -> Leaves:
        fault, head = self.fault, frame[:ETHERNET]
        packet = frame[ETHERNET:]
        if fault is not None and fault.arriving is not None:
            changed = fault.arriving(packet)
            if changed is None:
                return []
            frame = head[:12] + kind(changed) + changed
        found = []
        for out, left in self.whole.receive(side, frame):
            made: bytes | None = left[ETHERNET:]
            if fault is not None and fault.leaving is not None:
                made = fault.leaving(packet, cut(left[ETHERNET:]))
            if made is not None:
                octets = left[:12] + kind(made) + made
                found.append((out, octets + bytes(max(0, 60 - len(octets)))))
        return found


def outcomes(device: FaultyDevice | WholeDevice, clauses: Sequence[Clause]) -> list[Outcome]:
    """Every clause before a device in this process, no clock."""

    def carrier(send: Send) -> list[Frame]:
        before = getattr(device, "before", None)
        if before is not None:
            before(send)
        return [
            Frame(side, octets)
            for frame in send.frames
            for side, octets in device.receive(frame.side, frame.octets)
        ]

    return [carry_out(clause, carrier) for clause in clauses]


def kind(packet: bytes) -> bytes:
    return b"\x08\x00" if packet[0] >> 4 == 4 else b"\x86\xdd"


def cut(packet: bytes) -> bytes:
    """Without padding."""
    if packet[0] >> 4 == 4:
        return packet[: int.from_bytes(packet[2:4], "big")]
    return packet[: 40 + int.from_bytes(packet[4:6], "big")]


def added(octets: bytes) -> int:
    """RFC 1071, word by word."""
    total = sum(octets[0::2]) * 256 + sum(octets[1::2])
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def header_summed(packet: Octets) -> bytes:
    """IPv4 with its header checksum made right again."""
    end = 4 * (packet[0] & 15)
    packet[10:12] = b"\0\0"
    packet[10:12] = (0xFFFF - added(bytes(packet[:end]))).to_bytes(2, "big")
    return bytes(packet)


def message_summed(packet: Octets) -> bytes:
    """ICMP or ICMPv6 without options or extension headers, its checksum made right again."""
    if packet[0] >> 4 == 4:
        packet[22:24] = b"\0\0"
        packet[22:24] = (0xFFFF - added(bytes(packet[20:]))).to_bytes(2, "big")
        return bytes(packet)
    packet[42:44] = b"\0\0"
    pseudo = bytes(packet[8:40]) + (len(packet) - 40).to_bytes(4, "big") + b"\0\0\0\x3a"
    packet[42:44] = (0xFFFF - added(pseudo + bytes(packet[40:]))).to_bytes(2, "big")
    return bytes(packet)


def version(packet: bytes) -> int:
    return packet[0] >> 4


def forward(
    to: int, change: Callable[[Octets], None], when: Callable[[bytes], bool] = lambda _: True
) -> Leaving:
    """Packets that were translated to a version, changed; the header checksum is right afterwards."""

    def leaving(came: bytes, left: bytes) -> bytes:
        if version(left) != to or version(came) == to or not when(left):
            return left
        octets = Octets(left)
        change(octets)
        return header_summed(octets) if to == 4 else bytes(octets)

    return leaving


def put(at: int, value: int) -> Callable[[Octets], None]:
    def change(packet: Octets) -> None:
        packet[at] = value

    return change


def plus(at: int, difference: int) -> Callable[[Octets], None]:
    def change(packet: Octets) -> None:
        packet[at] = (packet[at] + difference) & 0xFF

    return change


def untold(came: bytes, left: bytes) -> bytes | None:
    """The device never sends an ICMP error of its own."""
    return None if version(came) == version(left) else left
