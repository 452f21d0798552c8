"""Runs of every benchmark, to compare their files and tables with the documentation."""

import pytest
from v6t.tests.core.support import measure_run
from v6t.tests.settings import resolve

FRAMES = (
    *("throughput", "throughput-frame-timeout", "frame-loss", "frame-loss-frame-timeout"),
    *("back-to-back", "latency", "pdv", "ipdv", "flows", "reset", "system-recovery"),
    *("reconfiguration", "critical-load"),
)
CONNECTIONS = ("capacity", "connection-rate", "teardown", "tcp-rate", "tcp-capacity", "throughput")
RUNS = {
    "mape-br": (FRAMES, {"frame_timeout": {"deadline_ms": 5}, "critical_load": {"search_s": 2}},
                {"buffer_frames": "500"}),
    "nat64": (CONNECTIONS, {}, {}), "dns64": (("resolution",), {}, {}),
    "mapt-ce": (("soak",), {"soak": {"duration_s": 2, "stretch_s": 1}}, {}),
    "mapt-br": (("mlrsearch",), {}, {}), "siit": (("rss-probe",), {}, {"cores": "4"}),
}  # fmt: skip


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Simulate all benchmarks, and provide a directory with one run for each technology."""
    base = tmp_path_factory.mktemp("runs")
    for plugin, (benchmarks, procedure, options) in RUNS.items():
        settings = resolve(
            plugin=plugin, tester="sim", benchmarks=benchmarks, modes=("forward",),
            procedure={"repetitions": 2, **procedure}, tester_options=options,
        )  # fmt: skip
        measure_run(settings, base / plugin)
    return base
