"""Plugins, their frames and the numbers in them."""

from __future__ import annotations

from typing import Any

import numpy as np
from v6t.packets.direction import Direction
from v6t.plugins.base import Links
from v6t.plugins.map.mape_br import MapEBorderRelay
from v6t.plugins.map.mape_params import MapEParams
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander

from .oracle import Oracle, OracleRule

FIGURE_8 = {
    "rule_ipv6": "2001:db8:ce::/51",
    "rule_ipv4": "192.0.2.0/24",
    "ea_len": 13,
    "psid_offset": 0,
}
"""The rule of the Mapperf paper."""


def relay(links: Links | None = None, **given: Any) -> MapEBorderRelay:
    return MapEBorderRelay(MapEParams(**given), links)


def oracle(plugin: MapEBorderRelay) -> Oracle:
    """From the parameters as given; PSID lengths by MAP-01, not from the plugin's rules."""
    rules = []
    for d in plugin.params.all_domains:
        room = 32 - int(d.rule_ipv4.partition("/")[2])
        length = max(0, d.ea_len - room) if d.ea_len else d.psid_len or 0
        draft = d.iid_format == "draft"
        only = d.psid if not d.ea_len and length else None
        rules.append(
            OracleRule(d.rule_ipv6, d.rule_ipv4, d.ea_len, d.psid_offset, length, draft, only)
        )
    return Oracle(tuple(rules), str(plugin.params.br_address), plugin.links)


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
