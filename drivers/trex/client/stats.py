"""What TRex's client returns, as dataclasses: no other module reads its dictionaries.

Read from TRex v3.08: ``get_stats``, ``get_pgid_stats``, ``get_traffic_stats``, ``get_capture_status``,
``get_server_system_info`` and ``get_port_info``. The worker makes the dataclasses; their fields cross to
v6t as JSON, where :func:`v6t.drivers.trex.channel.parse_answer` makes the same dataclasses of them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, NamedTuple, TypeVar, cast

_Parsed = TypeVar("_Parsed")


def _declare(name: str, default: Any = MISSING) -> Any:
    """Declare a dataclass field with its name in TRex's answers; without a default it is required."""
    return field(default=default, metadata={"name": name})


def _parse(kind: type[_Parsed], answer: Mapping[str, Any], **others: Any) -> _Parsed:
    """Make a dataclass from an answer of TRex and from further fields."""
    names = {one.name: one.metadata["name"] for one in fields(cast(Any, kind)) if one.metadata}
    named = {own: answer[name] for own, name in names.items() if name in answer}
    return kind(**named, **others)


@dataclass(frozen=True)
class PortStats:
    """Frames and errors of one port."""

    sent: int = _declare("opackets")
    received: int = _declare("ipackets")
    output_errors: int = _declare("oerrors")
    input_errors: int = _declare("ierrors")


@dataclass(frozen=True)
class ServerStats:
    """Counters of a server and of its ports since they were cleared."""

    ports: Mapping[int, PortStats]
    queue_full_count: int = _declare("queue_full")  # Number of times a transmit queue was full
    cpu: float = _declare("cpu_util_raw")  # Load of the data path [%]
    rx_cpu: float = _declare("rx_cpu_util")  # Load of the receiver [%]


def parse_stats(stats: Mapping[Any, Any], ports: Iterable[int]) -> ServerStats:
    """Parse the answer of ``get_stats``."""
    by_port = {port: _parse(PortStats, stats[port]) for port in ports}
    return _parse(ServerStats, stats["global"], ports=by_port)


@dataclass(frozen=True)
class GroupStats:
    """Counters of one latency group; frames are counted by port."""

    sent: Mapping[int, int] = field(default_factory=dict)
    received: Mapping[int, int] = field(default_factory=dict)
    duplicates: int = 0
    out_of_order: int = 0
    min_delay_us: float | None = None
    histogram: str = ""  # Of delays, encoded; see :mod:`v6t.drivers.trex.counting`


def parse_groups(stats: Mapping[str, Any]) -> dict[int, GroupStats]:
    """Parse the answer of ``get_pgid_stats``, without TRex's entries that are not numbers."""
    flows, delays = (stats.get(name, {}) for name in ("flow_stats", "latency"))
    groups = {}
    for number in _select_numbers({**flows, **delays}):
        flow, delay = flows.get(number, {}), delays.get(number, {})
        errors, latency = delay.get("err_cntrs", {}), delay.get("latency", {})
        sent, received = (
            {int(port): int(counts[port]) for port in _select_numbers(counts)}
            for counts in (flow.get("tx_pkts", {}), flow.get("rx_pkts", {}))
        )
        groups[int(number)] = GroupStats(
            sent,
            received,
            duplicates=int(errors.get("dup", 0)),
            out_of_order=int(errors.get("out_of_order", 0)),
            min_delay_us=latency.get("total_min"),
            histogram=latency.get("hdrh") or "",
        )
    return groups


def _select_numbers(keys: Iterable[Any]) -> list[Any]:
    """Select the keys that are numbers; TRex adds keys for totals and global entries."""
    return [key for key in keys if str(key).isdigit()]


class CaptureStatus(NamedTuple):
    """State of one capture of a server."""

    stored: int  # Frames that can be fetched
    matched: int  # Frames that passed the filter
    ports: frozenset[int]  # Ports that it watches


def parse_captures(status: Mapping[int, Mapping[str, Any]]) -> dict[int, CaptureStatus]:
    """Parse ``get_capture_status``, the captures of all users by number."""
    captures = {}
    for number, one in status.items():
        mask = int(one["filter"]["tx"]) | int(one["filter"]["rx"])
        ports = frozenset(port for port in range(mask.bit_length()) if mask >> port & 1)
        captures[number] = CaptureStatus(int(one["count"]), int(one["matched"]), ports)
    return captures


def parse_frames(fetched: Iterable[Mapping[str, Any]]) -> list[tuple[float, str, int]]:
    """Parse captured frames into arrival times [s], octets in base64, and ports."""
    return [(f["ts"], base64.b64encode(f["binary"]).decode(), f["port"]) for f in fetched]


@dataclass(frozen=True)
class Capture:
    """One capture on one or several ports."""

    kind: str  # ``sample``, ``control``, ``marked`` or ``recording``
    ports: Sequence[int]
    matched: int  # number of frames that passed the capture's filter
    class_number: int = 0  # class of the marked frames that the capture counts
    frames: Sequence[tuple[float, str, int]] = ()  # times [s], octets in base64, and ports

    def decode_frames(self) -> list[tuple[float, bytes, int]]:
        """Return times of arrival [s], octets and ports."""
        return [(time_s, base64.b64decode(text), port) for time_s, text, port in self.frames]


class CounterReading(NamedTuple):
    """Frames sent by each port, read between two readings of the clock [s after the start]."""

    before_s: float
    sent: Mapping[int, int]
    after_s: float


def parse_counter_reading(replies: Sequence[Mapping[str, Any]], ports: list[int]) -> CounterReading:
    """Parse the answers of ``ping``, of ``get_port_stats`` for each port, and of ``ping``."""
    sent = {port: int(reply["opackets"]) for port, reply in zip(ports, replies[1:-1])}
    return CounterReading(replies[0]["ts"], sent, replies[-1]["ts"])


@dataclass(frozen=True)
class TrialStats:
    """Counters and captures of one trial."""

    ports: Mapping[int, PortStats] = field(default_factory=dict)
    groups: Mapping[int, GroupStats] = field(default_factory=dict)
    captures: Sequence[Capture] = ()
    counter_readings: Sequence[CounterReading] = ()  # close together at the start and the end
    queue_full_count: int = 0  # number of times that a transmit queue was full
    dropped_frames: int | None = None  # frames dropped before a transmit queue; None: unknown
    port_faults: Sequence[str] = ()  # faults that the ports' driver found
    neighbor_answers: Mapping[int, int] = field(default_factory=dict)  # ARP and ND, by port
    ended: bool = True  # whether traffic ended by itself
    began_ago_s: float = 0.0  # time between the first frame and the worker's answer [s]
    cpu: Sequence[float] = ()  # samples of the load of the data path [%]
    rx_cpu: Sequence[float] = ()  # samples of the load of the receiver [%]
    events: Sequence[str] = ()  # other faults of the tester, which do not depend on the rate
    timeline_readings: Sequence[tuple[float, Mapping[int, tuple[int, int]]]] = ()
    """Time after the first frame [s], and sent and received frames by port."""

    def count_matches(self, kind: str, ports: Iterable[int], number: int | None = None) -> int:
        """Count the frames that matched captures of a kind, of all classes or one, at these ports."""
        chosen = (c for c in self.captures if c.kind == kind and {*c.ports} <= {*ports})
        return sum(c.matched for c in chosen if number in (None, c.class_number))


_TCP_FAULTS = {  # Descriptions of TRex's counters of faults inside TRex
    "err_no_memory": "had no memory for connections",
    "err_c_tuple_err": "had too few addresses and ports for its clients",
    "err_dct": "used a four-tuple twice",
    "err_c_nf_throttled": "held back connections of its clients",
    "err_s_nf_throttled": "held back connections of its servers",
    "err_flow_overflow": "had more connections than it can keep",
    "err_no_template": "had no server for a connection",
    "err_redirect_rx": "lost frames on the way to its receiver",
    "tcps_keepprobe": "sent keepalive probes",
    "rss_redirect_drops": "lost frames on the way between its cores",
}
_BAD_SEGMENTS = ("err_l3_cs", "err_l4_cs", "err_len_err", "tcps_rcvbadsum", "tcps_rcvbadoff")


@dataclass(frozen=True)
class TcpCounters:
    """Counters of the clients or of the servers of TRex's stateful engine, which omits zeros."""

    attempts: int = _declare("tcps_connattempt", 0)  # Connections that clients began to open
    opened: int = _declare("tcps_connects", 0)  # Connections that were open on this side
    failed: int = _declare("tcps_conndrops", 0)  # Connections that ended before they were open
    given_up: int = _declare("tcps_keepdrops", 0)  # Connections that did not open in time
    repeated_syns: int = _declare("tcps_rexmttimeo_syn", 0)  # Retransmitted SYNs and SYN-ACKs
    timeouts: int = _declare("tcps_rexmttimeo", 0)  # Retransmissions after a timeout
    repeated_segments: int = _declare("tcps_sndrexmitpack", 0)
    sent_octets: int = _declare("tcps_sndbyte", 0)
    received_octets: int = _declare("tcps_rcvbyte", 0)
    control_segments: int = _declare("tcps_sndctrl", 0)  # SYN, FIN and RST that were sent
    reset: int = _declare("tcps_drops", 0)  # Open connections that were dropped
    closed: int = _declare("tcps_closed", 0)
    wrong_segments: int = 0  # Received with a wrong checksum, length or offset
    faults: Mapping[str, int] = field(default_factory=dict)  # TRex's own faults, by description
    record: Mapping[str, float] = field(default_factory=dict)  # All counters, as TRex names them


def parse_traffic(stats: Mapping[str, Any]) -> dict[str, TcpCounters]:
    """Parse the answer of ``get_traffic_stats``, by side: ``client`` and ``server``."""
    sides = {}
    for side in ("client", "server"):
        counters = stats[side]
        faults = {f"{_TCP_FAULTS[n]} ({n})": counters[n] for n in _TCP_FAULTS if counters.get(n)}
        wrong = sum(counters.get(name, 0) for name in _BAD_SEGMENTS)
        others = {"wrong_segments": wrong, "faults": faults, "record": counters}
        sides[side] = _parse(TcpCounters, counters, **others)
    return sides


@dataclass(frozen=True)
class StepStats:
    """Counters of TRex's stateful engine at the end of a step."""

    counters: Mapping[str, TcpCounters]  # Of ``client`` and ``server``
    ports: Mapping[int, PortStats]
    counter_readings: Sequence[CounterReading] = ()  # of units, as if port 0 had sent them
    queue_full_count: int = 0
    cpu: Sequence[float] = ()
    initial_count: int | None = None  # number of units at the first reading
    began_ago_s: float = 0.0  # time between the first SYN and the worker's answer [s]


@dataclass(frozen=True)
class PortFacts:
    """Facts that a server reports about a port."""

    index: int = _declare("index")
    driver: str = _declare("driver", "")
    mac: str = _declare("hw_mac", "")
    speed: float | None = _declare("speed", None)  # Gbit/s
    link: str | None = _declare("link", None)
    numa: int | str | None = _declare("numa", None)
    promiscuous: str | None = _declare("prom", None)
    owner: str = ""
    is_virtual: bool = False  # Whether the port is not a NIC

    def describe(self) -> dict[str, Any]:
        """Return the facts for a record of the run."""
        named = (one for one in fields(self) if one.metadata)
        facts = {one.metadata["name"]: getattr(self, one.name) for one in named}
        return {**facts, "virtual": self.is_virtual}


@dataclass(frozen=True)
class ServerFacts:
    """Facts that a server reports about itself."""

    version: Mapping[str, Any] = field(default_factory=dict)  # As TRex reports it, for the record
    mode: str | None = _declare("mode", None)  # Engine of the server: ``STL`` or ``ASTF``
    processor: str | None = _declare("core_type", None)
    cores: int = _declare("dp_core_count", 1)  # All data path cores
    cores_per_port: int = 1  # Data path cores of a pair of ports
    has_several_queues: bool = _declare("is_multiqueue_mode", False)
    ports: Sequence[PortFacts] = ()


def parse_server(
    info: Mapping[str, Any],
    version: Mapping[str, Any],
    ports: Mapping[int, Mapping[str, Any]],
    owners: Mapping[int, str],
) -> ServerFacts:
    """Parse ``get_server_system_info``, ``get_server_version``, and ``get_port_info`` of each port."""
    facts = []
    for port in sorted(info["ports"], key=lambda one: int(one["index"])):
        own = {**port, **ports[port["index"]]}
        # TRex's client reports yes or no, its server true or false
        is_virtual = own.get("is_virtual") in (True, "yes")
        facts.append(_parse(PortFacts, own, owner=owners[port["index"]], is_virtual=is_virtual))
    answer = {**info, **version}
    share = info.get("dp_core_count_per_port") or info.get("dp_core_count", 1)
    return _parse(ServerFacts, answer, version=version, ports=facts, cores_per_port=share)
