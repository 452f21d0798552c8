"""Run directories that tests of reports, comparisons and campaigns read."""

from __future__ import annotations

from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.runs.events import Listener
from v6t.core.runs.runner import execute

EVERYTHING = (
    *("throughput", "throughput-frame-timeout", "frame-loss", "back-to-back", "latency", "pdv"),
    *("ipdv", "system-recovery", "reset"),
)
FINE = {"repetitions": 6, "resolution_fps": 5_000.0, "trial_duration_s": 1.0}


def made(path, *benchmarks, plugin="mape-br", modes=("bidirectional",), seed=1, label=None, **rest):
    """A finished rehearsal in a new directory; ``device`` and ``procedure`` as in the files."""
    device = {"capacity_noise": 0.01, **rest.pop("device", {})}
    flags = Flags(
        plugin=plugin,
        tester="sim",
        tester_options={k: str(v) for k, v in device.items()},
        benchmarks=benchmarks or ("throughput",),
        modes=modes,
        procedure={**FINE, **rest.pop("procedure", {})},
        seed=seed,
        label=label,
        **rest,
    )
    execute(bind(resolve(flags=flags)), path, Listener())
    return path
