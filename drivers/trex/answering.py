"""Answers for the tester's hosts, sent by TRex between and during trials; runs beside TRex's client.

TRex hands frames that pass a filter to a socket of ZeroMQ and sends what comes back from it, whatever
traffic runs. Handed to the interpreter of TRex's client with :mod:`v6t.drivers.neighbours`: the
standard library only, for Python 3.8.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from v6t.drivers.neighbours import FILTER, Hosts

CAPTURED = f"{FILTER} or (vlan and {FILTER})"
LOOK_MS = 50
"""How soon an introduction is noticed that the other thread asks for; what arrives is seen at once."""
DONTWAIT = 1
"""Of ZeroMQ; the module that comes with TRex's client does not name it."""
LEFT_S = 0.1
"""A frame given to TRex has left by then, and is in its counters."""


class Answering:
    """A thread for each port that answers; how many frames it had TRex send.

    Attributes:
        sent: frames of each port's, of all time.
    """

    def __init__(self, zmq: Any, directory: str, hosts: dict[int, Hosts]) -> None:
        """Make the sockets; TRex connects to :meth:`endpoint` afterwards.

        Args:
            zmq: the module, which comes with TRex's client.
            directory: for the sockets.
            hosts: by port.
        """
        self._hosts = hosts
        self._zmq = zmq
        self._directory = directory
        self._context = zmq.Context()
        self.sent = dict.fromkeys(hosts, 0)
        self._last = time.monotonic()
        self._turn = threading.Lock()
        self._waiting: set[int] = set()
        self._open = True
        self._failed: Exception | None = None
        self._threads = [threading.Thread(target=self._run, args=(port,)) for port in hosts]
        for one in self._threads:
            one.daemon = True
            one.start()

    def endpoint(self, port: int) -> str:
        """Where TRex finds a port's socket."""
        return "ipc://" + os.path.join(self._directory, f"port{port}")

    @property
    def ports(self) -> set[int]:
        """Where somebody is answered."""
        return set(self._hosts)

    def introduce(self, ports: list[int]) -> None:
        """Have the hosts of these ports ask for the device, soon."""
        with self._turn:
            self._waiting.update(port for port in ports if port in self._hosts)

    @contextmanager
    def still(self) -> Iterator[None]:
        """Nothing is sent meanwhile, and what was sent before has left: counters can be read."""
        while True:
            with self._turn:
                if self._failed is not None:
                    raise self._failed
                rest = self._last + LEFT_S - time.monotonic()
                if rest <= 0 and not self._waiting:
                    yield
                    return
            time.sleep(max(0.005, rest))

    def close(self) -> None:
        """End the threads and their sockets; TRex must have let go of them."""
        self._open = False
        for one in self._threads:
            one.join()

    def _run(self, port: int) -> None:
        try:
            way = self._context.socket(self._zmq.PAIR)
            way.setsockopt(self._zmq.RCVTIMEO, LOOK_MS)
            way.bind(self.endpoint(port))
            while self._open:
                try:
                    frame = way.recv()
                except self._zmq.Again:
                    frame = b""
                with self._turn:
                    self._look(port, way, frame)
            way.close()
        except Exception as exc:  # noqa: BLE001  (whoever reads the counters next is told)
            self._failed = exc

    def _look(self, port: int, way: Any, frame: bytes) -> None:
        """Introduce the hosts if they are to be, answer who has asked."""
        if port in self._waiting:
            for one in self._hosts[port].introductions():
                self._send(port, way, one)
            self._waiting.discard(port)
        answer = self._hosts[port].answer(frame)
        if answer is not None:
            self._send(port, way, answer)

    def _send(self, port: int, way: Any, frame: bytes) -> None:
        # counted first: a look at the counters meanwhile finds too few test frames, never too many
        self.sent[port] += 1
        self._last = time.monotonic()
        try:
            way.send(frame, DONTWAIT)
        except self._zmq.Again:  # TRex takes none just now: whoever asked will ask again
            self.sent[port] -= 1
