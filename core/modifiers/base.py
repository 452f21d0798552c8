"""Modifiers: conditions added to the test traffic of any benchmark (RFC 2544, section 11)."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar

from v6t.base.errors import V6tError
from v6t.drivers.device import DeviceSession
from v6t.drivers.duts.plan import Plan
from v6t.intent.device import DeviceRequirements, Links
from v6t.profiles.model import Traffic
from v6t.trials.result import Measure, ModifierCounts, TrialResult
from v6t.trials.trial import Trial

# Function that acts on the device and returns a description, or raises an error if it failed.
Action = Callable[[], str]


class Modifier:
    """Additional condition of a run, such as broadcasts; a run has at most one."""

    name: ClassVar[str]  # on the command line
    source: ClassVar[str]  # section of an RFC
    description: ClassVar[str]  # printed with every result
    needs_driver: ClassVar[bool] = False  # a driver must configure the device
    requirements: ClassVar[DeviceRequirements] = DeviceRequirements()  # beyond the technology's
    needs_stream: ClassVar[bool] = False  # it acts while a stream is sent
    interval_s: float = 1.0  # from the start of one action to the next

    def add_frames(self, traffic: Traffic, links: Links) -> Traffic:
        """Return the traffic of one direction with the modifier's frames added."""
        return traffic

    def check_plan(self, plan: Plan) -> None:
        """Raise UsageError if a device plan lacks something that the modifier needs."""

    def make_action(self, trial: Trial, session: DeviceSession) -> Action | None:
        """Return the action to repeat on the device during a trial, or None for no action."""
        return None

    def measure(self, trial: Trial, measure: Measure, session: DeviceSession) -> TrialResult:
        """Measure a trial while repeating the action on the device during its stream."""
        if (action := self.make_action(trial, session)) is None:
            return measure(trial)
        with repeat_action(trial, action, self.interval_s) as counts:
            result = measure(trial)
        return replace(result, modifier=counts)

    def summarize_actions(self, counts: Sequence[ModifierCounts]) -> str:
        """Return the outcomes of the actions in several trials as a sentence; empty without any."""
        if not (times := sum(each.times for each in counts)):
            return ""
        right = sum(each.right for each in counts)
        slowest_s = max(each.slowest_s for each in counts)
        why = next((each.why for each in counts if each.why), "")
        summary = f"{right:,} of {times:,} right, the slowest took {1000 * slowest_s:.0f} ms"
        return f"{self.name}: {summary}" + (f"; first error: {why}" if why else "")


@contextmanager
def repeat_action(trial: Trial, action: Action, interval_s: float) -> Iterator[ModifierCounts]:
    """Repeat an action in a thread while a trial sends its stream, and yield its counters.

    Leaving the context waits for the last action, which is not counted unless it is over by then.
    """
    counts = ModifierCounts(0, 0, 0.0, "", "")
    stop = threading.Event()

    def act() -> None:
        began, what, why = time.monotonic(), counts.what, ""
        try:
            what = action()
        except (V6tError, OSError) as exc:
            why = str(exc) or repr(exc)
        if not stop.is_set():
            counts.slowest_s = max(counts.slowest_s, round(time.monotonic() - began, 4))
            counts.what, counts.why = what, counts.why or why
            counts.times += 1
            counts.right += not why

    def run() -> None:
        due = time.monotonic() + trial.pause_s
        end = due + trial.total_duration_s
        while due < end and not stop.wait(max(0.0, due - time.monotonic())):
            act()
            due = max(due + interval_s, time.monotonic())

    with ThreadPoolExecutor(1) as pool:
        actions = pool.submit(run)
        try:
            yield counts
        finally:
            stop.set()
    actions.result()
