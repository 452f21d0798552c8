"""Settings as nested values: YAML files with line numbers, assignments of flags, located errors."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.base.errors import UsageError, V6tError
from v6t.base.files import SETTINGS_OCTETS, read_text, report_write_errors
from v6t.base.text import is_encodable, suggest_names
from v6t.base.validation import make_setting_error

if TYPE_CHECKING:
    from pydantic import BaseModel

EXAMPLES_DIR = Path(__file__).parent / "examples"  # directory of example files
MAX_VALUES = 200_000  # in a file after expansion of its aliases
MAX_BITS = 256  # of an integer: twice the length of an IPv6 address
_MERGE_TAG = "tag:yaml.org,2002:merge"
_TAGS = {  # tags of plain values; others would construct Python objects
    f"tag:yaml.org,2002:{kind}"
    for kind in ("map", "seq", "str", "int", "float", "bool", "null", "timestamp", "merge", "value")
}

KeyPath = tuple[str | int, ...]  # path to a value in nested settings


class YamlFile:
    """A mapping read from a YAML 1.2 file."""

    def __init__(self, path: Path, text: str | None = None) -> None:
        """Parse a text, by default that of the file."""
        self.path = path
        text = read_text(path, SETTINGS_OCTETS) if text is None else text
        self._lines: dict[KeyPath, int] = {}
        try:
            data = _parse_yaml(text, self._lines)
        except UsageError as exc:
            message = self.format_location(exc.path) + exc.message
            raise UsageError(message, exc.hint, path=exc.path, code=exc.code) from exc
        problem, code = "does not contain settings of the form NAME: VALUE", "not-a-section"
        if data is None:
            problem, code = "is empty", "empty-file"
        if not isinstance(data, dict):
            raise UsageError(f"{path} {problem}", "`v6t init` writes an example", code=code)
        self.data: dict[str, Any] = data  # plain Python objects

    def format_location(self, keys: Sequence[Any]) -> str:
        """Return ``file:line: `` of the value at a path of keys, or of its nearest parent."""
        parents = (tuple(keys[:length]) for length in range(len(keys), -1, -1))
        line = next((f":{self._lines[path]}" for path in parents if path in self._lines), "")
        return f"{self.path}{line}: "


def _parse_yaml(text: str, lines: dict[KeyPath, int]) -> Any:
    """Return the plain value of a YAML text, and add the line of each value to ``lines``.

    The path of an error is a key of ``lines``.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError
    from ruamel.yaml.reader import ReaderError

    yaml = YAML(typ="safe", pure=True)
    try:
        node = yaml.compose(text)
        return None if node is None else _Converter(yaml.constructor, lines).convert(node, ())
    except UsageError:
        raise
    except MarkedYAMLError as exc:
        if mark := exc.problem_mark or exc.context_mark:
            lines[()] = mark.line + 1
        problem = f"invalid YAML: {(exc.problem or 'unknown problem').strip()}"
        hint = "write NAME: VALUE, and indent sections with spaces"
        raise UsageError(problem, hint, code="invalid-yaml") from exc
    except ReaderError as exc:
        lines[()] = text.count("\n", 0, exc.position) + 1
        problem = f"the character U+{exc.character:04X} is not allowed"
        raise UsageError(problem, "delete the character", code="not-text") from exc
    except Exception as exc:  # invalid scalars raise various exceptions in the parser
        reason = (str(exc).strip() or type(exc).__name__).splitlines()[0]
        if isinstance(exc, RecursionError):
            reason = "it is nested too deeply"
        raise UsageError(reason, code="invalid-yaml") from exc


class _Converter:
    """Converter of YAML nodes to plain values that records their lines by path."""

    def __init__(self, constructor: Any, lines: dict[KeyPath, int]) -> None:
        self._constructor, self._lines = constructor, lines

    def convert(self, node: Any, path: KeyPath) -> Any:
        """Return the value of a node; reject too many values."""
        if len(self._lines) > MAX_VALUES:
            raise UsageError(f"more than {MAX_VALUES:,} values", path=path, code="invalid-yaml")
        if node.tag not in _TAGS:
            problem, hint = f"the tag {node.tag:.80} is not supported", "delete it"
            raise UsageError(problem, hint, path=path, code="invalid-yaml")
        if node.id == "mapping":
            return self._convert_mapping(node, path)
        if node.id == "sequence":
            places = [(*path, number) for number in range(len(node.value))]
            for place, item in zip(places, node.value, strict=True):
                self._lines[place] = item.start_mark.line + 1
            return [self.convert(*pair) for pair in zip(node.value, places, strict=True)]
        value = self._constructor.construct_object(node)
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            problem = f"a number has more than {MAX_BITS} bits"
            raise UsageError(problem, path=path, code="out-of-range")
        if value is None or isinstance(value, (bool, int, float)):
            return value
        return _check_text(node.value, path)

    def _convert_mapping(self, node: Any, path: KeyPath) -> dict[str, Any]:
        """Return the values of a mapping by name, including those of merge keys."""
        merged: dict[str, Any] = {}
        for _, value in (pair for pair in node.value if pair[0].tag == _MERGE_TAG):
            for each in value.value if value.id == "sequence" else [value]:
                merged = {**self.convert(each, path), **merged}
        values: dict[str, Any] = {}
        for key, value in (pair for pair in node.value if pair[0].tag != _MERGE_TAG):
            name = key.value if key.id == "scalar" else ""
            place = (*path, name)
            self._lines[place] = key.start_mark.line + 1
            if key.id != "scalar":
                problem = "a list or section cannot be a name"
                raise UsageError(problem, path=place, code="invalid-yaml")
            if _check_text(name, place) in values:
                problem, hint = f"'{name:.80}' is set twice", "delete one of them"
                raise UsageError(problem, hint, path=place, code="duplicate")
            values[name] = self.convert(value, place)
        return {**merged, **values}


def _check_text(text: str, path: KeyPath) -> str:
    """Return the text; reject one that cannot be written as UTF-8."""
    if not is_encodable(text):
        raise UsageError("the text contains an unpaired surrogate", path=path, code="not-text")
    return text


def to_yaml(values: Mapping[str, Any]) -> str:
    """Return settings as YAML with one setting on each line."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False
    out = io.StringIO()
    yaml.dump(dict(values), out)
    return out.getvalue()


def format_yaml(value: Any) -> str:
    """Return a value as YAML on one line."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case list() | tuple():
            return "[" + ", ".join(map(format_yaml, value)) + "]"
        case Mapping():
            return "{" + ", ".join(f"{k}: {format_yaml(v)}" for k, v in value.items()) + "}"
    return str(value) or '""'


def parse_assignments(assignments: Mapping[str, Any]) -> dict[str, Any]:
    """Return assignments by name as nested settings; ``[`` and ``{`` in texts begin YAML values."""
    out: dict[str, Any] = {}
    for name, given in sorted(assignments.items(), key=lambda item: item[0].count(".")):
        value = given  # sections come before the settings in them
        if isinstance(given, str) and given.startswith(("[", "{")):
            try:
                value = _parse_yaml(given, {})
            except UsageError as exc:
                problem = f"--set {name}: '{given:.80}' is not a valid value: {exc.message}"
                raise UsageError(problem, code="invalid-yaml") from exc
        if (part := set_value(out, name, value)) is not None:
            problem = f"--set {name}: '{part}' is given as a whole already"
            raise UsageError(problem, code="duplicate")
    return out


def set_value(values: dict[str, Any], name: str, value: Any) -> str | None:
    """Set ``a.b.c`` in nested settings; return None, or the part that is not a section."""
    *path, last = name.split(".")
    section = values
    for part in path:
        section = section.setdefault(part, {})
        if not isinstance(section, dict):
            return part
    section[last] = value
    return None


def deep_merge(defaults: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with some of them overridden, merged section by section."""
    merged = dict(defaults)
    for name, value in overrides.items():
        default = merged.get(name)
        both = isinstance(value, Mapping) and isinstance(default, Mapping)
        merged[name] = deep_merge(default, value) if both else value
    return merged


@dataclass
class SettingsSource:
    """Settings file and the flags that override it."""

    document: YamlFile | None = None
    flag_values: dict[str, Any] = field(default_factory=dict)  # nested as in the file

    def format_location(self, keys: KeyPath) -> str:
        """Return ``file:line: `` of a setting; empty if a flag gives it, or no file does."""
        values: Any = self.flag_values
        for key in keys:
            if not isinstance(values, Mapping):
                return ""
            if key not in values:
                break
            values = values[key]
        else:
            if keys:
                return ""
        return "" if self.document is None else self.document.format_location(keys)


Origin = YamlFile | SettingsSource | None  # where settings come from, to locate errors


def check_names(
    names: Sequence[str], known: Sequence[str], noun: str, path: KeyPath = ()
) -> tuple[str, ...]:
    """Return the names; reject unknown and duplicate ones."""
    for number, name in enumerate(names):
        check_name(name, known, noun, (*path, number))
        if name in names[:number]:
            raise UsageError(f"the {noun} '{name}' is given twice", path=path, code="duplicate")
    return tuple(names)


def check_name(name: str, known: Sequence[str], noun: str, path: KeyPath = ()) -> str:
    """Return the name if it is known; otherwise raise an error about this ``noun`` at ``path``."""
    if name not in known:
        problem, hint = f"unknown {noun} '{name}'", suggest_names(name, known)
        raise UsageError(problem, hint, path=path, code="unknown-name")
    return name


def validate(
    model: type[BaseModel], data: Mapping[str, Any], origin: Origin = None, prefix: KeyPath = ()
) -> Any:
    """Return settings as a validated model; errors name the file, the line and the setting."""
    from pydantic import ValidationError

    with locate_errors(origin, *prefix):
        try:
            return model.model_validate(data)
        except ValidationError as exc:
            raise make_setting_error(model, exc, prefix) from exc


@contextmanager
def locate_errors(origin: Origin, *keys: str | int) -> Iterator[None]:
    """Add the location of a setting to errors that have none."""
    try:
        yield
    except UsageError as exc:
        if exc.located:
            raise
        exc.path = (*keys, *exc.path)
        exc.related = tuple((*keys, *other) for other in exc.related)
        location = origin.format_location(exc.path) if origin is not None else ""
        exc.message, exc.located = location + exc.message, bool(location)
        exc.args = (exc.message,)
        raise


def write_examples(directory: Path) -> list[Path]:
    """Write an example of a run file and of a testbed file."""
    examples = sorted(EXAMPLES_DIR.glob("*.yaml"))
    return write_files({directory / path.name: read_text(path) for path in examples})


def write_files(texts: Mapping[Path, str]) -> list[Path]:
    """Write new files into one directory; write none if one of them exists."""
    for path in texts:
        if os.path.lexists(path):
            hint = "choose another directory with --dir"
            raise UsageError(f"{path} exists already", hint, code="file-exists")
    created: list[Path] = []
    try:
        for path, text in texts.items():
            with report_write_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("x", encoding="utf-8") as out:
                    created.append(path)
                    out.write(text)
    except V6tError:
        for written in created:
            written.unlink(missing_ok=True)
        raise
    return list(texts)
