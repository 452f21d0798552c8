"""Records of latency, PDV and IPDV for ``results.json``, in milliseconds (LAT-08)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

from v6t.analysis.record import Figure, Model, Number, Record, Row, Series, figure_of, head
from v6t.procedures.timing import DelayFigures, TimingRepetition, TimingResult
from v6t.trials.trial import RFC_MIN_TAGS, list_directions

DEFINITION = (
    "one way, {stamps}; this is longer than store and forward latency, from the last bit in to the "
    "first bit out (RFC 1242 section 3.8), by the frame's own time on the wire and by the tester's "
    "share, which is measured in loopback and not subtracted"
)
UNSAID = "between the moments at which the tester stamps a frame, which it does not name"


class Delays(Model):
    """Figures of one direction, or of one class of its frames."""

    timed: list[int]
    """frames (IPDV: pairs) that were timed, each repetition"""
    lost: list[int]
    """frames that were not received, each repetition"""
    clamped: Sequence[int] = ()
    """negative delays counted as 0, each repetition"""

    @property
    def figures(self) -> dict[str, Figure]:
        """Figures by name."""
        return {name: value for name, value in self if isinstance(value, Figure)}


class Latencies(Delays):
    """Latencies of one direction or class."""

    tl: Figure
    """typical latency: median of the tagged frames [ms]"""
    wcl: Figure
    """worst case latency: 99.9th percentile of the tagged frames [ms]"""
    min: Figure
    """shortest delay [ms]"""
    max: Figure
    """longest delay [ms]"""


class Pdvs(Delays):
    """Packet delay variation of one direction or class."""

    pdv: Figure
    """D99.9 - Dmin [ms]"""
    min: Figure
    """Dmin, shortest delay [ms]"""
    p99_9: Figure
    """D99.9, 99.9th percentile of the delays [ms]"""
    max: Figure
    """Dmax, longest delay [ms]"""


class Ipdvs(Delays):
    """Inter packet delay variation of one direction or class."""

    min: Figure
    """smallest difference of consecutive delays [ms]"""
    med: Figure
    """median of the differences [ms]"""
    max: Figure
    """largest difference [ms]"""


class LatencyDirection(Latencies):
    """Latencies of one direction."""

    classes: Mapping[str, Latencies] = {}
    """the same of each class of frames"""


class PdvDirection(Pdvs):
    """Packet delay variation of one direction."""

    classes: Mapping[str, Pdvs] = {}
    """the same of each class of frames"""


class IpdvDirection(Ipdvs):
    """Inter packet delay variation of one direction."""

    classes: Mapping[str, Ipdvs] = {}
    """the same of each class of frames"""


class DelayRecord(Record):
    """Delays, or their variation, at one rate: medians of the repetitions with P1 and P99.

    A figure that a lost frame decides is null, "undefined" (LAT-05, PDV-02).
    """

    names: ClassVar[tuple[str, ...]] = ()
    """of the figures"""

    unit: Literal["ms"]
    """of all figures"""
    convention: Literal["per_direction"]
    """the rate is per direction"""
    rate: Number
    """offered [frames per second per direction]"""
    rate_source: str
    """where that rate comes from"""
    share_of_rate: Number = 1.0
    """of that rate, where the tester could not carry out the trial at the rate itself"""
    duration_s: Number
    """length of the stream [s]"""
    definition: str = ""
    """of a delay"""
    sampled: bool
    """not every frame was timed, or tags came from a part of the connections or the load only"""
    share: Number | None
    """share of the frames that were timed; of tags, share of the connections or the load they came
    from"""
    directions: Mapping[str, Delays]
    """the figures of each direction"""
    loopback: Mapping[str, Mapping[str, Number | None]] | None = None
    """the tester's own figures at this rate without a device; null: not measured [ms]"""
    tester_error: str = ""
    """the documented error of the tester's delays; empty: the tester sends no frames"""

    @property
    def offered(self) -> Sequence[float]:
        return [self.rate]

    @property
    def offered_from(self) -> str:
        return self.rate_source

    @property
    def lowered(self) -> bool:
        return self.share_of_rate < 1

    def find_published_value(
        self, figure: str, direction: str, mode: str, *, is_aggregate: bool
    ) -> tuple[float | None, str] | None:
        del mode, is_aggregate
        if self.direction != "bidirectional" or direction not in self.directions:
            return None
        return self.directions[direction].figures[figure].median, f"{direction}, both"

    def series(self) -> Iterator[tuple[str, Series, str]]:
        for way, direction in self.directions.items():
            for name, figure in direction.figures.items():
                yield f"{way} {name.upper()} ", figure, self.unit


class LatencyRecord(DelayRecord):
    """Typical and worst case latency (RFC 8219 section 7.2)."""

    names = ("tl", "wcl", "min", "max")
    directions: Mapping[str, LatencyDirection]
    """latencies of each direction"""
    tags: int | None = None
    """tagged frames"""
    first_tag_s: Number | None = None
    """when the first frame is tagged [s]"""
    below_rfc_tags: bool = False
    """fewer tagged frames than the 500 of RFC 8219"""

    @property
    def round_trip_ms(self) -> float | None:
        delays = [figures.tl.median for figures in self.directions.values()]
        known = [delay for delay in delays if delay is not None]
        return sum(known) if len(delays) == len(known) == 2 else None


class PdvRecord(DelayRecord):
    """Packet delay variation (RFC 8219 section 7.3.1)."""

    names = ("pdv", "min", "p99_9", "max")
    directions: Mapping[str, PdvDirection]
    """PDV of each direction"""


class IpdvRecord(DelayRecord):
    """Inter packet delay variation (RFC 8219 section 7.3.2)."""

    names = ("min", "med", "max")
    directions: Mapping[str, IpdvDirection]
    """IPDV of each direction"""


_KINDS: Mapping[str, type[DelayRecord]] = {
    "latency": LatencyRecord,
    "pdv": PdvRecord,
    "ipdv": IpdvRecord,
}


def timing_record(
    result: TimingResult,
    *,
    loopback: TimingResult | None,
    conditions: Mapping[str, Any],
    stamps: str = "",
    tester_error: str = "",
) -> DelayRecord:
    """The record of one latency, PDV or IPDV point.

    Args:
        result: the repetitions.
        loopback: the tester's own delays at the same rate, without a device (LAT-09).
        conditions: what else the reader must know.
        stamps: when the tester stamps a frame, and how finely (LAT-03).
        tester_error: documented error of the tester's delays.
    """
    spec = result.spec
    kind = _KINDS[spec.benchmark]
    ways = list_directions(spec.conditions.mode)
    valid = [r for r in result.repetitions if r.valid]
    attempts = [a for r in result.repetitions for a in r.attempts]
    tags = spec.request.tags
    further: dict[str, Any] = {}
    if tags:
        further |= {
            "tags": tags,
            "first_tag_s": spec.request.first_tag_s,
            "below_rfc_tags": tags < RFC_MIN_TAGS,
        }
    return kind(
        **head(spec.conditions, spec.benchmark, _title(result), attempts, conditions),
        unit="ms",
        rate=result.rate_fps,
        rate_source=spec.rate_source,
        share_of_rate=result.share_of_rate,
        duration_s=spec.duration_s,
        repetitions=len(valid),
        definition=DEFINITION.format(stamps=stamps or UNSAID),
        sampled=result.sampled,
        share=result.share,
        directions={way: _direction(kind.names, valid, way) for way in ways},
        loopback=None if loopback is None else _loopback(loopback, ways),
        tester_error=tester_error,
        **further,
    )


def timing_rows(result: TimingResult) -> list[Row]:
    """One row per repetition and direction, milliseconds; undefined figures are empty."""
    spec = result.spec
    rows = []
    for r in result.repetitions:
        for way, timed in r.directions.items():
            rows.append(
                {
                    "No": r.number,
                    "Size": spec.conditions.size_label,
                    "Dir": spec.conditions.mode[0],
                    "direction": way,
                    "rate": result.rate_fps,
                    "duration_s": spec.duration_s,
                    **{k: _ms(timed.figures[k]) for k in _KINDS[spec.benchmark].names},
                    "frames": timed.frames,
                    "lost": timed.lost,
                    "clamped": timed.clamped,
                }
            )
    return rows


def _title(result: TimingResult) -> str:
    name = {"latency": "Latency", "pdv": "PDV", "ipdv": "IPDV"}[result.spec.benchmark]
    if not result.sampled:
        return name
    if result.spec.benchmark == "latency" and result.of_load:
        return f"Latency of a stamped stream ({result.share:.2%} of the load)"
    if result.spec.benchmark == "latency":
        return f"Latency of a subset ({result.share:.2%} of the connections)"
    timed = "pairs" if result.spec.request.ipdv else "frames"
    return f"sampled {name} (not all {timed}: {result.share:.2%})"


def _direction(names: Sequence[str], valid: Sequence[TimingRepetition], way: str) -> dict[str, Any]:
    classes = sorted({name for r in valid for name in r.classes[way]})
    return {
        **_figures([r.directions[way] for r in valid], names),
        "classes": {
            name: _figures([r.classes[way][name] for r in valid if name in r.classes[way]], names)
            for name in classes
        },
    }


def _figures(timed: Sequence[DelayFigures], names: Sequence[str]) -> dict[str, Any]:
    return {
        **{name: figure_of([t.figures[name] / 1e6 for t in timed], "ms") for name in names},
        "timed": [t.frames for t in timed],
        "lost": [t.lost for t in timed],
        "clamped": [t.clamped for t in timed],
    }


def _loopback(result: TimingResult, ways: Sequence[str]) -> dict[str, Any] | None:
    valid = [r for r in result.repetitions if r.valid]
    if not valid:
        return None
    return {way: {k: _ms(v) for k, v in valid[0].directions[way].figures.items()} for way in ways}


def _ms(value_ns: float) -> float | None:
    return value_ns / 1e6 if math.isfinite(value_ns) else None
