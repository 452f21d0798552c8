"""A simulated trial of name resolution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from v6t.trials.queries import Answers
from v6t.trials.result import ClassCount, DirectionResult
from v6t.trials.trial import Trial

if TYPE_CHECKING:
    from v6t.drivers.sim.device import Device, SimOptions

WRONG = {
    "class": "queries",
    "sent": "",
    "expected": "00",
    "received": "01",
    "why": "simulated: wrong AAAA record",
}


def answered(trial: Trial, options: SimOptions, device: Device | None) -> DirectionResult:
    """What came back.

    Args:
        trial: with queries.
        options: of tester and device.
        device: None: the tester asks itself.
    """
    queries = trial.queries
    if queries is None:
        raise ValueError("nothing is asked")
    frames = trial.frames
    lost = 0 if device is None else min(frames, device.lost(frames, trial.rate_fps))
    quiet = device is None or trial.benchmark == "preflight"
    late = 0 if quiet else min(options.late, frames - lost)
    received = frames - lost - late
    wrong = 0 if device is None else min(options.mismatch, received)
    # a name in the cache is asked of nobody, one with an AAAA record of its own is asked once
    fresh = round(frames * (1 - queries.cached_share))
    reasons = {"no answer": lost, "late": late, "wrong AAAA record": wrong}
    return DirectionResult(
        classes={"queries": ClassCount("foreground", frames, frames, received - wrong, late=late)},
        sending_time_s=trial.total_duration_s * max(1.0, trial.rate_fps / options.tester_fps),
        checked=received,
        matched=received - wrong,
        mismatch=WRONG if wrong else None,
        answers=Answers(
            {why: count for why, count in reasons.items() if count},
            aaaa_queries=fresh,
            a_queries=0 if queries.is_selftest else round(fresh * (1 - queries.native_aaaa_share)),
            cached_names=queries.cached_names if queries.cached_share else 0,
        ),
    )
