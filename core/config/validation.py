"""Complaints about settings: one sentence, the place in the file, the nearest known name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel, ValidationError
from v6t.core.config.plaintypes import mistyped
from v6t.core.config.yaml_document import Document
from v6t.profiles.complaints import in_words, nearest_setting
from v6t.profiles.errors import UsageError

_QUOTED = re.compile(r"'([^']+)'")


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
        if not flagged:
            refuse_empty(name, given, known)
        return among(known, flagged or given or default, name.removesuffix("s"))


def refuse_empty(name: str, given: Sequence[Any] | None, known: Sequence[str] = ()) -> None:
    """An empty list in a file is no wish for the default.

    Raises:
        UsageError: it is empty.
    """
    if given is not None and not given:
        raise UsageError(
            f"{name} is an empty list: nothing would be measured",
            "leave it out for the default"
            + (f", or name some of {', '.join(known)}" if known else ""),
        )


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
    refuse_mistyped(model, data, document, above, flagged)
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
            raise UsageError(
                f"{place}unknown setting '{name}'", nearest_setting(model, problem)
            ) from exc
        reason, hint = in_words(problem)
        value = problem["input"]
        given = "nothing" if value is None else f"{value!r:.80}"
        shown = "" if isinstance(value, Mapping) else f" ({given} given)"
        raise UsageError(f"{place}{name or model.__name__}: {reason}{shown}", hint) from exc


def refuse_mistyped(
    model: type[BaseModel],
    data: Mapping[str, Any],
    document: Document | None,
    above: tuple[str, ...] = (),
    flagged: Collection[str] = (),
) -> None:
    """Refuse what validation would silently take for something else; see :func:`validated`."""
    for keys, reason, hint in mistyped(model, data):
        place = "" if str(keys[0]) in flagged else place_of(document, (*above, *keys))
        raise UsageError(f"{place}{'.'.join(map(str, (*above, *keys)))}: {reason}", hint)


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
        place = place_of(document, _narrowed(document, keys, exc.message))
        raise UsageError(place + exc.message, exc.hint) from exc


def _narrowed(document: Document, keys: Sequence[Any], message: str) -> Sequence[Any]:
    """The one place below ``keys`` whose value the message quotes, if there is just one."""
    quoted = set(_QUOTED.findall(message))
    section: Any = document.data
    for key in keys:
        try:
            section = section[key]
        except (KeyError, IndexError, TypeError):
            return keys
    found = [below for below, value in _scalars(section) if str(value) in quoted]
    return (*keys, *found[0]) if len(found) == 1 else keys


def _scalars(node: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Values below a node with the way to each."""
    inner: Any = ()
    if isinstance(node, Mapping):
        inner = node.items()
    elif isinstance(node, list):
        inner = enumerate(node)
    else:
        yield (), node
    for key, value in inner:
        for below, found in _scalars(value):
            yield (key, *below), found
