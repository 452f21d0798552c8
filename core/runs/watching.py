"""The device's cores beside a trial: one cheap reading a second, kept with the trial's result."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import Any

from v6t.base.errors import V6tError
from v6t.drivers.device import DeviceSession
from v6t.drivers.duts.session.telemetry import TelemetryWatcher
from v6t.drivers.duts.shape import polls, shares_of
from v6t.trials.result import TrialResult
from v6t.trials.timeline import DeviceLoad
from v6t.trials.trial import Trial

SHORTEST_S = 3.0
"""A trial that is shorter sees too few readings to be worth one."""
READING = "cpu"
"""The one reading: others may stop a device's workers for a moment, or take a lock of theirs."""


class Watching:
    """Watches the driven devices while a trial runs; a device that cannot be watched is not."""

    def __init__(self, trial: Trial, session: DeviceSession | None) -> None:
        """Remember.

        Args:
            trial: about to run.
            session: with the device; None: nobody watches.
        """
        long_enough = trial.total_duration_s >= SHORTEST_S
        self._devices = session.devices() if session is not None and long_enough else ()
        self._watchers: dict[str, TelemetryWatcher] = {}
        self._seen: dict[str, Sequence[Any]] = {}

    def __enter__(self) -> Watching:
        for name, device in self._devices:
            with contextlib.suppress(V6tError, OSError):
                self._watchers[name] = device.watcher(READING)
        return self

    def __exit__(self, *_: object) -> None:
        for name, watcher in self._watchers.items():
            with contextlib.suppress(V6tError, OSError):
                self._seen[name] = watcher.stop()

    def added_to(self, result: TrialResult) -> TrialResult:
        """Return the trial's result with what was seen."""
        if not self._seen or not result.started:
            return result
        began_s = datetime.fromisoformat(result.started).timestamp()
        loads = {name: load_of(seen, began_s) for name, seen in self._seen.items()}
        return replace(result, device_loads={name: load for name, load in loads.items() if load})


def load_of(samples: Sequence[Any], began_s: float) -> DeviceLoad | None:
    """How busy the cores were between each two readings; None where they do not tell, or poll.

    Args:
        samples: in order.
        began_s: when the first frame was sent [s, wall clock]; readings before are left out.
    """
    if polls(samples):
        return None
    at, busiest, mean = [], [], []
    for before, after in pairwise(samples):
        idle = [share for shares in shares_of([before, after], "idle").values() for share in shares]
        busy = [100 - min(100.0, max(0.0, share)) for share in idle]
        if busy and after.seen_s > began_s:
            at.append(round(after.seen_s - began_s, 1))
            busiest.append(round(max(busy)))
            mean.append(round(sum(busy) / len(busy)))
    return DeviceLoad(tuple(at), tuple(busiest), tuple(mean)) if at else None
