"""Facts about devices, which tests record for the documentation."""

import json
from types import SimpleNamespace

import pytest
from v6t.tests.core.support import SIM, v6t
from v6t.trials.result import DirectionResult, TrialResult

from . import machines, run_facts
from .run_facts import FACTS, Run

NAME = "ssh root@vm"
CONFIGURED = f"{NAME}: configured as mape-br in 7 steps"
READ_BACK = f"{NAME}: 9 read-backs agree"
UNDONE = f"{NAME}: rolled back the changes of root@here process 12"
ALL = (CONFIGURED, READ_BACK, UNDONE)
PART = {"kind": "vpp", "device": NAME, "commands": ["true"], "version": "1.2", "system": "Linux 6"}
CHAIN = {"kind": "chain", "parts": {"ce": PART, "pe": PART}}
TWO_DEVICES = {**CHAIN, "parts": {"ce": {**PART, "device": "ssh root@other"}, "pe": PART}}
REFERENCE = {"kind": "reference"}


@pytest.fixture
def make_run(tmp_path, monkeypatch):
    """Return a function that writes a run with these log lines, device and result."""

    def make(lines=ALL, device=PART, compared=(5, 5), **changes):
        checked, matched = compared
        trial = TrialResult({"forward": DirectionResult({}, 1.0, checked=checked, matched=matched)})
        monkeypatch.setattr(run_facts, "Journal", lambda _: SimpleNamespace(entries={"t": trial}))
        result = {"benchmark": "throughput", "median": 1000.0, "checked": 300, "matched": 1.0}
        results = {"status": "complete", "results": [result | changes]}
        (tmp_path / "results.json").write_text(json.dumps(results))
        (tmp_path / "manifest.json").write_text(json.dumps({"tester": {"device": device}}))
        lines = [f"2026-11-23T08:27:43.870+00:00 {line}\n" for line in lines]
        (tmp_path / "log.txt").write_text("".join(lines))
        return Run(tmp_path)

    return make


@pytest.mark.parametrize(("lines", "device", "configured", "restored"), [
    (ALL, PART, "7 steps, 9 read back", "as before"),
    (ALL * 2, CHAIN, "14 steps, 18 read back", "as before"),
    ((), REFERENCE, "nothing to do", "nothing to do"),
])  # fmt: skip
def test_four_facts_of_run_are_proven(make_run, lines, device, configured, restored):
    facts = make_run(lines, device).describe_facts()
    assert tuple(facts) == FACTS
    assert facts == {"configured": configured, "verified by frames": "all of 5",
                     "measured": "throughput", "restored": restored}  # fmt: skip


@pytest.mark.parametrize(
    ("fact", "run"),
    [
        ("configured", {"lines": (READ_BACK, UNDONE)}),
        ("configured", {"lines": (CONFIGURED, READ_BACK, READ_BACK), "device": CHAIN}),
        ("configured", {"lines": (CONFIGURED, READ_BACK), "device": TWO_DEVICES}),
        ("configured", {"lines": (CONFIGURED, READ_BACK), "device": REFERENCE}),
        ("restored", {"lines": (CONFIGURED, READ_BACK)}),
        ("restored", {"lines": (CONFIGURED, CONFIGURED, UNDONE)}),
        ("verified by frames", {"compared": (5, 0)}),
        ("verified by frames", {"compared": (0, 0)}),
        *(("measured", result) for result in ({"matched": 0.99}, {"checked": 0}, {"median": 0})),
    ],
)
def test_missing_fact_is_rejected(make_run, fact, run):
    with pytest.raises(AssertionError):
        make_run(**run).describe_fact(fact)


def test_record_has_complete_known_rows_only():
    rows, seen = {row.name for row in machines.ROWS}, machines.load_rows()
    assert len(rows) == len(machines.ROWS)
    assert set(seen) <= rows
    assert all(set(one) == {*FACTS, "how", "version", "date"} for one in seen.values())


def test_report_hides_secrets_of_options(tmp_path):
    """Other users may read a report, but not ``config.json``."""
    hooks = {"flush": {"command": "snmpset -c hunter2 dut"}}
    (tmp_path / "bed.yaml").write_text(json.dumps({"dut": {"options": {"hooks": hooks}}}))
    words = ("--measure", "throughput", "--mode", "forward", "--reps", "1", "--report")
    result = v6t(*SIM, *words, "--testbed", tmp_path / "bed.yaml", "-o", tmp_path / "run")
    assert result.status == 0, result.err
    files = {path.name: path.read_text() for path in (tmp_path / "run").iterdir()}
    assert {name for name, text in files.items() if "hunter2" in text} == {"config.json"}
    assert "snmpset -c ********" in files["report.html"]
