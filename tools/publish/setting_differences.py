"""Differences between the settings of runs that measured the same technology."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from v6t.analysis.compare.likeness import (
    ConditionDifference,
    PointKey,
    compare_parameters,
    compare_records,
    index_records,
)
from v6t.analysis.record import Record
from v6t.analysis.rundata import CampaignRun, RunData, format_axis_value
from v6t.analysis.sheet import Table, make_text_columns, make_text_table

T = TypeVar("T")

MARK = "†"
"""Mark of a row whose settings differ from most rows of its technology."""
SECTION_TITLE = "Different settings"
MARK_NOTE = (
    f"{MARK} the parameters or conditions differ from most rows of the technology: see "
    f"'{SECTION_TITLE}'"
)


@dataclass(frozen=True)
class SettingDifferences:
    """Differences of one run from most runs of its technology."""

    technology: str  # of the run, as named in tables
    device: str  # of the run, as named in tables
    parameters: Sequence[ConditionDifference]
    """Differing parameters of the technology, which affect all benchmarks."""
    conditions: Mapping[str, Sequence[ConditionDifference]]  # differing conditions by benchmark

    def affect(self, benchmark: str) -> bool:
        """Return whether the run measured a benchmark with other settings than most runs."""
        return bool(self.parameters or self.conditions.get(benchmark))

    def list_rows(self) -> Iterator[tuple[str, ...]]:
        """Yield (technology, device, setting, value of the run, value of most runs)."""
        settings = [(d.what, d) for d in self.parameters]
        for benchmark, differences in self.conditions.items():
            settings += [(f"{d.what} ({benchmark})", d) for d in differences]
        for name, difference in settings:
            yield (
                self.technology,
                self.device,
                name,
                format_setting(difference.second),
                format_setting(difference.first),
            )


def find_setting_differences(
    runs: Sequence[CampaignRun], names: Mapping[str, tuple[str, str]]
) -> dict[str, SettingDifferences]:
    """Find the runs whose settings differ from most runs of their technology.

    Args:
        runs: runs with results.
        names: (technology, device) of each run, by the run's directory.

    Returns:
        Differences by the run's directory, without runs that do not differ.
    """
    by_technology: dict[str, list[tuple[CampaignRun, RunData]]] = {}
    for run in runs:
        if run.data is not None:
            by_technology.setdefault(names[run.directory][0], []).append((run, run.data))
    differences = {}
    for group in by_technology.values():
        usual_data = _find_usual([data for _, data in group], compare_parameters)
        usual_records = _find_usual_records([data for _, data in group])
        for run, data in group:
            difference = SettingDifferences(
                *names[run.directory],
                compare_parameters(usual_data, data),
                _compare_conditions(usual_records, data),
            )
            if difference.parameters or difference.conditions:
                differences[run.directory] = difference
    return differences


def _find_usual(items: Sequence[T], compare: Callable[[T, T], Sequence[ConditionDifference]]) -> T:
    """Return the first member of the largest group of items without differences."""
    groups: list[list[T]] = []
    for item in items:
        group = next((g for g in groups if not compare(g[0], item)), None)
        if group is None:
            groups.append(group := [])
        group.append(item)
    return max(groups, key=len)[0]


def _find_usual_records(runs: Sequence[RunData]) -> dict[PointKey, Record]:
    """Return a record with the most frequent conditions for each benchmark and point."""
    records: dict[PointKey, list[Record]] = {}
    for data in runs:
        for key, record in index_records(data).items():
            records.setdefault(key, []).append(record)
    return {key: _find_usual(group, compare_records) for key, group in records.items()}


def _compare_conditions(
    usual: Mapping[PointKey, Record], data: RunData
) -> dict[str, list[ConditionDifference]]:
    """Return the differences of a run's records from the usual ones, by benchmark."""
    by_benchmark: dict[str, list[ConditionDifference]] = {}
    for key, record in index_records(data).items():
        for difference in compare_records(usual[key], record):
            differences = by_benchmark.setdefault(record.benchmark, [])
            if difference not in differences:
                differences.append(difference)
    return by_benchmark


def make_difference_table(differences: Iterable[SettingDifferences]) -> Table:
    """Return a table with one row per differing setting."""
    columns = make_text_columns(
        "technology", "device", "setting", "this row", "most rows of the technology"
    )
    rows = [row for difference in differences for row in difference.list_rows()]
    note = "complete lists: config.json and results.json of each run's directory"
    return make_text_table("Parameters and conditions", columns, rows, [note])


def format_setting(value: Any) -> str:
    """Format a setting briefly; a list becomes its length and its first entry."""
    if value in (None, [], ""):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        first = format_setting(value[0])
        return first if len(value) == 1 else f"{len(value)}, the first: {first}"
    return format_axis_value(value)
