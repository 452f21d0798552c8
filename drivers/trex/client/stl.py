"""TRex's client of its stateless engine behind the requests of a worker: trials of streams."""

from __future__ import annotations

import array
import base64
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from v6t.drivers.trex.client import host, rpc, stats
from v6t.drivers.trex.client.service import RequestError, main, make_one_line
from v6t.drivers.trex.client.stats import CounterReading, TrialStats
from v6t.drivers.trex.client.worker import EngineWorker
from v6t.drivers.trex.port_driver import choose_driver

_TYPE_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}  # Of module array, by octets
_STREAM_SETUP_S, _LIST_SETUP_S = 0.001, 0.03  # Longest for a stream, and a list of 32,768 rows
_READ_BEFORE_S, _READ_AFTER_S = 0.2, 0.03
"""Time before and after the start in which counters are read continuously; TRex wakes up to 0.1 s early."""
_SILENCE_S, _SILENCE_TRIES = 0.005, 40
"""Time in which a frame of the port counters reaches captures, and attempts to find it silent."""


class StlWorker(EngineWorker):
    """Worker for trials of streams, with TRex's stateless engine."""

    engine, client_class = "stl", "STLClient"
    remove_file = staticmethod(os.unlink)

    def __init__(self) -> None:
        super().__init__()
        self.streams: dict[str, Any] = {}

    def acquire(self, ports: list[int], force: bool) -> dict[str, str]:
        owners = self._read_owners(ports)
        try:
            self.client.acquire(ports=ports, force=force)
        except self.api.TRexError as exc:
            taken = f" ({_describe_owners(owners)})" if owners else ""
            raise RequestError("taken", make_one_line(exc) + taken) from exc
        self.ports = list(ports)
        self.client.stop(ports=ports)
        self.client.remove_all_streams(ports=ports)
        self._remove_captures()
        return owners

    def _remove_captures(self) -> None:
        # also those of a client that died; TRex's client would remove those of other users, too
        for number, capture in stats.parse_captures(self.client.get_capture_status()).items():
            if capture.ports <= set(self.ports):
                self.client.stop_capture(number)

    def _read_owners(self, ports: list[int]) -> dict[str, str]:
        owners = {str(port): rpc.read_owner(self.client, port) for port in ports}
        return {port: owner for port, owner in owners.items() if owner}

    def set_max_catch_up(self, max_s: float) -> None:
        """Set the longest delay that the data path makes up for at once [s]."""
        self.client.set_global_cfg({"sched_max_stretch": max_s})

    def shutdown(self, force: bool, wait_s: float) -> dict[str, str]:
        """End the server, and wait until it is gone; return the owners of its ports."""
        if (owners := self._read_owners(self.client.get_all_ports())) and not force:
            text = "the server would have to be ended, and is in use"
            raise RequestError("taken", f"{text} ({_describe_owners(owners)})")
        process = host.find_server(self.address[1])
        client, self.client, self.ports = self.client, None, []
        client.server_shutdown(force=force)
        rpc.disconnect_transport(client)
        until = time.monotonic() + wait_s
        while host.is_reachable(self.address) or (process and host.read_server_arguments(process)):
            if time.monotonic() > until:
                raise RequestError("server", f"the TRex server did not end within {wait_s:g} s")
            time.sleep(0.1)
        return owners

    def exchange(
        self, frames: list[Any], captures: list[Any], wait_s: float, quiet_s: float, limit_s: float
    ) -> list[stats.Capture]:
        """Send single frames, [[port, base64], ...], and return captures of the answers."""
        numbers = self._start_captures(captures)
        for port, text in frames:
            rpc.push_frames(self.client, [port], [base64.b64decode(text)])
        began, known = time.monotonic(), 0
        end, latest = began + wait_s, began + limit_s
        while time.monotonic() < end:
            time.sleep(0.01)
            count = sum(capture.stored for capture in self._read_captures(numbers))
            if quiet_s and count != known:
                end, known = min(latest, time.monotonic() + quiet_s), count
        return self._collect_captures(captures, numbers, {})

    def load(self, port: int, streams: list[Any], first: int = 0) -> None:
        """Store the streams of a port, from number ``first`` on; each trial sets their rates and frames."""
        self.streams[str(port)] = self.streams.get(str(port), [])[:first] + streams

    def run_trial(
        self,
        bursts: dict[str, list[Any]],
        due_s: float,
        receive: list[int],
        residual_s: float,
        give_up_s: float,
        captures: list[dict[str, Any]],
    ) -> TrialStats:
        """Run one trial and return its counters.

        Args:
            bursts: fields of :class:`v6t.drivers.trex.bursts.Burst` with ``nonce``, by port.
            due_s: time after the start at which the last frame should have left [s].
            receive: ports that receive test frames.
            residual_s: time to wait for late frames [s].
            give_up_s: time after the start at which traffic is stopped if it still runs [s].
            captures: see :func:`v6t.drivers.trex.capture.make_capture_request`.
        """
        client = self.client
        ports = sorted(int(p) for p in bursts)
        frames = {p: sum(b["frames"] for b in bursts[str(p)]) for p in ports}
        start = TrialStart(self, frames, self._estimate_preparation(bursts))
        watched: dict[str, Any] = {"cpu": [], "rx_cpu": [], "timeline_readings": []}
        for patience in (1, 2, 4, 8):
            watched["events"] = []  # events of a rejected start belong to no trial
            self._add_streams(bursts)
            numbers = self._start_captures(captures)
            control = [n for one, n in zip(captures, numbers) if one["kind"] == "control"]
            _, control_before, answered_before = self._call_in_silence(
                lambda: client.clear_stats(ports=self.ports), control, watched["events"]
            )
            client.clear_events()
            if not (refusal := start.request_start(patience)):
                break
            # one port was late, and others may have begun: their frames belong to no trial, and
            # their streams would continue with other numbers
            client.stop(ports=ports)
            time.sleep(residual_s)
            self._collect_captures(captures, numbers, {})
            for path in (Path(one["path"]) for one in captures if "path" in one):
                path.unlink(missing_ok=True)  # TRex does not overwrite files
        else:
            raise RequestError("start", refusal)
        ended = self._watch(start, start.last_idle + due_s, start.began + give_up_s, watched)
        if not ended:
            client.stop(ports=ports)
        time.sleep(residual_s)
        raw, control_after, answered_after = self._call_in_silence(
            lambda: client.get_stats(ports=self.ports), control, watched["events"]
        )
        counted = stats.parse_stats(raw, self.ports)
        answered = {p: n - answered_before[p] for p, n in answered_after.items()}
        matched = {n: after - control_before[n] for n, after in control_after.items()}
        result = TrialStats(
            ports={p: replace(n, sent=n.sent - answered[p]) for p, n in counted.ports.items()},
            groups=stats.parse_groups(client.get_pgid_stats()),
            # before frames are pushed out
            captures=self._collect_captures(captures, numbers, matched),
            counter_readings=start.counter_readings,
            queue_full_count=counted.queue_full_count,
            dropped_frames=self._count_queue_drops(watched["events"]),
            neighbor_answers=answered,
            ended=ended,
            **watched,
        )
        faults: list[str] = []
        if count_arrivals(result, receive) < sum(frames.values()):
            driver = choose_driver(port.driver for port in self.facts.ports if port.index in ports)
            faults = driver.find_faults(client, ports, lambda: count_received(client, receive))
        client.wait_on_traffic(ports=ports, timeout=10, rx_delay_ms=0)
        return replace(result, port_faults=faults, began_ago_s=time.monotonic() - start.began)

    def release(self, client: Any) -> None:
        if self.ports:
            client.stop(ports=self.ports)
            self.stop_answering()
            self._remove_captures()
            if self.in_service:
                client.set_service_mode(ports=self.ports, enabled=False)
            client.remove_all_streams(ports=self.ports)
            client.release(ports=self.ports)

    def read_counters(self, ports: list[int]) -> CounterReading:
        """Read the server's clock, the test frames sent so far by each port, and the clock again."""
        reading = rpc.read_counters(self.client, ports)
        answered = self._count_answers()
        return reading._replace(sent={p: n - answered[p] for p, n in reading.sent.items()})

    def _add_streams(self, bursts: dict[str, list[Any]]) -> None:
        self.client.remove_all_streams(ports=self.ports)
        for port in sorted(map(int, bursts)):
            for number, burst in enumerate(bursts[str(port)]):
                if burst["frames"]:  # one by one: lists are long, the server takes 4 MB
                    self.client.add_streams([self.make_stream(port, burst, number)], ports=[port])
                    rpc.forget_streams(self.client, port)

    def make_stream(self, port: int, burst: dict[str, Any], number: int) -> Any:
        """Make TRex's stream object of a burst."""
        trex = dict(self.streams[str(port)][burst["index"]])
        rate = {"type": "pps", "value": burst["pps"]}
        trex["mode"] = {"type": "single_burst", "total_pkts": burst["frames"], "rate": rate}
        if burst["times"] > 1:
            each, times = burst["frames"] // burst["times"], burst["times"]
            bursts = {"pkts_per_burst": each, "count": times, "ibg": burst["gap_us"]}
            trex["mode"] = dict(bursts, type="multi_burst", rate=rate)
        trex.update(isg=burst["isg"], name=f"{trex['name']} {number}", enabled=True)
        if burst.get("nonce") is not None:
            trex["packet"] = with_nonce(trex["packet"], burst["nonce"])
        if "vm" in trex:
            trex["vm"] = unpack_lists(trex["vm"])
        if burst["pg_id"] is not None:
            group = {"enabled": True, "stream_id": burst["pg_id"]}
            trex["flow_stats"] = dict(group, rule_type="latency", ieee_1588=False)
        return self.api.STLStream.from_json(trex)

    def _count_answers(self) -> dict[int, int]:
        """Count the neighbor frames that each port has sent so far."""
        return {port: self.responder.sent.get(port, 0) for port in self.ports}

    def _call_in_silence(
        self, act: Callable[[], Any], control: list[int], events: list[str]
    ) -> tuple[Any, dict[int, int], dict[int, int]]:
        """Read or clear port counters at a moment without control frames.

        A control frame between the counters and its capture would hide a lost frame, or be one.
        Return what ``act`` returns, the control frames so far by capture, and the answers by port.
        """
        with self.responder.pause():
            for _ in range(_SILENCE_TRIES):
                before = self._read_captures(control)
                answer = act()
                time.sleep(_SILENCE_S if control else 0)
                if before == self._read_captures(control):
                    break
            else:
                problem = "control frames never paused: TRex cannot subtract them from test frames"
                events.append(problem)
            matched = {n: capture.matched for n, capture in zip(control, before)}
            return answer, matched, self._count_answers()

    def _count_queue_drops(self, events: list[str]) -> int | None:
        """Count the frames dropped before transmit queues; on failure add an event, return None."""
        try:
            return rpc.count_queue_drops(self.client)
        except Exception as exc:
            reason = f"{type(exc).__name__}: {make_one_line(exc)}"
            events.append(f"TRex's count of frames dropped before its queues is unknown: {reason}")
            return None

    def _estimate_preparation(self, bursts: dict[str, list[Any]]) -> float:
        """Estimate how long TRex may take to make streams ready before it can start them [s]."""
        streams = [self.streams[port][b["index"]] for port in bursts for b in bursts[port]]
        instructions = [i for s in streams for i in s.get("vm", {}).get("instructions", [])]
        lists = sum(1 for i in instructions if i.get("packed"))
        return _STREAM_SETUP_S * len(streams) + _LIST_SETUP_S * lists

    def _watch(
        self, start: TrialStart, due: float, latest: float, watched: dict[str, list[Any]]
    ) -> bool:
        """Wait for the end of traffic, and record health; return False if it runs past ``latest``."""
        client, next_check, ports = self.client, start.began + 0.2, start.ports
        while True:
            if not client.is_connected():
                raise RequestError("server", "the TRex server is gone")
            if taken := set(self.ports).difference(client.get_acquired_ports()):
                raise RequestError("stolen", f"port {min(taken)} was taken by another user")
            if not client.is_traffic_active(ports):
                if not start.is_complete:
                    start.read_sent()
                return True
            if (now := time.monotonic()) > latest:
                return False
            if now >= due and not start.is_complete:
                start.read_sent()
                # later readings need less precision
                time.sleep(min(0.1, (now - due) / 100))
                continue
            if now >= next_check and (now < due - 0.1 or start.is_complete or now > due + 0.5):
                next_check = now + 0.5
                self._check_health(now - start.began, watched)
            time.sleep(0.005 if start.is_complete else max(0.0, min(0.005, due - now)))

    def _check_health(self, at: float, watched: dict[str, list[Any]]) -> None:
        if not host.is_reachable(self.address):  # the client takes a dozen seconds to notice
            raise RequestError("server", "the TRex server is gone: it does not answer")
        counted = stats.parse_stats(self.client.get_stats(ports=self.ports), self.ports)
        watched["cpu"].append(counted.cpu)
        watched["rx_cpu"].append(counted.rx_cpu)
        counts = {p: (n.sent, n.received) for p, n in counted.ports.items()}
        watched["timeline_readings"].append((at, counts))
        for port in self.ports:
            if rpc.is_link_down(self.client, port):
                watched["events"].append(f"link of port {port} went down")

    def _start_captures(self, captures: list[dict[str, Any]]) -> list[int]:
        if captures:
            self.enter_service_mode()
        numbers = []
        for one in captures:
            settings = {"rx_ports": one["ports"], "bpf_filter": one["filter"]}
            settings.update(limit=one["limit"], snaplen=one["snaplen"])
            if "path" in one:
                directory, octets = os.path.dirname(one["path"]), one["octets"]
                if (free := shutil.disk_usage(directory).free) < octets:
                    needed = f"the recording needs {octets >> 20} MB in {directory}"
                    raise RequestError("space", f"{needed}, where {free >> 20} MB are free")
                settings["endpoint"] = "file:///" + one["path"]
            numbers.append(int(self.client.start_capture(**settings)["id"]))
        return numbers

    def _read_captures(self, numbers: list[int]) -> list[stats.CaptureStatus]:
        if not numbers:
            return []
        status = stats.parse_captures(self.client.get_capture_status())
        if not status.keys() >= set(numbers):
            raise RequestError("stolen", "another user of the TRex server removed a capture")
        return [status[number] for number in numbers]

    def _collect_captures(
        self, captures: list[dict[str, Any]], numbers: list[int], counted: Mapping[int, int]
    ) -> list[stats.Capture]:
        """Stop captures; return their counters, if not ``counted`` before, and frames."""
        collected, status = [], self._read_captures(numbers)
        for one, number, (stored, matched, _) in zip(captures, numbers, status):
            fetched: list[Any] = []
            if stored and one["kind"] == "sample":
                self.client.fetch_capture_packets(number, fetched, pkt_count=stored)
            # with something to call, the client waits until the file is written
            callback = (lambda endpoint: None) if "path" in one else None
            self.client.stop_capture(number, endpoint_cb=callback)
            frames, count = stats.parse_frames(fetched), counted.get(number, matched)
            collected.append(stats.Capture(one["kind"], one["ports"], count, one["class"], frames))
        return collected


class TrialStart:
    """Starts the ports of a trial at one moment, and reads their counters while they send.

    Attributes:
        began: time of the start by this host's clock [s].
    """

    def __init__(self, worker: StlWorker, frames: dict[int, int], preparation_s: float) -> None:
        self._worker = worker
        self._frames = frames
        self._preparation_s = preparation_s
        self.ports = sorted(frames)
        self.counter_readings: list[CounterReading] = []  # all readings of the sent frames so far
        self.began = self.last_idle = self._at = 0.0
        self._base: Mapping[int, int] = {}

    def request_start(self, patience: int) -> str:
        """Request a start after ``patience`` usual lead times; return why a port did not start."""
        client = self._worker.client
        client.clear_pgid_stats()
        requested_at = time.monotonic()
        _, self._base, now = self._worker.read_counters(self.ports)
        half = (time.monotonic() - requested_at) / 2
        # TRex needs 0.1 s for every port after it has prepared the streams
        lead = patience * (0.15 + len(self.ports) * (0.03 + 2 * half)) + self._preparation_s
        self._at, self.began = now + lead, requested_at + half + lead
        force = self._worker.in_service
        if refusal := rpc.start_ports(client, self.ports, self._at, force=force):
            return refusal
        # where its threads share a CPU, TRex wakes early by its estimate of the cost of sleeping:
        # up to 0.1 s if the machine was busy when it began
        nothing = dict.fromkeys(self.ports, 0)
        self.counter_readings.append(CounterReading(now - self._at, nothing, now - self._at))
        self.last_idle = requested_at  # last time at which no frame had left, by the same clock [s]
        time.sleep(max(0.0, self.began - _READ_BEFORE_S - time.monotonic()))
        while time.monotonic() < self.began + _READ_AFTER_S and not all(self.read_sent().values()):
            time.sleep(0.001)
        return ""

    def read_sent(self) -> dict[int, int]:
        """Read and return how many frames each port has sent since the start."""
        now = time.monotonic()
        before, counts, after = self._worker.read_counters(self.ports)
        sent = {p: n - self._base[p] for p, n in counts.items()}
        self.counter_readings.append(CounterReading(before - self._at, sent, after - self._at))
        if not any(sent.values()):
            self.last_idle = now  # sending may have begun since, and is not over before its time
        return sent

    @property
    def is_complete(self) -> bool:
        """Whether the last reading found that all frames had left."""
        return all(n >= self._frames[p] for p, n in self.counter_readings[-1].sent.items())


def _describe_owners(owners: dict[str, str]) -> str:
    return ", ".join(f"port {port}: {owner}" for port, owner in owners.items())


def count_arrivals(trial: TrialStats, receive: list[int]) -> int:
    """Count the test frames that arrived at the ports ``receive`` in a trial."""
    if any(capture.kind == "control" for capture in trial.captures):
        received = sum(trial.ports[port].received for port in receive)
        return received - trial.count_matches("control", receive)
    stamped = sum(g.received.get(port, 0) for g in trial.groups.values() for port in receive)
    return stamped + trial.count_matches("marked", receive)


def count_received(client: Any, receive: list[int]) -> int:
    """Count all frames that the ports ``receive`` have received."""
    counted = stats.parse_stats(client.get_stats(ports=receive), receive)
    return sum(port.received for port in counted.ports.values())


def with_nonce(packet: dict[str, Any], nonce: int) -> dict[str, Any]:
    """Return a packet with the trial's nonce in its trailer, the last 16 octets."""
    octets = bytearray(base64.b64decode(packet["binary"]))
    octets[-15] = nonce
    return dict(packet, binary=base64.b64encode(octets).decode())


def unpack_lists(program: dict[str, Any]) -> dict[str, Any]:
    """Return a field engine program whose packed lists of values are lists of numbers."""
    instructions = [dict(one) for one in program["instructions"]]
    for one in instructions:
        if one.get("packed") is not None:
            values = array.array(_TYPE_CODES[one["size"]], base64.b64decode(one.pop("packed")))
            if sys.byteorder == "little":
                values.byteswap()
            one["value_list"] = values.tolist()
    return dict(program, instructions=instructions)


if __name__ == "__main__":
    main(StlWorker())
