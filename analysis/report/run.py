"""The report of a run, chapter by chapter."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from v6t.analysis.blocks import (
    Block,
    Cards,
    Collapsible,
    Document,
    Facts,
    Figures,
    Items,
    Listing,
    Section,
    Text,
)
from v6t.analysis.csv_rows import list_trial_rows
from v6t.analysis.presentation import Presentations
from v6t.analysis.published.library import Reference, collect_facts, find_references, list_sources
from v6t.analysis.record import Record
from v6t.analysis.report.compliance import list_clauses, make_compliance_sheet
from v6t.analysis.report.courses import draw_over_time
from v6t.analysis.report.setup import describe_setup
from v6t.analysis.report.trust import assess_validity
from v6t.analysis.report.verdict import make_title, summarize_throughput
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import Column, Sheet, count, explain_marks, pluralize, sheet, text_columns
from v6t.analysis.terms import find_terms
from v6t.analysis.warnings import CONDITION, fold_warnings, list_run_warnings, list_warnings

MOST_FIGURES = 40
"""Figures of a report, so that it stays below 3 MB; ``--figures all`` draws all of them."""
MORE_FIGURES = (
    "No more than {} figures of this benchmark are drawn; `v6t report --figures all` draws all."
)
MOST_TRIALS = 1000
"""Trials that the report itself lists; ``trials.csv`` holds all."""

SHOWN, LONG, PRINTED, BRIEF = 4, 40, 200, 10
"""Figures of a benchmark that are not folded away, rows of a table that is not, rows of one that is
printed nevertheless, and remarks that are printed."""


def build_document(
    data: RunData,
    presentations: Presentations,
    *,
    paper: str | None = None,
    most_figures: int | None = MOST_FIGURES,
) -> Document:
    """Build the document.

    Args:
        paper: short name of a paper whose tables stand beside the results, with all differences.
        most_figures: None: any number; 0: none is drawn.
    """
    label = str(data.results.get("label") or "")
    # the sketch of the set-up is one of them
    figures = Figures(most_figures and most_figures - 1)
    short = list(_summarize_run(data, presentations, figures))
    sections = [
        Section("In short", "short", short),
        Section(
            "What was measured, on what", "setting", list(describe_setup(data, most_figures != 0))
        ),
        *_make_sections(data, presentations, figures),
        Section(
            "Beside published results",
            "published",
            list(_compare_with_papers(data, presentations, paper)),
        ),
        Section("Validity", "validity", assess_validity(data)),
        Section("Compliance", "compliance", list(_describe_compliance(data, presentations))),
        *([_make_trace_section(data, presentations, figures)] if most_figures != 0 else []),
        Section("Raw trials", "trials", [_fold_trials(data)]),
        Section("Configuration and manifest", "configuration", list(_fold_files(data))),
    ]
    if presentations.failures:  # known when everything has been made
        short.append(Items(presentations.failures, "bad"))
    subtitle = " - ".join(
        part
        for part in (label, data.name, str(data.manifest.get("created", "")), data.status)
        if part
    )
    return Document(make_title(data), subtitle, sections)


def _summarize_run(
    data: RunData, presentations: Presentations, figures: Figures
) -> Iterator[Block]:
    yield Text(data.heading)
    if data.status == "translation incorrect":
        finding: Mapping[str, Any] = data.results.get("finding", {})
        yield Text(
            f"The device translates wrongly ({finding.get('direction', '')}): "
            f"{finding.get('why', 'a frame differs from the reference translation')}. "
            "There are no results beyond this point.",
            "bad",
        )
        frames = {k: finding[k] for k in ("sent", "expected", "received") if finding.get(k)}
        if frames:
            yield Facts(tuple(frames.items()))
    elif data.status != "complete":
        yield Text(
            "This run is not complete: what follows is what has been measured so far. "
            "`v6t resume` continues it.",
            "warning",
        )
    yield from summarize_throughput(data)
    for presentation, measured in presentations.group_measured(data.records):
        yield from figures.take(presentation.draw_lead(data, measured))
    cards = list(_list_cards(data.records, presentations))
    if cards:
        yield Cards(cards)
    missing = [
        f"{r.benchmark}, {r.point}: not measured ({r.not_measured})"
        for r in data.records
        if not r.measured
    ]
    if missing:
        yield Items(missing, "warning")
    warnings = list_run_warnings(data, presentations)
    if conditions := [warning.text for warning in warnings if warning.code == CONDITION]:
        yield Items(conditions, "warning")
    if others := [warning for warning in warnings if warning.code != CONDITION]:
        yield fold_warnings(others, brief=len(others) < BRIEF)


def _list_cards(
    records: Sequence[Record], presentations: Presentations
) -> Iterator[tuple[str, str, str]]:
    measured = [r for r in records if r.measured]
    smallest = min((r.frame_sizes.ipv6 for r in measured), default=0)
    for record in measured:
        if record.frame_sizes.ipv6 == smallest:
            for result in presentations.find(record).results(record):
                if card := result.card:
                    yield card.number, card.unit, card.what


def _make_sections(
    data: RunData, presentations: Presentations, figures: Figures
) -> Iterator[Section]:
    groups = list(presentations.group_records(data.records))
    for number, (presentation, records) in enumerate(groups):
        share = figures.divide(len(groups) - number)
        measured = [r for r in records if r.measured]
        blocks: list[Block] = []
        if measured:
            blocks += map(fold_long_table, presentation.make_tables(measured))
            blocks += (Text(note, "warning") for note in explain_marks(measured))
            words = find_terms(_list_headings(blocks))
            if words:
                meanings = [Facts(tuple(words))]
                blocks.append(Collapsible("What the words mean", meanings, brief=True, shown=True))
        if found := list_warnings(records, presentations):
            blocks.append(Items([str(warning) for warning in found]))
        if measured:
            drawn = list(share.take(presentation.draw_figures(data, measured)))
            blocks += drawn[:SHOWN]
            if drawn[SHOWN:]:
                rest = len(drawn) - SHOWN
                blocks.append(
                    Collapsible(f"{rest} further figure{'s' * (rest > 1)}", drawn[SHOWN:])
                )
            blocks += draw_over_time(data, measured, share)
            if share.left == 0 and share.most:
                blocks.append(Text(MORE_FIGURES.format(share.most)))
        definition = presentation.define(measured) if measured else ""
        if definition:
            blocks.append(Text(definition))
        anchor = presentation.name or f"unknown-{number}"
        yield Section(records[0].title, anchor, blocks)


def _make_trace_section(data: RunData, presentations: Presentations, figures: Figures) -> Section:
    blocks: list[Block] = []
    for presentation, measured in presentations.group_measured(data.records):
        drawn = list(figures.take(presentation.draw_traces(data, measured)))
        if drawn:
            blocks.append(Collapsible(f"{measured[0].title}: {len(drawn)} figures", drawn))
    words = "Every trial of each search in order, and the rate of every repetition."
    return Section("How the rates were found", "traces", [Text(words), *blocks] if blocks else [])


def _list_headings(blocks: Sequence[Block]) -> list[str]:
    headings = []
    for block in blocks:
        if isinstance(block, Sheet):
            headings += [block.title, *(column.name for column in block.columns)]
        elif isinstance(block, Collapsible):
            headings += _list_headings(block.blocks)
    return headings


def fold_long_table(table: Sheet) -> Block:
    """Fold a table away if it has many rows."""
    if len(table.rows) <= LONG:
        return table
    summary = f"{table.title}: table of {len(table.rows)} rows"
    return Collapsible(summary, [table], brief=len(table.rows) <= PRINTED)


def _compare_with_papers(
    data: RunData, presentations: Presentations, paper: str | None
) -> Iterator[Block]:
    facts = collect_facts(data.config, data.params, simulated=data.simulated)
    pairs = [
        (r, ref)
        for r in data.records
        for ref in find_references(r, facts, presentations, paper=paper)
    ]
    alike = [(r, ref) for r, ref in pairs if ref.alike]
    if paper:
        yield Text(f"Reproduction of {list_sources().get(paper, paper)}.")
        if not pairs:
            yield Text("Nothing that was measured here stands in a table of this paper.")
            return
        yield from make_reproduction_sheets(pairs)
        return
    if alike:
        yield Text("Published results under the same conditions, as far as the papers state them.")
        yield from make_reproduction_sheets(alike)
        return
    yield Text(
        "No published result was made under the conditions of this run"
        + (" (it is simulated)." if data.simulated else ".")
    )
    if pairs:
        rows = [
            (ref.source, r.sizes, ref.direction, "; ".join(map(str, ref.differing)))
            for r, ref in pairs
        ]
        names = text_columns("published", "octets", "direction", "conditions that differ")
        yield Collapsible(
            f"{len(pairs)} published results about the same technology, and what differs",
            [sheet("No reference lines", names, rows)],
        )


def make_reproduction_sheets(pairs: Sequence[tuple[Record, Reference]]) -> list[Sheet]:
    """Make a table of measured beside published results for each published one, with all differences."""
    tables: dict[str, list[tuple[str, ...]]] = {}
    for record, ref in pairs:
        show = count if ref.unit in ("fps", "cps") else _format_figure
        ratio = ref.measured / ref.published if ref.measured is not None else None
        tables.setdefault(ref.source, []).append(
            (
                ", ".join(
                    [ref.entry["metric"], record.sizes, ref.direction, *_list_distinctions(ref)]
                ),
                f"{ref.entry['dut']}, {ref.entry['test_system'].partition(' (')[0]}",
                show(ref.published),
                show(ref.measured),
                ref.unit,
                "-" if ratio is None else f"{ratio:.3f}",
                "; ".join(map(str, ref.differing)) or "none",
            )
        )
    names = [
        *(
            *text_columns("what"),
            Column("published device", text=True, wide=True),
            "published",
            "measured",
            *text_columns("unit"),
            "ratio",
        ),
        Column("conditions that differ or are not known", text=True, wide=True),
    ]
    return [
        sheet(f"Measured beside {source}", names, rows)
        for source, rows in sorted(tables.items(), key=lambda item: _make_sort_key(item[0]))
    ]


def _list_distinctions(ref: Reference) -> list[str]:
    stated = ref.entry["conditions"]
    words = {
        "variation": "{}",
        "active_cores": "{} cores",
        "connections_million": "{} M connections",
        "per_frame_timeout_ms": "{} ms timeout",
    }
    return [word.format(stated[name]) for name, word in words.items() if name in stated]


def _make_sort_key(text: str) -> list[tuple[int, str]]:
    return [(int(p or 0), "") if p.isdigit() else (-1, p) for p in re.split(r"(\d+)", text)]


def _format_figure(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.5g}"


def _describe_compliance(data: RunData, presentations: Presentations) -> Iterator[Block]:
    all_clauses = list_clauses(data, presentations)
    deviating = sum(c.verdict == "deviates" for c in all_clauses)
    if deviating:
        yield Text(
            f"{deviating} of {pluralize(len(all_clauses), 'clause')} {'is' if deviating == 1 else 'are'} not "
            "followed: this is no result in the "
            "sense of RFC 8219.",
            "warning",
        )
    else:
        yield Text(f"All {len(all_clauses)} clauses that could be checked are followed.", "good")
    yield make_compliance_sheet(all_clauses)
    yield Text("v6t follows the procedures of the RFCs named here; it does not certify anything.")


def _fold_trials(data: RunData) -> Block:
    rows = []
    for trial in data.trials[:MOST_TRIALS]:
        listed = list_trial_rows(trial.asked, trial.result)
        for row in sorted(listed, key=itemgetter("direction", "class")):
            rows.append(tuple(_format_cell(row[k]) for k in _RAW))
    names = [Column(k.replace("_", " "), text=k in _TEXT) for k in _RAW]
    rest = len(data.trials) - MOST_TRIALS
    summary = f"{len(data.trials):,} trials"
    more = [Text(f"The other {rest:,} trials are in trials.csv.")] if rest > 0 else []
    return Collapsible(summary, [sheet("Every trial, as it was counted", names, rows), *more])


_RAW = (
    *("key", "started", "direction", "class", "rate_fps", "duration_s", "required", "sent"),
    *("received", "surplus", "out_of_order", "late", "sending_time_s", "checked", "matched"),
    "faults",
)
_TEXT = ("key", "started", "direction", "class", "faults")


def _format_cell(value: Any) -> str:
    return f"{value:,.10g}" if isinstance(value, float) else str(value)


def _fold_files(data: RunData) -> Iterator[Block]:
    for name, content in (("config.json", data.config), ("manifest.json", data.manifest)):
        text = json.dumps(content, indent=1, sort_keys=True)
        yield Collapsible(name, [Listing(text)])
