"""What every setting of the files means: kind, default and sentence, out of the models themselves.

A setting's sentence is its field's description: the string below it in its class.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from v6t.base.strict_model import describe_fields

KINDS = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
    "object": "names with values",
    "null": "nothing",
}
FORMATS = {
    **{"ipv4": "IPv4 address", "ipv4interface": "IPv4 address and length"},
    **{"ipv6": "IPv6 address", "ipv6interface": "IPv6 address and length"},
    **{"ipv4network": "IPv4 prefix", "ipv6network": "IPv6 prefix"},
}
LIMITS = {
    **{"minimum": "at least {}", "exclusiveMinimum": "above {}"},
    **{"maximum": "at most {}", "exclusiveMaximum": "below {}"},
    "maxItems": "at most {} of them",
}


@dataclass(frozen=True)
class Setting:
    """One line of a reference.

    Attributes:
        name: with dots, as in ``--set-procedure`` and in complaints.
        kind: what may be written, in words.
        default: what holds otherwise, as YAML writes it; empty: nothing does.
        text: what it is.
    """

    name: str
    kind: str
    default: str
    text: str


def settings_of(model: type[Any], above: str = "") -> tuple[Setting, ...]:
    """Return the settings of a model, those within them included.

    Args:
        model: a pydantic model.
        above: what their names begin with.
    """
    known: Any = model
    return _known(known, above)


@cache
def _known(model: Any, above: str) -> tuple[Setting, ...]:
    return tuple(_settings_of(model, above))


def _settings_of(model: type[Any], above: str) -> Iterator[Setting]:
    schema, words = model.model_json_schema(), describe_fields(model)
    for name, known in model.model_fields.items():
        inner = _models_in(known.annotation)
        default = known.get_default(call_default_factory=True)
        text = plain(words[name])
        kind = _kind(schema["properties"][known.alias or name], schema.get("$defs", {}))
        if not inner:
            shown = "" if known.is_required() else as_yaml(default)
            yield Setting(above + name, kind, shown, text)
            continue
        many = _is_sequence(known.annotation)
        off = "none" if many or default is None else ""
        kind = "list of settings" if many else "settings"
        yield Setting(above + name, kind, off, text or summary_of(inner[0]))
        mark = "[]." if many else "."
        for other in inner:
            yield from settings_of(other, f"{above}{name}{mark}")


def summary_of(thing: Any) -> str:
    """First paragraph of a docstring as one line, without markup."""
    text = inspect.cleandoc(thing.__doc__ or "").split("\n\n", maxsplit=1)[0]
    return plain(text)


def plain(text: str) -> str:
    """Write a docstring with Markdown's marks instead of Sphinx's."""
    text = re.sub(r":\w+:`~?([^`]*)`", lambda m: f"`{m[1].rpartition('.')[2]}`", text)
    text = re.sub(r"\bNone\b", "none", text.replace("``", "`"))
    return " ".join(text.split())


def as_yaml(value: Any) -> str:
    """Write a default as one would write it in a file."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, BaseModel):
        return as_yaml(value.model_dump(mode="json"))
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(as_yaml(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {as_yaml(v)}" for k, v in value.items()) + "}"
    return str(value) or '""'


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """Models an annotation is, or holds."""
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
    if schema.get("type") == "array":
        return _list(schema, defs)
    word = FORMATS.get(schema.get("format", "")) or KINDS.get(schema.get("type", ""), "any value")
    limits = [text.format(f"{schema[key]:,g}" if schema[key] < 1e6 else f"{schema[key]:,.0f}")
              for key, text in LIMITS.items() if key in schema]  # fmt: skip
    return ", ".join([word, *limits])


def _list(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> str:
    if "prefixItems" in schema:
        kinds = dict.fromkeys(_kind(part, defs) for part in schema["prefixItems"])
        return f"list of {len(schema['prefixItems'])}: " + ", ".join(kinds)
    inner = _kind(schema["items"], defs) if schema.get("items") else "any value"
    return f"list of: {inner}"
