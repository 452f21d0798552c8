"""Complaints about settings: one sentence, the place in the file, the nearest known name."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ValidationError
from v6t.core.yamlfile import Document
from v6t.profiles.errors import UsageError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


def listed(
    document: Document | None,
    name: str,
    flagged: Sequence[str],
    given: Sequence[str] | None,
    default: Sequence[str],
    known: Sequence[str],
) -> tuple[str, ...]:
    """A list of known names from flag, file or default; ``name`` is the file's key for it."""
    with within(None if flagged else document, (name,)):
        return among(known, flagged or given or default, name.removesuffix("s"))


def among(known: Sequence[str], given: Sequence[str], what: str) -> tuple[str, ...]:
    """The given names, if they are known and none is there twice.

    Raises:
        UsageError: with the nearest known name.
    """
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            raise UsageError(
                f"there is no {what} '{name}'",
                f"did you mean '{near[0]}'?" if near else "known: " + ", ".join(known),
            )
    if len(set(given)) != len(given):
        raise UsageError(f"a {what} is given twice")
    return tuple(given)


def validated(
    model: type[BaseModel],
    data: Mapping[str, Any],
    document: Document | None,
    above: tuple[str, ...] = (),
    flagged: Collection[str] = (),
) -> Any:
    """Validate; the first complaint becomes one sentence with its place.

    Args:
        model: what the data should be.
        data: from files and flags.
        document: the file, None if there is none.
        above: where in the file the data stand.
        flagged: names in the data that flags gave: they stand in no file.
    """
    try:
        return model.model_validate(data)
    except ValidationError as exc:
        problems = exc.errors(include_url=False)
        # a misspelt name often leaves another one missing
        problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
        from_flag = str(problem["loc"][0]) in flagged if problem["loc"] else False
        place = "" if from_flag else place_of(document, (*above, *problem["loc"]))
        name = ".".join(str(part) for part in (*above, *problem["loc"]))
        if problem["type"] == "extra_forbidden":
            raise UsageError(f"{place}unknown setting '{name}'", _near(model, problem)) from exc
        reason = problem["msg"].removeprefix("Value error, ")
        value = problem["input"]
        shown = "" if isinstance(value, Mapping) else f" ({value!r:.80} given)"
        raise UsageError(f"{place}{name or model.__name__}: {reason}{shown}") from exc


def place_of(document: Document | None, keys: Sequence[Any]) -> str:
    """``file:line: `` of a setting; empty where there is no file."""
    return "" if document is None else document.where(keys) + ": "


@contextmanager
def within(document: Document | None, keys: Sequence[Any]) -> Iterator[None]:
    """Errors from inside say where their cause stands, unless they do so already."""
    try:
        yield
    except UsageError as exc:
        if document is None or exc.message.startswith(str(document.path)):
            raise
        raise UsageError(place_of(document, keys) + exc.message, exc.hint) from exc


def _model_in(annotation: Any) -> Any:
    """The model an annotation is, or is a sequence of."""
    for inner in get_args(annotation):
        if hasattr(inner, "model_fields"):
            return inner
    return annotation


def _near(model: type[BaseModel], problem: ErrorDetails) -> str:
    """Known names beside the unknown one."""
    inner: Any = model
    for part in problem["loc"][:-1]:
        known = getattr(inner, "model_fields", {}).get(str(part))
        inner = _model_in(known.annotation) if known else inner
    names = list(getattr(inner, "model_fields", {}))
    near = difflib.get_close_matches(str(problem["loc"][-1]), names, 1)
    if near:
        return f"did you mean '{near[0]}'?"
    return "known: " + ", ".join(names) if names else ""
