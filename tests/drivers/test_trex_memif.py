"""TRex and a running VPP connected by memif: the example of docs/guides/tuning.md."""

import re
import subprocess
from pathlib import Path

import pytest
from v6t.tests.core.support import v6t_process
from v6t.tests.needs import needs_lab

from . import matrix
from .duts.field import wait_until
from .run_facts import Run, assert_timed

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "tuning.md"
VPP = matrix.find_program("vpp")
LACKING = matrix.find_missing("trex", next(r for r in matrix.ROWS if r.device == "vpp"))

pytestmark = [
    pytest.mark.lab,
    pytest.mark.trex,
    pytest.mark.vpp,
    needs_lab,
    pytest.mark.skipif(bool(LACKING), reason=LACKING),
]


def write_from_page(name, where):
    """Write a file from the manual page with its directory moved."""
    (text,) = re.findall(rf"```\w+\n# {name}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    path = where / name
    path.write_text(text.replace("/var/lib/vpp", str(where)))
    return path


@pytest.fixture
def vpp(tmp_path):
    write_from_page("memif.vpp", tmp_path)
    program = [VPP, "-c", str(write_from_page("vpp.conf", tmp_path))]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(program, stdout=log, stderr=log) as vpp,
    ):
        try:
            wait_until((tmp_path / "memif.sock").exists, f"VPP; see {log.name}", 30)
            yield tmp_path
        finally:
            vpp.terminate()


@pytest.mark.parametrize("plugin", ["mape-br", "lwaftr"])
def test_the_example_of_the_page(vpp, plugin):
    bed, run_file = write_from_page("memif.yaml", vpp), vpp / "run.yaml"
    text = bed.read_text().replace("{start", f"{{vppctl: {VPP}ctl, start")
    bed.write_text(f"{text}line_rate: 30M\n")
    run_file.write_text(matrix.format_run_file(matrix.Row("vpp", plugin, "over memif")))
    result = v6t_process("run", run_file, "--testbed", bed, "-o", vpp / "run")
    assert result.status == 0, result.err[-4000:] + result.out
    run = Run(vpp / "run")
    run.describe_fact("measured")
    records = {(point["benchmark"], point["direction"]): point for point in run.points}
    for mode in matrix.MODES:
        assert ("throughput", mode) in records
        for benchmark in ("latency", "pdv"):
            assert_timed(records[benchmark, mode])
    assert run.compared_frames > 500
