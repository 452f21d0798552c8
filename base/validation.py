"""Errors about settings from pydantic's: one problem with the path of the setting, a hint and a code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from v6t.base.errors import InvalidValue, UsageError, V6tError
from v6t.base.quantities import describe_quantity
from v6t.base.text import did_you_mean, suggest_names

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

Path = tuple[str | int, ...]

# fmt: off
_PROBLEM_GROUPS: tuple[tuple[str, str, str, str], ...] = (
    ("list_type tuple_type", "not-a-list", "must be a list", "write it in brackets: [one, another]"),
    ("dict_type model_type model_attributes_type", "not-a-section",
     "must be a section of named settings", "write NAME: VALUE in indented lines below it"),
    ("int_type int_parsing int_from_float", "not-a-number", "must be a whole number", ""),
    ("float_type float_parsing", "not-a-number", "must be a number", ""),
    ("finite_number", "not-a-number", "must be a finite number", ""),
    ("bool_type bool_parsing", "not-a-boolean", "must be true or false", ""),
    ("string_type", "not-text", "must be text", "put it in quotes"),
    ("missing", "missing-setting", "is missing", ""),
    ("multiple_of", "out-of-range", "", ""),
    ("too_short", "wrong-length", "has too few values", ""),
    ("too_long string_too_short string_too_long", "wrong-length", "", ""),
    ("string_pattern_mismatch", "wrong-form", "", ""),
    ("literal_error", "unknown-name", "", ""),
    ("extra_forbidden", "unknown-setting", "", ""),
    *((f"ip_v{version}_{kind}", code, f"must be an IPv{version} {noun}", f"write for example {example}")
      for kind, noun, code, examples in (
          ("address", "address", "not-an-address", ("192.0.2.1", "2001:db8::1")),
          ("interface", "address with prefix length", "not-an-address",
           ("192.0.2.1/24", "2001:db8::1/64")),
          ("network", "prefix", "not-a-prefix", ("192.0.2.0/24", "2001:db8::/32")))
      for version, example in zip((4, 6), examples, strict=True)),
)
# fmt: on
_PROBLEMS = {kind: problem for kinds, *problem in _PROBLEM_GROUPS for kind in kinds.split()}
"""Code, problem and hint by type of pydantic's error; without a problem, pydantic's own message."""
_BOUND_TEXTS = {
    "greater_than": ("must be above {}", "gt"),
    "greater_than_equal": ("must be at least {}", "ge"),
    "less_than": ("must be below {}", "lt"),
    "less_than_equal": ("must be at most {}", "le"),
}


def make_setting_error(
    model: type[BaseModel],
    exc: ValidationError,
    above: Sequence[str | int] = (),
    *,
    unknown: str = "unknown setting '{}'",
    known: str = "{}",
    whole: str = "",
) -> UsageError:
    """Return the error for the first of the values that a model rejected.

    Args:
        above: keys above the values, which the message names.
        unknown, known: how the message names a setting that does not exist, and one that does.
        whole: name of the values as a whole; by default, that of the model.
    """
    problems = exc.errors(include_url=False)
    # a misspelt name often leaves another one missing
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    path: Path = problem["loc"]
    code, reason, hint = _explain(problem)
    last = path[-1] if path else None
    # where a number is one of several types, the path ends with the type, and units are not allowed
    of_number = problem["type"] in ("int_parsing", "float_parsing")
    if of_number and isinstance(last, str) and last not in ("int", "float"):
        hint = describe_quantity(last, str(problem["input"]))
    first, *others = getattr(problem.get("ctx", {}).get("error"), "settings", ()) or ((),)
    related = tuple((*path, other) for other in others)
    path = (*path, first) if first else path
    name = " and ".join(".".join(map(str, (*above, *each))) for each in (path, *related))
    subject = known.format(name) if name else whole or model.__name__
    message = f"{subject}: {reason}{_show_value(problem)}"
    if problem["type"] == "extra_forbidden":
        message, hint = unknown.format(name), _suggest_setting(model, path)
    return UsageError(message, hint, path=path, related=related, code=code)


def _explain(problem: ErrorDetails) -> tuple[str, str, str]:
    """Return code, problem and hint of one of pydantic's errors."""
    kind, value = problem["type"], problem["input"]
    context: dict[str, Any] = problem.get("ctx", {})
    cause = context.get("error")
    if isinstance(cause, Exception):
        code = cause.code if isinstance(cause, (InvalidValue, V6tError)) else "invalid-value"
        return code, str(cause) or "is invalid", getattr(cause, "hint", "")
    if kind in _BOUND_TEXTS and isinstance(value, bool):
        kind = "float_type"
    if kind in _BOUND_TEXTS:
        text, bound = _BOUND_TEXTS[kind]
        form = "," if isinstance(context[bound], int) else "g"
        return "out-of-range", text.format(f"{context[bound]:{form}}"), ""
    code, reason, hint = _PROBLEMS.get(kind, ("invalid-value", "", ""))
    if kind == "literal_error":
        names = re.findall(r"'([^']*)'", str(context["expected"]))
        return code, f"must be {context['expected']}", did_you_mean(str(value), names)
    if kind.startswith("ip_") and isinstance(value, (int, float)):
        reason = "must be an address"
    return code, reason or problem["msg"], hint


def _show_value(problem: ErrorDetails) -> str:
    """Return the rejected value in brackets; empty if it does not help."""
    value = problem["input"]
    if isinstance(value, bool):
        return f", not {str(value).lower()}"
    if problem["type"].startswith("ip_") and isinstance(value, (int, float)):
        return f", not the number {value}"
    if isinstance(value, Mapping) or problem["type"] == "missing":
        return ""
    return f" ({'nothing' if value is None else f'{value!r:.80}'} given)"


def _suggest_setting(model: type[BaseModel], path: Path) -> str:
    """Return a hint that lists settings with names similar to an unknown one."""
    inner: Any = model
    for part in path[:-1]:
        if field := getattr(inner, "model_fields", {}).get(str(part)):
            models = (kind for kind in get_args(field.annotation) if hasattr(kind, "model_fields"))
            inner = next(models, field.annotation)
    names = list(getattr(inner, "model_fields", ()))
    return suggest_names(str(path[-1]), names) if names else ""
