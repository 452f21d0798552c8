"""DNS resolution performance (RFC 8219 section 9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import Benchmark, Phase
from v6t.benchmarks.point import Cost, Measured, MeasurementPoint, Point
from v6t.benchmarks.presentations.resolution import LONGEST_TIMEOUT_S, ResolutionPresentation
from v6t.benchmarks.records.resolution import (
    ResolutionRecord,
    Searched,
    SelfTest,
    resolution_record,
    resolution_rows,
)
from v6t.benchmarks.settings import Flag
from v6t.benchmarks.throughput import search_cost, search_spec
from v6t.procedures.resolution import SELFTEST_TIMEOUT_SHARE, ResolutionSpec, max_covered_qps
from v6t.procedures.throughput import measure_throughput
from v6t.trials.queries import Queries
from v6t.trials.trial import Capability

if TYPE_CHECKING:
    from v6t.benchmarks.context import RunContext

_Percent = Annotated[int, Field(ge=0, le=100)]


class ResolutionSettings(StrictModel):
    """DNS resolution performance (RFC 8219 section 9)."""

    cached: Annotated[tuple[_Percent, ...], Flag("--cached")] = Field(
        default=(0,), min_length=1, max_length=101
    )
    """Shares of queries for names that were asked before the trial [%]; 0 is always measured."""
    own_aaaa: Annotated[tuple[_Percent, ...], Flag("--own-aaaa")] = Field(
        default=(0,), min_length=1, max_length=101
    )
    """Shares of names with an AAAA record of their own [%]; 0 is always measured."""
    timeout_s: float = Field(default=LONGEST_TIMEOUT_S, gt=0, le=60)
    """An answer that takes longer is none [s]."""
    delta: float = Field(default=0.1, ge=0.1, le=10)
    """The tester answers itself at twice the rate and this share more (section 9.2.1)."""
    cached_names: int = Field(default=1000, ge=1, le=65_000)
    """Names that are asked before a trial some of whose names are cached."""
    resolution_qps: Annotated[float | None, Flag("--resolution-qps")] = Field(default=None, gt=0)
    """Stop when the bracket is this narrow [queries/s]; None: ``resolution_ratio`` of the upper
    bound."""


class Resolution(ResolutionPresentation, Benchmark[ResolutionRecord, ResolutionSettings]):
    """The highest rate at which every query is answered rightly."""

    summary = "The highest rate at which every DNS query is answered rightly in time."
    phase = Phase.QUERIES
    order = 10
    searches = True
    exchange = "queries"
    section = "resolution"
    model = ResolutionSettings
    quick = ResolutionSettings(cached_names=200, resolution_qps=500.0)
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"queries"})

    def check(self, bound: RunContext) -> None:
        """Refuse a run without a device: the tester's server makes no AAAA records of A records."""
        if bound.driver.absent:
            raise UsageError(
                "DNS64 synthesis needs a device",
                "`v6t selftest` measures the tester alone",
                code="missing-device",
            )

    def caveats(self, bound: RunContext) -> Iterator[str]:
        """A longer time-out than the RFC's, and a cache that nobody empties."""
        own = self.own(bound)
        if own.timeout_s > LONGEST_TIMEOUT_S:
            yield f"queries time out after {own.timeout_s:g} s: RFC 8219 section 9.2 allows no more than 1 s"
        simulated = bound.tester.simulates
        if not bound.driven and not simulated and "flush" not in bound.driver.hooks:
            yield "nobody empties the device's cache between trials: names are asked once in a run only"

    def combinations(self, bound: RunContext) -> list[tuple[int, int]]:
        """Per cent of names cached, and of names with an AAAA record; the required one is first.

        When all names are cached it does not matter which have one (section 9.2).
        """
        own = self.own(bound)
        pairs = product(sorted({0, *own.cached}), sorted({0, *own.own_aaaa}))
        return [(cached, aaaa) for cached, aaaa in pairs if cached < 100 or not aaaa]

    def cost(self, point: Point) -> Cost:
        """Of all searches; names that are asked before take a little longer."""
        each = [self._spec(point, pair, point.media_fps) for pair in self.combinations(point.bound)]
        return sum((search_cost(spec) for spec in each), Cost(0, 0.0))

    def run(self, point: MeasurementPoint) -> Measured:
        """Search for each combination, within what the self-test covers."""
        own, bound = self.own(point.bound), point.bound
        capacity = point.tester_capacity.rate_fps
        covered = max_covered_qps(capacity, own.delta)
        searched = [
            Searched(
                *pair,
                measure_throughput(self._spec(point, pair, covered), point.measure, point.watch),
            )
            for pair in self.combinations(bound)
        ]
        selftest = SelfTest(
            capacity_qps=capacity,
            timeout_s=SELFTEST_TIMEOUT_SHARE * own.timeout_s,
            delta=own.delta,
            covered_qps=covered,
        )
        record = resolution_record(
            searched,
            point.find,
            selftest=selftest,
            upstream=bound.technology.ip_versions[1],
            conditions=point.said,
        )
        rates = [r.rate_fps for r in searched[0].result.repetitions]
        return Measured(record, resolution_rows(searched, point.find), rates)

    def _spec(self, point: Point, pair: tuple[int, int], covered: float) -> ResolutionSpec:
        own, p = self.own(point.bound), point.procedure
        cached, aaaa = pair
        upper = min(point.media_fps, covered)
        queries = Queries(cached / 100, aaaa / 100, own.timeout_s, own.cached_names)
        conditions = point.conditions(
            queries=queries,
            residual_wait_s=max(own.timeout_s, p.residual_wait_s),
            # a device that was asked too much goes on working on it for a while
            pause_s=max(own.timeout_s, p.pause_s),
            variant=f"c{cached:03d}-a{aaaa:03d}/" if pair != (0, 0) else "",
        )
        usual = search_spec(point, conditions)
        values: dict[str, Any] = {f.name: getattr(usual, f.name) for f in fields(usual)}
        return ResolutionSpec(
            **values
            | {
                "conditions": replace(usual.conditions, search_limit_fps=upper),
                "upper_bound_fps": upper,
                "upper_bound_reason": "media" if upper == point.media_fps else "tester",
                "resolution_fps": own.resolution_qps or p.resolution_ratio * upper,
            }
        )


def alone(bound: RunContext) -> Queries:
    """What the self-test asks (section 9.2.1)."""
    timeout_s: float = bound.settings.procedure.resolution.timeout_s  # type: ignore[attr-defined]
    return Queries(timeout_s=SELFTEST_TIMEOUT_SHARE * timeout_s, is_selftest=True)
