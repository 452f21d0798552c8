"""Whether the clock that stamps frames was stepped, or the machine slept, while they were under way.

Frames are stamped by the kernel with the time of day. Time servers that slew it slew the monotonic
clock as well; a step, and a suspended machine, move the one and not the other.
"""

from __future__ import annotations

import time
from pathlib import Path

SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
READINGS = 9
LEAST_S = 0.001
"""Less is a reading that was interrupted."""


def source() -> str | None:
    """The kernel's clock source; None where it does not say."""
    try:
        return SOURCE.read_text(encoding="ascii").strip() or None
    except OSError:
        return None


def offset_s() -> float:
    """Time of day less monotonic time [s], of the reading that took the least time."""
    best, found = float("inf"), 0.0
    for _ in range(READINGS):
        before = time.monotonic_ns()
        day = time.time_ns()
        after = time.monotonic_ns()
        if after - before < best:
            best, found = after - before, (day - (before + after) / 2) / 1e9
    return found


def fault_since(before_s: float) -> list[str]:
    """What is wrong with a trial that began at an earlier offset; nothing if it is the same."""
    moved = offset_s() - before_s
    if abs(moved) < LEAST_S:
        return []
    return [f"the clock was stepped by {moved:+.3f} s, or this machine slept, during the trial"]
