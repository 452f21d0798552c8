"""What field-engine programs cost TRex: fixed frames, MAP-E, MAP-T and their ratio, on memif.

``TREX_DIR=... python -m v6t.tests.bench.bench_trex_programs``: two memif ports joined to each
other, one data path core. Each profile is offered more than the core can make; the time of one
frame is the trial's length over the frames that were attempted (sent or dropped at the full ring).
The profiles take turns within one run: compare ratios, the machine's noise is in the rates.
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


def in_turn(works: dict[str, Callable[[], float]], rounds: int = 5) -> dict[str, list[float]]:
    """Measure several functions alternately, so that noise affects all alike."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            found[name].append(work())
    return found


def show(title: str, figures: dict[str, list[float]], unit: str) -> None:
    """Print minimum, median and maximum of each."""
    print(f"{title} [{unit}], {len(next(iter(figures.values())))} rounds in turn")
    for name, values in figures.items():
        print(
            f"  {name:<42} min {min(values):>12,.0f}  median {statistics.median(values):>12,.0f}"
            f"  max {max(values):>12,.0f}"
        )


def profiles() -> dict[str, StreamSet]:
    """Compile the stream sets to compare, each with one stream."""
    found = {}
    for plugin in ("mape-br", "mapt-br", "ipv4-router"):
        if plugin not in list_names():
            continue
        run = resolve(plugin=plugin, params={})
        made = make_setup(run).technology
        pair = made.make_frame_pair(run.frame_sizes[0])
        compiled = compile_directions(made, pair, run.seed)["forward"]
        stream = compiled.streams[0]
        found[f"{plugin} {pair.ipv6}"] = replace(compiled, streams=(stream,))
        fixed = replace(stream, trex={**stream.trex, "vm": {"instructions": []}})
        found[f"{plugin} {pair.ipv6}, fixed frame"] = replace(compiled, streams=(fixed,))
        found[f"{plugin} {pair.ipv6}, {ROWS:,} rows"] = convert_to_rows(
            replace(compiled, streams=(stream,)), ROWS
        )
        cached = {**stream.trex, "vm": {**stream.trex["vm"], "cache": 10_000}}
        found[f"{plugin} {pair.ipv6}, cache of 10,000 frames"] = replace(
            compiled, streams=(replace(stream, trex=cached),)
        )
    return found


def attempts(tester: TrexTester, compiled: StreamSet) -> float:
    """Return the nanoseconds of the data path core per attempted frame."""
    tester.attachment.ask("load", port=0, streams=[dict(s.trex) for s in compiled.streams])
    frames = int(OFFERED_FPS * SECONDS)
    burst = {
        "index": 0, "pps": OFFERED_FPS, "frames": frames, "isg": 0.0, "pg_id": None, "times": 1,
    }  # fmt: skip
    raw = tester.attachment.ask(
        "run_trial",
        deadline_s=60,
        bursts={"0": [burst]},
        due_s=SECONDS,
        receive=[1],
        residual_s=0.2,
        give_up_s=SECONDS,
        control="",
        samples={},
        recordings={},
    )
    seconds = raw["looks"][-1][2] if raw["ended"] else SECONDS
    made = raw["ports"]["0"]["opackets"] + raw["queue_drop"] + raw["global"]["queue_full"]
    return 1e9 * seconds / made


def main() -> None:
    """Print the figures; nothing is asserted."""
    if not os.environ.get("TREX_DIR"):
        sys.exit("set TREX_DIR to the directory with t-rex-64")
    run = resolve(plugin="mape-br")
    options = TrexOptions(
        interfaces=MEMIF,
        start="always",
        counting="ports",
        sample=0,
        extra_arguments=("--no-ofed-check",),
    )
    bed = Bed(make_setup(run).technology.links, None)
    lab = bed.open()  # a namespace of its own: no port of this machine is used
    lab.tester.ask("run", command=["ip", "link", "set", "dev", "lo", "up"])
    tester = TrexTester(options, make_setup(run).technology.links)
    tester.attachment.namespace = lambda: lab.tester.pid  # type: ignore[method-assign]
    try:
        tester.open()
        figures = in_turn(
            {name: lambda s=s: attempts(tester, s) for name, s in profiles().items()}, 3
        )
    finally:
        tester.close()
        bed.close()
    show("generation on one data path core, memif", figures, "ns per frame")


if __name__ == "__main__":
    main()
