"""The report of a run, chapter by chapter."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from v6t.analysis.published import Reference, facts_of, references, sources
from v6t.analysis.remarks import remarks
from v6t.analysis.report.blocks import Block, Document, Facts, Folded, Items, Listing, Section, Text
from v6t.analysis.report.compliance import clauses, compliance_sheet
from v6t.analysis.report.drawings import drawings
from v6t.analysis.report.rundata import RunData
from v6t.analysis.report.trust import trust
from v6t.analysis.results import trial_row
from v6t.analysis.rfctables import grouped, sheets
from v6t.analysis.sheets import Record, Sheet, count, sheet, sizes_of

MOST_TRIALS = 3000
"""Trials that the report itself lists; ``trials.csv`` holds all."""

SHOWN, LONG = 3, 40
"""Figures of a benchmark that are not folded away, and rows of a table that is not."""


def build(data: RunData, *, paper: str | None = None, figures: bool = True) -> Document:
    """The document.

    Args:
        data: the run.
        paper: short name of a paper whose tables stand beside the run's, with all differences.
        figures: whether to draw.
    """
    label = str(data.results.get("label") or "")
    sections = [
        Section("In short", "short", list(_short(data))),
        Section("What was measured, on what", "setting", list(_setting(data))),
        *_benchmarks(data, figures),
        Section("Beside published results", "published", list(_published(data, paper))),
        Section("Validity", "validity", trust(data)),
        Section("Compliance", "compliance", list(_compliance(data))),
        Section("Raw trials", "trials", [_raw(data)]),
        Section("Configuration and manifest", "configuration", list(_files(data))),
    ]
    subtitle = " - ".join(
        part
        for part in (label, data.name, str(data.manifest.get("created", "")), data.status)
        if part
    )
    return Document(f"{data.title or data.config['plugin']}", subtitle, sections)


def _short(data: RunData) -> Iterator[Block]:
    yield Text(data.heading)
    if data.status == "translation incorrect":
        found: Mapping[str, Any] = data.results.get("finding", {})
        yield Text(
            f"The device translates wrongly ({found.get('direction', '')}): "
            f"{found.get('why', 'a frame differs from the reference translation')}. "
            "There are no results beyond this point.",
            "bad",
        )
        frames = {k: found[k] for k in ("sent", "expected", "received") if found.get(k)}
        if frames:
            yield Facts(tuple(frames.items()))
    elif data.status != "complete":
        yield Text(
            "This run is not complete: what follows is what has been measured so far. "
            "`v6t resume` continues it.",
            "warning",
        )
    headlines = [h for h in map(_headline, data.records) if h]
    if headlines:
        yield Items(headlines)
    caveats: Sequence[str] = data.results.get("caveats", ())
    if caveats:
        yield Items(caveats, "warning")
    said = remarks(data.records)
    if said:
        yield Folded(f"{len(said)} remarks about single numbers", [Items(said)])


def _headline(record: Record) -> str:
    """The one number of a point, with unit and convention."""
    where = f"{sizes_of(record)} octets, {record['direction']}"
    if record.get("not_measured"):
        return f"{record['benchmark']}, {where}: not measured ({record['not_measured']})"
    if record["benchmark"].startswith("throughput"):
        both = (
            f" ({record['aggregate_median']:,.0f} in both together)"
            if record["direction"] == "bidirectional"
            else ""
        )
        limited = "; limited by the tester" if record["tester_limited"] else ""
        return (
            f"{record['title']}, {where}: {record['median']:,.0f} frames per second per "
            f"direction{both}, median of {record['repetitions']}{limited}"
        )
    if record.get("unit") == "connections per second":
        return (
            f"{record['title']}, {where}: {record['median']:,.0f} connections per second, "
            f"median of {record['repetitions']}, {record['connections']:,} connections"
        )
    if record["benchmark"] == "back-to-back":
        return f"{record['title']}, {where}: {record['average']:,.1f} frames on average"
    return ""


def _setting(data: RunData) -> Iterator[Block]:
    c, m = data.config, data.manifest
    procedure = c["procedure"]
    yield Facts(
        (
            ("Technology", f"{c['plugin']}: {data.title}" if data.title else c["plugin"]),
            ("Follows", ", ".join(data.rfcs) or "-"),
            ("Frame sizes", f"{', '.join(map(str, c['frame_sizes']))} octets (IPv6, with FCS)"),
            ("Directions", ", ".join(c["modes"])),
            ("Benchmarks", ", ".join(c["benchmarks"])),
            (
                "Trials",
                f"{procedure['trial_duration_s']:g} s, {procedure['repetitions']} repetitions, "
                f"preset {c['preset']}",
            ),
            ("Rate convention", "frames per second per direction, unless a heading says otherwise"),
            ("Medium", f"{c['line_rate_bps'] / 1e9:g} Gbit/s"),
            ("Seed", str(c["seed"])),
        )
    )
    tester = m.get("tester") or {"kind": c["tester"]["kind"], **c["tester"]["options"]}
    device = tester.get("device") or {"driver": c["dut"]["driver"], **c["dut"]["options"]}
    yield from _described("Tester", {k: v for k, v in tester.items() if k != "device"})
    yield from _described("Device under test", device)
    yield Text("Machine of v6t")
    machine = {k: v for k, v in m.get("machine", {}).items() if v is not None}
    packages = ", ".join(f"{k} {v}" for k, v in m.get("packages", {}).items() if v)
    yield Facts(
        (
            *flat(machine),
            ("python", str(m.get("python", ""))),
            ("packages", packages),
            ("source commit", str(m.get("source_commit") or "installed package")),
            ("started", str(m.get("created", ""))),
            ("finished", ", ".join(m.get("finished", ())) or "-"),
        )
    )
    if data.params:
        yield Folded("Parameters of the technology", [Facts(tuple(flat(data.params)))])


def _described(what: str, facts: Mapping[str, Any]) -> Iterator[Block]:
    """Facts in the open, what is nested in them one click away."""
    yield Text(what)
    yield Facts(tuple(flat({k: v for k, v in facts.items() if not isinstance(v, Mapping)})))
    for name, inner in facts.items():
        if isinstance(inner, Mapping) and inner:
            yield Folded(f"{what}: {name}", [Facts(tuple(flat(inner)))])


def flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Nested values as names with dots and texts."""
    for key, value in values.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{name}.")
        elif isinstance(value, (list, tuple, dict)):
            yield name, json.dumps(value) if value else "none"
        else:
            yield name, "none" if value is None else str(value)


def _benchmarks(data: RunData, figures: bool) -> Iterator[Section]:
    for benchmark, records in grouped(data.records).items():
        blocks: list[Block] = [_folded_if_long(table) for table in sheets(records)]
        if any(r.get("tester_limited") or r.get("upper_bound_hit") for r in records):
            blocks.append(
                Text("* limited by the tester or the medium: the device may be faster", "warning")
            )
        said = remarks(records)
        if said:
            blocks.append(Items(said))
        if figures:
            drawn = drawings(data, benchmark, records)
            blocks += drawn[:SHOWN]
            if drawn[SHOWN:]:
                blocks.append(Folded(f"{len(drawn) - SHOWN} further figures", drawn[SHOWN:]))
        definition = next((r["definition"] for r in records if r.get("definition")), None)
        if definition:
            blocks.append(Text(f"Delay: {definition}."))
        title = next((r["title"] for r in records if r.get("title")), benchmark)
        yield Section(title, benchmark, blocks)


def _folded_if_long(table: Sheet) -> Block:
    if len(table.rows) <= LONG:
        return table
    return Folded(f"{table.title}: table of {len(table.rows)} rows", [table])


def _published(data: RunData, paper: str | None) -> Iterator[Block]:
    facts = facts_of(data.config, data.params)
    found = [(r, ref) for r in data.records for ref in references(r, facts, paper=paper)]
    alike = [(r, ref) for r, ref in found if ref.alike]
    if paper:
        yield Text(f"Reproduction of {sources().get(paper, paper)}.")
        if not found:
            yield Text("Nothing that was measured here stands in a table of this paper.")
            return
        yield reproduction(found)
        return
    if alike:
        yield Text("Published results under the same conditions, as far as the papers state them.")
        yield reproduction(alike)
        return
    yield Text(
        "No published result was made under the conditions of this run"
        + (" (it is simulated)." if data.simulated else ".")
    )
    if found:
        rows = [
            (ref.source, sizes_of(r), ref.direction, "; ".join(map(str, ref.differing)))
            for r, ref in found
        ]
        names = ["<published", "<octets", "<direction", "<conditions that differ"]
        yield Folded(
            f"{len(found)} published results about the same technology, and what differs",
            [sheet("No reference lines", names, rows)],
        )


def reproduction(found: Sequence[tuple[Record, Reference]]) -> Sheet:
    """Measured beside published, table by table, with everything that differs."""
    rows = []
    for record, ref in sorted(found, key=lambda pair: pair[1].source):
        unit = ref.entry["unit"]
        show = count if unit in ("fps", "cps") else _figure
        ratio = ref.measured / ref.published if ref.measured is not None else None
        rows.append(
            (
                ref.source,
                f"{ref.entry['metric']}, {sizes_of(record)}, {ref.direction}",
                f"{ref.entry['dut']}, {ref.entry['test_system']}",
                show(ref.published),
                show(ref.measured),
                unit,
                "-" if ratio is None else f"{ratio:.3f}",
                "; ".join(map(str, ref.differing)) or "none",
            )
        )
    names = [
        *("<source", "<what", "+<published device", "published", "measured", "<unit", "ratio"),
        "+<conditions that differ or are not known",
    ]
    return sheet("Measured beside published", names, rows)


def _figure(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.5g}"


def _compliance(data: RunData) -> Iterator[Block]:
    found = clauses(data)
    deviating = sum(c.verdict == "deviates" for c in found)
    if deviating:
        yield Text(
            f"{deviating} of {len(found)} clauses are not followed: this is no result in the "
            "sense of RFC 8219.",
            "warning",
        )
    else:
        yield Text(f"All {len(found)} clauses that could be checked are followed.", "good")
    yield compliance_sheet(found)
    yield Text("v6t follows the procedures of the RFCs named here; it does not certify anything.")


def _raw(data: RunData) -> Block:
    rows = []
    for trial in data.trials[:MOST_TRIALS]:
        for row in trial_row(trial.asked, trial.result):
            rows.append(tuple(_cell(row[k]) for k in _RAW))
    names = [f"{'<' if k in _TEXT else ''}{k.replace('_', ' ')}" for k in _RAW]
    rest = len(data.trials) - MOST_TRIALS
    summary = f"{len(data.trials):,} trials"
    more = [Text(f"The other {rest:,} trials are in trials.csv.")] if rest > 0 else []
    return Folded(summary, [sheet("Every trial, as it was counted", names, rows), *more])


_RAW = (
    *("key", "started", "direction", "class", "rate_fps", "duration_s", "required", "sent"),
    *("received", "surplus", "out_of_order", "late", "sending_time_s", "checked", "matched"),
    "faults",
)
_TEXT = ("key", "started", "direction", "class", "faults")


def _cell(value: Any) -> str:
    return f"{value:,.10g}" if isinstance(value, float) else str(value)


def _files(data: RunData) -> Iterator[Block]:
    for name, content in (("config.json", data.config), ("manifest.json", data.manifest)):
        text = json.dumps(content, indent=1, sort_keys=True)
        yield Folded(name, [Listing(text)])
