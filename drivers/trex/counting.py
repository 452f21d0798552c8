"""What TRex counted, captured and recorded in one trial, as counts, delays and times. Pure.

Three ways to tell test frames from others:

* *trailer*: every frame is stamped (latency streams, software mode, one data path core); each
  class is counted separately across translation and encapsulation, control frames are the rest;
* *marks*: capture filters count marks that the streams' programs write, class by class; neither
  order nor duplicates are seen (:mod:`v6t.drivers.trex.streams`);
* *ports*: port counters less the control frames that a capture filter counted; any number of
  cores and line rate, but the classes cannot be told apart. One core stamps some frames all the
  same, which are compared.

The port counters are read between two readings of the server's clock, so neither the way to the
server nor the client's own delays blur the time: the whole sending lies between the last reading
without a sent frame and the first with all of them. The error is how close these readings are.
"""

import base64
import binascii
import math
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from v6t.base.errors import TesterError
from v6t.drivers.delays import compute_ipdv
from v6t.drivers.trex import capture
from v6t.drivers.trex.bursts import Burst, OfferedLoad
from v6t.drivers.trex.capture import CaptureReader
from v6t.drivers.trex.client.stats import CounterReading, GroupStats, TrialStats
from v6t.drivers.trex.streams import FIRST_SEQUENCE, is_marked
from v6t.packets.arrays import count_unique
from v6t.profiles.model import Role
from v6t.trials.delays import Distribution
from v6t.trials.result import ClassCount, DirectionResult, Timeline, choose_slot_s, sum_classes
from v6t.trials.trial import Trial

CAPTURED_STAMPS_KEY = "stamped"  # Figure of a trial: see :func:`count_captured_stamps`
STAMPS_CLASS = -1  # Class number of the capture that counts stamped frames of several cores
COUNTER_READING_S = 0.002  # Time of one reading of the port counters (docs/accuracy.md)
_READING_INTERVAL_S = 0.5  # Interval of the readings for a timeline; no slot is shorter
_MIN_READINGS = 3  # With fewer readings there is no timeline
NEGATIVE_TRAFFIC_PROBLEM = (  # The message, and its hint
    "port counters cannot distinguish frames that must be dropped",
    "leave out negative traffic, or count by trailer (cores: 1, counting: trailer)",
)
_COMPRESSED_COOKIE, _PLAIN_COOKIE = 0x1C849304, 0x1C849303
_COOKIE_MASK = ~0xF0  # Without the word size, which does not matter in V2
NO_DELAYS = Distribution((), ())
IPDV_FRAMES = 30_000  # Captured frames per direction for IPDV
CLOCK_FIT_FRAMES = 1000  # Number of first and of last frames that give the clock's frequency
_FIT_ROUNDS = 3  # Iterations of the fit


@dataclass(frozen=True)
class DirectionCounts:
    """Counts of one direction by traffic class; in *ports* mode the only class is ``test frames``."""

    classes: Mapping[str, ClassCount]
    control: int  # Received frames that are not test frames
    delays: Mapping[str, Distribution] = field(default_factory=dict)  # delays of all stamped frames
    tags: Mapping[str, Distribution] = field(default_factory=dict)  # delays of tagged frames only
    untimed: Mapping[str, int] = field(default_factory=dict)  # arrived, but delay not recorded


def find_group(stats: TrialStats, burst: Burst) -> GroupStats:
    """Return the counters of a stamped burst."""
    return stats.groups.get(-1 if burst.pg_id is None else burst.pg_id, GroupStats())


def count_group(stats: TrialStats, load: OfferedLoad, burst: Burst) -> ClassCount:
    """Count the frames of a stamped burst.

    A duplicate that TRex recognizes, or more frames than were sent, is surplus; TRex sees only
    repetitions of the frame before as duplicates and calls others out of order.
    """
    group = find_group(stats, burst)
    received = sum(group.received.get(port, 0) for port in load.rx_ports)
    sent = group.sent.get(load.tx_port, 0)
    surplus = max(group.duplicates, received - sent, 0)
    role = load.find_stream(burst).role.value
    return ClassCount(role, burst.frames, sent, received - surplus, surplus, group.out_of_order)


def list_receiving_ports(loads: Sequence[OfferedLoad]) -> list[int]:
    """List the ports of all pairs to which frames may come back, also of pairs that send none."""
    return sorted({port for load in loads for port in load.rx_ports})


def count_by_trailer(
    stats: TrialStats, loads: Sequence[OfferedLoad], frame_timeout_s: float | None = None
) -> DirectionCounts:
    """Count stamped and marked streams of one direction class by class.

    Frames with a longer delay than the timeout are late. Duplicates arrive last, so that the longest
    delays are theirs.
    """
    counts: list[tuple[str, ClassCount]] = []
    delays: dict[str, list[Distribution]] = {}
    tags: dict[str, list[Distribution]] = {}
    for load in loads:
        stamped_sent = 0
        for burst in load.bursts:
            if is_marked(stream := load.find_stream(burst)):
                continue
            count = count_group(stats, load, burst)
            stamped_sent += count.sent
            timed = _remove_longest(decode_delays(find_group(stats, burst)), count.surplus)
            if frame_timeout_s is not None:
                in_order = zip(timed.values_ns, timed.counts, strict=True)
                late = sum(n for ns, n in in_order if ns > round(frame_timeout_s * 1e9))
                count = replace(count, received=count.received - late, late=late)
            counts.append((stream.name, count))
            for of in (delays, tags) if burst.is_tagged else (delays,):
                of.setdefault(stream.name, []).append(timed)
        counts += _count_marks(stats, load, stamped_sent)
    recognized = sum(c.received + c.surplus + c.late for _, c in counts)
    received = sum(stats.ports[port].received for port in list_receiving_ports(loads))
    return DirectionCounts(
        sum_classes(counts),
        # a frame may come back to another pair than its sender's
        max(0, received - recognized),
        {name: Distribution.merge(parts) for name, parts in delays.items()},
        {name: Distribution.merge(parts) for name, parts in tags.items()},
    )


def _remove_longest(delays: Distribution, number: int) -> Distribution:
    counts = dict(zip(delays.values_ns, delays.counts, strict=True))
    for value_ns in reversed(delays.values_ns):
        removed = min(number, counts[value_ns])
        counts[value_ns] -= removed
        number -= removed
    return Distribution.from_values(counts)


def _count_marks(
    stats: TrialStats, load: OfferedLoad, stamped_sent: int
) -> Iterator[tuple[str, ClassCount]]:
    """Count the marked frames of each class.

    TRex does not count the sent frames of a class, so unsent frames are charged to the first class.
    """
    unsent = sum(b.frames for b in load.marked_bursts) + stamped_sent
    unsent -= stats.ports[load.tx_port].sent
    for number, bursts in load.marked_classes.items():
        stream = load.find_stream(bursts[0])
        received = stats.count_matches("marked", load.rx_ports, number)
        required = sum(b.frames for b in bursts)
        sent, unsent = required - unsent, 0
        surplus = max(0, received - sent)
        count = ClassCount(stream.role.value, required, sent, received - surplus, surplus, None)
        yield stream.name, count


def count_by_ports(stats: TrialStats, loads: Sequence[OfferedLoad]) -> DirectionCounts:
    """Count test frames by port counters, less the control frames that a capture counted."""
    receiving = list_receiving_ports(loads)
    control = stats.count_matches("control", receiving)
    arrived = sum(stats.ports[port].received for port in receiving) - control
    sent = sum(stats.ports[load.tx_port].sent for load in loads)
    surplus = max(0, arrived - sent)
    required = sum(load.frames for load in loads)
    count = ClassCount("foreground", required, sent, max(0, arrived - surplus), surplus, None)
    some = [replace(load, bursts=load.stamped_bursts) for load in loads if load.stamped_bursts]
    timed = count_by_trailer(stats, some)
    return replace(timed, classes={"test frames": count}, control=control)


def make_distributions(
    counted: DirectionCounts, loads: Sequence[OfferedLoad], *, tags: bool
) -> dict[str, Distribution]:
    """Make the distributions of delays by class; frames without a delay count as lost."""
    expected = Counter[str]()
    for load in loads:
        for burst in load.stamped_bursts:
            stream = load.find_stream(burst)
            if stream.role is not Role.NEGATIVE:
                expected[stream.name] += burst.frames if burst.is_tagged or not tags else 0
    counts_by_key = counted.tags if tags else counted.delays
    delays = {}
    for name, frames in expected.items():
        timed = counts_by_key.get(name, NO_DELAYS)
        lost = max(0, frames - timed.frames - counted.untimed.get(name, 0))
        delays[name] = replace(timed, lost=lost)
    return delays


def find_timing_faults(stats: TrialStats, loads: Sequence[OfferedLoad]) -> Iterator[str]:
    """Yield faults of a server that timed fewer frames than arrived.

    Such frames would have no delay at all: neither a late nor an early one.
    """
    for load in loads:
        groups = [find_group(stats, burst) for burst in load.stamped_bursts]
        arrived = sum(n for g in groups for port, n in g.received.items() if port in load.rx_ports)
        if (timed := sum(decode_delays(group).frames for group in groups)) < arrived:
            reason = "" if timed else ": the server lacks --hdrh"
            yield f"{load.direction}: TRex timed {timed} of {arrived} frames that arrived{reason}"


def summarize_delays(counted: DirectionCounts) -> dict[str, float] | None:
    """Return smallest, median, 99.9th percentile and largest delay of all classes [us]."""
    whole = Distribution.merge(counted.delays.values())
    if not whole.frames:
        return None
    percents = {"min": 0, "p50": 50, "p99_9": 99.9, "max": 100}
    return {name: whole.percentile_ns(percent) / 1000 for name, percent in percents.items()}


def find_faults(stats: TrialStats, loads: Sequence[OfferedLoad], cpu_limit: float) -> list[str]:
    """Find the tester's own faults, which make a trial invalid."""
    faults = list(dict.fromkeys(stats.events))
    if not stats.ended:
        faults.append("TRex was still sending long after the trial's end and was stopped")
    for load in loads:
        direction, tx = load.direction, stats.ports[load.tx_port]
        if tx.sent != load.frames:
            faults.append(f"{direction}: TRex sent {tx.sent} frames instead of {load.frames}")
        if tx.output_errors:
            faults.append(f"{direction}: {tx.output_errors} errors at TRex's transmit port")
    for port in list_receiving_ports(loads):
        if dropped := stats.ports[port].input_errors:
            faults.append(f"TRex's receive port {port} dropped {dropped} frames (ierrors)")
    faults += stats.port_faults
    if stats.dropped_frames:
        faults.append(f"TRex dropped {stats.dropped_frames} frames before its transmit queue")
    return [*faults, *find_overload(stats.queue_full_count, stats.cpu, cpu_limit)]


def find_overload(queue_full_count: int, cpu: Sequence[float], cpu_limit: float) -> Iterator[str]:
    """Yield faults of an overloaded data path, from samples of its load and their limit [%]."""
    if queue_full_count:
        yield f"TRex's transmit queue was full {queue_full_count} times"
    if (busiest := max(cpu, default=0.0)) > cpu_limit:
        yield f"TRex's data path was {busiest:.0f}% busy (limit {cpu_limit:.0f}%)"


def describe_counting(loads: Sequence[OfferedLoad]) -> str:
    """Return how test frames were recognized: ``trailer``, ``marks``, both, or ``ports``."""
    if not all(load.has_identified_frames for load in loads):
        return "ports"
    stamped = ["trailer"] if any(load.stamped_bursts for load in loads) else []
    marked = ["marks"] if any(load.marked_bursts for load in loads) else []
    return " and ".join(stamped + marked)


def count_captured_stamps(stats: TrialStats, loads: Sequence[OfferedLoad]) -> dict[str, int]:
    """Count the stamped frames of a direction that TRex's cores received and its receiver captured.

    Several cores pass received frames through rings to the receiver; frames that find no room there
    are not captured. If stamped frames are missing, control frames may be missing as well.

    Returns:
        ``received`` and ``captured``; empty where no capture counted them.
    """
    if not any(one.class_number == STAMPS_CLASS for one in stats.captures):
        return {}
    captured = stats.count_matches("marked", list_receiving_ports(loads), STAMPS_CLASS)
    counts = [count_group(stats, load, burst) for load in loads for burst in load.stamped_bursts]
    received = sum(c.received + c.surplus for c in counts)
    return {"received": received, "captured": min(captured, received)}


@dataclass(frozen=True)
class SendingTime:
    """Measured sending time with its largest error [s]."""

    time_s: float
    error_s: float

    @property
    def max_s(self) -> float:
        """Upper bound of the sending time [s]."""
        return self.time_s + self.error_s


def measure_sending_time(
    readings: Iterable[CounterReading], port: int, frames: int, duration_s: float
) -> SendingTime | None:
    """Measure the time from the first frame to the end of the last one's slot, None if frames remain.

    TRex does not outrun its schedule, so sending took ``duration_s`` at least.
    """
    idle = first = busy = None
    for reading in readings:
        if (count := reading.sent[port]) == 0:
            idle = reading.before_s
        elif first is None:
            first = reading.after_s
        if count < frames or idle is None:
            busy = reading.before_s
            continue
        most = reading.after_s - idle + duration_s / frames
        least = min(duration_s, most)
        if first is not None and busy is not None:
            least = min(most, max(least, busy - first))
        return SendingTime((most + least) / 2, (most - least) / 2)
    return None


def make_timeline(stats: TrialStats, loads: Sequence[OfferedLoad], trial: Trial) -> Timeline | None:
    """Make the timeline of one direction by interpolating readings of port counters.

    A frame that was not back at the end of a slot counts as lost in it if it never arrived. Control
    frames count like others here: the sums of the trial are more exact.

    Returns:
        None if the trial was too short for enough readings, flows began one after the other, or the
        load has negative traffic.
    """
    negative = any(s.role is Role.NEGATIVE for load in loads for s in load.streams.streams)
    if len(stats.timeline_readings) < _MIN_READINGS or negative or trial.flow_starts is not None:
        return None
    tx_ports, rx_ports = {o.tx_port for o in loads}, list_receiving_ports(loads)
    end_s = max(trial.total_duration_s, stats.timeline_readings[-1][0]) + 1e-6
    last = end_s, {port: (counted.sent, counted.received) for port, counted in stats.ports.items()}
    points = [(0.0, 0, 0)]
    for when, ports in (*stats.timeline_readings, last):
        if when > points[-1][0]:
            sent, received = sum(ports[p][0] for p in tx_ports), sum(ports[p][1] for p in rx_ports)
            points.append((when, sent, received))
    times, sent_frames, arrived = np.array(points, dtype=float).T
    width = max(_READING_INTERVAL_S, choose_slot_s(trial.total_duration_s))
    ends = np.append(np.arange(-(-trial.total_duration_s // width)) * width, times[-1])
    arrivals = np.rint(np.interp(ends, times, arrived)).astype(int)
    missing = np.interp(ends, times, sent_frames) - np.interp(ends, times, arrived)
    # a frame under way at a reading is not lost: the loss never falls
    missing = np.minimum.accumulate(missing[::-1])[::-1]
    lost = np.maximum(0, np.rint(missing)).astype(int)
    received = np.maximum(0, np.diff(arrivals))
    return Timeline(width, tuple(received.tolist()), tuple(np.diff(lost).tolist()))


def decode_delays(group: GroupStats) -> Distribution:
    """Return the delays of a group's received frames."""
    if not group.histogram or not any(group.received.values()):
        return NO_DELAYS
    return decode_histogram(group.histogram)


def decode_histogram(text: str) -> Distribution:
    """Decode a histogram of delays in microseconds; each bucket counts as its middle.

    TRex sends HdrHistogram's V2 encoding (hdrhistogram.github.io), compressed, in base64: an outer cookie
    and a zlib stream; inside a 40-octet header and the counts as ZigZag LEB128 numbers, of which negative
    ones are runs of empty buckets.

    Raises:
        TesterError: the histogram is invalid.
    """
    try:
        return _decode(base64.b64decode(text))
    except (binascii.Error, struct.error, zlib.error, IndexError, ValueError) as exc:
        text = "TRex sent a delay histogram that cannot be read"
        raise TesterError(text, code="tester-fault") from exc


def _decode(data: bytes) -> Distribution:
    """Decode a compressed histogram; raise ValueError and others if it is invalid."""
    cookie, length = struct.unpack_from(">ii", data)
    if cookie & _COOKIE_MASK != _COMPRESSED_COOKIE & _COOKIE_MASK:
        raise ValueError("not a compressed histogram")
    body = zlib.decompress(data[8 : 8 + length])
    cookie, octets, _, digits, lowest, _highest, _ratio = struct.unpack_from(">iiiiqqd", body)
    if cookie & _COOKIE_MASK != _PLAIN_COOKIE & _COOKIE_MASK or not 0 <= digits <= 5:
        raise ValueError("not a histogram")
    half_bits = (2 * 10**digits - 1).bit_length() - 1
    unit_bits = max(0, lowest.bit_length() - 1)
    counts = {}
    index = 0
    for number in _decode_zigzag(body[40 : 40 + octets]):
        if number > 0:
            bucket = max(0, (index >> half_bits) - 1)
            shift = bucket + unit_bits
            low = (index - (bucket << half_bits)) << shift
            counts[1000 * low + 500 * ((1 << shift) - 1)] = number
        index += max(1, -number)
    return Distribution.from_values(counts)


def _decode_zigzag(data: bytes) -> Iterator[int]:
    """Yield the numbers of a ZigZag LEB128 encoding, none of which needs 56 bits."""
    value = shift = 0
    for octet in data:
        value |= (octet & 0x7F) << shift
        shift += 7
        if octet < 0x80:
            yield (value >> 1) ^ -(value & 1)
            value = shift = 0
    if shift:
        raise ValueError("cut off")


def estimate_tick_rate(stamps: capture.StampColumns) -> float | None:
    """Estimate the frequency of TRex's time stamp counter from departures and arrivals [Hz].

    Only the first and last frames count: those between may have stood in the queue of an overloaded
    device. Of these the fastest frames of the first and of the last third tell it, as queues only
    add delay.

    Returns:
        The frequency; None: the frames are too few or too close.
    """
    arrived_s, ticks = stamps.arrived_s, stamps.departed_ticks
    if len(ticks) > 2 * CLOCK_FIT_FRAMES:
        by_arrival = np.argsort(arrived_s, kind="stable")
        ends = np.r_[by_arrival[:CLOCK_FIT_FRAMES], by_arrival[-CLOCK_FIT_FRAMES:]]
        arrived_s, ticks = arrived_s[ends], ticks[ends]
    if len(ticks) < 6:
        return None
    order = np.argsort(ticks, kind="stable")
    arrived_s, left = arrived_s[order] - arrived_s[order[0]], ticks[order] - ticks[order[0]]
    if arrived_s[-1] < 0.05:
        return None
    hertz = float(left[-1] / arrived_s[-1])
    third = len(left) // 3
    for _ in range(_FIT_ROUNDS):  # with a wrong frequency, other frames appear to be the fastest
        delays_s = arrived_s - left / hertz
        early, late = int(delays_s[:third].argmin()), int(delays_s[-third:].argmin()) - third
        hertz = float((left[late] - left[early]) / (arrived_s[late] - arrived_s[early]))
    return hertz


def make_ipdv(reader: CaptureReader, load: OfferedLoad, ticks_hz: float) -> dict[str, Distribution]:
    """Compute IPDV, the differences of neighbors' delays, by class.

    Of long streams TRex captured runs of 256 neighbors only: then there are fewer pairs than the
    class has frames, and the procedure calls the result sampled. A pair of which one frame was
    captured and the other should have been is lost.
    """
    named = capture.identify_streams(reader.samples, [load])
    run_bits = (1 << capture.count_stride_bits(load.frames, IPDV_FRAMES)) - 1
    distributions = {}
    for number, stream in enumerate(load.streams.streams):
        if stream.role is Role.NEGATIVE:
            continue
        count = next(b.frames for b in load.bursts if b.index == number)
        stamps = reader.select_columns(n for n, s in named.items() if s is stream)
        delays = np.empty(0, np.int64)
        if len(stamps.sequence):
            left = stamps.departed_ticks - stamps.departed_ticks.min()
            arrived_s = stamps.arrived_s - stamps.arrived_s.min()
            delays = np.rint((arrived_s - left / ticks_hz) * 1e9).astype(np.int64)
        sequence = (np.arange(count, dtype=np.int64) + FIRST_SEQUENCE) & 0xFFFFFFFF
        passes_filter = sequence >> 8 & run_bits == 0
        pairs = compute_ipdv(stamps.sequence, delays, count)
        expected = int(np.count_nonzero(passes_filter[1:] & passes_filter[:-1]))
        distributions[stream.name] = replace(pairs, lost=max(0, expected - pairs.frames))
    return distributions


def measure_delays(
    reader: CaptureReader, named: Mapping[int, str], min_delays_us: Mapping[str, float]
) -> dict[str, Distribution]:
    """Measure delays in whole microseconds from a recording, by class.

    In software mode each of several data path cores keeps counters of the stamped frames it receives,
    and TRex adds these up without their histograms (``CTimeHistogram::operator+=``, v3.08). The
    frames themselves reach its receiver, which records them by the same time stamp counter that
    stamped them. The smallest delay is TRex's own, taken where the frame was received, so that the
    way to the receiver makes no delay longer than it makes the fastest frame's.
    """
    hertz = estimate_tick_rate(reader.stamps)
    distributions: dict[str, list[Distribution]] = {}
    for number, name in named.items():
        stamps = reader.select_columns([number])
        if hertz is None or name not in min_delays_us or not len(stamps.sequence):
            continue
        sent_s = (stamps.departed_ticks - stamps.departed_ticks[0]) / hertz
        late_us = (stamps.arrived_s - stamps.arrived_s[0] - sent_s) * 1e6
        delays_us = np.rint(late_us - late_us.min() + min_delays_us[name]).astype(np.int64)
        values, counts = count_unique(1000 * delays_us)
        distribution = Distribution(tuple(values.tolist()), tuple(counts.tolist()))
        distributions.setdefault(name, []).append(distribution)
    return {name: Distribution.merge(parts) for name, parts in distributions.items()}


def add_sampled_delays(
    counted: DirectionCounts, load: OfferedLoad, stats: TrialStats, reader: CaptureReader
) -> DirectionCounts:
    """Add the delays of recorded stamped frames that one of several cores sent within the load."""
    least, received = dict[str, float](), dict[str, int]()
    for burst in load.stamped_bursts:
        name, smallest = load.find_stream(burst).name, find_group(stats, burst).min_delay_us
        if smallest is not None:
            least[name] = min(smallest, least.get(name, math.inf))
        received[name] = received.get(name, 0) + count_group(stats, load, burst).received
    named = {n: s.name for n, s in capture.identify_streams(reader.samples, [load]).items()}
    delays = measure_delays(reader, named, least)
    untimed = {n: max(0, k - delays.get(n, NO_DELAYS).frames) for n, k in received.items()}
    return replace(counted, delays=delays, tags=delays, untimed=untimed)


def find_losses(
    reader: CaptureReader, load: OfferedLoad, by_number: Mapping[int, Burst]
) -> dict[str, float | None]:
    """Find the times of lost frames from a recording of all frames that arrived.

    Each burst's frames leave at a constant pace, so the number of a lost frame gives its time.

    Returns:
        Fields of a DirectionResult: times after the direction's first frame [s].
    """
    numbers = {burst: number for number, burst in by_number.items()}
    times: list[float] = []
    for burst in load.bursts:
        if load.find_stream(burst).role is Role.NEGATIVE or not burst.frames:
            continue
        is_missing = np.ones(burst.frames, dtype=bool)
        if burst in numbers:
            sequence = reader.select_columns([numbers[burst]]).sequence
            is_missing[sequence[(sequence >= 0) & (sequence < burst.frames)]] = False
        missing = np.flatnonzero(is_missing)
        if len(missing):
            times += [burst.isg / 1e6 + int(missing[end]) / burst.pps for end in (0, -1)]
    start = min(b.isg for b in load.bursts) / 1e6
    return {
        "first_lost_s": min(times) - start if times else None,
        "last_lost_s": max(times) - start if times else None,
        "longest_gap_s": reader.longest_gap_s,
    }


def find_recording_fault(
    reader: CaptureReader, counted: DirectionResult, direction: str
) -> list[str]:
    """Return a fault if a recording lacks frames that arrived."""
    arrived = sum(c.received + c.surplus + c.late for c in counted.classes.values())
    text = f"{direction}: TRex recorded {reader.frames} of {arrived} frames that arrived"
    return [text] if reader.frames < arrived else []


def _compute_start_s(reader: CaptureReader, number: int, burst: Burst, ticks_hz: float) -> float:
    """Return the time at which a burst began, computed from its first captured frame [s]."""
    stamps = reader.select_columns([number])
    first = int(stamps.sequence.argmin())
    return float(stamps.departed_ticks[first] / ticks_hz - stamps.sequence[first] / burst.pps)


def match_bursts_by_time(
    reader: CaptureReader, by_number: Mapping[int, Burst], load: OfferedLoad, ticks_hz: float
) -> dict[int, Burst]:
    """Return the burst of each stream number, chosen by start time from the bursts of its class."""
    began_s = {n: _compute_start_s(reader, n, b, ticks_hz) for n, b in by_number.items()}
    start_s = min(began_s.values(), default=0.0)
    start_us = min(b.isg for b in load.bursts)
    matches = {}
    for number, burst in by_number.items():
        at_us = start_us + 1e6 * (began_s[number] - start_s)
        twins = [b for b in load.bursts if load.find_stream(b).name == load.find_stream(burst).name]
        matches[number] = twins[int(np.argmin([abs(b.isg - at_us) for b in twins]))]
    return matches


def measure_rate_change_error_s(
    reader: CaptureReader, by_number: Mapping[int, Burst], load: OfferedLoad, ticks_hz: float
) -> float | None:
    """Measure the error of the time at which the second rate began [s], or None if unknown."""
    began_s: dict[str, list[float]] = {}
    for number, burst in by_number.items():
        start_s = _compute_start_s(reader, number, burst, ticks_hz)
        began_s.setdefault(load.find_stream(burst).name, []).append(start_s)
    errors = []
    for name, starts_s in began_s.items():
        # a second rate that begins early may have been taken for the first: only its time counts
        due_us = [b.isg for b in load.bursts if load.find_stream(b).name == name]
        if len(starts_s) > 1:
            errors.append(max(starts_s) - min(starts_s) - (max(due_us) - min(due_us)) / 1e6)
    return max(errors, key=abs, default=None)
