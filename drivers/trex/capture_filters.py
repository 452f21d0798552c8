"""Filters of TRex's captures: control frames, marked and stamped frames, samples of both."""

from __future__ import annotations

from collections.abc import Iterable

from v6t.drivers.trex.streams import MARK_IDS, MARKS_PER_CLASS, packet_of
from v6t.packets import trailer
from v6t.packets.walker import walk
from v6t.profiles.streams import StreamSet

_CONTROL = ("arp", "icmp", "icmp6")
"""Frames that devices send unasked, even to one host: ARP, ICMP, ND."""
_NO_ECHO = ("arp", "(icmp and icmp[0] != 8 and icmp[0] != 0)",
            "(icmp6 and ip6[40] != 128 and ip6[40] != 129)")  # fmt: skip
_GROUP = "ether[0] & 1 = 1"
"""To a group or to all: RA, MLD, IGMP, LLDP, spanning tree, and hellos of routing protocols."""
TEST_FRAMES = f"ether[len - {trailer.LENGTH}] = {trailer.MAGIC}"
STAMPED_FRAMES = f"{TEST_FRAMES} and ether[len - 13] & 128 = 0"
_MARKED_FRAMES = f"{TEST_FRAMES} and ether[len - 13] & 128 != 0"


def control_filter(streams: Iterable[StreamSet]) -> str:
    """Return the filter for frames that are not test frames, where only port counters tell.

    Where test frames are ICMP, echoes are not control frames.
    """
    headers = {header.name for one in streams for s in one.streams for header in walk(packet_of(s))}
    terms = " or ".join(_NO_ECHO if headers & {"ICMP", "ICMPv6"} else _CONTROL)
    return f"{_GROUP} or {terms} or (vlan and ({terms}))"


def class_filter(number: int, nonce: int = 0) -> str:
    """Return the filter for the marked frames of one of eight classes in a trial with a nonce."""
    high = MARK_IDS + number * MARKS_PER_CLASS >> 8
    return f"{TEST_FRAMES} and ether[len - 15] = {nonce} and ether[len - 13] & 240 = {high}"


def stamp_sample_filter(frames: int, wanted: int) -> str:
    """Return the filter that keeps about ``wanted`` of ``frames`` stamped frames of each stream.

    The sequence number in the trailer (little-endian, 12 octets before the end) decides, so that
    the device's changes of headers do not change which frames are kept.
    """
    return " and ".join([STAMPED_FRAMES, *_mask_terms(stride_bits(frames, wanted), 12, -1)])


def mark_sample_filter(frames: int, wanted: int, distance: int, nonce: int = 0) -> str:
    """Return the filter that keeps about ``wanted`` of ``frames`` marked frames of each stream.

    Their number, in network byte order, stands ``distance`` octets before the end.
    """
    terms = _mask_terms(stride_bits(frames, wanted), distance - 3, 1)
    return " and ".join([_MARKED_FRAMES, f"ether[len - 15] = {nonce}", *terms])


def neighbors_filter(frames: int, wanted: int) -> str:
    """Return the filter that keeps whole runs of 256 neighbors, about ``wanted`` frames in all."""
    return " and ".join([TEST_FRAMES, *_mask_terms(stride_bits(frames, wanted), 11, -1, octets=3)])


def stride_bits(frames: int, wanted: int) -> int:
    """Return how many bits of a number must be zero so that ``wanted`` of ``frames`` are left, about."""
    return max(0, (frames // max(1, wanted)).bit_length() - 1)


def _mask_terms(bits: int, low: int, step: int, octets: int = 4) -> list[str]:
    mask = (1 << bits) - 1
    return [
        f"ether[len - {low + step * octet}] & {mask >> 8 * octet & 0xFF} = 0"
        for octet in range(octets)
        if mask >> 8 * octet & 0xFF
    ]
