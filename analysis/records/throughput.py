"""Records of ``results.json``: a number with its convention, its trials and its conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from v6t.analysis.notes import notes
from v6t.analysis.statistics import summarise, summary_json
from v6t.procedures.conditions import Attempt
from v6t.procedures.search import mlr
from v6t.procedures.throughput import BENCHMARK, Repetition, ThroughputResult
from v6t.procedures.trial import TrialResult, directions_of

PER_DIRECTION = "per_direction"
AGGREGATE = "aggregate"

FindResult = Callable[[str], TrialResult]
"""The counted result of a trial, by the trial's key."""


def throughput_record(
    result: ThroughputResult,
    find: FindResult,
    *,
    ceiling_fps: float | None,
    selftest_margin: float,
    conditions: Mapping[str, Any],
) -> dict[str, Any]:
    """The record of one throughput point, JSON-like.

    Args:
        result: the repetitions.
        find: where counts and comparisons come from.
        ceiling_fps: the tester's own lossless rate per direction, None if unknown.
        selftest_margin: results above ``(1 - margin)`` of it are flagged (SELF-02).
        conditions: what else the reader must know (preset, tester, device, proportions ...).

    Rates are per direction, also those of bidirectional trials; ``aggregate_median`` is their
    sum. ``loss`` and ``matched`` belong to the trials at the reported rates.
    """
    spec = result.spec
    at = spec.conditions
    rates = [r.rate_fps for r in result.repetitions]
    summary = summarise(rates)
    ways = directions_of(at.mode)
    decisive = [t for t in (_decisive(r) for r in result.repetitions) if t]
    counted = [(key, find(key)) for key in decisive]
    checked = sum(d.checked for _, c in counted for d in c.directions.values())
    matched = sum(d.matched for _, c in counted for d in c.directions.values())
    limit = None if ceiling_fps is None else ceiling_fps * (1 - selftest_margin)
    attempts = [a for r in result.repetitions for a in r.attempts]
    return {
        "benchmark": spec.benchmark,
        "title": _title(result),
        "search": spec.search,
        "search_label": mlr.LABEL if spec.search == "mlrsearch" else None,
        "direction": at.mode,
        "convention": PER_DIRECTION,
        "unit": "frames per second",
        "frame_sizes": {"ipv6": at.ipv6_frame_size, "ipv4": at.ipv4_frame_size},
        "repetitions": summary.count,
        "rates": rates,
        "median": summary.median,
        "p1": summary.p1,
        "p99": summary.p99,
        "min": summary.minimum,
        "max": summary.maximum,
        "dispersion": summary.dispersion,
        "median_interval": summary_json(rates)["median_interval"],
        "notes": notes(rates, "fps"),
        "adaptive": None if spec.adaptive is None else asdict(spec.adaptive),
        "non_monotonic": sum(r.non_monotonic for r in result.repetitions),
        "unresolved": sum(_unresolved(r, spec.resolution_fps) for r in result.repetitions),
        "confirmations": spec.confirmations,
        "final_duration_s": spec.final_duration_s,
        "frame_timeout_s": at.frame_timeout_s,
        "aggregate_median": summary.median * len(ways),
        "aggregate_convention": AGGREGATE,
        "loss": {way: _worst_loss(result.repetitions, way, decisive) for way in ways},
        "loss_tolerance": at.loss_tolerance,
        "matched": matched / checked if checked else None,
        "checked": checked,
        "tester_limited": (limit is not None and summary.median > limit)
        or any(bounded_by_tester(r.rate_fps, r.attempts) for r in result.repetitions),
        "tester_ceiling": ceiling_fps,
        "upper_bound": spec.upper_bound_fps,
        "upper_bound_reason": spec.upper_bound_reason,
        "upper_bound_hit": any(r.search.hit_upper_bound for r in result.repetitions),
        "resolution_fps": spec.resolution_fps,
        "duration_s": spec.duration_s,
        "residual_wait_s": at.residual_wait_s,
        "pause_s": at.pause_s,
        "sending_time_tolerance": at.sending_time_tolerance,
        "decisive_trials": decisive,
        **trial_keys(attempts),
        "conditions": dict(conditions),
    }


def bounded_by_tester(rate_fps: float, attempts: Sequence[Attempt]) -> bool:
    """Whether the trials just above a found rate were invalid: the device never failed there."""
    above = [a for a in attempts if a.trial.rate_fps > rate_fps]
    if not above:
        return False
    next_fps = min(a.trial.rate_fps for a in above)
    return not any(a.verdict.valid for a in above if a.trial.rate_fps == next_fps)


def trial_keys(attempts: Sequence[Attempt]) -> dict[str, Any]:
    """The trials behind a number: a number is only published with them."""
    return {
        "trials": [a.trial.key for a in attempts],
        "invalid_trials": [
            {"key": a.trial.key, "reasons": list(a.verdict.reasons)}
            for a in attempts
            if not a.verdict.valid
        ],
    }


def _title(result: ThroughputResult) -> str:
    """What the number is; a search or rule other than the RFC's is part of its name."""
    spec = result.spec
    title = "Throughput"
    if spec.benchmark != BENCHMARK:
        title += f" with per-frame timeout {(spec.conditions.frame_timeout_s or 0) * 1000:g} ms"
    if spec.search == "mlrsearch":
        title += " (MLRsearch, RFC 2544 goal)"
    if spec.adaptive is not None:
        title += f" (adaptive, n={len(result.repetitions)})"
    return title


def repetition_rows(
    result: ThroughputResult, started: Callable[[str], str]
) -> list[dict[str, Any]]:
    """One row per repetition in siitperf's column order (GEN-28); rates per direction."""
    spec = result.spec
    return [
        {
            "No": r.number,
            "Size": spec.conditions.ipv6_frame_size,
            "Dir": spec.conditions.mode[0],
            "Duration": spec.duration_s,
            "Initial Rate": spec.upper_bound_fps,
            "Timeout": spec.conditions.residual_wait_s,
            "Error": spec.resolution_fps,
            "Date": started(r.attempts[0].trial.key) if r.attempts else "",
            "Iterations": len(r.attempts),
            "rate": r.rate_fps,
        }
        for r in result.repetitions
    ]


def trial_row(trial: Mapping[str, Any], result: TrialResult) -> list[dict[str, Any]]:
    """Raw trial as flat rows, one per direction and class."""
    rows = []
    for direction, counted in result.directions.items():
        for name, count in counted.classes.items():
            rows.append(
                {
                    "key": trial["key"],
                    "started": result.started,
                    "direction": direction,
                    "class": name,
                    "rate_fps": trial["rate_fps"],
                    "duration_s": trial["duration_s"],
                    **asdict(count),
                    "sending_time_s": counted.sending_time_s,
                    "checked": counted.checked,
                    "matched": counted.matched,
                    "faults": "; ".join(result.faults),
                }
            )
    return rows


def _unresolved(repetition: Repetition, resolution_fps: float) -> bool:
    """The search gave up with a wider bracket than asked for."""
    high = repetition.search.first_failed_fps
    return high is not None and high - repetition.search.rate_fps > resolution_fps * 1.001


def _decisive(repetition: Repetition) -> str | None:
    """Key of the last trial that passed at the reported rate."""
    passed = [
        a.trial
        for a in repetition.attempts
        if a.verdict.passed and a.trial.rate_fps == repetition.rate_fps
    ]
    # the search's probes are shorter than the trial that decides
    longest = max((t.duration_s for t in passed), default=0.0)
    return next((t.key for t in reversed(passed) if t.duration_s == longest), None)


def _worst_loss(repetitions: tuple[Repetition, ...], way: str, decisive: list[str]) -> float | None:
    losses = [
        a.verdict.loss[way]
        for r in repetitions
        for a in r.attempts
        if a.trial.key in decisive and way in a.verdict.loss
    ]
    return max(losses, default=None)
