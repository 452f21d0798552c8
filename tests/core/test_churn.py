"""Degradation while connecting, in simulation and in the lab: both, each alone and both at once."""

from __future__ import annotations

import json
import shutil

import jsonschema
import pytest
from v6t.analysis.records.churn import middle
from v6t.core.benchmarks.registry import results_schema
from v6t.core.config.resolve import Flags, resolve_and_bind
from v6t.core.runs.plan import plan
from v6t.drivers.lab.privilege import available
from v6t.procedures.tcp import Churn, Tcp, TcpFound
from v6t.procedures.trial import Trial, TrialResult, result_from_json, result_to_json, trial_to_json

from .support import complaint, v6t

SMALL = (
    *("--mode", "bidirectional", "--set-procedure", "connections.count=2000"),
    *("--set-procedure", "connections.rate_cps=2000"),
)


def churned(out, *more):
    done = v6t("run", "--plugin", "nat44", "--measure", "churn", *SMALL, *more, "-o", out)
    assert done.status == 0, done.err
    content = json.loads((out / "results.json").read_text())
    jsonschema.Draft202012Validator(results_schema()).validate(content)
    return {r["benchmark"]: r for r in content["results"]}, done


@pytest.mark.slow
def test_both_come_at_shares_of_what_was_found(tmp_path):
    found, done = churned(
        tmp_path / "out", "--tester", "sim", "--set-tester", "insertion_cps=20000"
    )
    record = found["churn"]
    assert record["rate"] == pytest.approx(found["throughput"]["p1"] / 2)
    assert record["connections_cps"] == pytest.approx(found["tcp-rate"]["p1"] / 2)
    for kind in ("connections", "both"):
        counts = record["connecting"][kind]
        assert counts["attempted"] == counts["established"] == counts["answered"]
    for kind in ("stream", "both"):
        assert all(loss == 0 for way in record["stream"][kind].values() for loss in way["loss"])
    assert "Degradation while connecting: the connections" in done.out
    assert v6t("report", tmp_path / "out").status == 0


@pytest.mark.slow
def test_connections_that_a_device_cannot_make_are_seen(tmp_path):
    found, _ = churned(
        tmp_path / "out", "--tester", "sim", "--set-tester", "insertion_cps=3000",
        "--set-procedure", "churn.connections_cps=4000", "--set-procedure", "churn.rate_fps=1000",
        "--set-procedure", "churn.duration_s=1",
    )  # fmt: skip
    both = found["churn"]["connecting"]["both"]
    assert both["attempted"] == [4000, 4000]
    assert both["established"] == [3000, 3000]


def test_it_is_planned_with_what_it_needs():
    bound = resolve_and_bind(flags=Flags(plugin="nat44", tester="sim", benchmarks=("churn",)))
    assert {p.benchmark for p in plan(bound).points} == {
        *("churn", "throughput", "connection-rate", "tcp-rate")
    }


def test_without_connections_it_is_refused():
    words = ("run", "--plugin", "siit", "--tester", "sim", "--measure", "churn", "--dry-run")
    said = complaint(v6t(*words))
    assert "keeps no connections" in said


def test_a_trial_with_churn_is_read_back_from_a_journal():
    trial = Trial("churn", "k", 64, 64, "forward", 1.0, 1.0, churn=Churn(10.0, Tcp()))
    assert trial_to_json(trial)["churn"]["rate_cps"] == 10.0
    assert "tcp" in trial.needs
    result = TrialResult({}, churn=TcpFound(10, 9, timed_out=1, log_records=8))
    assert result_from_json(json.loads(json.dumps(result_to_json(result)))) == result


def test_values_that_are_undefined_are_no_middle():
    assert middle([None, 3.0, 1.0]) == 2.0
    assert middle([None]) is None


@pytest.mark.lab
@pytest.mark.skipif(
    not available()[0] or shutil.which("conntrack", path="/usr/sbin:/usr/bin") is None,
    reason="needs a lab and conntrack",
)
def test_a_device_that_logs_has_its_records_counted(tmp_path):
    """Every connection that the kernel makes has its record; on a busy machine some may come later."""
    (tmp_path / "bed.yaml").write_text("line_rate: 3M")  # nobody looks for the tester's own limit
    found, _ = churned(
        tmp_path / "out", "--set-dut", "log_connections=true", "--testbed", tmp_path / "bed.yaml",
        *("--set-procedure", "churn.rate_fps=1000", "--set-procedure", "churn.connections_cps=200"),
        *("--set-procedure", "churn.duration_s=1", "--reps", "1", "--set-procedure", "tcp.timeout_s=3"),
        *("--set-procedure", "sending_time_tolerance=2", "--set-procedure", "invalid_retries=6"),
    )  # fmt: skip
    both = found["churn"]["connecting"]["both"]
    assert both["attempted"] == [200]
    assert 0 < both["log_records"][0] <= 200
