"""Commands that do something to the device: hooks of the testbed file (GEN-29)."""

from __future__ import annotations

import logging
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from v6t.base.errors import DutError
from v6t.drivers.duts.options import Hook
from v6t.drivers.transport.command_log import log_command
from v6t.drivers.transport.process import build_clean_environment
from v6t.trials.trial import Trial

RETRY_AFTER_S = 1.0


def run_hook(name: str, hook: Hook) -> str:
    """Run a hook's command, again where it fails as often as may be; what it printed.

    Raises:
        DutError: it cannot be run, or failed or took too long the last time, too.
    """
    for left in reversed(range(hook.tries)):
        try:
            return _run_once(name, hook.command, hook.timeout_s)
        except DutError as exc:
            if not left:
                tried = f", tried {hook.tries} times" if hook.tries > 1 else ""
                raise DutError(f"{exc}{tried}", code=exc.code) from exc
        time.sleep(RETRY_AFTER_S)
    raise AssertionError("a hook is tried at least once")


def _run_once(name: str, command: str, timeout_s: float) -> str:
    began = time.monotonic()
    try:
        done = subprocess.run(
            shlex.split(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env=build_clean_environment(),
        )
    except (OSError, ValueError) as exc:
        raise DutError(f"the hook {name} cannot be run: {exc}", code="hook-failed") from exc
    except subprocess.TimeoutExpired as exc:
        raise DutError(f"the hook {name} took longer than {timeout_s:g} s", code="timeout") from exc
    log_command(
        f"hook {name}", command, "", logging.INFO, f"exit status {done.returncode}",
        time.monotonic() - began, done.stdout, done.stderr,
    )  # fmt: skip
    if done.returncode:
        output = (done.stderr or done.stdout).strip().splitlines()
        raise DutError(
            f"the hook {name} failed with status {done.returncode}"
            + (f": {output[-1]:.200}" if output else ""),
            code="hook-failed",
        )
    return done.stdout


@dataclass(frozen=True)
class Action:
    """Something done to the device.

    Attributes:
        carried_out: while the tester sends.
        before: what goes before, without traffic.
    """

    carried_out: Callable[[], object]
    before: Callable[[], object] = lambda: None


class DuringTrial:
    """Does what a trial's event asks for while the tester sends; the end of the ``with`` waits for it.

    The time of the event counts from :meth:`sends`: what a trial needs before its stream is not
    known beforehand.
    """

    def __init__(
        self,
        trial: Trial,
        hooks: Mapping[str, Hook],
        actions: Mapping[str, Action] | None = None,
    ) -> None:
        """Remember; a trial without an event, or without anything to do for it, needs nothing.

        Args:
            trial: about to run.
            hooks: commands by the names of events.
            actions: what else is done to the device, by the names of events.
        """
        self._trial = trial
        name = trial.device_event.hook if trial.device_event else ""
        action = (actions or {}).get(name)
        if action is None and name in hooks:
            action = Action(partial(run_hook, name, hooks[name]))
        self._action = action
        self._timer: threading.Timer | None = None
        self._failure: DutError | None = None

    def __enter__(self) -> DuringTrial:
        if self._action is not None and self._trial.device_event is not None:
            self._action.before()
        return self

    def sends(self, trial: Trial) -> None:
        """Note that the stream follows after this trial's pause."""
        if self._action is not None and self._trial.device_event is not None:
            delay_s = trial.pause_s + self._trial.device_event.at_s
            self._timer = threading.Timer(delay_s, self._run)
            self._timer.start()

    def __exit__(self, kind: object, *_: object) -> None:
        if self._timer is None:
            return
        if kind is not None:
            self._timer.cancel()
        self._timer.join()
        if self._failure is not None and kind is None:
            raise self._failure

    def _run(self) -> None:
        if self._action is None:
            return
        try:
            self._action.carried_out()
        except DutError as exc:
            self._failure = exc
