"""A run: preflight, the tester's own ceiling, the measurement, the results on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from v6t.analysis.means import add_means
from v6t.core.config.cautions import cautions, of_medium
from v6t.core.config.checks import check_abilities
from v6t.core.config.presets import caveats, is_demonstration
from v6t.core.config.resolve import technology
from v6t.core.config.settings import ResolvedRun
from v6t.core.runs import rundir as names
from v6t.core.runs.bench import Bench, compile_point
from v6t.core.runs.benchmarks import Measured, Place, measure_point, nothing
from v6t.core.runs.ceiling import THIS_RUN, find_ceiling
from v6t.core.runs.continuing import finished, journal_of
from v6t.core.runs.frame_diff import render
from v6t.core.runs.hooks import DuringTrial
from v6t.core.runs.journal import Journal, JournaledMeasure
from v6t.core.runs.log import logged
from v6t.core.runs.manifest import machine, manifest, now
from v6t.core.runs.raw_tables import as_csv, raw_tables, trial_rows
from v6t.core.runs.results_file import COMPLETE, INCORRECT, RUNNING, SCHEMA, ResultsFile
from v6t.core.runs.rundir import RunDir
from v6t.core.runs.specs import (
    FLOWS,
    OF_CONNECTIONS,
    RSS_PROBE,
    ceiling_spec,
    measured,
    throughput_spec,
)
from v6t.core.runs.stateful import PhaseOne, establishing, for_loopback, for_preflight
from v6t.core.runs.variants import Vary, measure_flows, probe
from v6t.procedures.conditions import Progress
from v6t.procedures.preflight import Finding, check_translation
from v6t.procedures.stateful.phases import Prepared, TableNotFilled
from v6t.procedures.tester_rate import Ceiling
from v6t.procedures.trial import Measure, Mode, Trial, TrialResult
from v6t.profiles.errors import DutError, TesterError, TranslationError
from v6t.profiles.model import Direction, FramePair
from v6t.profiles.streams import StreamSet
from v6t.profiles.wire import max_frame_rate_fps

__all__ = ["ceiling_spec", "throughput_spec"]


class Watch(Protocol):
    """Whoever wants to see the run happen."""

    def say(self, text: str) -> None:
        """One line about what is going on."""

    def trial(self, progress: Progress) -> None:
        """Before and after each trial of a search."""


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
    records: list[dict[str, Any]]
    caveats: list[str]
    replayed: int = 0
    measured: int = 0


@dataclass
class _State:
    """Everything a run in progress needs."""

    run: ResolvedRun
    directory: RunDir
    results: ResultsFile
    journal: Journal
    bench: Bench
    loopback: Bench
    watch: Watch
    done: list[Measured] = field(default_factory=list)
    status: str = RUNNING
    measured: int = 0
    finding: dict[str, Any] | None = None


def execute(run: ResolvedRun, path: Path, watch: Watch) -> RunOutcome:
    """Start a run in a new directory and carry it out.

    Raises:
        UsageError: the directory cannot be used.
        V6tError: see :mod:`v6t.profiles.errors`; what was measured stays on disk.
    """
    check_abilities(run)
    directory = RunDir(path, new=True)
    try:
        directory.write_json(names.MANIFEST, manifest(run, technology(run)))
        directory.write_json(names.CONFIG, run.model_dump(mode="json"))
        with logged(watch, path) as log:
            for caution in cautions(run):
                log.say(f"note: {caution}")
            return _carry_out(run, directory, log)
    finally:
        directory.close()


def resume(path: Path, watch: Watch) -> RunOutcome:
    """Continue an interrupted run; a complete one is only read.

    Raises:
        UsageError: the directory holds no run, or a damaged one, which is not touched.
    """
    directory = RunDir(path, new=False)
    try:
        run = directory.config()
        done = finished(directory)
        if done is not None:
            results, trials = done
            return RunOutcome(path, COMPLETE, results["results"], results["caveats"], trials)
        with logged(watch, path) as log:
            return _carry_out(run, directory, log)
    finally:
        directory.close()


def _carry_out(run: ResolvedRun, directory: RunDir, watch: Watch) -> RunOutcome:
    results = ResultsFile(directory)
    journal = journal_of(directory, results.held)
    if journal.torn:
        watch.say("the last line of the journal was incomplete; its trial is measured again")
    bench = Bench(run, keep=directory.path, say=watch.say)
    state = _State(run, directory, results, journal, bench, Bench(run, loopback=True), watch)
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
            if described:
                _note_tester(state, described)
            _write_results(state)
            journal.close()
    return RunOutcome(
        directory.path,
        state.status,
        [d.record for d in state.done],
        caveats(run),
        replayed=len(journal.entries) - state.measured,
        measured=state.measured,
    )


def _measure_all(state: _State) -> None:
    run = state.run
    plugin = technology(run)
    for size in run.frame_sizes:
        sizes = plugin.frame_pair(size)
        streams = compile_point(plugin, sizes, run.seed)
        state.bench.load(streams)
        state.loopback.load(streams)
        state.watch.say(f"{sizes.label} octets: checking the translation")
        try:
            finding = check_translation(
                for_preflight(run, _door(state, state.bench)),
                ipv6_frame_size=sizes.ipv6,
                ipv4_frame_size=sizes.ipv4,
            )
            if finding is not None:
                _refuse(state, finding)
            if size == run.frame_sizes[0]:
                for caution in of_medium(run, state.bench.describe()):
                    state.watch.say(f"note: {caution}")
            _measure_size(state, sizes, streams)
        except TableNotFilled as exc:
            if exc.tester:
                raise TesterError(
                    str(exc), "close other programs, or lower connections.rate_cps or rate_share"
                ) from exc
            raise DutError(
                str(exc), "lower connections.rate_cps or rate_share, or look at the device's limits"
            ) from exc


def _measure_size(state: _State, sizes: FramePair, streams: Mapping[Direction, StreamSet]) -> None:
    run = state.run
    if RSS_PROBE in run.benchmarks:
        for mode in run.modes:
            _note(state, probe(partial(_variant, state, sizes, mode)))
        return
    if not run.connects:
        for mode in run.modes:
            _note(state, measure_point(_place(state, sizes, mode, streams)))
        for mode in run.modes if FLOWS in run.benchmarks else ():
            _note(state, measure_flows(partial(_variant, state, sizes, mode)))
        return
    phase_one = PhaseOne(
        _place(state, sizes, "forward", streams, establishing), state.bench.emptying()
    )
    _note(state, phase_one.first())
    wanted = [name for name in measured(run) if name not in OF_CONNECTIONS]
    for mode in run.modes if wanted else ():
        place = _place(state, sizes, mode, streams)
        asked = phase_one.connections()
        if asked is None:
            _note(state, (nothing(place, b, "no connection rate passed") for b in wanted))
            continue
        prepared = Prepared(place.measure, asked, run.procedure.connections.retakes)
        conditions = {**place.conditions, "connections": phase_one.described()}
        _note(
            state,
            measure_point(
                replace(
                    place,
                    measure=prepared,
                    find=prepared.found(place.find),
                    conditions=conditions,
                )
            ),
        )
    _note(state, phase_one.last())


def _note(state: _State, found: Iterable[Measured]) -> None:
    """Results on disk as they come."""
    for done in found:
        if state.run.procedure.means:
            add_means(done.record)
        state.done.append(done)
        _write_results(state)


def _variant(state: _State, sizes: FramePair, mode: Mode, name: str, vary: Vary) -> Place:
    """Where a variant of the traffic is measured; it is loaded."""
    streams = compile_point(technology(state.run), sizes, state.run.seed, vary)
    state.bench.load(streams)
    state.loopback.load(streams)
    return _place(state, sizes, mode, streams, variant=name)


def _place(
    state: _State,
    sizes: FramePair,
    mode: Mode,
    streams: Mapping[Direction, StreamSet],
    through: Callable[[Measure], Measure] = lambda door: door,
    variant: str = "",
) -> Place:
    """Where a point is measured; the tester's own ceiling is found first.

    Args:
        state: of the run.
        sizes, mode: the point.
        streams: what is sent.
        through: changes the trials of the ceiling.
        variant: begins the keys of its trials where the streams are not the run's own.
    """
    run = state.run
    media = max_frame_rate_fps(run.line_rate_bps, sizes.ipv6)
    own = for_loopback(run, _door(state, state.loopback))
    spec = replace(ceiling_spec(run, sizes, mode, media), variant=variant)
    door = _door(state, state.loopback) if through is establishing else own
    what = f"{sizes.label} octets, {mode}"
    if run.loops_back:
        state.watch.say(f"{what}: how much the tester itself can do")
    ceiling, source = find_ceiling(
        run, streams, spec, through(door), state.directory, of_phase_one=through is establishing
    )
    if source != THIS_RUN:
        state.watch.say(f"{what}: the tester's own ceiling: {source}")
    if not ceiling.rate_fps:
        raise TesterError(
            "the tester loses frames even without a device: "
            + (ceiling.faults[0] if ceiling.faults else "no rate passed"),
            "close other programs on this machine; `v6t selftest` repeats this check",
        )
    return Place(
        run=run,
        sizes=sizes,
        mode=mode,
        media_fps=media,
        ceiling=ceiling,
        measure=_door(state, state.bench),
        loopback=own,
        watch=state.watch.trial,
        say=state.watch.say,
        find=state.journal.entries.__getitem__,
        conditions=_conditions(run, ceiling, source),
    )


class _Door:
    """Journal, then tester; a wrong frame ends the run whenever it turns up."""

    def __init__(self, state: _State, bench: Bench) -> None:
        self._state = state
        self._measure = JournaledMeasure(state.journal, self._run)
        self._bench = bench

    def __call__(self, trial: Trial) -> TrialResult:
        result = self._measure(trial)
        if trial.benchmark != "preflight":  # the preflight reports by itself
            for direction, counted in result.directions.items():
                if counted.mismatch is not None:
                    why = counted.mismatch.get("why", "")
                    _refuse(self._state, Finding(False, direction, why, counted.mismatch))
        return result

    def _run(self, trial: Trial) -> TrialResult:
        self._state.measured += 1
        with DuringTrial(trial, self._state.run.dut.options.get("hooks", {})):
            return self._bench.measure(trial)


def _door(state: _State, bench: Bench) -> _Door:
    return _Door(state, bench)


def _refuse(state: _State, finding: Finding) -> None:
    """End the run: the device translates wrongly, or the tester cannot tell."""
    if finding.tester:
        raise TesterError(f"the tester cannot even send a few frames: {finding.why}")
    frames = dict(finding.frames or {})
    state.finding = {"direction": finding.direction, "why": finding.why, **frames}
    name = frames.get("class")
    where = [finding.direction] * bool(finding.direction) + [f"class {name}"] * bool(name)
    text = ", ".join(["translation incorrect", *where])
    picture = "\n" + render(frames) if frames else ""
    raise TranslationError(
        f"{text}: {finding.why}{picture}",
        "compare the device's configuration with `v6t run --dry-run`, which prints what it must be",
    )


def _conditions(run: ResolvedRun, ceiling: Ceiling, source: str) -> dict[str, Any]:
    return {
        "preset": run.preset,
        "demonstration": is_demonstration(run),
        "caveats": caveats(run),
        "plugin": run.plugin,
        "params": technology(run).params.model_dump(mode="json"),
        "tester": run.tester.kind,
        "device": run.dut.driver,
        "line_rate_bps": run.line_rate_bps,
        "seed": run.seed,
        "selftest_margin": run.procedure.selftest_margin,
        "selftest_trials": list(ceiling.keys),
        "ceiling": source,
        "machine": {k: machine()[k] for k in ("processor", "cores", "kernel")},
    }


def _write_results(state: _State) -> None:
    """Results, repetitions and raw trials; what stands on disk is always whole, never less."""
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "status": state.status,
        "label": state.run.label,
        "caveats": caveats(state.run),
        "results": [d.record for d in state.done],
    }
    if state.finding:
        content["finding"] = state.finding
    if not state.results.is_due(content, measured=state.measured > 0):
        return
    watched = state.results.held.get("bottleneck")
    if watched:
        content["bottleneck"] = watched
    directory, journal = state.directory, state.journal
    state.results.write(content)
    for name, rows in raw_tables(state.run, state.done).items():
        directory.write_text(name, as_csv(rows))
    directory.write_text(names.TRIALS, as_csv(list(trial_rows(journal))))


def _note_tester(state: _State, described: dict[str, Any]) -> None:
    directory = state.directory
    content = directory.read_json(names.MANIFEST) or {"run": state.journal.run or ""}
    content["tester"] = described
    content.setdefault("finished", []).append(now())
    directory.write_json(names.MANIFEST, content)
