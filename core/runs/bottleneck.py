"""The bottleneck of a device, which is sampled while the rates that a run measured are sent once more.

At a measured rate no frame is lost, so nothing shows what limits the device. If medium and tester carry
more, the device is also sampled just above that rate, and the verdict is based on that trial.
"""

import itertools
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from v6t.base.errors import UsageError
from v6t.core.config.run_setup import RunSetup
from v6t.core.config.settings import ProcedureSettings
from v6t.core.runs.bench import Bench
from v6t.core.runs.plan import RunPlan
from v6t.core.runs.results import write_results
from v6t.core.runs.rundir import BOTTLENECK, RunDir
from v6t.drivers.duts.bottleneck import judge_device, summarize_verdicts
from v6t.drivers.duts.session.session import Session
from v6t.drivers.duts.session.telemetry import Sample, compute_core_shares, summarize_samples
from v6t.procedures.throughput import BENCHMARK as THROUGHPUT
from v6t.profiles.mixes import format_sizes, sizes_to_json
from v6t.trials.codec import decode
from v6t.trials.connections import Connections, PhaseOneResult
from v6t.trials.result import TrialResult
from v6t.trials.trial import Trial, make_sizes_key
from v6t.trials.verdict import assess_trial

MIN_TRIAL_S = 5.0  # shortest trial in which the device is sampled
# Offered rate above a measured one, and the smallest that is worth a trial, as multiples of it.
RATE_FACTOR_ABOVE, MIN_RATE_FACTOR_ABOVE = 1.25, 1.02
IDLE_SAMPLING_S = 1.5  # sampling time without load, before and after the trials


@dataclass(frozen=True)
class JudgedTrial:
    """Trial on which a verdict is based."""

    name: str  # ``found`` (at the measured rate) or ``above``
    rate_fps: float  # offered per direction
    lost: int | None  # frames or connections; None if the tester's counts are invalid
    notes: tuple[str, ...] = ()  # reasons why it is not the trial above the measured rate


def check_has_driver(setup: RunSetup) -> None:
    """Raise UsageError if the device of a run has no driver that can watch it."""
    if not setup.has_driver:
        problem = "no device driver is configured that can watch the device"
        hint = "measure a device with a driver: `v6t run --dut NAME --bottleneck`"
        if setup.tester.simulates:
            problem, hint = "the simulated device cannot be watched", "use another tester"
        raise UsageError(problem, hint, code="missing-driver")


def watch_device(
    run_dir: RunDir, run_plan: RunPlan, results: Mapping[str, Any], duration_s: float
) -> dict[str, Any]:
    """Sample the device at each throughput of a finished run; return the results with verdicts.

    Writes ``bottleneck.json`` and copies its entries into ``results.json``. The trials do not count:
    sampling costs the device time.
    """
    entries: list[dict[str, Any]] = []
    for record in results.get("results", []):
        if record.get("benchmark") == THROUGHPUT and record.get("median"):
            entries += _examine_point(run_plan, record, duration_s, run_dir.path)
    if not entries:
        problem = "this run does not contain a throughput above 0"
        raise UsageError(problem, "give a finished run that has one", code="no-such-run")
    run_dir.write_json(BOTTLENECK, entries)
    results = {**results, "bottleneck": entries}
    write_results(run_dir.path, results)
    return results


def describe_entry(entry: Mapping[str, Any]) -> list[str]:
    """Return lines that describe an entry of ``bottleneck.json``: its verdict and evidence."""
    found_fps, sizes = entry["rate_fps"], format_sizes(entry["frame_sizes"])
    judged_fps = entry.get("judged_fps", found_fps)
    judged = f" (judged at {judged_fps:,.0f})" if judged_fps != found_fps else ""
    where = f"{sizes} octets, {entry['direction']}, {found_fps:,.0f} fps{judged}"
    evidence = (f"  {line}" for line in entry["evidence"])
    lines = [f"{where}, {entry['device']}: {entry['says']}", *evidence]
    return [f"{where}: {entry['unsustained']}", *lines] if entry.get("unsustained") else lines


def _examine_point(
    run_plan: RunPlan, record: Mapping[str, Any], duration_s: float, record_dir: Path
) -> list[dict[str, Any]]:
    """Sample the devices at a point, one after the other, and return an entry for each."""
    setup, run = run_plan.setup, run_plan.setup.settings
    in_lab = setup.tester.in_lab
    all_sizes = map(setup.technology.make_sizes, run.frame_sizes)
    sizes = next(each for each in all_sizes if sizes_to_json(each) == record["frame_sizes"])
    entries, verdicts = [], {}
    with closing(Bench(setup, record_dir=record_dir)) as bench:
        bench.load(run_plan.stream_sets[sizes.label])
        bench.open()
        trials = _make_trials(record, duration_s)
        first = trials["found"]
        if first.connections is not None:  # phase 1 is not sampled
            bench.measure(replace(first, key=f"{first.key}/phase-1", duration_s=1.0))
        if bench.session is None:
            problem = "the driver of this run's device cannot watch it"
            raise UsageError(problem, code="missing-driver")
        devices = bench.session.get_sessions()
        for name, device in devices:
            samples, results = _sample_trials(bench, device, trials)
            for sample in itertools.chain(*samples.values()) if in_lab else ():
                sample.figures.pop("perf", None)  # includes the tester's work on the same cores
            judged = choose_trial(trials, results, samples, run.procedure.sending_time_tolerance)
            unsustained = describe_unsustained_rate(first, results["found"], run.procedure)
            loaded = samples[judged.name]
            lost = judged.lost if len(devices) == 1 else None  # any of several may have lost them
            # a device that loses frames at this rate is itself the limit
            limit = "" if unsustained and lost else describe_tester_limit(record)
            verdict = verdicts[name] = judge_device(loaded, limit, lost, shares_cores=in_lab)
            evidence = (*verdict.evidence, *judged.notes)
            if in_lab:
                evidence += ("the tester works on the same cores: these figures include its time",)
            summaries = {when: summarize_samples(each).to_json() for when, each in samples.items()}
            entries.append(
                {
                    "device": name,
                    "frame_sizes": dict(record["frame_sizes"]),
                    "direction": record["direction"],
                    "rate_fps": record["median"],
                    "unsustained": unsustained,
                    "judged_at": judged.name,
                    "judged_fps": judged.rate_fps,
                    "samples": len(loaded),
                    "idle_percent": compute_core_shares(loaded, "idle"),
                    "telemetry": summaries,
                    "limited_by": verdict.limited_by,
                    "says": verdict.explanation,
                    "evidence": evidence,
                }
            )
    summary = summarize_verdicts(verdicts)
    return [{**entry, "together": summary} for entry in entries] if summary else entries


def choose_trial(
    trials: Mapping[str, Trial],
    results: Mapping[str, TrialResult],
    samples: Mapping[str, Sequence[Sample]],
    sending_time_tolerance: float,
) -> JudgedTrial:
    """Return the trial above the measured rate if it is valid, else the trial at that rate."""
    notes: list[str] = []
    if "above" not in trials:
        notes.append("no higher rate was offered: the medium or the tester is the limit")
    for when in (name for name in ("above", "found") if name in trials):
        trial, result = trials[when], results[when]
        refused = _find_failed_phase_one(result)
        verdict = assess_trial(trial, result, sending_time_tolerance=sending_time_tolerance)
        if samples[when] and refused is not None:
            passed = f"{refused.learned:,} of {refused.required:,} connections passed the device"
            notes.append(f"{passed}: no frames were sent in them")
            lost = refused.required - refused.learned
            return JudgedTrial(when, trial.rate_fps, lost, tuple(notes))
        if samples[when] and verdict.valid:
            directions = result.directions.values()
            missing = (d.count_frames("required") - d.count_frames("received") for d in directions)
            lost = sum(max(0, count) for count in missing)
            return JudgedTrial(when, trial.rate_fps, lost, tuple(notes))
        why = "nothing was read" if verdict.valid else f"the tester failed: {verdict.reasons[0]}"
        notes.append(f"at {trial.rate_fps:,.0f} fps ({when}) {why}")
    return JudgedTrial("found", trials["found"].rate_fps, None, tuple(notes))


def describe_unsustained_rate(
    trial: Trial, result: TrialResult, procedure: ProcedureSettings
) -> str:
    """Return why the device did not sustain the measured rate in a longer trial; empty if it did."""
    verdict = assess_trial(
        trial,
        result,
        loss_tolerance=procedure.loss_tolerance,
        sending_time_tolerance=procedure.sending_time_tolerance,
    )
    if not verdict.device_failed:
        return ""
    return f"not sustained for {trial.duration_s:g} s ({verdict.reasons[0]})"


def choose_higher_rate(record: Mapping[str, Any]) -> float | None:
    """Return a rate just above the measured one [fps]; None if medium or tester allow none."""
    if describe_tester_limit(record):
        return None
    limits = [record[name] for name in ("upper_bound", "usable_fps") if record.get(name)]
    rate_fps: float = min([RATE_FACTOR_ABOVE * record["median"], *limits])
    return rate_fps if rate_fps >= MIN_RATE_FACTOR_ABOVE * record["median"] else None


def describe_tester_limit(record: Mapping[str, Any]) -> str:
    """Return a warning that the tester limits a measured rate; empty if it does not."""
    if not (record.get("tester_limited") or record.get("upper_bound_hit")):
        return ""
    ceiling = record.get("tester_ceiling")
    what = f", whose own capacity is {ceiling:,.0f} fps" if ceiling else " or the medium"
    return f"the tester{what}: the device was not offered more"


def _sample_trials(
    bench: Bench, device: Session, trials: Mapping[str, Trial]
) -> tuple[dict[str, list[Sample]], dict[str, TrialResult]]:
    """Measure the trials; return samples of the device before, during and after them, and the results."""
    ends: list[tuple[str, float]] = []
    results: dict[str, TrialResult] = {}
    watcher = device.start_watcher()
    try:
        time.sleep(IDLE_SAMPLING_S)
        ends.append(("before", time.time()))
        for when, trial in trials.items():
            results[when] = bench.measure(trial)
            ends.append((when, time.time()))
        time.sleep(IDLE_SAMPLING_S)
        ends.append(("after", time.time()))
    finally:
        samples = watcher.stop()
    return group_samples(samples, ends, results), results


def group_samples(
    samples: Sequence[Sample], ends: Sequence[tuple[str, float]], results: Mapping[str, TrialResult]
) -> dict[str, list[Sample]]:
    """Return the samples of each period by name, without a trial's last one, which may be late.

    A trial that ended in phase 1 may contain no sample; it also gets the ones before and after it.

    Args:
        samples: samples in order of time.
        ends: names of the periods and their ends [s, wall clock].
        results: results of those periods that are trials.
    """
    groups, begin = {}, 0.0
    for name, end in ends:
        group = [s for s in samples if begin < s.time_s <= end]
        if name in results and _find_failed_phase_one(results[name]) is not None:
            last = [s for s in samples if s.time_s <= begin][-1:]
            groups[name] = [*last, *group, *[s for s in samples if s.time_s > end][:1]]
        else:
            groups[name] = group[:-1] if name in results else group
        begin = end
    return groups


def _find_failed_phase_one(result: TrialResult) -> PhaseOneResult | None:
    """Return phase 1 of a trial if the device passed too few connections, else None."""
    phase_one = result.connections
    if phase_one is None or phase_one.learned >= phase_one.required or result.faults:
        return None
    return phase_one


def _make_trials(record: Mapping[str, Any], duration_s: float) -> dict[str, Trial]:
    sizes, mode = record["frame_sizes"], record["direction"]
    settings = record.get("conditions", {}).get("connections")
    trial = Trial(
        benchmark="bottleneck",
        key=f"bottleneck/{make_sizes_key(sizes['ipv6'], sizes.get('mix'))}/{mode}",
        ipv6_frame_size=sizes["ipv6"],
        ipv4_frame_size=sizes["ipv4"],
        mix=sizes.get("mix"),
        mode=mode,
        rate_fps=record["median"],
        duration_s=max(MIN_TRIAL_S, duration_s),
        residual_wait_s=0.5,
        pause_s=0.0,
        connections=replace(decode(Connections, settings), reuse=True) if settings else None,
    )
    above_fps = choose_higher_rate(record)
    if above_fps is None:
        return {"found": trial}
    return {"found": trial, "above": replace(trial, key=f"{trial.key}/above", rate_fps=above_fps)}
