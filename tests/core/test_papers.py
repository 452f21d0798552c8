"""Campaigns use the parameters of their papers, except for the listed differences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from v6t.analysis.scaling import count_cores
from v6t.core.campaigns import list_packaged_campaigns
from v6t.core.campaigns.campaign import CampaignEntry, plan_campaign
from v6t.core.campaigns.file import read_campaign
from v6t.core.config.run_setup import make_setup
from v6t.core.config.yaml_file import YamlFile
from v6t.tests.core.papers import PAPERS, UNSPECIFIED

pytestmark = pytest.mark.slow

SETTING = re.compile(r"^(params|procedure|dut|links)\.|^(modes|frame_sizes|line_rate)$")
"""A difference by one of these is about a setting; others are about what v6t does not set."""


def here(run: Mapping[str, Any], name: str) -> Any:
    """Return the run's value by its name in the transcription."""
    if name.startswith("frame."):
        (pair,) = {getattr(p, name.partition(".")[2]) for p in run["pairs"]}
        return pair
    if name == "frame_sizes":
        return [p.ipv4 for p in run["pairs"]]
    if name == "share":
        return run["params"]["m"] / run["params"]["n"]
    value: Any = run
    for part in name.split("."):
        # a policy given as a word is the value itself
        value = value if isinstance(value, str) else value[part]
    return value


def compared(name: str, paper: Any, ours: Any) -> bool:
    """Check whether both are the same; a range that begins elsewhere is another one."""
    if paper == UNSPECIFIED:
        return False
    if name.endswith("workers") and isinstance(paper, tuple):
        assert count_cores(ours) == paper[0], name
        return False
    if isinstance(paper, tuple):
        first, last = paper
        if first is None:
            return bool(ours["max"] - ours["min"] + 1 == last)
        assert ours["max"] - ours["min"] == last - first, f"{name}: wrong count"
        return (ours["min"], ours["max"]) == (first, last)
    return bool(ours == paper)


def find_differing(
    run: CampaignEntry, same: Mapping[str, Any], values: Mapping[str, Any]
) -> set[str]:
    """Compare a run, as it would be measured with all defaults, with the paper's settings."""
    technology = make_setup(run.settings).technology
    planned = {
        **run.config,
        "params": technology.params.model_dump(mode="json"),
        "pairs": [technology.make_frame_pair(size) for size in run.config["frame_sizes"]],
    }
    settings = {**same, **values}.items()
    return {name for name, paper in settings if not compared(name, paper, here(planned, name))}


def test_every_paper_is_transcribed():
    packaged = list_packaged_campaigns()
    assert set(PAPERS) == {
        name for name in packaged if read_campaign(YamlFile(packaged[name]))[0].paper
    }


@pytest.mark.parametrize("name", PAPERS)
def test_campaign_is_the_papers_or_names_the_difference(name):
    path = list_packaged_campaigns()[name]
    content, _ = read_campaign(YamlFile(path))
    campaign = plan_campaign(path, tester="sim")
    assert [e.name for e in content.experiments] == list(PAPERS[name])
    for experiment in content.experiments:
        series = PAPERS[name][experiment.name]
        runs = [run for run in campaign.runs if run.experiment == experiment.name]
        assert len(runs) == len(series.runs), f"{experiment.name}: wrong count"
        differing = set()
        for run, values in zip(runs, series.runs, strict=True):
            differing |= find_differing(run, series.same, values)
        named = {setting for setting in experiment.differs if SETTING.match(setting)}
        assert differing == named, experiment.name
        for text in experiment.differs.values():
            assert text.rstrip(".") in campaign.notes[experiment.name]
    assert content.differs, "no listed differences"
    for text in content.differs.values():
        assert text.rstrip(".") in campaign.notes[""]
    for run in campaign.runs:
        procedure = run.config["procedure"]
        assert procedure["trial_duration_s"] == 60
        assert procedure["repetitions"] == (10 if name == "pseudorandom" else 20)
