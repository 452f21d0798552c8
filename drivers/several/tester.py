"""Several testers as one: each sends its share of every trial, and their counts are added up."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import zip_longest
from typing import Any, TypeVar

from v6t.base.errors import TesterError, V6tError
from v6t.drivers.several.division import (
    divide_connections,
    divide_enumeration,
    divide_streams,
    divide_trial,
)
from v6t.drivers.tester import Oracle, PhaseCounts, StatefulTester
from v6t.packets.direction import DIRECTIONS, Direction
from v6t.profiles.streams import StreamSet
from v6t.trials.connections import Connections
from v6t.trials.delays import Distribution
from v6t.trials.result import DirectionResult, Timeline, TrialResult, sum_classes
from v6t.trials.trial import Capability, Trial

MAX_SKEW_SHARE = 0.02
"""Largest difference of the starts as a share of a trial's duration, where nothing else is set."""
START_SKEW = "start_skew_s"  # Figure of a trial: difference of the members' starts
_ORDERED_CAPABILITIES = frozenset[Capability]({"ipdv", "flow-starts", "timed-flow-starts"})
"""Capabilities that need one order of all frames."""
_UNDIVIDED_CAPABILITIES = frozenset[Capability]({"tcp", "queries"})
"""Capabilities of the first tester alone."""
MAX_INSTALL_S = 120.0  # Longest wait until all members have installed their streams
Outcome = TypeVar("Outcome")


class SeveralTesters:
    """Tester that divides each trial among other testers, its members, by server name."""

    def __init__(
        self,
        name: str,
        members: Mapping[str, StatefulTester],
        max_skew_share: float = MAX_SKEW_SHARE,
    ) -> None:
        self.name = name
        self._members = dict(members)
        self._first = next(iter(self._members))
        self._max_skew_share = max_skew_share
        self._streams: Mapping[Direction, StreamSet] = {}
        self._oracle: Oracle | None = None
        self._division: int | str | None = None
        self._threads = ThreadPoolExecutor(len(self._members), "v6t-server")

    @property
    def capabilities(self) -> frozenset[Capability]:
        common = frozenset.intersection(*(m.capabilities for m in self._members.values()))
        undivided = self._members[self._first].capabilities & _UNDIVIDED_CAPABILITIES
        return common - _ORDERED_CAPABILITIES - _UNDIVIDED_CAPABILITIES | undivided

    def open(self) -> None:
        try:
            self._run_all(lambda name: self._members[name].open())
        except BaseException:
            self.close()
            raise

    def load(self, streams: Mapping[Direction, StreamSet], oracle: Oracle) -> None:
        """Store the streams until the next trial decides how they are divided."""
        self._streams, self._oracle, self._division = dict(streams), oracle, None

    def measure(self, trial: Trial) -> TrialResult:
        connections = trial.connections
        if trial.queries is not None:
            self._divide("nothing")
            return self._run(self._first, lambda name: self._members[name].measure(trial))
        if connections is not None:
            self._divide(connections.count)
        elif not isinstance(self._division, int):  # connections of phase 1 stay
            self._divide("flows")
        trials = self._divide_trial(trial)
        results = self._start_all(lambda name: self._members[name].measure(trials[name]), trials)
        starts = [datetime.fromisoformat(r.started).timestamp() for r in results.values()]
        skew_s, fault = self._find_skew(starts, trial.total_duration_s)
        disturbed = [r.is_disturbed for r in results.values() if r.faults]
        return TrialResult(
            {
                direction: merge_directions([r.directions[direction] for r in results.values()])
                for direction in DIRECTIONS
                if all(direction in r.directions for r in results.values())
            },
            name_faults({name: result.faults for name, result in results.items()}) + fault,
            min(r.started for r in results.values()),
            {START_SKEW: skew_s, "servers": {n: _describe_share(r) for n, r in results.items()}},
            is_disturbed=all(disturbed) if disturbed else bool(fault),
        )

    def establish(self, trial: Trial, connections: Connections) -> PhaseCounts:
        self._divide("nothing" if connections.tcp else connections.count)
        return self._run_phase("establish", trial, connections)

    def validate(self, trial: Trial, connections: Connections) -> PhaseCounts:
        return self._run_phase("validate", trial, connections)

    def disconnect(self, trial: Trial, connections: Connections) -> PhaseCounts:
        return self._run_phase("disconnect", trial, connections)

    def wait(self, seconds: float) -> None:
        self._run_all(lambda name: self._members[name].wait(seconds))

    def device_state(self) -> None:
        """Return None: the device stands between the ports of several testers."""

    def device_session(self) -> None:
        """Return None: see :meth:`device_state`."""

    def describe(self) -> dict[str, Any]:
        servers = {name: member.describe() for name, member in self._members.items()}
        common = {
            key: value
            for key, value in servers[self._first].items()
            if all(key in one and one[key] == value for one in servers.values())
        }
        return {**common, "kind": self.name, "servers": servers, "max_skew": self._max_skew_share}

    def close(self) -> None:
        """Close all members, also while a trial runs."""
        with ExitStack() as stack:  # a failure of one does not leave others open
            stack.callback(self._threads.shutdown, wait=False, cancel_futures=True)
            for name in self._members:
                stack.callback(self._run, name, lambda name: self._members[name].close())

    def read_clock(self) -> float:
        return self._members[self._first].read_clock()

    def _divide(self, division: int | str) -> None:
        """Load the members with streams divided by flows, by a number of connections, or not at all."""
        if self._oracle is None:
            raise TesterError("no streams are loaded", code="not-loaded")
        if self._division == division:
            return
        oracle, parts = self._oracle, len(self._members)
        self._division = None

        def load(name: str) -> None:
            part = list(self._members).index(name)
            split: Callable[[StreamSet], StreamSet] = lambda streams: streams  # noqa: E731
            if isinstance(division, int):
                split = partial(divide_enumeration, count=division, part=part, parts=parts)
            elif division == "flows":
                split = partial(divide_streams, part=part, parts=parts)
            own = {direction: split(streams) for direction, streams in self._streams.items()}
            self._members[name].load(own, oracle)

        self._run_all(load)
        self._division = division

    def _divide_trial(self, trial: Trial) -> dict[str, Trial]:
        parts = len(self._members)
        shares = ((name, divide_trial(trial, n, parts)) for n, name in enumerate(self._members))
        return {name: share for name, share in shares if share is not None}

    def _run_phase(self, phase: str, trial: Trial, connections: Connections) -> PhaseCounts:
        """Run a phase on all members; a phase of TCP connections runs only on the first."""
        if connections.tcp is not None:
            first = getattr(self._members[self._first], phase)
            return self._run(self._first, lambda _: first(trial, connections))
        shares = {
            name: divide_connections(connections, part, len(self._members))
            for part, name in enumerate(self._members)
        }
        phases: dict[str, PhaseCounts] = self._start_all(
            lambda name: getattr(self._members[name], phase)(trial, shares[name]), shares
        )
        merged = merge_phases(phases)
        length_s = connections.validation_s if phase == "validate" else connections.phase_one_s
        skew_s, fault = self._find_skew([p.start_s for p in phases.values()], length_s)
        health = {**(merged.health or {}), START_SKEW: skew_s}
        return replace(merged, faults=merged.faults + fault, health=health)

    def _find_skew(self, starts: list[float], length_s: float) -> tuple[float, tuple[str, ...]]:
        """Return the difference of the starts [s], and a fault if it is too large."""
        skew_s, limit_s = round(max(starts) - min(starts), 6), length_s * self._max_skew_share
        if skew_s <= limit_s:
            return skew_s, ()
        return skew_s, (
            f"the servers started {1e3 * skew_s:,.1f} ms apart, more than the {1e3 * limit_s:,.1f} ms "
            f"({self._max_skew_share:.2%} of the duration) that max_skew allows",
        )

    def _start_all(
        self, act: Callable[[str], Outcome], names: Mapping[str, object]
    ) -> dict[str, Outcome]:
        """Run ``act`` for members in parallel; their traffic starts when all streams are installed."""
        start = threading.Barrier(len(names), timeout=MAX_INSTALL_S)

        def act_after_others(name: str) -> Outcome:
            member: Any = self._members[name]
            member.before_start = start.wait  # members without such a step start at once
            try:
                return act(name)
            except BaseException:
                start.abort()
                raise

        try:
            return self._run_all(act_after_others, names)
        except threading.BrokenBarrierError:
            text = f"the servers did not start together within {MAX_INSTALL_S:g} s"
            raise TesterError(text, code="tester-fault") from None

    def _run_all(
        self, act: Callable[[str], Outcome], names: Mapping[str, object] | None = None
    ) -> dict[str, Outcome]:
        """Run ``act`` for members in parallel; wait for all, then raise the first error."""
        pending = {
            name: self._threads.submit(self._run, name, act)
            for name in (self._members if names is None else names)
        }
        if errors := [error for one in pending.values() if (error := one.exception())]:
            # a member that fails breaks the barrier for the others
            raise min(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError))
        return {name: one.result() for name, one in pending.items()}

    def _run(self, name: str, act: Callable[[str], Outcome]) -> Outcome:
        """Run ``act`` for one member; add the member's name to errors."""
        try:
            return act(name)
        except V6tError as exc:
            exc.message = f"server {name}: {exc.message}"
            exc.args = (exc.message,)
            raise


def _describe_share(result: TrialResult) -> dict[str, Any]:
    """Return the figures of one tester, and how many frames it lost in each direction."""
    lost = {
        direction: counted.count_frames("required") - counted.count_frames("received")
        for direction, counted in result.directions.items()
    }
    return {**result.tester, "lost": lost}


def merge_directions(parts: Sequence[DirectionResult]) -> DirectionResult:
    """Return the result of all testers in one direction.

    The slowest sender and the longest gap of one tester stand for all. Of ``delay_us``, the smallest and
    the largest delay are exact, and the quantiles are those of the slowest tester; ``delays`` are exact.
    """
    first, slowest = parts[0], max(parts, key=lambda part: part.max_sending_time_s)
    summaries = [p.delay_us for p in parts if p.delay_us]

    def list_known_values(name: str) -> list[float]:
        return [value for p in parts if (value := getattr(p, name)) is not None]

    return replace(
        first,
        classes=sum_classes(item for p in parts for item in p.classes.items()),
        sending_time_s=slowest.sending_time_s,
        sending_time_error_s=slowest.sending_time_error_s,
        control=sum(p.control for p in parts),
        checked=sum(p.checked for p in parts),
        matched=sum(p.matched for p in parts),
        mismatch=next((p.mismatch for p in parts if p.mismatch), None),
        behaviour=dict(sum((Counter(p.behaviour) for p in parts if p.behaviour), Counter()))
        or None,
        missing=next((p.missing for p in parts if p.missing), None),
        delay_us={
            name: (min if name == "min" else max)(s[name] for s in summaries)
            for name in summaries[0]
        }
        if summaries
        else None,
        delays=_merge_distributions(p.delays for p in parts),
        ipdv=_merge_distributions(p.ipdv for p in parts),
        first_lost_s=min(list_known_values("first_lost_s"), default=None),
        last_lost_s=max(list_known_values("last_lost_s"), default=None),
        longest_gap_s=max(list_known_values("longest_gap_s"), default=None),
        timed_share=min(list_known_values("timed_share"), default=None),
        timeline=_merge_timelines([p.timeline for p in parts]),
        rate_change_error_s=max(list_known_values("rate_change_error_s"), key=abs, default=None),
    )


def merge_phases(parts: Mapping[str, PhaseCounts]) -> PhaseCounts:
    """Return the counts of all testers; their endpoints may coincide, so they are not counted."""
    phases = list(parts.values())
    return replace(
        phases[0],
        result=merge_directions([p.result for p in phases]),
        start_s=min(p.start_s for p in phases),
        end_s=max(p.end_s for p in phases),
        duplicate_tuples=sum(p.duplicate_tuples for p in phases),
        inside_endpoints=None,
        outside_endpoints=None,
        example=next((p.example for p in phases if p.example), None),
        faults=name_faults({name: p.faults for name, p in parts.items()}),
        started=min(p.started for p in phases),
        health={"servers": {name: p.health for name, p in parts.items()}},
    )


def name_faults(faults: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return the faults of all testers, each with the tester's name."""
    return tuple(f"server {name}: {fault}" for name, own in faults.items() for fault in own)


def _merge_distributions(
    parts: Iterable[Mapping[str, Distribution] | None],
) -> dict[str, Distribution] | None:
    by_class: dict[str, list[Distribution]] = {}
    for part in parts:
        if part is None:
            return None
        for name, distribution in part.items():
            by_class.setdefault(name, []).append(distribution)
    return {name: Distribution.merge(own) for name, own in by_class.items()}


def _merge_timelines(parts: Sequence[Timeline | None]) -> Timeline | None:
    timelines = [part for part in parts if part is not None]
    if len(timelines) < len(parts) or len({t.slot_s for t in timelines}) > 1:
        return None
    rows = [t.received for t in timelines], [t.lost for t in timelines]
    received, lost = (tuple(map(sum, zip_longest(*row, fillvalue=0))) for row in rows)
    return Timeline(timelines[0].slot_s, received, lost)
