"""Carry out clauses: send, listen, retry, judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from v6t.audit.clause import (
    CONFORMS,
    DEVIATES,
    INFORMATION,
    NOT_TESTABLE,
    Clause,
    Judgement,
    Send,
    not_testable,
)
from v6t.audit.probe import Frame, Probe, ProbeUnable

TRIES = 3
RETRIED_UP_TO_S = 20.0
"""Clauses that wait longer for timers are tried once."""
STILLNESS_FACTOR = 3.0
"""Each further try listens this much longer after a frame: a busy device may be late."""
RATE_LIMIT_PAUSE_S = 1.3
"""Pause between tries of messages that a device may send only once a second."""


@dataclass(frozen=True)
class Listening:
    """How long to listen [s].

    Attributes:
        wait_s: for the first frame.
        quiet_s: after the last frame.
    """

    wait_s: float = 0.4
    quiet_s: float = 0.06


@dataclass(frozen=True)
class Turn:
    """One exchange: frames sent, and frames that the device sent."""

    sent: Sequence[Frame]
    heard: Sequence[Frame]


@dataclass(frozen=True)
class Outcome:
    """A clause's judgement, with the frames of its last try."""

    clause: Clause
    judgement: Judgement
    turns: Sequence[Turn] = field(default_factory=tuple)
    tries: int = 1


def carry_out(clause: Clause, probe: Probe, listening: Listening) -> Outcome:
    """Try a clause until it conforms, a few times at most: frames may be lost, and errors rate limited."""
    outcome = _try_once(clause, probe, listening, 0.0, 1.0)
    tries = TRIES if clause.lasts_s <= RETRIED_UP_TO_S else 1
    while outcome.judgement.verdict != CONFORMS and outcome.tries < tries:
        pause_s = RATE_LIMIT_PAUSE_S if clause.rate_limited else 0.0
        again = _try_once(clause, probe, listening, pause_s, STILLNESS_FACTOR**outcome.tries)
        if (outcome.judgement.verdict, again.judgement.verdict) == (DEVIATES, NOT_TESTABLE):
            again = outcome  # the device deviated, and may be dead because of it
        outcome = replace(again, tries=outcome.tries + 1)
    if clause.level == "MAY" and outcome.judgement.verdict == DEVIATES:
        information = replace(outcome.judgement, verdict=INFORMATION)
        outcome = replace(outcome, judgement=information)
    return outcome


def _try_once(
    clause: Clause, probe: Probe, listening: Listening, pause_s: float, stillness: float
) -> Outcome:
    steps = clause.steps()
    turns: list[Turn] = []
    try:
        send = next(steps)
        while True:
            heard = _exchange(send, probe, listening, 0.0 if turns else pause_s, stillness)
            turns.append(Turn(tuple(send.frames), tuple(heard)))
            send = steps.send(heard)
    except ProbeUnable as exc:
        return Outcome(clause, not_testable("to be done", str(exc)), tuple(turns))
    except StopIteration as stop:
        return Outcome(clause, stop.value, tuple(turns))


def _exchange(
    send: Send, probe: Probe, listening: Listening, pause_s: float, stillness: float
) -> Sequence[Frame]:
    if send.before == "flush":
        probe.flush()
    elif send.before == "reset":
        probe.reset()
    if send.pause_s + pause_s:
        probe.pause(send.pause_s + pause_s)
    wait_s = send.listen_s or listening.wait_s * send.patience
    quiet_s = send.listen_s or listening.quiet_s * send.stillness * stillness
    return probe.exchange(send.frames, wait_s, quiet_s)
