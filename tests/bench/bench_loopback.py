"""Lossless loopback on one veth pair: embedded tester, and TRex's af_packet port beside it.

``TREX_DIR=... python -m v6t.tests.bench.bench_loopback``: both are asked for the same rates in the
same run, in turn; the figure is the highest rate that passed with no frame lost and no fault of
the tester. Unidirectional, 104-octet MAP-E frames, trials of one second.
"""

from __future__ import annotations

import os
import statistics

from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.runs.bench import compile_point, make_tester
from v6t.drivers.tester import Tester
from v6t.trials.trial import Trial
from v6t.trials.verdict import assess_trial

from .common import in_turn, show

STEPS = 6
TOP_FPS = 1_000_000.0
LONGEST = 1.05
"""Sending may take this many times the trial."""


def opened(kind: str) -> Tester:
    """A tester in loopback with MAP-E frames loaded."""
    options = {"lab": "true", "sample": "0"} if kind == "trex" else {}
    run = resolve(flags=Flags(plugin="mape-br", tester=kind, tester_options=options))
    tester = make_tester(bind(run), loopback=True)
    tester.open()
    plugin = bind(run).technology
    tester.load(compile_point(plugin, plugin.frame_pair(104), run.seed), plugin)
    return tester


def lossless_fps(tester: Tester) -> float:
    """Bisect between nothing and a million frames per second; two attempts for each rate."""
    low, high = 0.0, TOP_FPS
    for _ in range(STEPS):
        rate = (low + high) / 2
        trial = Trial("selftest", "b", 104, 64, "forward", rate, 1.0, 0.3, 0.1)
        for _ in range(2):
            result = tester.measure(trial)
            if assess_trial(trial, result, sending_time_tolerance=LONGEST).passed:
                low = rate
                break
        else:
            high = rate
    return low


def main() -> None:
    """Print the figures and, with TRex, the ratio; nothing is asserted."""
    kinds = ["embedded", *(["trex"] if os.environ.get("TREX_DIR") else [])]
    testers = {kind: opened(kind) for kind in kinds}
    try:
        figures = in_turn({k: lambda t=t: lossless_fps(t) for k, t in testers.items()}, 3)
    finally:
        for tester in testers.values():
            tester.close()
    show("lossless loopback, one veth pair, one direction", figures, "frames/s")
    if "trex" in figures:
        best = {k: statistics.median(v) for k, v in figures.items()}
        if best["trex"]:
            print(f"embedded / TRex af_packet: {best['embedded'] / best['trex']:.2f}")
    else:
        print("TREX_DIR names no installation: TRex was not measured")


if __name__ == "__main__":
    main()
