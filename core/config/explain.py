"""Descriptions of all settings and data fields, derived from the models, and look-up by name."""

import contextlib
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from v6t.analysis.csv_rows import FIGURE_COLUMNS, TRIAL_COLUMNS
from v6t.analysis.record import RateRecord
from v6t.analysis.sheet import find_terms, read_terms
from v6t.base.error_codes import ERROR_CODES
from v6t.base.errors import UsageError
from v6t.base.strict_model import describe_fields, parse_docstrings
from v6t.base.text import convert_docstring, did_you_mean
from v6t.benchmarks import registry
from v6t.benchmarks.base import Benchmark
from v6t.benchmarks.common import FIRST_CSV_COLUMNS
from v6t.core.config.plugins import TECHNOLOGIES, load_technology_type, resolve_alias
from v6t.core.config.settings import RunFileSettings, Testbed, make_procedure_model
from v6t.core.config.yaml_file import format_yaml
from v6t.drivers.duts.options import DutOptions, LinuxOptions
from v6t.drivers.duts.registry import DRIVERS
from v6t.drivers.testers import TESTERS
from v6t.trials.codec import list_attributes
from v6t.trials.result import TrialResult
from v6t.trials.trial import Trial

_TYPE_NAMES = {  # by JSON Schema type
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
    "object": "names with values",
    "null": "nothing",
}
_ADDRESS_NOUNS = {"": "address", "interface": "address and length", "network": "prefix"}
_FORMAT_NAMES = {  # by JSON Schema format
    f"ipv{version}{suffix}": f"IPv{version} {noun}"
    for version in (4, 6)
    for suffix, noun in _ADDRESS_NOUNS.items()
}
_LIMIT_TEXTS = {  # by JSON Schema keyword
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "maxItems": "at most {} of them",
}
MAX_SHOWN_SETTINGS = 5  # in the explanation of a benchmark
MAX_SHOWN_TERMS = 5  # column terms in the explanation of a benchmark
# Column terms that the explanation of a benchmark omits.
PLAIN_TERMS = {"octets", "direction", "fps", "cps", "median", "min", "max", "sum", "rate", "start"}
BENCHMARK_KIND = "benchmark"
DRIVER_KIND = "device driver"
ERROR_KIND = "error code"
TERM_KIND = "word of tables and figures"
TECHNOLOGY_KIND = "technology"
TESTER_KIND = "tester"
TITLE_KIND = "title of tables and reports"
# Unit or prefix of a column heading or title, which is removed to look it up.
_COLUMN_UNIT = re.compile(
    r",? +(?:fps|cps|ms|us|s|%|octets|frames|connections|entries|(?:connections|queries)/s)"
    r"(?: per direction)?$|^IPv6/IPv4 |^frame |^sampled "
)


@dataclass(frozen=True)
class ReferenceEntry:
    """A setting, benchmark, term, error code or data field with its meaning."""

    name: str  # with dots, as in ``--set-procedure`` and in errors
    kind: str  # for a setting, a description of its values
    default: str  # as YAML; empty if there is none
    text: str  # description

    @property
    def parts(self) -> list[str]:
        """Parts of the name, in lower case."""
        return _split_name(self.name)


@cache
def _split_name(name: str) -> list[str]:
    return name.replace("[]", "").lower().split(".")


def list_run_settings() -> list[ReferenceEntry]:
    """List the settings of a run file without the parts of ``procedure``, which depend on the plugins."""
    return [row for row in list_settings(RunFileSettings) if not row.name.startswith("procedure.")]


@cache
def list_settings(model: type[BaseModel], prefix: str = "") -> tuple[ReferenceEntry, ...]:
    """List the settings of a model, each followed by those of its nested models.

    All names begin with ``prefix``.
    """
    return tuple(_iter_settings(model, prefix))


def _iter_settings(
    model: type[BaseModel], prefix: str, values: BaseModel | None = None
) -> Iterator[ReferenceEntry]:
    """Yield the settings of a model; ``values`` replaces the model's own defaults."""
    schema, words = model.model_json_schema(), describe_fields(model)
    for name, known in model.model_fields.items():
        inner = _find_models(known.annotation)
        required = values is None and known.is_required()
        default = known.get_default(call_default_factory=True, validated_data={})
        default = None if required else default if values is None else getattr(values, name)
        text = convert_docstring(words[name])
        kind = _describe_schema(schema["properties"][known.alias or name], schema.get("$defs", {}))
        if not inner:
            shown = "" if required else format_yaml(default)
            yield ReferenceEntry(prefix + (known.alias or name), kind, shown, text)
            continue
        many = _has_sequence(known.annotation)
        shown = "none" if not required and (many or default is None) else ""
        if many and default:
            shown = format_yaml([v.model_dump(mode="json", exclude_defaults=True) for v in default])
        kind = "list of settings" if many else "settings"
        text = text or summarize_docstring(inner[0])
        yield ReferenceEntry(prefix + name, kind, shown, text)
        infix = "[]." if many else ".NAME." if get_origin(known.annotation) is dict else "."
        for other in inner:
            nested = default if isinstance(default, other) else None
            yield from _iter_settings(other, f"{prefix}{name}{infix}", nested)


def summarize_docstring(obj: Any) -> str:
    """Return the first paragraph of a docstring as one line, without markup."""
    return convert_docstring(inspect.cleandoc(obj.__doc__ or "").split("\n\n", maxsplit=1)[0])


def _find_models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _find_models(part)]


def _has_sequence(annotation: Any) -> bool:
    return get_origin(annotation) in (list, tuple) or any(map(_has_sequence, get_args(annotation)))


def _describe_schema(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return _describe_schema(defs[schema["$ref"].rpartition("/")[2]], defs)
    if "anyOf" in schema:
        parts = [part for part in schema["anyOf"] if part.get("type") != "null"]
        return " or ".join(dict.fromkeys(_describe_schema(part, defs) for part in parts))
    if "enum" in schema:
        return ", ".join(str(word) or '""' for word in schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    if "prefixItems" in schema:
        kinds = dict.fromkeys(_describe_schema(part, defs) for part in schema["prefixItems"])
        return f"list of {len(schema['prefixItems'])}: " + ", ".join(kinds)
    if schema.get("type") == "array":
        return f"list of: {_describe_schema(schema.get('items') or {}, defs)}"
    type_name = _TYPE_NAMES.get(schema.get("type", ""), "any value")
    word = _FORMAT_NAMES.get(schema.get("format", ""), type_name)
    limits = [
        text.format(f"{schema[key]:,g}" if schema[key] < 1e6 else f"{schema[key]:,.0f}")
        for key, text in _LIMIT_TEXTS.items()
        if key in schema
    ]
    return ", ".join([word, *limits])


def look_up(name: str, plugin: str | None = None) -> list[ReferenceEntry]:
    """Find the entries whose name starts or ends with ``name``.

    If none does, search data fields, parameters of all technologies, the technology with this
    alias, the name without its unit, the titles that it begins with, and terms within it, in this
    order.
    """
    known = [*list_all_settings(plugin), *_iter_benchmark_entries(), *_iter_term_entries()]
    wanted = [part for part in _split_name(name) if part]
    exact = [row for row in known if row.parts == wanted]
    known += _iter_extension_entries()
    fields = (
        ReferenceEntry(f.name, f"{f.file} [{f.unit}]" if f.unit else f.file, "", f.text)
        for f in list_fields()
    )
    matches = _filter_entries(known, wanted) or _filter_entries(fields, wanted)
    matches = matches or _filter_entries(_list_parameters(), wanted)
    matches = matches or _filter_entries(known, [resolve_alias(name)])
    if not matches:
        bare = _COLUMN_UNIT.sub("", name)
        if bare and bare != name:
            with contextlib.suppress(UsageError):  # the unit may be the only known word
                return look_up(bare, plugin)
        words = f" {name.lower()} "
        matches = _find_titles(known, name) or [
            row for row in known if row.kind == TERM_KIND and f" {row.name.lower()} " in words
        ]
    if not matches:
        names = list(dict.fromkeys(part for row in known for part in (row.name, row.parts[-1])))
        problem = f"unknown setting, benchmark, technology, term, error code or data field '{name}'"
        hint = did_you_mean(name, names) or "`v6t explain` lists all"
        raise UsageError(problem, hint, code="unknown-name")
    inner = [row for row in matches if row.name.startswith((f"{name}.", f"{name}[]"))]
    return exact[:1] + inner if exact and inner else exact or matches


def _find_titles(rows: Iterable[ReferenceEntry], title: str) -> list[ReferenceEntry]:
    words = title.lower()
    matches = [
        row
        for row in rows
        if row.kind in {TITLE_KIND, BENCHMARK_KIND, TECHNOLOGY_KIND}
        and words.startswith(row.name.lower())
        and not re.match(r"[\w-]", words[len(row.name) :])
    ]
    return sorted(matches, key=lambda row: len(row.name))[-1:]


def _list_parameters() -> Iterator[ReferenceEntry]:
    """Yield each distinct parameter with the names of the technologies that have it."""
    users: dict[ReferenceEntry, list[str]] = {}
    for name, technology in TECHNOLOGIES.load_all():
        for setting in list_settings(technology.params_model, "params."):
            users.setdefault(setting, []).append(name)
    for setting, technologies in users.items():
        yield replace(setting, text=f"{setting.text} ({', '.join(technologies)})")


def _filter_entries(rows: Iterable[ReferenceEntry], wanted: list[str]) -> list[ReferenceEntry]:
    """Return the entries whose name begins or ends with the wanted parts."""
    size = len(wanted)
    return [
        row
        for row in rows
        if wanted in (row.parts[:size], row.parts[max(0, len(row.parts) - size) :])
    ]


def list_names(plugin: str | None = None) -> dict[str, list[str]]:
    """List the names that can be looked up, by kind."""
    names: dict[str, list[str]] = {}
    for row in (*_iter_extension_entries(), *_iter_benchmark_entries(), *_iter_term_entries()):
        names.setdefault(row.kind, []).append(row.name)
    settings = dict.fromkeys(row.name for row in list_all_settings(plugin))
    return {
        "technologies": names[TECHNOLOGY_KIND],
        "device drivers": names[DRIVER_KIND],
        "testers": names[TESTER_KIND],
        "benchmarks": names[BENCHMARK_KIND],
        "words of tables and figures": names[TERM_KIND],
        "settings": [*settings],
        "error codes": names[ERROR_KIND],
    }


def _iter_benchmark_entries() -> Iterator[ReferenceEntry]:
    procedure = make_procedure_model()
    for benchmark in registry.load_installed():
        text = _describe_benchmark(type(benchmark), procedure)
        yield ReferenceEntry(benchmark.name, BENCHMARK_KIND, "", text)
        title = benchmark.heading.split(" (")[0].split(",")[0]
        if title and title.lower() != benchmark.name:
            yield ReferenceEntry(title, TITLE_KIND, "", f"{benchmark.name}: {benchmark.summary}")


def _iter_extension_entries() -> Iterator[ReferenceEntry]:
    for name, technology in TECHNOLOGIES.load_all():
        text = f"{technology.title} [{', '.join(technology.rfcs)}]"
        yield ReferenceEntry(name, TECHNOLOGY_KIND, "", f"{text}\nParameters: v6t plugins {name}")
        title = technology.title.partition(":")[0]
        if title.lower() != name:
            yield ReferenceEntry(title, TITLE_KIND, "", f"{name}: {text}")
    for name, driver in DRIVERS.load_all():
        text = f"{driver.title}\nCapabilities: v6t plugins --drivers {name}"
        yield ReferenceEntry(name, DRIVER_KIND, "", text)
    for name, tester in TESTERS.load_all():
        yield ReferenceEntry(name, TESTER_KIND, "", tester.title)


@cache
def _describe_benchmark(kind: type[Benchmark[Any, Any]], procedure: type[BaseModel]) -> str:
    """Describe what a benchmark measures and how, its settings, defaults and columns."""
    benchmark = kind()
    lines = [*map(convert_docstring, inspect.cleandoc(kind.__doc__ or "").split("\n\n"))]
    rows = [row for row in list_settings(procedure) if "[]." not in row.name]
    sections = [f"{key}." for key in benchmark.list_sections()]
    settings = [row for key in sections for row in rows if row.name.startswith(key)]
    settings += [row for row in rows if row.name in benchmark.used_settings]
    if settings:
        lines.append("Settings (--set-procedure NAME=VALUE), their defaults in the preset rfc:")
    for row in settings[:MAX_SHOWN_SETTINGS]:
        default = "" if row.default in ("", "none") else f" ({row.default})"
        lines.append(f"  {row.name}{default}: {re.split('[.;:](?: |$)', row.text)[0]}")
    if others := settings[MAX_SHOWN_SETTINGS:]:
        keys = dict.fromkeys(f"procedure.{row.name}".rpartition(".")[0] for row in others)
        lines.append(f"  and {len(others)} more: v6t explain {', '.join(keys)}")
    headings = [column.name for column in benchmark.columns if not column.wide]
    terms = find_terms(headings) + find_terms(headings, "common")
    if terms := [row for row in terms if row[0] not in PLAIN_TERMS][:MAX_SHOWN_TERMS]:
        meanings = (f"{term}, {re.split('[:;,(]', text)[0].strip()}" for term, text in terms)
        lines.append(f"Columns: {'; '.join(meanings)}")
    return "\n".join(lines)


def _iter_term_entries() -> Iterator[ReferenceEntry]:
    meanings = read_terms()
    for group, kind in (("tables", TERM_KIND), ("common", TERM_KIND), ("titles", TITLE_KIND)):
        for term, meaning in meanings[group].items():
            yield ReferenceEntry(term, kind, "", f"{meaning[0].upper()}{meaning[1:]}.")
    for code, meaning in ERROR_CODES.items():
        yield ReferenceEntry(code, ERROR_KIND, "", meaning)


def list_all_settings(plugin: str | None = None) -> Iterator[ReferenceEntry]:
    """Yield the settings of run file, testbed file, testers and drivers, and a plugin's parameters."""
    yield from list_run_settings()
    if plugin is not None:
        yield from list_settings(load_technology_type(plugin).params_model, "params.")
    yield from list_settings(make_procedure_model(), "procedure.")
    yield from list_settings(Testbed)
    for name, tester in TESTERS.load_all():
        for row in list_settings(tester.options_model, "tester.options."):
            yield replace(row, text=f"{row.text} (tester {name})")
    models: list[tuple[str, type[Any]]]
    models = [("every device driver", DutOptions), ("every Linux device", LinuxOptions)]
    models += [(f"device {name}", driver.options_model) for name, driver in DRIVERS.load_all()]
    users: dict[ReferenceEntry, str] = {}
    for user, model in models:
        for row in list_settings(model, "dut.options."):
            users.setdefault(row, user)
    for row, user in users.items():
        yield replace(row, text=f"{row.text} ({user})")


_LIMIT_COLUMN = {"Limited": "`yes`: the tester or the medium limits the row"}
_MEDIAN_COLUMN = {"median": "median of the repetitions at this point [see `unit` in results.json]"}
_JOURNAL_FIELDS = {
    "schema": "name and version of this format",
    "run": "identifier of the run, as in manifest.json",
    "n": "number of the trial, from 1",
}
_CONDITION_FIELDS = {
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
    "modifier": "modifier used with the test traffic",
    "machine": "`processor`, `cores` and `kernel` of the tester's machine",
    "connections": "settings of phase 1, with the names of journal.jsonl and of `params`",
}
_UNIT_PATTERN = re.compile(r"\s*\[([^\]]+)\]")
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
_UNIT_SPELLINGS = {
    "fps": "frames per second",
    "fps per direction": "frames per second per direction",
}


@dataclass(frozen=True)
class DataField:
    """A column of a CSV file, or a field of a JSON file."""

    file: str  # name of the file, and of the object within results.json
    name: str  # name of the column, or path of the field; ``*`` stands for any name
    unit: str  # empty for numbers without a unit and for text
    text: str  # description


@cache
def list_fields() -> tuple[DataField, ...]:
    """List the columns and fields of all data files."""
    return tuple(
        _make_field(file, name, text)
        for file, names in (
            *_list_csv_columns(),
            ("journal.jsonl", _JOURNAL_FIELDS),
            ("journal.jsonl", dict(_list_dataclass_fields(Trial, "trial."))),
            ("journal.jsonl", dict(_list_dataclass_fields(TrialResult, "result."))),
            *_list_result_fields(),
        )
        for name, text in names.items()
    )


def _make_field(file: str, name: str, text: str) -> DataField:
    """Return a field; its unit is given in brackets in the text or implied by its name."""
    text = convert_docstring(text).rstrip(".")
    if match := _UNIT_PATTERN.search(text):
        unit, text = match[1], text[: match.start()] + text[match.end() :]
        return DataField(file, name, _UNIT_SPELLINGS.get(unit, unit), text)
    suffix = next((s for s in _UNITS_BY_SUFFIX if name.endswith(s)), "")
    return DataField(file, name, _UNITS_BY_SUFFIX.get(suffix, ""), text)


def _list_csv_columns() -> Iterator[tuple[str, Mapping[str, str]]]:
    from v6t.analysis.report.campaign import SUMMARY_COLUMNS

    for benchmark in registry.load_installed():
        model = describe_fields(benchmark.csv_model) if benchmark.csv_model else {}
        median = _MEDIAN_COLUMN if issubclass(benchmark.record, RateRecord) else {}
        columns = {**FIRST_CSV_COLUMNS, **model, **benchmark.csv_columns, **_LIMIT_COLUMN, **median}
        yield benchmark.csv_file, columns
        for file, further in benchmark.extra_csv_columns.items():
            yield file, {**further, **_LIMIT_COLUMN}
    yield "medians.csv", FIGURE_COLUMNS
    yield "trials.csv", TRIAL_COLUMNS
    yield "summary.csv", SUMMARY_COLUMNS


def _list_dataclass_fields(kind: type, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the meaning of each field of a dataclass and its nested dataclasses."""
    texts, hints = parse_attribute_docs(kind), get_type_hints(kind)
    for name, key, *_ in list_attributes(kind):
        yield prefix + key, texts[name]
        for inner, path in _find_dataclasses(hints[name], prefix + key):
            yield from _list_dataclass_fields(inner, path + ".")


def _find_dataclasses(hint: Any, path: str) -> Iterator[tuple[type, str]]:
    if isinstance(hint, type) and is_dataclass(hint):
        yield hint, path
    for part in get_args(hint):
        yield from _find_dataclasses(part, f"{path}.*" if get_origin(hint) is Mapping else path)


def parse_attribute_docs(cls: type) -> dict[str, str]:
    """Return the text below or after each field of a dataclass, by default that of the next field."""
    texts, text = dict(parse_docstrings(cls)), ""
    for field in reversed(fields(cls)):
        text = texts[field.name] = " ".join(texts.get(field.name, text).split())
    return texts


def _list_result_fields() -> Iterator[tuple[str, Mapping[str, str]]]:
    schema = registry.make_results_schema()
    for name, part in {"": schema, **schema["$defs"]}.items():
        keys = {key: known["description"] for key, known in part["properties"].items()}
        yield f"results.json {name}".strip(), keys
    yield "results.json conditions", _CONDITION_FIELDS
