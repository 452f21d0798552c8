"""What the known device does to frames: drop, duplicate, reorder, delay, or limit their rate.

Decisions depend only on the number of a frame and on its arrival time as recorded by the kernel. They are
therefore exact even if the impairing process is late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field
from v6t.base.strict_model import StrictModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

Jitter = Literal["none", "uniform", "exponential", "two-point"]


class Impairments(StrictModel):
    """Settings of the known device; the default forwards frames at once."""

    lose_every: int = Field(default=0, ge=0)
    """Drop every n-th frame; 0: drop none."""
    outage_from: int = Field(default=0, ge=0)
    """Number of the first frame dropped in an outage, from 1; 0: no outage."""
    outage_frames: int = Field(default=0, ge=0)
    """Consecutive frames dropped in the outage."""
    duplicate_every: int = Field(default=0, ge=0)
    """Duplicate every n-th frame; 0: duplicate none."""
    reorder_every: int = Field(default=0, ge=0)
    """Of every n frames, swap the middle one with its successor; 0: swap none."""
    delay_us: float = Field(default=0.0, ge=0)
    """Minimum delay [us]."""
    jitter: Jitter = "none"
    """Distribution of the additional delay; two-point delays one frame in ten."""
    jitter_us: float = Field(default=0.0, ge=0)
    """Maximum (uniform, two-point) or mean (exponential) of the additional delay [us]."""
    capacity_fps: float = Field(default=0.0, ge=0)
    """Rate of the token bucket [frames per second]; 0: unlimited."""
    depth_frames: int = Field(default=1, ge=1)
    """Depth of the token bucket: frames that may pass in one burst."""
    buffer_frames: int = Field(default=0, ge=0)
    """Frames that may wait for a token; 0: drop frames that find no token."""
    record_departures: bool = True
    """Record the time at which each frame leaves."""
    busy_poll: bool = False
    """Poll for frames without sleeping, because waking up takes tens of microseconds."""

    @property
    def delays_frames(self) -> bool:
        """Whether frames leave at scheduled times."""
        return bool(self.delay_us or self.jitter_us or self.buffer_frames)


class Impairer:
    """Decides what happens to each frame of a trial.

    Attributes:
        received: number of frames so far.
        lost, duplicated, reordered: frames impaired on purpose.
    """

    def __init__(self, impairments: Impairments, seed: int = 0) -> None:
        """Begin with the first frame.

        Args:
            impairments: settings of the device.
            seed: seed of the random delays.
        """
        self._impairments = impairments
        self._random = np.random.default_rng(seed)
        self._next_token_ns = 0.0
        self.received = self.lost = self.duplicated = self.reordered = 0

    def schedule(
        self, arrivals_ns: NDArray[np.int64]
    ) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.bool_]]:
        """Decide about the next frames, in order of arrival.

        Returns:
            Rows to send, duplicated ones twice; the departure time of each, on the same clock;
            whether each is to be sent after its successor.
        """
        given = self._impairments
        numbers = np.arange(self.received + 1, self.received + len(arrivals_ns) + 1)
        self.received += len(arrivals_ns)
        rows = np.arange(len(arrivals_ns))
        if given.lose_every:
            rows = rows[numbers % given.lose_every != 0]
        if given.outage_from:
            since = numbers[rows] - given.outage_from
            rows = rows[(since < 0) | (since >= given.outage_frames)]
        departures = arrivals_ns[rows]
        if given.capacity_fps:
            passed, departures = self._take_tokens(departures)
            rows = rows[passed]
        self.lost += len(arrivals_ns) - len(rows)
        if given.delay_us or given.jitter_us:
            departures = departures + round(given.delay_us * 1000) + self._draw_jitter_ns(len(rows))
        if given.duplicate_every:
            copies = 1 + (numbers[rows] % given.duplicate_every == 0)
            self.duplicated += int(copies.sum()) - len(rows)
            rows, departures = np.repeat(rows, copies), np.repeat(departures, copies)
        swapped = np.zeros(len(rows), dtype=bool)
        if given.reorder_every:
            swapped = numbers[rows] % given.reorder_every == given.reorder_every // 2
            self.reordered += int(np.count_nonzero(swapped))
        return rows, departures, swapped

    def _take_tokens(
        self, arrivals_ns: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Pass frames through the token bucket; return which pass, and when each has its token."""
        given = self._impairments
        token_ns = 1e9 / given.capacity_fps
        saved_ns = (given.depth_frames - 1) * token_ns
        longest_wait_ns = given.buffer_frames * token_ns
        next_token = self._next_token_ns
        passed: list[bool] = []
        departures: list[int] = []
        for arrival in arrivals_ns.tolist():
            ready = max(float(arrival), next_token - saved_ns)
            if ready - arrival > longest_wait_ns + 0.5:
                passed.append(False)
                continue
            next_token = max(next_token, float(arrival)) + token_ns
            passed.append(True)
            departures.append(round(ready))
        self._next_token_ns = next_token
        return np.array(passed, dtype=bool), np.array(departures, dtype=np.int64)

    def _draw_jitter_ns(self, count: int) -> NDArray[np.int64]:
        width = self._impairments.jitter_us * 1000
        jitter: NDArray[np.floating[Any]]
        if self._impairments.jitter == "uniform":
            jitter = self._random.uniform(0, width, count)
        elif self._impairments.jitter == "exponential":
            jitter = self._random.exponential(width, count)
        elif self._impairments.jitter == "two-point":
            jitter = width * (self._random.random(count) >= 0.9)
        else:
            jitter = np.zeros(count)
        return np.rint(jitter).astype(np.int64)
