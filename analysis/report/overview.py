"""A finished campaign as a page for others: what the numbers mean, on what they were made, all of them.

Its runs are told by what was measured on what, not by their settings; see
:mod:`v6t.analysis.report.campaign` for the report of whoever made them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from v6t.analysis.blocks import Block, Document, Drawing, Facts, Items, Link, Links, Section, Text
from v6t.analysis.figures.points import points_figure
from v6t.analysis.presentation import AT_LEAST, Presentations
from v6t.analysis.presentations.common import marked
from v6t.analysis.records.base import CPS, FPS, Record
from v6t.analysis.records.resolution import QPS
from v6t.analysis.report.campaign import figures_of
from v6t.analysis.report.campaign_run import OF_POINTS, CampaignRun, axis_name, run_name, shown
from v6t.analysis.report.meaning import meaning
from v6t.analysis.sheet import INVALID, UNDEFINED, Sheet, number_of, sheet

LOWERED = "lowered: less than the throughput, at which the tester could not carry out these trials"
OWN_RATES = "each line has its device's own rate: delays at different rates do not compare devices"
LIMITED = "* the tester or the medium was the limit: the device may be faster"
RESOLUTION = (
    "resolution: a search ends where rates that passed and failed are so near to each other"
)
STEPS: Mapping[str, str] = {FPS: "resolution_fps", CPS: "resolution_cps", QPS: "resolution_qps"}
LATE = "undefined: lost frames decide this figure"
PER_DIRECTION = {"frames per second": "frames per second per direction"}


@dataclass(frozen=True)
class _Line:
    """What one run found of one benchmark at one point.

    Attributes:
        technology, device, sizes, direction: what on what, and where.
        offered: at which rate, where it was not looked for; empty: it was.
        source: where that rate comes from.
        found: headline figures by unit and name, as :func:`figures_of` has them; a unit without any
            where nothing was measured.
        show: a number of them as it is printed.
        lacking: what is printed for a figure that is not there.
        told: repetitions and trials.
        why: nothing was measured; empty: something was.
        step: how near to each other rates were tried that passed and failed; None: none were looked for.
    """

    technology: str
    device: str
    sizes: str
    direction: str
    offered: str
    source: str
    found: Mapping[str, Mapping[str, Mapping[str, Any]]]
    show: Callable[[float | None], str]
    lacking: str
    told: str
    why: str = ""
    step: float | None = None

    def of(self, unit: str) -> Mapping[str, Mapping[str, Any]]:
        """Its figures in a unit, by name."""
        return self.found.get(unit, {})

    def printed(self, figure: Mapping[str, Any]) -> str:
        """Its median, with what is to be said of it."""
        least = f"{AT_LEAST} " if figure["figure"] == AT_LEAST else ""
        return least + marked(self.number(figure["median"]), figure["limited"])

    def number(self, value: float | None) -> str:
        """It as it is printed; where no rate passed, that it is below the nearest one tried."""
        return f"< {self.show(self.step)}" if value == 0 and self.step else self.show(value)


@dataclass(frozen=True)
class _Spread:
    """As much of a record as a figure draws."""

    median: float
    p1: float
    p99: float


def overview(
    title: str, notes: Mapping[str, str], runs: Sequence[CampaignRun], presentations: Presentations
) -> Document:
    """The page.

    Args:
        title: heading.
        notes: of its experiments, by name.
        runs: all of them, those that failed too.
        presentations: of the benchmarks.
    """
    made = [r for r in runs if r.data is not None and r.records]
    when = sorted(str(r.data.manifest.get("created", ""))[:10] for r in made if r.data)
    days = " to ".join(dict.fromkeys([when[0], when[-1]])) if when else "nothing measured yet"
    sections = [
        Section("What these numbers mean", "meaning", list(meaning(made))),
        Section("Machine, versions", "machine", list(_machine(made))),
    ]
    for number, benchmark in enumerate(dict.fromkeys(r.benchmark for m in made for r in m.records)):
        blocks = list(_benchmark(benchmark, made, presentations, f"overview-{number}"))
        if blocks:
            titled = next(r.title for m in made for r in m.records if r.benchmark == benchmark)
            sections.append(Section(titled, f"benchmark-{number}", blocks))
    sections.append(Section("Not measured", "not-measured", list(_lacking(runs))))
    said = [f"{name}: {text}" for name, text in notes.items() if text and name]
    if said:
        sections.append(Section("Notes", "notes", [Items(said)]))
    sections.append(Section("Files", "files", list(_files())))
    return Document(title, days, sections)


def technology(run: CampaignRun) -> str:
    """What was measured: the plugin, with what else varies in the experiment."""
    plugin = run.data.config["plugin"] if run.data else run.experiment
    beside = (*OF_POINTS, "plugin")
    others = [shown(v) for a, v in run.axes.items() if a not in beside and not _is_of_device(a)]
    return ", ".join([str(plugin), *others])


def device(run: CampaignRun) -> str:
    """On what: the driver, with what else varies of it."""
    name = _driver(run)
    others = [
        f"{axis_name(a)} {shown(v)}"
        for a, v in run.axes.items()
        if _is_of_device(a) and a not in ("dut", "dut.driver")
    ]
    return ", ".join([name, *others])


def _driver(run: CampaignRun) -> str:
    return str(run.data.config["dut"]["driver"] if run.data else run.axes.get("dut.driver", ""))


def _is_of_device(axis: str) -> bool:
    return axis.partition(".")[0] == "dut"


def _names(runs: Sequence[CampaignRun]) -> dict[str, tuple[str, str]]:
    """Technology and device of each run by its directory; where two have the same, with its name."""
    plain = {run.directory: (technology(run), device(run)) for run in runs}
    points = Counter(
        (plain[run.directory], r.benchmark, r.sizes, r.direction)
        for run in runs
        for r in run.records
    )
    twice = {names for (names, *_), times in points.items() if times > 1}
    named = {}
    for run in runs:
        what, on = plain[run.directory]
        if (what, on) in twice:
            what = f"{run_name(run.directory)}: {what}"
        named[run.directory] = what, on
    return named


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
    yield Facts([(name, "; ".join(values)) for name, values in rows.items()])
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
    yield sheet("Devices", ["<device", "<version", "<system"], devices)


def _version(manifest: Mapping[str, Any]) -> str | None:
    words = [(manifest.get("packages") or {}).get("v6t"), manifest.get("source_commit")]
    said = [str(w) for w in words if w]
    return ", commit ".join(said) or None


def _devices(run: CampaignRun) -> Iterator[tuple[str, str, str]]:
    """Drivers with the versions and systems that the devices told; empty: not told."""
    tester = (run.data.manifest.get("tester") or {}) if run.data else {}
    told = tester.get("device") or {}
    parts = told.get("parts") or {}
    devices = list(parts.values() if isinstance(parts, Mapping) else parts) or [
        {**told, "kind": _driver(run)}
    ]
    for device in devices:
        words = (device.get(key) or "" for key in ("version", "system"))
        version, system = map(str, words)
        yield str(device.get("kind", "?")), version, system


def _benchmark(
    benchmark: str, made: Sequence[CampaignRun], presentations: Presentations, name: str
) -> Iterator[Block]:
    """Its figures and tables, one for each unit: a line for each point of each run."""
    lines = list(_lines(benchmark, made, presentations))
    units = dict.fromkeys(unit for line in lines for unit, of_unit in line.found.items() if of_unit)
    for number, unit in enumerate(units or [""]):
        # what was not measured has no unit of its own, and stands once
        mine = [x for x in lines if x.found.get(unit) or (not number and not any(x.found.values()))]
        figures = list(dict.fromkeys(figure for line in mine for figure in line.of(unit)))
        said = PER_DIRECTION.get(unit, unit)
        drawn = list(_drawn(mine, unit))
        if len(figures) == 1 and drawn:
            caption = f"{benchmark}, {said}: median, bars from P1 to P99; {LIMITED}."
            figure = points_figure(cast("Any", drawn), said, f"{name}-{number}")
            yield Drawing(figure, caption, caption)
        yield _table(f"{benchmark}, {said}" if said else benchmark, unit, mine, figures)


def _lines(
    benchmark: str, made: Sequence[CampaignRun], presentations: Presentations
) -> Iterator[_Line]:
    names = _names(made)
    for run in made:
        for record in run.records:
            if record.benchmark != benchmark:
                continue
            invalid = len(record.invalid_trials)
            yield _Line(
                *names[run.directory],
                sizes=record.sizes,
                direction=record.direction,
                offered=_offered(record),
                source=record.offered_from,
                found=_found(record, presentations),
                show=presentations.of(record).shown,
                lacking=INVALID if invalid and not record.measured else "-",
                told=f"{record.repetitions} ({len(record.trials)}, {invalid} invalid)",
                why=record.not_measured or "",
                step=_step(record),
            )


def _step(record: Record) -> float | None:
    """The resolution of a search; None: no rate is looked for, as where a table's size is."""
    step: float | None = getattr(record, STEPS.get(str(record.unit), ""), None)
    return step


def _offered(record: Record) -> str:
    rates = [f"{rate:,.0f}" for rate in record.offered]
    said = rates[0] if len(rates) == 1 else f"{len(rates)} rates" if rates else ""
    return f"{said}, lowered" if record.lowered else said


def _found(record: Record, presentations: Presentations) -> dict[str, dict[str, dict[str, Any]]]:
    """Its headline figures by unit and name; the one that is the benchmark has an empty name."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for figure in figures_of(record, presentations):
        of_unit = found.setdefault(str(figure["unit"] or ""), {})
        if record.measured:
            whole = figure["figure"] in (record.benchmark, AT_LEAST)
            of_unit["" if whole else figure["figure"]] = figure
    return found


def _differing(lines: Sequence[_Line]) -> tuple[bool, bool]:
    """Whether frame sizes and directions tell lines apart."""
    return len({line.sizes for line in lines}) > 1, len({line.direction for line in lines}) > 1


def _drawn(lines: Sequence[_Line], unit: str) -> Iterator[tuple[str, _Spread]]:
    """Names and spreads of what has a number."""
    sizes, directions = _differing(lines)
    for line in lines:
        for figure in line.of(unit).values():
            if figure["median"] is None:
                continue
            words = [f"{line.technology}: {line.device}"]
            words += [f"{line.sizes} octets"] * sizes + [line.direction] * directions
            words += [AT_LEAST] * (figure["figure"] == AT_LEAST)
            low, high = (
                figure["median"] if figure[end] is None else figure[end] for end in ("p1", "p99")
            )
            yield (
                marked(", ".join(words), figure["limited"]),
                _Spread(figure["median"], low, high),
            )


def _table(title: str, unit: str, lines: Sequence[_Line], figures: Sequence[str]) -> Sheet:
    alone = len(figures) <= 1
    stepped = alone and any(line.step for line in lines)
    _, directions = _differing(lines)
    offered = any(line.offered for line in lines)
    rows = []
    for line in lines:
        cells = [line.technology, line.device, line.sizes, *[line.direction] * directions]
        cells += [line.offered] * offered
        for name in figures or [""]:
            figure = line.of(unit).get(name)
            cells.append(line.printed(figure) if figure else line.lacking)
            if alone:
                cells += [line.number(figure[k]) if figure else "-" for k in ("p1", "p99")]
        cells += [line.show(line.step) if line.step else "-"] * stepped
        rows.append((*cells, line.told))
    heads = (
        ["median", "P1", "P99"] if alone else [f"{f}, median" if f else "median" for f in figures]
    )
    names = ["<technology", "<device", "<octets", *["<direction"] * directions]
    names += ["offered\nfps per direction"] * offered
    limited = any(f["limited"] for line in lines for f in line.of(unit).values())
    if stepped:
        heads.append("resolution")
    printed = [cell for row in rows for cell in row]
    notes = [
        *[LIMITED] * limited,
        *[RESOLUTION] * stepped,
        *[LATE] * (UNDEFINED in printed),
        *_of_rates(lines),
        *(f"not measured: {why}" for why in dict.fromkeys(x.why for x in lines) if why),
    ]
    return sheet(title, [*names, *heads, "repetitions (trials)"], rows, notes)


def _of_rates(lines: Sequence[_Line]) -> Iterator[str]:
    """What must be known of the rates at which delays were measured."""
    sources = dict.fromkeys(line.source for line in lines if line.source)
    if sources:
        yield f"offered: {', '.join(sources)}"
    if any("lowered" in line.offered for line in lines):
        yield LOWERED
    if sources and len({line.offered for line in lines}) > 1:
        yield OWN_RATES


def _lacking(runs: Sequence[CampaignRun]) -> Iterator[Block]:
    whole = sum(r.status == "complete" for r in runs)
    yield Text(f"{whole} of {number_of(len(runs), 'run')} are complete.")
    rest = [r for r in runs if r.status != "complete"]
    if rest:
        yield Items(
            [
                ": ".join(filter(None, (technology(r), device(r), r.failure or r.status)))
                for r in rest
            ]
        )


def _files() -> Iterator[Block]:
    yield Links(
        [
            Link("All figures of the tables, one a line", "summary.csv"),
            Link("The same for programs", "summary.json"),
            Link("Every trial: asked, sent, received, compared", "trials.csv"),
        ]
    )
    yield Text(
        "Beside them each run has a directory with its settings, its machine and its results, which "
        "v6t compare and v6t trend read."
    )
