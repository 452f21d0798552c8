"""Degradation with the number of network flows (RFC 8219 section 10): SC-04."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field
from v6t.analysis.record import Record
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.benchmarks import registry
from v6t.benchmarks.base import Benchmark, Phase
from v6t.benchmarks.phase_one import prepared, rate
from v6t.benchmarks.point import Cost, Measured, MeasurementPoint, Point
from v6t.benchmarks.presentations.variants import FlowsPresentation
from v6t.benchmarks.records.variants import (
    FlowsRecord,
    FurtherFound,
    degradation_rows,
    flow_rows,
    flows_record,
)
from v6t.benchmarks.throughput import search_cost, search_record, search_spec
from v6t.packets.direction import DIRECTIONS
from v6t.procedures.flows import FlowPoint, flow_points, flow_spec, flow_starts
from v6t.procedures.throughput import BENCHMARK as THROUGHPUT
from v6t.procedures.throughput import ThroughputSpec, measure_throughput
from v6t.profiles import entropy
from v6t.trials.trial import Capability

if TYPE_CHECKING:
    from v6t.benchmarks.context import RunContext


DEGRADATION = "flows-degradation.csv"
"""Every figure with each number of flows."""


class FlowSettings(StrictModel):
    """Benchmarks by network flows (SC-04)."""

    counts: tuple[Annotated[int, Field(ge=1, le=65_535)], ...] = (1, 10, 100)
    """Flows through the device; one flow is always measured, as the base of Xpd."""
    starts: tuple[Literal["together", "successive"], ...] = ("together", "successive")
    """All flows begin together, one after the other, or both in turn."""
    interval_s: float = Field(default=1.0, gt=0, le=3600)
    """Between the beginnings of two flows that begin one after the other."""
    quarters: bool = False
    """A quarter, half and three quarters of the largest number as well (RFC 8219 section 10.2.2)."""
    also: tuple[str, ...] = ()
    """Benchmarks of RFC 8219 section 7 with each number of flows, beside the throughput and at it."""
    also_starts: tuple[Literal["together", "successive"], ...] = ("together", "successive")
    """With which of the ``starts`` they are measured; back-to-back only with flows that begin together."""


class Flows(FlowsPresentation, Benchmark[FlowsRecord, FlowSettings]):
    """The throughput of one flow, and how it changes with more of them."""

    summary = "The throughput of one flow, and how it changes with more of them."
    phase = Phase.VARIANTS
    order = 10
    searches = True
    connections = "also"
    section = "flows"
    model = FlowSettings
    quick = FlowSettings(counts=(1, 16), interval_s=0.02)
    heeds = frozenset({"adaptive"})

    def needs(self, bound: RunContext) -> frozenset[Capability]:
        """Flows that begin together are nothing special."""
        own = self.own(bound)
        capabilities: set[Capability] = {"flow-starts"} if "successive" in own.starts else set()
        for each in self.carries_out(bound):
            needs = each.needs(bound)
            capabilities |= needs
            if each.incremental and needs and {"successive"} <= {*own.starts} & {*own.also_starts}:
                capabilities.add("timed-flow-starts")
        return frozenset(capabilities)

    def carries_out(self, bound: RunContext) -> Sequence[Benchmark[Any, Any]]:
        """What it measures beside the throughput."""
        return [registry.load(name) for name in self.own(bound).also]

    def caveats(self, bound: RunContext) -> Iterator[str]:
        """Theirs, and what is not measured of them."""
        if bound.settings.connects:
            yield "flows: each connection is a flow, and frames take them in turn both ways"
        own, names = self.own(bound), []
        for each in self.carries_out(bound):
            yield from each.caveats(bound)
            if not each.incremental or "successive" not in own.also_starts:
                names.append(each.name)
        if names and "successive" in own.starts:
            yield f"with flows that begin one after the other {' and '.join(names)} is not measured"

    def cautions(self, bound: RunContext) -> Iterator[str]:
        """Theirs."""
        for each in self.carries_out(bound):
            yield from each.cautions(bound)

    def check(self, bound: RunContext) -> None:
        """Refuse more flows than the traffic has, and what is no benchmark of section 7."""
        for each in self.carries_out(bound):
            if (
                each.phase is not Phase.STREAMS
                or each.connections == "only"
                or each.name == "throughput"
            ):
                raise UsageError(
                    f"flows.also: {each.name} cannot be combined with flows",
                    "name for example frame-loss, latency, pdv, ipdv, back-to-back, system-recovery",
                    code="unknown-name",
                )
            each.check(bound)
        if bound.settings.connects:  # each connection is a flow
            return
        plugin, most = bound.technology, self._most(bound)
        for size in bound.settings.frame_sizes:
            for direction in DIRECTIONS:
                entropy.limit_flows(plugin.sized_traffic(direction, plugin.sizes_of(size)), most)

    def most_connections(self, bound: RunContext) -> int:
        """A flow each."""
        return max(super().most_connections(bound), self._most(bound))

    def _most(self, bound: RunContext) -> int:
        return max(self.own(bound).counts, default=1)

    def cost(self, point: Point) -> Cost:
        """A search for each number of flows, in each way to begin."""
        total = Cost(0, 0.0)
        for each in self._points(point):
            total += search_cost(self._spec(point, each))
            for benchmark in self._beside(point, each):
                total += benchmark.cost(replace(point, within=self._within(point, each)))
        return total

    def run(self, point: MeasurementPoint) -> Measured:
        """One flow first, then each number of flows with each way to begin."""
        if point.bound.settings.connects and not rate(point)[0]:
            return self.nothing(point, "no connection rate passed", point.said)
        points, rows, further = [], [], []
        at = point
        for each in self._points(point):
            at = self._varied(point, each)
            words = f"{each.flows} flows, {each.start}" if each.flows > 1 else "one flow"
            at.say(f"{at.sizes.label} octets, {at.mode}: {words}")
            result = measure_throughput(self._spec(at, each), at.measure, at.watch)
            points.append((each, search_record(at, result)))
            rows += flow_rows(each, result)
            measured = replace(
                at,
                within=self._within(point, each),
                found={**point.found, THROUGHPUT: [r.rate_fps for r in result.repetitions]},
            )
            for benchmark in self._beside(point, each):
                at.say(f"{at.sizes.label} octets, {at.mode}: {words}, {benchmark.name}")
                further.append(_further_figures(benchmark, each, benchmark.run(measured).record))
        interval_s = self.own(point.bound).interval_s
        record = flows_record(points, interval_s=interval_s, conditions=at.said, further=further)
        return Measured(record, rows, beside={DEGRADATION: degradation_rows(record)})

    def _varied(self, point: MeasurementPoint, each: FlowPoint) -> MeasurementPoint:
        """Traffic of so many flows: of a stateful device, so many connections."""
        if not point.bound.settings.connects:
            return point.vary(each.variant, partial(entropy.limit_flows, count=each.flows))
        return prepared(point, each.flows) or point

    def _beside(self, point: Point, each: FlowPoint) -> Sequence[Benchmark[Any, Any]]:
        """What is measured beside the throughput.

        Frames left out because their flow has not begun would be gaps in a burst: nothing back to back.
        """
        own = self.own(point.bound)
        if each.flows > 1 and each.start not in own.also_starts:
            return ()
        benchmarks = self.carries_out(point.bound)
        return [b for b in benchmarks if b.incremental or each.start == "together"]

    def _within(self, point: Point, each: FlowPoint) -> dict[str, Any]:
        starts = flow_starts(each, self.own(point.bound).interval_s)
        return {"variant": each.variant, "flow_starts": starts}

    def _points(self, point: Point) -> list[FlowPoint]:
        own = self.own(point.bound)
        most = self._most(point.bound)
        parts = {max(1, most * part // 4) for part in (1, 2, 3)} if own.quarters else set()
        return list(flow_points([*own.counts, *parts], own.starts))

    def _spec(self, point: Point, each: FlowPoint) -> ThroughputSpec:
        spec = search_spec(point, point.conditions())
        return flow_spec(spec, each, self.own(point.bound).interval_s)


def _further_figures(
    benchmark: Benchmark[Any, Any], point: FlowPoint, record: Record
) -> FurtherFound:
    quantities = benchmark.reported(record) if record.measured else ()
    rate = record.offered[0] if len(record.offered) == 1 else None
    return FurtherFound(
        point, record, {q.name: (q.unit, q.more_is_better, q.values) for q in quantities}, rate
    )
