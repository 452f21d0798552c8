"""Records of back-to-back frames, system recovery and reset for ``results.json``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from v6t.analysis.notes import notes
from v6t.analysis.records.throughput import PER_DIRECTION, trial_keys
from v6t.analysis.statistics import finite, summary_json
from v6t.procedures.back_to_back import FORMULA, BurstResult, deviation
from v6t.procedures.recovery import RecoveryResult
from v6t.procedures.reset import ResetResult
from v6t.procedures.trial import directions_of


def burst_record(
    result: BurstResult, *, refused: str | None, conditions: Mapping[str, Any]
) -> dict[str, Any]:
    """The record of one back-to-back point, JSON-like (B2B-01, B2B-02, B2B-04).

    Args:
        result: the repetitions; none if the benchmark does not apply or was refused.
        refused: why it was not measured (B2B-03); None if it was.
        conditions: what else the reader must know.
    """
    spec = result.spec
    at = spec.conditions
    bursts = [float(frames) for frames in result.bursts]
    time = result.buffer_time
    return {
        "benchmark": "back-to-back",
        "title": "Back-to-back frames"
        + (" at the tester's maximum rate" if spec.rate_reason == "tester" else ""),
        "direction": at.mode,
        "convention": PER_DIRECTION,
        "unit": "frames",
        "frame_sizes": {"ipv6": at.ipv6_frame_size, "ipv4": at.ipv4_frame_size},
        "burst_rate": spec.rate_fps,
        "burst_rate_reason": spec.rate_reason,
        "throughput": spec.throughput_fps,
        "not_measured": refused or spec.not_applicable or _unsent(result),
        "repetitions": len(bursts),
        "invalid_repetitions": sum(not r.valid for r in result.repetitions),
        "average": result.average_frames,
        "deviation": deviation(bursts),
        **{k: v for k, v in summary_json(bursts).items() if k != "count"},
        "values": bursts,
        "notes": notes(bursts, "frames"),
        "hit_longest": sum(r.hit_longest for r in result.repetitions),
        "longest_frames": spec.most_frames,
        "resolution_frames": spec.resolution_frames,
        "implied_buffer_s": time and time.implied_s,
        "corrected_buffer_s": time and time.corrected_s,
        "formula": FORMULA,
        "residual_wait_s": at.residual_wait_s,
        **trial_keys([a for r in result.repetitions for a in r.attempts]),
        "conditions": dict(conditions),
    }


def _unsent(result: BurstResult) -> str | None:
    if result.bursts:
        return None
    return "the tester could not send the bursts as asked in any repetition"


def burst_rows(result: BurstResult) -> list[dict[str, Any]]:
    """One row per repetition."""
    spec = result.spec
    return [
        {
            "No": r.number,
            "Size": spec.conditions.ipv6_frame_size,
            "Dir": spec.conditions.mode[0],
            "burst_rate": spec.rate_fps,
            "frames": r.frames if r.valid else "",
            "hit_longest": r.hit_longest,
            "trials": len(r.attempts),
        }
        for r in result.repetitions
    ]


def recovery_record(result: RecoveryResult, *, conditions: Mapping[str, Any]) -> dict[str, Any]:
    """The record of one system recovery point, seconds; None is "did not recover" (REC-01)."""
    spec = result.spec
    at = spec.conditions
    directions = {}
    for way in directions_of(at.mode):
        times = [r.recovery_s[way] for r in result.repetitions if way in r.recovery_s]
        directions[way] = {
            "average": finite(result.average_s(way)),
            **summary_json(times),
            "values": [finite(t) for t in times],
            "overloaded": sum(r.overloaded.get(way, False) for r in result.repetitions),
        }
    return {
        "benchmark": "system-recovery",
        "title": "System recovery",
        "direction": at.mode,
        "convention": PER_DIRECTION,
        "unit": "s",
        "frame_sizes": {"ipv6": at.ipv6_frame_size, "ipv4": at.ipv4_frame_size},
        "throughput": spec.throughput_fps,
        "overload": spec.overload_fps,
        "overload_limited": spec.limited,
        "afterwards": spec.afterwards_fps,
        "overload_s": spec.overload_s,
        "afterwards_s": spec.afterwards_s,
        "resolution_s": spec.resolution_s,
        "repetitions": len(result.repetitions),
        "directions": directions,
        **trial_keys([a for r in result.repetitions for a in r.attempts]),
        "conditions": dict(conditions),
    }


def reset_record(result: ResetResult, *, conditions: Mapping[str, Any]) -> dict[str, Any]:
    """The record of one kind of reset, seconds; None is "did not come back" (RST-02)."""
    spec = result.spec
    at = spec.conditions
    directions = {}
    for way in directions_of(at.mode):
        times = result.by_loss_s(way)
        silences = [r.outages[way].by_silence_s for r in result.repetitions if way in r.outages]
        directions[way] = {
            "average": finite(sum(times) / len(times)) if times else None,
            **summary_json(times),
            "values": [finite(t) for t in times],
            "by_silence": silences,
        }
    survived = None
    if "connections" in conditions and at.mode == "reverse":
        survived = [math.isfinite(t) for t in result.by_loss_s("reverse")]
    return {
        "benchmark": "reset",
        "title": f"Reset ({spec.hook}), frame-loss method",
        "direction": at.mode,
        "convention": PER_DIRECTION,
        "unit": "s",
        "frame_sizes": {"ipv6": at.ipv6_frame_size, "ipv4": at.ipv4_frame_size},
        "hook": spec.hook,
        # of stateful devices, by frames from outside alone: they make no new connection (RST-03)
        "state_survived": survived,
        "rate": spec.rate_fps,
        "duration_s": spec.duration_s,
        "at_s": spec.at_s,
        "repetitions": len(result.repetitions),
        "directions": directions,
        **trial_keys([a for r in result.repetitions for a in r.attempts]),
        "conditions": dict(conditions),
    }
