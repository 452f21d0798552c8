"""Every cell of the matrix with real parts: run, all frames right, all benchmarks in three modes."""

from __future__ import annotations

import os

import pytest
from v6t.core.config.bound import BoundRun
from v6t.drivers.lab.privilege import available
from v6t.tests.core.support import v6t, v6t_process

from . import matrix
from .figures import ALWAYS, assert_timed
from .shown import Run

POSSIBLE, WHY = available()


def marks(tester, row):
    """What takes whole cores has them alone; the others measure slowly enough for company."""
    found = [pytest.mark.lab, pytest.mark.slow, pytest.mark.skipif(not POSSIBLE, reason=WHY)]
    if tester == "trex":
        found += [pytest.mark.trex]
    if row.device == "vpp":
        found += [pytest.mark.vpp]
    why = matrix.lacking(tester, row)
    return [*found, pytest.mark.skipif(bool(why), reason=why)]


CELLS = [
    pytest.param(tester, row, id=f"{tester}-{row.name}", marks=marks(tester, row))
    for tester in matrix.TESTERS
    for row in matrix.ROWS
]


START = v6t if os.geteuid() == 0 else v6t_process
"""A process of its own costs seconds; the namespace of an ordinary user's could not be left again."""


@pytest.fixture
def one_tester(tester, row, monkeypatch):
    """Measure the tester without a device in some rows only: it is the same in every row.

    Setting up its own lab, and starting a second TRex, takes as long as all trials of a cell.
    """
    devices = ("reference",) if tester == "trex" else ("reference", "nftables")
    if row.device not in devices:
        monkeypatch.setattr(BoundRun, "measures_tester", False)


@pytest.mark.parametrize(("tester", "row"), CELLS)
def test_a_cell(tester, row, tmp_path, one_tester):
    run, testbed, out = (tmp_path / name for name in ("run.yaml", "testbed.yaml", "out"))
    run.write_text(matrix.run_file(row, tester))
    testbed.write_text(matrix.testbed_file(row, tester))
    done = START("run", run, "--testbed", testbed, "-o", out)
    assert done.status == 0, done.err[-4000:] + done.out
    ran = Run(out)
    wanted = {(b, m) for b in matrix.benchmarks(tester, row) for m in row.modes}
    found = {(point["benchmark"], point["direction"]) for point in ran.points}
    assert {(b, m) for b, m in found if b in matrix.BENCHMARKS} == wanted
    ran.proven()
    for record in ran.points:
        if record["benchmark"] in ALWAYS:
            assert_timed(record)
    assert ran.compared > 500
    matrix.note(tester, row)


def test_every_cell_was_recorded():
    ran = {k: (c["benchmarks"], c["modes"]) for k, c in matrix.recorded().items()}
    cells = [(t, row) for t in matrix.TESTERS for row in matrix.ROWS]
    assert ran == {
        matrix.key(t, row): (", ".join(matrix.benchmarks(t, row)), ", ".join(row.modes))
        for t, row in cells
    }, "V6T_RECORD=1 pytest tests/drivers/test_matrix.py"
