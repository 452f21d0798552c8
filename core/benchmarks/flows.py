"""Degradation of the throughput with the number of network flows (RFC 8219 section 10): SC-04."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field
from v6t.analysis.presentations.variants import FlowsPresentation
from v6t.analysis.records.variants import FlowsRecord, flow_rows, flows_record
from v6t.core.benchmarks.base import Benchmark, Phase
from v6t.core.benchmarks.point import Cost, Measured, MeasurementPoint, Point
from v6t.core.benchmarks.throughput import search_cost, search_record, search_spec
from v6t.procedures.flows import FlowPoint, flow_points, flow_spec
from v6t.procedures.throughput import ThroughputSpec, measure_throughput
from v6t.procedures.trial import Ability
from v6t.profiles.model import DIRECTIONS
from v6t.profiles.strict_model import StrictModel
from v6t.profiles.transform import entropy

if TYPE_CHECKING:
    from v6t.core.config.bound import BoundRun


class FlowSettings(StrictModel):
    """Throughput by network flows (SC-04)."""

    counts: tuple[Annotated[int, Field(ge=1, le=65_535)], ...] = (1, 10, 100)
    """Flows through the device; one flow is always measured, as the base of Xpd."""
    starts: tuple[Literal["together", "successive"], ...] = ("together", "successive")
    """All flows begin together, one after the other, or both in turn."""
    interval_s: float = Field(default=1.0, gt=0, le=3600)
    """Between the beginnings of two flows that begin one after the other."""


class Flows(FlowsPresentation, Benchmark[FlowsRecord, FlowSettings]):
    """The throughput of one flow, and how it changes with more of them."""

    summary = "The throughput of one flow, and how it changes with more of them."
    phase = Phase.VARIANTS
    order = 10
    section = "flows"
    model = FlowSettings
    quick = FlowSettings(counts=(1, 16), interval_s=0.02)
    heeds = frozenset({"adaptive"})

    def needs(self, bound: BoundRun) -> frozenset[Ability]:
        """Flows that begin together are nothing special."""
        successive = "successive" in self.own(bound).starts
        return frozenset({"flow-starts"}) if successive else frozenset()

    def check(self, bound: BoundRun) -> None:
        """Refuse more flows than the traffic has."""
        plugin, most = bound.technology, max(self.own(bound).counts, default=1)
        for size in bound.settings.frame_sizes:
            for direction in DIRECTIONS:
                entropy.flows(plugin.traffic(direction, plugin.frame_pair(size)), most)

    def cost(self, point: Point) -> Cost:
        """A search for each number of flows, in each way to begin."""
        costs = (search_cost(self._spec(point, each)) for each in self._points(point))
        return sum(costs, Cost(0, 0.0))

    def run(self, point: MeasurementPoint) -> Measured:
        """One flow first, then each number of flows with each way to begin."""
        found, rows = [], []
        at = point
        for each in self._points(point):
            at = point.vary(each.variant, partial(entropy.flows, count=each.flows))
            words = f"{each.flows} flows, {each.start}" if each.flows > 1 else "one flow"
            at.say(f"{at.sizes.label} octets, {at.mode}: {words}")
            result = measure_throughput(self._spec(at, each), at.measure, at.watch)
            found.append((each, search_record(at, result)))
            rows += flow_rows(each, result)
        interval_s = self.own(point.bound).interval_s
        return Measured(flows_record(found, interval_s=interval_s, conditions=at.said), rows)

    def _points(self, point: Point) -> list[FlowPoint]:
        own = self.own(point.bound)
        return list(flow_points(own.counts, own.starts))

    def _spec(self, point: Point, each: FlowPoint) -> ThroughputSpec:
        spec = search_spec(point, point.conditions())
        return flow_spec(spec, each, self.own(point.bound).interval_s)
