"""Trials that must succeed before a measurement means anything: the first phase (ST-08).

A preliminary phase that lost a frame leaves the state of device and tester unequal. It is taken
again a bounded number of times, after the device has been emptied, and then given up.
"""

from __future__ import annotations

from collections.abc import Callable

from v6t.procedures.attempts import Conditions, Outcome, attempt
from v6t.procedures.trial import Measure

BENCHMARK = "phase-1"
RETAKES = 3


class PreparationFailed(Exception):
    """The preliminary phase did not succeed in any of its attempts."""


def prepare(
    conditions: Conditions,
    measure: Measure,
    *,
    rate_fps: float,
    duration_s: float,
    name: str,
    empty: Callable[[], None],
    retakes: int = RETAKES,
) -> Outcome:
    """Run the preliminary phase until every frame arrives.

    Args:
        conditions: of the point.
        measure: the door.
        rate_fps: per direction.
        duration_s: of the stream.
        name: of the trial it prepares, part of the keys.
        empty: brings the device back to an empty state; called before each attempt (ST-11).
        retakes: further attempts after the first.

    Raises:
        PreparationFailed: it lost frames every time.
    """
    for take in range(1, retakes + 2):
        empty()
        outcome = attempt(
            conditions,
            measure,
            benchmark=BENCHMARK,
            step=f"{name}/t{take}",
            rate_fps=rate_fps,
            duration_s=duration_s,
        )
        if outcome.verdict.passed:
            return outcome
    why = outcome.verdict.reasons[0] if outcome.verdict.reasons else "no reason known"
    raise PreparationFailed(
        f"the preliminary phase failed {retakes + 1} times at {rate_fps:,.0f} fps: {why}"
    )
