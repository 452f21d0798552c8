"""Complaints about settings: one sentence, the place in the file, the nearest known name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel, ValidationError
from v6t.base.errors import UsageError
from v6t.base.text import suggest_names
from v6t.base.validation import describe_problem
from v6t.core.config.yaml_document import Document


def listed(
    document: Document | None,
    name: str,
    flagged: Sequence[str],
    values: Sequence[str] | None,
    default: Sequence[str],
    known: Sequence[str],
) -> tuple[str, ...]:
    """Return a list of known names from flag, file or default; ``name`` is the file's key for it."""
    with within(None if flagged else document, (name,)):
        if not flagged:
            refuse_empty(name, values, known)
        return among(known, flagged or values or default, name.removesuffix("s"))


def refuse_empty(name: str, values: Sequence[Any] | None, known: Sequence[str] = ()) -> None:
    """Reject an empty list in a file.

    Raises:
        UsageError: the list is empty.
    """
    if values is not None and not values:
        raise UsageError(
            f"{name} is an empty list",
            "leave it out for the default"
            + (f", or name some of {', '.join(known)}" if known else ""),
            code="wrong-length",
        )


def require_known(
    known: Sequence[str], name: str, what: str, path: Sequence[str | int] = ()
) -> str:
    """Return a name if it is known.

    Raises:
        UsageError: with the nearest known name.
    """
    if name not in known:
        raise UsageError(
            f"unknown {what} '{name}'",
            suggest_names(str(name), known),
            path=path,
            code="unknown-name",
        )
    return name


def among(known: Sequence[str], names: Sequence[str], what: str) -> tuple[str, ...]:
    """Return the given names, if they are known and none is there twice.

    Raises:
        UsageError: with the nearest known name.
    """
    for number, name in enumerate(names):
        require_known(known, name, what, (number,))
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"the {what} '{twice}' is given twice", code="duplicate")
    return tuple(names)


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
        wrong = describe_problem(model, exc)
        keys = (*above, *wrong.path)
        from_flag = bool(wrong.path) and wrong.path[0] in flagged
        place = "" if from_flag else place_of(document, keys)
        name = wrong.name_settings(*above)
        text = (
            f"unknown setting '{name}'"
            if wrong.unknown
            else f"{name or model.__name__}: {wrong.reason}"
        )
        raise UsageError(
            place + text,
            wrong.hint,
            path=keys,
            related=[(*above, *path) for path in wrong.related],
            located=bool(place),
            code=wrong.code,
        ) from exc


def error_at(
    document: Document | None, keys: Sequence[str | int], message: str, hint: str = "", *, code: str
) -> UsageError:
    """Make an error that names file, line and path of a setting."""
    place = place_of(document, keys)
    return UsageError(place + message, hint, path=keys, located=bool(place), code=code)


def place_of(document: Document | None, keys: Sequence[Any]) -> str:
    """``file:line: `` of a setting; empty where there is no file."""
    return "" if document is None else document.where(keys) + ": "


@contextmanager
def within(document: Document | None, keys: Sequence[Any]) -> Iterator[None]:
    """Errors from inside say where their cause stands, unless they do so already."""
    try:
        yield
    except UsageError as exc:
        if exc.located:
            raise
        path = (*keys, *exc.path)
        place = place_of(document, path)
        raise UsageError(
            place + exc.message,
            exc.hint,
            params=exc.params,
            dut_params=exc.dut_params,
            path=path,
            related=[(*keys, *other) for other in exc.related],
            located=bool(place),
            technology=exc.technology,
            code=exc.code,
        ) from exc
