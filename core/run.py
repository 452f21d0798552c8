"""A run: preflight, the tester's own ceiling, the measurement, the results on disk."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from v6t.analysis.results import repetition_rows, throughput_record, trial_row
from v6t.core import rundir as names
from v6t.core.config import technology
from v6t.core.journal import Journal, JournaledMeasure
from v6t.core.manifest import machine, manifest, now
from v6t.core.presets import caveats, is_demonstration
from v6t.core.rundir import RunDir
from v6t.core.settings import ResolvedRun
from v6t.core.sidebyside import render
from v6t.core.testers import Bench, compile_point
from v6t.procedures.preflight import Finding, check_translation
from v6t.procedures.selftest import Ceiling, CeilingSpec, tester_ceiling
from v6t.procedures.throughput import (
    Progress,
    ThroughputResult,
    ThroughputSpec,
    measure_throughput,
)
from v6t.procedures.trial import Mode, Trial, TrialResult
from v6t.profiles.errors import TesterError, TranslationError
from v6t.profiles.model import FramePair
from v6t.profiles.wire import max_frame_rate_fps

SCHEMA = "v6t-results/1"
COMPLETE, RUNNING, INCORRECT = "complete", "running", "translation incorrect"


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
class _Point:
    sizes: FramePair
    mode: Mode
    result: ThroughputResult
    record: dict[str, Any]


@dataclass
class _State:
    """Everything a run in progress needs."""

    run: ResolvedRun
    directory: RunDir
    journal: Journal
    bench: Bench
    loopback: Bench
    watch: Watch
    points: list[_Point] = field(default_factory=list)
    status: str = RUNNING
    measured: int = 0
    finding: dict[str, Any] | None = None


def execute(run: ResolvedRun, path: Path, watch: Watch) -> RunOutcome:
    """Start a run in a new directory and carry it out.

    Raises:
        UsageError: the directory cannot be used.
        V6tError: see :mod:`v6t.profiles.errors`; what was measured stays on disk.
    """
    directory = RunDir(path, new=True)
    try:
        directory.write_json(names.MANIFEST, manifest(run))
        directory.write_json(names.CONFIG, run.model_dump(mode="json"))
        return _carry_out(run, directory, watch)
    finally:
        directory.close()


def resume(path: Path, watch: Watch) -> RunOutcome:
    """Continue an interrupted run; a finished one is only read again.

    Raises:
        UsageError: the directory holds no run, or a damaged one.
    """
    directory = RunDir(path, new=False)
    try:
        return _carry_out(directory.config(), directory, watch)
    finally:
        directory.close()


def _carry_out(run: ResolvedRun, directory: RunDir, watch: Watch) -> RunOutcome:
    journal = Journal(directory.path / names.JOURNAL)
    if journal.torn:
        watch.say("the last line of the journal was incomplete; its trial is measured again")
    state = _State(run, directory, journal, Bench(run), Bench(run, loopback=True), watch)
    try:
        _write_results(state)
        _measure_all(state)
        state.status = COMPLETE
    except TranslationError:
        state.status = INCORRECT
        raise
    finally:
        described = state.bench.describe()
        state.bench.close()
        state.loopback.close()
        if described:
            _note_tester(directory, described)
        _write_results(state)
        journal.close()
    return RunOutcome(
        directory.path,
        state.status,
        [p.record for p in state.points],
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
        finding = check_translation(
            _door(state, state.bench), ipv6_frame_size=sizes.ipv6, ipv4_frame_size=sizes.ipv4
        )
        if finding is not None:
            _refuse(state, finding)
        for mode in run.modes:
            _measure_point(state, sizes, mode)


def _measure_point(state: _State, sizes: FramePair, mode: Mode) -> None:
    run = state.run
    media = max_frame_rate_fps(run.line_rate_bps, sizes.ipv6)
    state.watch.say(f"{sizes.label} octets, {mode}: how much the tester itself can do")
    ceiling = tester_ceiling(ceiling_spec(run, sizes, mode, media), _door(state, state.loopback))
    if not ceiling.rate_fps:
        raise TesterError(
            "the tester loses frames even without a device: "
            + (ceiling.faults[0] if ceiling.faults else "no rate passed"),
            "close other programs on this machine; `v6t selftest` repeats this check",
        )
    spec = throughput_spec(run, sizes, mode, media, ceiling.rate_fps)
    result = measure_throughput(spec, _door(state, state.bench), state.watch.trial)
    record = throughput_record(
        result,
        state.journal.entries.__getitem__,
        ceiling_fps=ceiling.rate_fps,
        selftest_margin=run.procedure.selftest_margin,
        conditions=_conditions(run, ceiling),
    )
    state.points.append(_Point(sizes, mode, result, record))
    _write_results(state)


def ceiling_spec(run: ResolvedRun, sizes: FramePair, mode: Mode, media_fps: float) -> CeilingSpec:
    """How the tester's own ceiling is looked for under a preset."""
    careful = run.preset == "rfc"
    return CeilingSpec(
        ipv6_frame_size=sizes.ipv6,
        ipv4_frame_size=sizes.ipv4,
        mode=mode,
        media_fps=media_fps,
        duration_s=min(5.0 if careful else 0.4, run.procedure.trial_duration_s),
        refinements=4 if careful else 2,
        residual_wait_s=min(0.2, run.procedure.residual_wait_s),
        sending_time_tolerance=max(1.02, run.procedure.sending_time_tolerance),
    )


def throughput_spec(
    run: ResolvedRun, sizes: FramePair, mode: Mode, media_fps: float, ceiling_fps: float
) -> ThroughputSpec:
    """The search, bounded by the medium and by the tester."""
    p = run.procedure
    upper = min(media_fps, ceiling_fps)
    return ThroughputSpec(
        ipv6_frame_size=sizes.ipv6,
        ipv4_frame_size=sizes.ipv4,
        mode=mode,
        upper_bound_fps=upper,
        upper_bound_reason="media" if media_fps <= ceiling_fps else "tester",
        resolution_fps=p.resolution_fps or p.resolution_ratio * upper,
        duration_s=p.trial_duration_s,
        residual_wait_s=p.residual_wait_s,
        pause_s=p.pause_s,
        repetitions=p.repetitions,
        loss_tolerance=p.loss_tolerance,
        sending_time_tolerance=p.sending_time_tolerance,
        invalid_retries=p.invalid_retries,
        confirmations=p.confirmations,
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
    text = f"translation incorrect, {finding.direction}" + (f", class {name}" if name else "")
    picture = "\n" + render(frames) if frames else ""
    raise TranslationError(
        f"{text}: {finding.why}{picture}",
        "compare the device's configuration with `v6t run --dry-run`, which prints what it must be",
    )


def _conditions(run: ResolvedRun, ceiling: Ceiling) -> dict[str, Any]:
    return {
        "preset": run.preset,
        "demonstration": is_demonstration(run),
        "caveats": caveats(run),
        "plugin": run.plugin,
        "params": run.params,
        "tester": run.tester.kind,
        "device": run.dut.driver,
        "line_rate_bps": run.line_rate_bps,
        "seed": run.seed,
        "selftest_margin": run.procedure.selftest_margin,
        "selftest_trials": list(ceiling.keys),
        "machine": {k: machine()[k] for k in ("processor", "cores", "kernel")},
    }


def _write_results(state: _State) -> None:
    """Results, repetitions and raw trials; what stands on disk is always whole."""
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "status": state.status,
        "label": state.run.label,
        "caveats": caveats(state.run),
        "results": [p.record for p in state.points],
    }
    if state.finding:
        content["finding"] = state.finding
    directory, journal = state.directory, state.journal
    directory.write_json(names.RESULTS, content)
    params = technology(state.run).params
    mix = {"n": getattr(params, "n", ""), "m": getattr(params, "m", "")}
    rows = [
        {
            **{k: row[k] for k in ("No", "Size", "Dir")},
            **mix,
            **{k: v for k, v in row.items() if k not in ("No", "Size", "Dir")},
        }
        for p in state.points
        for row in repetition_rows(p.result, lambda key: journal.entries[key].started)
    ]
    directory.write_text(names.REPETITIONS, _csv(rows))
    directory.write_text(names.TRIALS, _csv(list(_trial_rows(journal))))


def _trial_rows(journal: Journal) -> Iterator[dict[str, Any]]:
    for key, result in journal.entries.items():
        yield from trial_row(journal.trials[key], result)


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return ""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _note_tester(directory: RunDir, described: dict[str, Any]) -> None:
    content = directory.read_json(names.MANIFEST) or {}
    content["tester"] = described
    content.setdefault("finished", []).append(now())
    directory.write_json(names.MANIFEST, content)
