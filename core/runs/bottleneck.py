"""After a run: the found rates once more, with the device watched every second (BN-01).

At a found rate nothing is lost, so nothing shows what gives first: the device is watched a second time at a
rate just above, and the verdict is on that. Where the tester was the limit there is no rate above.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.core.config.bound import BoundRun, bind
from v6t.core.runs.bench import Bench, compile_point
from v6t.core.runs.results_file import read_results
from v6t.core.runs.rundir import RESULTS, RunDir
from v6t.procedures.connection_types import Connections
from v6t.procedures.throughput import BENCHMARK as THROUGHPUT
from v6t.procedures.trial import Trial, sizes_key
from v6t.profiles.errors import UsageError
from v6t.profiles.mixes import listed_sizes, sizes_label

if TYPE_CHECKING:
    from v6t.drivers.device import Watched

FILE = "bottleneck.json"
SHORTEST_S = 5.0
ABOVE = 1.25
"""The rate just above a found one, over it."""
UNLOADED_S = 1.5
"""The device is watched so long without load before and after, too [s]."""
SHARED = "the tester works on the same cores: its time is in these figures"


def check_watchable(bound: BoundRun) -> None:
    """Refuse what nobody can watch, before anything is measured.

    Raises:
        UsageError: the run's device has no driver.
    """
    if not bound.driven:
        raise UsageError(
            "there is no device driver that could watch the device",
            "name a driver with --dut or in the testbed file",
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
        directory.write_json(RESULTS, {**results, "bottleneck": told})
        return told
    finally:
        directory.close()


def lines_of(entry: Mapping[str, Any]) -> list[str]:
    """A verdict with its evidence, as one reads it."""
    sizes = entry["frame_sizes"]
    return [
        f"{sizes_label(sizes)} octets, {entry['direction']}, "
        f"{entry['rate_fps']:,.0f} fps, {entry['device']}: {entry['says']}",
        *(f"  {line}" for line in entry["evidence"]),
    ]


def _watched(
    bound: BoundRun, record: Mapping[str, Any], duration_s: float, keep: Path
) -> list[dict[str, Any]]:
    """Entries of one point: one per device, watched one after the other."""
    from v6t.drivers.duts.bottleneck import idle_by_core, verdict_of, verdict_of_all
    from v6t.drivers.duts.shape import shaped

    run, plugin = bound.settings, bound.technology
    sizes = next(
        sizes
        for sizes in map(plugin.sizes_of, run.frame_sizes)
        if listed_sizes(sizes) == record["frame_sizes"]
    )
    bench = Bench(bound, keep=keep)
    limit, found, verdicts = limit_of_tester(record), [], {}
    try:
        bench.load(compile_point(plugin, sizes, run.seed))
        bench.open()
        trial = _trial(record, duration_s)
        if trial.connections is not None:  # phase 1 is not what is watched
            bench.measure(replace(trial, key=f"{trial.key}/phase-1", duration_s=1.0))
        for name, device in _devices(bench):
            seen = _stretches(bench, device, trial, above=not limit)
            loaded = seen.get("above") or seen["found"]
            verdicts[name] = verdict = verdict_of(loaded, limit)
            evidence = (*verdict.evidence, *([SHARED] if bound.tester.in_lab else []))
            found.append(
                {
                    "device": name,
                    "frame_sizes": dict(record["frame_sizes"]),
                    "direction": record["direction"],
                    "rate_fps": record["median"],
                    "samples": len(loaded),
                    "idle_percent": idle_by_core(loaded),
                    "telemetry": {
                        when: shaped(samples).to_json() for when, samples in seen.items()
                    },
                    **asdict(replace(verdict, evidence=evidence)),
                }
            )
    finally:
        bench.close()
    both = verdict_of_all(verdicts)
    return [{**entry, "together": both} for entry in found] if both else found


def limit_of_tester(record: Mapping[str, Any]) -> str:
    """What the tester says of a found rate that is its own limit; empty: it is not."""
    if not (record.get("tester_limited") or record.get("upper_bound_hit")):
        return ""
    ceiling = record.get("tester_ceiling")
    what = f", whose own capacity is {ceiling:,.0f} fps" if ceiling else " or the medium"
    return f"the tester{what}: the device was not asked for more"


def _stretches(bench: Bench, device: Watched, trial: Trial, *, above: bool) -> dict[str, list[Any]]:
    """Samples before, at the found rate, above it and after; where a load ends is left out."""
    ends: list[tuple[str, float]] = []
    watcher = device.watcher()
    try:
        time.sleep(UNLOADED_S)
        ends.append(("before", time.time()))
        bench.measure(trial)
        ends.append(("found", time.time()))
        if above:
            faster = replace(trial, key=f"{trial.key}/above", rate_fps=trial.rate_fps * ABOVE)
            bench.measure(faster)
            ends.append(("above", time.time()))
        time.sleep(UNLOADED_S)
        ends.append(("after", time.time()))
    finally:
        samples = watcher.stop()
    found, begin = {}, 0.0
    for name, end in ends:
        within = [s for s in samples if begin < s.seen_s <= end]
        found[name] = within if name in ("before", "after") else within[:-1]
        begin = end
    return found


def _devices(bench: Bench) -> Sequence[tuple[str, Watched]]:
    """Every driven device, with its name."""
    if bench.session is None:
        raise UsageError("this run's device has no driver that could watch it")
    return bench.session.devices()


def _found(results: dict[str, Any]) -> list[dict[str, Any]]:
    records = [
        r
        for r in results.get("results", [])
        if r.get("benchmark") == THROUGHPUT and r.get("median")
    ]
    if not records:
        raise UsageError("this run found no throughput", "a finished `v6t run` is needed")
    return records


def _trial(record: Mapping[str, Any], duration_s: float) -> Trial:
    sizes = record["frame_sizes"]
    asked = record.get("conditions", {}).get("connections")
    names = {f.name for f in fields(Connections)}
    connections = None
    if asked:
        given = {name: value for name, value in asked.items() if name in names}
        connections = replace(Connections(**given), keep=True)
    return Trial(
        benchmark="bottleneck",
        key=f"bottleneck/{sizes_key(sizes['ipv6'], sizes.get('mix'))}/{record['direction']}",
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
