"""Records of benchmarks that compare variants of the traffic, for ``results.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from v6t.analysis.records.throughput import PER_DIRECTION
from v6t.analysis.scaling import degradation_percent
from v6t.procedures.flows import BENCHMARK as FLOWS
from v6t.procedures.flows import FlowPoint
from v6t.procedures.rss_probe import BENCHMARK, Advice
from v6t.procedures.throughput import ThroughputResult

_OF_A_CASE = (
    *("repetitions", "rates", "median", "p1", "p99", "dispersion", "median_interval", "notes"),
    *("tester_limited", "tester_ceiling", "upper_bound", "upper_bound_reason", "upper_bound_hit"),
    *("resolution_fps", "matched", "decisive_trials"),
)


def probe_record(
    found: Mapping[Any, Mapping[str, Any]], advice: Advice, *, conditions: Mapping[str, Any]
) -> dict[str, Any]:
    """The record of one probe, JSON-like; rates per direction.

    Args:
        found: throughput records by case.
        advice: what follows from them.
        conditions: what else the reader must know.
    """
    records = list(found.values())
    first = records[0]
    return {
        "benchmark": BENCHMARK,
        "title": "Entropy this device needs (throughput by what varies)",
        "direction": first["direction"],
        "convention": PER_DIRECTION,
        "unit": "frames per second",
        "frame_sizes": first["frame_sizes"],
        "repetitions": first["repetitions"],
        "cases": {case: {k: record[k] for k in _OF_A_CASE} for case, record in found.items()},
        "use": advice.use,
        "why": advice.why,
        "duration_s": first["duration_s"],
        "trials": [key for record in records for key in record["trials"]],
        "invalid_trials": [entry for record in records for entry in record["invalid_trials"]],
        "conditions": dict(conditions),
    }


def flows_record(
    found: Sequence[tuple[FlowPoint, Mapping[str, Any]]],
    *,
    interval_s: float,
    conditions: Mapping[str, Any],
) -> dict[str, Any]:
    """Throughput by the number of flows, and Xpd against one flow (SC-04).

    Args:
        found: throughput records; the first is that of one flow.
        interval_s: between the beginnings of two flows that do not begin together.
        conditions: what else the reader must know.
    """
    base = found[0][1]
    points = []
    for point, record in found:
        xpd = None
        if base["median"]:
            xpd = degradation_percent(record["median"], base["median"])
        points.append(
            {
                "flows": point.flows,
                "start": point.start,
                "degradation_percent": xpd,
                **{k: record[k] for k in (*_OF_A_CASE, "duration_s")},
            }
        )
    return {
        "benchmark": FLOWS,
        "title": "Throughput by network flows, Xpd = (Xn - X1) / X1 * 100 %",
        "direction": base["direction"],
        "convention": PER_DIRECTION,
        "unit": "frames per second",
        "frame_sizes": base["frame_sizes"],
        "repetitions": base["repetitions"],
        "interval_s": interval_s,
        "points": points,
        "trials": [key for _, record in found for key in record["trials"]],
        "invalid_trials": [entry for _, record in found for entry in record["invalid_trials"]],
        "conditions": dict(conditions),
    }


def flow_rows(point: FlowPoint, result: ThroughputResult) -> list[dict[str, Any]]:
    """One row per repetition; rates per direction."""
    return [{**row, "flows": point.flows, "start": point.start} for row in _rows(result)]


def probe_rows(case: str, result: ThroughputResult) -> list[dict[str, Any]]:
    """One row per repetition of a case; rates per direction."""
    return [{**row, "case": case} for row in _rows(result)]


def _rows(result: ThroughputResult) -> list[dict[str, Any]]:
    at = result.spec.conditions
    return [
        {
            "No": r.number,
            "Size": at.ipv6_frame_size,
            "Dir": at.mode[0],
            "rate": r.rate_fps,
            "Iterations": len(r.attempts),
        }
        for r in result.repetitions
    ]
