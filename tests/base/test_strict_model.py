"""Descriptions of a model's fields: docstrings, comments, inherited or explicit ones."""

from pydantic import Field, create_model
from v6t.base.strict_model import StrictModel, describe_fields


class Parent(StrictModel):
    """Settings."""

    inline: int = 1  #: in a comment
    changed: int = 1
    """in the parent"""
    silent: int = 1


class Child(Parent):
    """More settings."""

    changed: int = 2
    """in
    the child"""
    explicit: int = Field(3, description="outright")
    """not this"""
    aliased: int = Field(4, alias="another")
    """has another name in files"""


WORDS = {
    "inline": "in a comment", "changed": "in\nthe child", "silent": "", "explicit": "outright",
    "aliased": "has another name in files",
}  # fmt: skip


def test_description_is_that_of_the_last_definition():
    assert describe_fields(Child) == WORDS
    assert describe_fields(Parent)["changed"] == "in the parent"


def test_schema_has_descriptions():
    schema = Child.model_json_schema()["properties"]
    descriptions = {name: known.get("description", "") for name, known in schema.items()}
    assert descriptions == {"another" if k == "aliased" else k: v for k, v in WORDS.items()}


def test_created_model_inherits_descriptions():
    model = create_model("Made", __base__=Parent, more=(int, Field(5, description="more")))
    assert describe_fields(model) == {**describe_fields(Parent), "more": "more"}


def test_text_none_of_an_optional_setting_is_no_value():
    model = create_model("Optional", __base__=StrictModel, limit=(int | None, 5), word=(str, ""))
    settings = model(limit="none", word="none")
    assert (settings.limit, settings.word) == (None, "none")
