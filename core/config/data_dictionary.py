"""Data dictionary: meaning and unit of every field of the files of a run and of a campaign."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from v6t.base.strict_model import describe_fields
from v6t.base.text import convert_docstring
from v6t.trials.codec import list_attributes
from v6t.trials.result import TrialResult
from v6t.trials.trial import Trial

_LAST_COLUMN = {"Limited": "`yes`: the tester or the medium limits the row"}
_MEDIAN = {"median": "median of the repetitions at this point [see `unit` in results.json]"}
_JOURNAL = {
    "schema": "name and version of this format",
    "run": "mark of the run, as in manifest.json",
    "n": "number of the trial, from 1",
}
_CONDITIONS = {
    "preset": "preset of the settings",
    "demonstration": "the settings demonstrate v6t and do not follow the RFCs",
    "caveats": "warnings about all numbers of the run",
    "plugin": "technology",
    "params": "parameters of the technology, by name",
    "tester": "kind of the tester",
    "device": "driver of the device",
    "line_rate_bps": "line rate of the links [bit/s]",
    "seed": "seed of all pseudorandom numbers",
    "selftest_margin": "share of the tester's capacity that is not used",
    "selftest_trials": "keys of the trials that measured the tester's capacity",
    "ceiling": "source of the tester's capacity",
    "modifier": "modifier beside the test traffic",
    "machine": "`processor`, `cores` and `kernel` of the tester's machine",
    "connections": "settings of phase 1, with the names of journal.jsonl and of `params`",
}
_UNIT = re.compile(r"\s*\[([^\]]+)\]")
_UNITS_BY_SUFFIX = {
    "_s": "s",
    "_ms": "ms",
    "_ns": "ns",
    "_us": "µs",
    "_fps": "frames per second",
    "_cps": "connections per second",
    "_qps": "queries per second",
    "_bps": "bit/s",
    "_percent": "%",
    "_octets": "octets",
}
_SPELLINGS = {"fps": "frames per second"}


@dataclass(frozen=True)
class DataField:
    """A column or a field.

    Attributes:
        file: name of the file, and of the object within results.json.
        name: name of the column, or path of the field; ``*`` stands for any name.
        unit: unit, empty for numbers without one and for text.
        text: meaning.
    """

    file: str
    name: str
    unit: str
    text: str


@cache
def list_fields() -> tuple[DataField, ...]:
    """List every column and field, file by file."""
    return tuple(
        _make_field(file, name, text)
        for file, names in (*_list_tables(), ("journal.jsonl", dict(_walk_journal())), *_results())
        for name, text in names.items()
    )


def _make_field(file: str, name: str, text: str) -> DataField:
    text = convert_docstring(text).rstrip(".")
    if found := _UNIT.search(text):
        unit, text = found[1], text[: found.start()] + text[found.end() :]
        return DataField(file, name, _SPELLINGS.get(unit, unit), text)
    suffix = next((s for s in _UNITS_BY_SUFFIX if name.endswith(s)), "")
    return DataField(file, name, _UNITS_BY_SUFFIX.get(suffix, ""), text)


def _list_tables() -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the columns of each CSV file."""
    from v6t.analysis.csv_rows import FIGURE_COLUMNS, TRIAL_COLUMNS
    from v6t.analysis.record import RateRecord
    from v6t.analysis.report.campaign import SUMMARY_COLUMNS
    from v6t.benchmarks import registry
    from v6t.benchmarks.common import ROW_HEAD

    for benchmark in registry.load_installed():
        model = describe_fields(benchmark.csv_model) if benchmark.csv_model else {}
        median = _MEDIAN if issubclass(benchmark.record, RateRecord) else {}
        columns = {**ROW_HEAD, **model, **benchmark.csv_columns, **_LAST_COLUMN, **median}
        yield benchmark.csv_file, columns
        for file, further in benchmark.further_csv.items():
            yield file, {**further, **_LAST_COLUMN}
    yield "medians.csv", FIGURE_COLUMNS
    yield "trials.csv", TRIAL_COLUMNS
    yield "summary.csv", SUMMARY_COLUMNS


def _walk_journal() -> Iterator[tuple[str, str]]:
    yield from _JOURNAL.items()
    yield from _walk(Trial, "trial.")
    yield from _walk(TrialResult, "result.")


def _walk(kind: type, above: str) -> Iterator[tuple[str, str]]:
    texts, hints = describe_attributes(kind), get_type_hints(kind)
    for name, key, *_ in list_attributes(kind):
        yield above + key, texts[name]
        for inner, path in _find_objects(hints[name], above + key):
            yield from _walk(inner, path + ".")


def _find_objects(hint: Any, path: str) -> Iterator[tuple[type, str]]:
    """Yield the dataclasses that a type holds, with their paths."""
    if isinstance(hint, type) and is_dataclass(hint):
        yield hint, path
    for part in get_args(hint):
        yield from _find_objects(part, f"{path}.*" if get_origin(hint) is Mapping else path)


def describe_attributes(kind: type) -> dict[str, str]:
    """Return the texts of the section ``Attributes`` of a docstring, by name."""
    section = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
    texts = {}
    for entry in re.split(r"^    (?=\S)", section, flags=re.MULTILINE)[1:]:
        names, _, text = entry.partition(": ")
        texts |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return texts


def _results() -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the fields of results.json and of each kind of object in it."""
    from v6t.benchmarks.registry import make_results_schema

    schema = make_results_schema()
    for name, part in {"": schema, **schema["$defs"]}.items():
        keys = {key: known["description"] for key, known in part["properties"].items()}
        yield f"results.json {name}".strip(), keys
    yield "results.json conditions", _CONDITIONS
