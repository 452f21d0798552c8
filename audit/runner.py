"""Carry out clauses: send, listen, retry, judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from v6t.audit.clause import (
    MAY,
    Clause,
    Frame,
    Judgement,
    Probe,
    ProbeUnable,
    Send,
    not_testable,
)

TRIES = 3
RETRIED_UP_TO_S = 20.0
"""Clauses that wait longer for timers are tried once."""
STILLNESS_FACTOR = 3.0
"""Each further try listens this much longer after a frame: a busy device may be late."""
RATE_LIMIT_PAUSE_S = 1.3
"""Pause between tries of messages that a device may send only once a second."""


@dataclass(frozen=True)
class Listening:
    """How long to listen for the first frame, and after the last one [s]."""

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
    turns: Sequence[Turn] = ()
    tries: int = 1


def carry_out(clause: Clause, probe: Probe, listening: Listening) -> Outcome:
    """Try a clause until it conforms, a few times at most: frames may be lost, and errors rate limited."""
    outcome = _try_once(clause, probe, listening)
    tries = TRIES if clause.lasts_s <= RETRIED_UP_TO_S else 1
    while outcome.judgement.verdict != "conforms" and outcome.tries < tries:
        if clause.rate_limited:
            probe.pause(RATE_LIMIT_PAUSE_S)
        quiet_s = listening.quiet_s * STILLNESS_FACTOR**outcome.tries
        again = _try_once(clause, probe, replace(listening, quiet_s=quiet_s))
        if (outcome.judgement.verdict, again.judgement.verdict) == ("deviates", "not testable"):
            again = outcome  # the device deviated, and may be dead because of it
        outcome = replace(again, tries=outcome.tries + 1)
    if clause.level == MAY and outcome.judgement.verdict == "deviates":
        information = replace(outcome.judgement, verdict="information")
        outcome = replace(outcome, judgement=information)
    return outcome


def _try_once(clause: Clause, probe: Probe, listening: Listening) -> Outcome:
    steps = clause.steps()
    turns: list[Turn] = []
    try:
        send = next(steps)
        while True:
            heard = _exchange(send, probe, listening)
            turns.append(Turn(tuple(send.frames), tuple(heard)))
            send = steps.send(heard)
    except ProbeUnable as exc:
        return Outcome(clause, not_testable("to be done", str(exc)), turns)
    except StopIteration as stop:
        return Outcome(clause, stop.value, turns)


def _exchange(send: Send, probe: Probe, listening: Listening) -> Sequence[Frame]:
    if send.before == "flush":
        probe.flush()
    elif send.before == "reset":
        probe.reset()
    if send.pause_s:
        probe.pause(send.pause_s)
    wait_s = send.listen_s or listening.wait_s * send.patience
    quiet_s = send.listen_s or listening.quiet_s * send.stillness
    return probe.exchange(send.frames, wait_s, quiet_s)
