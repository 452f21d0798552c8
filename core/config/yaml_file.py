"""Settings as nested values: YAML files with line numbers, assignments of flags, errors with their place."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.base.errors import EnvironmentLacking, UsageError
from v6t.base.files import SETTINGS_OCTETS, explain_read_error, read_text
from v6t.base.text import is_encodable, suggest_names
from v6t.base.validation import describe_problem

if TYPE_CHECKING:
    from pydantic import BaseModel

EXAMPLES = Path(__file__).parent / "examples"
MAX_DEPTH = 50
MAX_BITS = 256
"""Of a whole number: twice an IPv6 address."""


class YamlFile:
    """A mapping read from a YAML 1.2 file.

    Attributes:
        path: the file.
        data: its values as plain Python objects.
    """

    def __init__(self, path: Path, text: str | None = None) -> None:
        """Parse a text, by default that of the file."""
        self.path = path
        if text is None:
            try:
                text = read_text(path, SETTINGS_OCTETS)
            except OSError as exc:
                raise explain_read_error(path, exc) from exc
        self._tree = _load_tree(path, text)
        if self._tree is None:
            raise UsageError(f"{path} is empty", "`v6t init` writes an example", code="empty-file")
        if not isinstance(self._tree, Mapping):
            raise UsageError(
                f"{path} does not contain settings of the form NAME: VALUE",
                "`v6t init` writes an example",
                code="not-a-section",
            )
        try:
            self.data: dict[str, Any] = _to_plain(self._tree)
        except UsageError as exc:
            location = self.format_location(exc.path)
            raise UsageError(location + exc.message, path=exc.path, code=exc.code) from exc
        except RecursionError as exc:
            problem = f"{path}: an alias refers to its own anchor"
            raise UsageError(problem, code="invalid-yaml") from exc

    def format_location(self, keys: Sequence[Any]) -> str:
        """Return ``file:line: `` of the value at a path of keys, or of its nearest parent."""
        node: Any = self._tree
        line = ""
        for key in keys:
            try:
                mark = node.lc
                position = mark.key(key) if isinstance(node, Mapping) else mark.item(key)
                line = f":{position[0] + 1}"
                node = node[key]
            except (KeyError, IndexError, TypeError, AttributeError):
                break
        return f"{self.path}{line}: "


def _load_tree(path: Path, text: str) -> Any:
    from ruamel.yaml.error import MarkedYAMLError
    from ruamel.yaml.reader import ReaderError

    try:
        return _make_parser("rt").load(text)
    except UsageError as exc:
        raise UsageError(f"{path}:{exc.path[0]}: {exc.message}", exc.hint, code=exc.code) from exc
    except MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = f":{mark.line + 1}" if mark else ""
        raise UsageError(
            f"{path}{where}: invalid YAML: {(exc.problem or 'unknown problem').strip()}",
            "write NAME: VALUE, and indent sections with spaces",
            code="invalid-yaml",
        ) from exc
    except ReaderError as exc:
        line = text.count("\n", 0, exc.position) + 1
        problem = f"{path}:{line}: the character U+{exc.character:04X} is not allowed"
        raise UsageError(problem, "delete the character", code="not-text") from exc
    except Exception as exc:  # the parser fails in many ways on odd scalars
        reason = (str(exc).strip() or type(exc).__name__).splitlines()[0]
        raise UsageError(f"{path}: {reason}", code="invalid-yaml") from exc


def _make_parser(kind: str) -> Any:
    """Make a YAML parser that rejects deep nesting, duplicate names and names that are not scalars.

    The path of its errors is the line. The time of ruamel.yaml's constructor doubles with each level of a
    mapping used as a name.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.composer import Composer
    from ruamel.yaml.nodes import MappingNode, ScalarNode

    class SettingsComposer(Composer):
        """Composer of plain settings."""

        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            line = self.parser.peek_event().start_mark.line + 1
            if self.depth > MAX_DEPTH:
                problem = f"more than {MAX_DEPTH} levels of nesting"
                raise UsageError(problem, path=(line,), code="invalid-yaml")
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            names = set[str]()
            for name, _ in node.value if isinstance(node, MappingNode) else ():
                line = name.start_mark.line + 1
                if not isinstance(name, ScalarNode):
                    problem = "a list or section cannot be a name"
                    raise UsageError(problem, path=(line,), code="invalid-yaml")
                if name.value in names:
                    problem, hint = f"'{name.value:.80}' is set twice", "delete one of them"
                    raise UsageError(problem, hint, path=(line,), code="duplicate")
                names.add(name.value)
            return node

    parser = YAML(typ=kind, pure=True)
    parser.Composer = SettingsComposer
    return parser


def _to_plain(node: Any, *keys: str | int) -> Any:
    """Return mappings, sequences and scalars without the parser's own types."""
    if isinstance(node, Mapping):
        return {_check_text(str(k), keys): _to_plain(v, *keys, k) for k, v in node.items()}
    if isinstance(node, (list, tuple, set)):
        return [_to_plain(v, *keys, n) for n, v in enumerate(node)]
    if isinstance(node, bool) or node is None:
        return node
    if isinstance(node, int) and node.bit_length() > MAX_BITS:
        raise UsageError(f"a number has more than {MAX_BITS} bits", path=keys, code="out-of-range")
    for kind in (int, float):
        if isinstance(node, kind):
            return kind(node)
    return _check_text(str(node), keys)


def _check_text(text: str, keys: tuple[str | int, ...]) -> str:
    if not is_encodable(text):
        raise UsageError("the text contains an unpaired surrogate", path=keys, code="not-text")
    return text


def to_yaml(values: Mapping[str, Any]) -> str:
    """Return settings as YAML with one setting on each line."""
    yaml = _make_parser("safe")
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False
    out = io.StringIO()
    yaml.dump(dict(values), out)
    return out.getvalue()


def parse_assignments(texts: Mapping[str, str]) -> dict[str, Any]:
    """Parse ``--set`` assignments into nested settings; ``[`` and ``{`` begin YAML values."""
    out: dict[str, Any] = {}
    for name, text in texts.items():
        value = _parse_value(name, text) if text.startswith(("[", "{")) else text
        if (part := set_value(out, name, value)) is not None:
            problem = f"--set {name}: '{part}' is given as a whole already"
            raise UsageError(problem, code="duplicate")
    return out


def set_value(values: dict[str, Any], name: str, value: Any) -> str | None:
    """Set ``a.b.c`` in nested settings; return the first part that is not a section."""
    *path, last = name.split(".")
    section = values
    for part in path:
        section = section.setdefault(part, {})
        if not isinstance(section, dict):
            return part
    section[last] = value
    return None


def _parse_value(name: str, text: str) -> Any:
    problem = "is not a valid YAML value"
    try:
        return _to_plain(_make_parser("safe").load(text))
    except Exception as exc:  # the parser fails in many ways on odd scalars
        if isinstance(exc, UsageError):
            problem = f"cannot be used: {exc.message}"
        raise UsageError(f"--set {name}: '{text:.80}' {problem}", code="invalid-yaml") from exc


def deep_merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``below`` updated by ``above``, section by section."""
    merged = dict(below)
    for name, value in above.items():
        under = merged.get(name)
        both = isinstance(value, Mapping) and isinstance(under, Mapping)
        merged[name] = deep_merge(under, value) if both else value
    return merged


Keys = Sequence[str | int]


@dataclass
class Source:
    """Settings file with the flags that override it.

    Attributes:
        document: the file, or None.
        flagged: values of the flags, nested as in the file.
    """

    document: YamlFile | None = None
    flagged: dict[str, Any] = field(default_factory=dict)

    def format_location(self, keys: Keys) -> str:
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
        return "" if self.document is None else self.document.format_location(keys)


Origin = YamlFile | Source | None


def check_names(
    names: Sequence[str], known: Sequence[str], noun: str, path: Keys = ()
) -> tuple[str, ...]:
    """Return the names; refuse unknown and duplicate ones."""
    for number, name in enumerate(names):
        check_name(name, known, noun, (*path, number))
        if name in names[:number]:
            raise UsageError(f"the {noun} '{name}' is given twice", path=path, code="duplicate")
    return tuple(names)


def check_name(name: str, known: Sequence[str], noun: str, path: Keys = ()) -> str:
    """Return the name; refuse an unknown one."""
    if name not in known:
        raise UsageError(
            f"unknown {noun} '{name}'", suggest_names(name, known), path=path, code="unknown-name"
        )
    return name


def validate(
    model: type[BaseModel], data: Mapping[str, Any], origin: Origin = None, above: Keys = ()
) -> Any:
    """Validate settings."""
    from pydantic import ValidationError

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
    examples = sorted(EXAMPLES.glob("*.yaml"))
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
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as out:
                created.append(path)
                out.write(text)
    except OSError as exc:
        for written in created:
            written.unlink(missing_ok=True)
        problem = f"cannot write {path}: {exc.strerror}"
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "free space on the disk, or choose another directory with --dir"
            raise EnvironmentLacking(problem, hint, code="disk-full") from exc
        raise UsageError(problem, code="file-unwritable") from exc
    return list(texts)
