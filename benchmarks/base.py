"""What a benchmark is: settings, needs, cost, procedure and results in one object.

Whoever plans, checks, measures or documents loops over such objects; nobody asks for the name of one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic

from v6t.analysis.record import FrameSizes, Record
from v6t.benchmarks.kind import BenchmarkKind, Phase, R, S
from v6t.benchmarks.point import Cost, Measured, MeasurementPoint, Point
from v6t.procedures.stateful.connection_rate import BENCHMARK as CONNECTION_RATE
from v6t.procedures.throughput import BENCHMARK as THROUGHPUT
from v6t.profiles.mixes import listed_sizes
from v6t.trials.trial import Capability

if TYPE_CHECKING:
    from v6t.benchmarks.context import RunContext

__all__ = ["RFC_DURATION_S", "Benchmark", "Phase", "R", "S"]

RFC_DURATION_S = 60.0
"""Trials of RFC 2544 section 24; shorter ones are demonstrations."""


class Benchmark(BenchmarkKind[R, S], Generic[R, S]):
    """One benchmark: how it is planned, checked and measured in a run."""

    def own(self, bound: RunContext) -> S:
        """Its settings in a run."""
        settings: S = self.shared(bound, self.section or "")
        return settings

    def shared(self, bound: RunContext, key: str) -> Any:
        """Settings below a key of ``procedure`` in a run."""
        return getattr(bound.settings.procedure, key)

    def needs(self, bound: RunContext) -> frozenset[Capability]:
        """What the tester must be able to do in this run."""
        del bound
        return self.capabilities

    def carries_out(self, bound: RunContext) -> Sequence[Benchmark[Any, Any]]:
        """Other benchmarks that it carries out as a part of itself: their settings have an effect."""
        del bound
        return ()

    def most_connections(self, bound: RunContext) -> int:
        """Connections of its largest trial, where there are any."""
        return bound.settings.procedure.connections.count if self.fills_table else 0

    def least_connections(self, bound: RunContext) -> int:
        """Connections that the device must hold for this benchmark to give a result."""
        return self.most_connections(bound)

    def follows(self, bound: RunContext) -> tuple[str, ...]:
        """Benchmarks that must have been measured at the same point."""
        p = bound.settings.procedure
        names = []
        if bound.settings.connects and p.connections.rate_cps is None and self.fills_table:
            names.append(CONNECTION_RATE)
        if "rate_from" in self.heeds:
            names.append(THROUGHPUT)
        return tuple(names)

    def check(self, bound: RunContext) -> None:
        """Refuse what cannot work.

        Raises:
            UsageError: the first thing that cannot.
        """

    def caveats(self, bound: RunContext) -> Iterator[str]:
        """What must be said beside its numbers: where the run is not what the RFC asks for."""
        del bound
        yield from ()

    def cautions(self, bound: RunContext) -> Iterator[str]:
        """What is allowed and yet probably not meant."""
        del bound
        yield from ()

    @abstractmethod
    def cost(self, point: Point) -> Cost:
        """What it takes at a point, before anything is known of the device."""

    @abstractmethod
    def run(self, point: MeasurementPoint) -> Measured:
        """Measure; deterministic given the trial results, so that a run is resumed by replaying it."""

    def nothing(self, point: Point, why: str, conditions: Mapping[str, Any]) -> Measured:
        """A record that says why there is no number.

        Args:
            point: where.
            why: one phrase.
            conditions: of the point.
        """
        record = Record(
            benchmark=self.name,
            title=self.name,
            direction=point.mode,
            frame_sizes=FrameSizes(**listed_sizes(point.sizes)),
            not_measured=why,
            repetitions=0,
            trials=[],
            invalid_trials=[],
            conditions=dict(conditions),
        )
        return Measured(record)
