"""What TRex counted in one trial, as a trial result. Pure: raw counters in, counts out.

Three ways to tell test frames from others (TRX-02, TRX-03, GEN-24):

* *trailer*: every frame is stamped (latency streams, software mode, one data path core); each
  class is counted for itself across translation and encapsulation, control frames are the rest;
* *marks*: capture filters count marks that the streams' programs write, class by class; neither
  order nor duplicates are seen (:mod:`v6t.drivers.trex.marking`);
* *ports*: port counters less the control frames that a capture filter counted; any number of
  cores and line rate, but the classes cannot be told apart. One core stamps some frames all the
  same, which are compared.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from v6t.drivers.trex.histogram import Histogram, decode
from v6t.drivers.trex.marking import class_of, is_marked
from v6t.drivers.trex.stamping import Burst
from v6t.packets.walker import walk
from v6t.profiles.model import Role
from v6t.profiles.streams import StreamSet
from v6t.trials.delays import Distribution
from v6t.trials.result import ClassCount

_CONTROL = ("arp", "icmp", "icmp6")
"""Frames devices send of their own accord, even to one host: ARP, ICMP, ND."""
_NOT_ECHO = ("arp", "(icmp and icmp[0] != 8 and icmp[0] != 0)",
             "(icmp6 and ip6[40] != 128 and ip6[40] != 129)")  # fmt: skip
_TO_MANY = "ether[0] & 1 = 1"
"""To a group or to all: RA, MLD, IGMP, LLDP, spanning tree, and hellos of routing protocols."""
STAMPED = "stamped"
"""Figure of a trial: what :func:`seen` found in each direction."""
SEEN = -1
"""Class number of the capture that counts stamped frames, where several cores receive them."""

NOT_TOLD_APART = (
    "port counters cannot tell frames that must be dropped from others",
    "leave out negative traffic, or count by trailer (cores: 1, counting: trailer)",
)
"""What is wrong with negative traffic then, and what to do."""


@dataclass(frozen=True)
class Sent:
    """One direction of a trial as it was asked for.

    Attributes:
        streams: what is sent.
        bursts: how much of it.
        tx_port: TRex's port number.
        rx_ports: where frames may come back; the first is the sender's own partner.
        nonce: octet of this trial in the trailers of marked frames.
    """

    streams: StreamSet
    bursts: Sequence[Burst]
    tx_port: int
    rx_ports: tuple[int, ...]
    nonce: int = 0

    @property
    def rx_port(self) -> int:
        """The sender's partner."""
        return self.rx_ports[0]

    @property
    def stamped(self) -> bool:
        """Every frame carries TRex's stamp."""
        return len(self.stamped_bursts) == len(self.bursts)

    @property
    def told_apart(self) -> bool:
        """Every frame carries TRex's stamp, or a mark of its stream's own."""
        return len(self.stamped_bursts) + len(self.marked_bursts) == len(self.bursts)

    @property
    def marked_bursts(self) -> tuple[Burst, ...]:
        """Those whose frames carry a mark of their stream's own."""
        return tuple(b for b in self.bursts if is_marked(self.streams.streams[b.index]))

    @property
    def stamped_bursts(self) -> tuple[Burst, ...]:
        """Those whose frames do."""
        return tuple(b for b in self.bursts if b.pg_id is not None)

    @property
    def marked(self) -> dict[int, list[Burst]]:
        """Those by the class that their marks tell."""
        by_class: dict[int, list[Burst]] = {}
        for burst in self.marked_bursts:
            by_class.setdefault(class_of(self.streams.streams[burst.index]), []).append(burst)
        return by_class

    @property
    def marks(self) -> set[tuple[int, int]]:
        """Classes that marks tell, with the octet that their frames have of the trial's own."""
        return {(n, self.nonce) for n in self.marked}

    @property
    def requests(self) -> list[dict[str, Any]]:
        """Bursts as the worker reads them."""
        marked = self.marked_bursts
        return [{**b.to_json(), "nonce": self.nonce if b in marked else None} for b in self.bursts]

    @property
    def frames(self) -> int:
        """Frames of all classes."""
        return sum(b.frames for b in self.bursts)


@dataclass(frozen=True)
class Counted:
    """One direction as counted.

    Attributes:
        classes: per traffic class; in *ports* mode a single one, ``test frames``.
        control: frames that were no test frames.
        histograms: delays [µs] by class, where every frame was stamped.
        tags: the same of tagged frames alone.
        untimed: stamped frames by class that came, but whose delay was not recorded.
    """

    classes: Mapping[str, ClassCount]
    control: int
    histograms: Mapping[str, Histogram]
    tags: Mapping[str, Histogram]
    untimed: Mapping[str, int] = field(default_factory=dict)


def by_trailer(raw: Mapping[str, Any], sent: Sent, frame_timeout_s: float | None = None) -> Counted:
    """Counts of stamped streams.

    A duplicate that TRex recognises as one, or more frames than were sent, is surplus; it sees
    only repetitions of the frame before as duplicates and calls others out of order. Duplicates
    arrive last, so that the longest delays are theirs.

    Args:
        raw: the worker's answer.
        sent: what was asked for.
        frame_timeout_s: frames with a longer delay are late (TP-06).
    """
    classes: dict[str, ClassCount] = {}
    histograms: dict[str, Histogram] = {}
    tags: dict[str, Histogram] = {}
    recognised = left = 0
    for burst in sent.bursts:
        stream = sent.streams.streams[burst.index]
        if is_marked(stream):
            continue
        one, histogram = _group(raw, sent, burst)
        recognised += one.received + one.surplus
        left += one.sent
        late = 0
        if frame_timeout_s is not None:
            late = histogram.total - histogram.below(round(frame_timeout_s * 1e6))
        counted = replace(one, role=stream.role.value, received=one.received - late, late=late)
        name = stream.name
        classes[name] = _added(classes[name], counted) if name in classes else counted
        histograms[name] = histograms.get(name, Histogram(())).merged(histogram)
        if burst.tags:
            tags[name] = tags.get(name, Histogram(())).merged(histogram)
    for name, one in _marked(raw, sent, left):
        recognised += one.received + one.surplus
        classes[name] = _added(classes[name], one) if name in classes else one
    arrived = int(raw["ports"][str(sent.rx_port)]["ipackets"])
    return Counted(classes, arrived - recognised, histograms, tags)


def _marked(raw: Mapping[str, Any], sent: Sent, others: int) -> Iterator[tuple[str, ClassCount]]:
    """Classes that marks tell, all streams of each together: TRex counts them by capture filters.

    It does not count what left of each: what all of them lack is lacking in the first.
    """
    bursts = sent.marked_bursts
    lacking = sum(b.frames for b in bursts) + others
    lacking -= int(raw["ports"][str(sent.tx_port)]["opackets"])
    for number, which in sent.marked.items():
        stream = sent.streams.streams[which[0].index]
        received = sum(
            int(c["matched"])
            for c in raw["captures"]
            if c["kind"] == "marked" and c["class"] == number and c["port"] in sent.rx_ports
        )
        required = sum(b.frames for b in which)
        left, lacking = required - lacking, 0
        surplus = max(0, received - left)
        yield (
            stream.name,
            ClassCount(stream.role.value, required, left, received - surplus, surplus=surplus),
        )


def together(counted: Sequence[Counted]) -> Counted:
    """The parts of one direction that several pairs of ports sent."""
    classes: dict[str, ClassCount] = {}
    histograms: dict[str, Histogram] = {}
    tags: dict[str, Histogram] = {}
    for one in counted:
        for name, count in one.classes.items():
            classes[name] = _added(classes[name], count) if name in classes else count
        for mine, whole in ((one.histograms, histograms), (one.tags, tags)):
            for name, histogram in mine.items():
                whole[name] = whole.get(name, Histogram(())).merged(histogram)
    # a frame may come back to another pair than its sender's
    return Counted(classes, max(0, sum(c.control for c in counted)), histograms, tags)


def group_counts(raw: Mapping[str, Any], sent: Sent, burst: Burst) -> ClassCount:
    """Counts of one latency group, of a role to be said."""
    flow = raw["groups"].get("flow_stats", {}).get(str(burst.pg_id), {})
    group = raw["groups"].get("latency", {}).get(str(burst.pg_id), {})
    received = sum(int(flow.get("rx_pkts", {}).get(str(port), 0)) for port in sent.rx_ports)
    left = int(flow.get("tx_pkts", {}).get(str(sent.tx_port), 0))
    errors = group.get("err_cntrs", {})
    surplus = max(int(errors.get("dup", 0)), received - left, 0)
    return ClassCount(
        role="",
        required=burst.frames,
        sent=left,
        received=received - surplus,
        surplus=surplus,
        out_of_order=int(errors.get("out_of_order", 0)),
    )


def _group(raw: Mapping[str, Any], sent: Sent, burst: Burst) -> tuple[ClassCount, Histogram]:
    """Counts and delays of one latency group."""
    count = group_counts(raw, sent, burst)
    group = raw["groups"].get("latency", {}).get(str(burst.pg_id), {})
    text = group.get("latency", {}).get("hdrh")
    histogram = decode(text) if text and count.received + count.surplus else Histogram(())
    return count, histogram.without_highest(count.surplus)


def _added(a: ClassCount, b: ClassCount) -> ClassCount:
    return ClassCount(
        a.role,
        *(getattr(a, f.name) + getattr(b, f.name) for f in fields(ClassCount) if f.name != "role"),
    )


def distributions(counted: Counted, sent: Sequence[Sent], *, tags: bool) -> dict[str, Distribution]:
    """Delays by class as the procedures want them; what has no delay was lost.

    Args:
        counted: one direction.
        sent: what its pairs of ports were asked for.
        tags: of tagged frames alone.
    """
    expected: dict[str, int] = {}
    for one in sent:
        for burst in one.bursts:
            stream = one.streams.streams[burst.index]
            if stream.role is not Role.NEGATIVE and burst.pg_id is not None:
                share = burst.frames if burst.tags or not tags else 0
                expected[stream.name] = expected.get(stream.name, 0) + share
    delays = {}
    for name, frames in expected.items():
        histogram = (counted.tags if tags else counted.histograms).get(name, Histogram(()))
        delays[name] = Distribution.from_values(
            {(low + high) * 500: count for low, high, count in histogram.buckets},
            lost=max(0, frames - histogram.total - counted.untimed.get(name, 0)),
        )
    return delays


def by_ports(raw: Mapping[str, Any], sent: Sequence[Sent]) -> Counted:
    """Counts of port counters, less the control frames a capture counted; delays of stamped frames.

    Args:
        raw: the worker's answer.
        sent: what the pairs of ports of one direction were asked for.
    """
    receiving = {one.rx_port for one in sent}
    control = sum(
        int(c["matched"])
        for c in raw["captures"]
        if c["kind"] == "control" and c["port"] in receiving
    )
    arrived = sum(int(raw["ports"][str(p)]["ipackets"]) for p in receiving) - control
    left = sum(int(raw["ports"][str(one.tx_port)]["opackets"]) for one in sent)
    surplus = max(0, arrived - left)
    count = ClassCount(
        role="foreground",
        required=sum(one.frames for one in sent),
        sent=left,
        received=max(0, arrived - surplus),
        surplus=surplus,
    )
    some = [replace(one, bursts=stamped) for one in sent if (stamped := one.stamped_bursts)]
    timed = together([by_trailer(raw, one) for one in some])
    return Counted({"test frames": count}, control, timed.histograms, timed.tags)


def delay_summary(histograms: Mapping[str, Histogram]) -> dict[str, float] | None:
    """Smallest, median, 99.9th percentile and largest delay [µs] over all classes."""
    whole = Histogram(())
    for histogram in histograms.values():
        whole = whole.merged(histogram)
    if not whole.buckets:
        return None
    return {
        "min": float(whole.buckets[0][0]),
        "p50": float(whole.nearest_rank(50)),
        "p99_9": float(whole.nearest_rank(99.9)),
        "max": float(whole.buckets[-1][1]),
    }


def faults(raw: Mapping[str, Any], sent: Sequence[Sent], cpu_limit: float) -> list[str]:
    """What the tester itself did wrong: such a trial says nothing about the device (SELF-05)."""
    messages = list(dict.fromkeys(raw["events"]))
    if not raw["ended"]:
        messages.append("TRex was still sending long after the trial's end and was stopped")
    for one in sent:
        direction = one.streams.direction
        transmit, receive = raw["ports"][str(one.tx_port)], raw["ports"][str(one.rx_port)]
        if transmit["opackets"] != one.frames:
            messages.append(
                f"{direction}: TRex sent {transmit['opackets']} frames instead of {one.frames}"
            )
        if transmit["oerrors"]:
            messages.append(f"{direction}: {transmit['oerrors']} errors at TRex's transmit port")
        if receive["ierrors"]:
            messages.append(
                f"{direction}: TRex's receive port dropped {receive['ierrors']} frames (ierrors)"
            )
    full = int(raw["global"].get("queue_full", 0))
    if full:
        messages.append(f"TRex's transmit queue was full {full} times")
    if raw.get("stuck"):
        messages.append(
            f"{raw['stuck']} frames left TRex's send rings only after the trial: its interface had "
            "taken no more"
        )
    if raw["queue_drop"]:
        messages.append(f"TRex dropped {raw['queue_drop']} frames before its transmit queue")
    busiest = max(raw["cpu"], default=0.0)
    if busiest > cpu_limit:
        messages.append(f"TRex's data path was {busiest:.0f}% busy (limit {cpu_limit:.0f}%)")
    return messages


def counted_by(sent: Sequence[Sent]) -> str:
    """``trailer``, ``marks``, both, or ``ports``: how the frames of a trial were told from others."""
    if not all(one.told_apart for one in sent):
        return "ports"
    ways = {
        "trailer": any(one.stamped_bursts for one in sent),
        "marks": any(one.marked_bursts for one in sent),
    }
    return " and ".join(way for way, used in ways.items() if used)


def control_filter(streams: Iterable[StreamSet]) -> str:
    """Capture filter for frames that are no test frames, where only port counters tell.

    Args:
        streams: of all directions; where their frames are ICMP, echoes are no control frames.
    """
    carried = {
        header.name
        for one in streams
        for stream in one.streams
        for header in walk(base64.b64decode(stream.trex["packet"]["binary"]))
    }
    terms = " or ".join(_NOT_ECHO if carried & {"ICMP", "ICMPv6"} else _CONTROL)
    return f"{_TO_MANY} or {terms} or (vlan and ({terms}))"


def seen(raw: Mapping[str, Any], sent: Sequence[Sent]) -> dict[str, int]:
    """Stamped frames of a direction: ``received`` by TRex's cores, ``captured`` by its one receiver.

    Nothing where no capture counted them. Several cores hand on through rings what they received,
    and what finds no room there is in no capture. So where some of these are lacking, control
    frames may be as well.
    """
    receiving = {one.rx_port for one in sent}
    matched = [
        int(c["matched"])
        for c in raw["captures"]
        if c["kind"] == "marked" and c["class"] == SEEN and c["port"] in receiving
    ]
    if not matched:
        return {}
    counts = [group_counts(raw, one, burst) for one in sent for burst in one.stamped_bursts]
    received = sum(c.received + c.surplus for c in counts)
    return {"received": received, "captured": min(sum(matched), received)}


def captured(raw: Mapping[str, Any], port: int) -> list[tuple[float, bytes]]:
    """Frames a sampling capture kept on a port: time of arrival [s] and octets."""
    return [
        (float(when), base64.b64decode(text))
        for c in raw["captures"]
        if c["kind"] == "sample" and c["port"] == port
        for when, text in c["frames"]
    ]


def sample_filter(frames: int, wanted: int) -> tuple[str, int]:
    """Capture filter that keeps about ``wanted`` of ``frames`` frames, spread over the trial.

    The sequence number in the trailer (little-endian, 12 octets before the end) decides, so that
    the same frames are kept whatever the device did to the headers.

    Returns:
        The filter and the distance between kept frames.
    """
    bits = 0
    while frames >> (bits + 1) >= max(1, wanted):
        bits += 1
    stride = 1 << bits
    terms = []
    for octet in range(4):
        mask = (stride - 1) >> 8 * octet & 0xFF
        if mask:
            terms.append(f"ether[len - {12 - octet}] & {mask} = 0")
    return " and ".join(["ether[len - 16] = 0xab", *terms]), stride


def neighbours_filter(frames: int, wanted: int) -> str:
    """Capture filter that keeps whole runs of 256 neighbours, about ``wanted`` frames in all."""
    bits = 0
    while frames >> (bits + 1) >= wanted:
        bits += 1
    mask = (1 << bits) - 1
    terms = []
    for octet in range(3):  # from the second octet of the number on
        part = mask >> 8 * octet & 0xFF
        if part:
            terms.append(f"ether[len - {11 - octet}] & {part} = 0")
    return " and ".join(["ether[len - 16] = 0xab", *terms])
