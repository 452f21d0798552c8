"""Sentences of the pages that people write are short."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .pages import CHECKOUT, DOCS

if not DOCS.exists():
    pytest.skip("the documentation is not installed", allow_module_level=True)

MAX_WORDS = 25
EXCEPTIONS: dict[str, str] = {}
"""Reasons for long sentences, by the page and the first words of the sentence."""
_NOT_TEXT = re.compile(r"(?ms)^( *)```.*?^\1```$|<!--.*?-->|\n\n(?: {4}[^\n]*\n+)+")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s+|\s*>\s?|: +")
_BREAK = re.compile(r"\s*(?:$|\||#|!!!|===|> Built by)")
_CODE = re.compile(r"`+[^`]+`+")
_LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
_END = re.compile(r"(?<=[.!?])[)\"*_]*\s+(?=[\"(*_\[]*(?:[A-Z0-9`]|(?:v6t|siitperf|scrapli)\b))")
_WORD = re.compile(r"\S*\w\S*")


def list_pages() -> Iterator[Path]:
    """Yield the pages, without those of recorded results."""
    yield from (CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))
    yield from (page for page in sorted(DOCS.rglob("*.md")) if DOCS / "results" not in page.parents)


def split_paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs, list items and cells of tables, each as one line."""
    lines: list[str] = []
    for line in [*_NOT_TEXT.sub("\n\n", text).splitlines(), ""]:
        item, is_break = _ITEM.match(line), _BREAK.match(line)
        if item or is_break:
            yield " ".join(lines)
            lines = []
        if line.lstrip().startswith("|"):
            yield from line.split("|")
        elif not is_break:
            lines.append(line[item.end() if item else 0 :].strip())


def split_sentences(text: str) -> Iterator[str]:
    """Yield sentences; a piece of code counts as one word, a link as its text."""
    for paragraph in split_paragraphs(text):
        yield from _END.split(_CODE.sub("`code`", _LINK.sub(r"\1", paragraph)))


def test_manual_sentences_are_short() -> None:
    matches = [
        f"{page.relative_to(CHECKOUT)}: {sentence}"
        for page in list_pages()
        for sentence in split_sentences(page.read_text())
        if len(_WORD.findall(sentence)) > MAX_WORDS
    ]
    assert [text for text in matches if not text.startswith(tuple(EXCEPTIONS))] == []
