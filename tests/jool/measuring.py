"""Short runs through a device in a virtual machine: frames are judged, and one rate is found."""

from __future__ import annotations

from collections.abc import Iterator
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
    """Write a testbed in the lab."""
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
    """Check that every compared frame matched and that a rate was found."""
    found = [point for point in run.points if point["benchmark"] == "throughput"]
    assert found
    for point in found:
        print(point["median"], point["checked"], point["matched"])
        assert point["matched"] == 1
        assert point["checked"] > 0
        assert point["median"] > 0
        assert all(loss == 0 for loss in point["loss"].values())


def count_sessions(bed: Any) -> int:
    """Return the number of connections that the device reports."""
    reading = bed.session.driver.get_session_reading(bed.session.intent)
    return int(reading.parse(bed.session.transport.run(reading.command).out)["sessions"])


def exchange_frames(
    bed: Any, technology: str, first: int, number: int
) -> Iterator[tuple[Any, Any]]:
    """Send frames of clients with consecutive ports and answers of a server.

    Yields:
        each pair of frames as they left the device.
    """
    client, server = {
        "nat64": ("2001:2::2", "64:ff9b::c613:2"),
        "ipv6-router": ("2001:2::2", "2001:2:0:8000::2"),
    }.get(technology, ("198.18.0.2", "198.19.0.2"))
    translated = technology.startswith("nat")
    for port in range(first, first + number):
        out = bed.through("forward", client, server, port, 53, b"from port %d" % port)
        assert out is not None, "frame dropped"
        assert (out.payload.src == "198.19.0.1") == translated
        source, sport = (out.payload.src, out["UDP"].sport)
        assert sport >= 1024
        back = bed.through("reverse", out.payload.dst, source, 53, sport, b"answer %d" % port)
        assert back is not None, "answer dropped"
        assert (back.payload.src, back.payload.dst) == (server, client)
        assert back["UDP"].dport == port
        yield out, back
