"""MLRsearch as a benchmark: settings, plan, record, table, CSV, comparison, a kill and a resume."""

from importlib.util import find_spec

import pytest
from v6t.analysis.warnings import list_warnings
from v6t.base.errors import EnvironmentLacking
from v6t.benchmarks.mlrsearch import MlrRecord
from v6t.benchmarks.registry import load_presentations
from v6t.core.config.checks import check_capabilities
from v6t.core.config.run_setup import make_setup
from v6t.core.config.warnings import list_result_warnings
from v6t.core.reporting.compare import compare_runs
from v6t.core.runs.plan import plan
from v6t.core.runs.results import load_run, read_records, read_results
from v6t.procedures.search import mlr
from v6t.tests.core.support import SIM, make_all_tables, measure_run, read_csv, v6t
from v6t.tests.core.test_benchmarks import DEVICE, resolve_run
from v6t.tests.expect import expect_error

# importing it takes a second within pytest, and every worker collects this module
LACKING = find_spec("MLRsearch") is None
pytestmark = [pytest.mark.slow, pytest.mark.skipif(LACKING, reason="needs the package MLRsearch")]

STEADY = {**DEVICE, "capacity_noise": 0.0, "buffer_frames": 0}
GOALS = (
    {"name": "NDR"},
    {"name": "PDR", "loss_ratio": 0.005, "exceed_ratio": 0.5, "duration_sum_s": 2.1},
    {"name": "half", "loss_ratio": 0.5, "width": 0.6},
    {"name": "most", "loss_ratio": 0.9, "width": 0.95},
)


def measure(path, device=STEADY, goals=GOALS, **procedure):
    procedure = {"repetitions": 2, "mlrsearch": {"goals": goals}, **procedure}
    measure_run(resolve_run("mlrsearch", device=device, **procedure), path)
    return MlrRecord.model_validate(read_results(path)["results"][0])


def list_texts(records):
    return [str(warning) for warning in list_warnings(records, load_presentations())]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("mlr") / "out"
    return path, measure(path)


def test_each_goal_has_a_result_with_all_its_attributes(run):
    _, record = run
    ndr, pdr, half, _ = record.goals
    assert [g.goal.name for g in record.goals] == ["NDR", "PDR", "half", "most"]
    assert pdr.goal.model_dump() == {
        **{"name": "PDR", "code": "0.7f2.1d0.5l50e", "loss_ratio": 0.005, "exceed_ratio": 0.5},
        **{"width": 0.005, "initial_trial_s": pytest.approx(0.7 / 30), "final_trial_s": 0.7},
        **{"duration_sum_s": 2.1, "preceding_targets": 2, "expansion_coefficient": 2},
        "like_rfc2544": "not",
    }
    assert ndr.goal.like_rfc2544 == "conditionally"
    capacity = STEADY["capacity_fps"]
    for result, loss_ratio in ((ndr, 0.0), (pdr, 0.005)):
        upper_bound = result.upper_bounds.median
        assert result.median <= capacity / (1 - loss_ratio) + 1 < upper_bound + 2
        assert upper_bound - result.median <= 0.0051 * upper_bound
        assert result.conditional_throughput.median == pytest.approx(capacity, rel=0.006)
        assert result.irregular == ["", ""]
    assert ndr.conditional_throughput.median == ndr.median
    assert half.irregular == ["", ""]
    assert (record.controller, record.convention) == ("MLRsearch 1.2.1", "per_direction")
    assert record.max_load == half.upper_bound > record.min_load


def test_irregular_result_is_marked_in_tables_files_and_report(run):
    path, record = run
    most = record.goals[-1]
    assert len(most.irregular) == 2
    assert (most.median, most.upper_bounds.median) == (record.max_load, None)
    assert most.limited
    table = make_all_tables(load_presentations(), [record])[0]
    column = [c.name for c in table.columns].index("result")
    assert [row[column] for row in table.rows] == [*["regular"] * 3, "IRREGULAR 2/2"]
    warnings = list_texts([record])
    assert any("goal most: IRREGULAR" in text for text in warnings)
    assert any("goal PDR (0.7f2.1d0.5l50e)" in text for text in warnings)
    rows = read_csv(path / "mlrsearch.csv")
    assert [(r["No"], r["Goal"], r["regular"]) for r in rows[:4]] == [
        ("1", "NDR", "True"), ("1", "PDR", "True"), ("1", "half", "True"), ("1", "most", "False"),
    ]  # fmt: skip
    assert (rows[3]["upper bound"], rows[3]["irregular"]) == ("", most.irregular[0])
    assert len(rows) == 8
    report = v6t("report", path, "--format", "html", "--figures", "none")
    assert report.status == 0, report
    page = (path / "report.html").read_text()
    assert "IRREGULAR 2/2" in page and "1 irregular" not in page
    assert "2 irregular" in page


def test_zero_throughput_is_irregular(tmp_path):
    dead = {**STEADY, "dead_zones": "[[1500, 1e12]]"}
    record = measure(tmp_path / "out", device=dead, goals=GOALS[:2])
    for result in record.goals:
        assert len(result.irregular) == 2
        assert (result.median, result.conditional_throughput.median) == (0.0, 0.0)
        assert result.upper_bounds.median == record.min_load


def test_runs_are_compared_goal_by_goal(run, tmp_path):
    path, _ = run
    slow = {**STEADY, "capacity_fps": 500_000}
    other = [GOALS[0], {**GOALS[1], "exceed_ratio": 0.25}]
    measure(tmp_path / "slow", device=slow, goals=other, repetitions=6)
    comparison = compare_runs([load_run(path), load_run(tmp_path / "slow")], False)
    lines = {line.what: line for line in comparison.lines}
    assert lines["lower bound, NDR 0.7f0.7d0l0e"].effect.estimate == pytest.approx(0.5, rel=0.02)
    assert "conditional throughput, NDR 0.7f0.7d0l0e" in lines
    assert not any("PDR" in quantity for quantity in lines)  # the exceed ratios differ


def test_stored_records_are_read_back(run):
    path, record = run
    (again,) = read_records(path, read_results(path))
    assert isinstance(again, MlrRecord)
    assert again.to_json() == record.to_json()


def test_every_goal_has_means_on_request(tmp_path):
    record = measure(tmp_path / "out", device=DEVICE, goals=GOALS[:2], means=True)
    assert all(goal.means and goal.conditional_throughput.means for goal in record.goals)


def test_plan_warns_about_nonstandard_goals():
    goals = (GOALS[0], {**GOALS[1], "duration_sum_s": 120.0})
    setup = make_setup(resolve_run("mlrsearch", mlrsearch={"goals": goals}, trial_duration_s=60.0))
    point = plan(setup).points[0]
    assert (point.benchmark, point.trials > 0) == ("mlrsearch", True)
    warnings = [text for text in list_result_warnings(setup) if text.startswith("MLRsearch goal")]
    names = "NDR (60f60d0l0e)", "PDR (60f120d0.5l50e)"
    assert [text.partition(": ")[0] for text in warnings] == [f"MLRsearch goal {g}" for g in names]
    assert "unconditionally compliant" in warnings[0] and "no throughput of RFC 2544" in warnings[1]


def test_unrecommended_goals_give_warnings():
    goals = "[{name: a, final_trial_s: 1}, {name: b, loss_ratio: 0.01, exceed_ratio: 0.5}]"
    text = " ".join(v6t(*SIM, "--measure", "mlrsearch", "--goals", goals, "--dry-run").out.split())
    assert "final trial durations" in text
    assert "goal b: " in text and "b (0.7f0.7d1l50e)" in text


def test_library_of_other_version_is_rejected(monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda _: "9.9")
    setup = make_setup(resolve_run("mlrsearch"))
    with expect_error("missing-package", mentions="1.2.1", kind=EnvironmentLacking):
        check_capabilities(setup)


def test_throughput_with_mlrsearch_reports_its_goal(tmp_path):
    measure_run(resolve_run("throughput", device=STEADY, search="mlrsearch"), tmp_path / "o")
    content = read_results(tmp_path / "o")
    record = content["results"][0]
    assert record["controller"] == f"{mlr.LIBRARY_NAME} {mlr.SUPPORTED_VERSION}"
    goal, rates = record["goal"], record["rates"]
    assert goal["goal"]["code"] == "0.7f0.7d0l0e"
    assert goal["conditional_throughput"]["values"] == rates
    assert goal["irregular"] == [""] * len(rates)
    assert all(u > r for u, r in zip(goal["upper_bounds"]["values"], rates, strict=True))
    warnings = list_texts(read_records(tmp_path / "o", content))
    assert any("exceed ratio 0, width" in text for text in warnings)
