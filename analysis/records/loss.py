"""Records of the frame loss rate for ``results.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from v6t.analysis.records.throughput import PER_DIRECTION, trial_keys
from v6t.analysis.statistics import summary_json
from v6t.procedures.frame_loss import FrameLossResult
from v6t.procedures.trial import directions_of


def frame_loss_record(
    result: FrameLossResult, *, media_fps: float, conditions: Mapping[str, Any]
) -> dict[str, Any]:
    """The record of one frame loss point, JSON-like; losses in per cent (FLR-01).

    Args:
        result: all trials.
        media_fps: theoretical maximum of the medium for this size, the base of the x axis (FLR-07).
        conditions: what else the reader must know.
    """
    spec = result.spec
    at = spec.conditions
    ways = directions_of(at.mode)
    restricted = spec.rates_fps is not None or spec.maximum_reason != "media"
    return {
        "benchmark": spec.benchmark,
        "title": _title(result, restricted),
        "direction": at.mode,
        "convention": PER_DIRECTION,
        "unit": "per cent of the frames required",
        "frame_sizes": {"ipv6": at.ipv6_frame_size, "ipv4": at.ipv4_frame_size},
        "maximum": spec.maximum_fps,
        "maximum_reason": spec.maximum_reason,
        "media_maximum": media_fps,
        "restricted_range": restricted,
        "procedure": "listed rates, none left out"
        if spec.rates_fps is not None
        else f"descending by {spec.step:.3g} of the maximum until two successive lossless trials",
        "duration_s": spec.duration_s,
        "repetitions": max((o.repetition for o in result.offered), default=0),
        "adaptive": None if spec.adaptive is None else asdict(spec.adaptive),
        "frame_timeout_s": at.frame_timeout_s,
        "rates": [_at(result, rate, ways, media_fps) for rate in result.rates],
        **trial_keys([a for o in result.offered for a in o.attempts]),
        "conditions": dict(conditions),
    }


def _title(result: FrameLossResult, restricted: bool) -> str:
    spec = result.spec
    title = "Frame loss rate"
    if spec.conditions.frame_timeout_s is not None:
        title += f" with per-frame timeout {spec.conditions.frame_timeout_s * 1000:g} ms"
    remarks = ["restricted range"] * restricted
    if spec.adaptive is not None:
        remarks.append(f"adaptive, n={max((o.repetition for o in result.offered), default=0)}")
    return title + (f" ({', '.join(remarks)})" if remarks else "")


def frame_loss_rows(result: FrameLossResult) -> list[dict[str, Any]]:
    """One row per trial and direction: the raw values (FLR-07)."""
    spec = result.spec
    return [
        {
            "No": o.repetition,
            "Size": spec.conditions.ipv6_frame_size,
            "Dir": spec.conditions.mode[0],
            "direction": way,
            "rate": o.rate_fps,
            "duration_s": spec.duration_s,
            "required": d.required,
            "sent": d.sent,
            "received": d.received,
            "surplus": d.surplus,
            "loss_percent": "" if o.error else d.rate * 100,
        }
        for o in result.offered
        for way, d in o.directions.items()
    ]


def _at(
    result: FrameLossResult, rate_fps: float, ways: tuple[str, ...], media_fps: float
) -> dict[str, Any]:
    offered = result.at(rate_fps)
    lines: dict[str, Any] = {}
    for name in (*ways, "sum") if len(ways) > 1 else ways:
        losses = [o.loss(None if name == "sum" else name) for o in offered]
        lines[name] = summary_json([100 * share for share in losses if share is not None])
    valid = [o for o in offered if o.valid]
    frames = {
        way: {
            key: [getattr(o.directions[way], key) for o in valid]
            for key in ("required", "sent", "received")
        }
        for way in ways
    }
    return {
        "rate": rate_fps,
        "media_percent": rate_fps / media_fps * 100,
        "trials": len(offered),
        "valid": len(valid),
        "loss_percent": lines,
        "frames": frames,
        # what the device forwards under overload: a stable one keeps it (FLR-05)
        "forwarded": summary_json(
            [sum(d.received for d in o.directions.values()) / result.spec.duration_s for o in valid]
        ),
        "errors": [o.error for o in offered if o.error],
    }
