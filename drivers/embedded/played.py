"""A port on which one end of an exchange sends and receives: rings, neighbours, losses of its own."""

from __future__ import annotations

import select
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from v6t.drivers.embedded.receiver import interface_drops
from v6t.drivers.embedded.sender import BATCH, GIVE_UP, LONGEST_SLEEP_S, Pace
from v6t.drivers.lab.ring import RxRing, TxRing
from v6t.drivers.neighbours import Hosts, asking

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8

LOOKS = 64
"""At most, until a ring is empty: each takes up to 4096 frames of at most 65,536."""
GATHERED = 32
"""Fewer questions at a time than this, and the next look waits for more."""
GATHERING_S = 0.0001
TICK_S = 0.0002
"""Shortest sleep of who asks: a wake-up for each question would take a core from the device."""


class Played(ABC):
    """A host on one interface; who asks for its address is answered.

    Args:
        interface: where to listen and to send.
        frame_octets: longest frame, without FCS.
        hosts: who is played there.
        is_ours: which of equally long frames belong to the exchange.
    """

    def __init__(
        self,
        interface: str,
        frame_octets: int,
        hosts: Mapping[str, Any] | None,
        is_ours: Callable[[U8], NDArray[np.bool_]],
    ) -> None:
        self._rx = RxRing(interface, frame_octets)
        self._tx = TxRing(interface, frame_octets)
        self._hosts = None if hosts is None else Hosts(**hosts)
        self._is_ours = is_ours
        self._control = 0
        self._dropped_before = self._unsent_before = 0

    def idle(self, pipe: Connection) -> None:
        """Take frames until a request waits."""
        poll = select.poll()
        poll.register(pipe.fileno(), select.POLLIN)
        poll.register(self._rx.socket, select.POLLIN | select.POLLERR)
        while not pipe.poll(0):
            self._wait_for_frames(poll, self._drain())

    def _wait_for_frames(self, poll: select.poll, taken: int) -> None:
        if not taken:
            poll.poll(200)

    def introduce(self) -> None:
        """Have the hosts ask for the device, so that it learns them."""
        for frame in () if self._hosts is None else self._hosts.introductions():
            self._rx.send(frame)

    def _begin(self) -> None:
        """Begin a trial: earlier losses are not its own."""
        self._drain_all()
        self._control = 0
        self._unsent_before = self._tx.unsent()
        self._rx.drops()
        self._dropped_before = interface_drops(self._rx.interface)

    def _health(self) -> dict[str, int]:
        return {
            "ring_drops": self._rx.drops(),
            "interface_drops": interface_drops(self._rx.interface) - self._dropped_before,
            "unsent": max(0, self._tx.unsent() - self._unsent_before),
            "control": self._control,
        }

    def _drain(self) -> int:
        """Take what is there: how many frames."""
        taken = 0
        for frames, times in self._rx.take():
            taken += len(frames)
            ours = self._is_ours(frames)
            if not ours.all():
                self._handle_other_frames(frames[~ours])
            if ours.any():
                self._handle_frames(frames[ours], times[ours])
        self._rx.release()
        return taken

    def _drain_all(self) -> None:
        """Take until nothing is there: one look ends at the ring's end; bounded, as more may come."""
        for _ in range(LOOKS):
            if not self._drain():
                break

    @abstractmethod
    def _handle_frames(self, frames: U8, times: NDArray[np.int64]) -> None:
        """Equally long frames of the exchange, and when they arrived [ns]."""

    def _handle_other_frames(self, frames: U8) -> None:
        self._control += len(frames)
        for answer in () if self._hosts is None else self._hosts.answers_to(asking(frames)):
            self._rx.send(answer)


class Asking(Played):
    """Who begins: everything is sent when it is due, and answers are taken in between."""

    _sent = 0
    _sent_by = 0.0
    """When the last ones had left [s, CLOCK_MONOTONIC]."""

    @abstractmethod
    def _send(self, wanted: int) -> None:
        """Send the next ones, at most so many, and count them in ``_sent``."""

    def _do_due_work(self) -> None:
        """Whatever else is due while things are sent."""

    def _send_all(self, pace: Pace, start: float) -> float:
        """Send all; the longest delay of one [s].

        Args:
            pace: how many, and when each is due.
            start: when the first is due [s, CLOCK_MONOTONIC].
        """
        while (now := time.monotonic()) < start:
            time.sleep(min(start - now, LONGEST_SLEEP_S))
        lateness, self._sent_by = 0.0, start
        give_up = start + pace.time_of(pace.frames) * GIVE_UP + 0.5
        while self._sent < pace.frames:
            now = time.monotonic()
            if now > give_up:
                break
            due = pace.due(now - start) - self._sent
            if due > 0:
                lateness = max(lateness, now - start - pace.time_of(self._sent))
                self._send(min(due, BATCH))
                self._sent_by = time.monotonic()
                self._do_due_work()
            taken = self._drain()
            if due < BATCH and taken < BATCH:
                wait = start + pace.time_of(self._sent) - time.monotonic()
                time.sleep(min(max(wait, TICK_S), 5 * TICK_S))
        return lateness


class Answering(Played):
    """Who answers: a wake-up for each question would take a core from the device."""

    def _wait_for_frames(self, poll: select.poll, taken: int) -> None:
        if not taken:
            poll.poll(200)
        elif taken < GATHERED:
            time.sleep(GATHERING_S)


def lost_by(role: str, report: Mapping[str, int]) -> list[str]:
    """Losses on the tester's own side of the wire: they make a trial invalid (SELF-05)."""
    kinds = {
        "ring_drops": "receive ring overflowed by",
        "interface_drops": "interface dropped",
        "unsent": "kernel refused",
    }
    return [f"the {role}'s {what} {n} frames" for k, what in kinds.items() if (n := report[k])]
