"""What TRex and the worker return, as dataclasses: no other module reads their dictionaries.

Read from TRex v3.08: ``get_stats``, ``get_pgid_stats``, ``get_server_system_info``.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from v6t.drivers.trex.histogram import Histogram, decode_histogram

LINUX_DRIVER = "net_af_packet"
VIRTUAL_DRIVERS = (LINUX_DRIVER, "net_memif", "net_tap", "net_af_xdp", "net_pcap", "net_ring")


@dataclass(frozen=True)
class PortStats:
    """Counters of one port in a trial."""

    sent: int = 0
    received: int = 0
    output_errors: int = 0
    input_errors: int = 0


@dataclass(frozen=True)
class GroupStats:
    """Counters of one latency group.

    Attributes:
        sent, received: frames by port.
        min_delay_us: TRex's own smallest delay [us]; None: it has none.
    """

    sent: Mapping[int, int] = field(default_factory=dict)
    received: Mapping[int, int] = field(default_factory=dict)
    duplicates: int = 0
    out_of_order: int = 0
    histogram: Histogram = field(default_factory=Histogram)
    min_delay_us: float | None = None


@dataclass(frozen=True)
class Capture:
    """One capture on a port.

    Attributes:
        kind: ``sample``, ``control``, ``marked`` or ``recording``.
        matched: frames that passed its filter.
        class_number: class of the marked frames that it counts.
        frames: times of arrival by the server's clock [s], and octets.
    """

    kind: str
    port: int
    matched: int
    class_number: int
    frames: Sequence[tuple[float, bytes]]


@dataclass(frozen=True)
class CounterLook:
    """Port counters at a time.

    Attributes:
        before_s, after_s: the server's clock before and after it counted, from the moment for
            which the start was ordered [s].
        sent: frames of a trial that had left, by port.
    """

    before_s: float
    after_s: float
    sent: Mapping[int, int]


@dataclass(frozen=True)
class TrialStats:
    """What a trial left in TRex's counters and captures.

    Attributes:
        queue_full: times at which the transmit queue was full.
        queue_drop: frames that were dropped before it.
        stuck: frames that left a send ring only when others were pushed after them.
        answered: answers and introductions that were sent meanwhile.
        ended: traffic ended by itself.
        began_ago_s: time since the first frame, when the worker answered [s].
        cpu, rx_cpu: load of data path and receiver while frames were sent [%].
        readings: times since the first frame [s], and port counters.
    """

    ports: Mapping[int, PortStats] = field(default_factory=dict)
    groups: Mapping[int, GroupStats] = field(default_factory=dict)
    captures: Sequence[Capture] = ()
    looks: Sequence[CounterLook] = ()
    queue_full: int = 0
    queue_drop: int = 0
    stuck: int = 0
    answered: int = 0
    ended: bool = True
    began_ago_s: float = 0.0
    cpu: Sequence[float] = ()
    rx_cpu: Sequence[float] = ()
    events: Sequence[str] = ()
    readings: Sequence[tuple[float, Mapping[int, PortStats]]] = ()

    def count_matches(
        self, kind: str, ports: Iterable[int], class_number: int | None = None
    ) -> int:
        """Count the frames that captures of a kind matched on some ports."""
        return sum(
            c.matched
            for c in self.captures
            if c.kind == kind and c.port in ports and class_number in (None, c.class_number)
        )


def parse_trial(answer: Mapping[str, Any]) -> TrialStats:
    """Parse the worker's answer to a trial."""
    flows = answer.get("groups", {}).get("flow_stats", {})
    latency = answer.get("groups", {}).get("latency", {})
    return TrialStats(
        ports=_parse_ports(answer.get("ports", {})),
        groups={
            int(n): _parse_group(flows.get(n, {}), latency.get(n, {}))
            for n in {**flows, **latency}
            if n.isdigit()
        },
        captures=[
            Capture(
                c["kind"],
                c["port"],
                int(c["matched"]),
                c.get("class", 0),
                [(float(t), base64.b64decode(text)) for t, text in c.get("frames", ())],
            )
            for c in answer.get("captures", ())
        ],
        looks=parse_looks(answer.get("looks", ())),
        queue_full=int(answer.get("global", {}).get("queue_full", 0)),
        queue_drop=answer.get("queue_drop", 0),
        stuck=answer.get("stuck", 0),
        answered=sum(answer.get("answered", {}).values()),
        ended=answer.get("ended", True),
        began_ago_s=float(answer.get("began_ago_s", 0.0)),
        cpu=answer.get("cpu", ()),
        rx_cpu=answer.get("rx_cpu", ()),
        events=answer.get("events", ()),
        readings=[
            (at, {int(p): PortStats(*counts) for p, counts in ports.items()})
            for at, ports in answer.get("readings", ())
        ],
    )


def parse_looks(looks: Iterable[Sequence[Any]]) -> list[CounterLook]:
    """Parse looks at port counters: time before, frames by port, time after."""
    return [
        CounterLook(before, after, {int(port): int(count) for port, count in sent.items()})
        for before, sent, after in looks
    ]


def _parse_ports(ports: Mapping[str, Mapping[str, Any]]) -> dict[int, PortStats]:
    names = ("opackets", "ipackets", "oerrors", "ierrors")
    return {int(n): PortStats(*(int(p.get(name, 0)) for name in names)) for n, p in ports.items()}


def _parse_group(flow: Mapping[str, Any], group: Mapping[str, Any]) -> GroupStats:
    sent, received = (
        {int(p): int(n) for p, n in flow.get(name, {}).items() if p.isdigit()}
        for name in ("tx_pkts", "rx_pkts")
    )
    errors, delays = group.get("err_cntrs", {}), group.get("latency", {})
    text, smallest = delays.get("hdrh"), delays.get("total_min")
    return GroupStats(
        sent,
        received,
        int(errors.get("dup", 0)),
        int(errors.get("out_of_order", 0)),
        decode_histogram(text) if text and any(received.values()) else Histogram(),
        None if smallest is None else float(smallest),
    )


@dataclass(frozen=True)
class StepStats:
    """Counters of TRex's stateful engine at the end of a step.

    Attributes:
        counters: by side (``client`` and ``server``) and TRex's name; those that are zero may lack.
        first: units that had been counted at the first look.
        ago_s: time since the first SYN, when the worker answered [s].
    """

    counters: Mapping[str, Mapping[str, float]]
    ports: Mapping[int, PortStats]
    looks: Sequence[CounterLook]
    queue_full: int
    cpu: Sequence[float]
    first: int
    ago_s: float


def parse_step(answer: Mapping[str, Any]) -> StepStats:
    """Parse the worker's answer to a step of a trial with TCP connections."""
    return StepStats(
        counters=answer["counters"],
        ports=_parse_ports(answer["ports"]),
        looks=parse_looks(answer.get("looks", ())),
        queue_full=int(answer["global"].get("queue_full", 0)),
        cpu=answer["cpu"],
        first=answer["first"] or 0,
        ago_s=float(answer.get("ago_s", 0.0)),
    )


@dataclass(frozen=True)
class PortFacts:
    """What a server says of one of its ports."""

    index: int
    driver: str = ""
    mac: str = ""
    speed: float | None = None
    link: str | None = None
    numa: int | None = None
    promiscuous: Any = None
    is_virtual: bool = False
    owner: str = ""

    def describe(self) -> dict[str, Any]:
        """Return facts for the manifest."""
        return {
            "index": self.index,
            "driver": self.driver,
            "hw_mac": self.mac,
            "speed": self.speed,
            "link": self.link,
            "numa": self.numa,
            "prom": self.promiscuous,
            "virtual": self.is_virtual,
        }


@dataclass(frozen=True)
class ServerFacts:
    """What a server says of itself.

    Attributes:
        version: TRex's own words: ``version``, ``mode``, build.
        cores: data path cores in all.
        cores_per_port: those that send on one port.
    """

    version: Mapping[str, Any] = field(default_factory=dict)
    processor: str | None = None
    cores: int = 1
    cores_per_port: int = 1
    ports: Sequence[PortFacts] = ()

    @property
    def mode(self) -> str | None:
        """Engine of the server: ``STL`` or ``ASTF``; None: it does not say."""
        return self.version.get("mode")


def parse_server(answer: Mapping[str, Any]) -> ServerFacts:
    """Parse what the worker says of a server that it is connected to."""
    more = {p.get("index"): p for p in answer.get("port_info") or ()}
    known = answer.get("ports") or more.values()
    cores = int(answer.get("dp_core_count") or 1)
    return ServerFacts(
        answer.get("version") or {},
        answer.get("core_type"),
        cores,
        int(answer.get("dp_core_count_per_port") or cores),
        [
            _parse_port({**p, **more.get(p.get("index", n), {}), "index": p.get("index", n)})
            for n, p in enumerate(known)
        ],
    )


def _parse_port(port: Mapping[str, Any]) -> PortFacts:
    return PortFacts(
        port["index"],
        port.get("driver", ""),
        port.get("hw_mac", ""),
        port.get("speed"),
        port.get("link"),
        port.get("numa"),
        port.get("prom"),
        bool(port.get("is_virtual")) or port.get("driver") in VIRTUAL_DRIVERS,
        port.get("owner") or "",
    )
