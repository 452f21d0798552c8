"""Throughput (RFC 8219 section 7.1), and the same with a deadline for every frame."""

from __future__ import annotations

from dataclasses import replace

from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import Benchmark
from v6t.benchmarks.deadline import Deadline
from v6t.benchmarks.point import Cost, Measured, MeasurementPoint, Point, Row, cost_of
from v6t.benchmarks.presentations.throughput import FrameTimeoutPresentation, ThroughputPresentation
from v6t.benchmarks.records.throughput import ThroughputRecord, repetition_rows, throughput_record
from v6t.procedures.throughput import (
    PROBE_PAUSE_S,
    ThroughputResult,
    ThroughputSpec,
    measure_throughput,
)
from v6t.trials.conditions import Conditions

USUAL_PROBES, USUAL_FULL = 7, 2
"""Short and full trials of one MLR search on devices that are neither very noisy nor odd;
see the search benchmark in the documentation."""


class Throughput(ThroughputPresentation, Benchmark[ThroughputRecord, StrictModel]):
    """The highest rate without loss."""

    summary = "The highest rate at which no frame is lost."
    order = 10
    searches = True
    connections = "also"
    heeds = frozenset({"adaptive"})

    @property
    def csv_file(self) -> str:
        """The run's first table."""
        return "results.csv"

    def conditions(self, point: Point) -> Conditions:
        """Of its trials."""
        return point.conditions()

    def cost(self, point: Point) -> Cost:
        """Of one search after the other."""
        return search_cost(search_spec(point, self.conditions(point)))

    def run(self, point: MeasurementPoint) -> Measured:
        """Search, as often as asked."""
        spec = search_spec(point, self.conditions(point))
        result = measure_throughput(spec, point.measure, point.watch)
        rows = repetition_rows(result, lambda key: point.find(key).started)
        rates = [r.rate_fps for r in result.repetitions]
        return Measured(search_record(point, result), [_mixed(point, r) for r in rows], rates)


class ThroughputFrameTimeout(Deadline, FrameTimeoutPresentation, Throughput):
    """A frame that takes longer than a deadline is lost (TP-06)."""

    summary = "The highest rate at which every frame arrives within a deadline."
    order = 20

    @property
    def csv_file(self) -> str:
        """A table of its own."""
        return f"{self.name}.csv"

    def conditions(self, point: Point) -> Conditions:
        """With a deadline for every frame."""
        return replace(point.conditions(), frame_timeout_s=self.timeout_s(point.bound))


def search_spec(point: Point, conditions: Conditions) -> ThroughputSpec:
    """The search, bounded by medium and tester."""
    p = point.procedure
    return ThroughputSpec(
        conditions=replace(conditions, search_limit_fps=point.limit_fps),
        upper_bound_fps=point.limit_fps,
        upper_bound_reason=point.limit_reason,
        resolution_fps=p.resolution_fps or p.resolution_ratio * point.limit_fps,
        duration_s=p.trial_duration_s,
        repetitions=p.repetitions,
        confirmations=p.confirmations,
        final_duration_s=p.final_duration_s,
        search=p.search,
        adaptive=point.adaptive,
    )


def search_record(point: MeasurementPoint, result: ThroughputResult) -> ThroughputRecord:
    """The record of searches at a point, or of a variant of its traffic."""
    return throughput_record(
        result,
        point.find,
        capacity_fps=point.tester_capacity.rate_fps,
        selftest_margin=point.procedure.selftest_margin,
        conditions=point.said,
        compared=not point.bound.tester.simulates,
    )


def search_cost(spec: ThroughputSpec) -> Cost:
    """Of all repetitions; of the most there can be if they are adaptive.

    A binary search is counted as if the device does not carry the upper bound; an MLR search
    by what it usually needs.
    """
    at = spec.conditions
    standing = cost_of(at, spec.confirmations, spec.duration_s)
    if (spec.final_duration_s or 0.0) > spec.duration_s:
        standing += cost_of(at, 1, spec.final_duration_s or 0.0)
    full = cost_of(at, 1, spec.duration_s)
    if spec.search == "binary":
        search, least = full * spec.steps, full
    else:
        probing = replace(at, pause_s=min(at.pause_s, PROBE_PAUSE_S))
        probe = cost_of(probing, 1, spec.duration_s / 20)
        probes = min(USUAL_PROBES, 2 + spec.steps // 2)  # a coarse search is soon over
        search, least = probe * probes + full * USUAL_FULL, probe + full
    each = (search + standing).or_only(least + standing)
    return each * (spec.adaptive.most if spec.adaptive else spec.repetitions)


def _mixed(point: Point, row: Row) -> Row:
    """The mixture stands after the direction, as in siitperf's column order (GEN-28)."""
    n, m = point.bound.technology.params.mixture or ("", "")
    head = {k: row[k] for k in ("No", "Size", "Dir")}
    return {**head, "n": n, "m": m, **{k: v for k, v in row.items() if k not in head}}
