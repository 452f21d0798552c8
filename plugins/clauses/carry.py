"""One clause carried out: frames to whoever sends them, its judgement, further tries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from v6t.plugins.clauses.base import CannotBeDone, Clause, Frame, Judgement, Send, untold

TRIES = 3
LONG_S = 20.0
"""What lasts longer is tried once."""
STILLER = 3.0
"""Each further try listens so many times longer after a frame: a busy device's next one may be late."""
RARE_PAUSE_S = 1.3
"""Between tries of what a device may say once in a second only."""


@dataclass(frozen=True)
class Turn:
    """What was sent, and what came of it."""

    sent: Sequence[Frame]
    heard: Sequence[Frame]


@dataclass(frozen=True)
class Outcome:
    """A clause's judgement with the frames it rests on: those of its last try."""

    clause: Clause
    judgement: Judgement
    turns: Sequence[Turn] = field(default_factory=tuple)
    tries: int = 1


Carrier = Callable[[Send], Sequence[Frame]]
"""Sends, listens, gives what was heard."""


def carry_out(clause: Clause, carrier: Carrier) -> Outcome:
    """Try a clause until it conforms, a few times at most: frames may be lost, and errors rationed."""
    outcome = _tried(clause, carrier, 0.0, 1.0)
    tries = TRIES if clause.lasts_s <= LONG_S else 1
    while outcome.judgement.verdict != "conforms" and outcome.tries < tries:
        pause_s = RARE_PAUSE_S if clause.rare else 0.0
        again = _tried(clause, carrier, pause_s, STILLER**outcome.tries)
        if (outcome.judgement.verdict, again.judgement.verdict) == ("deviates", "cannot be told"):
            again = outcome  # it has deviated, and may have ended by it
        outcome = replace(again, tries=outcome.tries + 1)
    return outcome


def _tried(clause: Clause, carrier: Carrier, pause_s: float, stillness: float) -> Outcome:
    exchange = clause.exchange()
    turns: list[Turn] = []
    try:
        send = next(exchange)
        while True:
            waited = send.pause_s + (pause_s if not turns else 0.0)
            heard = carrier(replace(send, pause_s=waited, stillness=send.stillness * stillness))
            turns.append(Turn(tuple(send.frames), tuple(heard)))
            send = exchange.send(heard)
    except CannotBeDone as exc:
        return Outcome(clause, untold("to be done", str(exc)), tuple(turns))
    except StopIteration as stop:
        return Outcome(
            clause, stop.value or untold("a judgement", "the clause gave none"), tuple(turns)
        )
