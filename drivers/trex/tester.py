"""TRex as tester and as prober: exact bursts, counted across translation, and single frames."""

import base64
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from typing import Any

from v6t.base.errors import BeyondTester, TesterError
from v6t.drivers.lab.setup import Bed, BedTester, LabDevice
from v6t.drivers.oracle.connection_oracle import find_foreground
from v6t.drivers.oracle.two_phase import make_phase_one_trial, make_validation_trial
from v6t.drivers.prober import MAX_QUIET_TIMES, FrameOnSide
from v6t.drivers.tester import Oracle, PhaseCounts, select_directions
from v6t.drivers.trex import bursts, capture, counting
from v6t.drivers.trex.astf import TcpTrial
from v6t.drivers.trex.attachment import Attachment, Engine
from v6t.drivers.trex.bursts import Burst, OfferedLoad
from v6t.drivers.trex.capture import Batch, CaptureReader, Recordings, make_capture_request
from v6t.drivers.trex.channel import DEADLINE_S, parse_answer
from v6t.drivers.trex.client.stats import Capture, TrialStats
from v6t.drivers.trex.connections import Block, LearnedConnections, compute_timed_share
from v6t.drivers.trex.options import TrexOptions
from v6t.drivers.trex.streams import mark_streams, replace_link_header, with_cache, with_stamps
from v6t.intent.device import Link, Links, Port
from v6t.packets.direction import DIRECTIONS, Direction
from v6t.profiles.model import Role
from v6t.profiles.rows import convert_to_rows
from v6t.profiles.streams import StreamSet
from v6t.trials.connections import Connections
from v6t.trials.result import DirectionResult, TrialResult
from v6t.trials.trial import CAPABILITIES, Capability, Trial, divide

_LIST_INSTALL_S = 5.0  # Longest time to install a stream with its lists
_ONE_CORE_CAPABILITIES: frozenset[Capability] = frozenset({
    "tags", "every-frame", "ipdv", "frame-timeout", "connections", "two-rates", "loss-times",
    "flow-starts", "tcp",
})  # fmt: skip
"""Capabilities of one core on one pair of ports; ``tcp`` only of a server that the lab owns."""
MAX_CAPTURES = 10  # Limit of a TRex server (``MAX_CAPTURE_SIZE``, v3.08)
MAX_CAPTURED_FRAMES = 1000  # Limit of each port's capture
MIN_QUIET_S = 0.2  # Shortest wait after the last frame, since captures are polled
_OVERTIME = 1.5  # Multiple of a trial's duration after which traffic is stopped


class TrexTester(BedTester):
    """Tester that sends with TRex and implements :class:`~v6t.drivers.tester.StatefulTester`.

    Args:
        options: see :class:`~v6t.drivers.trex.options.TrexOptions`.
        links: MAC addresses and MTUs, left and right.
        device: device of the lab, with ``lab: true``; None: the lab joins the ports.
        loopback: whether the ports are joined, by the lab or by the user's cable.
        delays: whether trials measure delays; if so, a server that cannot is rejected on opening.

    Attributes:
        before_start: called when the streams are installed, just before traffic starts.
    """

    name = "trex"
    _oracle: Oracle  # Set by :meth:`load`
    _tcp_trial: TcpTrial  # Set by :meth:`establish`

    def __init__(
        self,
        options: TrexOptions,
        links: Links,
        device: LabDevice | None = None,
        *,
        loopback: bool = False,
        delays: bool = False,
    ) -> None:
        self._options = options
        self._loopback = loopback
        self._links: dict[Direction, tuple[Link, Link]] = {
            "forward": (links.left, links.right),
            "reverse": (links.right, links.left),
        }  # of the first pair, that of the sender first
        self._port_links = options.find_links(links)
        self._bed = Bed(links, None if loopback else device) if options.lab else None
        self.attachment = Attachment(options, links, self._bed, delays=delays)
        self._streams: dict[Direction, StreamSet] = {}
        self._marked: dict[Direction, StreamSet] = {}
        self._nonces = itertools.cycle(range(1, 256))
        self._nonce = 0  # octet that marks the frames of a trial or phase
        self._installed: dict[int, StreamSet] = {}
        self._ticks_hz: float | None = None
        self._recordings = Recordings(self.attachment, options.remote)
        self._connections = LearnedConnections(self._recordings)
        self._pairs: dict[Direction, list[tuple[int, int]]] = {
            "forward": [pair.ports for pair in options.all_pairs],
            "reverse": [pair.ports[::-1] for pair in options.all_pairs],
        }  # sending and receiving port
        self.before_start: Callable[[], object] = lambda: None

    @property
    def capabilities(self) -> frozenset[Capability]:
        if not self.attachment.uses_trailer:  # one of several cores may stamp some frames
            can_time = self.attachment.can_time_some_frames()
            return bursts.SAMPLED_CAPABILITIES if can_time else frozenset()
        if self._options.pairs:
            return frozenset({"tags", "every-frame", "frame-timeout"})
        return _ONE_CORE_CAPABILITIES - (set() if self._options.is_owned else {"tcp"})

    def open(self) -> None:
        try:
            self.attachment.open()
        except BaseException:
            self.close()
            raise

    def load(self, streams: Mapping[Direction, StreamSet], oracle: Oracle) -> None:
        self._oracle = oracle
        self._streams, self._marked = {}, {}
        self._installed.clear()
        uses_trailer = self.attachment.uses_trailer
        can_compare = uses_trailer or self.attachment.can_time_some_frames()
        for direction, stream_set in streams.items():
            listed = convert_to_rows(stream_set, self._options.rows)
            # TRex keeps no cache of frames it stamps
            ready = with_stamps(listed) if can_compare else with_cache(listed, self._options.cache)
            if not uses_trailer and any(s.role is Role.NEGATIVE for s in ready.streams):
                raise TesterError(*counting.NEGATIVE_TRAFFIC_PROBLEM, code="unsupported-by-tester")
            pairs = len(self._pairs[direction])
            if len(ready.streams) * pairs > bursts.IDS_PER_DIRECTION:
                problem = (
                    f"{len(ready.streams)} traffic classes on {pairs} pairs of ports need more "
                )
                problem += f"than TRex's {bursts.IDS_PER_DIRECTION} identifiers"
                raise TesterError(problem, code="too-many-for-trex")
            self._streams[direction] = ready
            may_mark = uses_trailer and self._marks_streams is not False
            if may_mark and (marked := mark_streams(listed)):
                self._marked[direction] = marked
        self._connections.load(self._streams, oracle, loopback=self._loopback)

    def measure(self, trial: Trial) -> TrialResult:
        directions = select_directions(trial, self._streams)
        bursts.check_stamps(trial)
        self._check_capabilities(trial)
        self._prepare_trial(trial)
        self._nonce = next(self._nonces)
        loads = [load for d in directions for load in self._make_loads(d, trial)]
        is_sampled = trial.delays is not None and not self.attachment.uses_trailer
        finds_losses = "loss-times" in trial.required_capabilities
        recordings = []
        for load in loads if is_sampled or finds_losses else ():
            frames = sum(b.frames for b in load.stamped_bursts) if is_sampled else load.frames
            recordings.append(self._recordings.request(load.direction, load, frames))
        stats, began_s = self._send(trial, loads, recordings)
        readers: dict[Direction, CaptureReader] = {}
        for load in loads if recordings else ():
            batches = self._recordings.read(load.direction)
            kept = capture.SAMPLES_PER_STREAM
            readers[load.direction] = CaptureReader(batches, load.mark_distance, kept)
        return self._make_result(trial, loads, stats, began_s, readers)

    def establish(self, trial: Trial, connections: Connections) -> PhaseCounts:
        if connections.tcp is not None:
            self._tcp_trial = TcpTrial(self.attachment, self._oracle, connections, connections.tcp)
            self._installed.clear()  # the server with the streams ends
            self._prepare_trial(trial, "ASTF")
            return self._check_bed(self._tcp_trial.establish())
        self._prepare_trial(trial)
        streams = StreamSet("forward", (find_foreground(self._streams["forward"]),))
        self._connections.make_table(connections)
        return self._run_phase(make_phase_one_trial(trial, connections), streams)

    def validate(self, trial: Trial, connections: Connections) -> PhaseCounts:
        if connections.tcp is not None:
            return self._check_bed(self._tcp_trial.validate())
        streams = self._connections.make_validation(self._streams["reverse"])
        return self._run_phase(make_validation_trial(trial, connections), streams)

    def disconnect(self, trial: Trial, connections: Connections) -> PhaseCounts:
        return self._check_bed(self._tcp_trial.disconnect())

    def describe(self) -> dict[str, Any]:
        uses_trailer = self.attachment.uses_trailer
        description: dict[str, Any] = {
            "kind": self.name,
            "engine": "Cisco TRex, stateless; connections of TCP by its stateful one (ASTF)",
            **self.attachment.describe(),
            "pairs_of_ports": 1 + len(self._options.pairs),
            "counting": "trailer" if uses_trailer else "port counters less control frames",
            "loopback": self._loopback,
            "distinct_frames": self._options.rows
            or (not uses_trailer and self._options.cache)
            or "as in the traffic: every frame is computed",
        }
        return description if self._bed is None else {**description, "device": self._bed.describe()}

    def close(self) -> None:
        with ExitStack() as stack:
            if self._bed is not None:
                stack.callback(self._bed.close)
            stack.callback(self.attachment.close)
            self._connections.close()

    @property
    def _marks_streams(self) -> bool | None:
        """Whether frames are marked, not stamped, in trials without delays; None: at high rates."""
        automatic = None if self.attachment.shares_cpus else False
        return automatic if self._options.marks is None else self._options.marks

    def _check_capabilities(self, trial: Trial) -> None:
        if missing := [CAPABILITIES[n] for n in trial.required_capabilities - self.capabilities]:
            cores = self.attachment.facts.cores
            raise TesterError(
                f"this needs a tester that {' and '.join(sorted(missing))}, which the TRex server with "
                f"{cores} data path core{'' if cores == 1 else 's'} cannot",
                "attach to one with `-c 1 --software --hdrh`, and with counting: auto",
                code="unsupported-by-tester",
            )

    def _prepare_trial(self, trial: Trial, engine: Engine = "STL") -> None:
        """Choose the server's engine, introduce the tester's hosts to the device, and pause."""
        self.attachment.switch_engine(engine)
        if self.attachment.learning_ports:
            self.attachment.ask("introduce_hosts", ports=self.attachment.learning_ports)
        time.sleep(trial.pause_s)

    def _run_phase(self, trial: Trial, streams: StreamSet) -> PhaseCounts:
        self._nonce = next(self._nonces)
        load = self._make_load(streams, bursts.make_bursts(streams, trial, stamp=True))
        stats, began_s = self._send(trial, [load], [self._connections.request_recording(load)])
        # read first: it shows the connections of the compared frames
        self._connections.read_phase(load)
        result = self._make_result(trial, [load], stats, began_s, {})
        return self._connections.count_phase(streams.direction, result, began_s)

    def _make_load(self, streams: StreamSet, own: Sequence[Burst], part: int = 0) -> OfferedLoad:
        pairs = self._pairs[streams.direction]
        ports = pairs[part][0], tuple(rx for _, rx in pairs)
        return OfferedLoad(streams, own, *ports, self._nonce, self._connections.find_oracle)

    def _make_loads(self, direction: Direction, trial: Trial) -> list[OfferedLoad]:
        streams, parts = self._streams[direction], len(self._pairs[direction])
        if trial.flow_starts is not None:
            flows = bursts.make_sequential_flows(streams, trial, trial.flow_starts)
            return [self._make_load(*flows)]
        if trial.second_segment is not None:
            return [self._make_load(*bursts.add_second_rate(streams, trial, trial.second_segment))]
        uses_trailer = self.attachment.uses_trailer
        is_fast = self._marks_streams or trial.max_rate_fps > bursts.ALWAYS_STAMPED_FPS
        if trial.connections is not None:
            streams = self._connections.make_phase_two(streams, trial, trial.connections)
        elif parts == 1 and is_fast and not trial.required_capabilities:
            streams = self._marked.get(direction, streams)
        loads = []
        for part, (tx, _) in enumerate(self._pairs[direction]):
            if not divide(trial.frames, part, parts):
                continue
            own = bursts.select_part(streams, trial, part, parts, core=tx // 2 if parts > 1 else 0)
            own_bursts = bursts.make_bursts(
                own,
                trial,
                stamp=uses_trailer or self.attachment.can_time_some_frames(),
                stamp_all=uses_trailer,
                part=part,
                parts=parts,
                samples=self._options.sample,
                interval=self.attachment.choose_stamp_interval(trial.rate_fps),
            )
            loads.append(self._make_load(own, own_bursts, part))
        return loads

    def _install(self, load: OfferedLoad) -> None:
        if self._installed.get(load.tx_port) is load.streams:
            return
        first, own = self._links[load.direction][0], self._port_links[load.tx_port]
        for at, stream in enumerate(load.streams.streams):  # one by one: lists are made as they go
            sent = stream.render() if isinstance(stream, Block) else stream
            if own != first:
                sent = sent.with_packet(replace_link_header(sent.packet, first, own))
            self.attachment.ask("load", port=load.tx_port, streams=[dict(sent.trex)], first=at)
        self._installed[load.tx_port] = load.streams

    def _send(
        self, trial: Trial, loads: Sequence[OfferedLoad], recordings: Sequence[dict[str, Any]]
    ) -> tuple[TrialStats, float]:
        """Send the traffic of a trial; return TRex's counters, and when sending began [s]."""
        for load in loads:
            self._install(load)
        if not all(load.has_identified_frames for load in loads) and any(
            s.role is Role.NEGATIVE for load in loads for s in load.streams.streams
        ):
            problem = f"TRex cannot stamp {trial.max_rate_fps:,.0f} fps, the most of this search, "
            problem += f"and {counting.NEGATIVE_TRAFFIC_PROBLEM[0]}"
            hint = "leave out negative traffic, or bound the search by the line_rate of the testbed"
            raise BeyondTester(problem, hint, code="unsupported-by-tester")
        captures = [*self._request_captures(trial, loads), *recordings]
        if len(captures) > MAX_CAPTURES:
            problem = f"this trial needs {len(captures)} captures; TRex has at most {MAX_CAPTURES}"
            hint = "use fewer traffic classes, or measure one direction"
            raise TesterError(problem, hint, code="too-many-for-trex")
        self.before_start()
        overtime_s = _compute_time_limit_s(trial)
        lists_s = _LIST_INSTALL_S * sum(len(load.bursts) for load in loads)
        answer = self.attachment.ask(
            "run_trial",
            watch=self.attachment.check_server,
            deadline_s=overtime_s + trial.residual_wait_s + DEADLINE_S + lists_s,
            bursts={str(load.tx_port): load.make_requests() for load in loads},
            due_s=trial.total_duration_s,
            receive=counting.list_receiving_ports(loads),
            residual_s=trial.residual_wait_s,
            give_up_s=overtime_s,
            captures=captures,
        )
        stats = parse_answer(TrialStats, answer)
        return self._check_bed((stats, time.monotonic() - stats.began_ago_s))

    def _request_captures(
        self, trial: Trial, loads: Sequence[OfferedLoad]
    ) -> Iterator[dict[str, Any]]:
        """Yield requests for captures that count frames, and that sample frames or neighbors."""
        wanted, needs_ipdv = self._options.sample, trial.delays is not None and trial.delays.ipdv
        for own in _group_by_direction(loads).values():
            first, ports = own[0], counting.list_receiving_ports(own)
            stamped = [burst for load in own for burst in load.stamped_bursts]
            marked = [burst for load in own for burst in load.marked_bursts]
            each = max(1, wanted // max(1, len(stamped) + len(marked)))
            limit = 4 * max(wanted, sum(len(load.bursts) for load in own)) + 100
            if needs_ipdv and stamped:
                pattern = capture.make_neighbors_filter(first.frames, counting.IPDV_FRAMES)
                yield make_capture_request("sample", ports, pattern, 2 * counting.IPDV_FRAMES)
            elif wanted:
                for group, at in ((stamped, 0), (marked, first.mark_distance)):
                    if group:
                        most = max(b.frames for b in group)
                        pattern = capture.make_sample_filter(most, each, at, first.nonce)
                        yield make_capture_request("sample", ports, pattern, limit)
            numbers = (number for load in own for number in load.marked_classes)
            counted = {("marked", n): capture.make_class_filter(n, first.nonce) for n in numbers}
            if stamped and not self.attachment.uses_trailer:
                # stamped frames show how many frames several cores pass to captures
                counted["marked", counting.STAMPS_CLASS] = capture.STAMPED_FRAME_FILTER
            if not all(load.has_identified_frames for load in loads):
                counted["control", 0] = capture.make_control_filter(load.streams for load in loads)
            for (kind, number), pattern in counted.items():
                yield make_capture_request(kind, ports, pattern, 1, snaplen=64, class_number=number)

    def _find_losses(
        self, trial: Trial, load: OfferedLoad, reader: CaptureReader
    ) -> dict[str, Any]:
        """Find the times of lost frames and of the rate change, fields of a DirectionResult."""
        burst_of = {load.find_stream(b).stream_id: b for b in load.bursts}
        named = capture.identify_streams(reader.samples, [load])
        by_number = {number: burst_of[stream.stream_id] for number, stream in named.items()}
        error_s = None
        if trial.second_segment is not None:
            ticks_hz = counting.estimate_tick_rate(reader.stamps) or self._ticks_hz or 1.0
            by_number = counting.match_bursts_by_time(reader, by_number, load, ticks_hz)
            error_s = counting.measure_rate_change_error_s(reader, by_number, load, ticks_hz)
        return {**counting.find_losses(reader, load, by_number), "rate_change_error_s": error_s}

    def _make_result(
        self,
        trial: Trial,
        loads: Sequence[OfferedLoad],
        stats: TrialStats,
        began_s: float,
        readers: Mapping[Direction, CaptureReader],
    ) -> TrialResult:
        began = datetime.now(timezone.utc) - timedelta(seconds=time.monotonic() - began_s)
        by_direction = _group_by_direction(loads)
        samples = {d: self._read_samples(stats, own) for d, own in by_direction.items()}
        for reader in samples.values():
            self._ticks_hz = counting.estimate_tick_rate(reader.stamps) or self._ticks_hz
        stamps = {d: counting.count_captured_stamps(stats, own) for d, own in by_direction.items()}
        captured = {direction: counts for direction, counts in stamps.items() if counts}
        facts = self.attachment.facts
        directions: dict[str, DirectionResult] = {
            d: self._make_direction(trial, own, stats, samples[d], readers.get(d))
            for d, own in by_direction.items()
        }
        faults = counting.find_faults(stats, loads, self.attachment.cpu_limit)
        if self.attachment.uses_trailer:  # others read delays from recordings
            if trial.delays is not None or trial.frame_timeout_s is not None:
                faults += counting.find_timing_faults(stats, loads)
            for direction, reader in readers.items():
                faults += counting.find_recording_fault(reader, directions[direction], direction)
        return TrialResult(
            directions=directions,
            faults=tuple(faults),
            is_disturbed=bool(stats.events),
            started=began.isoformat(timespec="milliseconds"),
            tester={
                "counting": counting.describe_counting(loads),
                "timed": _describe_timing(loads),
                "cpu": [round(c, 1) for c in stats.cpu],
                "rx_cpu": [round(c, 1) for c in stats.rx_cpu],
                "queue_full": stats.queue_full_count,
                "looks": len(stats.counter_readings),
                "answered": stats.neighbor_answers,
                "cores": facts.cores_per_port,
                "version": facts.version.get("version"),
                "by_trailer": self.attachment.uses_trailer,
                **({counting.CAPTURED_STAMPS_KEY: captured} if captured else {}),
            },
        )

    def _make_direction(
        self,
        trial: Trial,
        loads: Sequence[OfferedLoad],
        stats: TrialStats,
        samples: CaptureReader,
        recording: CaptureReader | None,
    ) -> DirectionResult:
        first, delays = loads[0], trial.delays
        if all(load.has_identified_frames for load in loads):
            counted = counting.count_by_trailer(stats, loads, trial.frame_timeout_s)
        else:
            counted = counting.count_by_ports(stats, loads)
        is_sampled = delays is not None and not self.attachment.uses_trailer
        timed_share, losses = None, {}
        if delays is not None and trial.connections:
            timed_share = compute_timed_share(first.streams)
        if recording is not None and is_sampled:
            counted = counting.add_sampled_delays(counted, first, stats, recording)
            timed_share = sum(b.pps for b in first.stamped_bursts) / trial.rate_fps
        elif recording is not None:
            losses = self._find_losses(trial, first, recording)
        step = max(1, samples.frames // max(1, self._options.sample))
        compared = capture.compare_frames(samples, loads, step)
        readings, duration_s = stats.counter_readings, trial.total_duration_s
        never = counting.SendingTime(_compute_time_limit_s(trial), 0.0)
        times = (
            counting.measure_sending_time(readings, load.tx_port, load.frames, duration_s) or never
            for load in loads
        )
        took = max(times, key=lambda t: t.max_s)
        distributions = ipdv = None
        if delays is not None:
            distributions = counting.make_distributions(counted, loads, tags=bool(delays.tags))
            if delays.ipdv and self._ticks_hz:
                ipdv = counting.make_ipdv(samples, first, self._ticks_hz)
        return DirectionResult(
            classes=counted.classes,
            sending_time_s=took.time_s,
            sending_time_error_s=took.error_s,
            control=counted.control,
            checked=compared.checked,
            matched=compared.matched,
            mismatch=compared.mismatch,
            behaviour=compared.seen or None,
            delay_us=counting.summarize_delays(counted),
            timed_share=timed_share,
            timed_of="load" if is_sampled else None,
            delays=distributions,
            ipdv=ipdv,
            timeline=counting.make_timeline(stats, loads, trial),
            **losses,
        )

    def _read_samples(self, stats: TrialStats, loads: Sequence[OfferedLoad]) -> CaptureReader:
        """Read the sampled frames of a direction, with the addresses of the first pair of ports."""
        direction = loads[0].direction
        captured = [f for c in stats.captures if c.kind == "sample" for f in c.decode_frames()]
        batches: list[Batch] = []
        is_crossed = not self._loopback  # joined ports get frames as they were sent
        for pair in self._pairs[direction]:
            frames = [(at, frame) for at, frame, port in captured if port == pair[1]]
            first, own = self._links[direction][is_crossed], self._port_links[pair[is_crossed]]
            if own != first:
                frames = [(at, replace_link_header(frame, own, first)) for at, frame in frames]
            arrived = capture.make_batches(frames)
            batches += [b for b, _ in capture.select_current_frames(arrived, loads[0].nonce)]
        return CaptureReader(batches)


class TrexProber:
    """Prober that uses the ports of a TRex server, which is started if none answers."""

    def __init__(self, options: TrexOptions, links: Links, bed: Bed | None) -> None:
        self._ports: dict[Port, int] = {"left": options.ports[0], "right": options.ports[1]}
        self._attachment = Attachment(options, links, bed, delays=False)
        try:
            self._attachment.open()
            self._attachment.ask("introduce_hosts", ports=self._attachment.learning_ports)
        except BaseException:
            self.close()
            raise

    def exchange(
        self, frames: Sequence[FrameOnSide], wait_s: float, quiet_s: float
    ) -> list[FrameOnSide]:
        quiet_s = max(quiet_s, MIN_QUIET_S) if quiet_s else 0.0
        answer = self._attachment.ask(
            "exchange",
            deadline_s=wait_s + 60,
            frames=[[self._ports[s], base64.b64encode(octets).decode()] for s, octets in frames],
            captures=[
                make_capture_request("sample", [port], "not arp", MAX_CAPTURED_FRAMES)
                for port in self._ports.values()
            ],
            wait_s=wait_s,
            quiet_s=quiet_s,
            limit_s=wait_s + MAX_QUIET_TIMES * quiet_s,
        )
        captures = parse_answer(list[Capture], answer)
        arrivals = [frame for one in captures for frame in one.decode_frames()]
        side_of = {port: side for side, port in self._ports.items()}
        return [(side_of[port], octets) for _, octets, port in sorted(arrivals)]

    def close(self) -> None:
        self._attachment.close()


def _group_by_direction(loads: Sequence[OfferedLoad]) -> dict[Direction, list[OfferedLoad]]:
    groups = {d: [load for load in loads if load.direction == d] for d in DIRECTIONS}
    return {direction: own for direction, own in groups.items() if own}


def _describe_timing(loads: Sequence[OfferedLoad]) -> str:
    """Return the ``timed`` figure of a trial: which frames had a time stamp."""
    if all(len(load.stamped_bursts) == len(load.bursts) for load in loads):
        return "every frame"
    return "tagged frames" if any(load.stamped_bursts for load in loads) else "none"


def _compute_time_limit_s(trial: Trial) -> float:
    """Return the time after the start at which traffic is stopped [s]."""
    return trial.total_duration_s * _OVERTIME + 5
