"""Campaigns: matrices, interruption, several testbeds, and the campaigns of papers."""

import json
import os
import re
import shutil
import signal
import subprocess
from functools import partial
from unittest.mock import Mock

import jsonschema
import pytest
from v6t.analysis.published.library import list_sources
from v6t.analysis.report import run as run_report
from v6t.base.errors import DutError, TranslationError, UsageError
from v6t.core.campaigns import campaign as campaigns
from v6t.core.campaigns import list_packaged_campaigns, locate_campaign
from v6t.core.campaigns.campaign import create_campaign, plan_campaign
from v6t.core.cli.campaign_console import CampaignExecution
from v6t.core.config.plugins import MODIFIERS
from v6t.core.config.yaml_file import YamlFile
from v6t.tests.core.support import (
    WAIT_LIMIT_S,
    read_csv,
    read_dir,
    read_schema,
    start_v6t,
    v6t,
    wait_until,
)
from v6t.tests.expect import expect_refusal

from .test_papers import PAPERS as TRANSCRIBED

pytestmark = pytest.mark.slow

SMALL = """\
name: small
title: A small campaign
run:
  plugin: mape-br
  modes: [bidirectional]
  procedure: {repetitions: 2}
testbeds:
  model:
    tester: {kind: sim, options: {capacity_fps: 400000, capacity_noise: 0.05}}
experiments:
  - name: customers
    note: More customers.
    matrix:
      params.ces: [64, 128, 256]
  - name: directions
    matrix:
      modes: [forward, reverse]
      frame_sizes: [104, 296]
    skip:
      - {modes: reverse, frame_sizes: 296}
"""


def write_file(tmp_path, text=SMALL, name="campaign.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def read_summary(directory):
    return json.loads((directory / "summary.json").read_text())


def measure_campaign(file, out, *options):
    """Measure a campaign without reports of its runs; return its summary."""
    done = v6t("campaign", file, "--no-report", "-o", out, *options)
    assert done.status == 0, done.err
    return read_summary(out)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    home = tmp_path_factory.mktemp("campaign")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_report, "MAX_FIGURES", 0)  # test_report.py checks figures of runs
        done = v6t("campaign", write_file(home), "--report", "-o", home / "out")
    assert done.status == 0, done.err
    numbers = re.findall(r"run (\d) of 6, \S+, about .* left", done.err)
    assert numbers == ["1", "2", "3", "4", "5", "6"]
    return home / "out"


def test_matrix_is_expanded_to_runs(small):
    runs = read_summary(small)["runs"]
    assert [(r["experiment"], *r["axes"].values()) for r in runs] == [
        ("customers", 64), ("customers", 128), ("customers", 256), ("directions", 104, "forward"),
        ("directions", 296, "forward"), ("directions", 104, "reverse"),
    ]  # fmt: skip
    assert all(r["status"] == "complete" for r in runs)
    for run in runs:
        config, results = (
            json.loads((small / run["directory"] / name).read_text())
            for name in ("config.json", "results.json")
        )
        assert config["params"].get("ces", 1000) == run["axes"].get("params.ces", 1000)
        assert config["modes"] == [run["axes"].get("modes", "bidirectional")]
        assert [f["median"] for f in run["results"]] == [r["median"] for r in results["results"]]


def test_summary_follows_its_schema_and_equals_its_table(small):
    summary = read_summary(small)
    jsonschema.validate(summary, read_schema("campaign-1"))
    rows = read_csv(small / "summary.csv")
    assert [row["params.ces"] for row in rows[:3]] == ["64", "128", "256"]
    figures = [figure for run in summary["runs"] for figure in run["results"]]
    assert [float(row["median"]) for row in rows] == [f["median"] for f in figures]
    assert [row["limited"] for row in rows] == [str(f["limited"]) for f in figures]


def test_report_shows_scale_up_with_its_formula(small):
    page, markdown = ((small / f"report.{end}").read_text() for end in ("html", "md"))
    assert "S_C(n, n0) = P(n) / P(n0)" in page
    medians = [r["results"][0]["median"] for r in read_summary(small)["runs"][:3]]
    for median in medians:
        assert f"{median / medians[0]:.3f}" in page
        assert f"{median:,.0f}" in markdown
    assert "More customers." in page
    assert page.count("<svg") == 2  # over customers, over frame sizes
    assert "001-customers-64/report.html" in page
    assert (small / "001-customers-64" / "report.html").exists()


SCALING = """\
name: scaling
run: {plugin: mape-br, modes: [forward], procedure: {repetitions: 2, resolution_fps: 1000}}
testbeds:
  model:
    tester: {kind: sim, options: {capacity_fps: 100000}}
    dut: {driver: vpp, options: {left: left, right: right}}
experiments:
  - name: cores
    matrix:
      tester.options: [{cores: 1, capacity_fps: 100000}]
      params: {one: {}, two: {ces: 64}}
  - name: workers
    matrix:
      dut.options.workers: ["1", "1-2", "1-3,5"]
    along:
      dut.options.workers: {tester.options.capacity_fps: [100000, 190000, 300000]}
  - name: mixtures
    matrix:
      params: [{n: 2, m: 2}, {n: 2, m: 1}, {n: 1, m: 0}]
"""


def test_report_has_curves_of_named_values_cores_and_mixtures(tmp_path):
    out = tmp_path / "out"
    runs = measure_campaign(write_file(tmp_path, SCALING), out)["runs"]
    assert [r["axes"].get("params") for r in runs[:2]] == ["one", "two"]
    config = json.loads((out / runs[1]["directory"] / "config.json").read_text())
    assert config["params"] == {"ces": 64}
    medians = [r["results"][0]["median"] for r in runs if r["experiment"] == "workers"]
    text = (out / "report.md").read_text().replace("\\", "")
    assert "S_CPU(n) = P(n) / (n * P(1))" in text
    for cores, median in zip((1, 2, 4), medians, strict=True):
        efficiency = f"{median / (cores * medians[0]):.3f}"
        assert re.search(rf"\| {cores} \| {median:,.0f} \|.*\| {efficiency} \|", text)
    for formula in ("min(Tt / a, Tn / (1 - a))", "1 / (a / Tt + (1 - a) / Tn)"):
        assert f"T(a) = {formula}" in text
    assert not (out / "report.html").exists()  # not requested
    assert v6t("report", out).status == 0
    assert (out / "report.html").read_text().count("<svg") == 3  # names, cores, mixtures


def test_dry_run_only_prints_an_estimate(tmp_path):
    done = v6t("campaign", write_file(tmp_path), "--dry-run")
    assert done.status == 0
    assert re.search(r"together 6 runs, \d+ trials, about ", done.out)
    assert list(tmp_path.iterdir()) == [tmp_path / "campaign.yaml"]


def test_filter_selects_runs_by_the_value_of_a_setting():
    campaign = list_packaged_campaigns()["siit"]
    plan = partial(plan_campaign, campaign, tester="sim", experiments=("frame-loss",))
    assert len({run.config["dut"]["driver"] for run in plan().runs}) > 1
    selected = plan(run_filter={"dut.driver": "tayga"})
    assert {run.config["dut"]["driver"] for run in selected.runs} == {"tayga"}
    with pytest.raises(UsageError, match="no run has") as error:
        plan(run_filter={"dut.driver": "nobody"})
    assert "tayga" in error.value.hint
    with pytest.raises(UsageError, match="no run has") as error:
        plan(run_filter={"dut.drivre": "tayga"})
    assert "None" not in error.value.hint


def start_campaign(*arguments, stderr=subprocess.DEVNULL):
    words = ("campaign", *arguments, "--no-report")
    return start_v6t(*words, stdout=subprocess.DEVNULL, stderr=stderr)


def count_trials(directory):
    return sum(len(p.read_text().splitlines()) for p in directory.glob("*/journal.jsonl"))


def kill_after(process, directory, trials):
    """Kill a campaign once this number of trials is on disk."""
    try:
        wait_until(lambda: count_trials(directory) >= trials, process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_killed_campaign_ends_with_same_summary(tmp_path):
    slow = SMALL[: SMALL.index("  - name: directions")]
    slow = slow.replace("capacity_noise: 0.05", "capacity_noise: 0.05, trial_delay_s: 0.03")
    path = write_file(tmp_path, slow)
    uninterrupted, killed = tmp_path / "uninterrupted", tmp_path / "killed"
    measure_campaign(path, uninterrupted)
    trials = count_trials(uninterrupted)
    kill_after(start_campaign(path, "-o", killed), killed, trials // 4)
    kill_after(start_campaign("--resume", killed), killed, trials // 2)
    assert v6t("report", killed).status == 0
    assert "waiting" in {r["status"] for r in read_summary(killed)["runs"]}
    done = v6t("campaign", "--resume", killed, "--no-report")
    assert (done.status, "3 of 3" in done.out) == (0, True), done.err
    for name in ("summary.json", "summary.csv", "report.md"):
        assert (killed / name).read_text() == (uninterrupted / name).read_text(), name
    assert count_trials(killed) == trials  # nothing was measured twice


@pytest.mark.parametrize(("name", "is_missing"), [
    *((name, False) for name in ("config.json", "results.json", "journal.jsonl")),
    *((name, True) for name in ("config.json", "results.json")),
])  # fmt: skip
def test_complete_run_with_a_damaged_or_missing_file_is_failed(name, is_missing, small, tmp_path):
    copy = shutil.copytree(small, tmp_path / "copy")
    file = next(copy.glob("001-*")) / name
    if is_missing:
        file.unlink()
    else:
        file.write_bytes(b"\x80" + file.read_bytes()[1:])
    done = v6t("campaign", "--resume", copy)
    assert "5 of 6" in done.out
    assert (done.status, done.code) == (2, "damaged-file")
    assert (name if is_missing else file.parent.name) in done.err
    if name == "results.json" and not is_missing:
        done = v6t("report", copy)
        assert str(copy / "report.html") in done.out
        assert (done.status, done.code) == (2, "damaged-file")
        assert str(file) in done.err


def test_directory_with_another_run_than_planned_is_failed(small, tmp_path):
    copy = shutil.copytree(small, tmp_path / "copy")
    planned, other = (next(copy.glob(f"{number}-*")) for number in ("001", "002"))
    shutil.rmtree(planned)
    shutil.copytree(other, planned)
    done = v6t("report", copy)
    assert (done.status, done.code) == (2, "damaged-file")
    assert planned.name in done.err
    summary = json.loads((copy / "summary.json").read_text())
    assert [bool(run["results"]) for run in summary["runs"]] == [False, *[True] * 5]


def test_report_of_campaign_in_unknown_format_is_refused(small):
    expect_refusal(v6t("report", small, "--format", "junit"), "unknown-name")


def test_report_is_not_written_into_another_run(small, tmp_path):
    copy = shutil.copytree(small, tmp_path / "copy")
    before = read_dir(copy)
    expect_refusal(v6t("report", small, "-o", copy), "file-exists")
    expect_refusal(v6t("report", next(small.glob("001-*")), "-o", copy), "file-exists")
    expect_refusal(v6t("report", small, "-o", next(copy.glob("001-*"))), "file-exists")
    assert read_dir(copy) == before


def test_failed_run_does_not_stop_campaign(tmp_path):
    axes = "tester.options: [{mismatch: 1}]\n      params.ces: [64]"
    text = SMALL.replace("params.ces: [64, 128, 256]", axes)
    done = v6t("campaign", write_file(tmp_path, text), "--no-report", "-o", tmp_path / "out")
    assert done.status == TranslationError.exit_code
    states = [r["status"] for r in read_summary(tmp_path / "out")["runs"]]
    assert states == ["translation incorrect", "complete", "complete", "complete"]
    assert "1 of 4" not in done.out and "3 of 4" in done.out


def test_interrupted_run_with_failed_rollback_ends_campaign(tmp_path, monkeypatch):
    """The error of the rollback replaces the interrupt, and no further run is started."""
    error = DutError("the device is not put back", "this does it", code="command-failed")
    error.__cause__ = KeyboardInterrupt()
    execute = Mock(side_effect=error)
    monkeypatch.setattr(campaigns, "_execute_run", execute)
    done = v6t("campaign", write_file(tmp_path), "--no-report", "-o", tmp_path / "out")
    assert done.status == DutError.exit_code
    assert execute.call_count == 1
    assert f"v6t campaign --resume {tmp_path / 'out'} continues" in done.err
    assert done.err.splitlines()[-1] == "     this does it"


def write_two_testbeds(tmp_path):
    """Write a campaign that measures one run on two testbeds."""
    bed = "{tester: {kind: sim, options: {trial_delay_s: 0.05}}}"
    text = SMALL[: SMALL.index("testbeds:")] + (
        f"testbeds:\n  one: {bed}\n  two: {bed}\n"
        "experiments:\n  - name: both\n    matrix:\n      testbed: [one, two]\n"
    )
    return write_file(tmp_path, text)


def test_closed_terminal_ends_runs_of_all_testbeds(tmp_path):
    """All processes receive the signal at once, and each run restores its device."""
    out = tmp_path / "out"
    process = start_campaign(write_two_testbeds(tmp_path), "-o", out, stderr=subprocess.PIPE)
    logs = [out / name / "log.txt" for name in ("001-both-one", "002-both-two")]
    wait_until(lambda: all(log.exists() for log in logs), process)
    os.killpg(process.pid, signal.SIGHUP)
    assert process.communicate(timeout=WAIT_LIMIT_S)[1].count("stopping: ") == 1
    assert process.returncode == 130
    assert [log.read_text().splitlines()[-1].split()[-1] for log in logs] == ["interrupted"] * 2


def test_testbeds_run_in_parallel(tmp_path):
    out = tmp_path / "out"
    runs = measure_campaign(write_two_testbeds(tmp_path), out)["runs"]
    assert [r["testbed"] for r in runs] == ["one", "two"]
    manifests = [json.loads((out / r["directory"] / "manifest.json").read_text()) for r in runs]
    one, two = ((m["created"], m["finished"][-1]) for m in manifests)
    assert one[0] <= two[1]
    assert two[0] <= one[1]


def test_runs_that_share_a_tester_are_in_one_group(tmp_path):
    text = write_two_testbeds(tmp_path).read_text()
    text = text.replace("kind: sim, options: {trial_delay_s: 0.05}", "kind: trex")
    campaign = plan_campaign(write_file(tmp_path, text))
    assert [len(runs) for runs in campaign.group_runs().values()] == [2]


def test_testbed_option_replaces_the_testbed_of_the_file(tmp_path):
    bed_text = "tester: {kind: sim, options: {capacity_fps: 123456}}\n"
    bed, path = write_file(tmp_path, bed_text, "bed.yaml"), write_file(tmp_path)
    for name in ("", "model"):
        campaign = plan_campaign(path, testbeds={name: bed})
        capacities = {r.config["tester"]["options"]["capacity_fps"] for r in campaign.runs}
        assert capacities == {123456}


def test_resume_adds_new_runs_of_file(small, tmp_path):
    longer = SMALL.replace("[64, 128, 256]", "[32, 64, 128]")
    words = ["campaign", write_file(tmp_path, longer), "--resume", tmp_path / "out", "--no-report"]
    out = shutil.copytree(small, tmp_path / "out")
    before = count_trials(out)
    done = v6t(*words)
    assert done.status == 0, done.err
    assert "1 run" in done.err
    runs = read_summary(out)["runs"]
    assert [r["directory"] for r in runs[:3]] == [
        "007-customers-32", "001-customers-64", "002-customers-128",
    ]  # fmt: skip
    assert runs[-1]["directory"] == "003-customers-256"  # kept, though no longer in the file
    assert [r["status"] for r in runs] == ["complete"] * 7
    added = (out / "007-customers-32" / "journal.jsonl").read_text().splitlines()
    assert count_trials(out) == before + len(added)
    assert "0 runs" in v6t(*words).err
    assert count_trials(out) == before + len(added)


@pytest.mark.parametrize(
    "change", [("repetitions: 2", "repetitions: 3"), ("name: small", "name: other")]
)
def test_resume_with_changed_plan_is_rejected(change, small, tmp_path):
    plan, file = (small / "campaign.json").read_text(), write_file(tmp_path, SMALL.replace(*change))
    expect_refusal(v6t("campaign", file, "--resume", small), "campaign-changed")
    assert (small / "campaign.json").read_text() == plan


ALONG = """\
name: along
testbeds:
  model: {tester: {kind: sim}, dut: {driver: linux-router, options: {left: left, right: right}}}
experiments:
  - name: hosts
    note: Nothing and addresses.
    differs: {params.left_hosts: the paper has more of them., clock: not set}
    run: {plugin: ipv4-router}
    matrix:
      params: {nothing: {}, addresses: {left_hosts: {policy: random}}}
      frame_sizes: [64, 128]
    along:
      params: {dut.options.rss: [sd, sdfn], procedure.repetitions: [3, 4]}
"""


@pytest.mark.parametrize(("text", "old", "new", "code"), [
    (SMALL, "params.ces: [64, 128, 256]", "params.ces: []", "wrong-length"),
    (SMALL, "params.ces: [64, 128, 256]", "params.ea_len: [99]", "out-of-range"),
    (SMALL, "name: directions", "name: customers", "duplicate"),
    (SMALL, "name: small\n", "name: small\npaper: unknown\n", "unknown-name"),
    (SMALL, "plugin: mape-br", "plugin: mapee", "unknown-name"),
    (SMALL, "modes: [forward, reverse]", "modes.x: [1]", "not-a-section"),
    (SMALL, "{kind: sim, options", "4 #", "not-a-section"),
    (ALONG, "rss: [sd, sdfn]", "rss: [sd]", "wrong-length"),
    (ALONG, "params: {dut", "modes: {dut", "unknown-name"),
])  # fmt: skip
def test_invalid_campaign_file_is_rejected_before_output_is_created(text, old, new, code, tmp_path):
    file = write_file(tmp_path, text.replace(old, new))
    for more in ([], ["--tester", "sim"]):  # --tester does not hide the file's invalid tester
        expect_refusal(v6t("campaign", file, *more, "-o", tmp_path / "out"), code)
    assert not (tmp_path / "out").exists()


def test_settings_change_along_with_an_axis(tmp_path):
    campaign = plan_campaign(write_file(tmp_path, ALONG), tester="sim")
    configs = [(r.axes["params"], r.config["dut"], r.config["procedure"]) for r in campaign.runs]
    settings = [(name, dut["options"]["rss"], p["repetitions"]) for name, dut, p in configs]
    assert settings == [("nothing", "sd", 3)] * 2 + [("addresses", "sdfn", 4)] * 2
    assert set(campaign.runs[0].axes) == {"params", "frame_sizes"}
    note = campaign.notes["hosts"]
    assert note.startswith("Nothing and addresses.") and "the paper has more of them" in note


@pytest.mark.parametrize(("changes", "code"), [
    ({"schema": "v6t-campaign-plan/99"}, "file-unreadable"), ({"paper": [None]}, "damaged-file"),
    ({"paper": "unknown"}, "file-unreadable"), ({"runs": [{"directory": "../x"}]}, "damaged-file"),
    ({"runs": [{"config": {"tester": {}}}]}, "file-unreadable"), ({"runs": 7}, "damaged-file"),
])  # fmt: skip
def test_plan_changed_by_hand_is_rejected(changes, code, tmp_path):
    """A plan that was changed cannot make v6t write files."""
    create_campaign(plan_campaign(write_file(tmp_path), tester="sim"), tmp_path / "out")
    plan = tmp_path / "out" / "campaign.json"
    content = json.loads(plan.read_text())
    if isinstance(changes.get("runs"), list):
        changes = {"runs": [{**content["runs"][0], **changes["runs"][0]}]}
    plan.write_text(json.dumps({**content, **changes}))
    before = read_dir(tmp_path)
    for arguments in (["campaign", "--resume"], ["report"]):
        expect_refusal(v6t(*arguments, tmp_path / "out"), code)
    assert read_dir(tmp_path).keys() - {"out/.lock"} == before.keys() - {"out/.lock"}


PAPERS = {
    "mapperf": ("mapperf-2025",
                ["Table 3", "Table 5", "Table 6", "sect. VII-B1", "sect. VII-D/E caption"]),
    "siit": ("siit-2020", ["Table 3", "sect. 3.5.1"]),
    "pseudorandom": ("unbiased-2024", [f"Table {n}" for n in range(2, 15)]),
    "dual-dut": ("ipv4aas-2024", [f"Table {n}" for n in range(2, 10)]),
    "ipv6net": ("ipv6net-2015", [f"Table {n}: means over frame sizes" for n in (2, 3)]),
}  # fmt: skip


def test_packaged_campaign_is_found_next_to_directory_of_same_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "siit").mkdir()
    assert locate_campaign("siit") == list_packaged_campaigns()["siit"]


def test_every_paper_has_a_campaign():
    packaged = sorted(list_packaged_campaigns())
    assert packaged == sorted([*PAPERS, COMPLETE, ZOO])
    assert sorted(paper for paper, _ in PAPERS.values()) == sorted(list_sources())
    assert PAPERS.keys() == TRANSCRIBED.keys()
    done = v6t("campaign", "--list")
    assert [line.split()[0] for line in done.out.splitlines()] == packaged


COMPLETE, ZOO = "rfc8219-complete", "zoo"
SECTIONS = {
    "7.1-7.5-performance": {"throughput", "latency", "pdv", "ipdv", "frame-loss", "back-to-back"},
    "7.6-recovery": {"system-recovery"}, "7.7-reset": {"reset"},
    "5.3-one-way": {"throughput"}, "5.3-mixture": {"throughput", "latency"},
    "6-modifiers": {"throughput", "latency", "frame-loss"},
    "8-connections": {"tcp-capacity", "tcp-rate", "connection-rate", "capacity", "teardown"},
    "9-names": {"resolution"}, "10.2.1-together": {"flows"}, "10.2.2-one-by-one": {"flows"},
}  # fmt: skip


def test_every_section_of_rfc_8219_has_its_experiment():
    """Sections 5.1.1 and 5.3 to 10, each with the RFC's times and repetitions."""
    runs = plan_campaign(list_packaged_campaigns()[COMPLETE], tester="sim").runs
    assert {r.experiment for r in runs} == set(SECTIONS)
    for run in runs:
        assert set(run.config["benchmarks"]) == SECTIONS[run.experiment]
        procedure = run.config["procedure"]
        assert (procedure["trial_duration_s"], procedure["repetitions"]) == (60, 20)
    by_name = {r.experiment: r.config for r in runs}
    sizes = by_name["7.1-7.5-performance"]["frame_sizes"]
    assert sizes == [84, 128, 256, 512, 768, 1024, 1280, 1518]
    modifiers = [r.config["modifier"] for r in runs if r.experiment == "6-modifiers"]
    assert sorted(modifiers) == sorted(MODIFIERS.list_names())
    starts = {name: by_name[name]["procedure"]["flows"] for name in SECTIONS if name[:2] == "10"}
    assert [flows["starts"] for flows in starts.values()] == [["together"], ["successive"]]
    assert starts["10.2.2-one-by-one"]["quarters"]


@pytest.fixture
def one_process(monkeypatch):
    """Run testbeds one after the other in this process, since new ones would import v6t again."""

    def execute_in_sequence(execution, groups):
        for group in groups:
            command = "campaign", "--resume", execution._directory, "--no-report", "--group"
            assert v6t(*command, group).status == 0
        return 0

    monkeypatch.setattr(CampaignExecution, "_execute_in_parallel", execute_in_sequence)


@pytest.mark.usefixtures("one_process")
def test_rfc_8219_campaign_can_be_simulated(tmp_path):
    """Only two of its sections are simulated, to save time."""
    sections, quick = {"7.7-reset", "8-connections"}, ("--tester", "sim", "--preset", "quick")
    only = ("--reps", 1, "--experiment", ",".join(sections))
    runs = measure_campaign(COMPLETE, tmp_path / "out", *quick, *only)["runs"]
    assert {r["experiment"] for r in runs} == sections
    assert all(r["results"] and r["status"] == "complete" for r in runs)
    report = (tmp_path / "out" / "report.md").read_text()
    for words in ("Section 7.7", "Reset (software-reset)", "Section 8", "table capacity", "TCP"):
        assert words in report


def select_first(values, count=1):
    """Return the first values of an axis, with their names if values are named."""
    first = list(values)[:count]
    return {name: values[name] for name in first} if isinstance(values, dict) else first


COARSE = {"trial_duration_s": 1, "resolution_fps": 500_000}


def shorten_campaign(path, tmp_path):
    """Write a campaign with few values and coarse searches; test_papers.py compares all runs."""
    content = YamlFile(path).data
    content["run"]["procedure"] = {**content["run"].get("procedure", {}), **COARSE}
    for experiment in content["experiments"]:
        run = experiment.get("run", {})
        if "frame_sizes" in run:
            run["frame_sizes"] = select_first(run["frame_sizes"])
        for along in experiment.get("along", {}).values():
            along.update({name: select_first(values) for name, values in along.items()})
            if "frame_sizes" in along:
                along["frame_sizes"] = list(map(select_first, along["frame_sizes"]))
        for axis, values in experiment.get("matrix", {}).items():
            # ipv6net has one table for each line rate
            experiment["matrix"][axis] = select_first(values, 2 if axis == "line_rate" else 1)
    return write_file(tmp_path, json.dumps(content, default=list), path.name)


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("name", PAPERS)
def test_paper_campaign_can_be_simulated(name, tmp_path):
    paper, tables = PAPERS[name]
    file = shorten_campaign(list_packaged_campaigns()[name], tmp_path)
    summary = measure_campaign(file, tmp_path / "out", "--tester", "sim", "--reps", 1)
    assert summary["paper"] == paper
    assert all(r["results"] and r["status"] == "complete" for r in summary["runs"])
    markdown = (tmp_path / "out" / "report.md").read_text()
    shown = re.findall(rf"\*\*Measured and published in {paper}, (.*)\*\*", markdown)
    assert [t for t in tables if t not in shown] == []
    assert "simulated" in markdown


def test_undo_record_of_incorrect_run_is_not_deleted(tmp_path):
    """After a failed rollback, the copy in the run's directory may be the only one."""
    text = SMALL.replace("options: {capacity_fps", "options: {mismatch: 1, capacity_fps")
    out = tmp_path / "out"
    options = ("--no-report", "--only", "modes=reverse", "-o", out)
    v6t("campaign", write_file(tmp_path, text), *options)
    (run,) = out.glob("*-directions-*")
    (run / "dut-undo.json").write_text("{}")
    assert v6t("campaign", "--resume", out, "--no-report").status == TranslationError.exit_code
    assert [path.parent.name for path in out.glob("*/dut-undo.json")] == [f"{run.name}-2"]
