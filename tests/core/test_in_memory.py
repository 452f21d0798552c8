"""Reports are written from memory, and stored results are read at most once."""

import json
from collections import Counter
from unittest.mock import Mock

import pytest
import v6t
from v6t.analysis.report import run as run_report
from v6t.base import files
from v6t.base.errors import TesterError
from v6t.core.campaigns import campaign as campaigns
from v6t.core.runs import journal, results
from v6t.core.runs.results import make_results_document
from v6t.core.runs.rundir import format_json
from v6t.tests.core.support import measure_run, remove_crash, simulate
from v6t.tests.core.support import v6t as command


@pytest.fixture
def read_counts(monkeypatch):
    """Count how often each file of a run is read."""
    counts, read = Counter(), files.read_octets

    def count(path, *limit, **subject):
        counts[path.name] += path.exists()
        return read(path, *limit, **subject)

    monkeypatch.setattr(run_report, "MAX_FIGURES", 0)  # test_report.py checks figures
    for module in (files, journal):
        monkeypatch.setattr(module, "read_octets", count)
    return counts


@pytest.fixture
def expect_no_reads(read_counts):
    """Check that configuration, results and journal of a run are not read."""
    yield
    names = ("config.json", "results.json", "journal.jsonl")
    assert {name: read_counts[name] for name in names} == dict.fromkeys(names, 0)


@pytest.fixture
def campaign_file(tmp_path):
    path = tmp_path / "campaign.yaml"
    path.write_text(
        "name: two\nrun: {plugin: siit, modes: [forward], procedure: {repetitions: 1}}\n"
        "testbeds: {model: {tester: {kind: sim, options: {capacity_fps: 100000}}}}\n"
        "experiments: [{name: sizes, matrix: {frame_sizes: [104, 296]}}]\n"
    )
    return path


def test_functions_of_the_package_are_listed_for_completion():
    assert {"run", "load"} <= set(dir(v6t))


def test_run_from_python_is_reported_without_reading_its_files(expect_no_reads, tmp_path):
    run = v6t.run("siit", tester="sim", modes="forward", frame_sizes=104, output=tmp_path / "out")
    assert run.status == "complete" and run.report("md")[0].exists()


def test_stored_run_is_read_once_by_python(read_counts, tmp_path):
    measure_run(simulate(modes=("forward",)), tmp_path)
    read_counts.clear()
    run = v6t.load(tmp_path)
    assert run.status == "complete" and run.report("md")[0].exists()
    assert read_counts["results.json"] == read_counts["config.json"] == 1


@pytest.mark.parametrize("crashes", [False, True], ids=["complete", "interrupted"])
def test_resume_reads_each_file_once(crashes, read_counts, tmp_path):
    device = {"crash_at": 20} if crashes else {}
    try:
        measure_run(simulate(modes=("forward", "reverse"), device=device), tmp_path)
    except TesterError:
        remove_crash(tmp_path)
    read_counts.clear()
    assert command("resume", tmp_path, "--json", "--report").status == 0
    names = ("config.json", "manifest.json", "results.json", "journal.jsonl")
    assert {name: read_counts[name] for name in names} == dict.fromkeys(names, 1)


@pytest.mark.parametrize(("plugin", "benchmarks", "frame_sizes"), [
    ("siit", ("throughput", "latency"), ("imix",)), ("siit", ("rss-probe",), ()),
    ("nat64", ("capacity", "throughput"), ()),
])  # fmt: skip
def test_stored_data_equals_data_in_memory(plugin, benchmarks, frame_sizes, tmp_path):
    run = simulate(*benchmarks, plugin=plugin, frame_sizes=frame_sizes, modes=("forward",))
    data = measure_run(run, tmp_path)
    stored = results.load_run(tmp_path)
    written, read = (format_json(make_results_document(d.results)) for d in (data, stored))
    assert written == read
    assert [r.to_json() for r in stored.records] == [r.to_json() for r in data.records]
    for name in ("manifest", "config", "trials", "settings", "setup", "mix_sequences"):
        assert getattr(stored, name) == getattr(data, name), name


def test_campaign_plans_each_run_once_and_reports_it_without_reading_it(
    expect_no_reads, campaign_file, monkeypatch, tmp_path
):
    plan = Mock(wraps=campaigns.plan)
    monkeypatch.setattr(campaigns, "plan", plan)
    done = command("campaign", campaign_file, "--report", "-o", tmp_path / "out")
    assert done.status == 0, done.err
    assert "2 of 2" in done.out
    assert plan.call_count == 2
    assert len([*(tmp_path / "out").glob("*/report.html")]) == 2


@pytest.mark.parametrize(("digest", "status"), [("0" * 64, 2), ("", 0)], ids=["other", "none"])
def test_resume_of_campaign_checks_the_plan_digest_if_stored(
    digest, status, campaign_file, tmp_path
):
    directory = tmp_path / "out"
    campaigns.create_campaign(campaigns.plan_campaign(campaign_file), directory)
    stored = json.loads((directory / "campaign.json").read_text())
    stored["runs"][0]["plan_sha256"] = digest
    (directory / "campaign.json").write_text(json.dumps(stored))
    done = command("campaign", "--resume", directory)
    assert done.status == status and ("was planned with other" in done.err) == bool(status)
    planned = campaigns.plan_campaign(campaign_file)
    assert planned.runs[1].plan_sha256 == stored["runs"][1]["plan_sha256"]
