"""Comparisons of run directories with one another and with published results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from v6t.analysis.blocks import Block, Document, Items, Section, Text
from v6t.analysis.compare.comparison import Comparison, compare, comparison_sheets, lead
from v6t.analysis.published.library import facts_of, references, sources
from v6t.analysis.report.run import reproduction
from v6t.base.errors import UsageError
from v6t.benchmarks.registry import presentations
from v6t.core.runs.results import load_run

METHOD = (
    "Factors and differences are Hodges-Lehmann estimates; their intervals follow from the "
    "exact distribution of the Mann-Whitney statistic, for each line by itself, and hold "
    "the resolution of the searches."
)


def compare_runs(directories: Sequence[Path], anyway: bool) -> Comparison:
    """Compare the runs in these directories with the first of them.

    Raises:
        UsageError: a directory holds no run, or the runs are not comparable.
    """
    first, *others = map(load_run, directories)
    comparison = compare(first, others, presentations(), anyway=anyway)
    if comparison.unlike and not anyway:
        name, differing = next(iter(comparison.unlike.items()))
        more = f" and {len(differing) - 3} more" if len(differing) > 3 else ""
        raise UsageError(
            f"{comparison.runs[0]} and {name} differ: {'; '.join(differing[:3])}{more}",
            "--anyway compares them all the same",
            code="not-comparable",
        )
    if not comparison.lines:
        why = comparison.left_out[0] if comparison.left_out else "nothing was measured"
        raise UsageError(
            f"these runs cannot be compared: {why}",
            "--anyway compares what it can",
            code="not-comparable",
        )
    return comparison


def make_comparison_document(comparison: Comparison) -> Document:
    """Return the comparison with its tables, and what was left out."""
    blocks: list[Block] = [Text(lead(comparison))]
    for name, differing in comparison.unlike.items():
        words = f"{name} was measured under other conditions than {comparison.runs[0]}:"
        blocks += [Text(words), Items(differing, "warning")]
    conditions = sorted({text for line in comparison.lines for text in line.unlike})
    if conditions:
        blocks.append(Text("Conditions that differ within these runs:"))
        blocks.append(Items(conditions, "warning"))
    blocks += comparison_sheets(comparison)
    if comparison.left_out:
        blocks += [Text("Not compared:"), Items(comparison.left_out)]
    blocks.append(Text(METHOD))
    section = Section("Differences", "differences", blocks)
    return Document("Comparison", " against ".join(comparison.runs), [section])


def make_published_document(directories: Sequence[Path]) -> Document:
    """Return published results with the runs that were made under the same conditions."""
    sections, known = [], presentations()
    for number, data in enumerate(map(load_run, directories), 1):
        facts = facts_of(data.config, data.params, simulated=data.simulated)
        pairs = [(r, ref) for r in data.records for ref in references(r, facts, known)]
        alike = [(r, ref) for r, ref in pairs if ref.alike]
        blocks: list[Block] = [
            Text("No published result was made under the conditions of this run.")
        ]
        if alike:
            blocks = list(reproduction(alike))
        near = [
            f"{ref.source}, {r.sizes}, {ref.direction}: {'; '.join(map(str, ref.differing))}"
            for r, ref in pairs
            if not ref.alike
        ]
        if near:
            blocks.append(Text("Published under other conditions, so no reference:"))
            blocks.append(Items(near))
        cited = sorted({ref.entry["seed"] for _, ref in pairs})
        blocks.append(Items([f"{name}: {sources()[name]}" for name in cited]))
        sections.append(Section(data.name, f"run-{number}", blocks))
    return Document("Beside published results", "", sections)
