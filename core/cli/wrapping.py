"""Prose on standard output."""

from __future__ import annotations

import shutil
import textwrap


def wrap(line: str, indent: int | None = None) -> str:
    """Wrap a line to the width of the terminal, or to 80 columns.

    Args:
        line: the line.
        indent: of its continuation; default: that of the line, at least 2.
    """
    if indent is None:
        indent = max(2, len(line) - len(line.lstrip()))
    return textwrap.fill(
        line,
        shutil.get_terminal_size().columns,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
