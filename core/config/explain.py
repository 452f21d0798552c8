"""What every setting means: kind, default and sentence, out of the models themselves; look-up by name.

A setting's sentence is its field's description: the string below it in its class.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from v6t.base.errors import UsageError
from v6t.base.strict_model import describe_fields
from v6t.base.text import convert_docstring, did_you_mean

KINDS = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
    "object": "names with values",
    "null": "nothing",
}
FORMATS = {
    f"ipv{version}{suffix}": f"IPv{version} {noun}"
    for version in (4, 6)
    for suffix, noun in (
        ("", "address"),
        ("interface", "address and length"),
        ("network", "prefix"),
    )
}
LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "maxItems": "at most {} of them",
}
TERM = "word of tables and figures"


@dataclass(frozen=True)
class Setting:
    """One line of a reference.

    Attributes:
        name: with dots, as in ``--set-procedure`` and in errors.
        kind: what may be written, in words.
        default: as YAML; empty if there is none.
        text: the meaning.
    """

    name: str
    kind: str
    default: str
    text: str

    @property
    def parts(self) -> list[str]:
        """The name's parts in lower case."""
        return self.name.replace("[]", "").lower().split(".")


@cache
def settings_of(model: Any, above: str = "") -> tuple[Setting, ...]:
    """List the settings of a pydantic model and of models within it; names begin with ``above``."""
    return tuple(_settings_of(model, above))


def _settings_of(model: type[BaseModel], above: str) -> Iterator[Setting]:
    schema, words = model.model_json_schema(), describe_fields(model)
    for name, known in model.model_fields.items():
        inner = _models_in(known.annotation)
        default = known.get_default(call_default_factory=True)
        text = convert_docstring(words[name])
        kind = _kind(schema["properties"][known.alias or name], schema.get("$defs", {}))
        if not inner:
            shown = "" if known.is_required() else as_yaml(default)
            yield Setting(above + name, kind, shown, text)
            continue
        many = _is_sequence(known.annotation)
        off = "none" if many or default is None else ""
        kind = "list of settings" if many else "settings"
        yield Setting(above + name, kind, off, text or summary_of(inner[0]))
        for other in inner:
            yield from settings_of(other, f"{above}{name}{'[].' if many else '.'}")


def summary_of(thing: Any) -> str:
    """Return the first paragraph of a docstring as one line, without markup."""
    return convert_docstring(inspect.cleandoc(thing.__doc__ or "").split("\n\n", maxsplit=1)[0])


def as_yaml(value: Any) -> str:
    """Write a default as in a file."""
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case BaseModel():
            return as_yaml(value.model_dump(mode="json"))
        case list() | tuple():
            return "[" + ", ".join(map(as_yaml, value)) + "]"
        case Mapping():
            return "{" + ", ".join(f"{k}: {as_yaml(v)}" for k, v in value.items()) + "}"
    return str(value) or '""'


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """List the models that an annotation is or holds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def _is_sequence(annotation: Any) -> bool:
    return get_origin(annotation) in (list, tuple) or any(map(_is_sequence, get_args(annotation)))


def _kind(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> str:
    """Describe a JSON schema in a few words."""
    if "$ref" in schema:
        return _kind(defs[schema["$ref"].rpartition("/")[2]], defs)
    if "anyOf" in schema:
        words = [_kind(part, defs) for part in schema["anyOf"] if part.get("type") != "null"]
        return " or ".join(dict.fromkeys(words))
    if "enum" in schema:
        return ", ".join(str(word) or '""' for word in schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    if "prefixItems" in schema:
        kinds = dict.fromkeys(_kind(part, defs) for part in schema["prefixItems"])
        return f"list of {len(schema['prefixItems'])}: " + ", ".join(kinds)
    if schema.get("type") == "array":
        return f"list of: {_kind(schema.get('items') or {}, defs)}"
    word = FORMATS.get(schema.get("format", "")) or KINDS.get(schema.get("type", ""), "any value")
    limits = [
        text.format(f"{schema[key]:,g}" if schema[key] < 1e6 else f"{schema[key]:,.0f}")
        for key, text in LIMITS.items()
        if key in schema
    ]
    return ", ".join([word, *limits])


def look_up(name: str, plugin: str | None = None) -> list[Setting]:
    """Find settings, benchmarks, terms and error codes that have a name, or begin or end with it.

    Fields of data files are looked up where nothing else has the name.
    """
    known = [*every_setting(plugin), *_list_benchmarks(), *_list_words()]
    wanted = [part for part in name.lower().split(".") if part]
    exact = [row for row in known if row.parts == wanted]
    matches = _filter_rows(known, wanted) or _filter_rows(_list_data_fields(), wanted)
    if not matches:
        names = list(dict.fromkeys(part for row in known for part in (row.name, row.parts[-1])))
        raise UsageError(
            f"unknown setting, benchmark, term, error code or data field '{name}'",
            did_you_mean(name, names)
            or "`v6t explain` lists all; parameters of a technology: add --plugin NAME",
            code="unknown-name",
        )
    inner = [row for row in matches if row.name.startswith((f"{name}.", f"{name}[]"))]
    return exact[:1] + inner if exact and inner else exact or matches


def _filter_rows(rows: Iterable[Setting], wanted: list[str]) -> list[Setting]:
    size = len(wanted)
    return [
        row
        for row in rows
        if wanted in (row.parts[:size], row.parts[max(0, len(row.parts) - size) :])
    ]


def list_names(plugin: str | None = None) -> dict[str, list[str]]:
    """List the names that can be looked up, by kind."""
    words = list(_list_words())
    return {
        "benchmarks": [row.name for row in _list_benchmarks()],
        "words of tables and figures": [row.name for row in words if row.kind == TERM],
        "settings": list(dict.fromkeys(row.name for row in every_setting(plugin))),
        "error codes": [row.name for row in words if row.kind != TERM],
    }


def _list_benchmarks() -> Iterator[Setting]:
    from v6t.benchmarks import registry

    for benchmark in registry.load_installed():
        keys = ", ".join(f"procedure.{key}" for key in benchmark.list_sections())
        settings = f" Its settings: {keys}." if keys else ""
        yield Setting(benchmark.name, "benchmark", "", f"{benchmark.summary}{settings}")


def _list_words() -> Iterator[Setting]:
    from v6t.analysis.terms import read_terms
    from v6t.base.error_codes import ERROR_CODES

    meanings = read_terms()
    for term, meaning in {**meanings["tables"], **meanings["common"]}.items():
        yield Setting(term, TERM, "", f"{meaning[0].upper()}{meaning[1:]}.")
    for code, meaning in ERROR_CODES.items():
        yield Setting(code, "error code", "", meaning)


def _list_data_fields() -> Iterator[Setting]:
    from v6t.core.config.data_dictionary import list_fields

    for field in list_fields():
        unit = f" [{field.unit}]" if field.unit else ""
        yield Setting(field.name, f"{field.file}{unit}", "", field.text)


def every_setting(plugin: str | None = None) -> Iterator[Setting]:
    """Yield the settings of run file, testbed file, testers and drivers, and a plugin's parameters."""
    from v6t.core.config.plugins import load_plugin
    from v6t.core.config.settings import RunFile, TestbedFile, procedure_model
    from v6t.drivers.duts.options import DutOptions, LinuxOptions
    from v6t.drivers.duts.registry import DRIVERS
    from v6t.drivers.testers import TESTERS

    yield from settings_of(RunFile)
    if plugin is not None:
        yield from settings_of(load_plugin(plugin).params_model, "params.")
    yield from settings_of(procedure_model(), "procedure.")
    yield from settings_of(TestbedFile)
    for tester in TESTERS.list_rows():
        if tester.kind is not None:
            for row in settings_of(tester.kind.options_model, "tester.options."):
                yield replace(row, text=f"{row.text} (tester {tester.name})")
    models: list[tuple[str, type[Any]]]
    models = [("every device driver", DutOptions), ("every Linux device", LinuxOptions)]
    models += [
        (f"device {row.name}", row.kind.options_model) for row in DRIVERS.list_rows() if row.kind
    ]
    seen = set()
    for user, model in models:
        for row in settings_of(model, "dut.options."):
            if row not in seen:
                seen.add(row)
                yield replace(row, text=f"{row.text} ({user})")
