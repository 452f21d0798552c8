"""Campaigns: matrices, interruption, several testbeds, and the campaigns of papers."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from functools import partial

import jsonschema
import pytest
from v6t.analysis.record import FrameSizes
from v6t.analysis.report import run as run_report
from v6t.analysis.report.curves import draw_curves
from v6t.analysis.rundata import CampaignRun
from v6t.base.errors import DutError, TranslationError, UsageError
from v6t.benchmarks.registry import load_presentations
from v6t.benchmarks.throughput import ThroughputRecord
from v6t.core.campaigns import campaign as campaigns
from v6t.core.campaigns import list_packaged_campaigns
from v6t.core.campaigns.campaign import create_campaign, plan_campaign
from v6t.core.cli.campaign_console import CampaignExecution
from v6t.core.config.yaml_file import YamlFile
from v6t.core.modifiers import MODIFIERS
from v6t.tests.core import warm
from v6t.tests.core.support import read_csv, read_schema, tree, v6t
from v6t.tests.expect import expect_refusal

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
PATIENCE_S = 60


def written(tmp_path, text=SMALL, name="campaign.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def summary_of(directory):
    return json.loads((directory / "summary.json").read_text())


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Provide a finished campaign."""
    home = tmp_path_factory.mktemp("campaign")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_report, "MAX_FIGURES", 0)  # test_report.py draws those of runs
        done = v6t("campaign", written(home), "--report", "-o", home / "out")
    assert done.status == 0, done.err
    said = re.findall(r"run (\d) of 6, \S+, about .* left", done.err)
    assert said == ["1", "2", "3", "4", "5", "6"]
    return home / "out"


def test_a_matrix_becomes_runs(small):
    content = summary_of(small)
    assert [(r["experiment"], *r["axes"].values()) for r in content["runs"]] == [
        ("customers", 64),
        ("customers", 128),
        ("customers", 256),
        ("directions", 104, "forward"),
        ("directions", 296, "forward"),
        ("directions", 104, "reverse"),
    ]
    assert all(r["status"] == "complete" for r in content["runs"])
    for run in content["runs"]:
        config = json.loads((small / run["directory"] / "config.json").read_text())
        assert config["params"].get("ces", 1000) == run["axes"].get("params.ces", 1000)
        assert config["modes"] == [run["axes"].get("modes", "bidirectional")]
        results = json.loads((small / run["directory"] / "results.json").read_text())
        assert [f["median"] for f in run["results"]] == [r["median"] for r in results["results"]]


def test_the_summary_follows_its_schema_and_the_table_has_its_figures(small):
    summary = summary_of(small)
    jsonschema.validate(summary, read_schema("campaign-1"))
    rows = read_csv(small / "summary.csv")
    assert [row["params.ces"] for row in rows[:3]] == ["64", "128", "256"]
    figures = [figure for run in summary["runs"] for figure in run["results"]]
    assert [float(row["median"]) for row in rows] == [f["median"] for f in figures]
    assert [row["limited"] for row in rows] == [str(f["limited"]) for f in figures]


def test_the_report_shows_scale_up_with_its_formula(small):
    page = (small / "report.html").read_text()
    assert "S_C(n, n0) = P(n) / P(n0)" in page
    medians = [r["results"][0]["median"] for r in summary_of(small)["runs"][:3]]
    for median in medians:
        assert f"{median / medians[0]:.3f}" in page
    assert "More customers." in page
    assert page.count("<svg") == 2  # over customers, over frame sizes
    markdown = (small / "report.md").read_text()
    assert all(f"{median:,.0f}" in markdown for median in medians)
    assert "001-customers-64/report.html" in page
    assert (small / "001-customers-64" / "report.html").exists()


SCALING = """\
name: scaling
run: {plugin: siit, modes: [forward], procedure: {repetitions: 2, resolution_fps: 1000}}
testbeds:
  model: {tester: {kind: sim, options: {capacity_fps: 100000}}}
experiments:
  - name: cores
    matrix:
      tester.options: [{cores: 1, capacity_fps: 100000}]
      params: {one: {}, two: {fw_sport: {policy: fixed}}}
  - name: workers
    run: {plugin: mape-br}
    matrix:
      tester.options.capacity_fps: [100000, 150000, 400000]
  - name: mixtures
    matrix:
      params: [{n: 2, m: 2}, {n: 2, m: 1}, {n: 1, m: 0}]
"""


def test_named_values_numbers_and_mixtures_have_their_curves(tmp_path):
    out = tmp_path / "out"
    done = v6t("campaign", written(tmp_path, SCALING), "--no-report", "-o", out)
    assert done.status == 0, done.err
    found = summary_of(out)["runs"]
    assert [r["axes"].get("params") for r in found[:2]] == ["one", "two"]
    config = json.loads((out / found[1]["directory"] / "config.json").read_text())
    assert config["params"] == {"fw_sport": {"policy": "fixed"}}
    medians = [r["results"][0]["median"] for r in found if r["experiment"] == "workers"]
    text = (out / "report.md").read_text()
    for median in medians:
        assert f"{median / medians[0]:.3f}" in text
    for formula in ("min(Tt / a, Tn / (1 - a))", "1 / (a / Tt + (1 - a) / Tn)"):
        assert f"T(a) = {formula}" in text.replace("\\", "")
    assert not (out / "report.html").exists()  # nobody asked for it
    assert v6t("report", out).status == 0
    page = (out / "report.html").read_text()
    assert page.count("<svg") == 3  # names, numbers, mixtures


def test_scale_up_over_cores_is_computed_per_core(tmp_path):
    """Cores are those of the device: S_CPU, not S_C."""
    runs = [
        CampaignRun(
            "d", "cores", "bed", {"dut.options.workers": cores}, "complete", "", Rated(rate)
        )
        for cores, rate in (("1", 100.0), ("1-2", 190.0), ("1-3,5", 300.0))
    ]
    (table,) = draw_curves("cores", runs, runs, load_presentations(), figures=False)
    assert "S_CPU(n) = P(n) / (n * P(1))" in table.title
    found = {row[1]: row[-2] for row in table.rows}
    assert found == {"1": "1.000", "2": "0.950", "4": "0.750"}


class Rated:
    """As much of a run as a curve needs."""

    def __init__(self, rate):
        self.records = [
            ThroughputRecord.model_construct(
                benchmark="throughput",
                title="Throughput",
                unit="frames per second",
                direction="forward",
                frame_sizes=FrameSizes(ipv6=104, ipv4=64),
                dispersion=0.0,
                **dict.fromkeys(("median", "p1", "p99"), rate),
            )
        ]


def test_the_estimate_comes_before_the_runs(tmp_path):
    done = v6t("campaign", written(tmp_path), "--dry-run")
    assert done.status == 0
    assert re.search(r"together 6 runs, \d+ trials, about ", done.out)
    assert list(tmp_path.iterdir()) == [tmp_path / "campaign.yaml"]


def test_only_selects_runs_by_the_value_of_a_setting():
    campaign = list_packaged_campaigns()["siit"]
    plan = partial(plan_campaign, campaign, tester="sim", experiments=("frame-loss",))
    drivers = {run.config["dut"]["driver"] for run in plan().runs}
    assert len(drivers) > 1
    selected = plan(run_filter={"dut.driver": "tayga"})
    assert {run.config["dut"]["driver"] for run in selected.runs} == {"tayga"}
    with pytest.raises(UsageError, match="no run has") as caught:
        plan(run_filter={"dut.driver": "nobody"})
    assert "tayga" in caught.value.hint


def begun(*arguments, stderr=subprocess.DEVNULL):
    words = ["campaign", *map(str, arguments), "--no-report"]
    return warm.Process(words, stdout=subprocess.DEVNULL, stderr=stderr)


def journalled(directory):
    return sum(len(p.read_text().splitlines()) for p in directory.glob("*/journal.jsonl"))


def killed(process, directory, trials):
    """Kill a campaign once this number of trials is on disk."""
    end = time.monotonic() + PATIENCE_S
    try:
        while journalled(directory) < trials:
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < end, "it does not get on"
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_killed_campaign_ends_with_same_summary(tmp_path):
    slow = SMALL[: SMALL.index("  - name: directions")]
    slow = slow.replace("capacity_noise: 0.05", "capacity_noise: 0.05, trial_delay_s: 0.03")
    path, whole, torn = written(tmp_path, slow), tmp_path / "whole", tmp_path / "torn"
    assert v6t("campaign", path, "--no-report", "-o", whole).status == 0
    trials = journalled(whole)
    killed(begun(path, "-o", torn), torn, trials // 4)
    killed(begun("--resume", torn), torn, trials // 2)
    states = {line.split(": ")[1] for line in unfinished(torn)}
    assert "waiting" in states
    done = v6t("campaign", "--resume", torn, "--no-report")
    assert done.status == 0, done.err
    for name in ("summary.json", "summary.csv", "report.md"):
        assert (torn / name).read_text() == (whole / name).read_text(), name
    assert journalled(torn) == trials  # nothing was measured twice


def unfinished(directory):
    """Return the status of each run in the report of a killed campaign."""
    assert v6t("report", directory).status == 0
    found = summary_of(directory)
    return [f"{r['directory']}: {r['status']}" for r in found["runs"]]


def test_a_finished_campaign_is_not_measured_again(small):
    before = journalled(small)
    done = v6t("campaign", "--resume", small)
    assert done.status == 0
    assert "6 of 6" in done.out
    assert journalled(small) == before


@pytest.mark.parametrize(
    ("name", "is_missing"),
    [
        *((name, False) for name in ("config.json", "results.json", "journal.jsonl")),
        *((name, True) for name in ("config.json", "results.json")),
    ],
)
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


def test_report_is_not_written_into_another_run(small, tmp_path):
    copy = shutil.copytree(small, tmp_path / "copy")
    before = tree(copy)
    expect_refusal(v6t("report", small, "-o", copy), "file-exists")
    expect_refusal(v6t("report", next(small.glob("001-*")), "-o", copy), "file-exists")
    expect_refusal(v6t("report", small, "-o", next(copy.glob("001-*"))), "file-exists")
    assert tree(copy) == before


def test_failed_run_does_not_stop_campaign(tmp_path):
    text = SMALL.replace(
        "      params.ces: [64, 128, 256]",
        "      tester.options: [{mismatch: 1}]\n      params.ces: [64]",
    )
    done = v6t("campaign", written(tmp_path, text), "--no-report", "-o", tmp_path / "out")
    assert done.status == TranslationError.exit_code
    found = [r["status"] for r in summary_of(tmp_path / "out")["runs"]]
    assert found == ["translation incorrect", "complete", "complete", "complete"]
    assert "1 of 4" not in done.out
    assert "3 of 4" in done.out


def test_interrupted_run_with_failed_rollback_ends_campaign(tmp_path, monkeypatch):
    """The error takes the interrupt's place; no further run is begun for all that."""
    made = []

    def fails(_directory, run, _watch):
        made.append(run.directory)
        raise DutError(
            "the device is not put back", "this does it", code="command-failed"
        ) from KeyboardInterrupt()

    monkeypatch.setattr(campaigns, "_execute_run", fails)
    done = v6t("campaign", written(tmp_path), "--no-report", "-o", tmp_path / "out")
    assert done.status == DutError.exit_code
    assert len(made) == 1
    assert f"v6t campaign --resume {tmp_path / 'out'} continues" in done.err
    assert done.err.splitlines()[-1] == "     this does it"


def two_testbeds(tmp_path):
    """Write a campaign of the same run on two testbeds."""
    bed = "{tester: {kind: sim, options: {trial_delay_s: 0.05}}}"
    text = SMALL[: SMALL.index("testbeds:")] + (
        f"testbeds:\n  one: {bed}\n  two: {bed}\n"
        "experiments:\n  - name: both\n    matrix:\n      testbed: [one, two]\n"
    )
    return written(tmp_path, text)


def test_closed_terminal_ends_runs_of_all_testbeds(tmp_path):
    """All processes hear of it at once, and those that make the runs put their devices back, too."""
    out = tmp_path / "out"
    process = begun(two_testbeds(tmp_path), "-o", out, stderr=subprocess.PIPE)
    logs = [
        out / f"00{number}-both-{name}" / "log.txt" for number, name in ((1, "one"), (2, "two"))
    ]
    end = time.monotonic() + PATIENCE_S
    while not all(log.exists() for log in logs):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGHUP)
    assert process.communicate(timeout=PATIENCE_S)[1].count("stopping: ") == 1
    assert process.returncode == 130
    assert [log.read_text().splitlines()[-1].split()[-1] for log in logs] == ["interrupted"] * 2


def test_testbeds_work_at_the_same_time(tmp_path, monkeypatch):
    out, python = tmp_path / "out", tmp_path / "python"
    # workers are forks of a process that has imported v6t
    python.write_text(f'#!/bin/sh\nshift 2\nexec {shlex.join(warm.command())} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    assert v6t("campaign", two_testbeds(tmp_path), "--no-report", "-o", out).status == 0
    runs = summary_of(out)["runs"]
    assert [r["testbed"] for r in runs] == ["one", "two"]
    manifests = [json.loads((out / r["directory"] / "manifest.json").read_text()) for r in runs]
    one, two = ((m["created"], m["finished"][-1]) for m in manifests)
    assert one[0] <= two[1]
    assert two[0] <= one[1]


def test_runs_that_share_a_tester_wait_for_one_another(tmp_path):
    text = two_testbeds(tmp_path).read_text()
    text = text.replace("kind: sim, options: {trial_delay_s: 0.05}", "kind: trex")
    campaign = plan_campaign(written(tmp_path, text))
    assert [len(runs) for runs in campaign.group_runs().values()] == [2]


BED = "tester: {kind: sim, options: {capacity_fps: 123456}}\n"


def test_another_testbed_takes_the_place_of_the_campaigns(tmp_path):
    bed = written(tmp_path, BED, "bed.yaml")
    path = written(tmp_path)
    for given in (str(bed), f"model={bed}"):
        name, _, file = given.rpartition("=")
        campaign = plan_campaign(path, testbeds={name: type(bed)(file)})
        found = {r.config["tester"]["options"]["capacity_fps"] for r in campaign.runs}
        assert found == {123456}


LONGER = SMALL.replace("[64, 128, 256]", "[32, 64, 128]")


def test_resume_adds_new_runs_of_file(small, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(small, out)
    before = journalled(out)
    done = v6t("campaign", written(tmp_path, LONGER), "--resume", out, "--no-report")
    assert done.status == 0, done.err
    assert "1 run" in done.err
    runs = summary_of(out)["runs"]
    assert [r["directory"] for r in runs[:3]] == [
        "007-customers-32", "001-customers-64", "002-customers-128",
    ]  # fmt: skip
    assert runs[-1]["directory"] == "003-customers-256"  # the file has it no more: nothing is lost
    assert [r["status"] for r in runs] == ["complete"] * 7
    again = journalled(out)
    assert again == before + len(
        (out / "007-customers-32" / "journal.jsonl").read_text().splitlines()
    )
    done = v6t("campaign", written(tmp_path, LONGER), "--resume", out, "--no-report")
    assert "0 runs" in done.err
    assert journalled(out) == again


@pytest.mark.parametrize(
    "change", [("repetitions: 2", "repetitions: 3"), ("name: small", "name: other")]
)
def test_resume_with_changed_plan_is_rejected(change, small, tmp_path):
    plan = (small / "campaign.json").read_text()
    file = written(tmp_path, SMALL.replace(*change))
    expect_refusal(v6t("campaign", file, "--resume", small), "campaign-changed")
    assert (small / "campaign.json").read_text() == plan


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], "missing-setting"),
        (["nothing"], "unknown-name"),
        (["siit", "--dry-run"], "missing-setting"),
        (["siit", "--tester", "sim", "--experiment", "no", "--dry-run"], "unknown-name"),
        (["siit", "--tester", "sim", "--experiment", "acceptance"], "missing-setting"),
        (["siit", "--testbed", "nobody=x.yaml", "--dry-run"], "unknown-name"),
        (["siit", "--testbed", "x", "--testbed", "y", "--dry-run"], "duplicate"),
        (["--resume", "nothing"], "no-such-run"),
        (["--resume", "nothing", "--preset", "rfc"], "conflicting-options"),
        (["siit", "--tester", "sim", "--resume", "nothing"], "no-such-run"),
        (["siit", "--resume", "nothing", "-o", "x"], "conflicting-options"),
    ],
)
def test_refusals(arguments, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    expect_refusal(v6t("campaign", *arguments), code)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("params.ces: [64, 128, 256]", "params.ces: []"), "wrong-length"),
        (("params.ces: [64, 128, 256]", "params.ea_len: [99]"), "out-of-range"),
        (("name: directions", "name: customers"), "duplicate"),
        (("name: small\n", "name: small\npaper: unknown\n"), "unknown-name"),
        (("plugin: mape-br", "plugin: mapee"), "unknown-name"),
        (("modes: [forward, reverse]", "modes.x: [1]"), "not-a-section"),
    ],
)
def test_a_wrong_file_is_refused_before_anything_is_made(change, code, tmp_path):
    done = v6t("campaign", written(tmp_path, SMALL.replace(*change)), "-o", tmp_path / "out")
    expect_refusal(done, code)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"schema": "v6t-campaign-plan/99"}, "file-unreadable"),
        ({"paper": [None]}, "damaged-file"),
        ({"paper": "unknown"}, "file-unreadable"),
        ({"runs": [{"directory": "../x"}]}, "damaged-file"),
        ({"runs": 7}, "damaged-file"),
    ],
)
def test_a_plan_that_was_changed_by_hand_is_refused(changes, code, tmp_path):
    """Nothing is made where it leads."""
    campaign = plan_campaign(written(tmp_path), tester="sim")
    create_campaign(campaign, tmp_path / "out")
    plan = tmp_path / "out" / "campaign.json"
    content = json.loads(plan.read_text())
    if isinstance(changes.get("runs"), list):
        changes = {"runs": [{**content["runs"][0], **changes["runs"][0]}]}
    plan.write_text(json.dumps({**content, **changes}))
    before = tree(tmp_path)
    for arguments in (["campaign", "--resume"], ["report"]):
        expect_refusal(v6t(*arguments, tmp_path / "out"), code)
    assert tree(tmp_path).keys() - {"out/.lock"} == before.keys() - {"out/.lock"}


def test_scalar_tester_section_is_rejected_despite_tester_option(tmp_path):
    file = written(tmp_path, SMALL.replace("{kind: sim, options", "4 #"))
    expect_refusal(v6t("campaign", file, "--tester", "sim", "--dry-run"), "not-a-section")


ALONG = """\
name: along
testbeds:
  model: {tester: {kind: sim}, dut: {driver: linux-router, options: {left: left, right: right}}}
experiments:
  - name: hosts
    note: Nothing and addresses.
    differs: {params.left_hosts: the paper has more of them., clock: nobody sets it}
    run: {plugin: ipv4-router}
    matrix:
      params: {nothing: {}, addresses: {left_hosts: {policy: random}}}
      frame_sizes: [64, 128]
    along:
      params: {dut.options.rss: [sd, sdfn], procedure.repetitions: [3, 4]}
"""


def test_settings_change_along_with_an_axis(tmp_path):
    campaign = plan_campaign(written(tmp_path, ALONG), tester="sim")
    found = [
        (r.axes["params"], r.config["dut"]["options"]["rss"], r.config["procedure"]["repetitions"])
        for r in campaign.runs
    ]
    assert found == [("nothing", "sd", 3)] * 2 + [("addresses", "sdfn", 4)] * 2
    assert set(campaign.runs[0].axes) == {"params", "frame_sizes"}
    note = campaign.notes["hosts"]
    assert note.startswith("Nothing and addresses.")
    assert "the paper has more of them" in note


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("rss: [sd, sdfn]", "rss: [sd]"), "wrong-length"),
        (("params: {dut", "modes: {dut"), "unknown-name"),
    ],
)
def test_along_values_must_fit_their_axis(change, code, tmp_path):
    done = v6t("campaign", written(tmp_path, ALONG.replace(*change)), "--dry-run")
    expect_refusal(done, code)


PAPERS = {
    "mapperf": (
        "mapperf-2025",
        ["Table 3", "Table 5", "Table 6", "sect. VII-B1", "sect. VII-D/E caption"],
    ),
    "siit": ("siit-2020", ["Table 3", "sect. 3.5.1"]),
    "pseudorandom": ("unbiased-2024", [f"Table {n}" for n in range(2, 15)]),
    "dual-dut": ("ipv4aas-2024", [f"Table {n}" for n in range(2, 10)]),
    "ipv6net": (
        "ipv6net-2015",
        ["Table 2: means over frame sizes", "Table 3: means over frame sizes"],
    ),
}


def test_every_paper_has_a_campaign():
    from v6t.analysis.published.library import list_sources

    assert sorted(list_packaged_campaigns()) == sorted([*PAPERS, COMPLETE, ZOO])
    assert sorted(paper for paper, _ in PAPERS.values()) == sorted(list_sources())
    done = v6t("campaign", "--list")
    assert [line.split()[0] for line in done.out.splitlines()] == sorted(list_packaged_campaigns())


COMPLETE, ZOO = "rfc8219-complete", "zoo"
SECTIONS = {
    "7.1-7.5-performance": {
        "throughput", "latency", "pdv", "ipdv", "frame-loss", "back-to-back"
    },
    "7.6-recovery": {"system-recovery"},
    "7.7-reset": {"reset"},
    "5.3-one-way": {"throughput"},
    "5.3-mixture": {"throughput", "latency"},
    "6-modifiers": {"throughput", "latency", "frame-loss"},
    "8-connections": {"tcp-capacity", "tcp-rate", "connection-rate", "capacity", "teardown"},
    "9-names": {"resolution"},
    "10.2.1-together": {"flows"},
    "10.2.2-one-by-one": {"flows"},
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
    assert sorted(modifiers) == sorted(MODIFIERS.names())
    starts = {name: by_name[name]["procedure"]["flows"] for name in SECTIONS if name[:2] == "10"}
    assert [flows["starts"] for flows in starts.values()] == [["together"], ["successive"]]
    assert starts["10.2.2-one-by-one"]["quarters"]


@pytest.fixture
def one_process(monkeypatch):
    """Run testbeds in this process one after the other: each new one would import v6t."""

    def work(execution, groups):
        begin = "campaign", "--resume", execution._directory, "--no-report", "--group"
        done = [v6t(*begin, group) for group in groups]
        assert [d for d in done if d.status] == []
        return 0

    monkeypatch.setattr(CampaignExecution, "_execute_in_parallel", work)


@pytest.mark.usefixtures("one_process")
def test_rfc_8219_campaign_can_be_simulated(tmp_path):
    """A part of each section, as a demonstration."""
    out = tmp_path / "out"
    wanted = ("7.7-reset", "8-connections")
    done = v6t(
        *("campaign", COMPLETE, "--tester", "sim", "--preset", "quick", "--reps", 1),
        *("--experiment", ",".join(wanted), "-o", out, "--no-report"),
    )
    assert done.status == 0, done.err
    found = summary_of(out)
    assert {r["experiment"] for r in found["runs"]} == set(wanted)
    assert all(r["results"] and r["status"] == "complete" for r in found["runs"])
    report = (out / "report.md").read_text()
    for words in ("Section 7.7", "Reset (software-reset)", "Section 8", "table capacity", "TCP"):
        assert words in report


def few(values, count=1):
    """Return the first values of an axis, with their names if values are named."""
    some = list(values)[:count]
    return {name: values[name] for name in some} if isinstance(values, dict) else some


COARSE = {"trial_duration_s": 1, "resolution_fps": 500_000}


def shortened(path, tmp_path):
    """Write a packaged campaign with few values on each axis and with coarse searches.

    ``test_papers.py`` compares every run of the complete campaign with the paper.
    """
    content = YamlFile(path).data
    content["run"]["procedure"] = {**content["run"].get("procedure", {}), **COARSE}
    for experiment in content["experiments"]:
        run = experiment.get("run", {})
        if "frame_sizes" in run:
            run["frame_sizes"] = few(run["frame_sizes"])
        for along in experiment.get("along", {}).values():
            along.update({name: few(values) for name, values in along.items()})
            if "frame_sizes" in along:
                along["frame_sizes"] = list(map(few, along["frame_sizes"]))
        matrix = experiment.get("matrix", {})
        experiment["matrix"] = {
            # each line rate of ipv6net has its table
            axis: few(values, 2 if axis == "line_rate" else 1)
            for axis, values in matrix.items()
        }
    return written(tmp_path, json.dumps(content, default=list), path.name)


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("name", PAPERS)
def test_paper_campaign_can_be_simulated(name, tmp_path):
    paper, tables = PAPERS[name]
    out, file = tmp_path / "out", shortened(list_packaged_campaigns()[name], tmp_path)
    done = v6t("campaign", file, "--tester", "sim", "--reps", 1, "--no-report", "-o", out)
    assert done.status == 0, done.err
    found = summary_of(out)
    assert found["paper"] == paper
    assert {r["status"] for r in found["runs"]} == {"complete"}
    assert all(r["results"] for r in found["runs"])
    markdown = (out / "report.md").read_text()
    shown = re.findall(rf"\*\*Measured beside {paper}, (.*)\*\*", markdown)
    assert [t for t in tables if t not in shown] == []
    assert "simulated" in markdown
