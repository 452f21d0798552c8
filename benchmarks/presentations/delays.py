"""Latency, PDV and IPDV: RFC 8219 sections 7.2 and 7.3."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

from v6t.analysis.blocks import Drawing
from v6t.analysis.figures import delays
from v6t.analysis.marks import offered
from v6t.analysis.presentation import Card, Clause, Headline, Presentation, Quantity, clause
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import Sheet, count, milliseconds, sheet, significant
from v6t.benchmarks.presentations.common import (
    POINT,
    TRIAL_S,
    at,
    at_least,
    at_throughput,
    counted_cells,
    counted_column,
    interval,
    repeated,
)
from v6t.benchmarks.records.timing import DelayRecord, IpdvRecord, LatencyRecord, PdvRecord
from v6t.trials.delays import Distribution
from v6t.trials.result import DirectionResult


class DelayPresentation(Presentation[DelayRecord]):
    """What the three have in common: medians of the repetitions, with P1 and P99 of some figures."""

    record = DelayRecord
    words: ClassVar[Mapping[str, str]]
    """figures of the table"""
    spread: ClassVar[Sequence[str]] = ()
    """those of them with percentiles and interval"""
    compared: ClassVar[Mapping[str, str]]
    """figures that runs are compared in"""
    carded: ClassVar[Mapping[str, str]] = {}
    """figures one would advertise"""
    headed: ClassVar[Mapping[str, str]]
    """figures of a campaign's summary"""

    def sheet(self, records: Sequence[DelayRecord]) -> Sheet:
        """Size, rate, one row per stream (LAT-08)."""
        names = [*POINT, "fps per\ndirection"]
        for key, word in self.words.items():
            names.append(f"{word}\nms")
            if key in self.spread:
                names += ["P1", "P99", "+95 % interval"]
        rows, counted = [], counted_column(records)
        for record in records:
            for way, direction in record.directions.items():
                cells = [*at(record, way), offered(record, record.rate)]
                for key in self.words:
                    figure = direction.figures[key]
                    cells.append(milliseconds(figure.median))
                    if key in self.spread:
                        cells += [milliseconds(figure.p1), milliseconds(figure.p99)]
                        cells.append(interval(figure.median_interval, milliseconds))
                # without a valid trial nothing is known, not even that nothing was lost
                frames = [count(sum(n) if n else None) for n in (direction.lost, direction.timed)]
                rows.append(
                    [*cells, *frames, str(record.repetitions), *counted_cells(record, counted)]
                )
        return sheet(
            f"{records[0].title}, milliseconds",
            [*names, "lost", "+timed", "+repetitions", *counted],
            rows,
            dict.fromkeys(
                note
                for record in records
                for note in (*_lowered(record), record.tester_error)
                if note
            ),
        )

    def figures(self, data: RunData, records: Sequence[DelayRecord]) -> Iterator[Drawing]:
        """Delays of all repetitions together."""
        for record in records:
            distributions = _merged(data, record, self.distributions)
            if distributions:
                frames = ", ".join(f"{way} {d.frames:,}" for way, d in distributions.items())
                name = f"{self.name}-{record.frame_sizes.key}-{record.direction}"
                figure, caption = self.drawn(distributions, name, record.point, frames)
                yield Drawing(figure, caption, caption)

    def distributions(self, counted: DirectionResult) -> Mapping[str, Distribution] | None:
        """What a trial holds to be drawn, by class."""
        return counted.delays

    def drawn(
        self, distributions: Mapping[str, Distribution], name: str, where: str, frames: str
    ) -> tuple[str, str]:
        """A figure and its caption."""
        return delays.delay_figure(distributions, name), (
            f"One-way delays, {where}, all repetitions together: histogram, and share of frames "
            f"that take longer. Timed frames: {frames}. Lost frames count as infinitely late."
        )

    def definition(self, records: Sequence[DelayRecord]) -> str:
        """Between which moments."""
        return next((f"Delay: {r.definition}." for r in records if r.definition), "")

    def quantities(self, record: DelayRecord) -> Iterator[Quantity]:
        """Under the load of the streams."""
        return self._quantities(record, self.compared)

    def _quantities(self, record: DelayRecord, words: Mapping[str, str]) -> Iterator[Quantity]:
        load = f"{record.rate:,.0f} fps"
        for way, direction in record.directions.items():
            for key, word in words.items():
                yield Quantity(f"{word} {way}", "ms", direction.figures[key].values, False, at=load,
                               limited=bool(record.above_usable))  # fmt: skip

    def headlines(self, record: DelayRecord) -> Iterator[Headline]:
        """Of each direction."""
        for way, direction in record.directions.items():
            for key, word in self.headed.items():
                figure = direction.figures[key]
                yield Headline(f"{word} {way}", figure.median, figure.p1, figure.p99,
                               bool(record.above_usable))  # fmt: skip

    def of_tester(self, record: DelayRecord) -> Iterator[Headline]:
        """The first of them, of the trial in loopback at the same rate (LAT-09)."""
        key, word = next(iter(self.headed.items()))
        for way, figures in (record.loopback or {}).items():
            value = figures.get(key)
            yield Headline(f"{word} {way}", value, value, value)

    def shown(self, value: float | None) -> str:
        """Milliseconds, in as many digits as repetitions bear out."""
        return significant(value)

    def cards(self, record: DelayRecord) -> Iterator[Card]:
        """Of each direction."""
        for key, word in self.carded.items():
            for way, direction in record.directions.items():
                both = f", {way}" if way != record.direction else ""
                what = f"{word}, {record.point}{both}, median of {record.repetitions}"
                yield Card(milliseconds(direction.figures[key].median), "ms", what)

    def remarks(self, record: DelayRecord) -> Iterator[str]:
        """What is odd about a direction."""
        for way, direction in record.directions.items():
            for key in self.spread:
                yield from (f"{way} {key.upper()}: {n}" for n in direction.figures[key].notes)
            if sum(direction.clamped):
                yield f"{way}: {sum(direction.clamped)} negative delays counted as 0"

    def clauses(self, data: RunData) -> Iterator[Clause]:
        """The stream, the rate, repetitions."""
        yield from self.stream(data)
        yield at_throughput(self.name, data, self.measured(data))
        yield repeated(self.name, self.measured(data))

    def stream(self, data: RunData) -> Iterator[Clause]:
        """Every frame of 60 s."""
        records = self.measured(data)
        lengths = (t.asked["duration_s"] for t in data.counted(records))
        words, enough = at_least(TRIAL_S, lengths)
        sampled = any(r.sampled for r in records)
        timed = "a sample of the frames" if sampled else "every frame"
        yield clause(self.source, "60 s, every frame timed", f"{words}, {timed}",
                     enough and not sampled)  # fmt: skip

    source: ClassVar[str] = "RFC 8219 section 7.3"


class LatencyPresentation(DelayPresentation):
    """Typical and worst case latency (RFC 8219 section 7.2)."""

    name = "latency"
    title = "Latency"
    record = LatencyRecord
    metrics: ClassVar = {"typical latency": "tl", "worst-case latency": "wcl"}
    words: ClassVar = {"tl": "TL", "wcl": "WCL"}
    spread = ("tl", "wcl")
    compared = words
    headed = words
    carded: ClassVar = {"tl": "Typical latency"}

    def remarks(self, record: DelayRecord) -> Iterator[str]:
        """Too few tags."""
        if isinstance(record, LatencyRecord) and record.below_rfc_tags:
            yield "fewer tagged frames than the 500 of RFC 8219"
        yield from super().remarks(record)

    def stream(self, data: RunData) -> Iterator[Clause]:
        """Tags and their figures."""
        trials = [t.asked for t in data.counted(self.measured(data))]
        yield clause("RFC 8219 section 7.2 (LAT-01)", "streams of 120 s",
                     *at_least(120.0, (a["duration_s"] for a in trials)))  # fmt: skip
        yield clause("RFC 8219 section 7.2 (LAT-02)", "tags from 60 s on",
                     *at_least(60.0, (a["delays"]["first_tag_s"] for a in trials)))  # fmt: skip
        counts = [
            sum(both)
            for r in self.measured(data)
            for f in r.directions.values()
            for both in zip(f.timed, f.lost, strict=True)
        ]
        yield clause("RFC 8219 section 7.2 (LAT-02)", "at least 500 tagged frames in each stream",
                     *at_least(500, counts, "tags"))  # fmt: skip
        if any(r.sampled for r in self.measured(data)):
            shares = [r.share for r in self.measured(data) if r.sampled and r.share is not None]
            yield clause("RFC 8219 section 7.2 (LAT-01)", "tags among all the traffic",
                         f"among {min(shares, default=0.0):.2%} of the connections, or of the load",
                         False)  # fmt: skip
        tagged = [f for r in self.measured(data) for f in r.directions.values()]
        undefined = sum(None in f.figures[key].values for f in tagged for key in self.words)
        yield clause("RFC 8219 section 7.2 (LAT-04)", "median, and 99.9th percentile of the tags",
                     f"TL and WCL by nearest rank; undefined in {undefined} of "
                     f"{len(self.words) * len(tagged)} figures, their tags were lost"
                     if undefined else "TL and WCL by nearest rank",
                     not undefined if tagged else None)  # fmt: skip


class PdvPresentation(DelayPresentation):
    """Packet delay variation (RFC 8219 section 7.3.1)."""

    name = "pdv"
    title = "PDV"
    record = PdvRecord
    metrics: ClassVar = {"PDV": "pdv"}
    words: ClassVar = {"pdv": "PDV", "min": "Dmin", "p99_9": "D99.9", "max": "Dmax"}
    spread = ("pdv",)
    compared: ClassVar = {"pdv": "PDV"}
    headed = compared
    carded = compared
    source = "RFC 8219 section 7.3.1 (PDV-01)"


class IpdvPresentation(DelayPresentation):
    """Inter packet delay variation (RFC 8219 section 7.3.2)."""

    name = "ipdv"
    title = "IPDV"
    record = IpdvRecord
    words: ClassVar = {"min": "min", "med": "median", "max": "max"}
    compared: ClassVar = {"max": "IPDV max"}
    headed: ClassVar = {"med": "median"}
    source = "RFC 8219 section 7.3.2 (IPDV-01)"

    def reported(self, record: DelayRecord) -> Iterator[Quantity]:
        """The three values of the RFC, each by itself (RFC 8219 section 10.2.1)."""
        return self._quantities(record, {key: f"IPDV {word}" for key, word in self.words.items()})

    def distributions(self, counted: DirectionResult) -> Mapping[str, Distribution] | None:
        """Differences of consecutive delays."""
        return counted.ipdv

    def drawn(
        self, distributions: Mapping[str, Distribution], name: str, where: str, frames: str
    ) -> tuple[str, str]:
        """How often each difference occurs."""
        caption = f"Differences of consecutive delays, {where}; pairs: {frames}."
        return delays.variation_figure(distributions, name), caption


def _lowered(record: DelayRecord) -> Iterator[str]:
    """That the rate is not the throughput."""
    if record.lowered:
        yield (
            f"{record.point}: at {record.share_of_rate:.0%} of the {record.rate_source}, not at it as "
            "RFC 8219 section 7 asks: there the tester could not carry out its trials"
        )


def _merged(
    data: RunData,
    record: DelayRecord,
    distributions: Callable[[DirectionResult], Mapping[str, Distribution] | None],
) -> dict[str, Distribution]:
    """Delays (or their differences) of all valid trials of a record, by direction."""
    by_direction: dict[str, list[Distribution]] = {}
    for trial in data.counted([record]):
        for way, counted in trial.result.directions.items():
            by_direction.setdefault(way, []).extend((distributions(counted) or {}).values())
    whole = {way: Distribution((), ()).merge(*parts) for way, parts in by_direction.items()}
    return {way: one for way, one in whole.items() if one.values_ns}
