"""What a known device does to the frames it is given: which are lost, doubled, delayed, and until when.

Everything is decided by the number of a frame and by the kernel's time of its arrival, never by
when this process came to look: a decision is exact however late it is carried out.
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
    """A device whose behaviour is known."""

    lose_every: int = Field(default=0, ge=0)
    """The last of so many frames is lost; 0: none."""
    hiccup_from: int = Field(default=0, ge=0)
    """Number of the first frame that is lost in a hiccup, from 1; 0: there is none."""
    hiccup_frames: int = Field(default=0, ge=0)
    """Frames lost one after the other in it."""
    duplicate_every: int = Field(default=0, ge=0)
    """The last of so many frames leaves twice; 0: none."""
    reorder_every: int = Field(default=0, ge=0)
    """The one in the middle of so many frames leaves behind the one after it; 0: none."""
    delay_us: float = Field(default=0.0, ge=0)
    """Frames stay at least so long [us]."""
    jitter: Jitter = "none"
    """How what a frame stays longer is distributed: evenly, exponentially, or 0 for nine frames in ten."""
    jitter_us: float = Field(default=0.0, ge=0)
    """Greatest value (uniform, two-point) or mean (exponential) of it [us]."""
    capacity_fps: float = Field(default=0.0, ge=0)
    """Frames per second it forwards; 0: as many as come."""
    depth_frames: int = Field(default=1, ge=1)
    """Frames that may pass at once at that capacity: the depth of its token bucket."""
    buffer_frames: int = Field(default=0, ge=0)
    """Frames that may wait for a token; 0: whatever finds none is lost."""
    timeless: bool = False
    """Nobody asks when frames left: it keeps no record of that."""

    awake: bool = False
    """It looks for frames all the time instead of being woken, which takes tens of us."""

    @property
    def waits(self) -> bool:
        """Whether frames leave at scheduled times."""
        return bool(self.delay_us or self.jitter_us or self.buffer_frames)


class Behaviour:
    """Decides for the frames of one trial.

    Attributes:
        taken: frames that came.
        lost, doubled, reordered: of them.
    """

    def __init__(self, known: Known, seed: int = 0) -> None:
        """Begin with the first frame.

        Args:
            known: what to do.
            seed: of the delays.
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
            Rows that leave, a doubled one twice; when each may leave, same clock; which of them
            leave behind the one after it.
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
            # the token of this frame comes at `free`; credit lets it be used so much earlier
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
