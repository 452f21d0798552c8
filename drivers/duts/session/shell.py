"""Shell lines of a session: functions from files of POSIX sh, and batches of commands."""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SECTION_HEADING = "@@v6t"  # start of the line before each output of a batch
MAX_ARGUMENT_OCTETS = 16384  # longest script that is an argument and not standard input
_PROGRAM_DIRECTORY = Path(__file__).parent / "sh"  # contains the shell files
# A shell function, whose name is the first group.
_FUNCTION_PATTERN = re.compile(r"^(\w+)\(\) \{.*?^\}.*?\n", re.MULTILINE | re.DOTALL)
_SHELLCHECK_PATTERN = re.compile(r"^\s*# shellcheck .*\n", re.MULTILINE)
# The output of a command in a batch, with its number and status.
_SECTION_PATTERN = re.compile(
    rf"^{SECTION_HEADING} (?P<number>[^\n]*)(?P<text>.*?)"
    rf"(?:^{SECTION_HEADING}= (?P<status>\d*)[^\n]*$|(?=^{SECTION_HEADING} )|\Z)",
    re.MULTILINE | re.DOTALL,
)


@cache
def read_program(name: str) -> str:
    """Return the text of a shell file of this package, without its shellcheck directives."""
    text = (_PROGRAM_DIRECTORY / f"{name}.sh").read_text(encoding="utf-8")
    return _SHELLCHECK_PATTERN.sub("", text)


def format_assignments(**values: str | int) -> str:
    """Return a shell line that assigns values to variables."""
    return " ".join(f"{name}={shlex.quote(str(value))}" for name, value in values.items())


def build_call(program: str, function: str, *arguments: object, **variables: str | int) -> str:
    """Return shell lines that define a function of a shell file, with its dependencies, and call it."""
    programs = read_program("process") + read_program(program)
    functions = {match[1]: match[0] for match in _FUNCTION_PATTERN.finditer(programs)}
    needed = [function]
    for name in needed:
        body = functions[name]
        needed += [n for n in functions if n not in needed and re.search(rf"\b{n}\b", body)]
    lines = [format_assignments(**variables)] if variables else []
    lines += [functions[name].rstrip("\n") for name in needed]
    return "\n".join([*lines, shlex.join([function, *map(str, arguments)])])


def build_tracked_command(directory: str, command: str) -> str:
    """Return shell lines that run a command in a process that ``undo.sh`` waits for."""
    note = build_call("process", "write_process", f"{directory}/doing")
    return f"{note}\n( {command}\n) || exit $?"


def format_command(command: str, text: str) -> str:
    """Return a shell command, followed by its standard input as a here document if there is any."""
    return format_here_document(command, text) if text else command


def format_here_document(command: str, text: str) -> str:
    """Return a shell command with a text, or /dev/null if the text is empty, as its standard input."""
    if any(c in command for c in "\n;|&"):  # all commands read the text, not the last one only
        command = f"{{ {command}\n}}"
    if not text:
        return f"{command} </dev/null"
    end = "END"
    while f"\n{end}\n" in f"\n{text}\n":
        end += "_"
    body = text if text.endswith("\n") else text + "\n"
    return f"{command} <<'{end}'\n{body}{end}"


def fit_argument(script: str, text: str) -> tuple[str, str]:
    """Return a command and its standard input that run a script with a text as its standard input.

    Linux limits an argument to 128 KiB, and quotes are nested three times on the way to the device.
    """
    if len(script) <= MAX_ARGUMENT_OCTETS:
        return script, text
    return "sh", format_here_document(f"{script}\n", text)


@dataclass(frozen=True)
class Section:
    """Output of one command of a batch."""

    text: str
    status: int | None  # exit status; None: the output is incomplete


def build_batch_script(commands: Iterable[str]) -> str:
    """Return shell lines that run commands and print a heading with a number before each output."""
    return "\n".join(
        f"echo; echo '{SECTION_HEADING} {number}'; ( {command}\n) 2>/dev/null </dev/null; s=$?; "
        f'echo; echo "{SECTION_HEADING}= $s"'
        for number, command in enumerate(commands)
    )


def parse_sections(output: str, commands: Iterable[str]) -> dict[str, Section]:
    """Parse the output of a batch; return the section of each command that was started."""
    sections = {}
    for match in _SECTION_PATTERN.finditer(output):
        status = int(match["status"]) if match["status"] else None
        sections[match["number"].strip()] = Section(match["text"].strip("\n"), status)
    names = {str(number): command for number, command in enumerate(commands)}
    return {names[n]: section for n, section in sections.items() if n in names}
