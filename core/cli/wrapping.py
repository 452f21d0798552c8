"""Prose on standard output."""

from __future__ import annotations

import shutil
import textwrap


def wrap(line: str) -> str:
    """Wrap a line to the width of the terminal, or to 80 columns."""
    indent = len(line) - len(line.lstrip())
    return textwrap.fill(
        line,
        shutil.get_terminal_size().columns,
        subsequent_indent=" " * max(indent, 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
