"""Checks of the certificate: the known devices and the trials for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from v6t.tools.accuracy.known_behaviour import Jitter, Known
from v6t.trials.trial import DelayRequest

Kind = Literal["loss", "duplicates", "reordering", "delay", "pace", "capacity"]

COUNTED_FPS = 100_000.0
"""Initial rate of the counting checks [frames per second]; halved while tester or device cannot follow."""
SLOWEST_FPS = 2_000.0
DELAYS_US = (10, 100, 1_000, 10_000)
RATES_FPS = (1_000.0, 10_000.0, 50_000.0)
PACE_TRIALS = 5
CAPACITY_FPS = 10_000.0


@dataclass(frozen=True)
class Check:
    """Known device and the measurement made with it.

    Attributes:
        name: identity in the journal.
        kind: of what is compared.
        words: what the device does.
        known: its behaviour.
        rate_fps: offered.
        frames: of a trial.
        trials: one after the other.
        delays: what is timed.
    """

    name: str
    kind: Kind
    words: str
    known: Known
    rate_fps: float
    frames: int
    trials: int = 1
    delays: DelayRequest | None = field(default=None)

    @property
    def duration_s(self) -> float:
        """Duration of a trial at the rate of the check."""
        return self.frames / self.rate_fps


def checks() -> list[Check]:
    """Return all checks, the short ones first."""
    return [*_delays(), *_paces(), *_counts(), *_capacities()]


def _delays() -> Iterator[Check]:
    every = DelayRequest(ipdv=True)
    for delay in DELAYS_US:
        words = f"{delay:,} us"
        known = Known(delay_us=delay, awake=True)
        yield Check(f"delay-{delay}", "delay", words, known, RATES_FPS[0], 3000, delays=every)
    jitters: tuple[tuple[Jitter, float, str], ...] = (
        ("uniform", 500, "0 to 500 us, even"),
        ("exponential", 100, "exponential, mean 100 us"),
        ("two-point", 500, "500 us for 1 in 10"),
    )
    for jitter, width, words in jitters:
        known = Known(delay_us=100, jitter=jitter, jitter_us=width, awake=True)
        yield Check(f"jitter-{jitter}", "delay", f"100 us + {words}", known, RATES_FPS[0], 3000,
                    delays=every)  # fmt: skip
    for rate in RATES_FPS:
        tags = DelayRequest(tags=500, first_tag_s=0.2)
        words = "none" if rate > RATES_FPS[0] else "100 us"
        known = Known(delay_us=0 if rate > RATES_FPS[0] else 100, awake=True)
        frames = int(rate * (3 if rate < RATES_FPS[-1] else 1))
        yield Check(f"tags-{rate:g}", "delay", words, known, rate, frames, delays=tags)
        if rate > RATES_FPS[0]:
            yield Check(f"every-{rate:g}", "delay", words, known, rate, frames,
                        delays=DelayRequest(ipdv=True))  # fmt: skip


def _paces() -> Iterator[Check]:
    for rate in RATES_FPS:
        yield Check(f"pace-{rate:g}", "pace", "at once", Known(timeless=True), rate, int(rate),
                    trials=PACE_TRIALS)  # fmt: skip


def _counts() -> Iterator[Check]:
    for every in (1_000, 10_000, 100_000, 1_000_000):
        known = Known(lose_every=every, timeless=True)
        frames = max(100_000, 2 * every)
        yield Check(f"loss-{every}", "loss", "", known, COUNTED_FPS, frames)
    for every in (1_000, 100_000):
        known = Known(duplicate_every=every, timeless=True)
        yield Check(f"duplicates-{every}", "duplicates", "", known, COUNTED_FPS, 200_000)
        known = Known(reorder_every=every, timeless=True)
        yield Check(f"reordering-{every}", "reordering", "", known, COUNTED_FPS, 200_000)


def _capacities() -> Iterator[Check]:
    for depth, buffer in ((64, 0), (512, 0), (1, 512)):
        known = Known(capacity_fps=CAPACITY_FPS, depth_frames=depth, buffer_frames=buffer,
                      timeless=True)  # fmt: skip
        yield Check(f"capacity-{depth}-{buffer}", "capacity", "", known, CAPACITY_FPS,
                    int(CAPACITY_FPS))  # fmt: skip
