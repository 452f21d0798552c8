"""Texts, tables and documents on standard output, and files written in their place."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from v6t.base.errors import UsageError
from v6t.base.text import escape_controls

if TYPE_CHECKING:
    from v6t.analysis.blocks import ReportDocument
    from v6t.analysis.sheet import Table

PIPE_WIDTH = 140  # width of tables in pipes and files, in characters
MAX_PLAIN_CELL_WIDTH = 40  # in characters; longer cells are wrapped before columns are omitted
COLUMN_GAP = 2  # spaces between columns
# Words in the headings of columns that narrow tables omit, in this order.
OPTIONAL_COLUMNS = (("matched",), ("aggregate",), ("P1", "P99"))


def wrap(line: str, indent: int | None = None, width: int | None = None) -> str:
    """Return a line wrapped between words.

    Args:
        indent: indentation of further lines; by default, that of the line.
        width: maximum width; by default, that of the terminal, or 80 columns.
    """
    if indent is None:
        indent = len(line) - len(line.lstrip())
    room, start = width or shutil.get_terminal_size().columns, " " * indent
    return textwrap.fill(
        line, room, subsequent_indent=start, break_long_words=False, break_on_hyphens=False
    )


def get_width(pipe_width: int = PIPE_WIDTH) -> int:
    """Return the width of the terminal, or ``pipe_width`` for other output [characters]."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else pipe_width


def print_text(text: str, indent: int = 2) -> None:
    """Print text; on a terminal, wrap it between words with a hanging indent."""
    for line in escape_controls(text).split("\n"):
        hanging = len(line) - len(line.lstrip()) + indent
        click.echo(wrap(line, hanging) if sys.stdout.isatty() else line)


@dataclass(frozen=True)
class CommandResult:
    """The result of a command, which is printed as text or as JSON."""

    to_json: Callable[[], Any] | None
    """Returns the JSON value; None if the result exists as text only."""
    print_text: Callable[[], None]  # prints the result as text
    status: int = 0  # exit status of the command
    finish: Callable[[], int | None] = lambda: None
    """Called when the result has been printed; it may print more, which goes to standard error with
    ``--json``, and return another exit status."""

    def print(self, *, as_json: bool) -> int:
        """Print the result and return the exit status."""
        if not as_json:
            self.print_text()
        elif self.to_json is not None:
            click.echo(json.dumps(self.to_json(), indent=1, default=str))
        else:
            message = "this result exists as text only"
            raise UsageError(message, "leave out --json", code="conflicting-options")
        with redirect_stdout(sys.stderr if as_json else sys.stdout):
            return self.finish() or self.status


def make_result(
    value: Any, lines: Iterable[str], *, indent: int = 2, status: int = 0
) -> CommandResult:
    """Return a result with its JSON value, or a function that returns it, and the lines of text."""

    def print_lines() -> None:
        for line in list(lines):  # an error must not leave half a result
            print_text(line, indent)

    return CommandResult(value if callable(value) else lambda: value, print_lines, status)


def print_document(document: ReportDocument) -> None:
    """Print the tables and sentences of a document, without figures and collapsed parts."""
    from v6t.analysis.blocks import BulletList, CodeListing, FactTable, Paragraph
    from v6t.analysis.sheet import Table

    for section in document.sections:
        if len(document.sections) > 1:
            print_text(section.title)
        for block in section.blocks:
            match block:
                case Paragraph():
                    print_text(block.text, indent=0)
                case BulletList():
                    for item in block.items:
                        print_text(f"  {item}", indent=0)
                case FactTable():
                    for name, value in block.rows:
                        print_text(f"  {name}: {value}", indent=0)
                case CodeListing():
                    click.echo(_continue_command(f"  {escape_controls(block.text)}"))
                case Table():
                    print_table(block)


def _continue_command(command: str) -> str:
    if not sys.stdout.isatty() or "'" in command:
        return command
    return " \\\n".join(wrap(command, indent=6, width=get_width() - 2).splitlines())


def make_document_result(
    make_document: Callable[[], ReportDocument],
    output: Path | None,
    to_json: Callable[[], Any] | None = None,
    status: int = 0,
) -> CommandResult:
    """Return the result that a document describes, or write a file in the format of its extension.

    Args:
        output: .html, .md or .json file.
        to_json: returns the result as JSON; None if it exists as text only.

    Raises:
        UsageError: the extension is unknown, or the file belongs to a run or cannot be written.
    """
    if output is None:
        return CommandResult(to_json, lambda: print_document(make_document()), status=status)
    from v6t.analysis.report.render import to_html, to_markdown
    from v6t.base.files import report_write_errors, write_atomically
    from v6t.core.runs.rundir import check_file_not_owned

    check_file_not_owned(output)
    if output.suffix == ".json" and to_json is not None:
        text = json.dumps(to_json(), indent=1) + "\n"
    elif output.suffix in (".html", ".md"):
        text = {".html": to_html, ".md": to_markdown}[output.suffix](make_document())
    else:
        problem = f"{output} has an unknown file name extension"
        hint = "use .html, .md or .json" if to_json else "use .html or .md"
        raise UsageError(problem, hint, code="wrong-kind-of-file")
    with report_write_errors(output):
        write_atomically(output, text)
    print(output, file=sys.stderr)
    return CommandResult(to_json, lambda: None, status=status)


def print_table(
    sheet: Table,
    pipe_width: int = PIPE_WIDTH,
    optional: Sequence[Sequence[str]] = OPTIONAL_COLUMNS,
) -> None:
    """Print a table reduced to the width of the output, or one line for each cell."""
    width = get_width(pipe_width)
    table = fit_table(sheet, width, optional)
    click.secho(escape_controls(sheet.title), bold=True)
    if sheet.cards or table is None:
        _print_cards(sheet.narrow(), width)
    else:
        _print_grid(table, _choose_widths(table, width))
    for note in sheet.notes:
        print_text(note, indent=0)


def fit_table(
    sheet: Table, width: int, optional: Sequence[Sequence[str]] = OPTIONAL_COLUMNS
) -> Table | None:
    """Return a table without the columns that do not fit.

    Args:
        width: maximum width [characters].
        optional: words in the names of columns that may be left out together, in this order.

    Returns:
        None if the rest is too wide even with its texts wrapped between words.
    """
    table = sheet.narrow()
    for words in optional:
        while sum(_measure_columns(table, MAX_PLAIN_CELL_WIDTH)) > width:
            indices = [i for i, c in enumerate(table.columns) if {*words} & {*c.name.split()}]
            if not indices:
                break
            table = table.drop_columns(indices[-len(words) :])
    return table if sum(_measure_columns(table, 0)) <= width else None


def _measure_columns(table: Table, max_text_width: int | None = None) -> list[int]:
    """Return the width of each column with its gap.

    Args:
        max_text_width: width at which texts wrap, unless a word is longer; None for no wrapping.
    """
    widths = []
    for index, column in enumerate(table.columns):
        lines = "\n".join([column.name, *(row[index] for row in table.rows)]).split("\n")
        width = max(map(len, lines))
        if column.text and max_text_width is not None:
            longest_word = max((len(word) for line in lines for word in line.split()), default=0)
            width = max(longest_word, min(width, max_text_width))
        widths.append(COLUMN_GAP + width)
    return widths


def _choose_widths(table: Table, width: int) -> list[int]:
    """Return widths at which a table that fits is printed; the widest texts wrap first."""
    widths, min_widths = _measure_columns(table), _measure_columns(table, 0)
    while sum(widths) > width:
        widest = max((n, i) for i, n in enumerate(widths) if n > min_widths[i])[1]
        widths[widest] -= 1
    return widths


def _print_grid(table: Table, widths: Sequence[int]) -> None:
    """Print the headings, aligned at the bottom, and the rows of a table with wrapped texts."""

    def format_row(cells: Sequence[str], *, is_heading: bool = False) -> str:
        blocks = []
        for cell, width, column in zip(cells, widths, table.columns, strict=True):
            room = width - COLUMN_GAP
            lines = escape_controls(cell).split("\n")
            if column.text:
                lines = [part for line in lines for part in wrap(line, 0, room).split("\n")]
            align = str.ljust if column.text else str.rjust
            blocks.append([" " * COLUMN_GAP + align(line, room) for line in lines])
        height = max(map(len, blocks))
        if is_heading:
            blocks = [[""] * (height - len(block)) + block for block in blocks]
        return "\n".join(
            "".join(part.ljust(width) for part, width in zip(line, widths, strict=True)).rstrip()
            for line in zip_longest(*blocks, fillvalue="")
        )

    click.secho(format_row([column.name for column in table.columns], is_heading=True), dim=True)
    for row in table.rows:
        click.echo(format_row(row))


def _print_cards(table: Table, width: int) -> None:
    """Print each row as a card: its leading cells, then a line for each other cell."""
    texts = [column.text for column in table.columns]
    leading = [*texts[1:], False].index(False)  # texts after the first column
    head = 1 if all(texts) else 1 + (leading if texts[0] else min(leading, 1))  # number of cells
    names = [" ".join(escape_controls(column.name).split()) for column in table.columns]
    name_width = max(map(len, names[head:]), default=0)
    for row in table.rows:
        subjects = zip(row[:head], names, texts, strict=False)
        subject = ", ".join(cell if text else f"{cell} {name}" for cell, name, text in subjects)
        click.secho(escape_controls(subject), bold=True)
        for name, cell in zip(names[head:], row[head:], strict=True):
            line = f"  {name:<{name_width}}  {escape_controls(cell)}"
            click.echo(wrap(line, indent=name_width + 4, width=width))
