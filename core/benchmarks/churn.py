"""Degradation while connecting: a stream at a share of the throughput, connections at one of their rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field
from v6t.analysis.presentations.churn import ChurnPresentation
from v6t.analysis.records.churn import ChurnRecord, churn_record, churn_rows
from v6t.core.benchmarks.phase_one import share_of
from v6t.core.benchmarks.point import Cost, Measured, MeasurementPoint, Point, cost_of
from v6t.core.benchmarks.share import AtShare, ShareSettings
from v6t.core.benchmarks.tcp import RATE, TcpSettings
from v6t.procedures.churn import KINDS, ChurnSpec, measure_churn
from v6t.procedures.tcp import Churn as Connecting
from v6t.procedures.trial import Ability
from v6t.profiles.errors import UsageError
from v6t.profiles.strict_model import StrictModel

if TYPE_CHECKING:
    from v6t.core.config.bound import BoundRun


class ChurnSettings(ShareSettings):
    """Degradation while connecting."""

    share: float = Field(default=0.5, gt=0, le=1)
    """Rate of the stream, as a share of the measured throughput."""
    connections_share: float = Field(default=0.5, gt=0, le=1)
    """Rate of new connections, as a share of P1 of the TCP connection establishment rate."""
    connections_cps: float | None = Field(default=None, gt=0)
    """This rate instead [connections/s]."""
    duration_s: float = Field(default=60.0, ge=0.1, le=3600)
    """Length of each stream [s]."""
    tags: int = Field(default=500, ge=1, le=1_000_000)
    """Tagged frames of each stream, per direction."""
    repetitions: int | None = Field(default=None, ge=1, le=1000)
    """Times each is measured; None: as others."""


class Churn(ChurnPresentation, AtShare[ChurnRecord, ChurnSettings]):
    """Loss and latency of a stream and of new connections, each alone and both together."""

    summary = "What a stream and new TCP connections lose when they come together."
    order = 140
    connections = "only"
    section = "churn"
    model = ChurnSettings
    quick = ChurnSettings(duration_s=2.0)
    further: ClassVar[Mapping[str, type[StrictModel]]] = {"tcp": TcpSettings}
    abilities: ClassVar[frozenset[Ability]] = frozenset({"connections", "tcp", "churn", "tags"})
    in_all = False

    def follows(self, bound: BoundRun) -> tuple[str, ...]:
        """The throughput and the establishment rate, unless they are given."""
        has_rate = self.own(bound).connections_cps is not None
        return (*super().follows(bound), *(() if has_rate else (RATE,)))

    def check(self, bound: BoundRun) -> None:
        """Refuse a run without a device: the tester alone keeps no connections."""
        if bound.driver.absent:
            raise UsageError(
                "without a device there are no connections to be made beside a stream",
                "name one with --dut or in the testbed file",
            )

    def cost(self, point: Point) -> Cost:
        """All trials of all kinds."""
        spec = self._spec(point, (point.media_fps, "assumed"), (1.0, "assumed"))
        return cost_of(spec.conditions, spec.repetitions * len(KINDS), spec.duration_s)

    def run(self, point: MeasurementPoint) -> Measured:
        """One kind after the other."""
        rate, connections = self.rate(point), self._connections(point)
        if not rate[0] or not connections[0]:
            what = "rate" if not rate[0] else "TCP connection rate"
            return self.nothing(point, f"no {what} passed", point.said)
        result = measure_churn(self._spec(point, rate, connections), point.measure, point.watch)
        return Measured(churn_record(result, conditions=point.said), churn_rows(result))

    def _connections(self, point: MeasurementPoint) -> tuple[float, str]:
        own = self.own(point.bound)
        return share_of(
            point, RATE, "TCP connection rate", own.connections_share, own.connections_cps
        )

    def _spec(
        self, point: Point, rate: tuple[float, str], connections: tuple[float, str]
    ) -> ChurnSpec:
        own = self.own(point.bound)
        tcp: TcpSettings = self.shared(point.bound, "tcp")
        wait_s = max(point.procedure.residual_wait_s, tcp.for_trials.waited_s)
        return ChurnSpec(
            conditions=point.conditions(residual_wait_s=wait_s),
            rate_fps=rate[0],
            rate_source=rate[1],
            churn=Connecting(connections[0], tcp.for_trials),
            churn_source=connections[1],
            duration_s=own.duration_s,
            tags=own.tags,
            repetitions=own.repetitions or point.procedure.repetitions,
        )
