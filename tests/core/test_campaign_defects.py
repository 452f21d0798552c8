"""Campaigns that are extended, resumed or invalid."""

import json
from dataclasses import replace
from unittest.mock import Mock

import pytest
from v6t.base.errors import TesterError
from v6t.core.campaigns import campaign as campaigns
from v6t.core.campaigns.campaign import (
    CampaignEntry,
    create_campaign,
    extend_campaign,
    load_campaign,
    plan_campaign,
    read_status,
    run_campaign,
)
from v6t.core.cli.campaign_console import CampaignExecution
from v6t.core.config.yaml_file import YamlFile
from v6t.core.runs.events import Listener
from v6t.drivers.sim.tester import SimTester
from v6t.tests.expect import expect_error

LABELS = ["aaaaaaaaaaaaaaaaaaaaaaaa-one", "aaaaaaaaaaaaaaaaaaaaaaaa-two"]  # with equal slugs
RUN = {"plugin": "mape-br", "modes": ["forward"], "procedure": {"repetitions": 1}}


def make_file(tmp_path, matrix, *, run=None, **experiment):
    """Return a campaign file with one experiment on the simulated tester."""
    content = {
        "name": "small",
        "testbeds": {"desk": {"tester": {"kind": "sim"}}},
        "run": {**RUN, **(run or {})},
        "experiments": [{"name": "e", "matrix": matrix, **experiment}],
    }
    return YamlFile(tmp_path / "campaign.yaml", json.dumps(content))


def test_extended_campaign_with_gap_has_unique_directories(tmp_path):
    file = make_file(tmp_path, {"label": LABELS})
    planned = plan_campaign(file, run_filter={"label": LABELS[1]})
    create_campaign(planned, tmp_path / "out")
    extended = extend_campaign(tmp_path / "out", planned, plan_campaign(file))
    directories = {run.axes["label"]: run.directory for run in extended.runs}
    assert directories[LABELS[0]].startswith("003-")
    assert directories[LABELS[1]] == planned.runs[0].directory
    stored = load_campaign(tmp_path / "out")
    assert [run.directory for run in stored.runs] == [run.directory for run in extended.runs]


def test_plan_with_duplicate_directory_is_rejected(tmp_path):
    create_campaign(plan_campaign(make_file(tmp_path, {"label": LABELS})), tmp_path)
    content = json.loads((tmp_path / "campaign.json").read_text())
    content["runs"][1]["directory"] = content["runs"][0]["directory"]
    (tmp_path / "campaign.json").write_text(json.dumps(content))
    with expect_error("file-unreadable"):
        load_campaign(tmp_path)


def test_run_with_unknown_settings_does_not_stop_other_runs(tmp_path):
    create_campaign(plan_campaign(make_file(tmp_path, {"label": LABELS})), tmp_path)
    first, second = load_campaign(tmp_path).runs
    first = replace(first, config={**first.config, "colour": "blue"})
    errors = run_campaign(tmp_path, [first, second], Listener())
    assert [error.code for error in errors] == ["campaign-changed"]
    assert read_status(tmp_path, second) == "complete"


def test_campaign_with_a_run_of_unknown_settings_can_be_stopped(tmp_path):
    create_campaign(plan_campaign(make_file(tmp_path, {"label": LABELS})), tmp_path)
    campaign = load_campaign(tmp_path)
    run_campaign(tmp_path, campaign.runs, Listener())
    first, second = campaign.runs
    changed = replace(campaign, runs=(replace(first, config={"colour": "blue"}), second))
    messages = CampaignExecution(changed, tmp_path, report=False)._make_stop_messages()
    assert f"v6t campaign --resume {tmp_path}" in str(messages)


def test_failed_run_does_not_shorten_the_remaining_time(tmp_path, monkeypatch):
    execute = Mock(side_effect=[TesterError("no tester", code="tester-fault"), None])
    monkeypatch.setattr(campaigns, "_execute_run", execute)
    listener = Mock(Listener)
    runs = [CampaignEntry(f"00{n}-e", "e", "desk", {}, {}, 10, 600.0) for n in (1, 2)]
    run_campaign(tmp_path, runs, listener)
    assert "10 min" in str(listener.on_message.call_args_list)


def test_all_excludes_benchmark_that_the_tester_lacks(tmp_path, monkeypatch):
    monkeypatch.setattr(SimTester, "capabilities", SimTester.capabilities - {"ipdv"})
    planned = plan_campaign(make_file(tmp_path, {"label": ["one"]}, run={"benchmarks": ["all"]}))
    benchmarks = planned.runs[0].config["benchmarks"]
    assert "throughput" in benchmarks and "ipdv" not in benchmarks


def test_initiator_can_be_an_axis(tmp_path):
    planned = plan_campaign(make_file(tmp_path, {"initiator": ["left", "right"]}))
    assert [run.config["initiator"] for run in planned.runs] == ["left", "right"]


def test_unknown_axis_in_skip_is_rejected(tmp_path):
    file = make_file(tmp_path, {"params.ces": [10, 64]}, skip=[{"params.cess": 10}])
    with expect_error("unknown-name", path=("experiments", 0, "skip", 0, "params.cess")):
        plan_campaign(file)


@pytest.mark.parametrize("rule", [{}, {"params.ces": 10}])
def test_campaign_without_runs_is_rejected(rule, tmp_path):
    with expect_error("wrong-length"):
        plan_campaign(make_file(tmp_path, {"params.ces": [10]}, skip=[rule]))
