"""The base class of all settings, which takes values as written or rejects them.

Text may stand for a number or a truth value, since flags and quoted values are text; pydantic's strict
mode would reject it. Its lax mode also accepts ``true`` as the number 1 and the number 12 as 0.0.0.12,
which is rejected here.
"""

import ast
import inspect
import ipaddress
import re
import sys
import textwrap
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError
from v6t.base.errors import InvalidValue
from v6t.base.quantities import convert_quantity

Value = TypeVar("Value")

_ERROR_TYPES: dict[type, str] = {
    int: "int_type",
    float: "float_type",
    **{
        getattr(ipaddress, f"IPv{version}{kind}"): f"ip_v{version}_{kind.lower()}"
        for version in (4, 6)
        for kind in ("Address", "Interface", "Network")
    },
}
"""Pydantic's error types by the type of the value that validation made."""


class DescribedModel(BaseModel):
    """A model whose JSON schema has the descriptions of its fields."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in describe_fields(cls).items():
            known = properties.get(cls.model_fields[name].alias or name)
            if text and known is not None:
                known.setdefault("description", text)
        return schema


class StrictModel(DescribedModel):
    """An immutable model that rejects unknown names, infinite numbers and values of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    @field_validator("*", mode="wrap")
    @classmethod
    def _keep_type(
        cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        """Validate a field; convert units, and refuse values of another type."""
        kinds, default = _inspect_field(cls, info.field_name or "")
        if isinstance(value, str) and value == "none" and type(None) in kinds:
            value = None  # as defaults are printed
        if isinstance(value, str) and kinds & {int, float} and kinds <= {int, float, type(None)}:
            value = convert_quantity(info.field_name or "", value)
        if isinstance(value, Mapping) and isinstance(default, StrictModel):
            # What the default leaves to its class depends on other values there (a fixed port
            # differs from the lowest of a range), so the class decides.
            explicit = default.model_fields_set - set(value)
            value = {**{name: getattr(default, name) for name in explicit}, **value}
        typed = handler(value)
        errors = [] if typed is value else _find_conversions(value, typed, ())
        if errors:
            raise ValidationError.from_exception_data(cls.__name__, errors)
        return refuse_zone(typed)


@cache
def _inspect_field(model: type[BaseModel], name: str) -> tuple[set[Any], Any]:
    """Return the types that a field accepts, and its default unless that depends on other fields."""
    field = model.model_fields[name]
    kinds = set(get_args(field.annotation)) or {field.annotation}
    if field.default_factory_takes_validated_data:
        return kinds, None
    return kinds, field.get_default(call_default_factory=True)


def _find_conversions(
    value: Any, typed: Any, path: tuple[int | str, ...]
) -> list[InitErrorDetails]:
    """Return an error for each value that validation converted to another type."""
    if isinstance(value, Mapping) and isinstance(typed, Mapping):
        pairs = [(key, value[key], typed[key]) for key in value if key in typed]
    elif isinstance(value, list) and isinstance(typed, (list, tuple)):
        pairs = [(n, each, kept) for n, (each, kept) in enumerate(zip(value, typed, strict=False))]
    else:
        kind = _ERROR_TYPES.get(type(typed))
        is_number = type(value) in (int, float)
        is_kept = is_number and isinstance(typed, (int, float))
        if kind is None or is_kept or not (is_number or isinstance(value, bool)):
            return []
        # pyrefly: ignore [bad-argument-type] -- the kind need not be a literal
        error = PydanticCustomError(kind, "wrong type")
        return [InitErrorDetails(type=error, loc=path, input=value)]
    return [error for key, a, b in pairs for error in _find_conversions(a, b, (*path, key))]


def refuse_zone(value: Value) -> Value:
    """Return a value, or raise InvalidValue if an address in it has a zone identifier (RFC 4007).

    A zone names an interface of one machine: it means nothing on the device and is not part of a
    frame.
    """
    if isinstance(value, (Mapping, list, tuple)):
        for each in value.values() if isinstance(value, Mapping) else value:
            refuse_zone(each)
    address = value.network_address if isinstance(value, ipaddress.IPv6Network) else value
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        raise InvalidValue(
            f"{value} has a zone identifier, which is valid on one machine only; "
            f"delete %{address.scope_id}",
            code="not-an-address",
        )
    return value


def describe_fields(model: type[BaseModel]) -> dict[str, str]:
    """Return the description of each field, or the text below or after it; may be empty.

    Pydantic's ``use_attribute_docstrings`` would parse the sources of all models at each start.
    """
    texts: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if names := model.model_fields.keys() & inspect.get_annotations(owner).keys():
            texts |= dict.fromkeys(names, "") | parse_docstrings(owner)
    return {name: field.description or texts[name] for name, field in model.model_fields.items()}


@cache
def parse_docstrings(model: type) -> dict[str, str]:
    """Return the string below each field in the source of a class, or the text after ``#:``."""
    definition, source = _list_definitions(model.__module__).get(model.__qualname__, (None, ""))
    pairs = pairwise(definition.body if definition else ())
    return dict(re.findall(r"^    (\w+): .*  #: (.*)$", source, re.MULTILINE)) | {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairs
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(below.value.value, str)
    }


@cache
def _list_definitions(module: str) -> dict[str, tuple[ast.ClassDef, str]]:
    """Return the definition and the source of each class of a module, by its qualified name."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):  # models that were made at run time have no source
        return {}
    lines, found = source.splitlines(keepends=True), {}

    def add_classes(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                text = textwrap.dedent("".join(lines[child.lineno - 1 : child.end_lineno]))
                found.setdefault(prefix + child.name, (child, text))
                add_classes(child, f"{prefix}{child.name}.")
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                add_classes(child, f"{prefix}{child.name}.<locals>.")
            elif isinstance(child, ast.stmt):
                add_classes(child, prefix)

    add_classes(ast.parse(source), "")
    return found
