"""Find runs of one technology that were measured with different settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from v6t.analysis.compare.likeness import (
    ConditionDifference,
    compare_parameters,
    compare_records,
    index_records,
)
from v6t.analysis.rundata import CampaignRun, RunData, format_axis_value
from v6t.analysis.sheet import Table, make_text_columns, make_text_table

MARK = "†"
"""Mark of a row measured with other settings than most rows of its technology."""
TITLE = "Not measured alike"
MEANING = f"{MARK} other parameters or conditions than most rows of its technology: see '{TITLE}'"


@dataclass(frozen=True)
class Differing:
    """Differences of one run from most runs of its technology.

    Attributes:
        technology, device: the run's names.
        parameters: of the technology: they concern all its benchmarks.
        conditions: of single benchmarks, by their names.
    """

    technology: str
    device: str
    parameters: Sequence[ConditionDifference]
    conditions: Mapping[str, Sequence[ConditionDifference]]

    def concerns(self, benchmark: str) -> bool:
        """Return whether a benchmark was measured differently than on most devices."""
        return bool(self.parameters or self.conditions.get(benchmark))

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Return table rows: setting, value of the run, value of most runs."""
        head = (self.technology, self.device)
        for unlike in self.parameters:
            yield (*head, unlike.what, brief(unlike.second), brief(unlike.first))
        for benchmark, several in self.conditions.items():
            for unlike in several:
                what = f"{unlike.what} ({benchmark})"
                yield (*head, what, brief(unlike.second), brief(unlike.first))


def differing(
    made: Sequence[CampaignRun], named: Callable[[CampaignRun], tuple[str, str]]
) -> dict[str, Differing]:
    """Find runs whose settings differ from most runs of their technology, by directory.

    Args:
        made: runs that found something.
        named: technology and device of a run, as its rows have them.
    """
    by_technology: dict[str, list[tuple[CampaignRun, RunData]]] = {}
    for run in made:
        if run.data is not None:
            by_technology.setdefault(named(run)[0], []).append((run, run.data))
    found = {}
    for runs in by_technology.values():
        usual = _usual([data for _, data in runs], compare_parameters)
        conditions = _usual_conditions([data for _, data in runs])
        for run, data in runs:
            odd = Differing(
                *named(run),
                compare_parameters(usual, data),
                {b: apart for b, apart in _conditions(conditions, data).items() if apart},
            )
            if odd.parameters or odd.conditions:
                found[run.directory] = odd
    return found


def _usual(
    several: Sequence[Any], unlike: Callable[[Any, Any], Sequence[ConditionDifference]]
) -> Any:
    """Return the first member of the largest group of equal objects."""
    groups: list[list[Any]] = []
    for one in several:
        group = next((g for g in groups if not unlike(g[0], one)), None)
        if group is None:
            groups.append(group := [])
        group.append(one)
    return max(groups, key=len)[0]


def _usual_conditions(several: Sequence[RunData]) -> dict[tuple[str, ...], Any]:
    """Choose for each point the record whose conditions most runs share."""
    records: dict[tuple[str, ...], list[Any]] = {}
    for data in several:
        for key, record in index_records(data).items():
            records.setdefault(key, []).append(record)
    return {key: _usual(found, compare_records) for key, found in records.items()}


def _conditions(
    usual: Mapping[tuple[str, ...], Any], data: RunData
) -> dict[str, list[ConditionDifference]]:
    """Return the differences of a run's records from the usual ones, by benchmark."""
    found: dict[str, list[ConditionDifference]] = {}
    for key, record in index_records(data).items():
        held = found.setdefault(record.benchmark, [])
        held += [u for u in compare_records(usual[key], record) if u not in held]
    return found


def differing_sheet(odd: Iterable[Differing]) -> Table:
    """Describe each difference in one line."""
    names = make_text_columns(
        "technology", "device", "what", "here", "in most rows of the technology"
    )
    rows = [row for one in odd for row in one.rows()]
    note = "complete lists: config.json and results.json of each run's directory"
    return make_text_table("Parameters and conditions", names, rows, [note])


def brief(value: Any) -> str:
    """Abbreviate a setting; a list is given by its length and first entry."""
    if value in (None, [], ""):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)) and len(value) > 1:
        return f"{len(value)}, the first: {brief(value[0])}"
    if isinstance(value, (list, tuple)):
        return brief(value[0])
    return format_axis_value(value)
