"""Options of devices and testers out of a testbed file or flags: one sentence for what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from v6t.profiles.complaints import in_words, nearest_setting
from v6t.profiles.errors import UsageError

Options = TypeVar("Options", bound=BaseModel)


def options_of(model: type[Options], name: str, noun: str, given: Mapping[str, Any]) -> Options:
    """Validate what a testbed file or a flag says.

    Args:
        model: of the options.
        name, noun: whose they are: ``nftables`` and ``driver``.
        given: by name.

    Raises:
        UsageError: naming the option.
    """
    try:
        return model.model_validate(dict(given))
    except ValidationError as exc:
        problem = exc.errors(include_url=False)[0]
        option = ".".join(str(p) for p in problem["loc"])
        if problem["type"] == "extra_forbidden":
            raise UsageError(
                f"the {name} {noun} has no option '{option}'", nearest_setting(model, problem)
            ) from exc
        reason, hint = in_words(problem)
        place = f"{name} option {option}" if option else f"{name} {noun}"
        value = problem["input"]
        shown = "" if isinstance(value, Mapping) else f" ({value!r:.80} given)"
        raise UsageError(f"{place}: {reason}{shown}", hint) from exc
