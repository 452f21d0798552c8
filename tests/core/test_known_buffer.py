"""Back-to-back frames of a kernel router with a buffer of known size (RFC 9004)."""

import json

import pytest
from v6t.core.config.resolve import resolve
from v6t.core.reporting import write
from v6t.drivers.lab.privilege import check_availability
from v6t.tests.core.support import measure_run

LAB, WHY = check_availability()
pytestmark = [
    pytest.mark.lab,
    pytest.mark.slow,
    pytest.mark.skipif(not LAB, reason=f"needs a lab: {WHY}"),
]
BED = """\
tester: {kind: embedded}
line_rate: 4M
dut:
  driver: command
  options:
    steps:
      - command: tc qdisc replace dev $RIGHT root tbf rate 2mbit burst 1600 limit 40000
        why: a known buffer
        undo: tc qdisc del dev $RIGHT root
        check: {command: tc qdisc show dev $RIGHT root, contains: tbf}
"""


def test_buffer_of_known_size_is_measured_and_reported(tmp_path):
    """322 frames of 124 octets wait, 2,016 leave in a second, 3,378 come: 799 to 832 of them pass."""
    (tmp_path / "bed.yaml").write_text(BED)
    bursts = {
        "longest_s": 0.5, "resolution_frames": 64, "repetitions": 1, "residual_wait_s": 0.4,
        "at": "media", "sending_time_tolerance": 1.1,
    }  # fmt: skip
    run = resolve(
        None,
        tmp_path / "bed.yaml",
        plugin="ipv4-router",
        benchmarks=("back-to-back",),
        modes=("forward",),
        frame_sizes=(128,),
        procedure={
            "back_to_back": bursts,
            "repetitions": 1,
            "resolution_fps": 500,
            "invalid_retries": 9,
            "trial_duration_s": 0.5,
            "sending_time_tolerance": 1.1,
        },
    )
    measure_run(run, tmp_path / "out")
    found = json.loads((tmp_path / "out" / "results.json").read_text())["results"]
    record = next(r for r in found if r["benchmark"] == "back-to-back")
    # a sender may take a tenth longer, and a buffer that drains meanwhile holds more
    assert 700 < record["average"] < 1150
    write.write_run_report(tmp_path / "out", formats=["md"])
    report = (tmp_path / "out" / "report.md").read_text()
    (heads,) = [x for x in report.splitlines() if "longest frames" in x and "verifications" in x]
    lines = report.splitlines()
    cells = lines[lines.index(heads) + 2].split("|")
    told = {n.strip(): c.strip() for n, c in zip(heads.split("|"), cells, strict=True)}
    wanted = {"longest frames": "1,689", "step frames": "64", "verifications": "1"}
    assert {name: told[name] for name in wanted} == wanted
    clause = next(x for x in report.splitlines() if "the search of TST009" in x)
    assert "follows" in clause
