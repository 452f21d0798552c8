"""Answers for the tester's hosts, sent by TRex between and during trials.

TRex hands frames that pass a filter to a socket of ZeroMQ and sends what comes back from it, whatever
traffic runs.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager, suppress
from typing import Any, Iterator

from v6t.drivers.neighbours import REQUEST_FILTER, Hosts

NEIGHBOUR_FILTER = f"{REQUEST_FILTER} or (vlan and {REQUEST_FILTER})"
_POLL_MS = 50  # Longest time until a thread notices that it is closed
DONTWAIT = 1  # Flag of ZeroMQ that TRex's copy of pyzmq does not name
DEPARTURE_S = 0.1  # Longest time until a frame given to TRex is in its counters


class NeighborResponder:
    """Answers neighbor requests for the tester's hosts, with one thread for each port.

    TRex connects to :meth:`endpoint` afterwards.

    Attributes:
        sent: frames of each port's, of all time.
    """

    def __init__(self, zmq: Any, directory: str, hosts: dict[int, Hosts]) -> None:
        self._hosts = hosts
        self._zmq = zmq
        self._directory = directory
        self._context = zmq.Context()
        self.sent = dict.fromkeys(hosts, 0)
        self._last = time.monotonic()
        self._lock = threading.Lock()
        self._is_open = True
        self._failure: Exception | None = None
        self._threads = [
            threading.Thread(target=self._run, args=(port,), daemon=True) for port in hosts
        ]
        for thread in self._threads:
            thread.start()

    def endpoint(self, port: int) -> str:
        return "ipc://" + os.path.join(self._directory, f"port{port}")

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Wait until all answers have left and send no others, so that counters can be read."""
        while True:
            with self._lock:
                if self._failure is not None:
                    raise self._failure
                rest = self._last + DEPARTURE_S - time.monotonic()
                if rest <= 0:
                    yield
                    return
            time.sleep(rest)

    def close(self) -> None:
        """End the threads and their sockets; TRex must have let go of them."""
        self._is_open = False
        for thread in self._threads:
            thread.join()

    def _run(self, port: int) -> None:
        """Answer requests of one port until closed."""
        try:
            pair = self._context.socket(self._zmq.PAIR)
            pair.setsockopt(self._zmq.RCVTIMEO, _POLL_MS)
            pair.bind(self.endpoint(port))
            while self._is_open:
                with suppress(self._zmq.Again):
                    frame = pair.recv()
                    with self._lock:
                        self._answer(port, pair, frame)
            pair.close()
        except Exception as exc:  # raised again where counters are read next
            self._failure = exc

    def _answer(self, port: int, pair: Any, frame: bytes) -> None:
        """Answer a frame that asks for a host, and count the answer."""
        answer = self._hosts[port].answer(frame)
        if answer is None:
            return
        # counted first: a look at the counters meanwhile finds too few test frames, never too many
        self.sent[port] += 1
        self._last = time.monotonic()
        try:
            pair.send(answer, DONTWAIT)
        except self._zmq.Again:  # TRex takes none just now: the device will ask again
            self.sent[port] -= 1
