"""After a run: the found rates once more, with the device watched every second (BN-01)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from v6t.core.config import technology
from v6t.core.rundir import RESULTS, RunDir
from v6t.core.settings import ResolvedRun
from v6t.core.testers import Bench, compile_point
from v6t.procedures.trial import Trial
from v6t.profiles.errors import UsageError

FILE = "bottleneck.json"
SHORTEST_S = 5.0


def watch_again(path: Path, say: Callable[[str], None], duration_s: float) -> list[dict[str, Any]]:
    """Watch the device at each throughput found in a finished run; write ``bottleneck.json``.

    What the tester counts meanwhile is thrown away: watching costs the device time.

    Raises:
        UsageError: the directory holds no throughput, or the run's device has no driver.
    """
    from v6t.drivers.duts.telemetry import Watcher
    from v6t.drivers.duts.verdict import idle_by_core, judge

    directory = RunDir(path, new=False)
    try:
        run = directory.config()
        records = _found(run, directory.read_json(RESULTS) or {})
        plugin = technology(run)
        told = []
        for record in records:
            sizes = plugin.frame_pair(record["frame_sizes"]["ipv6"])
            bench = Bench(run)
            try:
                bench.load(compile_point(plugin, sizes, run.seed))
                bench.open()
                session = bench.session
                if session is None:
                    raise UsageError("this run's device has no driver that could watch it")
                watcher = Watcher(session.transport, session.driver.telemetry(session.intent))
                try:
                    bench.measure(_trial(record, duration_s))
                finally:
                    samples = watcher.stop()
            finally:
                bench.close()
            verdict = judge(samples)
            entry = {
                "frame_sizes": record["frame_sizes"],
                "direction": record["direction"],
                "rate_fps": record["median"],
                "samples": len(samples),
                "idle_percent": idle_by_core(samples),
                **asdict(verdict),
            }
            told.append(entry)
            say(
                f"{sizes.label} octets, {record['direction']}, {record['median']:,.0f} fps: "
                f"{verdict.says}"
            )
            for line in verdict.evidence:
                say(f"  {line}")
        directory.write_json(FILE, told)
        return told
    finally:
        directory.close()


def _found(run: ResolvedRun, results: dict[str, Any]) -> list[dict[str, Any]]:
    if run.dut.driver == "reference":
        raise UsageError("the reference device has no driver that could watch it")
    records = [
        r for r in results.get("results", []) if r.get("benchmark") == "throughput" and r["median"]
    ]
    if not records:
        raise UsageError("this run found no throughput", "a finished `v6t run` is needed")
    return records


def _trial(record: dict[str, Any], duration_s: float) -> Trial:
    sizes = record["frame_sizes"]
    return Trial(
        benchmark="bottleneck",
        key=f"bottleneck/{sizes['ipv6']}/{record['direction']}",
        ipv6_frame_size=sizes["ipv6"],
        ipv4_frame_size=sizes["ipv4"],
        mode=record["direction"],
        rate_fps=record["median"],
        duration_s=max(SHORTEST_S, duration_s),
        residual_wait_s=0.5,
        pause_s=0.0,
    )
