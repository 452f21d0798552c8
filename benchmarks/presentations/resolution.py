"""DNS resolution performance: RFC 8219 section 9.2 with its table of two dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from v6t.analysis.blocks import Drawing
from v6t.analysis.figures.canvas import axes, drawing, legend, look, svg, thousands
from v6t.analysis.marks import marked
from v6t.analysis.presentation import Card, Clause, Headline, Presentation, Quantity, clause
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import Sheet, count, percent, sheet
from v6t.benchmarks.presentations.common import REPETITIONS, TRIAL_S, at_least, interval
from v6t.benchmarks.records.resolution import Combination, ResolutionRecord, name_of
from v6t.trials.queries import MAX_QUERIES_PER_NAME

LONGEST_TIMEOUT_S = 1.0
SOURCE = "RFC 8219 section 9.2"


class ResolutionPresentation(Presentation[ResolutionRecord]):
    """Queries a second."""

    name = "resolution"
    title = "DNS resolution performance"
    record = ResolutionRecord
    metrics: ClassVar = {"DNS resolution performance": ""}

    def sheet(self, records: Sequence[ResolutionRecord]) -> Sheet:
        """A row for each combination."""
        names = [
            *("cached\n%", "own AAAA\n%", "median\nqueries/s", "P1", "P99"),
            *(
                "+95 % interval\nof the median",
                "+dispersion\n%",
                "AAAA asked\nfor each",
                "A asked\nfor each",
            ),
            *(
                "+found in\nthe cache %",
                "+answered\nafter us",
                "+self-test\ncovers",
                "+repetitions",
            ),
            "+search\nends within",
        ]
        rows = [
            [
                *(str(f.cached_percent), str(f.own_aaaa_percent)),
                *(_rate(f), count(f.p1), count(f.p99), interval(f.median_interval)),
                *(percent(f.dispersion), _each(f.asked_aaaa), _each(f.asked_a)),
                *(percent(f.cached_found_percent), count(f.response_us)),
                *(count(r.selftest.covered_qps), str(f.repetitions), count(r.resolution_qps)),
            ]
            for r in records
            for f in r.combinations
        ]
        notes = [f"{name_of(f)}: {f.refused}" for r in records for f in r.combinations if f.refused]
        return sheet(records[0].title, names, rows, notes)

    def tables(self, records: Sequence[ResolutionRecord]) -> Iterator[Sheet]:
        """The list, and for several combinations the table of section 9.2."""
        yield from super().tables(records)
        for r in records:
            if len(r.combinations) < 2:
                continue
            combinations = {(f.own_aaaa_percent, f.cached_percent): f for f in r.combinations}
            across = sorted({cached for _, cached in combinations})
            rows = [
                [f"{own} %", *(_cell(combinations.get((own, cached))) for cached in across)]
                for own in sorted({own for own, _ in combinations})
            ]
            names = ["<names with\nan AAAA record", *(f"{cached} %\ncached" for cached in across)]
            yield sheet(f"{r.title}: median (P1 to P99), queries/s", names, rows)

    def figures(self, data: RunData, records: Sequence[ResolutionRecord]) -> Iterator[Drawing]:
        """Rates against the share of cached names."""
        del data
        for r in records:
            if len(r.combinations) < 2:
                continue
            with drawing(self.name):
                figure, (panel,) = axes()
                for number, own in enumerate(sorted({f.own_aaaa_percent for f in r.combinations})):
                    here = sorted(
                        (f for f in r.combinations if f.own_aaaa_percent == own and not f.refused),
                        key=lambda f: f.cached_percent,
                    )
                    bars = [[f.median - f.p1 for f in here], [f.p99 - f.median for f in here]]
                    panel.errorbar(
                        [f.cached_percent for f in here], [f.median for f in here], yerr=bars,
                        color=look(number).color, marker=look(number).marker, capsize=3,
                        label=f"{own} % with an AAAA record",
                    )  # fmt: skip
                panel.set_xlabel("names in the cache [%]")
                panel.set_ylabel("queries per second")
                panel.set_ylim(bottom=0)
                thousands(panel)
                legend(panel)
                yield Drawing(
                    svg(figure, self.name),
                    "Queries answered per second against the share of cached names: median of the "
                    "repetitions, bars from P1 to P99.",
                    "Queries answered per second: "
                    + "; ".join(f"{name_of(f)}: {f.median:,.0f}" for f in r.combinations),
                )

    def definition(self, records: Sequence[ResolutionRecord]) -> str:
        """What a rate is."""
        return (
            "The highest rate at which every query for an AAAA record is answered within "
            f"{max(r.timeout_s for r in records):g} s, and rightly: with the record that RFC 6147 and "
            "RFC 6052 make of the A record, or with the name's own."
        )

    def quantities(self, record: ResolutionRecord) -> Iterator[Quantity]:
        """Each combination's rate."""
        for f in record.combinations:
            yield Quantity(f"queries/s, {name_of(f)}", "queries/s", f.rates, True,
                           record.resolution_qps, f.limited)  # fmt: skip

    def headlines(self, record: ResolutionRecord) -> Iterator[Headline]:
        """Each combination's rate."""
        for f in record.combinations:
            what = self.name if f is record.combinations[0] else f"{self.name}, {name_of(f)}"
            yield Headline(what, f.median, f.p1, f.p99)

    def cards(self, record: ResolutionRecord) -> Iterator[Card]:
        """The required combination's."""
        first = record.combinations[0]
        what = f"{record.title}, {name_of(first)}, median of {first.repetitions}"
        yield Card(_rate(first), "queries/s", what)

    def remarks(self, record: ResolutionRecord) -> Iterator[str]:
        """What was wrong with answers, and names that were not in the cache."""
        for f in record.combinations:
            if f.reasons:
                reasons = ", ".join(f"{n:,} {why}" for why, n in f.reasons.items())
                yield f"{name_of(f)}: queries not answered in all trials, failed ones too: {reasons}"
            each = (f.asked_aaaa or 0) + (f.asked_a or 0)
            if each > MAX_QUERIES_PER_NAME * 1.01:
                yield (
                    f"{name_of(f)}: the device asks {each:.2f} questions for each query; the self-test "
                    f"counts on {MAX_QUERIES_PER_NAME} (RFC 8219 section 9.2.1)"
                )
            if f.cached_found_percent is not None and f.cached_found_percent < 99:
                yield (
                    f"{name_of(f)}: the device asked again for {100 - f.cached_found_percent:.1f} % of "
                    "the queries whose names it had answered before"
                )

    def clauses(self, data: RunData) -> Iterator[Clause]:
        """Length, time-out, repetitions, the required combination, the self-test."""
        records = self.measured(data)
        deciding = {key for r in records for f in r.combinations for key in f.decisive_trials}
        lengths = [t.asked["duration_s"] for t in data.counted(records) if t.key in deciding]
        yield clause(SOURCE, "trials of 60 s", *at_least(TRIAL_S, lengths))
        fewest = min((f.repetitions for r in records for f in r.combinations), default=0)
        yield clause(SOURCE, f"at least {REPETITIONS} repetitions, median, P1 and P99", str(fewest),
                     fewest >= REPETITIONS if records else None)  # fmt: skip
        longest = max((r.timeout_s for r in records), default=0.0)
        yield clause(SOURCE, "a time-out of no more than 1 s for each query", f"{longest:g} s",
                     longest <= LONGEST_TIMEOUT_S if records else None)  # fmt: skip
        first = [r.combinations[0] for r in records]
        required = all(not f.cached_percent and not f.own_aaaa_percent for f in first)
        yield clause(SOURCE, "0 % cached and 0 % with an AAAA record is measured first",
                     ", ".join(map(name_of, first)), required if first else None)  # fmt: skip
        questions = [f.asked_aaaa for f in first if f.asked_aaaa is not None]
        yield clause(SOURCE, "all names are different: none is in the device's cache",
                     f"at least {min(questions, default=0):.3g} AAAA questions for each query",
                     min(questions) >= 1 if questions else None)  # fmt: skip
        refused = sum(f.refused is not None for r in records for f in r.combinations)
        yield clause("RFC 8219 section 9.2.1",
                     "the tester answers itself at 2 (r + delta) within a quarter of the time-out",
                     "; ".join(f"up to {r.selftest.capacity_qps:,.0f} queries/s, which covers "
                               f"{r.selftest.covered_qps:,.0f}" for r in records)
                     + (f"; {refused} rates above are refused" if refused else ""),
                     True if records else None)  # fmt: skip


def _rate(combination: Combination) -> str:
    return (
        "refused" if combination.refused else marked(count(combination.median), combination.limited)
    )


def _cell(combination: Combination | None) -> str:
    if combination is None:
        return "-"
    return f"{_rate(combination)} ({count(combination.p1)} to {count(combination.p99)})"


def _each(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
