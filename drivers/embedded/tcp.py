"""Trials with TCP connections: a client on the left, a server on the right, and shared states."""

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import numpy as np
from v6t.base.errors import TesterError
from v6t.drivers import clock
from v6t.drivers.embedded import tcp_ends
from v6t.drivers.embedded.port import summarize_exchange
from v6t.drivers.embedded.sender import LEAD_S
from v6t.drivers.embedded.timing import Pace
from v6t.drivers.lab.namespaces import LEFT, RIGHT
from v6t.drivers.lab.workers import DEADLINE_S, Worker
from v6t.drivers.oracle.connection_oracle import TableLocation, find_foreground
from v6t.drivers.oracle.state_table import MemoryFile, describe_duplicates
from v6t.drivers.tester import TCP_CLASS, PhaseCounts
from v6t.packets.direction import Direction
from v6t.profiles.streams import StreamSet
from v6t.trials.connections import Connections, Tcp
from v6t.trials.result import ClassCount, DirectionResult
from v6t.trials.trial import Trial


class TcpWorkers:
    """Workers at both ends of TCP connections; ``place`` holds their namespace and frame length."""

    _tcp: Tcp  # How the trial's connections are opened, used and ended

    def __init__(self, place: Mapping[str, Any], *, loopback: bool) -> None:
        self._loopback = loopback
        self._nonce = 0
        self._file: MemoryFile | None = None
        self._states: tcp_ends.ConnectionStates | None = None
        self._client = Worker("tcp client", tcp_ends.TcpClient, interface=LEFT, **place)
        self._server = Worker("tcp server", tcp_ends.TcpServer, interface=RIGHT, **place)
        for worker in (self._client, self._server):
            worker.answer()

    def load(self, streams: Mapping[Direction, StreamSet]) -> None:
        """Load the four-tuples of connections, and the headers on both sides."""
        initial = find_foreground(streams["forward"])
        behind = initial if self._loopback else find_foreground(streams["reverse"])
        self._client.ask("load", stream=initial)
        self._server.ask("load", frame=behind.packet)

    def establish(
        self, trial: Trial, connections: Connections, tcp: Tcp, table: TableLocation
    ) -> PhaseCounts:
        """Open all connections; fill the table with the four-tuples behind the device."""
        count, self._tcp = connections.count, tcp
        self._release_states()
        self._nonce += 1
        self._file = tcp_ends.ConnectionStates.make_file(count)
        path, nonce = self._file.path, self._nonce
        self._states = tcp_ends.ConnectionStates.open_file(path, count)
        self._server.ask("arm", path=path, table=table, nonce=nonce, tcp=tcp)
        self._client.ask("arm", path=path, count=count, nonce=nonce, tcp=tcp)
        phase = self._run("open", count, trial.rate_fps, tcp.max_wait_s)
        return replace(phase, **describe_duplicates(table.map()))

    def validate(self, trial: Trial) -> PhaseCounts:
        """Check that each established connection works: request an object over it."""
        count = int(np.count_nonzero(self._current_states.select_established()))
        return self._run("ask", count, trial.rate_fps, self._tcp.timeout_s)

    def disconnect(self, trial: Trial) -> PhaseCounts:
        """End the connections by resets or FINs."""
        known, tcp = self._current_states, self._tcp
        ended = known.client & tcp_ends.SENT if tcp.closing == "rst" else known.select_established()
        return self._run(tcp.closing, int(np.count_nonzero(ended)), trial.rate_fps, tcp.timeout_s)

    def close(self) -> None:
        self._release_states()
        self._client.close()
        self._server.close()

    def _release_states(self) -> None:
        self._states = None
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def _current_states(self) -> tcp_ends.ConnectionStates:
        """States of the trial's connections; TesterError if none were opened."""
        if self._states is None:
            raise TesterError("no TCP connections were opened yet", code="not-learned")
        return self._states

    def _run(self, step: tcp_ends.Step, count: int, rate_fps: float, wait_s: float) -> PhaseCounts:
        """Run one step in ``count`` connections and wait up to ``wait_s`` for its outcome."""
        clocks = clock.read()
        started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        start = time.monotonic() + LEAD_S
        deadline_s = math.ceil(2 * count / rate_fps + wait_s + DEADLINE_S)
        when = {"pace": Pace(((count, rate_fps),)), "start": start, "wait_s": wait_s}
        client = self._client.ask("run", deadline_s, step=step, **when)
        server = self._server.ask("report")
        both = (client["wrong"], server["wrong"])
        wrong = sum(n for reasons in both for why, n in reasons.items() if why != tcp_ends.UNKNOWN)
        tcp = self._current_states.count(retransmitted=client["retransmitted"], wrong=wrong)
        good = {"open": tcp.established, "ask": tcp.answered}.get(step, tcp.closed)
        matched = tcp.established + tcp.answered + tcp.closed
        result = DirectionResult(
            classes={TCP_CLASS: ClassCount("foreground", count, client["sent"], good)},
            sending_time_s=client["sending_time_s"],
            control=client["control"] + server["control"],
            checked=matched + wrong,
            matched=matched,
        )
        faults, health = summarize_exchange(client, server, wait_s, clocks)
        health["wrong"] = {"client": client["wrong"], "server": server["wrong"]}
        return PhaseCounts(result, start, faults=faults, started=started, health=health, tcp=tcp)
