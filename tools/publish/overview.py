"""The page of a finished campaign: meaning of the numbers, testbed and all results.

Its runs are told by what was measured on what, not by their settings; see
:mod:`v6t.analysis.report.campaign` for the report of whoever made them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from v6t.analysis.blocks import (
    Block,
    BulletList,
    Drawing,
    FactTable,
    LinkList,
    Paragraph,
    ReportDocument,
    ReportSection,
)
from v6t.analysis.figures.plots import draw_points
from v6t.analysis.presentation import LOWER_BOUND, Presentations
from v6t.analysis.rundata import CampaignRun
from v6t.analysis.sheet import (
    UNDEFINED,
    Table,
    make_text_columns,
    make_text_table,
    mark_limited,
    pluralize,
)
from v6t.tools.publish.device_counts import device_sheet
from v6t.tools.publish.differing import MEANING as DIFFERS
from v6t.tools.publish.differing import TITLE as NOT_ALIKE
from v6t.tools.publish.differing import Differing, differing, differing_sheet
from v6t.tools.publish.doubts import LOST, LOST_MEANING, QUEUED, QUEUED_MEANING
from v6t.tools.publish.meaning import meaning
from v6t.tools.publish.point_lines import Line, device, driver, lines, names_of, technology

LOWERED = (
    "lowered: less than the throughput, because the tester could not measure delays at that rate"
)
OWN_RATES = (
    "each device was measured at its own rate: delays at different rates do not compare devices"
)
LIMITED = "* the tester or the medium was the limit: the device may be faster"
RESOLUTION = "resolution: the largest distance between the rates that passed and failed"
ALONE = (
    "tester alone: the tester's own delay at the same rate without a device, the larger of both directions; "
    "it is part of the other columns and not subtracted"
)
_SPREAD = "median (P1-P99)"
UNLIKE = (
    "Some devices were measured with other parameters than the others of their technology, because they do "
    "not support the usual ones. Their numbers do not compare the devices alone; v6t compare needs --anyway."
)
LATE = "undefined: the percentile falls on a lost frame"
PER_DIRECTION = {"frames per second": "frames per second per direction"}


@dataclass(frozen=True)
class _Spread:
    """Values of a record that a figure draws."""

    median: float
    p1: float
    p99: float


def overview(
    title: str, notes: Mapping[str, str], runs: Sequence[CampaignRun], presentations: Presentations
) -> ReportDocument:
    """Return the page as a document.

    Args:
        title: heading.
        notes: of its experiments, by name.
        runs: all of them, those that failed too.
        presentations: of the benchmarks.
    """
    made = [r for r in runs if r.data is not None and r.records]
    when = sorted(str(r.data.manifest.get("created", ""))[:10] for r in made if r.data)
    days = " to ".join(dict.fromkeys([when[0], when[-1]])) if when else "nothing measured yet"
    odd = differing(made, lambda run: (technology(run), device(run)))
    sections = [
        ReportSection("What these numbers mean", "meaning", list(meaning(made, any(odd.values())))),
        ReportSection("Machine, versions", "machine", list(_machine(made))),
    ]
    for number, benchmark in enumerate(dict.fromkeys(r.benchmark for m in made for r in m.records)):
        blocks = list(_benchmark(benchmark, made, presentations, odd, f"overview-{number}"))
        if blocks:
            titled = next(r.title for m in made for r in m.records if r.benchmark == benchmark)
            sections.append(ReportSection(titled, f"benchmark-{number}", blocks))
    if odd:
        blocks = [Paragraph(UNLIKE), differing_sheet(odd.values())]
        sections.append(ReportSection(NOT_ALIKE, "not-alike", blocks))
    told = device_sheet(made, lambda run: names_of(made)[run.directory])
    if told is not None:
        sections.append(ReportSection("Devices' own counters", "device-counters", [told]))
    sections.append(ReportSection("Not measured", "not-measured", list(_lacking(runs))))
    said = [f"{name}: {text}" for name, text in notes.items() if text and name]
    if said:
        sections.append(ReportSection("Notes", "notes", [BulletList(said)]))
    sections.append(ReportSection("Files", "files", list(_files())))
    return ReportDocument(title, days, sections)


def _machine(made: Sequence[CampaignRun]) -> Iterator[Block]:
    rows: dict[str, list[str]] = {}
    for run in made:
        manifest = run.data.manifest if run.data else {}
        machine, tester = manifest.get("machine") or {}, manifest.get("tester") or {}
        memory = machine.get("memory_kib")
        for name, value in (
            ("processor", machine.get("processor")),
            ("cores", machine.get("cores")),
            ("memory", memory and f"{memory / (1 << 20):.0f} GiB"),
            ("kernel", machine.get("kernel")),
            ("v6t", _version(manifest)),
            ("Python", manifest.get("python")),
            ("tester", tester.get("engine") or tester.get("kind")),
        ):
            if value is not None and str(value) not in rows.setdefault(name, []):
                rows[name].append(str(value))
    yield FactTable([(name, "; ".join(values)) for name, values in rows.items()])
    found: dict[str, tuple[list[str], list[str]]] = {}
    for run in made:
        for name, *told in _devices(run):
            for values, value in zip(found.setdefault(name, ([], [])), told, strict=True):
                if value and value not in values:
                    values.append(value)
    devices = [
        (name, *("; ".join(values) or "-" for values in columns))
        for name, columns in sorted(found.items())
    ]
    yield make_text_table("Devices", make_text_columns("device", "version", "system"), devices)


def _version(manifest: Mapping[str, Any]) -> str | None:
    words = [(manifest.get("packages") or {}).get("v6t"), manifest.get("source_commit")]
    said = [str(w) for w in words if w]
    return ", commit ".join(said) or None


def _devices(run: CampaignRun) -> Iterator[tuple[str, str, str]]:
    """Describe drivers, versions and systems of the devices; empty if unknown."""
    tester = (run.data.manifest.get("tester") or {}) if run.data else {}
    told = tester.get("device") or {}
    parts = told.get("parts") or {}
    devices = list(parts.values() if isinstance(parts, Mapping) else parts) or [
        {**told, "kind": driver(run)}
    ]
    for part in devices:
        words = (part.get(key) or "" for key in ("version", "system"))
        version, system = map(str, words)
        yield str(part.get("kind", "?")), version, system


def _benchmark(
    benchmark: str,
    made: Sequence[CampaignRun],
    presentations: Presentations,
    odd: Mapping[str, Differing],
    name: str,
) -> Iterator[Block]:
    """Return a figure and a table per unit, with a line for each point of each run."""
    found = list(lines(benchmark, made, presentations, odd))
    units = dict.fromkeys(unit for line in found for unit, of_unit in line.found.items() if of_unit)
    for number, unit in enumerate(units or [""]):
        # lines without a measurement have no unit and appear once
        mine = [x for x in found if x.found.get(unit) or (not number and not any(x.found.values()))]
        figures = list(dict.fromkeys(figure for line in mine for figure in line.of(unit)))
        said = PER_DIRECTION.get(unit, unit)
        drawn = list(_drawn(mine, unit))
        if len(figures) == 1 and drawn:
            caption = _caption(f"{benchmark}, {said}", mine, unit)
            figure = draw_points(cast("Any", drawn), said, f"{name}-{number}")
            yield Drawing(figure, caption, caption)
        yield _table(f"{benchmark}, {said}" if said else benchmark, unit, mine, figures)


def _caption(title: str, lines: Sequence[Line], unit: str) -> str:
    """Explain a figure, its marks and the values that it omits."""
    figures = [(line, figure) for line in lines for figure in line.of(unit).values()]
    parts = [f"{title}: median, bars from P1 to P99"]
    if any(figure["limited"] for _, figure in figures):
        parts.append(LIMITED)
    none = sum(figure["median"] is not None and not x.is_drawn(figure) for x, figure in figures)
    if none:
        parts.append(
            f"not drawn: {pluralize(none, 'device')} of which no rate that was tried passed"
        )
    return "; ".join(parts) + "."


def _differing(lines: Sequence[Line]) -> tuple[bool, bool]:
    """Return whether frame sizes and directions differ between lines."""
    return len({line.sizes for line in lines}) > 1, len({line.direction for line in lines}) > 1


def _drawn(lines: Sequence[Line], unit: str) -> Iterator[tuple[str, _Spread]]:
    """Return names and spreads of the lines that have a value."""
    sizes, directions = _differing(lines)
    for line in lines:
        for figure in line.of(unit).values():
            if not line.is_drawn(figure):
                continue
            words = [f"{line.technology}: {line.marked_device}"]
            words += [f"{line.sizes} octets"] * sizes + [line.direction] * directions
            words += [LOWER_BOUND] * (figure["figure"] == LOWER_BOUND)
            low, high = (
                figure["median"] if figure[end] is None else figure[end] for end in ("p1", "p99")
            )
            yield (
                mark_limited(", ".join(words), figure["limited"]),
                _Spread(figure["median"], low, high),
            )


def _table(title: str, unit: str, lines: Sequence[Line], figures: Sequence[str]) -> Table:
    alone = len(figures) <= 1
    stepped = alone and any(line.step for line in lines)
    _, directions = _differing(lines)
    offered = any(line.offered for line in lines)
    own = dict.fromkeys(name.rpartition(" ")[0] for line in lines for name in line.own)
    rows = []
    for line in lines:
        cells = [line.technology, line.marked_device, line.sizes, *[line.direction] * directions]
        cells += [line.offered] * offered
        for name in figures or [""]:
            figure = line.of(unit).get(name)
            show = line.printed if alone else line.spread
            cells.append(show(figure) if figure else line.lacking)
            if alone:
                cells += [line.number(figure[k]) if figure else "-" for k in ("p1", "p99")]
        cells += [line.tester] * bool(own)
        cells += [line.show(line.step) if line.step else "-"] * stepped
        rows.append((*cells, line.told))
    heads = ["median", "P1", "P99"] if alone else [f"{f or 'median'}\n{_SPREAD}" for f in figures]
    names = [
        *make_text_columns("technology", "device", "octets"),
        *make_text_columns("direction") * directions,
    ]
    names += ["offered\nfps per direction"] * offered
    heads += [f"{' / '.join(own)}\ntester alone"] * bool(own) + ["resolution"] * stepped
    notes = [*_marks(lines, unit), *[RESOLUTION] * stepped]
    notes += [LATE] * any(UNDEFINED in cell for row in rows for cell in row)
    notes += [*[ALONE] * bool(own), *_of_rates(lines)]
    notes += [f"not measured: {why}" for why in dict.fromkeys(x.why for x in lines) if why]
    return make_text_table(title, [*names, *heads, "repetitions (trials)"], rows, notes)


def _marks(lines: Sequence[Line], unit: str) -> Iterator[str]:
    """Explain the marks of these lines."""
    if any(f["limited"] for line in lines for f in line.of(unit).values()):
        yield LIMITED
    doubts = {line.doubt for line in lines}
    if LOST in doubts:
        yield LOST_MEANING
    if QUEUED in doubts:
        yield QUEUED_MEANING
    if any(line.odd for line in lines):
        yield DIFFERS


def _of_rates(lines: Sequence[Line]) -> Iterator[str]:
    """Explain the rates at which delays were measured."""
    sources = dict.fromkeys(line.source for line in lines if line.source)
    if sources:
        yield f"offered: {', '.join(sources)}"
    if any("lowered" in line.offered for line in lines):
        yield LOWERED
    if sources and len({line.offered for line in lines}) > 1:
        yield OWN_RATES


def _lacking(runs: Sequence[CampaignRun]) -> Iterator[Block]:
    whole = sum(r.status == "complete" for r in runs)
    yield Paragraph(f"{whole} of {pluralize(len(runs), 'run')} are complete.")
    rest = [r for r in runs if r.status != "complete"]
    if rest:
        yield BulletList(
            [
                ": ".join(filter(None, (technology(r), device(r), r.failure or r.status)))
                for r in rest
            ]
        )


def _files() -> Iterator[Block]:
    yield LinkList(
        [
            ("All figures of the tables, one on each line", "summary.csv"),
            ("The same for programs", "summary.json"),
            ("Every trial: frames required, sent, received and compared", "trials.csv"),
        ]
    )
    yield Paragraph(
        "The settings, machine and results of each run are in its directory, which v6t compare and v6t trend "
        "read."
    )
