"""Steps and slews of the clock that stamps frames, the time of day.

A step, and a suspended machine, move it against the monotonic clock; a time server that slews it slews the
monotonic clock as well, and moves both against the processor's counter.
"""

import time
from dataclasses import dataclass
from pathlib import Path

CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
READINGS = 9  # Number of readings, of which the fastest is used
MAX_SLEW = 1e-3  # Share of the elapsed time
"""Delays are wrong by this share at most. Kernels slew a clock by half of it; time servers that
correct large errors slew it by up to a twelfth."""


def read_source() -> str | None:
    """Return the kernel's clock source, or None if unknown."""
    try:
        return CLOCK_SOURCE.read_text(encoding="ascii").strip() or None
    except OSError:
        return None


@dataclass(frozen=True)
class ClockReading:
    """One reading of all clocks."""

    ahead_ns: int  # twice the time of day minus the monotonic time, an exact integer
    duration_ns: int  # Duration of the reading
    monotonic_ns: int  # Monotonic clock
    raw_ns: int  # The processor's counter, which no time server adjusts


def read() -> ClockReading:
    """Read all clocks, several times; return the reading that took the least time."""
    readings = []
    for _ in range(READINGS):
        before = time.monotonic_ns()
        day = time.time_ns()
        raw = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        after = time.monotonic_ns()
        middle = (before + after) // 2
        readings.append(ClockReading(2 * day - before - after, after - before, middle, raw))
    return min(readings, key=lambda r: r.duration_ns)


def find_faults_since(before: ClockReading) -> list[str]:
    """Find faults of the clock since an earlier reading."""
    return find_faults_between(before, read())


def find_faults_between(before: ClockReading, after: ClockReading) -> list[str]:
    """Find faults of the clock between two readings: steps and slews."""
    # each is known to half of the time it took
    error_ns = (before.duration_ns + after.duration_ns) / 2
    moved_ns = (after.ahead_ns - before.ahead_ns) / 2
    if abs(moved_ns) > error_ns:
        stepped = f"the clock was stepped by {moved_ns / 1e9:+.6f} s"
        return [f"{stepped}, or this machine slept, during the trial"]
    raw_ns = after.raw_ns - before.raw_ns
    slewed_ns = after.monotonic_ns - before.monotonic_ns - raw_ns
    if abs(slewed_ns) > MAX_SLEW * raw_ns + error_ns:
        return [
            f"the clock was slewed by {slewed_ns / raw_ns:+.2%} during the trial (a time server "
            "sets it): delays are wrong by as much"
        ]
    return []
