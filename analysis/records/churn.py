"""Records of degradation while connecting for ``results.json``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from v6t.analysis.records.base import Model, Number, Record, Row, head
from v6t.analysis.records.tcp import Exchange, exchange_of
from v6t.analysis.statistics import finite, median
from v6t.procedures.churn import BENCHMARK, KINDS, Both, ChurnResult
from v6t.procedures.trial import directions_of


class StreamFound(Model):
    """The stream in one direction, with or without connections beside it."""

    loss: list[Number]
    """lost share of each trial"""
    median_us: list[Number | None]
    """median delay of each trial's tagged frames; null: undefined [microseconds]"""
    worst_us: list[Number | None]
    """their 99.9th percentile [microseconds]"""


class ConnectionsFound(Model):
    """The connections, with or without the stream beside them."""

    attempted: list[int]
    """in each trial"""
    established: list[int]
    """of them open on both sides in time"""
    answered: list[int]
    """of them those that brought their object"""
    mean_us: list[Number | None]
    """mean establishment time of each trial; null: none was established [microseconds]"""
    slowest_us: list[Number | None]
    """longest of each [microseconds]"""
    log_records: list[int | None]
    """records that the device wrote about connections in each trial; null: it writes none"""


class ChurnRecord(Record):
    """Loss and latency of a stream and of new connections, each alone and both together."""

    unit: Literal["share"]
    """of losses"""
    rate: Number
    """of the stream [frames per second per direction]"""
    rate_source: str
    """where that rate is from"""
    connections_cps: Number
    """new connections [connections per second]"""
    connections_source: str
    """where that rate is from"""
    duration_s: Number
    """length of each stream [s]"""
    exchange: Exchange
    """how connections are made, tried and closed"""
    stream: dict[str, dict[str, StreamFound]]
    """by what the trial had (`stream`, `both`), then by direction"""
    connecting: dict[str, ConnectionsFound]
    """by what the trial had (`connections`, `both`)"""

    @property
    def offered(self) -> Sequence[float]:
        """See the base class."""
        return [self.rate]

    @property
    def ordered(self) -> Iterator[tuple[str, str, StreamFound]]:
        """What trials had, the direction, and what became of the stream."""
        for kind, ways in self.stream.items():
            yield from ((kind, way, stream) for way, stream in ways.items())


def churn_record(result: ChurnResult, *, conditions: Mapping[str, Any]) -> ChurnRecord:
    """The record of one point."""
    spec = result.spec
    valid = [t for t in result.trials if t.valid]
    stream: dict[str, dict[str, StreamFound]] = {}
    for kind in ("stream", "both"):
        mine = [t for t in valid if t.kind == kind]
        for way in directions_of(spec.conditions.mode):
            seen = [t for t in mine if way in t.directions]
            if seen:
                stream.setdefault(kind, {})[way] = StreamFound(
                    loss=[_loss(t, way) for t in seen],
                    median_us=[_delay(t, way, 50) for t in seen],
                    worst_us=[_delay(t, way, 99.9) for t in seen],
                )
    connecting = {
        kind: _connections([t for t in valid if t.kind == kind]) for kind in ("connections", "both")
    }
    whole = {kind for kind in KINDS if any(t.kind == kind for t in valid)} == set(KINDS)
    return ChurnRecord(
        **head(
            spec.conditions, BENCHMARK, "Degradation while connecting", result.attempts, conditions
        ),
        unit="share",
        not_measured=None if whole else "the tester faltered in every trial of a kind",
        repetitions=spec.repetitions,
        rate=spec.rate_fps,
        rate_source=spec.rate_source,
        connections_cps=spec.churn.rate_cps,
        connections_source=spec.churn_source,
        duration_s=spec.duration_s,
        exchange=exchange_of(spec.churn.tcp),
        stream=stream,
        connecting=connecting,
    )


def churn_rows(result: ChurnResult) -> list[Row]:
    """A row for each trial and direction."""
    at = result.spec.conditions
    return [
        {
            **{
                "No": t.number,
                "Size": at.listed,
                "Dir": at.mode[0],
                "trial": t.kind,
                "valid": t.valid,
            },
            **{"direction": way, "lost share": _loss(t, way), "median us": _delay(t, way, 50)},
            "p99.9 us": _delay(t, way, 99.9),
            "attempted": "" if t.churn is None else t.churn.attempted,
            "established": "" if t.churn is None else t.churn.established,
            "answered": "" if t.churn is None else t.churn.answered,
            "mean s": "" if t.churn is None else t.churn.mean_s,
            "log records": "" if t.churn is None else t.churn.log_records,
        }
        for t in result.trials
        for way in t.directions
    ]


def middle(values: Sequence[float | None]) -> float | None:
    """The median of those that are defined."""
    defined = [v for v in values if v is not None]
    return median(defined) if defined else None


def _connections(trials: Sequence[Both]) -> ConnectionsFound:
    counts = [t.churn for t in trials if t.churn is not None]
    return ConnectionsFound(
        attempted=[f.attempted for f in counts],
        established=[f.established for f in counts],
        answered=[f.answered for f in counts],
        mean_us=[None if f.mean_s is None else 1e6 * f.mean_s for f in counts],
        slowest_us=[None if f.slowest_s is None else 1e6 * f.slowest_s for f in counts],
        log_records=[f.log_records for f in counts],
    )


def _loss(trial: Both, way: str) -> float:
    counted = trial.directions[way]
    required = counted.total("required")
    return max(0, required - counted.total("received")) / required if required else 0.0


def _delay(trial: Both, way: str, percent: float) -> float | None:
    delays = trial.directions[way].delays or {}
    distribution = delays.get("fg") or next(iter(delays.values()), None)
    value = math.inf if distribution is None else distribution.percentile_ns(percent)
    return finite(value / 1000)
