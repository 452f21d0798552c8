"""Degradation while connecting: a stream alone, connections of TCP alone, and both at once.

Each repetition sends the stream without new connections, then with them. What the connections lose is
judged against a stream that asks next to nothing of the device: they come at the same rate beside a
hundredth of its frames. Loss is the result, so trials pass or fail by the tester's faults only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from v6t.procedures.conditions import Attempt, Attempts, PointSpec, Watch
from v6t.procedures.tcp import Churn, TcpFound
from v6t.procedures.trial import DelayRequest, DirectionResult, Measure, directions_of

BENCHMARK = "churn"
KINDS = ("stream", "connections", "both")
"""What a trial has: its stream alone, connections beside next to nothing, both."""
NEXT_TO_NOTHING = 0.01
"""Share of the stream's rate beside which connections come alone."""


@dataclass(frozen=True)
class ChurnSpec(PointSpec):
    """One point.

    Attributes:
        conditions: of the point.
        rate_fps, rate_source: of the stream, per direction, and where that is from.
        churn: connections beside it.
        churn_source: where their rate is from.
        duration_s: of each stream [s].
        tags: tagged frames of each, per direction.
        repetitions: of every kind.
    """

    benchmark = BENCHMARK
    rate_fps: float
    rate_source: str
    churn: Churn
    churn_source: str
    duration_s: float
    tags: int
    repetitions: int


@dataclass(frozen=True)
class Both:
    """One trial.

    Attributes:
        number: of the repetition, from 1.
        kind: of :data:`KINDS`.
        key: of the trial.
        valid: the tester did its part.
        directions: what became of the stream.
        churn: what became of the connections; None: it had none.
    """

    number: int
    kind: str
    key: str
    valid: bool
    directions: Mapping[str, DirectionResult]
    churn: TcpFound | None


@dataclass(frozen=True)
class ChurnResult:
    """All trials."""

    spec: ChurnSpec
    trials: tuple[Both, ...]
    attempts: tuple[Attempt, ...]


def measure_churn(spec: ChurnSpec, measure: Measure, watch: Watch | None = None) -> ChurnResult:
    """One after the other; deterministic given the trial results."""
    done: list[Both] = []
    attempts: list[Attempt] = []
    at = spec.conditions
    for number in range(1, spec.repetitions + 1):
        trials = Attempts(at, spec.point, measure, watch, number, spec.repetitions)
        for kind in KINDS:
            rate_fps = spec.rate_fps * (NEXT_TO_NOTHING if kind == "connections" else 1.0)
            tags = max(1, min(spec.tags, int(rate_fps * spec.duration_s / 2)))
            trial = at.trial(
                BENCHMARK,
                rate_fps,
                spec.duration_s,
                delays=DelayRequest(tags=tags),
                churn=None if kind == "stream" else spec.churn,
            )
            outcome = trials.run(trial, kind)
            attempts += outcome.attempts
            result = outcome.result
            ways = {
                w: result.directions[w] for w in directions_of(at.mode) if w in result.directions
            }
            done.append(
                Both(number, kind, outcome.trial.key, outcome.verdict.valid, ways, result.churn)
            )
    return ChurnResult(spec, tuple(done), tuple(attempts))
