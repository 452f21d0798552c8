"""Commands that do something to the device: hooks of the testbed file (GEN-29)."""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
from collections.abc import Mapping

from v6t.procedures.trial import Trial
from v6t.profiles.errors import DutError

TIMEOUT_S = 120.0


def run_hook(name: str, command: str, timeout_s: float = TIMEOUT_S) -> str:
    """Run one hook's command and wait for its end; what it printed.

    Raises:
        DutError: it cannot be run, fails or takes too long.
    """
    try:
        done = subprocess.run(
            shlex.split(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env={k: v for k, v in os.environ.items() if k != "V6T_DUT_PASSWORD"},
        )
    except (OSError, ValueError) as exc:
        raise DutError(f"the hook {name} cannot be run: {exc}") from exc
    except subprocess.TimeoutExpired as exc:
        raise DutError(f"the hook {name} took longer than {timeout_s:g} s") from exc
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise DutError(
            f"the hook {name} failed with status {done.returncode}"
            + (f": {said[-1]:.200}" if said else "")
        )
    return done.stdout


class DuringTrial:
    """Runs a trial's hook while the tester sends; the end of the ``with`` waits for it."""

    def __init__(self, trial: Trial, hooks: Mapping[str, str]) -> None:
        """Remember; a trial without an event, or without a command for it, needs nothing.

        Args:
            trial: about to run.
            hooks: commands by name.
        """
        self._trial = trial
        self._command = hooks.get(trial.event.hook) if trial.event else None
        self._timer: threading.Timer | None = None
        self._failure: DutError | None = None

    def __enter__(self) -> DuringTrial:
        if self._command is not None and self._trial.event is not None:
            delay_s = self._trial.pause_s + self._trial.event.at_s
            first = self._trial.connections
            if first is not None:  # phase 1 goes before the stream
                delay_s += first.filling_s + first.wait_s + first.gap_s
            self._timer = threading.Timer(delay_s, self._run)
            self._timer.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._timer is None:
            return
        if kind is not None:
            self._timer.cancel()
        self._timer.join()
        if self._failure is not None and kind is None:
            raise self._failure

    def _run(self) -> None:
        try:
            run_hook(self._trial.event.hook if self._trial.event else "", self._command or "")
        except DutError as exc:
            self._failure = exc
