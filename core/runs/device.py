"""The device under test in a run: how it is reached, its hooks, and what is done to it during a trial."""

from __future__ import annotations

import logging
import shlex
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from v6t.base.errors import DutError, UsageError
from v6t.core.config.bound import BoundRun
from v6t.drivers.device import DeviceSession, HookState, StateDevice
from v6t.drivers.duts.options import Hook
from v6t.drivers.transport.command_log import log_command
from v6t.drivers.transport.process import build_clean_environment
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import Trial

if TYPE_CHECKING:
    from v6t.drivers.lab.setup import LabDevice
    from v6t.drivers.tester import Tester

RETRY_AFTER_S = 1.0


def lab_device(bound: BoundRun, record_dir: Path | None = None) -> LabDevice:
    """Make what the driver puts between the lab's cables; ``record_dir`` gets the undo record."""
    from v6t.drivers.duts.devices import make_lab_device

    return make_lab_device(bound.driver, bound.device, bound.intent, record_dir)


def remote_session(bound: BoundRun, record_dir: Path | None = None) -> DeviceSession | None:
    """Make the session with a remote device, not open yet; None if the run drives none."""
    if bound.tester.in_lab or bound.tester.simulates:
        return None
    from v6t.drivers.duts.devices import make_session

    return make_session(bound.driver, bound.intent, record_dir, bound.rollback_command)


def find_state(bound: BoundRun, tester: Tester, session: DeviceSession | None) -> StateDevice:
    """Return the connection table of the device."""
    state = tester.device_state() if session is None else session.state()
    if state is not None:
        return state
    hooks = bound.driver.hooks
    if "flush" not in hooks:
        raise UsageError(
            "no command is configured that empties the device's table before each trial",
            "choose a device driver (--dut), or give the command dut.options.hooks.flush",
            code="missing-driver",
        )
    count = hooks.get("count-states")
    return HookState(
        lambda: run_hook("flush", hooks["flush"]),
        None if count is None else lambda: run_hook("count-states", count),
    )


def run_hook(name: str, hook: Hook) -> str:
    """Run the command of a hook, again after failures, and return its output."""
    for remaining in reversed(range(hook.tries)):
        try:
            return _run_once(name, hook.command, hook.timeout_s)
        except DutError as exc:
            if not remaining:
                tried = f", tried {hook.tries} times" if hook.tries > 1 else ""
                raise DutError(f"{exc}{tried}", code=exc.code) from exc
        time.sleep(RETRY_AFTER_S)
    raise AssertionError("a hook is tried at least once")


def _run_once(name: str, command: str, timeout_s: float) -> str:
    began = time.monotonic()
    try:
        done = subprocess.run(
            shlex.split(command), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=timeout_s, check=False, env=build_clean_environment(),
        )  # fmt: skip
    except (OSError, ValueError) as exc:
        raise DutError(f"the hook {name} cannot be run: {exc}", code="hook-failed") from exc
    except subprocess.TimeoutExpired as exc:
        raise DutError(f"the hook {name} took longer than {timeout_s:g} s", code="timeout") from exc
    log_command(
        f"hook {name}", command, "", logging.INFO, f"exit status {done.returncode}",
        time.monotonic() - began, done.stdout, done.stderr,
    )  # fmt: skip
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        output = f": {last[0]:.200}" if last else ""
        raise DutError(
            f"the hook {name} failed with status {done.returncode}{output}", code="hook-failed"
        )
    return done.stdout


@dataclass(frozen=True)
class DeviceAction:
    """What the event of a trial does to the device.

    Attributes:
        run: while the tester sends.
        prepare: before the trial, without traffic.
    """

    run: Callable[[], object]
    prepare: Callable[[], object] = lambda: None


FindAction = Callable[[Trial], DeviceAction | None]


def prepare_device_event(measure: Measure, find_action: FindAction) -> Measure:
    """Make the device ready for the event of a trial before the trial."""

    def prepare_and_measure(trial: Trial) -> TrialResult:
        if action := find_action(trial):
            action.prepare()
        return measure(trial)

    return prepare_and_measure


def run_device_event(measure: Measure, find_action: FindAction) -> Measure:
    """Carry out the event of a trial while its stream is sent, and wait for its end.

    Raises:
        DutError: the action failed.
    """

    def measure_with_event(trial: Trial) -> TrialResult:
        event, action = trial.device_event, find_action(trial)
        if event is None or action is None:
            return measure(trial)
        failures: list[DutError] = []

        def run() -> None:
            try:
                action.run()
            except DutError as exc:
                failures.append(exc)

        timer = threading.Timer(trial.pause_s + event.at_s, run)
        timer.start()
        try:
            result = measure(trial)
        except BaseException:
            timer.cancel()
            raise
        finally:
            timer.join()
        if failures:
            raise failures[0]
        return result

    return measure_with_event
