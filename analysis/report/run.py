"""The report of a run, chapter by chapter."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from v6t.analysis import sheet
from v6t.analysis.blocks import (
    Block,
    BulletList,
    CardList,
    CodeListing,
    Collapsible,
    FactTable,
    FigureBudget,
    Paragraph,
    ReportDocument,
    ReportSection,
    walk,
)
from v6t.analysis.csv_rows import TRIAL_COLUMNS, list_trial_rows
from v6t.analysis.presentation import Card, Presentations
from v6t.analysis.published import library
from v6t.analysis.published.library import PublishedReference
from v6t.analysis.record import Record
from v6t.analysis.report.compliance import list_rulings, make_compliance_table
from v6t.analysis.report.setup import describe_setup
from v6t.analysis.report.timelines import draw_over_time
from v6t.analysis.report.trust import assess_validity
from v6t.analysis.report.verdict import make_title, summarize_throughput
from v6t.analysis.rundata import RunData
from v6t.analysis.warnings import fold_warnings, list_warnings

MAX_FIGURES = 40  # keeps reports below 3 MB; `--figures all` removes the limit
MORE_FIGURES_NOTE = (
    "No more than {} figures of this benchmark are drawn; `v6t report --figures all` draws all."
)
MAX_LISTED_TRIALS = 1000  # trials that the report itself lists; `trials.csv` holds all

# limits above which figures and tables are folded, and folded tables and warnings are not printed
SHOWN_FIGURES, MAX_UNFOLDED_ROWS, MAX_PRINTED_ROWS, MAX_PRINTED_REMARKS = 4, 40, 200, 10


def build_document(
    data: RunData,
    presentations: Presentations,
    *,
    paper: str | None = None,
    max_figures: int | None = MAX_FIGURES,
) -> ReportDocument:
    """Build the report of a run.

    Args:
        paper: short name of a paper to compare with, even if conditions differ.
        max_figures: None for all figures, 0 for none.
    """
    label = str(data.results.get("label") or "")
    # the drawing of the test setup counts, too
    figures = FigureBudget(max_figures and max_figures - 1)
    short = list(_summarize_run(data, presentations, figures))
    sections = [
        ReportSection("Summary", "short", short),
        ReportSection("Test setup", "setting", list(describe_setup(data, max_figures != 0))),
        *_make_sections(data, presentations, figures),
        ReportSection(
            "Published results", "published", list(_compare_with_papers(data, presentations, paper))
        ),
        ReportSection("Validity", "validity", list(assess_validity(data))),
        ReportSection("Compliance", "compliance", list(_describe_compliance(data, presentations))),
        *([_make_trace_section(data, presentations, figures)] if max_figures != 0 else []),
        ReportSection("Raw trials", "trials", [_fold_trials(data)]),
        ReportSection("Configuration and manifest", "configuration", list(_fold_files(data))),
    ]
    if presentations.failures:  # complete after all sections are made
        short.append(BulletList(presentations.failures, "bad"))
    parts = (label, data.name, str(data.manifest.get("created", "")), data.status)
    return ReportDocument(make_title(data), " - ".join(filter(None, parts)), sections)


def _summarize_run(
    data: RunData, presentations: Presentations, figures: FigureBudget
) -> Iterator[Block]:
    yield Paragraph(data.heading)
    if data.status == "translation incorrect":
        finding: Mapping[str, Any] = data.results.get("finding", {})
        yield Paragraph(
            f"The device translates incorrectly ({finding.get('direction', '')}): "
            f"{finding.get('why', 'a frame differs from the reference translation')}. "
            "There are no results beyond this point.",
            "bad",
        )
        if frames := {k: finding[k] for k in ("sent", "expected", "received") if finding.get(k)}:
            yield FactTable(tuple(frames.items()))
    elif data.status != "complete":
        yield Paragraph(
            "This run is not complete: the report shows the results so far. "
            "`v6t resume` continues it.",
            "warning",
        )
    yield from summarize_throughput(data)
    for presentation, measured in presentations.group_measured(data.records):
        yield from figures.take(presentation.draw_lead(data, measured))
    if cards := list(_list_cards(data.records, presentations)):
        yield CardList(cards)
    if missing := [r for r in data.records if not r.measured]:
        lines = [f"{r.benchmark}, {r.point}: not measured ({r.not_measured})" for r in missing]
        yield BulletList(lines, "warning")
    if data.caveats:
        yield BulletList(data.caveats, "warning")
    if warnings := list_warnings(data.records, presentations):
        yield fold_warnings(warnings, brief=len(warnings) < MAX_PRINTED_REMARKS)


def _list_cards(records: Sequence[Record], presentations: Presentations) -> Iterator[Card]:
    """Yield the numbers of the first page: those of the smallest frames."""
    measured = [r for r in records if r.measured]
    smallest = min((r.frame_sizes.ipv6 for r in measured), default=0)
    for record in measured:
        if record.frame_sizes.ipv6 == smallest:
            for result in presentations.find(record).list_quantities(record):
                if result.card:
                    yield result.card


def _make_sections(
    data: RunData, presentations: Presentations, figures: FigureBudget
) -> Iterator[ReportSection]:
    groups = list(presentations.group_records(data.records))
    for number, (presentation, records) in enumerate(groups):
        share = figures.divide(len(groups) - number)
        measured = [r for r in records if r.measured]
        blocks: list[Block] = []
        if measured:
            blocks += map(fold_long_table, presentation.make_tables(measured))
            blocks += (Paragraph(note, "warning") for note in sheet.explain_marks(measured))
            if words := sheet.find_terms(_list_headings(blocks)):
                meanings = [FactTable(tuple(words))]
                blocks.append(Collapsible("What the words mean", meanings, brief=True, shown=True))
        if warnings := list_warnings(records, presentations):
            blocks.append(BulletList([str(warning) for warning in warnings]))
        if measured:
            drawn = list(share.take(presentation.draw_figures(data, measured)))
            blocks += drawn[:SHOWN_FIGURES]
            if rest := drawn[SHOWN_FIGURES:]:
                summary = f"{len(rest)} further figure{'s' * (len(rest) > 1)}"
                blocks.append(Collapsible(summary, rest))
            blocks += draw_over_time(data, measured, share)
            if share.left == 0 and share.most:
                blocks.append(Paragraph(MORE_FIGURES_NOTE.format(share.most)))
            if definition := presentation.define_quantity(measured):
                blocks.append(Paragraph(definition))
        yield ReportSection(records[0].title, presentation.name or f"unknown-{number}", blocks)


def _make_trace_section(
    data: RunData, presentations: Presentations, figures: FigureBudget
) -> ReportSection:
    blocks: list[Block] = []
    for presentation, measured in presentations.group_measured(data.records):
        if drawn := list(figures.take(presentation.draw_traces(data, measured))):
            blocks.append(Collapsible(f"{measured[0].title}: {len(drawn)} figures", drawn))
    if blocks:
        text = "Every trial of each search in order, and the rate of every repetition."
        blocks.insert(0, Paragraph(text))
    return ReportSection("How the rates were found", "traces", blocks)


def _list_headings(blocks: Sequence[Block]) -> list[str]:
    """List the titles and column names of all tables."""
    tables = [block for block in walk(blocks) if isinstance(block, sheet.Table)]
    return [text for t in tables for text in (t.title, *(column.name for column in t.columns))]


def fold_long_table(table: sheet.Table) -> Block:
    """Make a table collapsible if it has many rows."""
    if len(table.rows) <= MAX_UNFOLDED_ROWS:
        return table
    summary = f"{table.title}: table of {len(table.rows)} rows"
    return Collapsible(summary, [table], brief=len(table.rows) <= MAX_PRINTED_ROWS)


def _compare_with_papers(
    data: RunData, presentations: Presentations, paper: str | None
) -> Iterator[Block]:
    facts = library.collect_facts(data.config, data.params, simulated=data.simulated)
    pairs = [
        (r, ref)
        for r in data.records
        for ref in library.find_references(r, facts, presentations, paper=paper)
    ]
    if paper:
        yield Paragraph(f"Reproduction of {library.list_sources().get(paper, paper)}.")
        if not pairs:
            yield Paragraph("The tables of this paper contain nothing that was measured here.")
        yield from make_reproduction_tables(pairs)
        return
    if alike := [(r, ref) for r, ref in pairs if ref.alike]:
        text = "Published results under the same conditions, as far as the papers state them."
        yield Paragraph(text)
        yield from make_reproduction_tables(alike)
        return
    yield Paragraph(
        "No published result was made under the conditions of this run"
        + (" (it is simulated)." if data.simulated else ".")
    )
    if pairs:
        rows = [
            (ref.source, r.sizes, ref.direction, "; ".join(map(str, ref.differing)))
            for r, ref in pairs
        ]
        names = ("published", "octets", "direction", "conditions that differ")
        table = sheet.make_text_table("No reference lines", sheet.make_text_columns(*names), rows)
        results = sheet.pluralize(len(pairs), "published result")
        yield Collapsible(f"{results} about the same technology, and what differs", [table])


def make_reproduction_tables(pairs: list[tuple[Record, PublishedReference]]) -> list[sheet.Table]:
    """Make a table of measured and published results for each published table."""
    tables: dict[str, list[tuple[Record, PublishedReference]]] = {}
    for record, ref in pairs:
        tables.setdefault(ref.source, []).append((record, ref))
    columns: Sequence[sheet.Column[tuple[Record, PublishedReference]]] = (
        sheet.Column("what", lambda pair: _name_reference(*pair), text=True),
        sheet.Column("published device", lambda pair: _name_published_device(pair[1]), text=True, wide=True),
        sheet.Column("published", lambda pair: _format_reference(pair[1], pair[1].published_median)),
        sheet.Column("measured", lambda pair: _format_reference(pair[1], pair[1].measured)),
        sheet.Column("unit", lambda pair: pair[1].unit, text=True),
        sheet.Column("ratio", lambda pair: pair[1].ratio, ".3f", absent="-"),
        sheet.Column("conditions that differ or are not known",
               lambda pair: "; ".join(map(str, pair[1].differing)) or "none", text=True, wide=True),
    )  # fmt: skip
    return [
        sheet.make_table(f"Measured and published in {source}", rows, columns)
        for source, rows in sorted(tables.items(), key=lambda item: _make_sort_key(item[0]))
    ]


def _name_reference(record: Record, ref: PublishedReference) -> str:
    return ", ".join([ref.entry["metric"], record.sizes, ref.direction, *_list_distinctions(ref)])


def _name_published_device(ref: PublishedReference) -> str:
    return f"{ref.entry['dut']}, {ref.entry['test_system'].partition(' (')[0]}"


def _format_reference(ref: PublishedReference, value: float | None) -> str:
    return sheet.format_number(value, ",.0f" if ref.unit in ("fps", "cps") else ".5g")


def _list_distinctions(ref: PublishedReference) -> list[str]:
    """List the conditions in which numbers of a published table differ from each other."""
    formats: Mapping[str, Callable[[Any], str]] = {
        "variation": str,
        "active_cores": lambda count: sheet.pluralize(count, "core"),
        "connections": "{:,} connections".format,
        "per_frame_timeout_ms": "{} ms timeout".format,
    }
    stated = ref.entry["conditions"]
    return [form(stated[name]) for name, form in formats.items() if name in stated]


def _make_sort_key(text: str) -> list[tuple[int, str]]:
    """Return a key that sorts texts with their numbers by value: Table 2 before Table 10."""
    return [(int(p or 0), "") if p.isdigit() else (-1, p) for p in re.split(r"(\d+)", text)]


def _describe_compliance(data: RunData, presentations: Presentations) -> Iterator[Block]:
    rulings = list_rulings(data, presentations)
    if deviating := sum(c.verdict == "deviates" for c in rulings):
        of_all = f"{deviating} of {sheet.pluralize(len(rulings), 'clause')}"
        verb = "is" if deviating == 1 else "are"
        yield Paragraph(f"{of_all} {verb} not followed: these are not RFC 8219 results.", "warning")
    else:
        yield Paragraph(f"All {len(rulings)} clauses that could be checked are followed.", "good")
    yield make_compliance_table(rulings)
    text = "v6t follows the procedures of the RFCs named here; it does not certify anything."
    yield Paragraph(text)


def _fold_trials(data: RunData) -> Block:
    rows = []
    for trial in data.trials[:MAX_LISTED_TRIALS]:
        listed = list_trial_rows(trial.request, trial.result)
        for row in sorted(listed, key=itemgetter("direction", "class")):
            rows.append(tuple(_format_cell(row[k]) for k in _TRIAL_COLUMNS))
    names = [sheet.Column(k.replace("_", " "), text=k in _TEXT_COLUMNS) for k in _TRIAL_COLUMNS]
    rest = len(data.trials) - MAX_LISTED_TRIALS
    more = [Paragraph(f"The other {rest:,} trials are in trials.csv.")] if rest > 0 else []
    table = sheet.make_text_table("Every trial, as it was counted", names, rows)
    return Collapsible(f"{len(data.trials):,} trials", [table, *more])


_TRIAL_COLUMNS = [name for name in TRIAL_COLUMNS if name != "role"]  # columns in reports
_TEXT_COLUMNS = ("key", "started", "direction", "class", "faults")  # columns aligned to the left


def _format_cell(value: Any) -> str:
    return f"{value:,.10g}" if isinstance(value, float) else str(value)


def _fold_files(data: RunData) -> Iterator[Block]:
    for name, content in (("config.json", data.config), ("manifest.json", data.manifest)):
        yield Collapsible(name, [CodeListing(json.dumps(content, indent=1, sort_keys=True))])
