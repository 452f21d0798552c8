"""Measure the cost of field-engine programs in TRex: fixed frames, MAP-E and MAP-T.

Run ``TREX_DIR=... python -m v6t.tests.bench.bench_trex_programs``. It uses two connected memif ports and one
data path core, which each profile overloads. The time per frame is the trial's length divided by the attempted
frames (sent, or dropped at a full ring). Profiles alternate; compare ratios, since rates contain noise.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import replace

from v6t.core.config.plugins import list_names
from v6t.core.config.resolve import resolve
from v6t.core.config.run_setup import make_setup
from v6t.core.runs.bench import compile_directions
from v6t.drivers.lab.setup import Bed
from v6t.drivers.trex.options import TrexOptions
from v6t.drivers.trex.tester import TrexTester
from v6t.profiles.rows import convert_to_rows
from v6t.profiles.streams import StreamSet

MEMIF = ("--vdev=net_memif0,id=0,role=server", "--vdev=net_memif1,id=0,role=client")
OFFERED_FPS = 30e6
SECONDS = 2.0
ROWS = 10_000


def measure_alternately(
    functions: dict[str, Callable[[], float]], rounds: int = 5
) -> dict[str, list[float]]:
    """Call several functions alternately, so that noise affects all alike."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            times[name].append(function())
    return times


def print_times(title: str, times: dict[str, list[float]], unit: str) -> None:
    """Print the minimum, median and maximum of each profile."""
    print(f"{title} [{unit}], {len(next(iter(times.values())))} alternating rounds")
    for name, values in times.items():
        print(
            f"  {name:<42} min {min(values):>12,.0f}  median {statistics.median(values):>12,.0f}"
            f"  max {max(values):>12,.0f}"
        )


def compile_profiles() -> dict[str, StreamSet]:
    """Compile the stream sets to compare, with one stream each."""
    stream_sets = {}
    for plugin in ("mape-br", "mapt-br", "ipv4-router"):
        if plugin not in list_names():
            continue
        run = resolve(plugin=plugin, params={})
        technology = make_setup(run).technology
        pair = technology.make_frame_pair(run.frame_sizes[0])
        compiled = compile_directions(technology, pair, run.seed)["forward"]
        stream = compiled.streams[0]
        stream_sets[f"{plugin} {pair.ipv6}"] = replace(compiled, streams=(stream,))
        fixed = replace(stream, trex={**stream.trex, "vm": {"instructions": []}})
        stream_sets[f"{plugin} {pair.ipv6}, fixed frame"] = replace(compiled, streams=(fixed,))
        stream_sets[f"{plugin} {pair.ipv6}, {ROWS:,} rows"] = convert_to_rows(
            replace(compiled, streams=(stream,)), ROWS
        )
        cached = {**stream.trex, "vm": {**stream.trex["vm"], "cache": 10_000}}
        stream_sets[f"{plugin} {pair.ipv6}, cache of 10,000 frames"] = replace(
            compiled, streams=(replace(stream, trex=cached),)
        )
    return stream_sets


def measure_frame_time(tester: TrexTester, compiled: StreamSet) -> float:
    """Return the time of the data path core per attempted frame [ns]."""
    tester.attachment.ask("load", port=0, streams=[dict(s.trex) for s in compiled.streams])
    frames = int(OFFERED_FPS * SECONDS)
    burst = {
        "index": 0, "pps": OFFERED_FPS, "frames": frames, "isg": 0.0, "pg_id": None, "times": 1,
    }  # fmt: skip
    raw = tester.attachment.ask(
        "run_trial", deadline_s=60, bursts={"0": [burst]}, due_s=SECONDS, receive=[1], residual_s=0.2,
        give_up_s=SECONDS, control="", samples={}, recordings={},
    )  # fmt: skip
    seconds = raw["looks"][-1][2] if raw["ended"] else SECONDS
    attempts = raw["ports"]["0"]["opackets"] + raw["queue_drop"] + raw["global"]["queue_full"]
    return 1e9 * seconds / attempts


def main() -> None:
    """Measure and print the times."""
    if not os.environ.get("TREX_DIR"):
        sys.exit("set TREX_DIR to the directory with t-rex-64")
    run = resolve(plugin="mape-br")
    options = TrexOptions(
        interfaces=MEMIF, start="always", counting="ports", sample=0, extra_arguments=("--no-ofed-check",),
    )  # fmt: skip
    bed = Bed(make_setup(run).technology.links, None)
    lab = bed.open()  # a separate namespace, without ports of this machine
    lab.tester.ask("run", command=["ip", "link", "set", "dev", "lo", "up"])
    tester = TrexTester(options, make_setup(run).technology.links)
    tester.attachment.namespace = lambda: lab.tester.pid  # type: ignore[method-assign]
    try:
        tester.open()
        times = measure_alternately(
            {
                name: lambda s=s: measure_frame_time(tester, s)
                for name, s in compile_profiles().items()
            },
            3,
        )
    finally:
        tester.close()
        bed.close()
    print_times("generation on one data path core, memif", times, "ns per frame")


if __name__ == "__main__":
    main()
