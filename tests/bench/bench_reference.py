"""What looking for broken headers and Martians costs the reference devices, as a ratio.

``python -m v6t.tests.bench.bench_reference [PLUGIN ...]``: the least time of one device for the same
1024 frames with and without the look (:mod:`v6t.plugins.common.discards`), taken in turn.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
from v6t.core.config.plugins import load_plugin
from v6t.packets.arrays import U8, Mask
from v6t.packets.direction import DIRECTIONS, Direction
from v6t.plugins.base import Technology
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander

PLUGINS = ("ipv4-router", "ipv6-router", "siit", "mape-br", "mapt-br", "lwaftr")
FRAMES, TURNS = 1024, 300
USERS = ("common.reference_device", "tunnel.ipip", "tunnel.sixin4")


def _all(packets: U8, _version: int) -> Mask:
    return np.ones(len(packets), dtype=bool)


def ratio(plugin: Technology, direction: Direction) -> tuple[float, float]:
    """Seconds with the look, and how many times those without it."""
    traffic = plugin.traffic(direction, plugin.frame_pair(128), 1)
    frames = Expander(compile_traffic(traffic).streams[0]).frames(0, FRAMES)
    looks = [patch(f"v6t.plugins.{user}.sound", _all) for user in USERS]

    def timed(work: Callable[[], object]) -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    best = [float("inf"), float("inf")]
    for _ in range(TURNS):
        best[0] = min(best[0], timed(lambda: plugin.expect(direction, frames)))
        for look in looks:
            look.start()
        best[1] = min(best[1], timed(lambda: plugin.expect(direction, frames)))
        for look in looks:
            look.stop()
    return best[0], best[0] / best[1]


def main() -> None:
    """Print the figures; nothing is asserted."""
    for name in sys.argv[1:] or PLUGINS:
        for direction in DIRECTIONS:
            took, times = ratio(load_plugin(name)(), direction)
            print(f"  {name:<12} {direction:<8} {1e6 * took:6.0f} us  {times:.2f}")


if __name__ == "__main__":
    main()
