"""Trials: what a tester has to send and to count."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Literal

from v6t.trials.connections import Connections

Mode = Literal["forward", "reverse", "bidirectional"]
"""Directions that carry traffic; bidirectional trials offer the same rate in both."""

MODES: tuple[Mode, ...] = ("bidirectional", "forward", "reverse")

_GOLDEN_SECTION = 0.6180339887498949


def divide(whole: int, part: int, parts: int) -> int:
    """Return the share of a part, so that all shares add up to the whole."""
    return whole * (part + 1) // parts - whole * part // parts


def list_directions(mode: Mode) -> tuple[str, ...]:
    """Return the directions that carry traffic in a mode."""
    return ("forward", "reverse") if mode == "bidirectional" else (mode,)


Capability = Literal[
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
"""What a tester may be able to do beyond counting; see :attr:`Trial.required_capabilities`."""
CAPABILITIES: Mapping[Capability, str] = {
    "tags": "times tagged frames",
    "every-frame": "times every frame",
    "ipdv": "reports delays in the order of frames",
    "frame-timeout": "detects late frames",
    "two-rates": "changes the rate without a gap",
    "loss-times": "records when frames were lost",
    "connections": "learns connections",
    "flow-starts": "starts flows one after the other",
    "timed-flow-starts": "times frames and changes the rate while flows start one after the other",
    "queries": "sends and answers DNS queries",
    "tcp": "opens and closes TCP connections",
}
"""Descriptions of the capabilities."""
TIMING_CAPABILITIES: frozenset[Capability] = frozenset({"tags", "every-frame", "frame-timeout"})
"""Capabilities of a tester that measures one-way delays."""

RFC_MIN_TAGS = 500  # smallest number of tagged frames in a latency trial (RFC 8219, section 7.2)
MAX_QUERIES_PER_NAME = 2  # most queries of a DNS64 server for one name (RFC 8219, section 9.2.1)
RESET_HOOKS = ("hardware-reset", "software-reset", "power-cycle")
"""Hooks that reset a device (RFC 6201)."""
NO_CHANGE = "nothing"  # a stream without a change, for comparison
CONFIGURATION_CHANGES = (NO_CHANGE, "add", "change", "remove")
"""Changes of a configuration, in the order in which they are made."""


def name_change_hook(change: str) -> str:
    """Return the name of the hook that makes a change."""
    return f"reconfiguration-{change}"


@dataclass(frozen=True)
class DelayRequest:
    """One-way delays that a trial must report for each active direction."""

    tags: int = 0
    """tagged frames per direction, foreground and background together; 0: the tester times every frame."""
    first_tag_s: float = 0.0  #: time of the first tag after the first frame [s]
    ipdv: bool = False  #: report the differences between consecutive frames, too; only without tags


@dataclass(frozen=True)
class Segment:
    """A second period of traffic, which follows the first without a gap."""

    rate_fps: float  #: rate per direction [fps]
    duration_s: float  #: length of the period [s]


@dataclass(frozen=True)
class FlowStarts:
    """Flows that start one after the other (RFC 8219, section 10.2.2).

    Frame k of every class belongs to flow ``k mod flows``, and flow i starts ``i * interval_s`` after
    the first frame. Frames of a flow that has not started are neither sent nor required.
    """

    flows: int  #: number of flows
    interval_s: float  #: time between the starts of two flows [s]

    @property
    def last_start_s(self) -> float:
        """Time at which the last flow starts [s]."""
        return (self.flows - 1) * self.interval_s


@dataclass(frozen=True)
class DeviceEvent:
    """A hook that the run calls while traffic runs.

    Testers ignore it; only the simulated tester simulates the outage.
    """

    hook: str  #: name of the hook
    at_s: float  #: time of the call after the first frame [s]


@dataclass(frozen=True)
class Queries:
    """DNS queries that replace the frames of a trial."""

    cached_share: float = 0.0  #: share of the names that are queried before the trial [0 to 1]
    native_aaaa_share: float = 0.0  #: share of the names that have an AAAA record [0 to 1]
    timeout_s: float = 1.0  #: longest time to an answer [s]
    cached_names: int = 1000
    """number of names queried before the trial, if ``cached_share`` is not 0."""
    is_selftest: bool = False
    """query the tester's own authoritative server, without a device (section 9.2.1); every name has an AAAA
    record."""


@dataclass(frozen=True)
class Trial:
    """One period of traffic at a constant rate (RFC 2544, section 23)."""

    benchmark: str  #: name of the procedure, for example ``throughput`` or ``selftest``
    key: str  #: identity within the run, for example ``throughput/104/bidirectional/r03/s07``
    ipv6_frame_size: float  #: with FCS, on the IPv6 side; the mean of a mix [octets]
    ipv4_frame_size: float  #: with FCS, on the IPv4 side; the mean of a mix [octets]
    mode: Mode  #: directions under load
    rate_fps: float  #: frames per second offered in each active direction
    duration_s: float  #: length of the stream, or of its first segment [s]
    residual_wait_s: float = 2.0  #: wait for late frames before counters are read [s]
    pause_s: float = 10.0  #: pause before the trial [s]
    delays: DelayRequest | None = None  #: one-way delays to report; None: no delays
    frame_timeout_s: float | None = None
    """a frame with a longer one-way delay is ``late`` and not ``received``; None: frames count until the
    residual wait is over."""
    second_segment: Segment | None = None
    """traffic after the first ``duration_s``; None: no second rate."""
    device_event: DeviceEvent | None = None
    """operation on the device during the trial; None: no operation."""
    connections: Connections | None = None
    """phase 1 before the traffic (RFC 9693); None: the device is stateless. If phase 1 is the whole trial
    (``establish``, ``tear-down``), rate and duration are those of phase 1."""
    flow_starts: FlowStarts | None = None
    """start times of the flows; None: all flows start with the first frame."""
    queries: Queries | None = None
    """name resolution instead of forwarding, with ``rate_fps`` queries per second; None: frames are
    forwarded."""
    search_limit_fps: float | None = None
    """upper bound of the search that contains the trial, per direction. A tester that counts differently at
    different rates uses this rate during a whole search. None: the trial's own rate. The journal does not
    store it."""
    mix: str | None = None
    """frame sizes in a proportion (RFC 6985), ``"84/64x28,1518/1498x4"``; None: one size."""

    @cached_property
    def first_segment_frames(self) -> int:
        """Frames of the first segment in each active direction, at least one."""
        return max(1, round(self.rate_fps * self.duration_s))

    @cached_property
    def frames(self) -> int:
        """Frames of both segments in each active direction, flows that have not started included."""
        second = self.second_segment
        frames = round(second.rate_fps * second.duration_s) if second else 0
        return self.first_segment_frames + frames

    @property
    def total_duration_s(self) -> float:
        """Length of both segments [s]."""
        return self.duration_s + (self.second_segment.duration_s if self.second_segment else 0.0)

    @property
    def max_rate_fps(self) -> float:
        """Highest rate per direction of the search that contains this trial."""
        return max(self.rate_fps, self.search_limit_fps or 0.0)

    @property
    def required_capabilities(self) -> frozenset[Capability]:
        """Capabilities that the tester needs for this trial."""
        needs: dict[Capability, object] = {
            "tags": self.delays and self.delays.tags,
            "every-frame": self.delays and not self.delays.tags,
            "ipdv": self.delays and self.delays.ipdv,
            "frame-timeout": self.frame_timeout_s is not None,
            "two-rates": self.second_segment,
            "loss-times": self.second_segment or self.device_event,
            "connections": self.connections,
            "tcp": self.connections and self.connections.tcp,
            "flow-starts": self.flow_starts,
            "queries": self.queries,
        }
        capabilities = {name for name, is_needed in needs.items() if is_needed}
        if self.flow_starts and capabilities & {*TIMING_CAPABILITIES, "two-rates"}:
            capabilities.add("timed-flow-starts")
        return frozenset(capabilities)

    @cached_property
    def tag_positions(self) -> tuple[int, ...]:
        """Positions of the tagged frames in the stream of each direction, from 0.

        The stream is divided into equal intervals with one tag each. Its position within the interval
        moves by the golden section: at a fixed position, tags every 120 frames of a mixture that
        repeats every 2 frames would all be foreground.
        """
        if self.delays is None or not self.delays.tags:
            raise ValueError("the trial does not request tagged frames")
        start = math.ceil(self.delays.first_tag_s * self.rate_fps)
        return _place_tags(start, self.frames - start, self.delays.tags)


def make_sizes_key(ipv6_frame_size: float, mix: str | None) -> str:
    """Return the part of a trial's key for one frame size, or for a mix (``"84/64x28,1518/1498x4"``)."""
    if mix is None:
        return f"{ipv6_frame_size}"
    return f"imix-{mix.replace('/', '_').replace(',', '-')}"


def format_mix(mix: str) -> str:
    """Return a mix of frame sizes for people: ``"imix 84/64x28 1518/1498x4"``."""
    return f"imix {mix.replace(',', ' ')}"


@lru_cache(maxsize=4)  # all repetitions of a point have the same positions
def _place_tags(start: int, frames: int, tags: int) -> tuple[int, ...]:
    bounds = [number * frames // tags for number in range(tags + 1)]
    return tuple(
        start + begin + int((end - begin) * (number * _GOLDEN_SECTION % 1))
        for number, (begin, end) in enumerate(pairwise(bounds))
    )
