"""What a model's fields are, in words: the string below each in its class, read when it is asked for.

pydantic would read the sources of all models whenever v6t starts, a quarter of its time.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic_core import CoreSchema


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


def _below(model: type, name: str) -> str:
    """The string below a field in the class that says what it is, the model or one above it."""
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
