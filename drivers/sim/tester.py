"""The simulated tester: virtual time, a device with programmable limits, delays and faults.

For rehearsing campaigns (``--tester sim``), for testing procedures, for estimating time. Chance
is drawn from the seed and the trial's key, so a resumed run meets the same device.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import TYPE_CHECKING, Any, get_args

from v6t.base.errors import TesterError
from v6t.drivers.delays import make_distribution, round_to_buckets
from v6t.drivers.device import DeviceSession
from v6t.drivers.sim.device import BLOCK, Device, SimOptions
from v6t.drivers.sim.spread import spread
from v6t.drivers.sim.table import SimTable
from v6t.drivers.tester import Oracle, PhaseCounts
from v6t.packets.direction import Direction
from v6t.profiles.compiler.schedule import count_frames, list_classes
from v6t.profiles.streams import StreamSet
from v6t.trials.connections import Connections
from v6t.trials.delays import Distribution
from v6t.trials.device_events import CONFIGURATION_CHANGES, name_change_hook
from v6t.trials.queries import Answers
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.tcp import TcpCounts
from v6t.trials.timeline import Timeline, choose_slot_s
from v6t.trials.trial import Capability, Trial, list_directions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from v6t.drivers.sim.device import Device, SimOptions


def course(
    trial: Trial, required: int, lost: int, first_s: float, last_s: float
) -> Timeline | None:
    """Losses spread evenly between two times; every other frame is there when it is sent.

    Args:
        trial: that was simulated; None comes of one whose flows begin one after the other.
        required, lost: frames of the direction.
        first_s, last_s: when the first and the last lost frame were due [s].
    """
    if trial.flow_starts is not None:
        return None
    width = choose_slot_s(trial.total_duration_s)
    slots = max(1, -(-round(trial.total_duration_s * 1000) // round(width * 1000)))
    share = required / trial.frames
    due = [round(share * _due(trial, n * width)) for n in range(slots)] + [required]
    span = max(last_s - first_s, 1e-9)
    gone = [
        round(lost * min(1.0, max(0.0, (n * width - first_s) / span))) for n in range(slots)
    ] + [lost]
    lost_in = [after - before for before, after in pairwise(gone)]
    came = [
        max(0, after - before - missing)
        for (before, after), missing in zip(pairwise(due), lost_in, strict=True)
    ]
    return Timeline(width, tuple(came), tuple(lost_in))


def _due(trial: Trial, at_s: float) -> float:
    done = min(trial.first_segment_frames, trial.rate_fps * at_s)
    if trial.second_segment is not None and at_s > trial.duration_s:
        done += trial.second_segment.rate_fps * (at_s - trial.duration_s)
    return done


WRONG = {
    "class": "queries",
    "sent": "",
    "expected": "00",
    "received": "01",
    "why": "simulated: wrong AAAA record",
}


def answered(trial: Trial, options: SimOptions, device: Device | None) -> DirectionResult:
    """Simulate the answers to a trial's queries.

    Args:
        trial: with queries.
        options: of tester and device.
        device: None: the tester asks itself.
    """
    queries = trial.queries
    if queries is None:
        raise ValueError("nothing is asked")
    frames = trial.frames
    lost = 0 if device is None else min(frames, device.lost(frames, trial.rate_fps))
    quiet = device is None or trial.benchmark == "preflight"
    late = 0 if quiet else min(options.late, frames - lost)
    received = frames - lost - late
    wrong = 0 if device is None else min(options.mismatch, received)
    # a name in the cache is asked of nobody, one with an AAAA record of its own is asked once
    fresh = round(frames * (1 - queries.cached_share))
    reasons = {"no answer": lost, "late": late, "wrong AAAA record": wrong}
    return DirectionResult(
        classes={"queries": ClassCount("foreground", frames, frames, received - wrong, late=late)},
        sending_time_s=trial.total_duration_s * max(1.0, trial.rate_fps / options.tester_fps),
        checked=received,
        matched=received - wrong,
        mismatch=WRONG if wrong else None,
        answers=Answers(
            {why: count for why, count in reasons.items() if count},
            aaaa_queries=fresh,
            a_queries=0 if queries.is_selftest else round(fresh * (1 - queries.native_aaaa_share)),
            cached_names=queries.cached_names if queries.cached_share else 0,
        ),
    )


__all__ = ["EPOCH", "SimOptions", "SimTester"]

EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)
"""Where virtual time starts: no simulated result can be mistaken for a real one by its date."""


@dataclass(frozen=True)
class _Loss:
    """What a direction loses.

    Attributes:
        frames: lost frames; they are spread evenly between the two times.
        first_s, last_s: sending times of the first and the last of them [s].
        gap_s: longest silence at the receiver [s].
    """

    frames: int
    first_s: float = 0.0
    last_s: float = 0.0
    gap_s: float = 0.0


class SimTester:
    """Tester protocol without wires; see :mod:`v6t.drivers.tester`.

    Args:
        options: limits and faults.
        seed: of all chance.
        loopback: no device, only the tester's own capacity.
    """

    name = "sim"
    capabilities: frozenset[Capability] = frozenset(get_args(Capability))

    def __init__(
        self, options: SimOptions | None = None, seed: int = 1, *, loopback: bool = False
    ) -> None:
        self.options = options or SimOptions()
        self.table = SimTable(self.options)
        self._connections = 0
        self._tcp: TcpCounts | None = None
        self._seed = seed
        self._loopback = loopback
        self._streams: Mapping[Direction, StreamSet] = {}
        self._spread: dict[Direction, float] = {}
        self._trials = 0

    @property
    def clock_s(self) -> float:
        """Virtual time [s]."""
        return self.table.clock_s

    @clock_s.setter
    def clock_s(self, value: float) -> None:
        self.table.clock_s = value

    def now(self) -> float:
        return self.clock_s

    def open(self) -> None:
        """Nothing to take."""

    def device_state(self) -> SimTable:
        return self.table

    def device_session(self) -> DeviceSession | None:
        return None

    def load(self, streams: Mapping[Direction, StreamSet], oracle: Oracle) -> None:
        self._streams = dict(streams)
        o = self.options
        if o.cores > 1 and not self._loopback:
            self._spread = {way: spread(s, o.cores, o.hashes) for way, s in streams.items()}

    def measure(self, trial: Trial) -> TrialResult:
        """Simulate a trial; virtual time advances by its length.

        Raises:
            TesterError: this is the trial at which the tester fails.
        """
        self._next_trial()
        chance = random.Random(f"{self._seed}/{trial.key}")  # noqa: S311  (not for secrets)
        self.clock_s += trial.pause_s
        started = (EPOCH + timedelta(seconds=self.clock_s)).isoformat(timespec="milliseconds")
        if trial.queries is not None:
            result = answered(
                trial,
                self.options,
                None if self._loopback else self._device("", 1, chance, slow=False),
            )
            self.clock_s += result.sending_time_s + trial.residual_wait_s
            return TrialResult(
                {"forward": result}, started=started, tester={"virtual_time_s": self.clock_s}
            )
        ways = list_directions(trial.mode)
        slow = self._slow_repetition(trial.key)
        if any(way not in self._streams for way in ways):
            raise TesterError(f"no streams are loaded for a {trial.mode} trial", code="not-loaded")
        gone = self._lost_share(trial)
        directions = {
            way: self._direction(way, trial, self._device(way, len(ways), chance, slow), gone)
            for way in ways
        }
        self.table.touch()
        self.clock_s += max(d.sending_time_s for d in directions.values()) + trial.residual_wait_s
        return TrialResult(directions, started=started, tester={"virtual_time_s": self.clock_s})

    def _device(self, way: str, ways: int, chance: random.Random, slow: bool) -> Device:
        reached = self._spread.get(way, 1.0)  # type: ignore[call-overload]
        return Device(self.options, ways, chance, slow, reached)

    def establish(self, trial: Trial, connections: Connections) -> PhaseCounts:
        self._next_trial()
        o, count = self.options, connections.count
        self.clock_s += trial.pause_s
        began, rate = self.clock_s, connections.rate_cps
        forwarded = count
        if not self._loopback:
            filled = self.table.fill(count, rate)
            # what is not stored lets no answer through
            forwarded = filled.forwarded if connections.tcp is None or o.table_stores else 0
        self._connections = count
        sending = count / rate * max(1.0, rate / o.tester_fps)
        self.clock_s += sending
        ended = self.clock_s
        self.clock_s += connections.wait_s
        return PhaseCounts(
            self._connection_frames("forward", count, forwarded, sending),
            began,
            ended,
            duplicate_tuples=0 if self._loopback else min(o.table_reuses, forwarded),
            started=(EPOCH + timedelta(seconds=began)).isoformat(timespec="milliseconds"),
            health={"virtual_time_s": self.clock_s},
            tcp=self._count_opened(connections, forwarded),
        )

    def _count_opened(self, connections: Connections, established: int) -> TcpCounts | None:
        self._tcp = None
        if connections.tcp is None:
            return None
        o = self.options
        delay_s = 2 * (o.tester_delay_us if self._loopback else o.delay_us) / 1e6
        refused = {"rst": "reset_refused", "icmp": "icmp_refused"}.get(o.tcp_refuses, "timed_out")
        self._tcp = TcpCounts(
            connections.count,
            established,
            **{refused: connections.count - established},
            fastest_s=delay_s if established else None,
            slowest_s=delay_s if established else None,
            mean_s=delay_s if established else None,
            sum_s=delay_s * established if established else None,
        )
        return self._tcp

    def validate(self, trial: Trial, connections: Connections) -> PhaseCounts:
        count, rate = connections.count, connections.rate_cps * (connections.alpha or 1.0)
        began = self.clock_s
        sending = count / rate * max(1.0, rate / self.options.tester_fps)
        self.clock_s += sending
        back = count if self._loopback else min(count, self.table.alive())
        self.table.touch()
        ended = self.clock_s
        self.clock_s += connections.wait_s
        if self._tcp is not None:
            count = self._tcp.established
            back = min(back, count)
            self._tcp = replace(self._tcp, requested=count, answered=back)
        return PhaseCounts(
            self._connection_frames("reverse", count, back, sending), began, ended, tcp=self._tcp
        )

    def disconnect(self, trial: Trial, connections: Connections) -> PhaseCounts:
        if self._tcp is None:
            raise TesterError("no connection of TCP was opened yet", code="not-learned")
        closed = self._tcp.established if self._loopback else self.table.alive()
        began, count = self.clock_s, self._tcp.established
        self.clock_s += connections.phase_one_s
        self.table.end()
        self._tcp = replace(self._tcp, closed=min(closed, count))
        frames = self._connection_frames("forward", count, count, connections.phase_one_s)
        return PhaseCounts(frames, began, self.clock_s, tcp=self._tcp)

    def wait(self, seconds: float) -> None:
        self.clock_s += seconds

    def describe(self) -> dict[str, Any]:
        return {"kind": self.name, "simulated": True, "options": self.options.model_dump()}

    def close(self) -> None:
        """Nothing to give back."""

    def _next_trial(self) -> None:
        self._trials += 1
        if self._trials == self.options.crash_at:
            raise TesterError(
                f"simulated failure of the tester in trial {self._trials}", code="tester-fault"
            )
        if self.options.trial_delay_s:
            time.sleep(self.options.trial_delay_s)

    def _lost_share(self, trial: Trial) -> float:
        if trial.connections is None or self._loopback or not self._connections:
            return 0.0
        return 1 - min(1.0, self.table.alive() / self._connections)

    def _connection_frames(
        self, way: Direction, count: int, back: int, sending: float
    ) -> DirectionResult:
        name = next(s.name for s in self._streams[way].streams if s.role.value == "foreground")
        counted = ClassCount("foreground", count, count, back)
        checked = min(1000, back)
        return DirectionResult({name: counted}, sending, checked=checked, matched=checked)

    def _slow_repetition(self, key: str) -> bool:
        repetition = "/".join(key.split("/")[:4])
        chance = random.Random(f"{self._seed}/slow/{repetition}")  # noqa: S311
        return chance.random() < self.options.slow_probability

    def _direction(self, way: str, trial: Trial, device: Device, gone: float) -> DirectionResult:
        o = self.options
        noisy = self._loopback and 0 <= self._trials - o.noisy_at < o.noisy_trials
        own_fps = o.tester_fps / 100 if noisy and o.noisy_at else o.tester_fps
        sending = trial.total_duration_s * max(1.0, trial.rate_fps / own_fps)
        loss = _Loss(0) if self._loopback else self._loss(way, trial, device)
        if gone and way == "reverse":  # forward, the device makes the connection again
            dead = max(loss.frames, math.ceil(trial.frames * gone))
            loss = _Loss(dead, 0.0, trial.total_duration_s, loss.gap_s)
        streams = self._streams[way].streams  # type: ignore[index]
        weights = [s.weight for s in streams]
        required = count_frames(weights, trial.frames)
        if trial.flow_starts is not None:
            required = [n - _count_before_start(trial, n) for n in required]
        returning = [s.role.value != "negative" for s in streams]
        lost = _share_losses(loss.frames, required, returning)
        block = self._delays(trial, device)
        slow = [0] * len(streams)
        if trial.frame_timeout_s is not None:
            over = int((block > trial.frame_timeout_s * 1e9).sum())
            slow = [(n - gone) * over // len(block) for n, gone in zip(required, lost, strict=True)]
        classes: dict[str, ClassCount] = {}
        quiet = self._loopback or trial.benchmark == "preflight"
        for at, stream in enumerate(streams):
            share = required[at]
            back = share - lost[at]
            late = 0 if quiet else min(o.late, back)
            surplus = 0 if self._loopback else o.surplus
            if not returning[at]:
                back = share if o.forwards_negative or self._loopback else 0
                late = surplus = slow[at] = 0
            late = min(back, late + slow[at])
            classes[stream.name] = ClassCount(
                role=stream.role.value,
                required=share,
                sent=share,
                received=back - late,
                surplus=surplus,
                late=late,
            )
        back = sum(c.received for c in classes.values() if c.role != "negative")
        returned = sum(n for n, comes in zip(required, returning, strict=True) if comes)
        checked = min(1000, back)
        wrong = 0 if self._loopback else min(o.mismatch, checked)
        delays, ipdv = self._times(trial, classes, weights, loss, block)
        return DirectionResult(
            classes=classes,
            sending_time_s=sending,
            control=o.control,
            checked=checked,
            matched=checked - wrong,
            mismatch=_simulated_mismatch(streams[0].name) if wrong else None,
            delays=delays,
            ipdv=ipdv,
            first_lost_s=loss.first_s if loss.frames else None,
            last_lost_s=loss.last_s if loss.frames else None,
            longest_gap_s=max(loss.gap_s, 1 / trial.rate_fps),
            timeline=course(trial, returned, returned - back, loss.first_s, loss.last_s),
        )

    def _loss(self, way: str, trial: Trial, device: Device) -> _Loss:
        o = self.options
        full = trial.first_segment_frames
        if trial.flow_starts is not None:  # only while all flows send is the rate the trial's
            full = max(1, full - round(trial.flow_starts.last_start_s * trial.rate_fps))
        first = device.lost(full, trial.rate_fps)
        lost, begin, end, gap = first, 0.0, trial.duration_s - 1 / trial.rate_fps, 0.0
        if trial.second_segment is not None:
            second = trial.second_segment
            more = min(o.recovery_s, second.duration_s) * second.rate_fps if first else 0.0
            if round(more):
                end = trial.duration_s + (round(more) - 1) / second.rate_fps
                lost += round(more)
        resets = trial.device_event is not None and trial.device_event.hook not in map(
            name_change_hook, CONFIGURATION_CHANGES
        )
        away_s = o.reset_s if resets else o.reconfigure_s
        if trial.device_event is not None and away_s:
            until = min(trial.device_event.at_s + away_s, trial.duration_s)
            if resets and trial.connections is not None and trial.mode == way == "reverse":
                # nothing but frames from inside makes a lost connection again
                until = until if o.reset_keeps else trial.duration_s
            gone = round((until - trial.device_event.at_s) * trial.rate_fps)
            if not first:
                begin, end = trial.device_event.at_s, until
            lost, gap = min(trial.frames, lost + gone), until - trial.device_event.at_s
        return _Loss(lost, begin, end, gap)

    def _delays(self, trial: Trial, device: Device) -> NDArray[np.int64]:
        """Draw the delays of a trial in sending order: of its tags, or a block that repeats."""
        import numpy as np

        if trial.delays is None and trial.frame_timeout_s is None:
            return np.zeros(0, dtype=np.int64)
        count = trial.delays.tags if trial.delays and trial.delays.tags else BLOCK
        if self._loopback:
            return np.full(count, round(self.options.tester_delay_us * 1000))
        return device.delays_ns(count)

    def _times(
        self,
        trial: Trial,
        classes: Mapping[str, ClassCount],
        weights: Sequence[int],
        loss: _Loss,
        block: NDArray[np.int64],
    ) -> tuple[dict[str, Distribution] | None, dict[str, Distribution] | None]:
        import numpy as np

        if trial.delays is None:
            return None, None
        back = [name for name, c in classes.items() if c.role != "negative"]
        if trial.delays.tags:
            return _make_tagged(trial, back, list(classes), weights, loss, block), None
        limit = trial.frame_timeout_s
        in_time = block if limit is None else block[block <= limit * 1e9]
        pairs = np.roll(block, -1) - block
        delays, ipdv = {}, {}
        for name in back:
            count = classes[name]
            gone = count.required - count.received
            delays[name] = _repeat_block(in_time, count.received, lost=gone)
            if not trial.delays.ipdv:
                continue
            whole = max(0, count.required - 1)
            skipped = min(whole, 2 * gone)
            ipdv[name] = _repeat_block(pairs, whole - skipped, lost=skipped)
        return delays, ipdv if trial.delays.ipdv else None


def _count_before_start(trial: Trial, frames: int) -> int:
    starts = trial.flow_starts
    if starts is None:
        return 0
    rate = frames * trial.first_segment_frames / trial.frames / trial.duration_s
    gone = 0
    for flow in range(1, starts.flows):
        before = min(frames, math.ceil(flow * starts.interval_s * rate))
        gone += len(range(flow, before, starts.flows))
    return gone


def _share_losses(lost: int, required: Sequence[int], returning: Sequence[bool]) -> list[int]:
    total = sum(n for n, back in zip(required, returning, strict=True) if back)
    shares, before = [], 0
    for count, back in zip(required, returning, strict=True):
        after = before + (count if back else 0)
        shares.append(min(count, lost * after // total - lost * before // total) if total else 0)
        before = after
    return shares


def _make_tagged(
    trial: Trial,
    back: Sequence[str],
    names: Sequence[str],
    weights: Sequence[int],
    loss: _Loss,
    delays: NDArray[np.int64],
) -> dict[str, Distribution]:
    """Tags of each class; a tag is lost when the frame in its place is."""
    import numpy as np

    total, limit = trial.frames, trial.frame_timeout_s
    whole = np.int64 if (total + 1) * (loss.frames + 1) < 1 << 63 else object
    places = np.array(trial.tag_positions, dtype=whole)
    lost = (places + 1) * loss.frames // total > places * loss.frames // total
    if limit is not None:
        lost |= delays > limit * 1e9
    kinds = np.array(list_classes(weights, 0, sum(weights)))
    of = kinds[(places % len(kinds)).astype(np.int64)]
    return {
        name: make_distribution(delays[mine & ~lost], lost=int(np.count_nonzero(mine & lost)))
        for name in back
        for mine in [of == names.index(name)]
    }


def _repeat_block(block: NDArray[np.int64], count: int, *, lost: int) -> Distribution:
    """Repeat a block of values until there are ``count`` of them."""
    if not len(block):
        return Distribution((), (), lost=lost)
    times, rest = divmod(count, len(block))
    values = round_to_buckets(block).tolist()
    count_frames = Counter({v: n * times for v, n in Counter(values).items()})
    count_frames.update(values[:rest])
    return Distribution.from_values(count_frames, lost=lost)


def _simulated_mismatch(name: str) -> dict[str, str]:
    return {
        "class": name,
        "sent": "",
        "expected": "00",
        "received": "01",
        "why": "simulated: octet 0 differs",
    }
