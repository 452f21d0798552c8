"""Records of benchmarks that compare variants of the traffic, for ``results.json``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import model_validator
from v6t.analysis.record import FPS, PER_DIRECTION, Number, RatesFound, Record, Row, Summary
from v6t.analysis.scaling import XPD, XPD_LOWER, degradation_percent
from v6t.analysis.statistics import summary_json
from v6t.benchmarks.records.throughput import ThroughputRecord
from v6t.procedures.flows import FlowPoint
from v6t.procedures.rss_probe import Advice, Case
from v6t.procedures.throughput import ThroughputResult


class VariantRates(RatesFound):
    """Throughput of one variant; rates per direction."""

    resolution_fps: Number
    """error of the search [frames per second per direction]"""
    matched: Number | None
    """share of the checked frames equal to the reference translation"""
    decisive_trials: list[str]
    """trial that decided each repetition: the highest that passed"""


class FlowRates(VariantRates):
    """Throughput of a number of flows."""

    flows: int
    """network flows in each direction"""
    start: str
    """how the flows begin: `together` or `successive`"""
    degradation_percent: Number | None
    """Xpd = (X1 - Xn) / X1, against one flow; negative: n flows are faster (RFC 8219 section 10.2.1)
    [%]"""
    duration_s: Number
    """length of the trials [s]"""


class FlowFigure(Summary):
    """A quantity of another benchmark, with a number of flows."""

    benchmark: str
    """whose it is"""
    figure: str
    """what it is"""
    unit: str
    """of its values"""
    more_is_better: bool
    """whether larger values are the better ones"""
    flows: int
    """network flows in each direction"""
    start: str
    """how the flows begin: `together` or `successive`"""
    rate: Number | None
    """applied rate, per direction; null: it is the benchmark's own [frames per second]"""
    values: list[Number | None]
    """each repetition's value; null is undefined"""
    degradation_percent: Number | None
    """Xpd against one flow: (X1 - Xn) / X1 where larger values are better, else (Xn - X1) / X1, which
    is right of a smallest IPDV, too: it is negative, and worse the farther it is from 0; null: undefined,
    or X1 is 0 [%]"""


class VariantsRecord(Record):
    """Throughput of several variants of the traffic."""

    unit: Literal["frames per second"]
    """of all rates"""
    convention: Literal["per_direction"]
    """rates are per direction"""

    @property
    def variants(self) -> Iterable[VariantRates]:
        """Rates of each variant."""
        return ()

    @property
    def limited(self) -> bool:
        return any(rates.limited for rates in self.variants)


@dataclass(frozen=True)
class Degraded:
    """A figure with a number of flows: what it is, the applied rate, summary and degradation."""

    benchmark: str
    figure: str
    unit: str
    more_is_better: bool
    flows: int
    start: str
    rate: float | None
    median: float | None
    p1: float | None
    p99: float | None
    degradation_percent: float | None


class FlowsRecord(VariantsRecord):
    """Throughput by the number of network flows (RFC 8219 section 10)."""

    interval_s: Number
    """between the beginnings of two flows that do not begin together [s]"""
    points: list[FlowRates]
    """rates of each number of flows; the first is one flow"""
    figures: Sequence[FlowFigure] = ()
    """quantities of further benchmarks, by benchmark and number of flows"""

    @property
    def all_figures(self) -> Iterator[Degraded]:
        """Of the throughput, too; its rate is what was applied."""
        for p in self.points:
            figures = p.median, p.p1, p.p99, p.degradation_percent
            yield Degraded("throughput", "rate", "fps", True, p.flows, p.start, p.median, *figures)
        for f in self.figures:
            what = f.benchmark, f.figure, f.unit, f.more_is_better
            seen = f.median, f.p1, f.p99, f.degradation_percent
            yield Degraded(*what, f.flows, f.start, f.rate, *seen)

    @model_validator(mode="before")
    @classmethod
    def _sign(cls, record: Any) -> Any:
        """Earlier versions gave a rate the sign that RFC 8219 has for delays."""
        title = str(record.get("title")) if isinstance(record, dict) else ""
        if XPD_LOWER not in title:
            return record
        points = [
            {**p, "degradation_percent": -p["degradation_percent"]}
            if p.get("degradation_percent")
            else p
            for p in record["points"]
        ]
        return {**record, "title": title.replace(XPD_LOWER, XPD), "points": points}

    @property
    def variants(self) -> Iterable[VariantRates]:
        return self.points


class ProbeRecord(VariantsRecord):
    """Throughput by what varies in the headers (RFC 4814)."""

    cases: Mapping[str, VariantRates]
    """rates of each case of the probe"""
    use: str | None
    """the case that suffices; null: nothing is known"""
    why: str
    """the recommendation in words"""
    duration_s: Number | None = None
    """length of the trials [s]"""

    @property
    def variants(self) -> Iterable[VariantRates]:
        return self.cases.values()


def probe_record(
    by_case: Mapping[Case, ThroughputRecord], advice: Advice, *, conditions: Mapping[str, Any]
) -> ProbeRecord:
    """The record of one probe.

    Args:
        by_case: throughput records by case.
        advice: what follows from them.
        conditions: what else the reader must know.
    """
    records = list(by_case.values())
    return ProbeRecord(
        **_head("rss-probe", records, conditions),
        title="Entropy this device needs (throughput by what varies)",
        cases={case: _rates(record, VariantRates) for case, record in by_case.items()},
        use=advice.use,
        why=advice.why,
        duration_s=records[0].duration_s,
    )


def flows_record(
    points: Sequence[tuple[FlowPoint, ThroughputRecord]],
    *,
    interval_s: float,
    conditions: Mapping[str, Any],
    further: Sequence[FurtherFound] = (),
) -> FlowsRecord:
    """Throughput by the number of flows, and Xpd against one flow (SC-04).

    Args:
        points: throughput records; the first is that of one flow.
        interval_s: between the beginnings of two flows that do not begin together.
        conditions: what else the reader must know.
        further: of other benchmarks, those with one flow first.
    """
    base = points[0][1].median
    records = [record for _, record in points] + [each.record for each in further]
    return FlowsRecord(
        **_head("flows", records, conditions),
        figures=list(_figures(further)),
        title=f"Throughput by network flows, {XPD}",
        interval_s=interval_s,
        points=[
            {
                "flows": point.flows,
                "start": point.start,
                "degradation_percent": degradation_percent(record.median, base) if base else None,
                **_rates(record, FlowRates),
            }
            for point, record in points
        ],
    )


@dataclass(frozen=True)
class FurtherFound:
    """Another benchmark with a number of flows.

    Attributes:
        point: how many, and how they begin.
        record: what it found.
        quantities: of the record, by name: unit, whether more is better, value of each repetition.
        rate_fps: applied, per direction; None: it is the benchmark's own.
    """

    point: FlowPoint
    record: Record
    quantities: Mapping[str, tuple[str, bool, Sequence[float | None]]]
    rate_fps: float | None


def _figures(further: Sequence[FurtherFound]) -> Iterator[dict[str, Any]]:
    """Quantities with Xpd against one flow."""
    base: dict[tuple[str, str], float | None] = {}
    for each in further:
        for name, (unit, more_is_better, values) in each.quantities.items():
            summary = summary_json([math.inf if v is None else v for v in values])
            key = each.record.benchmark, name
            if each.point.flows == 1:
                base[key] = summary["median"]
            one, many = base.get(key), summary["median"]
            xpd = None
            if one and many is not None and (one > 0 or not more_is_better):
                xpd = degradation_percent(many, one, more_is_better=more_is_better)
            yield {
                "benchmark": each.record.benchmark,
                "figure": name,
                "unit": unit,
                "more_is_better": more_is_better,
                "flows": each.point.flows,
                "start": each.point.start,
                "rate": each.rate_fps,
                **summary,
                "values": list(values),
                "degradation_percent": xpd,
            }


def _head(
    benchmark: str, records: Sequence[Record], conditions: Mapping[str, Any]
) -> dict[str, Any]:
    first = records[0]
    return {
        "benchmark": benchmark,
        "direction": first.direction,
        "convention": PER_DIRECTION,
        "unit": FPS,
        "frame_sizes": first.frame_sizes.to_json(),
        "repetitions": first.repetitions,
        "trials": [key for record in records for key in record.trials],
        "invalid_trials": [t.to_json() for record in records for t in record.invalid_trials],
        "conditions": dict(conditions),
    }


def _rates(record: ThroughputRecord, kind: type[VariantRates]) -> dict[str, Any]:
    """What of a throughput record stands in that of a variant."""
    return record.model_dump(include=set(kind.model_fields), exclude_unset=True)


def flow_rows(point: FlowPoint, result: ThroughputResult) -> list[Row]:
    """One row per repetition; rates per direction."""
    return [{**row, "flows": point.flows, "start": point.start} for row in _rows(result)]


def degradation_rows(record: FlowsRecord) -> list[Row]:
    """One row per figure, number of flows and way to begin (RFC 8219 sections 10.2.1, 10.2.2)."""
    return [
        {
            "Size": record.frame_sizes.listed,
            "Dir": record.direction[0],
            "benchmark": each.benchmark,
            "figure": each.figure,
            "unit": each.unit,
            "flows": each.flows,
            "start": each.start,
            "interval_s": record.interval_s if each.start == "successive" else "",
            "applied_fps": "" if each.rate is None else each.rate,
            "median": each.median,
            "P1": each.p1,
            "P99": each.p99,
            "better": "higher" if each.more_is_better else "lower",
            "Xpd_percent": each.degradation_percent,
        }
        for each in record.all_figures
    ]


def probe_rows(case: str, result: ThroughputResult) -> list[Row]:
    """One row per repetition of a case; rates per direction."""
    return [{**row, "case": case} for row in _rows(result)]


def _rows(result: ThroughputResult) -> list[Row]:
    at = result.spec.conditions
    return [
        {
            "No": r.number,
            "Size": at.size_label,
            "Dir": at.mode[0],
            "rate": r.rate_fps,
            "Iterations": len(r.attempts),
        }
        for r in result.repetitions
    ]
