"""Checks of an accuracy study: how the known device behaves, and the trials made with it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from v6t.tools.accuracy.impairments import Impairments, Jitter
from v6t.trials.trial import DelayRequest

Kind = Literal["loss", "duplicates", "reordering", "delay", "pace", "capacity"]

COUNT_FPS = 100_000.0
"""Initial rate of the counting checks [frames per second]; halved while tester or device cannot follow."""
MINIMUM_COUNT_FPS = 2_000.0
DELAYS_US = (10, 100, 1_000, 10_000)
RATES_FPS = (1_000.0, 10_000.0, 50_000.0)
PACE_TRIALS = 5
CAPACITY_FPS = 10_000.0


@dataclass(frozen=True)
class Check:
    """Behaviour of the known device and the measurement made with it."""

    name: str  # unique name
    kind: Kind  # what is compared
    description: str  # of the behaviour, for tables of delays
    impairments: Impairments  # what the device does
    rate_fps: float  # offered rate
    frames: int  # number of frames of a trial
    trials: int = 1  # number of trials
    delays: DelayRequest | None = None  # which frames are timed

    @property
    def duration_s(self) -> float:
        """Duration of a trial at the offered rate."""
        return self.frames / self.rate_fps


def list_checks() -> list[Check]:
    """Return all checks, the short ones first."""
    return [*_list_delays(), *_list_paces(), *_list_counts(), *_list_capacities()]


def _list_delays() -> Iterator[Check]:
    slowest, *faster = RATES_FPS
    all_frames, tags = DelayRequest(ipdv=True), DelayRequest(tags=500, first_tag_s=0.2)
    for delay in DELAYS_US:
        constant = Impairments(delay_us=delay, busy_poll=True)
        yield Check(
            f"delay-{delay}", "delay", f"{delay:,} us", constant, slowest, 3000, delays=all_frames
        )
    jitters: tuple[tuple[Jitter, float, str], ...] = (
        ("uniform", 500, "0 to 500 us, even"),
        ("exponential", 100, "exponential, mean 100 us"),
        ("two-point", 500, "500 us for 1 in 10"),
    )
    for jitter, width, text in jitters:
        varying = Impairments(delay_us=100, jitter=jitter, jitter_us=width, busy_poll=True)
        yield Check(f"jitter-{jitter}", "delay", f"100 us + {text}", varying, slowest, 3000,
                    delays=all_frames)  # fmt: skip
    constant = Impairments(delay_us=100, busy_poll=True)
    yield Check(f"tags-{slowest:g}", "delay", "100 us", constant, slowest, 3000, delays=tags)
    none = Impairments(busy_poll=True)
    for rate, frames in zip(faster, (30_000, 50_000), strict=True):
        for name, request in (("tags", tags), ("every", all_frames)):
            yield Check(f"{name}-{rate:g}", "delay", "none", none, rate, frames, delays=request)


def _list_paces() -> Iterator[Check]:
    none = Impairments(record_departures=False)
    for rate in RATES_FPS:
        yield Check(f"pace-{rate:g}", "pace", "", none, rate, int(rate), trials=PACE_TRIALS)


def _list_counts() -> Iterator[Check]:
    for every in (1_000, 10_000, 100_000, 1_000_000):
        impairments = Impairments(lose_every=every, record_departures=False)
        frames = max(100_000, 2 * every)
        yield Check(f"loss-{every}", "loss", "", impairments, COUNT_FPS, frames)
    for every in (1_000, 100_000):
        impairments = Impairments(duplicate_every=every, record_departures=False)
        yield Check(f"duplicates-{every}", "duplicates", "", impairments, COUNT_FPS, 200_000)
        impairments = Impairments(reorder_every=every, record_departures=False)
        yield Check(f"reordering-{every}", "reordering", "", impairments, COUNT_FPS, 200_000)


def _list_capacities() -> Iterator[Check]:
    for depth, buffer in ((64, 0), (512, 0), (1, 512)):
        bucket = Impairments(capacity_fps=CAPACITY_FPS, depth_frames=depth, buffer_frames=buffer,
                             record_departures=False)  # fmt: skip
        yield Check(f"capacity-{depth}-{buffer}", "capacity", "", bucket, CAPACITY_FPS,
                    int(CAPACITY_FPS))  # fmt: skip
