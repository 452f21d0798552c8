"""Read the fenced blocks of the documentation and execute their commands.

A line after ``$`` of a ``console`` block is a command; the lines below are its expected output, with errors.
``...`` stands for any text, or for any lines if it is the whole line. A command without output must succeed.
A comment before any other block states the reason, and the test or target that runs such a command:
``<!-- not executed: REASON -->``.
"""

import re
import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import click
from v6t.core.cli.main import cli
from v6t.tests.core.support import v6t

CHECKOUT = Path(__file__).parents[2]
DOCS = CHECKOUT / "docs"
SHELL = ("cat", "head", "ls", "mkdir", "printf")
"""Programs other than v6t that examples may use."""
_FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_REASON = re.compile(r"<!-- not executed: ((?:(?!-->).)+) -->\n\Z", re.DOTALL)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int  # number of the first line
    language: str  # word after the fence
    text: str
    reason: str = ""  # reason why it is not executed; empty if it is

    @property
    def place(self) -> str:
        """Return page and line, for messages."""
        return f"{format_path(self.page)}:{self.line}"


@dataclass
class Command:
    """Command of a console block and its expected output."""

    words: str
    output: list[str] = field(default_factory=list)


def format_path(page: Path) -> str:
    return str(page.relative_to(CHECKOUT))


def list_pages() -> list[Path]:
    return [CHECKOUT / "README.md", *sorted(DOCS.rglob("*.md"))]


def read_blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    results = []
    for match in _FENCE.finditer(text):
        reason = _REASON.search(text[: match.start()])
        line = text.count("\n", 0, match.start()) + 1
        results.append(Block(page, line, match[1], match[2], reason[1] if reason else ""))
    return results


def read_commands(block: Block) -> list[Command]:
    results: list[Command] = []
    lines = iter(block.text.splitlines())
    for line in lines:
        if not line.startswith("$ "):
            assert results, f"{block.place}: output before any command"
            results[-1].output.append(line.rstrip())
            continue
        words = line[2:]
        while words.endswith("\\"):
            words = words[:-1].rstrip() + " " + next(lines).strip()
        results.append(Command(words))
    assert results, f"{block.place}: no command"
    return results


def execute(command: Command) -> tuple[int, str]:
    """Return exit status and output; progress messages are included for failed commands only."""
    program, *arguments = shlex.split(command.words)
    if program == "v6t":
        done = v6t(*arguments)
        if not done.status:
            return done.status, done.out
        printed = re.sub(r"(?m)^(v6t: .*)$", rf"\1 [{done.code}]", done.err, count=1)
        return done.status, done.out + (printed if done.code else done.err)
    assert program in SHELL, f"'{program}' is not allowed"
    words = ["sh", "-c", command.words]
    completed = subprocess.run(words, capture_output=True, text=True, check=False)
    return completed.returncode, completed.stdout + completed.stderr


def parse(arguments: list[str]) -> None:
    """Parse a command of v6t without running it; an invalid one raises click.UsageError."""
    group: click.Command = cli
    context = click.Context(cli, info_name="v6t")
    while isinstance(group, click.Group):
        name, command, arguments = group.resolve_command(context, arguments)
        assert command
        context, group = click.Context(command, context, name), command
    group.parse_args(context, arguments)


def matches_output(shown: list[str], printed: str) -> bool:
    """Check whether the output matches the shown lines, except for trailing spaces."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else _make_line_pattern(line) + r"[ ]*\n"
        for line in shown
    )
    return re.fullmatch(pattern, printed if printed.endswith("\n") else printed + "\n") is not None


def _make_line_pattern(text: str) -> str:
    return ".*?".join(re.escape(part) for part in text.split("..."))
