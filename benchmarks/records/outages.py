"""Records of times without forwarding: system recovery (RFC 2544), reset (RFC 6201)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from v6t.analysis.record import Number, Record, Series, Summary, head
from v6t.analysis.statistics import finite, summary_json
from v6t.procedures.recovery import RecoveryResult
from v6t.procedures.reset import ResetResult
from v6t.trials.trial import list_directions


class Outages(Summary, Series):
    """How long frames of one direction were lost, repetition by repetition; null: to the end."""

    average: Number | None
    """mean; null where one repetition did not recover [s]"""
    values: list[Number | None]
    """each repetition's time; null: it did not recover [s]"""

    @property
    def repeated(self) -> Sequence[float | None]:
        return self.values


class Recoveries(Outages):
    """Recovery times of one direction."""

    overloaded: int = 0
    """repetitions in which frames were lost before the rate was halved"""


class Resets(Outages):
    """Reset times of one direction, by the number of lost frames."""

    by_silence: Sequence[Number | None] = ()
    """longest time without a frame, each repetition [s]"""


class OutageRecord(Record):
    """Times without forwarding, by direction."""

    unit: Literal["s"]
    """of the times"""
    directions: Mapping[str, Outages]
    """times of each direction"""

    def series(self) -> Iterator[tuple[str, Series, str]]:
        yield from ((f"{way} ", times, "s") for way, times in self.directions.items())


class RecoveryRecord(OutageRecord):
    """Time to recover from an overload (RFC 2544 section 26.5)."""

    throughput: Number | None = None
    """that the overload is made from [frames per second per direction]"""
    overload: Number
    """offered in the overload [frames per second per direction]"""
    overload_limited: bool = False
    """the tester or the medium allows less than 110 % of the throughput"""
    afterwards: Number | None = None
    """offered after it [frames per second per direction]"""
    overload_s: Number | None = None
    """length of the overload [s]"""
    afterwards_s: Number | None = None
    """length of what follows [s]"""
    resolution_s: Number | None = None
    """time between two frames after the overload [s]"""
    directions: Mapping[str, Recoveries]
    """recovery times of each direction"""

    @property
    def offered(self) -> Sequence[float]:
        return [self.overload]


class ResetRecord(OutageRecord):
    """Time without forwarding in a reset (RFC 6201), frame-loss method."""

    hook: str
    """what resets the device"""
    state_survived: list[bool] | None = None
    """whether the connections outlived each reset; null: not asked, or stateless"""
    rate: Number
    """offered [frames per second per direction]"""
    duration_s: Number | None = None
    """length of the trials [s]"""
    at_s: Number | None = None
    """when the reset begins [s]"""
    directions: Mapping[str, Resets]
    """reset times of each direction"""

    @property
    def offered(self) -> Sequence[float]:
        return [self.rate]


def recovery_record(result: RecoveryResult, *, conditions: Mapping[str, Any]) -> RecoveryRecord:
    """The record of one system recovery point; None is "did not recover" (REC-01)."""
    spec = result.spec
    directions = {}
    for way in list_directions(spec.conditions.mode):
        times = [r.recovery_s[way] for r in result.repetitions if way in r.recovery_s]
        directions[way] = {
            "average": finite(result.average_s(way)),
            **_times(times),
            "overloaded": sum(r.overloaded.get(way, False) for r in result.repetitions),
        }
    attempts = [a for r in result.repetitions for a in r.attempts]
    return RecoveryRecord(
        **head(spec.conditions, "system-recovery", "System recovery", attempts, conditions),
        unit="s",
        throughput=spec.throughput_fps,
        overload=spec.overload_fps,
        overload_limited=spec.limited,
        afterwards=spec.afterwards_fps,
        overload_s=spec.overload_s,
        afterwards_s=spec.afterwards_s,
        resolution_s=spec.resolution_s,
        repetitions=len(result.repetitions),
        directions=directions,
    )


def reset_record(result: ResetResult, *, conditions: Mapping[str, Any]) -> ResetRecord:
    """The record of one kind of reset; None is "did not come back" (RST-02)."""
    spec = result.spec
    at = spec.conditions
    directions = {}
    for way in list_directions(at.mode):
        times = result.by_loss_s(way)
        directions[way] = {
            "average": finite(sum(times) / len(times)) if times else None,
            **_times(times),
            "by_silence": [
                r.outages[way].by_silence_s for r in result.repetitions if way in r.outages
            ],
        }
    survived = None
    if "connections" in conditions and at.mode == "reverse":
        # of stateful devices, by frames from outside alone: they make no new connection (RST-03)
        survived = [math.isfinite(t) for t in result.by_loss_s("reverse")]
    attempts = [a for r in result.repetitions for a in r.attempts]
    title = f"Reset ({spec.hook}), frame-loss method"
    return ResetRecord(
        **head(at, "reset", title, attempts, conditions),
        unit="s",
        hook=spec.hook,
        state_survived=survived,
        rate=spec.rate_fps,
        duration_s=spec.duration_s,
        at_s=spec.at_s,
        repetitions=len(result.repetitions),
        directions=directions,
    )


def _times(times: Sequence[float]) -> dict[str, Any]:
    return {**summary_json(times), "values": [finite(t) for t in times]}
