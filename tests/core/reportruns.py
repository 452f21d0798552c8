"""Run directories that tests of reports, comparisons and campaigns read."""

from v6t.core.config.run_setup import make_setup
from v6t.core.runs.events import Listener
from v6t.core.runs.runner import execute
from v6t.tests.core.support import simulate

EVERYTHING = (
    *("throughput", "throughput-frame-timeout", "frame-loss", "back-to-back", "latency", "pdv"),
    *("ipdv", "system-recovery", "reset"),
)
FINE = {"repetitions": 6, "resolution_fps": 5_000.0, "trial_duration_s": 1.0}


def make_run(
    path, *benchmarks, device=None, procedure=None, modes=("bidirectional",), seed=1, **rest
):
    """Simulate a run in a new directory; ``device`` and ``procedure`` are settings of the files."""
    run = simulate(
        *(benchmarks or ("throughput",)),
        device={"capacity_noise": 0.01, **(device or {})},
        procedure={**FINE, **(procedure or {})},
        modes=modes,
        seed=seed,
        **rest,
    )
    execute(make_setup(run), path, Listener())
    return path
