"""A document as one HTML file or as Markdown, made by the templates in this folder."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.analysis.blocks import Block, Drawing, ReportDocument, walk
from v6t.analysis.sheet import Table

if TYPE_CHECKING:
    from jinja2 import Environment

MAX_WORD_CELL = 24  # shorter texts of cells are not broken into lines
MAX_CARD_ROWS = 100  # tables with more rows than this stay tables in every window
MIN_WINDOW, MARGIN = 24, 3  # smallest width of a window, and margin next to a table [rem]
COMPACT_WIDTH = 60  # wider tables are printed in a smaller font [rem]
# width of a letter and padding of a cell, in tables of normal (False) and compact (True) font [rem]
_LETTER_WIDTH, _CELL_PADDING = {False: 0.56, True: 0.5}, {False: 1.2, True: 0.7}
_MARKUP = re.compile(r"([\\`*_{}\[\]>|])")  # characters that a backslash escapes in Markdown
_ENTITIES = {ord(c): f"&#{ord(c)};" for c in "<~$&"}  # replaced by entities in Markdown


def to_html(document: ReportDocument) -> str:
    """Return a document as one HTML file without scripts and external resources; escape its text."""
    blocks = walk(block for section in document.sections for block in section.blocks)
    tables = [_lay_out_table(block) for block in blocks if isinstance(block, Table)]
    widths = sorted({table["width"] for table in tables if table["rows_apart"]})
    return _load_environment().get_template("page.html").render(document=document, widths=widths)


def to_markdown(document: ReportDocument, place: Callable[[Drawing], str] = lambda _: "") -> str:
    """Return a document as Markdown; ``place`` returns the path of a figure's file, empty for none."""
    template = _load_environment().get_template("page.md")
    return template.render(document=document, place=place).rstrip() + "\n"


def render_setup(boxes: Sequence[tuple[str, str]], links: Sequence[str]) -> str:
    """Draw boxes of two lines side by side as an ``<svg>`` element, with a label on each link."""
    return _load_environment().get_template("setup.svg").render(boxes=boxes, links=links).rstrip()


def replace_controls(text: str) -> str:
    """Replace control characters, which HTML and XML forbid even if escaped."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


@cache
def _load_environment() -> Environment:
    """Load the templates with their filters and functions."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=select_autoescape(["html", "svg"]),
        finalize=lambda v: v if hasattr(v, "__html__") else replace_controls(str(v)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["md"] = _escape_markdown
    functions: dict[str, Any] = environment.globals
    functions.update(measured=_lay_out_table, side_by_side=_group_drawings, fence_of=_make_fence)
    return environment


def make_environment(**filters: Callable[[str], str]) -> Environment:
    """Return the template environment with additional filters."""
    environment = _load_environment().overlay()
    environment.filters = {**environment.filters, **filters}
    return environment


def _make_fence(text: str) -> str:
    """Return a Markdown fence that is longer than any run of backticks in a text."""
    return "`" * (1 + max(2, *map(len, re.findall("`+", text)), 0))


def _group_drawings(blocks: Sequence[Block]) -> Iterator[tuple[bool, list[Block]]]:
    """Yield successive blocks, and whether they are several drawings, which stand side by side."""
    for is_drawing, members in groupby(blocks, lambda block: isinstance(block, Drawing)):
        group = list(members)
        yield is_drawing and len(group) > 1, group


def _lay_out_table(sheet: Table) -> dict[str, Any]:
    """Return the cells and CSS classes of a table, and whether rows become lists in narrow windows."""
    compact = _compute_width(sheet) > COMPACT_WIDTH
    width = _compute_width(sheet, compact=compact)
    # long tables scroll instead
    rows_apart = width > MIN_WINDOW and len(sheet.rows) <= MAX_CARD_ROWS
    kinds = ["text" if column.text else "" for column in sheet.columns]
    names = [column.name.replace("\n", " ") for column in sheet.columns]
    rows = [
        [
            (name, " ".join(filter(None, (kind, "long" * (len(cell) >= MAX_WORD_CELL)))), cell)
            for name, kind, cell in zip(names, kinds, row, strict=True)
        ]
        for row in sheet.rows
    ]
    return {
        "width": width,
        "rows_apart": rows_apart,
        "classes": " ".join(filter(None, (f"within{width}" * rows_apart, "compact" * compact))),
        "heads": list(zip(names, kinds, strict=True)),
        "rows": rows,
    }


def _compute_width(sheet: Table, *, compact: bool = False) -> int:
    """Return the width of the narrowest window that a table fits [rem]."""
    columns = (
        max(
            *(len(word) for word in column.name.split() or [""]),
            *(min(len(row[place]), MAX_WORD_CELL) for row in sheet.rows),
            0,
        )
        for place, column in enumerate(sheet.columns)
    )
    width = sum(_LETTER_WIDTH[compact] * n + _CELL_PADDING[compact] for n in columns)
    return math.ceil(width + MARGIN)


def _escape_markdown(text: str) -> str:
    return _MARKUP.sub(r"\\\1", " ".join(text.split())).translate(_ENTITIES)
