"""Comparisons of run directories with one another and with published results."""

import math
import shlex
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

from v6t.analysis.blocks import (
    Block,
    BulletList,
    CodeListing,
    Drawing,
    Paragraph,
    ReportDocument,
    ReportSection,
)
from v6t.analysis.compare import comparison as comparisons
from v6t.analysis.compare.comparison import ComparedFigure, RunComparison
from v6t.analysis.compare.effect import count_needed_repetitions
from v6t.analysis.figures.plots import draw_points
from v6t.analysis.presentation import Percentiles
from v6t.analysis.published.library import collect_facts, find_references, list_sources
from v6t.analysis.report.run import make_reproduction_tables
from v6t.analysis.report.verdict import make_title
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import Table, make_text_columns, make_text_table, pluralize
from v6t.base.errors import UsageError
from v6t.benchmarks import registry
from v6t.core.runs.results import load_run

MAX_LISTED_REASONS = 10  # reasons for missing comparisons that a terminal shows
MAX_DRAWN_FACTORS = 40  # factors that one figure can show
RATE_SUFFIX = " fps"  # at the end of loads that are frame rates

METHOD_TEXT = (  # statistical method of a comparison
    "Factors and differences are Hodges-Lehmann estimates; intervals follow line by line from the "
    "exact distribution of the Mann-Whitney statistic, and hold the resolution of the searches."
)


def compare_runs(runs: Sequence[RunData], allow_differences: bool) -> RunComparison:
    """Compare each run with the first run.

    Raises:
        UsageError: the runs are not comparable.
    """
    first, *others = runs
    compare = partial(comparisons.compare_with_first, first, others, registry.load_presentations())
    comparison = compare(anyway=allow_differences)
    if comparison.lines and (allow_differences or not comparison.unlike):
        return comparison
    has_remedy = not allow_differences and compare(anyway=True).lines
    hint = "--anyway compares what it can" if has_remedy else ""
    if comparison.unlike and not allow_differences:
        name, differing = next(iter(comparison.unlike.items()))
        more = f" and {len(differing) - 3} more" if len(differing) > 3 else ""
        problem = f"{comparison.runs[0]} and {name} differ: {'; '.join(differing[:3])}{more}"
        raise UsageError(problem, hint, code="not-comparable")
    why = comparison.left_out[0] if comparison.left_out else "nothing was measured"
    raise UsageError(f"these runs cannot be compared: {why}", hint, code="not-comparable")


def make_comparison_document(
    comparison: RunComparison, runs: Sequence[RunData] = ()
) -> ReportDocument:
    """Return a complete report of the comparison, with runs, figures, tables and omissions."""
    blocks: list[Block] = [Paragraph(comparisons.summarize_comparison(comparison))]
    if runs:
        blocks.append(_describe_runs(comparison, runs))
    blocks += [*_list_warnings(comparison), *_draw_factors(comparison)]
    blocks += comparisons.make_comparison_tables(comparison)
    if comparison.left_out:
        blocks += [Paragraph("Not compared:"), BulletList(comparison.left_out)]
    blocks.append(Paragraph(METHOD_TEXT))
    section = ReportSection("Differences", "differences", blocks)
    title = " against ".join(dict.fromkeys(map(make_title, runs))) or "Comparison"
    return ReportDocument(title, " against ".join(comparison.runs), [section])


def make_brief_document(comparison: RunComparison, directories: Sequence[Path]) -> ReportDocument:
    """Return a brief report of the comparison for a terminal, with the conclusion at the end.

    ``directories`` are those of the runs if these can be repeated, else empty.
    """
    tables = comparisons.make_brief_comparison_tables(comparison)
    blocks = [*_list_warnings(comparison), *tables]
    if len(comparison.left_out) > MAX_LISTED_REASONS:
        count = pluralize(len(comparison.left_out), "quantity")
        blocks.append(Paragraph(f"{count} not compared; -v prints the reasons and the intervals."))
    elif comparison.left_out:
        blocks += [Paragraph("Not compared:"), BulletList(comparison.left_out)]
    blocks.append(Paragraph(comparisons.summarize_comparison(comparison)))
    blocks += _suggest_further_runs(comparison, directories)
    return ReportDocument("Comparison", "", [ReportSection("Differences", "differences", blocks)])


def _describe_runs(comparison: RunComparison, runs: Sequence[RunData]) -> Table:
    rows = []
    for name, run in zip(comparison.runs, runs, strict=True):
        tester, label = str(run.config["tester"]["kind"]), str(run.config.get("label") or "-")
        date = str(run.manifest.get("created", ""))[:16].replace("T", " ")
        rows.append((name, make_title(run), tester, date, label))
    columns = make_text_columns("run", "technology and device", "tester", "date (UTC)", "label")
    return make_text_table("Runs", columns, rows)


def _list_warnings(comparison: RunComparison) -> Iterator[Block]:
    for name, differing in comparison.unlike.items():
        yield Paragraph(f"{name} was measured under other conditions than {comparison.runs[0]}:")
        yield BulletList(differing, "warning")
    if conditions := sorted({text for line in comparison.lines for text in line.unlike}):
        yield Paragraph("Conditions that differ within these runs:")
        yield BulletList(conditions, "warning")


def _draw_factors(comparison: RunComparison) -> Iterator[Drawing]:
    for number, run in enumerate(comparison.runs[1:], 1):
        rows = [
            (f"{line.benchmark} {line.what}, {line.place}", Percentiles(e.estimate, e.low, e.high))
            for line in comparison.lines
            if line.run == run and (e := line.effect) and line.kind == "factor"
        ][:MAX_DRAWN_FACTORS]
        if rows:
            text = f"{run} as a multiple of {comparison.runs[0]}, with intervals; 1: no difference."
            yield Drawing(draw_points(rows, "factor", f"factors-{number}", reference=1), text, text)


def _suggest_further_runs(
    comparison: RunComparison, directories: Sequence[Path]
) -> Iterator[Block]:
    """Yield the reasons and commands for further runs that settle inconclusive comparisons."""
    lines = comparison.lines
    uncovered = [line for line in lines if line.effect and not line.effect.is_covered]
    inconclusive = [line for line in uncovered if not all(line.limited)]
    undecided = [x for x in lines if x.verdict == "undecided" and x not in inconclusive]
    limited = [line for line in undecided if any(line.limited)]
    needed = count_needed_repetitions()
    reasons, options = [], []
    if inconclusive:
        reasons.append(f"at least {needed} repetitions of each run")
        options += _make_repetition_options({line.benchmark for line in inconclusive}, needed)
    sections = {name.partition(".")[0] for name in registry.list_flags().get("--rate", ())}
    rated = [b.name for b in registry.load_installed() if sections & b.list_sections().keys()]
    unequal_loads = [x for x in lines if x.loads[0] != x.loads[1] and x.benchmark in rated]
    if rate_fps := _find_common_rate(unequal_loads):
        names = ", ".join(dict.fromkeys(line.benchmark for line in unequal_loads))
        reasons.append(f"{rate_fps:,} fps for {names}")
        options += ["--rate", str(rate_fps)]
    if limited:
        names = ", ".join(dict.fromkeys(line.benchmark for line in limited))
        text = f"More repetitions cannot decide {names}: the tester or the medium is the limit."
        yield Paragraph(f"{text} Use a faster tester.")
    if reasons:
        yield Paragraph(f"To decide: {' and '.join(reasons)}{':' if directories else '.'}")
        outputs = {path: path.with_name(f"{path.name}-again") for path in directories}
        for path, output in outputs.items():
            yield CodeListing(shlex.join(["v6t", "run", str(path), *options, "-o", str(output)]))
        if directories:
            words = ["v6t", "compare", *(str(outputs[path]) for path in directories)]
            yield CodeListing(shlex.join(words))


def _make_repetition_options(benchmarks: Collection[str], repetitions: int) -> list[str]:
    settings = [
        f"{key}.repetitions={repetitions}"
        for benchmark in registry.load_installed()
        if benchmark.name in benchmarks
        for key, model in benchmark.list_sections().items()
        if "repetitions" in model.model_fields
    ]
    options = [word for setting in settings for word in ("--set-procedure", setting)]
    return [*options, "--reps", str(repetitions)] if len(settings) < len(benchmarks) else options


def _find_common_rate(lines: Sequence[ComparedFigure]) -> int | None:
    """Return the lowest frame rate rounded down to two digits [fps]; None if no load is a rate."""
    texts = [load for line in lines for load in line.loads if load.endswith(RATE_SUFFIX)]
    rates = [float(text.removesuffix(RATE_SUFFIX).replace(",", "")) for text in texts]
    if not rates:
        return None
    unit = 10 ** max(0, math.floor(math.log10(min(rates))) - 1)
    return int(min(rates) // unit * unit)


def make_published_document(directories: Sequence[Path]) -> ReportDocument:
    """Return a report that compares runs with results published for the same conditions."""
    sections, known = [], registry.load_presentations()
    for number, data in enumerate(map(load_run, directories), 1):
        facts = collect_facts(data.config, data.params, simulated=data.simulated)
        pairs = [(r, ref) for r in data.records for ref in find_references(r, facts, known)]
        alike = [(r, ref) for r, ref in pairs if ref.alike]
        blocks: list[Block] = [*make_reproduction_tables(alike)]
        if not alike:
            text = "No published result was made under the conditions of this run."
            blocks.append(Paragraph(text))
        differing = [
            f"{ref.source}, {r.sizes}, {ref.direction}: {'; '.join(map(str, ref.differing))}"
            for r, ref in pairs
            if not ref.alike
        ]
        if differing:
            text = "Published under other conditions, so no reference:"
            blocks += [Paragraph(text), BulletList(differing)]
        cited = sorted({ref.entry["seed"] for _, ref in pairs})
        blocks.append(BulletList([f"{name}: {list_sources()[name]}" for name in cited]))
        sections.append(ReportSection(data.name, f"run-{number}", blocks))
    return ReportDocument("Comparison with published results", "", sections)
