"""Every campaign's parameters are the papers', but for the differences that it names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from v6t.analysis.scaling import count_cores
from v6t.core.campaigns.campaign import Overrides, plan_campaign
from v6t.core.campaigns.file import Experiment, read_campaign
from v6t.core.campaigns.packaged import list_packaged_campaigns
from v6t.core.config.bound import bind
from v6t.tests.core.papers import NOT_SAID, PAPERS

pytestmark = pytest.mark.slow

SETTING = re.compile(r"^(params|procedure|dut|links)\.|^(modes|frame_sizes|line_rate)$")
"""A difference by one of these is about a setting; others are about what v6t does not set."""

EACH = [(name, series) for name, known in PAPERS.items() for series in known]


def experiments(campaign: str) -> dict[str, Experiment]:
    content, _ = read_campaign(list_packaged_campaigns()[campaign])
    return {e.name: e for e in content.experiments}


def laid_out(campaign: str, name: str) -> list[dict[str, Any]]:
    """The runs of an experiment as they would be measured, with all defaults."""
    found = []
    for run in plan_campaign(
        list_packaged_campaigns()[campaign], Overrides(tester="sim", experiments=(name,))
    ).runs:
        bound = bind(run.settings)
        params = bound.technology.params.model_dump(mode="json")
        found.append(
            {
                **run.config,
                "params": params,
                "pairs": [bound.technology.make_frame_pair(s) for s in run.config["frame_sizes"]],
            }
        )
    return found


def here(run: Mapping[str, Any], name: str) -> Any:
    """The run's value by the transcription's name."""
    if name.startswith("frame."):
        (pair,) = {getattr(p, name.partition(".")[2]) for p in run["pairs"]}
        return pair
    if name == "frame_sizes":
        return [p.ipv4 for p in run["pairs"]]
    if name == "share":
        return run["params"]["m"] / run["params"]["n"]
    value: Any = run
    for part in name.split("."):
        # a policy of a word stands for itself
        value = value if isinstance(value, str) else value[part]
    return value


def compared(name: str, paper: Any, ours: Any) -> bool:
    """Whether both are the same; a range may begin elsewhere, and then is another one."""
    if paper == NOT_SAID:
        return False
    if name.endswith("workers") and isinstance(paper, tuple):
        assert count_cores(ours) == paper[0], name
        return False
    if isinstance(paper, tuple):
        first, last = paper
        if first is None:
            return bool(ours["max"] - ours["min"] + 1 == last)
        assert ours["max"] - ours["min"] == last - first, f"{name}: as many as in the paper"
        return (ours["min"], ours["max"]) == (first, last)
    return bool(ours == paper)


def test_every_experiment_is_transcribed():
    assert set(PAPERS) == {
        name
        for name in list_packaged_campaigns()
        if read_campaign(list_packaged_campaigns()[name])[0].paper
    }
    for campaign, known in PAPERS.items():
        assert list(known) == list(experiments(campaign)), campaign


@pytest.mark.parametrize(("campaign", "name"), EACH, ids=[f"{c}-{n}" for c, n in EACH])
def test_parameters_are_the_papers_or_the_difference_is_said(campaign, name):
    series, said = PAPERS[campaign][name], experiments(campaign)[name].differs
    runs = laid_out(campaign, name)
    assert len(runs) == len(series.runs), "as many measurements as in the paper"
    differing = set()
    for run, values in zip(runs, series.runs, strict=True):
        for setting, paper in {**series.same, **values}.items():
            if not compared(setting, paper, here(run, setting)):
                differing.add(setting)
    assert differing == {setting for setting in said if SETTING.match(setting)}


@pytest.mark.parametrize("campaign", PAPERS)
def test_differences_stand_in_the_report(campaign):
    content, _ = read_campaign(list_packaged_campaigns()[campaign])
    notes = plan_campaign(list_packaged_campaigns()[campaign], Overrides(tester="sim")).notes
    for experiment in content.experiments:
        for text in experiment.differs.values():
            assert text.rstrip(".") in notes[experiment.name]
    assert content.differs, "tester and devices of the papers are of another time"
    for text in content.differs.values():
        assert text.rstrip(".") in notes[""]
