"""Records of the benchmarks of stateful devices for ``results.json`` (ST-14, ST-15)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from v6t.analysis.notes import notes
from v6t.analysis.records.throughput import bounded_by_tester, trial_keys
from v6t.analysis.statistics import finite, summarise, summary_json
from v6t.procedures.conditions import Attempt
from v6t.procedures.connection_types import Established
from v6t.procedures.stateful.capacity import CapacityResult
from v6t.procedures.stateful.connection_rate import ConnectionRateResult
from v6t.procedures.stateful.teardown import TeardownResult
from v6t.procedures.trial import TrialResult

FindResult = Callable[[str], TrialResult]
ANY_DIRECTION = "connections"
"""In place of a direction: phase 1 goes forward, the validation back."""


def connection_rate_record(
    result: ConnectionRateResult, find: FindResult, *, setup: Mapping[str, Any],
    conditions: Mapping[str, Any], ceiling_cps: float, selftest_margin: float,
) -> dict[str, Any]:  # fmt: skip
    """Maximum connection establishment rate, JSON-like.

    Args:
        result: the repetitions.
        find: where counts come from.
        setup: ranges of the connections and what the technology says of them.
        conditions: what else the reader must know.
        ceiling_cps: what the tester itself establishes without a device.
        selftest_margin: results above ``(1 - margin)`` of it are flagged (SELF-02).
    """
    spec = result.spec
    rates = [r.rate_cps for r in result.repetitions]
    summary = summarise(rates)
    attempts = [a for r in result.repetitions for a in r.attempts]
    return {
        **_head(spec.benchmark, "Maximum connection establishment rate", spec.conditions),
        "unit": "connections per second",
        "repetitions": summary.count,
        "rates": rates,
        "median": summary.median,
        "p1": summary.p1,
        "p99": summary.p99,
        "min": summary.minimum,
        "max": summary.maximum,
        "dispersion": summary.dispersion,
        "median_interval": summary_json(rates)["median_interval"],
        "notes": notes(rates, "connections/s"),
        "connections": spec.connections,
        "alpha": spec.filling.alpha,
        "validated": spec.filling.alpha is not None,
        "tolerance_connections": 0,
        "resolution_cps": spec.resolution_cps,
        "upper_bound": spec.upper_bound_cps,
        "upper_bound_reason": spec.upper_bound_reason,
        "upper_bound_hit": any(r.search.hit_upper_bound for r in result.repetitions),
        "tester_ceiling": ceiling_cps,
        "tester_limited": summary.median > ceiling_cps * (1 - selftest_margin)
        or any(bounded_by_tester(r.rate_cps, r.attempts) for r in result.repetitions),
        "wait_s": spec.filling.wait_s,
        "counts": _counts(attempts, find),
        "setup": dict(setup),
        **trial_keys(attempts),
        "conditions": dict(conditions),
    }


def connection_rate_rows(
    result: ConnectionRateResult, started: Callable[[str], str]
) -> list[dict[str, Any]]:
    """One row per repetition."""
    spec = result.spec
    return [
        {
            **_row(r.number, spec.conditions),
            "Connections": spec.connections,
            "Initial Rate": spec.upper_bound_cps,
            "Timeout": spec.filling.wait_s,
            "Alpha": "" if spec.filling.alpha is None else spec.filling.alpha,
            "Error": spec.resolution_cps,
            "Date": started(r.attempts[0].trial.key) if r.attempts else "",
            "Iterations": len(r.attempts),
            "rate": r.rate_cps,
        }
        for r in result.repetitions
    ]


def teardown_record(
    result: TeardownResult, *, method: str, setup: Mapping[str, Any], conditions: Mapping[str, Any]
) -> dict[str, Any]:
    """Connection tear-down rate, JSON-like.

    Args:
        result: the repetitions.
        method: how the device empties its table, in words or commands (ST-10).
        setup: see :func:`connection_rate_record`.
        conditions: see there.
    """
    spec = result.spec
    rates = [r.rate_cps(spec.connections) for r in result.repetitions]
    known = [rate for rate in rates if rate is not None]
    attempts = [a for r in result.repetitions for a in r.attempts]
    record = {
        **_head("teardown", "Connection tear-down rate", spec.conditions),
        "unit": "connections per second",
        "repetitions": len(result.repetitions),
        "rates": rates,
        "connections": spec.connections,
        "established_at_cps": spec.rate_cps,
        "rate_source": spec.rate_source,
        "method": method,
        "full_s": [r.full_s for r in result.repetitions],
        "idle_s": [r.idle_s for r in result.repetitions],
        "sessions": [r.sessions for r in result.repetitions],
        "setup": dict(setup),
        **trial_keys(attempts),
        "conditions": dict(conditions),
    }
    if not known:
        record["not_measured"] = "emptying a full table took no longer than emptying an empty one"
        return record
    summary = summarise(known)
    return {
        **record,
        "median": summary.median,
        "p1": summary.p1,
        "p99": summary.p99,
        "notes": notes(known, "connections/s"),
    }


def teardown_rows(result: TeardownResult) -> list[dict[str, Any]]:
    """One row per repetition."""
    spec = result.spec
    return [
        {
            **_row(r.number, spec.conditions),
            "Connections": spec.connections,
            "full_s": r.full_s,
            "idle_s": r.idle_s,
            "rate": r.rate_cps(spec.connections),
        }
        for r in result.repetitions
    ]


def capacity_record(
    result: CapacityResult, *, setup: Mapping[str, Any], conditions: Mapping[str, Any]
) -> dict[str, Any]:
    """Connection tracking table capacity, JSON-like; arguments as above."""
    spec = result.spec
    record = {
        **_head("capacity", "Connection tracking table capacity", spec.conditions),
        "unit": "connections",
        "repetitions": 1,
        "capacity": result.capacity,
        "rate_cps": result.rate_cps,
        "first_failed": result.first_failed,
        "at_least": result.first_failed is None,
        "most": spec.most,
        "error": spec.error,
        "c0": spec.first,
        "first_connections": result.first_connections,
        "r0": result.first_rate_cps,
        "alpha": spec.filling.alpha,
        "beta": spec.beta,
        "gamma": spec.gamma,
        "resolution_cps": spec.resolution_cps,
        "steps": [
            {
                "phase": s.phase,
                "connections": s.connections,
                "rate_cps": finite(s.rate_cps),
                "carried": s.carried,
            }
            for s in result.steps
        ],
        "setup": dict(setup),
        **trial_keys(result.attempts),
        "conditions": dict(conditions),
    }
    if not result.capacity:
        record["not_measured"] = "not even one connection was established"
    return record


def capacity_rows(result: CapacityResult) -> list[dict[str, Any]]:
    """One row per number of connections."""
    return [
        {
            **_row(number, result.spec.conditions),
            "phase": s.phase,
            "connections": s.connections,
            "rate": s.rate_cps,
            "carried": s.carried,
        }
        for number, s in enumerate(result.steps, 1)
    ]


def phase_one(found: Established | None) -> dict[str, Any] | None:
    """Connections behind a result of phase 2, counts of both sides apart (ST-15)."""
    if found is None:
        return None
    return {
        "connections": found.required,
        "learned": found.learned,
        "sessions": found.sessions,
        "sessions_before": found.sessions_before,
        "initiator_endpoints": found.inside,
        "public_endpoints": found.outside,
        "device": None if found.device is None else dict(found.device),
        "gap_s": found.gap_s,
        "kept": found.kept,
    }


def _counts(attempts: list[Attempt], find: FindResult) -> dict[str, Any] | None:
    """Counts of the last trial that passed."""
    passed = [a.trial.key for a in attempts if a.verdict.passed]
    return phase_one(find(passed[-1]).connections) if passed else None


def _head(benchmark: str, title: str, at: Any) -> dict[str, Any]:
    return {
        "benchmark": benchmark,
        "title": title,
        "direction": ANY_DIRECTION,
        "frame_sizes": {"ipv6": at.ipv6_frame_size, "ipv4": at.ipv4_frame_size},
    }


def _row(number: int, at: Any) -> dict[str, Any]:
    return {"No": number, "Size": at.ipv6_frame_size, "Dir": "c"}
