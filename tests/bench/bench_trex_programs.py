"""Measure the cost of field-engine programs in TRex: fixed frames, MAP-E and MAP-T.

Run ``TREX_DIR=... python -m v6t.tests.bench.bench_trex_programs``. It uses two connected memif ports and one
data path core, which each profile overloads. The time per frame is the trial's length divided by the attempted
frames (sent, or dropped at a full ring). Profiles alternate; compare ratios, since rates contain noise.
"""

import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial

from v6t.base.errors import TesterError
from v6t.core.config.plugins import list_names
from v6t.core.config.resolve import resolve_setup
from v6t.core.config.run_setup import make_setup
from v6t.core.runs.bench import compile_directions
from v6t.drivers.trex.attachment import Attachment
from v6t.drivers.trex.bursts import Burst
from v6t.drivers.trex.channel import parse_answer
from v6t.drivers.trex.client.stats import TrialStats
from v6t.drivers.trex.options import TrexOptions
from v6t.drivers.trex.tester import TrexTester
from v6t.profiles.rows import convert_to_rows
from v6t.profiles.streams import StreamSet
from v6t.tests.settings import resolve

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
        single = replace(compiled, streams=(stream,))
        stream_sets[f"{plugin} {pair.ipv6}"] = single
        fixed = replace(stream, trex={**stream.trex, "vm": {"instructions": []}})
        stream_sets[f"{plugin} {pair.ipv6}, fixed frame"] = replace(compiled, streams=(fixed,))
        stream_sets[f"{plugin} {pair.ipv6}, {ROWS:,} rows"] = convert_to_rows(single, ROWS)
        cached = {**stream.trex, "vm": {**stream.trex["vm"], "cache": 10_000}}
        stream_sets[f"{plugin} {pair.ipv6}, cache of 10,000 frames"] = replace(
            compiled, streams=(replace(stream, trex=cached),)
        )
    return stream_sets


def measure_frame_time(attachment: Attachment, compiled: StreamSet) -> float:
    """Return the time of the data path core per attempted frame [ns]."""
    attachment.ask("load", port=0, streams=[dict(stream.trex) for stream in compiled.streams])
    burst = Burst(index=0, pps=OFFERED_FPS, frames=int(OFFERED_FPS * SECONDS), isg=0.0, pg_id=None)
    answer = attachment.ask(
        "run_trial", deadline_s=60, bursts={"0": [asdict(burst)]}, due_s=SECONDS, receive=[1],
        residual_s=0.2, give_up_s=SECONDS, captures=[],
    )  # fmt: skip
    stats = parse_answer(TrialStats, answer)
    if stats.dropped_frames is None:
        raise TesterError("; ".join(stats.events), code="tester-fault")
    seconds = stats.counter_readings[-1].after_s if stats.ended else SECONDS
    return 1e9 * seconds / (stats.ports[0].sent + stats.dropped_frames + stats.queue_full_count)


def main() -> None:
    if not os.environ.get("TREX_DIR"):
        sys.exit("set TREX_DIR to the directory with t-rex-64")
    # in the lab's namespace, without ports of this machine
    options = TrexOptions(
        lab=True, interfaces=MEMIF, counting="ports", sample=0, extra_arguments=("--no-ofed-check",)
    )
    tester = TrexTester(options, resolve_setup(plugin="mape-br").technology.links)
    try:
        tester.open()
        measure = partial(measure_frame_time, tester.attachment)
        profiles = compile_profiles().items()
        times = measure_alternately({name: partial(measure, s) for name, s in profiles}, 3)
    finally:
        tester.close()
    print_times("generation on one data path core, memif", times, "ns per frame")


if __name__ == "__main__":
    main()
