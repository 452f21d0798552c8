"""Back-to-back frames: RFC 9004."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from v6t.analysis.marks import offered
from v6t.analysis.presentation import Card, Clause, Headline, Presentation, Quantity, clause
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import UNDEFINED, Sheet, count, sheet
from v6t.benchmarks.presentations.common import POINT, at, at_least, counted_cells, counted_column
from v6t.benchmarks.records.bursts import BurstRecord


class BurstPresentation(Presentation[BurstRecord]):
    """The longest burst without loss."""

    name = "back-to-back"
    title = "Back-to-back frames"
    record = BurstRecord

    def sheet(self, records: Sequence[BurstRecord]) -> Sheet:
        """RFC 9004 section 7: average, extremes and deviation, buffer times, the search (B2B-04)."""
        names = [
            *(*POINT, "average\nframes", "min", "max", "deviation"),
            *("repetitions", "+burst rate\nfps", "implied\nbuffer ms", "corrected\nbuffer ms"),
            *("step\nframes", "+longest\nsearched"),
        ]
        counted = counted_column(records)
        names += counted
        rows = [
            [
                *(*at(r), _tenths(r.average), count(r.min), count(r.max), _tenths(r.deviation)),
                *(str(r.repetitions), offered(r, r.burst_rate)),
                *(_buffer(r.implied_buffer_s), _buffer(r.corrected_buffer_s)),
                *(count(r.resolution_frames), count(r.longest_frames)),
                *counted_cells(r, counted),
            ]
            for r in records
        ]
        return sheet(records[0].title, names, rows)

    def tables(self, records: Sequence[BurstRecord]) -> Iterator[Sheet]:
        """The results, then what the search was told (RFC 9004 section 6.2)."""
        yield self.sheet(records)
        with_algorithm = [r for r in records if r.algorithm]  # earlier versions did not keep it
        if with_algorithm:
            yield _search(with_algorithm)

    def quantities(self, record: BurstRecord) -> Iterator[Quantity]:
        """The burst."""
        yield Quantity("burst", "frames", record.values, True, float(record.resolution_frames),
                       bool(record.hit_longest))  # fmt: skip

    def headlines(self, record: BurstRecord) -> Iterator[Headline]:
        """The burst."""
        yield Headline(self.name, record.median, record.p1, record.p99, bool(record.above_usable))

    def cards(self, record: BurstRecord) -> Iterator[Card]:
        """The average, which is the benchmark."""
        what = f"{record.title}, {record.point}, average of {record.repetitions}"
        yield Card(count(record.average), "frames", what)

    def remarks(self, record: BurstRecord) -> Iterator[str]:
        """What is missing or bounded."""
        if record.invalid_repetitions:
            yield (
                f"{record.invalid_repetitions} repetitions are left out, the tester could not send "
                "their bursts as asked"
            )
        if record.hit_longest:
            yield (
                "no burst lost anything, up to the longest of the search: the result is no limit of "
                "the device; repeat with a longer back_to_back.longest_s (RFC 9004 section 6.2)"
            )

    def clauses(self, data: RunData) -> Iterator[Clause]:
        """Number of searches, rate of the bursts."""
        records = self.measured(data)
        yield clause("RFC 9004 section 6.3 (B2B-01)", "average of at least 50 searches",
                     *at_least(50, (len(r.values) for r in records), "searches"))  # fmt: skip
        waits = (t.asked["residual_wait_s"] for t in data.counted(records))
        yield clause("RFC 9004 section 6.2 (B2B-01)", "2 s for a burst to drain",
                     *at_least(2.0, waits))  # fmt: skip
        complete = [r.algorithm != "" and r.verifications is not None for r in records]
        yield clause("RFC 9004 section 6.2 (B2B-02)", "the search of TST009, and its parameters",
                     ", ".join(dict.fromkeys(r.algorithm or "not kept" for r in records)) or "none yet",
                     all(complete) if complete else None)  # fmt: skip
        slower = any(r.burst_rate_reason == "tester" for r in records)
        yield clause("RFC 9004 section 6.1 (B2B-03)", "bursts at the medium's rate",
                     "at the tester's own maximum" if slower else "at the medium's rate",
                     not slower if records else None)  # fmt: skip


def _search(records: Sequence[BurstRecord]) -> Sheet:
    """Parameters of the search, a row for each point."""
    names = [
        *(*POINT, "<search", "shortest\nframes", "longest\nframes", "longest\ns", "step\nframes"),
        *("verifications", "loss\ntolerance", "repetitions", "wait\ns", "throughput\nfps"),
    ]
    rows = [
        [
            *(*at(r), r.algorithm, count(r.shortest_frames), count(r.longest_frames)),
            *(_plain(r.longest_s), count(r.resolution_frames), str(r.verifications)),
            *(_plain(r.loss_tolerance), str(r.repetitions), _plain(r.residual_wait_s)),
            count(r.throughput),
        ]
        for r in records
    ]
    return sheet("Search of the longest burst (ETSI GS NFV-TST 009 clause 12.3)", names, rows)


def _plain(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:g}"


def _tenths(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:,.1f}"


def _buffer(value_s: float | None) -> str:
    return UNDEFINED if value_s is None else f"{value_s * 1000:.3f}"
