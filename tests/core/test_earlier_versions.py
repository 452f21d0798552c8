"""Runs of earlier versions stay readable: those in ``tests/earlier`` were written by 03cf532."""

import json
import shutil
from pathlib import Path

import jsonschema
import pytest
from v6t.core.benchmarks.registry import presentations, results_schema
from v6t.core.cli.progress import Silent
from v6t.core.reporting import write
from v6t.core.reporting.compare import comparison_of
from v6t.core.runs.runner import resume
from v6t.profiles.errors import UsageError

from .support import complaint, v6t

pytestmark = pytest.mark.slow

EARLIER = Path(__file__).parents[1] / "earlier"
RUNS = ("mape-br", "nat44")


@pytest.fixture(params=RUNS)
def run(request, tmp_path):
    """A copy of an earlier run."""
    return shutil.copytree(EARLIER / request.param, tmp_path / request.param)


def results(path):
    return json.loads((path / "results.json").read_text())


def changed(path, change):
    """Rewrite the first measured record."""
    content = results(path)
    record = next(r for r in content["results"] if not r.get("not_measured"))
    change(record)
    (path / "results.json").write_text(json.dumps(content))
    return record


def test_every_record_is_one_of_its_model(run):
    known = presentations()
    for record in write.load(run).records:
        assert record.not_measured or known.of(record).name == record.benchmark
    jsonschema.validate(results(run), results_schema())


def test_its_records_come_out_as_they_went_in(run):
    known = presentations()
    for values in results(run)["results"]:
        assert known.read(values).to_json() == values


def test_it_has_a_report(run):
    write.write(run, formats=["html", "md", "json", "junit"])
    text = (run / "report.md").read_text()
    for record in results(run)["results"]:
        assert record["title"] in text
        if record.get("median"):
            assert f"{record['median']:,.0f}" in text


def test_it_is_compared(run, tmp_path):
    other = shutil.copytree(run, tmp_path / "again")
    found = comparison_of([run, other], anyway=False)
    measured = {r["benchmark"] for r in results(run)["results"] if not r.get("not_measured")}
    assert {line.benchmark for line in found.lines} == measured - {"capacity"}
    assert found.left_out == ()


def test_it_is_complete(run):
    before = (run / "results.json").read_bytes()
    outcome = resume(run, Silent())
    assert (outcome.status, outcome.measured) == ("complete", 0)
    assert [r.to_json() for r in outcome.records] == results(run)["results"]
    assert (run / "results.json").read_bytes() == before


def test_it_goes_on_where_it_was_cut(run):
    whole = results(run)
    lines = (run / "journal.jsonl").read_text().splitlines(keepends=True)
    half = len(lines) // 2
    (run / "journal.jsonl").write_text("".join(lines[:half]))
    kept = {json.loads(line.partition(" ")[2])["trial"]["key"] for line in lines[:half]}
    cut = [r for r in whole["results"] if set(r["trials"]) <= kept and r["trials"]]
    (run / "results.json").write_text(json.dumps({**whole, "status": "running", "results": cut}))
    outcome = resume(run, Silent())
    assert outcome.status == "complete"
    assert outcome.replayed >= half - 1
    assert outcome.measured > 0
    assert [r["benchmark"] for r in results(run)["results"]] == [
        r["benchmark"] for r in whole["results"]
    ]
    for record in cut:
        (again,) = [r for r in results(run)["results"] if r["benchmark"] == record["benchmark"]]
        assert again["trials"] == record["trials"]
        assert again.get("median") == record.get("median")


def test_keys_of_later_versions_are_read_over(run):
    record = changed(run, lambda r: r.update(of_tomorrow={"a": 1}))
    (read,) = [r for r in write.load(run).records if r.benchmark == record["benchmark"]]
    assert isinstance(read, presentations().of(read).record)
    write.write(run, formats=["md"])


def test_a_benchmark_that_is_not_installed_is_shown_as_it_stands(run):
    changed(run, lambda r: r.update(benchmark="of-a-plugin", title="Gone", marvel=1234.5))
    write.write(run, formats=["html", "md", "json", "junit"])
    text = (run / "report.md").read_text()
    assert "Gone" in text
    assert "marvel" in text
    assert "1234.5" in text
    assert "'of-a-plugin' is not installed" in text


def test_what_is_not_installed_is_not_dropped_silently_from_a_comparison(run, tmp_path):
    changed(run, lambda r: r.update(benchmark="of-a-plugin"))
    other = shutil.copytree(run, tmp_path / "again")
    try:
        told = " ".join(comparison_of([run, other], anyway=False).left_out)
    except UsageError as exc:  # there was nothing else in this run
        told = exc.message
    assert "'of-a-plugin' is not installed" in told


def test_what_is_no_record_is_refused_in_one_line(run):
    changed(run, lambda r: r.pop("frame_sizes"))
    done = v6t("report", run)
    assert "frame_sizes: Field required" in complaint(done)
    assert "Traceback" not in done.err
    with pytest.raises(UsageError, match="frame_sizes"):
        resume(run, Silent())


def test_a_record_without_what_its_model_needs_is_shown_as_it_stands(run):
    record = changed(run, lambda r: r.pop("unit"))
    (read,) = [r for r in write.load(run).records if r.benchmark == record["benchmark"]]
    assert presentations().of(read).name == ""
    write.write(run, formats=["md", "json", "junit"])
    assert record["title"] in (run / "report.md").read_text()
    with pytest.raises(jsonschema.ValidationError, match="unit"):
        jsonschema.validate(results(run), results_schema())
