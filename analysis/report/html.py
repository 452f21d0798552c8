"""A document as one HTML file: no script, nothing fetched, what users wrote is only ever text."""

from __future__ import annotations

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
        f"<title>{title}</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
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
    found = []
    for drawn, some in groupby(blocks, lambda block: isinstance(block, Drawing)):
        made = list(map(_block, some))
        text = "".join(made)
        found.append(f'<div class="figures">{text}</div>\n' if drawn and len(made) > 1 else text)
    return "".join(found)


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
        return f"<details{brief}><summary>{summary}</summary>\n{inner}</details>\n"
    return _table(block)


def _facts(facts: Facts) -> str:
    rows = "".join(
        f'<tr><th scope="row">{_plain(k)}</th><td>{_plain(v)}</td></tr>' for k, v in facts.rows
    )
    return f'<div class="scroll"><table class="facts">{rows}</table></div>\n'


def _table(sheet: Sheet) -> str:
    kinds = ["number" if c.number else "text" for c in sheet.columns]
    head = "".join(
        f'<th scope="col" class="{kind}">{_plain(c.name.replace(chr(10), " ")) or "&nbsp;"}</th>'
        for c, kind in zip(sheet.columns, kinds, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td class="{kind}{" short" * (len(cell) < SHORT)}">{_plain(cell)}</td>'
            for kind, cell in zip(kinds, row, strict=True)
        )
        + "</tr>\n"
        for row in sheet.rows
    )
    return (
        f'<div class="scroll"><table><caption>{_plain(sheet.title)}</caption>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>\n"
        + "".join(f"<p>{_plain(note)}</p>\n" for note in sheet.notes)
    )


def _plain(text: str) -> str:
    """Text that is nothing but text, in an element as in an attribute."""
    shown = "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    return escape(shown, quote=True)
