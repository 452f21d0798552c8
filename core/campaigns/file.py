"""Campaign files: settings common to all runs, and matrices of varying settings."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field
from v6t.analysis.published.library import list_sources
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.core.config import yaml_file
from v6t.core.config.yaml_file import YamlFile, check_name, deep_merge, locate_errors

MAX_RUNS = 10_000  # per campaign
TESTBED_SECTIONS = ("tester", "dut", "links", "initiator", "line_rate")  # of a testbed file


class Experiment(StrictModel):
    """Group of runs of a campaign that differ in the settings of a matrix."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,60}$")  #: Begins the names of its runs.
    note: str = ""  #: Text for the report.
    differs: dict[str, str] = Field(default_factory=dict)
    """Remaining differences from the paper that is repeated, a sentence each: by the setting that
    differs, or by any other word. They follow the note in the report."""
    run: dict[str, Any] = Field(default_factory=dict)
    """Run file settings of this experiment, which override the campaign's."""
    testbed: str | None = None  #: Name of the testbed; none: the only one.
    matrix: dict[str, list[Any] | dict[str, Any]] = Field(default_factory=dict)
    """Lists of values by setting, for example `frame_sizes` or `params.ces`: every combination is a
    run. Values that are long get names: `params: {fixed ports: {...}, random ports: {...}}`."""
    along: dict[str, dict[str, list[Any]]] = Field(default_factory=dict)
    """Settings that change along with an axis of the matrix: by axis and setting, as many values as
    the axis has."""
    skip: list[dict[str, Any]] = Field(default_factory=list)
    """Combinations that are left out, as values by setting."""


class CampaignFile(StrictModel):
    """Content of a campaign file."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,60}$")  #: Name of the campaign.
    title: str = ""  #: Heading of the report.
    paper: str | None = None  #: Published results to compare with, a name of `v6t report --paper`.
    again: str = ""
    """Requirements for repeating it in the lab, for the page of a packaged campaign (Markdown)."""
    run: dict[str, Any] = Field(default_factory=dict)  #: Run file settings of all runs.
    testbeds: dict[str, dict[str, Any] | str] = Field(default_factory=dict)
    """Testbed file settings, or the path of a testbed file, by name. Different testbeds work at the
    same time."""
    differs: dict[str, str] = Field(default_factory=dict)
    """Differences from the paper in all experiments, in the form of an experiment's."""
    experiments: list[Experiment] = Field(min_length=1)
    """Runs that differ in the settings of a matrix."""


class ExperimentSettings(YamlFile):
    """Merged settings of an experiment in a campaign file; errors name the experiment's line."""

    def __init__(self, data: dict[str, Any], origin: YamlFile, keys: Sequence[str | int]) -> None:
        self.path = origin.path
        self.data = data
        self._location = origin.format_location(keys)

    def format_location(self, keys: Sequence[Any]) -> str:
        """Return the line number of the experiment as text, followed by the keys of a setting, if any."""
        return f"{self._location}{'.'.join(map(str, keys))}: " if keys else self._location


@dataclass(frozen=True)
class PlannedRun:
    """Run of a campaign file before its settings are resolved."""

    experiment: str
    testbed: str
    axes: Mapping[str, Any]  # values of the varying settings
    run: ExperimentSettings  # settings of the run file
    testbed_settings: ExperimentSettings


def read_campaign(
    document: YamlFile, testbeds: Mapping[str, Path] | None = None, experiments: Sequence[str] = ()
) -> tuple[CampaignFile, list[PlannedRun]]:
    """Return the content of a campaign file and the runs of the selected experiments, or of all.

    ``testbeds`` are testbed files that replace those of the campaign file, by name.
    """
    content: CampaignFile = yaml_file.validate(CampaignFile, document.data, document)
    for name, testbed in (testbeds or {}).items():
        content.testbeds[_choose_testbed(content, name) or testbed.stem] = str(testbed.absolute())
    names = [e.name for e in content.experiments]
    with locate_errors(document, "experiments"):
        yaml_file.check_names(names, names, "experiment")
    for name in experiments:
        check_name(name, names, "experiment")
    if content.paper is not None:
        with locate_errors(document, "paper"):
            check_name(content.paper, tuple(list_sources()), "paper")
    runs: list[PlannedRun] = []
    for number, experiment in enumerate(content.experiments):
        if experiments and experiment.name not in experiments:
            continue
        runs += _plan_runs(document, content, experiment, ("experiments", number))
        if len(runs) > MAX_RUNS:
            problem = f"{document.path}: these are more than {MAX_RUNS:,} runs"
            raise UsageError(problem, code="out-of-range")
    if not runs:
        raise UsageError(f"{document.path}: skip leaves out every combination", code="wrong-length")
    return content, runs


def _plan_runs(
    document: YamlFile, content: CampaignFile, experiment: Experiment, keys: tuple[str | int, ...]
) -> Iterator[PlannedRun]:
    with locate_errors(document, *keys):
        for choice in itertools.product(*_list_axes(experiment)):
            axes = dict(zip(experiment.matrix, (name for name, _ in choice), strict=True))
            if any(all(axes.get(k) == v for k, v in rule.items()) for rule in experiment.skip):
                continue
            requested = str(axes.get("testbed", experiment.testbed or ""))
            testbed_name = _choose_testbed(content, requested)
            testbed = content.testbeds.get(testbed_name, {})
            if isinstance(testbed, str):
                testbed = YamlFile(document.path.parent / testbed).data
            testbed = deepcopy(testbed)
            run = deepcopy(deep_merge(content.run, experiment.run))
            for _, settings in choice:
                for name, value in settings.items():
                    if name != "testbed":
                        section = name.partition(".")[0]
                        _apply_setting(testbed if section in TESTBED_SECTIONS else run, name, value)
            run_settings = ExperimentSettings(run, document, keys)
            testbed_settings = ExperimentSettings(testbed, document, keys)
            yield PlannedRun(experiment.name, testbed_name, axes, run_settings, testbed_settings)
        for number, rule in enumerate(experiment.skip):
            for axis in rule:
                check_name(axis, tuple(experiment.matrix), "axis", ("skip", number, axis))


def _list_axes(experiment: Experiment) -> list[list[tuple[Any, dict[str, Any]]]]:
    """Return the choices of each axis, each with its name and the settings that it changes."""
    for axis in experiment.along:
        if axis not in experiment.matrix:
            problem = f"the matrix lacks the axis {axis}"
            raise UsageError(problem, path=("along", axis), code="unknown-name")
    axes = []
    for axis, values in experiment.matrix.items():
        if not values:
            problem = f"the axis {axis} has no values"
            raise UsageError(problem, path=("matrix", axis), code="wrong-length")
        named = values.items() if isinstance(values, dict) else [(v, v) for v in values]
        choices = [(name, {axis: value}) for name, value in named]
        for setting, linked_values in experiment.along.get(axis, {}).items():
            if (count := len(linked_values)) != len(choices):
                problem = f"along {axis}, {setting} has {count} values, the axis {len(choices)}"
                raise UsageError(problem, path=("along", axis, setting), code="wrong-length")
            for (_, settings), value in zip(choices, linked_values, strict=True):
                settings[setting] = value
        axes.append(choices)
    return axes


def _choose_testbed(content: CampaignFile, name: str) -> str:
    """Check and return a testbed name; default to the only testbed of the file, if any."""
    if name:
        return check_name(name, tuple(content.testbeds), "testbed")
    if len(content.testbeds) > 1:
        hint = "testbeds of this file: " + ", ".join(content.testbeds)
        raise UsageError("the name of the testbed is missing", hint, code="missing-setting")
    return next(iter(content.testbeds), "")


def _apply_setting(settings: dict[str, Any], name: str, value: Any) -> None:
    """Change a setting named like ``a.b.c``; merge sections and accept single values for lists."""
    current: Any = settings
    for part in name.split("."):
        current = current.get(part) if isinstance(current, dict) else None
    if isinstance(value, dict) and isinstance(current, dict):
        value = deep_merge(current, value)
    elif name in ("frame_sizes", "modes", "benchmarks") and not isinstance(value, list):
        value = [value]
    if (part := yaml_file.set_value(settings, name, deepcopy(value))) is not None:
        problem = f"the axis {name} is below '{part}', which is a single value"
        raise UsageError(problem, code="not-a-section")
