"""Modifiers: what goes on together with the test traffic, in any benchmark (RFC 2544, section 11)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from v6t.base.errors import V6tError
from v6t.intent.device import DeviceRequirements, Links
from v6t.profiles.model import Traffic

if TYPE_CHECKING:
    from v6t.drivers.device import DeviceSession
    from v6t.drivers.duts.plan import Plan
    from v6t.trials.result import Measure, TrialResult
    from v6t.trials.trial import Trial


Action = Callable[[], str]
"""Does something to the device and returns what; raises an error if the device reacts wrongly."""


class Modifier:
    """Additional condition of a run, such as broadcasts; a run has at most one.

    Attributes:
        name: on the command line.
        source: the section that requires it.
        words: the condition, as printed with every number.
        driven: it needs a device driver.
        requirements: what the device must do beyond its technology.
        in_streams: it acts while a stream is sent.
        interval_s: time from one action to the next.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    words: ClassVar[str]
    driven: ClassVar[bool] = False
    requirements: ClassVar[DeviceRequirements] = DeviceRequirements()
    in_streams: ClassVar[bool] = False
    interval_s: float = 1.0

    def add_frames(self, traffic: Traffic, links: Links) -> Traffic:
        """Return the traffic of one direction with the modifier's frames added."""
        del links
        return traffic

    def check_plan(self, plan: Plan) -> None:
        """Refuse a device plan that lacks what the modifier needs."""

    def make_action(self, trial: Trial, session: DeviceSession) -> Action | None:
        """Return the action on the device during the stream of a trial, or None."""
        del trial, session
        return None

    def measure(self, trial: Trial, measure: Measure, session: DeviceSession) -> TrialResult:
        """Measure a trial while repeating the action on the device during its stream."""
        action = self.make_action(trial, session)
        if action is None:
            return measure(trial)
        with RepeatedAction(trial, action, self.interval_s) as repeated:
            result = measure(trial)
        return replace(result, modifier=repeated.to_json())

    def summarize(self, counts: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return a warning that summarizes the actions of all trials; empty without actions."""
        times = sum(each["times"] for each in counts)
        if not times:
            return []
        right = sum(each["right"] for each in counts)
        slowest_s = max(each["slowest_s"] for each in counts)
        why = next((each["why"] for each in counts if each["why"]), "")
        return [
            f"{self.name}: {right:,} of {times:,} right, the slowest took {1000 * slowest_s:.0f} ms"
            + (f"; first trouble: {why}" if why else "")
        ]


@dataclass
class ActionCounts:
    """Counters of the actions in one trial.

    Attributes:
        times, right: number of actions, and of those to which the device reacted rightly.
        slowest_s: the longest action [s].
        what: the last action.
        why: the first error.
    """

    times: int = 0
    right: int = 0
    slowest_s: float = 0.0
    what: str = ""
    why: str = ""


class RepeatedAction:
    """Repeats an action while a stream is sent; leaving the context waits for the last one.

    An action that is not over by then is not counted.
    """

    def __init__(self, trial: Trial, action: Action, interval_s: float) -> None:
        self._trial = trial
        self._action = action
        self._interval_s = interval_s
        self._counts = ActionCounts()
        self._failure: BaseException | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="v6t-modifier", daemon=True)

    def __enter__(self) -> RepeatedAction:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._failure is not None and kind is None:
            raise self._failure

    def to_json(self) -> dict[str, Any]:
        """Return the counters for the result of the trial."""
        return {**asdict(self._counts), "slowest_s": round(self._counts.slowest_s, 4)}

    def _run(self) -> None:
        due = time.monotonic() + self._trial.pause_s
        end = due + self._trial.total_duration_s
        try:
            while due < end and not self._over.wait(max(0.0, due - time.monotonic())):
                self._act()
                due = max(due + self._interval_s, time.monotonic())
        except BaseException as exc:  # noqa: BLE001  (raised where the trial ends)
            self._failure = exc

    def _act(self) -> None:
        counts, began = self._counts, time.monotonic()
        what, why = counts.what, ""
        try:
            what = self._action()
        except (V6tError, OSError) as exc:
            why = str(exc) or repr(exc)
        if self._over.is_set():
            return
        counts.times += 1
        counts.right += not why
        counts.what = what
        counts.why = counts.why or why
        counts.slowest_s = max(counts.slowest_s, time.monotonic() - began)
