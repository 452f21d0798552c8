"""Records of latency, PDV and IPDV for ``results.json``, in milliseconds (LAT-08)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from v6t.analysis.notes import notes
from v6t.analysis.records.throughput import PER_DIRECTION, trial_keys
from v6t.analysis.statistics import finite, summary_json
from v6t.procedures.latency import RFC_TAGS
from v6t.procedures.timing import Timed, TimingRepetition, TimingResult
from v6t.procedures.trial import directions_of

FIGURES: Mapping[str, tuple[str, ...]] = {
    "latency": ("tl", "wcl", "min", "max"),
    "pdv": ("pdv", "min", "p99_9", "max"),
    "ipdv": ("min", "med", "max"),
}
DEFINITION = (
    "time from the frame fully sent to the frame received, as the tester stamps them; "
    "the tester's own share is measured in loopback and not subtracted"
)


def timing_record(
    result: TimingResult, *, loopback: TimingResult | None, conditions: Mapping[str, Any]
) -> dict[str, Any]:
    """The record of one latency, PDV or IPDV point, JSON-like.

    Args:
        result: the repetitions.
        loopback: the tester's own delays at the same rate, without a device (LAT-09).
        conditions: what else the reader must know.

    Every figure is the median of the repetitions with P1 and P99; a figure that a lost frame
    decides is None, "undefined" (LAT-05, PDV-02).
    """
    spec = result.spec
    at = spec.conditions
    ways = directions_of(at.mode)
    valid = [r for r in result.repetitions if r.valid]
    tags = spec.request.tags
    record: dict[str, Any] = {
        "benchmark": spec.benchmark,
        "title": _title(result),
        "direction": at.mode,
        "convention": PER_DIRECTION,
        "unit": "ms",
        "frame_sizes": {"ipv6": at.ipv6_frame_size, "ipv4": at.ipv4_frame_size},
        "rate": spec.rate_fps,
        "rate_source": spec.rate_source,
        "duration_s": spec.duration_s,
        "repetitions": len(valid),
        "definition": DEFINITION,
        "sampled": result.sampled,
        "share": result.share,
        "directions": {way: _direction(result, valid, way) for way in ways},
        "loopback": None if loopback is None else _loopback(loopback, ways),
        **trial_keys([a for r in result.repetitions for a in r.attempts]),
        "conditions": dict(conditions),
    }
    if tags:
        record |= {"tags": tags, "first_tag_s": spec.request.first_tag_s}
        record["below_rfc_tags"] = tags < RFC_TAGS
    return record


def timing_rows(result: TimingResult) -> list[dict[str, Any]]:
    """One row per repetition and direction, milliseconds; undefined figures are empty."""
    spec = result.spec
    rows = []
    for r in result.repetitions:
        for way, timed in r.directions.items():
            rows.append(
                {
                    "No": r.number,
                    "Size": spec.conditions.ipv6_frame_size,
                    "Dir": spec.conditions.mode[0],
                    "direction": way,
                    "rate": spec.rate_fps,
                    "duration_s": spec.duration_s,
                    **{k: _ms(timed.figures[k]) for k in FIGURES[spec.benchmark]},
                    "frames": timed.frames,
                    "lost": timed.lost,
                    "clamped": timed.clamped,
                }
            )
    return rows


def _title(result: TimingResult) -> str:
    if result.spec.benchmark == "pdv" and result.sampled:
        return f"sampled PDV (not all frames: {result.share:.2%})"
    return {"latency": "Latency", "pdv": "PDV", "ipdv": "IPDV"}[result.spec.benchmark]


def _direction(result: TimingResult, valid: Sequence[TimingRepetition], way: str) -> dict[str, Any]:
    names = FIGURES[result.spec.benchmark]
    classes = sorted({name for r in valid for name in r.classes[way]})
    return {
        **_figures([r.directions[way] for r in valid], names),
        "classes": {
            name: _figures([r.classes[way][name] for r in valid if name in r.classes[way]], names)
            for name in classes
        },
    }


def _figures(timed: Sequence[Timed], names: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names:
        values = [t.figures[name] / 1e6 for t in timed]
        found[name] = {
            **summary_json(values),
            "values": [finite(v) for v in values],
            "notes": notes(values, "ms"),
        }
    found["timed"] = [t.frames for t in timed]
    found["lost"] = [t.lost for t in timed]
    found["clamped"] = [t.clamped for t in timed]
    return found


def _loopback(result: TimingResult, ways: Sequence[str]) -> dict[str, Any] | None:
    valid = [r for r in result.repetitions if r.valid]
    if not valid:
        return None
    return {way: {k: _ms(v) for k, v in valid[0].directions[way].figures.items()} for way in ways}


def _ms(value_ns: float) -> float | None:
    return value_ns / 1e6 if math.isfinite(value_ns) else None
