"""Soak tests: loss over hours; critical loads: where random loss reaches a share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from v6t.analysis.blocks import Drawing
from v6t.analysis.figures.canvas import (
    BLACK,
    BLUE,
    VERMILLION,
    axes,
    drawing,
    legend,
    look,
    svg,
    thousands,
)
from v6t.analysis.marks import marked, offered
from v6t.analysis.presentation import Card, Clause, Headline, Presentation, Quantity, clause
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import UNDEFINED, Sheet, count, percent, seconds, sheet
from v6t.benchmarks.presentations.common import POINT, at
from v6t.benchmarks.records.soak import CriticalLoadRecord, SoakRecord
from v6t.trials.intervals import split_into_intervals

HOUR_S = 3600.0


class SoakPresentation(Presentation[SoakRecord]):
    """Loss over hours."""

    name = "soak"
    title = "Soak test"
    record: ClassVar[type[SoakRecord]] = SoakRecord

    def sheet(self, records: Sequence[SoakRecord]) -> Sheet:
        """A row for each direction."""
        names = [
            *(*POINT, "offered fps\nper direction", "traffic s", "frames", "lost", "lost %"),
            *("intervals\nwith loss", "episodes", "longest s\nwithout", "worst\ninterval %"),
            *("1st half %", "2nd half %"),
        ]
        rows = [
            [
                *(
                    *at(r, way),
                    offered(r, r.rate),
                    count(r.measured_s),
                    count(d.frames),
                    count(d.lost),
                ),
                *(_share(d.loss_percent), f"{d.lossy} of {d.intervals}", str(d.episodes)),
                *(seconds(d.longest_s), _share(d.worst_percent), *map(_share, d.halves_percent)),
            ]
            for r in records
            for way, d in r.directions.items()
        ]
        return sheet(records[0].title, names, rows)

    def figures(self, data: RunData, records: Sequence[SoakRecord]) -> Iterator[Drawing]:
        """Lost share against time, from the trials themselves."""
        for record in records:
            name = f"{self.name}-{record.frame_sizes.key}-{record.direction}"
            with drawing(name):
                figure, (panel,) = axes(height=3.2)
                for number, way in enumerate(record.directions):
                    points = list(_over_time(data, record, way))
                    panel.plot([t / HOUR_S for t, _ in points], [p for _, p in points],
                               linewidth=0.9, color=look(number).color, label=way)  # fmt: skip
                for number, trial in enumerate(data.of(record)):
                    if any(trial.key == t.key for t in record.invalid_trials):
                        begin = number * record.stretch_s
                        panel.axvspan(begin / HOUR_S, (begin + record.stretch_s) / HOUR_S,
                                      color="#dddddd")  # fmt: skip
                panel.set_xlabel("hours of traffic")
                panel.set_ylabel("lost frames, %")
                panel.set_ylim(bottom=0)
                legend(panel)
                what = (
                    f"Loss over {record.measured_s:,.0f} s at {record.rate:,.0f} fps per direction, "
                    f"{record.point}; grey: the tester faltered, nothing is known."
                )
                yield Drawing(svg(figure, name), what, what)

    def quantities(self, record: SoakRecord) -> Iterator[Quantity]:
        """The lost share of each direction."""
        for way, direction in record.directions.items():
            yield Quantity(f"lost {way}", "%", [direction.loss_percent], False,
                           at=f"{record.rate:,.0f} fps")  # fmt: skip

    def headlines(self, record: SoakRecord) -> Iterator[Headline]:
        """The same."""
        for way, direction in record.directions.items():
            yield Headline(f"soak, lost % {way}", direction.loss_percent, None, None)

    def shown(self, value: float | None) -> str:
        """Small shares."""
        return _share(value)

    def remarks(self, record: SoakRecord) -> Iterator[str]:
        """Stretches without a result, and loss that grows."""
        if record.faltered:
            yield (
                f"the tester faltered in {record.faltered} of {record.stretches} stretches: nothing "
                "is known of them"
            )
        for way, direction in record.directions.items():
            first, second = direction.halves_percent
            if second and second > 2 * (first or 0.0) and direction.lost > 10:
                yield f"{way}: more than twice as much was lost in the second half as in the first"

    def clauses(self, data: RunData) -> Iterator[Clause]:
        """That there is a number for each second."""
        records = self.measured(data)
        whole = all(not r.faltered for r in records)
        yield clause("v6t, soak test", "every stretch is measured, none is left out",
                     f"{sum(r.faltered for r in records)} of {sum(r.stretches for r in records)} "
                     "without a result", whole if records else None)  # fmt: skip


def _over_time(data: RunData, record: SoakRecord, way: str) -> Iterator[tuple[float, float]]:
    invalid = {t.key for t in record.invalid_trials}
    for number, trial in enumerate(data.of(record)):
        begins_s = number * record.stretch_s
        counted = trial.result.directions.get(way)
        if trial.key in invalid or counted is None:
            yield begins_s, float("nan")
            continue
        for part in split_into_intervals(counted, begins_s, record.stretch_s):
            if part.frames:
                yield part.begins_s, 100 * part.lost / part.frames


def _share(value: float | None) -> str:
    return percent(value) if not value or value >= 0.1 else f"{value:.2g}"


class CriticalLoadPresentation(Presentation[CriticalLoadRecord]):
    """Where random loss reaches a share."""

    name = "critical-load"
    title = "Critical load"
    record: ClassVar[type[CriticalLoadRecord]] = CriticalLoadRecord

    def sheet(self, records: Sequence[CriticalLoadRecord]) -> Sheet:
        """The estimate with its interval."""
        names = [
            *(*POINT, "target\nloss %", "critical load\nfps per direction", "95 % interval"),
            *("deviation", "stretch", "erf", "traffic s", "trials", "without\nloss", "bound fps"),
        ]
        rows = [
            [
                *(*at(r), f"{r.target_percent:g}", marked(count(_estimate(r)), r.limited)),
                *(_interval(r), count(r.critical_load.deviation if r.critical_load else None)),
                *(
                    count(r.shapes[s].mean) if r.critical_load and s in r.shapes else "-"
                    for s in ("stretch", "erf")
                ),
                *(count(r.searched_s), str(len(r.trials) - len(r.invalid_trials))),
                *(str(r.lossless), f"{r.upper_bound:,.0f} {r.upper_bound_reason}"),
            ]
            for r in records
        ]
        return sheet(self.title, names, rows)

    def definition(self, records: Sequence[CriticalLoadRecord]) -> str:
        """What it is."""
        return (
            "Critical load: the rate per direction at which the target share of the frames of all "
            "directions together is lost on average, by Bayesian inference from the loss counts of "
            "all trials (PLRsearch, draft-vpolak-bmwg-plrsearch-03)."
        )

    def figures(self, data: RunData, records: Sequence[CriticalLoadRecord]) -> Iterator[Drawing]:
        """Lost share of each trial against its load, with the estimate."""
        for record in records:
            name = f"{self.name}-{record.frame_sizes.key}-{record.direction}"
            with drawing(name):
                figure, (panel,) = axes(height=3.4)
                trials = data.counted([record])
                loads, shares = [], []
                for trial in trials:
                    ways = trial.result.directions.values()
                    frames = sum(w.count_frames("required") for w in ways)
                    loads.append(float(trial.asked["rate_fps"]))
                    shares.append(
                        100 * (1 - sum(w.count_frames("received") for w in ways) / frames)
                    )
                panel.plot(loads, shares, linestyle="", marker="o", markersize=4, color=BLUE,
                           label="trial")  # fmt: skip
                panel.axhline(record.target_percent, color=BLACK, linestyle=":", label="target")
                load = record.critical_load
                if load:
                    panel.axvline(load.estimate, color=VERMILLION, label="critical load")
                    panel.axvspan(load.low, load.high, color=VERMILLION, alpha=0.2)
                panel.set_xlabel("offered, frames per second per direction")
                panel.set_ylabel("lost frames, %")
                panel.set_yscale("symlog", linthresh=max(record.target_percent, 1e-6))
                thousands(panel, "x")
                legend(panel)
                where = (
                    f"{load.estimate:,.0f} fps, within {load.low:,.0f} and {load.high:,.0f} (95 %)"
                    if load
                    else _above(record)
                )
                what = (
                    f"Lost share of each trial against its load, {record.point}: the critical load at "
                    f"{record.target_percent:g} % is {where}."
                )
                yield Drawing(svg(figure, name), what, what)

    def quantities(self, record: CriticalLoadRecord) -> Iterator[Quantity]:
        """The estimate."""
        deviation = record.critical_load.deviation if record.critical_load else 0.0
        yield Quantity("critical load", "fps", [_estimate(record)], True, resolution=deviation,
                       limited=record.limited, at=f"{record.target_percent:g} % loss")  # fmt: skip

    def headlines(self, record: CriticalLoadRecord) -> Iterator[Headline]:
        """The estimate and its interval."""
        load = record.critical_load
        low, high = (load.low, load.high) if load else (None, None)
        yield Headline(self.name, _estimate(record), low, high)

    def cards(self, record: CriticalLoadRecord) -> Iterator[Card]:
        """The estimate."""
        beyond = "" if record.critical_load else f": {_above(record)}"
        limit = " - limited by the tester or the medium" if record.limited else ""
        yield Card(marked(count(_estimate(record)), record.limited), "fps per direction",
                   f"critical load at {record.target_percent:g} % loss, {record.point}{beyond}{limit}",
                   )  # fmt: skip

    def remarks(self, record: CriticalLoadRecord) -> Iterator[str]:
        """Where the model does not fit, or too little was seen."""
        if record.critical_load is None:
            seen = "too few frames were lost" if record.lossy else "no trial lost frames"
            yield f"{seen}: the critical load is {_above(record)}"
        elif record.critical_load.estimate < record.lowest:
            yield "the critical load is below all that was offered: it is extrapolated"

    def clauses(self, data: RunData) -> Iterator[Clause]:
        """How long was searched."""
        records = self.measured(data)
        least = min((r.searched_s for r in records), default=0)
        yield clause("draft-vpolak-bmwg-plrsearch-03 (CSIT's setting)", "trials of 1,800 s together",
                     f"{least:,.0f} s", least >= 0.95 * 1800 if records else None)  # fmt: skip


def _estimate(record: CriticalLoadRecord) -> float | None:
    return record.critical_load.estimate if record.critical_load else None


def _interval(record: CriticalLoadRecord) -> str:
    load = record.critical_load
    return f"{load.low:,.0f} to {load.high:,.0f}" if load else UNDEFINED


def _above(record: CriticalLoadRecord) -> str:
    """Where a critical load is that was not found."""
    most = record.upper_bound if record.highest is None else record.highest
    return f"above {most:,.0f} fps, all that was offered"
