"""A document as one HTML file: no script, nothing fetched, what users wrote is only ever text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape
from itertools import groupby

from v6t.analysis.blocks import (
    Block,
    Cards,
    Collapsible,
    Columns,
    Document,
    Drawing,
    Facts,
    Items,
    Link,
    Links,
    Listing,
    Section,
    Text,
)
from v6t.analysis.report.css import CSS
from v6t.analysis.sheet import Sheet

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The browser is told that nothing may be fetched and nothing may run."""


SHORT = 24
"""Cells below this length are kept in one line."""
MOST_CARDS = 100
"""Tables with more rows than this stay tables in every window."""
SMALLEST, MARGIN = 24, 3
"""A window that every table is let into, and what is beside a table in it [rem]."""
COMPACT = 60
"""Tables that need a wider window are set smaller [rem]."""
_LETTER, _CELL = {False: 0.56, True: 0.5}, {False: 1.2, True: 0.7}
"""Room of a letter and around a cell, in tables as they are and in those set smaller [rem]."""
_WITHIN = re.compile(r'class="within(\d+)[" ]')


def _narrow(body: str) -> str:
    """Rows as lists in windows that are too narrow for a table, for each width that is needed."""
    rules = {
        "thead": "display: none;",
        "tbody, X tr, X td": "display: block;",
        "tr": "margin-bottom: .8rem; border-bottom: 2px solid var(--line);",
        "td": "border: 0; text-align: left; white-space: normal; padding-left: 14rem;",
        "td::before": "content: attr(data-name); float: left; width: 13rem; "
        "margin-left: -13.4rem; color: #444;",
    }
    return "".join(
        f"@media screen and (max-width: {width - 0.01:g}rem) {{ "
        + " ".join(
            f".within{width} {selector.replace('X', f'.within{width}')} {{ {style} }}"
            for selector, style in rules.items()
        )
        + " }\n"
        for width in sorted(set(map(int, _WITHIN.findall(body))))
    )


def to_html(document: Document) -> str:
    """The whole file."""
    title = _plain(document.title)
    contents = "".join(
        f'<li><a href="#{s.anchor}">{_plain(s.title)}</a></li>' for s in document.sections
    )
    body = "".join(map(_section, document.sections))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{CSS}{_narrow(body)}</style>\n</head>\n<body>\n"
        f"<header><h1>{title}</h1><p>{_plain(document.subtitle)}</p></header>\n"
        f'<nav aria-label="Contents"><ol>{contents}</ol></nav>\n<main>\n{body}</main>\n'
        "</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    return (
        f'<section id="{section.anchor}"><h2>{_plain(section.title)}</h2>\n'
        f"{_blocks(section.blocks)}</section>\n"
    )


def _blocks(blocks: Sequence[Block]) -> str:
    """Blocks one below the other; figures that follow one another stand side by side."""
    parts = []
    for drawn, some in groupby(blocks, lambda block: isinstance(block, Drawing)):
        texts = list(map(_block, some))
        text = "".join(texts)
        parts.append(f'<div class="figures">{text}</div>\n' if drawn and len(texts) > 1 else text)
    return "".join(parts)


def _block(block: Block) -> str:
    if isinstance(block, Text):
        return f'<p class="{block.tone}">{_plain(block.text)}</p>\n'
    if isinstance(block, Items):
        items = "".join(f"<li>{_plain(i)}</li>" for i in block.items)
        return f'<ul class="{block.tone}">{items}</ul>\n'
    if isinstance(block, Facts):
        return _facts(block)
    if isinstance(block, Cards):
        cards = "".join(
            f"<li><strong>{_plain(number)}</strong> <span>{_plain(unit)}</span> "
            f"<small>{_plain(what)}</small></li>"
            for number, unit, what in block.cards
        )
        return f'<ul class="cards">{cards}</ul>\n'
    if isinstance(block, Columns):
        columns = "".join(
            "<div>" + (f"<h3>{_plain(title)}</h3>" if title else "") + f"{_facts(facts)}</div>"
            for title, facts in block.columns
        )
        return f'<div class="columns">{columns}</div>\n'
    if isinstance(block, Drawing):
        return (
            f'<figure role="img" aria-label="{_plain(block.description)}">{block.svg}'
            f"<figcaption>{_plain(block.caption)}</figcaption></figure>\n"
        )
    if isinstance(block, Listing):
        return f"<pre>{_plain(block.text)}</pre>\n"
    if isinstance(block, Link):
        return f'<p><a href="{_plain(block.target)}">{_plain(block.text)}</a></p>\n'
    if isinstance(block, Links):
        items = "".join(
            f'<li><a href="{_plain(link.target)}">{_plain(link.text)}</a></li>'
            for link in block.links
        )
        return f'<ul class="links">{items}</ul>\n'
    if isinstance(block, Collapsible):
        summary = _plain(block.summary)
        brief = ' class="brief"' * block.brief
        inner = _blocks(block.blocks)
        shown = " open" * block.shown
        return f"<details{brief}{shown}><summary>{summary}</summary>\n{inner}</details>\n"
    return _table(block)


def _facts(facts: Facts) -> str:
    rows = "".join(
        f'<tr><th scope="row">{_plain(k)}</th><td>{_plain(v)}</td></tr>' for k, v in facts.rows
    )
    return f'<div class="scroll"><table class="facts">{rows}</table></div>\n'


def _table(sheet: Sheet) -> str:
    names = [_plain(c.name.replace("\n", " ")) for c in sheet.columns]
    kinds = ["" if c.number else "text" for c in sheet.columns]
    head = "".join(
        f"<th{_class(kind)}>{name or '&nbsp;'}</th>"
        for name, kind in zip(names, kinds, strict=True)
    )
    compact = _width(sheet) > COMPACT
    width = _width(sheet, compact=compact)
    # a window that is too narrow gets each row as a list; long tables scroll instead
    rows_apart = width > SMALLEST and len(sheet.rows) <= MOST_CARDS
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{_class(kind, 'long' * (len(cell) >= SHORT))}"
            + (f' data-name="{name}"' if rows_apart else "")
            + f">{_plain(cell)}</td>"
            for name, kind, cell in zip(names, kinds, row, strict=True)
        )
        + "</tr>\n"
        for row in sheet.rows
    )
    narrow = _class(f"within{width}" * rows_apart, "compact" * compact)
    return (
        f'<div class="scroll"><table{narrow}><caption>{_plain(sheet.title)}</caption>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>\n"
        + "".join(f"<p>{_plain(note)}</p>\n" for note in sheet.notes)
    )


def _class(*names: str) -> str:
    classes = " ".join(name for name in names if name)
    return f' class="{classes}"' if classes else ""


def _width(sheet: Sheet, *, compact: bool = False) -> int:
    """The narrowest window a table surely fits [rem]."""
    columns = (
        max(
            *(len(word) for word in column.name.split() or [""]),
            *(min(len(row[place]), SHORT) for row in sheet.rows),
            0,
        )
        for place, column in enumerate(sheet.columns)
    )
    return math.ceil(sum(_LETTER[compact] * n + _CELL[compact] for n in columns) + MARGIN)


def _plain(text: str) -> str:
    """Text that is nothing but text, in an element as in an attribute."""
    shown = "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    return escape(shown, quote=True)
