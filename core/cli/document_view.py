"""A document on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.analysis.blocks import Block, Document, Facts, Items, Text
from v6t.analysis.sheet import Sheet
from v6t.base.errors import UsageError
from v6t.core.cli.tables import print_table

if TYPE_CHECKING:
    from rich.console import Console


def console_for_tables(width: int = 140) -> Console:
    """Return a console on standard output that tolerates a reader who leaves early.

    Args:
        width: where it is no terminal [characters]; a terminal has its own.
    """
    from rich.console import Console

    class Told(Console):
        def on_broken_pipe(self) -> None:
            """Rich would end the program with status 1; `main` knows the status."""
            raise BrokenPipeError

    return Told(width=None if sys.stdout.isatty() else width)


def print_document(document: Document) -> None:
    """Tables and sentences; figures and folded parts are left to files."""
    console = console_for_tables()
    for section in document.sections:
        if len(document.sections) > 1:
            console.print(section.title, highlight=False, markup=False)
        for block in section.blocks:
            _print(console, block)


def _print(console: Console, block: Block) -> None:
    if isinstance(block, Text):
        console.print(block.text, highlight=False, markup=False)
    elif isinstance(block, Items):
        for item in block.items:
            console.print(f"  {item}", highlight=False, markup=False, soft_wrap=True)
    elif isinstance(block, Facts):
        for name, value in block.rows:
            console.print(f"  {name}: {value}", highlight=False, markup=False, soft_wrap=True)
    elif isinstance(block, Sheet):
        print_table(console, block)


def deliver(document: Document, output: Path | None) -> None:
    """Print a document, or write it as the file's ending says.

    Raises:
        UsageError: the extension is unknown, or the file cannot be written.
    """
    if output is None:
        print_document(document)
        return
    from v6t.analysis.report.render import to_html, to_markdown

    render = {".html": to_html, ".md": to_markdown}.get(output.suffix)
    if render is None:
        raise UsageError(
            f"{output} has an unknown file name extension",
            "use .html, .md or .json",
            code="wrong-kind-of-file",
        )
    write_file(output, render(document))


def give(
    content: Callable[[], Any], document: Callable[[], Document], output: Path | None, as_json: bool
) -> None:
    """Print or write JSON where that is asked for, else the document.

    Raises:
        UsageError: another ending than .html, .md or .json, or it cannot be written.
    """
    if as_json:
        print(json.dumps(content(), indent=1))
    elif output is not None and output.suffix == ".json":
        write_file(output, json.dumps(content(), indent=1) + "\n")
    else:
        deliver(document(), output)


def write_file(path: Path, text: str) -> None:
    """Write a file and say so.

    Raises:
        UsageError: it cannot be written.
    """
    from v6t.base.files import write_atomically

    try:
        write_atomically(path, text)
    except OSError as exc:
        raise UsageError(f"cannot write {path}: {exc.strerror}", code="file-unwritable") from exc
    print(path, file=sys.stderr)
