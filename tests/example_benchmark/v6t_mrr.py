"""Maximum receive rate (MRR), as FD.io's CSIT defines it: what arrives at the highest rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field
from v6t.analysis.blocks import Drawing
from v6t.analysis.figures.canvas import axes, drawing, legend, look, svg, thousands
from v6t.analysis.presentation import Clause, Result, clause
from v6t.analysis.record import FPS, Figure, Number, Record, Series, head
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import Column, count, percent
from v6t.analysis.statistics import summary_json
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import Benchmark
from v6t.benchmarks.common import POINT, Line, lines_by_direction
from v6t.benchmarks.point import Measured, Point
from v6t.procedures.trial_runner import TrialRunner
from v6t.trials.trial import list_directions
from v6t.trials.verdict import Attempt

if TYPE_CHECKING:
    from v6t.benchmarks.context import RunContext


class MrrSettings(StrictModel):
    """Maximum receive rate (MRR)."""

    duration_s: float = Field(default=1.0, ge=0.001, le=86_400)
    """Length of each trial [s]."""
    trials: int = Field(default=10, ge=1, le=1000)
    """Times the rate is offered."""


class MrrRecord(Record):
    """What arrived at the highest rate, whatever was lost."""

    unit: Literal["frames per second"] = FPS
    """of the rates"""
    rate: Number
    """offered [frames per second per direction]"""
    rate_reason: str
    """`media` or `tester`, whichever allows no more"""
    duration_s: Number
    """length of each trial [s]"""
    directions: Mapping[str, Figure]
    """what arrived in each direction [frames per second]"""

    @property
    def offered(self) -> Sequence[float]:
        """The tester's self-test may not cover this rate."""
        return [self.rate]

    def series(self) -> Iterator[tuple[str, Series, str]]:
        """What means may stand beside, where a run asks for them."""
        yield from ((f"{way} ", found, "fps") for way, found in self.directions.items())


def _share(line: Line) -> str:
    median = line.value.median
    return percent(None if median is None else 100 * median / line.record.rate)


class Mrr(Benchmark[MrrRecord, MrrSettings]):
    """The maximum receive rate."""

    name = "mrr"
    title = "Maximum receive rate (MRR)"
    summary = "What arrives, frame by second, at the highest rate that tester and medium carry."
    order = 60
    section = "mrr"
    model = MrrSettings
    quick = MrrSettings(duration_s=0.5, trials=3)
    record = MrrRecord

    def caveats(self, bound: RunContext) -> Iterator[str]:
        """It is easily taken for a throughput."""
        del bound
        yield "mrr counts what arrives at full load, whatever is lost: it is no throughput"

    def run(self, point: Point) -> Measured:
        """Offer the highest rate, as often as asked, and count."""
        own, conditions = self.own(point.bound), point.conditions()
        rate_fps = point.limit_fps
        attempts: list[Attempt] = []
        received: dict[str, list[float]] = {way: [] for way in list_directions(point.mode)}
        for number in range(1, own.trials + 1):
            trials = TrialRunner(
                *(conditions, conditions.make_key_prefix(self.name), point.measure, point.watch),
                *(number, own.trials),
            )
            trial = conditions.make_trial(self.name, rate_fps, own.duration_s)
            outcome = trials.run(trial)
            attempts += trials.all
            if outcome.verdict.valid:  # else the tester faltered every time
                for way, rates in received.items():
                    frames = outcome.result.directions[way].count_frames("received")
                    rates.append(frames / own.duration_s)
        counted = len(received[list_directions(point.mode)[0]])
        record = MrrRecord(
            **head(conditions, self.name, self.title, attempts, point.said),
            repetitions=counted,
            not_measured=None if counted else "the tester could not offer the rate in any trial",
            rate=rate_fps,
            rate_reason=point.limit_reason,
            duration_s=own.duration_s,
            directions={
                way: Figure(**summary_json(rates), values=rates) for way, rates in received.items()
            },
        )
        rows: list[dict[str, Any]] = [
            {
                "No": number,
                "Size": point.sizes.ipv6,
                "Dir": point.mode[0],
                "direction": way,
                "offered": rate_fps,
                "received": rate,
            }
            for way, rates in received.items()
            for number, rate in enumerate(rates, 1)
        ]
        return Measured(record, rows)

    columns = (
        *POINT,
        Column("offered fps\nper direction", lambda line: count(line.record.rate)),
        Column("MRR fps", lambda line: count(line.value.median)),
        Column("min", lambda line: count(line.value.min)),
        Column("max", lambda line: count(line.value.max)),
        Column("of the\noffered %", _share),
    )

    def rows(self, records: Sequence[MrrRecord]) -> list[Line]:
        """Return a row for each stream."""
        return lines_by_direction(records)

    def figures(self, data: RunData, records: Sequence[MrrRecord]) -> Iterator[Drawing]:
        """Received against offered."""
        del data
        with drawing("mrr"):
            figure, (panel,) = axes()
            labels = [f"{r.sizes}\n{r.direction}" for r in records]
            for number, way in enumerate(dict.fromkeys(w for r in records for w in r.directions)):
                here = [(i, r.directions[way].median) for i, r in enumerate(records)
                        if way in r.directions]  # fmt: skip
                panel.plot(*zip(*here, strict=True), color=look(number).color,
                           marker=look(number).marker, linestyle="", label=way)  # fmt: skip
            panel.plot(range(len(records)), [r.rate for r in records], color="black", marker="_",
                       markersize=18, linestyle="", label="offered")  # fmt: skip
            panel.set_xticks(range(len(records)), labels)
            panel.set_ylabel("frames per second, per direction")
            panel.set_ylim(bottom=0)
            thousands(panel)
            legend(panel)
            what = "Maximum receive rate by frame size and mode, with the rate that was offered."
            yield Drawing(svg(figure, "mrr"), what, what)

    def results(self, record: MrrRecord) -> Iterator[Result]:
        """Yield what two runs are compared in, and what a campaign's summary holds."""
        for way, found in record.directions.items():
            name = f"MRR {way}"
            load = f"{record.rate:,.0f} fps"
            yield Result(name, "fps", found.values, at=load, headline=name, summary=found)

    def clauses(self, data: RunData) -> Iterator[Clause]:
        """What its definition asks for, and what this run did."""
        records = self.measured(data)
        at_media = all(r.rate_reason == "media" for r in records)
        yield clause("CSIT, MRR", "the maximum load is the medium's rate",
                     "the medium's rate" if at_media else "the tester's own maximum",
                     at_media if records else None)  # fmt: skip
        fewest = min((r.repetitions for r in records), default=0)
        lengths = [t.asked["duration_s"] for t in data.counted(records)]
        yield clause("CSIT, MRR", "10 trials of 1 s",
                     f"{fewest} of {min(lengths, default=0):g} s",
                     fewest >= 10 and min(lengths) >= 1 if lengths else None)  # fmt: skip
