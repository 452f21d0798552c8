"""OpenMetrics text, read by the parser of Prometheus' own client."""

import json

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from v6t.tests.core.reportruns import EVERYTHING, made
from v6t.tests.core.support import v6t

LABEL = 'a "label" \\ with\nlines'


@pytest.mark.slow
def test_every_figure_is_a_sample(tmp_path):
    procedure = {"frame_timeout": {"deadline_ms": 5.0}, "repetitions": 2}
    run = made(tmp_path / "run", *EVERYTHING, procedure=procedure, label=LABEL)
    done = v6t("report", run, "--format", "openmetrics")
    assert done.out == f"{run / 'results.prom'}\n"
    families = {
        family.name: family.samples
        for family in text_string_to_metric_families((run / "results.prom").read_text())
    }
    assert set(families) == {"v6t_result", "v6t_trials", "v6t_invalid_trials"}
    results = json.loads((run / "results.json").read_text())["results"]
    (throughput,) = [r for r in results if r["benchmark"] == "throughput"]
    found = {
        s.labels["statistic"]: s.value
        for s in families["v6t_result"]
        if s.labels["benchmark"] == "throughput"
    }
    assert found == {name: throughput[name] for name in ("median", "p1", "p99")}
    # a device that recovers at once has no time of recovery
    defined = {s.labels["benchmark"] for s in families["v6t_result"]}
    assert set(EVERYTHING) - {"system-recovery", "reset"} <= defined
    assert {s.labels["benchmark"] for s in families["v6t_trials"]} == set(EVERYTHING)
    assert {s.labels["label"] for s in families["v6t_result"]} == {LABEL}
    trials = sum(s.value for s in families["v6t_trials"])
    assert trials == sum(len(r["trials"]) for r in results)
