"""The base class of all settings; it takes values as written, or rejects them.

Fields are described by the string below each in its class, read when a description is needed: pydantic
would read the sources of all models at each start.

Text may stand for a number or a truth value, since flags and quoted values are text. What pydantic's
lax mode accepts beyond that changes the meaning: ``true`` as the number 1, the number 12 as 0.0.0.12.
Its strict mode would refuse text as well.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from itertools import pairwise
from typing import Any, get_args

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
from v6t.base.quantities import in_unit_of
from v6t.base.zones import refuse_zone

_ADDRESSES: dict[type, str] = {
    IPv4Address: "ip_v4_address",
    IPv4Interface: "ip_v4_interface",
    IPv4Network: "ip_v4_network",
    IPv6Address: "ip_v6_address",
    IPv6Interface: "ip_v6_interface",
    IPv6Network: "ip_v6_network",
}
"""pydantic's names for what is wrong with each."""


def descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Words for each field of a model, ``Field(description=...)`` first; empty where there are none."""
    return {
        name: field.description or _below(model, name) for name, field in model.model_fields.items()
    }


class Described(BaseModel):
    """A model whose JSON schema has the words of its fields."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> dict[str, Any]:
        """See pydantic."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in descriptions(cls).items():
            known = properties.get(cls.model_fields[name].alias or name)
            if text and known is not None:
                known.setdefault("description", text)
        return schema


class StrictModel(Described):
    """Unknown names and infinite numbers are errors; neither values nor their types ever change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    @field_validator("*", mode="wrap")
    @classmethod
    def _as_written(
        cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        if isinstance(value, str) and info.field_name and _is_number(cls, info.field_name):
            value = in_unit_of(info.field_name, value)
        if isinstance(value, Mapping) and info.field_name:
            value = _complete(value, _default_model(cls, info.field_name))
        typed = handler(value)
        wrong = [] if typed is value else list(_retyped(value, typed, ()))
        if wrong:
            raise ValidationError.from_exception_data(cls.__name__, wrong)
        return refuse_zone(typed)


@cache
def _is_number(model: type[BaseModel], name: str) -> bool:
    """Whether a field takes a number, and no other text."""
    annotation = model.model_fields[name].annotation
    kinds = set(get_args(annotation)) or {annotation}
    return bool(kinds & {int, float}) and kinds <= {int, float, type(None)}


@cache
def _default_model(model: type[BaseModel], name: str) -> StrictModel | None:
    """Return the default of a field if it is a model, or None."""
    field = model.model_fields[name]
    if field.default_factory_takes_validated_data:
        return None
    default = field.get_default(call_default_factory=True)
    return default if isinstance(default, StrictModel) else None


def _complete(value: Mapping[Any, Any], default: StrictModel | None) -> Mapping[Any, Any]:
    """Add the values that the default sets explicitly and the user leaves out.

    What the default leaves to its class depends on other values there (a fixed port differs from
    the lowest of a range), so the class decides.
    """
    if default is None:
        return value
    missing = default.model_fields_set - set(value)
    return {**{name: getattr(default, name) for name in missing}, **value} if missing else value


def _retyped(value: Any, typed: Any, path: tuple[int | str, ...]) -> list[InitErrorDetails]:
    """Find the values that validation converted to another type."""
    if isinstance(value, Mapping) and isinstance(typed, Mapping):
        return [e for k in value if k in typed for e in _retyped(value[k], typed[k], (*path, k))]
    if isinstance(value, list) and isinstance(typed, (list, tuple)):
        pairs = enumerate(zip(value, typed, strict=False))
        return [error for number, pair in pairs for error in _retyped(*pair, (*path, number))]
    if not isinstance(value, (bool, int, float)):
        return []
    kind = _ADDRESSES.get(type(typed))
    if isinstance(value, bool) and type(typed) in (int, float):
        kind = f"{type(typed).__name__}_type"
    if kind is None:
        return []
    # pyrefly: ignore [bad-argument-type] -- the kind need not be a literal
    wrong = PydanticCustomError(kind, "wrong type")
    return [InitErrorDetails(type=wrong, loc=path, input=value)]


def _below(model: type, name: str) -> str:
    """Return the docstring of a field from the class that defines it."""
    owner = next(c for c in model.__mro__ if name in inspect.get_annotations(c))
    return _strings(owner).get(name, "")


@cache
def _strings(model: type) -> Mapping[str, str]:
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    except (OSError, TypeError):  # made at run time: there is no source
        return {}
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairwise(
            definition.body if isinstance(definition, ast.ClassDef) else []
        )
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(below.value.value, str)
    }
