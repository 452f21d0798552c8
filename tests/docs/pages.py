"""Pages of the documentation: their fenced blocks, and how the commands in them are run.

A ``console`` block is executed: each line after ``$`` is a command, the lines below it are what it
prints (errors too, where it fails). ``...`` stands for any text; a line of its own, for any lines.
Without lines below it, a command must succeed. Blocks that cannot be executed say why in a comment
before them, and which test or target runs such a command: ``<!-- not executed: REASON -->``.
"""

from __future__ import annotations

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
    """A fenced block."""

    page: Path  # its file
    line: int  # where it begins
    language: str  # the word after the fence
    text: str  # its lines
    reason: str = ""  # why it is not executed; empty if it is

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(CHECKOUT)}:{self.line}"


@dataclass
class Command:
    """A command of a console block, and what it is said to print."""

    words: str
    output: list[str] = field(default_factory=list)


def pages() -> list[Path]:
    return [CHECKOUT / "README.md", *sorted(DOCS.rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    results = []
    for match in _FENCE.finditer(text):
        reason = _REASON.search(text[: match.start()])
        line = text.count("\n", 0, match.start()) + 1
        results.append(Block(page, line, match[1], match[2], reason[1] if reason else ""))
    return results


def commands(block: Block) -> list[Command]:
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
    """Exit status and output; what it says of its progress is left out unless it fails."""
    program, *arguments = shlex.split(command.words)
    if program == "v6t":
        done = v6t(*arguments)
        if not done.status:
            return done.status, done.out
        printed = re.sub(
            r"^(v6t: .*)$", rf"\1 [{done.code}]", done.err, count=1, flags=re.MULTILINE
        )
        return done.status, done.out + (printed if done.code else done.err)
    assert program in SHELL, f"'{program}' is not allowed"
    completed = subprocess.run(
        ["sh", "-c", command.words], capture_output=True, text=True, check=False
    )
    return completed.returncode, completed.stdout + completed.stderr


def parse(arguments: list[str]) -> None:
    """Parse a command of v6t without running it.

    Raises:
        click.UsageError: it has an unknown option or lacks an argument.
    """
    group: click.Command = cli
    context = click.Context(cli, info_name="v6t")
    while isinstance(group, click.Group):
        name, command, arguments = group.resolve_command(context, arguments)
        assert command
        context, group = click.Context(command, context, name), command
    group.parse_args(context, arguments)


def agrees(shown: list[str], printed: str) -> bool:
    """Check whether the output is the one shown, except for trailing spaces."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else _line(line) + r"[ ]*\n" for line in shown
    )
    return re.fullmatch(pattern, printed if printed.endswith("\n") else printed + "\n") is not None


def _line(text: str) -> str:
    return ".*?".join(re.escape(part) for part in text.split("..."))
