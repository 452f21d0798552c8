"""The simulated device: its limits, faults, delays and connection table."""

from __future__ import annotations

import math
import random
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, field_validator
from v6t.base.strict_model import StrictModel

if TYPE_CHECKING:
    from v6t.packets.arrays import I64
    from v6t.packets.walker import FrameLayout
    from v6t.profiles.streams import StreamSet

Hashed = Literal["ports", "addresses", "both", "none"]
"""Fields that the hash of a device with several cores covers; ``both``: some bits of either."""

MAX_AMOUNT = 10**15  # Upper bound of rates, counts and times
_Amount = Annotated[float, Field(ge=0, le=MAX_AMOUNT)]
_Count = Annotated[int, Field(ge=0, le=MAX_AMOUNT)]
_Share = Annotated[float, Field(ge=0, le=1)]

BLOCK_FRAMES = 5000
"""Delays drawn for a stream whose every frame is timed; the rest of the stream repeats them."""


class SimOptions(StrictModel):
    """Options of the simulated device and tester and of their faults."""

    capacity_fps: _Amount = 1_000_000.0  #: Frames per second that a core of the device forwards.
    total_capacity_fps: _Amount = Field(0.0, description="Limit of both directions; 0: none")
    cores: _Count = Field(1, description="Cores of the device; the hash of a frame chooses one")
    hashes: Hashed = Field("ports", description="Header fields of that hash")
    buffer_frames: _Count = Field(0, description="Frames per direction that the device can queue")
    loss_curve: tuple[tuple[_Amount, _Amount], ...] = ()
    """Pairs (share of capacity, lost share), ascending, interpolated; replaces the plain limit.
    ``[[0.9, 0.0], [1.0, 0.001], [1.2, 0.2]]`` starts to lose early."""
    random_loss: bool = False  #: Draw the loss of a trial with ``loss_curve`` as mean (Poisson).
    capacity_noise: _Amount = Field(0.0, description="Relative standard deviation of the capacity")
    loss_probability: _Share = Field(0.0, description="Chance of one lost frame in a trial")
    burst_probability: _Share = 0.0  #: Chance of a burst of lost frames in a trial.
    burst_frames: _Count = Field(100, description="Frames of such a burst")
    bursts_per_s: _Amount = 0.0  #: Mean number of such bursts per second of traffic.
    dead_zones: tuple[tuple[_Amount, _Amount], ...] = ()
    """Pairs of rates between which 1 % of the frames are lost."""
    slow_probability: _Share = Field(0.0, description="Share of trials with a lower capacity")
    slow_share: _Share = Field(0.5, description="Share of the capacity in these trials")
    slow_repetitions: bool = False  #: Lower the capacity for whole repetitions instead.
    delay_us: _Amount = Field(20.0, description="Smallest one-way delay")
    jitter_us: _Amount = Field(10.0, description="Range of the delay above that")
    tail_share: _Share = Field(0.0, description="Share of frames that take ``tail_us`` longer")
    tail_us: _Amount = Field(500.0, description="Additional delay of these frames")
    recovery_s: _Amount = Field(0.0, description="Time of total loss after an overload")
    reset_s: _Amount = 0.0  #: Time without forwarding if the device is reset during a trial.
    reset_keeps: bool = False  #: Keep the table of connections when the device is reset.
    reconfigure_s: _Amount = 0.0  #: Time without forwarding if the configuration is changed.
    surplus: _Count = Field(0, description="Frames that the device duplicates in each trial")
    late: _Count = Field(0, description="Frames that return too late in each trial")
    mismatch: _Count = Field(0, description="Frames that the device translates incorrectly")
    forwards_negative: bool = Field(False, description="Forward frames that must be dropped")
    tester_fps: Annotated[float, Field(ge=1, le=MAX_AMOUNT)] = 5_000_000.0
    """The tester's own capacity per direction; above, sending takes longer."""
    tester_delay_us: _Amount = Field(2.0, description="Delay in loopback")
    control: _Count = Field(0, description="ARP and ND frames in each trial")
    table_entries: _Count = Field(0, description="Connections that the device holds; 0: unlimited")
    table_replaces: bool = False  #: Replace old connections when the table is full.
    table_stores: bool = True  #: Store connections; false: the device is stateless.
    table_timeout_s: _Amount = 0.0  #: Lifetime of idle connections [s]; 0: unlimited.
    table_hides_timeout: bool = Field(False, description="Hide this lifetime from v6t")
    table_tells: bool = Field(True, description="Report the number of connections")
    table_off_by: _Count = Field(0, description="Error of the reported number")
    table_stuck: _Count = Field(0, description="Connections that remain after a flush")
    table_reuses: _Count = 0  #: Connections with the outside four-tuple of another one.
    insertion_cps: _Amount = Field(0.0, description="New connections per second; 0: unlimited")
    slow_from: _Count = Field(0, description="Connections above which that rate falls; 0: never")
    slow_insertion_share: _Share = Field(0.1, description="Share of that rate then")
    tcp_refuses: Literal["silently", "rst", "icmp"] = "silently"
    """Treatment of a SYN that exceeds the table or the rate."""
    tcp_aging_s: _Amount = Field(0.0, description="Time until closed TCP connections are deleted")
    teardown_cps: _Amount = Field(0.0, description="Connections per second of a flush; 0: at once")
    teardown_s: _Amount = Field(0.0, description="Constant part of a flush [s]")
    phase_one_loss: _Count = Field(0, description="Frames lost in the first phases 1")
    phase_one_loss_trials: _Count = Field(1, description="Number of these phases")
    crash_at: _Count = Field(0, description="Trial, from 1, in which the tester fails; 0: never")
    noisy_at: _Count = Field(0, description="First self-test trial with a slow tester; 0: never")
    noisy_trials: _Count = Field(6, description="Trials with 1 % of ``tester_fps``")
    trial_delay_s: float = Field(0.0, ge=0, le=3600, description="Real time of a trial [s]")

    @field_validator("loss_curve")
    @classmethod
    def _check_order(cls, curve: tuple[tuple[float, float], ...]) -> Any:
        if list(curve) != sorted(curve) or any(share > 1 for _, share in curve):
            raise ValueError("the loads must ascend, and no share may exceed 1")
        return curve


class Device:
    """Model of the device during one trial in one direction.

    Args:
        directions: number of directions under load.
        chance: source of random numbers.
        slow: whether the whole repetition is slow.
        spread: number of the device's cores that the traffic uses.
    """

    def __init__(
        self,
        options: SimOptions,
        directions: int,
        chance: random.Random,
        slow: bool,
        spread: float = 1.0,
    ) -> None:
        self._options = o = options
        self._chance = chance
        capacity = o.capacity_fps * spread
        if directions > 1 and o.total_capacity_fps:
            capacity = min(capacity, o.total_capacity_fps / directions)
        if o.capacity_noise:
            capacity *= max(0.0, chance.gauss(1.0, o.capacity_noise))
        if slow if o.slow_repetitions else chance.random() < o.slow_probability:
            capacity *= o.slow_share
        self.capacity_fps = capacity

    def count_lost(self, frames: int, rate_fps: float) -> int:
        """Return the number of lost frames of a stream at a constant rate."""
        o, chance = self._options, self._chance
        load = rate_fps / self.capacity_fps if self.capacity_fps else math.inf
        share = self._compute_loss_share(load)
        lost = math.ceil(frames * share - 1e-9)
        if o.random_loss:
            import numpy as np

            lost = int(np.random.default_rng(chance.getrandbits(64)).poisson(frames * share))
        if not o.loss_curve:
            lost = max(0, lost - o.buffer_frames)
        if any(low <= rate_fps <= high for low, high in o.dead_zones):
            lost = max(lost, math.ceil(frames * 0.01))
        if chance.random() < o.loss_probability:
            lost += 1
        if chance.random() < o.burst_probability:
            lost += o.burst_frames
        if o.bursts_per_s:
            lost += o.burst_frames * self._draw_arrivals(o.bursts_per_s * frames / rate_fps)
        return min(frames, lost)

    def draw_delays_ns(self, count: int) -> I64:
        """Draw one-way delays of frames in sending order."""
        import numpy as np

        o, chance = self._options, self._chance
        low, width = o.delay_us * 1000, o.jitter_us * 1000
        drawn = np.array([chance.random() for _ in range(count)])
        delays: I64 = np.rint(low + width * drawn).astype(np.int64)
        slow = chance.sample(range(count), min(count, round(o.tail_share * count)))
        delays[slow] += round(o.tail_us * 1000)
        return delays

    def _draw_arrivals(self, mean: float) -> int:
        """Draw a number of events by their mean (Poisson)."""
        events, left = 0, mean
        while (left := left - self._chance.expovariate(1.0)) > 0:
            events += 1
        return events

    def _compute_loss_share(self, load: float) -> float:
        """Return the share of lost frames at a load, a multiple of the capacity."""
        if not (curve := self._options.loss_curve):
            return max(0.0, 1.0 - 1.0 / load) if load > 0 else 0.0
        if load > curve[-1][0]:
            return max(curve[-1][1], 1.0 - 1.0 / load)
        import numpy as np

        loads, shares = zip((0.0, 0.0), *curve, strict=True)
        return float(np.interp(load, loads, shares))


HASHED_FRAMES = 2048  # Frames of each stream that are hashed to cores


def compute_spread(streams: StreamSet, cores: int, fields: Hashed) -> float:
    """Return the capacity of a device with several cores in multiples of one core's.

    A frame's core is a hash of the outer header's fields; the device loses frames as soon as its
    busiest core does.
    """
    from v6t.profiles.expand import Expander

    load: Counter[int] = Counter()
    for stream in streams.streams:
        expander = Expander(stream)
        for frame in expander.compute_frames(0, HASHED_FRAMES):
            load[_find_core(frame.tobytes(), expander.layout, cores, fields)] += stream.weight
    return sum(load.values()) / max(load.values())


def _find_core(frame: bytes, layout: FrameLayout, cores: int, fields: Hashed) -> int:
    """Find the core of a frame by a hash."""
    addresses = frame[layout.networks[0].addresses]
    # the hash does not include ports of encapsulated packets, which are behind the inner header
    has_ports = layout.transport in ("TCP", "UDP") and len(layout.networks) == 1
    ports = frame[layout.start : layout.start + 4] if has_ports else b""
    if fields == "none":
        return 0
    if fields == "both":
        half = 1 << cores.bit_length() // 2
        return (zlib.crc32(ports) % half * half + zlib.crc32(addresses) % half) % cores
    return zlib.crc32(ports if fields == "ports" else addresses) % cores


class SimTable:
    """Connection table of a simulated device, in closed form.

    Connections are numbered in the order of phase 1 and established at a constant rate, so what is left
    of them at any time is a stretch of numbers: nothing is simulated one by one.
    """

    counts_endpoints = False

    def __init__(self, options: SimOptions) -> None:
        self._options = options
        self.clock_s = 0.0  # Virtual time, moved on by the tester and by emptying
        self._first = self._stored = 0
        """Connections ``first .. first + stored - 1`` are in the table unless they expired."""
        self._used_s = 0.0
        self._rate_cps = math.inf
        self._fillings = 0
        self._ending_s = math.inf

    @property
    def timeout_s(self) -> float | None:
        o = self._options
        return None if o.table_hides_timeout or not o.table_timeout_s else o.table_timeout_s

    def flush(self) -> None:
        """Empty the table while virtual time passes."""
        o = self._options
        if o.teardown_cps:
            self.clock_s += self._stored / o.teardown_cps
        self.clock_s += o.teardown_s
        self._first, self._stored = 0, o.table_stuck

    def count_sessions(self) -> int | None:
        o = self._options
        if not o.table_tells:
            return None
        return self.count_alive() + (o.table_off_by if self._fillings else 0)

    def read_limits(self) -> dict[str, float]:
        return {}

    def fill(self, count: int, rate_cps: float) -> int:
        """Simulate phase 1; return the number of frames that the device forwards."""
        o = self._options
        self._fillings += 1
        if (limit := o.insertion_cps) and o.slow_from and count > o.slow_from:
            limit *= o.slow_insertion_share
        lost = math.ceil(count * (1 - limit / rate_cps)) if limit and rate_cps > limit else 0
        if self._fillings <= o.phase_one_loss_trials:
            lost += o.phase_one_loss
        arrived = max(0, count - lost)
        fitting = min(arrived, o.table_entries or arrived)
        self._stored = fitting if o.table_stores else 0
        self._first = arrived - self._stored if o.table_replaces else 0
        self._ending_s = math.inf
        self._used_s = self.clock_s
        self._rate_cps = rate_cps
        return arrived if o.table_replaces or not o.table_stores else fitting

    def close_connections(self) -> None:
        """Close all connections, which the device deletes after the aging time."""
        self._ending_s = self.clock_s + self._options.tcp_aging_s

    def refresh(self) -> None:
        """Refresh all connections that have not expired."""
        expired = self._stored - self.count_alive()
        self._first, self._stored = self._first + expired, self._stored - expired
        self._used_s = self.clock_s
        self._rate_cps = math.inf

    def count_alive(self) -> int:
        """Count connections that have not expired; the oldest expire first."""
        limit = self._options.table_timeout_s
        if self.clock_s >= self._ending_s:
            return 0
        # connection k of phase 1 was used at k / rate after its begin
        late_s = self.clock_s - self._used_s - limit
        if not limit or not self._stored or late_s < 0:
            return self._stored
        if math.isinf(self._rate_cps):
            return 0
        expired = math.floor(late_s * self._rate_cps) + 1 - self._first
        return self._stored - min(self._stored, max(0, expired))
