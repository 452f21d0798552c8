"""System recovery (RFC 2544 section 26.5) and reset (RFC 6201): times without forwarding."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

from v6t.analysis.marks import offered
from v6t.analysis.presentation import Clause, Headline, Presentation, Quantity, clause
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import Sheet, seconds, sheet
from v6t.benchmarks.presentations.common import POINT, TRIAL_S, at, at_least
from v6t.benchmarks.records.outages import OutageRecord, RecoveryRecord, ResetRecord


class OutagePresentation(Presentation[OutageRecord]):
    """Times without forwarding."""

    record: ClassVar[type[OutageRecord]] = OutageRecord

    def sheet(self, records: Sequence[OutageRecord]) -> Sheet:
        """Average recovery time (REC-03, RST-02)."""
        names = [
            *(*POINT, "offered fps\nper direction", "average s"),
            *("median", "min", "max", "repetitions"),
        ]
        rows = [
            [
                *at(record, way),
                offered(record, record.offered[0]),
                *(seconds(v) for v in (series.average, series.median, series.min, series.max)),
                str(record.repetitions),
            ]
            for record in records
            for way, series in record.directions.items()
        ]
        return sheet(records[0].title, names, rows)

    def headlines(self, record: OutageRecord) -> Iterator[Headline]:
        """The time of each direction."""
        for way, series in record.directions.items():
            yield Headline(way, series.median, series.p1, series.p99)

    def shown(self, value: float | None) -> str:
        """Seconds."""
        return seconds(value)

    def quantities(self, record: OutageRecord) -> Iterator[Quantity]:
        """The time of each direction."""
        for way, series in record.directions.items():
            yield Quantity(f"recovery {way}", "s", series.values, False)


class RecoveryPresentation(OutagePresentation):
    """Recovery from an overload."""

    name = "system-recovery"
    title = "System recovery"
    record = RecoveryRecord

    def clauses(self, data: RunData) -> Iterator[Clause]:
        """The overload."""
        records = [r for r in self.measured(data) if isinstance(r, RecoveryRecord)]
        trials = [t.asked for t in data.counted(records)]
        yield clause("RFC 2544 section 26.5 (REC-01)", "an overload of 60 s",
                     *at_least(TRIAL_S, (a["duration_s"] for a in trials)))  # fmt: skip
        halves = [math.isclose(a["then"]["rate_fps"] * 2, a["rate_fps"]) for a in trials]
        yield clause("RFC 2544 section 26.5 (REC-01)", "then half of its rate",
                     f"half in {sum(halves)} of {len(halves)} trials",
                     all(halves) if halves else None)  # fmt: skip
        loaded = [
            math.isclose(t.asked["rate_fps"], 1.1 * r.throughput)
            for r in records
            for t in data.counted([r])
            if r.throughput
        ]
        yield clause("RFC 2544 section 26.5 (REC-01)", "an overload of 110 % of the throughput",
                     f"so much in {sum(loaded)} of {len(loaded)} trials",
                     all(loaded) if loaded else None)  # fmt: skip


class ResetPresentation(OutagePresentation):
    """Time without forwarding in a reset."""

    name = "reset"
    title = "Reset"
    record = ResetRecord

    def remarks(self, record: OutageRecord) -> Iterator[str]:
        """What became of the connections."""
        if isinstance(record, ResetRecord) and record.state_survived:
            survivals, resets = sum(record.state_survived), len(record.state_survived)
            yield (
                f"the connections survived {survivals} of {resets} resets (frames from outside alone "
                "make none anew)"
            )

    def clauses(self, data: RunData) -> Iterator[Clause]:
        """The hook."""
        records = self.measured(data)
        trials = [t.asked for t in data.counted(records)]
        under = [0 < (a["event"] or {"at_s": 0})["at_s"] < a["duration_s"] for a in trials]
        hooks = ", ".join(sorted({a["event"]["hook"] for a in trials if a["event"]}))
        yield clause("RFC 6201 section 4 (RST-01)", "the device is reset under traffic",
                     f"{hooks or 'no reset'}, in {sum(under)} of {len(under)} trials",
                     all(under) if under else None)  # fmt: skip
        yield clause("RFC 6201 section 1.4 (RST-02)", "several trials are averaged",
                     *at_least(2, (r.repetitions for r in records), "trials"))  # fmt: skip
