"""Records of the frame loss rate for ``results.json`` (RFC 2544 section 26.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pydantic import Field
from v6t.analysis.record import Model, Number, Record, Row, Summary, head, summary_of
from v6t.benchmarks.records.throughput import AdaptiveBounds
from v6t.procedures.frame_loss import FrameLossResult
from v6t.trials.result import FORWARDED_ROLES
from v6t.trials.trial import list_directions


class FramesAtRate(Model):
    """Frames of one direction at one rate, a number for each valid trial."""

    required: list[int]
    """that the rate and the length ask for"""
    sent: list[int]
    """that left the tester"""
    received: list[int]
    """that came back"""


class LossAtRate(Model):
    """What was lost at one offered rate."""

    rate: Number
    """offered [frames per second per direction]"""
    media_percent: Number
    """share of `media_maximum` [%]"""
    trials: int
    """trials at this rate"""
    valid: int
    """trials that count"""
    loss_percent: dict[str, Summary]
    """lost share of the frames required, by direction; `sum`: of both together [%]"""
    frames: dict[str, FramesAtRate]
    """required, sent and received, by direction"""
    forwarded: Summary
    """what came back, all directions together [frames per second]"""
    errors: list[str]
    """surplus and other errors at this rate, in words"""
    by_role: dict[str, Summary] = Field(default_factory=dict)
    """lost share of `foreground` and of `background`, all directions together; empty without both [%]"""
    fairness: Number | None = None
    """share of the background that came through over that of the foreground, medians; 1: alike"""

    @property
    def loss(self) -> Summary:
        """The loss of the point: of both directions together where both were loaded."""
        return self.loss_percent.get("sum") or next(iter(self.loss_percent.values()))


class FrameLossRecord(Record):
    """Lost frames against the offered rate."""

    maximum: Number
    """highest rate offered [frames per second per direction]"""
    maximum_reason: str = ""
    """`media`, `tester` or `given`"""
    media_maximum: int | Number
    """what the medium carries [frames per second per direction]"""
    restricted_range: bool
    """the range does not begin at the medium's maximum"""
    procedure: str = ""
    """how the rates were chosen"""
    duration_s: Number | None = None
    """length of the trials [s]"""
    adaptive: AdaptiveBounds | None = None
    """bounds of adaptive repetition; null: a fixed number"""
    frame_timeout_s: Number | None = None
    """deadline of every frame; null: none [s]"""
    rates: list[LossAtRate]
    """each offered rate"""

    @property
    def offered(self) -> Sequence[float]:
        return [row.rate for row in self.rates]

    @property
    def forwarded_at_full_load_fps(self) -> float | None:
        if self.frame_timeout_s is not None:
            return None
        forwarded = max(self.rates, key=lambda r: r.rate).forwarded.median
        directions = 2 if self.direction == "bidirectional" else 1
        return None if forwarded is None else forwarded / directions


def frame_loss_record(
    result: FrameLossResult, *, media_fps: Number, conditions: Mapping[str, Any]
) -> FrameLossRecord:
    """The record of one frame loss point (FLR-01).

    Args:
        result: all trials.
        media_fps: theoretical maximum of the medium for this size, the base of the x axis (FLR-07).
        conditions: what else the reader must know.
    """
    spec = result.spec
    at = spec.conditions
    ways = list_directions(at.mode)
    restricted = spec.rates_fps is not None or spec.maximum_reason != "media"
    attempts = [a for o in result.offered for a in o.attempts]
    return FrameLossRecord(
        **head(at, spec.benchmark, _title(result, restricted), attempts, conditions),
        unit="per cent of the frames required",
        maximum=spec.maximum_fps,
        maximum_reason=spec.maximum_reason,
        media_maximum=media_fps,
        restricted_range=restricted,
        procedure="listed rates, none left out"
        if spec.rates_fps is not None
        else f"descending by {spec.step:.3g} of the maximum until two successive lossless trials",
        duration_s=spec.duration_s,
        repetitions=_repetitions(result),
        adaptive=None if spec.adaptive is None else asdict(spec.adaptive),
        frame_timeout_s=at.frame_timeout_s,
        rates=[_at(result, rate, ways, media_fps) for rate in result.rates],
    )


def _repetitions(result: FrameLossResult) -> int:
    return max((o.repetition for o in result.offered), default=0)


def _title(result: FrameLossResult, restricted: bool) -> str:
    spec = result.spec
    title = "Frame loss rate"
    if spec.conditions.frame_timeout_s is not None:
        title += f" with per-frame timeout {spec.conditions.frame_timeout_s * 1000:g} ms"
    remarks = ["restricted range"] * restricted
    if spec.adaptive is not None:
        remarks.append(f"adaptive, n={_repetitions(result)}")
    return title + (f" ({', '.join(remarks)})" if remarks else "")


def frame_loss_rows(result: FrameLossResult) -> list[Row]:
    """One row per trial and direction: the raw values (FLR-07)."""
    spec = result.spec
    return [
        {
            "No": o.repetition,
            "Size": spec.conditions.size_label,
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
) -> LossAtRate:
    offered = result.at(rate_fps)
    lines: dict[str, Summary] = {}
    for name in (*ways, "sum") if len(ways) > 1 else ways:
        losses = [o.loss(None if name == "sum" else name) for o in offered]
        lines[name] = summary_of([100 * share for share in losses if share is not None])
    roles = {
        role: summary_of([100 * loss for o in offered if (loss := o.loss_of(role)) is not None])
        for role in FORWARDED_ROLES
    }
    valid = [o for o in offered if o.valid]
    frames = {
        way: FramesAtRate(
            required=[o.directions[way].required for o in valid],
            sent=[o.directions[way].sent for o in valid],
            received=[o.directions[way].received for o in valid],
        )
        for way in ways
    }
    return LossAtRate(
        rate=rate_fps,
        media_percent=rate_fps / media_fps * 100,
        trials=len(offered),
        valid=len(valid),
        loss_percent=lines,
        frames=frames,
        # what the device forwards under overload: a stable one keeps it (FLR-05)
        forwarded=summary_of(
            [sum(d.received for d in o.directions.values()) / result.spec.duration_s for o in valid]
        ),
        errors=[o.error for o in offered if o.error],
        by_role=roles if all(s.count for s in roles.values()) else {},
        fairness=_fairness(*(s.median for s in roles.values())),
    )


def _fairness(foreground: float | None, background: float | None) -> float | None:
    """How overload falls on the two (MIX-06), of lost shares [%]."""
    if foreground is None or background is None or foreground >= 100:
        return None
    return (100 - background) / (100 - foreground)
