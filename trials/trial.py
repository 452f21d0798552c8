"""A trial, its result, and the one call between procedures and testers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Literal, Protocol

from v6t.trials.connections import Connections, PhaseOneResult
from v6t.trials.course import Course, DeviceLoad
from v6t.trials.delays import Distribution
from v6t.trials.queries import Answers, Queries
from v6t.trials.tcp import TcpFound

Mode = Literal["forward", "reverse", "bidirectional"]
"""Which directions carry traffic; bidirectional trials offer the same rate in both (GEN-02)."""

MODES: tuple[Mode, ...] = ("bidirectional", "forward", "reverse")


_GOLDEN = 0.6180339887498949


def directions_of(mode: Mode) -> tuple[str, ...]:
    """Directions that carry traffic in a mode."""
    return ("forward", "reverse") if mode == "bidirectional" else (mode,)


Ability = Literal[
    "tags",
    "every-frame",
    "ipdv",
    "frame-timeout",
    "two-rates",
    "loss-times",
    "connections",
    "flow-starts",
    "timed-flow-starts",
    "queries",
    "tcp",
]
"""What a tester may be able to do beyond counting; see :meth:`Trial.needs`."""
ABILITIES: Mapping[Ability, str] = {
    "tags": "times tagged frames",
    "every-frame": "times every frame",
    "ipdv": "keeps the order of delays",
    "frame-timeout": "knows which frames come late",
    "two-rates": "changes the rate without a gap",
    "loss-times": "knows when frames were lost",
    "connections": "learns connections",
    "flow-starts": "begins flows one after the other",
    "timed-flow-starts": "times frames, and changes the rate, of flows that begin one after the other",
    "queries": "asks and answers DNS queries",
    "tcp": "opens and closes connections of TCP",
}
"""The same in words."""
TIMING: frozenset[Ability] = frozenset({"tags", "every-frame", "frame-timeout"})
"""Abilities of a tester that takes the time of frames."""


@dataclass(frozen=True)
class DelayRequest:
    """Which one-way delays a trial must bring back, from each active direction.

    Attributes:
        tags: tagged frames per direction, foreground and background together (LAT-02); 0: every
            frame of the stream is timed (PDV-01).
        first_tag_s: the first tag goes out this long after the first frame [s] (LAT-02).
        ipdv: differences between consecutive frames too (IPDV-01); only when every frame is timed.
    """

    tags: int = 0
    first_tag_s: float = 0.0
    ipdv: bool = False


@dataclass(frozen=True)
class Segment:
    """A second stretch of traffic that follows the first without a gap (REC-01).

    Attributes:
        rate_fps: frames per second in each active direction.
        duration_s: its length [s].
    """

    rate_fps: float
    duration_s: float


@dataclass(frozen=True)
class Event:
    """Something done to the device while traffic runs (RST-01).

    Testers ignore it: whoever composes the run carries it out beside the trial. The simulated
    tester simulates the outage.

    Attributes:
        hook: name of the hook, for example ``software-reset``.
        at_s: when, after the first frame [s].
    """

    hook: str
    at_s: float


@dataclass(frozen=True)
class Starts:
    """Flows that begin one after the other (SC-04, RFC 8219 section 10.2.2).

    Frame k of every class belongs to flow ``k mod flows``. Frames whose turn comes before their
    flow has begun are not sent and not required.

    Attributes:
        flows: how many.
        interval_s: flow i begins ``i * interval_s`` after the first frame [s].
    """

    flows: int
    interval_s: float

    @property
    def last_s(self) -> float:
        """When the last flow begins [s]."""
        return (self.flows - 1) * self.interval_s


@dataclass(frozen=True)
class Trial:
    """One run of traffic at a constant rate (RFC 2544 section 23, GEN-15).

    Attributes:
        benchmark: name of the procedure that asks (``throughput``, ``selftest``, ``preflight``).
        key: identity within the run, for example ``throughput/104/bidirectional/r03/s07``.
        ipv6_frame_size, ipv4_frame_size: octets with FCS on either side; of a mix their means.
        mode: directions under load.
        rate_fps: frames per second offered in each active direction (``per_direction``).
        duration_s: length of the stream [s].
        residual_wait_s: wait for late frames before counters are read [s].
        pause_s: pause before the trial, for the device to settle [s].
        delays: delays to bring back; None: none are needed.
        frame_timeout_s: a frame whose one-way delay is longer is ``late`` and not ``received``
            (TP-06); None: frames count until the residual wait is over.
        then: traffic after the first ``duration_s``; None: none.
        event: what happens to the device meanwhile; None: nothing.
        connections: phase 1 that goes before (RFC 9693); None: the device is stateless. Where it
            is all there is (``establish``, ``tear-down``), rate and duration are those of phase 1.
        starts: when the flows begin; None: all with the first frame.
        queries: names are asked in place of frames forwarded, ``rate_fps`` of them a second, and
            what comes back is their answers; None: frames.
        bound_fps: highest rate of the search it belongs to, per direction: a tester that counts
            differently at different rates goes by this one; None: by ``rate_fps``. It follows from
            the run and is no part of what is written of a trial.
        mix: several sizes in a proportion (RFC 6985), as :func:`sizes_key` takes them; None: one.
    """

    benchmark: str
    key: str
    ipv6_frame_size: float
    ipv4_frame_size: float
    mode: Mode
    rate_fps: float
    duration_s: float
    residual_wait_s: float = 2.0
    pause_s: float = 10.0
    delays: DelayRequest | None = None
    frame_timeout_s: float | None = None
    then: Segment | None = None
    event: Event | None = None
    connections: Connections | None = None
    starts: Starts | None = None
    queries: Queries | None = None
    bound_fps: float | None = None
    mix: str | None = None

    @cached_property
    def first_frames(self) -> int:
        """Frames of the first segment in each active direction: at least one."""
        return max(1, round(self.rate_fps * self.duration_s))

    @cached_property
    def frames(self) -> int:
        """Frames required in each active direction: rate times duration, of both segments.

        Of a trial with ``starts``: turns; those before a flow's beginning are left out.
        """
        second = round(self.then.rate_fps * self.then.duration_s) if self.then else 0
        return self.first_frames + second

    @property
    def sending_s(self) -> float:
        """Length of the whole stream [s]."""
        return self.duration_s + (self.then.duration_s if self.then else 0.0)

    @property
    def most_fps(self) -> float:
        """Highest rate per direction of the search that contains this trial, or the trial's own rate.

        The tester tells frames apart in the same way during a whole search.
        """
        return max(self.rate_fps, self.bound_fps or 0.0)

    @property
    def needs(self) -> frozenset[Ability]:
        """What the tester must be able to do for this trial, beyond counting."""
        abilities: set[Ability] = set()
        if self.delays is not None:
            abilities.add("tags" if self.delays.tags else "every-frame")
            if self.delays.ipdv:
                abilities.add("ipdv")
        if self.frame_timeout_s is not None:
            abilities.add("frame-timeout")
        if self.then is not None:
            abilities.update(("two-rates", "loss-times"))
        if self.event is not None:
            abilities.add("loss-times")
        if self.connections is not None:
            abilities.add("connections")
            if self.connections.tcp is not None:
                abilities.add("tcp")
        if self.starts is not None:
            abilities.add("flow-starts")
            if abilities & {*TIMING, "two-rates"}:
                abilities.add("timed-flow-starts")
        if self.queries is not None:
            abilities.add("queries")
        return frozenset(abilities)

    @cached_property
    def tag_frames(self) -> tuple[int, ...]:
        """Place of each tag in the stream of its direction, from 0 (LAT-02).

        The frames sent from ``first_tag_s`` on are cut into as many equal stretches as there are
        tags, and each stretch holds one. Within it the place moves from stretch to stretch by the
        golden section: with a fixed place, tags every 120 frames of a mixture that repeats every
        2 would all be foreground (LAT-06). The class of the frame at that place in the mixed
        order of classes is the class of the tag. The first tag opens the first stretch.
        """
        if self.delays is None or not self.delays.tags:
            raise ValueError("this trial has no tags")
        start = math.ceil(self.delays.first_tag_s * self.rate_fps)
        return _tag_places(start, self.frames - start, self.delays.tags)


def sizes_key(ipv6_frame_size: float, mix: str | None) -> str:
    """The frame sizes of a point within the keys of its trials.

    Args:
        ipv6_frame_size: listed.
        mix: ``"84/64x28,1518/1498x4"``: sizes on both sides and frames of each; None: one size.
    """
    if mix is None:
        return f"{ipv6_frame_size}"
    return f"imix-{mix.replace('/', '_').replace(',', '-')}"


@lru_cache(maxsize=4)  # the repetitions of a point have the same
def _tag_places(start: int, room: int, tags: int) -> tuple[int, ...]:
    bounds = [number * room // tags for number in range(tags + 1)]
    return tuple(
        start + begin + int((end - begin) * (number * _GOLDEN % 1))
        for number, (begin, end) in enumerate(pairwise(bounds))
    )


@dataclass(frozen=True)
class ClassCount:
    """Frames of one traffic class in one direction.

    Attributes:
        role: ``foreground``, ``background`` or ``negative``.
        required: frames the trial asked for.
        sent: frames that left the tester.
        received: distinct frames that came back in time.
        surplus: received beyond once: duplicates.
        out_of_order: received after a frame with a higher sequence number.
        late: came back after the residual wait or after the per-frame timeout.
    """

    role: str
    required: int
    sent: int
    received: int
    surplus: int = 0
    out_of_order: int = 0
    late: int = 0


@dataclass(frozen=True)
class DirectionResult:
    """What happened in one direction.

    Attributes:
        classes: counts per traffic class name.
        sending_time_s: from the first frame to the end of the last frame's slot [s].
        sending_error_s: that time is known so closely, either way [s]; None: it was taken where
            frames are sent.
        control: frames that are no test frames (ARP, ND, RA, LLDP, ICMP errors; GEN-24).
        checked: received frames compared with the reference translation.
        matched: those that were equal.
        mismatch: first difference: ``{"class", "sent", "expected", "received", "why"}``, frames
            in hexadecimal; None when all compared frames matched.
        behaviour: compared frames by what they show of the device where RFCs leave it a choice,
            in words ("outer ECN: copied from the inner header"); None when they show nothing.
        missing: an example of a frame that was sent and never came back, in the same form with
            ``received`` empty; None when nothing was lost or the tester keeps no example.
        delay_us: ``{"min", "p50", "p99_9", "max"}`` one-way delays [µs] where measured.
        delays: one-way delays by class name when the trial asked for ``delays``, else None. Of a
            class, ``frames + lost`` is the number of its tags, or of its ``required`` frames when
            every frame was asked for; less where the tester could time only a sample (PDV-03).
            Classes that must be dropped (``negative``) are left out.
        ipdv: differences of the delays of consecutive frames of a class, by class name, when the
            trial asked for them; see :func:`~v6t.trials.delays.differences`.
        first_lost_s, last_lost_s: when the first and the last of the frames that were lost were
            sent, after the first frame of the direction [s]; None when nothing was lost or the
            tester cannot tell. Required when the trial has ``then`` or ``event``.
        longest_gap_s: longest time between two frames received one after the other [s]; None when
            the tester does not keep it.
        timed_share: share of the connections whose frames could be timed, tags among them, or of the
            load; None: all.
        timed_of: "load": the timed frames are a stream of their own beside it, and that share of
            all that is sent meanwhile; None: connections.
        course: what arrived and what was lost over the trial's time; None when the tester does
            not keep it.
        answers: what was wrong with answers, and what the device asked; None where frames are
            forwarded.
        change_late_s: how much later than asked the second rate began after the first, less where
            negative [s]; None: there is none, or it is the tester's own schedule.
    """

    classes: Mapping[str, ClassCount]
    sending_time_s: float
    control: int = 0
    checked: int = 0
    matched: int = 0
    mismatch: Mapping[str, str] | None = None
    behaviour: Mapping[str, int] | None = None
    missing: Mapping[str, str] | None = None
    delay_us: Mapping[str, float] | None = None
    delays: Mapping[str, Distribution] | None = None
    ipdv: Mapping[str, Distribution] | None = None
    first_lost_s: float | None = None
    last_lost_s: float | None = None
    longest_gap_s: float | None = None
    sending_error_s: float | None = None
    timed_share: float | None = None
    timed_of: Literal["load"] | None = None
    course: Course | None = None
    answers: Answers | None = None
    change_late_s: float | None = None

    @property
    def sending_at_most_s(self) -> float:
        """The sending time that is proven [s]."""
        return self.sending_time_s + (self.sending_error_s or 0.0)

    def total(self, what: str) -> int:
        """Sum of a count over foreground and background (negative frames are not for return)."""
        return sum(int(getattr(c, what)) for c in self.classes.values() if c.role != "negative")


@dataclass(frozen=True)
class TrialResult:
    """Counters of one trial.

    Attributes:
        directions: result per active direction.
        faults: what was wrong with the *tester* (its own ring drops, sending too slow, a worker
            that died). A trial with faults is invalid, never device loss (GEN-23, SELF-05).
        started: wall clock time of the first frame, ISO 8601, UTC.
        tester: health figures of the tester, free form.
        connections: what became of phase 1, where the trial had one. If it did not fill the table
            there was no phase 2 and ``directions`` is empty.
        device: how busy each watched device was, by its name; empty where nobody watched.
        modifier: what went on beside the traffic, and how often it went right; empty: nothing.
        disturbed: the faults are there at whatever rate, such as a clock that was stepped: they say
            nothing of what the tester carries.
    """

    directions: Mapping[str, DirectionResult]
    faults: tuple[str, ...] = ()
    started: str = ""
    tester: Mapping[str, Any] = field(default_factory=dict)
    connections: PhaseOneResult | None = None
    device: Mapping[str, DeviceLoad] = field(default_factory=dict)
    modifier: Mapping[str, Any] = field(default_factory=dict)
    disturbed: bool = False


class Measure(Protocol):
    """Run one trial, return what was counted. Time passes on the other side."""

    def __call__(self, trial: Trial) -> TrialResult:
        """Run one trial."""


_ADDED = (
    *("delays", "frame_timeout_s", "then", "event", "connections", "starts", "queries"),
    *("bound_fps", "mix"),
)
_ADDED_RESULTS = (
    *("behaviour", "delays", "ipdv", "first_lost_s", "last_lost_s", "longest_gap_s"),
    *("sending_error_s", "timed_share", "timed_of", "course", "answers", "change_late_s"),
)


_NAMES = {
    kind: tuple(f.name for f in fields(kind))
    for kind in (Trial, ClassCount, DirectionResult, TrialResult)
}


def trial_to_json(trial: Trial) -> dict[str, Any]:
    """A trial as JSON-like values; what it does not ask for is left out."""
    fields: dict[str, Any] = {
        k: asdict(v) if is_dataclass(v) and not isinstance(v, type) else v
        for k, v in _values(trial).items()
        if k != "bound_fps" and (k not in _ADDED or v is not None)
    }
    if trial.connections is not None:
        _without_defaults(fields["connections"])
    return fields


def _without_defaults(connections: dict[str, Any]) -> dict[str, Any]:
    """Connections that are none of TCP say nothing of it; nor of a device that counts what all count."""
    for name in ("tcp", "by_endpoint"):
        if not connections.get(name, True):
            del connections[name]
    return connections


def result_to_json(result: TrialResult) -> dict[str, Any]:
    """A result as JSON-like values, the inverse of :func:`result_from_json`."""
    data = _values(result)
    data["directions"] = {way: _direction_json(d) for way, d in result.directions.items()}
    if result.connections is None:
        del data["connections"]
    else:
        data["connections"] = _without_defaults(asdict(result.connections))
    if result.device:
        data["device"] = {name: load.to_json() for name, load in result.device.items()}
    else:
        del data["device"]
    if not result.modifier:
        del data["modifier"]
    if not result.disturbed:
        del data["disturbed"]
    return data


def _direction_json(counted: DirectionResult) -> dict[str, Any]:
    fields = {k: v for k, v in _values(counted).items() if k not in _ADDED_RESULTS or v is not None}
    fields["classes"] = {name: _values(count) for name, count in counted.classes.items()}
    for name in ("delays", "ipdv"):
        if name in fields:
            fields[name] = {c: d.to_json() for c, d in fields[name].items()}
    if counted.course is not None:
        fields["course"] = counted.course.to_json()
    if counted.answers is not None:
        fields["answers"] = counted.answers.to_json()
    return fields


def _values(record: Any) -> dict[str, Any]:
    """Fields of a dataclass by name; ``asdict`` copies what is in them, however deep."""
    return {name: getattr(record, name) for name in _NAMES[type(record)]}


def result_from_json(data: Mapping[str, Any]) -> TrialResult:
    """Read back what :func:`result_to_json` wrote."""
    return TrialResult(
        directions={way: _direction(d) for way, d in data["directions"].items()},
        faults=tuple(data.get("faults", ())),
        started=data.get("started", ""),
        tester=data.get("tester", {}),
        connections=_connections(data["connections"]) if data.get("connections") else None,
        device={n: DeviceLoad.from_json(d) for n, d in data.get("device", {}).items()},
        modifier=_beside(data.get("modifier", {})),
        disturbed=bool(data.get("disturbed", False)),
    )


_BESIDE: Mapping[str, Any] = {
    "times": int,
    "right": int,
    "slowest_s": (int, float),
    "what": str,
    "why": str,
}


def _beside(data: Any) -> Mapping[str, Any]:
    """Counters of what went on beside the traffic; none, or all of them."""
    if not isinstance(data, Mapping):
        raise TypeError(f"the counters of its modifier are {data!r}")
    for name, kind in _BESIDE.items() if data else ():
        if not isinstance(data[name], kind):
            raise TypeError(f"its modifier's {name} is {data[name]!r}")
    return data


def _connections(data: Mapping[str, Any]) -> PhaseOneResult:
    values: dict[str, Any] = {**data}
    if values.get("tcp") is not None:
        values["tcp"] = TcpFound(**values["tcp"])
    return PhaseOneResult(**values)


def _direction(data: Mapping[str, Any]) -> DirectionResult:
    values: dict[str, Any] = {
        f.name: data[f.name] for f in fields(DirectionResult) if f.name in data
    }
    values["classes"] = {n: ClassCount(**c) for n, c in data["classes"].items()}
    for name in ("delays", "ipdv"):
        if values.get(name) is not None:
            stored: Mapping[str, Mapping[str, Any]] = data[name]
            values[name] = {c: Distribution.from_json(d) for c, d in stored.items()}
    if values.get("course") is not None:
        values["course"] = Course.from_json(data["course"])
    if values.get("answers") is not None:
        values["answers"] = Answers(**data["answers"])
    return DirectionResult(**values)
