"""After a run: the found rates once more, with the device watched every second (BN-01).

At a found rate nothing is lost, so nothing shows what gives first: the device is watched a second time at a
rate just above, as far as medium and tester carry it, and the verdict is on that; each entry says at which
rate it was judged. Where the tester was the limit there is no rate above; where it faltered there, the
verdict is on the found rate, and says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.base.errors import UsageError
from v6t.core.config.bound import BoundRun, bind
from v6t.core.runs.bench import Bench, compile_point
from v6t.core.runs.results_file import read_results, share_conditions
from v6t.core.runs.rundir import RESULTS, RunDir
from v6t.procedures.throughput import BENCHMARK as THROUGHPUT
from v6t.profiles.mixes import format_sizes, sizes_to_json
from v6t.trials.codec import connections_from_json
from v6t.trials.connections import PhaseOneResult
from v6t.trials.result import TrialResult
from v6t.trials.trial import Trial, make_sizes_key
from v6t.trials.verdict import assess_trial

if TYPE_CHECKING:
    from v6t.drivers.duts.session.session import Session
    from v6t.drivers.duts.session.telemetry import Sample

FILE = "bottleneck.json"
SHORTEST_S = 5.0
ABOVE = 1.25
"""The rate just above a found one, over it."""
LEAST_ABOVE = 1.02
"""A rate that is less above it shows nothing that the found one does not."""
UNLOADED_S = 1.5
"""The device is watched so long without load before and after, too [s]."""
OF_ALL_CORES = "perf"
"""The reading that counts what the tester does on the same cores, too, and cannot be told apart."""
SHARED = "the tester works on the same cores: its time is in these figures"


@dataclass(frozen=True)
class Judged:
    """The trial that a verdict is on.

    Attributes:
        when: ``found`` or ``above``.
        rate_fps: offered in it, per direction.
        lost: frames that the tester missed, or the connections that did not come about; None: it did not do
            its part, and its counts say nothing.
        notes: why it is not the trial above, if it is not.
    """

    when: str
    rate_fps: float
    lost: int | None
    notes: tuple[str, ...] = ()


def check_watchable(bound: BoundRun) -> None:
    """Refuse what nobody can watch, before anything is measured.

    Raises:
        UsageError: the run's device has no driver.
    """
    if not bound.driven:
        raise UsageError(
            "no device driver is configured that can watch the device",
            "name a driver with --dut or in the testbed file",
            code="missing-driver",
        )


def watch_again(
    path: Path, say: Callable[[str], None], duration_s: float, bound: BoundRun | None = None
) -> list[dict[str, Any]]:
    """Watch the device at each throughput found in a finished run.

    Writes ``bottleneck.json`` and copies its entries into ``results.json``. What the tester counts
    meanwhile is thrown away: watching costs the device time.

    Args:
        path: the run directory.
        say: told the verdicts with their evidence.
        duration_s: of the load at each rate, at least 5 s.
        bound: the run, where it is bound already.

    Raises:
        UsageError: the directory holds no throughput, or the run's device has no driver.
    """
    directory = RunDir(path, new=False)
    try:
        bound = bound or bind(directory.config())
        check_watchable(bound)
        results = read_results(path)
        told = []
        for record in _found(results):
            for entry in _watched(bound, record, duration_s, path):
                told.append(entry)
                for line in lines_of(entry):
                    say(line)
        directory.write_json(FILE, told)
        directory.write_json(RESULTS, share_conditions({**results, "bottleneck": told}))
        return told
    finally:
        directory.close()


def lines_of(entry: Mapping[str, Any]) -> list[str]:
    """Write a verdict with its evidence."""
    sizes, found_fps = entry["frame_sizes"], entry["rate_fps"]
    judged_fps = entry.get("judged_fps", found_fps)
    seen = f" (judged at {judged_fps:,.0f})" if judged_fps != found_fps else ""
    return [
        f"{format_sizes(sizes)} octets, {entry['direction']}, "
        f"{found_fps:,.0f} fps{seen}, {entry['device']}: {entry['says']}",
        *(f"  {line}" for line in entry["evidence"]),
    ]


def _watched(
    bound: BoundRun, record: Mapping[str, Any], duration_s: float, keep: Path
) -> list[dict[str, Any]]:
    """Entries of one point: one per device, watched one after the other."""
    from v6t.drivers.duts.bottleneck import judge_device, verdict_of_all

    run, plugin = bound.settings, bound.technology
    sizes = next(
        sizes
        for sizes in map(plugin.sizes_of, run.frame_sizes)
        if sizes_to_json(sizes) == record["frame_sizes"]
    )
    bench = Bench(bound, keep=keep)
    limit, found, verdicts = limit_of_tester(record), [], {}
    try:
        bench.load(compile_point(plugin, sizes, run.seed))
        bench.open()
        trials = _trials(record, duration_s)
        if trials["found"].connections is not None:  # phase 1 is not what is watched
            first = trials["found"]
            bench.measure(replace(first, key=f"{first.key}/phase-1", duration_s=1.0))
        devices = _devices(bench)
        for name, device in devices:
            seen, results = _stretches(bench, device, trials)
            if bound.tester.in_lab:
                seen = {when: [_own(s) for s in samples] for when, samples in seen.items()}
            at = judged(trials, results, seen, run.procedure.sending_time_tolerance)
            lost = at.lost if len(devices) == 1 else None  # nobody knows by which of several
            verdicts[name] = verdict = judge_device(
                seen[at.when], limit, lost, shared=bound.tester.in_lab
            )
            evidence = (*verdict.evidence, *at.notes, *([SHARED] if bound.tester.in_lab else []))
            found.append(
                {
                    "device": name,
                    "frame_sizes": dict(record["frame_sizes"]),
                    "direction": record["direction"],
                    **_figures(record, at, seen),
                    **asdict(replace(verdict, evidence=evidence)),
                }
            )
    finally:
        bench.close()
    both = verdict_of_all(verdicts)
    return [{**entry, "together": both} for entry in found] if both else found


def _figures(
    record: Mapping[str, Any], at: Judged, seen: Mapping[str, Sequence[Sample]]
) -> dict[str, Any]:
    """Return what was seen, and at which of the rates the verdict is."""
    from v6t.drivers.duts.shape import shaped, shares_of

    loaded = seen[at.when]
    return {
        "rate_fps": record["median"],
        "judged_at": at.when,
        "judged_fps": at.rate_fps,
        "samples": len(loaded),
        "idle_percent": shares_of(loaded, "idle"),
        "telemetry": {when: shaped(samples).to_json() for when, samples in seen.items()},
    }


def _own(sample: Sample) -> Sample:
    """Without what the tester on the same cores has a share in that nobody knows."""
    return replace(sample, figures={n: f for n, f in sample.figures.items() if n != OF_ALL_CORES})


def judged(
    trials: Mapping[str, Trial],
    results: Mapping[str, TrialResult],
    seen: Mapping[str, Sequence[Sample]],
    sending_time_tolerance: float,
) -> Judged:
    """Return the trial above the found rate, if it is valid; else the one at the found rate.

    Args:
        trials: ``found`` and, where there is one, ``above``.
        results: of each.
        seen: samples of each.
        sending_time_tolerance: see :func:`~v6t.trials.verdict.assess_trial`.
    """
    notes: list[str] = []
    for when in ("above", "found"):
        trial = trials.get(when)
        if trial is None:
            notes.append(
                "nothing above the found rate was offered: medium or tester carries no more"
            )
            continue
        few = _refused(results[when])
        if few is not None and seen[when]:
            notes.append(
                f"of {few.required:,} connections {few.learned:,} went through it: nothing was sent in them"
            )
            return Judged(when, trial.rate_fps, few.required - few.learned, tuple(notes))
        verdict = assess_trial(trial, results[when], sending_time_tolerance=sending_time_tolerance)
        if verdict.valid and seen[when]:
            ways = results[when].directions.values()
            lost = sum(
                max(0, way.count_frames("required") - way.count_frames("received")) for way in ways
            )
            return Judged(when, trial.rate_fps, lost, tuple(notes))
        why = (
            f"the tester faltered: {verdict.reasons[0]}"
            if not verdict.valid
            else "nothing was read"
        )
        notes.append(f"at {trial.rate_fps:,.0f} fps ({when}) {why}")
    return Judged("found", trials["found"].rate_fps, None, tuple(notes))


def rate_above(record: Mapping[str, Any]) -> float | None:
    """Return a rate just above a found one [fps per direction] that medium and tester carry, or None.

    Args:
        record: of the throughput.
    """
    if limit_of_tester(record):
        return None
    most = [record[name] for name in ("upper_bound", "usable_fps") if record.get(name)]
    rate_fps: float = min([ABOVE * record["median"], *most])
    return rate_fps if rate_fps >= LEAST_ABOVE * record["median"] else None


def limit_of_tester(record: Mapping[str, Any]) -> str:
    """Describe a found rate that is the tester's own limit; empty: it is not."""
    if not (record.get("tester_limited") or record.get("upper_bound_hit")):
        return ""
    ceiling = record.get("tester_ceiling")
    what = f", whose own capacity is {ceiling:,.0f} fps" if ceiling else " or the medium"
    return f"the tester{what}: the device was not asked for more"


def _stretches(
    bench: Bench, device: Session, trials: Mapping[str, Trial]
) -> tuple[dict[str, list[Sample]], dict[str, TrialResult]]:
    """Return the samples before, during and after the trials, and what was counted; edges are left out."""
    ends: list[tuple[str, float]] = []
    results: dict[str, TrialResult] = {}
    watcher = device.watcher()
    try:
        time.sleep(UNLOADED_S)
        ends.append(("before", time.time()))
        for when, trial in trials.items():
            results[when] = bench.measure(trial)
            ends.append((when, time.time()))
        time.sleep(UNLOADED_S)
        ends.append(("after", time.time()))
    finally:
        samples = watcher.stop()
    return parted(samples, ends, results), results


def parted(
    samples: Sequence[Sample], ends: Sequence[tuple[str, float]], results: Mapping[str, TrialResult]
) -> dict[str, list[Sample]]:
    """Group samples by the stretch that they are of.

    A trial whose connections did not come about may be over between two samples: it has those around it, too.

    Args:
        samples: all of them, in order.
        ends: of the stretches [s, wall clock].
        results: of those that are trials.
    """
    found, begin = {}, 0.0
    for name, end in ends:
        within = [s for s in samples if begin < s.seen_s <= end]
        if name in results and _refused(results[name]) is not None:
            last = [s for s in samples if s.seen_s <= begin][-1:]
            found[name] = [*last, *within, *[s for s in samples if s.seen_s > end][:1]]
        else:
            found[name] = within[:-1] if name in results else within
        begin = end
    return found


def _refused(result: TrialResult) -> PhaseOneResult | None:
    """Return phase 1 of a trial in which the device let too few connections through."""
    phase_one = result.connections
    if phase_one is None or phase_one.learned >= phase_one.required or result.faults:
        return None
    return phase_one


def _devices(bench: Bench) -> Sequence[tuple[str, Session]]:
    """Every driven device, with its name."""
    if bench.session is None:
        raise UsageError("the driver of this run's device cannot watch it", code="missing-driver")
    return bench.session.devices()


def _found(results: dict[str, Any]) -> list[dict[str, Any]]:
    records = [
        r
        for r in results.get("results", [])
        if r.get("benchmark") == THROUGHPUT and r.get("median")
    ]
    if not records:
        raise UsageError(
            "this run does not contain a throughput",
            "a finished `v6t run` is needed",
            code="no-such-run",
        )
    return records


def _trials(record: Mapping[str, Any], duration_s: float) -> dict[str, Trial]:
    """At the found rate and, where there is one, just above, in this order."""
    trial, above_fps = _trial(record, duration_s), rate_above(record)
    if above_fps is None:
        return {"found": trial}
    return {
        "found": trial,
        "above": replace(trial, key=f"{trial.key}/above", rate_fps=above_fps),
    }


def _trial(record: Mapping[str, Any], duration_s: float) -> Trial:
    sizes = record["frame_sizes"]
    asked = record.get("conditions", {}).get("connections")
    connections = replace(connections_from_json(asked), reuse=True) if asked else None
    return Trial(
        benchmark="bottleneck",
        key=f"bottleneck/{make_sizes_key(sizes['ipv6'], sizes.get('mix'))}/{record['direction']}",
        ipv6_frame_size=sizes["ipv6"],
        ipv4_frame_size=sizes["ipv4"],
        mix=sizes.get("mix"),
        mode=record["direction"],
        rate_fps=record["median"],
        duration_s=max(SHORTEST_S, duration_s),
        residual_wait_s=0.5,
        pause_s=0.0,
        connections=connections,
    )
