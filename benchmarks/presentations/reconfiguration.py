"""Reconfiguration under traffic: blocked time by what was done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from v6t.analysis.marks import offered
from v6t.analysis.presentation import Headline, Presentation, Quantity
from v6t.analysis.sheet import Sheet, count, seconds, sheet
from v6t.benchmarks.presentations.common import POINT, at
from v6t.benchmarks.records.reconfiguration import ReconfigurationRecord
from v6t.trials.device_events import NO_CHANGE


class ReconfigurationPresentation(Presentation[ReconfigurationRecord]):
    """Blocked times."""

    name = "reconfiguration"
    title = "Reconfiguration under traffic"
    record: ClassVar[type[ReconfigurationRecord]] = ReconfigurationRecord

    def sheet(self, records: Sequence[ReconfigurationRecord]) -> Sheet:
        """A row for each change and direction."""
        names = [
            *(*POINT, "<done", "offered fps\nper direction", "blocked s\nmedian", "min", "max"),
            *("lost frames\nmost", "longest\nsilence s", "times"),
        ]
        rows = [
            [
                *(*at(r, way), change, offered(r, r.rate)),
                *(seconds(v) for v in (series.median, series.min, series.max)),
                count(max(series.lost)),
                seconds(max((s for s in series.silence if s is not None), default=None)),
                str(len(series.values)),
            ]
            for r in records
            for change, way, series in r.ordered
        ]
        return sheet(records[0].title, names, rows, [f"changed: {r.what}" for r in records[:1]])

    def definition(self, records: Sequence[ReconfigurationRecord]) -> str:
        """What it is."""
        return (
            "Blocked time: frames that were lost in a stream over its rate, while something else of "
            "the device was changed (FD.io CSIT's measure)."
        )

    def quantities(self, record: ReconfigurationRecord) -> Iterator[Quantity]:
        """The blocked time of each change and direction."""
        for change, way, series in record.ordered:
            yield Quantity(f"blocked, {change}, {way}", "s", series.values, False,
                           at=f"{record.rate:,.0f} fps")  # fmt: skip

    def headlines(self, record: ReconfigurationRecord) -> Iterator[Headline]:
        """The same."""
        for change, way, series in record.ordered:
            yield Headline(f"blocked s, {change} {way}", series.median, series.p1, series.p99)

    def shown(self, value: float | None) -> str:
        """Seconds."""
        return seconds(value)

    def remarks(self, record: ReconfigurationRecord) -> Iterator[str]:
        """Loss that comes without any change."""
        for way, series in record.changes.get(NO_CHANGE, {}).items():
            if any(series.lost):
                yield (
                    f"up to {max(series.lost):,} frames were lost {way} without any change: the rate is one "
                    "at which the device loses by itself"
                )
