"""Frame loss rate: RFC 2544 section 26.3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from v6t.analysis.blocks import Drawing
from v6t.analysis.figures.canvas import CYCLE
from v6t.analysis.marks import offered
from v6t.analysis.presentation import (
    MAX_LINES,
    Clause,
    Headline,
    Presentation,
    Quantity,
    clause,
    split_batches,
    split_lines,
)
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import INVALID, UNDEFINED, Sheet, sheet
from v6t.benchmarks.presentations.common import (
    POINT,
    at,
    counted_cells,
    counted_column,
    long_enough,
    repeated,
)
from v6t.benchmarks.presentations.loss_figures import forwarded_curve, loss_curve
from v6t.benchmarks.records.loss import FrameLossRecord, LossAtRate


class FrameLossPresentation(Presentation[FrameLossRecord]):
    """Lost frames against the offered rate."""

    name = "frame-loss"
    title = "Frame loss rate"
    record = FrameLossRecord

    def sheet(self, records: Sequence[FrameLossRecord]) -> Sheet:
        """Raw values, input rate as a share of the maximum (FLR-07)."""
        names = [
            *(*POINT, "% of the\nmedium", "fps per\ndirection"),
            *("loss %\nmedian", "P1", "P99", "trials"),
        ]
        counted = counted_column(records)
        names += counted
        rows = []
        for record in records:
            for row in record.rates:
                for way, lost in row.loss_percent.items():
                    values = (lost.median, lost.p1, lost.p99)
                    rows.append(
                        [
                            *at(record, way),
                            *(f"{row.media_percent:.2f}", offered(record, row.rate)),
                            *(self.shown(v) if row.valid else INVALID for v in values),
                            str(row.trials),
                            *counted_cells(record, counted),
                        ]
                    )
        return sheet(records[0].title, names, rows)

    def tables(self, records: Sequence[FrameLossRecord]) -> Iterator[Sheet]:
        """The losses, then how they divide between foreground and background (MIX-06)."""
        yield self.sheet(records)
        mixed = [(record, row) for record in records for row in record.rates if row.by_role]
        if mixed:
            yield self._divided(mixed)

    def _divided(self, rows: Sequence[tuple[FrameLossRecord, LossAtRate]]) -> Sheet:
        names = [
            *(*POINT, "fps per\ndirection", "foreground\nlost %", "background\nlost %"),
            "background through\nover foreground through",
        ]
        return sheet(
            "How loss divides between foreground and background",
            names,
            [
                [
                    *at(record, record.direction),
                    offered(record, row.rate),
                    *(
                        self.shown(row.by_role[role].median)
                        for role in ("foreground", "background")
                    ),
                    UNDEFINED if row.fairness is None else f"{row.fairness:.4f}",
                ]
                for record, row in rows
            ],
        )

    def figures(self, data: RunData, records: Sequence[FrameLossRecord]) -> Iterator[Drawing]:
        """Loss, and what was forwarded, against what was offered."""
        for part, some in enumerate(_readable(records)):
            points = "; ".join(f"{r.sizes} {r.direction}" for r in some) + "."
            name = f"-{part}" if part else ""
            yield Drawing(
                loss_curve(some, f"{self.name}-curve{name}"),
                "Frame loss against the offered rate as a share of the medium's maximum for the "
                "frame size: median, bars from P1 to P99; of both directions together where both "
                "were loaded.",
                "Frame loss curve: " + points,
            )
            yield Drawing(
                forwarded_curve(some, f"{self.name}-forwarded{name}"),
                "Frames forwarded against frames offered, per second and all directions together: "
                "a flat line beyond the knee is a device that stays stable under overload.",
                "Forwarded against offered frames per second: " + points,
            )

    def overlays(
        self,
        rows: Sequence[tuple[tuple[str, ...], FrameLossRecord]],
        name: str,
        line_rate_bps: float,
    ) -> Iterator[Drawing]:
        """Yield loss curves of all runs together."""
        del line_rate_bps
        every = [record for records in split_lines(rows) for record in records]
        caption = f"{rows[0][1].title} against the offered rate: median, bars from P1 to P99."
        for number, records in enumerate(split_batches(every, MAX_LINES)):
            yield Drawing(loss_curve(records, f"{name}-loss-{number}"), caption, caption)

    def quantities(self, record: FrameLossRecord) -> Iterator[Quantity]:
        """The loss at every rate."""
        for row in record.rates:
            what = f"loss at {row.media_percent:.2f} % of the medium"
            yield Quantity(what, "%", _losses(row), False, share=True,
                           limited=row.rate in record.above_usable)  # fmt: skip

    def headlines(self, record: FrameLossRecord) -> Iterator[Headline]:
        """The loss at every rate."""
        for row in record.rates:
            yield Headline(f"loss at {row.rate:,.0f} fps", row.loss.median, row.loss.p1,
                           row.loss.p99, row.rate in record.above_usable)  # fmt: skip

    def shown(self, value: float | None) -> str:
        """Per cent."""
        return UNDEFINED if value is None else f"{value:.4f}"

    def clauses(self, data: RunData) -> Iterator[Clause]:
        """Rates, length, repetitions."""
        records = self.measured(data)
        right = [_descends(r) for r in records]
        yield clause("RFC 2544 section 26.3 (FLR-02)",
                     "from the medium's maximum down, steps of at most 10 %, until two successive "
                     "trials without loss",
                     f"so in {sum(right)} of {len(right)} results",
                     all(right) if right else None)  # fmt: skip
        yield long_enough(self.name, data, records)
        yield repeated(self.name, records)


class LossTimeoutPresentation(FrameLossPresentation):
    """The same with a deadline for every frame."""

    name = "frame-loss-frame-timeout"
    title = "Frame loss rate with per-frame timeout"


def _descends(record: FrameLossRecord) -> bool:
    """Whether rates began at the medium's maximum and fell as RFC 2544 section 26.3 says."""
    shares = [row.media_percent for row in record.rates]
    steps = [high - low for high, low in pairwise([*shares, 0.0])]
    last = record.rates[-2:]
    ended = len(last) == 2 and not any(map(any, map(_losses, last)))
    return (
        bool(shares)
        and shares[0] >= 99.99
        and max(steps[:-1], default=0.0) <= 10.01
        and (ended or steps[-1] <= 10.01)
    )


def _losses(row: LossAtRate) -> list[float]:
    """Lost share of each trial, of both directions together [%]."""
    required = zip(*(way.required for way in row.frames.values()), strict=True)
    received = zip(*(way.received for way in row.frames.values()), strict=True)
    return [
        100 * (1 - sum(came) / sum(due))
        for due, came in zip(required, received, strict=True)
        if sum(due)
    ]


def _readable(records: Sequence[FrameLossRecord]) -> Iterator[Sequence[FrameLossRecord]]:
    """As many lines as a figure tells apart; more in further figures, a direction each."""
    if len(records) <= len(CYCLE):
        yield records
        return
    for mode in dict.fromkeys(r.direction for r in records):
        here = [r for r in records if r.direction == mode]
        for first in range(0, len(here), len(CYCLE)):
            yield here[first : first + len(CYCLE)]
