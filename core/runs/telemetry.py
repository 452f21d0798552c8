"""What a driven device shows during a run: its cores during long trials, its counters for each benchmark."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import Any

from v6t.base.errors import V6tError
from v6t.drivers.device import DeviceSession
from v6t.drivers.duts.session.telemetry import TelemetryWatcher
from v6t.drivers.duts.telemetry_summary import compute_core_shares, is_polling, summarize_samples
from v6t.trials.result import Measure, TrialResult
from v6t.trials.timeline import DeviceLoad
from v6t.trials.trial import Trial

SHORTEST_S = 3.0
"""Shorter trials see too few samples."""
READING = "cpu"
"""The only one during trials: others may stop a device's workers for a moment, or take a lock."""
KEY = "device"
"""Of the counters in ``results.json``."""


def add_device_load(measure: Measure, session: Callable[[], DeviceSession | None]) -> Measure:
    """Sample the cores of the driven devices once a second during long trials."""

    def measure_watched(trial: Trial) -> TrialResult:
        driven = session() if trial.total_duration_s >= SHORTEST_S else None
        watchers: dict[str, TelemetryWatcher] = {}
        samples: dict[str, Sequence[Any]] = {}
        try:
            for name, device in driven.devices() if driven is not None else ():
                with contextlib.suppress(V6tError, OSError):
                    watchers[name] = device.watcher(READING)
            result = measure(trial)
        finally:
            for name, watcher in watchers.items():
                with contextlib.suppress(V6tError, OSError):
                    samples[name] = watcher.stop()
        if not samples or not result.started:
            return result
        began_s = datetime.fromisoformat(result.started).timestamp()
        loads = {name: compute_load(seen, began_s) for name, seen in samples.items()}
        return replace(result, device_loads={name: load for name, load in loads.items() if load})

    return measure_watched


def compute_load(samples: Sequence[Any], began_s: float) -> DeviceLoad | None:
    """Compute how busy the cores were between samples.

    Args:
        samples: in order.
        began_s: when the first frame was sent [s, wall clock]; earlier samples are left out.

    Returns:
        None if the samples have no load, or the cores poll.
    """
    if is_polling(samples):
        return None
    times_s, busiest, mean = [], [], []
    for before, after in pairwise(samples):
        idle = [
            share
            for shares in compute_core_shares([before, after], "idle").values()
            for share in shares
        ]
        busy = [100 - min(100.0, max(0.0, share)) for share in idle]
        if busy and after.seen_s > began_s:
            times_s.append(round(after.seen_s - began_s, 1))
            busiest.append(round(max(busy)))
            mean.append(round(sum(busy) / len(busy)))
    return DeviceLoad(tuple(times_s), tuple(busiest), tuple(mean)) if times_s else None


class DeviceCounts:
    """Counters of the driven devices over each benchmark, read before its first trial and after its last.

    One reading ends a benchmark and begins the next, unless the device gets other frames in between.
    A device that cannot be read has no entry.
    """

    def __init__(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Begin with the entries of the run so far; a benchmark that is measured again replaces its own."""
        self._entries = {_identify(entry): dict(entry) for entry in entries}
        self._before: Mapping[str, Any] | None = None
        self._begun = False

    @property
    def entries(self) -> list[dict[str, Any]]:
        """One for each device and benchmark at a point."""
        return list(self._entries.values())

    def begin(self, session: DeviceSession | None) -> None:
        """Read the devices, unless the benchmark before was the last to use them."""
        self._begun = True
        if self._before is None:
            self._before = _read(session)

    def other_frames(self) -> None:
        """Discard the last reading: the devices get frames of no benchmark."""
        if not self._begun:
            self._before = None

    def end(self, session: DeviceSession | None, point: Mapping[str, Any]) -> None:
        """Read the devices again, if there was a trial."""
        if not self._begun or self._before is None:
            return
        after = _read(session)
        for name in self._before.keys() & after.keys():
            entry = {"device": name, **point, **_subtract(self._before[name], after[name])}
            self._entries[_identify(entry)] = entry
        self._before, self._begun = after, False


def _identify(entry: Mapping[str, Any]) -> str:
    return repr([entry[name] for name in ("device", "benchmark", "frame_sizes", "direction")])


def _read(session: DeviceSession | None) -> dict[str, Any]:
    readings = {}
    for name, device in session.devices() if session is not None else ():
        with contextlib.suppress(V6tError, OSError):
            readings[name] = device.read()
    return readings


def _subtract(before: Any, after: Any) -> dict[str, Any]:
    """Return the losses between two readings, and the table at both."""
    shape = summarize_samples([before, after])
    tables = {
        "before": summarize_samples([before]).table,
        "after": summarize_samples([after]).table,
    }
    return {
        "seconds": shape.seconds,
        "drops": shape.drops,
        "lost_for": {name: why.value for name, why in shape.lost_for.items()},
        "table": {when: table for when, table in tables.items() if table},
    }
