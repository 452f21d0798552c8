"""Plugins, their frames and the numbers in them."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import numpy as np
from v6t.audit.packet_device.build import build_device
from v6t.audit.packet_device.device import PacketDevice
from v6t.audit.packet_device.translator import TranslatingDevice
from v6t.packets.direction import Direction
from v6t.plugins.base import Links, Technology
from v6t.plugins.mape_br import MapEBorderRelay, MapEParams
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander

FIGURE_8 = {
    "rule_ipv6": "2001:db8:ce::/51",
    "rule_ipv4": "192.0.2.0/24",
    "ea_len": 13,
    "psid_offset": 0,
}
"""The rule of the Mapperf paper."""


class MapeDrop(IntEnum):
    """Indexes of the MAP-E relay's drop reasons."""

    FORWARDED = 0
    NOT_OURS = 1
    NO_TUNNEL = 2
    TTL = 3
    NO_RULE = 4
    BAD_IID = 5
    BAD_SOURCE = 6
    BAD_PORT = 7
    NO_DESTINATION = 8
    NO_PORT = 9
    TOO_BIG = 10
    UNMARKABLE = 11


def packet_device(technology: Technology) -> PacketDevice:
    """The packet-level device of a technology; the reference translation accepts private servers, too."""
    device = build_device(technology)
    if isinstance(device, TranslatingDevice):
        device.checks_global = False
    return device


def relay(links: Links | None = None, **given: Any) -> MapEBorderRelay:
    return MapEBorderRelay(MapEParams(**given), links)


def forwarded_frame(device: PacketDevice, direction: Direction, frame: bytes) -> bytes:
    """The frame that a packet-level device sends on the other link; empty if there is none."""
    side, out = ("left", "right") if direction == "forward" else ("right", "left")
    sent = [octets for at, octets in device.receive(side, frame) if at == out]
    return sent[0] if sent else b""


@cache
def lw_rows(count, pool="198.18.0.0", length=6, offset=6):
    """The generated table, as the documentation describes it."""
    rows = []
    first, net = int(IPv4Address(pool)), int(IPv6Address("2001:db8:b400::"))
    for number in range(count):
        ipv4 = IPv4Address(first + number // 2**length)
        psid = number % 2**length
        b4 = IPv6Address((net >> 64) + number << 64 | int(ipv4) << 16 | psid)
        rows.append((str(ipv4), psid, length, offset, str(b4), "2001:db8:6::1"))
    return tuple(rows)


def stream_frames(
    plugin: MapEBorderRelay,
    direction: Direction,
    count: int,
    *,
    size: int = 104,
    seed: int = 1,
    first: int = 0,
) -> dict[str, np.ndarray]:
    """``count`` frames of every class by its name."""
    streams = compile_traffic(plugin.traffic(direction, plugin.frame_pair(size), seed))
    return {s.name: Expander(s).frames(first, count) for s in streams.streams}


def number(frames: np.ndarray, at: int, octets: int) -> np.ndarray:
    """Big-endian numbers ``(n,)`` uint64 of up to 8 octets at an offset."""
    total = np.zeros(len(frames), dtype=np.uint64)
    for column in range(at, at + octets):
        total = total << np.uint64(8) | frames[:, column].astype(np.uint64)
    return total


def ports(frames: np.ndarray, direction: Direction, *, native: bool = False) -> tuple[Any, Any]:
    """UDP source and destination ports of untagged frames."""
    at = 14 + (40 if native or direction == "forward" else 0) + (0 if native else 20)
    return number(frames, at, 2).astype(int), number(frames, at + 2, 2).astype(int)


def deviation(observed: np.ndarray) -> float:
    """Pearson's chi-square of equally likely cells, in standard deviations from its mean."""
    expected = observed.sum() / len(observed)
    chi2 = float(((observed - expected) ** 2 / expected).sum())
    freedom = len(observed) - 1
    return (chi2 - freedom) / (2 * freedom) ** 0.5
