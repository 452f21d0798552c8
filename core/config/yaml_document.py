"""YAML files with line numbers: what is wrong is said with the place where it stands."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from v6t.profiles.errors import UsageError

MAX_VALUES = 100_000
"""More settings than this no file needs."""


class Document:
    """A mapping read from a YAML 1.2 file, plain values only.

    Attributes:
        path: the file.
        data: its values as plain Python objects.
    """

    def __init__(self, path: Path) -> None:
        """Read the file.

        Args:
            path: what to read.

        Raises:
            UsageError: it cannot be read, is no YAML, or is no mapping.
        """
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError
        from ruamel.yaml.reader import ReaderError

        self.path = path
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as exc:
            raise UsageError(f"{path} cannot be read: {exc.strerror}") from exc
        except UnicodeDecodeError as exc:
            raise UsageError(f"{path} is no text file") from exc
        try:
            self._tree = YAML(typ="rt", pure=True).load(text)
        except MarkedYAMLError as exc:
            mark = exc.problem_mark or exc.context_mark
            where = f":{mark.line + 1}" if mark else ""
            raise UsageError(
                f"{path}{where}: {(exc.problem or 'no YAML').strip()}",
                "this is no YAML: a name, a colon, a space, a value; sections indented by spaces",
            ) from exc
        except ReaderError as exc:
            line = text.count("\n", 0, exc.position) + 1
            raise UsageError(
                f"{path}:{line}: the character U+{exc.character:04X} cannot stand here"
            ) from exc
        except Exception as exc:  # the parser fails in many ways on odd scalars
            raise UsageError(f"{path}: {_first_line(exc)}") from exc
        if not isinstance(self._tree, Mapping):
            raise UsageError(f"{path} holds no settings", "`v6t init` writes an example")
        try:
            self.data: dict[str, Any] = _plain(self._tree, itertools.count())
        except (RecursionError, ValueError) as exc:
            raise UsageError(f"{path}: {_first_line(exc)}") from exc

    def where(self, keys: Sequence[str | int]) -> str:
        """``file:line`` of the value the keys lead to, or of the nearest one above it."""
        node: Any = self._tree
        line: int | None = None
        for key in keys:
            try:
                mark = node.lc
                line = (mark.key(key) if isinstance(node, Mapping) else mark.item(key))[0]
                node = node[key]
            except (KeyError, IndexError, TypeError, AttributeError):
                break
        return f"{self.path}" + ("" if line is None else f":{line + 1}")


def _plain(node: Any, counter: Iterator[int]) -> Any:
    """Mappings, sequences and scalars without the parser's own types."""
    if next(counter) > MAX_VALUES:  # aliases of aliases make millions out of a few lines
        raise ValueError(f"more than {MAX_VALUES:,} values")
    if isinstance(node, Mapping):
        return {str(k): _plain(v, counter) for k, v in node.items()}
    if isinstance(node, (list, tuple)):
        return [_plain(v, counter) for v in node]
    if isinstance(node, bool) or node is None:
        return node
    for kind in (int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return str(node)


def _first_line(exc: BaseException) -> str:
    lines = str(exc).strip().splitlines()
    return lines[0] if lines else type(exc).__name__
