"""What goes on at a share of the throughput, or at a rate that is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pydantic import Field
from v6t.analysis.record import Number, Record
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import Benchmark, R
from v6t.benchmarks.context import RunContext
from v6t.benchmarks.point import Point


class StreamRecord(Record):
    """Something that was measured at one rate."""

    rate: Number
    """offered [frames per second per direction]"""
    rate_source: str = ""
    """where that rate comes from"""

    @property
    def offered(self) -> Sequence[float]:
        return [self.rate]


class ShareSettings(StrictModel):
    """At which rate."""

    share: float = Field(default=0.9, gt=0, le=1)
    """Rate, as a share of the measured throughput."""
    rate_fps: float | None = Field(default=None, gt=0)
    """This rate instead [fps]."""


S = TypeVar("S", bound=ShareSettings)


class AtShare(Benchmark[R, S]):
    """A benchmark at such a rate."""

    heeds = frozenset({"rate_from"})

    def has_own_rate(self, bound: RunContext) -> bool:
        return self.own(bound).rate_fps is not None

    def rate(self, point: Point) -> tuple[float, str]:
        """Frames per second per direction, and where that is from; 0.0 if no rate passed."""
        own = self.own(point.bound)
        if own.rate_fps is not None:
            return own.rate_fps, "given"
        rate_fps, source = point.throughput()
        return own.share * rate_fps, f"{own.share:g} of the {source}"
