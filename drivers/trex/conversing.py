"""Trials with connections of TCP on TRex's stateful engine, step by step."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from v6t.base.errors import TesterError
from v6t.drivers.oracle.connection_oracle import plugin_of
from v6t.drivers.tester import Oracle, PhaseCounts
from v6t.drivers.trex import astf, sending
from v6t.drivers.trex.attachment import Attachment
from v6t.drivers.trex.channel import DEADLINE_S
from v6t.profiles.tcp.http import REQUEST
from v6t.trials.connections import Connections
from v6t.trials.result import ClassCount, DirectionResult
from v6t.trials.tcp import Tcp, TcpCounts

CLASS = "tcp"
"""The one class of such trials."""


class Conversing:
    """One trial's connections at a time, and their account."""

    def __init__(self, attachment: Attachment) -> None:
        """Nothing is started yet.

        Args:
            attachment: client and server, whose engine is ASTF when :meth:`establish` is called.
        """
        self._attachment = attachment
        self._technology: object = None
        self._asked: tuple[Connections, Tcp] | None = None
        self._found = TcpCounts(0, 0)
        self._opened: astf.Counters = {}
        self._before: astf.Counters = {}

    def load(self, oracle: Oracle) -> None:
        """Whose connections they are."""
        self._technology = plugin_of(oracle)

    def establish(self, connections: Connections) -> PhaseCounts:
        """Open them all; they wait for one another."""
        tcp = _tcp_of(connections)
        self._asked, self._before = (connections, tcp), {}
        profile = astf.profile(astf.ends_of(self._technology), connections, tcp)
        self._attachment.ask("begin", deadline_s=2 * DEADLINE_S, profile=profile)
        count = connections.count
        done = {side: {"tcps_connects": count} for side in ("client", "server")}
        raw = self._watch("open", "tcps_connattempt", 1, count, done)
        self._opened = raw["counters"]
        self._found = astf.opened(self._opened)
        return self._phase(raw, "open", count, self._found.attempted, self._found.established)

    def validate(self) -> PhaseCounts:
        """They ask for their objects."""
        _, tcp = self._made
        at_opening = self._opened
        all_open = min(int(at_opening[s].get("tcps_connects", 0)) for s in at_opening)
        done = {"client": {"tcps_rcvbyte": all_open * astf.answer_octets(tcp)}}
        raw = self._watch("ask", "tcps_sndbyte", len(REQUEST), all_open, done)
        self._found = astf.asked(self._found, raw["counters"], at_opening, tcp)
        self._before = raw["counters"]
        found = self._found
        return self._phase(raw, "ask", found.established, found.requested, found.answered)

    def disconnect(self) -> PhaseCounts:
        """They end; those whose object never came are left to the device's driver."""
        _, tcp = self._made
        if not self._before:  # nobody asked for anything: it is no use to wait
            raw = self._watch("end", "tcps_closed", 1, 0, {})
            self._attachment.ask("finish")
            return self._phase(raw, "end", 0, 0, 0)
        attempts = int(self._opened["client"].get("tcps_connattempt", 0))
        arrived = int(self._opened["server"].get("tcps_connects", 0))
        done = {"client": {"tcps_closed": attempts}, "server": {"tcps_closed": arrived}}
        raw = self._watch("end", "tcps_sndctrl", 1, 2 * attempts, done)
        self._found = found = astf.ended(self._found, raw["counters"], tcp)
        sent = astf.ends_sent(raw["counters"], self._before)
        self._attachment.ask("finish")
        return self._phase(raw, "end", found.answered, min(sent, found.answered), found.closed)

    @property
    def _made(self) -> tuple[Connections, Tcp]:
        if self._asked is None:
            raise TesterError("no connection of TCP was opened yet", code="not-learned")
        return self._asked

    def _watch(
        self, step: astf.Step, counter: str, each: int, count: int, done: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Wait until a step is over, and what the worker saw of it."""
        connections, _ = self._made
        when = astf.schedule(connections)
        began_s = when.begins_s(step)
        until_s = began_s + when.lasts_s + when.wait_s
        seen: Mapping[str, Any] = self._attachment.ask(
            "watch",
            watch=self._attachment.server_lives,
            deadline_s=until_s + DEADLINE_S,
            counter=counter,
            each=each,
            count=count,
            from_s=began_s,
            due_s=began_s + when.lasts_s,
            until_s=until_s,
            done=done,
        )
        return seen

    def _phase(
        self, raw: Mapping[str, Any], step: astf.Step, required: int, sent: int, good: int
    ) -> PhaseCounts:
        connections, _ = self._made
        lasts_s, now = connections.phase_one_s, time.monotonic()
        began_s = min(now, now - raw["ago_s"] + astf.schedule(connections).begins_s(step))
        took = sending.Took(lasts_s if sent else 0.0, 0.0)
        if step != "end" and sent:
            seen = sending.looks(raw["looks"])
            took = sending.sending_time(seen, 0, sent, lasts_s) or sending.Took(2 * lasts_s, 0.0)
        result = DirectionResult(
            classes={CLASS: ClassCount("foreground", required, sent, good)},
            sending_time_s=took.time_s,
            sending_time_error_s=took.error_s,
        )
        return PhaseCounts(
            result,
            began_s,
            began_s + took.time_s,
            faults=tuple(astf.faults(raw, step, self._attachment.cpu_limit)),
            started=_wall(now - began_s),
            health={"cpu": [round(c, 1) for c in raw["cpu"]], "counters": raw["counters"]},
            tcp=self._found,
        )


def _wall(ago_s: float) -> str:
    """The time of day so long ago."""
    then = datetime.now(timezone.utc) - timedelta(seconds=ago_s)
    return then.isoformat(timespec="milliseconds")


def _tcp_of(connections: Connections) -> Tcp:
    if connections.tcp is None:
        raise TesterError("these are not TCP connections", code="not-learned")
    return connections.tcp
