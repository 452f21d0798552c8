"""System recovery (RFC 2544 section 26.5) and reset (RFC 6201): times without forwarding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from v6t.analysis.presentation import Clause, Presentation, Quantity, clause
from v6t.analysis.presentations.common import POINT, TRIAL_S, at
from v6t.analysis.records.outages import OutageRecord, RecoveryRecord, ResetRecord
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import Sheet, count, seconds, sheet


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
                *(*at(record, way), count(record.offered[0])),
                *(seconds(v) for v in (found.average, found.median, found.min, found.max)),
                str(record.repetitions),
            ]
            for record in records
            for way, found in record.directions.items()
        ]
        return sheet(records[0].title, names, rows)

    def quantities(self, record: OutageRecord) -> Iterator[Quantity]:
        """The time of each direction."""
        for way, found in record.directions.items():
            yield Quantity(f"recovery {way}", "s", found.values, False)


class RecoveryPresentation(OutagePresentation):
    """Recovery from an overload."""

    name = "system-recovery"
    title = "System recovery"
    record = RecoveryRecord

    def clauses(self, data: RunData) -> Iterator[Clause]:
        """The overload."""
        s = data.procedure["system_recovery"]
        yield clause("RFC 2544 section 26.5 (REC-01)", "overload for 60 s, then half the rate",
                     f"{s['overload_s']:g} s, then half for {s['afterwards_s']:g} s",
                     s["overload_s"] >= TRIAL_S)  # fmt: skip


class ResetPresentation(OutagePresentation):
    """Time without forwarding in a reset."""

    name = "reset"
    title = "Reset"
    record = ResetRecord

    def remarks(self, record: OutageRecord) -> Iterator[str]:
        """What became of the connections."""
        if isinstance(record, ResetRecord) and record.state_survived:
            kept, resets = sum(record.state_survived), len(record.state_survived)
            yield (
                f"the connections survived {kept} of {resets} resets (frames from outside alone "
                "make none anew)"
            )

    def clauses(self, data: RunData) -> Iterator[Clause]:
        """The hook."""
        s = data.procedure["reset"]
        yield clause("RFC 6201 section 4 (RST-01, RST-02)",
                     "reset under traffic, frame-loss method",
                     f"{s['hook']}, {s['repetitions']} times", None)  # fmt: skip
