"""The shell programs of a session: files of POSIX sh, to which values and steps are added."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "sh"
_FUNCTION = re.compile(r"^(\w+)\(\) \{.*?^\}.*?\n", re.MULTILINE | re.DOTALL)
_DIRECTIVE = re.compile(r"^\s*# shellcheck .*\n", re.MULTILINE)


@cache
def read_program(name: str) -> str:
    """Return the text of one of the files, without remarks for shellcheck."""
    return _DIRECTIVE.sub("", (_FOLDER / f"{name}.sh").read_text(encoding="utf-8"))


def assign(**values: str | int) -> str:
    """Return a shell line that sets variables."""
    return " ".join(f"{name}={shlex.quote(str(value))}" for name, value in values.items())


def call(program: str, function: str, *arguments: object, **variables: str | int) -> str:
    """Return shell lines that define a function with all that it needs, and call it."""
    functions = {match[1]: match[0] for match in _FUNCTION.finditer(read_program(program))}
    needed = [function]
    for name in needed:
        needed += [
            n for n in functions if n not in needed and re.search(rf"\b{n}\b", functions[name])
        ]
    lines = [assign(**variables)] if variables else []
    lines += [functions[name].rstrip("\n") for name in needed]
    return "\n".join([*lines, shlex.join([function, *map(str, arguments)])])
