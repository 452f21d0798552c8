"""Texts, tables and documents on standard output, and files written in their place."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from v6t.base.text import escape_controls

if TYPE_CHECKING:
    from rich.console import Console
    from v6t.analysis.blocks import ReportDocument
    from v6t.analysis.sheet import Table

PIPE_WIDTH = 140  # width of tables in pipes and files, in characters
MAX_PLAIN_CELL_WIDTH = 40  # in characters; longer cells are wrapped
COLUMN_GAP = 2  # spaces between columns
# Words in the headings of columns that narrow tables omit, in this order.
OPTIONAL_COLUMNS = (("matched",), ("aggregate",), ("P1", "P99"))
MIN_LONG_TABLE_ROWS = 100  # longer tables bypass rich, which takes 1 ms per row


def wrap(line: str, indent: int | None = None, width: int | None = None) -> str:
    """Return a line wrapped between words.

    Args:
        line: the line.
        indent: indentation of the further lines; default: that of the line.
        width: default: that of the terminal, or 80 columns.
    """
    if indent is None:
        indent = len(line) - len(line.lstrip())
    return textwrap.fill(
        line,
        width or shutil.get_terminal_size().columns,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def truncate(text: str, width: int) -> str:
    """Shorten a text to ``width`` characters, with an ellipsis after the last word that fits."""
    return text if len(text) <= width else text[: width - 1].rsplit(" ", 1)[0] + " …"


def print_text(text: str, indent: int = 2) -> None:
    """Print text; on a terminal, wrap it between words with a hanging indent."""
    for line in escape_controls(text).split("\n"):
        if sys.stdout.isatty():
            line = wrap(line, len(line) - len(line.lstrip()) + indent)  # noqa: PLW2901
        click.echo(line)


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=1, default=str))


def make_console(width: int = PIPE_WIDTH, *, stderr: bool = False) -> Console:
    """Return a console with the colors of ``--color``.

    Args:
        width: its width unless it is a terminal [characters].
        stderr: it writes to standard error.
    """
    from rich.console import Console

    class PipeConsole(Console):
        """Console that lets the caller handle a broken pipe."""

        def on_broken_pipe(self) -> None:
            """Raise BrokenPipeError, because rich would end the program with status 1."""
            raise BrokenPipeError

    context = click.get_current_context(silent=True)
    color = None if context is None else context.color
    stream = sys.stderr if stderr else sys.stdout
    return PipeConsole(
        stderr=stderr,
        width=None if stream.isatty() else width,
        emoji=False,  # part of an address can look like the code of one
        color_system="auto" if color is None else "standard" if color else None,
    )


def print_line(console: Console, line: str) -> None:
    """Print a line, wrapped only on a terminal."""
    text = escape_controls(line)
    if console.is_terminal:
        text = wrap(text, width=console.width)
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def format_command(command: str, console: Console) -> str:
    """Return a command indented and, on a terminal, continued over several lines."""
    if not console.is_terminal or "'" in command:
        return f"  {command}"
    lines = wrap(f"  {command}", indent=6, width=console.width - 2).splitlines()
    return " \\\n".join(lines)


def print_document(document: ReportDocument) -> None:
    """Print the tables and sentences of a document, without figures and collapsed parts."""
    from v6t.analysis.blocks import BulletList, CodeListing, FactTable, Paragraph
    from v6t.analysis.sheet import Table

    console = make_console()
    for section in document.sections:
        if len(document.sections) > 1:
            print_line(console, section.title)
        for block in section.blocks:
            match block:
                case Paragraph():
                    print_line(console, block.text)
                case BulletList():
                    for item in block.items:
                        print_line(console, f"  {item}")
                case FactTable():
                    for name, value in block.rows:
                        print_line(console, f"  {name}: {value}")
                case CodeListing():
                    click.echo(format_command(escape_controls(block.text), console))
                case Table():
                    print_table(console, block)


def print_or_write(
    make_document: Callable[[], ReportDocument],
    output: Path | None,
    as_json: bool = False,
    make_json: Callable[[], Any] | None = None,
) -> None:
    """Print a document, or write a file in the format of its extension.

    Args:
        make_document: makes the document.
        output: .html, .md or .json file.
        as_json: print JSON.
        make_json: returns the JSON; None: the document has no such form.

    Raises:
        UsageError: the extension is unknown, or the file belongs to a run or cannot be written.
    """
    from v6t.base.errors import UsageError

    if as_json and make_json is not None:
        print(json.dumps(make_json(), indent=1))
        return
    if output is None:
        print_document(make_document())
        return
    from v6t.analysis.report.render import to_html, to_markdown
    from v6t.base.files import report_write_errors, write_atomically
    from v6t.core.runs.rundir import check_file_not_owned

    check_file_not_owned(output)
    if output.suffix == ".json" and make_json is not None:
        text = json.dumps(make_json(), indent=1) + "\n"
    elif output.suffix in (".html", ".md"):
        text = {".html": to_html, ".md": to_markdown}[output.suffix](make_document())
    else:
        raise UsageError(
            f"{output} has an unknown file name extension",
            "use .html, .md or .json",
            code="wrong-kind-of-file",
        )
    with report_write_errors(output):
        write_atomically(output, text)
    print(output, file=sys.stderr)


# ----------------------------------------------------------------------- tables


def print_table(console: Console, sheet: Table) -> None:
    """Print a table reduced to the width of the console, or one line for each cell."""
    fitting = fit_table(sheet, console.width)
    if sheet.cards or fitting is None:
        _print_cards(console, sheet.narrow())
    elif len(fitting.rows) > MIN_LONG_TABLE_ROWS and _has_plain_lines(fitting, console.width):
        _print_lines(console, fitting)
    else:
        _print_grid(console, fitting)
    for note in sheet.notes:
        print_line(console, note)


def fit_table(sheet: Table, width: int) -> Table | None:
    """Return a table without the columns that do not fit, or None if it never fits.

    Returns:
        None if the rest is too wide even with its texts wrapped between words.
    """
    table = sheet.narrow()
    for words in OPTIONAL_COLUMNS:
        while sum(_compute_widths(table)) > width:
            indices = [i for i, c in enumerate(table.columns) if {*words} & {*c.name.split()}]
            if not indices:
                break
            table = table.without(indices[-len(words) :])
    return table if sum(_compute_widths(table, wrapped=True)) <= width else None


def _compute_widths(table: Table, *, wrapped: bool = False, capped: bool = True) -> Iterator[int]:
    """Yield the width of each column.

    Args:
        table: the table.
        wrapped: count only the longest word of texts.
        capped: count at most a sentence of texts, which wraps.
    """
    for place, column in enumerate(table.columns):
        cells = [column.name, *(row[place] for row in table.rows)]
        lines = [line for cell in cells for line in cell.split("\n")]
        if wrapped and column.text:
            lines = [word for line in lines for word in line.split()]
        longest = max(map(len, lines), default=0)
        is_whole = wrapped or not capped or not column.text
        yield COLUMN_GAP + (longest if is_whole else min(MAX_PLAIN_CELL_WIDTH, longest))


def _has_plain_lines(sheet: Table, width: int) -> bool:
    """Return whether each row of the table fits into one line of this width."""
    is_narrow = sum(_compute_widths(sheet, capped=False)) <= width
    return is_narrow and not any("\n" in column.name for column in sheet.columns)


def _print_lines(console: Console, sheet: Table) -> None:
    """Print a long table row by row, without the layout of rich."""
    widths = list(_compute_widths(sheet, capped=False))

    def align(cells: Sequence[str]) -> str:
        """Return the cells of a row padded to the widths of the columns."""
        return "".join(
            " " * COLUMN_GAP + cell.ljust(width - COLUMN_GAP) if column.text else cell.rjust(width)
            for cell, width, column in zip(
                map(escape_controls, cells), widths, sheet.columns, strict=True
            )
        )

    names = [column.name for column in sheet.columns]
    console.print(escape_controls(sheet.title), style="bold", highlight=False, markup=False)
    console.print(align(names), style="dim", highlight=False, markup=False)
    console.out("\n".join(map(align, sheet.rows)), highlight=False)


def _print_grid(console: Console, sheet: Table) -> None:
    """Print a table with wrapped cells."""
    from rich.table import Table
    from rich.text import Text

    title = Text(escape_controls(sheet.title), style="bold")
    table = Table(
        title=title, title_justify="left", title_style="", box=None, padding=(0, 0, 0, COLUMN_GAP)
    )
    is_whole = sum(_compute_widths(sheet)) <= console.width
    for place, column in enumerate(sheet.columns):
        has_sentences = (
            max((len(row[place]) for row in sheet.rows), default=0) > MAX_PLAIN_CELL_WIDTH
        )
        table.add_column(
            Text(escape_controls(column.name)),
            justify="left" if column.text else "right",
            no_wrap=not column.text or (is_whole and not has_sentences),
            header_style="dim",
        )
    for row in sheet.rows:
        table.add_row(*(Text(escape_controls(cell)) for cell in row))
    console.print(table)


def _print_cards(console: Console, sheet: Table) -> None:
    """Print each row as a card: its leading cells, then a line for each other cell."""
    from rich.text import Text

    console.print(Text(escape_controls(sheet.title), style="bold"))
    texts = [column.text for column in sheet.columns]
    if all(texts):
        named = 1
    else:  # leading texts; or the size, and the direction if there is one
        first = int(not texts[0])
        leading = [*texts[first:], False].index(False)
        named = first + min(leading, 1) if first else leading
    names = [" ".join(escape_controls(column.name).split()) for column in sheet.columns]
    width = max(map(len, names[named:]), default=0)
    for row in sheet.rows:
        subjects = zip(row[:named], names, texts, strict=False)
        subject = ", ".join(cell if text else f"{cell} {name}" for cell, name, text in subjects)
        console.print(Text(escape_controls(subject), style="bold"))
        for name, cell in zip(names[named:], row[named:], strict=True):
            line = f"  {name:<{width}}  {escape_controls(cell)}"
            console.print(Text(wrap(line, indent=width + 4, width=console.width)))
