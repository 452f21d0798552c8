"""TRex and a running VPP connected by memif: the example of docs/guides/tuning.md."""

import json
import re
import subprocess
import time
from pathlib import Path

import pytest
from v6t.core.runs.journal import Journal
from v6t.tests.core.support import v6t_process
from v6t.tests.needs import needs_lab

from . import matrix
from .figures import assert_timed

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
    log = (tmp_path / "log").open("w")
    program = [VPP, "-c", str(write_from_page("vpp.conf", tmp_path))]
    process = subprocess.Popen(program, stdout=log, stderr=log)
    until = time.monotonic() + 30
    while not (tmp_path / "memif.sock").exists():
        assert process.poll() is None and time.monotonic() < until, (tmp_path / "log").read_text()
        time.sleep(0.1)
    yield tmp_path
    process.terminate()
    process.wait(10)
    log.close()


@pytest.mark.parametrize("plugin", ["mape-br", "lwaftr"])
def test_the_example_of_the_page(vpp, plugin):
    bed, out = write_from_page("memif.yaml", vpp), vpp / "out"
    text = bed.read_text().replace("{start", f"{{vppctl: {VPP}ctl, start")
    bed.write_text(f"{text}line_rate: 30M\n")
    row = matrix.Row("vpp", plugin, "over memif")
    run = vpp / "run.yaml"
    run.write_text(matrix.format_run_file(row))
    done = v6t_process("run", run, "--testbed", bed, "-o", out)
    assert done.status == 0, done.err[-4000:] + done.out
    results = json.loads((out / "results.json").read_text())["results"]
    found = {(r["benchmark"], r["direction"]): r for r in results}
    for mode in matrix.MODES:
        assert found["throughput", mode]["median"] > 0
        assert found["throughput", mode]["matched"] == 1.0
        for benchmark in ("latency", "pdv"):
            assert_timed(found[benchmark, mode])
    counted = [
        c for t in Journal(out / "journal.jsonl").entries.values() for c in t.directions.values()
    ]
    assert sum(c.checked for c in counted) > 500
    assert all(c.checked == c.matched for c in counted)
