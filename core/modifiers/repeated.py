"""Something done to the device again and again while the tester sends, and what became of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from v6t.base.errors import V6tError
from v6t.trials.result import TrialResult
from v6t.trials.trial import Trial


@dataclass
class Done:
    """Counters of one trial.

    Attributes:
        times: it was done.
        right: times the device did, or said, what it had to.
        slowest_s: the longest that one of them took [s].
        what: was done the last time.
        why: what was wrong the first time that something was.
    """

    times: int = 0
    right: int = 0
    slowest_s: float = 0.0
    what: str = ""
    why: str = ""


class Repeated:
    """Begins with the first frame, ends with the last one; the end of the ``with`` waits for it.

    What then is still going on is not counted.
    """

    def __init__(self, trial: Trial, act: Callable[[], str], interval_s: float) -> None:
        """Remember.

        Args:
            trial: as the tester is called for it: its frames follow after its pause.
            act: does it, says what it was, and raises where the device does not do as it should.
            interval_s: from one beginning to the next [s].
        """
        self._trial = trial
        self._act = act
        self._interval_s = interval_s
        self._done = Done()
        self._failure: BaseException | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="v6t-modifier", daemon=True)

    def __enter__(self) -> Repeated:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._failure is not None and kind is None:
            raise self._failure

    def added_to(self, result: TrialResult) -> TrialResult:
        """Return the trial's result with the counters, be they 0."""
        return replace(result, modifier=self.counted)

    @property
    def counted(self) -> dict[str, Any]:
        """As they are kept."""
        return {**asdict(self._done), "slowest_s": round(self._done.slowest_s, 4)}

    def _run(self) -> None:
        due = time.monotonic() + self._trial.pause_s
        end = due + self._trial.total_duration_s
        try:
            while due < end and not self._over.wait(max(0.0, due - time.monotonic())):
                self._once()
                due = max(due + self._interval_s, time.monotonic())
        except BaseException as exc:  # noqa: BLE001  (raised where the trial ends)
            self._failure = exc

    def _once(self) -> None:
        done, began = self._done, time.monotonic()
        what, why = done.what, ""
        try:
            what = self._act()
        except (V6tError, OSError) as exc:
            why = str(exc) or repr(exc)
        if self._over.is_set():
            return
        done.times += 1
        done.right += not why
        done.what = what
        done.why = done.why or why
        done.slowest_s = max(done.slowest_s, time.monotonic() - began)
