"""Trials with connections of TCP: a client on the left, a server on the right, and their account."""

from __future__ import annotations

import base64
import math
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import numpy as np
from v6t.base.errors import TesterError
from v6t.drivers import clock
from v6t.drivers.embedded.played import lost_by
from v6t.drivers.embedded.sender import Pace
from v6t.drivers.embedded.tcp_client import Step, TcpClient
from v6t.drivers.embedded.tcp_end import SENT, UNKNOWN, Account
from v6t.drivers.embedded.tcp_server import TcpServer
from v6t.drivers.lab.namespaces import LEFT, RIGHT
from v6t.drivers.lab.workers import DEADLINE_S, Worker
from v6t.drivers.oracle.connection_oracle import TableAt, foreground
from v6t.drivers.oracle.state_table import MemoryFile, StateTable, describe_repeated
from v6t.drivers.tester import PhaseCounts
from v6t.packets.direction import Direction
from v6t.profiles.streams import StreamSet
from v6t.trials.connections import Connections
from v6t.trials.result import ClassCount, DirectionResult
from v6t.trials.tcp import Tcp, TcpCounts
from v6t.trials.trial import Trial

LEAD_S = 0.05
"""Time between the order to begin and the first SYN."""
CLASS = "tcp"
"""The one class of such trials."""


class TcpExchange:
    """Both roles, and what is known of the connections of one trial.

    Args:
        place: where workers run, and the longest frame there.
        loopback: the ports are joined.
    """

    def __init__(self, place: Mapping[str, Any], *, loopback: bool) -> None:
        self._loopback = loopback
        self._nonce = 0
        self._file: MemoryFile | None = None
        self._account: Account | None = None
        self._rows: MemoryFile | None = None
        self._table: TableAt | None = None
        self._again = 0
        self._wrong = 0

        self._client = Worker("tcp client", TcpClient, interface=LEFT, **place)
        self._server = Worker("tcp server", TcpServer, interface=RIGHT, **place)
        for made in (self._client, self._server):
            made.answer()

    def load(self, streams: Mapping[Direction, StreamSet]) -> None:
        """Load the four-tuples of connections, and the headers on both sides."""
        initial = foreground(streams["forward"])
        behind = initial if self._loopback else foreground(streams["reverse"])
        self._client.ask("load", stream=initial)
        self._server.ask("load", frame=base64.b64decode(behind.trex["packet"]["binary"]))

    def establish(self, asked: Trial, connections: Connections, table: TableAt) -> PhaseCounts:
        """Open them all.

        Args:
            asked: phase 1 as a trial.
            connections: what is asked for.
            table: to be filled with the four-tuples behind the device.
        """
        tcp = _tcp_of(connections)
        self.close_account()
        self._nonce += 1
        count = connections.count
        self._file, self._table = Account.file(count), table
        self._account = Account.at(self._file.path, count)
        self._again = self._wrong = 0
        path, nonce = self._file.path, self._nonce
        self._server.ask("arm", path=path, table=table, nonce=nonce, tcp=tcp)
        self._client.ask("arm", path=path, count=count, nonce=nonce, tcp=tcp)
        phase = self._step("open", Pace.of(asked), count, tcp.max_wait_s)
        rows = StateTable(table.path, table.count, table.version)
        return PhaseCounts(**phase, **describe_repeated(rows))

    def validate(self, asked: Trial, connections: Connections) -> PhaseCounts:
        """Ask for an object in each that is established."""
        count = int(np.count_nonzero(self._known.established()))
        pace = Pace(((count, asked.rate_fps),))
        return PhaseCounts(**self._step("ask", pace, count, _tcp_of(connections).timeout_s))

    def disconnect(self, asked: Trial, connections: Connections) -> PhaseCounts:
        """End them."""
        tcp, known = _tcp_of(connections), self._known
        ended = known.client & SENT if tcp.closing == "rst" else known.established()
        count = int(np.count_nonzero(ended))
        if not count:
            return PhaseCounts(
                **self._phase("rst", _make_empty_report(), 0, time.monotonic(), clock.read(), "")
            )
        pace = Pace(((count, asked.rate_fps),))
        return PhaseCounts(**self._step(tcp.closing, pace, count, tcp.timeout_s))

    def close_account(self) -> None:
        """Forget the connections. May be called twice."""
        self._account = None
        for file in (self._file, self._rows):
            if file is not None:
                file.close()
        self._file = self._rows = None

    def close(self) -> None:
        """End both."""
        self.close_account()
        self._client.close()
        self._server.close()

    @property
    def _known(self) -> Account:
        if self._account is None:
            raise TesterError("no connection of TCP was opened yet", code="not-learned")
        return self._account

    def _step(self, step: Step, pace: Pace, count: int, wait_s: float) -> dict[str, Any]:
        """Do one thing in so many connections: the fields of a phase."""
        began = clock.read()
        started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        start = time.monotonic() + LEAD_S
        self._client.tell("run", step=step, pace=pace, start=start, wait_s=wait_s)
        deadline_s = math.ceil(2 * pace.time_of(pace.frames) + wait_s + DEADLINE_S)
        said = self._client.answer(deadline_s)
        return self._phase(step, said, count, start, began, started)

    def _phase(
        self,
        step: Step,
        said: Mapping[str, Any],
        count: int,
        start: float,
        began: clock.Reading,
        started: str,
    ) -> dict[str, Any]:
        heard = self._server.ask("report")
        self._again = said["retransmitted"]
        wrong = sum(
            n for told in (said, heard) for why, n in told["wrong"].items() if why != UNKNOWN
        )
        found = self._known.counted(retransmitted=self._again, wrong=wrong)
        counted = ClassCount("foreground", count, said["sent"], _count_good(step, found))
        seen = found.established + found.answered + found.closed
        result = DirectionResult(
            classes={CLASS: counted},
            sending_time_s=said["sending_time_s"],
            control=said["control"] + heard["control"],
            checked=seen + wrong,
            matched=seen,
        )
        return {
            "result": result,
            "start_s": start,
            "end_s": start + said["sending_time_s"],
            "faults": (
                *lost_by("client", said),
                *lost_by("server", heard),
                *clock.faults_since(began),
            ),
            "started": started,
            "health": {
                "lateness_s": round(said["lateness_s"], 6),
                "wrong": {"client": said["wrong"], "server": heard["wrong"]},
                **{
                    role: {n: report[n] for n in ("ring_drops", "interface_drops", "control")}
                    for role, report in (("client", said), ("server", heard))
                },
            },
            "tcp": found,
        }


def _count_good(step: Step, found: TcpCounts) -> int:
    return {"open": found.established, "ask": found.answered}.get(step, found.closed)


def _make_empty_report() -> dict[str, Any]:
    zeros = dict.fromkeys(("sent", "retransmitted", "control", "ring_drops", "unsent"), 0)
    return {**zeros, "interface_drops": 0, "sending_time_s": 0.0, "lateness_s": 0.0, "wrong": {}}


def _tcp_of(connections: Connections) -> Tcp:
    if connections.tcp is None:
        raise TesterError("these are not TCP connections", code="not-learned")
    return connections.tcp
