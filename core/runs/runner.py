"""A run: preflight, the tester's own capacity, the measurement, the results on disk."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any

from v6t.analysis.means import with_means
from v6t.analysis.record import Record, counted_by
from v6t.base.errors import BeyondTester, DutError, TesterError, TranslationError
from v6t.base.ethernet import max_frame_rate_fps
from v6t.benchmarks import registry
from v6t.benchmarks.base import Benchmark, Phase
from v6t.benchmarks.connections import prepared
from v6t.benchmarks.point import Measured, Point, Vary
from v6t.benchmarks.tcp import measure_tcp_opens, syn_medium
from v6t.core.config.bound import BoundRun, bind
from v6t.core.config.cautions import cautions, of_medium
from v6t.core.config.checks import check_capabilities
from v6t.core.config.presets import caveats, is_demonstration
from v6t.core.config.settings import ResolvedRun
from v6t.core.runs import rundir as names
from v6t.core.runs.bench import Bench, make_tester, streams_of
from v6t.core.runs.continuing import check_order, finished, journal_of
from v6t.core.runs.device_counts import KEY as COUNTS
from v6t.core.runs.device_counts import DeviceCounts
from v6t.core.runs.events import Listener
from v6t.core.runs.frame_diff import render
from v6t.core.runs.hooks import DuringTrial
from v6t.core.runs.journal import Journal, JournaledMeasure
from v6t.core.runs.log import logged
from v6t.core.runs.manifest import machine, manifest, now
from v6t.core.runs.plan import (
    CONNECTIONS,
    SELFTEST,
    PlannedStage,
    Stage,
    beginning,
    planned_stage,
    stages,
)
from v6t.core.runs.raw_tables import Tables, with_limit
from v6t.core.runs.remaining import RemainingTime
from v6t.core.runs.results_file import COMPLETE, INCORRECT, RUNNING, SCHEMA, ResultsFile, records_of
from v6t.core.runs.rundir import RunDir, reading
from v6t.core.runs.stateful import establishing, for_loopback, for_preflight, preflight_mode
from v6t.core.runs.stolen import Stolen, share_of, words_on
from v6t.core.runs.tester_capacity import (
    THIS_RUN,
    capacity_spec,
    find_capacity,
    found_again,
    opening_spec,
)
from v6t.core.runs.watching import Watching
from v6t.core.runs.wording import headline
from v6t.packets.direction import Direction
from v6t.procedures.preflight import Finding, check_translation
from v6t.procedures.stateful.phases import PhaseOneFailed
from v6t.procedures.tester_rate import (
    MOST_AGAIN,
    CapacitySpec,
    TesterCapacity,
    min_plausible_fps,
    usable_fps,
)
from v6t.procedures.trial_runner import Progress
from v6t.profiles.mixes import Sizes
from v6t.profiles.streams import StreamSet
from v6t.trials.load_estimate import EstimateLoad
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import Mode, Trial


@dataclass
class RunOutcome:
    """What a run left behind.

    Attributes:
        directory: where everything is.
        status: ``complete``, ``running`` (interrupted) or ``translation incorrect``.
        records: the entries of ``results.json``.
        caveats: what must be said beside the numbers.
        replayed: trials taken from the journal.
        measured: trials run now.
    """

    directory: Path
    status: str
    records: list[Record]
    caveats: list[str]
    replayed: int = 0
    measured: int = 0


@dataclass
class _State:
    """Everything a run in progress needs."""

    bound: BoundRun
    directory: RunDir
    results: ResultsFile
    journal: Journal
    bench: Bench
    loopback: Bench
    events: Listener
    tables: Tables
    remaining: RemainingTime
    counts: DeviceCounts
    capacities: dict[str, dict[Mode, float]] = field(default_factory=dict)
    before: TrialResult | None = None
    records: list[Record] = field(default_factory=list)
    status: str = RUNNING
    measured: int = 0
    finding: dict[str, Any] | None = None
    next_write: float = 0.0
    stolen: list[float] = field(default_factory=list)
    """Share of the machine's CPU time, of each trial where somebody looked."""
    figures: list[Mapping[str, Any]] = field(default_factory=list)
    """What the tester said of itself in each trial."""
    modified: list[Mapping[str, Any]] = field(default_factory=list)
    """What the modifier did, of each trial in which it did something."""

    @property
    def caveats(self) -> list[str]:
        """What must be said beside the numbers."""
        modifier = self.bound.modifier
        done = [] if modifier is None else modifier.summary(self.modified)
        told = self.bound.tester.caveats_of(self.figures)
        return [*caveats(self.bound), *done, *told, *words_on(self.stolen)]

    @property
    def run(self) -> ResolvedRun:
        """Its settings."""
        return self.bound.settings


def execute(bound: BoundRun, path: Path, events: Listener) -> RunOutcome:
    """Start a run in a new directory and carry it out.

    Raises:
        UsageError: the directory cannot be used.
        V6tError: see :mod:`v6t.base.errors`; what was measured stays on disk.
    """
    check_capabilities(bound, make_tester(bound))
    directory = RunDir(path, new=True)
    try:
        document = manifest(bound.settings, bound.technology, simulated=bound.tester.simulates)
        directory.write_json(names.MANIFEST, document)
        directory.write_json(names.CONFIG, bound.settings.model_dump(mode="json"))
        with logged(events, path) as log:
            for caution in cautions(bound):
                log.on_message(f"note: {caution}")
            return _carry_out(bound, directory, log)
    finally:
        directory.close()


def resume(path: Path, events: Listener, bound: BoundRun | None = None) -> RunOutcome:
    """Continue an interrupted run; a complete one is only read.

    Args:
        path: of the run.
        events: receives the events of the run.
        bound: the run, where it is bound already.

    Raises:
        UsageError: the directory holds no run, or a damaged one, which is not touched.
    """
    directory = RunDir(path, new=False)
    try:
        run = directory.config()
        with reading(path):
            done = finished(directory)
            if done is not None:
                results, trials = done
                records = records_of(path, results)
                return RunOutcome(path, COMPLETE, records, results["caveats"], trials)
        bound = bound or bind(run)
        if not bound.tester.simulates:
            sizes = bound.technology.sizes_of(run.frame_sizes[0])
            check_order(directory, streams_of(bound, sizes).values())
        with logged(events, path) as log:
            return _carry_out(bound, directory, log)
    finally:
        directory.close()


def _carry_out(bound: BoundRun, directory: RunDir, events: Listener) -> RunOutcome:
    results = ResultsFile(directory)
    journal = journal_of(directory, results.held)
    if journal.torn:
        events.on_message(
            "the last line of the journal was incomplete; its trial is measured again"
        )
    able = partial(check_capabilities, bound)  # some can do less than their options say
    bench = Bench(bound, keep=directory.path, opened=able)
    loopback = bench if bound.driver.absent else Bench(bound, loopback=True, opened=able)
    tables = Tables(journal)
    remaining = RemainingTime(stages(bound))
    counts = DeviceCounts(results.held.get(COUNTS, ()))
    state = _State(
        bound, directory, results, journal, bench, loopback, events, tables, remaining, counts
    )
    try:
        _write_results(state)
        _measure_all(state)
        state.status = COMPLETE
    except TranslationError:
        state.status = INCORRECT
        raise
    finally:
        described = state.bench.describe()
        try:
            state.bench.close()  # a device that cannot be restored must not cost the results
        finally:
            state.loopback.close()
            _note_end(state, described)
            _write_results(state)
            journal.close()
    return RunOutcome(
        directory.path,
        state.status,
        state.records,
        state.caveats,
        replayed=len(journal.entries) - state.measured,
        measured=state.measured,
    )


def _measure_all(state: _State) -> None:
    run, plugin = state.run, state.bound.technology
    benchmarks = registry.wanted(state.bound)
    sized = [b for b in benchmarks if b.phase.sized]
    apart = [b for b in benchmarks if not b.phase.sized]
    rates: Mapping[str, Sequence[float]] = {}
    for size in run.frame_sizes:
        sizes = plugin.sizes_of(size)
        _begin(state, beginning(sizes.label, first=size == run.frame_sizes[0]))
        streams = _load(state, sizes)
        state.events.on_message(f"{sizes.label} octets: checking the translation")
        try:
            finding = check_translation(
                for_preflight(plugin, JournaledTester(state, state.bench)),
                ipv6_frame_size=sizes.ipv6,
                ipv4_frame_size=sizes.ipv4,
                mix=sizes.mix,
                mode=preflight_mode(plugin),
            )
            if finding is not None:
                _refuse(state, finding)
            if size == run.frame_sizes[0]:
                for caution in of_medium(
                    run, state.bench.describe(), in_lab=state.bound.tester.in_lab
                ):
                    state.events.on_message(f"note: {caution}")
            if apart and size == run.frame_sizes[0]:  # others are measured at what these find
                rates = _measure_point(state, Phase.TCP, apart, _tcp_point(state, streams))
            _measure_size(state, sized, sizes, streams, rates)
        except PhaseOneFailed as exc:
            if exc.tester:
                raise TesterError(
                    str(exc),
                    "close other programs, or lower connections.rate_cps or rate_share",
                    code="tester-fault",
                ) from exc
            raise DutError(
                str(exc),
                "lower connections.rate_cps or rate_share, or look at the device's limits",
                code="tester-fault",
            ) from exc


def _load(
    state: _State, sizes: Sizes, vary: Vary = lambda traffic: traffic
) -> Mapping[Direction, StreamSet]:
    """Streams of a frame size, or a variant of them; both testers have them."""
    streams = streams_of(state.bound, sizes, vary)
    state.bench.load(streams)
    state.loopback.load(streams)
    return streams


def _measure_size(
    state: _State,
    benchmarks: Sequence[Benchmark[Any, Any]],
    sizes: Sizes,
    streams: Mapping[Direction, StreamSet],
    rates: Mapping[str, Sequence[float]],
) -> None:
    """Phase after phase, each in every mode or once; ``rates`` are those that no frame size has."""
    connects = state.run.connects
    in_no_direction = _point(state, sizes, "forward", streams, of_phase_one=connects)
    in_no_direction = replace(in_no_direction, found=rates)
    for phase in Phase:
        chosen = [b for b in benchmarks if b.phase == phase]
        for mode in state.run.modes if phase.directed else ("forward",):
            point = in_no_direction
            if phase.directed:
                point = _point(state, sizes, mode, streams)
                point = replace(point, found=in_no_direction.found)
            if chosen:
                more = _measure_point(state, phase, chosen, point)
                if not phase.directed:
                    in_no_direction = replace(point, found={**point.found, **more})


def _measure_point(
    state: _State, phase: Phase, chosen: Sequence[Benchmark[Any, Any]], point: Point
) -> dict[str, Sequence[float]]:
    """Measure the benchmarks of a phase at a point, and pass their records on."""
    before = len(state.records)
    rates = _measure_benchmarks(state, phase, chosen, point)
    state.events.on_point_end(state.records[before:])
    return rates


def _measure_benchmarks(
    state: _State, phase: Phase, chosen: Sequence[Benchmark[Any, Any]], point: Point
) -> dict[str, Sequence[float]]:
    """Benchmarks one after the other, results on disk as they come; the rates that were found."""
    rates: dict[str, Sequence[float]] = {}
    refused = None
    if phase != Phase.VARIANTS:
        point.capacity()  # the tester itself goes first
    if phase == Phase.STREAMS and state.run.connects:
        filled = prepared(point)
        refused = None if filled else "no connection rate passed"
        point = filled or point
    where = f"{point.sizes.label} octets" + (f", {point.mode}" if phase.directed else "")
    for benchmark in chosen:
        at = replace(point, found={**point.found, **rates})
        if refused:
            measured = benchmark.nothing(at, refused)
        else:
            if phase == Phase.VARIANTS:
                _load(state, point.sizes)  # the variant of the one before is still there
            else:
                state.events.on_message(f"{where}: {benchmark.name}")
            planned = planned_stage(benchmark, at)
            _begin(state, planned.stage, planned)
            try:
                at, measured = _measured(state, benchmark, at)
            except BeyondTester as exc:
                state.events.on_message(f"{where}: {benchmark.name} is not measured: {exc.message}")
                measured = benchmark.nothing(at, exc.message)
            state.counts.end(state.bench.session, _where(measured.record))
            point = replace(at, found=point.found)
        rates[benchmark.name], record = measured.rates, measured.record
        further: dict[str, Any] = {}
        if record.offered and phase == Phase.STREAMS:  # SELF-02
            usable = usable_fps(at.tester_capacity.rate_fps, state.run.procedure.selftest_margin)
            further["usable_fps"] = usable
            further["above_usable"] = [rate for rate in record.offered if rate > usable]
        entries = state.journal.entries
        way = counted_by(entries[key] for key in record.trials if key in entries)
        if way:
            further["counted_by"] = way
        record = record.model_copy(update=further)
        if state.run.procedure.means:
            record = with_means(record)
        state.records.append(record)
        state.results.add(record)
        for name, rows in {benchmark.csv_file: measured.rows, **measured.beside}.items():
            state.tables.add(name, with_limit(rows, record))
        _write_meanwhile(state)
    return rates


def _measured(state: _State, benchmark: Benchmark[Any, Any], at: Point) -> tuple[Point, Measured]:
    """One benchmark at a point; again where the tester turns out to carry more than was thought."""
    measured = benchmark.run(at)
    margin = state.run.procedure.selftest_margin
    for number in range(1, MOST_AGAIN + 1):
        if not measured.rates:
            break
        own_fps = usable_fps(at.tester_capacity.rate_fps, margin)
        doubted = benchmark.phase == Phase.STREAMS and median(measured.rates) > own_fps
        better = at.better(at, number) if doubted else None
        if better is None:
            break
        planned = planned_stage(benchmark, better)
        _begin(state, planned.stage, planned)
        at, measured = better, benchmark.run(better)
    return at, measured


def _where(record: Record) -> dict[str, Any]:
    sizes = record.frame_sizes.to_json()
    return {
        "benchmark": record.benchmark, "frame_sizes": sizes, "direction": record.direction,
    }  # fmt: skip


def _point(
    state: _State,
    sizes: Sizes,
    mode: Mode,
    streams: Mapping[Direction, StreamSet],
    *,
    of_phase_one: bool = False,
    variant: str = "",
) -> Point:
    """Where benchmarks are measured.

    Args:
        state: of the run.
        sizes, mode: the point.
        streams: what is sent.
        of_phase_one: the tester's own capacity is that of making connections.
        variant: begins the keys of its trials where the streams are not the run's own.
    """
    media = max_frame_rate_fps(state.run.line_rate_bps, sizes.longest)
    loopback = for_loopback(state.bound, JournaledTester(state, state.loopback))
    spec = replace(capacity_spec(state.run, sizes, mode, media), variant=variant)
    if of_phase_one and spec.rules is not None:
        most = state.run.procedure.connections.count
        spec = replace(spec, rules=replace(spec.rules, most_frames=most))

    def find() -> tuple[TesterCapacity, str]:
        tester = establishing(JournaledTester(state, state.loopback)) if of_phase_one else loopback
        return _find_capacity(state, sizes.label, streams, spec, tester, of_phase_one=of_phase_one)

    def better(at: Point, number: int) -> Point | None:
        octets = sizes.label
        _begin(state, Stage(SELFTEST, octets, mode))
        say = partial(_say_of_size, state, octets)
        capacity = found_again(
            state.bound, streams, spec, loopback, at.tester_capacity, number, say,
        )  # fmt: skip
        if capacity is None:
            return None
        state.capacities.setdefault(spec.variant + octets, {})[mode] = capacity.rate_fps
        within = {**at.within, "variant": f"{variant}again{number}-"}
        return replace(at, capacity=lambda: (capacity, THIS_RUN), within=within)

    def infer() -> EstimateLoad:
        # it brings numpy, which most runs do without
        from v6t.analysis.posterior import Inference

        return Inference()

    def vary(name: str, change: Vary) -> Point:
        return _point(state, sizes, mode, _load(state, sizes, change), variant=name)

    return Point(
        bound=state.bound,
        sizes=sizes,
        mode=mode,
        media_fps=media,
        capacity=cache(find),
        measure=JournaledTester(state, state.bench),
        loopback=loopback if state.bound.measures_tester else None,
        watch=partial(_progressed, state),
        say=state.events.on_message,
        find=state.journal.entries.__getitem__,
        describe=partial(_conditions, state.bound),
        emptying=lambda: state.bound.emptying,
        vary=vary,
        better=better,
        infer=infer,
    )


def _tcp_point(state: _State, streams: Mapping[Direction, StreamSet]) -> Point:
    """Where connections of TCP are measured: four-tuples are those of the streams."""
    sizes, media = syn_medium(state.bound)
    spec = opening_spec(state.run, sizes, media)
    tester = measure_tcp_opens(state.bound, JournaledTester(state, state.loopback))

    def find() -> tuple[TesterCapacity, str]:
        return _find_capacity(state, sizes.label, streams, spec, tester, of_phase_one=True)

    point = _point(state, sizes, "forward", streams)
    return replace(point, media_fps=media, capacity=cache(find))


def _find_capacity(
    state: _State,
    octets: str,
    streams: Mapping[Direction, StreamSet],
    spec: CapacitySpec,
    tester: Measure,
    *,
    of_phase_one: bool,
) -> tuple[TesterCapacity, str]:
    """Find the tester's own capacity at a point, and where it is from."""
    what = f"{octets} octets, {spec.mode}"
    say = partial(_say_of_size, state, octets)
    around = state.remaining.stage
    others = state.capacities.setdefault(spec.variant + octets, {})
    _begin(state, Stage(SELFTEST, octets, CONNECTIONS if of_phase_one else spec.mode))
    if state.bound.tester.loops_back:
        state.events.on_message(f"{what}: how much the tester itself can do")
    capacity, source = find_capacity(
        state.bound,
        streams,
        spec,
        tester,
        state.directory,
        least_fps=0.0 if of_phase_one else min_plausible_fps(spec.mode, others),
        say=say,
        of_phase_one=of_phase_one,
    )
    if not of_phase_one:
        others[spec.mode] = capacity.rate_fps
    if source != THIS_RUN:
        state.events.on_message(f"{what}: the tester's own capacity: {source}")
    if not capacity.rate_fps:
        raise TesterError(
            "the tester loses frames even without a device: "
            + (capacity.faults[0] if capacity.faults else "no rate passed"),
            "close other programs on this machine; `v6t selftest` repeats this check",
            code="tester-fault",
        )
    _begin(state, around)
    return capacity, source


def _progressed(state: _State, progress: Progress) -> None:
    state.remaining.progress(progress)
    if progress.verdict is None:
        state.events.on_step_start(progress)
    else:
        state.events.on_step_end(progress)


def _say_of_size(state: _State, octets: str, text: str) -> None:
    state.events.on_message(f"{octets} octets, {text}")


def _begin(state: _State, stage: Stage, sharper: PlannedStage | None = None) -> None:
    state.remaining.begin(stage, sharper)
    state.before = None


class JournaledTester:
    """Journal, then tester; a wrong frame ends the run whenever it turns up."""

    def __init__(self, state: _State, bench: Bench) -> None:
        """Wrap.

        Args:
            state: of the run.
            bench: measures what the journal does not know.
        """
        self._state = state
        self._measure = JournaledMeasure(state.journal, self._run)
        self._bench = bench

    def __call__(self, trial: Trial) -> TrialResult:
        """Return the trial's result.

        Raises:
            TranslationError: the device sent a frame that is not what it should be.
        """
        result = self._measure(trial)
        share = share_of(result)
        if share is not None:
            self._state.stolen.append(share)
        self._state.figures.append(result.tester)
        if result.modifier and trial.benchmark != "preflight":
            self._state.modified.append(result.modifier)
        if trial.benchmark != "preflight":  # the preflight reports by itself
            for direction, counted in result.directions.items():
                if counted.mismatch is not None:
                    why = counted.mismatch.get("why", "")
                    _refuse(self._state, Finding(False, direction, why, counted.mismatch))
        return result

    def _read_device(self, trial: Trial) -> None:
        """Read the device's counters before a benchmark's first trial that meets it."""
        state = self._state
        if self._bench is not state.bench:
            return
        if trial.benchmark == "preflight":
            state.counts.other_frames()
        elif state.run.procedure.read_device:
            self._bench.ready()
            state.counts.begin(self._bench.session)

    def _run(self, trial: Trial) -> TrialResult:
        state = self._state
        state.measured += 1
        state.events.on_trial_start(state.remaining.activity(trial, state.before))
        wanted = state.run.procedure.watch_device
        self._read_device(trial)
        # a rehearsal, of all things, must not reset the device that its testbed file names
        hooks = {} if state.bound.tester.simulates else state.bound.driver.hooks
        with (
            DuringTrial(trial, hooks, self._bench.actions) as during,
            Watching(trial, self._bench.session if wanted else None) as watching,
            Stolen(state.bound.tester.in_lab) as stolen,
        ):
            result = self._bench.measure(trial, during.sends)
        state.before = watching.added_to(stolen.added_to(result))
        return state.before


def _refuse(state: _State, finding: Finding) -> None:
    """End the run: the device translates wrongly, or the tester cannot tell."""
    if finding.tester:
        raise TesterError(
            f"the tester cannot even send a few frames: {finding.why}", code="tester-fault"
        )
    frames = dict(finding.frames or {})
    state.finding = {"direction": finding.direction, "why": finding.why, **frames}
    name = frames.get("class")
    where = [finding.direction] * bool(finding.direction) + [f"class {name}"] * bool(name)
    text = ", ".join(["translation incorrect", *where])
    picture = "\n" + render(frames) if frames else ""
    raise TranslationError(
        f"{text}: {finding.why}{picture}",
        "compare the device's configuration with `v6t run --dry-run`, which prints what it must be",
        code="translation-incorrect",
    )


def _conditions(bound: BoundRun, capacity: TesterCapacity, source: str) -> dict[str, Any]:
    run = bound.settings
    return {
        "preset": run.preset,
        "demonstration": is_demonstration(run),
        "caveats": caveats(bound),
        "plugin": run.plugin,
        "params": bound.technology.params.model_dump(mode="json"),
        "tester": run.tester.kind,
        "device": run.dut.driver,
        "line_rate_bps": run.line_rate_bps,
        "seed": run.seed,
        "selftest_margin": run.procedure.selftest_margin,
        "selftest_trials": list(capacity.keys),
        "ceiling": source,
        **({"modifier": run.modifier} if run.modifier else {}),
        "machine": {k: machine()[k] for k in ("processor", "cores", "kernel")},
    }


def _write_meanwhile(state: _State) -> None:
    """Write results unless that takes more than a twentieth of the time: each writes them all."""
    began = time.monotonic()
    if began >= state.next_write:
        _write_results(state)
        ended = time.monotonic()
        state.next_write = ended + 19 * (ended - began)


def _write_results(state: _State) -> None:
    """Results, repetitions and raw trials; what stands on disk is always whole, never less."""
    if not state.results.is_due(state.status, measured=state.measured > 0):
        return
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "status": state.status,
        "label": state.run.label,
        "caveats": state.caveats,
    }
    if state.finding:
        content["finding"] = state.finding
    watched = state.results.held.get("bottleneck")
    if watched:
        content["bottleneck"] = watched
    if state.counts.entries:
        content[COUNTS] = state.counts.entries
    state.results.write(content)
    for name, text in state.tables.files():
        state.directory.write_text(name, text)


def _note_end(state: _State, tester: dict[str, Any] | None) -> None:
    """Add to the manifest: the tester, when the run ended, its status and its first figure."""
    directory = state.directory
    content = directory.read_json(names.MANIFEST)
    if content is None and tester is None:
        return
    content = content or {"run": state.journal.run or ""}
    content["status"] = state.status
    content["headline"] = headline(state.records[0]) if state.records else ""
    if tester:
        content["tester"] = tester
        content.setdefault("finished", []).append(now())
    directory.write_json(names.MANIFEST, content)
