"""The simulated tester: virtual time, a device with programmable limits and faults.

For rehearsing campaigns (``--tester sim``), for testing procedures, for estimating time. Chance
is drawn from the seed and the trial's key, so a resumed run meets the same device.
"""

from __future__ import annotations

import difflib
import math
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta, timezone
from typing import Any

from v6t.drivers.tester import Judge
from v6t.procedures.trial import ClassCount, DirectionResult, Trial, TrialResult, directions_of
from v6t.profiles.errors import TesterError, UsageError
from v6t.profiles.mixing import counts
from v6t.profiles.model import Direction
from v6t.profiles.streams import StreamSet

EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)
"""Where virtual time starts: no simulated result can be mistaken for a real one by its date."""


@dataclass(frozen=True)
class SimOptions:
    """The simulated device and the faults of device and tester.

    Attributes:
        capacity_fps: frames per second the device forwards in one direction.
        total_capacity_fps: over both directions; 0: twice ``capacity_fps``.
        loss_curve: pairs (share of capacity, lost share), ascending, interpolated; replaces the
            plain limit. ``[[0.9, 0.0], [1.0, 0.001], [1.2, 0.2]]`` starts to lose early.
        capacity_noise: capacity varies by this share from trial to trial (standard deviation).
        loss_probability: chance of one lost frame in a trial below capacity.
        burst_probability, burst_frames: chance and size of a burst of lost frames.
        dead_zones: pairs of rates between which the device loses although it should not.
        slow_share, slow_probability: in this share of trials capacity falls to ``slow_share``.
        surplus: frames the device sends twice in every trial.
        late: frames that come back too late in every trial.
        mismatch: frames the device translates wrongly.
        forwards_negative: the device forwards what it must drop.
        tester_fps: the tester's own ceiling per direction; above, sending takes longer.
        control: ARP, ND and the like seen per trial.
        crash_at: number of the trial (from 1) at which the tester fails; 0: never.
        trial_delay_s: real seconds each trial takes, to watch or to interrupt a rehearsal.
    """

    capacity_fps: float = 1_000_000.0
    total_capacity_fps: float = 0.0
    loss_curve: tuple[tuple[float, float], ...] = ()
    capacity_noise: float = 0.0
    loss_probability: float = 0.0
    burst_probability: float = 0.0
    burst_frames: int = 100
    dead_zones: tuple[tuple[float, float], ...] = ()
    slow_probability: float = 0.0
    slow_share: float = 0.5
    surplus: int = 0
    late: int = 0
    mismatch: int = 0
    forwards_negative: bool = False
    tester_fps: float = 5_000_000.0
    control: int = 0
    crash_at: int = 0
    trial_delay_s: float = 0.0

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> SimOptions:
        """Options from a testbed file or flags.

        Raises:
            UsageError: an unknown name, or a value of the wrong kind or sign.
        """
        known = {f.name: f for f in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                raise UsageError(
                    f"the simulated tester has no option '{name}'",
                    f"did you mean '{near[0]}'?" if near else "known: " + ", ".join(known),
                )
            values[name] = _coerce(name, value, known[name].default)
        return cls(**values)


def _coerce(name: str, value: Any, default: Any) -> Any:
    """A value of the same kind as the option's default."""
    try:
        if isinstance(default, bool):
            if value not in (True, False, "true", "false"):
                raise ValueError
            return value in (True, "true")
        if isinstance(default, tuple):
            return tuple((float(low), float(high)) for low, high in value)
        if isinstance(value, bool):
            raise ValueError
        number = type(default)(value)
        if not math.isfinite(number) or number < 0:
            raise ValueError
    except (TypeError, ValueError, OverflowError) as exc:
        raise UsageError(f"the simulated tester's {name} cannot be {value!r}") from exc
    return number


class SimTester:
    """Tester protocol without wires; see :mod:`v6t.drivers.tester`."""

    name = "sim"

    def __init__(
        self, options: SimOptions | None = None, seed: int = 1, *, loopback: bool = False
    ) -> None:
        """Remember the device.

        Args:
            options: limits and faults.
            seed: of all chance.
            loopback: no device, only the tester's own ceiling.
        """
        self.options = options or SimOptions()
        self.clock_s = 0.0
        self._seed = seed
        self._loopback = loopback
        self._streams: Mapping[Direction, StreamSet] = {}
        self._trials = 0

    def open(self) -> None:
        """Nothing to take."""

    def load(self, streams: Mapping[Direction, StreamSet], judge: Judge) -> None:
        """Remember the classes and their shares; frames are never built."""
        del judge
        self._streams = dict(streams)

    def measure(self, trial: Trial) -> TrialResult:
        """What the device would have done; virtual time moves on by the trial's length.

        Raises:
            TesterError: this is the trial at which the tester fails.
        """
        self._trials += 1
        if self._trials == self.options.crash_at:
            raise TesterError(f"simulated failure of the tester in trial {self._trials}")
        if self.options.trial_delay_s:
            time.sleep(self.options.trial_delay_s)
        chance = random.Random(f"{self._seed}/{trial.key}")  # noqa: S311  (not for secrets)
        self.clock_s += trial.pause_s
        started = (EPOCH + timedelta(seconds=self.clock_s)).isoformat(timespec="milliseconds")
        ways = directions_of(trial.mode)
        directions = {way: self._direction(way, trial, len(ways), chance) for way in ways}
        self.clock_s += max(d.sending_time_s for d in directions.values()) + trial.residual_wait_s
        return TrialResult(directions, started=started, tester={"virtual_time_s": self.clock_s})

    def describe(self) -> dict[str, Any]:
        """Facts for the manifest."""
        from dataclasses import asdict

        return {"kind": self.name, "simulated": True, "options": asdict(self.options)}

    def close(self) -> None:
        """Nothing to give back."""

    def _direction(
        self, way: str, trial: Trial, ways: int, chance: random.Random
    ) -> DirectionResult:
        o = self.options
        frames = trial.frames
        sending = trial.duration_s * max(1.0, trial.rate_fps / o.tester_fps)
        lost = 0 if self._loopback else self._lost(frames, trial.rate_fps, ways, chance)
        streams = self._streams[way].streams  # type: ignore[index]
        required = counts([s.weight for s in streams], frames)
        classes: dict[str, ClassCount] = {}
        quiet = self._loopback or trial.benchmark == "preflight"
        returning = sum(
            n for s, n in zip(streams, required, strict=True) if s.role.value != "negative"
        )
        before = 0
        for stream, share in zip(streams, required, strict=True):
            negative = stream.role.value == "negative"
            if negative:
                back = share if o.forwards_negative or self._loopback else 0
            else:
                # losses fall on the classes by their shares, to the frame
                after = before + share
                mine = lost * after // returning - lost * before // returning
                back, before = share - min(share, mine), after
            late = 0 if quiet or negative else min(o.late, back)
            classes[stream.name] = ClassCount(
                role=stream.role.value,
                required=share,
                sent=share,
                received=back - late,
                surplus=0 if self._loopback or negative else o.surplus,
                late=late,
            )
        back = sum(c.received for c in classes.values() if c.role != "negative")
        checked = min(1000, back)
        wrong = 0 if self._loopback else min(o.mismatch, checked)
        return DirectionResult(
            classes=classes,
            sending_time_s=sending,
            control=o.control,
            checked=checked,
            matched=checked - wrong,
            mismatch=_simulated_mismatch(streams[0].name) if wrong else None,
        )

    def _lost(self, frames: int, rate_fps: float, ways: int, chance: random.Random) -> int:
        """Frames the device loses in one direction."""
        o = self.options
        capacity = o.capacity_fps
        if ways > 1 and o.total_capacity_fps:
            capacity = min(capacity, o.total_capacity_fps / ways)
        if o.capacity_noise:
            capacity *= max(0.0, chance.gauss(1.0, o.capacity_noise))
        if chance.random() < o.slow_probability:
            capacity *= o.slow_share
        share = self._loss_share(rate_fps / capacity if capacity else math.inf)
        if any(low <= rate_fps <= high for low, high in o.dead_zones):
            share = max(share, 0.01)
        lost = math.ceil(frames * share - 1e-9)
        if chance.random() < o.loss_probability:
            lost += 1
        if chance.random() < o.burst_probability:
            lost += o.burst_frames
        return min(frames, lost)

    def _loss_share(self, load: float) -> float:
        """Lost share at an offered load, in units of capacity."""
        curve = self.options.loss_curve
        if not curve:
            return max(0.0, 1.0 - 1.0 / load) if load > 0 else 0.0
        before = (0.0, 0.0)
        for point in curve:
            if load <= point[0]:
                span = point[0] - before[0]
                part = (load - before[0]) / span if span else 1.0
                return before[1] + part * (point[1] - before[1])
            before = point
        return max(before[1], 1.0 - 1.0 / load)


def _simulated_mismatch(name: str) -> dict[str, str]:
    return {
        "class": name,
        "sent": "",
        "expected": "00",
        "received": "01",
        "why": "simulated: octet 0 differs",
    }
