"""Short runs through a device in a virtual machine: frames are judged, and one rate is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from v6t.tests.core.support import v6t
from v6t.tests.drivers.shown import Run

SHORT = (
    *("--mode", "bidirectional", "--reps", "1", "--no-report"),
    # four trials find a rate, however slow: it says nothing but that there is one
    *("--duration", "0.5", "--resolution", "1250"),
    # the machine, the tester and the tests share the cores
    *("--set-procedure", "sending_time_tolerance=1.5", "--set-procedure", "invalid_retries=6"),
    *("--set-procedure", "selftest=cached", "--set-procedure", "residual_wait_s=0.5"),
)
THROUGHPUT = ("--measure", "throughput")
CONNECTIONS = (
    *("--set-procedure", "connections.count=1000"),
    *("--set-procedure", "connections.rate_cps=500"),
    *("--set-procedure", "connections.wait_ms=500"),
)
LINE_RATE = "8M"
"""About as much as a machine here carries: a search that begins at 10 Gbit/s only takes longer."""


def bed_file(
    tmp_path: Path, dut: dict[str, Any], tester: str = "embedded", line_rate: str = LINE_RATE
) -> Path:
    """A testbed in the lab."""
    bed = tmp_path / "bed.yaml"
    options = {"lab": True} if tester == "trex" else {}
    found = {"tester": {"kind": tester, "options": options}, "line_rate": line_rate, "dut": dut}
    bed.write_text(yaml.safe_dump(found))
    return bed


def measured(
    tmp_path: Path, plugin: str, dut: dict[str, Any], *more: str, **bed_options: str
) -> Run:
    """Run to the end and check that all frames were right; ``bed_options`` are those of the testbed."""
    bed, path = bed_file(tmp_path, dut, **bed_options), tmp_path / "run"
    done = v6t("run", "--plugin", plugin, "--testbed", bed, *SHORT, *more, "--output", path)
    print(done.out, done.err)
    assert done.status == 0, done.err
    run = Run(path)
    judged(run)
    return run


def judged(run: Run) -> None:
    """Every frame that was compared is the reference translation, and a rate was found."""
    found = [point for point in run.points if point["benchmark"] == "throughput"]
    assert found
    for point in found:
        print(point["median"], point["checked"], point["matched"])
        assert point["matched"] == 1
        assert point["checked"] > 0
        assert point["median"] > 0
        assert all(loss == 0 for loss in point["loss"].values())
