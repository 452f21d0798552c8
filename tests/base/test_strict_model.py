"""The words of a model's fields: below or after the field, above it in the family, or said outright."""

from __future__ import annotations

from pydantic import Field, create_model
from v6t.base.strict_model import StrictModel, describe_fields


class Above(StrictModel):
    """Settings."""

    kept: int = 1  #: stays as it is
    changed: int = 1
    """in the parent"""
    silent: int = 1


class Below(Above):
    """More of them."""

    changed: int = 2
    """in
    the child"""
    said: int = Field(3, description="outright")
    """not this"""
    other: int = Field(4, alias="another")
    """has another name in files"""


WORDS = {
    "kept": "stays as it is",
    "changed": "in\nthe child",
    "silent": "",
    "said": "outright",
    "other": "has another name in files",
}


def test_description_is_that_of_the_last_definition():
    assert describe_fields(Below) == WORDS
    assert describe_fields(Above)["changed"] == "in the parent"


def test_schema_has_descriptions():
    schema = Below.model_json_schema()["properties"]
    descriptions = {name: known.get("description", "") for name, known in schema.items()}
    assert descriptions == {"another" if k == "other" else k: v for k, v in WORDS.items()}


def test_created_model_inherits_descriptions():
    made = create_model("Made", __base__=Above, more=(int, Field(5, description="more")))
    assert describe_fields(made) == {**describe_fields(Above), "more": "more"}
