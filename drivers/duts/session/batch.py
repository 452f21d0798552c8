"""Many commands in one round trip: each under a heading, with its exit status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

HEADING = "@@v6t"


@dataclass(frozen=True)
class Section:
    """The output of one command; ``status`` is None if its end did not arrive."""

    text: str
    status: int | None


def batch_script(commands: Mapping[str, str]) -> str:
    """Return shell lines that run all commands, without their standard error."""
    return "\n".join(
        f"echo; echo '{HEADING} {name}'; ( {command}\n) 2>/dev/null </dev/null; s=$?; "
        f'echo; echo "{HEADING}= $s"'
        for name, command in commands.items()
    )


def parse_sections(output: str) -> dict[str, Section]:
    """Return the section of each command that began."""
    sections: dict[str, Section] = {}
    name, lines = "", [""]
    for line in output.split("\n"):
        if line.startswith(HEADING + " "):
            name, lines = line[len(HEADING) + 1 :].strip(), []
        elif line.startswith(HEADING + "= ") and name:
            status = line.rpartition(" ")[2]
            text = "\n".join(lines).strip("\n")
            sections[name] = Section(text, int(status) if status.isdigit() else None)
            name = ""
        else:
            lines.append(line)
    if name:
        sections[name] = Section("\n".join(lines).strip("\n"), None)
    return sections
