"""What the validation of settings says with a programmer's words, said with a user's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from v6t.base.entry_points import meant, nearest
from v6t.base.errors import InvalidValue, V6tError
from v6t.base.quantities import accepted

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

_LIST = ("must be a list", "write it in brackets: [one, another]")
_SECTION = ("must be a section of named settings", "write NAME: VALUE in indented lines below it")
_WHOLE = ("must be a whole number", "")
_NUMBER = ("must be a number", "")
_PARSING = ("int_parsing", "float_parsing")
"""Texts that are no numbers."""
_KINDS = ("int", "float")
"""What a path ends with where a number is one of several kinds: such settings take no units."""
_WORDS: dict[str, tuple[str, str]] = {
    "string_type": ("must be text", "put it in quotes"),
    "list_type": _LIST,
    "tuple_type": _LIST,
    "dict_type": _SECTION,
    "model_type": _SECTION,
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": ("must be a finite number", ""),
    "bool_type": ("must be true or false", ""),
    "bool_parsing": ("must be true or false", ""),
    "missing": ("is missing", ""),
    "ip_v4_address": ("must be an IPv4 address", "write for example 192.0.2.1"),
    "ip_v4_interface": (
        "must be an IPv4 address with prefix length",
        "write for example 192.0.2.1/24",
    ),
    "ip_v4_network": ("must be an IPv4 prefix", "write for example 192.0.2.0/24"),
    "ip_v6_address": ("must be an IPv6 address", "write for example 2001:db8::1"),
    "ip_v6_interface": (
        "must be an IPv6 address with prefix length",
        "write for example 2001:db8::1/64",
    ),
    "ip_v6_network": ("must be an IPv6 prefix", "write for example 2001:db8::/32"),
}
_CODES = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "not-a-number"),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "not-a-number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "not-a-boolean"),
    **dict.fromkeys(("greater_than", "greater_than_equal"), "out-of-range"),
    **dict.fromkeys(("less_than", "less_than_equal", "multiple_of"), "out-of-range"),
    **dict.fromkeys(("too_short", "too_long"), "wrong-length"),
    **dict.fromkeys(("string_too_short", "string_too_long"), "wrong-length"),
    **dict.fromkeys(("ip_v4_address", "ip_v6_address"), "not-an-address"),
    **dict.fromkeys(("ip_v4_interface", "ip_v6_interface"), "not-an-address"),
    **dict.fromkeys(("ip_v4_network", "ip_v6_network"), "not-a-prefix"),
    **dict.fromkeys(("list_type", "tuple_type"), "not-a-list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "not-a-section"),
    "string_type": "not-text",
    "string_pattern_mismatch": "wrong-form",
    "extra_forbidden": "unknown-setting",
    "literal_error": "unknown-name",
    "missing": "missing-setting",
}
"""The code of each of pydantic's errors."""
_BOUNDS = {
    "greater_than": ("must be above {}", "gt"),
    "greater_than_equal": ("must be at least {}", "ge"),
    "less_than": ("must be below {}", "lt"),
    "less_than_equal": ("must be at most {}", "le"),
}


class Complaint(NamedTuple):
    """The first thing that is wrong with what a user gave.

    Attributes:
        path: keys and indices that lead to it, as the user wrote them.
        unknown: there is no setting of this name; else ``reason`` says what is wrong.
        reason: what is wrong, with the value: a sentence without its subject.
        hint: what to do, or nothing.
        code: the kind of error.
        related: paths of further settings that contradict the first.
    """

    path: tuple[str | int, ...]
    unknown: bool
    reason: str
    hint: str
    code: str
    related: tuple[tuple[str | int, ...], ...] = ()

    def name_settings(self, *above: str) -> str:
        """Return all paths with dots, each below the keys ``above``."""
        return " and ".join(
            ".".join(map(str, (*above, *path))) for path in (self.path, *self.related)
        )


def complaint(model: type[BaseModel], exc: ValidationError) -> Complaint:
    """Describe a failed validation.

    Args:
        model: that refused.
        exc: how it refused.
    """
    problems = exc.errors(include_url=False)
    # a misspelt name often leaves another one missing
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    path = problem["loc"]
    if problem["type"] == "extra_forbidden":
        return Complaint(path, True, "", _nearest_setting(model, path), "unknown-setting")
    reason, hint = _in_words(problem)
    name = path[-1] if path else None
    if problem["type"] in _PARSING and isinstance(name, str) and name not in _KINDS:
        whole = problem["type"].startswith("int")
        hint = accepted(name, str(problem["input"]), whole=whole)
    first, *others = getattr(problem.get("ctx", {}).get("error"), "settings", ()) or ((),)
    related = tuple((*path, name) for name in others)
    path = (*path, first) if first else path
    return Complaint(path, False, reason + _shown(problem), hint, code_of(problem), related)


def code_of(problem: ErrorDetails) -> str:
    """Return the code of one of pydantic's errors, or that of the validator which raised it."""
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, (InvalidValue, V6tError)):
        return cause.code
    kind = problem["type"]
    if kind in _BOUNDS and isinstance(problem["input"], bool):
        return "not-a-number"
    return _CODES.get(kind, "invalid-value")


def _shown(problem: ErrorDetails) -> str:
    value = problem["input"]
    if isinstance(value, bool):
        return f", not {str(value).lower()}"
    if problem["type"].startswith("ip_") and isinstance(value, (int, float)):
        return f", not the number {value}"
    if isinstance(value, Mapping) or problem["type"] == "missing":
        return ""
    return f" ({'nothing' if value is None else f'{value!r:.80}'} given)"


def _in_words(problem: ErrorDetails) -> tuple[str, str]:
    kind = problem["type"]
    context: dict[str, Any] = problem.get("ctx", {})
    if kind in _BOUNDS and isinstance(problem["input"], bool):
        return _NUMBER
    if kind in _BOUNDS:
        text, bound = _BOUNDS[kind]
        return text.format(_number(context[bound])), ""
    if kind == "literal_error":
        known = re.findall(r"'([^']*)'", str(context["expected"]))
        return f"must be {context['expected']}", meant(str(problem["input"]), known)
    if kind.startswith("ip_") and isinstance(problem["input"], (int, float)):
        return "must be an address", _WORDS[kind][1]
    if kind in ("value_error", "assertion_error"):
        return str(context["error"]) or "is invalid", getattr(context["error"], "hint", "")
    return _WORDS.get(kind, (problem["msg"], ""))


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _model_in(annotation: Any) -> Any:
    """Return the model that an annotation names, or whose sequence it names."""
    for inner in get_args(annotation):
        if hasattr(inner, "model_fields"):
            return inner
    return annotation


def _nearest_setting(model: type[BaseModel], path: tuple[str | int, ...]) -> str:
    """Known names beside the unknown one."""
    inner: Any = model
    for part in path[:-1]:
        known = _fields(inner).get(str(part))
        inner = _model_in(known.annotation) if known else inner
    names = list(_fields(inner))
    return nearest(str(path[-1]), names) if names else ""


def _fields(model: Any) -> dict[str, Any]:
    return dict(model.model_fields) if hasattr(model, "model_fields") else {}
