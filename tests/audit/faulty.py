"""A packet-level device with one planted fault; frames are changed octet by octet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from v6t.plugins.audit_views import SideName

Leaves = list[tuple[SideName, bytes]]

ETHERNET = 14
Octets = bytearray
Leaving = Callable[[bytes, bytes], "bytes | None"]
"""Takes a packet that arrived and one that leaves because of it; returns what leaves instead, or None."""


@dataclass(frozen=True)
class Fault:
    """One planted fault.

    Attributes:
        name: of the fault.
        clause: part of the name of a clause that must find it.
        arriving: changes a packet before the device sees it; None: drops it.
        leaving: changes what leaves; see :data:`Leaving`.
        patch: changes the device's code: class, attribute, and a function of the correct attribute.
    """

    name: str
    clause: str
    arriving: Callable[[bytes], bytes | None] | None = None
    leaving: Leaving | None = None
    patch: tuple[Any, str, Callable[[Any], Any]] | None = None


class FaultyDevice:
    """A device whose packets are changed by a fault."""

    def __init__(self, device: Any, fault: Fault) -> None:
        self.device = device
        self.fault = fault

    def receive(self, side: SideName, frame: bytes, now_s: float = 0.0) -> Leaves:
        fault, packet = self.fault, frame[ETHERNET:]
        if fault.arriving is not None:
            changed = fault.arriving(packet)
            if changed is None:
                return []
            frame = frame[:12] + kind(changed) + changed
        sent = []
        for out, left in self.device.receive(side, frame, now_s):
            changed = left[ETHERNET:]
            if fault.leaving is not None:
                changed = fault.leaving(packet, cut(left[ETHERNET:]))
            if changed is not None:
                octets = left[:12] + kind(changed) + changed
                sent.append((out, octets + bytes(max(0, 60 - len(octets)))))
        return sent


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
        packet[at] = value & 0xFF

    return change


def plus(at: int, difference: int) -> Callable[[Octets], None]:
    def change(packet: Octets) -> None:
        packet[at] = (packet[at] + difference) & 0xFF

    return change


def without_errors(came: bytes, left: bytes) -> bytes | None:
    """The device never sends an ICMP error of its own."""
    return None if version(came) == version(left) else left


def drop(when: Callable[[bytes], bool]) -> Callable[[bytes], bytes | None]:
    return lambda p: None if when(p) else p
