"""A document as Markdown, for a paper's appendix; figures stay in the HTML file, or in files beside it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

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
    Text,
)
from v6t.analysis.sheet import Sheet

_MARKUP = re.compile(r"([\\`*_{}\[\]>|])")
_ENTITIES = {ord(c): f"&#{ord(c)};" for c in "<~$&"}
"""What some readers of Markdown take for markup and others cannot have escaped by a backslash."""


Placed = Callable[[Drawing], str]


def _nowhere(drawing: Drawing) -> str:
    del drawing
    return ""


def to_markdown(document: Document, placed: Placed = _nowhere) -> str:
    """The whole file.

    Args:
        document: what to write.
        placed: gives the name of a figure's file beside it; empty: there is none.
    """
    lines = [f"# {_plain(document.title)}", "", _plain(document.subtitle), ""]
    for section in document.sections:
        lines += [f"## {_plain(section.title)}", ""]
        for block in section.blocks:
            lines += _block(block, placed)
    return "\n".join(lines).rstrip() + "\n"


def _block(block: Block, placed: Placed) -> list[str]:
    if isinstance(block, Text):
        mark = "" if block.tone == "plain" else "> "
        return [mark + _plain(block.text), ""]
    if isinstance(block, Items):
        return [*(f"* {_plain(item)}" for item in block.items), ""]
    if isinstance(block, Facts):
        return [*(f"* **{_plain(k)}**: {_plain(v)}" for k, v in block.rows), ""]
    if isinstance(block, Cards):
        return [*(f"* **{_plain(n)}** {_plain(u)}: {_plain(w)}" for n, u, w in block.cards), ""]
    if isinstance(block, Columns):
        head = {title: [f"### {_plain(title)}", ""] if title else [] for title, _ in block.columns}
        return [x for t, f in block.columns for x in (*head[t], *_block(f, placed))]
    if isinstance(block, Drawing):
        target = placed(block)
        if target:
            return [
                f"![{_plain(block.description)}]({target})",
                "",
                f"*{_plain(block.caption)}*",
                "",
            ]
        return [f"*Figure in the HTML report: {_plain(block.caption)}*", ""]
    if isinstance(block, Listing):
        longest = max(map(len, re.findall("`+", block.text)), default=0)
        fence = "`" * max(3, longest + 1)
        return [fence, block.text.rstrip("\n"), fence, ""]
    if isinstance(block, Link):
        return [f"[{_plain(block.text)}]({block.target})", ""]
    if isinstance(block, Links):
        return [*(f"* [{_plain(link.text)}]({link.target})" for link in block.links), ""]
    if isinstance(block, Collapsible):
        return [
            f"**{_plain(block.summary)}**",
            "",
            *(x for b in block.blocks for x in _block(b, placed)),
        ]
    return list(_table(block))


def _table(sheet: Sheet) -> Iterator[str]:
    yield f"**{_plain(sheet.title)}**"
    yield ""
    yield "| " + " | ".join(_plain(c.name) for c in sheet.columns) + " |"
    yield "|" + "|".join("---:" if c.number else "---" for c in sheet.columns) + "|"
    for row in sheet.rows:
        yield "| " + " | ".join(map(_plain, row)) + " |"
    yield ""
    for note in sheet.notes:
        yield _plain(note)
        yield ""


def _plain(text: str) -> str:
    """Text in which nothing is markup and nothing starts a line."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split())).translate(_ENTITIES)
