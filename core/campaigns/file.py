"""Campaign files: what all runs have in common, and matrices of what varies."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field
from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.core.config.validation import error_at, validated, within
from v6t.core.config.yaml_document import Document

MOST_RUNS = 10_000
OF_TESTBEDS = ("tester", "dut", "links", "line_rate")
"""First parts of settings that stand in a testbed file, not in a run file."""


class Experiment(StrictModel):
    """Runs that differ in what the matrix varies."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,60}$")
    """Begins the names of its runs."""
    note: str = ""
    """Words for the report."""
    differs: dict[str, str] = Field(default_factory=dict)
    """Where a paper is repeated, each difference that is left, in a sentence: by the setting that
    differs, or by a word of its own. They follow the note in the report."""
    run: dict[str, Any] = Field(default_factory=dict)
    """Run file settings of this experiment, over the campaign's."""
    testbed: str | None = None
    """Which of the testbeds; none: the only one."""
    matrix: dict[str, list[Any] | dict[str, Any]] = Field(default_factory=dict)
    """Lists of values by setting, for example `frame_sizes` or `params.ces`: every combination is a
    run. Values that are long get names: `params: {fixed ports: {...}, random ports: {...}}`."""
    along: dict[str, dict[str, list[Any]]] = Field(default_factory=dict)
    """Settings that change along with an axis of the matrix: by axis and setting, as many values as
    the axis has."""
    skip: list[dict[str, Any]] = Field(default_factory=list)
    """Combinations that are left out, as values by setting."""


class CampaignFile(StrictModel):
    """A campaign."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,60}$")
    """Of the campaign."""
    title: str = ""
    """Heading of the report."""
    paper: str | None = None
    """Published results to set beside, a name of `v6t report --paper`."""
    again: str = ""
    """What making it again in the lab takes, for the page of a campaign that comes with v6t (Markdown)."""
    run: dict[str, Any] = Field(default_factory=dict)
    """Run file settings of all runs."""
    testbeds: dict[str, dict[str, Any] | str] = Field(default_factory=dict)
    """Testbed file settings, or the path of a testbed file, by name. Different testbeds work at the
    same time."""
    differs: dict[str, str] = Field(default_factory=dict)
    """What differs from the paper in all experiments, as in each of them."""
    experiments: list[Experiment] = Field(min_length=1)
    """Runs that differ in what a matrix varies."""


@dataclass(frozen=True)
class Planned:
    """One run of a campaign, as the file describes it.

    Attributes:
        experiment: its name.
        testbed: name of the testbed; empty where the file names none.
        axes: what varies, by setting.
        run: as in a run file.
        bed: as in a testbed file.
        document: where errors are said to stand.
        keys: the experiment's place in the file.
    """

    experiment: str
    testbed: str
    axes: Mapping[str, Any]
    run: dict[str, Any]
    bed: dict[str, Any]
    document: Document
    keys: tuple[str | int, ...]


class Section(Document):
    """Settings that a campaign file puts together; errors name the experiment's line."""

    def __init__(self, data: dict[str, Any], origin: Document, keys: Sequence[str | int]) -> None:
        """Stand for a file.

        Args:
            data: the settings.
            origin: the campaign file.
            keys: of the experiment in it.
        """
        self.path = origin.path
        self.data = data
        self._place = origin.where(keys)

    def where(self, keys: Sequence[str | int]) -> str:
        """Return the experiment's line, and the setting."""
        return f"{self._place}: {'.'.join(map(str, keys))}" if keys else self._place


def read(
    file: Path | Document,
    beds: Mapping[str, Path] | None = None,
    only: Sequence[str] = (),
) -> tuple[CampaignFile, list[Planned]]:
    """Read a campaign file and lay out its runs.

    Args:
        file: to read, or read already.
        beds: testbed files in place of the file's testbeds, by name; of the only one, by ``""``.
        only: experiments that are wanted; all if empty.

    Raises:
        UsageError: what is wrong, with its line.
    """
    document = file if isinstance(file, Document) else Document(file)
    path = document.path
    content: CampaignFile = validated(CampaignFile, document.data, document)
    _replace_beds(content, beds or {})
    names = [e.name for e in content.experiments]
    for name in only:
        if name not in names:
            raise UsageError(
                f"{path}: unknown experiment '{name}'",
                "one of " + ", ".join(names),
                code="unknown-name",
            )
    if len(set(names)) != len(names):
        raise UsageError(f"{path}: two experiments have the same name", code="duplicate")
    if content.paper is not None:
        from v6t.analysis.published.library import sources

        with within(document, ("paper",)):
            if content.paper not in sources():
                raise UsageError(
                    f"unknown paper '{content.paper}'",
                    "one of " + ", ".join(sources()),
                    code="unknown-name",
                )
    runs = []
    for number, experiment in enumerate(content.experiments):
        if only and experiment.name not in only:
            continue
        runs += list(_runs(document, content, number, experiment))
        if len(runs) > MOST_RUNS:
            raise UsageError(f"{path}: these are more than {MOST_RUNS:,} runs", code="out-of-range")
    return content, runs


def _runs(
    document: Document, content: CampaignFile, number: int, experiment: Experiment
) -> Iterator[Planned]:
    keys = ("experiments", number)
    for axis, values in experiment.matrix.items():
        if not values:
            raise error_at(
                document,
                (*keys, "matrix", axis),
                f"the axis {axis} has no values",
                code="wrong-length",
            )
    for axis in experiment.along:
        if axis not in experiment.matrix:
            raise error_at(
                document,
                (*keys, "along", axis),
                f"the matrix lacks the axis {axis}",
                code="unknown-name",
            )
    columns = [
        [(name, value, beside) for (name, value), beside in zip(
            _named(values), _alongside(document, keys, experiment, axis), strict=True
        )]
        for axis, values in experiment.matrix.items()
    ]  # fmt: skip
    for chosen in itertools.product(*columns):
        axes = dict(zip(experiment.matrix, (name for name, _, _ in chosen), strict=True))
        values = dict(zip(experiment.matrix, (value for _, value, _ in chosen), strict=True))
        for _, _, beside in chosen:
            values |= beside
        if any(all(axes.get(k) == v for k, v in rule.items()) for rule in experiment.skip):
            continue
        bed_name = str(axes.get("testbed", experiment.testbed or _only(content)))
        bed = _bed(document, content, bed_name, keys)
        run = _merged(content.run, experiment.run)
        for axis, value in values.items():
            if axis != "testbed":
                place = bed if axis.partition(".")[0] in OF_TESTBEDS else run
                _put(place, axis, value)
        yield Planned(experiment.name, bed_name, axes, run, bed, document, keys)


def _named(values: list[Any] | dict[str, Any]) -> list[tuple[Any, Any]]:
    """Values of an axis with what they are called: themselves, or their names."""
    return list(values.items()) if isinstance(values, dict) else [(v, v) for v in values]


def _alongside(
    document: Document, keys: tuple[str | int, ...], experiment: Experiment, axis: str
) -> list[dict[str, Any]]:
    """For each value of an axis the settings that change with it."""
    many = len(experiment.matrix[axis])
    columns = experiment.along.get(axis, {})
    for name, values in columns.items():
        if len(values) != many:
            raise error_at(
                document,
                (*keys, "along", axis, name),
                f"along {axis}, {name} has {len(values)} values, the axis {many}",
                code="wrong-length",
            )
    return [{name: values[n] for name, values in columns.items()} for n in range(many)]


def _replace_beds(content: CampaignFile, beds: Mapping[str, Path]) -> None:
    """Put testbed files in place of the file's testbeds."""
    for name, path in beds.items():
        known = name or _only(content)
        if known not in content.testbeds and (name or content.testbeds):
            raise UsageError(
                f"--testbed {path} lacks the name of a testbed" if not name
                else f"unknown testbed '{name}'",
                "--testbed NAME=FILE, with one of " + (", ".join(content.testbeds) or "none"),
                code="missing-setting",
            )  # fmt: skip
        content.testbeds[known or path.stem] = str(path.absolute())


def _only(content: CampaignFile) -> str:
    """Return the one testbed of the file, or none."""
    return next(iter(content.testbeds)) if len(content.testbeds) == 1 else ""


def _bed(
    document: Document, content: CampaignFile, name: str, keys: tuple[str | int, ...]
) -> dict[str, Any]:
    if not name and not content.testbeds:
        return {}
    if name not in content.testbeds:
        known = "testbeds of this file: " + (", ".join(content.testbeds) or "none")
        if not name:
            missing = "the name of the testbed is missing"
            raise error_at(document, keys, missing, known, code="missing-setting")
        raise error_at(document, keys, f"unknown testbed '{name}'", known, code="unknown-name")
    given = content.testbeds[name]
    if isinstance(given, str):
        return Document(document.path.parent / given).data
    return deepcopy(given)


def _put(values: dict[str, Any], axis: str, value: Any) -> None:
    """Set ``a.b.c``; mappings are laid over what is there; a single frame size is a list of one."""
    *path, last = axis.split(".")
    place = values
    for part in path:
        inner = place.setdefault(part, {})
        if not isinstance(inner, dict):
            raise UsageError(
                f"the axis {axis} leads into '{part}', which is one value", code="not-a-section"
            )
        place = inner
    if isinstance(value, dict) and isinstance(place.get(last), dict):
        place[last] = _merged(place[last], value)
    elif axis in ("frame_sizes", "modes", "benchmarks") and not isinstance(value, list):
        place[last] = [value]
    else:
        place[last] = deepcopy(value)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = deepcopy(dict(below))
    for name, value in above.items():
        under = merged.get(name)
        both = isinstance(value, Mapping) and isinstance(under, Mapping)
        merged[name] = _merged(under, value) if both else deepcopy(value)
    return merged
