"""The embedded tester: sends and receives with child processes, one per busy role."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from v6t.base.errors import TesterError
from v6t.drivers import clock
from v6t.drivers.device import DeviceSession, StateDevice
from v6t.drivers.embedded.connections import ConnectionRole, ConnectionTable
from v6t.drivers.embedded.dns import DnsTrials
from v6t.drivers.embedded.receiver import Receiver
from v6t.drivers.embedded.sender import Pace, Sender, longest_frame
from v6t.drivers.embedded.tcp import TcpExchange
from v6t.drivers.embedded.timing import Wanted
from v6t.drivers.lab.namespaces import LEFT, RIGHT
from v6t.drivers.lab.setup import Bed, LabDevice, frame_octets
from v6t.drivers.lab.workers import DEADLINE_S, Worker
from v6t.drivers.oracle.connection_oracle import foreground
from v6t.drivers.oracle.two_phase import make_phase_one_trial, make_validation_trial
from v6t.drivers.tester import Oracle, PhaseCounts
from v6t.intent.device import Links, Port, host_arguments
from v6t.packets.direction import Direction
from v6t.profiles.compiler.schedule import count_frames
from v6t.profiles.streams import StreamSet
from v6t.trials.connections import Connections
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.trial import Capability, Trial, list_directions

LEAD_S = 0.05
"""Time between the order to send and the first frame: both senders are ready by then."""

LOOKED_THROUGH_FPS = 100_000.0
"""Connections a second the receiver looks through after phase 1, on a slow machine."""

_TIMES = ("delays", "ipdv", "first_lost_s", "last_lost_s", "longest_gap_s", "timeline")


class EmbeddedTester:
    """Tester protocol over AF_PACKET rings; see :mod:`v6t.drivers.tester`.

    Args:
        links: the cables.
        device: what stands between them; None: the two ports are joined (SELF-01).
    """

    name = "embedded"
    capabilities: frozenset[Capability] = frozenset(
        {
            "tags", "every-frame", "ipdv", "frame-timeout", "two-rates", "loss-times",
            "connections", "flow-starts", "timed-flow-starts", "queries", "tcp",
        }
    )  # fmt: skip

    def __init__(self, links: Links, device: LabDevice | None) -> None:
        self._links = links
        sides = links.port_of("left"), links.port_of("right")
        self._ports: dict[Direction, tuple[str, str]] = {"forward": sides, "reverse": sides[::-1]}
        """Sending and receiving interface by direction."""
        self._bed = Bed(links, device)
        self._loopback = device is None
        self._workers: dict[str, Worker] = {}
        self._streams: Mapping[Direction, StreamSet] = {}
        self._nonce = 0
        self._connections = ConnectionTable()
        self._dns: DnsTrials | None = None
        self._tcp: TcpExchange | None = None

    def open(self) -> None:
        self._bed.open()

    def _start(self) -> None:
        if self._workers:
            return
        try:
            for side in (LEFT, RIGHT):
                place: dict[str, Any] = {"interface": side, **self._worker_arguments()}
                sender = f"{side} sender"
                self._workers[sender] = Worker(sender, Sender, **place)
                receiver = f"{side} receiver"
                self._workers[receiver] = Worker(
                    receiver, Receiver, hosts=self._host_arguments(side), **place
                )
            for worker in self._workers.values():
                worker.answer()
        except BaseException:
            self.close()
            raise

    def load(self, streams: Mapping[Direction, StreamSet], oracle: Oracle) -> None:
        self._streams = dict(streams)
        if not streams and oracle.zone is not None:
            if self._dns is None:
                self._dns = DnsTrials(
                    self._links, oracle.zone, self._worker_arguments(), loopback=self._loopback
                )
            return
        self._start()
        known = self._connections.load(streams, oracle, loopback=self._loopback)
        asked = []
        for direction, stream_set in streams.items():
            if longest_frame(stream_set) > frame_octets(self._links):
                raise TesterError(
                    f"a {direction} frame is longer than the lab's links carry",
                    code="frame-too-long",
                )
            out, back = self._ports[direction]
            self._workers[f"{out} sender"].tell("load", streams=stream_set)
            self._workers[f"{back} receiver"].tell(
                "load",
                streams=stream_set,
                oracle=None if self._loopback else oracle,
                direction=direction,
                connections=known,
            )
            asked += [f"{out} sender", f"{back} receiver"]
        for role in asked:
            self._workers[role].answer()
        if self._tcp is not None:
            self._tcp.load(streams)

    def measure(self, trial: Trial) -> TrialResult:
        if trial.queries is not None and self._dns is not None:
            result = self._dns.measure(trial)
            self._bed.check()
            return result
        directions = [d for d in self._ports if d in list_directions(trial.mode)]
        if any(d not in self._streams for d in directions):
            raise TesterError(f"no streams are loaded for a {trial.mode} trial", code="not-loaded")
        self._pause(trial)
        table = None
        if trial.connections is not None:
            table = self._connections.phase_two(trial.connections)
        loads = {d: ConnectionRole(table) for d in directions}
        self._stop_tcp()
        return self._exchange(trial, directions, loads)

    def establish(self, trial: Trial, connections: Connections) -> PhaseCounts:
        if connections.tcp is not None:
            self._pause(trial)
            table = self._connections.phase_one(connections)
            phase = self._tcp_trials.establish(
                make_phase_one_trial(trial, connections), connections, table
            )
            self._bed.check()
            return phase
        self._stop_tcp()
        self._pause(trial)
        load = ConnectionRole(self._connections.phase_one(connections), learn=True, alone=True)
        asked = make_phase_one_trial(trial, connections)
        result = self._exchange(asked, ["forward"], {"forward": load})
        return self._connections.established(asked, result)

    def validate(self, trial: Trial, connections: Connections) -> PhaseCounts:
        if connections.tcp is not None:
            return self._tcp_trials.validate(make_validation_trial(trial, connections), connections)
        load = ConnectionRole(self._connections.validation(), alone=True)
        asked = make_validation_trial(trial, connections)
        result = self._exchange(asked, ["reverse"], {"reverse": load})
        return self._connections.validated(asked, result)

    def disconnect(self, trial: Trial, connections: Connections) -> PhaseCounts:
        phase = self._tcp_trials.disconnect(make_phase_one_trial(trial, connections), connections)
        self._bed.check()
        return phase

    def _stop_tcp(self) -> None:
        """Nobody listens for TCP any more: what frames of a stream take, ends have none of."""
        if self._tcp is not None:
            self._tcp.close()
            self._tcp = None

    @property
    def _tcp_trials(self) -> TcpExchange:
        if self._tcp is None:
            self._tcp = TcpExchange(self._worker_arguments(), loopback=self._loopback)
            self._tcp.load(self._streams)
        return self._tcp

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def now(self) -> float:
        return time.monotonic()

    def device_state(self) -> StateDevice | None:
        return self._bed.device_state()

    def device_session(self) -> DeviceSession | None:
        return self._bed.device_session()

    def _pause(self, trial: Trial) -> None:
        """Before a trial; hosts introduce themselves at its beginning, so that they are learned."""
        for side in (LEFT, RIGHT):
            self._workers[f"{side} receiver"].ask("introduce")
        time.sleep(trial.pause_s)

    def _exchange(
        self, trial: Trial, directions: list[Direction], loads: Mapping[Direction, ConnectionRole]
    ) -> TrialResult:
        self._nonce = (self._nonce + 1) % 256
        for direction in directions:
            load = loads[direction]
            self._sender(direction).ask(
                "connect", table=None if load.learn else load.table, alone=load.alone
            )
            streams = self._streams[direction].streams
            frames = self._count_required(direction, trial.frames, load)
            self._receiver(direction).ask(
                "arm",
                required=frames,
                nonce=self._nonce,
                wanted=Wanted(trial, tuple(s.weight if frames[s.name] else 0 for s in streams)),
                table=load.table,
                learn=load.learn,
            )
        began = clock.read()
        started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        start = time.monotonic() + LEAD_S
        for direction in directions:
            self._sender(direction).tell(
                "send",
                pace=Pace.of(trial),
                start=start,
                nonce=self._nonce,
                timed=bool(trial.delays),
            )
        deadline = trial.total_duration_s * 2 + DEADLINE_S
        sent = {d: self._sender(d).answer(deadline) for d in directions}
        time.sleep(trial.residual_wait_s)
        if any(load.learn for load in loads.values()):
            deadline += trial.frames / LOOKED_THROUGH_FPS
        for direction in directions:
            self._receiver(direction).tell("report")
        reports = {d: self._receiver(d).answer(deadline) for d in directions}
        self._connections.reported(start, reports)
        self._bed.check()
        stepped = clock.faults_since(began)
        return TrialResult(
            directions={d: self._result(d, sent[d], reports[d]) for d in directions},
            faults=(*(f for d in directions for f in _faults(d, reports[d])), *stepped),
            is_disturbed=bool(stepped),
            started=started,
            tester={
                d: {
                    "lateness_s": round(sent[d]["lateness_s"], 6),
                    "ring_drops": reports[d]["ring_drops"],
                    "interface_drops": reports[d]["interface_drops"],
                    "stale": reports[d]["stale"],
                    "misnumbered": reports[d]["misnumbered"],
                    "answered": reports[d]["answered"],
                }
                for d in directions
            },
        )

    @property
    def device(self) -> LabDevice | None:
        """What stands between the cables."""
        return self._bed.device

    def namespaces(self) -> dict[str, int]:
        """Process ids whose network namespaces are the lab's, for ``nsenter -t PID -n``."""
        lab = self._bed.lab
        if lab is None:
            return {}
        pids = {"tester": lab.tester.pid}
        if lab.device is not None:
            pids["device"] = lab.device.pid
        return pids

    def describe(self) -> dict[str, Any]:
        return {
            "kind": self.name,
            "engine": "AF_PACKET TPACKET_V2 rings on veth pairs in network namespaces",
            "kernel": platform.release(),
            "cores": len(os.sched_getaffinity(0)),
            "clock_source": clock.source(),
            "loopback": self._loopback,
            "answers_on": [
                s
                for s in (LEFT, RIGHT)
                if self._links.link_at(s).answers and self._host_arguments(s)
            ],
            "learning_on": [
                s
                for s in (LEFT, RIGHT)
                if self._links.link_at(s).sends_learning_frames and self._host_arguments(s)
            ],
            "device": self._bed.describe(),
        }

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()
        if self._dns is not None:
            self._dns.close()
            self._dns = None
        self._stop_tcp()
        self._connections.close()
        self._bed.close()

    def _worker_arguments(self) -> dict[str, Any]:
        if self._bed.lab is None:
            raise TesterError("the lab is not open", code="lab-failed")
        pid = self._bed.lab.tester.pid
        return {"namespace": pid, "frame_octets": frame_octets(self._links)}

    def _host_arguments(self, port: Port) -> dict[str, Any] | None:
        return host_arguments(self._links.link_at(port))

    def _sender(self, direction: Direction) -> Worker:
        return self._workers[f"{self._ports[direction][0]} sender"]

    def _receiver(self, direction: Direction) -> Worker:
        return self._workers[f"{self._ports[direction][1]} receiver"]

    def _count_required(
        self, direction: Direction, frames: int, load: ConnectionRole
    ) -> dict[str, int]:
        streams = self._streams[direction].streams
        if load.alone:
            mine = foreground(self._streams[direction]).name
            return {s.name: frames if s.name == mine else 0 for s in streams}
        shares = count_frames([s.weight for s in streams], frames)
        return {s.name: n for s, n in zip(streams, shares, strict=True)}

    def _result(
        self, direction: Direction, sent: dict[str, Any], report: dict[str, Any]
    ) -> DirectionResult:
        classes = {}
        for stream in self._streams[direction].streams:
            if stream.name not in sent["sent"]:
                continue
            back = report["streams"][stream.name]
            classes[stream.name] = ClassCount(
                role=stream.role.value,
                required=sent["required"][stream.name],
                sent=sent["sent"][stream.name],
                received=back["received"],
                surplus=back["surplus"],
                out_of_order=back["out_of_order"],
                late=back["late"],
            )
        return DirectionResult(
            classes=classes,
            sending_time_s=sent["sending_time_s"],
            control=report["control"],
            checked=report["checked"],
            matched=report["matched"],
            mismatch=report["mismatch"],
            behaviour=report["behaviour"],
            missing=report["missing"],
            delay_us=report["delay_us"],
            **{k: report[k] for k in _TIMES},
        )


def _faults(direction: str, report: dict[str, Any]) -> list[str]:
    """Losses on the tester's own side of the wire: they make a trial invalid (SELF-05)."""
    faults = []
    if report["ring_drops"]:
        faults.append(
            f"{direction}: the tester's receive ring overflowed by {report['ring_drops']} frames"
        )
    if report["interface_drops"]:
        faults.append(
            f"{direction}: the kernel dropped {report['interface_drops']} frames before the "
            "tester's receive ring"
        )
    return faults
