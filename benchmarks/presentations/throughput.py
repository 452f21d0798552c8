"""Throughput: RFC 2544 section 26.1 with the summary of RFC 8219 section 12."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

from v6t.analysis.blocks import Drawing
from v6t.analysis.figures import rates
from v6t.analysis.marks import marked
from v6t.analysis.presentation import (
    Card,
    Clause,
    Headline,
    Presentation,
    Quantity,
    clause,
    split_lines,
)
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import UNDEFINED, Sheet, count, medium_fps, percent, sheet
from v6t.benchmarks.presentations.common import (
    POINT,
    TRIAL_S,
    at,
    at_least,
    counted_cells,
    counted_column,
    interval,
    matched,
    repeated,
)
from v6t.benchmarks.presentations.goals import said_of
from v6t.benchmarks.records.throughput import ThroughputRecord
from v6t.trials.trial import Trial
from v6t.trials.verdict import assess_trial

MOST_STEPS = 2000
"""Trials that a search trace still shows one by one."""

_SEARCHES = {
    "binary": "binary search",
    "mlrsearch": "MLRsearch with the RFC 2544 goal",
}
_PLAIN = (
    *("benchmark", "key", "ipv6_frame_size", "ipv4_frame_size", "mode", "rate_fps", "duration_s"),
    *("residual_wait_s", "pause_s"),
)


class ThroughputPresentation(Presentation[ThroughputRecord]):
    """The highest rate without loss."""

    name = "throughput"
    title = "Throughput"
    record = ThroughputRecord
    metrics: ClassVar = {"throughput": "", "tester capacity": ""}

    def sheet(self, records: Sequence[ThroughputRecord]) -> Sheet:
        """One row per point (TP-08)."""
        names = [
            *(*POINT, "median fps\nper direction", "P1", "P99"),
            *("+95 % interval\nof the median", "+dispersion\n%", "aggregate\nfps", "loss"),
            *("frames\nmatched", "+repetitions", "+search\nends within"),
            *("+bound of\nthe search", "+its\nreason"),
        ]
        counted = counted_column(records)
        names += counted
        rows = []
        for r in records:
            losses = [v for v in r.loss.values() if v is not None]
            rows.append(
                [
                    *(*at(r), marked(count(r.median), r.limited), count(r.p1), count(r.p99)),
                    interval(r.median_interval),
                    percent(r.dispersion),
                    _aggregate(r),
                    f"{max(losses):.4%}" if losses else UNDEFINED,
                    matched(r.matched),
                    *(str(r.repetitions), count(r.resolution_fps)),
                    *(count(r.upper_bound), r.upper_bound_reason),
                    *counted_cells(r, counted),
                ]
            )
        return sheet(records[0].title, names, rows)

    def lead(self, data: RunData, records: Sequence[ThroughputRecord]) -> Iterator[Drawing]:
        """Rates against frame sizes."""
        line_rate = data.config["line_rate_bps"]
        media = {r.sizes: medium_fps(r, line_rate) for r in records}
        summary = "; ".join(
            f"{r.sizes} {r.direction}: {r.median:,.0f} of {media[r.sizes]:,.0f}" for r in records
        )
        yield Drawing(
            rates.rate_by_size(records, f"{self.name}-sizes", media),
            "Frame rate against frame size: median of the repetitions, bars from P1 to P99, the "
            "theoretical maximum of the medium for the larger frame, and what the tester "
            "itself carries in loopback. Frames per second per direction.",
            f"{self.title} by frame size, frames per second per direction. {summary}.",
        )

    def overlays(
        self,
        rows: Sequence[tuple[tuple[str, ...], ThroughputRecord]],
        name: str,
        line_rate_bps: float,
    ) -> Iterator[Drawing]:
        """Yield rates against frame sizes where there are several, else a point for each record."""
        if len({record.sizes for _, record in rows}) < 2:
            yield from super().overlays(rows, name, line_rate_bps)
            return
        title = rows[0][1].title
        media = {record.sizes: medium_fps(record, line_rate_bps) for _, record in rows}
        for number, records in enumerate(split_lines(rows)):
            caption = (
                f"{title} against frame size: median, bars from P1 to P99, and the "
                "theoretical maximum of the medium for the larger frame."
            )
            drawn = rates.rate_by_size(records, f"{name}-sizes-{number}", media)
            yield Drawing(drawn, caption, caption)

    def traces(self, data: RunData, records: Sequence[ThroughputRecord]) -> Iterator[Drawing]:
        """Of each point the search and the repetitions."""
        for r in records:
            name = f"{self.name}-{r.frame_sizes.key}-{r.direction}"
            steps = _steps(data, r)
            if steps:
                yield Drawing(
                    rates.search_trace(steps, r.median, f"{name}-trace"),
                    f"Search trace, {r.point}: every trial of the point in order, {len(steps)} "
                    "trials" + ("" if len(steps) < MOST_STEPS else " (the first ones)") + ".",
                    f"Search trace of {r.point}: {len(steps)} trials, median "
                    f"{r.median:,.0f} frames per second per direction.",
                )
            if len(r.rates) > 2:
                yield Drawing(
                    rates.repetitions(r, f"{name}-repetitions"),
                    f"Repetitions, {r.point}.",
                    f"Rates of {len(r.rates)} repetitions of {r.point}.",
                )

    def quantities(self, record: ThroughputRecord) -> Iterator[Quantity]:
        """The rate."""
        yield Quantity("rate", "fps", record.rates, True, record.resolution_fps, record.limited)

    def headlines(self, record: ThroughputRecord) -> Iterator[Headline]:
        """The rate."""
        yield Headline(self.name, record.median, record.p1, record.p99)

    def cards(self, record: ThroughputRecord) -> Iterator[Card]:
        """The rate."""
        limit = " - limited by the tester or the medium" if record.limited else ""
        what = f"{record.title}, {record.point}, median of {record.repetitions}{limit}"
        yield Card(marked(count(record.median), record.limited), "frames/s per direction", what)

    def remarks(self, record: ThroughputRecord) -> Iterator[str]:
        """What is odd about the search, and MLRsearch's goal."""
        if record.goal:
            yield from said_of(record.goal)
            yield (
                f"relevant upper bound {count(record.goal.upper_bounds.median)} fps, conditional "
                f"throughput {count(record.goal.conditional_throughput.median)} fps (medians)"
            )
        if record.non_monotonic:
            yield "a rate passed above one that failed (TP-04)"
        if record.unresolved:
            yield (
                f"{record.unresolved} searches gave up before their bracket was as narrow as asked"
            )

    def clauses(self, data: RunData) -> Iterator[Clause]:
        """Length, repetitions, search, and the tester's own limit."""
        p, records = data.procedure, self.measured(data)
        decisive = {key for r in records for key in r.decisive_trials}
        deciding = [t for t in data.counted(records) if t.key in decisive]
        yield clause(f"RFC 2544 section 24 (GEN-16), {self.name}", "every result held for 60 s",
                     *at_least(TRIAL_S, (t.asked["duration_s"] for t in deciding)))  # fmt: skip
        yield repeated(self.name, records)
        lost = sum(
            count.required > count.received
            for t in deciding
            for way in t.result.directions.values()
            for count in way.classes.values()
            if count.role != "negative"
        )
        tolerated = max((r.loss_tolerance for r in records), default=0.0)
        yield clause(f"RFC 2544 section 26.1 (GEN-22), {self.name}", "no frame may be lost",
                     f"frames lost in {lost} classes of {len(deciding)} deciding trials"
                     + (f", {tolerated:.4%} tolerated" if tolerated else ""),
                     not lost and not tolerated if deciding else None)  # fmt: skip
        if records:
            given_up = sum(r.unresolved for r in records)
            yield clause("RFC 2544 section 26.1 (TP-02)",
                         "the highest rate without loss, by any search",
                         _SEARCHES[p["search"]] + (f"; {given_up} gave up" if given_up else ""),
                         not given_up)  # fmt: skip
        if records:
            known = any(r.tester_ceiling for r in records)
            limited = sum(r.tester_limited for r in records)
            yield clause("RFC 8219 section 4 (SELF-01, SELF-02)", "the tester is not the bottleneck",
                         f"{limited} of {len(records)} points above the margin of its own capacity"
                         if known else "its capacity is not known",
                         not limited if known else None)  # fmt: skip


def _aggregate(record: ThroughputRecord) -> str:
    if record.direction != "bidirectional":
        return "-"
    return marked(count(record.aggregate_median), record.limited)


class FrameTimeoutPresentation(ThroughputPresentation):
    """The same with a deadline for every frame."""

    name = "throughput-frame-timeout"
    title = "Throughput with per-frame timeout"
    metrics: ClassVar = {"throughput with timeout": ""}

    def lead(self, data: RunData, records: Sequence[ThroughputRecord]) -> Iterator[Drawing]:
        """The report begins with rates that the RFC calls throughput."""
        del data, records
        yield from ()

    def figures(self, data: RunData, records: Sequence[ThroughputRecord]) -> Iterator[Drawing]:
        """Rates against frame sizes."""
        yield from super().lead(data, records)


def _steps(data: RunData, record: ThroughputRecord) -> list[rates.Step]:
    """The trials of a search with how they ended, judged as the procedure judged them."""
    steps = []
    for number, trial in enumerate(data.of(record), 1):
        if number > MOST_STEPS:
            break
        repetition = re.search(r"/r(\d+)/", trial.key)
        verdict = assess_trial(
            Trial(**{k: trial.asked[k] for k in _PLAIN}),
            trial.result,
            loss_tolerance=record.loss_tolerance,
            sending_time_tolerance=record.sending_time_tolerance,
        )
        outcome = "passed" if verdict.passed else "failed" if verdict.valid else "invalid"
        steps.append(
            rates.Step(
                int(repetition[1]) if repetition else 0, number, trial.asked["rate_fps"], outcome
            )
        )
    return steps
