"""TRex as tester: exact bursts, counted across translation; pairs of ports share a direction."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from v6t.base.errors import BeyondTester, TesterError
from v6t.drivers.device import DeviceSession, StateDevice
from v6t.drivers.embedded.stateful import establishing, validating
from v6t.drivers.lab.setup import Bed, LabDevice
from v6t.drivers.oracle.connection_oracle import foreground
from v6t.drivers.oracle.replay import FrameSource
from v6t.drivers.tester import Oracle, PhaseCounts
from v6t.drivers.trex import counting, losses, marking, samples, sending, tables
from v6t.drivers.trex.attachment import Attachment
from v6t.drivers.trex.channel import DEADLINE_S
from v6t.drivers.trex.conversing import Conversing
from v6t.drivers.trex.course import course
from v6t.drivers.trex.options import Side, TrexOptions
from v6t.drivers.trex.recorded import Beside, share
from v6t.drivers.trex.recording import Recordings, longest_frame
from v6t.drivers.trex.segments import segmented
from v6t.drivers.trex.stamping import (
    BESIDE,
    STAMPED_FPS,
    bursts,
    check_stamps,
    first_frames,
    stamped,
    with_cache,
    with_macs,
)
from v6t.drivers.trex.stateful import Connecting
from v6t.drivers.trex.successive import successive
from v6t.drivers.trex.tables import IDS_PER_DIRECTION
from v6t.drivers.trex.unstamped import Unstamped
from v6t.packets.direction import DIRECTIONS, Direction
from v6t.profiles.expand import Expander
from v6t.profiles.model import Role
from v6t.profiles.rows import with_rows
from v6t.profiles.streams import Stream, StreamSet, start_at_frame
from v6t.trials.connections import Connections
from v6t.trials.result import DirectionResult, TrialResult
from v6t.trials.trial import CAPABILITIES, Capability, Trial, list_directions

LIST_S = 5.0
"""Giving TRex one stream takes no longer, lists and all, on the slowest machine."""
ALONE: frozenset[Capability] = frozenset(
    {
        "tags", "every-frame", "ipdv", "frame-timeout", "connections",
        "two-rates", "loss-times", "flow-starts",
    }
)  # fmt: skip
"""What one core on one pair of ports can."""
TCP: frozenset[Capability] = frozenset({"tcp"})
OVERTIME = 1.5
"""Traffic that takes this many times its duration (and five seconds) is stopped."""


@dataclass(frozen=True)
class Cable:
    """Ports of one pair in one direction.

    Attributes:
        tx, rx: TRex's port numbers.
        sending, receiving: MAC addresses and VLAN where they are not the first pair's.
    """

    tx: int
    rx: int
    sending: Side | None = None
    receiving: Side | None = None


class TrexTester:
    """Tester protocol over TRex; see :mod:`v6t.drivers.tester`."""

    name = "trex"

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Delays need stamped frames; with several cores one of them stamps some."""
        if self._options.by_trailer is False or self._options.cores > 1 or not self._trailer:
            return BESIDE if self.attachment.times() else frozenset()
        if self._options.pairs:
            return frozenset({"tags", "every-frame", "frame-timeout"})
        return ALONE | TCP if self._options.owned else ALONE

    def __init__(
        self,
        options: TrexOptions,
        links: Any,
        device: LabDevice | None = None,
        *,
        loopback: bool = False,
        delays: bool = False,
    ) -> None:
        """Remember; nothing is started before :meth:`open`.

        Args:
            options: see :class:`~v6t.drivers.trex.options.TrexOptions`.
            links: MAC addresses and MTUs, left and right.
            device: with ``lab: true``, what stands between the ports; None: they are joined.
            loopback: the ports are joined (by the lab, or by the user's cable): frames come back
                unchanged.
            delays: delays will be asked for: a server that cannot give them is refused at once.
        """
        self._options = options
        self._loopback = loopback
        self._links = links
        self._bed = Bed(links, None if loopback else device) if options.lab else None
        self.attachment = Attachment(options, links, self._bed, delays=delays)
        self._streams: dict[Direction, StreamSet] = {}
        self._unstamped = Unstamped()
        self._nonce = 0
        self._installed: dict[int, StreamSet] = {}
        self._oracle: Oracle | None = None
        self._ticks_hz: float | None = None
        self._recordings = Recordings(self.attachment, options.remote)
        self._beside = Beside(self._recordings)
        self._connecting = Connecting(self._recordings)
        self._conversing = Conversing(self.attachment)
        self._flows: dict[Direction, dict[int, FrameSource]] = {}
        self._cables = _cables(options)

    @property
    def _marks(self) -> bool | None:
        """Whether frames that nothing times are marked, not stamped; None: where there are many."""
        if self._options.marks is None:
            return None if self.attachment.cramped else False
        return self._options.marks

    @property
    def _trailer(self) -> bool:
        return self.attachment.trailer

    def open(self) -> None:
        """Find client and server, start what is missing, take the ports."""
        try:
            self.attachment.open()
        except BaseException:
            self.close()
            raise

    def load(self, streams: Mapping[Direction, StreamSet], oracle: Oracle) -> None:
        """Make streams ready; a trial installs those it sends."""
        self._oracle = None if self._loopback else oracle
        self._streams = {}
        self._unstamped.clear()
        self._installed.clear()
        for direction, stream_set in streams.items():
            listed = with_rows(stream_set, self._options.rows)
            ready = stamped(listed) if self.attachment.compares() else listed
            if not self._trailer and any(s.role is Role.NEGATIVE for s in ready.streams):
                raise TesterError(*counting.NOT_TOLD_APART, code="unsupported-by-tester")
            if not self.attachment.compares():  # TRex keeps no cache of frames it stamps
                ready = with_cache(ready, self._options.cache)
            if len(ready.streams) * len(self._cables[direction]) > IDS_PER_DIRECTION:
                raise TesterError(
                    f"{len(ready.streams)} traffic classes on {len(self._cables[direction])} pairs "
                    f"of ports need more than TRex's {IDS_PER_DIRECTION} identifiers",
                    code="too-many-for-trex",
                )
            self._streams[direction] = ready
            if self._trailer and self._marks is not False:
                self._unstamped.load(listed)
        self._connecting.load(self._streams, oracle, loopback=self._loopback)
        self._conversing.load(oracle)

    def measure(self, trial: Trial) -> TrialResult:
        """One trial: install exact bursts, start all, wait for late frames, count."""
        directions = [d for d in DIRECTIONS if d in list_directions(trial.mode)]
        if any(d not in self._streams for d in directions):
            raise TesterError(f"no streams are loaded for a {trial.mode} trial", code="not-loaded")
        check_stamps(trial)
        self._check(trial)
        self._stream()
        self._pause(trial)
        self._flows.clear()
        self._begin()
        if trial.connections is not None:
            sent = [self._in_connections(d, trial, trial.connections) for d in directions]
        else:
            sent = [one for d in directions for one in self._shares(d, trial)]
        if trial.delays is not None and not self._trailer:
            recording = self._beside.recording(sent)
            return self._exchange(trial, sent, recording, lambda: self._beside.read(sent))[0]
        if "loss-times" not in trial.required_capabilities:
            return self._exchange(trial, sent)[0]
        recording = {
            str(one.rx_port): self._recordings.request(
                one.streams.direction, one.frames, longest_frame(one.streams), one.nonce
            )
            for one in sent
        }
        result, _ = self._exchange(trial, sent, recording)
        return self._with_losses(trial, result, sent)

    def _check(self, trial: Trial) -> None:
        """Refuse what this server cannot do: some turn out to be others than their options say.

        Raises:
            TesterError: naming it.
        """
        lacking = sorted(
            CAPABILITIES[need] for need in trial.required_capabilities - self.capabilities
        )
        if lacking:
            cores = self.attachment.facts.get("dp_core_count", 1)
            raise TesterError(
                f"this needs a tester that {' and '.join(lacking)}, which the TRex server with "
                f"{cores} data path core{'' if cores == 1 else 's'} cannot",
                "attach to one with `-c 1 --software --hdrh`, and with counting: auto",
                code="unsupported-by-tester",
            )

    def _with_losses(
        self, trial: Trial, result: TrialResult, sent: Sequence[counting.Sent]
    ) -> TrialResult:
        """The result with what its recordings say: when frames were lost, how long sending took."""
        directions, faults = dict(result.directions), [*result.faults]
        for one in sent:
            way = one.streams.direction
            arrived = losses.Arrived(max(b.frames for b in one.bursts), marking.far_of(one.streams))
            for times_s, frames in self._recordings.read(way):
                arrived.take(times_s, frames)
            faults += losses.unrecorded(arrived, directions[way], way)
            ticks_hz = arrived.ticks_hz or self._ticks_hz or 1.0
            meant = self._meaning([one])(arrived.few)
            of_stream = {one.streams.streams[b.index].stream_id: b for b in one.bursts}
            by_number = {n: of_stream[s.stream_id] for n, s in meant.items()}
            if trial.second_segment is not None:
                by_number = losses.in_time(arrived, by_number, one, ticks_hz)
            lost = losses.losses(arrived, one, by_number)
            directions[way] = replace(
                directions[way],
                first_lost_s=lost.first_s,
                last_lost_s=lost.last_s,
                longest_gap_s=lost.longest_gap_s,
            )
            if trial.second_segment is not None:
                spans = losses.Spans(arrived.spans(by_number, ticks_hz), one)
                directions[way] = replace(directions[way], rate_change_error_s=spans.late_s)
        return replace(result, directions=directions, faults=tuple(faults))

    def establish(self, trial: Trial, connections: Connections) -> PhaseCounts:
        """Phase 1: every frame is recorded in a file of the server and learned from there.

        See :class:`v6t.drivers.tester.StatefulTester`.

        Raises:
            TesterError: the recording cannot be had.
        """
        if connections.tcp is not None:
            self.attachment.run_engine("ASTF")
            self._pause(trial)
            return self._checked(self._conversing.establish(connections))
        self._stream()
        self._pause(trial)
        self._begin()
        phase_trial = establishing(trial, connections)
        every = self._streams["forward"]
        streams = StreamSet("forward", (foreground(every),))
        (cable,) = self._cables["forward"]
        sent = counting.Sent(
            streams, bursts(streams, phase_trial, stamp=True), cable.tx, (cable.rx,)
        )
        self._connecting.begin(connections)
        recording = self._connecting.recording(cable.rx, streams, self._nonce)
        result, raw = self._exchange(phase_trial, [sent], recording, self._connecting.learn)
        return self._connecting.learned(connections, result, raw)

    def validate(self, trial: Trial, connections: Connections) -> PhaseCounts:
        """The validation; see :class:`v6t.drivers.tester.StatefulTester`."""
        if connections.tcp is not None:
            return self._checked(self._conversing.validate())
        self._begin()
        phase_trial = validating(trial, connections)
        (cable,) = self._cables["reverse"]
        streams, burst = self._connecting.validation(self._streams["reverse"], phase_trial.rate_fps)
        sent = counting.Sent(streams, burst, cable.tx, (cable.rx,), self._nonce)
        recording = self._connecting.recording(cable.rx, streams, self._nonce)
        result, raw = self._exchange(phase_trial, [sent], recording, self._connecting.try_all)
        return self._connecting.validated(result, raw)

    def disconnect(self, trial: Trial, connections: Connections) -> PhaseCounts:
        """End connections of TCP; see :class:`v6t.drivers.tester.StatefulTester`."""
        del trial, connections
        return self._checked(self._conversing.disconnect())

    def wait(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    def _begin(self) -> None:
        """Begin a trial or a phase: its frames differ from those of the ones before."""
        self._nonce = self._nonce % 255 + 1

    def _stream(self) -> None:
        """Have the engine for streams, which forgets them where connections came between."""
        if self.attachment.run_engine("STL"):
            self._installed.clear()

    def _checked(self, phase: PhaseCounts) -> PhaseCounts:
        """A phase, with the device still standing."""
        if self._bed is not None:
            self._bed.check()
        return phase

    def now(self) -> float:
        """The monotonic clock [s]."""
        return time.monotonic()

    @property
    def device(self) -> LabDevice | None:
        """What stands between the lab's cables, if there is a lab."""
        return None if self._bed is None else self._bed.device

    def device_state(self) -> StateDevice | None:
        """Of the lab's device."""
        return None if self._bed is None else self._bed.device_state()

    def device_session(self) -> DeviceSession | None:
        """With the lab's device."""
        return None if self._bed is None else self._bed.device_session()

    def describe(self) -> dict[str, Any]:
        """Facts for the manifest."""
        described: dict[str, Any] = {
            "kind": self.name,
            "engine": "Cisco TRex, stateless; connections of TCP by its stateful one (ASTF)",
            **self.attachment.describe(),
            "pairs_of_ports": 1 + len(self._options.pairs),
            "counting": "trailer" if self._trailer else "port counters less control frames",
            "loopback": self._loopback,
            "distinct_frames": self._options.rows
            or (not self._trailer and self._options.cache)
            or "as the traffic says: every frame is computed",
        }
        if self._bed is not None:
            described["device"] = self._bed.describe()
        return described

    def namespaces(self) -> dict[str, int]:
        """Process ids whose network namespaces are the lab's, for ``nsenter -t PID -n``."""
        lab = self._bed.lab if self._bed is not None else None
        if lab is None:
            return {}
        pids = {"tester": lab.tester.pid}
        if lab.device is not None:
            pids["device"] = lab.device.pid
        return pids

    def close(self) -> None:
        """Stop traffic, give ports back, stop what was started."""
        self._connecting.close()
        self.attachment.close()
        if self._bed is not None:
            self._bed.close()

    # ------------------------------------------------------------ measuring

    def _pause(self, trial: Trial) -> None:
        """Before a trial; hosts introduce themselves at its beginning, so that they are learned."""
        if self.attachment.learning:
            self.attachment.ask("introduce", ports=self.attachment.learning)
        time.sleep(trial.pause_s)

    def _shares(self, direction: Direction, trial: Trial) -> list[counting.Sent]:
        """What each pair of ports sends of a direction."""
        streams, cables = self._streams[direction], self._cables[direction]
        back = tuple(c.rx for c in cables)
        if trial.flow_starts is not None:
            streams, burst, self._flows[direction] = successive(streams, trial, trial.flow_starts)
            return [counting.Sent(streams, burst, cables[0].tx, back)]
        if trial.second_segment is not None:
            streams, burst = segmented(streams, trial)
            return [counting.Sent(streams, burst, cables[0].tx, back)]
        if len(cables) == 1:
            if not trial.required_capabilities and (
                self._marks or trial.max_rate_fps > STAMPED_FPS
            ):
                streams = self._unstamped.streams(direction) or streams
            burst = bursts(
                streams,
                trial,
                stamp=self.attachment.compares(),
                all_of=self._trailer,
                marks=self._options.sample,
                apart=1 if self._trailer else self.attachment.apart(trial.rate_fps),
            )
            return [counting.Sent(streams, burst, cables[0].tx, back, self._nonce)]
        parts = []
        for part, cable in enumerate(cables):
            firsts = first_frames(streams, trial, part, len(cables))
            own = tuple(
                _numbered(start_at_frame(s, first), part * len(streams.streams))
                for s, first in zip(streams.streams, firsts, strict=True)
            )
            mine = StreamSet(direction, own)
            burst = bursts(
                mine,
                trial,
                stamp=self._trailer,
                part=part,
                parts=len(cables),
                marks=self._options.sample,
            )
            partners = (cable.rx, *(rx for rx in back if rx != cable.rx))
            parts.append(counting.Sent(mine, burst, cable.tx, partners))
        return parts

    def _in_connections(
        self, direction: Direction, trial: Trial, connections: Connections
    ) -> counting.Sent:
        (cable,) = self._cables[direction]
        streams = self._connecting.phase_two(self._streams[direction], trial, connections)
        tables.check(connections.count, trial.required_capabilities)
        burst = bursts(streams, trial, stamp=True, marks=self._options.sample)
        return counting.Sent(streams, burst, cable.tx, (cable.rx,), self._nonce)

    def _install(self, one: counting.Sent) -> None:
        if self._installed.get(one.tx_port) is one.streams:
            return
        streams = one.streams
        cable = next(c for c in self._cables[streams.direction] if c.tx == one.tx_port)
        if cable.sending is not None:
            side = cable.sending
            streams = with_macs(streams, side.tester_mac, side.dut_mac, side.vlan)
        for at, stream in enumerate(streams.streams):  # one by one: tables are made as they go
            program = self._connecting.program(streams.direction, stream)
            self.attachment.ask("load", port=one.tx_port, streams=[dict(program)], first=at)
        self._installed[one.tx_port] = one.streams

    def _exchange(
        self,
        trial: Trial,
        sent: Sequence[counting.Sent],
        recording: Mapping[str, Any] | None = None,
        read: Callable[[], None] | None = None,
    ) -> tuple[TrialResult, Mapping[str, Any]]:
        for one in sent:
            self._install(one)
        stamp, some = all(one.told_apart for one in sent), any(one.stamped_bursts for one in sent)
        if not stamp and any(s.role is Role.NEGATIVE for one in sent for s in one.streams.streams):
            raise BeyondTester(
                f"TRex cannot stamp {trial.max_rate_fps:,.0f} frames per second and "
                "direction, the most of this search, and port "
                "counters cannot tell frames that must be dropped from others",
                "leave out negative traffic, or bound the search by the line_rate of the testbed",
                code="unsupported-by-tester",
            )
        ipdv = trial.delays is not None and trial.delays.ipdv
        started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        overtime_s = _overtime_s(trial)
        lists_s = LIST_S * sum(len(one.bursts) for one in sent)
        raw = self.attachment.ask(
            "trial",
            watch=self.attachment.server_lives,
            deadline_s=overtime_s + trial.residual_wait_s + DEADLINE_S + lists_s,
            bursts={str(one.tx_port): one.requests for one in sent},
            due_s=trial.total_duration_s,
            receive=sorted({one.rx_port for one in sent}),
            residual_s=trial.residual_wait_s,
            give_up_s=overtime_s,
            control="" if stamp else counting.control_filter(one.streams for one in sent),
            samples=self._samples(sent, ipdv),
            recordings=dict(recording or {}),
            marked=[
                *(
                    [n, marking.counted(n, nonce)]
                    for n, nonce in sorted({mark for one in sent for mark in one.marks})
                ),
                # what several cores hand on to captures, stamped frames tell
                *([[counting.SEEN, marking.STAMPED]] if not self._trailer and some else []),
            ],
        )
        answered = time.monotonic()
        if read is not None:  # before frames are compared: it says what they should be
            read()
        if self._bed is not None:
            self._bed.check()
        raw = {**raw, "began": answered - float(raw["began_ago_s"])}
        return self._result(trial, sent, raw, started, stamp), raw

    def _samples(self, sent: Sequence[counting.Sent], ipdv: bool) -> dict[str, Any]:
        """Which received frames the worker keeps: single ones, or runs of neighbours for IPDV."""
        wanted = self._options.sample
        if not (wanted or ipdv):
            return {}
        by_port: dict[str, Any] = {}
        for one in sent:
            if ipdv and one.stamped_bursts:
                pattern = counting.neighbours_filter(one.frames, samples.IPDV_FRAMES)
                limit = 2 * samples.IPDV_FRAMES
                by_port[str(one.rx_port)] = [{"filter": pattern, "limit": limit}]
                continue
            each = max(1, wanted // max(1, len(one.stamped_bursts) + len(one.marked_bursts)))
            limit = 4 * max(wanted, len(one.bursts)) + 100
            filters = []
            if one.stamped_bursts:
                longest = max(b.frames for b in one.stamped_bursts)
                pattern, _ = counting.sample_filter(longest, each)
                filters.append({"filter": f"{marking.STAMPED} and {pattern}", "limit": limit})
            if one.marked_bursts:
                longest = max(b.frames for b in one.marked_bursts)
                far = marking.far_of(one.streams)
                pattern = marking.sample_filter(longest, each, far, one.nonce)
                filters.append({"filter": pattern, "limit": limit})
            by_port[str(one.rx_port)] = filters
        return by_port

    def _result(
        self,
        trial: Trial,
        sent: Sequence[counting.Sent],
        raw: Mapping[str, Any],
        started: str,
        stamp: bool,
    ) -> TrialResult:
        ways = [d for d in DIRECTIONS if any(one.streams.direction == d for one in sent)]
        mine = {d: [one for one in sent if one.streams.direction == d] for d in ways}
        captured = {d: self._captured(raw, mine[d]) for d in ways}
        for frames in captured.values():
            self._ticks_hz = samples.tick_rate_hz(samples.marks(frames)) or self._ticks_hz
        seen = {d: one for d in ways if (one := counting.seen(raw, mine[d]))}
        return TrialResult(
            directions={d: self._direction(trial, mine[d], raw, captured[d], stamp) for d in ways},
            faults=tuple(counting.faults(raw, sent, self.attachment.cpu_limit)),
            is_disturbed=bool(raw["events"]),
            started=started,
            tester={
                "counting": counting.counted_by(sent),
                "timed": _timed(sent),
                "cpu": [round(c, 1) for c in raw["cpu"]],
                "rx_cpu": [round(c, 1) for c in raw["rx_cpu"]],
                "queue_full": raw["global"].get("queue_full", 0),
                "looks": len(raw["looks"]),
                "answered": sum(raw["answered"].values()),
                **({counting.STAMPED: seen} if seen else {}),
            },
        )

    def _direction(
        self,
        trial: Trial,
        sent: Sequence[counting.Sent],
        raw: Mapping[str, Any],
        frames: samples.Frames,
        stamp: bool,
    ) -> DirectionResult:
        if stamp:
            counted = counting.together(
                [counting.by_trailer(raw, one, trial.frame_timeout_s) for one in sent]
            )
        else:
            counted = counting.by_ports(raw, sent)
        delays, beside = trial.delays, trial.delays is not None and not self._trailer
        if beside:
            counted = self._beside.timed(counted, sent[0], raw, self._meaning(sent))
        took = self._sending_time(trial, sent, raw)
        some = frames[:: max(1, len(frames) // max(1, self._options.sample))]
        known = [s for one in sent for s in one.streams.streams]
        streams = StreamSet(sent[0].streams.direction, tuple(known))
        oracle, source = self._oracle_of(streams.direction), self._source_of(sent)
        compared = samples.compare(some, streams, oracle, source)
        return DirectionResult(
            classes=counted.classes,
            sending_time_s=took.time_s,
            sending_time_error_s=took.error_s,
            control=counted.control,
            checked=compared.checked,
            matched=compared.matched,
            mismatch=compared.mismatch,
            behaviour=compared.seen or None,
            delay_us=counting.delay_summary(counted.histograms),
            timed_share=self._timed_share(trial, sent[0]),
            timed_of="load" if beside else None,
            delays=None
            if delays is None
            else counting.distributions(counted, sent, tags=bool(delays.tags)),
            ipdv=samples.ipdv(frames, sent[0], self._ticks_hz, oracle, source)
            if delays is not None and delays.ipdv and self._ticks_hz
            else None,
            timeline=course(raw, sent, trial),
        )

    def _timed_share(self, trial: Trial, one: counting.Sent) -> float | None:
        """Of connections, or of the load beside stamped frames; None: any frame could be timed."""
        if trial.delays is None:
            return None
        if not self._trailer:
            return share(one, trial.rate_fps)
        return self._connecting.timed_share(one.streams.direction) if trial.connections else None

    def _meaning(
        self, sent: Sequence[counting.Sent]
    ) -> Callable[[samples.Frames], dict[int, Stream]]:
        """Who knows the stream of each of TRex's numbers, from some of its frames."""
        streams = sent[0].streams
        oracle, source = self._oracle_of(streams.direction), self._source_of(sent)
        return lambda few: samples.streams_of(few, streams, oracle, source)

    def _oracle_of(self, direction: Direction) -> Callable[[Stream], Oracle | None]:
        def oracle(stream: Stream) -> Oracle | None:
            return self._connecting.oracle(direction, stream) or self._oracle

        return oracle

    def _source_of(self, sent: Sequence[counting.Sent]) -> samples.SourceOf:
        by_core, direction = _sources(sent), sent[0].streams.direction

        def source(stream: Stream) -> FrameSource | None:
            return (
                self._flows.get(direction, {}).get(stream.stream_id)
                or self._connecting.source(direction, stream)
                or self._unstamped.source(direction, stream)
                or by_core(stream)
            )

        return source

    def _captured(self, raw: Mapping[str, Any], sent: Sequence[counting.Sent]) -> samples.Frames:
        """Frames of one direction, as they would have come to the first pair of ports."""
        direction = sent[0].streams.direction
        there, here = self._links.left, self._links.right
        if direction == "reverse":
            there, here = here, there
        all_frames: samples.Frames = []
        for port in dict.fromkeys(one.rx_port for one in sent):
            frames = samples.current(counting.captured(raw, port), sent[0].nonce)
            cable = next(c for c in self._cables[direction] if c.rx == port)
            # joined ports get frames as they were sent
            side, link = (cable.sending, there) if self._loopback else (cable.receiving, here)
            if side is not None:
                macs, others = (side.tester_mac, side.dut_mac), (link.tester_mac, link.dut_mac)
                if self._loopback:
                    macs, others = macs[::-1], others[::-1]
                vlans = None if side.vlan is None else (side.vlan, link.vlan)
                frames = [(when, samples.with_macs(f, macs, others, vlans)) for when, f in frames]
            all_frames += frames
        return all_frames

    def _sending_time(
        self, trial: Trial, sent: Sequence[counting.Sent], raw: Mapping[str, Any]
    ) -> sending.Took:
        """Of the pair of ports that may have taken longest."""
        seen = sending.looks(raw["looks"])
        never = sending.Took(_overtime_s(trial), 0.0)
        took = (
            sending.sending_time(seen, one.tx_port, one.frames, trial.total_duration_s) or never
            for one in sent
        )
        return max(took, key=lambda t: t.most_s)


def _timed(sent: Sequence[counting.Sent]) -> str:
    if all(one.stamped for one in sent):
        return "every frame"
    return "tagged frames" if any(one.stamped_bursts for one in sent) else "none"


def _overtime_s(trial: Trial) -> float:
    return trial.total_duration_s * OVERTIME + 5


def _cables(options: TrexOptions) -> dict[Direction, list[Cable]]:
    """Ports and addresses of every pair, both ways."""
    left, right = options.ports
    cables: dict[Direction, list[Cable]] = {
        "forward": [Cable(left, right)],
        "reverse": [Cable(right, left)],
    }
    for pair in options.pairs:
        low, high = pair.ports
        cables["forward"].append(Cable(low, high, pair.left, pair.right))
        cables["reverse"].append(Cable(high, low, pair.right, pair.left))
    return cables


def _sources(sent: Sequence[counting.Sent]) -> samples.SourceOf:
    """Frames by stream: every pair of ports has a data path core of its own, with its own draws."""
    cores = {s.stream_id: one.tx_port // 2 for one in sent for s in one.streams.streams}

    def source(stream: Stream) -> Expander | None:
        core = cores[stream.stream_id]
        return Expander(stream, core) if core else None

    return source


def _numbered(stream: Stream, further: int) -> Stream:
    return replace(stream, stream_id=stream.stream_id + further)
