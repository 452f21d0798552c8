"""Report of a campaign: its runs, scaling curves, and comparison with a paper."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from v6t.analysis import sheet
from v6t.analysis.blocks import (
    Block,
    BulletList,
    Collapsible,
    LinkList,
    Paragraph,
    ReportDocument,
    ReportSection,
)
from v6t.analysis.presentation import Percentiles, Presentations, Quantity
from v6t.analysis.published import library
from v6t.analysis.record import FPS, Record
from v6t.analysis.report.curves import draw_curves
from v6t.analysis.report.run import fold_long_table, make_reproduction_tables
from v6t.analysis.rundata import POINT_AXES, Runs, format_axis_value, shorten_axis
from v6t.analysis.warnings import fold_warnings, list_warnings

SCHEMA = "v6t-campaign/1"  # name and version of the JSON format


def build_campaign_document(
    name: str,
    title: str,
    paper: str | None,
    notes: Mapping[str, str],
    runs: Runs,
    presentations: Presentations,
    *,
    figures: bool = True,
    links: bool = True,
) -> ReportDocument:
    """Build the report of a campaign.

    Args:
        notes: notes on experiments by their names; the one on the campaign by ``""``.
        links: whether to link the reports of single runs.
    """
    summary = list(_summarize_runs(runs, paper, notes.get("", "")))
    sections = [ReportSection("Summary", "short", summary)]
    for number, experiment in enumerate(dict.fromkeys(r.experiment for r in runs), 1):
        members = [r for r in runs if r.experiment == experiment]
        blocks: list[Block] = []
        if notes.get(experiment):
            blocks.append(Paragraph(notes[experiment]))
        blocks += map(fold_long_table, make_campaign_tables(members, presentations))
        blocks += draw_curves(experiment, members, runs, presentations, figures=figures)
        sentences = [
            f"{r.directory}: {s}" for r in members for s in list_warnings(r.records, presentations)
        ]
        if sentences:
            blocks.append(fold_warnings(sentences))
        sections.append(ReportSection(experiment, f"experiment-{number}", blocks))
    if paper:
        comparison = list(_compare_with_paper(paper, runs, presentations))
        sections.append(ReportSection("Paper comparison", "paper", comparison))
    sections.append(ReportSection("Runs", "runs", list(_list_runs(runs, links=links))))
    return ReportDocument(title or name, name, sections)


# columns of a campaign's summary.csv with their meaning; there is one more for each varied setting
SUMMARY_COLUMNS: Mapping[str, str] = {
    "directory": "directory of the run below that of the campaign",
    "experiment": "experiment of the campaign file",
    "testbed": "testbed of the campaign file",
    "status": "state of the run",
    "benchmark": "name of the benchmark",
    "title": "name of the result",
    "ipv6_frame_size": "frame size on the IPv6 side with FCS [octets]",
    "ipv4_frame_size": "frame size on the IPv4 side with FCS [octets]",
    "direction": "directions under load",
    "repetitions": "repetitions of the benchmark",
    "trials": "trials behind the figure",
    "invalid_trials": "trials in which the tester failed",
    "unit": "unit of the figure",
    "convention": "`per_direction` or `aggregate`",
    "figure": "name of the figure",
    "median": "median of the repetitions; empty: undefined [see `unit`]",
    "p1": "1st percentile; empty: undefined [see `unit`]",
    "p99": "99th percentile; empty: undefined [see `unit`]",
    "limited": "the tester or the medium limits the figure",
}


def summarize_campaign(
    name: str, title: str, paper: str | None, runs: Runs, presentations: Presentations
) -> dict[str, Any]:
    """Return the campaign as ``schema/campaign-1.json`` describes, without times and machines."""
    return {
        "schema": SCHEMA,
        "name": name,
        "title": title,
        "paper": paper,
        "runs": [
            {
                "directory": r.directory,
                "experiment": r.experiment,
                "testbed": r.testbed,
                "axes": dict(r.axes),
                "status": r.status,
                "failure": r.failure,
                "results": [
                    figure
                    for record in r.records
                    for figure in list_headlines(record, presentations)
                ],
            }
            for r in runs
        ],
    }


def list_headlines(record: Record, presentations: Presentations) -> Iterator[dict[str, Any]]:
    """Yield the headline figures of a record: one, or one for each direction."""
    head = {
        "benchmark": record.benchmark,
        "title": record.title,
        "ipv6_frame_size": record.frame_sizes.ipv6,
        "ipv4_frame_size": record.frame_sizes.ipv4,
        "direction": record.direction,
        "repetitions": record.repetitions,
        "trials": len(record.trials),
        "invalid_trials": len(record.invalid_trials),
        "unit": record.unit,
        "convention": record.convention,
    }
    results: Iterable[Quantity] = [Quantity("", "", (), headline="not measured")]
    if record.measured:
        results = presentations.find(record).list_quantities(record)
    for result in results:
        if result.headline:
            s = result.summary or Percentiles(None, None, None)
            values = {"figure": result.headline, "median": s.median, "p1": s.p1, "p99": s.p99}
            yield {**head, **values, "limited": record.limited or not result.load_covered}


def _summarize_runs(runs: Runs, paper: str | None, note: str) -> Iterator[Block]:
    if paper:
        yield Paragraph(f"Repeats {library.list_sources()[paper]}.")
    if note:
        yield Paragraph(note)
    complete = sum(r.status == "complete" for r in runs)
    tone: Any = "good" if complete == len(runs) else "warning"
    yield Paragraph(f"{complete} of {len(runs)} runs are complete.", tone)
    if failed := [r for r in runs if r.status in ("failed", "translation incorrect")]:
        yield BulletList([f"{r.directory}: {r.failure or r.status}" for r in failed], "bad")
    if caveats := dict.fromkeys(c for r in runs if r.data for c in r.data.caveats):
        yield BulletList(list(caveats), "warning")


def make_campaign_tables(runs: Runs, presentations: Presentations) -> list[sheet.Table]:
    """Make a table of medians and percentiles for each benchmark and unit."""
    axes = list(dict.fromkeys(a for r in runs for a in r.axes if a not in POINT_AXES))
    groups: dict[str, list[tuple[str, ...]]] = {}
    for run in runs:
        for record in run.records:
            show = presentations.find(record).format_value
            for f in list_headlines(record, presentations):
                row = (
                    *(format_axis_value(run.axes.get(a, "")) for a in axes),
                    record.sizes,
                    f["direction"],
                    "" if f["figure"] == f["benchmark"] else f["figure"],
                    sheet.mark_limited(show(f["median"]), f["limited"]),
                    *(show(f[k]) for k in ("p1", "p99")),
                    str(f["repetitions"]),
                )
                per_direction = " per direction" * (f["unit"] == FPS)
                title = f"{record.title}, {f['unit'] or ''}{per_direction}"
                groups.setdefault(title, []).append(row)
    names = [
        *sheet.make_text_columns(*map(shorten_axis, axes)),
        *sheet.make_text_columns("octets", "direction"),
        sheet.Column("figure", text=True, optional=True),
        *("median", "P1", "P99", "repetitions"),
    ]
    return [sheet.make_text_table(title, names, rows) for title, rows in groups.items()]


def _compare_with_paper(paper: str, runs: Runs, presentations: Presentations) -> Iterator[Block]:
    best: dict[int, Any] = {}
    for run in runs:
        if (data := run.data) is None:
            continue
        facts = library.collect_facts(data.config, data.params, simulated=data.simulated)
        for record in run.records:
            for ref in library.find_references(record, facts, presentations, paper=paper):
                # of several runs, the one that differs least is compared with the paper's number
                rank = (len(ref.differing), not library.is_testbed_of(ref.entry, run.testbed))
                known = best.get(id(ref.entry))
                if known is None or rank < known[2]:
                    best[id(ref.entry)] = (record, ref, rank)
    yield from make_reproduction_tables([(record, ref) for record, ref, _ in best.values()])
    if paper == "ipv6net-2015":
        yield from make_mean_tables(runs)
    matched = {*best, *(id(entry) for entry, _ in match_published_means(runs))}
    rest = Counter(
        (entry["table"], f"{entry['technology']}, {entry['metric']}", entry["dut"])
        for entry in library.read_library()["records"]
        if entry["seed"] == paper and id(entry) not in matched
    )
    if rest:
        rows = [(*place, str(times)) for place, times in rest.items()]
        names = [*sheet.make_text_columns("table", "what", "device"), "numbers"]
        yield Collapsible(
            f"{sum(rest.values())} published numbers without a measured one",
            [sheet.make_text_table("Not repeated here", names, rows)],
        )


# metrics of the paper that can be compared, and how the measured quantity differs from them
METRIC_DIFFERENCES = {
    "throughput": "UDP only, both directions, forwarded at the medium's full rate, no D-ITG",
    "round-trip delay": "both one-way medians added, at the throughput, no D-ITG",
}


def make_mean_tables(runs: Runs) -> list[sheet.Table]:
    """Make a table for each published table with a comparable mean."""
    simulated = any(run.data.simulated for run in runs if run.data is not None)
    tables: dict[str, list[tuple[dict[str, Any], float]]] = {}
    for entry, measured in match_published_means(runs):
        tables.setdefault(entry["table"], []).append((entry, measured))
    columns: Sequence[sheet.Column[tuple[dict[str, Any], float]]] = (
        sheet.Column("what", lambda pair: _name_mean(pair[0]), text=True),
        sheet.Column("published device", lambda pair: "{dut}, {test_system}".format_map(pair[0]), text=True,
               wide=True),
        sheet.Column("published\nmean", lambda pair: pair[0]["mean"], ",.5g"),
        sheet.Column("99 %\nmargin", lambda pair: pair[0]["margin_of_error_99"], ",.3g", wide=True),
        sheet.Column("measured\nmean", lambda pair: pair[1], ",.5g"),
        sheet.Column("unit", lambda pair: pair[0]["unit"], text=True),
        sheet.Column("ratio", lambda pair: pair[1] / pair[0]["mean"], ".3f"),
        sheet.Column("what differs", lambda pair: METRIC_DIFFERENCES[_get_metric(pair[0])]
               + "; simulated" * simulated, text=True, wide=True),
    )  # fmt: skip
    title = "Measured and published in ipv6net-2015, {}: means over frame sizes"
    return [sheet.make_table(title.format(table), rows, columns) for table, rows in tables.items()]


def _get_metric(entry: Mapping[str, Any]) -> str:
    return str(entry["metric"]).partition(" (")[0]


def _name_mean(entry: Mapping[str, Any]) -> str:
    return f"{entry['technology']}, {_get_metric(entry)}, {entry['conditions']['workload']}"


def match_published_means(runs: Runs) -> Iterator[tuple[dict[str, Any], float]]:
    """Yield each published mean over frame sizes with the mean of the matching run."""
    for entry in library.read_library()["records"]:
        metric = _get_metric(entry)
        if "mean" not in entry or metric not in METRIC_DIFFERENCES:
            continue
        megabits = float(entry["conditions"]["workload"].partition(" ")[0])
        for run in runs:
            if (data := run.data) is None or data.config["line_rate_bps"] != megabits * 1e6:
                continue
            plugin, driver = data.config["plugin"], data.config["dut"]["driver"]
            if not library.is_about(entry, plugin, data.params, driver):
                continue
            if values := _list_values(metric, run.records):
                yield entry, fmean(values)


def _list_values(metric: str, records: Sequence[Record]) -> list[float]:
    """Return the values of a run by a metric of the paper [kbit/s or ms]."""
    if metric == "round-trip delay":
        return [r.round_trip_ms for r in records if r.round_trip_ms is not None]
    forwarded = ((r.forwarded_at_full_load_fps, r.frame_sizes.ipv4) for r in records)
    return [fps * octets * 8 / 1000 for fps, octets in forwarded if fps is not None]


def _list_runs(runs: Runs, *, links: bool) -> Iterator[Block]:
    rows = [
        (r.directory, r.experiment, r.testbed or "-", r.values or "-", r.failure or r.status)
        for r in runs
    ]
    columns = sheet.make_text_columns("directory", "experiment", "testbed", "what varies", "status")
    yield sheet.make_text_table("All runs", columns, rows)
    reports = [(r.directory, f"{r.directory}/report.html") for r in runs if r.data is not None]
    if reports and links:
        yield Paragraph("Reports of the single runs:")
        yield LinkList(reports)
