"""Validation of the options of devices and testers, from a testbed file or from flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from v6t.base.errors import UsageError
from v6t.base.validation import describe_problem

Options = TypeVar("Options", bound=BaseModel)


def parse_options(model: type[Options], name: str, noun: str, given: Mapping[str, Any]) -> Options:
    """Validate the options of a device or tester; raise UsageError that names the wrong one."""
    try:
        return model.model_validate(dict(given))
    except ValidationError as exc:
        wrong = describe_problem(model, exc)
        if wrong.unknown:
            text = f"the {name} {noun} has no option '{wrong.name_settings()}'"
        else:
            place = f"{name} option {wrong.name_settings()}" if wrong.path else f"{name} {noun}"
            text = f"{place}: {wrong.reason}"
        raise UsageError(
            text, wrong.hint, path=wrong.path, related=wrong.related, code=wrong.code
        ) from exc
