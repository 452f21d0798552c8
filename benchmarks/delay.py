"""Latency, PDV and IPDV (RFC 8219 sections 7.2 and 7.3): delays at the throughput rate."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import RFC_DURATION_S, Benchmark
from v6t.benchmarks.point import Cost, Measured, MeasurementPoint, Point, cost_of
from v6t.benchmarks.presentations.delays import (
    IpdvPresentation,
    LatencyPresentation,
    PdvPresentation,
)
from v6t.benchmarks.records.timing import DelayRecord, timing_record, timing_rows
from v6t.benchmarks.settings import Flag
from v6t.procedures.delay_figures import find_tag_conflict
from v6t.procedures.throughput import BENCHMARK as THROUGHPUT
from v6t.procedures.timing import TimingSpec, measure_timing
from v6t.profiles.wire import frame_rate_fps, max_frame_rate_fps
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import RFC_MIN_TAGS, DelayRequest, Trial

if TYPE_CHECKING:
    from v6t.benchmarks.context import RunContext


class DelaySettings(StrictModel):
    """Delays at a rate."""

    rate_fps: Annotated[float | None, Flag("--rate")] = Field(default=None, gt=0)
    """Rate of latency, PDV and IPDV [fps]; none: the measured throughput (LAT-01)."""
    rate_bps: float | None = Field(default=None, gt=0)
    """The same rate in bit/s, each frame with its preamble and gap, on the link with the larger frames."""

    def given_fps(self, longest: float) -> float | None:
        """The rate that was given, for frames of so many octets on the link where they are larger."""
        if self.rate_bps is None:
            return self.rate_fps
        return frame_rate_fps(self.rate_bps, longest)


class LatencySettings(DelaySettings):
    """Latency (LAT-01, LAT-02)."""

    duration_s: float = Field(default=120.0, ge=0.001, le=86_400)
    """Length of the stream [s]."""
    tags: Annotated[int, Flag("--tags")] = Field(default=50_000, ge=1, le=10_000_000)
    """Tagged frames of a stream and direction."""
    first_tag_s: float = Field(default=60.0, ge=0, le=86_400)
    """Tags begin so long after the stream [s]."""


class DelayVariationSettings(DelaySettings):
    """PDV and IPDV (PDV-01, IPDV-01)."""

    duration_s: float = Field(default=60.0, ge=0.001, le=86_400)
    """Length of the stream [s]."""


LOWER_SHARES = (0.75, 0.5, 0.25)
"""Of the throughput: a tester that found it in a search may not time frames at it."""

D = TypeVar("D", bound=DelaySettings)


class Delay(Benchmark[DelayRecord, D]):
    """What the three have in common: the rate, and that they are never adaptive (TP-09)."""

    connections = "also"
    heeds = frozenset({"rate_from"})
    incremental = True

    @abstractmethod
    def spec(self, point: Point, rate_fps: float, source: str) -> TimingSpec:
        """What is asked of the procedure.

        Raises:
            ValueError: that cannot be at this rate.
        """

    def follows(self, bound: RunContext) -> tuple[str, ...]:
        """The throughput, unless the rate is given."""
        s = self.own(bound)
        has_rate = s.rate_fps is not None or s.rate_bps is not None
        return tuple(n for n in super().follows(bound) if n != THROUGHPUT or not has_rate)

    def check(self, bound: RunContext) -> None:
        """Refuse adaptive repetition, and rates above what the medium carries."""
        if bound.settings.procedure.adaptive is not None:
            raise UsageError(
                f"adaptive repetition is for throughput and frame loss, not for {self.name}: "
                "RFC 8219 asks for at least 20 repetitions there",
                f"measure {self.name} in a separate run",
                code="conflict",
            )
        s = self.own(bound)
        if s.rate_fps is not None and s.rate_bps is not None:
            raise UsageError(
                f"the rate of {self.name} is given in fps and in bit/s",
                "leave out one",
                path=(self.section or "", "rate_fps"),
                related=[(self.section or "", "rate_bps")],
                code="conflict",
            )
        for size, longest, media in _media(bound):
            rate_fps = s.given_fps(longest)
            if rate_fps is not None and rate_fps > media:
                raise UsageError(
                    f"{rate_fps:,.0f} fps of {size} octets are more than the {media:,} fps that "
                    "the medium carries",
                    code="above-line-rate",
                )

    def cost(self, point: Point) -> Cost:
        """At the medium's rate; latency once in loopback, too."""
        rate_fps = self.own(point.bound).given_fps(point.sizes.longest) or point.media_fps
        spec = self.spec(point, rate_fps, "assumed")
        alone = bool(spec.request.tags) and point.bound.measures_tester
        return cost_of(spec.conditions, spec.repetitions + alone, spec.duration_s)

    def run(self, point: MeasurementPoint) -> Measured:
        """A stream per repetition at the given rate, or at the throughput (LAT-01)."""
        rate_fps, source = point.throughput()
        fixed_fps = self.own(point.bound).given_fps(point.sizes.longest)
        if fixed_fps is not None:
            rate_fps, source = fixed_fps, "given"
        if not rate_fps:
            why = "no rate passed, so there is no rate to measure at"
            return self.nothing(point, why, point.said)
        try:
            spec = self.spec(point, rate_fps, source)
        except ValueError as exc:
            return self.nothing(point, str(exc), point.said)
        if fixed_fps is None:
            spec = replace(spec, shares=self._shares(point, spec))
        result = measure_timing(spec, point.measure, point.watch)
        own, rate_fps, alone = None, result.rate_fps, point.loopback
        if alone is not None and spec.request.tags and rate_fps <= point.tester_capacity.rate_fps:
            once = replace(spec, rate_fps=rate_fps, repetitions=1, shares=())
            own = measure_timing(once, _apart(alone), None)
        record = timing_record(
            result,
            loopback=own,
            conditions=point.said,
            stamps=point.bound.tester.stamps,
            tester_error=point.bound.tester.delay_error,
        )
        return Measured(record, timing_rows(result))

    def _shares(self, point: Point, spec: TimingSpec) -> tuple[float, ...]:
        """Lower rates at which there can be such a trial."""
        possible = []
        for share in LOWER_SHARES:
            with contextlib.suppress(ValueError):
                self.spec(point, spec.rate_fps * share, spec.rate_source)
                possible.append(share)
        return tuple(possible)


class Latency(LatencyPresentation, Delay[LatencySettings]):
    """Typical and worst case delay of tagged frames."""

    summary = "Typical and worst case delay of tagged frames at the throughput."
    order = 60
    section = "latency"
    model = LatencySettings
    quick = LatencySettings(duration_s=1.0, first_tag_s=0.3, tags=500)
    capabilities = frozenset({"tags"})

    def spec(self, point: Point, rate_fps: float, source: str) -> TimingSpec:
        """Tags spread over the stream."""
        s, at = self.own(point.bound), point.conditions()
        return TimingSpec(
            self.name,
            at,
            rate_fps,
            source,
            duration_s=s.duration_s + at.extra_duration_s,
            request=DelayRequest(tags=s.tags, first_tag_s=s.first_tag_s + at.extra_duration_s),
            repetitions=point.procedure.repetitions,
        )

    def check(self, bound: RunContext) -> None:
        """Refuse tags that fit no stream: no device forwards more than the medium carries."""
        super().check(bound)
        s = self.own(bound)
        for size, longest, media in _media(bound):
            fixed_fps = s.given_fps(longest)
            rate = media if fixed_fps is None else min(fixed_fps, media)
            problem = find_tag_conflict(s.tags, s.first_tag_s, s.duration_s, rate)
            if problem:
                raise UsageError(
                    f"latency at {size} octets: {problem}",
                    "fewer --tags, a longer latency.duration_s or an earlier latency.first_tag_s",
                    code="trial-too-short",
                )

    def caveats(self, bound: RunContext) -> Iterator[str]:
        """Short streams, few tags."""
        s = self.own(bound)
        if s.duration_s < 120 or s.first_tag_s < 60:
            yield (
                f"latency streams of {s.duration_s:g} s with tags from {s.first_tag_s:g} s on, "
                "not 120 s and 60 s"
            )
        if s.tags < RFC_MIN_TAGS:
            yield (
                f"latency by {s.tags} tagged frames, not at least {RFC_MIN_TAGS} (RFC 8219 section 7.2): "
                "the worst case, their 99.9th percentile, is the longest delay of all"
            )


class DelayVariation(Delay[DelayVariationSettings]):
    """What PDV and IPDV share: every frame is timed."""

    section = "delay_variation"
    model = DelayVariationSettings
    quick = DelayVariationSettings(duration_s=0.6)
    request = DelayRequest()

    def spec(self, point: Point, rate_fps: float, source: str) -> TimingSpec:
        """Every frame of the stream."""
        at = point.conditions()
        return TimingSpec(
            self.name,
            at,
            rate_fps,
            source,
            duration_s=self.own(point.bound).duration_s + at.extra_duration_s,
            request=self.request,
            repetitions=point.procedure.repetitions,
        )

    def caveats(self, bound: RunContext) -> Iterator[str]:
        """Short streams."""
        length_s = self.own(bound).duration_s
        if length_s < RFC_DURATION_S:
            yield f"{self.name} over streams of {length_s:g} s, not {RFC_DURATION_S:g} s"


class Pdv(PdvPresentation, DelayVariation):
    """Spread of the delays."""

    summary = "How much the delays of all frames differ (99.9th percentile less the smallest)."
    order = 70
    capabilities = frozenset({"every-frame"})


class Ipdv(IpdvPresentation, DelayVariation):
    """Differences between the delays of successive frames."""

    summary = "How much the delay changes from one frame to the next."
    order = 80
    capabilities = frozenset({"every-frame", "ipdv"})
    request = DelayRequest(ipdv=True)


def _media(bound: RunContext) -> Iterator[tuple[str, float, int]]:
    """Every frame size of a run, its larger frame, and what the medium carries of it [fps]."""
    for size in bound.settings.frame_sizes:
        sizes = bound.technology.sizes_of(size)
        octets = sizes.longest
        yield (
            sizes.label if sizes.mix else f"{size}",
            octets,
            max_frame_rate_fps(bound.settings.line_rate_bps, octets),
        )


def _apart(measure: Measure) -> Measure:
    """The same trials without a device have keys of their own."""

    def measured(trial: Trial) -> TrialResult:
        return measure(replace(trial, key=f"loopback-{trial.key}"))

    return measured
