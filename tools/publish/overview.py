"""The page of a campaign as a document: introduction, test bed, tables and figures of all results.

Rows are named by technology and device. For the report to the user who runs the campaign, see
:mod:`v6t.analysis.report.campaign`.
"""

from collections.abc import Iterator, Mapping, Sequence

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
from v6t.analysis.presentation import LOWER_BOUND, Percentiles, Presentations
from v6t.analysis.rundata import CampaignRun
from v6t.analysis.sheet import (
    UNDEFINED,
    Table,
    make_text_columns,
    make_text_table,
    mark_limited,
    pluralize,
)
from v6t.core.runs.manifest import list_versions
from v6t.tools.publish.device_counts import make_device_table
from v6t.tools.publish.introduction import write_introduction
from v6t.tools.publish.rate_checks import LOSS_MARK, LOSS_NOTE, QUEUE_MARK, QUEUE_NOTE
from v6t.tools.publish.result_rows import (
    ResultRow,
    build_rows,
    format_device,
    format_technology,
    get_driver_name,
    name_runs,
)
from v6t.tools.publish.setting_differences import (
    MARK_NOTE,
    SECTION_TITLE,
    find_setting_differences,
    make_difference_table,
)

LOWERED_NOTE = (
    "lowered: less than the throughput, because the tester could not measure delays at that rate"
)
OWN_RATES_NOTE = (
    "each device was measured at its own rate: delays at different rates do not compare devices"
)
LIMITED_NOTE = "* the tester or the medium was the limit: the device may be faster"
RESOLUTION_NOTE = (
    "resolution: the largest difference between the highest passing and the lowest failing rate "
    "of a search"
)
LOOPBACK_NOTE = (
    "tester alone: the tester's own delay at the same rate without a device, the larger of both directions; "
    "it is part of the other columns and not subtracted"
)
UNDEFINED_NOTE = "undefined: the percentile falls on a lost frame"
DIFFERENCES_INTRODUCTION = (
    "Some devices do not support the parameters of most rows of their technology and were measured with "
    "others. Their numbers reflect the parameters too; v6t compare needs --anyway."
)
AXIS_LABELS = {"frames per second": "frames per second per direction"}
"""Labels of units whose name alone is ambiguous."""


def build_overview(
    title: str, notes: Mapping[str, str], runs: Sequence[CampaignRun], presentations: Presentations
) -> ReportDocument:
    """Return the page as a document.

    Args:
        title: heading of the page.
        notes: notes of the campaign by experiment.
        runs: all runs, including those that failed.
        presentations: presentations of all benchmarks.
    """
    measured = [r for r in runs if r.data is not None and r.records]
    days = sorted(str(r.data.manifest.get("created", ""))[:10] for r in measured if r.data)
    dates = " to ".join(dict.fromkeys([days[0], days[-1]])) if days else "nothing measured yet"
    names = {run.directory: (format_technology(run), format_device(run)) for run in measured}
    differences = find_setting_differences(measured, names)
    introduction = list(write_introduction(measured, has_differences=bool(differences)))
    sections = [
        ReportSection("What these numbers mean", "meaning", introduction),
        ReportSection("Machine, versions", "machine", list(_describe_machine(measured))),
    ]
    titles: dict[str, str] = {}
    for record in (record for run in measured for record in run.records):
        titles.setdefault(record.benchmark, record.title)
    for number, (benchmark, heading) in enumerate(titles.items()):
        rows = list(build_rows(benchmark, measured, presentations, differences))
        blocks = list(present_benchmark(benchmark, rows, f"overview-{number}"))
        sections.append(ReportSection(heading, f"benchmark-{number}", blocks))
    if differences:
        blocks = [Paragraph(DIFFERENCES_INTRODUCTION), make_difference_table(differences.values())]
        sections.append(ReportSection(SECTION_TITLE, "not-alike", blocks))
    device_table = make_device_table(measured, name_runs(measured))
    if device_table is not None:
        sections.append(ReportSection("Device counters", "device-counters", [device_table]))
    sections.append(ReportSection("Not measured", "not-measured", list(_list_incomplete(runs))))
    note_lines = [f"{name}: {text}" for name, text in notes.items() if text and name]
    if note_lines:
        sections.append(ReportSection("Notes", "notes", [BulletList(note_lines)]))
    files = [
        LinkList(
            [
                ("All values of the tables, one per line", "summary.csv"),
                ("The same values as JSON", "summary.json"),
                ("Every trial: frames required, sent, received and compared", "trials.csv"),
            ]
        ),
        Paragraph(
            "The settings, machine and results of each run are in its directory, which v6t compare and "
            "v6t trend read."
        ),
    ]
    sections.append(ReportSection("Files", "files", files))
    return ReportDocument(title, dates, sections)


def _describe_machine(runs: Sequence[CampaignRun]) -> Iterator[Block]:
    """Yield the facts about the machine and the tester, and the table of devices."""
    facts: dict[str, list[str]] = {}
    for run in runs:
        manifest = run.data.manifest if run.data else {}
        machine, tester = manifest.get("machine") or {}, manifest.get("tester") or {}
        memory_kib = machine.get("memory_kib")
        for name, value in (
            ("processor", machine.get("processor")),
            ("cores", machine.get("cores")),
            ("memory", memory_kib and f"{memory_kib / (1 << 20):.0f} GiB"),
            ("kernel", machine.get("kernel")),
            *(("v6t", version) for version in list_versions(manifest)),
            ("Python", manifest.get("python")),
            ("tester", tester.get("engine") or tester.get("kind")),
        ):
            if value is not None and str(value) not in facts.setdefault(name, []):
                facts[name].append(str(value))
    yield FactTable([(name, "; ".join(values)) for name, values in facts.items()])
    devices: dict[str, tuple[list[str], list[str]]] = {}
    for run in runs:
        for name, *values in _list_devices(run):
            for column, value in zip(devices.setdefault(name, ([], [])), values, strict=True):
                if value and value not in column:
                    column.append(value)
    rows = [
        (name, *("; ".join(values) or "-" for values in columns))
        for name, columns in sorted(devices.items())
    ]
    yield make_text_table("Devices", make_text_columns("device", "version", "system"), rows)


def _list_devices(run: CampaignRun) -> Iterator[tuple[str, str, str]]:
    """Yield (driver, version, system) of the device or of its parts; unknown values are empty."""
    tester = (run.data.manifest.get("tester") or {}) if run.data else {}
    device = tester.get("device") or {}
    parts = device.get("parts") or {}
    devices = list(parts.values() if isinstance(parts, Mapping) else parts)
    for part in devices or [{**device, "kind": get_driver_name(run)}]:
        version, system = (str(part.get(key) or "") for key in ("version", "system"))
        yield str(part.get("kind", "?")), version, system


def present_benchmark(
    benchmark: str, rows: Sequence[ResultRow], drawing_id: str
) -> Iterator[Block]:
    """Yield a table for each unit, preceded by a figure if each row has only one value."""
    units = dict.fromkeys(unit for row in rows for unit, figures in row.figures.items() if figures)
    for number, unit in enumerate(units or [""]):
        # rows without a measurement have no unit and appear in the first table
        in_unit = [
            row
            for row in rows
            if row.get_figures(unit) or (number == 0 and not any(row.figures.values()))
        ]
        names = list(dict.fromkeys(name for row in in_unit for name in row.get_figures(unit)))
        label = AXIS_LABELS.get(unit, unit)
        title = f"{benchmark}, {label}" if label else benchmark
        values = list(_list_drawn_values(in_unit, unit))
        if len(names) == 1 and values:
            caption = _format_caption(title, in_unit, unit)
            figure = draw_points(values, label, f"{drawing_id}-{number}")
            yield Drawing(figure, caption, caption)
        yield _make_table(title, unit, in_unit, names)


def _format_caption(title: str, rows: Sequence[ResultRow], unit: str) -> str:
    """Explain a figure, its marks and the values that it omits."""
    figures = [(row, figure) for row in rows for figure in row.get_figures(unit).values()]
    parts = [f"{title}: median, bars from P1 to P99"]
    if any(figure["limited"] for _, figure in figures):
        parts.append(LIMITED_NOTE)
    omitted = sum(f["median"] is not None and not row.can_draw(f) for row, f in figures)
    if omitted:
        parts.append(f"not drawn: {pluralize(omitted, 'device')} for which no rate passed")
    return "; ".join(parts) + "."


def _list_drawn_values(rows: Sequence[ResultRow], unit: str) -> Iterator[tuple[str, Percentiles]]:
    """Yield a label and the values for each row that can be drawn."""
    has_sizes = len({row.sizes for row in rows}) > 1
    has_directions = len({row.direction for row in rows}) > 1
    for row in rows:
        for figure in row.get_figures(unit).values():
            if not row.can_draw(figure):
                continue
            label = [f"{row.technology}: {row.marked_device}"]
            label += [f"{row.sizes} octets"] * has_sizes + [row.direction] * has_directions
            label += [LOWER_BOUND] * (figure["figure"] == LOWER_BOUND)
            spread = Percentiles(figure["median"], figure["p1"], figure["p99"])
            yield mark_limited(", ".join(label), figure["limited"]), spread


def _make_table(title: str, unit: str, rows: Sequence[ResultRow], names: Sequence[str]) -> Table:
    """Return the table of one unit.

    A single figure has three columns: median, P1 and P99. Each of several figures has one column.
    """
    is_single = len(names) <= 1
    has_directions = len({row.direction for row in rows}) > 1
    has_offered = any(row.offered for row in rows)
    has_resolution = is_single and any(row.resolution for row in rows)
    loopbacks = dict.fromkeys(
        name.rpartition(" ")[0] for row in rows for name in row.loopback_values
    )

    left = ["technology", "device", "octets", *["direction"] * has_directions]
    right = ["offered\nfps per direction"] * has_offered
    right += (
        ["median", "P1", "P99"]
        if is_single
        else [f"{name or 'median'}\nmedian (P1-P99)" for name in names]
    )
    right += [f"{' / '.join(loopbacks)}\ntester alone"] * bool(loopbacks)
    right += ["resolution"] * has_resolution

    lines = []
    for row in rows:
        cells = [row.technology, row.marked_device, row.sizes, *[row.direction] * has_directions]
        cells += [row.offered] * has_offered
        for name in names or [""]:
            figure = row.get_figures(unit).get(name)
            if figure is None:
                cells += [row.placeholder, *["-", "-"] * is_single]
            elif is_single:
                cells += [row.format_median(figure)]
                cells += [row.format_number(figure[key]) for key in ("p1", "p99")]
            else:
                cells.append(row.format_spread(figure))
        cells += [row.loopback] * bool(loopbacks)
        if has_resolution:
            cells.append(row.format_value(row.resolution) if row.resolution else "-")
        lines.append((*cells, row.repetitions))

    notes = [*_explain_marks(rows, unit), *[RESOLUTION_NOTE] * has_resolution]
    notes += [UNDEFINED_NOTE] * any(UNDEFINED in cell for line in lines for cell in line)
    notes += [*[LOOPBACK_NOTE] * bool(loopbacks), *_explain_offered_rates(rows)]
    reasons = dict.fromkeys(row.not_measured for row in rows if row.not_measured)
    notes += [f"not measured: {reason}" for reason in reasons]
    columns = [*make_text_columns(*left), *right, "repetitions (trials)"]
    return make_text_table(title, columns, lines, notes)


def _explain_marks(rows: Sequence[ResultRow], unit: str) -> Iterator[str]:
    """Yield a note for each mark of these rows."""
    if any(figure["limited"] for row in rows for figure in row.get_figures(unit).values()):
        yield LIMITED_NOTE
    marks = {row.mark for row in rows}
    if LOSS_MARK in marks:
        yield LOSS_NOTE
    if QUEUE_MARK in marks:
        yield QUEUE_NOTE
    if any(row.differs for row in rows):
        yield MARK_NOTE


def _explain_offered_rates(rows: Sequence[ResultRow]) -> Iterator[str]:
    """Yield notes on the rates at which delays were measured."""
    origins = dict.fromkeys(row.rate_origin for row in rows if row.rate_origin)
    if origins:
        yield f"offered: {', '.join(origins)}"
    if any("lowered" in row.offered for row in rows):
        yield LOWERED_NOTE
    if origins and len({row.offered for row in rows}) > 1:
        yield OWN_RATES_NOTE


def _list_incomplete(runs: Sequence[CampaignRun]) -> Iterator[Block]:
    """Yield the number of complete runs, and the others with their failures."""
    incomplete = [run for run in runs if run.status != "complete"]
    complete = len(runs) - len(incomplete)
    yield Paragraph(f"{complete} of {pluralize(len(runs), 'run')} are complete.")
    if incomplete:
        parts = (
            (format_technology(r), format_device(r), r.failure or r.status) for r in incomplete
        )
        yield BulletList([": ".join(filter(None, texts)) for texts in parts])
