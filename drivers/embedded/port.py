"""Ports of the embedded tester: rings, the hosts that are played, and frames that the tester loses."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from v6t.drivers.clock import ClockReading, find_faults_since
from v6t.drivers.embedded.sender import BATCH, SendingSchedule
from v6t.drivers.embedded.timing import Pace
from v6t.drivers.lab.ring import RxRing, TxRing, serve_rings
from v6t.drivers.neighbours import Hosts, select_requests
from v6t.packets.arrays import I64, U8, Mask

MAX_LOOKS = 64  # Readings of a ring until it counts as empty
SMALL_BATCH, GATHERING_S = 32, 0.0001
"""After fewer queries than this, a server waits for more: a wake-up for each would take a core from
the device."""
TICK_S = 0.0002  # Shortest sleep of a client [s]


class HostPort(ABC):
    """Worker role of a port whose emulated hosts answer neighbor requests.

    Args:
        interface: name within the worker's namespace.
        frame_octets: longest frame, without FCS.
        hosts: arguments of :class:`v6t.drivers.neighbours.Hosts`; None: no host is played.
    """

    def __init__(
        self, interface: str, frame_octets: int, hosts: Mapping[str, Any] | None = None
    ) -> None:
        self._rx = RxRing(interface, frame_octets)
        self._hosts = None if hosts is None else Hosts(**hosts)
        self._reset_counters()

    def idle(self, pipe: Connection) -> None:
        serve_rings(pipe, [self._rx], self._drain, 200)

    def introduce_hosts(self) -> None:
        """Send the neighbor requests from which the device learns the hosts."""
        for frame in () if self._hosts is None else self._hosts.make_introductions():
            self._rx.send(frame)

    def _reset_counters(self) -> None:
        self._control = self._answered = 0
        self._rx.count_drops()
        self._dropped_before = _count_interface_drops(self._rx.interface)

    def _read_losses(self) -> dict[str, int]:
        dropped = _count_interface_drops(self._rx.interface) - self._dropped_before
        return {"ring_drops": self._rx.count_drops(), "interface_drops": dropped}

    def _drain(self) -> int:
        """Handle the frames in the ring; return their number."""
        taken = 0
        for frames, times in self._rx.take():
            taken += len(frames)
            self._receive(frames, times)
        self._rx.release()
        return taken

    def _drain_all(self) -> None:
        """Drain until the ring is empty; one read is not enough because it stops at the ring's end."""
        for _ in range(MAX_LOOKS):
            if not self._drain():
                break

    @abstractmethod
    def _receive(self, frames: U8, times: I64) -> None:
        """Handle received frames of equal length and their arrival times [ns]."""

    def _handle_control_frames(self, frames: U8) -> None:
        """Count frames that are not test frames, and answer requests for the hosts."""
        self._control += len(frames)
        hosts = self._hosts
        for answer in () if hosts is None else hosts.answer_all(select_requests(frames)):
            self._rx.send(answer)
            self._answered += 1


def _count_interface_drops(interface: str) -> int:
    """Count the frames that the kernel dropped before any ring of this namespace."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, figures = line.partition(":")
        if name.strip() == interface:
            return sum(map(int, figures.split()[2:4]))
    return 0


class ExchangePort(HostPort):
    """A port that sends and receives the frames of an exchange (DNS, TCP)."""

    def __init__(
        self, interface: str, frame_octets: int, hosts: Mapping[str, Any] | None = None
    ) -> None:
        self._tx = TxRing(interface, frame_octets)
        super().__init__(interface, frame_octets, hosts)

    def _reset_counters(self) -> None:
        super()._reset_counters()
        self._unsent_before = self._tx.count_unsent()

    def _read_health(self) -> dict[str, int]:
        unsent = max(0, self._tx.count_unsent() - self._unsent_before)
        return {**self._read_losses(), "unsent": unsent, "control": self._control}

    def _receive(self, frames: U8, times: I64) -> None:
        ours = self._select_exchange_frames(frames)
        if not ours.all():
            self._handle_control_frames(frames[~ours])
        if ours.any():
            self._handle_frames(frames[ours], times[ours])

    @abstractmethod
    def _select_exchange_frames(self, frames: U8) -> Mask:
        """Return a mask of the frames, all of equal length, that belong to the exchange."""

    @abstractmethod
    def _handle_frames(self, frames: U8, times: I64) -> None:
        """Handle frames of the exchange, all of equal length, and their arrival times [ns]."""


class ClientPort(ExchangePort):
    """The client of an exchange: it sends on schedule and takes answers in between."""

    _sent = 0
    _sent_by = 0.0  # When the last frames had left [s, CLOCK_MONOTONIC]

    @abstractmethod
    def _send(self, wanted: int) -> None:
        """Send at most ``wanted`` further frames and count them in ``_sent``."""

    def _do_due_work(self) -> None:
        """Do work that is due between the frames sent."""

    def _send_all(self, pace: Pace, start: float) -> float:
        """Send all frames, beginning at a time [s, CLOCK_MONOTONIC]; return the longest stall [s]."""
        schedule, self._sent_by = SendingSchedule(pace, start), start
        while self._sent < pace.frames and not schedule.is_overdue:
            if (due := schedule.count_due(self._sent)) > 0:
                self._send(min(due, BATCH))
                self._sent_by = time.monotonic()
                self._do_due_work()
            taken = self._drain()
            if due < BATCH and taken < BATCH:
                schedule.sleep(self._sent, TICK_S, 5 * TICK_S)
        return schedule.lateness_s


class ServerPort(ExchangePort):
    """The server of an exchange, which answers."""

    _wait_s = 0.0  # Longest time that a frame waited for this process

    def _reset_counters(self) -> None:
        super()._reset_counters()
        self._wait_s = 0.0

    def _receive(self, frames: U8, times: I64) -> None:
        self._wait_s = max(self._wait_s, time.time() - float(times[0]) / 1e9)
        super()._receive(frames, times)

    def idle(self, pipe: Connection) -> None:
        serve_rings(pipe, [self._rx], self._drain_slowly, 200)

    def _drain_slowly(self) -> int:
        """Drain the ring, pausing after small batches so that the next ones are larger."""
        taken = self._drain()
        if 0 < taken < SMALL_BATCH:
            time.sleep(GATHERING_S)
        return taken


def summarize_exchange(
    client: Mapping[str, Any], server: Mapping[str, Any], timeout_s: float, clocks: ClockReading
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the tester's faults in an exchange since the clocks were read, and its health."""
    reports, waited_s = {"client": client, "server": server}, server["wait_s"]
    faults = [loss for role, report in reports.items() for loss in describe_losses(role, report)]
    if waited_s > timeout_s:
        faults.append(f"frames waited {waited_s:.3f} s for the server, and their answers were late")
    figures = ("ring_drops", "interface_drops", "control")
    health = {role: {name: report[name] for name in figures} for role, report in reports.items()}
    lateness_s = round(client["lateness_s"], 6)
    return (*faults, *find_faults_since(clocks)), {**health, "lateness_s": lateness_s}


def describe_losses(role: str, report: Mapping[str, int]) -> list[str]:
    """Describe the frames that the tester itself lost, which make a trial invalid."""
    kinds = {
        "ring_drops": "receive ring overflowed by",
        "interface_drops": "interface dropped",
        "unsent": "kernel refused",
    }
    return [f"the {role}'s {what} {n} frames" for k, what in kinds.items() if (n := report.get(k))]
