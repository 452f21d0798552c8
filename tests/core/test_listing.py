"""Lists of runs, stored results, and aliases of technologies."""

import json
import os
import shutil
from pathlib import Path

import pytest
from v6t.base.files import hold_lock
from v6t.core.config.plugins import ALIASES, list_names
from v6t.core.runs.results import list_runs
from v6t.core.runs.rundir import find_latest_runs
from v6t.tests.core.support import SIM, v6t
from v6t.tests.expect import expect_error, expect_refusal

SHORT = (*SIM, "--reps", "1", "--mode", "forward", "--no-report")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "one"
    assert v6t(*SHORT, "-o", path).status == 0
    return path


def test_list_shows_technology_figure_and_state(run):
    (listed,) = list_runs(run.parent)
    assert (listed.technology, listed.device, listed.tester) == ("mape-br", "reference", "sim")
    assert (listed.headline, listed.state) == ("throughput 980,000 fps", "complete")
    assert json.loads(v6t("list", run.parent, "--json").out)[0]["path"] == str(run)
    assert "throughput 980,000 fps" in v6t("list", run.parent).out


@pytest.mark.parametrize("name", ["second", "runs-20261130T000940Z-mape-br"])
def test_list_fits_in_80_columns_without_wrapped_rows(run, tmp_path, monkeypatch, name):
    shutil.copytree(run, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("v6t.core.cli.terminal.get_width", lambda pipe_width: 80)
    title, heading, row = v6t("list").out.splitlines()
    assert max(map(len, (title, heading, row))) <= 80
    assert "mape-br" in row and "throughput 980,000 fps" in row and row.endswith(name)


def test_trials_below_the_tables_do_not_include_checks_and_self_tests(run):
    measured = [r["trials"] for r in json.loads(v6t("show", run, "--json").out)["results"]]
    amount = sum(map(len, measured))
    assert amount < len((run / "journal.jsonl").read_text().splitlines())
    assert f"\n{amount} trials, not counting checks and self-tests\n" in v6t("show", run).out


def test_list_shows_state_of_incomplete_run_in_place_of_its_first_result(run, tmp_path):
    path = shutil.copytree(run, tmp_path / "campaign" / "001-a")
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, "status": "running"}))
    assert [listed.state for listed in list_runs(tmp_path)] == ["interrupted"]
    with hold_lock(path):
        assert [listed.state for listed in list_runs(tmp_path)] == ["in progress"]
    stdout = v6t("list", tmp_path).out
    assert "interrupted" in stdout and "throughput" not in stdout


@pytest.mark.parametrize("name", ["config.json", "manifest.json"])
def test_list_shows_runs_with_a_damaged_file(name, run, tmp_path):
    path = shutil.copytree(run, tmp_path / "damaged")
    (path / name).write_text("")
    (listed,) = list_runs(tmp_path)
    assert (listed.path, listed.state) == (str(path), "damaged")
    assert str(path) in v6t("list", tmp_path).out


def test_list_skips_directories_without_run(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.json").write_text("{")
    assert list_runs(tmp_path) == []


def test_directory_without_search_permission_is_not_listed(tmp_path, monkeypatch):
    (tmp_path / "closed").mkdir(mode=0)
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    user = os.geteuid()
    os.seteuid(user or 65534)  # root may search every directory
    try:
        assert list_runs(Path()) == []
        with expect_error("no-such-run"):
            find_latest_runs(1)
    finally:
        os.seteuid(user)


def test_show_prints_results_trials_and_warnings(run):
    assert v6t("show", run).out == v6t("resume", run, "--no-report").out
    assert v6t("show", run, "--json").out == (run / "results.json").read_text()
    assert "SIMULATED" in v6t("show", run, "--warnings").out
    assert "selftest/104/forward/t01" in v6t("show", run, "--trials").out
    trials = {t["trial"]: t for t in json.loads(v6t("show", run, "--trials", "--json").out)}
    first = trials["selftest/104/forward/t01"]
    assert first["required"] >= first["received"] > 0 and first["faults"] == []


def test_technology_is_named_without_an_option_unless_a_file_has_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert set(ALIASES.values()) <= set(list_names())
    assert all(alias == alias.lower() for alias in ALIASES)
    options = ("--tester", "sim", "--dry-run")
    assert v6t("run", "MAP-E", *options).out.startswith("mape-br on reference, sim tester")
    (tmp_path / "mape-br").write_text("plugin: siit\n")
    assert v6t("run", "mape-br", *options).out.startswith("siit on")
    for name in ("siit", "other"):  # directories without a run
        (tmp_path / name).mkdir()
    assert v6t("run", "siit", *options).out.startswith("siit on")
    for path in ("other", "./siit", "siit/"):
        expect_refusal(v6t("run", path, *options), "no-such-run")
    (tmp_path / "siit" / "campaign.json").touch()
    stderr = expect_refusal(v6t("run", "siit", *options), "no-such-run")
    assert "campaign --resume siit" in stderr


def resolve_flags(words):
    return json.loads(v6t(*SIM, *words.split(), "--dry-run", "--json").out)["run"]


@pytest.mark.parametrize("words", [
    "--frame-size 104,512 --mode forward,reverse --measure latency,pdv",
    "--frame-size 104 --frame-size 512 --mode forward --mode reverse --measure latency --measure pdv",
])  # fmt: skip
def test_values_of_a_flag_are_separated_by_commas_or_the_flag_is_repeated(words):
    run = resolve_flags(words)
    assert (run["frame_sizes"], run["modes"]) == ([104, 512], ["forward", "reverse"])
    assert run["benchmarks"] == ["latency", "pdv"]


def test_rfc_keyword_selects_sizes_of_rfc_8219():
    sizes = resolve_flags("--frame-size rfc")["frame_sizes"]
    assert sizes == [104, 168, 296, 552, 808, 1064, 1320, 1518]


def test_help_prints_the_help_of_a_command():
    assert v6t("help", "dut", "plan").out.startswith("Usage: v6t dut plan ")
    assert v6t("help").out == v6t("--help").out


@pytest.mark.parametrize("words", ["run x", "dut plan x", "dut x", "x"])
def test_help_of_an_unknown_command_is_refused(words):
    done = v6t("help", *words.split())
    assert (done.code, done.out) == ("unknown-command", "")


def test_drivers_are_listed_with_technologies_and_programs():
    drivers = {d["name"]: d for d in json.loads(v6t("dut", "list", "--json").out)}
    assert "mape-br" in drivers["vpp"]["technologies"]
    assert drivers["tayga"]["programs"].keys() == {"tayga"}
    assert drivers["command"]["technologies"] == []


@pytest.mark.parametrize(("rate", "status"), [("900k", 0), ("1.5M", 7)])
def test_run_fails_below_a_rate(rate, status, tmp_path):
    done = v6t(*SHORT, "--fail-below", rate, "-o", tmp_path / "out")
    assert done.status == status and ("1,500,000 fps" in done.err) == bool(status)
    v6t("report", tmp_path / "out", "--format", "junit")
    assert ('failures="1"' in (tmp_path / "out/junit.xml").read_text()) == bool(status)


def test_run_worse_than_baseline_ends_with_status_7(tmp_path):
    fast, slow = tmp_path / "fast", tmp_path / "slow"
    options = ("--reps", "4", "--set-tester")
    assert v6t(*SHORT, *options, "capacity_fps=600000", "-o", fast).status == 0
    for command in ((*SHORT, *options, "capacity_fps=300000", "-o", slow), ("resume", slow)):
        done = v6t(*command, "--baseline", fast)
        assert (done.status, "worse" in done.out) == (7, True)


def test_invalid_baseline_is_rejected_before_measuring(tmp_path):
    out = tmp_path / "out"
    expect_refusal(v6t(*SHORT, "--baseline", tmp_path, "-o", out), "no-such-run")
    assert not out.exists()


@pytest.mark.parametrize("name", ["hooks.NAME.timeout_s", "parts.NAME.driver", "verify[].command"])
def test_nested_setting_is_explained_by_its_path(name):
    rows = json.loads(v6t("explain", f"dut.options.{name}", "--json").out)
    assert {row["name"] for row in rows} == {f"dut.options.{name}"}


def test_explain_without_a_name_lists_the_names():
    groups = json.loads(v6t("explain", "--json").out)
    assert "pdv" in groups["benchmarks"] and "P99" in groups["words of tables and figures"]
    assert "mape-br" in groups["technologies"] and "vpp" in groups["device drivers"]
    assert "trex" in groups["testers"]
    assert "procedure.repetitions" in groups["settings"] and "wrong-form" in groups["error codes"]


@pytest.mark.parametrize(("technology", "name", "default"), [
    ("nptv6", "hosts.policy", "random"),
    ("nat44", "initiator_ports.max", "41023"),
    ("clat", "ipv6_hosts.first", "198.19.0.2"),
    ("mape-br", "domains", "none"),
    ("siit", "eam",
     "[{ipv4: 198.18.0.0/24, ipv6: 2001:2::/120}, {ipv4: 198.19.0.0/24, ipv6: 2001:2:0:1000::/120}]"),
])  # fmt: skip
def test_explained_default_of_nested_setting_is_that_of_the_technology(technology, name, default):
    rows = json.loads(v6t("explain", f"params.{name}", "--plugin", technology, "--json").out)
    assert [row["default"] for row in rows if row["name"] == f"params.{name}"] == [default]
