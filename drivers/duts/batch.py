"""Many commands in one round trip: each under a heading, with its exit status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MARK = "@@v6t"


@dataclass(frozen=True)
class Section:
    """What one of the commands said; ``status`` is None if its end never came."""

    text: str
    status: int | None


def script(commands: Mapping[str, str]) -> str:
    """A shell script that runs all commands; their standard error is not shown.

    Args:
        commands: by name, a name is one word.
    """
    return "\n".join(
        f"echo; echo '{MARK} {name}'; ( {command}\n) 2>/dev/null </dev/null; s=$?; "
        f'echo; echo "{MARK}= $s"'
        for name, command in commands.items()
    )


def read(output: str) -> dict[str, Section]:
    """What the commands said, by name; those that never began are missing."""
    sections: dict[str, Section] = {}
    name, lines = "", [""]
    for line in output.split("\n"):
        if line.startswith(MARK + " "):
            name, lines = line[len(MARK) + 1 :].strip(), []
        elif line.startswith(MARK + "= ") and name:
            status = line.rpartition(" ")[2]
            text = "\n".join(lines).strip("\n")
            sections[name] = Section(text, int(status) if status.isdigit() else None)
            name = ""
        else:
            lines.append(line)
    if name:
        sections[name] = Section("\n".join(lines).strip("\n"), None)
    return sections
