"""Comparisons of run directories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from v6t.analysis.blocks import Block, Document, Items, Section, Text
from v6t.analysis.compare.comparison import Comparison, compare, comparison_sheets, lead
from v6t.analysis.published.library import facts_of, references, sources
from v6t.analysis.report.run import reproduction
from v6t.analysis.rundata import RunData
from v6t.core.benchmarks.registry import presentations
from v6t.core.reporting.write import load
from v6t.core.runs.rundir import reading
from v6t.profiles.errors import UsageError


def comparison_of(directories: Sequence[Path], anyway: bool) -> Comparison:
    """Compare the runs in these directories with the first of them.

    Raises:
        UsageError: no run, or nothing in them is like.
    """
    runs = [_loaded(path) for path in directories]
    found = compare(runs[0], runs[1:], presentations(), anyway=anyway)
    if found.unlike and not anyway:
        name, differing = next(iter(found.unlike.items()))
        more = f" and {len(differing) - 3} more" if len(differing) > 3 else ""
        raise UsageError(
            f"{found.runs[0]} and {name} are not alike: {'; '.join(differing[:3])}{more}",
            "--anyway compares them all the same",
        )
    if not found.lines:
        why = found.left_out[0] if found.left_out else "nothing was measured"
        raise UsageError(
            f"nothing in these runs can be compared: {why}", "--anyway compares what it can"
        )
    return found


def _loaded(path: Path) -> RunData:
    with reading(path):
        return load(path)


def comparison_document(found: Comparison) -> Document:
    """What can be said, tables, what was left out and why."""
    blocks: list[Block] = [Text(lead(found))]
    for name, differing in found.unlike.items():
        blocks.append(Text(f"{name} was measured under other conditions than {found.runs[0]}:"))
        blocks.append(Items(differing, "warning"))
    odd = sorted({text for line in found.lines for text in line.unlike})
    if odd:
        blocks.append(Text("Conditions that differ within these runs:"))
        blocks.append(Items(odd, "warning"))
    blocks += comparison_sheets(found)
    if found.left_out:
        blocks.append(Text("Not compared:"))
        blocks.append(Items(found.left_out))
    blocks.append(
        Text(
            "Factors and differences are Hodges-Lehmann estimates; their intervals follow from the "
            "exact distribution of the Mann-Whitney statistic, for each line by itself, and hold "
            "the resolution of the searches."
        )
    )
    return Document(
        "Comparison", " against ".join(found.runs), [Section("Differences", "differences", blocks)]
    )


def published_document(directories: Sequence[Path]) -> Document:
    """Published results beside runs, where their conditions are the same."""
    sections, known = [], presentations()
    for number, path in enumerate(directories, 1):
        data = _loaded(path)
        facts = facts_of(data.config, data.params, simulated=data.simulated)
        found = [(r, ref) for r in data.records for ref in references(r, facts, known)]
        alike = [(r, ref) for r, ref in found if ref.alike]
        blocks: list[Block] = []
        if alike:
            blocks += reproduction(alike)
        else:
            blocks.append(Text("No published result was made under the conditions of this run."))
        near = [
            f"{ref.source}, {r.sizes}, {ref.direction}: {'; '.join(map(str, ref.differing))}"
            for r, ref in found
            if not ref.alike
        ]
        if near:
            blocks.append(Text("Published under other conditions, so no reference:"))
            blocks.append(Items(near))
        cited = sorted({ref.entry["seed"] for _, ref in found})
        blocks.append(Items([f"{name}: {sources()[name]}" for name in cited]))
        sections.append(Section(data.name, f"run-{number}", blocks))
    return Document("Beside published results", "", sections)
