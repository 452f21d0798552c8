"""The device under test during the trials of a run: hooks, events, load and counters."""

import contextlib
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from itertools import chain, pairwise
from typing import Any

from v6t.base.errors import DutError, V6tError
from v6t.drivers.device import DeviceSession
from v6t.drivers.duts.options import Hook
from v6t.drivers.duts.session import telemetry
from v6t.drivers.transport.command_log import run_logged
from v6t.drivers.transport.contract import DeadlinePassed, Output
from v6t.drivers.transport.process import run_program
from v6t.trials.result import DeviceLoad, Measure, TrialResult
from v6t.trials.trial import Trial

RETRY_PAUSE_S = 1.0  # pause before a failed hook is tried again


def run_hook(name: str, hook: Hook) -> str:
    """Run a hook's command, retrying on failure, and return its output."""
    for attempt in range(1, hook.tries + 1):
        try:
            return _run_hook_command(name, hook.command, hook.timeout_s)
        except DutError as exc:
            if attempt == hook.tries:
                tried = f", tried {hook.tries} times" if hook.tries > 1 else ""
                raise DutError(f"{exc}{tried}", code=exc.code) from exc
        time.sleep(RETRY_PAUSE_S)
    raise AssertionError("a hook is tried at least once")


def _run_hook_command(name: str, command: str, timeout_s: float) -> str:
    hook = f"hook {name}"

    def run() -> Output:
        return Output.decode(hook, *run_program(shlex.split(command), "", timeout_s, hook, command))

    try:
        with ThreadPoolExecutor(1) as pool:  # the first Ctrl-C must not end a power cycle halfway
            pool.submit(int).result()  # a Ctrl-C while the thread starts would not wait for it
            done = pool.submit(run_logged, hook, command, "", run).result()
    except DeadlinePassed:  # its message has the command, which may contain a password
        raise DutError(f"the {hook} took longer than {timeout_s:g} s", code="timeout") from None
    except (OSError, ValueError) as exc:
        raise DutError(f"the {hook} cannot be run: {exc}", code="hook-failed") from exc
    if done.status:
        cause = f": {done.cause}" if (done.err + done.out).strip() else ""
        raise DutError(f"the {hook} failed with status {done.status}{cause}", code="hook-failed")
    return done.out


def measure_with_event(
    trial: Trial, measure: Measure, run_event: Callable[[], object]
) -> TrialResult:
    """Measure a trial, run its event while its stream is sent, and wait for the end of both.

    The error of an event that fails is raised after the trial. The trial is invalid if the event
    began outside its stream, because a tester took long to prepare it.
    """
    delay_s = trial.pause_s + (trial.device_event.at_s if trial.device_event else 0.0)
    cancelled = threading.Event()

    def run_in_time() -> float:
        """Run the event and return when it began [s, wall clock]."""
        if cancelled.wait(delay_s):
            return 0.0
        began_s = time.time()
        run_event()
        return began_s

    with ThreadPoolExecutor(1) as pool:
        event = pool.submit(run_in_time)
        try:
            result = measure(trial)
        except BaseException:
            cancelled.set()
            raise
    began_s = event.result()
    if not result.started:
        return result
    at_s = began_s - datetime.fromisoformat(result.started).timestamp()
    if 0 <= at_s <= trial.total_duration_s:
        return result
    fault = f"the device's event began {at_s:.1f} s after the first frame, outside the stream"
    return replace(result, faults=(*result.faults, fault))


MIN_SAMPLED_TRIAL_S = 3.0  # shorter trials have too few samples
COUNTERS_KEY = "device"  # key of the device counters in ``results.json``


def with_device_load(measure: Measure, get_session: Callable[[], DeviceSession | None]) -> Measure:
    """Wrap ``measure`` to sample the CPU load of the devices once a second in long trials."""

    def measure_with_load(trial: Trial) -> TrialResult:
        driven = get_session() if trial.total_duration_s >= MIN_SAMPLED_TRIAL_S else None
        watchers: dict[str, telemetry.TelemetryWatcher] = {}
        samples: dict[str, Sequence[Any]] = {}
        try:
            for name, device in driven.get_sessions() if driven is not None else ():
                with contextlib.suppress(V6tError, OSError):
                    # other readings may briefly stop a device's workers or take a lock
                    watchers[name] = device.start_watcher("cpu")
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

    return measure_with_load


def compute_load(samples: Sequence[Any], began_s: float) -> DeviceLoad | None:
    """Return the highest and the mean load of the cores between samples, given in order of time.

    Returns None if the samples have no load, or the cores poll.

    Args:
        began_s: when the first frame was sent [s, wall clock]; earlier samples are left out.
    """
    if telemetry.is_polling(samples):
        return None
    times_s, busiest, mean = [], [], []
    for before, after in pairwise(samples):
        idle = telemetry.compute_core_shares([before, after], "idle").values()
        busy = [100 - min(100.0, max(0.0, share)) for share in chain.from_iterable(idle)]
        if busy and after.time_s > began_s:
            times_s.append(round(after.time_s - began_s, 1))
            busiest.append(round(max(busy)))
            mean.append(round(sum(busy) / len(busy)))
    return DeviceLoad(tuple(times_s), tuple(busiest), tuple(mean)) if times_s else None


class DeviceCountRecorder:
    """Reads the devices' counters before the first and after the last trial of each benchmark.

    A device that cannot be read has no entry; a benchmark that is measured again replaces its entry.
    """

    def __init__(self, entries: Iterable[Mapping[str, Any]]) -> None:
        self._entries = {_make_entry_key(entry): dict(entry) for entry in entries}
        self._before: Mapping[str, Any] | None = None  # counters at the first trial, by device

    @property
    def entries(self) -> list[dict[str, Any]]:
        """Counters to store, one entry for each device and benchmark at a point."""
        return list(self._entries.values())

    def begin(self, session: DeviceSession | None) -> None:
        """Begin a trial: read the counters if it is the first of its benchmark."""
        if self._before is None:
            self._before = _read_counters(session)

    def end(self, session: DeviceSession | None, point: Mapping[str, Any]) -> None:
        """End a benchmark: if it had a trial, read the counters again and store the losses."""
        before, self._before = self._before or {}, None
        after = _read_counters(session) if before else {}
        for name in before.keys() & after.keys():
            entry = {"device": name, **point, **_compute_changes(before[name], after[name])}
            self._entries[_make_entry_key(entry)] = entry


def _make_entry_key(entry: Mapping[str, Any]) -> str:
    return repr([entry[name] for name in ("device", "benchmark", "frame_sizes", "direction")])


def _read_counters(session: DeviceSession | None) -> dict[str, Any]:
    readings = {}
    for name, device in session.get_sessions() if session is not None else ():
        with contextlib.suppress(V6tError, OSError):
            readings[name] = device.read_sample()
    return readings


def _compute_changes(before: Any, after: Any) -> dict[str, Any]:
    """Return the changes between two readings, and the size of the connection table at both."""
    shape = telemetry.summarize_samples([before, after])
    readings = {"before": before, "after": after}
    tables = {when: telemetry.summarize_samples([each]).table for when, each in readings.items()}
    return {
        "seconds": shape.seconds,
        "drops": shape.drops,
        "lost_for": {name: why.value for name, why in shape.lost_for.items()},
        "changes": dict(shape.changes),
        "table": {when: table for when, table in tables.items() if table},
    }
