"""What the validation of settings says with a programmer's words, said with a user's."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, get_args

from v6t.profiles.extensions import nearest

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

_LIST = ("a list is wanted", "write it in brackets: [one, another]")
_SECTION = ("names with values are wanted", "write them in lines below it, indented")
_WHOLE = ("a whole number is wanted", "")
_NUMBER = ("a number is wanted", "")
_WORDS: dict[str, tuple[str, str]] = {
    "string_type": ("text is wanted", "put it in quotes"),
    "list_type": _LIST,
    "tuple_type": _LIST,
    "dict_type": _SECTION,
    "model_type": _SECTION,
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": ("a finite number is wanted", ""),
    "bool_type": ("true or false is wanted", ""),
    "bool_parsing": ("true or false is wanted", ""),
    "missing": ("this is missing", ""),
    "ip_v4_address": ("this is no IPv4 address", "write for example 192.0.2.1"),
    "ip_v4_interface": ("this is no IPv4 address with its length", "write 192.0.2.1/24"),
    "ip_v4_network": ("this is no IPv4 prefix", "write for example 192.0.2.0/24"),
    "ip_v6_address": ("this is no IPv6 address", "write for example 2001:db8::1"),
    "ip_v6_interface": ("this is no IPv6 address with its length", "write 2001:db8::1/64"),
    "ip_v6_network": ("this is no IPv6 prefix", "write for example 2001:db8::/32"),
}
_BOUNDS = {
    "greater_than": ("it must be above {}", "gt"),
    "greater_than_equal": ("it must be at least {}", "ge"),
    "less_than": ("it must be below {}", "lt"),
    "less_than_equal": ("it must be at most {}", "le"),
}


def in_words(problem: ErrorDetails) -> tuple[str, str]:
    """What is wrong, and what to do, or nothing.

    Args:
        problem: one of pydantic's.
    """
    kind = problem["type"]
    context: dict[str, Any] = problem.get("ctx", {})
    if kind in _BOUNDS:
        text, bound = _BOUNDS[kind]
        return text.format(_number(context[bound])), ""
    if kind == "literal_error":
        known = re.findall(r"'([^']*)'", str(context["expected"]))
        near = difflib.get_close_matches(str(problem["input"]), known, 1)
        hint = f"did you mean '{near[0]}'?" if near else ""
        return f"{context['expected']} is wanted", hint
    return _WORDS.get(kind, (problem["msg"].removeprefix("Value error, "), ""))


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _model_in(annotation: Any) -> Any:
    """The model an annotation is, or is a sequence of."""
    for inner in get_args(annotation):
        if hasattr(inner, "model_fields"):
            return inner
    return annotation


def nearest_setting(model: type[BaseModel], problem: ErrorDetails) -> str:
    """Known names beside the unknown one."""
    inner: Any = model
    for part in problem["loc"][:-1]:
        known = _fields(inner).get(str(part))
        inner = _model_in(known.annotation) if known else inner
    names = list(_fields(inner))
    return nearest(str(problem["loc"][-1]), names) if names else ""


def _fields(model: Any) -> dict[str, Any]:
    return dict(model.model_fields) if hasattr(model, "model_fields") else {}
