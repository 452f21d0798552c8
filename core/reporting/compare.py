"""Comparisons of run directories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from v6t.analysis.blocks import Block, Document, Items, Section, Text
from v6t.analysis.compare.comparison import Comparison, compare, comparison_sheets, lead
from v6t.analysis.published.library import facts_of, references, sources
from v6t.analysis.report.run import reproduction
from v6t.analysis.rundata import RunData
from v6t.base.errors import UsageError
from v6t.benchmarks.registry import presentations
from v6t.core.reporting.write import load
from v6t.core.runs.rundir import reading


def comparison_of(directories: Sequence[Path], anyway: bool) -> Comparison:
    """Compare the runs in these directories with the first of them.

    Raises:
        UsageError: no run, or nothing in them is like.
    """
    runs = [_loaded(path) for path in directories]
    comparison = compare(runs[0], runs[1:], presentations(), anyway=anyway)
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


def _loaded(path: Path) -> RunData:
    with reading(path):
        return load(path)


def comparison_document(comparison: Comparison) -> Document:
    """Build what can be said, tables, what was left out and why."""
    blocks: list[Block] = [Text(lead(comparison))]
    for name, differing in comparison.unlike.items():
        blocks.append(
            Text(f"{name} was measured under other conditions than {comparison.runs[0]}:")
        )
        blocks.append(Items(differing, "warning"))
    odd = sorted({text for line in comparison.lines for text in line.unlike})
    if odd:
        blocks.append(Text("Conditions that differ within these runs:"))
        blocks.append(Items(odd, "warning"))
    blocks += comparison_sheets(comparison)
    if comparison.left_out:
        blocks.append(Text("Not compared:"))
        blocks.append(Items(comparison.left_out))
    blocks.append(
        Text(
            "Factors and differences are Hodges-Lehmann estimates; their intervals follow from the "
            "exact distribution of the Mann-Whitney statistic, for each line by itself, and hold "
            "the resolution of the searches."
        )
    )
    return Document(
        "Comparison",
        " against ".join(comparison.runs),
        [Section("Differences", "differences", blocks)],
    )


def published_document(directories: Sequence[Path]) -> Document:
    """Build published results beside runs, where their conditions are the same."""
    sections, known = [], presentations()
    for number, path in enumerate(directories, 1):
        data = _loaded(path)
        facts = facts_of(data.config, data.params, simulated=data.simulated)
        pairs = [(r, ref) for r in data.records for ref in references(r, facts, known)]
        alike = [(r, ref) for r, ref in pairs if ref.alike]
        blocks: list[Block] = []
        if alike:
            blocks += reproduction(alike)
        else:
            blocks.append(Text("No published result was made under the conditions of this run."))
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
