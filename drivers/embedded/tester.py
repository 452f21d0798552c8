"""The embedded tester: sends and receives with child processes, one per busy role."""

import os
import platform
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from v6t.base.errors import TesterError
from v6t.drivers import clock
from v6t.drivers.embedded.dns import DnsTrials
from v6t.drivers.embedded.port import describe_losses
from v6t.drivers.embedded.receiver import Receiver, ReceiverConnections
from v6t.drivers.embedded.sender import LEAD_S, Sender
from v6t.drivers.embedded.tcp import TcpWorkers
from v6t.drivers.embedded.timing import Pace, TimedTrial
from v6t.drivers.lab.namespaces import LEFT, RIGHT
from v6t.drivers.lab.setup import Bed, BedTester, LabDevice, compute_frame_octets
from v6t.drivers.lab.workers import DEADLINE_S, Worker
from v6t.drivers.oracle.connection_oracle import ConnectionTable, TableLocation, find_foreground
from v6t.drivers.oracle.two_phase import make_phase_one_trial, make_validation_trial
from v6t.drivers.tester import Oracle, PhaseCounts, describe_stale_frames, select_directions
from v6t.intent.device import Links, Port, make_host_arguments
from v6t.packets.direction import Direction
from v6t.profiles.compiler.schedule import count_frames
from v6t.profiles.streams import StreamSet
from v6t.trials.connections import Connections
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.trial import Capability, Trial

LEARNING_FPS = 100_000.0  # Connections per second that a slow receiver learns after phase 1


class EmbeddedTester(BedTester):
    """Tester that sends and receives through AF_PACKET rings; without a device its ports are joined."""

    name = "embedded"
    _bed: Bed
    capabilities: frozenset[Capability] = frozenset(
        {
            "tags", "every-frame", "ipdv", "frame-timeout", "two-rates", "loss-times",
            "connections", "flow-starts", "timed-flow-starts", "queries", "tcp",
        }
    )  # fmt: skip

    def __init__(self, links: Links, device: LabDevice | None) -> None:
        self._links = links
        sides = links.get_port("left"), links.get_port("right")
        self._ports: dict[Direction, tuple[Port, Port]] = {"forward": sides, "reverse": sides[::-1]}
        """Sending and receiving interface of each direction."""
        self._bed = Bed(links, device)
        self._loopback = device is None
        self._senders: dict[Direction, Worker] = {}
        self._receivers: dict[Direction, Worker] = {}
        self._streams: Mapping[Direction, StreamSet] = {}
        self._nonce = 0
        self._connections = ConnectionTable()
        self._dns: DnsTrials | None = None
        self._tcp: TcpWorkers | None = None

    def open(self) -> None:
        self._bed.open()

    def load(self, streams: Mapping[Direction, StreamSet], oracle: Oracle) -> None:
        self._streams = dict(streams)
        if not streams and oracle.zone is not None:
            if self._dns is None or self._dns.zone != oracle.zone:
                self._close_exchanges()
                place = self._make_worker_arguments()
                self._dns = DnsTrials(self._links, oracle.zone, place, loopback=self._loopback)
            return
        self._start_workers()
        known = None
        if self._connections.load(streams, oracle, loopback=self._loopback):
            outer, inner = self._connections.oracles or (None, None)
            known = ReceiverConnections(outer, inner)
        for direction, stream_set in streams.items():
            if stream_set.longest_packet > compute_frame_octets(self._links):
                text = f"a {direction} frame is longer than the lab's links carry"
                raise TesterError(text, code="frame-too-long")
            judges = {"oracle": None if self._loopback else oracle, "connections": known}
            self._senders[direction].submit("load", streams=stream_set)
            self._receivers[direction].submit(
                "load", streams=stream_set, direction=direction, **judges
            )
        for direction in streams:
            self._senders[direction].answer()
            self._receivers[direction].answer()
        if self._tcp is not None:
            self._tcp.load(streams)

    def measure(self, trial: Trial) -> TrialResult:
        if trial.queries is not None and self._dns is not None:
            return self._check_bed(self._dns.measure(trial))
        directions = select_directions(trial, self._streams)
        self._prepare_trial(trial)
        table = None
        if (request := trial.connections) is not None:
            table = self._connections.read(request.entries, request.reading)
        self._close_exchanges()
        return self._exchange(trial, directions, table)[0]

    def establish(self, trial: Trial, connections: Connections) -> PhaseCounts:
        phase_trial = make_phase_one_trial(trial, connections)
        if (tcp := connections.tcp) is None:
            self._close_exchanges()
        self._prepare_trial(trial)
        table = self._connections.make(connections.count)
        if tcp is None:
            return self._run_phase(phase_trial, "forward", table, learn=True)
        return self._check_bed(self._open_tcp().establish(phase_trial, connections, tcp, table))

    def validate(self, trial: Trial, connections: Connections) -> PhaseCounts:
        phase_trial = make_validation_trial(trial, connections)
        if connections.tcp is None:
            return self._run_phase(phase_trial, "reverse", self._connections.read())
        return self._check_bed(self._open_tcp().validate(phase_trial))

    def disconnect(self, trial: Trial, connections: Connections) -> PhaseCounts:
        phase_trial = make_phase_one_trial(trial, connections)
        return self._check_bed(self._open_tcp().disconnect(phase_trial))

    def describe(self) -> dict[str, Any]:
        links = {s: self._links.get_link(s) for s in (LEFT, RIGHT)}
        emulated = {s: link for s, link in links.items() if make_host_arguments(link)}
        return {
            "kind": self.name,
            "engine": "AF_PACKET TPACKET_V2 rings on veth pairs in network namespaces",
            "kernel": platform.release(),
            "cores": len(os.sched_getaffinity(0)),
            "clock_source": clock.read_source(),
            "loopback": self._loopback,
            "answers_on": [s for s, link in emulated.items() if link.answers],
            "learning_on": [s for s, link in emulated.items() if link.sends_learning_frames],
            "device": self._bed.describe(),
        }

    def close(self) -> None:
        for workers in (self._senders, self._receivers):
            for worker in workers.values():
                worker.close()
            workers.clear()
        self._close_exchanges()
        self._connections.close()
        self._bed.close()

    def _start_workers(self) -> None:
        if self._senders:
            return
        place, links = self._make_worker_arguments(), self._links
        try:
            for d, (left, right) in self._ports.items():
                hosts = make_host_arguments(links.get_link(right))
                self._senders[d] = Worker(f"{left} sender", Sender, interface=left, **place)
                self._receivers[d] = Worker(
                    f"{right} receiver", Receiver, interface=right, hosts=hosts, **place
                )
            for worker in (*self._senders.values(), *self._receivers.values()):
                worker.answer()
        except BaseException:
            self.close()
            raise

    def _make_worker_arguments(self) -> dict[str, Any]:
        if self._bed.lab is None:
            raise TesterError("the lab is not open", code="lab-failed")
        pid = self._bed.lab.tester.pid
        return {"namespace": pid, "frame_octets": compute_frame_octets(self._links)}

    def _open_tcp(self) -> TcpWorkers:
        if self._tcp is None:
            self._tcp = TcpWorkers(self._make_worker_arguments(), loopback=self._loopback)
            self._tcp.load(self._streams)
        return self._tcp

    def _close_exchanges(self) -> None:
        """Stop the workers of DNS and TCP, which would answer the frames of streams."""
        for workers in (self._dns, self._tcp):
            if workers is not None:
                workers.close()
        self._dns = self._tcp = None

    def _prepare_trial(self, trial: Trial) -> None:
        """Send neighbor requests from the tester's hosts to the device, then wait for the pause."""
        for receiver in self._receivers.values():
            receiver.ask("introduce_hosts")
        time.sleep(trial.pause_s)

    def _run_phase(
        self, trial: Trial, direction: Direction, table: TableLocation, *, learn: bool = False
    ) -> PhaseCounts:
        result, began_s, fields = self._exchange(trial, [direction], table, learn=learn, alone=True)
        health: Mapping[str, Any] = dict(result.tester)[direction]
        faults = (*result.faults, *describe_stale_frames(health["stale"], direction))
        counted = result.directions[direction]
        return PhaseCounts(
            counted, began_s, faults=faults, started=result.started, health=health, **fields
        )

    def _exchange(
        self,
        trial: Trial,
        directions: Sequence[Direction],
        table: TableLocation | None,
        *,
        learn: bool = False,
        alone: bool = False,
    ) -> tuple[TrialResult, float, dict[str, Any]]:
        """Run a trial.

        Args:
            table: connections of the foreground; None if the device is stateless.
            learn: fill the table from the frames that arrive.
            alone: send nothing but the foreground.

        Returns:
            The result, the time at which the first frame was due [s], and the fields of PhaseCounts
            for learned connections.
        """
        self._nonce = (self._nonce + 1) % 256
        for direction in directions:
            self._senders[direction].ask("connect", table=None if learn else table, alone=alone)
            streams = self._streams[direction].streams
            chosen = [find_foreground(self._streams[direction])] if alone else streams
            shares = count_frames([s.weight for s in chosen], trial.frames)
            frames = dict.fromkeys((s.name for s in streams), 0)
            frames |= {s.name: count for s, count in zip(chosen, shares, strict=True)}
            self._receivers[direction].ask(
                "arm",
                required=frames,
                nonce=self._nonce,
                timed=TimedTrial(trial, tuple(s.weight if frames[s.name] else 0 for s in streams)),
                table=table,
                learn=learn,
            )
        clocks = clock.read()
        started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        start = time.monotonic() + LEAD_S
        for direction in directions:
            timed = trial.delays is not None or trial.frame_timeout_s is not None
            order = {"start": start, "nonce": self._nonce, "timed": timed}
            self._senders[direction].submit("send", pace=Pace.from_trial(trial), **order)
        deadline = trial.total_duration_s * 2 + DEADLINE_S
        sent = {d: self._senders[d].answer(deadline) for d in directions}
        time.sleep(trial.residual_wait_s)
        if learn:
            deadline += trial.frames / LEARNING_FPS
        for direction in directions:
            self._receivers[direction].submit("report")
        reports = {d: self._receivers[d].answer(deadline) for d in directions}
        self._bed.check()
        health: dict[str, Any] = {
            d: {"lateness_s": round(sent[d]["lateness_s"], 6), **reports[d]["health"]}
            for d in directions
        }
        losses = [f"{d}: {f}" for d in directions for f in describe_losses("tester", health[d])]
        stepped = clock.find_faults_since(clocks)
        result = TrialResult(
            directions={d: self._make_result(d, sent[d], reports[d]) for d in directions},
            faults=(*losses, *stepped),
            is_disturbed=bool(stepped),
            started=started,
            tester=health,
        )
        return result, start, reports[directions[0]]["learned"]

    def _make_result(
        self, direction: Direction, sent: Mapping[str, Any], report: Mapping[str, Any]
    ) -> DirectionResult:
        classes = {
            stream.name: ClassCount(
                role=stream.role.value,
                required=sent["required"][stream.name],
                sent=sent["sent"][stream.name],
                **report["classes"][stream.name],
            )
            for stream in self._streams[direction].streams
            if stream.name in sent["sent"]
        }
        return DirectionResult(classes, sent["sending_time_s"], **report["result"])
