"""Validation of the options of devices and testers, from a testbed file or from flags."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from v6t.base.validation import make_setting_error

Options = TypeVar("Options", bound=BaseModel)


def parse_options(model: type[Options], name: str, noun: str, values: Mapping[str, Any]) -> Options:
    """Validate the options of a device or tester; raise UsageError that names the wrong one."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as exc:
        raise make_setting_error(
            model,
            exc,
            unknown=f"the {name} {noun} has no option '{{}}'",
            known=f"{name} option {{}}",
            whole=f"{name} {noun}",
        ) from exc
