"""Errors in settings: one sentence, the place in the file, the nearest known name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError
from v6t.base.errors import UsageError
from v6t.base.text import suggest_names
from v6t.base.validation import describe_problem
from v6t.core.config.yaml_file import YamlFile

Keys = Sequence[str | int]


@dataclass
class Source:
    """A file of settings with the flags that win over it.

    Attributes:
        document: the file, or None.
        flagged: values of the flags, nested as in the file.
    """

    document: YamlFile | None = None
    flagged: dict[str, Any] = field(default_factory=dict)

    def place(self, keys: Keys) -> str:
        """Return ``file:line: `` of a setting; empty if a flag gives it, or no file does."""
        values: Any = self.flagged
        for key in keys:
            if not isinstance(values, Mapping):
                return ""
            if key not in values:
                break
            values = values[key]
        else:
            if keys:
                return ""
        return "" if self.document is None else self.document.place(keys)


Origin = YamlFile | Source | None


def check_names(
    names: Sequence[str], known: Sequence[str], noun: str, path: Keys = ()
) -> tuple[str, ...]:
    """Return names that are known and different."""
    for number, name in enumerate(names):
        check_name(name, known, noun, (*path, number))
        if name in names[:number]:
            raise UsageError(f"the {noun} '{name}' is given twice", path=path, code="duplicate")
    return tuple(names)


def check_name(name: str, known: Sequence[str], noun: str, path: Keys = ()) -> str:
    """Return a name if it is known."""
    if name not in known:
        raise UsageError(
            f"unknown {noun} '{name}'", suggest_names(name, known), path=path, code="unknown-name"
        )
    return name


def validate(
    model: type[BaseModel], data: Mapping[str, Any], origin: Origin = None, above: Keys = ()
) -> Any:
    """Validate settings."""
    with locate_errors(origin, *above):
        try:
            return model.model_validate(data)
        except ValidationError as exc:
            problem = describe_problem(model, exc)
            name = problem.name_settings(*map(str, above))
            text = (
                f"unknown setting '{name}'"
                if problem.unknown
                else f"{name or model.__name__}: {problem.reason}"
            )
            raise UsageError(
                text, problem.hint, path=problem.path, related=problem.related, code=problem.code
            ) from exc


@contextmanager
def locate_errors(origin: Origin, *keys: str | int) -> Iterator[None]:
    """Add the place of a setting to errors that have none."""
    try:
        yield
    except UsageError as exc:
        if exc.located:
            raise
        exc.path = (*keys, *exc.path)
        exc.related = tuple((*keys, *other) for other in exc.related)
        place = origin.place(exc.path) if origin is not None else ""
        exc.message, exc.located = place + exc.message, bool(place)
        exc.args = (exc.message,)
        raise
