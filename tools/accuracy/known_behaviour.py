"""Behaviour of the known device: which frames it drops, duplicates, reorders or delays.

Each decision depends only on a frame's number and on its arrival time as recorded by the kernel.
It is therefore exact even if this process carries it out late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field
from v6t.base.strict_model import StrictModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

Jitter = Literal["none", "uniform", "exponential", "two-point"]


class Known(StrictModel):
    """Settings of the known device."""

    lose_every: int = Field(default=0, ge=0)
    """Drop every n-th frame; 0: drop none."""
    hiccup_from: int = Field(default=0, ge=0)
    """Number of the first frame dropped in a hiccup, from 1; 0: no hiccup."""
    hiccup_frames: int = Field(default=0, ge=0)
    """Consecutive frames dropped in the hiccup."""
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
    timeless: bool = False
    """Do not record departure times."""

    awake: bool = False
    """Poll for frames without sleeping, because waking up takes tens of microseconds."""

    @property
    def waits(self) -> bool:
        """Whether frames leave at scheduled times."""
        return bool(self.delay_us or self.jitter_us or self.buffer_frames)


class Behaviour:
    """Decides what happens to each frame of one trial.

    Attributes:
        taken: frames received.
        lost, doubled, reordered: frames dropped, duplicated and reordered on purpose.
    """

    def __init__(self, known: Known, seed: int = 0) -> None:
        """Begin with the first frame.

        Args:
            known: settings of the device.
            seed: seed of the random delays.
        """
        self._known = known
        self._chance = np.random.default_rng(seed)
        self._free_ns = 0.0
        self.taken = self.lost = self.doubled = self.reordered = 0

    def leaving(
        self, arrived_ns: NDArray[np.int64]
    ) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.bool_]]:
        """Decide about the next frames, in order of arrival.

        Returns:
            Rows to send, duplicated ones twice; the departure time of each, on the same clock;
            whether each is to be sent after its successor.
        """
        known = self._known
        numbers = np.arange(self.taken + 1, self.taken + len(arrived_ns) + 1)
        self.taken += len(arrived_ns)
        rows = np.arange(len(arrived_ns))
        if known.lose_every:
            rows = rows[numbers % known.lose_every != 0]
        if known.hiccup_from:
            since = numbers[rows] - known.hiccup_from
            rows = rows[(since < 0) | (since >= known.hiccup_frames)]
        leave = arrived_ns[rows]
        if known.capacity_fps:
            passed, leave = self._shaped(leave)
            rows = rows[passed]
        self.lost += len(arrived_ns) - len(rows)
        if known.delay_us or known.jitter_us:
            leave = leave + round(known.delay_us * 1000) + self._more_ns(len(rows))
        if known.duplicate_every:
            times = 1 + (numbers[rows] % known.duplicate_every == 0)
            self.doubled += int(times.sum()) - len(rows)
            rows, leave = np.repeat(rows, times), np.repeat(leave, times)
        behind = np.zeros(len(rows), dtype=bool)
        if known.reorder_every:
            behind = numbers[rows] % known.reorder_every == known.reorder_every // 2
            self.reordered += int(np.count_nonzero(behind))
        return rows, leave, behind

    def _shaped(self, arrived_ns: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Pass frames through a token bucket; return which pass, and when each has its token."""
        known = self._known
        token = 1e9 / known.capacity_fps
        credit, room = (known.depth_frames - 1) * token, known.buffer_frames * token
        free = self._free_ns
        passed: list[bool] = []
        leave: list[int] = []
        for at in arrived_ns.tolist():
            # the token of this frame arrives at `free`; saved tokens (`credit`) advance that time
            ready = max(float(at), free - credit)
            if ready - at > room + 0.5:
                passed.append(False)
                continue
            free = max(free, float(at)) + token
            passed.append(True)
            leave.append(round(ready))
        self._free_ns = free
        return np.array(passed, dtype=bool), np.array(leave, dtype=np.int64)

    def _more_ns(self, count: int) -> NDArray[np.int64]:
        known = self._known
        width = known.jitter_us * 1000
        more: NDArray[np.floating[Any]]
        if known.jitter == "uniform":
            more = self._chance.uniform(0, width, count)
        elif known.jitter == "exponential":
            more = self._chance.exponential(width, count)
        elif known.jitter == "two-point":
            more = width * (self._chance.random(count) >= 0.9)
        else:
            more = np.zeros(count)
        return np.rint(more).astype(np.int64)
