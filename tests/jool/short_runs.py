"""Short benchmark runs through a device in a virtual machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from v6t.tests.core.support import v6t
from v6t.tests.drivers.run_facts import Run

SHORT_RUN = (
    *("--mode", "bidirectional", "--reps", "1", "--no-report"),
    # a coarse search that takes four trials
    *("--duration", "0.5", "--resolution", "1250"),
    # machine, tester and tests share the cores
    *("--set-procedure", "sending_time_tolerance=1.5", "--set-procedure", "invalid_retries=6"),
    *("--set-procedure", "selftest=cached", "--set-procedure", "residual_wait_s=0.5"),
)
THROUGHPUT = ("--measure", "throughput")
CONNECTIONS = (
    *("--set-procedure", "connections.count=1000"),
    *("--set-procedure", "connections.rate_cps=500"),
    *("--set-procedure", "connections.wait_ms=500"),
)
LINE_RATE = "8M"  # about the capacity of an emulated machine, which shortens the search


def write_bed(
    tmp_path: Path, dut: dict[str, Any], tester: str = "embedded", line_rate: str = LINE_RATE
) -> Path:
    """Write a testbed file for the lab."""
    bed = tmp_path / "bed.yaml"
    options = {"lab": True} if tester == "trex" else {}
    document = {"tester": {"kind": tester, "options": options}, "line_rate": line_rate, "dut": dut}
    bed.write_text(yaml.safe_dump(document))
    return bed


def run_benchmark(
    tmp_path: Path, plugin: str, dut: dict[str, Any], *more: str, **bed_options: str
) -> Run:
    """Run a benchmark and check its results; ``bed_options`` are for :func:`write_bed`."""
    bed, path = write_bed(tmp_path, dut, **bed_options), tmp_path / "run"
    result = v6t("run", "--plugin", plugin, "--testbed", bed, *SHORT_RUN, *more, "--output", path)
    print(result.out, result.err)
    assert result.status == 0, result.err
    run = Run(path)
    check_points(run)
    return run


def check_points(run: Run) -> None:
    """Check that each throughput is positive and that all compared frames matched."""
    points = [point for point in run.points if point["benchmark"] == "throughput"]
    assert points
    for point in points:
        print(point["median"], point["checked"], point["matched"])
        assert point["matched"] == 1
        assert point["checked"] > 0
        assert point["median"] > 0
        assert all(loss == 0 for loss in point["loss"].values())


def count_sessions(bed: Any) -> int:
    """Return the number of sessions that the device reports."""
    reading = bed.session.driver.get_session_reading(bed.session.intent)
    return int(reading.parse(bed.session.transport.run(reading.command).out)["sessions"])


def exchange_frames(
    bed: Any, technology: str, first: int, number: int
) -> Iterator[tuple[Any, Any]]:
    """Send frames from consecutive client ports, and answers; yield both as the device forwarded them."""
    client, server = {
        "nat64": ("2001:2::2", "64:ff9b::c613:2"),
        "ipv6-router": ("2001:2::2", "2001:2:0:8000::2"),
    }.get(technology, ("198.18.0.2", "198.19.0.2"))
    translated = technology.startswith("nat")
    for port in range(first, first + number):
        request = bed.forward("forward", client, server, port, 53, b"from port %d" % port)
        assert request is not None, "frame dropped"
        assert (request.payload.src == "198.19.0.1") == translated
        source, sport = (request.payload.src, request["UDP"].sport)
        assert sport >= 1024
        answer = bed.forward("reverse", request.payload.dst, source, 53, sport, b"answer %d" % port)
        assert answer is not None, "answer dropped"
        assert (answer.payload.src, answer.payload.dst) == (server, client)
        assert answer["UDP"].dport == port
        yield request, answer
