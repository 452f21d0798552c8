"""Multiple Loss Ratio search: each goal's bounds and conditional throughput (RFC 9971)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import ClassVar

from v6t.analysis.marks import marked
from v6t.analysis.presentation import Card, Clause, Headline, Presentation, Quantity, clause
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import Sheet, count, percent, sheet
from v6t.benchmarks.presentations.common import POINT, at, interval, repeated
from v6t.benchmarks.records.goals import GoalAttributes, GoalFigures, MlrRecord

_LIKE = {
    "unconditionally": "unconditionally compliant with RFC 2544 section 24: its throughput",
    "conditionally": "conditionally compliant with RFC 2544: its throughput but for shorter trials",
    "not": "MLRsearch, no throughput of RFC 2544 or RFC 8219",
}


class MlrPresentation(Presentation[MlrRecord]):
    """A result for each goal of one search."""

    name = "mlrsearch"
    title = "MLRsearch (RFC 9971)"
    record = MlrRecord
    metrics: ClassVar = {"relevant lower bound": ""}

    def sheet(self, records: Sequence[MlrRecord]) -> Sheet:
        """A row for each goal."""
        names = [
            *(*POINT, "<goal", "+<code", "loss\n%", "+exceed\n%", "+width\n%"),
            *("lower\nbound fps", "P1", "P99", "+95 % interval\nof the median"),
            *("+dispersion\n%", "upper\nbound fps", "conditional\nthroughput"),
            *("+aggregate\nof both\ndirections", "+repetitions", "<result"),
        ]
        rows = []
        for r in records:
            for figures in r.goals:
                goal, conditional = figures.goal, figures.conditional_throughput.median
                both = r.direction == "bidirectional" and conditional is not None
                rows.append(
                    [
                        *(*at(r), goal.name, goal.code),
                        *(f"{100 * goal.loss_ratio:g}", f"{100 * goal.exceed_ratio:g}"),
                        f"{100 * goal.width:g}",
                        *(
                            marked(count(figures.median), figures.limited),
                            count(figures.p1),
                            count(figures.p99),
                        ),
                        *(interval(figures.median_interval), percent(figures.dispersion)),
                        count(figures.upper_bounds.median),
                        marked(count(conditional), figures.limited),
                        count(2 * (conditional or 0.0)) if both else "-",
                        *(str(figures.repetitions), mark(figures)),
                    ]
                )
        return sheet(records[0].title, names, rows)

    def definition(self, records: Sequence[MlrRecord]) -> str:
        """Terms of the RFC."""
        del records
        return (
            "Relevant lower bound: the largest load below every upper bound at which high-loss trials "
            "stay within the exceed ratio; relevant upper bound: the smallest at which they do not. "
            "Conditional throughput: the forwarding rate to be expected at the lower bound. The loss "
            "ratio of a trial is that of both directions together; the effective duration of a trial is "
            "its duration; the width is (upper - lower) / upper."
        )

    def quantities(self, record: MlrRecord) -> Iterator[Quantity]:
        """Of each goal the lower bound and the conditional throughput; other goals are others."""
        for figures in record.goals:
            whose, error = (
                f"{figures.goal.name} {figures.goal.code}",
                figures.goal.width * figures.median,
            )
            yield Quantity(
                f"lower bound, {whose}", "fps", figures.rates, True, error, figures.limited
            )
            values = figures.conditional_throughput.values
            yield Quantity(
                f"conditional throughput, {whose}", "fps", values, True, error, figures.limited
            )

    def headlines(self, record: MlrRecord) -> Iterator[Headline]:
        """Of each goal the same."""
        for figures in record.goals:
            name, conditional = figures.goal.name, figures.conditional_throughput
            yield Headline(f"{name} lower bound", figures.median, figures.p1, figures.p99)
            yield Headline(
                f"{name} conditional throughput",
                conditional.median,
                conditional.p1,
                conditional.p99,
            )

    def cards(self, record: MlrRecord) -> Iterator[Card]:
        """The lower bound of each goal."""
        for figures in record.goals:
            limit = " - limited by the tester" if figures.tester_limited else ""
            odd = f" - {regularity(figures)}" if figures.marked else ""
            what = f"{self.title}, goal {figures.goal.name}, {record.point}, median of {figures.repetitions}"
            yield Card(count(figures.median), "frames/s per direction", what + odd + limit)

    def remarks(self, record: MlrRecord) -> Iterator[str]:
        """All attributes of each goal, and which results are irregular."""
        for figures in record.goals:
            yield from said_of(figures)

    def clauses(self, data: RunData) -> Iterator[Clause]:
        """Repetitions, and what the RFC asks of each result."""
        records = self.measured(data)
        yield repeated(self.name, records)
        every = [figures for r in records for figures in r.goals]
        if every:
            marked = sum(figures.marked for figures in every)
            yield clause("RFC 9971 section 4.8.4 (TP-07)",
                         "regular results: both bounds, no farther apart than the goal's width",
                         f"{marked} irregular results, each marked" if marked else "all regular",
                         not marked)  # fmt: skip
            lengths = {figures.goal.final_trial_s for figures in every}
            yield clause("RFC 9971 section 4.6.1 (TP-07)",
                         "all goals share the final trial duration",
                         ", ".join(f"{s:g} s" for s in sorted(lengths)),
                         len(lengths) == 1)  # fmt: skip


def mark(figures: GoalFigures) -> str:
    """Whether results are regular, for a table."""
    return f"IRREGULAR {figures.marked}/{len(figures.irregular)}" if figures.marked else "regular"


def regularity(figures: GoalFigures) -> str:
    """``"regular"``, or how many repetitions are irregular and why (RFC 9971 section 4.8.4.2)."""
    if not figures.marked:
        return "regular"
    whys = Counter(why for why in figures.irregular if why)
    return f"IRREGULAR in {figures.marked} of {len(figures.irregular)}: " + "; ".join(whys)


def said_of(figures: GoalFigures) -> Iterator[str]:
    """The goal in a sentence, and what is irregular."""
    yield f"goal {attributes_in_words(figures.goal)}"
    if figures.marked:
        yield f"goal {figures.goal.name}: {regularity(figures)}"


def attributes_in_words(goal: GoalAttributes) -> str:
    """Every attribute that was applied (RFC 9971 section 4.9.3)."""
    return (
        f"{goal.name} ({goal.code}): loss ratio {goal.loss_ratio:.4g}, exceed ratio "
        f"{goal.exceed_ratio:.4g}, width {goal.width:.4g} (relative), initial and final trial "
        f"duration {goal.initial_trial_s:g} s and {goal.final_trial_s:g} s, duration sum "
        f"{goal.duration_sum_s:g} s, {goal.preceding_targets} preceding targets, expansion coefficient "
        f"{goal.expansion_coefficient}; {_LIKE[goal.like_rfc2544]}"
    )
