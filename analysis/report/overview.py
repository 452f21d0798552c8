"""A finished campaign as a page for others: what the numbers mean, on what they were made, all of them.

Its runs are told by what was measured on what, not by their settings; see
:mod:`v6t.analysis.report.campaign` for the report of whoever made them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from v6t.analysis.blocks import Block, Document, Drawing, Facts, Items, Link, Links, Section, Text
from v6t.analysis.figures.points import points_figure
from v6t.analysis.presentation import Presentations
from v6t.analysis.presentations.common import marked
from v6t.analysis.report.campaign import figures_of
from v6t.analysis.report.campaign_run import CampaignRun, shown
from v6t.analysis.sheet import Sheet, number_of, sheet

LIMITED = "* the tester or the medium was the limit: the device may be faster"
PER_DIRECTION = {"frames per second": "frames per second per direction"}
RFC_TRIAL_S, RFC_REPETITIONS = 60, 20


@dataclass(frozen=True)
class _Row:
    """One figure of one device: where it belongs, its spread, what it was found from."""

    device: str
    technology: str
    figure: str
    median: float
    p1: float
    p99: float
    limited: bool


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
        Section("What these numbers mean", "meaning", list(_meaning(made))),
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
    others = [shown(v) for axis, v in run.axes.items() if not axis.startswith("dut.")]
    return ", ".join([str(plugin), *others])


def device(run: CampaignRun) -> str:
    """On what: the driver."""
    return str(run.data.config["dut"]["driver"] if run.data else run.axes.get("dut.driver", ""))


def _values(runs: Sequence[CampaignRun], *keys: str) -> list[Any]:
    """Different values of a setting of the procedures, in the order of the runs."""
    found = []
    for run in runs:
        value: Any = run.data.procedure if run.data else {}
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        found.append(value)
    return [v for v in dict.fromkeys(found) if v is not None]


def _meaning(made: Sequence[CampaignRun]) -> Iterator[Block]:
    lengths = " and ".join(f"{s:g} s" for s in _values(made, "trial_duration_s"))
    times = " and ".join(map(str, _values(made, "repetitions")))
    shared = any("share this machine's cores" in c for c in _caveats(made))
    cores = {r.data.manifest.get("machine", {}).get("cores") for r in made if r.data}
    if shared:
        yield Text(
            f"Tester and device shared the {'/'.join(map(str, cores))} cores of one machine, so every number "
            "describes both of them, this machine and that day. They show that a device works, and what it "
            "costs beside another one of the same table. They say nothing of what it does on a server "
            "with network interfaces of its own.",
            "warning",
        )  # fmt: skip
    yield Text(
        f"Trials of {lengths} and {times} repetitions stand where RFC 8219 and RFC 2544 ask for "
        f"{RFC_TRIAL_S} s and {RFC_REPETITIONS}: these are demonstrations, no results of RFC 8219.",
        "warning",
    )
    yield Items(
        [
            "Rates are frames per second in each direction, both at the same time; two times as many "
            "frames cross the device.",
            "A rate is the highest of a search at which no frame was lost; its value is the median of "
            "the repetitions, P1 and P99 are their spread.",
            "A trial in which the tester faltered is invalid and repeated: it is no loss of the device.",
            *_translation(made),
        ]
    )
    caveats = _caveats(made)
    if caveats:
        yield Text("What deviates, in the words of the runs:")
        yield Items(caveats, "warning")


def _translation(made: Sequence[CampaignRun]) -> Iterator[str]:
    """What was seen of the frames' content."""
    counted = [
        c for r in made if r.data for t in r.data.trials for c in t.result.directions.values()
    ]
    checked, matched = (sum(getattr(c, name) for c in counted) for name in ("checked", "matched"))
    if checked:
        yield (
            f"{matched:,} of {checked:,} frames that were compared were as the technology's reference "
            "translation has them."
        )
    if any(r.data and r.data.shares_oracle for r in made):
        yield (
            "The device named reference is made of that very translation: its frames prove the path, and "
            "its rates are those of v6t's own code."
        )


def _caveats(made: Sequence[CampaignRun]) -> list[str]:
    said = [c for r in made if r.data for c in r.data.results.get("caveats", ())]
    # what only one or two devices are told stands with their runs
    return [c for c in dict.fromkeys(said) if said.count(c) > max(2, len(made) // 4)]


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
    versions: dict[str, str] = {}
    for run in made:
        for name, version in _devices(run):
            versions.setdefault(name, version)
    yield sheet("Devices", ["<device", "<version"], sorted(versions.items()))


def _version(manifest: Mapping[str, Any]) -> str | None:
    words = [(manifest.get("packages") or {}).get("v6t"), manifest.get("source_commit")]
    said = [str(w) for w in words if w]
    return ", commit ".join(said) or None


def _devices(run: CampaignRun) -> Iterator[tuple[str, str]]:
    """Drivers with the versions that the devices told."""
    tester = (run.data.manifest.get("tester") or {}) if run.data else {}
    told = tester.get("device") or {}
    parts = told.get("parts") or {}
    for part in parts.values() if isinstance(parts, Mapping) else parts:
        yield str(part.get("kind", "?")), str(part.get("version", "")) or "-"
    if not parts:
        yield device(run), str(told.get("version") or "") or "-"


def _benchmark(
    benchmark: str, made: Sequence[CampaignRun], presentations: Presentations, name: str
) -> Iterator[Block]:
    """Its figure and its table: a line for each device, a column for each figure."""
    units: dict[str, list[_Row]] = {}
    shows, trials = None, {}
    for run in made:
        for record in run.records:
            if record.benchmark != benchmark:
                continue
            key = (technology(run), device(run), record.sizes)
            trials[key] = (
                f"{record.repetitions} ({len(record.trials)}, {len(record.invalid_trials)} invalid)"
            )
            shows = shows or presentations.of(record).shown
            for f in figures_of(record, presentations):
                if f["median"] is None:
                    continue
                label = "" if f["figure"] == benchmark else f["figure"]
                units.setdefault(str(f["unit"] or ""), []).append(
                    _Row(key[1], key[0], label, f["median"], f["p1"], f["p99"], f["limited"])
                )
    for number, (unit, rows) in enumerate(units.items()):
        figures = list(dict.fromkeys(row.figure for row in rows))
        said = PER_DIRECTION.get(unit, unit)
        if len(figures) == 1:
            drawn: Any = [(f"{r.technology}: {marked(r.device, r.limited)}", r) for r in rows]
            caption = f"{benchmark}, {said}: median, bars from P1 to P99; {LIMITED}."
            yield Drawing(points_figure(drawn, said, f"{name}-{number}"), caption, caption)
        yield _table(benchmark, said, rows, trials, shows)


def _table(
    benchmark: str, unit: str, rows: Sequence[_Row], trials: Mapping[Any, str], show: Any
) -> Sheet:
    figures = list(dict.fromkeys(row.figure for row in rows))
    lines = []
    for key, told in trials.items():
        mine = {r.figure: r for r in rows if (r.technology, r.device) == key[:2]}
        cells: list[str] = []
        for figure in figures:
            row = mine.get(figure)
            if len(figures) == 1:
                spread = [show(row.p1), show(row.p99)] if row else ["-", "-"]
                cells += [marked(show(row.median), row.limited) if row else "invalid", *spread]
            else:
                cells.append(marked(show(row.median), row.limited) if row else "invalid")
        lines.append((*key, *cells, told))
    heads = ["median", "P1", "P99"] if len(figures) == 1 else [f"{f}, median" for f in figures]
    names = ["<technology", "<device", "<octets", *heads, "repetitions (trials)"]
    notes = [LIMITED] if any(r.limited for r in rows) else []
    return sheet(f"{benchmark}, {unit}", names, lines, notes)


def _lacking(runs: Sequence[CampaignRun]) -> Iterator[Block]:
    whole = sum(r.status == "complete" for r in runs)
    yield Text(f"{whole} of {number_of(len(runs), 'run')} are complete.")
    rest = [r for r in runs if r.status != "complete"]
    if rest:
        yield Items([f"{technology(r)}: {device(r)}: {r.failure or r.status}" for r in rest])


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
