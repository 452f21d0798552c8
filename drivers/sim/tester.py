"""The simulated tester: virtual time, a device with programmable limits, delays and faults.

For rehearsing campaigns (``--tester sim``), for testing procedures, for estimating time. Chance
is drawn from the seed and the trial's key, so a resumed run meets the same device.
"""

import math
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from itertools import accumulate, pairwise
from typing import Any, get_args

import numpy as np
from v6t.base.errors import TesterError
from v6t.drivers.delays import make_distribution, round_to_buckets
from v6t.drivers.device import DeviceSession
from v6t.drivers.sim.device import BLOCK_FRAMES, Device, SimOptions, SimTable, compute_spread
from v6t.drivers.tester import Oracle, PhaseCounts, select_directions
from v6t.packets.arrays import I64, Mask
from v6t.packets.direction import Direction
from v6t.profiles.compiler.schedule import count_frames, list_classes
from v6t.profiles.streams import StreamSet
from v6t.trials.connections import Connections, TcpCounts
from v6t.trials.delays import Distribution
from v6t.trials.result import (
    Answers,
    ClassCount,
    DirectionResult,
    Timeline,
    TrialResult,
    choose_slot_s,
)
from v6t.trials.trial import CONFIGURATION_CHANGES, Capability, Queries, Trial, name_change_hook

__all__ = ["EPOCH", "SimOptions", "SimTester"]

EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)
"""Where virtual time starts: no simulated result can be mistaken for a real one by its date."""
MAX_SHOWN_S = 1e11  # Virtual times above are shown as this, in the year 5168: dates end in 9999


@dataclass(frozen=True)
class _Loss:
    """Loss of a direction, spread evenly between two sending times, and the gap at the receiver [s]."""

    frames: int
    first_s: float = 0.0
    last_s: float = 0.0
    gap_s: float = 0.0


class SimTester:
    """Simulated tester; in loopback only its own capacity limits the rate."""

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

    def read_clock(self) -> float:
        return self.table.clock_s

    def wait(self, seconds: float) -> None:
        self.table.clock_s += seconds

    def open(self) -> None:
        """Do nothing; the simulation needs no resources."""

    def device_state(self) -> SimTable:
        return self.table

    def device_session(self) -> DeviceSession | None:
        return None

    def load(self, streams: Mapping[Direction, StreamSet], oracle: Oracle) -> None:
        self._streams = dict(streams)
        o = self.options
        if o.cores > 1 and not self._loopback:
            self._spread = {w: compute_spread(s, o.cores, o.hashes) for w, s in streams.items()}

    def measure(self, trial: Trial) -> TrialResult:
        """Simulate a trial; virtual time advances by its length."""
        self._next_trial()
        chance = random.Random(f"{self._seed}/{trial.key}")  # noqa: S311  (not for secrets)
        self.wait(trial.pause_s)
        started = self._format_time()
        directions: dict[str, DirectionResult] = {}
        if trial.queries is not None:
            device = None if self._loopback else Device(self.options, 1, chance, False)
            directions["forward"] = self._simulate_answers(trial, trial.queries, device)
        else:
            loaded = select_directions(trial, self._streams)
            repetition = "/".join(trial.key.split("/")[:4])
            mode = random.Random(f"{self._seed}/slow/{repetition}")  # noqa: S311
            slow = mode.random() < self.options.slow_probability
            for direction in loaded:
                reached = self._spread.get(direction, 1.0)
                device = Device(self.options, len(loaded), chance, slow, reached)
                directions[direction] = self._simulate(direction, trial, device)
            self.table.refresh()
        self.wait(max(d.sending_time_s for d in directions.values()) + trial.residual_wait_s)
        health = {"virtual_time_s": self.read_clock()}
        return TrialResult(directions, started=started, tester=health)

    def establish(self, trial: Trial, connections: Connections) -> PhaseCounts:
        self._next_trial()
        o, count, tcp = self.options, connections.count, connections.tcp
        self.wait(trial.pause_s)
        began, started = self.table.clock_s, self._format_time()
        forwarded = count
        if not self._loopback:
            forwarded = self.table.fill(count, connections.rate_cps)
            # answers of connections that are not stored do not pass
            forwarded = 0 if tcp is not None and not o.table_stores else forwarded
        self._connections = count
        self._tcp = None if tcp is None else self._make_tcp_counts(count, forwarded)
        sending_s = self._send_connections(count, connections.rate_cps)
        self.wait(connections.wait_s)
        return PhaseCounts(
            self._count_connections("forward", count, forwarded, sending_s),
            began,
            duplicate_tuples=0 if self._loopback else min(o.table_reuses, forwarded),
            started=started,
            health={"virtual_time_s": self.table.clock_s},
            tcp=self._tcp,
        )

    def validate(self, trial: Trial, connections: Connections) -> PhaseCounts:
        began, count = self.table.clock_s, connections.count
        sending_s = self._send_connections(count, connections.rate_cps * (connections.alpha or 1.0))
        back = count if self._loopback else min(count, self.table.count_alive())
        self.table.refresh()
        self.wait(connections.wait_s)
        if self._tcp is not None:
            count = self._tcp.established
            back = min(back, count)
            self._tcp = replace(self._tcp, requested=count, answered=back)
        counted = self._count_connections("reverse", count, back, sending_s)
        return PhaseCounts(counted, began, tcp=self._tcp)

    def disconnect(self, trial: Trial, connections: Connections) -> PhaseCounts:
        if self._tcp is None:
            raise TesterError("no TCP connections were opened yet", code="not-learned")
        began, count = self.table.clock_s, self._tcp.established
        closed = count if self._loopback else self.table.count_alive()
        self.wait(connections.phase_one_s)
        self.table.close_connections()
        self._tcp = replace(self._tcp, closed=min(closed, count))
        counted = self._count_connections("forward", count, count, connections.phase_one_s)
        return PhaseCounts(counted, began, tcp=self._tcp)

    def describe(self) -> dict[str, Any]:
        return {"kind": self.name, "simulated": True, "options": self.options.model_dump()}

    def close(self) -> None:
        """Do nothing; the simulation holds no resources."""

    def _next_trial(self) -> None:
        """Count the trial, then fail or wait if the options require it."""
        self._trials += 1
        if self._trials == self.options.crash_at:
            problem = f"simulated failure of the tester in trial {self._trials}"
            raise TesterError(problem, code="tester-fault")
        if self.options.trial_delay_s:
            time.sleep(self.options.trial_delay_s)

    def _format_time(self) -> str:
        shown_s = min(self.table.clock_s, MAX_SHOWN_S)
        return (EPOCH + timedelta(seconds=shown_s)).isoformat(timespec="milliseconds")

    def _make_tcp_counts(self, attempted: int, established: int) -> TcpCounts:
        """Return the counts of TCP connections after their opening."""
        o = self.options
        refused = {"rst": "reset_refused", "icmp": "icmp_refused"}.get(o.tcp_refuses, "timed_out")
        counts: dict[str, Any] = {refused: attempted - established}
        if established:
            delay_s = 2 * (o.tester_delay_us if self._loopback else o.delay_us) / 1e6
            counts |= dict.fromkeys(("fastest_s", "slowest_s", "mean_s"), delay_s)
            counts["sum_s"] = delay_s * established
        return TcpCounts(attempted, established, **counts)

    def _send_connections(self, count: int, rate_cps: float) -> float:
        """Advance virtual time by one frame per connection; return that duration [s]."""
        sending_s = count / rate_cps * max(1.0, rate_cps / self.options.tester_fps)
        self.wait(sending_s)
        return sending_s

    def _count_connections(
        self, direction: Direction, count: int, back: int, sending_s: float
    ) -> DirectionResult:
        streams = self._streams[direction].streams
        name = next(s.name for s in streams if s.role.value == "foreground")
        counted = ClassCount("foreground", count, count, back)
        checked = min(1000, back)
        return DirectionResult({name: counted}, sending_s, checked=checked, matched=checked)

    def _simulate_answers(
        self, trial: Trial, queries: Queries, device: Device | None
    ) -> DirectionResult:
        """Simulate the answers to queries; without a device the tester asks itself."""
        frames, o = trial.frames, self.options
        lost = late = wrong = 0
        if device is not None:
            lost = device.count_lost(frames, trial.rate_fps)
            late = 0 if trial.benchmark == "preflight" else min(o.late, frames - lost)
            wrong = min(o.mismatch, frames - lost - late)
        received = frames - lost - late
        # a cached name needs no query, one with a native AAAA record one query
        fresh = round(frames * (1 - queries.cached_share))
        reasons = {"no answer": lost, "late": late, "wrong AAAA record": wrong}
        counted = ClassCount("foreground", frames, frames, received - wrong, late=late)
        return DirectionResult(
            classes={"queries": counted},
            sending_time_s=trial.total_duration_s * max(1.0, trial.rate_fps / o.tester_fps),
            checked=received,
            matched=received - wrong,
            mismatch=_make_mismatch("queries", "wrong AAAA record") if wrong else None,
            answers=Answers(
                {why: count for why, count in reasons.items() if count},
                fresh,
                0 if queries.is_selftest else round(fresh * (1 - queries.native_aaaa_share)),
                cached_names=queries.cached_names if queries.cached_share else 0,
            ),
        )

    def _simulate(self, direction: Direction, trial: Trial, device: Device) -> DirectionResult:
        o = self.options
        noisy = self._loopback and 0 <= self._trials - o.noisy_at < o.noisy_trials
        own_fps = o.tester_fps / 100 if noisy and o.noisy_at else o.tester_fps
        loss = _Loss(0) if self._loopback else self._simulate_loss(direction, trial, device)
        established = self._connections if trial.connections and not self._loopback else 0
        if direction == "reverse" and established:
            # forward, the device makes the connection again
            gone = 1 - min(1.0, self.table.count_alive() / established)
            if gone:
                dead = max(loss.frames, math.ceil(trial.frames * gone))
                loss = _Loss(dead, 0.0, trial.total_duration_s, loss.gap_s)
        streams = self._streams[direction].streams
        weights = [s.weight for s in streams]
        required = [n - _count_before_start(trial, n) for n in count_frames(weights, trial.frames)]
        returning = [s.role.value != "negative" for s in streams]
        lost = _share_losses(loss.frames, required, returning)
        block = self._draw_delays(trial, device)
        limit = trial.frame_timeout_s
        over = 0 if limit is None else int((block > limit * 1e9).sum())
        quiet = self._loopback or trial.benchmark == "preflight"
        classes: dict[str, ClassCount] = {}
        for stream, share, missing, comes in zip(streams, required, lost, returning, strict=True):
            back, late, surplus = share - missing, 0, 0
            if comes:
                slow = back * over // len(block) if over else 0
                late = min(back, (0 if quiet else min(o.late, back)) + slow)
                surplus = 0 if self._loopback else o.surplus
            elif not (o.forwards_negative or self._loopback):
                back = 0
            role, received = stream.role.value, back - late
            classes[stream.name] = ClassCount(role, share, share, received, surplus, late=late)
        back = sum(c.received for c in classes.values() if c.role != "negative")
        returned = sum(n for n, comes in zip(required, returning, strict=True) if comes)
        checked = min(1000, back)
        wrong = 0 if self._loopback else min(o.mismatch, checked)
        delays, ipdv = _make_times(trial, classes, weights, loss, block)
        return DirectionResult(
            classes=classes,
            sending_time_s=trial.total_duration_s * max(1.0, trial.rate_fps / own_fps),
            control=o.control,
            checked=checked,
            matched=checked - wrong,
            mismatch=_make_mismatch(streams[0].name, "octet 0 differs") if wrong else None,
            delays=delays,
            ipdv=ipdv,
            first_lost_s=loss.first_s if loss.frames else None,
            last_lost_s=loss.last_s if loss.frames else None,
            longest_gap_s=max(loss.gap_s, 1 / trial.rate_fps),
            timeline=_make_timeline(trial, returned, returned - back, loss),
        )

    def _simulate_loss(self, direction: str, trial: Trial, device: Device) -> _Loss:
        o, event = self.options, trial.device_event
        full = trial.first_segment_frames
        if trial.flow_starts is not None:  # only while all flows send is the rate the trial's
            full = max(1, full - round(trial.flow_starts.last_start_s * trial.rate_fps))
        first = device.count_lost(full, trial.rate_fps)
        lost, begin, end, gap = first, 0.0, trial.duration_s - 1 / trial.rate_fps, 0.0
        if (second := trial.second_segment) is not None and first:
            more = round(min(o.recovery_s, second.duration_s) * second.rate_fps)
            if more:
                end = trial.duration_s + (more - 1) / second.rate_fps
                lost += more
        if event is not None:
            resets = event.hook not in map(name_change_hook, CONFIGURATION_CHANGES)
            away_s = o.reset_s if resets else o.reconfigure_s
            if away_s:
                until = min(event.at_s + away_s, trial.duration_s)
                if resets and trial.connections and trial.mode == direction == "reverse":
                    # only frames from inside create a lost connection again
                    until = until if o.reset_keeps else trial.duration_s
                gap = until - event.at_s
                if not first:
                    begin, end = event.at_s, until
                lost = min(trial.frames, lost + round(gap * trial.rate_fps))
        return _Loss(lost, begin, end, gap)

    def _draw_delays(self, trial: Trial, device: Device) -> I64:
        """Draw the delays of a trial's tags, or a block of delays to repeat, in sending order."""
        if trial.delays is None and trial.frame_timeout_s is None:
            return np.zeros(0, dtype=np.int64)
        count = trial.delays.tags if trial.delays and trial.delays.tags else BLOCK_FRAMES
        if self._loopback:
            return np.full(count, round(self.options.tester_delay_us * 1000))
        return device.draw_delays_ns(count)


def _make_mismatch(name: str, why: str) -> dict[str, str]:
    frames = {"sent": "", "expected": "00", "received": "01"}
    return {"class": name, **frames, "why": f"simulated: {why}"}


def _count_before_start(trial: Trial, frames: int) -> int:
    """Count the frames of a class that are not sent because their flow has not begun."""
    if (starts := trial.flow_starts) is None:
        return 0
    rate = frames * trial.first_segment_frames / trial.frames / trial.duration_s
    starting = (math.ceil(flow * starts.interval_s * rate) for flow in range(starts.flows))
    return sum(len(range(n, min(frames, at), starts.flows)) for n, at in enumerate(starting))


def _share_losses(lost: int, required: Sequence[int], returning: Sequence[bool]) -> list[int]:
    """Share losses among the classes that return, by their frames."""
    ends = list(accumulate(n * back for n, back in zip(required, returning, strict=True)))
    lost_by_end = [lost * end // ends[-1] if ends[-1] else 0 for end in ends]
    shares = (after - before for before, after in pairwise([0, *lost_by_end]))
    return list(map(min, required, shares))


def _make_times(
    trial: Trial, classes: Mapping[str, ClassCount], weights: Sequence[int], loss: _Loss, block: I64
) -> tuple[dict[str, Distribution] | None, dict[str, Distribution] | None]:
    """Return the delays and the IPDV by class, each None if the trial does not measure it."""
    if trial.delays is None:
        return None, None
    back = {name: c for name, c in classes.items() if c.role != "negative"}
    if trial.delays.tags:
        of, lost = _simulate_tags(trial, weights, loss, block)
        tagged = {}
        for number, name in enumerate(classes):
            if name in back:
                gone = int(np.count_nonzero(lost & (of == number)))
                tagged[name] = make_distribution(block[(of == number) & ~lost], lost=gone)
        return tagged, None
    limit = trial.frame_timeout_s
    in_time = block if limit is None else block[block <= limit * 1e9]
    pairs = np.roll(block, -1) - block
    delays, ipdv = {}, {}
    for name, count in back.items():
        gone = count.required - count.received
        delays[name] = _repeat_block(in_time, count.received, lost=gone)
        if trial.delays.ipdv:
            whole = max(0, count.required - 1)
            skipped = min(whole, 2 * gone)
            ipdv[name] = _repeat_block(pairs, whole - skipped, lost=skipped)
    return delays, ipdv if trial.delays.ipdv else None


def _simulate_tags(
    trial: Trial, weights: Sequence[int], loss: _Loss, delays: I64
) -> tuple[I64, Mask]:
    """Simulate the tags; return the class number of each, and whether each is lost."""
    total, limit = trial.frames, trial.frame_timeout_s
    whole = np.int64 if (total + 1) * (loss.frames + 1) < 1 << 63 else object
    places = np.array(trial.tag_positions, dtype=whole)
    lost = (places + 1) * loss.frames // total > places * loss.frames // total
    if limit is not None:
        lost |= delays > limit * 1e9
    kinds = np.array(list_classes(weights, 0, sum(weights)))
    return kinds[(places % len(kinds)).astype(np.int64)], lost


def _repeat_block(block: I64, count: int, *, lost: int) -> Distribution:
    """Repeat a block of values until there are ``count`` of them."""
    if not len(block):
        return Distribution((), (), lost=lost)
    times, rest = divmod(count, len(block))
    values = round_to_buckets(block).tolist()
    counts = Counter({v: n * times for v, n in Counter(values).items()})
    counts.update(values[:rest])
    return Distribution.from_values(counts, lost=lost)


def _make_timeline(trial: Trial, required: int, lost: int, loss: _Loss) -> Timeline | None:
    """Return a timeline with evenly spread losses, or None if flows begin one after the other."""
    if trial.flow_starts is not None:
        return None
    width = choose_slot_s(trial.total_duration_s)
    slots = max(1, -(-round(trial.total_duration_s * 1000) // round(width * 1000)))
    starts_s = np.arange(slots) * width
    due = np.minimum(trial.first_segment_frames, trial.rate_fps * starts_s)
    if (second := trial.second_segment) is not None:
        due += second.rate_fps * np.maximum(0.0, starts_s - trial.duration_s)
    due = np.rint(required / trial.frames * due)
    span = max(loss.last_s - loss.first_s, 1e-9)
    gone = np.rint(lost * np.clip((starts_s - loss.first_s) / span, 0.0, 1.0))
    lost_in = np.diff(gone, append=lost).astype(int)
    received = np.maximum(0, np.diff(due, append=required).astype(int) - lost_in)
    return Timeline(width, tuple(received.tolist()), tuple(lost_in.tolist()))
