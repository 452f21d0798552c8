"""Recorded measurements: the matrix of testers and devices, other testers, and accuracy."""

import os
from dataclasses import replace

import pytest
from v6t.core.config.run_setup import RunSetup
from v6t.tests.core.support import v6t, v6t_process
from v6t.tests.needs import needs_lab
from v6t.tools import accuracy_page, peers
from v6t.tools.record_files import load_record

from . import fault_injection, machines, matrix
from .run_facts import ALWAYS_FINITE, FACTS, Run, assert_timed


def list_marks(tester, row):
    marks = [pytest.mark.lab, pytest.mark.slow, needs_lab]
    marks += [pytest.mark.trex] if tester == "trex" else []
    marks += [pytest.mark.vpp] if row.device == "vpp" else []
    missing = matrix.find_missing(tester, row)
    return [*marks, pytest.mark.skipif(bool(missing), reason=missing)]


# Technologies that other rows measure, as parts of a chain or with another device.
REFERENCE = ("lwaftr", "mapt-br", "siit", "nptv6", "clat", "lwb4", "ipv4-router", "ipv6-router")
COVERED = {"chain-dslite-aftr", *(f"reference-{plugin}" for plugin in REFERENCE)}
# TRex sends the same frames to each device of a technology, so it measures the first that this machine has.
AVAILABLE_FIRST = sorted(matrix.ROWS, key=lambda row: bool(matrix.find_missing("trex", row)))
AVAILABLE_LAST = [row for row in reversed(AVAILABLE_FIRST) if row.name not in COVERED]
FIRST = {(row.plugin, row.params.get("variant")): row.name for row in AVAILABLE_LAST}


def is_measured(tester, row):
    """Check whether a cell is measured: all cells for a record, otherwise one of several similar ones."""
    if os.environ.get("V6T_RECORD") or (row.device, row.plugin) in matrix.HEADLINE:
        return True
    first = FIRST.get((row.plugin, row.params.get("variant")))
    return row.name not in COVERED and (tester != "trex" or row.name == first)


CELLS = [
    pytest.param(tester, row, id=f"{tester}-{row.name}", marks=list_marks(tester, row))
    for tester in matrix.TESTERS
    for row in matrix.ROWS
    if is_measured(tester, row)
]

# Devices whose packets take the same path as those of nftables or TAYGA.
SIMILAR_DEVICES = ("linux-router", "iptables", "ip6tables-npt", "nftables66",
                   "tayga-nftables", "chain")  # fmt: skip
# A separate process takes seconds more, but an unprivileged process cannot leave its user namespace.
START = v6t if os.geteuid() == 0 else v6t_process


@pytest.fixture
def one_tester(tester, row, monkeypatch):
    """Measure tester capacity in two rows only, because it is the same in all rows and takes long."""
    rows = ("reference-mape-br",) if tester == "trex" else ("reference-mape-br", "nftables-nat44")
    if row.name not in rows:
        monkeypatch.setattr(RunSetup, "can_measure_tester", False)


@pytest.mark.parametrize(("tester", "row"), CELLS)
def test_matrix_cell_is_measured(tester, row, tmp_path, one_tester):
    same_device = (r for r in matrix.ROWS if r.device == row.device not in SIMILAR_DEVICES)
    is_first = row is next(same_device, None)
    is_headline = (row.device, row.plugin) in matrix.HEADLINE
    if not (is_first or is_headline or os.environ.get("V6T_RECORD")):
        # the measurement of delays does not depend on the technology
        row = replace(row, wanted=matrix.BENCHMARKS[:1])
    run, testbed, out = (tmp_path / name for name in ("run.yaml", "testbed.yaml", "out"))
    run.write_text(matrix.format_run_file(row))
    testbed.write_text(matrix.format_testbed_file(row, tester))
    result = START("run", run, "--testbed", testbed, "-o", out)
    assert result.status == 0, result.err[-4000:] + result.out
    finished = Run(out)
    points = {(point["benchmark"], point["direction"]) for point in finished.points}
    expected = {(b, m) for b in row.wanted for m in row.modes}
    assert {(b, m) for b, m in points if b in matrix.BENCHMARKS} == expected
    for fact in FACTS:
        finished.describe_fact(fact)
    for record in finished.points:
        if record["benchmark"] in ALWAYS_FINITE:
            assert_timed(record)
    assert finished.compared_frames > 500
    matrix.add_record(tester, row)


def test_matrix_cells_are_recorded():
    recorded = load_record(matrix.RECORD)
    assert {key: (c["benchmarks"], c["modes"]) for key, c in recorded.items()} == {
        matrix.make_key(tester, row): (", ".join(row.wanted), ", ".join(row.modes))
        for tester in matrix.TESTERS
        for row in matrix.ROWS
    }, "V6T_RECORD=1 pytest tests/drivers/test_matrix.py"


def test_virtual_machines_have_complete_known_rows_only():
    rows, seen = {row.name for row in machines.ROWS}, load_record(machines.RECORD)
    assert len(rows) == len(machines.ROWS)
    assert set(seen) <= rows
    assert all(set(one) == {*FACTS, "how", "version", "date"} for one in seen.values())


@pytest.mark.lab
@pytest.mark.alone
@needs_lab
@pytest.mark.skipif(not os.environ.get("SIITPERF_DIR"), reason="needs siitperf-tp in SIITPERF_DIR")
def test_both_testers_find_rate_of_same_device(monkeypatch):
    monkeypatch.setattr(peers, "list_testers", lambda case: ["embedded", "siitperf"])
    case = replace(peers.CASES["ipv6"], upper_fps=20_000.0, resolution_fps=10_000.0)
    rates = peers.run_round(case)
    assert set(rates) == {"embedded", "siitperf"}
    assert all(rate > 0 for rate in rates.values())


@pytest.mark.parametrize("name", peers.CASES)
def test_imported_peer_file_gives_same_measurement(name, tmp_path):
    case = peers.CASES[name]
    setup = peers.resolve_case(case, "embedded", tmp_path)
    migration = case.peer.read(tmp_path / f"{case.peer.name.lower()}.conf")
    assert setup.settings.plugin == migration.run["plugin"]
    assert setup.settings.dut.driver == case.driver
    assert tuple(setup.technology.ip_versions) == case.versions


def test_recorded_injected_faults_were_always_found():
    recorded = load_record(fault_injection.RECORD)
    testers, faults = fault_injection.TESTERS, fault_injection.ALL
    expected = {f"{tester} {fault.name}" for tester in testers for fault in faults}
    assert set(recorded) == expected, "V6T_RECORD=5 pytest tests/drivers/test_fault_injection.py"
    assert all(entry["found"] == entry["of"] > 0 for entry in recorded.values())


def test_both_testers_counted_exactly_in_the_accuracy_study():
    records = {r.tester["kind"]: r for r in accuracy_page.load_accuracy_records()}
    assert set(records) == set(fault_injection.TESTERS)
    for record in records.values():
        kinds = {(row.kind, row.every) for row in record.counts}
        assert {("loss", 10**n) for n in (3, 4, 5, 6)} <= kinds
        assert all(row.exact for row in record.counts)
        assert record.delays
